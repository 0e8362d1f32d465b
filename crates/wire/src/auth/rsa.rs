//! The RSA that hides a password on a connection that is not safe: the full login of
//! `caching_sha2_password`.
//!
//! RSA-OAEP with SHA-1, as MySQL has it since 8.0.5. An attacker that only listens learns nothing. An attacker that can
//! change the traffic can send its own key, so a client should have the server's key already, or use TLS.

use std::fmt;

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rsa::{
    KeySize, OAEP_SHA1_MGF1SHA1, OaepPrivateDecryptingKey, OaepPublicEncryptingKey,
    PrivateDecryptingKey, PublicEncryptingKey,
};

use super::{Nonce, Secret, base64, caching_sha2};

/// Why a password could not be encrypted or a key not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RsaError {
    #[error("the server's public key is not PEM with the label PUBLIC KEY")]
    NotPem,
    #[error("the server's public key is not an RSA key of 2048 to 8192 bits")]
    NotRsa,
    #[error("the password is too long for the server's RSA key: use TLS")]
    TooLong,
    #[error("the RSA library failed")]
    Library,
}

/// Encrypts a password for a server, as its client. `pem` is what the server sent.
pub fn encrypt(pem: &[u8], password: &[u8], nonce: &Nonce) -> Result<Vec<u8>, RsaError> {
    let der = from_pem(pem).ok_or(RsaError::NotPem)?;
    let key = PublicEncryptingKey::from_der(&der).map_err(|_| RsaError::NotRsa)?;
    let key = OaepPublicEncryptingKey::new(key).map_err(|_| RsaError::NotRsa)?;
    let plain = caching_sha2::obfuscate(password, nonce);
    if plain.as_bytes().len() > key.max_plaintext_size(&OAEP_SHA1_MGF1SHA1) {
        return Err(RsaError::TooLong);
    }
    let mut out = vec![0; key.ciphertext_size()];
    let len = key
        .encrypt(&OAEP_SHA1_MGF1SHA1, plain.as_bytes(), &mut out, None)
        .map_err(|_| RsaError::Library)?
        .len();
    out.truncate(len);
    Ok(out)
}

/// The server's end: a key pair.
pub struct RsaEnd {
    key: OaepPrivateDecryptingKey,
    public_pem: String,
}

impl RsaEnd {
    /// Makes a key pair of 2048 bits. Takes a tenth of a second or several: not for an event loop.
    pub fn generate() -> Result<Self, RsaError> {
        let key =
            PrivateDecryptingKey::generate(KeySize::Rsa2048).map_err(|_| RsaError::Library)?;
        let public: PublicKeyX509Der<'_> =
            key.public_key().as_der().map_err(|_| RsaError::Library)?;
        let public_pem = to_pem(public.as_ref());
        let key = OaepPrivateDecryptingKey::new(key).map_err(|_| RsaError::Library)?;
        Ok(Self { key, public_pem })
    }

    /// What a client is sent that asks for the key.
    pub fn public_pem(&self) -> &str {
        &self.public_pem
    }

    /// Decrypts a client's password, or `None` where the bytes hide none. Takes about a
    /// millisecond.
    pub fn decrypt(&self, sent: &[u8], nonce: &Nonce) -> Option<Secret> {
        let mut plain = vec![0; self.key.min_output_size()];
        let decrypted = self.key.decrypt(&OAEP_SHA1_MGF1SHA1, sent, &mut plain, None);
        let len = decrypted.ok()?.len();
        plain.truncate(len);
        caching_sha2::reveal(&plain.into(), nonce)
    }
}

impl fmt::Debug for RsaEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RsaEnd")
    }
}

const BEGIN: &str = "-----BEGIN PUBLIC KEY-----";
const END: &str = "-----END PUBLIC KEY-----";

fn to_pem(der: &[u8]) -> String {
    let mut text = base64::encode(der);
    text.extend(std::iter::repeat_n('=', (3 - der.len() % 3) % 3));
    let mut pem = format!("{BEGIN}\n");
    while !text.is_empty() {
        let rest = text.split_off(text.len().min(64));
        pem.push_str(&text);
        pem.push('\n');
        text = rest;
    }
    pem + END + "\n"
}

fn from_pem(pem: &[u8]) -> Option<Vec<u8>> {
    let pem = std::str::from_utf8(pem).ok()?;
    let (_, rest) = pem.split_once(BEGIN)?;
    let (body, _) = rest.split_once(END)?;
    let body: String = body.split_ascii_whitespace().collect();
    base64::decode(body.trim_end_matches('=').as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nonce() -> Nonce {
        Nonce::from_random(*b"a nonce of 20 bytes!")
    }

    #[test]
    fn a_password_passes_under_the_key() {
        let end = RsaEnd::generate().unwrap();
        for password in ["", "secret", &"long ".repeat(42)] {
            let sent = encrypt(end.public_pem().as_bytes(), password.as_bytes(), &nonce()).unwrap();
            assert_eq!(sent.len(), 256);
            assert_eq!(end.decrypt(&sent, &nonce()), Some(password.into()));
            // Another nonce, a byte changed, a part missing.
            let other = Nonce::from_random(*b"A nonce of 20 bytes!");
            assert_ne!(end.decrypt(&sent, &other), Some(password.into()));
            let mut changed = sent.clone();
            changed[17] ^= 1;
            assert_eq!(end.decrypt(&changed, &nonce()), None);
            assert_eq!(end.decrypt(&sent[1..], &nonce()), None);
        }
        let pem = end.public_pem().as_bytes();
        let sent = encrypt(pem, &[b'x'; 213], &nonce()).unwrap();
        assert!(end.decrypt(&sent, &nonce()).is_some());
        assert_eq!(encrypt(pem, &[b'x'; 214], &nonce()), Err(RsaError::TooLong));
        assert_eq!(end.decrypt(&[], &nonce()), None);
        assert_eq!(end.decrypt(&[0; 4096], &nonce()), None);
    }

    #[test]
    fn keys_are_read_as_other_programs_write_them() {
        // Made by openssl, with the line ends of either system.
        let pem = include_str!("rsa/public.pem");
        assert_eq!(to_pem(&from_pem(pem.as_bytes()).unwrap()), pem);
        assert_eq!(encrypt(pem.as_bytes(), b"x", &nonce()).unwrap().len(), 256);
        let pem = pem.replace('\n', "\r\n");
        assert_eq!(encrypt(pem.as_bytes(), b"x", &nonce()).unwrap().len(), 256);
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let cut = &include_str!("rsa/public.pem")[..300];
        for pem in ["", "secret", BEGIN, cut, "-----BEGIN PUBLIC KEY-----*-----END PUBLIC KEY-----"]
        {
            assert_eq!(encrypt(pem.as_bytes(), b"x", &nonce()), Err(RsaError::NotPem), "{pem}");
        }
        assert_eq!(encrypt(&[0xff; 100], b"x", &nonce()), Err(RsaError::NotPem));
        let pem = to_pem(b"no key");
        assert_eq!(encrypt(pem.as_bytes(), b"x", &nonce()), Err(RsaError::NotRsa));
        let pem = format!("{BEGIN}\n{END}\n");
        assert_eq!(encrypt(pem.as_bytes(), b"x", &nonce()), Err(RsaError::NotRsa));
    }
}
