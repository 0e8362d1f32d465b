//! The packets that end a reply or a part of it: OK, ERR and EOF; read and written.

use crate::bytes::{Malformed, Reader, Write};
use crate::capability::Capabilities;
use crate::frame::{HEADER, Header};

/// Status flags of a session, as OK and EOF packets report them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status(pub u16);

impl Status {
    pub const IN_TRANSACTION: Self = Self(0x0001);
    pub const AUTOCOMMIT: Self = Self(0x0002);
    pub const MORE_RESULTS: Self = Self(0x0008);
    pub const CURSOR_EXISTS: Self = Self(0x0040);
    pub const LAST_ROW_SENT: Self = Self(0x0080);
    /// The rows are what a routine has given back.
    pub const OUT_PARAMETERS: Self = Self(0x1000);
    pub const STATE_CHANGED: Self = Self(0x4000);
    /// A backslash in a string is a letter like any other.
    pub const NO_BACKSLASH_ESCAPES: Self = Self(0x0200);
    pub const IN_READONLY_TRANSACTION: Self = Self(0x2000);

    /// Names may stand in double quotes (MariaDB).
    pub const ANSI_QUOTES: Self = Self(0x8000);

    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The flags that tell of the session; the others tell of one statement.
    pub const fn lasting(self) -> Self {
        let lasting = Self::IN_TRANSACTION.0
            | Self::AUTOCOMMIT.0
            | Self::NO_BACKSLASH_ESCAPES.0
            | Self::IN_READONLY_TRANSACTION.0
            | Self::ANSI_QUOTES.0;
        Self(self.0 & lasting)
    }

    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// First payload bytes that tell responses apart.
pub const OK: u8 = 0x00;
pub const EOF: u8 = 0xfe;
pub const ERR: u8 = 0xff;
pub const LOCAL_INFILE: u8 = 0xfb;

/// An OK packet, or the OK that ends rows where EOF packets are deprecated (first byte `0xfe`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OkPacket<'a> {
    pub affected_rows: u64,
    pub insert_id: u64,
    pub status: Status,
    pub warnings: u16,
    pub info: &'a [u8],
    /// Undecoded session-state changes; see [`crate::tracker::Changes`].
    pub changes: &'a [u8],
}

impl<'a> OkPacket<'a> {
    pub const EMPTY: OkPacket<'static> = OkPacket {
        affected_rows: 0,
        insert_id: 0,
        status: Status::AUTOCOMMIT,
        warnings: 0,
        info: b"",
        changes: b"",
    };

    pub fn decode(payload: &'a [u8], capabilities: Capabilities) -> Result<Self, Malformed> {
        // As most are: two numbers of one byte, and no text.
        if let &[OK | EOF, affected @ 0..=250, insert @ 0..=250, s0, s1, w0, w1] = payload {
            return Ok(Self {
                affected_rows: affected.into(),
                insert_id: insert.into(),
                status: Status(u16::from_le_bytes([s0, s1])),
                warnings: u16::from_le_bytes([w0, w1]),
                ..Self::EMPTY
            });
        }
        let mut reader = Reader::new(payload);
        let first = reader.u8("OK packet")?;
        if first != OK && first != EOF {
            return Err(Malformed::new("OK packet's first byte"));
        }
        let affected_rows = reader.lenenc("affected rows")?;
        let insert_id = reader.lenenc("insert id")?;
        let status = Status(reader.u16("status flags")?);
        let warnings = reader.u16("warning count")?;
        let (mut info, mut changes) = (&b""[..], &b""[..]);
        if capabilities.has(Capabilities::SESSION_TRACK) {
            if !reader.is_empty() {
                info = reader.lenenc_bytes("info")?;
            }
            if status.has(Status::STATE_CHANGED) && !reader.is_empty() {
                changes = session_changes(&mut reader)?;
            }
        } else {
            info = reader.rest();
            // Servers write the length even where the manual says that the string just ends.
            if let Ok(counted) = reader.lenenc_bytes("info")
                && reader.is_empty()
            {
                info = counted;
            }
        }
        Ok(Self { affected_rows, insert_id, status, warnings, info, changes })
    }

    /// Appends the payload. `first` is [`OK`], or [`EOF`] where the packet ends rows.
    pub fn encode(&self, first: u8, capabilities: Capabilities, out: &mut Vec<u8>) {
        let tracked = capabilities.has(Capabilities::SESSION_TRACK) && !self.changes.is_empty();
        let status = if tracked {
            Status(self.status.0 | Status::STATE_CHANGED.0)
        } else {
            self.status.without(Status::STATE_CHANGED)
        };
        out.push(first);
        out.put_lenenc(self.affected_rows);
        out.put_lenenc(self.insert_id);
        out.put_u16(status.0);
        out.put_u16(self.warnings);
        if tracked || !self.info.is_empty() {
            out.put_lenenc_bytes(self.info);
        }
        if tracked {
            out.put_lenenc_bytes(self.changes);
        }
    }
}

/// MySQL 8.0.15 writes the length of 251 bytes as `0xfc`, without the two bytes that belong to it; and no other length
/// so: what is shorter needs none of them.
fn session_changes<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    const SHORTEST_OF_THREE: usize = 251;
    match reader.rest().split_first() {
        Some((0xfc, changes)) if changes.len() == SHORTEST_OF_THREE => {
            reader.take(1 + SHORTEST_OF_THREE, "session state changes")?;
            Ok(changes)
        }
        _ => reader.lenenc_bytes("session state changes"),
    }
}

