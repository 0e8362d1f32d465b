//! What the Flifo before this one still has, for as long as it has anything: clients, each with a reason why it has not
//! come, and connections to servers.
//!
//! It tells both with what it counts ([`Totals`]), by names that no counter has. Its connections are taken off those
//! that this process may have: both together have as many as one.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::state::shared::{Mail, Shared};
use crate::worker::counters::Totals;

/// How the names of its clients begin, and those of its connections.
pub(crate) const LEFT: &str = "left.";
pub(crate) const HELD: &str = "held.";

/// Why a client stays with the Flifo that another one has taken over from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stays {
    /// Its statement runs, it has still to take a reply, or it is on its way.
    AtWork,
    /// It speaks TLS, which cannot be passed on.
    Tls,
    /// It keeps a connection to a server that does.
    ServerTls,
    /// The new configuration does not name its user or its server, or its password is not known there.
    Refused,
}

impl Stays {
    pub(crate) const ALL: [Self; 4] = [Self::AtWork, Self::Tls, Self::ServerTls, Self::Refused];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::AtWork => "at_work",
            Self::Tls => "tls",
            Self::ServerTls => "server_tls",
            Self::Refused => "refused",
        }
    }

    /// How many of them there are, in words.
    pub(crate) const fn means(self) -> &'static str {
        match self {
            Self::AtWork => "at work (they go when they rest)",
            Self::Tls => "with TLS (it cannot be passed on: they stay until they end)",
            Self::ServerTls => {
                "with a connection to a server with TLS that they keep (until they give it back)"
            }
            Self::Refused => {
                "refused by the new one (its configuration names no such user or server, or it cannot vouch for them)"
            }
        }
    }
}

/// Clients that stay, in the order of [`Stays::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Left(pub(crate) [u64; Stays::ALL.len()]);

impl Left {
    pub(crate) fn add(&mut self, why: Stays) {
        self.0[why as usize] += 1;
    }

    #[must_use]
    pub(crate) fn plus(mut self, other: Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(here, there)| *here += there);
        self
    }

    /// Those that do not go by themselves.
    pub(crate) fn bound(self) -> usize {
        let bound = self.0.iter().sum::<u64>() - self.0[Stays::AtWork as usize];
        usize::try_from(bound).unwrap_or(usize::MAX)
    }

    /// Why they stay. Nothing where none does.
    pub(crate) fn told(&self) -> String {
        let all = Stays::ALL.iter().zip(self.0).filter(|(_, count)| *count > 0);
        all.map(|(why, count)| format!("{count} {}", why.means())).collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn totals(self) -> impl Iterator<Item = (String, u64)> {
        let all = Stays::ALL.into_iter().zip(self.0);
        all.map(|(why, count)| (format!("{LEFT}{}", why.name()), count))
    }
}

/// The Flifo before this one.
#[derive(Clone, Debug)]
pub(crate) struct FormerFlifo {
    pub(crate) pid: u32,
    pub(crate) version: String,
    pub(crate) since: Instant,
    pub(crate) left: Left,
    /// Its connections, by servers.
    pub(crate) held: BTreeMap<String, u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Former(Mutex<Option<FormerFlifo>>);

impl Former {
    fn lock(&self) -> MutexGuard<'_, Option<FormerFlifo>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It is there, as long as it has clients.
    pub(crate) fn begin(&self, pid: u32, version: &str) {
        // Called once, on a thread of its own.
        #[expect(clippy::disallowed_methods)]
        let (since, version) = (crate::worker::clock::read(), version.to_owned());
        *self.lock() =
            Some(FormerFlifo { pid, version, since, left: Left::default(), held: BTreeMap::new() });
    }

    pub(crate) fn told(&self) -> Option<FormerFlifo> {
        self.lock().clone()
    }
}

/// The Flifo before has told what it has.
pub(crate) fn hear(shared: &Shared, totals: &Totals) {
    if let Some(before) = &mut *shared.succession.predecessor.lock() {
        let left = totals.of(LEFT).collect::<BTreeMap<_, _>>();
        before.left = Left(Stays::ALL.map(|why| left.get(why.name()).copied().unwrap_or(0)));
        before.held = totals.of(HELD).map(|(name, count)| (name.to_owned(), count)).collect();
    }
    let held: BTreeMap<_, _> = totals.of(HELD).collect();
    share(shared, |name| held.get(name).copied().unwrap_or(0));
}

/// It has nothing left.
pub(crate) fn end(shared: &Shared) {
    *shared.succession.predecessor.lock() = None;
    share(shared, |_| 0);
}

/// Another process has so many of each server's connections.
pub(crate) fn share(shared: &Shared, held: impl Fn(&str) -> u64) {
    for server in shared.cluster.servers.iter() {
        let held = u32::try_from(held(&server.name)).unwrap_or(u32::MAX);
        server.backends.set_elsewhere(held, |worker| {
            shared.mail(worker, Mail::SlotFree(server.id));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_clients_stay_is_told_where_any_does() {
        let mut left = Left::default();
        assert_eq!(left.told(), "");
        left.add(Stays::Tls);
        left.add(Stays::Tls);
        left.add(Stays::Refused);
        let told = left.told();
        assert!(told.starts_with("2 with TLS (") && told.contains(", 1 refused by"), "{told}");
        let names: Vec<_> = left.plus(left).totals().collect();
        assert_eq!(names[1], ("left.tls".to_owned(), 4));
    }
}
