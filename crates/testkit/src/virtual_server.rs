//! A fake server with virtual processors: it sleeps for as long as a real one would compute.
//!
//! The server is the simulated world's ([`crate::world`]): processors that are shared equally and
//! get in each other's way, and rows with lines of statements that wait for their locks. Here its
//! time is the clock's, and clients ask over sockets: effects of a gate that the world cannot show
//! are shown here on a machine with few processors. Owns what statements need, and which connection
//! has which rows; the protocol is [`crate::fake_server`]'s. Invariants: nothing here burns a
//! processor; a connection that ends gives its rows back.
//!
//! What it understands: `SELECT …` computes and answers with one row; `UPDATE hot SET … WHERE id=N`
//! takes row N, computes, and keeps the row until its transaction ends; `BEGIN`, `COMMIT` and
//! `ROLLBACK` cost nothing, and neither does whatever else is said.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use wire::response::Status;

use crate::fake_server::FakeServer;
use crate::reply::{Reply, honest};
use crate::world::{Server as Plan, server::Server as World};

/// A running server.
pub struct VirtualServer {
    fake: FakeServer,
    shared: Arc<Shared>,
    clock: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    /// Rung when there is something to compute, or nothing more to come.
    bell: Condvar,
    is_ending: AtomicBool,
    /// Processor time of a statement, in milliseconds.
    cpu: f64,
    answered: AtomicU64,
    /// The most that computed at once.
    crowd: AtomicU64,
}

struct State {
    world: World,
    /// Until when the world has come.
    at: Instant,
    /// Threads that compute, or wait for a row, by ticket.
    waiting: HashMap<usize, Arc<Seat>>,
    next_ticket: usize,
    computing: u64,
    sessions: HashMap<u32, Session>,
}

/// What is known of a connection.
#[derive(Default)]
struct Session {
    in_transaction: bool,
    /// Its rows, with the tickets by which it has them.
    rows: HashMap<usize, usize>,
}

struct Seat {
    is_done: AtomicBool,
    thread: Thread,
}

/// Rows that can be locked.
const ROWS: usize = 64;

impl VirtualServer {
    /// A server like this one, whose statements need so much processor time, in milliseconds.
    pub fn start(plan: Plan, cpu: f64) -> Self {
        let state = State {
            world: World::new(plan, ROWS),
            at: Instant::now(),
            waiting: HashMap::new(),
            next_ticket: 0,
            computing: 0,
            sessions: HashMap::new(),
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            bell: Condvar::new(),
            is_ending: AtomicBool::new(false),
            cpu,
            answered: AtomicU64::new(0),
            crowd: AtomicU64::new(0),
        });
        let fake = FakeServer::start();
        let answering = Arc::clone(&shared);
        fake.answer_each(move |connection, command| answering.answer(connection, command));
        let leaving = Arc::clone(&shared);
        fake.when_gone(move |connection| leaving.gone(connection));
        let ticking = Arc::clone(&shared);
        let clock = thread::spawn(move || ticking.tick());
        Self { fake, shared, clock: Some(clock) }
    }

    pub const fn port(&self) -> u16 {
        self.fake.port()
    }

    /// Statements that were answered so far, of those that compute.
    pub fn answered(&self) -> u64 {
        self.shared.answered.load(SeqCst)
    }

    /// The most that computed at once since this was last asked.
    pub fn take_crowd(&self) -> u64 {
        self.shared.crowd.swap(0, SeqCst)
    }

    /// Connections that are open.
    pub fn open(&self) -> u32 {
        self.fake.open()
    }
}

impl Drop for VirtualServer {
    fn drop(&mut self) {
        self.shared.is_ending.store(true, SeqCst);
        self.shared.bell.notify_all();
        if let Some(clock) = self.clock.take() {
            // A thread that waited for the clock would have reported its panic.
            let _ = clock.join();
        }
    }
}

