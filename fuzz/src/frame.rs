//! Packets come apart as they were put together, and a passage ends where a reader of the whole
//! would say.

use wire::frame::{HEADER, Header, first_packet, put_packet, put_packet_with};
use wire::passage::{Passage, Until};

/// The first byte says how long the packets are that the rest is put into; the rest is also read as
/// packets.
pub fn run(data: &[u8]) {
    let Some((&piece, rest)) = data.split_first() else { return };
    rejoins(rest, usize::from(piece).max(1));
    first_is_whole(rest);
    for until in [Until::PayloadEnd, Until::EmptyPacket, Until::Never] {
        passes(rest, until);
    }
    passes_inside(rest, usize::from(piece));
}

fn rejoins(bytes: &[u8], piece: usize) {
    let mut out = Vec::new();
    let mut in_place = Vec::new();
    let mut sequence = 250;
    for payload in bytes.chunks(piece) {
        put_packet_with(&mut in_place, sequence, |out| out.extend_from_slice(payload));
        sequence = put_packet(&mut out, sequence, payload);
    }
    assert_eq!(out, in_place);
    let (mut left, mut joined, mut expected) = (&out[..], Vec::new(), 250_u8);
    while let Some((header, payload)) = first_packet(left) {
        assert_eq!((header.len, header.sequence), (payload.len(), expected));
        expected = expected.wrapping_add(1);
        joined.extend_from_slice(payload);
        left = &left[HEADER + payload.len()..];
    }
    assert!(left.is_empty() && joined == bytes && expected == sequence);
}

fn first_is_whole(bytes: &[u8]) {
    let Some((header, payload)) = first_packet(bytes) else { return };
    let end = HEADER + header.len;
    assert_eq!(payload, &bytes[HEADER..end]);
    assert_eq!(header.encode(), bytes[..HEADER]);
    assert_eq!(first_packet(&bytes[..end - 1]), None);
}

/// Where a reader that has all the bytes sees the end.
fn end_of(bytes: &[u8], until: Until) -> Option<usize> {
    let mut at = 0;
    let mut was_continued = false;
    while let Some(header) = Header::peek(&bytes[at..]) {
        at += HEADER + header.len;
        if at > bytes.len() {
            return None;
        }
        let ends = match until {
            Until::PayloadEnd => !header.is_continued(),
            Until::EmptyPacket => header.len == 0 && !was_continued,
            Until::Never => false,
        };
        if ends {
            return Some(at);
        }
        was_continued = header.is_continued();
    }
    None
}

fn passes(bytes: &[u8], until: Until) {
    let end = end_of(bytes, until);
    for piece in [1, 2, 3, 5, bytes.len().max(1)] {
        check(Passage::new(until), bytes, piece, end);
    }
}

fn passes_inside(bytes: &[u8], len: usize) {
    let header = Header { len, sequence: 0 };
    let end = (len <= bytes.len()).then_some(len);
    for piece in [1, 4, bytes.len().max(1)] {
        check(Passage::inside(header, len), bytes, piece, end);
    }
}

fn check(mut passage: Passage, bytes: &[u8], piece: usize, end: Option<usize>) {
    let mut passed = 0;
    for chunk in bytes.to_vec().chunks_mut(piece) {
        let taken = passage.advance(chunk);
        assert!(taken == chunk.len() || passage.is_done());
        passed += taken;
        if taken < chunk.len() {
            break;
        }
    }
    assert_eq!(passed, end.unwrap_or(bytes.len()));
    assert_eq!(passage.is_done(), end.is_some());
    if passage.is_done() {
        assert_eq!(passage.advance(&mut b"more".to_vec()), 0);
    }
}
