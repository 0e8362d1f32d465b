//! Clients that read and write registers through Flifo, and beside it, and write down what they saw.
//!
//! Many readers ask for few registers, with one slot or two: most reads wait, and are shared. Some writers go through
//! Flifo and some straight to the server, so that what is read was written anywhere. Some reads take long after they
//! have found their value: a read that is wrongly given an older run's reply shows. Readers use texts and prepared
//! statements, and some clients write what they then read. Clients, their statements and backends are killed meanwhile.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use bench::private_server::PrivateServer;
use bench::workloads::random::Random;

use super::{Act, Operation};
use crate::differ::sharing::counted;
use crate::fake_client::{FakeClient, Refusal};
use crate::flifo::Flifo;

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub operations: u64,
    pub readers: usize,
    /// Through Flifo, and as many beside it.
    pub writers: u64,
    /// Clients that write, and read what they have written.
    pub both: u64,
    pub registers: u32,
    /// How often a client, its statement or a backend is killed, a second.
    pub kills: u64,
}

/// What has come of it.
#[derive(Debug, Default)]
pub struct Outcome {
    pub history: Vec<Operation>,
    /// Statements that were to be answered by another client's run, and those that were.
    pub joined: u64,
    pub spared: u64,
    /// Orders to kill that were taken.
    pub kills: u64,
    /// Clients that left without waiting for their answer.
    pub left: u64,
    /// How often which error was answered; zero: the connection was closed.
    pub failed: BTreeMap<u16, u64>,
}

impl Outcome {
    /// Errors that no kill explains: each kill ends one statement, or one connection.
    pub fn unexplained(&self) -> u64 {
        self.failed.values().sum::<u64>().saturating_sub(self.kills)
    }
}

const USER: &str = PrivateServer::USER;

/// What one client does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Habit {
    Reads,
    ReadsPrepared,
    /// What takes long.
    ReadsLong,
    /// What comes in many pieces.
    ReadsMuch,
    Writes,
    Both,
}

/// Those of readers, in turn.
const READERS: [Habit; 6] = [
    Habit::Reads,
    Habit::ReadsPrepared,
    Habit::ReadsLong,
    Habit::Reads,
    Habit::ReadsLong,
    Habit::ReadsMuch,
];

/// What the clients of a campaign have in common.
struct Common {
    begun: Instant,
    /// Operations that are still to be done.
    left: AtomicU64,
    next_value: AtomicU64,
    is_over: AtomicBool,
    registers: u32,
    /// The numbers of connections to Flifo, by client.
    ids: Vec<AtomicU32>,
    /// There are kills, and clients that leave.
    is_rough: bool,
}

