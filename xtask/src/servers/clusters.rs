//! Three clusters, two replications and one of Galera, behind one Flifo. Servers of one after the other fail, fall
//! behind and change, while clients write lines and read them back in all three: clients whose user is at home in one,
//! clients that go from one to the next by `USE`, with what they have prepared in each, and clients that rules lead.
//!
//! All clusters have the same schemas and tables, so that a statement in a wrong cluster would be answered there; a
//! table names the cluster, and each statement reads it. Clients of clusters to which nothing happens must not hear of
//! anything.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use backend::Address;
use bench::interrupt::Interrupt;
use bench::private_server::PrivateServer;
use testkit::client::{Client, Problem};
use testkit::cluster::Cluster;
use testkit::flifo::Flifo;

use super::faults::{Chance, Console, Fault, Scene};
use super::machines::Machines;
use super::{CHECKS, Findings, Kind, Over, seconds, wait};

#[derive(clap::Args)]
pub(crate) struct Extent {
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(9..=1000))]
    clients: u32,
    /// It ends when each fault has struck once in each cluster, and so many statements were answered.
    #[arg(long, default_value_t = 100_000)]
    statements: u64,
    /// Where faults strike, by chance.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

const NAMES: [&str; 3] = ["alpha", "beta", "gamma"];
const KINDS: [Kind; 3] = [Kind::Replication, Kind::Replication, Kind::Galera];

/// No cluster is struck.
const NONE: usize = NAMES.len();

/// What leads a client to clusters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Led {
    /// Its user is at home in this one.
    Home(usize),
    /// Schemas, by `USE`.
    Schemas,
    /// Rules, by a word in the text.
    Rules,
}

impl Led {
    /// The user's name, whose schema is "common" unless schemas lead it.
    fn user(self) -> String {
        match self {
            Self::Home(cluster) => format!("at_{}", NAMES[cluster]),
            Self::Schemas => "walker".to_owned(),
            Self::Rules => "ruled".to_owned(),
        }
    }
}

/// What all clients count.
#[derive(Default)]
struct Counts {
    statements: AtomicU64,
    /// Answered by another cluster than the one that was meant.
    astray: AtomicU64,
    stale: AtomicU64,
    /// Errors by the cluster that was struck.
    refused: AtomicU64,
    /// Errors by a cluster to which nothing happened.
    disturbed: AtomicU64,
    /// The longest statement in a cluster to which nothing happened, in microseconds.
    longest: AtomicU64,
    struck: AtomicUsize,
}

/// A client's lines in each cluster, by what it was told.
#[derive(Default)]
struct Ledger {
    sure: [HashSet<u64>; 3],
    unsure: u64,
}

/// Servers with Flifo in front of them. Fields are dropped in this order.
struct Site {
    flifo: Flifo,
    clusters: [Machines; 3],
    folder: tempfile::TempDir,
}

