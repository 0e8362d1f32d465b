//! Places for backend connections to one server: how many the whole process may have, and which worker gets the next.
//!
//! Shared by all workers through atomics and never locked. Clients wait in their own worker's memory; what others must
//! know of them (how many lack a connection, since when, of which kind) is published here. A place that is given back
//! goes to the worker whose clients have waited longest, by a *grant*: the place stays taken on the way, so no other
//! worker can be quicker. A connection that is handed over, or closed for another worker, is *promised* first: so one
//! client that waits does not get several.
//!
//! A worker is *attentive* while it compares its own clients with those of others each time that a connection comes
//! back to it. Workers that are not must be told by mail that a client elsewhere lacks a connection.
//!
//! Two processes that follow one another share the limit: what one has, the other has not.
//!
//! Invariants: taken places are at most the limit, but for those that were taken before it fell; what is published sees
//! a free place, or is seen when one is given back; an attentive worker sees what is published before it stops being
//! so.

use std::time::{Duration, Instant};

use crate::slots::micros;
use crate::sync::{AtomicU32, AtomicU64, Ordering::SeqCst};

/// The places. One for each server and process.
#[derive(Debug)]
pub struct ConnectionPlaces {
    limit: AtomicU32,
    /// Of the limit, what another process has.
    elsewhere: AtomicU32,
    held: AtomicU32,
    origin: Instant,
    workers: Box<[Demand]>,
}

/// What a worker tells of its clients that lack a connection, and what is on its way to it.
#[derive(Debug)]
#[repr(align(128))]
struct Demand {
    /// How many of its clients another connection would serve now.
    count: AtomicU32,
    /// The oldest of them, and the oldest of those that need another kind than that one.
    oldest: [Oldest; 2],
    /// The oldest of each kind. If two kinds have the same place, the one that has changed last is told.
    kinds: [Oldest; KINDS],
    /// ConnectionPlaces and connections on their way to it, the granted ones included.
    promised: AtomicU32,
    /// ConnectionPlaces that it may claim.
    granted: AtomicU32,
    is_attentive: AtomicU32,
}

/// The oldest client of a worker that lacks a connection of one kind.
#[derive(Debug)]
struct Oldest {
    /// Since when it waits, in microseconds since the origin; [`NEVER`]: no client is told of here.
    since: AtomicU64,
    kind: AtomicU32,
}

/// A worker has places for so many kinds. Without them, clients of the kind that takes its turn would not be seen behind
/// those of the kinds that wait for theirs.
const KINDS: usize = 64;

impl Oldest {
    const fn none() -> Self {
        Self { since: AtomicU64::new(NEVER), kind: AtomicU32::new(0) }
    }

    fn tell(&self, since: u64, kind: u32) {
        self.kind.store(kind, SeqCst);
        self.since.store(since, SeqCst);
    }

    fn elder(&self, worker: usize) -> Option<Elder> {
        let (since, kind) = (self.since.load(SeqCst), self.kind.load(SeqCst));
        (since != NEVER).then_some(Elder { worker, since, kind })
    }
}

/// The oldest client that lacks a connection in one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elder {
    pub worker: usize,
    /// In microseconds since the origin; see [`ConnectionPlaces::at`].
    pub since: u64,
    pub kind: u32,
}

/// No client waits.
const NEVER: u64 = u64::MAX;

impl Demand {
    /// Whether what is on its way does not suffice.
    fn lacks(&self) -> bool {
        self.count.load(SeqCst) > self.promised.load(SeqCst)
    }

    fn place(&self, kind: u32) -> &Oldest {
        &self.kinds[kind as usize % KINDS]
    }
}

impl ConnectionPlaces {
    /// # Panics
    /// If `limit` is zero: nothing could ever run. The configuration has refused it.
    pub fn new(limit: u32, workers: usize, now: Instant) -> Self {
        assert!(limit > 0);
        let none = || Demand {
            count: AtomicU32::new(0),
            oldest: [Oldest::none(), Oldest::none()],
            kinds: std::array::from_fn(|_| Oldest::none()),
            promised: AtomicU32::new(0),
            granted: AtomicU32::new(0),
            is_attentive: AtomicU32::new(0),
        };
        Self {
            limit: AtomicU32::new(limit),
            elsewhere: AtomicU32::new(0),
            held: AtomicU32::new(0),
            origin: now,
            workers: (0..workers).map(|_| none()).collect(),
        }
    }