impl Common {
    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn goes_on(&self) -> bool {
        !self.is_over.load(Relaxed)
            && self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}

/// Starts a server and a Flifo that shares reads, and has clients do so much. `program`: a Flifo that was built
/// elsewhere.
///
/// # Panics
/// If a client is not let in, or Flifo does not end well.
pub fn run(program: Option<&Path>, extent: Extent, seed: u64) -> Outcome {
    let (server, flifo) = start(program, extent.registers);
    let (through, beside) = (flifo.port(), server.port());
    let mut clients = Vec::new();
    clients.extend(READERS.iter().cycle().map(|habit| (*habit, through)).take(extent.readers));
    clients.extend(
        (0..extent.writers).flat_map(|_| [(Habit::Writes, through), (Habit::Writes, beside)]),
    );
    clients.extend((0..extent.both).map(|_| (Habit::Both, through)));
    let ids = clients.iter().map(|_| AtomicU32::new(0)).collect();
    let common = Common {
        begun: Instant::now(),
        left: AtomicU64::new(extent.operations),
        next_value: AtomicU64::new(1),
        is_over: AtomicBool::new(false),
        registers: extent.registers,
        ids,
        is_rough: extent.kills > 0,
    };
    let mut outcome = Outcome::default();
    thread::scope(|scope| {
        let over = crate::overdue::Over(&common.is_over);
        let spawn = |(number, (habit, port)): (usize, (Habit, u16))| {
            let mut client = LinearClient {
                common: &common,
                server: &server,
                through,
                port,
                number,
                habit,
                random: Random::split(seed, number as u64),
                seen: Outcome::default(),
            };
            scope.spawn(move || {
                client.run();
                client.seen
            })
        };
        let clients: Vec<_> = clients.into_iter().enumerate().map(spawn).collect();
        let killer = (extent.kills > 0)
            .then(|| scope.spawn(|| kill(&common, &server, through, extent.kills, seed)));
        for client in clients {
            let seen = client.join().expect("a client");
            outcome.history.extend(seen.history);
            outcome.left += seen.left;
            for (code, count) in seen.failed {
                *outcome.failed.entry(code).or_default() += count;
            }
        }
        drop(over);
        if let Some(killer) = killer {
            outcome.kills = killer.join().expect("the killer");
        }
    });
    let (status, log) = flifo.stop();
    assert!(status.success() && !log.contains("panicked"), "{log}");
    outcome.joined = counted(&log, "share_joined");
    outcome.spared = counted(&log, "share_spared");
    outcome
}

/// The server with its registers, and the Flifo before it.
fn start(program: Option<&Path>, registers: u32) -> (PrivateServer, Flifo) {
    let server = PrivateServer::builder().start().expect("a private server");
    let rows: Vec<_> =
        (1..=registers).map(|register| format!("({register}, 0, REPEAT('x', 90000))")).collect();
    server
        .sql(&format!(
            "GRANT ALL ON *.* TO {USER}@'%'; CREATE DATABASE registers; \
             CREATE TABLE registers.r (id INT PRIMARY KEY, v BIGINT, much MEDIUMTEXT); \
             CREATE TABLE registers.long_way (n INT PRIMARY KEY); \
             INSERT INTO registers.long_way SELECT seq FROM seq_1_to_4000; \
             INSERT INTO registers.r VALUES {}",
            rows.join(", ")
        ))
        .expect("registers");
    let told = format!(
        "workers = 2\n[server]\naddress = \"{}\"\nlimit = 2\nshare_reads = \"on\"\n[limits]\nwait = \"120s\"\n\
         [[users]]\nname = \"{USER}\"\npassword = \"{}\"\n",
        server.socket().display(),
        server.password(),
    );
    let flifo = match program {
        Some(program) => Flifo::start_program(program, &told),
        None => Flifo::start(&told),
    };
    (server, flifo)
}

/// Kills clients and their statements through Flifo, and backends and what they run in the server, now and then. The
/// answer is how often.
fn kill(common: &Common, server: &PrivateServer, through: u16, a_second: u64, seed: u64) -> u64 {
    let mut random = Random::new(seed);
    let login = |port| FakeClient::login(port, USER, server.password()).expect("a login");
    let (mut of_server, mut of_flifo) = (login(server.port()), login(through));
    let mut kills = 0;
    while !common.is_over.load(Relaxed) {
        thread::sleep(Duration::from_millis(1000 / a_second.max(1)));
        let what = if random.between(0, 1) == 0 { "QUERY" } else { "CONNECTION" };
        let (killer, ids) = match random.between(0, 1) {
            0 => (&mut of_flifo, common.ids.iter().map(|id| id.load(Relaxed)).collect()),
            _ => {
                let text = "SELECT id FROM information_schema.PROCESSLIST WHERE db = 'registers'";
                let rows = of_server.query(text).expect("what runs");
                let id = |row: &Vec<u8>| std::str::from_utf8(row).ok()?.parse().ok();
                (&mut of_server, rows.iter().filter_map(id).collect::<Vec<u32>>())
            }
        };
        let Some(last) = ids.len().checked_sub(1) else { continue };
        let id = ids.get(random.between(0, last as u64) as usize).copied().unwrap_or_default();
        // It may be gone.
        kills += u64::from(killer.query(&format!("KILL {what} {id}")).is_ok());
    }
    kills
}

/// One client.
struct LinearClient<'a> {
    common: &'a Common,
    server: &'a PrivateServer,
    through: u16,
    port: u16,
    number: usize,
    habit: Habit,
    random: Random,
    seen: Outcome,
}

