//! A reply is followed the same way in whatever pieces it comes.

use wire::Capabilities;
use wire::command::Shape;
use wire::frame::{HEADER, Header};
use wire::reply::{Follower, Kind, Step};
use wire::response::{EofPacket, ErrPacket};

const SHAPES: [Shape; 9] = [
    Shape::Results,
    Shape::Simple,
    Shape::Text,
    Shape::Fields,
    Shape::Prepared,
    Shape::Rows,
    Shape::Stream,
    Shape::Authentication,
    Shape::None,
];

const BITS: [Capabilities; 4] = [
    Capabilities::DEPRECATE_EOF,
    Capabilities::SESSION_TRACK,
    Capabilities::CACHE_METADATA,
    Capabilities::PROGRESS,
];

/// Two pieces are tried for at most so many cuts.
const CUTS_MAX: usize = 32;

/// The first byte names a shape, the second capabilities; the rest is what a server sends.
pub fn run(data: &[u8]) {
    let [shape, bits, bytes @ ..] = data else { return };
    let shape = SHAPES[usize::from(*shape) % SHAPES.len()];
    let capabilities = BITS.iter().enumerate().fold(Capabilities::NONE, |all, (bit, one)| {
        if bits >> bit & 1 == 1 { all | *one } else { all }
    });
    // A client whose numbers are others.
    let shift = if bits & 0x10 == 0 { 0 } else { *bits };
    let begin = Follower::new(shape, capabilities).shifted(shift);
    let follow = |pieces: &mut dyn Iterator<Item = &[u8]>| follow(begin, pieces);
    let whole = follow(&mut std::iter::once(bytes));
    for piece in [1, 2, 3, 5, 7, 64] {
        // Nothing at all is a piece too.
        let mut pieces = std::iter::once(&b""[..]).chain(bytes.chunks(piece));
        assert_eq!(follow(&mut pieces), whole, "pieces of {piece}");
    }
    for cut in (0..bytes.len()).step_by(bytes.len() / CUTS_MAX + 1) {
        let (a, b) = bytes.split_at(cut);
        assert_eq!(follow(&mut [a, b].into_iter()), whole, "cut at {cut}");
    }
    if let Outcome::End(end) = whole.outcome {
        let exact = follow(&mut std::iter::once(&bytes[..end]));
        assert_eq!(exact, whole, "what comes behind the end does not matter");
    }
}

/// What a follower said, with places counted from the reply's begin.
#[derive(Debug, PartialEq, Eq)]
struct Followed {
    packets: Vec<(Kind, usize, usize)>,
    /// What went on to the client.
    passed: Vec<u8>,
    outcome: Outcome,
    next_sequence: u8,
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    End(usize),
    /// Bytes before this place may go on.
    More(usize),
    Malformed(&'static str),
}

fn follow(mut follower: Follower, pieces: &mut dyn Iterator<Item = &[u8]>) -> Followed {
    let (mut packets, mut passed) = (Vec::new(), Vec::new());
    let mut held = Vec::new();
    let mut gone = 0;
    let mut outcome = Outcome::More(0);
    'pieces: for piece in pieces {
        held.extend_from_slice(piece);
        let mut at = 0;
        loop {
            match follower.advance(&mut held, at) {
                Ok(Step::Packet { kind, start, end }) => {
                    assert!(at <= start && start + HEADER < end && end <= held.len());
                    is_what_it_says(kind, &held[start..end]);
                    packets.push((kind, gone + start, gone + end));
                    at = end;
                }
                Ok(Step::More { from }) => {
                    assert!(at <= from && from <= held.len());
                    is_unfinished(&held[from..]);
                    passed.extend(held.drain(..from));
                    gone += from;
                    outcome = Outcome::More(gone);
                    break;
                }
                Ok(Step::End { at }) => {
                    assert!(follower.is_done());
                    passed.extend_from_slice(&held[..at]);
                    outcome = Outcome::End(gone + at);
                    break 'pieces;
                }
                Err(malformed) => {
                    // How much of it had gone on depends on how it came.
                    passed.clear();
                    outcome = Outcome::Malformed(malformed.what);
                    break 'pieces;
                }
            }
        }
    }
    Followed { packets, passed, outcome, next_sequence: follower.next_sequence() }
}

/// A packet that is pointed out is one whole packet, and reads as its kind.
fn is_what_it_says(kind: Kind, packet: &[u8]) {
    let header = Header::peek(packet).expect("a packet has a header");
    let payload = &packet[HEADER..];
    assert_eq!(header.len, payload.len());
    match kind {
        Kind::Eof => assert!(EofPacket::decode(payload).is_ok()),
        Kind::Err => assert!(ErrPacket::decode(payload).is_ok()),
        Kind::Progress => {
            assert_eq!(ErrPacket::decode(payload).map(|err| err.code), Ok(ErrPacket::PROGRESS));
        }
        Kind::Ok | Kind::LocalInfile | Kind::Prepared | Kind::Text | Kind::Authentication => {}
    }
}

/// What must be shown again is less than one packet: a follower makes no caller hold more.
fn is_unfinished(rest: &[u8]) {
    if let Some(header) = Header::peek(rest) {
        assert!(rest.len() < HEADER + header.len);
    }
}
