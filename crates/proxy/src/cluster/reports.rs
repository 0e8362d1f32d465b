//! Whether a server reports changes of session state, and whether its resets are known to leave nothing.
//!
//! Invariants: what a server of another version has shown counts no more; a reset is trusted only after a trial.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use backend::Address;
use engine::account::name::UserName;

/// What is known of a server's reports and resets.
#[derive(Debug, Default)]
pub(crate) struct SessionReports {
    state: AtomicU8,
    resets_cleanly: AtomicBool,
    /// Users that have tried its reset: what one may not leave, another may.
    tried: Mutex<HashSet<UserName>>,
}

/// Values of `state`; zero before anything is known.
const UNKNOWN: u8 = 0;
const REPORTING: u8 = 1;
const SILENT: u8 = 2;

/// So many users try, at most.
const USERS_MAX: usize = 1024;

impl SessionReports {
    /// It has greeted. `claims`: it says that it reports.
    pub(crate) fn greet(&self, claims: bool, is_another: bool) {
        if is_another {
            self.state.store(UNKNOWN, Ordering::Relaxed);
            self.resets_cleanly.store(false, Ordering::Relaxed);
            self.tried.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        if !claims {
            self.state.store(SILENT, Ordering::Relaxed);
        }
    }

    /// A session was asked to report, and has done so or not.
    pub(crate) fn see(&self, reports: bool, address: &Address) {
        let state = if reports { REPORTING } else { SILENT };
        if self.state.swap(state, Ordering::Relaxed) != state && !reports {
            tracing::warn!(
                server = %address,
                "this server says that it reports changes of session state, and does not"
            );
        }
    }

    /// Whether it is known to report nothing.
    pub(crate) fn are_missing(&self) -> bool {
        self.state.load(Ordering::Relaxed) == SILENT
    }

    /// Whether a session that was reset has nothing left.
    pub(crate) fn resets_cleanly(&self) -> bool {
        self.resets_cleanly.load(Ordering::Relaxed)
    }

    /// Whether this user is to try its reset now: each does so once.
    pub(crate) fn may_try(&self, user: &UserName) -> bool {
        let mut tried = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        !self.resets_cleanly() && tried.len() < USERS_MAX && tried.insert(user.clone())
    }

    /// What came of a trial.
    pub(crate) fn see_trial(&self, is_clean: bool) {
        self.resets_cleanly.store(is_clean, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_of_another_version_is_tried_anew() {
        let (reports, user) = (SessionReports::default(), UserName::of_account("app"));
        let address: Address = "127.0.0.1:3306".parse().unwrap();
        reports.greet(true, true);
        assert!(!reports.are_missing(), "it is not known yet");
        reports.see(false, &address);
        assert!(reports.are_missing());
        reports.greet(true, false);
        assert!(reports.are_missing(), "its claim is known to be wrong");
        assert!(reports.may_try(&user) && !reports.may_try(&user), "once is enough");
        assert!(reports.may_try(&UserName::of_account("other")));
        reports.see_trial(true);
        assert!(reports.resets_cleanly() && !reports.may_try(&UserName::of_account("third")));
        reports.greet(true, true);
        assert!(!reports.are_missing() && !reports.resets_cleanly() && reports.may_try(&user));
        reports.greet(false, false);
        assert!(reports.are_missing());
    }
}
