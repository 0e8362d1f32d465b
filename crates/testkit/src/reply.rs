//! What a fake server answers to one command, and how that looks on the wire.
//!
//! A reply is a value, so that tests can ask how many bytes it has and cut it anywhere. Bytes are encoded for the
//! capabilities that the peer logged in with. Rows are made while they are written: a huge result needs no memory.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use wire::Capabilities;
use wire::bytes::Write;
use wire::frame::{put_packet, put_packet_with};
use wire::response::{EOF, EofPacket, ErrPacket, LOCAL_INFILE, OK, OkPacket, Status};

/// What a reply may wait for.
pub type Flag = Arc<AtomicBool>;

/// One reply.
#[derive(Clone, Debug)]
pub enum Reply {
    Ok,
    /// OK with these status flags.
    Status(Status),
    Err(u16, &'static str),
    /// One column, these rows; more results follow if `more`.
    Rows {
        rows: Vec<Vec<u8>>,
        more: bool,
    },
    /// Rows of as many columns as the first one has; `None` is NULL.
    Table(Vec<Vec<Option<&'static str>>>),
    /// The same, with the names of the columns.
    NamedTable(&'static [&'static str], Vec<Vec<Option<&'static str>>>),
    /// One column, so many rows of so many bytes each.
    Many {
        rows: usize,
        width: usize,
    },
    /// The answer to a prepare, with definitions of parameters and columns.
    Prepared {
        id: u32,
        parameters: u16,
        columns: u16,
    },
    /// The binary row that answers an execute.
    Binary(Vec<u8>),
    /// Asks the client for a file. Of its packets so many are read, all if `None`; then comes the next reply.
    File {
        packets: Option<usize>,
    },
    /// These bytes, whatever they are.
    Raw(Vec<u8>),
    /// Only the first bytes of it; then the connection is closed.
    Cut(Box<Self>, usize),
    /// It, but only so much later.
    After(Duration, Box<Self>),
    /// It, but not before this is true.
    When(Flag, Box<Self>),
    /// One after the other, as one reply.
    All(Vec<Self>),
    /// Nothing at all; further commands are read.
    Silence,
    /// The connection is closed.
    Close,
}

impl Reply {
    /// A result of one row.
    pub fn row(text: impl AsRef<[u8]>) -> Self {
        Self::Rows { rows: vec![text.as_ref().to_vec()], more: false }
    }

    /// Only the first `count` bytes of this reply; then the connection is closed.
    pub fn cut(self, count: usize) -> Self {
        Self::Cut(Box::new(self), count)
    }

    /// This reply, but only so much later.
    pub fn after(self, time: Duration) -> Self {
        Self::After(time, Box::new(self))
    }

    /// This reply, but not before the flag is raised.
    pub fn when(self, flag: &Flag) -> Self {
        Self::When(Arc::clone(flag), Box::new(self))
    }

    /// The reply's packets as a peer with these capabilities expects them; `sequence` is the next id.
    pub fn encode(&self, capabilities: Capabilities, sequence: &mut u8) -> Vec<u8> {
        let mut out = Out { bytes: Vec::new(), capabilities, sequence };
        out.put(self);
        out.bytes
    }
}

/// What an honest server would answer. `SELECT x` is answered with `x`, and so is whatever executes it.
pub fn honest(command: &[u8]) -> Reply {
    let (first, body) = command.split_first().unwrap_or((&0, b""));
    match first {
        0x03 => match body.strip_prefix(b"SELECT ") {
            Some(text) => Reply::row(text),
            None => Reply::Ok,
        },
        // Every statement with the same text has the same id, so that no state is needed.
        0x16 => {
            let parameters = body.iter().filter(|byte| **byte == b'?').count() as u16;
            Reply::Prepared { id: body.len() as u32, parameters, columns: 1 }
        }
        0x17 => Reply::Binary(b"executed".to_vec()),
        // Long data, and the end of a statement, have no answer.
        0x18 | 0x19 => Reply::Silence,
        0x01 => Reply::Close,
        0x1c => Reply::Err(1421, "The statement has no open cursor"),
        _ => Reply::Ok,
    }
}

struct Out<'a> {
    bytes: Vec<u8>,
    capabilities: Capabilities,
    sequence: &'a mut u8,
}

impl Out<'_> {
    fn put(&mut self, reply: &Reply) {
        match reply {
            Reply::Ok => self.ok(OK, Status::AUTOCOMMIT),
            Reply::Status(status) => self.ok(OK, *status),
            Reply::Err(code, message) => self.packet(|out| {
                let message = message.as_bytes();
                ErrPacket { code: *code, sqlstate: *b"HY000", message }.encode(out);
            }),
            Reply::Rows { rows, more } => {
                self.header();
                for row in rows {
                    self.packet(|out| out.put_lenenc_bytes(row));
                }
                self.end_of_rows(*more);
            }
            Reply::Table(rows) => {
                self.header_of(&vec!["value"; rows.first().map_or(1, Vec::len)]);
                self.rows_of(rows);
            }
            Reply::NamedTable(columns, rows) => {
                self.header_of(columns);
                self.rows_of(rows);
            }
            Reply::Binary(value) => {
                self.header();
                self.packet(|out| {
                    out.extend_from_slice(&[0, 0]);
                    out.put_lenenc_bytes(value);
                });
                self.end_of_rows(false);
            }
            Reply::Prepared { id, parameters, columns } => {
                self.prepared(*id, *parameters, *columns)
            }
            Reply::File { .. } => {
                self.packet(|out| out.extend_from_slice(&[&[LOCAL_INFILE], &b"file"[..]].concat()));
            }
            Reply::Raw(bytes) => self.bytes.extend_from_slice(bytes),
            Reply::Cut(reply, count) => {
                self.put(reply);
                self.bytes.truncate(*count);
            }
            Reply::After(_, reply) | Reply::When(_, reply) => self.put(reply),
            Reply::All(replies) => replies.iter().for_each(|reply| self.put(reply)),
            Reply::Many { rows, width } => {
                self.header();
                for _ in 0..*rows {
                    self.wide_row(*width);
                }
                self.end_of_rows(false);
            }
            Reply::Silence | Reply::Close => {}
        }
    }

