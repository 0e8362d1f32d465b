//! Which backends can serve which clients: those of the same user, with the same meaning of the protocol.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use engine::account::name::UserName;
use wire::Capabilities;

use crate::users::User;

/// Stands for a [`Key`], by the same number in each worker, and for whether a session or backend has a schema: a
/// backend cannot be told to have none, so those with and those without are pools of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KeyId(u32);

impl KeyId {
    const HAS_SCHEMA: u32 = 1;

    pub(crate) const fn has_schema(self) -> bool {
        self.0 & Self::HAS_SCHEMA != 0
    }

    /// The same key, with or without a schema.
    pub(crate) const fn with_schema(self, has_schema: bool) -> Self {
        Self(self.0 & !Self::HAS_SCHEMA | has_schema as u32)
    }
}

/// What a backend must have in common with a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) user: UserName,
    /// The client's capabilities that change what the server does or sends.
    pub(crate) capabilities: Capabilities,
    /// The character set that the login asks for.
    pub(crate) collation: u8,
    /// Which user, of those that have had this name one after the other: see [`User::era`].
    pub(crate) era: u32,
}

/// Capabilities that a backend has whether its client has them or not: Flifo makes up the difference, or they concern
/// the login only. The way in which results end is not one of them: the packet behind the column definitions says
/// whether more results follow, and some clients believe it. Only the server knows that so early.
const INDIFFERENT: Capabilities = Capabilities(
    Capabilities::LONG_PASSWORD.0
        | Capabilities::LONG_FLAG.0
        | Capabilities::CONNECT_WITH_DB.0
        | Capabilities::COMPRESS.0
        | Capabilities::SSL.0
        | Capabilities::IGNORE_SIGPIPE.0
        | Capabilities::TRANSACTIONS.0
        | Capabilities::RESERVED.0
        | Capabilities::PLUGIN_AUTH.0
        | Capabilities::CONNECT_ATTRS.0
        | Capabilities::LENENC_AUTH.0
        | Capabilities::EXPIRED_PASSWORDS.0
        | Capabilities::SESSION_TRACK.0
        | Capabilities::ZSTD.0
        | Capabilities::MULTI_FACTOR.0
        | Capabilities::EXTENSION.0
        | Capabilities::VERIFY_SERVER_CERT.0
        | Capabilities::REMEMBER_OPTIONS.0,
);

impl Key {
    pub(crate) fn new(user: UserName, capabilities: Capabilities, collation: u8) -> Self {
        Self { user, capabilities: capabilities.without(INDIFFERENT), collation, era: 0 }
    }

    /// The same for a user of this era.
    pub(crate) fn of_era(self, era: u32) -> Self {
        Self { era, ..self }
    }
}

/// The numbers of the keys that any worker has met. A worker asks for each key once.
#[derive(Debug, Default)]
pub(crate) struct Numbers(Mutex<HashMap<Key, u32>>);

impl Numbers {
    fn of(&self, key: &Key) -> Option<u32> {
        let mut numbers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = numbers.len();
        if next >= KEYS_MAX {
            return numbers.get(key).copied();
        }
        Some(*numbers.entry(key.clone()).or_insert(next as u32))
    }

    fn has_room_for(&self, key: &Key) -> bool {
        let numbers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        numbers.len() < KEYS_MAX || numbers.contains_key(key)
    }
}

/// The keys that a worker has met.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    numbers: Arc<Numbers>,
    ids: HashMap<Rc<Key>, KeyId>,
    /// By number; those that only other workers have met are missing.
    keys: Vec<Option<Entry>>,
}

#[derive(Clone, Debug)]
struct Entry {
    key: Rc<Key>,
    user: Option<Arc<User>>,
}

/// A hostile client could make up capabilities without end.
const KEYS_MAX: usize = 4096;

impl Keys {
    pub(crate) fn new(numbers: &Arc<Numbers>) -> Self {
        Self { numbers: Arc::clone(numbers), ..Self::default() }
    }

