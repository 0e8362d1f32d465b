//! `mysql_native_password`: proves SHA-1 of a password to a server that knows SHA-1 of that hash.
//!
//! The server stores the hash of the hash. A good answer shows it the hash, with which it, or a
//! proxy, can answer for the user in turn.

use sha1::{Digest, Sha1};

use super::{Nonce, SecretHash, hex_digit};

/// SHA-1 of a password: all that a login needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeStage1(SecretHash<20>);

impl NativeStage1 {
    pub fn of(password: &[u8]) -> Self {
        Self(hash(&[password]))
    }

    pub fn as_bytes(&self) -> &[u8; 20] {
        self.0.as_bytes()
    }

    /// `None`: it has another length.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self(<[u8; 20]>::try_from(bytes).ok()?.into()))
    }

    /// What a client answers. Without a password it answers nothing instead.
    pub fn respond(&self, nonce: &Nonce) -> [u8; 20] {
        *self.0.clone().xor(&self.stored().mask(nonce)).as_bytes()
    }

    /// What a server stores.
    pub fn stored(&self) -> NativeStored {
        NativeStored(hash(&[self.0.as_bytes()]))
    }
}

/// SHA-1 of SHA-1 of a password, as `mysql.user` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeStored(SecretHash<20>);

/// A text that is no stored hash of this plugin. The text is not repeated, for it may be a
/// password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a hash of mysql_native_password: it has the form *HEX, with 40 hexadecimal digits")]
pub struct NotNative;

impl NativeStored {
    /// Reads the form `*94BD...`, which `mysql.user` and `PASSWORD()` have.
    pub fn parse(text: &[u8]) -> Result<Self, NotNative> {
        let digits = text.strip_prefix(b"*").ok_or(NotNative)?;
        let (pairs, []) = digits.as_chunks::<2>() else { return Err(NotNative) };
        if pairs.len() != 20 {
            return Err(NotNative);
        }
        let mut bytes = [0; 20];
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            let digit = |byte| hex_digit(byte).ok_or(NotNative);
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Ok(Self(bytes.into()))
    }

    /// Writes that form. A reader of it can try passwords on it, so it must not be logged.
    pub fn reveal(&self) -> String {
        let digits = self.0.as_bytes().iter().map(|byte| format!("{byte:02X}"));
        std::iter::once("*".to_owned()).chain(digits).collect()
    }

    pub(super) fn as_bytes(&self) -> &[u8; 20] {
        self.0.as_bytes()
    }

    /// Checks what a client answered, and learns what to log in with as that client.
    pub fn check(&self, nonce: &Nonce, response: &[u8]) -> Option<NativeStage1> {
        let response = SecretHash::from(<[u8; 20]>::try_from(response).ok()?);
        let stage1 = NativeStage1(response.xor(&self.mask(nonce)));
        (stage1.stored() == *self).then_some(stage1)
    }

    /// What hides the hash in an answer.
    fn mask(&self, nonce: &Nonce) -> SecretHash<20> {
        hash(&[nonce.as_bytes(), self.0.as_bytes()])
    }
}

fn hash(parts: &[&[u8]]) -> SecretHash<20> {
    let mut hash = Sha1::new();
    for part in parts {
        hash.update(part);
    }
    <[u8; 20]>::from(hash.finalize()).into()
}
