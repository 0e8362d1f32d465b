//! A Flifo of the world: the engine's gates, one for each worker, and whatever sets their limit.
//!
//! Plays the proxy's part around a gate, and decides nothing that the gate decides.

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::classes::{Class, ClassId, Classes};
use engine::gate::{Ask, Gate, GateCounts, Slot, Start};
use engine::intent::Digest;
use engine::limit::{Auto, LimitBounds, LimitTotals, Rhythm};
use engine::places::ConnectionPlaces;
use engine::slots::Slots;

use super::others::{Other, Seen};

/// Which clients in a transaction enter at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locks {
    /// None: the gate knows of no locks. For comparison; it must not end well.
    Ignored,
    /// All clients in a transaction.
    Known,
}

/// What sets the limit.
#[derive(Debug)]
pub enum Steering {
    Fixed,
    /// The engine's own. Its clock is off by so many milliseconds.
    Auto {
        auto: Box<Auto>,
        skew: f64,
    },
    Other {
        other: Box<dyn Other>,
        before: LimitTotals,
        at: f64,
    },
}

/// One process.
#[derive(Debug)]
pub struct Process {
    pub(super) slots: Arc<Slots>,
    pub(super) gates: Vec<Gate<u8, usize, u32>>,
    pub(super) steering: Steering,
    /// How the clients are spread over the workers: the share of each.
    pub(super) spread: Vec<f64>,
    /// Between the proxy and the server and back.
    pub(super) round_trip: f64,
    /// Mean time until a worker reads its mail.
    pub(super) mail: f64,
    pub(super) locks: Locks,
    /// How often stuck statements are looked for, if at all.
    pub(super) look: Option<f64>,
    /// Its share of the clients, beside those of the other processes.
    pub(super) share: f64,
    /// Mails that have not been read.
    pub(super) under_way: usize,
    origin: Instant,
}

/// What has come to run: a client, in a slot, and on this backend if it had none.
pub(super) type Begun = (usize, Option<u32>, Slot);

/// Backends that each worker has, more than it can use.
const BACKENDS: u32 = 1024;

const KEY: u8 = 0;

/// When the world begins, on its wall clock.
const EPOCH: Duration = Duration::from_secs(1_800_000_000);

impl Process {
    pub fn fixed(limit: u32, workers: usize) -> Self {
        Self::new(limit, workers, vec![Class::default()])
    }

    /// With classes; the clients are all of the first.
    pub fn new(limit: u32, workers: usize, classes: Vec<Class>) -> Self {
        let origin = Instant::now();
        let slots = Arc::new(Slots::new(limit, workers, origin));
        let backends = Arc::new(ConnectionPlaces::new(BACKENDS * workers as u32, workers, origin));
        let classes = Arc::new(Classes::new(classes, workers));
        let gate = |worker| {
            let shared = (Arc::clone(&slots), Arc::clone(&backends), Arc::clone(&classes));
            let mut gate = Gate::new(worker, shared.0, shared.1, shared.2);
            (0..BACKENDS).for_each(|backend| gate.put(KEY, backend, origin));
            gate
        };
        Self {
            gates: (0..workers).map(gate).collect(),
            slots,
            steering: Steering::Fixed,
            spread: vec![1.0; workers],
            round_trip: 0.0,
            mail: 0.0,
            locks: Locks::Known,
            look: None,
            share: 1.0,
            under_way: 0,
            origin,
        }
    }

    /// The limit that finds itself.
    pub fn auto(start: u32, rhythm: Rhythm, skew: f64) -> Self {
        let floor = if rhythm == Rhythm::Clock { 1 } else { 2 };
        let bounds = LimitBounds { floor, ceiling: 400, start, rest: start };
        let auto = Box::new(Auto::new(bounds, rhythm, EPOCH));
        let mut process = Self::fixed(auto.limit(), 1);
        process.steering = Steering::Auto { auto, skew };
        process
    }

    /// Another way to find one.
    pub fn other(start: u32, other: Box<dyn Other>) -> Self {
        let mut process = Self::fixed(start, 1);
        process.steering = Steering::Other { other, before: LimitTotals::default(), at: 0.0 };
        process
    }

    /// On a network, with workers that take so long to read their mail.
    #[must_use]
    pub fn away(mut self, round_trip: f64, mail: f64) -> Self {
        (self.round_trip, self.mail) = (round_trip, mail);
        self
    }

    #[must_use]
    pub fn with_locks(mut self, locks: Locks) -> Self {
        self.locks = locks;
        self
    }

    /// Parks statements that seem stuck, and looks for them so often.
    #[must_use]
    pub fn parking(mut self, every: f64) -> Self {
        self.look = Some(every);
        self
    }

    /// New statements borrow slots as long as no statement has waited for longer than this.
    #[must_use]
    pub fn borrowing(self, wait: f64) -> Self {
        self.slots.let_borrow(Duration::from_secs_f64(wait / 1000.0));
        self
    }

    /// Which share of its clients each worker has.
    #[must_use]
    pub fn spread(mut self, spread: Vec<f64>) -> Self {
        assert_eq!(spread.len(), self.gates.len());
        self.spread = spread;
        self
    }

    #[must_use]
    pub const fn with_share(mut self, share: f64) -> Self {
        self.share = share;
        self
    }

    pub(super) fn at(&self, time: f64) -> Instant {
        self.origin + Duration::from_nanos((time * 1e6) as u64)
    }

