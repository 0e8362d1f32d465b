//! What a worker tells of itself when it is asked: plain values, made in an iteration of its loop.
//!
//! Owns what is told; what it means in a table or a page is decided in [`crate::admin`]. The numbers of a worker cost
//! next to nothing; clients and digests are told only when they are asked for.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use engine::account::name::UserName;
use engine::gate::GateCounts;
use engine::pin::Pin;
use engine::session::Session;
use view::digests::Told;
use view::histogram::Histogram;

use crate::cluster::servers::ServerId;
use crate::state::backend::Backend;
use crate::state::client::Client;
use crate::state::client_state::{BackendState, ClientState, StateCounts};
use crate::state::command::{Awaits, Command};
use crate::state::in_flight::InFlight;
use crate::state::local::Local;
use crate::state::memory::RoomReport;
use crate::state::tally::ServerError;
use crate::state::traffic::TrafficReport;
use crate::state::worker::Worker;

/// What is wanted beyond the numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Want {
    pub(crate) clients: bool,
    pub(crate) digests: bool,
    pub(crate) backends: bool,
}

/// What one worker tells.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) worker: usize,
    pub(crate) counters: Vec<(&'static str, u64)>,
    /// In the order of their kinds.
    pub(crate) faults: Vec<u64>,
    /// In the order of [`crate::worker::counters::Why`].
    pub(crate) sent_again: Vec<u64>,
    pub(crate) cut_out: Vec<u64>,
    pub(crate) cache_not: Vec<u64>,
    /// Replies that are kept, and their bytes.
    pub(crate) cache: Vec<KeptReport>,
    pub(crate) cache_entries: u64,
    pub(crate) cache_bytes: u64,
    pub(crate) pins: Vec<u64>,
    pub(crate) errors: Vec<ServerError>,
    pub(crate) rows: u64,
    pub(crate) run: Histogram,
    pub(crate) waited: Histogram,
    /// Of each server, in the order of the servers: how long statements have run, and what is unanswered for longest.
    pub(crate) run_at: Vec<Histogram>,
    pub(crate) oldest: Vec<Oldest>,
    /// What its loop has seen of itself.
    pub(crate) iterations: crate::worker::iterations::LoopReport,
    /// Of each server, in the order of the servers.
    pub(crate) gates: Vec<GateReport>,
    /// How many clients and backends are in which state.
    pub(crate) states: StateCounts,
    pub(crate) pools: BTreeMap<String, PoolReport>,
    pub(crate) clients: Vec<Person>,
    pub(crate) backends: Vec<BackendReport>,
    /// Its memory for long commands: short ones, and the longest.
    pub(crate) rooms: [RoomReport; 2],
    pub(crate) digests: Vec<Told>,
    pub(crate) at: Instant,
}

/// A reply that is kept.
#[derive(Clone, Debug)]
pub(crate) struct KeptReport {
    pub(crate) user: String,
    pub(crate) schema: Option<String>,
    pub(crate) text: String,
    /// Nothing was written since.
    pub(crate) is_good: bool,
    pub(crate) hits: u64,
    pub(crate) age: Duration,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
}

/// What a worker has at one server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GateReport {
    pub(crate) counts: GateCounts,
    /// Statements that have ended.
    pub(crate) ended: u64,
    /// In line, whether for a slot or for a backend.
    pub(crate) waiting: usize,
    pub(crate) backends_idle: usize,
    pub(crate) traffic: TrafficReport,
}

/// The clients and backends of one user.
#[derive(Clone, Debug, Default)]
pub(crate) struct PoolReport {
    pub(crate) clients: u64,
    pub(crate) pass_through: u64,
    /// Clients by their states.
    pub(crate) states: [u64; ClientState::ALL.len()],
    pub(crate) pinned: u64,
    pub(crate) backends: u64,
    pub(crate) backends_busy: u64,
    pub(crate) oldest: Oldest,
}

/// For how long those have been unanswered that wait, and those that run, which are so for longest.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Oldest {
    pub(crate) waiting: Option<Duration>,
    pub(crate) running: Option<Duration>,
}