pub(crate) fn run(extent: &Extent, flifo: &Path, interrupt: &Interrupt) -> Result<()> {
    let mut site = Site::start(flifo, interrupt)?;
    let (counts, is_over) = (Counts::default(), AtomicBool::new(false));
    counts.struck.store(NONE, Relaxed);
    let begun = Instant::now();
    let (struck, ledgers) = thread::scope(|scope| {
        let (port, counts, is_over) = (site.flifo.port(), &counts, &is_over);
        let led = |number: u32| match number % 5 {
            3 => Led::Schemas,
            4 => Led::Rules,
            home => Led::Home(home as usize),
        };
        let work = |number| move || Worker::new(number, led(number), port, counts, is_over).run();
        let threads: Vec<_> = (0..extent.clients).map(|it| scope.spawn(work(it))).collect();
        let over = Over(is_over);
        let struck = strike(extent, &mut site, counts, interrupt);
        drop(over);
        let ledgers = threads.into_iter().map(|it| it.join().expect("it does not panic"));
        let ledgers = ledgers.collect::<Result<Vec<_>>>()?;
        anyhow::Ok((struck?, ledgers))
    })?;
    let of = |count: &AtomicU64| count.load(Relaxed);
    let mut found = Findings::default();
    found.note("time", &seconds(begun.elapsed()));
    found.note("faults", &struck);
    let statements = of(&counts.statements);
    let bound = format!("at least {}", extent.statements);
    found.bound(
        "statements that were answered",
        &statements,
        &bound,
        statements >= extent.statements,
    );
    let astray = of(&counts.astray);
    found.bound("answered by a wrong cluster", &astray, "0", astray == 0);
    let stale = of(&counts.stale);
    found.bound("stale reads", &stale, "0", stale == 0);
    found.note("refused, or perhaps done, where servers failed", &of(&counts.refused));
    let disturbed = of(&counts.disturbed);
    found.bound("refused where nothing happened", &disturbed, "0", disturbed == 0);
    let longest = Duration::from_micros(of(&counts.longest));
    found.note("longest statement where nothing happened", &seconds(longest));
    judge(&mut found, &site, &ledgers, interrupt)?;
    found.print()
}

impl Site {
    fn start(flifo: &Path, interrupt: &Interrupt) -> Result<Self> {
        let of_galera = Cluster::clustered(3).context("there is no Galera on this machine")?;
        let clusters = [Cluster::replicated(2), Cluster::replicated(2), of_galera];
        let leds = [Led::Home(0), Led::Home(1), Led::Home(2), Led::Schemas, Led::Rules];
        let users = leds.map(Led::user);
        let password = Cluster::password();
        for (cluster, name) in clusters.iter().zip(NAMES) {
            // Not with all rights: `read_only` does not hold for those.
            let account = |user: &String| {
                format!(
                    "CREATE USER {user} IDENTIFIED BY '{password}'; GRANT SELECT, INSERT ON *.* TO {user}; "
                )
            };
            let schemas = NAMES.map(|it| format!("{it}_d"));
            let schema = |schema: &str| {
                format!(
                    "CREATE DATABASE {schema}; CREATE TABLE {schema}.here (id INT PRIMARY KEY, name VARCHAR(10)); \
                     INSERT INTO {schema}.here VALUES (1, '{name}'); \
                     CREATE TABLE {schema}.ledger (id BIGINT AUTO_INCREMENT PRIMARY KEY, client INT, n BIGINT, \
                     meant VARCHAR(10), place VARCHAR(10), KEY (client, n)); "
                )
            };
            let tables: String =
                schemas.iter().map(String::as_str).chain(["common"]).map(schema).collect();
            let accounts: String = users.iter().map(account).collect();
            cluster.servers[0].sql(&format!("{accounts}{tables}"))?;
        }
        for cluster in &clusters[..2] {
            cluster.wait_for(1, 0);
            cluster.wait_for(2, 0);
        }
        let folder = tempfile::tempdir()?;
        let socket = folder.path().join("console.sock");
        let mut rest = format!(
            "{CHECKS}[console]\nlisten = [{socket:?}]\n[http]\nlisten = []\n[routing]\nmode = \"split\"\n"
        );
        for (cluster, name) in clusters.iter().zip(NAMES) {
            rest += &format!("[[clusters]]\nname = \"{name}\"\nschemas = [\"{name}_d\"]\n");
            rest += &cluster.listed_as(name, &format!("cluster = \"{name}\"\n"));
            rest += &format!(
                "[[rules]]\nname = \"to {name}\"\nmatch = {{ user = \"ruled\", text_matches = \"to_{name}\" }}\n\
                 route = {{ cluster = \"{name}\" }}\n"
            );
        }
        // The user that checks.
        let checking = PrivateServer::USER;
        for user in std::iter::once(checking).chain(users.iter().map(String::as_str)) {
            rest += &format!("[[users]]\nname = \"{user}\"\npassword = \"{password}\"\n");
            if let Some(home) = user.strip_prefix("at_") {
                rest += &format!("cluster = \"{home}\"\n");
            }
        }
        let clusters = clusters.map(Machines::MariaDb);
        let mut site = Self { flifo: Flifo::start_program(flifo, &rest), clusters, folder };
        let mut console = site.console();
        for at in 0..NAMES.len() {
            site.scene(at, &mut console, interrupt).wait_for_all()?;
        }
        Ok(site)
    }

