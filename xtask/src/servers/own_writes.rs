//! Clients that keep a ledger each write a line and read it back at once, while servers fail, fall behind, keep apart,
//! are set back, cut off, made `read_only`, drained and replaced, and while another Flifo takes over. Each read that is
//! answered must find the line, from whatever server it comes; behind each fault, each line that was acknowledged is
//! there, once.
//!
//! Where a fault takes lines away, Flifo must have named that before an operator let it go on; then those lines, and no
//! others, are forgiven (`faults/taken.rs`).

mod ledgers;
mod table;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench::interrupt::Interrupt;
use bench::private_server::PrivateServer;
use bench::progress::Progress;
use testkit::client::{Client, Problem};
use testkit::cluster::Cluster;
use testkit::flifo::Flifo;
use testkit::lan::{self, Lan};

pub(super) use self::ledgers::Ledgers;
use self::ledgers::{Line, Lines, Outcome};
use self::table::{Row, Rows};
use super::faults::{CHECKER, Chance, Console, Fault, Scene, Successions};
use super::machines::Machines;
use super::{CHECKS, Kind, Over, client};

#[derive(clap::Args)]
pub(crate) struct Extent {
    #[arg(long, value_enum, default_value = "replication")]
    kind: Kind,
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=1000))]
    clients: u32,
    /// How long a client rests behind each line.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=10_000))]
    rest_millis: u64,
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// So many faults, however long they take.
    #[arg(long, conflicts_with = "seconds")]
    faults: Option<u64>,
    /// What befalls servers; by default, all that befalls servers of this kind.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Fault>,
    /// The order of faults, and where they strike, by chance.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Each line is read back on a new connection, and found by `routing.reads_by = "user"`.
    #[arg(long)]
    anew: bool,
    /// In the middle of each so many of the other faults, another Flifo takes over; 0: of none.
    #[arg(long, default_value_t = 10)]
    hand_over_each: usize,
    /// Prints the table as JSON.
    #[arg(long)]
    json: bool,
    /// Flifo's log is kept in this file.
    #[arg(long)]
    log: Option<PathBuf>,
}

/// Servers with Flifo in front of them. Fields are dropped in this order.
struct Field {
    successions: Successions,
    flifo: Flifo,
    machines: Machines,
    folder: tempfile::TempDir,
}

pub(crate) fn run(extent: &Extent, flifo: &Path, interrupt: &Interrupt) -> Result<()> {
    if let Some(status) = lan::enter().context("there is no network of our own")? {
        ensure!(status.success(), "it has failed");
        return Ok(());
    }
    // A thread that starts servers is watched over as that of a test, and ends soon.
    let field = thread::scope(|scope| scope.spawn(|| Field::start(extent, flifo)).join());
    let mut field = field.expect("it does not panic")?;
    let (ledgers, is_over) = (Ledgers::of(extent.clients), AtomicBool::new(false));
    let begun = Instant::now();
    let mut rows = Rows::default();
    let struck = thread::scope(|scope| {
        let (port, ledgers, is_over) = (field.flifo.port(), &ledgers, &is_over);
        for number in 0..extent.clients {
            let pace = (extent.anew, Duration::from_millis(extent.rest_millis));
            scope.spawn(move || Worker::new(number, port, ledgers, is_over).run(pace));
        }
        let _over = Over(is_over);
        strike(extent, &mut field, ledgers, &mut rows, interrupt)
    });
    if let Some(path) = &extent.log {
        std::fs::write(path, field.flifo.log())?;
    }
    rows.print(extent.seed, begun.elapsed(), extent.json)?;
    struck?;
    rows.judge()
}