    /// The key's id, without a schema. `None`: there are too many different ones.
    pub(crate) fn id(&mut self, key: Key) -> Option<KeyId> {
        if let Some(id) = self.ids.get(&key) {
            return Some(*id);
        }
        let number = self.numbers.of(&key)?;
        let (id, at) = (KeyId(number * 2), number as usize);
        let key = Rc::new(key);
        if self.keys.len() <= at {
            self.keys.resize(at + 1, None);
        }
        self.keys[at] = Some(Entry { key: Rc::clone(&key), user: None });
        self.ids.insert(key, id);
        Some(id)
    }

    /// Whether there is an id for this key.
    pub(crate) fn has_room_for(&self, key: &Key) -> bool {
        self.ids.contains_key(key) || self.numbers.has_room_for(key)
    }

    pub(crate) fn get(&self, id: KeyId) -> Rc<Key> {
        let entry = self.keys[id.0 as usize / 2].as_ref();
        Rc::clone(&entry.expect("an id is had of the worker that uses it").key)
    }

    /// Notes the user of a key, so that no statement has to look for it.
    pub(crate) fn own(&mut self, id: KeyId, user: &Arc<User>) {
        if let Some(entry) = &mut self.keys[id.0 as usize / 2] {
            entry.user = Some(Arc::clone(user));
        }
    }

    /// The configuration has this user anew: what was noted of the one before goes on with it.
    pub(crate) fn renew(&mut self, name: &UserName, user: &Arc<User>) {
        for entry in self.keys.iter_mut().flatten() {
            if entry.key.user == *name && entry.key.era == user.era() && entry.user.is_some() {
                entry.user = Some(Arc::clone(user));
            }
        }
    }

    pub(crate) fn user(&self, id: KeyId) -> Option<&Arc<User>> {
        self.keys[id.0 as usize / 2].as_ref()?.user.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(capabilities: Capabilities) -> Key {
        Key::new(UserName::of_account("app"), capabilities, 45)
    }

    #[test]
    fn only_what_matters_tells_keys_apart() {
        let mut keys = Keys::default();
        let plain = keys.id(key(Capabilities::PROTOCOL_41));
        assert_eq!(keys.id(key(Capabilities::PROTOCOL_41 | Capabilities::SSL)), plain);
        assert_ne!(keys.id(key(Capabilities::FOUND_ROWS)), plain);
        assert_ne!(keys.id(key(Capabilities::DEPRECATE_EOF)), plain);
        let again = keys.id(key(Capabilities::PROTOCOL_41).of_era(1));
        assert_ne!(again, plain, "the user is another one by now");
        let plain = plain.unwrap();
        assert_ne!(plain.with_schema(true), plain);
        assert_eq!(plain.with_schema(true).with_schema(false), plain);
        assert_eq!(keys.get(plain.with_schema(true)).user, *"app");
    }

    #[test]
    fn there_is_an_end_to_keys() {
        let mut keys = Keys::default();
        for collation in 0..=255 {
            for bit in 0..=16_u64 {
                let capabilities = Capabilities(bit << 32);
                let _ = keys.id(Key::new(UserName::of_account("x"), capabilities, collation));
            }
        }
        assert_eq!(keys.ids.len(), KEYS_MAX);
        let known = Key::new(UserName::of_account("x"), Capabilities(0), 0);
        assert!(keys.has_room_for(&known) && !keys.has_room_for(&known.of_era(1)));
    }

    #[test]
    fn all_workers_have_the_same_number_for_a_key() {
        let numbers = Arc::default();
        let (mut here, mut there) = (Keys::new(&numbers), Keys::new(&numbers));
        let (plain, other) = (key(Capabilities::PROTOCOL_41), key(Capabilities::FOUND_ROWS));
        let id = here.id(plain.clone());
        assert_ne!(there.id(other), id);
        assert_eq!(there.id(plain), id);
        assert!(id.is_some_and(|id| there.get(id) == here.get(id)));
    }
}
