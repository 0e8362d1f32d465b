//! Prepared statements that many clients share: a client's ids are its own, and a backend prepares each text once.
//!
//! [`Statements`] is what a client has prepared, [`Prepared`] one of them; [`Known`] is what a backend has prepared.
//! What the server keeps for one of them from one command to the next ([`KeptByServer`]) holds its client's backend, no
//! longer. Two clients share a preparation only if its [`Source`] is the same.

use serde::{Deserialize, Serialize};
use std::rc::Rc;

use crate::numbers::NumberMap;
use crate::session_variables::Interned;
use crate::source::{Source, Sources};

/// One statement of one client.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prepared {
    pub source: Rc<Source>,
    pub parameters: u16,
    /// Parameter types as the client sent them last. The server may know others, from another client.
    #[serde(with = "crate::described::some_bytes")]
    pub types: Option<Rc<[u8]>>,
    /// Prepared for this client alone on the backend that it holds, because the server keeps more of it than its text.
    pub own: Option<PreparedOnBackend>,
    /// A piece came of a parameter that it does not have: it is not executed before it is reset.
    pub is_spoiled: bool,
    kept: KeptByServer,
}

/// What the server keeps of a statement between two commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptByServer {
    /// Rows that are still to be fetched.
    pub cursor: bool,
    /// Pieces of a parameter, for the next execution.
    pub long_data: bool,
}

impl KeptByServer {
    pub const fn any(self) -> bool {
        self.cursor || self.long_data
    }
}

/// The statements that a client has prepared.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statements {
    /// The id that was given last.
    given: u32,
    /// The statement that was prepared last, if that succeeded.
    last: Option<u32>,
    /// Most clients have none, and no memory for them.
    open: Option<Box<NumberMap<u32, Prepared>>>,
    /// For how many of them the server keeps something.
    kept: usize,
    /// What they keep, as [`Prepared::bytes`] counts it.
    bytes: usize,
}

/// As many as MySQL allows a whole server by default.
pub const STATEMENTS_MAX: usize = 16_382;

/// Bytes that one client's statements may keep. An application's are a hundredth of that.
pub const BYTES_MAX: usize = 16 << 20;

impl Prepared {
    /// Its text, and the types of its parameters, whether the client has sent them yet or not.
    fn bytes(&self) -> usize {
        self.source.text.len() + 2 * usize::from(self.parameters)
    }

    pub const fn kept(&self) -> KeptByServer {
        self.kept
    }

    /// The client has sent these types of its parameters, and may leave them out from now on.
    pub fn learn_types(&mut self, types: Option<&[u8]>) {
        if let Some(types) = types
            && self.types.as_deref() != Some(types)
        {
            self.types = Some(types.into());
        }
    }
}

impl Statements {
    /// Whether one more with a text of this length may be added. Its parameters are not known
    /// before the server has read it, so their types may go beyond the bound once.
    pub fn has_room(&self, text_len: usize) -> bool {
        self.len() < STATEMENTS_MAX && self.bytes + text_len <= BYTES_MAX
    }

    /// Keeps a statement and gives it an id. `None`: there is no room.
    pub fn add(&mut self, source: Rc<Source>, parameters: u16) -> Option<u32> {
        if !self.has_room(source.text.len()) {
            return None;
        }
        loop {
            // Zero is no id, and the highest ones mean something else to MariaDB.
            self.given = if self.given >= 0x7fff_ffff { 1 } else { self.given + 1 };
            if self.look(self.given).is_none() {
                break;
            }
        }
        let kept = KeptByServer::default();
        let (types, own, is_spoiled) = (None, None, false);
        let prepared = Prepared { source, parameters, types, own, is_spoiled, kept };
        self.bytes += prepared.bytes();
        self.open.get_or_insert_default().insert(self.given, prepared);
        self.last = Some(self.given);
        self.last
    }

    /// The id of the statement that was prepared last. `None`: that failed, or it is closed.
    pub const fn last(&self) -> Option<u32> {
        self.last
    }

    /// A preparation has failed: no statement is the last one.
    pub const fn forget_last(&mut self) {
        self.last = None;
    }

    /// The server keeps this of a statement now.
    pub fn keep(&mut self, id: u32, kept: KeptByServer) {
        if let Some(prepared) = self.open.as_mut().and_then(|open| open.get_mut(&id)) {
            let before = std::mem::replace(&mut prepared.kept, kept);
            self.kept = self.kept + usize::from(kept.any()) - usize::from(before.any());
        }
    }

