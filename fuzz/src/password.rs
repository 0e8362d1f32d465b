//! Stored passwords, nonces and keys as strangers may send them: read right or refused.

use wire::auth::{Nonce, Plugin, ed25519, native, rsa, sha_crypt};

/// The bytes are each of those in turn.
pub fn run(data: &[u8]) {
    let plugin = Plugin::from_name(data);
    assert_eq!(plugin.name(), data);
    for plugin in [Plugin::NativePassword, Plugin::CachingSha2, Plugin::Ed25519, plugin] {
        if let Ok(nonce) = Nonce::from_server(&plugin, data) {
            assert!(data.starts_with(nonce.as_bytes()));
            assert!(data.len() <= nonce.as_bytes().len() + 1);
        }
    }
    if let Ok(stored) = native::NativeStored::parse(data) {
        assert!(stored.reveal().as_bytes().eq_ignore_ascii_case(data));
    }
    let nonce = Nonce::from_random([7; Nonce::LEN]);
    if let Ok(key) = ed25519::PublicKey::parse(data) {
        assert!(ed25519::PublicKey::parse(key.text().as_bytes()).is_ok());
        // A scalar below the curve's order, so that the curve is reached; but no signature of
        // anything.
        let mut signature = [0x5a; ed25519::SIGNATURE_LEN];
        signature[ed25519::SIGNATURE_LEN - 1] = 0;
        assert!(!key.check(&nonce, &signature));
    }
    let written = sha_crypt::CryptStored::parse_written(data);
    if let Ok(stored) = sha_crypt::CryptStored::parse(data) {
        assert!(written.is_ok());
        // Slow by intent, so no password is checked here; the debug output does not show the digest either.
        assert!(!format!("{stored:?}").contains(&String::from_utf8_lossy(&data[27..])[..]));
    }
    if let Ok(sealed) = rsa::encrypt(data, b"secret", &nonce) {
        assert!((256..=1024).contains(&sealed.len()), "2048 to 8192 bits");
    }
}