    pub fn limit(&self) -> u32 {
        self.limit.load(SeqCst)
    }

    pub fn held(&self) -> u32 {
        self.held.load(SeqCst)
    }

    pub fn is_full(&self) -> bool {
        self.held() >= self.room()
    }

    /// How many this process may have; one at least, so that its clients are served.
    fn room(&self) -> u32 {
        self.limit().saturating_sub(self.elsewhere.load(SeqCst)).max(1)
    }

    /// Another process has so many of the places. What it has given back is granted at once; `wake` gets each worker
    /// that must claim.
    pub fn set_elsewhere(&self, places: u32, wake: impl FnMut(usize)) {
        self.elsewhere.store(places, SeqCst);
        self.grant_free(wake);
    }

    /// Sets the limit. ConnectionPlaces that a higher one makes are granted at once; `wake` gets each worker that must
    /// claim.
    pub fn set_limit(&self, limit: u32, wake: impl FnMut(usize)) {
        self.limit.store(limit.max(1), SeqCst);
        self.grant_free(wake);
    }

    fn grant_free(&self, mut wake: impl FnMut(usize)) {
        while let Some(elder) = self.oldest(None) {
            if !self.try_take() {
                break;
            }
            self.grant(elder.worker);
            wake(elder.worker);
        }
    }

    /// Takes a place: one that was granted to this worker, or a free one.
    pub fn take(&self, worker: usize) -> bool {
        self.claim(worker) || self.try_take()
    }

    /// Takes a place, beyond the limit if need be: for a connection that is there already.
    pub fn force(&self) {
        self.held.fetch_add(1, SeqCst);
    }

    /// Claims a place that was granted to this worker.
    pub fn claim(&self, worker: usize) -> bool {
        let demand = &self.workers[worker];
        // Only the worker itself takes any away.
        if demand.granted.load(SeqCst) == 0 {
            return false;
        }
        demand.granted.fetch_sub(1, SeqCst);
        demand.promised.fetch_sub(1, SeqCst);
        true
    }

    fn try_take(&self) -> bool {
        let limit = self.room();
        self.held.fetch_update(SeqCst, SeqCst, |held| (held < limit).then_some(held + 1)).is_ok()
    }

    /// Gives a place back: the worker whose clients have waited longest gets it, whichever that is. The answer must be
    /// woken.
    #[must_use]
    pub fn give_back(&self) -> Option<usize> {
        self.give_back_but(None)
    }

    /// The same for a place of which no client of this worker can make use.
    #[must_use]
    pub fn give_back_elsewhere(&self, worker: usize) -> Option<usize> {
        self.give_back_but(Some(worker))
    }

    fn give_back_but(&self, but: Option<usize>) -> Option<usize> {
        if self.held() <= self.room()
            && let Some(elder) = self.oldest(but)
        {
            self.grant(elder.worker);
            return Some(elder.worker);
        }
        let before = self.held.fetch_sub(1, SeqCst);
        debug_assert!(before > 0, "more given back than taken");
        // Both sides publish first and look second, so one of them sees the other.
        let elder = self.oldest(but)?;
        self.try_take().then(|| {
            self.grant(elder.worker);
            elder.worker
        })
    }

    fn grant(&self, worker: usize) {
        self.promise(worker);
        self.workers[worker].granted.fetch_add(1, SeqCst);
    }

    /// A connection, or the place of one that is being closed, is on its way to this worker.
    pub fn promise(&self, worker: usize) {
        self.workers[worker].promised.fetch_add(1, SeqCst);
    }

    /// The connection that was promised to this worker has arrived.
    pub fn arrived(&self, worker: usize) {
        let before = self.workers[worker].promised.fetch_sub(1, SeqCst);
        debug_assert!(before > 0, "more has arrived than was promised");
    }

