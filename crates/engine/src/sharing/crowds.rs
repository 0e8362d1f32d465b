//! Which reads wait although slots are free: equal ones run already, and take long.
//!
//! While slots are free nothing stands in the queue, so a thousand clients that ask for the same report within a few
//! milliseconds would have it run as often as there are slots. Therefore the runs of reads that take long, or of which
//! that is not known yet, are counted by a hash of what they ask. While [`RUNS_MAX`] equal ones run, a newcomer waits in
//! their crowd. The crowd goes back to the queue as a whole when one of these runs ends, in whatever way, or when it has
//! waited about as long as such a run takes; there the first one's run answers all. A read that takes a short time pays
//! for one look at [`Crowds::is_short`].
//!
//! Invariants: no crowd is there without a run that was counted; a crowd that goes back takes all that stand in it; how
//! long a crowd waits is bounded, whatever becomes of the runs.

use std::time::{Duration, Instant};

use crate::intent::Digest;
use crate::numbers::NumberMap;

/// Runs of equal statements that do not wait for each other.
pub const RUNS_MAX: u32 = 2;

/// A run takes long if it costs the server so much: what it has taken, divided by how many statements ran beside it. Less
/// is not worth the counting.
const LONG: Duration = Duration::from_micros(200);

/// A crowd waits so long, or [`PATIENCE`] times as long as a run takes, if that is more.
const WAIT_MIN: Duration = Duration::from_secs(1);
const PATIENCE: u32 = 2;

const KINDS: usize = 1024;

#[derive(Debug)]
pub struct Crowds<W> {
    /// What statements of each kind have taken and cost lately. Kinds may share a place.
    kinds: Box<[Kind]>,
    /// By hashes made with a secret.
    runs: NumberMap<u64, EqualRuns<W>>,
    /// Crowds that wait.
    crowds: usize,
}

/// What is remembered of a kind, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Kind {
    took: u32,
    cost: u32,
}

/// The runs of equal statements.
#[derive(Debug)]
struct EqualRuns<W> {
    kind: Digest,
    runs: u32,
    crowd: Option<Crowd<W>>,
}

/// Those that wait for one of the runs to end.
#[derive(Debug)]
pub struct Crowd<W> {
    pub number: u64,
    since: Instant,
    /// The first one first.
    pub waiters: Vec<W>,
}

/// It was never seen.
const UNKNOWN: u32 = u32::MAX;
const NEVER_SEEN: Kind = Kind { took: UNKNOWN, cost: UNKNOWN };

impl<W> Default for Crowds<W> {
    fn default() -> Self {
        Self { kinds: vec![NEVER_SEEN; KINDS].into(), runs: NumberMap::default(), crowds: 0 }
    }
}

impl<W> Crowds<W> {
    /// Whether statements of this kind are known to take a short time.
    #[inline]
    pub fn is_short(&self, kind: Digest) -> bool {
        self.kinds.get(place(kind)).is_some_and(|kind| u128::from(kind.cost) < LONG.as_micros())
    }

    /// A statement of this kind has taken so long, while so many ran, itself among them. Longer ones are remembered for a
    /// while.
    #[inline]
    pub fn see(&mut self, kind: Digest, took: Duration, at_once: u32) {
        if let Some(known) = self.kinds.get_mut(place(kind)) {
            let took = u32::try_from(took.as_micros()).unwrap_or(UNKNOWN - 1).min(UNKNOWN - 1);
            known.took = took.max(faded(known.took));
            known.cost = (took / at_once.max(1)).max(faded(known.cost));
        }
    }

    /// A run begins. It ends with one call of [`Self::end`].
    pub fn begin(&mut self, hash: u64, kind: Digest) {
        self.runs.entry(hash).or_insert(EqualRuns { kind, runs: 0, crowd: None }).runs += 1;
    }

    /// Whether a newcomer that asks this waits for those that run.
    pub fn is_full(&self, hash: u64) -> bool {
        self.runs.get(&hash).is_some_and(|equal| equal.runs >= RUNS_MAX)
    }

    /// A newcomer joins the crowd of those that run. Answers with the crowd's number, which `number` gives to a new one.
    /// `None`: nothing runs that it could wait for.
    pub fn join(
        &mut self,
        hash: u64,
        waiter: W,
        now: Instant,
        number: impl FnOnce() -> u64,
    ) -> Option<u64> {
        let equal = self.runs.get_mut(&hash).filter(|equal| equal.runs > 0)?;
        let crowd = equal.crowd.get_or_insert_with(|| {
            self.crowds += 1;
            Crowd { number: number(), since: now, waiters: Vec::new() }
        });
        crowd.waiters.push(waiter);
        Some(crowd.number)
    }

