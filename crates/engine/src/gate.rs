//! Admission to one server: which statement may start now, which ones wait, and which one is next.
//!
//! One gate per worker and server; the slots and the places for backends behind it belong to the whole process
//! ([`Slots`], [`ConnectionPlaces`]). Clients wait first-in-first-out, backends are reused last-in-first-out. A client
//! that holds a backend (it is passed through, pinned or in a transaction) needs a slot only; one that does not needs a
//! slot and a backend of its key. A client in a transaction may hold locks that others wait for, so it is never made to
//! wait.
//!
//! Statements are served in this order: those that come back after their own client kept the server waiting; then those
//! that have waited for a second, whatever their class; then those of the class that is furthest behind its share
//! ([`classes`](crate::classes)), the oldest first, or in an overload the newest ([`overload`](crate::overload)). A
//! waiter that would wait in the server for what others wait for is set aside meanwhile ([`parked`](crate::parked)).
//!
//! Invariants: a waiter stands in one line only; a slot that is given back goes to the next waiter that can use it, in
//! this worker or in another; no client waits while a slot and a backend that suits are free.

use std::collections::VecDeque;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::classes::{ClassCounts, ClassId, Classes, Shares};
use crate::likeness::Likeness;
use crate::limit::LimitTotals;
use crate::parked::Bulkheads;
use crate::places::ConnectionPlaces;
use crate::queue::{Queue, QueuePlace};
use crate::slots::{Slots, micros};

pub use self::backends::{Due, Want};
use self::keys::Keys;
use self::lanes::{Changed, Lane};
pub use self::refusal::{Reason, Refusal};
pub use self::waiter::Ask;
use self::waiter::{Candidates, Waiter};

/// A slot that a statement has. It is given back with [`Gate::pass_on`] or [`Gate::set_down`], once.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Slot {
    ask: Ask,
    hold: Hold,
    /// Whose it is; see [`Slots::identity`].
    home: usize,
    since: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    /// One of the limit's.
    Held,
    /// Beyond the limit, if need be.
    Forced,
    /// In the place of a waiter to which a slot is on its way.
    Borrowed,
    /// None any more: the statement waits for something in the server.
    Parked,
    /// None: it must not wait, and others of its form wait in the server.
    Beyond,
}

/// Where a waiter stands, so that it can leave early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting<K> {
    lane: Lane<K>,
    place: QueuePlace,
}

/// A statement that may start now. Its slot has been taken.
#[derive(Debug, PartialEq, Eq)]
pub enum Start<W, L> {
    /// On the backend that it holds.
    Own(W, Slot),
    /// On this backend, which has been taken from the pool.
    On(W, L, Slot),
}

/// What a gate has done. Figures only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GateCounts {
    /// Slots passed to a waiter of the same worker, and granted to another worker.
    pub passed_on: u64,
    pub granted: u64,
    /// Statements that started beyond the limit: by force, and in the place of a slot that was on its way.
    pub forced: u64,
    pub borrowed: u64,
    pub parked: u64,
    /// Statements that left their slot because their own client kept the server waiting.
    pub set_down: u64,
}

/// One worker's gate. `W` stands for a waiter, `L` for a backend, `K` tells which backends suit which clients.
#[derive(Debug)]
pub struct Gate<K, W, L> {
    worker: usize,
    slots: Arc<Slots>,
    backends: Arc<ConnectionPlaces>,
    /// Statements that come back after back-pressure: they have a backend, and come before all others.
    again: Queue<Waiter<W>>,
    /// Clients that hold a backend: a line for each class.
    own: Vec<Queue<Waiter<W>>>,
    keys: Keys<K, W, L>,
    shares: Shares,
    bulkheads: Bulkheads,
    /// Tells a waiter from others of its form.
    likeness: fn(&W) -> Likeness,
    /// How often waiters that were held back have been looked at.
    looks: u32,
    /// Slots handed on within this worker since another worker was looked at.
    handed_on: u32,
    /// The same of backends.
    backends_kept: u32,
    /// Each backend that comes back may be due to a client of another worker.
    is_attentive: bool,
    /// How many lacked a backend when that was looked at last.
    lacked: usize,
    /// Backends that are being closed for clients of this worker, and the workers for which others are.
    closing: usize,
    promised: VecDeque<usize>,
    /// Workers that must be woken, because they were granted a slot or a place, or wait for their class.
    to_wake: Vec<usize>,
    totals: LimitTotals,
    counts: GateCounts,
}

/// After so many slots handed on within a worker, another one's waiter gets the slot if it is [`OLDER`] by this.
const OWN_TURNS: u32 = 8;
const OLDER: Duration = Duration::from_millis(2);

