//! The world around the gates: clients, backends, mail and time, and a model of what each gate should
//! hold.
//!
//! Owns what the proxy does around a gate, without sockets; decides nothing that the gate decides.
//! Invariants are checked where they can break: at each start, and for the whole after each step.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::classes::{Class, Classes};
use engine::gate::{Ask, Due, Gate, Slot, Start, Waiting, Want};
use engine::places::ConnectionPlaces;
use engine::slots::Slots;
use fastrand::Rng;

type Key = u8;
type ClientId = usize;
type BackendId = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Waiting(Waiting<Key>),
    /// Beyond the limit, if forced.
    Running {
        forced: bool,
    },
    Gone,
}

#[derive(Debug)]
struct Client {
    worker: usize,
    key: Key,
    state: State,
    /// The backend that it holds, while it runs or is pinned.
    backend: Option<BackendId>,
    /// The slot that it has while it runs.
    slot: Option<Slot>,
}

#[derive(Debug)]
enum Event {
    SlotFree(usize),
    BackendFree(usize),
    BackendWanted(usize),
    /// A worker looks again, because a backend of a key was likely to be free soon.
    Later(usize),
    Arrived(usize, Key, BackendId),
    Opened(usize, Key),
    Closed(usize, Key, BackendId),
}

/// A gate and what it should hold.
struct Worker {
    gate: Gate<Key, ClientId, BackendId>,
    own: VecDeque<(ClientId, Instant)>,
    lines: BTreeMap<Key, VecDeque<(ClientId, Instant)>>,
    /// Oldest first.
    idle: BTreeMap<Key, Vec<(BackendId, Instant)>>,
}

pub(crate) struct World {
    random: Rng,
    now: Instant,
    slots: Arc<Slots>,
    cap: Arc<ConnectionPlaces>,
    workers: Vec<Worker>,
    clients: Vec<Client>,
    /// Whether workers look now and then whether anything can be done. Without that nothing may be missed; as backends
    /// that could not be opened are tried again by time only, all can be.
    has_ticks: bool,
    /// What is under way; it arrives in any order.
    events: Vec<Event>,
    last_backend: BackendId,
    started: u64,
    waited: u64,
    expired: u64,
    given_up: u64,
}

/// Clients like backends of their own parity best.
fn suits(client: ClientId, backend: BackendId) -> bool {
    client % 2 == backend as usize % 2
}

/// How many of the hottest backends a gate looks at.
const LOOK: usize = 8;

const ASK: Ask = Ask::new(engine::classes::ClassId(0), None);

