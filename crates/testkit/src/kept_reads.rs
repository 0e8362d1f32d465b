//! Reads under a rule that says `cache`, while what they read is written through Flifo and beside it: whether a reply was
//! older than what is promised.
//!
//! Owns the clients and the judgement; the servers are [`under`]'s. Each write adds one to a register, so a register is at least the number of its
//! writes that were acknowledged: of those through Flifo, before the read began; of those beside it, before the promised
//! bound, or before the reader connected. It is at most the number of writes that had begun. A server that is restored
//! or replaced begins anew: when no statement is under way, what it has then is what registers count from.

mod under;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use backend::Address;
use bench::workloads::random::Random;

use crate::client::{Client, Problem};
use crate::flifo::Flifo;

pub use self::under::Disaster;
use self::under::Under;

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
    /// What befalls the server, in this order.
    pub disasters: &'static [Disaster],
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
    /// What it was when all else that is known of it began.
    base: AtomicU64,
    begun: AtomicU64,
    /// Acknowledged, through Flifo.
    through: AtomicU64,
    /// Beside it: how many were acknowledged by when.
    beside: Mutex<Vec<Instant>>,
}

impl Register {
    /// It is this, and is written by no client at this moment.
    fn begin_anew(&self, value: u64) {
        self.base.store(value, SeqCst);
        self.begun.store(0, SeqCst);
        self.through.store(0, SeqCst);
        self.beside.lock().expect("no panic").clear();
    }

    /// How many writes beside Flifo were acknowledged before this moment.
    fn beside(&self, moment: Instant) -> u64 {
        self.beside.lock().expect("no panic").partition_point(|it| *it < moment) as u64
    }
}

struct Stand {
    registers: [Register; REGISTERS],
    through: Address,
    server: Mutex<Address>,
    /// Clients wait between two statements, and how many do.
    is_held: AtomicBool,
    waiting: AtomicU64,
    /// Writes that were acknowledged before registers began anew.
    before: [AtomicU64; 2],
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
    let mut under = Under::start(extent.disasters, &definitions());
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
            "workers = 2\n{}[console]\nlisten = [{socket:?}]\n[http]\nlisten = []\n{cache}\
             [[users]]\nname = \"{USER}\"\npassword = \"kept\"\n\
             [[rules]]\nname = \"kept\"\ncache = \"60s\"\nmatch.kind = \"read\"\n",
            under.configuration()
        ),
    );
    let stand = Stand {
        registers: Default::default(),
        through: Address::Tcp { host: "127.0.0.1".to_owned(), port: flifo.port() },
        server: Mutex::new(under.address()),
        is_held: AtomicBool::new(false),
        waiting: AtomicU64::new(0),
        before: Default::default(),
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
        let clients = 2 * extent.writers + extent.readers;
        for (at, disaster) in (1..).zip(extent.disasters) {
            let due = extent.reads * at / (extent.disasters.len() as u64 + 1);
            while stand.reads.load(SeqCst) < due {
                thread::sleep(Duration::from_millis(10));
            }
            stand.befall(&mut under, *disaster, clients);
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
            through: self.before[0].load(SeqCst) + self.acknowledged().0,
            beside: self.before[1].load(SeqCst) + self.acknowledged().1,
            errors: self.errors.load(SeqCst),
            violations: self.violations.lock().expect("no panic").clone(),
        }
    }

    /// Writes through Flifo and beside it.
    fn acknowledged(&self) -> (u64, u64) {
        let through = self.registers.iter().map(|it| it.through.load(SeqCst)).sum();
        (through, self.registers.iter().map(|it| it.beside(Instant::now())).sum())
    }

    /// Something befalls the server while statements run. If it loses rows by that, clients go on when all of their
    /// statements have ended, and registers are what they are then.
    fn befall(&self, under: &mut Under, disaster: Disaster, clients: u64) {
        if disaster == Disaster::Kill {
            return under.suffer(disaster);
        }
        self.is_held.store(true, SeqCst);
        under.suffer(disaster);
        *self.server.lock().expect("no panic") = under.address();
        while self.waiting.load(SeqCst) < clients {
            thread::sleep(Duration::from_millis(5));
        }
        let (through, beside) = self.acknowledged();
        self.before[0].fetch_add(through, SeqCst);
        self.before[1].fetch_add(beside, SeqCst);
        for (at, register) in self.registers.iter().enumerate() {
            let value =
                under.writer().sql(&format!("SELECT v FROM {USER}.r{at}")).expect("a value");
            register.begin_anew(value.trim().parse().expect("a number"));
        }
        self.is_held.store(false, SeqCst);
    }

    /// A client is between two statements.
    fn pause(&self) {
        if self.is_held.load(SeqCst) {
            self.waiting.fetch_add(1, SeqCst);
            while self.is_held.load(SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
            self.waiting.fetch_sub(1, SeqCst);
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(SeqCst)
    }

    /// Connects, however long the server is away.
    fn reach(&self, is_through: bool) -> Option<Client> {
        while !self.is_over() {
            self.pause();
            let address = match is_through {
                true => self.through.clone(),
                false => self.server.lock().expect("no panic").clone(),
            };
            match connect(&address) {
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
        loop {
            let connected = Instant::now();
            let Some(mut client) = self.reach(is_through) else { return };
            while !self.is_over() {
                self.pause();
                let at = random.between(0, REGISTERS as u64 - 1) as usize;
                let register = &self.registers[at];
                let text = match random.between(0, 19) {
                    0..=2 => format!("CALL adds{at}()"),
                    3..=7 => format!("INSERT INTO f{at} VALUES (1)"),
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
            let Some(mut client) = self.reach(true) else { return };
            for _ in 0..random.between(1, 400) {
                self.pause();
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
        let (beside, base) = (register.beside(moment), register.base.load(SeqCst));
        let (least, most) = (base + through + beside, base + register.begun.load(SeqCst));
        if value < least || value > most {
            let mut violations = self.violations.lock().expect("no panic");
            if violations.len() < VIOLATIONS_MAX {
                violations.push(format!(
                    "register {at} was read as {value}: it was at least {least} ({through} written through Flifo, {beside} \
                     beside it), and at most {most}"
                ));
            }
        }
        self.reads.fetch_add(1, SeqCst);
        Ok(())
    }
}
