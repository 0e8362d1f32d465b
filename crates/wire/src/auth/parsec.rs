//! MariaDB's `parsec`, as far as a server's table of accounts tells of it: a salt, and the public key that a client
//! derives from its password with that. It is enough to vouch for a certificate, and not to log in.

use super::base64;

/// How many bytes the parts have: how the key is derived, the salt, the key.
const METHOD: usize = 2;
const SALT: usize = 18;
const KEY: usize = 32;

/// What `mysql.global_priv` has: `P0:salt:key`, both in base64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsecStored([u8; METHOD + SALT + KEY]);

impl ParsecStored {
    /// `None`: it is no such text.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut parts = text.split(|byte| *byte == b':');
        let (method, salt, key) = (parts.next()?, parts.next()?, parts.next()?);
        let [b'P', iterations @ b'0'..=b'3'] = method else { return None };
        let (salt, key) = (base64::decode(salt)?, base64::decode(key)?);
        if parts.next().is_some() || salt.len() != SALT || key.len() != KEY {
            return None;
        }
        let mut stored = [0; METHOD + SALT + KEY];
        stored[..METHOD].copy_from_slice(&[b'P', iterations - b'0']);
        stored[METHOD..METHOD + SALT].copy_from_slice(&salt);
        stored[METHOD + SALT..].copy_from_slice(&key);
        Some(Self(stored))
    }

    pub(super) const fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether a server sends this to a client whose account this is, so that it derives the key.
    pub fn is_asked_with(&self, packet: &[u8]) -> bool {
        packet == &self.0[..METHOD + SALT]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_table_has_is_read() {
        let text = b"P0:Wjm1V7W4Rtbo1ysg5fO3Ke20:7aBMNizG/5zasvpilTFqcLnwiJDNQAUOM+VjNuh+hpI";
        let stored = ParsecStored::parse(text).unwrap();
        assert_eq!(stored.as_bytes().len(), 52);
        assert!(stored.as_bytes().starts_with(b"P\0Z9\xb5W"));
        assert!(stored.is_asked_with(&stored.as_bytes()[..20]) && !stored.is_asked_with(b"P\0"));
        for other in [
            &b""[..],
            b"P0",
            b"P4:Wjm1V7W4Rtbo1ysg5fO3Ke20:7aBMNizG/5zasvpilTFqcLnwiJDNQAUOM+VjNuh+hpI",
            b"P0:Wjm1V7W4Rtbo1ysg5fO3Ke2:7aBMNizG/5zasvpilTFqcLnwiJDNQAUOM+VjNuh+hpI",
            b"P0:Wjm1V7W4Rtbo1ysg5fO3Ke20:7aBMNizG/5zasvpilTFqcLnwiJDNQAUOM+VjNuh+hpI:",
        ] {
            assert_eq!(ParsecStored::parse(other), None);
        }
    }
}
