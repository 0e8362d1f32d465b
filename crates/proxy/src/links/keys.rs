//! Which links can serve which clients: those of the same user, with the same meaning of the protocol.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use engine::account::name::UserName;
use wire::Capabilities;

use crate::arrive::users::User;

/// Stands within one worker for a [`Key`], and for whether a session or link has a schema: a link cannot be told to
/// have none, so those with and those without are pools of their own.
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

/// What a link must have in common with a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) user: UserName,
    /// The client's capabilities that change what the server does or sends.
    pub(crate) capabilities: Capabilities,
    /// The character set that the login asks for.
    pub(crate) collation: u8,
    /// Which of the users who have had this name one after the other: see [`User::era`].
    pub(crate) era: u32,
}

/// Capabilities that a link has whether its client has them or not: Flifo makes up the difference, or they concern
/// the login only.
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
        | Capabilities::DEPRECATE_EOF.0
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

/// The keys that a worker has met.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    ids: HashMap<Rc<Key>, KeyId>,
    keys: Vec<(Rc<Key>, Option<Arc<User>>)>,
}

/// A hostile client could make up capabilities without end.
const KEYS_MAX: usize = 4096;

impl Keys {
    /// The key's id, without a schema. `None`: there are too many different ones.
    pub(crate) fn id(&mut self, key: Key) -> Option<KeyId> {
        if let Some(id) = self.ids.get(&key) {
            return Some(*id);
        }
        if self.keys.len() >= KEYS_MAX {
            return None;
        }
        let id = KeyId(self.keys.len() as u32 * 2);
        let key = Rc::new(key);
        self.keys.push((Rc::clone(&key), None));
        self.ids.insert(key, id);
        Some(id)
    }

    /// Whether there is an id for this key.
    pub(crate) fn has_room_for(&self, key: &Key) -> bool {
        self.keys.len() < KEYS_MAX || self.ids.contains_key(key)
    }

    pub(crate) fn get(&self, id: KeyId) -> Rc<Key> {
        Rc::clone(&self.keys[id.0 as usize / 2].0)
    }

    /// Says whose key it is, so that nobody has to look for that on the road.
    pub(crate) fn own(&mut self, id: KeyId, user: &Arc<User>) {
        self.keys[id.0 as usize / 2].1 = Some(Arc::clone(user));
    }

    pub(crate) fn user(&self, id: KeyId) -> Option<&Arc<User>> {
        self.keys[id.0 as usize / 2].1.as_ref()
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
        assert_eq!(keys.keys.len(), KEYS_MAX);
        let known = Key::new(UserName::of_account("x"), Capabilities(0), 0);
        assert!(keys.has_room_for(&known) && !keys.has_room_for(&known.of_era(1)));
    }
}
