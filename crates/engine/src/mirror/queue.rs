//! The copies of one mirror: so many run at once, so many wait, none longer than it may.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How many copies there may be at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MirrorBounds {
    pub at_once: usize,
    pub queue: usize,
    /// How long one may take, its wait among it.
    pub within: Duration,
}

/// Copies that wait for others to end.
#[derive(Debug)]
pub struct MirrorQueue<T> {
    waiting: VecDeque<(Instant, T)>,
    running: usize,
}

impl<T> Default for MirrorQueue<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), running: 0 }
    }
}

/// What becomes of a copy that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer<T> {
    /// It runs now.
    Runs(T),
    Waits,
    /// There is no room.
    Full(T),
}

impl<T> MirrorQueue<T> {
    /// A copy of a statement whose reply ended at that time.
    pub fn offer(&mut self, copy: T, since: Instant, bounds: MirrorBounds) -> Offer<T> {
        if self.running < bounds.at_once {
            self.running += 1;
            return Offer::Runs(copy);
        }
        if self.waiting.len() >= bounds.queue {
            return Offer::Full(copy);
        }
        self.waiting.push_back((since, copy));
        Offer::Waits
    }

    /// A copy has run. Answers with the next one, and with those whose time has passed before they could run.
    pub fn next(&mut self, now: Instant, bounds: MirrorBounds) -> (Option<T>, Vec<T>) {
        let mut late = Vec::new();
        while let Some((since, copy)) = self.waiting.pop_front() {
            // There may be fewer places by now.
            if self.running > bounds.at_once {
                self.waiting.push_front((since, copy));
                break;
            }
            if now.saturating_duration_since(since) < bounds.within {
                return (Some(copy), late);
            }
            late.push(copy);
        }
        self.running = self.running.saturating_sub(1);
        (None, late)
    }

    /// How many wait, and how many run.
    pub fn under_way(&self) -> (usize, usize) {
        (self.waiting.len(), self.running)
    }

    /// Whether there is none.
    pub fn is_idle(&self) -> bool {
        self.under_way() == (0, 0)
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    const BOUNDS: MirrorBounds =
        MirrorBounds { at_once: 2, queue: 3, within: Duration::from_secs(5) };

    #[test]
    fn so_many_run_and_so_many_wait() {
        let (mut queue, now) = (MirrorQueue::default(), Instant::now());
        let offers: Vec<_> = (0..6).map(|at| queue.offer(at, now, BOUNDS)).collect();
        assert_eq!(
            offers,
            [
                Offer::Runs(0),
                Offer::Runs(1),
                Offer::Waits,
                Offer::Waits,
                Offer::Waits,
                Offer::Full(5)
            ]
        );
        assert_eq!(queue.under_way(), (3, 2));
        assert_eq!(queue.next(now, BOUNDS), (Some(2), vec![]), "in the order in which they came");
        assert_eq!(queue.offer(6, now, BOUNDS), Offer::Waits);
        assert_eq!(queue.under_way(), (3, 2));
        // Fewer places: the others end first.
        let one = MirrorBounds { at_once: 1, ..BOUNDS };
        assert_eq!(queue.next(now, one), (None, vec![]));
        assert_eq!(queue.next(now, one), (Some(3), vec![]));
    }

    #[test]
    fn what_waited_too_long_does_not_run() {
        let (mut queue, begun) = (MirrorQueue::default(), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        for copy in 0..5 {
            queue.offer(copy, at(copy), BOUNDS);
        }
        // The third and the fourth came at 2 and 3.
        assert_eq!(queue.next(at(8), BOUNDS), (Some(4), vec![2, 3]));
        assert_eq!(queue.next(at(8), BOUNDS), (None, vec![]));
        assert_eq!(queue.next(at(8), BOUNDS), (None, vec![]));
        assert!(queue.is_idle());
        assert_eq!(queue.offer(9, at(9), BOUNDS), Offer::Runs(9));
    }

    /// Whatever comes, bounds are kept and each copy ends in one way.
    #[test]
    fn bounds_hold_in_any_order() {
        for seed in 0..200_u64 {
            let mut random = Rng::with_seed(seed);
            let mut chance = |bound: u64| random.u64(..bound);
            let bounds = MirrorBounds {
                at_once: 1 + chance(4) as usize,
                queue: chance(5) as usize,
                within: Duration::from_millis(1 + chance(50)),
            };
            let (mut queue, mut now) = (MirrorQueue::default(), Instant::now());
            let (mut came, mut runs, mut ended) = (0_u64, 0_u64, 0_u64);
            for _ in 0..300 {
                now += Duration::from_millis(chance(10));
                if chance(2) == 0 || runs == 0 {
                    came += 1;
                    match queue.offer(came, now, bounds) {
                        Offer::Runs(_) => runs += 1,
                        Offer::Waits => {}
                        Offer::Full(_) => ended += 1,
                    }
                } else {
                    let (next, late) = queue.next(now, bounds);
                    ended += 1 + late.len() as u64;
                    runs -= u64::from(next.is_none());
                }
                let (waiting, running) = queue.under_way();
                assert!(running <= bounds.at_once && waiting <= bounds.queue, "seed {seed}");
                assert_eq!(running as u64, runs, "seed {seed}");
                assert_eq!(came, ended + runs + waiting as u64, "seed {seed}");
            }
        }
    }
}