    /// Whether the server keeps something of one of them.
    pub const fn keep_backend(&self) -> bool {
        self.kept > 0
    }

    pub fn get(&mut self, id: u32) -> Option<&mut Prepared> {
        self.open.as_mut()?.get_mut(&id)
    }

    pub fn look(&self, id: u32) -> Option<&Prepared> {
        self.open.as_ref()?.get(&id)
    }

    pub fn close(&mut self, id: u32) -> Option<Prepared> {
        let closed = self.open.as_mut()?.remove(&id)?;
        self.bytes -= closed.bytes();
        self.kept -= usize::from(closed.kept.any());
        if self.last == Some(id) {
            self.last = None;
        }
        Some(closed)
    }

    pub fn clear(&mut self) {
        self.open = None;
        (self.last, self.kept, self.bytes) = (None, 0, 0);
    }

    /// Their backend is gone, with all that it kept of them.
    pub fn leave_backend(&mut self) {
        for prepared in self.open.iter_mut().flat_map(|open| open.values_mut()) {
            (prepared.own, prepared.kept) = (None, KeptByServer::default());
        }
        self.kept = 0;
    }

    /// They have come from another process.
    pub(crate) fn settle(&mut self, interned: &mut Interned, sources: &mut Sources) {
        for prepared in self.open.iter_mut().flat_map(|open| open.values_mut()) {
            prepared.source = sources.adopt(&prepared.source, interned);
        }
    }

    /// Bytes that they keep.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn len(&self) -> usize {
        self.open.as_ref().map_or(0, |open| open.len())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A statement that a backend has prepared.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreparedOnBackend {
    pub id: u32,
    /// Parameter types that the server was told last.
    #[serde(with = "crate::described::some_bytes")]
    pub types: Option<Rc<[u8]>>,
    used: u64,
}

impl PreparedOnBackend {
    /// One that the server has just prepared.
    pub const fn new(id: u32) -> Self {
        Self { id, types: None, used: 0 }
    }
}

/// The statements that a backend has prepared for all.
#[derive(Debug, Default)]
pub struct Known {
    statements: NumberMap<Rc<Source>, PreparedOnBackend>,
    uses: u64,
}

/// As many shared statements a backend keeps prepared.
pub const KNOWN_MAX: usize = 256;

impl Known {
    pub fn get(&mut self, source: &Rc<Source>) -> Option<&mut PreparedOnBackend> {
        self.uses += 1;
        let statement = self.statements.get_mut(source)?;
        statement.used = self.uses;
        Some(statement)
    }

    /// Keeps what the server has prepared, as one of at most `max`. The answer are ids that must be closed: this one,
    /// if the same text was known already, or those of the statements that were not used for longest.
    #[must_use]
    pub fn add(&mut self, source: Rc<Source>, id: u32, max: usize) -> Vec<u32> {
        if self.statements.contains_key(&source) {
            return vec![id];
        }
        let evicted = self.shrink(max.clamp(1, KNOWN_MAX) - 1);
        self.uses += 1;
        self.statements
            .insert(source, PreparedOnBackend { used: self.uses, ..PreparedOnBackend::new(id) });
        evicted
    }

    /// Forgets those that were not used for longest, until no more than `max` are left. The answer are their ids.
    #[must_use]
    pub fn shrink(&mut self, max: usize) -> Vec<u32> {
        let too_many = self.statements.len().saturating_sub(max);
        (0..too_many).map_while(|_| self.evict()).collect()
    }

    /// Forgets one of them. The answer is its id.
    #[must_use]
    pub fn remove(&mut self, source: &Rc<Source>) -> Option<u32> {
        self.statements.remove(source).map(|statement| statement.id)
    }

    /// The ids of all of them.
    pub fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.statements.values().map(|statement| statement.id)
    }

    pub fn clear(&mut self) {
        self.statements.clear();
    }

    pub fn len(&self) -> usize {
        self.statements.len()
    }

    pub fn is_empty(&self) -> bool {
        self.statements.is_empty()
    }

    fn evict(&mut self) -> Option<u32> {
        let oldest = self.statements.iter().min_by_key(|(_, statement)| statement.used)?;
        let source = Rc::clone(oldest.0);
        self.statements.remove(&source).map(|statement| statement.id)
    }
}

#[cfg(test)]
mod tests {
    use wire::lex::Dialect;

    use super::*;