impl LinearClient<'_> {
    fn run(&mut self) {
        let (mut client, mut statement) = self.connect();
        while self.common.goes_on() {
            let register = self.random.between(1, self.common.registers.into()) as u32;
            let writes = match self.habit {
                Habit::Writes => true,
                Habit::Both => self.random.between(0, 1) == 0,
                _ => false,
            };
            if !writes && self.common.is_rough && self.random.between(0, 199) == 0 {
                let text = format!("SELECT v FROM r WHERE id = {register}");
                client.send_packet(0, &[&[3], text.as_bytes()].concat());
                self.seen.left += 1;
                (client, statement) = self.connect();
                continue;
            }
            let answer = match writes {
                true => self.write(&mut client, register),
                false => self.read(&mut client, statement, register),
            };
            if let Err(refusal) = answer {
                *self.seen.failed.entry(refusal.code()).or_default() += 1;
                // A killed connection may end with an error, or without one.
                if refusal == Refusal::Closed || client.query("DO 0").is_err() {
                    (client, statement) = self.connect();
                }
            }
            if self.habit == Habit::Writes {
                // There are many reads for each write.
                thread::sleep(Duration::from_micros(self.random.between(0, 2_000)));
            }
        }
    }

    /// Connects; again, if that is killed.
    fn connect(&self) -> (FakeClient, Option<u32>) {
        loop {
            if let Ok(connected) = self.try_connect() {
                return connected;
            }
        }
    }

    fn try_connect(&self) -> Result<(FakeClient, Option<u32>), Refusal> {
        let mut client = FakeClient::login(self.port, USER, self.server.password())?;
        if self.common.is_rough && self.port == self.through {
            let rows = client.query("SELECT CONNECTION_ID()")?;
            let id = rows.first().and_then(|row| std::str::from_utf8(row).ok()?.parse().ok());
            self.common.ids[self.number].store(id.expect("a number"), Relaxed);
        }
        client.query("USE registers")?;
        let prepares = self.habit == Habit::ReadsPrepared;
        let statement = match prepares {
            true => Some(client.prepare("SELECT CONCAT(v) FROM r WHERE id = ?")?),
            false => None,
        };
        Ok((client, statement))
    }

    fn write(&mut self, client: &mut FakeClient, register: u32) -> Result<(), Refusal> {
        let value = self.common.next_value.fetch_add(1, Relaxed);
        let begun = self.common.now();
        let answer = client.query(&format!("UPDATE r SET v = {value} WHERE id = {register}"));
        let ended = answer.is_ok().then(|| self.common.now());
        self.seen.history.push(Operation { register, act: Act::Write, value, begun, ended });
        answer.map(|_| ())
    }

    fn read(
        &mut self,
        client: &mut FakeClient,
        statement: Option<u32>,
        register: u32,
    ) -> Result<(), Refusal> {
        let long = || {
            // The row of the register is read first, and many others behind it.
            format!("SELECT MAX(v + 0 * n) FROM r JOIN long_way WHERE id = {register}")
        };
        let text = match self.habit {
            Habit::ReadsLong => long(),
            Habit::Both if self.random.between(0, 1) == 0 => long(),
            Habit::ReadsMuch => format!("SELECT v, much FROM r WHERE id = {register}"),
            _ => format!("SELECT v FROM r WHERE id = {register}"),
        };
        let begun = self.common.now();
        let rows = match statement {
            None => client.query(&text)?,
            Some(id) => {
                let (id, parameter) = (id.to_le_bytes(), register.to_le_bytes());
                let execute = [&[0x17][..], &id, b"\0\x01\0\0\0\0\x01\x03\0", &parameter].concat();
                client.command(&execute)?
            }
        };
        let ended = Some(self.common.now());
        let value = match &rows[..] {
            [text] => std::str::from_utf8(text).ok().and_then(|it| it.parse().ok()),
            _ => None,
        };
        // What is no value was never written.
        let value = value.unwrap_or(u64::MAX);
        self.seen.history.push(Operation { register, act: Act::Read, value, begun, ended });
        Ok(())
    }
}
