//! The handshake: greeting, TLS request, login, and the packets of the password exchange. Both sides of each.

use crate::bytes::{Malformed, Reader, Write};
use crate::capability::Capabilities;
use crate::response::{EOF, Status};

/// The collation utf8mb4_general_ci, which every server has: that of questions that Flifo asks itself.
pub const UTF8MB4: u8 = 45;

/// The server's first packet, protocol version 10.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    pub version: Vec<u8>,
    pub connection_id: u32,
    /// 20 bytes, without the zero byte that ends them on the wire; never more than [`NONCE_MAX`].
    pub nonce: Vec<u8>,
    pub capabilities: Capabilities,
    pub collation: u8,
    pub status: Status,
    /// The plugin that `nonce` is meant for.
    pub plugin: Vec<u8>,
}

impl Greeting {
    pub fn decode(payload: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        if reader.u8("protocol version")? != 10 {
            return Err(Malformed::new("protocol version (only 10 is spoken)"));
        }
        let version = reader.nul_bytes("server version")?.to_vec();
        let connection_id = reader.u32("connection id")?;
        let mut nonce = reader.take(8, "nonce")?.to_vec();
        reader.u8("filler")?;
        let low = reader.u16("capabilities")?;
        let collation = reader.u8("collation")?;
        let status = Status(reader.u16("status flags")?);
        let high = reader.u16("capabilities")?;
        let nonce_len = reader.u8("nonce length")?;
        reader.take(6, "filler")?;
        let extended = reader.u32("extended capabilities")?;
        let low = u32::from(high) << 16 | u32::from(low);
        // Only a server that does not claim to be MySQL uses the last filler bytes.
        let is_mysql = Capabilities(u64::from(low)).has(Capabilities::LONG_PASSWORD);
        let capabilities = Capabilities::from_parts(low, if is_mysql { 0 } else { extended });
        if capabilities.has(Capabilities::SECURE_CONNECTION) {
            let rest = usize::from(nonce_len).saturating_sub(8).max(13);
            let tail = reader.take(rest, "nonce")?;
            nonce.extend_from_slice(tail.strip_suffix(&[0]).unwrap_or(tail));
            if nonce.len() > NONCE_MAX {
                return Err(Malformed::new("nonce"));
            }
        }
        let plugin = if capabilities.has(Capabilities::PLUGIN_AUTH) {
            reader.rest_until_nul().to_vec()
        } else {
            b"mysql_native_password".to_vec()
        };
        Ok(Self { version, connection_id, nonce, capabilities, collation, status, plugin })
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        let low = self.capabilities.low();
        out.push(10);
        out.put_nul_bytes(&self.version);
        out.put_u32(self.connection_id);
        let split = self.nonce.len().min(8);
        out.extend_from_slice(&self.nonce[..split]);
        out.push(0);
        out.put_u16(low as u16);
        out.push(self.collation);
        out.put_u16(self.status.0);
        out.put_u16((low >> 16) as u16);
        out.push(self.nonce.len() as u8 + 1);
        out.extend_from_slice(&[0; 6]);
        out.put_u32(self.capabilities.extended());
        out.extend_from_slice(&self.nonce[split..]);
        out.push(0);
        out.put_nul_bytes(&self.plugin);
    }

    /// Says whether the server is a MariaDB: it numbers itself so, or has MariaDB's extended capabilities.
    pub fn is_mariadb(&self) -> bool {
        self.version.windows(7).any(|word| word.eq_ignore_ascii_case(b"mariadb"))
            || self.capabilities.extended() != 0
    }
}

/// The first three numbers of a server's version, such as `8.0.23-log`; zero where there is none.
pub fn version_numbers(version: &[u8]) -> [u32; 3] {
    let text = String::from_utf8_lossy(version);
    let mut numbers = text.split(['.', '-']).map_while(|it| it.parse().ok()).fuse();
    [(); 3].map(|()| numbers.next().unwrap_or(0))
}

/// The longest nonce whose length can be written: one byte counts it together with the zero byte behind it.
pub const NONCE_MAX: usize = u8::MAX as usize - 1;

