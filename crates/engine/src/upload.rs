//! How fast a command comes that is sent in several reads: a mebibyte must be there within a time that is bounded.

use std::time::{Duration, Instant};

/// The time is bounded for this many bytes, and for what is less and ends the command.
pub const STEP: usize = 1 << 20;

/// How far a command has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// When the last step began.
    since: Instant,
    /// What has come of it, in bytes.
    bytes: usize,
}

impl Progress {
    pub const fn begin(now: Instant) -> Self {
        Self { since: now, bytes: 0 }
    }

    /// So many bytes have come.
    pub const fn see(&mut self, bytes: usize, now: Instant) {
        self.bytes += bytes;
        if self.bytes >= STEP {
            *self = Self::begin(now);
        }
    }

    pub const fn since(&self) -> Instant {
        self.since
    }

    /// For how long the step has not come to its end.
    pub fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_has_its_own_time() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut progress = Progress::begin(begun);
        progress.see(STEP - 1, at(10));
        assert_eq!(progress.age(at(11)), Duration::from_secs(11));
        progress.see(1, at(12));
        assert_eq!(progress.age(at(13)), Duration::from_secs(1));
        // A byte now and then is no progress.
        for second in 13..30 {
            progress.see(1, at(second));
        }
        assert_eq!(progress.age(at(30)), Duration::from_secs(18));
    }
}