    fn prepared(&mut self, id: u32, parameters: u16, columns: u16) {
        self.packet(|out| {
            out.push(OK);
            out.put_u32(id);
            out.put_u16(columns);
            out.put_u16(parameters);
            out.extend_from_slice(&[0, 0, 0]);
        });
        for count in [parameters, columns] {
            for _ in 0..count {
                self.column("value");
            }
            if count > 0 && !self.capabilities.has(Capabilities::DEPRECATE_EOF) {
                self.eof(Status::AUTOCOMMIT);
            }
        }
    }

    fn header(&mut self) {
        self.header_of(&["value"]);
    }

    fn header_of(&mut self, columns: &[&str]) {
        self.packet(|out| out.put_lenenc(columns.len() as u64));
        columns.iter().for_each(|name| self.column(name));
        if !self.capabilities.has(Capabilities::DEPRECATE_EOF) {
            self.eof(Status::AUTOCOMMIT);
        }
    }

    fn rows_of(&mut self, rows: &[Vec<Option<&'static str>>]) {
        for row in rows {
            self.packet(|out| row.iter().for_each(|value| put_value(out, *value)));
        }
        self.end_of_rows(false);
    }

    fn column(&mut self, name: &str) {
        let extended = self.capabilities.has(Capabilities::EXTENDED_METADATA);
        self.packet(|out| {
            for name in ["def", "", "", "", name, ""] {
                out.put_lenenc_bytes(name.as_bytes());
            }
            if extended {
                out.put_lenenc_bytes(b"");
            }
            // Twelve bytes: collation 45, length 1024, type VAR_STRING, no flags.
            out.extend_from_slice(&[12, 45, 0, 0, 4, 0, 0, 0xfd, 0, 0, 0, 0, 0]);
        });
    }

    fn wide_row(&mut self, width: usize) {
        let mut payload = Vec::with_capacity(width + 9);
        payload.put_lenenc_bytes(&vec![b'w'; width]);
        *self.sequence = put_packet(&mut self.bytes, *self.sequence, &payload);
    }

    fn end_of_rows(&mut self, more: bool) {
        let more = if more { Status::MORE_RESULTS.0 } else { 0 };
        let status = Status(Status::AUTOCOMMIT.0 | more);
        if self.capabilities.has(Capabilities::DEPRECATE_EOF) {
            self.ok(EOF, status);
        } else {
            self.eof(status);
        }
    }

    fn ok(&mut self, first: u8, status: Status) {
        let capabilities = self.capabilities;
        let ok = OkPacket { status, ..OkPacket::EMPTY };
        self.packet(|out| ok.encode(first, capabilities, out));
    }

    fn eof(&mut self, status: Status) {
        let eof = EofPacket { warnings: 0, status };
        self.packet(|out| out.extend_from_slice(&eof.encode()));
    }

    fn packet(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        put_packet_with(&mut self.bytes, *self.sequence, write);
        *self.sequence = self.sequence.wrapping_add(1);
    }
}

fn put_value(out: &mut Vec<u8>, value: Option<&str>) {
    match value {
        Some(text) => out.put_lenenc_bytes(text.as_bytes()),
        None => out.push(0xfb),
    }
}

/// The pieces in which a reply is written, so that a huge one is never held as a whole.
pub(crate) fn pieces(
    reply: &Reply,
    capabilities: Capabilities,
    sequence: &mut u8,
    mut write: impl FnMut(&[u8]) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let Reply::Many { rows, width } = reply else {
        return write(&reply.encode(capabilities, sequence));
    };
    let mut out = Out { bytes: Vec::new(), capabilities, sequence };
    out.header();
    for _ in 0..*rows {
        out.wide_row(*width);
        if out.bytes.len() >= 64 << 10 {
            write(&out.bytes)?;
            out.bytes.clear();
        }
    }
    out.end_of_rows(false);
    write(&out.bytes)
}
