//! The atomics that workers share. They stand here under one name, so that a test can compile the very same files
//! with atomics that try out every order of events (`tests/interleavings.rs`).

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
