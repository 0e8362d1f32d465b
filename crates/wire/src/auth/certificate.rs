//! How a server that knows a password's hash vouches for its certificate, so that a client need not know the authority
//! that signed it (MariaDB 11.4 and later, MDEV-31855).
//!
//! The OK packet that ends the login has, in the place of its message, a byte that names the hash function, and the hash
//! in capital hexadecimal digits: of what the server stores of the password, as bytes; of the scramble; and of the
//! certificate's own hash. An attacker between the two has another certificate, and does not know what is stored.
//! The scramble is that of the greeting, whatever nonce the account's method has; of `mysql_native_password`, which has
//! no other nonce, clients take the one that they were asked with last.

use sha2::{Digest, Sha256};

use super::{Nonce, ed25519, native, parsec};

/// SHA-256 of a certificate as it was shown (DER).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

/// What a server stores of a password, for methods by which clients let it vouch for its certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    Native(native::NativeStored),
    Ed25519(ed25519::PublicKey),
    Parsec(parsec::ParsecStored),
}

/// The first byte: what follows is SHA-256.
pub const BY_SHA256: u8 = 0x01;

impl Fingerprint {
    pub fn of(certificate: &[u8]) -> Self {
        Self(Sha256::digest(certificate).into())
    }

    /// What an OK packet says in the place of its message.
    pub fn vouched_by(&self, stored: &Stored, scramble: &Nonce) -> Vec<u8> {
        let mut hash = Sha256::new();
        match stored {
            Stored::Native(stored) => hash.update(stored.as_bytes()),
            Stored::Ed25519(key) => hash.update(key.as_bytes()),
            Stored::Parsec(stored) => hash.update(stored.as_bytes()),
        }
        hash.update(scramble.as_bytes());
        hash.update(self.0);
        let mut message = vec![BY_SHA256];
        for byte in hash.finalize() {
            message.extend_from_slice(format!("{byte:02X}").as_bytes());
        }
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a MariaDB 11.8.9 has said it.
    #[test]
    fn it_is_said_as_a_server_says_it() {
        let stored = native::NativeStage1::of(b"secret").stored();
        let scramble = Nonce::from_server(&super::super::Plugin::NativePassword, SCRAMBLE).unwrap();
        let fingerprint = Fingerprint(FINGERPRINT);
        let said = fingerprint.vouched_by(&Stored::Native(stored), &scramble);
        assert_eq!(said, SAID);
    }

    const SCRAMBLE: &[u8] = b"V0,+2XG<417`_>Vte}d`";
    const FINGERPRINT: [u8; 32] = [
        0xbe, 0xef, 0x3d, 0x5d, 0xf9, 0xa1, 0x75, 0x27, 0x5f, 0x8f, 0x5d, 0x17, 0x4f, 0x01, 0x7e,
        0x2d, 0xf6, 0xbb, 0x8f, 0x8a, 0xec, 0x0e, 0x54, 0x07, 0xc5, 0x02, 0xe9, 0xdb, 0xf6, 0x15,
        0x59, 0xe7,
    ];
    const SAID: &[u8] = b"\x01CF6A3C5822ECBB81A0B827F7129E73DBF39A9EDC38FB7F13D04838D8D4DB3AE2";
}
