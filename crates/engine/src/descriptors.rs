//! How the descriptors that the process may open are shared: clients first fall short, then links, administration last.
//!
//! Counts nothing. The kernel gives a new descriptor the lowest free number; so one with number `n` says that all below `n` are
//! in use, and how many are left. Invariant: while a share is left to administration, clients and links do not take it.

/// The shares, as numbers below which a new descriptor must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// The limit of the process; `None` is no limit.
    limit: Option<u64>,
    clients_below: u64,
    links_below: u64,
}

/// What administration takes at most: the places at the console and the HTTP port.
pub const ADMINISTRATION_MAX: u64 = 256;

/// Descriptors beside clients, links and administration: listeners, logs, event loops.
const OWN: u64 = 64;

impl Descriptors {
    /// Shares `limit`, where `links` of them are wanted for links.
    pub fn share(limit: Option<u64>, links: u64) -> Self {
        let Some(most) = limit else {
            return Self { limit, clients_below: u64::MAX, links_below: u64::MAX };
        };
        let links_below = most - ADMINISTRATION_MAX.min(most / 8);
        let clients_below = links_below - links.min(most / 4);
        Self { limit, clients_below, links_below }
    }

    /// Whether a client that was accepted with this descriptor may stay.
    #[inline]
    pub fn admit_client(&self, descriptor: i32) -> bool {
        u64::try_from(descriptor).is_ok_and(|it| it < self.clients_below)
    }

    /// Whether a link that was opened with this descriptor may stay.
    pub fn admit_link(&self, descriptor: i32) -> bool {
        u64::try_from(descriptor).is_ok_and(|it| it < self.links_below)
    }

    pub const fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// How many administration may use.
    pub fn administration(&self) -> usize {
        self.limit.map_or(ADMINISTRATION_MAX, |most| most.saturating_sub(self.links_below)) as usize
    }

    /// How many the process would need for so many clients and links, if that is more than it has.
    pub fn wanted(&self, clients: u64, links: u64) -> Option<u64> {
        let wanted = clients.saturating_add(links).saturating_add(ADMINISTRATION_MAX + OWN);
        self.limit.is_some_and(|limit| limit < wanted).then_some(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_left_for_those_who_come_last() {
        for (limit, links, clients_below, links_below) in [
            (64, 128, 40, 56),
            (1024, 128, 768, 896),
            (1024, 10_000, 640, 896),
            (1 << 20, 128, (1 << 20) - 256 - 128, (1 << 20) - 256),
            (0, 128, 0, 0),
            (1, 1, 1, 1),
        ] {
            let shared = Descriptors::share(Some(limit), links);
            let got = (shared.clients_below, shared.links_below);
            assert_eq!(got, (clients_below, links_below), "{limit}, {links}");
            assert_eq!(shared.administration() as u64, limit - links_below);
        }
    }

    #[test]
    fn a_number_says_what_is_left() {
        let shared = Descriptors::share(Some(64), 128);
        assert!(shared.admit_client(39) && !shared.admit_client(40) && !shared.admit_client(-1));
        assert!(shared.admit_link(55) && !shared.admit_link(56));
        let endless = Descriptors::share(None, 128);
        assert!(endless.admit_client(i32::MAX) && endless.admit_link(i32::MAX));
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
