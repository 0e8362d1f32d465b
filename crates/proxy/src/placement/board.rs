//! What placement tells the console and the HTTP port.
//!
//! Owns the last state; how it is shown, and where, is not known here.

use std::sync::{Mutex, PoisonError};

use engine::placement::{Look, Verdict};

/// Shared by the thread that decides and those that show.
#[derive(Debug, Default)]
pub(crate) struct Board(Mutex<PlacementState>);

#[derive(Clone, Debug, Default)]
pub(crate) struct PlacementState {
    pub(crate) policy: &'static str,
    /// `None` until something has been seen for long enough, and where nothing is looked at.
    pub(crate) verdict: Option<Verdict>,
    pub(crate) look: Look,
    /// The server's process, if it is on this machine.
    pub(crate) server: Option<u32>,
    pub(crate) kept: Vec<&'static str>,
    pub(crate) on_trial: Option<&'static str>,
    /// What was not possible the last time, and what an administrator could do.
    pub(crate) hint: Option<String>,
}

impl Board {
    pub(crate) fn put(&self, state: PlacementState) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    pub(crate) fn state(&self) -> PlacementState {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
