//! What any thread of Flifo's has for itself: its clock, its buffers, what it counts, and its eye on its own loop.

pub(crate) mod buffers;
pub(crate) mod clock;
pub(crate) mod counters;
pub(crate) mod iterations;
pub(crate) mod listening;
pub(crate) mod open_listener;
pub(crate) mod outbox;
pub(crate) mod panics;
pub(crate) mod seldom;
pub(crate) mod spare_memory;
pub(crate) mod steps;
pub(crate) mod tasks;
pub(crate) mod wreckage;