/// An EOF packet of protocols that still have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EofPacket {
    pub warnings: u16,
    pub status: Status,
}

impl EofPacket {
    /// Payload bytes of an EOF packet.
    pub const LEN: usize = 5;

    pub fn decode(payload: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        if reader.u8("EOF packet")? != EOF {
            return Err(Malformed::new("EOF packet's first byte"));
        }
        let warnings = reader.u16("warning count")?;
        let status = Status(reader.u16("status flags")?);
        Ok(Self { warnings, status })
    }

    pub fn encode(self) -> [u8; Self::LEN] {
        let [w0, w1] = self.warnings.to_le_bytes();
        let [s0, s1] = self.status.0.to_le_bytes();
        [EOF, w0, w1, s0, s1]
    }

    /// The whole packet.
    pub fn packet(self, sequence: u8) -> [u8; HEADER + Self::LEN] {
        let mut packet = [0; HEADER + Self::LEN];
        let header = Header { len: Self::LEN, sequence };
        packet[..HEADER].copy_from_slice(&header.encode());
        packet[HEADER..].copy_from_slice(&self.encode());
        packet
    }
}

/// An error, from a server or of Flifo's own making.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrPacket<'a> {
    pub code: u16,
    /// Five characters; `HY000` where the server sent none (before the handshake's end).
    pub sqlstate: [u8; 5],
    pub message: &'a [u8],
}

impl<'a> ErrPacket<'a> {
    /// The code of MariaDB's progress reports, which are not errors and end nothing.
    pub const PROGRESS: u16 = 0xffff;

    pub fn decode(payload: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        if reader.u8("error packet")? != ERR {
            return Err(Malformed::new("error packet's first byte"));
        }
        let code = reader.u16("error code")?;
        let mut sqlstate = *b"HY000";
        if reader.rest().first() == Some(&b'#') {
            reader.take(1, "SQLSTATE marker")?;
            sqlstate.copy_from_slice(reader.take(5, "SQLSTATE")?);
        }
        Ok(Self { code, sqlstate, message: reader.rest() })
    }

    /// Appends the payload, with SQLSTATE. Before the client has sent its capabilities there must be none:
    /// see [`Self::encode_greeting`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(ERR);
        out.put_u16(self.code);
        out.push(b'#');
        out.extend_from_slice(&self.sqlstate);
        out.extend_from_slice(self.message);
    }

    /// Appends the payload of an error that is sent in a greeting's place.
    pub fn encode_greeting(&self, out: &mut Vec<u8>) {
        out.push(ERR);
        out.put_u16(self.code);
        out.extend_from_slice(self.message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ok_packet_keeps_its_parts() {
        let ok = OkPacket {
            affected_rows: 300,
            insert_id: 70_000,
            status: Status(0x4003),
            warnings: 2,
            info: b"Rows matched: 1",
            changes: b"\x01\x05\x04test",
        };
        let mut bytes = Vec::new();
        ok.encode(OK, Capabilities::SESSION_TRACK, &mut bytes);
        assert_eq!(OkPacket::decode(&bytes, Capabilities::SESSION_TRACK), Ok(ok));

        bytes.clear();
        ok.encode(EOF, Capabilities::NONE, &mut bytes);
        let plain = OkPacket { status: Status(3), changes: b"", ..ok };
        assert_eq!(OkPacket::decode(&bytes, Capabilities::NONE), Ok(plain));

        // So long that its length takes three bytes.
        let long = OkPacket { info: &[b'x'; 300], ..OkPacket::EMPTY };
        bytes.clear();
        long.encode(OK, Capabilities::NONE, &mut bytes);
        assert_eq!(OkPacket::decode(&bytes, Capabilities::NONE), Ok(long));
    }

    #[test]
    fn changes_of_any_length_are_read_also_as_mysql_writes_251() {
        let tracked = |changes| OkPacket { status: Status(0x4002), changes, ..OkPacket::EMPTY };
        let changes = [b'x'; 300];
        for len in 1..=changes.len() {
            let mut bytes = Vec::new();
            tracked(&changes[..len]).encode(OK, Capabilities::SESSION_TRACK, &mut bytes);
            let ok = OkPacket::decode(&bytes, Capabilities::SESSION_TRACK).unwrap();
            assert_eq!(ok.changes.len(), len);
            let one_byte_of_length = [&bytes[..8], &[0xfc], &changes[..len]].concat();
            let ok = OkPacket::decode(&one_byte_of_length, Capabilities::SESSION_TRACK);
            assert_eq!(ok.is_ok_and(|ok| ok.changes.len() == len), len == 251, "{len}");
        }
    }

    #[test]
    fn an_error_before_the_handshake_has_no_sqlstate() {
        let err = ErrPacket { code: 1040, sqlstate: *b"HY000", message: b"Too many connections" };
        let mut bytes = Vec::new();
        err.encode_greeting(&mut bytes);
        assert_eq!(bytes[..3], [0xff, 0x10, 0x04]);
        assert_eq!(ErrPacket::decode(&bytes), Ok(err));
        bytes.clear();
        ErrPacket { sqlstate: *b"08004", ..err }.encode(&mut bytes);
        assert_eq!(ErrPacket::decode(&bytes).unwrap().sqlstate, *b"08004");
        assert!(ErrPacket::decode(&bytes[..2]).is_err());
    }

    #[test]
    fn an_eof_packet_is_five_bytes() {
        let eof = EofPacket { warnings: 1, status: Status::AUTOCOMMIT };
        assert_eq!(EofPacket::decode(&eof.encode()), Ok(eof));
    }
}