/// One that is older by this gets it at once. A worker with many slots looks often, one with few seldom: were that
/// all, the crowded workers would give too much away.
const MUCH_OLDER: Duration = Duration::from_millis(8);

/// A waiter that has waited for so long competes with the first of all classes.
const KICKED_UP: Duration = Duration::from_secs(1);

impl<K: Copy + Ord + Hash, W, L> Gate<K, W, L> {
    /// `slots` and `backends` are the process's limits on statements and on backends.
    pub fn new(
        worker: usize,
        slots: Arc<Slots>,
        backends: Arc<ConnectionPlaces>,
        classes: Arc<Classes>,
    ) -> Self {
        let keys = Keys::new(classes.len(), backends.workers() > 1);
        Self {
            worker,
            slots,
            backends,
            again: Queue::default(),
            own: (0..classes.len()).map(|_| Queue::default()).collect(),
            keys,
            shares: Shares::new(classes),
            bulkheads: Bulkheads::default(),
            likeness: |_| Likeness::default(),
            looks: 0,
            handed_on: 0,
            backends_kept: 0,
            is_attentive: false,
            lacked: 0,
            closing: 0,
            promised: VecDeque::new(),
            to_wake: Vec::new(),
            totals: LimitTotals::default(),
            counts: GateCounts::default(),
        }
    }

    /// Has waiters whose form waits in the server told apart by their values.
    pub fn tell_apart(&mut self, likeness: fn(&W) -> Likeness) {
        self.likeness = likeness;
    }

    /// Goes by other classes, which have followed those that it went by. Call [`Self::next`] afterwards.
    pub fn adopt(&mut self, classes: Arc<Classes>) {
        let count = classes.len();
        self.shares.adopt(self.worker, classes);
        self.own.resize_with(count, Queue::default);
        self.keys.resize(count);
        self.publish();
    }

    /// How many wait in this worker.
    pub fn waiting(&self) -> usize {
        self.shares.all_waiting()
    }

    /// What the limit is steered by, for this worker's part.
    pub const fn totals(&self) -> LimitTotals {
        self.totals
    }

    pub const fn counts(&self) -> GateCounts {
        self.counts
    }

    /// What each class has had of this worker, by name.
    pub fn class_counts(&self) -> impl Iterator<Item = (&str, ClassCounts)> {
        self.shares.counts()
    }

    /// The server is in distress: it has too many connections, a lock was waited for too long, a backend broke.
    pub const fn alarm(&mut self) {
        self.totals.alarms = self.totals.alarms.wrapping_add(1);
    }

    /// A worker that must be woken, so that it calls [`Self::next`]. Call until `None` after any other call.
    pub fn next_wake(&mut self) -> Option<usize> {
        self.to_wake.pop()
    }

    /// A client that holds a backend wants to start.
    pub fn enter_own(&mut self, ask: Ask, now: Instant) -> Option<Slot> {
        let is_first =
            self.shares.all_waiting() == 0 || self.again.is_empty() && self.queued(&self.own) == 0;
        self.enter_with(is_first, ask, now)
    }

    /// A client that must not wait starts, beyond the limit if need be: it may hold locks, or ends a transaction.
    pub fn force(&mut self, ask: Ask, now: Instant) -> Slot {
        self.shares.force_start(ask.class);
        self.counts.forced += 1;
        let hold = if self.bulkheads.is_closed(ask.digest) {
            // It may be stuck like the others of its form, so it takes no slot from a statement that will not.
            self.slots.go_beyond();
            Hold::Beyond
        } else {
            self.slots.force();
            Hold::Forced
        };
        self.slot(ask, hold, now)
    }

    #[inline]
    fn slot(&self, ask: Ask, hold: Hold, since: Instant) -> Slot {
        Slot { ask, hold, home: self.slots.identity(), since }
    }

    /// A client without a backend wants to start; `suits` prefers some backends.
    pub fn enter(
        &mut self,
        key: K,
        ask: Ask,
        now: Instant,
        suits: impl Fn(&L) -> bool,
    ) -> Option<(L, Slot)> {
        let keyed = self.keys.get(key).filter(|keyed| !keyed.idle.is_empty())?;
        let is_first = keyed.is_quiet() || self.queued(&keyed.queues) == 0;
        let slot = self.enter_with(is_first, ask, now)?;
        let backend = self.keys.take_idle(key, suits)?;
        Some((backend, slot))
    }

