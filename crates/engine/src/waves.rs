//! Clients that have to connect anew do so one after the other: evenly over a span of time, so that neither their pools
//! nor the servers see all of them at once.
//!
//! Owns how many may still be here. Which ones go, the caller decides.

use std::time::{Duration, Instant};

/// The way of a number of clients down to none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waves {
    begun: Instant,
    span: Duration,
    first: usize,
}

impl Waves {
    /// `first` clients go within this span.
    pub const fn new(first: usize, begun: Instant, span: Duration) -> Self {
        Self { begun, span, first }
    }

    /// So many of those that are left are to go now.
    pub fn due(&self, left: usize, now: Instant) -> usize {
        let rest = self.span.saturating_sub(now.saturating_duration_since(self.begun));
        // Rounded up: the last one goes at the end.
        let all = (self.first as u128).saturating_mul(rest.as_nanos());
        let may_stay = all.div_ceil(self.span.as_nanos().max(1));
        left.saturating_sub(usize::try_from(may_stay).unwrap_or(usize::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_go_evenly_and_the_last_one_at_the_end() {
        let (begun, second) = (Instant::now(), Duration::from_secs(1));
        let waves = Waves::new(100, begun, 50 * second);
        assert_eq!(waves.due(100, begun), 0);
        let (mut left, mut most) = (100, 0);
        for tick in 1..=500 {
            let due = waves.due(left, begun + second / 10 * tick);
            (left, most) = (left - due, most.max(due));
            let even = 100 - tick as usize / 5;
            assert!(left == even || left == even + 1, "{tick}: {left}");
        }
        assert_eq!((left, most), (0, 1));
    }

    #[test]
    fn those_that_could_not_go_are_made_up_for() {
        let (begun, second) = (Instant::now(), Duration::from_secs(1));
        let waves = Waves::new(10, begun, 10 * second);
        assert_eq!(waves.due(10, begun + 5 * second), 5);
        assert_eq!(waves.due(4, begun + 5 * second), 0, "some went by themselves");
        assert_eq!(waves.due(7, begun + 20 * second), 7);
        let at_once = Waves::new(3, begun, Duration::ZERO);
        assert_eq!(at_once.due(3, begun), 3);
        let many = Waves::new(1_000_000, begun, Duration::MAX);
        assert_eq!(many.due(1_000_000, begun + second), 0);
    }
}
