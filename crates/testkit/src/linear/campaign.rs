//! Clients that read and write registers through Flifo, and beside it, and write down what they saw.
//!
//! Many readers ask for few registers, with one slot or two: most reads wait, and are shared. Some writers go through
//! Flifo and some straight to the server, so that what is read was written anywhere. Readers use texts and prepared
//! statements, and some clients write what they then read.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use bench::private_server::PrivateServer;

use super::{Act, Operation};
use crate::fake_client::{FakeClient, Refusal};
use crate::flifo::Flifo;

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub operations: u64,
    pub readers: u64,
    /// Through Flifo, and as many beside it.
    pub writers: u64,
    /// Clients that write, and read what they have written.
    pub both: u64,
    pub registers: u32,
    /// Statements that are killed, a second.
    pub kills: u64,
}

/// What has come of it.
#[derive(Debug, Default)]
pub struct Outcome {
    pub history: Vec<Operation>,
    /// Statements that were to be answered by another client's run, and those that were.
    pub joined: u64,
    pub spared: u64,
    pub failed: u64,
}

const USER: &str = PrivateServer::USER;

/// What one client does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Habit {
    Reads,
    ReadsPrepared,
    Writes,
    Both,
}

/// What the clients of a campaign have in common.
struct Common {
    begun: Instant,
    /// Operations that are still to be done.
    left: AtomicU64,
    next_value: AtomicU64,
    is_over: AtomicBool,
    registers: u32,
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
    let server = PrivateServer::builder().start().expect("a private server");
    let rows: Vec<_> = (1..=extent.registers).map(|register| format!("({register}, 0)")).collect();
    server
        .sql(&format!(
            "GRANT ALL ON *.* TO {USER}@'%'; CREATE DATABASE registers; \
             CREATE TABLE registers.r (id INT PRIMARY KEY, v BIGINT); \
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
    let common = Common {
        begun: Instant::now(),
        left: AtomicU64::new(extent.operations),
        next_value: AtomicU64::new(1),
        is_over: AtomicBool::new(false),
        registers: extent.registers,
    };
    let (through, beside) = (flifo.port(), server.port());
    let mut clients = Vec::new();
    for number in 0..extent.readers {
        let habit = if number % 3 == 0 { Habit::ReadsPrepared } else { Habit::Reads };
        clients.push((habit, through));
    }
    clients.extend(
        (0..extent.writers).flat_map(|_| [(Habit::Writes, through), (Habit::Writes, beside)]),
    );
    clients.extend((0..extent.both).map(|_| (Habit::Both, through)));
    let mut outcome = Outcome::default();
    thread::scope(|scope| {
        let over = crate::overdue::Over(&common.is_over);
        let spawn = |(number, (habit, port)): (usize, (Habit, u16))| {
            let (common, server) = (&common, &server);
            let random =
                seed.wrapping_add(number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut client = LinearClient {
                common,
                server,
                port,
                habit,
                random,
                history: Vec::new(),
                failed: 0,
            };
            scope.spawn(move || {
                client.run();
                (client.history, client.failed)
            })
        };
        let clients: Vec<_> = clients.into_iter().enumerate().map(spawn).collect();
        let killer =
            (extent.kills > 0).then(|| scope.spawn(|| kill(&common, &server, extent.kills, seed)));
        for client in clients {
            let (history, failed) = client.join().expect("a client");
            outcome.history.extend(history);
            outcome.failed += failed;
        }
        drop(over);
        if let Some(killer) = killer {
            killer.join().expect("the killer");
        }
    });
    let (status, log) = flifo.stop();
    assert!(status.success() && !log.contains("panicked"), "{log}");
    outcome.joined = counted(&log, "share_joined");
    outcome.spared = counted(&log, "share_spared");
    outcome
}

/// What all workers have counted of this.
fn counted(log: &str, name: &str) -> u64 {
    let words = log.split([' ', '"', ',']).filter_map(|word| word.split_once('='));
    words.filter(|(word, _)| *word == name).filter_map(|(_, count)| count.parse::<u64>().ok()).sum()
}

/// Kills statements in the server, now and then.
fn kill(common: &Common, server: &PrivateServer, a_second: u64, seed: u64) {
    let mut random = seed | 1;
    let mut client = FakeClient::login(server.port(), USER, server.password()).expect("a login");
    while !common.is_over.load(Relaxed) {
        thread::sleep(Duration::from_millis(1000 / a_second.max(1)));
        let text = "SELECT id FROM information_schema.PROCESSLIST WHERE db = 'registers' AND id <> CONNECTION_ID()";
        let Ok(rows) = client.query(text) else { continue };
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let Some(row) = rows.get((random >> 33) as usize % rows.len().max(1)) else { continue };
        let id = String::from_utf8_lossy(row).into_owned();
        let what = if random >> 60 & 1 == 0 { "QUERY" } else { "CONNECTION" };
        // It may be gone.
        let _ = client.query(&format!("KILL {what} {id}"));
    }
}

/// One client.
struct LinearClient<'a> {
    common: &'a Common,
    server: &'a PrivateServer,
    port: u16,
    habit: Habit,
    random: u64,
    history: Vec<Operation>,
    failed: u64,
}

impl LinearClient<'_> {
    fn run(&mut self) {
        let (mut client, mut statement) = self.connect();
        while self.common.goes_on() {
            let register = 1 + self.below(self.common.registers.into()) as u32;
            let writes = match self.habit {
                Habit::Reads | Habit::ReadsPrepared => false,
                Habit::Writes => true,
                Habit::Both => self.below(2) == 0,
            };
            let answer = match writes {
                true => self.write(&mut client, register),
                false => self.read(&mut client, statement, register),
            };
            match answer {
                Ok(()) => {}
                Err(refusal) => {
                    self.failed += 1;
                    if refusal == Refusal::Closed {
                        (client, statement) = self.connect();
                    }
                }
            }
            if self.habit == Habit::Writes {
                // There are many reads for each write.
                thread::sleep(Duration::from_micros(self.below(2_000)));
            }
        }
    }

    fn connect(&self) -> (FakeClient, Option<u32>) {
        let password = self.server.password();
        let mut client = FakeClient::login(self.port, USER, password).expect("a login");
        client.query("USE registers").expect("the schema");
        let text = "SELECT CONCAT(v) FROM r WHERE id = ?";
        let prepares = self.habit == Habit::ReadsPrepared;
        let statement = prepares.then(|| client.prepare(text).expect("prepared"));
        (client, statement)
    }

    fn write(&mut self, client: &mut FakeClient, register: u32) -> Result<(), Refusal> {
        let value = self.common.next_value.fetch_add(1, Relaxed);
        let begun = self.common.now();
        let answer = client.query(&format!("UPDATE r SET v = {value} WHERE id = {register}"));
        let ended = answer.is_ok().then(|| self.common.now());
        self.history.push(Operation { register, act: Act::Write, value, begun, ended });
        answer.map(|_| ())
    }

    fn read(
        &mut self,
        client: &mut FakeClient,
        statement: Option<u32>,
        register: u32,
    ) -> Result<(), Refusal> {
        let begun = self.common.now();
        let rows = match statement {
            None => client.query(&format!("SELECT v FROM r WHERE id = {register}"))?,
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
        self.history.push(Operation { register, act: Act::Read, value, begun, ended });
        Ok(())
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % bound.max(1)
    }
}
