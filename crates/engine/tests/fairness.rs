//! Clients of several workers that share few connections are served evenly: the gates in simulated time, with a server
//! whose statements, logins and mail take what they usually take.
//!
//! Owns what the proxy does around a gate; decides nothing that the gate decides. One seed gives one run. Nothing looks
//! now and then whether anything can be done: what is missed by the events is missed for good, and found.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::classes::{Class, ClassId, Classes};
use engine::gate::{Ask, Due, Gate, Slot, Start, Want};
use engine::places::ConnectionPlaces;
use engine::slots::Slots;
use fastrand::Rng;

const CLIENTS: usize = 100;
const LENGTH: Duration = Duration::from_secs(1);
const ASK: Ask = Ask::new(ClassId(0), None);

/// What things take, in microseconds.
const STATEMENT: u64 = 100;
const TRANSACTION: u64 = 1_500;
const LOGIN: u64 = 2_000;
const CLOSE: u64 = 300;
const MAIL: u64 = 50;

type Key = u8;
type Backend = (u32, Instant);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A client asks.
    Asks(usize),
    Ends(usize),
    SlotFree(usize),
    BackendWanted(usize),
    Later(usize),
    Opened(usize, Key),
    Closed(usize, Key, u32),
    Arrived(usize, Key, Backend),
}

struct Client {
    worker: usize,
    key: Key,
    running: Option<(Backend, Slot)>,
    served: u64,
}

struct World {
    random: Rng,
    now: Instant,
    events: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    count: u64,
    gates: Vec<Gate<Key, usize, Backend>>,
    looks_later: Vec<bool>,
    places: Arc<ConnectionPlaces>,
    clients: Vec<Client>,
    work: u64,
    logins: u64,
    last_backend: u32,
    key_of: BTreeMap<u32, Key>,
}

impl World {
    fn new(seed: u64, workers: usize, backends: u32, keys: usize, work: u64) -> Self {
        let now = Instant::now();
        let slots = Arc::new(Slots::new(64, workers, now));
        let places = Arc::new(ConnectionPlaces::new(backends, workers, now));
        let classes = Arc::new(Classes::new(vec![Class::default()], workers));
        let gate = |worker| {
            Gate::new(worker, Arc::clone(&slots), Arc::clone(&places), Arc::clone(&classes))
        };
        let client = |id: usize| Client {
            // Not the same number of each.
            worker: id % (workers + 1) % workers,
            key: (id % keys) as Key,
            running: None,
            served: 0,
        };
        let mut world = Self {
            random: Rng::with_seed(seed),
            now,
            events: BinaryHeap::new(),
            count: 0,
            gates: (0..workers).map(gate).collect(),
            looks_later: vec![false; workers],
            places: Arc::clone(&places),
            clients: (0..CLIENTS).map(client).collect(),
            work,
            logins: 0,
            last_backend: 0,
            key_of: BTreeMap::new(),
        };
        for client in 0..CLIENTS {
            world.after(1_000, Event::Asks(client));
        }
        world
    }

    /// Something comes after so many microseconds in the mean, of an exponential distribution.
    fn after(&mut self, mean: u64, event: Event) {
        // Never zero.
        let share = 1.0 - self.random.f64();
        self.at(Duration::from_secs_f64(-share.ln() * mean as f64 / 1e6), event);
    }

    fn at(&mut self, time: Duration, event: Event) {
        self.count += 1;
        self.events.push(Reverse((self.now + time, self.count, event)));
    }

    fn run(&mut self, length: Duration) {
        let end = self.now + length;
        let is_due = |it: &Reverse<(Instant, u64, Event)>| it.0.0 <= end;
        while self.events.peek().is_some_and(is_due)
            && let Some(Reverse((at, _, event))) = self.events.pop()
        {
            self.now = at;
            self.happen(event);
            assert!(self.places.held() <= self.places.limit());
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Asks(id) => {
                let Client { worker, key, .. } = self.clients[id];
                match self.gates[worker].enter(key, ASK, self.now, |_| true) {
                    Some((backend, slot)) => self.begin(id, backend, slot),
                    None => {
                        let waits = self.gates[worker].wait(key, id, ASK, self.now);
                        assert!(waits.is_ok(), "no line is full");
                        self.start_ready(worker);
                        self.provide(worker, key);
                    }
                }
            }
            Event::Ends(id) => {
                let Client { worker, key, .. } = self.clients[id];
                self.clients[id].served += 1;
                let (backend, slot) = self.clients[id].running.take().expect("it runs");
                self.put(worker, key, backend);
                if let Some(start) = self.gates[worker].pass_on(slot, self.now, |_, _| true) {
                    self.started(start);
                }
                self.start_ready(worker);
                self.after(MAIL, Event::Asks(id));
            }
            Event::SlotFree(worker) => self.pump(worker),
            Event::Later(worker) => {
                self.looks_later[worker] = false;
                self.pump(worker);
            }
            Event::BackendWanted(worker) => {
                while let Some((key, backend, due)) = self.gates[worker].give_idle(self.now) {
                    self.go(worker, key, backend, due);
                }
            }
            Event::Opened(worker, key) => {
                self.logins += 1;
                self.last_backend += 1;
                self.key_of.insert(self.last_backend, key);
                self.gates[worker].opened(key);
                self.put(worker, key, (self.last_backend, self.now));
                self.pump(worker);
            }
            Event::Closed(worker, key, backend) => {
                let other = self.gates[worker].closed(key, |it| it.0 == backend);
                if let Some(other) = other {
                    self.after(MAIL, Event::SlotFree(other));
                }
                self.pump(worker);
            }
            Event::Arrived(worker, key, backend) => {
                self.gates[worker].arrived(key);
                self.put(worker, key, backend);
                self.pump(worker);
            }
        }
    }

