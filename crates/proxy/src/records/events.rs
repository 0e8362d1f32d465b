//! How many lines of the log of events were lost: it is written by whichever thread says one.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static LOST: AtomicU64 = AtomicU64::new(0);

/// A line could not be written.
pub(crate) fn lose() {
    LOST.fetch_add(1, Relaxed);
}

/// What was lost was not worth to be counted.
pub(crate) fn forget_one() {
    LOST.fetch_sub(1, Relaxed);
}

pub(crate) fn lost() -> u64 {
    LOST.load(Relaxed)
}
