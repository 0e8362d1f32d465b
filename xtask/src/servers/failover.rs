//! The writer dies by SIGKILL, or freezes, under sysbench and under clients that keep a ledger; a reader is promoted,
//! or the cluster goes on by itself. What was acknowledged must be there, and nothing twice, and a client with nothing
//! in flight must not notice.
//!
//! A client of the ledger adds one to a number of its own, again and again, and notes what it was told: done, or
//! perhaps done. The number at the end must lie between both. sysbench runs transactions; it goes on after the errors
//! that a transaction in flight may get, and would end at any other, or reconnect.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bench::interrupt::Interrupt;
use bench::private_server::PrivateServer;
use clap::ValueEnum;
use rustix::process::Signal;
use testkit::client::{Client, Problem};
use testkit::cluster::Cluster;

use super::machines::Machines;
use super::sysbench::{self, Errors, Load};
use super::{CHECKS, FOUND_MAX, Findings, Kind, Over, Site, client, seconds, seen, wait};

#[derive(clap::Args)]
pub(crate) struct Extent {
    #[arg(long, value_enum, default_value = "replication")]
    kind: Kind,
    /// What befalls the writer.
    #[arg(long, value_enum, default_value = "kill")]
    by: Fate,
    /// Clients of sysbench.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1000))]
    clients: u32,
    /// How long sysbench works; the writer fails after a third of it.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(9..=600))]
    seconds: u64,
    /// Clients of the ledger.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=200))]
    writers: u32,
    /// Flifo's log is kept in this file.
    #[arg(long)]
    log: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Fate {
    /// SIGKILL.
    Kill,
    /// SIGSTOP: nothing is refused, and nothing answered.
    Freeze,
}

/// What a client of the ledger has noted.
#[derive(Default)]
struct Ledger {
    sure: u64,
    unsure: u64,
    /// What it was told of, other than that something may have been executed.
    refused: u64,
    /// From the death of the writer to the first write acknowledged after it.
    pause: Option<Duration>,
}

/// What the threads share.
struct Clock {
    begun: Instant,
    is_over: AtomicBool,
    /// When the writer failed, in microseconds since the beginning; zero: it lives.
    killed: AtomicU64,
}

pub(crate) fn run(extent: &Extent, flifo: &Path, interrupt: &Interrupt) -> Result<()> {
    let servers = match extent.kind {
        Kind::Replication => Machines::MariaDb(replicated()?),
        Kind::Galera => Machines::MariaDb(extent.kind.of_mariadb()?),
        Kind::Group => Machines::of_group(None)?,
    };
    let listed = servers.listed();
    let mut site = Site::before(servers, &listed, flifo, CHECKS)?;
    sysbench::prepare(site.flifo.port(), interrupt)?;
    let mut setup = site.client()?;
    setup.query("CREATE TABLE ledger (client INT PRIMARY KEY, n BIGINT)")?;
    setup.query("CREATE TABLE probe (id INT PRIMARY KEY, n BIGINT)")?;
    setup.query("INSERT INTO probe VALUES (1, 0)")?;
    for number in 0..extent.writers {
        setup.query(&format!("INSERT INTO ledger VALUES ({number}, 0)"))?;
    }
    if extent.kind == Kind::Replication {
        let cluster = site.cluster.cluster()?;
        cluster.wait_for(1, 0);
        cluster.wait_for(2, 0);
    }
    let clock =
        Clock { begun: Instant::now(), is_over: AtomicBool::new(false), killed: AtomicU64::new(0) };
    // The connections that waited for Flifo to listen have not logged in.
    let before = errors(&site)?;
    let load = (extent.clients, extent.seconds);
    let load = Load::start("oltp_read_write", site.flifo.port(), load, Errors::GoOn)?;
    let worked = thread::scope(|scope| {
        let port = site.flifo.port();
        let clock = &clock;
        let threads: Vec<_> =
            (0..extent.writers).map(|it| scope.spawn(move || keep(it, port, clock))).collect();
        let over = Over(&clock.is_over);
        let times = kill(extent, &mut site, clock, interrupt);
        let counted = load.end(interrupt);
        drop(over);
        let ledgers = threads.into_iter().map(|it| it.join().expect("it does not panic"));
        let ledgers = ledgers.collect::<Result<Vec<_>>>()?;
        anyhow::Ok((times?, counted?, ledgers))
    });
    if let Some(path) = &extent.log {
        std::fs::write(path, site.flifo.log())?;
    }
    let ((detection, promotion), counted, ledgers) = worked?;
    let mut found = Findings::default();
    found.note("sysbench: statements", &counted.queries);
    found.note("sysbench: errors it went on after, deadlocks included", &counted.errors);
    let reconnects = counted.reconnects;
    found.bound("sysbench: reconnects", &reconnects, "0", reconnects == 0);
    judge_errors(&mut found, &site, &before, extent.clients + extent.writers)?;
    if extent.by == Fate::Freeze {
        thaw(&mut found, &site, interrupt)?;
    }
    judge(&mut found, &mut setup, &ledgers)?;
    let text = format!("at most {}", seconds(FOUND_MAX));
    let what = "the writer is down, by its checks, after";
    found.bound(what, &seconds(detection), &text, detection <= FOUND_MAX);
    found.note("another server can be written to after", &seconds(promotion));
    let pause = ledgers.iter().filter_map(|ledger| ledger.pause).max().context("no write")?;
    let bound = detection + promotion + Duration::from_secs(1);
    let text = format!("at most {}", seconds(bound));
    found.bound("longest pause of a client that writes", &seconds(pause), &text, pause <= bound);
    found.print()
}

/// Errors that clients were told so far, by whose they are and their name or number.
fn errors(site: &Site<Machines>) -> Result<BTreeMap<(String, String), u64>> {
    let rows = site.console()?.query("SHOW ERRORS")?;
    let read = |row: Vec<String>| {
        let [source, name, code, _, count, ..] = &row[..] else { bail!("SHOW ERRORS: {row:?}") };
        let name = if source == "flifo" { name } else { code };
        Ok(((source.clone(), name.clone()), count.parse()?))
    };
    rows.into_iter().map(read).collect()
}

/// Clients hear of a server's death only if they had something in flight, and once.
fn judge_errors(
    found: &mut Findings,
    site: &Site<Machines>,
    before: &BTreeMap<(String, String), u64>,
    clients: u32,
) -> Result<()> {
    let (mut in_flight, mut others) = (0, Vec::new());
    for (key, count) in errors(site)? {
        let count = count - before.get(&key).unwrap_or(&0);
        match (&key.0[..], &key.1[..]) {
            _ if count == 0 => {}
            ("flifo", "transaction_lost" | "backend_lost") => in_flight += count,
            ("flifo", name) => others.push(format!("{name}: {count}")),
            (_, code) => found.note(&format!("errors of the servers: {code}"), &count),
        }
    }
    let text = format!("at most {clients}, one each");
    let is_once = in_flight <= u64::from(clients);
    let what = "clients that had a statement or transaction in flight";
    found.bound(what, &in_flight, &text, is_once);
    let shown = if others.is_empty() { "0".to_owned() } else { others.join("; ") };
    found.bound("errors of Flifo's for any other reason", &shown, "0", others.is_empty());
    Ok(())
}

/// A writer that comes back still believes that it is one.
fn thaw(found: &mut Findings, site: &Site<Machines>, interrupt: &Interrupt) -> Result<()> {
    site.cluster.signal(0, Signal::CONT)?;
    let mut console = site.console()?;
    wait("the old writer to answer", interrupt, || Ok(seen(&mut console, "db1")?.0 != "down"))?;
    // Long enough for a client that would write to it.
    interrupt.sleep(Duration::from_secs(1))?;
    let role = seen(&mut console, "db1")?.2;
    found.bound("the old writer, when it has thawed", &role, "not the writer", role != "writer");
    Ok(())
}

/// One writer and two readers; the writer answers when the first reader has what was written: else what dies with it
/// was acknowledged.
fn replicated() -> Result<Cluster> {
    let cluster = Cluster::replicated(2);
    let answer = "SET GLOBAL rpl_semi_sync_slave_enabled = 1; STOP SLAVE; START SLAVE";
    cluster.servers[1].sql(answer)?;
    cluster.servers[0].sql(
        "SET GLOBAL rpl_semi_sync_master_enabled = 1, rpl_semi_sync_master_timeout = 60000, \
         rpl_semi_sync_master_wait_point = AFTER_SYNC",
    )?;
    Ok(cluster)
}

/// Adds one, again and again.
fn keep(number: u32, port: u16, clock: &Clock) -> Result<Ledger> {
    let mut client = client(port)?;
    let mut ledger = Ledger::default();
    let text = format!("UPDATE ledger SET n = n + 1 WHERE client = {number}");
    while !clock.is_over.load(Relaxed) {
        let asked = clock.begun.elapsed();
        match client.query(&text) {
            Ok(_) => ledger.sure += 1,
            // Three ways in which servers say that they have undone it.
            Err(Problem::Refused { code: 1213 | 1205 | 3101, .. }) => ledger.refused += 1,
            Err(problem) if problem.to_string().contains("may have been executed") => {
                ledger.unsure += 1;
                continue;
            }
            Err(problem) => bail!("a client of the ledger was told: {problem}"),
        }
        let killed = Duration::from_micros(clock.killed.load(Relaxed));
        if !killed.is_zero() && asked > killed && ledger.pause.is_none() {
            ledger.pause = Some(clock.begun.elapsed().saturating_sub(killed));
        }
    }
    Ok(ledger)
}

/// Kills the writer, or freezes it, and promotes a reader as an operator's script would. Answers with how long it took
/// until the checks had found it, and until another server could be written to.
fn kill(
    extent: &Extent,
    site: &mut Site<Machines>,
    clock: &Clock,
    interrupt: &Interrupt,
) -> Result<(Duration, Duration)> {
    let mut console = site.console()?;
    interrupt.sleep(Duration::from_secs(extent.seconds / 3))?;
    match extent.by {
        Fate::Kill => site.cluster.kill(0)?,
        Fate::Freeze => site.cluster.signal(0, Signal::STOP)?,
    }
    let killed = Instant::now();
    let at = clock.begun.elapsed().as_micros();
    clock.killed.store(u64::try_from(at).unwrap_or(u64::MAX), Relaxed);
    wait("the writer to be found dead", interrupt, || Ok(seen(&mut console, "db1")?.0 == "down"))?;
    let detection = killed.elapsed();
    let begun = Instant::now();
    match extent.kind {
        Kind::Replication => site.cluster.cluster()?.promote(1, &[]),
        Kind::Galera | Kind::Group => {
            let schema = PrivateServer::DATABASE;
            let text = format!("UPDATE {schema}.probe SET n = n + 1 WHERE id = 1");
            wait("the cluster to go on", interrupt, || {
                Ok([1, 2].iter().any(|at| site.cluster.sql(*at, &text).is_ok()))
            })?;
        }
    }
    // The other reader may have received what the promoted one has not, and no client was told of: it would have to be
    // set up anew, as the old writer.
    Ok((detection, begun.elapsed()))
}

/// Compares the ledgers with the numbers in the table.
fn judge(found: &mut Findings, setup: &mut Client, ledgers: &[Ledger]) -> Result<()> {
    let (mut lost, mut twice, mut sure, mut unsure, mut refused) = (0, 0, 0, 0, 0);
    for (number, ledger) in ledgers.iter().enumerate() {
        let rows = setup.query(&format!("SELECT n FROM ledger WHERE client = {number}"))?;
        let n: u64 = rows.first().and_then(|row| row.first()).context("a number")?.parse()?;
        lost += ledger.sure.saturating_sub(n);
        twice += n.saturating_sub(ledger.sure + ledger.unsure);
        sure += ledger.sure;
        unsure += ledger.unsure;
        refused += ledger.refused;
    }
    ensure!(sure > 0, "nothing was written");
    found.note("ledger: increments acknowledged", &sure);
    found.note("ledger: undone by the server, which said so", &refused);
    let in_flight = ledgers.iter().all(|ledger| ledger.unsure <= 1);
    found.bound("ledger: in flight when the writer died", &unsure, "at most one each", in_flight);
    found.bound("ledger: acknowledged and lost", &lost, "0", lost == 0);
    found.bound("ledger: run twice", &twice, "0", twice == 0);
    Ok(())
}
