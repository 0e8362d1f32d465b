//! Replies of the model's server, as bytes.

use wire::Capabilities;
use wire::bytes::Write;
use wire::frame::{put_packet, put_packet_with};
use wire::response::{EOF, EofPacket, ErrPacket, OK, OkPacket, Status};

pub type Row = Vec<Option<Vec<u8>>>;

/// What a statement is answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Ok { affected: u64, insert_id: u64 },
    Rows { columns: Vec<Vec<u8>>, rows: Vec<Row> },
    Error(ModelError),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelError {
    pub code: u16,
    pub state: [u8; 5],
    pub message: String,
}

impl ModelError {
    pub fn new(code: u16, state: &[u8; 5], message: impl Into<String>) -> Self {
        Self { code, state: *state, message: message.into() }
    }

    pub fn syntax() -> Self {
        Self::new(1064, b"42000", "You have an error in your SQL syntax")
    }
}

/// What every end of a reply says of its session.
#[derive(Clone, Debug, Default)]
pub struct End {
    pub status: u16,
    pub warnings: u16,
    /// Changes that an OK packet can report.
    pub changes: Vec<u8>,
}

/// The packets of one command's reply.
pub struct Out {
    pub bytes: Vec<u8>,
    capabilities: Capabilities,
    sequence: u8,
}

impl Out {
    pub const fn new(capabilities: Capabilities, sequence: u8) -> Self {
        Self { bytes: Vec::new(), capabilities, sequence }
    }

    pub fn has_eof(&self) -> bool {
        !self.capabilities.has(Capabilities::DEPRECATE_EOF)
    }

    pub fn packet(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        put_packet_with(&mut self.bytes, self.sequence, write);
        self.sequence = self.sequence.wrapping_add(1);
    }

    pub fn error(&mut self, error: &ModelError) {
        let message = error.message.as_bytes();
        let packet = ErrPacket { code: error.code, sqlstate: error.state, message };
        self.packet(|out| packet.encode(out));
    }

    pub fn ok(&mut self, first: u8, (affected_rows, insert_id): (u64, u64), end: &End) {
        let capabilities = self.capabilities;
        let (status, changes) = (Status(end.status), &end.changes[..]);
        let warnings = end.warnings;
        let ok = OkPacket { affected_rows, insert_id, status, warnings, info: b"", changes };
        self.packet(|out| ok.encode(first, capabilities, out));
    }

    pub fn eof(&mut self, end: &End) {
        let eof = EofPacket { warnings: end.warnings, status: Status(end.status) };
        self.packet(|out| out.extend_from_slice(&eof.encode()));
    }

    /// Definitions and rows. `middle` is what an EOF behind the definitions says.
    pub fn rows(
        &mut self,
        columns: &[Vec<u8>],
        rows: &[Row],
        is_binary: bool,
        middle: &End,
        end: &End,
    ) {
        self.packet(|out| out.put_lenenc(columns.len() as u64));
        columns.iter().for_each(|name| self.column(name));
        if self.has_eof() {
            self.eof(middle);
        }
        for row in rows {
            let mut payload = Vec::new();
            put_row(row, is_binary, &mut payload);
            self.sequence = put_packet(&mut self.bytes, self.sequence, &payload);
        }
        match self.has_eof() {
            true => self.eof(end),
            false => self.ok(EOF, (0, 0), end),
        }
    }

    fn column(&mut self, name: &[u8]) {
        let extended = self.capabilities.has(Capabilities::EXTENDED_METADATA);
        self.packet(|out| {
            out.put_lenenc_bytes(b"def");
            (0..3).for_each(|_| out.put_lenenc_bytes(b""));
            out.put_lenenc_bytes(name);
            out.put_lenenc_bytes(b"");
            if extended {
                out.put_lenenc_bytes(b"");
            }
            // Twelve bytes: collation 45, length 1024, type VAR_STRING, no flags.
            out.extend_from_slice(&[12, 45, 0, 0, 4, 0, 0, 0xfd, 0, 0, 0, 0, 0]);
        });
    }

    pub fn prepared(&mut self, id: u32, parameters: u16, columns: &[Vec<u8>], end: &End) {
        self.packet(|out| {
            out.push(OK);
            out.put_u32(id);
            out.put_u16(columns.len() as u16);
            out.put_u16(parameters);
            out.extend_from_slice(&[0, 0, 0]);
        });
        (0..parameters).for_each(|_| self.column(b"?"));
        if parameters > 0 && self.has_eof() {
            self.eof(end);
        }
        columns.iter().for_each(|name| self.column(name));
        if !columns.is_empty() && self.has_eof() {
            self.eof(end);
        }
    }
}

fn put_row(row: &Row, is_binary: bool, out: &mut Vec<u8>) {
    if !is_binary {
        for value in row {
            match value {
                Some(value) => out.put_lenenc_bytes(value),
                None => out.push(0xfb),
            }
        }
        return;
    }
    out.push(OK);
    let mut nulls = vec![0_u8; (row.len() + 9) / 8];
    for (at, value) in row.iter().enumerate() {
        if value.is_none() {
            nulls[(at + 2) / 8] |= 1 << ((at + 2) % 8);
        }
    }
    out.extend_from_slice(&nulls);
    row.iter().flatten().for_each(|value| out.put_lenenc_bytes(value));
}
