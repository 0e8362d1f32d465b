//! Tells a burst, which a line is there for, from an overload, which no line can absorb.
//!
//! In an overload the clients of the oldest waiters have given up: to serve these waiters first serves no client in
//! time. So the line turns: the newest waiter is served first, and a waiter that has waited far too long is refused.
//! The line turns back when it has been empty again.
//!
//! Pure: told about the line when a waiter is served. Invariant: a line that was empty a moment ago is no overload.

use std::time::{Duration, Instant};

/// In which order a line is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueOrder {
    #[default]
    OldestFirst,
    NewestFirst,
}

/// What is known of one line, or of the lines of one class.
#[derive(Clone, Copy, Debug, Default)]
pub struct Overload {
    /// Since when there has been a waiter all the time.
    standing: Option<Instant>,
    /// The interval that runs now: when it ends, and the shortest wait of the oldest in it.
    ends: Option<Instant>,
    shortest: Duration,
    is_on: bool,
}

/// A line that has stood for so long, and whose oldest has waited too long all the while, is overloaded.
const INTERVAL: Duration = Duration::from_millis(100);

/// What is too long: at least this, and at least so many times the mean time in the server.
const TARGET_MIN: Duration = Duration::from_millis(20);
const TARGET_MEANS: u32 = 2;

/// In an overload, a waiter that has waited for so many times the target is refused.
const DOOMED: u32 = 10;

impl Overload {
    /// A waiter is about to be served, or time has passed. `oldest`: since when the oldest waits, if any does; `mean`:
    /// the mean time in the server.
    pub fn see(&mut self, oldest: Option<Instant>, now: Instant, mean: Duration) {
        let Some(oldest) = oldest else {
            *self = Self::default();
            return;
        };
        let wait = now.saturating_duration_since(oldest);
        let standing = *self.standing.get_or_insert(now);
        match self.ends {
            Some(ends) if now < ends => self.shortest = self.shortest.min(wait),
            ends => {
                if ends.is_some() && now.saturating_duration_since(standing) >= INTERVAL {
                    self.is_on = self.shortest > target(mean);
                }
                self.ends = Some(now + INTERVAL);
                self.shortest = wait;
            }
        }
    }

    pub const fn order(&self) -> QueueOrder {
        if self.is_on { QueueOrder::NewestFirst } else { QueueOrder::OldestFirst }
    }

    /// How long one may wait before it is refused, if there is an overload.
    pub fn patience(&self, mean: Duration) -> Option<Duration> {
        self.is_on.then(|| target(mean) * DOOMED)
    }
}

fn target(mean: Duration) -> Duration {
    TARGET_MIN.max(mean.saturating_mul(TARGET_MEANS))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// One look each 10 ms at a line whose oldest has waited for `wait`.
    fn looks(
        overload: &mut Overload,
        from: Instant,
        count: u32,
        wait: Option<Duration>,
    ) -> Instant {
        let mut now = from;
        for _ in 0..count {
            now += 10 * MS;
            overload.see(wait.map(|wait| now - wait), now, MS);
        }
        now
    }

    #[test]
    fn a_line_that_stands_turns_and_turns_back_when_it_was_empty() {
        let mut overload = Overload::default();
        let begin = Instant::now() + Duration::from_secs(10);
        let now = looks(&mut overload, begin, 9, Some(50 * MS));
        assert_eq!(overload.order(), QueueOrder::OldestFirst, "not yet");
        assert_eq!(overload.patience(MS), None);
        let now = looks(&mut overload, now, 5, Some(50 * MS));
        assert_eq!(overload.order(), QueueOrder::NewestFirst);
        assert_eq!(overload.patience(MS), Some(200 * MS));
        let now = looks(&mut overload, now, 1, None);
        assert_eq!(overload.order(), QueueOrder::OldestFirst);
        looks(&mut overload, now, 9, Some(50 * MS));
        assert_eq!(
            overload.order(),
            QueueOrder::OldestFirst,
            "it must stand for an interval again"
        );
    }

    #[test]
    fn a_line_that_moves_is_no_overload() {
        let mut overload = Overload::default();
        let mut now = Instant::now() + Duration::from_secs(10);
        for round in 0..100 {
            // Long waits, but one short wait in each interval.
            let wait = if round % 8 == 0 { 5 * MS } else { 500 * MS };
            now = looks(&mut overload, now, 1, Some(wait));
            assert_eq!(overload.order(), QueueOrder::OldestFirst);
        }
    }

    #[test]
    fn slow_statements_allow_for_longer_waits() {
        let mut overload = Overload::default();
        let mut now = Instant::now() + Duration::from_secs(10);
        for _ in 0..100 {
            now += 10 * MS;
            overload.see(Some(now - 150 * MS), now, 100 * MS);
        }
        assert_eq!(overload.order(), QueueOrder::OldestFirst);
        assert_eq!(target(Duration::MAX), Duration::MAX);
    }
}
