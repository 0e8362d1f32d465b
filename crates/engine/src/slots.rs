//! The slots of one server: how many statements of the whole process run at once, and which worker gets the next slot.
//!
//! Shared by all workers through atomics and never locked. Waiters stay in their own worker's memory; what other
//! workers must know of them (how many, since when) is published here. If none of a worker's own waiters can use a slot
//! that is left, the worker grants it to another worker: exactly one grant for each slot, and the slot stays held on
//! the way.
//!
//! A grant takes a while to arrive. As many new statements as there are grants on their way may start beyond the limit
//! instead, if the oldest waiter has not waited long: they *borrow* (the note's fifo-pending and lifo-running).
//!
//! Invariants: held slots are at most the limit, but for those that were forced or taken before it fell; borrowed ones
//! are at most as many as there were grants on their way; a waiter that is published sees a free slot, or is seen by
//! the worker that frees one.

use std::time::{Duration, Instant};

use crate::sync::{AtomicU32, AtomicU64, Ordering::SeqCst};

/// The slots. One for each server and process.
#[derive(Debug)]
pub struct Slots {
    /// The limit, with [`PAUSED`].
    limit: AtomicU32,
    /// Held, pending and borrowed slots in one word, so that each comparison of two of them is one exchange.
    word: Apart<AtomicU64>,
    /// Statements that run outside of the limit, because they have been waiting in the server for something.
    parked: AtomicU32,
    /// Statements that run outside of the limit, because they must not wait and others of their form do in the server.
    beyond: AtomicU32,
    /// How many wait for locks in the server, as it says itself.
    waits: AtomicU32,
    /// For how long the oldest may have waited while others borrow, in microseconds; zero forbids it.
    borrow: AtomicU64,
    origin: Instant,
    workers: Box<[Apart<Waiters>]>,
}

/// What a worker tells of its waiters that lack nothing but a slot.
#[derive(Debug)]
struct Waiters {
    count: AtomicU32,
    /// Since when the oldest of them waits, in microseconds since the origin.
    since: AtomicU64,
    /// Slots that were granted to it and that it has not claimed yet.
    granted: AtomicU32,
}

/// On a cache line of its own, and not beside one that is fetched with it.
#[derive(Debug)]
#[repr(align(128))]
struct Apart<T>(T);

/// What the word counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Slots taken, those on their way included.
    pub held: u32,
    /// Granted to a worker that has not claimed them yet.
    pub pending: u32,
    /// Statements that run beyond the limit in the meantime.
    pub borrowed: u32,
}

const HELD: u64 = 1;
const PENDING: u64 = 1 << 20;
const BORROWED: u64 = 1 << 40;
const MASK: u64 = PENDING - 1;

/// A flag beside the limit: the limit is kept, and no statement gets a slot.
const PAUSED: u32 = 1 << 31;

/// No statement waits.
const NEVER: u64 = u64::MAX;

impl Slots {
    /// # Panics
    /// If `limit` is zero: nothing could ever run. The configuration has refused it.
    pub fn new(limit: u32, workers: usize, now: Instant) -> Self {
        assert!(limit > 0);
        let nobody = || Waiters {
            count: AtomicU32::new(0),
            since: AtomicU64::new(NEVER),
            granted: AtomicU32::new(0),
        };
        Self {
            limit: AtomicU32::new(limit.min(PAUSED - 1)),
            word: Apart(AtomicU64::new(0)),
            parked: AtomicU32::new(0),
            beyond: AtomicU32::new(0),
            waits: AtomicU32::new(u32::MAX),
            borrow: AtomicU64::new(0),
            origin: now,
            workers: (0..workers).map(|_| Apart(nobody())).collect(),
        }
    }

