//! Which schemas a user may use, as the server has said a moment ago.
//!
//! A login that names a schema is complete only when the server has accepted that schema. Clients that connect for one
//! statement ask the same again and again; for a second after the server's answer it need not be asked. The answer
//! ends early with any statement that could make it untrue, whichever worker sees it ([`Alterations`]).

use std::collections::HashMap;
use std::hash::Hash;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::session_variables::SessionVariables;

/// How long an answer is believed: what is altered elsewhere is not seen.
const BELIEVED: Duration = Duration::from_secs(1);

/// Names come from clients: there must be an end to them.
const NAMES_MAX: usize = 1024;

/// Counts, for all workers, the ends of statements that may have taken a schema or a right away.
#[derive(Debug, Default)]
pub struct Alterations(AtomicU64);

/// A count of [`Alterations`], from before a schema was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Since(u64);

impl Alterations {
    pub fn now(&self) -> Since {
        Since(self.0.load(Ordering::Acquire))
    }

    /// A statement that may alter schemas or rights has ended; its client does not know yet.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

/// What one worker's logins have been answered. `K` stands for all that a login says of its session, but the schema.
#[derive(Debug)]
pub struct Schemas<K> {
    seen: HashMap<(K, Rc<[u8]>), Seen>,
}

/// What a session is once it is in its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entered {
    /// As the server writes it.
    pub schema: Rc<[u8]>,
    /// Some of them come with the schema.
    pub settings: Option<Rc<SessionVariables>>,
}

#[derive(Debug)]
struct Seen {
    entered: Entered,
    at: Instant,
    since: Since,
}

impl<K> Default for Schemas<K> {
    fn default() -> Self {
        Self { seen: HashMap::new() }
    }
}

impl<K: Eq + Hash> Schemas<K> {
    /// The server has accepted the schema that this login named; it was asked after the alterations `since`.
    pub fn learn(&mut self, key: K, name: Rc<[u8]>, entered: Entered, since: Since, now: Instant) {
        if self.seen.len() >= NAMES_MAX {
            self.seen.retain(|_, seen| now.saturating_duration_since(seen.at) < BELIEVED);
        }
        if self.seen.len() < NAMES_MAX {
            self.seen.insert((key, name), Seen { entered, at: now, since });
        }
    }

    /// What this login would get, if the server has said so a moment ago.
    pub fn find(&self, key: K, name: Rc<[u8]>, since: Since, now: Instant) -> Option<Entered> {
        let seen = self.seen.get(&(key, name))?;
        let is_fresh = now.saturating_duration_since(seen.at) < BELIEVED && seen.since == since;
        is_fresh.then(|| seen.entered.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> Rc<[u8]> {
        name.as_bytes().into()
    }

    fn entered(schema: &str) -> Entered {
        Entered { schema: name(schema), settings: None }
    }

    #[test]
    fn an_answer_holds_for_a_second_and_for_one_sort_of_login() {
        let (mut schemas, alterations) = (Schemas::default(), Alterations::default());
        let start = Instant::now();
        let since = alterations.now();
        schemas.learn(7, name("Shop"), entered("shop"), since, start);
        let find = |key: u32, ms| {
            let now = start + Duration::from_millis(ms);
            schemas.find(key, name("Shop"), alterations.now(), now)
        };
        assert_eq!(find(7, 999), Some(entered("shop")));
        assert_eq!(find(7, 1000), None);
        assert_eq!(find(8, 0), None);
    }

    #[test]
    fn an_alteration_ends_it_even_if_the_answer_comes_later() {
        let (mut schemas, alterations) = (Schemas::default(), Alterations::default());
        let (start, since) = (Instant::now(), alterations.now());
        alterations.add();
        schemas.learn(7, name("shop"), entered("shop"), since, start);
        assert_eq!(schemas.find(7, name("shop"), alterations.now(), start), None);
    }

    #[test]
    fn there_is_an_end_to_names() {
        let mut schemas = Schemas::default();
        let start = Instant::now();
        for index in 0..3 * NAMES_MAX {
            let name = name(&index.to_string());
            schemas.learn(index, name, entered("shop"), Since::default(), start);
        }
        assert_eq!(schemas.seen.len(), NAMES_MAX);
        let later = start + BELIEVED;
        schemas.learn(0, name("shop"), entered("shop"), Since::default(), later);
        assert_eq!(schemas.seen.len(), 1);
    }
}
