//! `caching_sha2_password`: proves SHA-256 of a password to a server that remembers SHA-256 of that hash.
//!
//! A server that does not remember it asks for the password itself (*full* authentication): in
//! clear where the connection is safe, else hidden under the server's RSA key (see [`super::rsa`]).
//! It then checks it against what `mysql.user` has (see [`super::sha_crypt`]) and remembers it. The
//! order of things:
//!
//! | server sends | client sends |
//! |---|---|
//! | nonce | [`Sha2Stage1::respond`] |
//! | more data: [`FAST_OK`], then OK | |
//! | more data: [`FULL`] | safe connection: the password and a zero byte |
//! | | else [`REQUEST_PUBLIC_KEY`], unless it has the key |
//! | more data: the key, as PEM | the password, obfuscated and encrypted |
//! | OK or ERR | |
//!
//! "More data" is a packet of its own, [`crate::handshake::AuthPacket::More`]; what the client
//! sends is a bare packet.

use sha2::{Digest, Sha256};

use super::{Nonce, Secret, SecretHash};

/// From the client: send the key to encrypt the password with.
pub const REQUEST_PUBLIC_KEY: u8 = 0x02;

/// From the server: the answer is good, OK follows.
pub const FAST_OK: u8 = 0x03;

/// From the server: the answer tells nothing, send the password itself.
pub const FULL: u8 = 0x04;

/// Bytes of what a client answers first.
pub const RESPONSE_LEN: usize = 32;

/// No server takes a longer password with this plugin.
pub const PASSWORD_MAX: usize = 256;

/// SHA-256 of a password: all that a fast login needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sha2Stage1(SecretHash<32>);

impl Sha2Stage1 {
    pub fn of(password: &[u8]) -> Self {
        Self(hash(&[password]))
    }

    /// What a client answers first. Without a password it answers nothing instead.
    pub fn respond(&self, nonce: &Nonce) -> [u8; 32] {
        *self.0.clone().xor(&self.stored().mask(nonce)).as_bytes()
    }

    /// What a server remembers.
    pub fn stored(&self) -> Sha2Stored {
        Sha2Stored(hash(&[self.0.as_bytes()]))
    }
}

/// SHA-256 of SHA-256 of a password. Servers keep it in memory only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sha2Stored(SecretHash<32>);

impl Sha2Stored {
    /// Checks what a client answered, and learns what to log in with as that client.
    pub fn check(&self, nonce: &Nonce, response: &[u8]) -> Option<Sha2Stage1> {
        let response = SecretHash::from(<[u8; 32]>::try_from(response).ok()?);
        let stage1 = Sha2Stage1(response.xor(&self.mask(nonce)));
        (stage1.stored() == *self).then_some(stage1)
    }

    /// What hides the hash in an answer.
    fn mask(&self, nonce: &Nonce) -> SecretHash<32> {
        hash(&[self.0.as_bytes(), nonce.as_bytes()])
    }
}

/// Mixes a password and its zero byte with the nonce, so that two logins never encrypt the same.
pub fn obfuscate(password: &[u8], nonce: &Nonce) -> Secret {
    xor([password, &[0]].concat(), nonce)
}

/// Finds the password again, or `None` where the bytes hide none: it ends at its only zero byte.
pub fn reveal(obfuscated: &Secret, nonce: &Nonce) -> Option<Secret> {
    clear(&xor(obfuscated.as_bytes().to_vec(), nonce))
}

/// Takes a password as it is sent in clear: it ends at its only zero byte.
pub fn clear(sent: &Secret) -> Option<Secret> {
    let (0, password) = sent.as_bytes().split_last()? else { return None };
    (!password.contains(&0) && password.len() <= PASSWORD_MAX).then(|| password.into())
}

fn xor(mut bytes: Vec<u8>, nonce: &Nonce) -> Secret {
    for (byte, nonce) in bytes.iter_mut().zip(nonce.as_bytes().iter().cycle()) {
        *byte ^= nonce;
    }
    bytes.into()
}

fn hash(parts: &[&[u8]]) -> SecretHash<32> {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    <[u8; 32]>::from(hash.finalize()).into()
}