/// One client.
#[derive(Clone, Debug)]
pub(crate) struct Person {
    pub(crate) id: u32,
    pub(crate) user: String,
    pub(crate) address: Option<SocketAddr>,
    pub(crate) is_tls: bool,
    pub(crate) is_pooled: bool,
    pub(crate) schema: Option<String>,
    pub(crate) state: ClientState,
    /// How long it has been so.
    pub(crate) changed: Duration,
    pub(crate) in_transaction: bool,
    pub(crate) pin: Option<&'static str>,
    /// For how long it has kept its backend, and the statement for which, without its literals.
    pub(crate) pinned: Option<(Duration, Option<String>)>,
    /// The server's number of the backend that it has.
    pub(crate) backend: Option<u32>,
    /// The server of that, or that which its last statement went to.
    pub(crate) server: ServerId,
    pub(crate) work: Option<Work>,
    /// What it waits for, in words.
    pub(crate) wait: Option<&'static str>,
    /// Statements that it has prepared, and bytes that these keep.
    pub(crate) prepared: (usize, usize),
    /// The name of its program, as it has said.
    pub(crate) program: Option<String>,
    /// The last statement that was answered, without its literals, as long as figures of it are kept.
    pub(crate) last_statement: Option<String>,
    /// How long its transaction has been open.
    pub(crate) transaction: Option<Duration>,
}

/// The command of a client.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    /// It executes a prepared statement.
    pub(crate) is_execute: bool,
    pub(crate) digest: Option<u64>,
    /// Its text without literals, as long as figures of it are kept.
    pub(crate) text: Option<String>,
}

/// One connection to a server.
#[derive(Clone, Debug)]
pub(crate) struct BackendReport {
    /// The server's number of it.
    pub(crate) thread_id: u32,
    pub(crate) server: ServerId,
    pub(crate) user: Option<String>,
    pub(crate) is_pooled: bool,
    pub(crate) state: &'static str,
    pub(crate) age: Duration,
    /// The client that has it.
    pub(crate) client: Option<u32>,
    /// Commands that it has not answered yet.
    pub(crate) in_flight: usize,
    /// Statements that it has prepared for all clients.
    pub(crate) prepared: usize,
}

/// Has a worker tell of itself.
pub(crate) fn make(worker: &Worker, want: Want) -> Report {
    let clients = worker.clients.borrow();
    let now = crate::worker::clock::now();
    Report {
        worker: worker.index,
        counters: worker.counters.plain(),
        faults: worker.counters.faults.iter().map(|counter| counter.get()).collect(),
        sent_again: worker.counters.sent_again.iter().map(|counter| counter.get()).collect(),
        cut_out: worker.counters.cut_out.iter().map(|counter| counter.get()).collect(),
        cache_not: worker.counters.cache_not.iter().map(|counter| counter.get()).collect(),
        cache: if want.digests { kept(worker, now) } else { Vec::new() },
        cache_entries: worker.features.caches.store.borrow().len() as u64,
        cache_bytes: worker.features.caches.store.borrow().weight(),
        pins: worker.counters.pins.iter().map(|counter| counter.get()).collect(),
        errors: worker.learnt.tally.errors(),
        rows: worker.learnt.tally.rows.get(),
        run: worker.times(|traffic| &traffic.run),
        waited: worker.times(|traffic| &traffic.waited),
        run_at: worker.locals().map(|local| local.traffic.run.borrow().clone()).collect(),
        oldest: oldest(worker, now),
        iterations: crate::worker::iterations::report(),
        gates: worker.locals().map(gate).collect(),
        states: states(worker),
        pools: pools(worker, now),
        clients: match want.clients {
            true => clients.values().map(|client| person(worker, client, now)).collect(),
            false => Vec::new(),
        },
        backends: if want.backends { backends(worker, now) } else { Vec::new() },
        rooms: worker.memory.rooms(),
        digests: if want.digests { digests(worker) } else { Vec::new() },
        at: now,
    }
}

/// The cost of statements, with the names of the servers that they went to.
pub(crate) fn digests(worker: &Worker) -> Vec<Told> {
    let servers = &worker.shared.cluster;
    worker.learnt.tally.digests(|server| servers.server(ServerId(server as usize)).name.clone())
}

/// More are not told of one by one.
const KEPT_MAX: usize = 1000;

fn kept(worker: &Worker, now: Instant) -> Vec<KeptReport> {
    let store = worker.features.caches.store.borrow();
    let (since, era) =
        (worker.shared.changes.alterations.now(), worker.shared.proofs.rights.eras.now());
    let told = store.iter().take(KEPT_MAX).map(|(_, entry)| KeptReport {
        user: text(worker.pool.keys.borrow().get(entry.asked.key).user.as_bytes()),
        schema: entry.asked.schema.as_ref().map(|schema| text(schema)),
        text: text(entry.asked.text()),
        is_good: entry.is_good(since, era),
        hits: entry.hits.get(),
        age: now.saturating_duration_since(entry.at),
        rows: entry.rows,
        bytes: entry.reply.len() as u64,
    });
    told.collect()
}

