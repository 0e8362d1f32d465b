//! Reads under a rule that says `cache`, while what they read is written through Flifo and beside it: whether a reply was
//! older than what is promised.
//!
//! Owns the clients and the judgement. Each write adds one to a register, so a register is at least the number of its
//! writes that were acknowledged: of those through Flifo, before the read began; of those beside it, before the promised
//! bound, or before the reader connected. It is at most the number of writes that had begun.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use backend::Address;
use bench::private_server::PrivateServer;
use bench::workloads::random::Random;

use crate::client::{Client, Problem};
use crate::flifo::Flifo;

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub reads: u64,
    /// It goes on until so many reads got a reply that was kept, and so many writes came through Flifo and as many beside
    /// it, on a busy machine as well.
    pub hits: u64,
    pub writes: u64,
    pub readers: u64,
    /// Through Flifo, and as many beside it.
    pub writers: u64,
    /// How long a writer waits at most between its writes.
    pub pause: Duration,
    /// `cache.binlog_lag_max`.
    pub bound: Duration,
    /// The server is killed, and started again, so often.
    pub kills: u32,
    /// Breaks the rule, to see it found: it goes on until it is.
    pub is_followed: bool,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub reads: u64,
    pub hits: u64,
    /// Why others were not of replies that were kept, and what is known of the binary log.
    pub not: Vec<String>,
    /// Writes that were acknowledged.
    pub through: u64,
    pub beside: u64,
    pub errors: u64,
    /// Reads that break the promise, each as a text.
    pub violations: Vec<String>,
}

const REGISTERS: usize = 3;

const USER: &str = "kept";

/// After the reads, hits and writes are waited for so long.
const REST_WITHIN: Duration = Duration::from_mins(5);

/// More are not listed.
const VIOLATIONS_MAX: usize = 20;

/// What is known of one register.
#[derive(Default)]
struct Register {
    begun: AtomicU64,
    /// Acknowledged, through Flifo.
    through: AtomicU64,
    /// Beside it: how many were acknowledged by when.
    beside: Mutex<Vec<Instant>>,
}

impl Register {
    /// How many writes beside Flifo were acknowledged before this moment.
    fn beside(&self, moment: Instant) -> u64 {
        self.beside.lock().expect("no panic").partition_point(|it| *it < moment) as u64
    }
}

struct Stand {
    registers: [Register; REGISTERS],
    through: Address,
    server: Address,
    bound: Duration,
    pause: Duration,
    reads: AtomicU64,
    errors: AtomicU64,
    is_over: AtomicBool,
    violations: Mutex<Vec<String>>,
}

fn connect(address: &Address) -> Result<Client, Problem> {
    Client::builder(address.clone(), USER, "kept").schema(USER).connect()
}

fn definitions() -> String {
    let mut text = format!(
        "CREATE USER {USER}@'%' IDENTIFIED BY 'kept'; GRANT ALL ON *.* TO {USER}@'%'; CREATE DATABASE {USER}; USE {USER};"
    );
    for at in 0..REGISTERS {
        text += &format!(
            "CREATE TABLE r{at} (id INT PRIMARY KEY, v BIGINT) ENGINE=InnoDB; INSERT INTO r{at} VALUES (1, 0); \
             CREATE TABLE f{at} (a INT) ENGINE=InnoDB; \
             CREATE TRIGGER fires{at} AFTER INSERT ON f{at} FOR EACH ROW UPDATE r{at} SET v = v + 1; \
             CREATE PROCEDURE adds{at}() UPDATE r{at} SET v = v + 1;"
        );
    }
    text
}

/// Does all of it.
///
/// # Panics
/// If a program does not start.
pub fn run(program: &Path, extent: Extent, seed: u64) -> Outcome {
    let arguments =
        ["--log-bin=bin", "--server-id=1", "--binlog-format=ROW", "--innodb-buffer-pool-size=32M"];
    let builder = PrivateServer::builder();
    let builder = arguments.iter().fold(builder, |builder, it| builder.argument(*it));
    let mut server = builder.start().expect("a private server");
    server.sql(&definitions()).expect("tables");
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("console.sock");
    let cache = match extent.is_followed {
        true => {
            format!(
                "[cache]\nbinlog = \"on\"\nbinlog_lag_max = \"{}ms\"\n",
                extent.bound.as_millis()
            )
        }
        false => String::new(),
    };
    let flifo = Flifo::start_program(
        program,
        &format!(
            "workers = 2\n[server]\naddress = {:?}\n[console]\nlisten = [{socket:?}]\n[http]\nlisten = []\n{cache}\
             [[users]]\nname = \"{USER}\"\npassword = \"kept\"\n\
             [[rules]]\nname = \"kept\"\ncache = \"60s\"\nmatch.kind = \"read\"\n",
            server.socket()
        ),
    );
    let stand = Stand {
        registers: Default::default(),
        through: Address::Tcp { host: "127.0.0.1".to_owned(), port: flifo.port() },
        server: Address::Unix(server.socket()),
        bound: extent.bound,
        pause: extent.pause,
        reads: AtomicU64::new(0),
        errors: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
        violations: Mutex::default(),
    };
    thread::scope(|scope| {
        let stand = &stand;
        for number in 0..extent.writers {
            scope.spawn(move || stand.write(true, seed * 1000 + number));
            scope.spawn(move || stand.write(false, seed * 1000 + 100 + number));
        }
        for number in 0..extent.readers {
            scope.spawn(move || stand.read(seed * 1000 + 200 + number));
        }
        // A server that is killed while its definitions are read for the first time is another matter.
        let end = Instant::now() + REST_WITHIN;
        while extent.kills > 0 && hits(&socket) < extent.hits && Instant::now() < end {
            thread::sleep(Duration::from_millis(50));
        }
        for kill in 1..=extent.kills {
            let due = extent.reads * u64::from(kill) / u64::from(extent.kills + 1);
            while stand.reads.load(SeqCst) < due {
                thread::sleep(Duration::from_millis(10));
            }
            server.kill().expect("it is killed");
            thread::sleep(Duration::from_millis(50));
            server.start().expect("it starts again");
        }
        let end = Instant::now() + REST_WITHIN;
        loop {
            let outcome = stand.outcome(&socket);
            let is_enough = outcome.hits >= extent.hits
                && outcome.through >= extent.writes
                && outcome.beside >= extent.writes
                && (extent.is_followed || !outcome.violations.is_empty());
            if outcome.reads >= extent.reads && (is_enough || Instant::now() >= end) {
                break;
            }
            thread::sleep(Duration::from_millis(50));
        }
        stand.is_over.store(true, SeqCst);
    });
    stand.outcome(&socket)
}