impl Shared {
    fn answer(&self, connection: u32, command: &[u8]) -> Reply {
        let Some(text) = command.strip_prefix(b"\x03") else { return honest(command) };
        let text = String::from_utf8_lossy(text);
        let word = text.split(' ').next().unwrap_or_default().to_ascii_uppercase();
        match word.as_str() {
            "SELECT" => {
                self.compute();
                let status = self.status(connection);
                if status == Status::AUTOCOMMIT {
                    return Reply::row(text[word.len()..].trim());
                }
                // A row says nothing of a transaction, and an OK does; no client here needs the row.
                Reply::Status(status)
            }
            "UPDATE" => {
                let row = text.rsplit('=').next().and_then(|row| row.trim().parse::<usize>().ok());
                self.lock_row(connection, row.unwrap_or(0) % ROWS);
                self.compute();
                self.end_statement(connection);
                Reply::Status(self.status(connection))
            }
            "BEGIN" => {
                self.state().sessions.entry(connection).or_default().in_transaction = true;
                Reply::Status(self.status(connection))
            }
            "COMMIT" | "ROLLBACK" => {
                self.gone(connection);
                Reply::Ok
            }
            _ => honest(command),
        }
    }

    fn status(&self, connection: u32) -> Status {
        let state = self.state();
        let is_open = state.sessions.get(&connection).is_some_and(|it| it.in_transaction);
        if is_open {
            Status(Status::AUTOCOMMIT.0 | Status::IN_TRANSACTION.0)
        } else {
            Status::AUTOCOMMIT
        }
    }

    /// Computes in the calling thread's place, which sleeps.
    fn compute(&self) {
        let mut state = self.state();
        state.catch_up();
        let (ticket, seat) = state.take_seat();
        state.world.compute(ticket, self.cpu);
        state.computing += 1;
        self.crowd.fetch_max(state.computing, SeqCst);
        drop(state);
        self.bell.notify_all();
        self.wait(&seat);
        self.answered.fetch_add(1, SeqCst);
    }

    fn lock_row(&self, connection: u32, row: usize) {
        let mut state = self.state();
        if state.sessions.entry(connection).or_default().rows.contains_key(&row) {
            return;
        }
        let (ticket, seat) = state.take_seat();
        state.sessions.entry(connection).or_default().rows.insert(row, ticket);
        if state.world.lock(row, ticket) {
            state.waiting.remove(&ticket);
            return;
        }
        drop(state);
        self.wait(&seat);
    }

    /// Without a transaction, a statement is its own.
    fn end_statement(&self, connection: u32) {
        let is_open =
            self.state().sessions.get(&connection).is_some_and(|session| session.in_transaction);
        if !is_open {
            self.gone(connection);
        }
    }

    /// A transaction ends, or a connection: each of its rows goes to the next statement that waits for it.
    fn gone(&self, connection: u32) {
        let mut state = self.state();
        let Some(session) = state.sessions.remove(&connection) else { return };
        for row in session.rows.into_keys() {
            if let Some(next) = state.world.unlock(row) {
                state.call(next);
            }
        }
    }

    fn wait(&self, seat: &Seat) {
        while !seat.is_done.load(SeqCst) && !self.is_ending.load(SeqCst) {
            thread::park_timeout(Duration::from_millis(200));
        }
    }

    /// Calls everybody whose time has come, as it comes.
    fn tick(&self) {
        let mut state = self.state();
        while !self.is_ending.load(SeqCst) {
            state.catch_up();
            let left = state.world.next_done();
            let nap = left.map_or(IDLE, |left| Duration::from_secs_f64(left / 1e3));
            let waited = self.bell.wait_timeout(state, nap);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A test that panicked has said why; the others go on.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Lets the world come to where the clock is.
    fn catch_up(&mut self) {
        let now = Instant::now();
        let mut left = now.saturating_duration_since(self.at).as_secs_f64() * 1e3;
        self.at = now;
        while let Some(next) = self.world.next_done().filter(|next| *next <= left) {
            self.world.advance(next);
            left -= next;
            if let Some(ticket) = self.world.pop_done() {
                self.computing -= 1;
                self.call(ticket);
            }
        }
        self.world.advance(left);
    }

    fn take_seat(&mut self) -> (usize, Arc<Seat>) {
        self.next_ticket += 1;
        let seat = Arc::new(Seat { is_done: AtomicBool::new(false), thread: thread::current() });
        self.waiting.insert(self.next_ticket, Arc::clone(&seat));
        (self.next_ticket, seat)
    }

    fn call(&mut self, ticket: usize) {
        if let Some(seat) = self.waiting.remove(&ticket) {
            seat.is_done.store(true, SeqCst);
            seat.thread.unpark();
        }
    }
}

/// With nothing to compute, the clock looks now and then.
const IDLE: Duration = Duration::from_millis(500);