    /// Tells them from the slots of other servers, for as long as they are there.
    #[inline]
    pub fn identity(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// None while it is paused.
    pub fn limit(&self) -> u32 {
        let limit = self.limit.load(SeqCst);
        if limit < PAUSED { limit } else { 0 }
    }

    /// How many are held.
    pub fn held(&self) -> u32 {
        self.count().held
    }

    pub fn count(&self) -> Count {
        Count::of(self.word.0.load(SeqCst))
    }

    pub fn parked(&self) -> u32 {
        self.parked.load(SeqCst)
    }

    /// Statements that must not wait, of a form that waits in the server, and that have not been seen to wait.
    pub fn beyond(&self) -> u32 {
        self.beyond.load(SeqCst)
    }

    /// New statements may borrow while no waiter has waited for longer than this; zero switches borrowing off.
    pub fn let_borrow(&self, wait: Duration) {
        self.borrow.store(micros(wait), SeqCst);
    }

    /// Sets the limit. What is freed by a higher one is granted at once; `wake` gets each worker that must claim.
    pub fn set_limit(&self, limit: u32, mut wake: impl FnMut(usize)) {
        self.change_limit(|before| before & PAUSED | limit.clamp(1, PAUSED - 1));
        self.grant_free(&mut wake);
    }

    /// While it is paused no statement gets a slot, except those that must not wait. `wake` as above.
    pub fn pause(&self, paused: bool, mut wake: impl FnMut(usize)) {
        self.change_limit(|before| if paused { before | PAUSED } else { before & !PAUSED });
        self.grant_free(&mut wake);
    }

    fn change_limit(&self, change: impl Fn(u32) -> u32) {
        let changed = self.limit.fetch_update(SeqCst, SeqCst, |before| Some(change(before)));
        debug_assert!(changed.is_ok(), "each limit can be changed");
    }

    fn grant_free(&self, wake: &mut impl FnMut(usize)) {
        while let Some(worker) = self.oldest_waiting(None) {
            if !self.try_take() {
                break;
            }
            self.grant(worker);
            wake(worker);
        }
    }

    /// Takes one if the limit allows.
    pub fn try_take(&self) -> bool {
        let limit = self.limit();
        let take = |word| (Count::of(word).held < limit).then_some(word + HELD);
        self.word.0.fetch_update(SeqCst, SeqCst, take).is_ok()
    }

    /// Takes one beyond the limit, for a statement that must not wait.
    pub fn force(&self) {
        self.word.0.fetch_add(HELD, SeqCst);
    }

    /// Starts a new statement in the place of a waiter whose slot is on its way.
    pub fn try_borrow(&self, now: Instant) -> bool {
        let patience = self.borrow.load(SeqCst);
        if patience == 0 || self.count().pending == 0 {
            return false;
        }
        let oldest = self.workers.iter().map(|it| it.0.since.load(SeqCst)).min();
        if oldest.is_some_and(|since| since.saturating_add(patience) < self.at(now)) {
            return false;
        }
        let borrow = |word| {
            let count = Count::of(word);
            (count.borrowed < count.pending).then_some(word + BORROWED)
        };
        self.word.0.fetch_update(SeqCst, SeqCst, borrow).is_ok()
    }

    /// Ends what was borrowed. No worker is to be woken: the slot for which it stood has arrived, or will.
    pub fn give_back_borrowed(&self) {
        let before = self.word.0.fetch_sub(BORROWED, SeqCst);
        debug_assert!(Count::of(before).borrowed > 0, "more given back than borrowed");
    }

    /// Gives one back, or passes it to another worker whose waiters have waited longest. The answer must be woken.
    #[inline]
    #[must_use]
    pub fn give_back(&self, worker: usize) -> Option<usize> {
        if self.workers.len() > 1 {
            return self.give_back_among(worker);
        }
        self.put_back();
        None
    }

    fn give_back_among(&self, worker: usize) -> Option<usize> {
        if self.count().held <= self.limit()
            && let Some(other) = self.oldest_waiting(Some(worker))
        {
            self.grant(other);
            return Some(other);
        }
        self.put_back();
        // Both sides publish first and look second, so one of them sees the other.
        let other = self.oldest_waiting(Some(worker))?;
        self.try_take().then(|| {
            self.grant(other);
            other
        })
    }

    fn put_back(&self) {
        let before = self.word.0.fetch_sub(HELD, SeqCst);
        debug_assert!(Count::of(before).held > 0, "more given back than taken");
    }

    /// Passes a held slot to this worker, which must be woken.
    pub fn grant(&self, worker: usize) {
        self.word.0.fetch_add(PENDING, SeqCst);
        self.workers[worker].0.granted.fetch_add(1, SeqCst);
    }

    /// Claims a slot that was granted to this worker: from now on it is held like any other.
    pub fn claim(&self, worker: usize) -> bool {
        let granted = &self.workers[worker].0.granted;
        // Only the worker itself takes any away.
        if granted.load(SeqCst) == 0 {
            return false;
        }
        granted.fetch_sub(1, SeqCst);
        self.word.0.fetch_sub(PENDING, SeqCst);
        true
    }

    /// So many statements wait for locks in the server: no more than that are parked. Until this is told once, any
    /// that seems stuck may be.
    pub fn see_waits(&self, waits: u32) {
        self.waits.store(waits, SeqCst);
    }

    /// A statement that must not wait starts without a slot.
    pub fn go_beyond(&self) {
        self.beyond.fetch_add(1, SeqCst);
    }

    /// It has ended, or is parked.
    pub fn come_from_beyond(&self) {
        self.beyond.fetch_sub(1, SeqCst);
    }

    /// A statement waits in the server for something: its slot is free for another, and it goes on without one.
    /// False: too many are parked already, and it keeps its slot. One that was let in beyond the limit is in the
    /// server anyway.
    #[must_use]
    pub fn try_park(&self, is_beyond: bool) -> bool {
        let waits = self.waits.load(SeqCst);
        let is_told = waits != u32::MAX;
        let most = match is_beyond || is_told {
            true => waits,
            false => self.limit().saturating_mul(PARKED),
        };
        let park = |parked| (parked < most).then_some(parked + 1);
        self.parked.fetch_update(SeqCst, SeqCst, park).is_ok()
    }

    /// A parked statement has ended.
    pub fn unpark(&self) {
        self.parked.fetch_sub(1, SeqCst);
    }

    /// The worker other than this one whose waiters have waited longest, without those for whom a slot is on its way.
    pub fn oldest_other(&self, worker: usize) -> Option<usize> {
        self.oldest_waiting(Some(worker))
    }

    /// Another worker whose oldest waiter came before `since`, by this or more.
    pub fn older(&self, worker: usize, since: Instant, by: Duration) -> Option<usize> {
        let other = self.oldest_waiting(Some(worker))?;
        let theirs = self.workers[other].0.since.load(SeqCst);
        (theirs.saturating_add(micros(by)) < self.at(since)).then_some(other)
    }

    fn oldest_waiting(&self, but: Option<usize>) -> Option<usize> {
        if but.is_some() && self.workers.len() == 1 {
            return None;
        }
        let waits = |it: &Waiters| it.count.load(SeqCst) > it.granted.load(SeqCst);
        let workers = self.workers.iter().enumerate();
        workers
            .filter(|(index, it)| Some(*index) != but && waits(&it.0))
            .min_by_key(|(_, it)| it.0.since.load(SeqCst))
            .map(|(index, _)| index)
    }

    /// Publishes how many of this worker's own wait for nothing but a slot, and since when the oldest of them does.
    /// Call [`Self::try_take`] once more afterwards.
    pub fn publish(&self, worker: usize, count: usize, oldest: Option<Instant>) {
        if !self.is_told() {
            return;
        }
        let waiters = &self.workers[worker].0;
        waiters.since.store(oldest.map_or(NEVER, |since| self.at(since)), SeqCst);
        waiters.count.store(u32::try_from(count).unwrap_or(u32::MAX), SeqCst);
    }

    /// Whether what is published is read at all: by other workers, or to decide about borrowing.
    pub fn is_told(&self) -> bool {
        self.workers.len() > 1 || self.borrow.load(SeqCst) > 0
    }

    pub fn workers(&self) -> u32 {
        self.workers.len() as u32
    }

    /// Whether slots have been granted to this worker that it has not claimed.
    pub fn is_granted(&self, worker: usize) -> bool {
        self.workers[worker].0.granted.load(SeqCst) > 0
    }

    fn at(&self, time: Instant) -> u64 {
        micros(time.saturating_duration_since(self.origin))
    }
}

/// Where the server does not tell how many wait, at most so many times the limit are parked.
const PARKED: u32 = 4;

impl Count {
    const fn of(word: u64) -> Self {
        Self {
            held: (word & MASK) as u32,
            pending: ((word / PENDING) & MASK) as u32,
            borrowed: ((word / BORROWED) & MASK) as u32,
        }
    }
}

/// In microseconds, without the wide arithmetic of the standard library: it is asked for with each statement.
pub(crate) fn micros(time: Duration) -> u64 {
    let seconds = time.as_secs().saturating_mul(1_000_000);
    seconds.saturating_add(time.subsec_micros().into())
}
