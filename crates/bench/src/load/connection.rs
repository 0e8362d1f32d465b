//! One client's connection: a command goes out, its whole reply is read.
//!
//! Does not look at rows. Invariants: a command is one write and a short reply one read; between
//! replies a connection holds no bytes; buffers belong to the thread.

use std::cell::RefCell;
use std::io;

use backend::Stream;
use wire::command::{Opcode, Shape};
use wire::frame::{HEADER, put_packet, put_packet_with};
use wire::reply::{Follower, Kind, Step};
use wire::response::ErrPacket;
use wire::{Capabilities, Malformed, statement};

/// The buffers of a thread. They are used between two waits only.
#[derive(Debug)]
pub struct Buffers {
    out: RefCell<Vec<u8>>,
    input: RefCell<Vec<u8>>,
}

impl Default for Buffers {
    fn default() -> Self {
        Self { out: RefCell::default(), input: RefCell::new(vec![0; INPUT]) }
    }
}

#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    capabilities: Capabilities,
    /// What the follower wants to see again together with what comes.
    rest: Vec<u8>,
    version: Box<str>,
}

/// What a server said to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Done,
    /// The statement has this id.
    Prepared(u32),
    Refused {
        code: u16,
        message: String,
    },
}

/// Why a connection is of no more use.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    #[error("the connection was closed in the middle of a statement")]
    Closed,
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    #[error("the reply is not understood: {0}")]
    Malformed(#[from] Malformed),
}

impl Connection {
    pub(super) fn new(stream: Stream, capabilities: Capabilities, version: String) -> Self {
        Self { stream, capabilities, rest: Vec::new(), version: version.into() }
    }

    /// What the server said of itself in its greeting.
    pub fn version(&self) -> &str {
        &self.version
    }

    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Sends a command, whose payload `write` appends, and reads its reply.
    pub async fn ask(
        &mut self,
        buffers: &Buffers,
        shape: Shape,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Answer, Broken> {
        if let Some(unsent) = self.send(buffers, write)? {
            self.stream.write_all(&unsent).await?;
        }
        if self.stream.wants_flush() {
            self.stream.flush().await?;
        }
        self.receive(buffers, shape, |_| {}).await
    }

    /// Runs a statement as text, and shows every piece of its reply that is read.
    pub async fn query(
        &mut self,
        buffers: &Buffers,
        text: &str,
        see: impl FnMut(&[u8]),
    ) -> Result<Answer, Broken> {
        let mut packet = Vec::new();
        put_packet(&mut packet, 0, &[&[Opcode::Query as u8], text.as_bytes()].concat());
        self.stream.write_all(&packet).await?;
        self.receive(buffers, Shape::Results, see).await
    }

    /// Says goodbye. Whether it is heard does not matter any more.
    pub fn quit(self) {
        let mut packet = Vec::with_capacity(HEADER + 1);
        put_packet(&mut packet, 0, &[Opcode::Quit as u8]);
        let _ = self.stream.try_write(&packet);
    }

    /// Writes as much as the socket takes; returns what it did not take.
    fn send(
        &self,
        buffers: &Buffers,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Option<Vec<u8>>, Broken> {
        let mut out = buffers.out.borrow_mut();
        out.clear();
        put_packet_with(&mut out, 0, write);
        let written = match self.stream.try_write(&out) {
            Ok(written) => written,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error.into()),
        };
        Ok((written < out.len()).then(|| out[written..].to_vec()))
    }

    async fn receive(
        &mut self,
        buffers: &Buffers,
        shape: Shape,
        mut see: impl FnMut(&[u8]),
    ) -> Result<Answer, Broken> {
        let mut follower = Follower::new(shape, self.capabilities);
        let mut answer = Answer::Done;
        loop {
            self.stream.readable().await?;
            let mut input = buffers.input.borrow_mut();
            let read = match self.stream.try_read(&mut input) {
                Ok(0) => return Err(Broken::Closed),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error.into()),
            };
            see(&input[..read]);
            let done = if self.rest.is_empty() {
                follow(&mut follower, &mut input[..read], &mut self.rest, &mut answer)?
            } else {
                let mut whole = std::mem::take(&mut self.rest);
                whole.extend_from_slice(&input[..read]);
                follow(&mut follower, &mut whole, &mut self.rest, &mut answer)?
            };
            if done {
                return Ok(answer);
            }
        }
    }
}

/// Follows what was read. Says whether the reply is over; else `rest` holds what is wanted again.
fn follow(
    follower: &mut Follower,
    bytes: &mut [u8],
    rest: &mut Vec<u8>,
    answer: &mut Answer,
) -> Result<bool, Malformed> {
    let mut at = 0;
    loop {
        match follower.advance(bytes, at)? {
            Step::More { from } => {
                rest.extend_from_slice(&bytes[from..]);
                return Ok(false);
            }
            Step::Packet { kind, start, end } => {
                let payload = &bytes[start + HEADER..end];
                match kind {
                    Kind::Err => {
                        let error = ErrPacket::decode(payload)?;
                        let message = String::from_utf8_lossy(error.message).into_owned();
                        *answer = Answer::Refused { code: error.code, message };
                    }
                    Kind::Prepared => {
                        let id = statement::id(payload).ok_or(Malformed::new("statement id"))?;
                        *answer = Answer::Prepared(id);
                    }
                    Kind::LocalInfile => return Err(Malformed::new("a request for a file")),
                    _ => {}
                }
                at = end;
            }
            Step::End { at } if at == bytes.len() => return Ok(true),
            Step::End { .. } => return Err(Malformed::new("bytes behind a reply")),
        }
    }
}

/// The reply to a hundred rows of sysbench's tables is 14 KB.
const INPUT: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// A reply with a row, and one with an error, in pieces of every size.
    #[test]
    fn replies_are_followed_in_pieces() {
        let error = b"\x11\0\0\x01\xff\xbd\x04#40001Deadlock";
        let row = b"\x01\0\0\x01\x01\x02\0\0\x02de\x02\0\0\x03\x01x\x07\0\0\x04\xfe\0\0\x02\0\0\0";
        let capabilities = Capabilities::PROTOCOL_41 | Capabilities::DEPRECATE_EOF;
        let refused = Answer::Refused { code: 1213, message: "Deadlock".into() };
        for (bytes, want) in [(&error[..], refused), (&row[..], Answer::Done)] {
            for size in 1..=bytes.len() {
                let mut follower = Follower::new(Shape::Results, capabilities);
                let (mut rest, mut answer, mut done) = (Vec::new(), Answer::Done, false);
                for piece in bytes.chunks(size) {
                    assert!(!done, "{size}");
                    let mut whole = std::mem::take(&mut rest);
                    whole.extend_from_slice(piece);
                    done = follow(&mut follower, &mut whole, &mut rest, &mut answer).expect("is");
                }
                assert!(done && rest.is_empty(), "{size}");
                assert_eq!(answer, want, "{size}");
            }
        }
    }

    #[test]
    fn what_follows_a_reply_unasked_is_an_error() {
        let mut bytes = *b"\x07\0\0\x01\0\0\0\x02\0\0\0\x01";
        let mut follower = Follower::new(Shape::Results, Capabilities::PROTOCOL_41);
        let followed = follow(&mut follower, &mut bytes, &mut Vec::new(), &mut Answer::Done);
        assert_eq!(followed, Err(Malformed::new("bytes behind a reply")));
    }
}