const WAIT_MAX: Duration = Duration::from_millis(900);
const BACKEND_AGE: Duration = Duration::from_millis(1500);

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let now = Instant::now();
        let mut world = Self {
            random: Rng::with_seed(seed),
            now,
            slots: Arc::new(Slots::new(1, 1, now)),
            cap: Arc::new(ConnectionPlaces::new(1, 1, now)),
            has_ticks: seed.is_multiple_of(2),
            workers: Vec::new(),
            clients: Vec::new(),
            events: Vec::new(),
            last_backend: 0,
            started: 0,
            waited: 0,
            expired: 0,
            given_up: 0,
        };
        let count = 1 + world.below(4);
        let (limit, cap) = (1 + world.below(5), 1 + world.below(14));
        world.slots = Arc::new(Slots::new(limit as u32, count, now));
        world.cap = Arc::new(ConnectionPlaces::new(cap as u32, count, now));
        let classes = Arc::new(Classes::new(vec![Class::default()], count));
        for index in 0..count {
            let (slots, cap) = (Arc::clone(&world.slots), Arc::clone(&world.cap));
            let gate = Gate::new(index, slots, cap, Arc::clone(&classes));
            let (own, lines, idle) = Default::default();
            world.workers.push(Worker { gate, own, lines, idle });
        }
        let keys = 1 + world.below(3);
        for _ in 0..3 + world.below(20) {
            let (worker, key) = (world.below(count), world.below(keys) as Key);
            world.clients.push(Client {
                worker,
                key,
                state: State::Idle,
                backend: None,
                slot: None,
            });
        }
        world
    }

    /// How many started, waited, expired and were given up.
    pub(crate) fn told(&self) -> [u64; 4] {
        [self.started, self.waited, self.expired, self.given_up]
    }

    /// Something happens.
    pub(crate) fn step(&mut self) {
        match self.below(16) {
            0..6 => self.ask(),
            6..11 => self.finish_one(),
            11..14 => self.event(),
            14 if self.below(8) == 0 => self.leave(),
            _ => self.pass_time(),
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.usize(..bound)
    }

    /// A random client of those in such a state.
    fn pick(&mut self, is_it: fn(&Client) -> bool) -> Option<ClientId> {
        let fits: Vec<_> = (0..self.clients.len()).filter(|id| is_it(&self.clients[*id])).collect();
        (!fits.is_empty()).then(|| fits[self.below(fits.len())])
    }

    /// A client wants to run a statement.
    fn ask(&mut self) {
        let Some(id) = self.pick(|client| client.state == State::Idle) else { return };
        self.claim(id);
        let Client { worker: index, key, backend, .. } = self.clients[id];
        let now = self.now;
        let is_urgent = backend.is_some() && self.below(4) == 0;
        let worker = &mut self.workers[index];
        if backend.is_some() {
            if is_urgent {
                self.clients[id].slot = Some(worker.gate.force(ASK, now));
                self.clients[id].state = State::Running { forced: true };
                self.started += 1;
            } else if let Some(slot) = worker.gate.enter_own(ASK, now) {
                assert!(worker.own.is_empty(), "overtook the line");
                self.run(id, None, slot);
            } else {
                let waiting = worker.gate.wait_own(id, ASK, now).expect("no bound");
                worker.own.push_back((id, now));
                self.wait(id, waiting);
                self.start_ready(index);
            }
        } else if let Some((backend, slot)) = worker.gate.enter(key, ASK, now, |it| suits(id, *it))
        {
            assert!(worker.lines.get(&key).is_none_or(VecDeque::is_empty), "overtook the line");
            self.run(id, Some(backend), slot);
        } else {
            let waiting = worker.gate.wait(key, id, ASK, now).expect("no bound");
            worker.lines.entry(key).or_default().push_back((id, now));
            self.wait(id, waiting);
            self.start_ready(index);
            self.provide_backends(index, key);
        }
    }

    /// Now and then a client wants a backend that it has been on before, without running on it yet.
    fn claim(&mut self, id: ClientId) {
        let Client { worker: index, key, backend, .. } = self.clients[id];
        let worker = &mut self.workers[index];
        let Some(idle) = worker.idle.get_mut(&key).filter(|idle| !idle.is_empty()) else { return };
        if backend.is_none() && self.started.is_multiple_of(8) {
            let wanted = idle.remove(self.started as usize % idle.len()).0;
            assert_eq!(worker.gate.claim(key, |backend| *backend == wanted), Some(wanted));
            self.clients[id].backend = Some(wanted);
            // Another client may have waited for a slot to run on it.
            self.pump(index);
        }
    }

    fn wait(&mut self, id: ClientId, waiting: Waiting<Key>) {
        self.clients[id].state = State::Waiting(waiting);
        self.waited += 1;
    }

    /// A client starts, on this backend if it had none.
    fn run(&mut self, id: ClientId, backend: Option<BackendId>, slot: Slot) {
        let client = &mut self.clients[id];
        assert_eq!(client.slot.replace(slot), None);
        if let Some(backend) = backend {
            let idle = self.workers[client.worker]
                .idle
                .get_mut(&client.key)
                .expect("idle backend connections");
            let look = idle.len().saturating_sub(LOOK);
            let hottest = idle[look..].iter().rposition(|(backend, _)| suits(id, *backend));
            let at = hottest.map_or(idle.len() - 1, |offset| look + offset);
            assert_eq!(idle.remove(at).0, backend, "not the hottest that suits");
            assert_eq!(client.backend.replace(backend), None);
        }
        assert!(client.backend.is_some());
        client.state = State::Running { forced: false };
        self.started += 1;
    }

    /// A gate says that a waiter starts: of those that can start, it must have waited longest.
    fn begin(&mut self, index: usize, start: Start<ClientId, BackendId>) {
        let worker = &mut self.workers[index];
        let ready = worker.idle.iter().filter(|(_, idle)| !idle.is_empty());
        let lines = ready.filter_map(|(key, _)| worker.lines.get(key)?.front());
        let longest = lines.chain(worker.own.front()).map(|(_, since)| *since).min();
        let (id, backend, slot) = match start {
            Start::Own(id, slot) => (id, None, slot),
            Start::On(id, backend, slot) => (id, Some(backend), slot),
        };
        let line = match backend {
            None => &mut worker.own,
            Some(_) => worker.lines.get_mut(&self.clients[id].key).expect("a line"),
        };
        let (first, since) = line.pop_front().expect("somebody waits");
        assert_eq!(id, first, "not the first of its line");
        assert_eq!(Some(since), longest, "another has waited longer");
        assert!(matches!(self.clients[id].state, State::Waiting(_)));
        self.run(id, backend, slot);
    }

    fn start_ready(&mut self, index: usize) {
        let now = self.now;
        while let Some(start) =
            self.workers[index].gate.next(now, |id, backend| suits(*id, *backend))
        {
            self.begin(index, start);
        }
        if self.workers[index].gate.lacks_more() {
            self.provide_all(index);
        }
        self.wake_others(index);
    }

    fn wake_others(&mut self, index: usize) {
        while let Some(other) = self.workers[index].gate.next_wake() {
            self.events.push(Event::SlotFree(other));
        }
    }

    fn pump(&mut self, index: usize) {
        self.start_ready(index);
        self.provide_all(index);
        self.workers[index].gate.return_places();
        self.wake_others(index);
    }

    fn provide_all(&mut self, index: usize) {
        let keys: Vec<_> = self.workers[index].gate.keys_waiting().collect();
        for key in keys {
            self.provide_backends(index, key);
        }
    }

    fn provide_backends(&mut self, index: usize, key: Key) {
        loop {
            match self.workers[index].gate.want(key, self.now) {
                Want::Nothing => return,
                Want::Open => self.events.push(Event::Opened(index, key)),
                Want::Close(backend) => return self.close_idle(index, backend),
                Want::Later(wait) => {
                    assert!(wait > Duration::ZERO);
                    return self.events.push(Event::Later(index));
                }
                Want::Ask => {
                    let others = self.workers[index].gate.inattentive();
                    return self.events.extend(others.into_iter().map(Event::BackendWanted));
                }
            }
        }
    }

    /// A backend that the gate has taken out ends; that takes a while. It is the oldest of its key.
    fn close_idle(&mut self, index: usize, backend: BackendId) {
        let mut lists = self.workers[index].idle.iter_mut();
        let first =
            |list: &Vec<(BackendId, Instant)>| list.first().is_some_and(|it| it.0 == backend);
        let (key, list) = lists.find(|(_, list)| first(list)).expect("the coldest of a key");
        list.remove(0);
        self.events.push(Event::Closed(index, *key, backend));
    }

    /// A statement ends. Its client may keep its backend; it may be gone, and its backend with it.
    fn finish(&mut self, id: ClientId, is_gone: bool) {
        let keeps = self.below(4) == 0;
        let client = &mut self.clients[id];
        let (index, key) = (client.worker, client.key);
        client.state = if is_gone { State::Gone } else { State::Idle };
        if is_gone || !keeps {
            let backend = client.backend.take().expect("it ran on a backend connection");
            if is_gone {
                self.events.push(Event::Closed(index, key, backend));
            } else {
                self.put(index, key, backend);
            }
        }
        let slot = self.clients[id].slot.take().expect("it ran in a slot");
        let gate = &mut self.workers[index].gate;
        if let Some(start) = gate.pass_on(slot, self.now, |id, backend| suits(*id, *backend)) {
            self.begin(index, start);
        }
        self.start_ready(index);
    }

    fn put(&mut self, index: usize, key: Key, backend: BackendId) {
        // Backends are as old as they need be, or are not.
        let age = Duration::from_millis(self.below(200) as u64);
        let worker = &mut self.workers[index];
        match worker.gate.due(key, || age) {
            Due::Here => {
                worker.gate.put(key, backend, self.now);
                worker.idle.entry(key).or_default().push((backend, self.now));
            }
            Due::Nowhere => self.events.push(Event::Closed(index, key, backend)),
            Due::Worker(other) => self.send(index, key, backend, other),
        }
    }

    /// Now and then one cannot be sent after all.
    fn send(&mut self, index: usize, key: Key, backend: BackendId, other: usize) {
        assert_ne!(index, other);
        if self.below(4) == 0 {
            self.workers[index].gate.not_sent(other);
            return self.events.push(Event::Closed(index, key, backend));
        }
        self.workers[index].gate.sent(key);
        self.events.push(Event::Arrived(other, key, backend));
    }

    fn finish_one(&mut self) {
        if let Some(id) = self.pick(|client| matches!(client.state, State::Running { .. })) {
            self.finish(id, false);
        }
    }

    /// A client goes, whatever it does.
    fn leave(&mut self) {
        let Some(id) = self.pick(|client| client.state != State::Gone) else { return };
        let Client { worker: index, key, state, .. } = self.clients[id];
        match state {
            State::Running { .. } => return self.finish(id, true),
            State::Waiting(waiting) => {
                assert_eq!(self.workers[index].gate.leave(waiting), Some(id));
                assert_eq!(self.workers[index].gate.leave(waiting), None);
                self.forget(id);
                self.look_at_idle(index);
            }
            State::Idle | State::Gone => {}
        }
        self.clients[id].state = State::Gone;
        if let Some(backend) = self.clients[id].backend.take() {
            self.events.push(Event::Closed(index, key, backend));
        }
    }

    /// Waiters have gone: an idle backend may be wanted more elsewhere.
    fn look_at_idle(&mut self, index: usize) {
        if self.workers[index].gate.may_give_idle() {
            self.events.push(Event::BackendWanted(index));
        }
    }

    /// Takes a waiter out of the model's lines.
    fn forget(&mut self, id: ClientId) {
        let worker = &mut self.workers[self.clients[id].worker];
        let lines = worker.lines.values_mut().chain([&mut worker.own]);
        let before = self.clients[id].backend.is_some();
        let mut found = 0;
        for line in lines {
            found += line.iter().filter(|(waiter, _)| *waiter == id).count();
            line.retain(|(waiter, _)| *waiter != id);
        }
        assert_eq!(found, 1, "in one line only (holding a backend connection: {before})");
        self.clients[id].state = State::Idle;
    }

    /// Something that was under way arrives.
    fn event(&mut self) {
        if self.events.is_empty() {
            return;
        }
        let at = self.below(self.events.len());
        match self.events.swap_remove(at) {
            Event::SlotFree(index) | Event::BackendFree(index) => self.pump(index),
            Event::Later(index) => {
                self.now += Duration::from_millis(5);
                self.pump(index);
            }
            Event::BackendWanted(index) => {
                while let Some((key, backend, due)) = self.workers[index].gate.give_idle(self.now) {
                    let list = self.workers[index].idle.get_mut(&key).expect("it has idle ones");
                    assert_eq!(list.remove(0).0, backend, "the coldest");
                    match due {
                        Due::Worker(other) => self.send(index, key, backend, other),
                        _ => self.events.push(Event::Closed(index, key, backend)),
                    }
                }
                if self.workers[index].gate.lacks_more() {
                    self.pump(index);
                }
            }
            Event::Arrived(index, key, backend) => {
                if self.below(8) == 0 {
                    let other = self.workers[index].gate.turned_away();
                    self.events.extend(other.map(Event::BackendFree));
                } else {
                    self.workers[index].gate.arrived(key);
                    self.put(index, key, backend);
                }
                self.pump(index);
            }
            Event::Opened(index, key) => self.opened(index, key),
            Event::Closed(index, key, backend) => {
                let other = self.workers[index].gate.closed(key, |it| *it == backend);
                self.events.extend(other.map(Event::BackendFree));
                self.pump(index);
            }
        }
    }

    fn opened(&mut self, index: usize, key: Key) {
        self.workers[index].gate.opened(key);
        if !self.has_ticks || self.below(8) > 0 {
            self.last_backend += 1;
            self.put(index, key, self.last_backend);
        } else {
            let other = self.workers[index].gate.closed(key, |_| false);
            self.events.extend(other.map(Event::BackendFree));
            while let Some(id) = self.workers[index].gate.give_up(key) {
                self.forget(id);
                self.given_up += 1;
            }
        }
        self.pump(index);
    }

    /// Time passes: what is old goes, and all waiters look again, if they do at each tick.
    fn pass_time(&mut self) {
        let passed = 1 + self.below(40) as u64;
        self.now += Duration::from_millis(passed);
        for index in 0..self.workers.len() {
            while let Some((id, refusal)) =
                self.workers[index].gate.expire_waiter(self.now, Some(WAIT_MAX))
            {
                assert!(refusal.waited >= WAIT_MAX);
                self.forget(id);
                self.expired += 1;
                self.look_at_idle(index);
            }
            while let Some(backend) = self.workers[index].gate.expire_backend(self.now, BACKEND_AGE)
            {
                self.close_idle(index, backend);
            }
            if self.has_ticks && self.workers[index].gate.waiting() > 0 {
                self.pump(index);
            }
        }
    }

    /// What must hold at any time.
    pub(crate) fn check(&self) {
        let running = |client: &&Client| matches!(client.state, State::Running { .. });
        let held = self.clients.iter().filter(running).count() as u32;
        let count = self.slots.count();
        assert_eq!((count.held, count.borrowed), (held + count.pending, 0), "slots");
        let forced = |client: &&Client| client.state == State::Running { forced: true };
        let forced = self.clients.iter().filter(forced).count() as u32;
        assert!(count.held <= self.slots.limit() + forced);

        let under_way = |event: &&Event| {
            matches!(event, Event::Opened(..) | Event::Closed(..) | Event::Arrived(..))
        };
        let granted = self.events.iter().filter(|event| matches!(event, Event::BackendFree(_)));
        let idle = self.workers.iter().flat_map(|worker| worker.idle.values()).map(Vec::len);
        let backends = self.clients.iter().filter(|client| client.backend.is_some()).count()
            + idle.sum::<usize>()
            + self.events.iter().filter(under_way).count();
        let held = self.cap.held() as usize;
        assert!(
            held >= backends && held <= backends + granted.count() + self.granted(),
            "{held}, {backends} backends"
        );
        assert!(self.cap.held() <= self.cap.limit());

        for (index, worker) in self.workers.iter().enumerate() {
            let waiting =
                worker.own.len() + worker.lines.values().map(VecDeque::len).sum::<usize>();
            assert_eq!(worker.gate.waiting(), waiting);
            let waits = |client: &&Client| matches!(client.state, State::Waiting(_));
            let mine = self.clients.iter().filter(|client| client.worker == index);
            assert_eq!(mine.filter(waits).count(), waiting, "a client is lost");
            let idle = worker.idle.values().map(Vec::len).sum::<usize>();
            assert_eq!(worker.gate.idle_backends(), idle);
        }
        if self.events.is_empty() {
            self.nobody_waits_for_nothing();
        }
    }

    /// No client asks any more: all waiters are served or refused, and all that was taken is given back.
    pub(crate) fn end(&mut self) {
        let mut rounds = 0;
        while !self.events.is_empty()
            || self.clients.iter().any(|client| !matches!(client.state, State::Idle | State::Gone))
        {
            self.finish_one();
            self.event();
            self.pass_time();
            self.check();
            rounds += 1;
            assert!(rounds < 10_000, "does not end");
        }
        while self.clients.iter().any(|client| client.state != State::Gone) {
            self.leave();
        }
        self.now += BACKEND_AGE;
        self.pass_time();
        while !self.events.is_empty() {
            self.event();
            self.check();
        }
        assert_eq!((self.slots.held(), self.cap.held()), (0, 0), "leaked");
    }

    /// ConnectionPlaces that are on their way by other mail than of backends.
    fn granted(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, Event::SlotFree(_))).count()
    }

    /// Once all mail is read, no client waits while a slot and a backend are free, even if the backend is of another
    /// key or of another worker.
    fn nobody_waits_for_nothing(&self) {
        if self.slots.held() >= self.slots.limit() {
            return;
        }
        let has_idle = |worker: &Worker| worker.idle.values().any(|idle| !idle.is_empty());
        let is_full = self.cap.held() >= self.cap.limit() && !self.workers.iter().any(has_idle);
        for worker in &self.workers {
            assert!(worker.own.is_empty(), "waits for a slot that is free");
            for (key, line) in &worker.lines {
                let is_idle = worker.idle.get(key).is_some_and(|idle| !idle.is_empty());
                assert!(line.is_empty() || !is_idle, "waits for a backend connection that is free");
                let may_wait = self.has_ticks || is_full;
                assert!(
                    line.is_empty() || may_wait,
                    "waits for a backend connection that others could do without"
                );
            }
        }
    }
}