    #[inline]
    fn enter_with(&mut self, is_first: bool, ask: Ask, now: Instant) -> Option<Slot> {
        // Where others of its form wait in the server, it takes the way of those that wait here.
        let may_start = self.bulkheads.is_open(ask.digest) && self.shares.may_start(ask.class);
        if !may_start {
            return None;
        }
        let hold = if is_first && self.slots.try_take() { Hold::Held } else { self.borrow(now)? };
        if self.shares.try_start(ask.class) {
            return Some(self.slot(ask, hold, now));
        }
        self.return_slot(hold);
        None
    }

    // Apart, so that the code path of a statement that finds a free slot is short.
    #[inline(never)]
    fn borrow(&mut self, now: Instant) -> Option<Hold> {
        let is_borrowed = self.slots.try_borrow(now);
        self.counts.borrowed += u64::from(is_borrowed);
        is_borrowed.then_some(Hold::Borrowed)
    }

    /// Joins the line of the clients that hold a backend. Call [`Self::next`] afterwards.
    pub fn wait_own(&mut self, waiter: W, ask: Ask, now: Instant) -> Result<Waiting<K>, Full<W>> {
        let waiter = self.join(waiter, ask)?;
        let at = self.class_index(ask);
        let place = self.own[at].push(waiter, now);
        self.publish();
        Ok(Waiting { lane: Lane::Own(at), place })
    }

    /// Joins the line of a key. Call [`Self::next`] and [`Self::want`] afterwards.
    pub fn wait(
        &mut self,
        key: K,
        waiter: W,
        ask: Ask,
        now: Instant,
    ) -> Result<Waiting<K>, Full<W>> {
        let waiter = self.join(waiter, ask)?;
        let at = self.class_index(ask);
        let place = self.keys.change_new(key, |keyed| keyed.queues[at].push(waiter, now));
        self.publish();
        Ok(Waiting { lane: Lane::Key(key, at), place })
    }

    /// Joins the line of a key at its head: a client whose statement was sent, and must be sent again.
    pub fn wait_again(&mut self, key: K, waiter: W, ask: Ask, now: Instant) -> Waiting<K> {
        self.shares.joins(ask.class);
        let at = self.class_index(ask);
        let waiter = Waiter { waiter, ask, likeness: None };
        let place = self.keys.change_new(key, |keyed| keyed.queues[at].push_first(waiter, now));
        self.publish();
        Waiting { lane: Lane::Key(key, at), place }
    }

    /// A client whose reply was held up by itself, and whose slot was left, reads on: its statement needs a slot
    /// again, and comes before all others. Its digest says nothing, since only a part of it is still to run. Call
    /// [`Self::next`] afterwards.
    pub fn come_back(&mut self, waiter: W, ask: Ask, now: Instant) -> Waiting<K> {
        self.shares.joins(ask.class);
        let place = self.again.push(Waiter { waiter, ask, likeness: None }, now);
        self.publish();
        Waiting { lane: Lane::Again, place }
    }

    /// Leaves the line, because the client is gone. `None` if it was served already. Ask [`Self::may_give_idle`]
    /// afterwards.
    pub fn leave(&mut self, waiting: Waiting<K>) -> Option<W> {
        let waiter = self.change(waiting.lane, |queue| queue.leave(waiting.place))??;
        self.left(waiter.ask);
        Some(waiter.waiter)
    }

    /// Starts the next waiter. Call until `None` after anything was given back or put in.
    pub fn next(&mut self, now: Instant, suits: impl Fn(&W, &L) -> bool) -> Option<Start<W, L>> {
        loop {
            let is_granted = self.slots.claim(self.worker);
            let is_wanted = self.shares.all_waiting() > 0;
            let is_free = || self.slots.held() < self.slots.limit();
            let may_take =
                is_granted || is_wanted && is_free() && self.has_ready() && self.slots.try_take();
            if !may_take {
                return None;
            }
            if let Some(start) = self.start_next(now, &suits) {
                return Some(start);
            }
            // No waiter here can use it. A waiter of another worker may, and that worker must not think that one here
            // can.
            self.publish();
            self.return_slot(Hold::Held);
            if !is_granted {
                return None;
            }
        }
    }

    /// Ends a statement: its slot passes straight to the next waiter here, or to another worker. Call [`Self::next`]
    /// until `None`, and [`Self::next_wake`], afterwards.
    #[allow(clippy::needless_pass_by_value, reason = "a slot is given back once")]
    pub fn pass_on(
        &mut self,
        slot: Slot,
        now: Instant,
        suits: impl Fn(&W, &L) -> bool,
    ) -> Option<Start<W, L>> {
        let (ask, hold, since) = slot.open();
        let took = micros(now.saturating_duration_since(since));
        self.ended(ask, hold, took, now);
        let (start, is_followed) = match hold {
            Hold::Held | Hold::Forced => self.pass(now, suits),
            hold => {
                self.return_slot(hold);
                (None, self.has_ready())
            }
        };
        self.totals.add(took, is_followed);
        start
    }

