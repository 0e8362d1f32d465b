//! Passwords as MySQL and MariaDB prove them on the wire; both sides of each plugin.
//!
//! Owns the arithmetic: what a client answers to a nonce, how a server checks the answer, and what
//! the checking side learns by it. A server that knows only a stored hash recovers from a good
//! answer what is needed to log in as that user elsewhere; that is what lets a proxy stand between.
//! The packets that carry the answers are [`crate::handshake`]'s; which plugin is used, and whether
//! a connection is safe enough for it, is the caller's.
//!
//! Invariants: what must stay secret is wiped when it is dropped and never shown; answers are
//! compared in constant time; an answer of the wrong length is wrong, not an error.

pub mod base64;
pub mod caching_sha2;
pub mod certificate;
pub mod ed25519;
pub mod native;
pub mod parsec;
pub mod rsa;
mod secret;
pub mod sha_crypt;

use std::fmt;

use crate::bytes::Malformed;

pub use self::secret::{Secret, SecretHash};

/// A way to prove a password, as it is named on the wire.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Plugin {
    /// SHA-1 of SHA-1; the default of MariaDB, and of MySQL before 8.0.
    NativePassword,
    /// SHA-256 of SHA-256, with the password itself when the server does not remember it; MySQL
    /// 8.0's default.
    CachingSha2,
    /// MariaDB's signature.
    Ed25519,
    /// The password itself, for what only the server can check: PAM, LDAP.
    ClearPassword,
    /// One that is not spoken here, for example `parsec` or `auth_gssapi_client`.
    Other(Box<[u8]>),
}

impl Plugin {
    pub fn from_name(name: &[u8]) -> Self {
        match name {
            b"mysql_native_password" => Self::NativePassword,
            b"caching_sha2_password" => Self::CachingSha2,
            b"client_ed25519" => Self::Ed25519,
            b"mysql_clear_password" => Self::ClearPassword,
            other => Self::Other(other.into()),
        }
    }

    pub fn name(&self) -> &[u8] {
        match self {
            Self::NativePassword => b"mysql_native_password",
            Self::CachingSha2 => b"caching_sha2_password",
            Self::Ed25519 => b"client_ed25519",
            Self::ClearPassword => b"mysql_clear_password",
            Self::Other(name) => name,
        }
    }

    /// What a client answers first, or `None` where the plugin is not spoken here.
    ///
    /// [`Self::ClearPassword`] sends the password in clear: the caller must know that no attacker in the network path
    /// can read it.
    pub fn respond(&self, password: &Secret, nonce: &Nonce) -> Option<Vec<u8>> {
        let password = password.as_bytes();
        Some(match self {
            // Where there is no password, the two hashing plugins say nothing at all.
            Self::NativePassword | Self::CachingSha2 if password.is_empty() => Vec::new(),
            Self::NativePassword => native::NativeStage1::of(password).respond(nonce).to_vec(),
            Self::CachingSha2 => caching_sha2::Sha2Stage1::of(password).respond(nonce).to_vec(),
            Self::Ed25519 => ed25519::SigningKey::of(password).sign(nonce).to_vec(),
            Self::ClearPassword => [password, &[0]].concat(),
            Self::Other(_) => return None,
        })
    }
}

impl fmt::Display for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name().escape_ascii())
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Random bytes that a server sends once, so that no answer is good twice.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Nonce {
    bytes: [u8; Self::ED25519_LEN],
    len: usize,
}

impl Nonce {
    /// Bytes of a nonce, except for [`Plugin::Ed25519`].
    pub const LEN: usize = 20;

    /// Bytes of a nonce of [`Plugin::Ed25519`].
    pub const ED25519_LEN: usize = 32;

    /// Makes a nonce for a greeting out of random bytes.
    ///
    /// Some clients take a nonce for text that ends at a zero byte, and stored passwords use `$` as
    /// a separator. As servers do, this keeps seven bits of each byte and avoids both, which leaves
    /// more than 139 random bits.
    pub fn from_random(random: [u8; Self::LEN]) -> Self {
        let mut nonce = Self { bytes: [0; Self::ED25519_LEN], len: Self::LEN };
        for (byte, random) in nonce.bytes.iter_mut().zip(random) {
            *byte = match random & 0x7f {
                unfit @ (0 | b'$') => unfit + 1,
                fit => fit,
            };
        }
        nonce
    }

    /// Makes a nonce for [`Plugin::Ed25519`], which takes any bytes. It is sent without a zero byte
    /// behind it.
    pub const fn from_random_for_ed25519(random: [u8; Self::ED25519_LEN]) -> Self {
        Self { bytes: random, len: Self::ED25519_LEN }
    }

    /// Takes the nonce from what a server sent in its greeting or in a request to switch to
    /// `plugin`.
    ///
    /// A zero byte behind the nonce does not count. One that is missing does not matter either, but
    /// the last byte of a nonce for [`Plugin::Ed25519`] may be zero itself: pass those bytes as
    /// they came.
    pub fn from_server(plugin: &Plugin, data: &[u8]) -> Result<Self, Malformed> {
        let len = match plugin {
            Plugin::Ed25519 => Self::ED25519_LEN,
            _ => Self::LEN,
        };
        match data.split_at_checked(len) {
            Some((nonce, [] | [0])) => {
                let mut bytes = [0; Self::ED25519_LEN];
                bytes[..len].copy_from_slice(nonce);
                Ok(Self { bytes, len })
            }
            _ => Err(Malformed::new("nonce")),
        }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nonce({} bytes)", self.len)
    }
}

/// The bytes that these hexadecimal digits stand for. `None`: they are not, or not whole bytes.
pub fn from_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| Some(hex_digit(*high)? << 4 | hex_digit(*low)?)).collect()
}

fn hex_digit(character: u8) -> Option<u8> {
    char::from(character).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests;
