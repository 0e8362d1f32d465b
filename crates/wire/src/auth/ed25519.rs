//! MariaDB's `client_ed25519`: signs the nonce with a key made of the password.
//!
//! Ed25519 with one difference: the secret that is hashed into the key is the password, of any length, not 32 random
//! bytes. A server that checks a signature learns nothing with which it could log in elsewhere.

use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use curve25519_dalek::scalar::{Scalar, clamp_integer};
use sha2::{Digest, Sha512};

use super::{Nonce, SecretHash, base64};

/// Bytes of a signature, which is what a client answers.
pub const SIGNATURE_LEN: usize = 64;

/// What signs: SHA-512 of a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningKey(SecretHash<64>);

impl SigningKey {
    pub fn of(password: &[u8]) -> Self {
        Self(<[u8; 64]>::from(Sha512::digest(password)).into())
    }

    pub fn public(&self) -> PublicKey {
        PublicKey(EdwardsPoint::mul_base(&self.scalar()).compress().0)
    }

    pub fn sign(&self, nonce: &Nonce) -> [u8; SIGNATURE_LEN] {
        let (_, prefix) = self.0.as_bytes().split_at(32);
        let once = scalar(&[prefix, nonce.as_bytes()]);
        let commitment = EdwardsPoint::mul_base(&once).compress();
        let challenge = challenge(&commitment, &self.public(), nonce);
        let response = once + challenge * self.scalar();
        let mut signature = [0; SIGNATURE_LEN];
        signature[..32].copy_from_slice(commitment.as_bytes());
        signature[32..].copy_from_slice(response.as_bytes());
        signature
    }

    fn scalar(&self) -> Scalar {
        let mut low = [0; 32];
        low.copy_from_slice(&self.0.as_bytes()[..32]);
        Scalar::from_bytes_mod_order(clamp_integer(low))
    }
}

/// What `mysql.user` has. It checks signatures and makes none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

/// A text that is no stored key of this plugin. The text is not repeated, for it may be a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a key of MariaDB's ed25519: it has 43 characters of base64")]
pub struct NotEd25519;

impl PublicKey {
    /// Reads the form that `mysql.user` and `ed25519_password()` have.
    pub fn parse(text: &[u8]) -> Result<Self, NotEd25519> {
        let bytes = if text.len() == 43 { base64::decode(text) } else { None };
        bytes.and_then(|bytes| bytes.try_into().ok()).map(Self).ok_or(NotEd25519)
    }

    /// Writes that form.
    pub fn text(&self) -> String {
        base64::encode(&self.0)
    }

    pub(super) const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Checks what a client answered.
    pub fn check(&self, nonce: &Nonce, response: &[u8]) -> bool {
        let Some((commitment, response)) = response.split_first_chunk::<32>() else { return false };
        let Ok(response) = <[u8; 32]>::try_from(response) else { return false };
        let Some(response) = Option::<Scalar>::from(Scalar::from_canonical_bytes(response)) else {
            return false;
        };
        let Some(public) = CompressedEdwardsY(self.0).decompress() else { return false };
        let commitment = CompressedEdwardsY(*commitment);
        let challenge = challenge(&commitment, self, nonce);
        // Nothing here is secret, so its time may tell.
        let expected =
            EdwardsPoint::vartime_double_scalar_mul_basepoint(&challenge, &-public, &response);
        expected.compress() == commitment
    }
}

fn challenge(commitment: &CompressedEdwardsY, public: &PublicKey, nonce: &Nonce) -> Scalar {
    scalar(&[commitment.as_bytes(), &public.0, nonce.as_bytes()])
}

fn scalar(parts: &[&[u8]]) -> Scalar {
    let mut hash = Sha512::new();
    for part in parts {
        hash.update(part);
    }
    Scalar::from_bytes_mod_order_wide(&hash.finalize().into())
}
