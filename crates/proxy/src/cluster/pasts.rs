//! What clients that count as one have written and read, over all connections and workers: those of a user, or of a
//! user's program (`routing.reads_by`).
//!
//! Owns one past for each, found by names once for a connection. It stands behind a lock, which statements take where
//! that option asks for it. What decides is [`engine::cluster::past`]. Invariants: there are no more than
//! [`PASTS_MAX`]; one that is forgotten, or was never there, begins with what others may have written before, so
//! nothing is promised less for it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::account::name::UserName;
use engine::cluster::past::Past;

use crate::config::ReadsBy;

/// So many are told apart in a cluster. All others count as one.
const PASTS_MAX: usize = 16_384;

/// How often it is looked for some without clients, while there are too many.
const LOOK: Duration = Duration::from_secs(1);

/// Those of one cluster.
#[derive(Debug, Default)]
pub(crate) struct Pasts(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    all: HashMap<Whose, Arc<CommonPast>>,
    others: Option<Arc<CommonPast>>,
    looked: Option<Instant>,
}

/// The names of clients that count as one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Whose {
    user: UserName,
    program: Option<Box<[u8]>>,
}

impl Whose {
    /// `program`: what it calls itself, if that counts.
    pub(crate) fn new(user: &UserName, program: Option<&[u8]>) -> Self {
        Self { user: user.clone(), program: program.map(Box::from) }
    }
}

/// What a client has in common with others, in one cluster.
pub(crate) struct Common {
    /// The cluster's number.
    pub(crate) cluster: usize,
    pub(crate) by: ReadsBy,
    pub(crate) past: Arc<CommonPast>,
}

/// What clients that count as one have written and read.
#[derive(Debug)]
pub(crate) struct CommonPast(Mutex<Past>);

impl CommonPast {
    fn begin(now: Instant, writer: Option<usize>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Past::of_several(now, writer))))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Past> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pasts {
    /// That of this one. If there is none, it begins now.
    pub(crate) fn of(&self, whose: Whose, now: Instant, writer: Option<usize>) -> Arc<CommonPast> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.of(whose, now, writer, PASTS_MAX)
    }
}

impl Known {
    fn of(
        &mut self,
        whose: Whose,
        now: Instant,
        writer: Option<usize>,
        most: usize,
    ) -> Arc<CommonPast> {
        let is_full = self.all.len() >= most;
        let is_due = || self.looked.is_none_or(|at| now.saturating_duration_since(at) >= LOOK);
        if is_full && is_due() && !self.all.contains_key(&whose) {
            self.looked = Some(now);
            // Clients have the others.
            self.all.retain(|_, past| Arc::strong_count(past) > 1);
        }
        let is_full = self.all.len() >= most;
        let past = match self.all.entry(whose) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(_) if is_full => {
                self.others.get_or_insert_with(|| CommonPast::begin(now, writer))
            }
            Entry::Vacant(place) => place.insert(CommonPast::begin(now, writer)),
        };
        Arc::clone(past)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_no_more_than_a_bound_and_those_of_clients_stay() {
        let (mut known, now) = (Known::default(), Instant::now());
        let whose = |name: &str, program: Option<&str>| {
            Whose::new(&UserName::of_account(name), program.map(str::as_bytes))
        };
        let a = known.of(whose("a", None), now, None, 2);
        assert!(Arc::ptr_eq(&a, &known.of(whose("a", None), now, None, 2)));
        let b = known.of(whose("a", Some("x")), now, None, 2);
        assert!(!Arc::ptr_eq(&a, &b));
        let c = known.of(whose("b", None), now, None, 2);
        let d = known.of(whose("c", None), now, None, 2);
        assert!(Arc::ptr_eq(&c, &d), "those that are too many count as one");
        drop(b);
        assert!(Arc::ptr_eq(&c, &known.of(whose("b", None), now, None, 2)), "not yet");
        let later = now + LOOK;
        let b = known.of(whose("b", None), later, None, 2);
        assert!(!Arc::ptr_eq(&c, &b));
        assert!(Arc::ptr_eq(&a, &known.of(whose("a", None), later, None, 2)));
        assert_eq!(known.all.len(), 2);
    }
}
