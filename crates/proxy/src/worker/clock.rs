//! The worker's clock: read once a turn of its loop, shared by everything that happens in that turn.

use std::cell::Cell;
use std::time::Instant;

thread_local! {
    static NOW: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// The time at which this iteration of the loop began. Good for deadlines and ages, not for measuring work.
pub(crate) fn now() -> Instant {
    NOW.get().unwrap_or_else(tick)
}

/// Reads the real clock. The loop calls this whenever it comes back from waiting.
pub(crate) fn tick() -> Instant {
    let now = Instant::now();
    NOW.set(Some(now));
    now
}
