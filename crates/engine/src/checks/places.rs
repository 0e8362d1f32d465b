//! Which of a worker's due checks run: whatever hangs, the checks of servers that answer do not wait for it.
//!
//! A place is for the work of a check, a handshake with TLS above all; a check that only waits for an answer works
//! little. So a check that has had its place for longer than some patience gives it up if another check wants it, and
//! goes on without; and checks of servers that are known to be silent have a lane of their own, with as many places, so
//! they do not take those of servers that answer. Invariants: in each lane at most `at_once` checks have a place, and at
//! most [`LATE`] times as many run without one; what was queued first in a lane begins first.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How many checks may run, and for how long each keeps its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckBounds {
    pub at_once: u32,
    pub patience: Duration,
}

impl CheckBounds {
    /// For checks that end after `timeout`.
    pub fn new(at_once: u32, timeout: Duration) -> Self {
        Self { at_once: at_once.max(1), patience: timeout / LATE }
    }
}

/// So often does a place become free while checks hang, in the time that it takes them to end. So many checks for a
/// place may go on without.
pub const LATE: u32 = 8;

/// What is known of a server when its next check is queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Habit {
    /// It answers, as far as is known.
    #[default]
    Answers,
    /// It is down, and its last check had no answer.
    Silent,
}

/// The checks of one worker that are queued, and those that run.
#[derive(Debug)]
pub struct Places {
    bounds: CheckBounds,
    answering: Lane,
    silent: Lane,
}

/// Those of servers with one habit.
#[derive(Debug, Default)]
struct Lane {
    queue: VecDeque<u64>,
    /// Those that have a place, and since when; the oldest first.
    working: VecDeque<(Instant, u64)>,
    /// How many run without one, because they took long.
    late: u32,
}

impl Places {
    pub fn new(bounds: CheckBounds) -> Self {
        Self { bounds, answering: Lane::default(), silent: Lane::default() }
    }

    /// Goes by other bounds from now on. What runs already goes on.
    pub fn set_bounds(&mut self, bounds: CheckBounds) {
        self.bounds = bounds;
    }

    /// How many run, with or without a place.
    pub fn running(&self) -> u32 {
        self.answering.running() + self.silent.running()
    }

    /// A check is due.
    pub fn queue(&mut self, id: u64, habit: Habit) {
        self.lane(habit).queue.push_back(id);
    }

    /// The check that begins now, if any may. `is_wanted` tells of one that was queued whether it still is.
    pub fn begin(&mut self, now: Instant, mut is_wanted: impl FnMut(u64) -> bool) -> Option<u64> {
        let bounds = self.bounds;
        let first = self.answering.begin(bounds, now, &mut is_wanted);
        first.or_else(|| self.silent.begin(bounds, now, &mut is_wanted))
    }

    /// When a check that is queued may begin although none has ended.
    pub fn due(&self) -> Option<Instant> {
        let each = [&self.answering, &self.silent].into_iter();
        each.filter_map(|lane| lane.due(self.bounds)).min()
    }

    /// A check that was queued with this knowledge of its server has ended.
    pub fn end(&mut self, id: u64, habit: Habit) {
        self.lane(habit).end(id);
    }

    const fn lane(&mut self, habit: Habit) -> &mut Lane {
        match habit {
            Habit::Answers => &mut self.answering,
            Habit::Silent => &mut self.silent,
        }
    }
}

impl Lane {
    fn running(&self) -> u32 {
        self.working() + self.late
    }

    fn working(&self) -> u32 {
        u32::try_from(self.working.len()).unwrap_or(u32::MAX)
    }

    fn begin(
        &mut self,
        bounds: CheckBounds,
        now: Instant,
        is_wanted: &mut impl FnMut(u64) -> bool,
    ) -> Option<u64> {
        while self.queue.front().is_some_and(|id| !is_wanted(*id)) {
            self.queue.pop_front();
        }
        self.queue.front()?;
        if self.working() >= bounds.at_once {
            self.turns_late(bounds).filter(|at| *at <= now)?;
            self.working.pop_front();
            self.late += 1;
        }
        let id = self.queue.pop_front()?;
        self.working.push_back((now, id));
        Some(id)
    }

    /// When the oldest of those that have a place gives it up, if one that is queued needs that.
    fn turns_late(&self, bounds: CheckBounds) -> Option<Instant> {
        let may_go =
            self.late < bounds.at_once.saturating_mul(LATE) && self.working() == bounds.at_once;
        let oldest = self.working.front().filter(|_| may_go);
        oldest.map(|(since, _)| *since + bounds.patience)
    }

    fn due(&self, bounds: CheckBounds) -> Option<Instant> {
        self.turns_late(bounds).filter(|_| !self.queue.is_empty())
    }

    fn end(&mut self, id: u64) {
        match self.working.iter().position(|(_, it)| *it == id) {
            Some(at) => drop(self.working.remove(at)),
            None => self.late = self.late.saturating_sub(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn begun(places: &mut Places, now: Instant) -> Vec<u64> {
        std::iter::from_fn(|| places.begin(now, |_| true)).collect()
    }

    #[test]
    fn silent_servers_do_not_take_the_places_of_others() {
        let (now, mut places) = (Instant::now(), Places::new(CheckBounds::new(2, SECOND)));
        (0..10).for_each(|id| places.queue(id, Habit::Silent));
        assert_eq!(begun(&mut places, now), [0, 1]);
        (10..12).for_each(|id| places.queue(id, Habit::Answers));
        assert_eq!(begun(&mut places, now), [10, 11]);
        places.end(0, Habit::Silent);
        assert_eq!(begun(&mut places, now), [2]);
        assert_eq!(places.running(), 4);
    }

    #[test]
    fn a_check_that_hangs_gives_its_place_up_to_another() {
        let (now, mut places) = (Instant::now(), Places::new(CheckBounds::new(1, 8 * SECOND)));
        places.queue(0, Habit::Answers);
        assert_eq!((begun(&mut places, now), places.due()), (vec![0], None));
        (1..20).for_each(|id| places.queue(id, Habit::Answers));
        assert_eq!((begun(&mut places, now), places.due()), (vec![], Some(now + SECOND)));
        for id in 1..=8 {
            assert_eq!(begun(&mut places, now + id as u32 * SECOND), [id]);
        }
        // Eight run without a place: that is enough.
        assert_eq!((begun(&mut places, now + 60 * SECOND), places.due()), (vec![], None));
        places.end(3, Habit::Answers);
        assert_eq!(begun(&mut places, now + 60 * SECOND), [9]);
        places.end(9, Habit::Answers);
        assert_eq!((begun(&mut places, now + 60 * SECOND), places.running()), (vec![10], 9));
    }

    #[test]
    fn with_fewer_places_than_run_none_begins() {
        let (now, mut places) = (Instant::now(), Places::new(CheckBounds::new(3, SECOND)));
        (0..9).for_each(|id| places.queue(id, Habit::Answers));
        assert_eq!(begun(&mut places, now), [0, 1, 2]);
        places.set_bounds(CheckBounds::new(1, SECOND));
        assert!(begun(&mut places, now + SECOND).is_empty(), "three have places still");
        places.end(1, Habit::Answers);
        places.end(0, Habit::Answers);
        assert_eq!(begun(&mut places, now + SECOND), [3], "the last of them is late");
    }
}