    fn console(&self) -> Console {
        Console::at(self.folder.path().join("console.sock"))
    }

    fn scene<'a>(
        &'a mut self,
        at: usize,
        console: &'a mut Console,
        interrupt: &'a Interrupt,
    ) -> Scene<'a> {
        let (kind, name) = (KINDS[at], NAMES[at]);
        Scene { servers: &mut self.clusters[at], console, interrupt, kind, name, more: None }
    }
}

/// Each fault in each cluster, and until there were enough statements. Answers with how many.
fn strike(extent: &Extent, site: &mut Site, counts: &Counts, interrupt: &Interrupt) -> Result<u64> {
    let mut console = site.console();
    let (mut chance, mut struck) = (Chance::new(extent.seed), 0);
    let all: Vec<_> = (0..NAMES.len()).map(|at| Fault::plain(KINDS[at])).collect();
    let rounds = all.iter().map(|faults| faults.len()).max().unwrap_or(0);
    interrupt.sleep(Duration::from_secs(1))?;
    for round in 0.. {
        if round >= rounds && counts.statements.load(Relaxed) >= extent.statements {
            break;
        }
        for (at, faults) in all.iter().enumerate() {
            let (fault, name) = (faults[round % faults.len()], NAMES[at]);
            counts.struck.store(at, Relaxed);
            let mut scene = site.scene(at, &mut console, interrupt);
            let befallen = scene.befall(fault, &mut chance);
            befallen.with_context(|| format!("{name}: {fault:?}"))?;
            scene.wait_for_all().with_context(|| format!("{name}, behind {fault:?}"))?;
            // What was held back for it is answered.
            interrupt.sleep(Duration::from_secs(1))?;
            struck += 1;
            eprintln!(
                "{struck} faults, {} statements: {name}, {fault:?}",
                counts.statements.load(Relaxed)
            );
        }
    }
    Ok(struck)
}

/// One client.
struct Worker<'a> {
    number: u32,
    led: Led,
    port: u16,
    counts: &'a Counts,
    is_over: &'a AtomicBool,
    ledger: Ledger,
    /// Number of its lines, over all clusters.
    n: u64,
}

/// What the client says in a cluster, and what it has prepared in each.
struct Session {
    client: Client,
    prepared: [u32; 3],
}

/// The answer to a statement: rows, or nothing where it was refused.
enum Said {
    Rows(Vec<Vec<String>>),
    Refused { perhaps_done: bool },
    Ended,
}

impl<'a> Worker<'a> {
    fn new(number: u32, led: Led, port: u16, counts: &'a Counts, is_over: &'a AtomicBool) -> Self {
        Self { number, led, port, counts, is_over, ledger: Ledger::default(), n: 0 }
    }

    fn run(mut self) -> Result<Ledger> {
        let mut session = None;
        let mut next = self.number as usize;
        while !self.is_over.load(Relaxed) {
            let at = match self.led {
                Led::Home(home) => home,
                Led::Schemas | Led::Rules => {
                    next += 1;
                    next % NAMES.len()
                }
            };
            let mut now = match session.take() {
                Some(session) => session,
                None => match self.begin()? {
                    Some(session) => session,
                    None => break,
                },
            };
            // A connection that has ended is replaced.
            session = self.turn(&mut now, at)?.then_some(now);
        }
        Ok(self.ledger)
    }

