//! `cargo xtask servers`: what is promised of several servers, measured with real ones.
//!
//! Owns the command, and what its parts have in common: servers with Flifo in front of them, sysbench beside them, and
//! a table of what was found. A bound that is missed fails the command.

mod clusters;
mod console;
mod failover;
mod faults;
mod machines;
mod outside;
mod own_writes;
mod price;
mod restart;
mod stale;
mod sysbench;

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use bench::interrupt::Interrupt;
use bench::private_server::PrivateServer;
use bench::table::{Colours, Table, TableCell};
use clap::{Subcommand, ValueEnum};
use testkit::client::Client;
use testkit::cluster::Cluster;
use testkit::flifo::Flifo;

#[derive(Subcommand)]
pub(crate) enum Part {
    /// Kills or freezes the writer under load: what was acknowledged must be there, once.
    Failover(failover::Extent),
    /// Restarts all servers, one after the other, under load: no client may notice.
    Restart(restart::Extent),
    /// Writes and reads back while readers lag: nothing stale may be read.
    Stale(stale::Extent),
    /// Writes and reads back while servers fail, fall behind and change: nothing stale, lost or doubled.
    OwnWrites(own_writes::Extent),
    /// Three clusters behind one Flifo: what befalls one leaves the others alone, and nothing goes to a wrong one.
    Clusters(clusters::Extent),
    /// Compares three servers that are checked with one that is not.
    Price(price::Extent),
    /// Reads /metrics and the CSV page under full load.
    Outside(outside::Extent),
    /// Asks the console by clients and drivers.
    Console,
}

/// How servers belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    Replication,
    Galera,
    /// Group Replication of MySQL: for `failover` and `own-writes`.
    Group,
}

impl Kind {
    /// Three servers of MariaDB.
    fn of_mariadb(self) -> Result<Cluster> {
        match self {
            Self::Replication => Ok(Cluster::replicated(2)),
            Self::Galera => Cluster::clustered(3).context("there is no Galera on this machine"),
            Self::Group => Err(anyhow!("this is not done with a group")),
        }
    }
}

pub(crate) fn run(part: &Part, flifo: &Path, interrupt: &Interrupt) -> Result<()> {
    match part {
        Part::Failover(extent) => failover::run(extent, flifo, interrupt),
        Part::Restart(extent) => restart::run(extent, flifo, interrupt),
        Part::Stale(extent) => stale::run(extent, flifo, interrupt),
        Part::OwnWrites(extent) => own_writes::run(extent, flifo, interrupt),
        Part::Clusters(extent) => clusters::run(extent, flifo, interrupt),
        Part::Price(extent) => price::run(extent, flifo, interrupt),
        Part::Outside(extent) => outside::run(extent, flifo, interrupt),
        Part::Console => console::run(flifo, interrupt),
    }
}

/// Servers with Flifo in front of them. Fields are dropped in this order.
struct Site<S = Cluster> {
    flifo: Flifo,
    cluster: S,
    folder: tempfile::TempDir,
}

/// Settings of checks that find failures soon.
const CHECKS: &str = "[checks]\ninter = \"200ms\"\nfastinter = \"100ms\"\ndowninter = \"200ms\"\n\
                      timeout = \"500ms\"\n";

/// Within `fall` × `timeout` of these and one `inter`, a server that is silent is found.
const FOUND_MAX: Duration = Duration::from_millis(3 * 500 + 200);

impl Site {
    fn start(cluster: Cluster, flifo: &Path, more: &str) -> Result<Self> {
        let listed = cluster.listed();
        Self::before(cluster, &listed, flifo, more)
    }
}

impl<S> Site<S> {
    /// Starts Flifo in front of servers that are listed so.
    fn before(cluster: S, listed: &str, flifo: &Path, more: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let socket = folder.path().join("console.sock");
        let (user, password) = (PrivateServer::USER, Cluster::password());
        let rest = format!(
            "{more}\n[console]\nlisten = [{socket:?}]\n[http]\nlisten = []\n{listed}\
             [[users]]\nname = \"{user}\"\npassword = \"{password}\"\n"
        );
        Ok(Self { flifo: Flifo::start_program(flifo, &rest), cluster, folder })
    }

    fn client(&self) -> Result<Client> {
        client(self.flifo.port())
    }

    fn console(&self) -> Result<Client> {
        let socket: PathBuf = self.folder.path().join("console.sock");
        let address = backend::Address::Unix(socket);
        Ok(Client::builder(address, "admin", "").connect()?)
    }
}

/// A client of the servers' user, directly or through Flifo.
fn client(port: u16) -> Result<Client> {
    let address = format!("127.0.0.1:{port}").parse().map_err(|why| anyhow!("{why}"))?;
    let builder = Client::builder(address, PrivateServer::USER, Cluster::password());
    Ok(builder.schema(PrivateServer::DATABASE).connect()?)
}

/// What the console says of a server: its state, its backends, its role.
fn seen(console: &mut Client, name: &str) -> Result<(String, u32, String)> {
    let rows = console.query(&format!("SHOW FULL SERVERS WHERE name = '{name}'"))?;
    let row = rows.first().with_context(|| format!("there is no {name}"))?;
    let (state, backends, role) = (row.get(2), row.get(11), row.get(16));
    let (Some(state), Some(backends), Some(role)) = (state, backends, role) else {
        return Err(anyhow!("SHOW FULL SERVERS has other columns"));
    };
    Ok((state.clone(), backends.parse()?, role.clone()))
}

/// Waits until something is so.
fn wait(
    what: &str,
    interrupt: &Interrupt,
    mut is_so: impl FnMut() -> Result<bool>,
) -> Result<Duration> {
    let begun = Instant::now();
    while !is_so()? {
        ensure!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        interrupt.sleep(Duration::from_millis(10))?;
    }
    Ok(begun.elapsed())
}

const PATIENCE: Duration = Duration::from_secs(60);

/// Says that it is over when it is dropped: should anything panic, threads that work end as well, and do not keep it
/// from being told.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// What was found: each line has a name, what was measured, and the bound that is promised, if any is.
#[derive(Default)]
struct Findings {
    lines: Vec<[String; 3]>,
    missed: Vec<String>,
}

impl Findings {
    fn note(&mut self, what: &str, measured: &dyn Display) {
        self.lines.push([what.to_owned(), measured.to_string(), String::new()]);
    }

    fn bound(&mut self, what: &str, measured: &dyn Display, bound: &str, holds: bool) {
        self.lines.push([what.to_owned(), measured.to_string(), bound.to_owned()]);
        if !holds {
            self.missed.push(what.to_owned());
        }
    }

    fn print(&self) -> Result<()> {
        let mut table = Table::new(&["what", "measured", "bound"]);
        for line in &self.lines {
            table.row(line.iter().map(TableCell::plain).collect());
        }
        print!("{}", table.render(Colours::Off));
        ensure!(self.missed.is_empty(), "missed: {}", self.missed.join("; "));
        Ok(())
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}