/// The client's answer to the greeting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    pub capabilities: Capabilities,
    pub packet_max: u32,
    pub collation: u8,
    pub user: Vec<u8>,
    pub response: Vec<u8>,
    pub schema: Option<Vec<u8>>,
    /// `None`: the client knows only the native plugin, or none.
    pub plugin: Option<Vec<u8>>,
    /// Undecoded connection attributes: length-encoded keys and values.
    pub attributes: Vec<u8>,
    /// The level asked for zstd compression.
    pub zstd_level: Option<u8>,
}

/// What arrives first from a client: a request to go on in TLS, or the login itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirstPacket {
    TlsRequest {
        capabilities: Capabilities,
    },
    Login(Login),
    /// By the protocol before 4.1.
    Old(OldLogin),
}

/// A login by the protocol before 4.1. It is not spoken here: it is known by its form, and can be passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldLogin {
    payload: Vec<u8>,
}

/// Bytes of the fixed part, which is all there is of a TLS request.
pub const TLS_REQUEST_LEN: usize = 32;

impl FirstPacket {
    pub fn decode(payload: &[u8]) -> Result<Self, Malformed> {
        let capabilities = Reader::new(payload).u32("capabilities")?;
        let capabilities = Capabilities(u64::from(capabilities));
        if payload.len() == TLS_REQUEST_LEN && capabilities.has(Capabilities::SSL) {
            return Ok(Self::TlsRequest { capabilities });
        }
        if !capabilities.has(Capabilities::PROTOCOL_41)
            && let Some(old) = OldLogin::decode(payload)
        {
            return Ok(Self::Old(old));
        }
        Login::decode(payload).map(Self::Login)
    }
}

impl OldLogin {
    /// Two bytes of capabilities, three of the longest packet, the user's name and its end, and what proves it.
    fn decode(payload: &[u8]) -> Option<Self> {
        const HEAD: usize = 5;
        let name = payload.get(HEAD..)?;
        name.contains(&0).then(|| Self { payload: payload.to_vec() })
    }

    pub fn payload(&self) -> &[u8] {
        &self.payload
    }
}

impl Login {
    pub fn decode(payload: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        let low = reader.u32("capabilities")?;
        if !Capabilities(u64::from(low)).has(Capabilities::PROTOCOL_41) {
            return Err(Malformed::new("capabilities (the protocol before 4.1 is not spoken)"));
        }
        let packet_max = reader.u32("longest packet")?;
        let collation = reader.u8("collation")?;
        reader.take(19, "filler")?;
        let extended = reader.u32("extended capabilities")?;
        let is_mysql = low & Capabilities::LONG_PASSWORD.low() != 0;
        let capabilities = Capabilities::from_parts(low, if is_mysql { 0 } else { extended });
        let user = reader.nul_bytes("user name")?.to_vec();
        let response = if capabilities.has(Capabilities::LENENC_AUTH) {
            reader.lenenc_bytes("password response")?
        } else if capabilities.has(Capabilities::SECURE_CONNECTION) {
            let len = reader.u8("password response")?;
            reader.take(usize::from(len), "password response")?
        } else {
            reader.nul_bytes("password response")?
        };
        let response = response.to_vec();
        let schema = if capabilities.has(Capabilities::CONNECT_WITH_DB) && !reader.is_empty() {
            Some(reader.rest_until_nul().to_vec()).filter(|schema| !schema.is_empty())
        } else {
            None
        };
        let plugin = if capabilities.has(Capabilities::PLUGIN_AUTH) && !reader.is_empty() {
            Some(reader.rest_until_nul().to_vec())
        } else {
            None
        };
        let attributes = if capabilities.has(Capabilities::CONNECT_ATTRS) && !reader.is_empty() {
            reader.lenenc_bytes("connection attributes")?.to_vec()
        } else {
            Vec::new()
        };
        let zstd_level = if capabilities.has(Capabilities::ZSTD) && !reader.is_empty() {
            Some(reader.u8("compression level")?)
        } else {
            None
        };
        Ok(Self {
            capabilities,
            packet_max,
            collation,
            user,
            response,
            schema,
            plugin,
            attributes,
            zstd_level,
        })
    }

    /// What the client has said of itself by this name.
    pub fn attribute(&self, name: &[u8]) -> Option<&[u8]> {
        let mut reader = Reader::new(&self.attributes);
        while !reader.is_empty() {
            let key = reader.lenenc_bytes("an attribute's name").ok()?;
            let value = reader.lenenc_bytes("an attribute's value").ok()?;
            if key == name {
                return Some(value);
            }
        }
        None
    }

