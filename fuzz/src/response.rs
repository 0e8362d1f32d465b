//! What ends a reply is the same after it was written again.

use wire::Capabilities;
use wire::response::{EOF, EofPacket, ErrPacket, OK, OkPacket, Status};

/// The bytes are the payload of an OK, an EOF and an error.
pub fn run(data: &[u8]) {
    for capabilities in [Capabilities::NONE, Capabilities::SESSION_TRACK] {
        ok(data, capabilities);
    }
    if let Ok(eof) = EofPacket::decode(data) {
        assert_eq!(eof.encode(), data[..EofPacket::LEN]);
    }
    if let Ok(err) = ErrPacket::decode(data) {
        let mut bytes = Vec::new();
        err.encode(&mut bytes);
        assert_eq!(ErrPacket::decode(&bytes), Ok(err));
    }
}

fn ok(data: &[u8], capabilities: Capabilities) {
    let Ok(read) = OkPacket::decode(data, capabilities) else { return };
    assert!(read.info.len() + read.changes.len() < data.len());
    // The flag is written where changes are.
    let status = match read.changes {
        [] => read.status.without(Status::STATE_CHANGED),
        _ => read.status,
    };
    for first in [OK, EOF] {
        let mut bytes = Vec::new();
        read.encode(first, capabilities, &mut bytes);
        assert_eq!(bytes[0], first);
        assert_eq!(OkPacket::decode(&bytes, capabilities), Ok(OkPacket { status, ..read }));
    }
}