    fn put(&mut self, worker: usize, key: Key, backend: Backend) {
        match self.gates[worker].due(key, || self.now - backend.1) {
            Due::Here => self.gates[worker].put(key, backend, self.now),
            due => self.go(worker, key, backend, due),
        }
    }

    fn go(&mut self, worker: usize, key: Key, backend: Backend, due: Due) {
        match due {
            Due::Worker(other) => {
                self.gates[worker].sent(key);
                self.after(MAIL, Event::Arrived(other, key, backend));
            }
            _ => self.after(CLOSE, Event::Closed(worker, key, backend.0)),
        }
    }

    fn begin(&mut self, id: usize, backend: Backend, slot: Slot) {
        self.clients[id].running = Some((backend, slot));
        self.after(self.work, Event::Ends(id));
    }

    fn started(&mut self, start: Start<usize, Backend>) {
        match start {
            Start::On(id, backend, slot) => self.begin(id, backend, slot),
            Start::Own(..) => unreachable!("nobody keeps a backend connection"),
        }
    }

    fn start_ready(&mut self, worker: usize) {
        while let Some(start) = self.gates[worker].next(self.now, |_, _| true) {
            self.started(start);
        }
        if self.gates[worker].lacks_more() {
            self.provide_all(worker);
        }
        self.wake(worker);
    }

    fn wake(&mut self, worker: usize) {
        while let Some(other) = self.gates[worker].next_wake() {
            self.after(MAIL, Event::SlotFree(other));
        }
    }

    fn pump(&mut self, worker: usize) {
        self.start_ready(worker);
        self.provide_all(worker);
        self.gates[worker].return_places();
        self.wake(worker);
    }

    fn provide_all(&mut self, worker: usize) {
        let keys: Vec<_> = self.gates[worker].keys_waiting().collect();
        keys.into_iter().for_each(|key| self.provide(worker, key));
    }

    fn provide(&mut self, worker: usize, key: Key) {
        loop {
            match self.gates[worker].want(key, self.now) {
                Want::Nothing => return,
                Want::Open => self.after(LOGIN, Event::Opened(worker, key)),
                Want::Close(backend) => {
                    let of = self.key_of[&backend.0];
                    return self.after(CLOSE, Event::Closed(worker, of, backend.0));
                }
                Want::Later(wait) => {
                    if !std::mem::replace(&mut self.looks_later[worker], true) {
                        self.at(wait, Event::Later(worker));
                    }
                    return;
                }
                Want::Ask => {
                    for other in self.gates[worker].inattentive() {
                        self.after(MAIL, Event::BackendWanted(other));
                    }
                    return;
                }
            }
        }
    }

    fn jain(&self) -> f64 {
        let served: Vec<_> = self.clients.iter().map(|client| client.served as f64).collect();
        let sum: f64 = served.iter().sum();
        let squares: f64 = served.iter().map(|it| it * it).sum();
        sum * sum / (served.len() as f64 * squares)
    }
}

#[test]
fn clients_of_all_workers_share_few_backends_evenly() {
    for (name, work) in [("statements", STATEMENT), ("transactions", TRANSACTION)] {
        for workers in 2..=4 {
            for backends in 2..=4 {
                for seed in 1..=2 {
                    let mut world = World::new(seed, workers, backends, 1, work);
                    world.run(LENGTH);
                    let (jain, logins) = (world.jain(), world.logins);
                    let told =
                        format!("{name}, {workers} workers, {backends} backends, seed {seed}");
                    assert!(jain >= 0.95, "{told}: Jain {jain:.3}");
                    assert_eq!(
                        logins,
                        u64::from(backends),
                        "{told}: backend connections go round, and none is opened for another"
                    );
                    let served: u64 = world.clients.iter().map(|it| it.served).sum();
                    let most = LENGTH.as_micros() as u64 * u64::from(backends) / work;
                    assert!(served * 10 > most * 6, "{told}: {served} of {most}");
                }
            }
        }
    }
}

/// Several kinds of clients, and backends that cannot be all of them: they take turns, and most of the time is not for
/// logins.
#[test]
fn keys_take_turns() {
    for (keys, fair) in [(2, 0.97), (6, 0.93), (12, 0.88)] {
        for workers in 1..=4 {
            for backends in 1..=4 {
                for seed in 1..=3 {
                    let mut world = World::new(seed, workers, backends, keys, TRANSACTION);
                    world.run(4 * LENGTH);
                    let (jain, logins) = (world.jain(), world.logins);
                    let told =
                        format!("{keys} keys, {workers} workers, {backends} backends, seed {seed}");
                    assert!(jain >= fair, "{told}: Jain {jain:.3}");
                    // A backend serves its key for a tenth of a second at least.
                    let most = 4 * LENGTH.as_millis() as u64 / 90 * u64::from(backends);
                    assert!(logins <= most, "{told}: {logins} logins");
                }
            }
        }
    }
}