    /// A statement's own client keeps the server waiting: its slot passes to the next waiter, until the statement comes
    /// back. It has not ended, so nothing is learnt of it. Call [`Self::next`] until `None`, and [`Self::next_wake`],
    /// afterwards.
    #[allow(clippy::needless_pass_by_value, reason = "a slot is given back once")]
    pub fn set_down(
        &mut self,
        slot: Slot,
        now: Instant,
        suits: impl Fn(&W, &L) -> bool,
    ) -> Option<Start<W, L>> {
        let (ask, hold, since) = slot.open();
        let took = micros(now.saturating_duration_since(since));
        self.charge(ask.class, took);
        if hold == Hold::Parked {
            self.bulkheads.unpark(ask.digest, ask.trial);
        } else {
            self.bulkheads.set_down(ask.trial);
        }
        self.bring_back(ask.digest, Changed::Waits);
        self.counts.set_down += 1;
        match hold {
            Hold::Held | Hold::Forced => self.pass(now, suits).0,
            hold => {
                self.return_slot(hold);
                None
            }
        }
    }

    /// The statement behind on the same backend has begun, in the slot of the one before it.
    pub fn renew(&mut self, slot: &mut Slot, ask: Ask, now: Instant) {
        let took = micros(now.saturating_duration_since(slot.since));
        self.ended(slot.ask, slot.hold, took, now);
        self.totals.add(took, true);
        self.shares.force_start(ask.class);
        let hold = match slot.hold {
            Hold::Parked | Hold::Beyond => {
                self.return_slot(slot.hold);
                self.slots.force();
                Hold::Held
            }
            hold => hold,
        };
        (slot.ask, slot.hold, slot.since) = (ask, hold, now);
    }

    /// Whether a waiter, here or in another worker, lacks nothing but a slot.
    pub fn wants_slot(&self, now: Instant) -> bool {
        self.has_ready() || self.has_aside() || self.slots.older(self.worker, now, OLDER).is_some()
    }

    /// Takes the head of a key's line, whose statement is to be written to a busy backend behind others: it needs no
    /// slot of its own, as it will run on theirs. `suits` says whether it may.
    ///
    /// `None` if a waiter in another line comes first and could have the slot, or another worker is due, or the limit
    /// has fallen: a backend that always has a next statement would never leave its slot.
    pub fn take_ahead(
        &mut self,
        key: K,
        now: Instant,
        suits: impl Fn(&W) -> bool,
    ) -> Option<(W, Ask)> {
        // A limit of none is a pause: what runs is to come to an end.
        if self.slots.limit() == 0 || self.slots.held() > self.slots.limit() {
            return None;
        }
        let lane = self.best(now, Candidates::All)?;
        let queue = self.queue(lane)?;
        let (head, since) = (queue.head()?, queue.head_since()?);
        let is_one = matches!(lane, Lane::Key(of, _) if of == key) && suits(&head.waiter);
        // One that may wait in the server would make those behind it wait as well.
        if !is_one || head.likeness.is_some() {
            return None;
        }
        if self.older_elsewhere(since).is_some() || self.is_backend_wanted(key, since) {
            return None;
        }
        let (Waiter { waiter, ask, .. }, _) = self.change(lane, Queue::pop)??;
        self.left(ask);
        Some((waiter, ask))
    }

    /// Takes out a waiter that has waited too long: for its class, for all (`wait_max`), or for the overload there is. Ask
    /// [`Self::may_give_idle`] behind the last one.
    pub fn expire_waiter(
        &mut self,
        now: Instant,
        wait_max: Option<Duration>,
    ) -> Option<(W, Refusal)> {
        let (lane, is_aside, refusal) = self.first_late(now, wait_max)?;
        let pop = if is_aside { Queue::pop_aside } else { Queue::pop };
        let (Waiter { waiter, ask, .. }, _) = self.change(lane, pop)??;
        self.left(ask);
        self.shares.refuses(ask.class);
        let behind = if is_aside { self.bulkheads.parked_of(ask.digest) } else { 0 };
        Some((waiter, Refusal { behind, ..refusal }))
    }

    /// Starts the next waiter in a slot that has been taken.
    fn start_next(&mut self, now: Instant, suits: impl Fn(&W, &L) -> bool) -> Option<Start<W, L>> {
        loop {
            let lane = self.best(now, Candidates::Ready)?;
            let ask = self.first_of(lane)?.ask;
            if self.shares.try_start(ask.class) {
                return Some(self.start_first(lane, now, suits));
            }
        }
    }