    /// Connects, again and again if need be, and prepares one statement in each cluster. `None`: all is over.
    fn begin(&self) -> Result<Option<Session>> {
        let address: Address =
            format!("127.0.0.1:{}", self.port).parse().map_err(|why| anyhow!("{why}"))?;
        let builder = || {
            let (user, password) = (self.led.user(), Cluster::password());
            Client::builder(Address::clone(&address), &user, password).schema("common")
        };
        while !self.is_over.load(Relaxed) {
            let made = builder().connect().and_then(|mut client| {
                let mut prepared = [0; 3];
                for (at, prepared) in prepared.iter_mut().enumerate() {
                    let at = match self.led {
                        Led::Home(home) => home,
                        Led::Schemas | Led::Rules => at,
                    };
                    if self.led == Led::Schemas {
                        client.query(&format!("USE {}_d", NAMES[at]))?;
                    }
                    *prepared = client.prepare(&self.text(at, "SELECT {name} FROM here"))?;
                }
                Ok(Session { client, prepared })
            });
            match made {
                Ok(session) => return Ok(Some(session)),
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        }
        Ok(None)
    }

    /// A text that reads the name of the cluster; rules go by the name that is given to it.
    fn text(&self, at: usize, text: &str) -> String {
        let name = match self.led {
            Led::Rules => format!("here.name AS to_{}", NAMES[at]),
            Led::Home(_) | Led::Schemas => "here.name".to_owned(),
        };
        text.replace("{name}", &name)
    }

    /// A line is written in this cluster, and read; what was prepared in each is executed. False: the connection is gone.
    fn turn(&mut self, session: &mut Session, at: usize) -> Result<bool> {
        if self.led == Led::Schemas {
            match self.ask(at, || session.client.query(&format!("USE {}_d", NAMES[at]))) {
                Said::Rows(_) => {}
                // It stays where it is.
                Said::Refused { .. } => return Ok(true),
                Said::Ended => return Ok(false),
            }
        }
        self.n += 1;
        let (number, n, meant) = (self.number, self.n, NAMES[at]);
        let insert = self.text(
            at,
            &format!(
                "INSERT INTO ledger (client, n, meant, place) \
                 SELECT {number}, {n}, '{meant}', {{name}} FROM here WHERE id = 1"
            ),
        );
        // Rules lead no transaction: it would be bound by its first statement.
        let is_transaction = n % 5 == 0 && self.led != Led::Rules;
        let statements: &[&str] =
            if is_transaction { &["BEGIN", &insert, "COMMIT"] } else { &[&insert] };
        for text in statements {
            match self.ask(at, || session.client.query(text)) {
                Said::Rows(_) => {}
                Said::Refused { perhaps_done } => {
                    self.ledger.unsure += u64::from(perhaps_done);
                    thread::sleep(Duration::from_millis(5));
                    return Ok(session.client.query("ROLLBACK").is_ok());
                }
                Said::Ended => {
                    self.ledger.unsure += 1;
                    return Ok(false);
                }
            }
        }
        self.ledger.sure[at].insert(n);
        let text = self.text(
            at,
            &format!(
                "SELECT {{name}}, (SELECT COUNT(*) FROM ledger WHERE client = {number} AND n = {n}) FROM here"
            ),
        );
        match self.ask(at, || session.client.query(&text)) {
            Said::Rows(rows) => {
                let [row] = &rows[..] else { bail!("{text}: {rows:?}") };
                let [name, count] = &row[..] else { bail!("{text}: {row:?}") };
                self.see_name(at, name);
                self.counts.stale.fetch_add(u64::from(count == "0" && name == meant), Relaxed);
            }
            Said::Refused { .. } => {}
            Said::Ended => return Ok(false),
        }
        // Wherever the client is, what was prepared in a cluster is executed there.
        let other = match self.led {
            Led::Home(_) => at,
            Led::Schemas | Led::Rules => (at + n as usize) % NAMES.len(),
        };
        let id = session.prepared[other];
        match self.ask(other, || session.client.execute(id)) {
            Said::Rows(rows) => {
                let name = rows.first().and_then(|row| row.first()).context("a name")?;
                self.see_name(other, name);
            }
            Said::Refused { .. } => {}
            Said::Ended => return Ok(false),
        }
        Ok(true)
    }

    fn see_name(&self, meant: usize, name: &str) {
        self.counts.astray.fetch_add(u64::from(name != NAMES[meant]), Relaxed);
    }

    /// Asks for something that is one cluster's affair, and counts what comes.
    fn ask(&self, at: usize, ask: impl FnOnce() -> Result<Vec<Vec<String>>, Problem>) -> Said {
        let counts = self.counts;
        let (struck, begun) = (counts.struck.load(Relaxed), Instant::now());
        let said = ask();
        let is_calm = struck != at && counts.struck.load(Relaxed) != at;
        if is_calm {
            let took = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
            counts.longest.fetch_max(took, Relaxed);
        }
        let of_errors = if is_calm { &counts.disturbed } else { &counts.refused };
        match said {
            Ok(rows) => {
                counts.statements.fetch_add(1, Relaxed);
                Said::Rows(rows)
            }
            Err(problem) => {
                // Two transactions that the server lets wait for each other.
                let is_deadlock = matches!(problem, Problem::Refused { code: 1213, .. });
                if !(is_calm && is_deadlock) {
                    of_errors.fetch_add(1, Relaxed);
                }
                if is_calm && !is_deadlock {
                    eprintln!(
                        "where nothing happened ({}, {}): {problem}",
                        NAMES[at],
                        self.led.user()
                    );
                }
                match problem {
                    Problem::Refused { message, .. } => {
                        Said::Refused { perhaps_done: message.contains("may have been executed") }
                    }
                    _ => Said::Ended,
                }
            }
        }
    }
}

/// Compares ledgers with what the writer of each cluster has.
fn judge(
    found: &mut Findings,
    site: &Site,
    ledgers: &[Ledger],
    interrupt: &Interrupt,
) -> Result<()> {
    let mut console = site.console();
    let (mut lost, mut doubled, mut sure, mut wrong) = (0, 0, 0, 0);
    for (at, name) in NAMES.into_iter().enumerate() {
        let mut writer = 0;
        wait("a writer", interrupt, || {
            let text = format!("SHOW FULL SERVERS WHERE role = 'writer' AND name LIKE '{name}%'");
            let rows = console.query(&text)?;
            let number = rows.first().and_then(|row| row.first());
            writer = number.map_or(Ok(0), |it| it.trim_start_matches(name).parse())?;
            Ok(writer > 0)
        })?;
        let mut there = vec![HashSet::new(); ledgers.len()];
        for schema in NAMES.map(|it| format!("{it}_d")).iter().map(String::as_str).chain(["common"])
        {
            let text = format!(
                "SELECT client, n, meant, place, COUNT(*) FROM {schema}.ledger GROUP BY client, n, meant, place"
            );
            let rows = site.clusters[at].sql(writer - 1, &text)?;
            for row in rows.lines() {
                let row: Vec<_> = row.split('\t').collect();
                let [client, n, meant, place, count] = row[..] else { bail!("a row: {row:?}") };
                there[client.parse::<usize>()?].insert(n.parse::<u64>()?);
                wrong += u64::from(meant != name || place != name);
                doubled += u64::from(count != "1");
            }
        }
        for (ledger, there) in ledgers.iter().zip(&there) {
            lost += ledger.sure[at].difference(there).count();
            sure += ledger.sure[at].len();
        }
    }
    ensure!(sure > 0, "nothing was written");
    found.note("lines acknowledged", &sure);
    let unsure: u64 = ledgers.iter().map(|ledger| ledger.unsure).sum();
    found.note("lines that may have been written, as clients were told", &unsure);
    found.bound("lines in a wrong cluster", &wrong, "0", wrong == 0);
    found.bound("lines acknowledged and lost", &lost, "0", lost == 0);
    found.bound("lines that are there twice", &doubled, "0", doubled == 0);
    Ok(())
}
