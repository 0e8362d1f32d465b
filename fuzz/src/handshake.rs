//! Greetings, logins and the packets between them say the same after they were written again.

use wire::Capabilities;
use wire::handshake::{AuthPacket, FirstPacket, Greeting, Login, TLS_REQUEST_LEN};

/// The bytes are each packet's payload in turn.
pub fn run(data: &[u8]) {
    greeting(data);
    match FirstPacket::decode(data) {
        Ok(FirstPacket::TlsRequest { capabilities }) => {
            assert_eq!(data.len(), TLS_REQUEST_LEN);
            assert!(capabilities.has(Capabilities::SSL));
        }
        Ok(FirstPacket::Login(login)) => self::login(&login),
        Ok(FirstPacket::Old(login)) => assert_eq!(login.payload(), data),
        Err(_) => {}
    }
    authentication(data);
}

fn greeting(data: &[u8]) {
    let Ok(greeting) = Greeting::decode(data) else { return };
    assert!(greeting.nonce.len() >= 8);
    let mut bytes = Vec::new();
    greeting.encode(&mut bytes);
    let again = Greeting::decode(&bytes);
    // What is written has always two parts of the nonce and a plugin, as every server of this
    // century has.
    let modern = Capabilities::SECURE_CONNECTION | Capabilities::PLUGIN_AUTH;
    if greeting.capabilities.has(modern) {
        assert_eq!(again, Ok(greeting));
    } else {
        assert!(again.is_ok());
    }
}

fn login(login: &Login) {
    let mut request = Vec::new();
    login.encode_tls_request(&mut request);
    assert_eq!(request.len(), TLS_REQUEST_LEN);
    let capabilities = login.capabilities;
    let counted = capabilities.has(Capabilities::LENENC_AUTH)
        || capabilities.has(Capabilities::SECURE_CONNECTION);
    // What is written has a counted password and names its plugin; nothing asks a server for
    // compression.
    let is_complete = login.plugin.is_some() || !capabilities.has(Capabilities::PLUGIN_AUTH);
    if counted && is_complete && login.zstd_level.is_none() {
        let mut bytes = Vec::new();
        login.encode(&mut bytes);
        assert_eq!(FirstPacket::decode(&bytes), Ok(FirstPacket::Login(login.clone())));
    }
}

fn authentication(data: &[u8]) {
    let mut bytes = Vec::new();
    match AuthPacket::decode(data) {
        Ok(AuthPacket::More(more)) => {
            AuthPacket::encode_more(more, &mut bytes);
            assert_eq!(bytes, data);
        }
        // A single byte stands for the plugin that is too old to be asked for by name.
        Ok(AuthPacket::Switch { plugin, data: nonce }) if data.len() > 1 => {
            AuthPacket::encode_switch(plugin, nonce, &mut bytes);
            let ended = [nonce, &[0]].concat();
            assert_eq!(AuthPacket::decode(&bytes), Ok(AuthPacket::Switch { plugin, data: &ended }));
        }
        _ => {}
    }
}