    /// A run has ended: the crowd that goes back to the queue.
    pub fn end(&mut self, hash: u64) -> Option<Crowd<W>> {
        let equal = self.runs.get_mut(&hash)?;
        equal.runs = equal.runs.saturating_sub(1);
        let crowd = equal.crowd.take();
        if equal.runs == 0 {
            self.runs.remove(&hash);
        }
        self.crowds -= usize::from(crowd.is_some());
        crowd
    }

    /// A crowd that has waited for long enough, while those that it waits for run on. `most`: no crowd waits for longer,
    /// however long its runs take.
    pub fn overdue(&mut self, now: Instant, most: Option<Duration>) -> Option<Crowd<W>> {
        if self.crowds == 0 {
            return None;
        }
        let kinds = &self.kinds;
        let is_due = |equal: &EqualRuns<W>| {
            let known = kinds.get(place(equal.kind)).filter(|kind| kind.took != UNKNOWN);
            let usual = known.map_or(0, |kind| kind.took);
            let usual = Duration::from_micros(usual.into());
            let due = WAIT_MIN.max(usual * PATIENCE);
            let due = most.map_or(due, |most| due.min(most));
            let since = equal.crowd.as_ref().map(|crowd| crowd.since);
            since.is_some_and(|since| now.saturating_duration_since(since) >= due)
        };
        let crowd = self.runs.values_mut().find(|equal| is_due(equal))?.crowd.take();
        self.crowds -= usize::from(crowd.is_some());
        crowd
    }
}

const fn faded(known: u32) -> u32 {
    if known == UNKNOWN { 0 } else { known - known / 8 }
}

fn place(kind: Digest) -> usize {
    let hash = kind.hash();
    (hash ^ hash >> 32) as usize % KINDS
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Digest = Digest::new(7);
    const HASH: u64 = 99;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_crowd_goes_back_as_a_whole_when_a_run_ends() {
        let (mut crowds, now) = (Crowds::default(), Instant::now());
        assert_eq!(crowds.join(HASH, 'x', now, || 1), None, "nothing runs");
        crowds.begin(HASH, KIND);
        assert!(!crowds.is_full(HASH));
        crowds.begin(HASH, KIND);
        assert!(crowds.is_full(HASH) && !crowds.is_full(HASH + 1));
        assert_eq!(crowds.join(HASH, 'a', now, || 1), Some(1));
        assert_eq!(crowds.join(HASH, 'b', now, || unreachable!()), Some(1));
        let crowd = crowds.end(HASH).expect("a crowd");
        assert_eq!((crowd.number, crowd.waiters.as_slice()), (1, &['a', 'b'][..]));
        assert!(!crowds.is_full(HASH));
        assert_eq!(crowds.join(HASH, 'c', now, || 2), Some(2), "one still runs");
        assert_eq!(crowds.end(HASH).map(|crowd| crowd.waiters), Some(vec!['c']));
        assert!(crowds.runs.is_empty() && crowds.crowds == 0);
        assert!(crowds.end(HASH).is_none());
    }

    #[test]
    fn a_crowd_waits_no_longer_than_about_a_run() {
        let (mut crowds, now) = (Crowds::default(), Instant::now());
        crowds.see(KIND, millis(3000), 1);
        for (hash, kind) in [(1, Digest::new(1)), (2, KIND)] {
            crowds.begin(hash, kind);
            assert_eq!(crowds.join(hash, hash, now, || hash), Some(hash));
        }
        let mut overdue = |after: u64, most: Option<Duration>| {
            crowds.overdue(now + millis(after), most).map(|crowd| crowd.waiters)
        };
        assert_eq!(overdue(999, None), None);
        assert_eq!(overdue(1000, None), Some(vec![1]));
        assert_eq!(overdue(5999, None), None);
        assert_eq!(overdue(2999, Some(millis(3000))), None, "nor before what is allowed");
        assert_eq!(overdue(6000, None), Some(vec![2]));
        assert_eq!(overdue(60_000, None), None);
        assert_eq!(crowds.join(1, 3, now, || 4), Some(4), "its runs run on");
        assert!(crowds.overdue(now + millis(400), Some(millis(401))).is_none());
        let crowd = crowds.overdue(now + millis(401), Some(millis(401)));
        assert_eq!(crowd.map(|crowd| crowd.waiters), Some(vec![3]), "it may wait for no longer");
    }

    #[test]
    fn what_has_taken_long_counts_as_long_for_a_while() {
        let mut crowds = Crowds::<()>::default();
        assert!(!crowds.is_short(KIND), "that is not known");
        crowds.see(KIND, millis(2), 20);
        assert!(crowds.is_short(KIND), "it took long as many ran");
        crowds.see(KIND, millis(2), 8);
        let mut runs = 0;
        while !crowds.is_short(KIND) {
            crowds.see(KIND, millis(2), 20);
            runs += 1;
        }
        assert!((2..30).contains(&runs), "{runs}");
        crowds.see(KIND, Duration::MAX, 1);
        assert!(!crowds.is_short(KIND));
    }
}