    /// A client asks. `None`: it waits, or is refused.
    pub(super) fn enter(&mut self, asks: &Asks, now: f64) -> Result<Option<Begun>, ()> {
        let (now, client) = (self.at(now), asks.client);
        let ask = Ask::new(ClassId::default(), Some(Digest::new(asks.kind)));
        let gate = &mut self.gates[asks.worker];
        let is_pinned = asks.has_backend;
        if is_pinned && asks.may_hold_locks && self.locks == Locks::Known {
            return Ok(Some((client, None, gate.force(ask, now))));
        }
        let begun = if is_pinned {
            gate.enter_own(ask, now).map(|slot| (client, None, slot))
        } else {
            gate.enter(KEY, ask, now, |_| true).map(|(backend, slot)| (client, Some(backend), slot))
        };
        if begun.is_some() {
            return Ok(begun);
        }
        let waits = match is_pinned {
            true => gate.wait_own(client, ask, now),
            false => gate.wait(KEY, client, ask, now),
        };
        waits.map(|_| None).map_err(|_| ())
    }

    /// A statement has ended; its backend is free if it is told.
    pub(super) fn leave(
        &mut self,
        worker: usize,
        slot: Slot,
        backend: Option<u32>,
        now: f64,
    ) -> Option<Begun> {
        let now = self.at(now);
        let gate = &mut self.gates[worker];
        if let Some(backend) = backend {
            gate.put(KEY, backend, now);
        }
        gate.pass_on(slot, now, |_, _| true).map(begun)
    }

    pub(super) fn next(&mut self, worker: usize, now: f64) -> Option<Begun> {
        let now = self.at(now);
        self.gates[worker].next(now, |_, _| true).map(begun)
    }

    /// Parks this slot's statement if it seems stuck.
    pub(super) fn look_at(&mut self, worker: usize, slot: &mut Slot, now: f64) -> Option<Begun> {
        let now = self.at(now);
        let gate = &mut self.gates[worker];
        if gate.waiting() == 0 || !gate.seems_stuck(slot, now) {
            return None;
        }
        gate.park(slot, now, |_, _| true).map(begun)
    }

    /// Takes out a client that has waited too long.
    pub(super) fn expire(&mut self, worker: usize, now: f64, most: Duration) -> Option<usize> {
        let now = self.at(now);
        self.gates[worker].expire_waiter(now, Some(most)).map(|(client, _)| client)
    }

    /// How often it is ticked, in milliseconds.
    pub(super) const fn tick_every(&self) -> f64 {
        match self.steering {
            Steering::Fixed | Steering::Auto { .. } => 20.0,
            Steering::Other { .. } => 100.0,
        }
    }

    /// Sets the limit. The answer is the workers that must look.
    pub(super) fn tick(&mut self, now: f64) -> Vec<usize> {
        let totals = self.totals();
        let at = self.at(now);
        let is_waiting = self.gates.iter().any(|gate| gate.wants_slot(at));
        let line = is_waiting.then(|| self.slots.held());
        let limit = match &mut self.steering {
            Steering::Fixed => return Vec::new(),
            Steering::Auto { auto, skew } => {
                // A clock may be behind.
                let clock = Duration::from_secs_f64((now + *skew).max(0.0) / 1000.0);
                auto.tick(EPOCH + clock, totals, line)
            }
            Steering::Other { other, before, at } => {
                let window = totals.since(*before);
                let (held, limit) = (self.slots.held(), self.slots.limit());
                let seen = Seen { window, time: now - *at, held, limit };
                (*before, *at) = (totals, now);
                other.window(seen)
            }
        };
        self.slots.set_limit(limit, |_| {});
        (0..self.gates.len()).collect()
    }

    pub(super) fn totals(&self) -> LimitTotals {
        self.gates.iter().map(Gate::totals).fold(LimitTotals::default(), LimitTotals::plus)
    }

    pub(super) fn counts(&self) -> Vec<GateCounts> {
        self.gates.iter().map(Gate::counts).collect()
    }

    pub(super) fn limit(&self) -> u32 {
        self.slots.limit()
    }

    /// What must hold after every event. `running`: clients that have a slot, had one and are parked, or go without.
    pub(super) fn check(&self, running: usize) {
        let count = self.slots.count();
        let without = self.slots.parked() + self.slots.beyond();
        let in_slots = (count.held + count.borrowed + without) as usize;
        assert_eq!(in_slots, running + count.pending as usize, "a slot is lost: {count:?}");
        assert!(count.pending <= count.held && count.borrowed <= 2 * self.limit(), "{count:?}");
        let waiting: usize = self.gates.iter().map(Gate::waiting).sum();
        let is_quiet = self.under_way == 0 && self.slots.parked() == 0;
        assert!(
            waiting == 0 || !is_quiet || count.held >= self.limit(),
            "{waiting} wait for nothing: {count:?} of {}",
            self.limit()
        );
    }
}

/// What a client wants.
#[derive(Debug)]
pub(super) struct Asks {
    pub(super) client: usize,
    pub(super) worker: usize,
    pub(super) kind: u64,
    pub(super) has_backend: bool,
    pub(super) may_hold_locks: bool,
}

fn begun(start: Start<usize, u32>) -> Begun {
    match start {
        Start::Own(client, slot) => (client, None, slot),
        Start::On(client, backend, slot) => (client, Some(backend), slot),
    }
}