    /// Appends the fixed part, which alone asks for TLS.
    pub fn encode_tls_request(&self, out: &mut Vec<u8>) {
        out.put_u32(self.capabilities.low());
        out.put_u32(self.packet_max);
        out.push(self.collation);
        out.extend_from_slice(&[0; 19]);
        out.put_u32(self.capabilities.extended());
    }

    /// Appends the payload. The capabilities say which fields are sent.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.encode_tls_request(out);
        out.put_nul_bytes(&self.user);
        if self.capabilities.has(Capabilities::LENENC_AUTH) {
            out.put_lenenc_bytes(&self.response);
        } else {
            out.push(self.response.len().min(255) as u8);
            out.extend_from_slice(&self.response[..self.response.len().min(255)]);
        }
        if self.capabilities.has(Capabilities::CONNECT_WITH_DB) {
            out.put_nul_bytes(self.schema.as_deref().unwrap_or_default());
        }
        if self.capabilities.has(Capabilities::PLUGIN_AUTH) {
            out.put_nul_bytes(self.plugin.as_deref().unwrap_or(b"mysql_native_password"));
        }
        if self.capabilities.has(Capabilities::CONNECT_ATTRS) {
            out.put_lenenc_bytes(&self.attributes);
        }
    }
}

/// What a server may send between the login and its final OK or ERR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthPacket<'a> {
    /// `0x01`: data of the plugin.
    More(&'a [u8]),
    /// `0xfe`: go on with another plugin; the data is its nonce, mostly with a zero byte behind it.
    Switch {
        plugin: &'a [u8],
        data: &'a [u8],
    },
    Ok,
    Err,
    /// Any other first byte: data of the plugin as it is, which MariaDB marks only where it could be taken for another
    /// packet.
    Bare(&'a [u8]),
}

/// First payload byte of [`AuthPacket::More`].
pub const AUTH_MORE: u8 = 0x01;

impl<'a> AuthPacket<'a> {
    pub fn decode(payload: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        Ok(match reader.u8("authentication packet")? {
            0x00 => Self::Ok,
            0xff => Self::Err,
            AUTH_MORE => Self::More(reader.rest()),
            // Alone, the byte asks for the pre-4.1 plugin.
            EOF if reader.is_empty() => Self::Switch { plugin: b"mysql_old_password", data: b"" },
            EOF => {
                let plugin = reader.nul_bytes("plugin name")?;
                Self::Switch { plugin, data: reader.rest() }
            }
            _ => Self::Bare(payload),
        })
    }

    /// Appends a request to go on with `plugin`; a zero byte ends `data` as all clients expect.
    pub fn encode_switch(plugin: &[u8], data: &[u8], out: &mut Vec<u8>) {
        out.push(EOF);
        out.put_nul_bytes(plugin);
        out.put_nul_bytes(data);
    }

    pub fn encode_more(data: &[u8], out: &mut Vec<u8>) {
        out.push(AUTH_MORE);
        out.extend_from_slice(data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greeting() -> Greeting {
        Greeting {
            version: b"10.11.19-MariaDB".to_vec(),
            connection_id: 7,
            nonce: b"01234567890123456789".to_vec(),
            capabilities: Capabilities::PROTOCOL_41
                | Capabilities::SECURE_CONNECTION
                | Capabilities::PLUGIN_AUTH
                | Capabilities::BULK,
            collation: 45,
            status: Status::AUTOCOMMIT,
            plugin: b"mysql_native_password".to_vec(),
        }
    }

    fn login() -> Login {
        Login {
            capabilities: Capabilities::PROTOCOL_41
                | Capabilities::SECURE_CONNECTION
                | Capabilities::LENENC_AUTH
                | Capabilities::CONNECT_WITH_DB
                | Capabilities::PLUGIN_AUTH
                | Capabilities::CONNECT_ATTRS
                | Capabilities::CACHE_METADATA,
            packet_max: 1 << 24,
            collation: 45,
            user: b"app".to_vec(),
            response: vec![9; 20],
            schema: Some(b"test".to_vec()),
            plugin: Some(b"client_ed25519".to_vec()),
            attributes: b"\x03_os\x05Linux".to_vec(),
            zstd_level: None,
        }
    }

    #[test]
    fn versions_are_read_as_three_numbers() {
        for (version, numbers) in [
            ("9.7.4-2", [9, 7, 4]),
            ("8.4.7-commercial", [8, 4, 7]),
            ("8.0.15", [8, 0, 15]),
            ("10.11", [10, 11, 0]),
            ("9", [9, 0, 0]),
            ("8.x.3", [8, 0, 0]),
            ("99999999999.1", [0; 3]),
            ("mine", [0; 3]),
            ("", [0; 3]),
        ] {
            assert_eq!(version_numbers(version.as_bytes()), numbers, "{version}");
        }
    }

    #[test]
    fn a_greeting_survives_a_round_trip() {
        let mut bytes = Vec::new();
        greeting().encode(&mut bytes);
        assert_eq!(Greeting::decode(&bytes), Ok(greeting()));
        assert!(greeting().is_mariadb());
    }

    #[test]
    fn what_a_client_says_of_itself_is_found_by_its_name() {
        let attribute = |attributes: &[u8], name: &[u8]| {
            let login = Login { attributes: attributes.to_vec(), ..login() };
            login.attribute(name).map(<[u8]>::to_vec)
        };
        let two = b"\x03_os\x05Linux\x0cprogram_name\x05mysql";
        assert_eq!(attribute(two, b"program_name").as_deref(), Some(&b"mysql"[..]));
        assert_eq!(attribute(two, b"_os").as_deref(), Some(&b"Linux"[..]));
        for (attributes, name) in [
            (&two[..], &b"Linux"[..]),
            (b"", b"program_name"),
            (b"\x0cprogram_name", b"program_name"),
            (b"\x0cprogram_name\xfempty", b"program_name"),
            (b"\xff", b"program_name"),
        ] {
            assert_eq!(attribute(attributes, name), None, "{attributes:?}");
        }
    }

    #[test]
    fn a_server_that_says_mysql_has_no_extended_capabilities() {
        let mysql = Greeting {
            capabilities: greeting().capabilities | Capabilities::LONG_PASSWORD,
            ..greeting()
        };
        let mut bytes = Vec::new();
        mysql.encode(&mut bytes);
        let read = Greeting::decode(&bytes).unwrap();
        assert!(!read.capabilities.has(Capabilities::BULK));
    }

    #[test]
    fn a_nonce_that_could_not_be_passed_on_is_refused() {
        let mut long = Greeting { nonce: vec![b'n'; NONCE_MAX], ..greeting() };
        let mut bytes = Vec::new();
        long.encode(&mut bytes);
        assert_eq!(Greeting::decode(&bytes), Ok(long.clone()));
        // Without its zero byte, the last place is the nonce's too.
        long.version.clear();
        bytes.clear();
        long.encode(&mut bytes);
        let end = 1 + 1 + 4 + 8 + 1 + 18 + NONCE_MAX - 8;
        assert_eq!(std::mem::replace(&mut bytes[end], b'n'), 0);
        assert!(Greeting::decode(&bytes).is_err());
    }

    #[test]
    fn a_login_survives_a_round_trip() {
        let mut bytes = Vec::new();
        login().encode(&mut bytes);
        assert_eq!(FirstPacket::decode(&bytes), Ok(FirstPacket::Login(login())));
    }

    #[test]
    fn a_tls_request_is_the_fixed_part() {
        let mut tls = login();
        tls.capabilities = tls.capabilities | Capabilities::SSL;
        let mut bytes = Vec::new();
        tls.encode_tls_request(&mut bytes);
        assert!(matches!(FirstPacket::decode(&bytes), Ok(FirstPacket::TlsRequest { .. })));
    }

    #[test]
    fn no_cut_of_a_handshake_packet_panics() {
        let (mut hello, mut answer) = (Vec::new(), Vec::new());
        greeting().encode(&mut hello);
        login().encode(&mut answer);
        for cut in 0..hello.len().max(answer.len()) {
            let _ = Greeting::decode(&hello[..cut.min(hello.len())]);
            let _ = FirstPacket::decode(&answer[..cut.min(answer.len())]);
        }
    }

    #[test]
    fn a_switch_names_its_plugin_and_data() {
        let mut bytes = Vec::new();
        AuthPacket::encode_switch(b"caching_sha2_password", b"abc", &mut bytes);
        let want = AuthPacket::Switch { plugin: b"caching_sha2_password", data: b"abc\0" };
        assert_eq!(AuthPacket::decode(&bytes), Ok(want));
    }
}