    /// The connection is closed whose place was promised to this worker. The answer must be woken.
    #[must_use]
    pub fn fulfil(&self, worker: usize) -> Option<usize> {
        if self.held() > self.room() {
            self.arrived(worker);
            return self.give_back();
        }
        self.workers[worker].granted.fetch_add(1, SeqCst);
        Some(worker)
    }

    /// The worker other than this one whose client has lacked a connection longest.
    pub fn oldest_other(&self, worker: usize) -> Option<Elder> {
        self.oldest(Some(worker))
    }

    /// The same for clients that need a connection of this kind.
    pub fn oldest_other_of(&self, worker: usize, kind: u32) -> Option<Elder> {
        let of = |(other, it): (usize, &Demand)| it.place(kind).elder(other);
        self.lacking(Some(worker)).filter_map(of).filter(|it| it.kind == kind).min_by_key(by_age)
    }

    /// The same for clients that need a connection of another kind.
    pub fn oldest_other_but(&self, worker: usize, kind: u32) -> Option<Elder> {
        let all = self.lacking(Some(worker));
        let all =
            all.flat_map(|(other, it)| it.oldest.iter().filter_map(move |it| it.elder(other)));
        all.filter(|it| it.kind != kind).min_by_key(by_age)
    }

    fn oldest(&self, but: Option<usize>) -> Option<Elder> {
        self.lacking(but).filter_map(|(worker, it)| it.oldest[0].elder(worker)).min_by_key(by_age)
    }

    /// The workers whose clients lack a connection.
    fn lacking(&self, but: Option<usize>) -> impl Iterator<Item = (usize, &Demand)> {
        let workers = self.workers.iter().enumerate();
        workers.filter(move |(worker, it)| Some(*worker) != but && it.lacks())
    }

    /// Publishes how many clients of this worker lack a connection, since when the oldest of them does, and which kind it
    /// needs; and the same of the oldest that needs another kind. Call [`Self::take`] once more afterwards.
    pub fn publish(
        &self,
        worker: usize,
        count: usize,
        oldest: impl IntoIterator<Item = (Instant, u32)>,
    ) {
        let (demand, mut oldest) = (&self.workers[worker], oldest.into_iter());
        for place in &demand.oldest {
            let (since, kind) = oldest.next().map_or((NEVER, 0), |(at, kind)| (self.at(at), kind));
            place.tell(since, kind);
        }
        demand.count.store(u32::try_from(count).unwrap_or(u32::MAX), SeqCst);
    }

    /// Publishes since when the oldest of this kind lacks a connection, before [`Self::publish`]. `None`: none lacks one.
    pub fn publish_kind(&self, worker: usize, kind: u32, since: Option<Instant>) {
        let place = self.workers[worker].place(kind);
        match since {
            Some(since) => place.tell(self.at(since), kind),
            None if place.kind.load(SeqCst) == kind => place.since.store(NEVER, SeqCst),
            None => {}
        }
    }

    /// Says whether a worker looks by itself at what others lack, each time that a connection comes back to it. One
    /// that stops must look once more afterwards.
    pub fn set_attentive(&self, worker: usize, is_attentive: bool) {
        self.workers[worker].is_attentive.store(u32::from(is_attentive), SeqCst);
    }

    /// The other workers that must be told that a client of this one lacks a connection.
    pub fn inattentive(&self, worker: usize) -> impl Iterator<Item = usize> + '_ {
        let workers = self.workers.iter().enumerate();
        workers
            .filter(move |(other, it)| *other != worker && it.is_attentive.load(SeqCst) == 0)
            .map(|(other, _)| other)
    }

    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// A time as it is published.
    pub fn at(&self, time: Instant) -> u64 {
        micros(time.saturating_duration_since(self.origin))
    }

    /// Whether what is published came before this time, by so much or more.
    pub fn is_older(&self, since: u64, than: Instant, by: Duration) -> bool {
        since.saturating_add(micros(by)) <= self.at(than)
    }
}

const fn by_age(elder: &Elder) -> u64 {
    elder.since
}
