//! Whole packets on a socket, one at a time: how a handshake is spoken on either side.
//!
//! Not for the road: each packet is read into a buffer of its own, up to a bound.

use std::borrow::Borrow;
use std::io;

use wire::frame::{HEADER, Header, put_packet};

use crate::stream::Stream;

/// A socket, or a share in one, and what was read from it beyond the last packet.
#[derive(Debug)]
pub struct Talk<S = Stream> {
    stream: S,
    unread: Vec<u8>,
    /// The sequence id of the next packet.
    sequence: u8,
}

/// Why a packet could not be read.
#[derive(Debug, thiserror::Error)]
pub enum TalkError {
    #[error("the connection was closed")]
    Closed,
    #[error("a packet of {len} bytes, where at most {max} are allowed")]
    TooLong { len: usize, max: usize },
    #[error("a packet numbered {got}, where {want} was expected")]
    OutOfOrder { want: u8, got: u8 },
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// No packet of a handshake comes near this length.
pub const HANDSHAKE_MAX: usize = 64 << 10;

impl<S: Borrow<Stream>> Talk<S> {
    pub const fn new(stream: S) -> Self {
        Self { stream, unread: Vec::new(), sequence: 0 }
    }

    /// Goes on where a conversation stands: with bytes already read and a sequence id.
    pub const fn resume(stream: S, unread: Vec<u8>, sequence: u8) -> Self {
        Self { stream, unread, sequence }
    }

    pub fn stream(&self) -> &Stream {
        self.stream.borrow()
    }

    /// Gives the socket back, with bytes that came after the last packet.
    pub fn into_parts(self) -> (S, Vec<u8>) {
        (self.stream, self.unread)
    }

    /// The sequence id that the next packet has, in either direction.
    pub const fn sequence(&self) -> u8 {
        self.sequence
    }

    pub const fn set_sequence(&mut self, sequence: u8) {
        self.sequence = sequence;
    }

    /// Reads the payload of the next packet.
    pub async fn read(&mut self) -> Result<Vec<u8>, TalkError> {
        self.fill(HEADER).await?;
        let header = Header::peek(&self.unread).ok_or(TalkError::Closed)?;
        if header.sequence != self.sequence {
            return Err(TalkError::OutOfOrder { want: self.sequence, got: header.sequence });
        }
        if header.len > HANDSHAKE_MAX {
            return Err(TalkError::TooLong { len: header.len, max: HANDSHAKE_MAX });
        }
        self.fill(HEADER + header.len).await?;
        self.sequence = self.sequence.wrapping_add(1);
        let after = self.unread.split_off(HEADER + header.len);
        let mut packet = std::mem::replace(&mut self.unread, after);
        packet.drain(..HEADER);
        Ok(packet)
    }

    /// Sends a payload as one packet.
    pub async fn write(&mut self, payload: &[u8]) -> Result<(), TalkError> {
        let mut bytes = Vec::with_capacity(HEADER + payload.len());
        self.sequence = put_packet(&mut bytes, self.sequence, payload);
        self.stream().write_all(&bytes).await?;
        Ok(())
    }

    async fn fill(&mut self, count: usize) -> Result<(), TalkError> {
        let mut chunk = [0; 2048];
        while self.unread.len() < count {
            match self.stream().read_some(&mut chunk).await? {
                0 => return Err(TalkError::Closed),
                read => self.unread.extend_from_slice(&chunk[..read]),
            }
        }
        Ok(())
    }
}