fn gate(local: &Local) -> GateReport {
    let gate = local.gate.borrow();
    GateReport {
        counts: gate.counts(),
        ended: gate.totals().completed,
        waiting: gate.waiting(),
        backends_idle: gate.idle_backends(),
        traffic: local.traffic.told(),
    }
}

impl GateReport {
    /// What several workers have together.
    pub(crate) fn plus(self, other: Self) -> Self {
        let (one, two) = (self.counts, other.counts);
        Self {
            counts: GateCounts {
                passed_on: one.passed_on + two.passed_on,
                granted: one.granted + two.granted,
                forced: one.forced + two.forced,
                borrowed: one.borrowed + two.borrowed,
                parked: one.parked + two.parked,
                set_down: one.set_down + two.set_down,
            },
            ended: self.ended + other.ended,
            waiting: self.waiting + other.waiting,
            backends_idle: self.backends_idle + other.backends_idle,
            traffic: self.traffic.plus(other.traffic),
        }
    }
}

impl Report {
    /// What waits here, for whichever server.
    pub(crate) fn waiting(&self) -> usize {
        self.gates.iter().map(|gate| gate.waiting).sum()
    }
}

/// How many clients and backends are in each state.
fn states(worker: &Worker) -> StateCounts {
    let mut counts = StateCounts::default();
    for client in worker.clients.borrow().values() {
        counts.clients[client.state() as usize] += 1;
    }
    for backend in worker.backends.borrow().values() {
        counts.backends[backend.state() as usize] += 1;
    }
    counts
}

/// For each server, what has waited and run for longest of the statements that it is to take.
fn oldest(worker: &Worker, now: Instant) -> Vec<Oldest> {
    let mut all = vec![Oldest::default(); worker.locals().count()];
    for client in worker.clients.borrow().values() {
        if let Some(oldest) = all.get_mut(client.routing.server.get().0) {
            *oldest = oldest.max(Oldest::of(client, now));
        }
    }
    all
}

impl Oldest {
    fn of(client: &Client, now: Instant) -> Self {
        let age = Some(now.saturating_duration_since(client.times.changed.get()));
        match client.state() {
            ClientState::Queued | ClientState::Stranded | ClientState::AwaitingMemory => {
                Self { waiting: age, running: None }
            }
            ClientState::Preparing
            | ClientState::ChangingUser
            | ClientState::Running
            | ClientState::Sharing => Self { waiting: None, running: age },
            _ => Self::default(),
        }
    }

    pub(crate) fn max(self, other: Self) -> Self {
        Self { waiting: self.waiting.max(other.waiting), running: self.running.max(other.running) }
    }
}

fn pools(worker: &Worker, now: Instant) -> BTreeMap<String, PoolReport> {
    // Users are few, clients are many: a name is copied once for each user.
    let mut pools: BTreeMap<UserName, PoolReport> = BTreeMap::new();
    for client in worker.clients.borrow().values() {
        let pool = pools.entry(client.user.borrow().clone()).or_default();
        pool.clients += 1;
        pool.pass_through += u64::from(!client.has_key());
        pool.states[client.state() as usize] += 1;
        pool.pinned += u64::from(client.session.borrow().pin().is_some());
        pool.oldest = pool.oldest.max(Oldest::of(client, now));
    }
    for backend in worker.backends.borrow().values() {
        let holder = backend.holder.borrow();
        let user = match (backend.key.get(), &*holder) {
            (Some(key), _) => worker.pool.keys.borrow().get(key).user.clone(),
            (None, Some(client)) => client.user.borrow().clone(),
            (None, None) => continue,
        };
        let pool = pools.entry(user).or_default();
        pool.backends += 1;
        pool.backends_busy += u64::from(!backend.in_flight.borrow().is_empty());
    }
    let named = |(user, pool): (UserName, PoolReport)| (text(user.as_bytes()), pool);
    pools.into_iter().map(named).collect()
}

/// What a rule has a client keep its backend for.
fn by_rule(session: &Session) -> Option<Pin> {
    session.is_kept_by_rule().then_some(Pin::Rule)
}