    /// Passes a held slot on. The second part of the answer is whether a statement has waited for it.
    fn pass(
        &mut self,
        now: Instant,
        suits: impl Fn(&W, &L) -> bool,
    ) -> (Option<Start<W, L>>, bool) {
        if self.shares.all_waiting() == 0 {
            // No statement waits here; others may wait in other workers, which giving back looks at.
            return (None, self.return_slot(Hold::Held));
        }
        if self.slots.held() > self.slots.limit() {
            let is_followed = self.has_ready();
            self.return_slot(Hold::Held);
            return (None, is_followed);
        }
        let oldest = self.oldest_ready().unwrap_or(now);
        if let Some(other) = self.older_elsewhere(oldest) {
            self.handed_on = 0;
            self.slots.grant(other);
            self.counts.granted += 1;
            self.to_wake.push(other);
            return (None, true);
        }
        if let Some(start) = self.start_next(now, suits) {
            self.counts.passed_on += 1;
            return (Some(start), true);
        }
        self.publish();
        (None, self.return_slot(Hold::Held))
    }

    /// The worker to whose oldest waiter the next slot is due, because it is older than `since`, the oldest here.
    fn older_elsewhere(&mut self, since: Instant) -> Option<usize> {
        self.handed_on += 1;
        let is_turn_over = self.handed_on >= OWN_TURNS;
        let by = if is_turn_over { OLDER } else { MUCH_OLDER };
        let older = self.slots.older(self.worker, since, by);
        if is_turn_over && older.is_none() {
            self.handed_on = 0;
        }
        older
    }

    /// Gives back a slot that no waiter here can use. Returns whether another worker gets it.
    fn return_slot(&mut self, hold: Hold) -> bool {
        match hold {
            Hold::Held | Hold::Forced => {
                let Some(other) = self.slots.give_back(self.worker) else { return false };
                self.counts.granted += 1;
                self.to_wake.push(other);
                return true;
            }
            Hold::Borrowed => self.slots.give_back_borrowed(),
            Hold::Parked => self.slots.unpark(),
            Hold::Beyond => self.slots.come_from_beyond(),
        }
        false
    }

    /// A statement has ended after so many microseconds: its class is charged, and its form learnt.
    #[inline]
    fn ended(&mut self, ask: Ask, hold: Hold, took: u64, now: Instant) {
        self.charge(ask.class, took);
        let changed = match hold {
            Hold::Parked => {
                self.bulkheads.unpark(ask.digest, ask.trial);
                Changed::Waits
            }
            // It may have waited all the same: its time is not learnt.
            Hold::Beyond => Changed::Trials,
            _ => {
                self.bulkheads.ended(ask.digest, ask.trial, took, now);
                Changed::Trials
            }
        };
        self.bring_back(ask.digest, changed);
    }

    fn charge(&mut self, class: ClassId, took: u64) {
        if let Some(other) = self.shares.ended(self.worker, class, took) {
            self.to_wake.push(other);
        }
    }

    fn start_first(
        &mut self,
        lane: Lane<K>,
        now: Instant,
        suits: impl Fn(&W, &L) -> bool,
    ) -> Start<W, L> {
        const READY: &str = "the best lane has a waiter, and a backend connection if it needs one";
        let order = self.order(lane);
        let pop = |queue: &mut Queue<_>| (queue.head_since(), order.pop(queue).expect(READY).0);
        let (since, Waiter { waiter, mut ask, likeness }, backend) = match lane {
            Lane::Key(key, class) => {
                let taken = self.keys.change(key, |keyed| {
                    let (since, next) = pop(&mut keyed.queues[class]);
                    let backend =
                        keyed.idle.take(|backend| suits(&next.waiter, backend)).expect(READY);
                    (since, next, Some(backend))
                });
                taken.expect(READY)
            }
            _ => {
                let (since, next) = self.change(lane, pop).expect(READY);
                (since, next, None)
            }
        };
        self.shares.see(ask.class, since, now);
        self.left(ask);
        if let Some(likeness) = likeness {
            ask.trial = self.bulkheads.begin(ask.digest, *likeness, now);
        }
        let slot = self.slot(ask, Hold::Held, now);
        match backend {
            Some(backend) => Start::On(waiter, backend, slot),
            None => Start::Own(waiter, slot),
        }
    }
}

/// A class's line is full: the waiter, and what to tell it.
pub type Full<W> = (W, Refusal);

mod backends;
pub mod dropped;
mod keys;
mod lanes;
mod refusal;
mod stuck;
mod waiter;

#[cfg(test)]
mod tests;
