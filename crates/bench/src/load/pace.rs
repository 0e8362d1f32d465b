//! When transactions are to begin.
//!
//! A closed loop lets a client begin when its last transaction is over and its think time has passed. An open
//! loop hands out times that were fixed beforehand: a client that is free takes the next one, which may have
//! passed already. Invariant: in an open loop, neither times nor distances depend on how fast the target is.

use std::cell::RefCell;
use std::time::Duration;

use crate::results::{Arrivals, Pacing};
use crate::workloads::random::Random;

/// The pace of one thread's clients.
pub(super) enum Pace {
    Closed { think: u64 },
    Open(RefCell<Schedule>),
}

/// Times to come.
pub(super) struct Schedule {
    next: f64,
    gap: f64,
    random: Option<Random>,
}

impl Pace {
    /// The share that thread number `thread` of so many has in the pace of all.
    pub(super) fn new(pacing: Pacing, thread: u32, threads: u32, seed: u64) -> Self {
        match pacing {
            Pacing::Closed { think_ms } => {
                Self::Closed { think: Duration::from_secs_f64(think_ms / 1e3).as_nanos() as u64 }
            }
            Pacing::Open { rate, arrivals } => {
                let gap = NS_PER_S * f64::from(threads) / rate;
                let (next, random) = match arrivals {
                    Arrivals::Even => (gap * f64::from(thread) / f64::from(threads), None),
                    Arrivals::Poisson => (0.0, Some(Random::split(seed, u64::from(thread)))),
                };
                Self::Open(RefCell::new(Schedule { next, gap, random }))
            }
        }
    }

    /// Fixes all times of an open loop: they begin here.
    pub(super) fn begin(&self, at: u64) {
        if let Self::Open(schedule) = self {
            schedule.borrow_mut().next += at as f64;
        }
    }

    /// When the client that asks is to begin; `now` if it is free to.
    pub(super) fn take(&self, now: u64) -> u64 {
        match self {
            Self::Closed { .. } => now,
            Self::Open(schedule) => schedule.borrow_mut().take(),
        }
    }

    /// How long a client thinks between two transactions.
    pub(super) const fn think(&self) -> u64 {
        match self {
            Self::Closed { think } => *think,
            Self::Open(_) => 0,
        }
    }

    /// Counts the times before `end` that no client has taken.
    pub(super) fn left(&self, end: u64) -> u64 {
        let Self::Open(schedule) = self else { return 0 };
        let mut schedule = schedule.borrow_mut();
        let mut left = 0;
        while schedule.next < end as f64 {
            schedule.take();
            left += 1;
        }
        left
    }
}

impl Schedule {
    fn take(&mut self) -> u64 {
        let taken = self.next;
        self.next += match &mut self.random {
            None => self.gap,
            // Of the interval without 0, whose logarithm is finite.
            Some(random) => -(1.0 - random.unit()).ln() * self.gap,
        };
        taken as u64
    }
}

const NS_PER_S: f64 = 1e9;

#[cfg(test)]
mod tests {
    use super::*;

    fn open(arrivals: Arrivals, thread: u32, threads: u32) -> Pace {
        Pace::new(Pacing::Open { rate: 1000.0, arrivals }, thread, threads, 1)
    }

    #[test]
    fn the_threads_share_an_even_pace_without_meeting() {
        let mut times: Vec<u64> = (0..4)
            .flat_map(|thread| {
                let pace = open(Arrivals::Even, thread, 4);
                pace.begin(500);
                (0..10).map(|_| pace.take(0)).collect::<Vec<_>>()
            })
            .collect();
        times.sort_unstable();
        let want: Vec<u64> = (0..40).map(|number| 500 + number * 1_000_000).collect();
        assert_eq!(times, want);
    }

    #[test]
    fn random_arrivals_keep_the_rate() {
        let pace = open(Arrivals::Poisson, 0, 1);
        let times: Vec<u64> = (0..20_000).map(|_| pace.take(0)).collect();
        assert!(times.is_sorted());
        let seconds = *times.last().unwrap() as f64 / NS_PER_S;
        assert!((19.0..21.0).contains(&seconds), "{seconds}");
        let short = times.windows(2).filter(|pair| pair[1] - pair[0] < 500_000).count();
        assert!((7_500..8_300).contains(&short), "{short} of 7869 expected");
    }

    #[test]
    fn times_that_nobody_took_are_counted() {
        let pace = open(Arrivals::Even, 0, 1);
        pace.take(0);
        assert_eq!(pace.left(10_000_000), 9);
        assert_eq!(pace.left(10_000_000), 0);
    }

    #[test]
    fn a_closed_loop_begins_at_once() {
        let pace = Pace::new(Pacing::Closed { think_ms: 1.5 }, 0, 1, 1);
        pace.begin(77);
        assert_eq!((pace.take(42), pace.think(), pace.left(u64::MAX)), (42, 1_500_000, 0));
    }
}
