//! When rights have changed, and when the server has confirmed them last.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use engine::rights::{Era, Eras, Ledger, OfUser};

/// What all workers know of changes of rights.
#[derive(Debug)]
pub(crate) struct Rights {
    pub(crate) eras: Eras,
    /// Times are counted from here.
    pub(crate) epoch: Instant,
}

impl Default for Rights {
    fn default() -> Self {
        Self { eras: Eras::default(), epoch: crate::worker::clock::read() }
    }
}

impl Rights {
    pub(crate) fn time(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.epoch)
    }

    /// Whether rights that a login has found at this time may be others by now, unseen. `ledger`: what the watch has
    /// seen of the server.
    pub(crate) fn is_beyond(
        &self,
        ledger: &Ledger,
        login: Instant,
        now: Instant,
        bound: Duration,
    ) -> bool {
        let age = now.saturating_duration_since(login);
        age >= bound && {
            let known = ledger.known_until(self.time(login));
            self.time(now).saturating_sub(known) >= bound
        }
    }
}

/// Idle backends are looked at once a second, so they go a little before their time; and not all at once, though they
/// may have been opened so.
pub(crate) fn of_backend(bound: Duration, share: u32) -> Duration {
    (bound - bound / 4 * share / SHARES).saturating_sub(LOOK)
}

pub(crate) const SHARES: u32 = 8;

/// No idle backend is looked at sooner.
pub(crate) fn soonest(bound: Duration) -> Duration {
    of_backend(bound, SHARES - 1)
}

/// How often idle backends are looked at for their age.
pub(crate) const LOOK: Duration = Duration::from_millis(1500);

/// What is known of the rights of one user.
#[derive(Debug, Default)]
pub(crate) struct OfOne {
    /// When they may have changed.
    pub(crate) changed: OfUser,
    pub(crate) confirmed: Confirmed,
}

/// When the server let a user in last, as far as Flifo has asked.
#[derive(Debug, Default)]
pub(crate) struct Confirmed {
    /// Nothing is known of the time before Flifo: until rights change, that counts as confirmed then.
    pub(crate) last: Mutex<Option<(Era, Instant)>>,
    /// Held by the login that asks.
    pub(crate) asking: tokio::sync::Mutex<()>,
}

impl Confirmed {
    /// The server has let the user in by a login that began at this time, in this era.
    pub(crate) fn confirm(&self, era: Era, begun: Instant) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((era, begun));
    }

    pub(crate) fn last(&self, rights: &Rights) -> (Era, Instant) {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.unwrap_or_else(|| (Era::default(), rights.epoch))
    }
}
