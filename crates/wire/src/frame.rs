//! Packets: three bytes of length, one of sequence, then the payload.
//!
//! A payload of 16 MiB - 1 bytes or more is sent as several packets; the first one that is shorter ends it.

/// Bytes before each packet's payload.
pub const HEADER: usize = 4;

/// The longest payload of one packet; a packet of this length is continued by the next.
pub const PAYLOAD_MAX: usize = 0xff_ffff;

/// A packet's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Payload bytes that follow.
    pub len: usize,
    pub sequence: u8,
}

impl Header {
    pub const fn decode(bytes: [u8; HEADER]) -> Self {
        let [a, b, c, sequence] = bytes;
        Self { len: u32::from_le_bytes([a, b, c, 0]) as usize, sequence }
    }

    /// Reads the header at the front of `bytes`, if it is all there.
    pub fn peek(bytes: &[u8]) -> Option<Self> {
        bytes.first_chunk::<HEADER>().map(|header| Self::decode(*header))
    }

    /// # Panics
    /// When `len` does not fit a packet: the caller splits payloads (see [`put_packet`]).
    pub const fn encode(self) -> [u8; HEADER] {
        assert!(self.len <= PAYLOAD_MAX);
        let [a, b, c, _] = (self.len as u32).to_le_bytes();
        [a, b, c, self.sequence]
    }

    /// Says whether the payload goes on in the next packet.
    pub const fn is_continued(self) -> bool {
        self.len == PAYLOAD_MAX
    }
}

/// Appends `payload` as one packet, or as several where it is too long for one. Returns the next sequence id.
pub fn put_packet(out: &mut Vec<u8>, mut sequence: u8, payload: &[u8]) -> u8 {
    let mut rest = payload;
    loop {
        let (part, after) = rest.split_at(rest.len().min(PAYLOAD_MAX));
        let header = Header { len: part.len(), sequence };
        out.extend_from_slice(&header.encode());
        out.extend_from_slice(part);
        sequence = sequence.wrapping_add(1);
        rest = after;
        if !header.is_continued() {
            return sequence;
        }
    }
}

/// Appends a packet whose payload `write` appends; for small packets that are built in place.
pub fn put_packet_with(out: &mut Vec<u8>, sequence: u8, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; HEADER]);
    write(out);
    let len = out.len() - at - HEADER;
    out[at..at + HEADER].copy_from_slice(&Header { len, sequence }.encode());
}

/// Finds the first whole packet of `bytes`; for packets that are read as a whole, as in the handshake.
///
/// Returns its header and payload, or `None` while bytes are missing.
pub fn first_packet(bytes: &[u8]) -> Option<(Header, &[u8])> {
    let header = Header::peek(bytes)?;
    let payload = bytes.get(HEADER..HEADER + header.len)?;
    Some((header, payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_of_the_longest_length_is_ended_by_an_empty_packet() {
        let mut out = Vec::new();
        let next = put_packet(&mut out, 254, &vec![7; PAYLOAD_MAX]);
        assert_eq!(next, 0);
        assert_eq!(out.len(), HEADER + PAYLOAD_MAX + HEADER);
        assert_eq!(&out[..5], &[0xff, 0xff, 0xff, 254, 7]);
        assert_eq!(&out[HEADER + PAYLOAD_MAX..], &[0, 0, 0, 255]);
    }

    #[test]
    fn a_packet_is_whole_or_not_there() {
        let mut out = Vec::new();
        put_packet(&mut out, 3, b"abc");
        for cut in 0..out.len() {
            assert_eq!(first_packet(&out[..cut]), None);
        }
        assert_eq!(first_packet(&out), Some((Header { len: 3, sequence: 3 }, &b"abc"[..])));
    }
}
