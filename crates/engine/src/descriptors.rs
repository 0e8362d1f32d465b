//! How the descriptors that the process may open are shared: clients first fall short, then backends, administration
//! last.
//!
//! Counts nothing. The kernel gives a new descriptor the lowest free number; so one with number `n` says that all below
//! `n` are in use, and how many are left. Invariant: while a share is left to administration, clients and backends do
//! not take it.

/// The shares, as numbers below which a new descriptor must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// The limit of the process; `None` is no limit.
    limit: Option<u64>,
    clients_below: u64,
    backends_below: u64,
}

/// What administration takes at most: the places at the console and the HTTP port.
pub const ADMINISTRATION_MAX: u64 = 256;

/// Descriptors beside clients, backends and administration: listeners, logs, event loops.
const OWN: u64 = 64;

impl Descriptors {
    /// Shares `limit`, where `backends` of them are wanted for backends.
    pub fn share(limit: Option<u64>, backends: u64) -> Self {
        let Some(most) = limit else {
            return Self { limit, clients_below: u64::MAX, backends_below: u64::MAX };
        };
        let backends_below = most - ADMINISTRATION_MAX.min(most / 8);
        let clients_below = backends_below - backends.min(most / 4);
        Self { limit, clients_below, backends_below }
    }

    /// Whether a client that was accepted with this descriptor may stay.
    #[inline]
    pub fn admit_client(&self, descriptor: i32) -> bool {
        u64::try_from(descriptor).is_ok_and(|it| it < self.clients_below)
    }

    /// Whether a backend that was opened with this descriptor may stay.
    pub fn admit_backend(&self, descriptor: i32) -> bool {
        u64::try_from(descriptor).is_ok_and(|it| it < self.backends_below)
    }

    pub const fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// How many administration may use.
    pub fn administration(&self) -> usize {
        self.limit.map_or(ADMINISTRATION_MAX, |most| most.saturating_sub(self.backends_below))
            as usize
    }

    /// How many the process would need for so many clients and backends, if that is more than it has.
    pub fn wanted(&self, clients: u64, backends: u64) -> Option<u64> {
        let wanted = clients.saturating_add(backends).saturating_add(ADMINISTRATION_MAX + OWN);
        self.limit.is_some_and(|limit| limit < wanted).then_some(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_left_for_those_who_come_last() {
        for (limit, backends, clients_below, backends_below) in [
            (64, 128, 40, 56),
            (1024, 128, 768, 896),
            (1024, 10_000, 640, 896),
            (1 << 20, 128, (1 << 20) - 256 - 128, (1 << 20) - 256),
            (0, 128, 0, 0),
            (1, 1, 1, 1),
        ] {
            let shared = Descriptors::share(Some(limit), backends);
            let got = (shared.clients_below, shared.backends_below);
            assert_eq!(got, (clients_below, backends_below), "{limit}, {backends}");
            assert_eq!(shared.administration() as u64, limit - backends_below);
        }
    }

    #[test]
    fn a_number_says_what_is_left() {
        let shared = Descriptors::share(Some(64), 128);
        assert!(shared.admit_client(39) && !shared.admit_client(40) && !shared.admit_client(-1));
        assert!(shared.admit_backend(55) && !shared.admit_backend(56));
        let endless = Descriptors::share(None, 128);
        assert!(endless.admit_client(i32::MAX) && endless.admit_backend(i32::MAX));
        assert_eq!(endless.administration() as u64, ADMINISTRATION_MAX);
    }

    #[test]
    fn what_is_missing_is_said() {
        let shared = Descriptors::share(Some(4096), 128);
        assert_eq!(shared.wanted(3000, 128), None);
        assert_eq!(shared.wanted(10_000, 128), Some(10_448));
        assert_eq!(Descriptors::share(None, 128).wanted(u64::MAX, 128), None);
    }
}
