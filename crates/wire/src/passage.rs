//! What a client sends in pieces: a command longer than a buffer, a file, or an answer in a login.
//!
//! Follows packets of the client's at their headers so that the bytes can go straight on to the server.

use crate::frame::{HEADER, Header};

/// What ends the passage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The end of one payload, which may be several packets.
    PayloadEnd,
    /// An empty packet, which ends a file.
    EmptyPacket,
    /// Nothing: whatever comes belongs to it.
    Never,
}

/// State of a passage.
#[derive(Clone, Copy, Debug)]
pub struct Passage {
    until: Until,
    /// Payload bytes of the current packet that are still to come.
    left: usize,
    /// The current packet is continued by another one.
    continued: bool,
    /// Bytes of an unfinished header.
    header: [u8; HEADER],
    header_len: usize,
    /// Payload bytes that the headers so far have announced.
    announced: u64,
    /// What the client's sequence ids are ahead of the server's.
    shift: u8,
    done: bool,
}

impl Passage {
    /// Begins before a packet.
    pub const fn new(until: Until) -> Self {
        Self {
            until,
            left: 0,
            continued: false,
            header: [0; HEADER],
            header_len: 0,
            announced: 0,
            shift: 0,
            done: false,
        }
    }

    /// Begins inside the first packet of a payload, of which `left` bytes are still to come.
    pub const fn inside(header: Header, left: usize) -> Self {
        let done = left == 0 && !header.is_continued();
        let announced = header.len as u64;
        let continued = header.is_continued();
        Self { left, continued, announced, done, ..Self::new(Until::PayloadEnd) }
    }

    /// The server's sequence ids are behind the client's by `shift`: packets are renumbered as they pass.
    pub const fn renumbered(self, shift: u8) -> Self {
        Self { shift, ..self }
    }

    /// The length of the payload, as far as its headers have told. What ends otherwise has none.
    pub const fn payload_len(&self) -> Option<u64> {
        match self.until {
            Until::PayloadEnd => Some(self.announced),
            Until::EmptyPacket | Until::Never => None,
        }
    }

    /// Whether another packet of the same payload comes behind the current one.
    pub const fn is_continued(&self) -> bool {
        self.continued
    }

    pub const fn is_done(&self) -> bool {
        self.done
    }

    /// How many of these bytes belong to the passage.
    pub fn advance(&mut self, bytes: &mut [u8]) -> usize {
        let mut at = 0;
        while at < bytes.len() && !self.done {
            if self.left > 0 {
                let passed = self.left.min(bytes.len() - at);
                self.left -= passed;
                at += passed;
                self.end_of_packet();
                continue;
            }
            self.header[self.header_len] = bytes[at];
            self.header_len += 1;
            at += 1;
            if self.header_len == HEADER {
                self.header_len = 0;
                // The sequence id is the last byte of a header, so it is always among those in hand.
                bytes[at - 1] = bytes[at - 1].wrapping_sub(self.shift);
                let header = Header::decode(self.header);
                let was_continued = std::mem::replace(&mut self.continued, header.is_continued());
                self.left = header.len;
                self.announced = self.announced.saturating_add(header.len as u64);
                let is_empty = header.len == 0 && !was_continued;
                self.done = is_empty && self.until == Until::EmptyPacket;
                self.end_of_packet();
            }
        }
        at
    }

    fn end_of_packet(&mut self) {
        if self.left == 0 && !self.continued && self.until == Until::PayloadEnd {
            self.done = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{PAYLOAD_MAX, put_packet};

    /// Passes `bytes` in pieces and tells how many belonged to the passage.
    fn pass(mut passage: Passage, bytes: &[u8], piece: usize) -> (usize, bool) {
        let mut passed = 0;
        for chunk in bytes.to_vec().chunks_mut(piece) {
            let taken = passage.advance(chunk);
            passed += taken;
            if taken < chunk.len() {
                break;
            }
        }
        (passed, passage.is_done())
    }

    #[test]
    fn a_file_ends_with_an_empty_packet() {
        let mut bytes = Vec::new();
        put_packet(&mut bytes, 2, b"line 1\n");
        put_packet(&mut bytes, 3, b"line 2\n");
        put_packet(&mut bytes, 4, b"");
        let len = bytes.len();
        bytes.extend_from_slice(b"next command");
        for piece in [1, 2, 3, 5, 100] {
            assert_eq!(pass(Passage::new(Until::EmptyPacket), &bytes, piece), (len, true));
        }
    }

    #[test]
    fn a_payload_may_be_several_packets() {
        let mut bytes = Vec::new();
        put_packet(&mut bytes, 0, &vec![b'x'; PAYLOAD_MAX]);
        let len = bytes.len();
        bytes.push(9);
        assert_eq!(pass(Passage::new(Until::PayloadEnd), &bytes, 65_536), (len, true));
        let header = Header::peek(&bytes).unwrap();
        let inside = Passage::inside(header, PAYLOAD_MAX - 10);
        assert_eq!(pass(inside, &bytes[HEADER + 10..], 65_536), (len - HEADER - 10, true));
        assert_eq!(inside.payload_len(), Some(PAYLOAD_MAX as u64));
        let mut inside = inside;
        inside.advance(&mut [&bytes[HEADER + 10..len - HEADER], &[7, 0, 0, 1]].concat());
        assert_eq!(inside.payload_len(), Some(PAYLOAD_MAX as u64 + 7));
    }

    #[test]
    fn a_long_packet_of_a_file_does_not_end_it() {
        let mut bytes = Vec::new();
        put_packet(&mut bytes, 2, &vec![b'x'; PAYLOAD_MAX]);
        assert_eq!(pass(Passage::new(Until::EmptyPacket), &bytes, 65_536), (bytes.len(), false));
        put_packet(&mut bytes, 4, b"");
        assert_eq!(pass(Passage::new(Until::EmptyPacket), &bytes, 65_536), (bytes.len(), true));
    }

    #[test]
    fn packets_are_renumbered_wherever_they_are_cut() {
        let (mut client, mut server) = (Vec::new(), Vec::new());
        for (out, first) in [(&mut client, 1_u8), (&mut server, 254)] {
            put_packet(out, first, b"line");
            put_packet(out, first.wrapping_add(1), b"");
        }
        for piece in 1..client.len() {
            let mut passage = Passage::new(Until::EmptyPacket).renumbered(3);
            let mut bytes = client.clone();
            for chunk in bytes.chunks_mut(piece) {
                passage.advance(chunk);
            }
            assert_eq!(bytes, server, "pieces of {piece}");
        }
    }

    #[test]
    fn nothing_ends_a_stream() {
        let bytes = [1, 0, 0, 0, 9, 0, 0, 0, 1];
        assert_eq!(pass(Passage::new(Until::Never), &bytes, 2), (9, false));
        assert_eq!(Passage::new(Until::Never).payload_len(), None);
        let header = Header { len: 5, sequence: 0 };
        assert!(Passage::inside(header, 0).is_done());
    }
}
