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

/// The packets of a payload: one, or several where it is too long for one.
pub fn packets(payload: &[u8], sequence: u8) -> impl Iterator<Item = (Header, &[u8])> {
    let mut rest = Some((payload, sequence));
    std::iter::from_fn(move || {
        let (payload, sequence) = rest?;
        let (part, after) = payload.split_at(payload.len().min(PAYLOAD_MAX));
        let header = Header { len: part.len(), sequence };
        rest = header.is_continued().then_some((after, sequence.wrapping_add(1)));
        Some((header, part))
    })
}

/// Appends `payload` as one packet, or as several where it is too long for one. Returns the next sequence id.
pub fn put_packet(out: &mut Vec<u8>, mut sequence: u8, payload: &[u8]) -> u8 {
    for (header, part) in packets(payload, sequence) {
        out.extend_from_slice(&header.encode());
        out.extend_from_slice(part);
        sequence = header.sequence.wrapping_add(1);
    }
    sequence
}

/// Appends a payload, given in parts, behind a single header, as [`join`] leaves one: however long it is.
pub fn put_joined(out: &mut Vec<u8>, sequence: u8, parts: &[&[u8]]) {
    let len = parts.iter().map(|part| part.len()).sum::<usize>();
    out.reserve(HEADER + len);
    out.extend_from_slice(&Header { len: len.min(PAYLOAD_MAX), sequence }.encode());
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// Takes the headers between the packets of one payload away, and returns what is left: one header, then the payload,
/// which may be longer than that says.
///
/// # Panics
/// If `bytes` are not the packets of one payload, and all of them (see [`Extent`]).
pub fn join(bytes: &mut [u8]) -> &mut [u8] {
    let (mut from, mut to) = (0, HEADER);
    loop {
        let header = Header::peek(&bytes[from..]).expect("the caller has all packets");
        let part = from + HEADER..from + HEADER + header.len;
        from = part.end;
        if to != part.start {
            bytes.copy_within(part, to);
        }
        to += header.len;
        if !header.is_continued() {
            return &mut bytes[..to];
        }
    }
}

/// How far a payload goes, by those headers of its packets that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Up to its end, or to that of the next header that is missing: it is all there if these bytes are.
    pub len: usize,
    /// The bytes that its headers have announced.
    pub payload: usize,
}

/// How many packets a payload of so many bytes is sent in.
pub const fn packet_count(payload: usize) -> usize {
    payload / PAYLOAD_MAX + 1
}

impl Extent {
    /// How many packets have been announced.
    pub fn packets(self) -> usize {
        // The last header may be one that is still missing.
        let headers = self.len - self.payload;
        let is_missing = self.payload.is_multiple_of(PAYLOAD_MAX);
        headers / HEADER - usize::from(is_missing)
    }

    /// Of the payload whose first packet is at the front of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        let mut extent = Self { len: HEADER, payload: 0 };
        loop {
            let header = bytes.get(extent.len - HEADER..).and_then(Header::peek);
            let Some(header) = header else { return extent };
            extent.len += header.len;
            extent.payload += header.len;
            if !header.is_continued() {
                return extent;
            }
            extent.len += HEADER;
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
    fn packets_are_joined_and_split_again() {
        for len in [0, 3, PAYLOAD_MAX - 1, PAYLOAD_MAX, PAYLOAD_MAX + 5, 2 * PAYLOAD_MAX] {
            let payload: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            let mut bytes = Vec::new();
            put_packet(&mut bytes, 0, &payload);
            assert_eq!(Extent::of(&bytes), Extent { len: bytes.len(), payload: len });
            assert_eq!(bytes.len() - len, HEADER * packet_count(len));
            let joined = join(&mut bytes);
            assert!(joined[HEADER..] == payload, "{len} bytes");
            let mut put = Vec::new();
            let (head, rest) = payload.split_at(len / 2);
            put_joined(&mut put, 0, &[head, rest]);
            assert!(put == joined, "{len} bytes");
        }
    }

    #[test]
    fn headers_tell_how_far_a_payload_goes() {
        let mut bytes = Vec::new();
        put_packet(&mut bytes, 0, &vec![7; PAYLOAD_MAX + 5]);
        let first = HEADER + PAYLOAD_MAX;
        assert_eq!(Extent::of(&bytes[..3]), Extent { len: HEADER, payload: 0 });
        let short = Extent { len: first + HEADER, payload: PAYLOAD_MAX };
        for there in [HEADER, 1000, first, first + 3] {
            assert_eq!(Extent::of(&bytes[..there]), short, "{there} bytes are there");
        }
        let whole = Extent { len: bytes.len(), payload: PAYLOAD_MAX + 5 };
        assert_eq!(Extent::of(&bytes[..first + HEADER]), whole);
        bytes.extend_from_slice(&[1, 0, 0, 0, 9]);
        assert_eq!(Extent::of(&bytes), whole, "what is behind it does not count");
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
