//! Which connections have a place at a door with few places (the console, the HTTP port), and which one must give it up
//! for a new one.
//!
//! Owns the list of visits; sockets are the caller's. Invariants: there are never more visits than places; a visit
//! in the middle of an answer keeps its place; while any visit is idle, a new one gets in. Which of the idle ones must
//! go: of those from the address with most visits (the one that comes counts for its own), the one that is idle
//! longest. So one address cannot push out others while it has more places than they.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// The number of a visit; none is given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VisitId(u64);

/// Where a visit comes from. All connections by a Unix socket are one, and so are all of an IPv6 network of 64 bits,
/// which is what one visitor has at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VisitOrigin {
    Socket,
    Address(IpAddr),
}

impl From<IpAddr> for VisitOrigin {
    fn from(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V6(it) => Ipv6Addr::from_bits(it.to_bits() >> 64 << 64).into(),
            v4 => v4,
        })
    }
}

/// What becomes of a new visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// There was a free place.
    Free(VisitId),
    /// The other one has lost its place, and is to be told.
    InPlaceOf { id: VisitId, gone: VisitId },
    /// All places are taken by visits in the middle of an answer.
    Full,
}

/// The visits at a door. Times are those since any fixed moment.
#[derive(Debug)]
pub struct Visits {
    places: usize,
    next: u64,
    visits: Vec<Visit>,
}

#[derive(Debug)]
struct Visit {
    id: VisitId,
    origin: VisitOrigin,
    doing: Doing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Idle { since: Duration },
    Answer,
}

impl Visits {
    pub const fn new(places: usize) -> Self {
        Self { places, next: 0, visits: Vec::new() }
    }

    /// A visit begins, and is idle until [`Self::begin`].
    pub fn enter(&mut self, origin: VisitOrigin, now: Duration) -> Entry {
        let gone = match self.visits.len() < self.places {
            true => None,
            false => match self.least_worth(origin) {
                Some(place) => Some(self.visits.swap_remove(place).id),
                None => return Entry::Full,
            },
        };
        let id = VisitId(self.next);
        self.next += 1;
        self.visits.push(Visit { id, origin, doing: Doing::Idle { since: now } });
        match gone {
            Some(gone) => Entry::InPlaceOf { id, gone },
            None => Entry::Free(id),
        }
    }

    /// The idle visit that must go for one from `pending_login`.
    fn least_worth(&self, pending_login: VisitOrigin) -> Option<usize> {
        let from = |origin| {
            let inside = self.visits.iter().filter(|visit| visit.origin == origin).count();
            inside + usize::from(origin == pending_login)
        };
        let idle = self.visits.iter().enumerate().filter_map(|(place, visit)| match visit.doing {
            Doing::Idle { since } => Some((place, (from(visit.origin), std::cmp::Reverse(since)))),
            Doing::Answer => None,
        });
        idle.max_by_key(|(_, worth)| *worth).map(|(place, _)| place)
    }

    /// An answer has begun.
    pub fn begin(&mut self, id: VisitId) {
        self.set(id, Doing::Answer);
    }

    /// Its answer has been given.
    pub fn rest(&mut self, id: VisitId, now: Duration) {
        self.set(id, Doing::Idle { since: now });
    }

    /// A visit that has lost its place may end its answer; that changes nothing.
    fn set(&mut self, id: VisitId, doing: Doing) {
        if let Some(visit) = self.visits.iter_mut().find(|visit| visit.id == id) {
            visit.doing = doing;
        }
    }

    /// It has gone, or never was in.
    pub fn leave(&mut self, id: VisitId) {
        self.visits.retain(|visit| visit.id != id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn at(text: &str) -> VisitOrigin {
        text.parse::<IpAddr>().expect("an address").into()
    }

    /// Fills all places from one address, one a second.
    fn full(places: usize, origin: VisitOrigin) -> (Visits, Vec<VisitId>) {
        let mut visits = Visits::new(places);
        let ids = (0..places).map(|it| match visits.enter(origin, s(it as u64)) {
            Entry::Free(id) => id,
            other => panic!("{other:?}"),
        });
        let ids = ids.collect();
        (visits, ids)
    }

    #[test]
    fn who_comes_takes_the_place_of_the_one_that_is_idle_longest() {
        let (mut visits, ids) = full(4, VisitOrigin::Socket);
        visits.begin(ids[0]);
        visits.begin(ids[1]);
        visits.rest(ids[1], s(9));
        let mut gone = Vec::new();
        for second in 10..13 {
            let Entry::InPlaceOf { id, gone: it } = visits.enter(VisitOrigin::Socket, s(second))
            else {
                panic!("a visit is idle");
            };
            visits.begin(id);
            gone.push(it);
        }
        assert_eq!(gone, [ids[2], ids[3], ids[1]]);
        assert_eq!(visits.enter(VisitOrigin::Socket, s(13)), Entry::Full);
        visits.leave(ids[0]);
        assert!(matches!(visits.enter(VisitOrigin::Socket, s(14)), Entry::Free(_)));
    }

    #[test]
    fn one_address_pushes_out_its_own_first() {
        let (crowd, few) = (at("10.0.0.1"), at("10.0.0.2"));
        let (mut visits, ids) = full(4, crowd);
        let came = |entry| match entry {
            Entry::InPlaceOf { id, gone } => (id, gone),
            other => panic!("{other:?}"),
        };
        let (first, gone) = came(visits.enter(few, s(5)));
        assert_eq!(gone, ids[0]);
        // Idle longer than all that come now, and not touched.
        for second in 6..1000 {
            assert_ne!(came(visits.enter(crowd, s(second))).1, first);
        }
        // Of two and two, the new visit counts for its own address.
        let (_, gone) = came(visits.enter(few, s(1000)));
        assert_ne!(gone, first);
        assert_eq!(came(visits.enter(few, s(1001))).1, first);
    }

    #[test]
    fn networks_are_one_visitor_where_a_visitor_has_a_network() {
        assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:2"));
        assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
        assert_eq!(at("::ffff:10.0.0.1"), at("10.0.0.1"));
        assert_ne!(at("10.0.0.1"), at("10.0.0.2"));
    }

    #[test]
    fn who_has_lost_its_place_changes_nothing() {
        let (mut visits, ids) = full(1, VisitOrigin::Socket);
        let Entry::InPlaceOf { id, gone } = visits.enter(VisitOrigin::Socket, s(1)) else {
            panic!("it is idle");
        };
        assert_eq!(gone, ids[0]);
        visits.begin(gone);
        visits.leave(gone);
        visits.begin(id);
        assert_eq!(visits.enter(VisitOrigin::Socket, s(2)), Entry::Full);
    }
}
