//! Secret bytes: in memory that is never swapped or dumped, wiped when dropped, never shown, compared in constant time.

use std::fmt;

use subtle::ConstantTimeEq;
use sys::secret_memory::Locked;
use zeroize::Zeroize;

/// A secret of any length: a password, or what one is hidden in.
#[derive(Clone)]
pub struct Secret(Locked);

impl Default for Secret {
    fn default() -> Self {
        Self(Locked::zeroed(0))
    }
}

impl Secret {
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<Vec<u8>> for Secret {
    fn from(mut bytes: Vec<u8>) -> Self {
        let secret = Self(Locked::from(&*bytes));
        bytes.zeroize();
        secret
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        text.into_bytes().into()
    }
}

impl From<&[u8]> for Secret {
    fn from(bytes: &[u8]) -> Self {
        Self(Locked::from(bytes))
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        text.as_bytes().into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Secret {}

/// A secret of known length: a hash that is as good as the password, or a key.
#[derive(Clone)]
pub struct SecretHash<const N: usize>(Locked);

impl<const N: usize> SecretHash<N> {
    pub fn as_bytes(&self) -> &[u8; N] {
        self.0.first_chunk().expect("it is made with N bytes")
    }

    /// Combines it bit by bit with another: hides it, or finds it again.
    #[must_use]
    pub(super) fn xor(mut self, other: &Self) -> Self {
        for (byte, other) in self.0.iter_mut().zip(&*other.0) {
            *byte ^= other;
        }
        self
    }
}

impl<const N: usize> From<[u8; N]> for SecretHash<N> {
    fn from(mut bytes: [u8; N]) -> Self {
        let hash = Self(Locked::from(&bytes[..]));
        bytes.zeroize();
        hash
    }
}

impl<const N: usize> fmt::Debug for SecretHash<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash")
    }
}

impl<const N: usize> PartialEq for SecretHash<N> {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl<const N: usize> Eq for SecretHash<N> {}