impl Field {
    fn start(extent: &Extent, flifo: &Path) -> Result<Self> {
        let lan = Some(Lan::of(3).context("machines of a network")?);
        let (user, password) = (PrivateServer::USER, Cluster::password());
        let schema = PrivateServer::DATABASE;
        let kind = extent.kind;
        let machines = match kind {
            Kind::Replication => Machines::MariaDb(Cluster::replicated_on(lan, 2, &[])),
            Kind::Galera => {
                Cluster::clustered_on(lan, 3).map(Machines::MariaDb).context("no Galera")?
            }
            Kind::Group => Machines::of_group(lan)?,
        };
        let rights = match kind {
            Kind::Group => format!("GRANT SELECT ON performance_schema.* TO {CHECKER}@'%'"),
            _ => format!("GRANT USAGE ON *.* TO {CHECKER}@'%'"),
        };
        machines.sql(
            0,
            &format!(
                "CREATE USER {CHECKER}@'%' IDENTIFIED BY '{password}'; {rights}; \
                 CREATE TABLE {schema}.ledger (id BIGINT AUTO_INCREMENT PRIMARY KEY, client INT, \
                 n BIGINT, KEY (client, n))"
            ),
        )?;
        let folder = tempfile::tempdir()?;
        let socket = folder.path().join("console.sock");
        let by = if extent.anew { "user" } else { "connection" };
        let configuration = format!(
            "{CHECKS}user = \"{CHECKER}\"\npassword = \"{password}\"\n\
             [routing]\nmode = \"split\"\nreads_by = \"{by}\"\n\
             [limits]\nconnect = \"10s\"\nwait = \"10s\"\n\
             [console]\nlisten = [{socket:?}]\n[http]\nlisten = []\n{}\
             [[users]]\nname = \"{user}\"\npassword = \"{password}\"\n",
            machines.listed()
        );
        let program = std::fs::canonicalize(flifo)?;
        let successions = Successions::of(program.clone(), socket);
        let flifo = Flifo::start_program(&program, &configuration);
        Ok(Self { successions, flifo, machines, folder })
    }
}

/// Faults, one after the other, until there were enough or the time is over.
fn strike(
    extent: &Extent,
    field: &mut Field,
    ledgers: &Ledgers,
    rows: &mut Rows,
    interrupt: &Interrupt,
) -> Result<()> {
    let all = Fault::all(extent.kind);
    let faults = if extent.only.is_empty() { all.clone() } else { extent.only.clone() };
    ensure!(faults.iter().all(|it| all.contains(it)), "not of this kind: {faults:?}");
    let mut console = Console::at(field.folder.path().join("console.sock"));
    let mut scene = Scene {
        servers: &mut field.machines,
        console: &mut console,
        interrupt,
        kind: extent.kind,
        name: "db",
        more: Some((ledgers, &field.successions)),
    };
    scene.wait_for_all()?;
    ledgers.wait_until_all_work(interrupt, || Ok(()))?;
    drop(ledgers.take());
    let mut chance = Chance::new(extent.seed);
    let mut bag = Vec::new();
    let until = Instant::now() + Duration::from_secs(extent.seconds);
    let steps = extent.faults.unwrap_or(extent.seconds);
    let mut progress = Progress::begin(&format!("faults, seed {}", extent.seed), steps);
    for struck in 0.. {
        let is_enough = match extent.faults {
            Some(faults) => struck >= faults,
            None => Instant::now() >= until,
        };
        if is_enough {
            break;
        }
        if bag.is_empty() {
            bag = faults.clone();
        }
        // Each comes once before one comes again, so that a short time has all of them.
        let fault = bag.swap_remove(chance.below(bag.len()));
        let is_handed_over = extent.hand_over_each > 0
            && fault != Fault::Upgrade
            && chance.below(extent.hand_over_each) == 0;
        let delay = is_handed_over.then(|| Duration::from_millis(chance.below(3000) as u64));
        let befallen = thread::scope(|scope| {
            let successions = &field.successions;
            let next = delay.map(|delay| {
                scope.spawn(move || {
                    thread::sleep(delay);
                    successions.next()
                })
            });
            let befallen = scene.befall(fault, &mut chance);
            let next = next.map(|next| next.join().expect("it does not panic"));
            befallen.and_then(|()| next.transpose().map(drop))
        });
        let name = fault.name();
        let what = || format!("fault {struck}, {name}");
        befallen.with_context(what)?;
        let writer = scene.wait_for_all().with_context(what)?;
        let remedy = || scene.confirm_present(writer);
        ledgers.wait_until_all_work(interrupt, remedy).with_context(what)?;
        let met = ledgers.take();
        let (sure, has) = compare(&mut scene, ledgers).with_context(what)?;
        let judged = ledgers.judge(&met.missed, &has, &sure);
        let row = Row::of(met, &judged, is_handed_over);
        let said = format!("{name}{}: {row}", if is_handed_over { ", handed over" } else { "" });
        rows.add(&name, &row);
        match extent.faults {
            Some(_) => progress.step(&said),
            None => progress.say(&said),
        }
    }
    Ok(())
}

/// What clients were told, and what the writer has. A group may change its mind on which one that is: what is missing is
/// looked for again.
fn compare(scene: &mut Scene<'_>, ledgers: &Ledgers) -> Result<(HashSet<Line>, Lines)> {
    let mut looked = 0;
    loop {
        let writer = scene.wait_for_all()?;
        let sure = ledgers.sure();
        let has = scene.servers.lines(writer)?;
        looked += 1;
        if looked == 5 || ledgers.has_all(&sure, &has) {
            return Ok((sure, has));
        }
        scene.interrupt.sleep(Duration::from_secs(2))?;
    }
}