/// How many reads got a reply that was kept, as the console says.
fn hits(socket: &Path) -> u64 {
    let console: Address = socket.to_str().expect("a path").parse().expect("an address");
    let mut console = Client::builder(console, "admin", "").connect().expect("a console");
    let rows = console.query("SHOW STATS LIKE 'cache_hits'").expect("counters");
    rows.first().map_or(0, |row| row[1].parse().expect("a number"))
}

/// What the console says, a text for each row.
fn lines(socket: &Path, text: &str) -> Vec<String> {
    let console: Address = socket.to_str().expect("a path").parse().expect("an address");
    let mut console = Client::builder(console, "admin", "").connect().expect("a console");
    let mut lines: Vec<_> = Vec::new();
    for text in [text, "SHOW BINLOGS"] {
        let rows = console.query(text).expect("rows");
        lines.extend(rows.iter().map(|row| row.join(" ")));
    }
    lines
}

impl Stand {
    fn outcome(&self, console: &Path) -> Outcome {
        Outcome {
            reads: self.reads.load(SeqCst),
            hits: hits(console),
            not: lines(console, "SHOW STATS LIKE 'cache_not%'"),
            through: self.registers.iter().map(|it| it.through.load(SeqCst)).sum(),
            beside: self.registers.iter().map(|it| it.beside(Instant::now())).sum(),
            errors: self.errors.load(SeqCst),
            violations: self.violations.lock().expect("no panic").clone(),
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(SeqCst)
    }

    /// Connects, however long the server is away.
    fn reach(&self, address: &Address) -> Option<Client> {
        while !self.is_over() {
            match connect(address) {
                Ok(client) => return Some(client),
                Err(_) => {
                    self.errors.fetch_add(1, SeqCst);
                    thread::sleep(Duration::from_millis(20));
                }
            }
        }
        None
    }

    fn write(&self, is_through: bool, seed: u64) {
        let mut random = Random::new(seed);
        let address = if is_through { &self.through } else { &self.server };
        loop {
            let connected = Instant::now();
            let Some(mut client) = self.reach(address) else { return };
            while !self.is_over() {
                let at = random.between(0, REGISTERS as u64 - 1) as usize;
                let register = &self.registers[at];
                // A procedure that passes Flifo ends all that is kept.
                let text = match random.between(0, 19) {
                    0 => format!("CALL adds{at}()"),
                    1..=5 => format!("INSERT INTO f{at} VALUES (1)"),
                    _ => format!("UPDATE r{at} SET v = v + 1 WHERE id = 1"),
                };
                register.begun.fetch_add(1, SeqCst);
                if client.query(&text).is_err() {
                    self.errors.fetch_add(1, SeqCst);
                    break;
                }
                if is_through {
                    register.through.fetch_add(1, SeqCst);
                    // It reads what it has written.
                    if self.look(&mut client, at, connected).is_err() {
                        break;
                    }
                } else {
                    // In the order of the moments: they are taken under the lock.
                    let mut beside = register.beside.lock().expect("no panic");
                    beside.push(Instant::now());
                }
                let pause = self.pause.as_micros() as u64;
                thread::sleep(Duration::from_micros(random.between(0, pause)));
            }
        }
    }

    fn read(&self, seed: u64) {
        let mut random = Random::new(seed);
        loop {
            let connected = Instant::now();
            let Some(mut client) = self.reach(&self.through) else { return };
            for _ in 0..random.between(1, 400) {
                let at = random.between(0, REGISTERS as u64 - 1) as usize;
                if self.is_over() || self.look(&mut client, at, connected).is_err() {
                    break;
                }
            }
        }
    }

    /// Reads a register, and judges what came.
    fn look(&self, client: &mut Client, at: usize, connected: Instant) -> Result<(), ()> {
        let register = &self.registers[at];
        let through = register.through.load(SeqCst);
        let begun = Instant::now();
        let text = format!("SELECT v FROM r{at} WHERE id = 1");
        let Ok(rows) = client.query(&text) else {
            self.errors.fetch_add(1, SeqCst);
            return Err(());
        };
        let value: u64 = rows[0][0].parse().expect("a number");
        let moment = begun.checked_sub(self.bound).map_or(connected, |it| it.max(connected));
        let (beside, most) = (register.beside(moment), register.begun.load(SeqCst));
        if value < through + beside || value > most {
            let mut violations = self.violations.lock().expect("no panic");
            if violations.len() < VIOLATIONS_MAX {
                violations.push(format!(
                    "register {at} was read as {value}, with {through} writes through Flifo and {beside} beside it, and \
                     {most} begun"
                ));
            }
        }
        self.reads.fetch_add(1, SeqCst);
        Ok(())
    }
}
