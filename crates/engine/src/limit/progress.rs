//! Whether work goes on at all.
//!
//! A controller learns from statements that end. While all slots are held by some that sleep, or wait outside of the
//! server's processors, none ends, and nothing would be learnt while everybody else waits. Then one more is let in, and
//! after the same time one more again (MariaDB's thread pool does so after its `thread_pool_stall_limit`).

use std::time::Duration;

#[derive(Debug)]
pub(super) struct Progress {
    /// How many had ended when one ended last.
    completed: u64,
    since: Duration,
}

/// For so long nothing has ended, at least.
const STALL_MIN: Duration = Duration::from_millis(50);
/// So many times as long as statements usually stay. Long statements are given time, but not for ever.
const STAYS: f64 = 4.0;
const STALL_MAX: Duration = Duration::from_secs(2);

impl Progress {
    pub(super) const fn new(now: Duration) -> Self {
        Self { completed: 0, since: now }
    }

    /// Whether a statement waits, and none has ended for long enough: true once, and once more after the same time.
    /// `stay` is how long work stays in the server, in microseconds.
    pub(super) fn is_stalled(
        &mut self,
        now: Duration,
        completed: u64,
        is_waiting: bool,
        stay: f64,
    ) -> bool {
        let patience = Duration::try_from_secs_f64(STAYS * stay / 1e6).unwrap_or(STALL_MAX);
        let is_new = completed != self.completed || !is_waiting || now < self.since;
        let is_stalled = !is_new && now - self.since >= patience.clamp(STALL_MIN, STALL_MAX);
        if is_new || is_stalled {
            (self.completed, self.since) = (completed, now);
        }
        is_stalled
    }
}