fn person(worker: &Worker, client: &Client, now: Instant) -> Person {
    let session = client.session.borrow();
    let state = client.state();
    let pinned = client.pinned.with(|pinned| {
        let since = now.saturating_duration_since(pinned.since);
        (since, pinned.digest.and_then(|digest| worker.learnt.tally.text(digest.hash())))
    });
    Person {
        id: client.id,
        user: text(client.user.borrow().as_bytes()),
        address: client.peer,
        is_tls: client.stream.is_tls(),
        is_pooled: client.has_key(),
        schema: session.schema.as_ref().map(|schema| text(schema)),
        state,
        changed: now.saturating_duration_since(client.times.changed.get()),
        in_transaction: session.in_transaction(),
        pin: session.pin().or_else(|| by_rule(&session)).map(Pin::name),
        pinned,
        backend: client.backend().map(|backend| backend.thread_id),
        server: client.routing.server.get(),
        work: work(worker, client),
        wait: wait(worker, client, state),
        prepared: (session.statements.len(), session.statements.bytes()),
        program: Some(text(&client.routing.came_by.program)).filter(|it| !it.is_empty()),
        last_statement: Some(client.logged.last_digest.get())
            .filter(|digest| *digest != 0)
            .and_then(|digest| worker.learnt.tally.text(digest)),
        transaction: transaction(client, &session)
            .map(|since| now.saturating_duration_since(since)),
    }
}

/// Since when a client's transaction is open; one that its command has just begun, since that came.
fn transaction(client: &Client, session: &Session) -> Option<Instant> {
    let since = || client.times.transaction.get().unwrap_or_else(|| client.times.changed.get());
    session.in_transaction().then(since)
}

/// The command of a client: in the queue, or in flight.
fn work(worker: &Worker, client: &Client) -> Option<Work> {
    let tell = |command: &Command| {
        let digest = command.begun.map(|begun| begun.place.digest());
        let text = digest.and_then(|digest| worker.learnt.tally.text(digest));
        Work { is_execute: command.facts.in_hand.is_some(), digest, text }
    };
    if let Some(command) = client.command() {
        return Some(tell(&command));
    }
    let backend = client.backend()?;
    let in_flight = backend.in_flight.borrow();
    let mut flights = in_flight.iter().map(|flight| &**flight);
    let of_client = |flight: &InFlight| flight.client.as_ref().is_some_and(|it| it.id == client.id);
    flights
        .find(|flight| of_client(flight) && flight.command.is_some())
        .and_then(|flight| flight.command.as_deref())
        .map(tell)
}

/// It is held back, because it would wait in the server like others.
pub(crate) const LIKE_OTHERS: &str = "a lock that statements like it wait for";

fn is_held_back(worker: &Worker, client: &Client) -> bool {
    let gate = worker.at(client.routing.server.get()).gate.borrow();
    client.ticket().is_some_and(|ticket| gate.is_aside(ticket))
}

/// What a client waits for.
fn wait(worker: &Worker, client: &Client, state: ClientState) -> Option<&'static str> {
    Some(match state {
        ClientState::Reading | ClientState::Departing | ClientState::Leaving => return None,
        ClientState::AwaitingMemory => "memory for its long command",
        ClientState::Stranded => "a server that can take it",
        ClientState::Queued if is_held_back(worker, client) => LIKE_OTHERS,
        ClientState::Queued if client.backend().is_some() => "a slot",
        ClientState::Queued => "a slot or a backend",
        ClientState::Preparing => match client.awaits() {
            Some(Awaits::InsertId) => "its last insert id",
            Some(Awaits::Backend | Awaits::Diagnostics) => "diagnostics of its last statement",
            Some(Awaits::Reset) => "a session reset",
            Some(Awaits::Rule) => "a rule",
            Some(Awaits::Text) => "a search of its long text for what rules match",
            Some(Awaits::Account) => "its account in another cluster",
            Some(Awaits::Answer) | None => "session setup",
        },
        ClientState::ChangingUser => "a proof that it is another user",
        ClientState::Running => "the server",
        ClientState::Sharing => "the reply to the same statement of another client",
        ClientState::Writing => "its client to read",
    })
}

fn backends(worker: &Worker, now: Instant) -> Vec<BackendReport> {
    let tell = |backend: &Rc<Backend>| {
        let holder = backend.holder.borrow();
        let user = match (backend.key.get(), &*holder) {
            (Some(key), _) => Some(worker.pool.keys.borrow().get(key).user.clone()),
            (None, Some(client)) => Some(client.user.borrow().clone()),
            (None, None) => None,
        };
        BackendReport {
            thread_id: backend.thread_id,
            server: backend.server,
            user: user.map(|user| text(user.as_bytes())),
            is_pooled: backend.key.get().is_some(),
            state: BackendState::ALL[backend.state() as usize].1,
            age: now.saturating_duration_since(backend.origin.opened),
            client: holder.as_ref().map(|client| client.id),
            in_flight: backend.in_flight.borrow().len(),
            prepared: backend.known.borrow().len(),
        }
    };
    worker.backends.borrow().values().map(tell).collect()
}

/// A name as it can be shown: it comes from a client, which may have put anything in it.
fn text(bytes: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(bytes).into_owned();
    text.retain(|letter| !letter.is_control());
    text
}