/// One client.
struct Worker<'a> {
    number: u32,
    port: u16,
    ledgers: &'a Ledgers,
    is_over: &'a AtomicBool,
}

impl<'a> Worker<'a> {
    const fn new(number: u32, port: u16, ledgers: &'a Ledgers, is_over: &'a AtomicBool) -> Self {
        Self { number, port, ledgers, is_over }
    }

    /// Writes lines, and reads them.
    fn run(&self, (anew, rest): (bool, Duration)) {
        let Some(mut client) = self.connect() else { return };
        for n in 1_u64.. {
            if self.is_over.load(Relaxed) {
                break;
            }
            let begun = Instant::now();
            let went_on = self.write(&mut client, n).is_some_and(|()| {
                if anew {
                    match self.connect() {
                        Some(next) => client = next,
                        None => return false,
                    }
                }
                self.read(&mut client, n)
            });
            if went_on {
                self.ledgers.works(self.number, begun);
                thread::sleep(rest);
            } else if client.query("ROLLBACK").is_err() {
                // A refusal (1290, by a writer that is none any more) does not end a transaction. It would go on there, and
                // be written when that server can be written to again, whatever that lacks by then.
                match self.connect() {
                    Some(next) => client = next,
                    None => break,
                }
            } else {
                thread::sleep(Duration::from_millis(5));
            }
            if n % 200 == 0 {
                self.prune(&mut client);
            }
        }
    }

    /// Writes a line; some of them in a transaction.
    fn write(&self, client: &mut Client, n: u64) -> Option<()> {
        let insert = format!("INSERT INTO ledger (client, n) VALUES ({}, {n})", self.number);
        let statements: &[&str] = match n % 5 {
            0 => &["BEGIN", &insert, "COMMIT"],
            _ => &[&insert],
        };
        let outcome = match statements.iter().try_for_each(|text| client.query(text).map(drop)) {
            Ok(()) => Outcome::Done,
            Err(problem) => {
                self.ledgers.count(code(&problem));
                match problem {
                    // An error at the commit itself: a node that cannot hear the others does not know.
                    Problem::Refused { code: 1180, .. } => Outcome::Unknown,
                    Problem::Refused { message, .. } if !message.contains("may have been") => {
                        Outcome::Refused
                    }
                    _ => Outcome::Unknown,
                }
            }
        };
        self.ledgers.note(self.number, n, outcome);
        (outcome == Outcome::Done).then_some(())
    }

    fn read(&self, client: &mut Client, n: u64) -> bool {
        let number = self.number;
        let text = format!("SELECT COUNT(*) FROM ledger WHERE client = {number} AND n = {n}");
        match client.query(&text) {
            Ok(rows) => {
                let is_there = rows.first().and_then(|row| row.first()).is_some_and(|it| it != "0");
                if !is_there {
                    self.ledgers.miss(number, n);
                }
                true
            }
            Err(problem) => {
                self.ledgers.count(code(&problem));
                false
            }
        }
    }

    /// Lines that were looked for are not needed any more.
    fn prune(&self, client: &mut Client) {
        let (number, below) = (self.number, self.ledgers.forget(self.number));
        // What cannot be deleted now is deleted later.
        let _ =
            client.query(&format!("DELETE FROM ledger WHERE client = {number} AND n < {below}"));
    }

    /// Connects, again and again if need be. `None`: all is over.
    fn connect(&self) -> Option<Client> {
        let mut is_first = true;
        while !self.is_over.load(Relaxed) {
            match client(self.port) {
                Ok(client) => return Some(client),
                Err(problem) => {
                    if std::mem::take(&mut is_first) {
                        let code = problem.downcast_ref().map_or_else(|| "lost".to_owned(), code);
                        self.ledgers.count(format!("login {code}"));
                    }
                    thread::sleep(Duration::from_millis(20));
                }
            }
        }
        None
    }
}

/// What is counted of an error: its number, or that the connection was lost.
fn code(problem: &Problem) -> String {
    match problem {
        Problem::Refused { code, .. } => code.to_string(),
        other => {
            eprintln!("  a connection is lost: {other}");
            "lost".to_owned()
        }
    }
}

/// Errors, each with how often.
type Errors = BTreeMap<String, u64>;