    fn source(text: &str) -> Rc<Source> {
        let (text, settings) = (text.as_bytes().into(), Rc::default());
        Rc::new(Source::new(None, text, settings, Dialect::default()))
    }

    #[test]
    fn a_client_has_ids_of_its_own() {
        let mut statements = Statements::default();
        let first = statements.add(source("SELECT 1"), 0).unwrap();
        let second = statements.add(source("SELECT 1"), 0).unwrap();
        assert_ne!(first, second);
        assert!(statements.close(first).is_some());
        assert!(statements.get(first).is_none() && statements.get(second).is_some());
    }

    #[test]
    fn a_client_cannot_have_any_number() {
        let mut statements = Statements::default();
        let one = source("SELECT 1");
        for _ in 0..STATEMENTS_MAX {
            assert!(statements.add(Rc::clone(&one), 0).is_some());
        }
        assert_eq!(statements.add(one, 0), None);
    }

    #[test]
    fn a_client_cannot_keep_any_length() {
        let mut statements = Statements::default();
        let long = source(&"?".repeat(BYTES_MAX / 8));
        // With the types of its parameters each takes more than its text.
        let mut add = || statements.add(Rc::clone(&long), u16::MAX);
        let ids: Vec<u32> = std::iter::from_fn(&mut add).collect();
        assert_eq!(ids.len(), 7);
        assert!(statements.has_room(1) && !statements.has_room(long.text.len()));
        statements.close(ids[0]).unwrap();
        assert!(statements.has_room(long.text.len()) && statements.close(ids[0]).is_none());
        statements.clear();
        assert!(statements.has_room(BYTES_MAX) && !statements.has_room(BYTES_MAX + 1));
    }

    #[test]
    fn a_backend_knows_a_text_once_and_forgets_the_coldest() {
        let mut known = Known::default();
        assert!(known.add(source("a"), 1, usize::MAX).is_empty());
        assert_eq!(known.add(source("a"), 2, usize::MAX), [2], "the newer one is closed");
        for id in 0..KNOWN_MAX as u32 - 1 {
            assert!(known.add(source(&format!("b{id}")), id + 10, usize::MAX).is_empty());
        }
        assert!(known.get(&source("a")).is_some());
        assert_eq!(known.add(source("c"), 5, usize::MAX), [10], "b0 was used longest ago");
        assert_eq!(known.len(), KNOWN_MAX);
    }

    #[test]
    fn a_backend_knows_no_more_than_it_may() {
        let mut known = Known::default();
        for (id, text) in (1..).zip(["a", "b", "c", "d"]) {
            assert!(known.add(source(text), id, 9).is_empty());
        }
        assert!(known.get(&source("a")).is_some());
        assert_eq!(known.add(source("e"), 5, 3), [2, 3], "it may have fewer than before");
        assert_eq!(known.remove(&source("d")), Some(4));
        assert_eq!(known.remove(&source("d")), None);
        assert_eq!(known.shrink(1), [1]);
        assert_eq!(known.add(source("f"), 6, 0), [5], "one there must be");
        assert_eq!(known.len(), 1);
    }

    #[test]
    fn what_the_server_keeps_of_a_statement_ends_with_it() {
        let mut statements = Statements::default();
        let mut add = || statements.add(source("SELECT 1"), 0).unwrap();
        let (one, other) = (add(), add());
        assert!(!statements.keep_backend());
        let cursor = KeptByServer { cursor: true, long_data: false };
        statements.keep(one, cursor);
        statements.keep(one, KeptByServer { long_data: true, ..cursor });
        statements.keep(other, KeptByServer { long_data: true, cursor: false });
        statements.keep(77, cursor);
        statements.keep(one, KeptByServer::default());
        assert!(statements.keep_backend(), "of the other one");
        statements.close(other).unwrap();
        assert!(!statements.keep_backend());
        statements.keep(one, cursor);
        statements.clear();
        assert!(!statements.keep_backend());
    }

    #[test]
    fn the_last_one_is_the_last_that_could_be_prepared() {
        let mut statements = Statements::default();
        assert_eq!(statements.last(), None);
        let one = statements.add(source("SELECT 1"), 0);
        assert_eq!(statements.last(), one);
        statements.forget_last();
        assert_eq!(statements.last(), None);
        let other = statements.add(source("SELECT 1"), 0);
        statements.close(one.unwrap());
        assert_eq!(statements.last(), other);
        statements.close(other.unwrap());
        assert_eq!(statements.last(), None);
    }
}
