//! Packets of a replica's connection, in the pieces they come in: events, each with its checksum verified.

use super::crc32::Crc32;
use super::{Checksum, Event, EventHeader, Format, HEADER, IsCut, kind};
use crate::Malformed;

/// So much of an event is held: all of a statement, unless it is longer than clients usually may send, and more than
/// is read of rows.
pub const KEPT_MAX: usize = 1 << 20;

/// Buffers that have grown beyond this are given back.
const KEPT_USUALLY: usize = 64 << 10;

/// Why what a server sends cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    #[error("{0}")]
    Malformed(#[from] Malformed),
    #[error("the checksum of an event is wrong")]
    Checksum,
    #[error("an event of {len} bytes says that it has {said}")]
    Length { len: usize, said: u32 },
}

/// What a packet is.
#[derive(Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    Event(EventHeader, Event<'a>),
    /// The server's error: the packet.
    Refused(&'a [u8]),
    /// The server has no more to send.
    End,
}

/// Takes packets.
#[derive(Debug)]
pub struct Intake {
    format: Format,
    /// The beginning of the packet.
    kept: Vec<u8>,
    /// All of its bytes.
    len: usize,
    /// Over all of the event but the bytes that are held.
    sum: Crc32,
    /// The last bytes of the event, which may be the checksum.
    held: [u8; SUM],
    held_len: usize,
    /// The packet has been read.
    has_ended: bool,
}

/// Bytes of a checksum.
const SUM: usize = 4;

impl Intake {
    /// The server has been told that this checksum is understood.
    pub fn new(checksum: Checksum) -> Self {
        Self {
            format: Format::agreed(checksum),
            kept: Vec::new(),
            len: 0,
            sum: Crc32::default(),
            held: [0; SUM],
            held_len: 0,
            has_ended: false,
        }
    }

    /// Takes a piece of a packet's payload.
    pub fn take(&mut self, piece: &[u8]) {
        if std::mem::take(&mut self.has_ended) {
            self.kept.clear();
            self.kept.shrink_to(KEPT_USUALLY);
            (self.len, self.held_len, self.sum) = (0, 0, Crc32::default());
        }
        let room = KEPT_MAX.saturating_sub(self.kept.len());
        self.kept.extend_from_slice(&piece[..piece.len().min(room)]);
        // The first byte of a packet is none of the event's.
        let of_event = if self.len == 0 { piece.get(1..).unwrap_or_default() } else { piece };
        self.len = self.len.saturating_add(piece.len());
        self.add(of_event);
    }

    /// Sums all but the last bytes.
    fn add(&mut self, piece: &[u8]) {
        let sure = (self.held_len + piece.len()).saturating_sub(SUM);
        let of_held = sure.min(self.held_len);
        let (summed, rest) = piece.split_at(sure - of_held);
        self.sum.add(&self.held[..of_held]);
        self.sum.add(summed);
        self.held.copy_within(of_held..self.held_len, 0);
        let from = self.held_len - of_held;
        self.held_len = from + rest.len();
        self.held[from..self.held_len].copy_from_slice(rest);
    }

    /// Bytes that it holds.
    pub const fn held(&self) -> usize {
        self.kept.capacity()
    }

    /// The packet has ended: what it is. The next one may begin.
    pub fn end(&mut self) -> Result<Packet<'_>, Damage> {
        self.has_ended = true;
        let len = std::mem::take(&mut self.len);
        let (first, event) = self.kept.split_first().ok_or(Malformed::new("an empty packet"))?;
        match *first {
            OK => {}
            ERR => return Ok(Packet::Refused(&self.kept)),
            EOF if len <= EOF_MAX => return Ok(Packet::End),
            _ => return Err(Malformed::new("first byte of an event's packet").into()),
        }
        let header = EventHeader::decode(event)?;
        let len = len - 1;
        if u32::try_from(len) != Ok(header.len) {
            return Err(Damage::Length { len, said: header.len });
        }
        let rest = event.get(HEADER..).ok_or(Malformed::new("event"))?;
        if header.kind == kind::FORMAT {
            self.format = Format::decode(rest)?;
            if self.format.checksum == Checksum::Crc32 && !is_right(event) {
                return Err(Damage::Checksum);
            }
            return Ok(Packet::Event(header, Event::Format(self.format.clone())));
        }
        let tail = self.format.checksum.len();
        let is_summed =
            tail == 0 || (self.held_len == SUM && u32::from_le_bytes(self.held) == self.sum.sum());
        if !is_summed {
            return Err(Damage::Checksum);
        }
        let whole = len.checked_sub(HEADER + tail).ok_or(Malformed::new("length of an event"))?;
        let body = rest.get(..whole).unwrap_or(rest);
        let is_cut = if whole == body.len() { IsCut::No } else { IsCut::Yes };
        let event = self.format.read(&header, body, is_cut)?;
        Ok(Packet::Event(header, event))
    }
}

/// What a packet begins with.
const OK: u8 = 0x00;
const EOF: u8 = 0xfe;
const ERR: u8 = 0xff;

/// A longer packet is none that says the end.
const EOF_MAX: usize = 8;

/// Whether the event that tells the format is as its checksum says. The file's mark that it is being written is no part
/// of the sum.
fn is_right(event: &[u8]) -> bool {
    let Some((summed, sum)) = event.split_last_chunk::<SUM>() else { return false };
    let Some((before, after)) = summed.split_at_checked(FLAGS) else { return false };
    let Some((flags, after)) = after.split_first() else { return false };
    let mut crc = Crc32::default();
    crc.add(before);
    crc.add(&[flags & !IN_USE]);
    crc.add(after);
    crc.sum() == u32::from_le_bytes(*sum)
}

/// Where the flags stand in a header, and the one of a file that is being written.
const FLAGS: usize = 17;
const IN_USE: u8 = 1;
