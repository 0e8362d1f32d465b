//! The worker's clock: read once a turn of its loop, shared by everything that happens in that turn.
//!
//! All of the proxy reads the time here, and from the runtime: a simulated world stops that clock, and sets it.

use std::cell::Cell;
use std::time::{Duration, Instant};

thread_local! {
    static NOW: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// The time at which this iteration of the loop began. Good for deadlines and ages, not for measuring work.
pub(crate) fn now() -> Instant {
    NOW.get().unwrap_or_else(tick)
}

/// Reads the real clock. The loop calls this whenever it comes back from waiting.
pub(crate) fn tick() -> Instant {
    let now = read();
    NOW.set(Some(now));
    now
}

/// The time now, whatever iteration of a loop this is.
pub(crate) fn read() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Runs a test whose time does not go on.
#[cfg(test)]
pub(crate) fn stopped<T>(test: impl FnOnce() -> T) -> T {
    let builder =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    builder.expect("a runtime").block_on(async { test() })
}

/// How long ago that was.
pub(crate) fn since(moment: Instant) -> Duration {
    read().saturating_duration_since(moment)
}
