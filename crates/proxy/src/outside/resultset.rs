//! A table as the rows of a reply in MySQL's text protocol.

use view::table::{Column, Kind, Table, Value};
use wire::Capabilities;
use wire::bytes::Write;
use wire::frame::{put_packet, put_packet_with};
use wire::response::{EOF, EofPacket, OK, OkPacket, Status};

/// The collation utf8mb4_general_ci, and the one of what is no text.
const UTF8MB4: u16 = 45;
const BINARY: u16 = 63;

const NOTHING: u8 = 0xfb;

/// The packets of a reply, the first of which has this sequence id.
#[derive(Debug)]
pub(super) struct Packets {
    pub(super) bytes: Vec<u8>,
    sequence: u8,
    capabilities: Capabilities,
}

impl Packets {
    pub(super) const fn new(sequence: u8, capabilities: Capabilities) -> Self {
        Self { bytes: Vec::new(), sequence, capabilities }
    }

    pub(super) fn put(&mut self, payload: &[u8]) {
        self.sequence = put_packet(&mut self.bytes, self.sequence, payload);
    }

    fn put_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        put_packet_with(&mut self.bytes, self.sequence, write);
        self.sequence = self.sequence.wrapping_add(1);
    }

    /// All is well, and there is nothing more to say.
    pub(super) fn put_ok(&mut self) {
        let capabilities = self.capabilities;
        let ok = OkPacket { status: Status::AUTOCOMMIT, ..OkPacket::EMPTY };
        self.put_with(|out| ok.encode(OK, capabilities, out));
    }

    /// The end of columns or rows.
    pub(super) fn put_eof(&mut self) {
        if self.capabilities.has(Capabilities::DEPRECATE_EOF) {
            let capabilities = self.capabilities;
            let ok = OkPacket { status: Status::AUTOCOMMIT, ..OkPacket::EMPTY };
            self.put_with(|out| ok.encode(EOF, capabilities, out));
        } else {
            let eof = EofPacket { warnings: 0, status: Status::AUTOCOMMIT };
            self.put(&eof.encode());
        }
    }

    pub(super) fn put_table(&mut self, table: &Table) {
        let names = table.columns.iter().map(|column| (column.name, column.kind));
        self.put_rows(&names.collect::<Vec<_>>(), &table.rows);
    }

    /// Rows under these names.
    pub(super) fn put_rows(&mut self, columns: &[(&str, Kind)], rows: &[Vec<Value>]) {
        self.put_with(|out| out.put_lenenc(columns.len() as u64));
        for (name, kind) in columns {
            self.put_with(|out| put_column(name, *kind, out));
        }
        if !self.capabilities.has(Capabilities::DEPRECATE_EOF) {
            self.put_eof();
        }
        for row in rows {
            self.put_with(|out| {
                for value in row {
                    match value {
                        Value::Null => out.push(NOTHING),
                        value => out.put_lenenc_bytes(value.to_string().as_bytes()),
                    }
                }
            });
        }
        self.put_eof();
    }
}

/// The definition of a column.
fn put_column(name: &str, kind: Kind, out: &mut Vec<u8>) {
    // Type, collation, the most characters there may be, flags, digits behind the point.
    let (code, collation, width, flags, digits) = match kind {
        Kind::Text => (0xfd, UTF8MB4, 1024 * 4, 0, 0),
        Kind::Count => (0x08, BINARY, 20, UNSIGNED, 0),
        Kind::Real => (0x05, BINARY, 22, 0, 3),
    };
    for text in ["def", "flifo", "", "", name, ""] {
        out.put_lenenc_bytes(text.as_bytes());
    }
    out.push(0x0c);
    out.put_u16(collation);
    out.put_u32(width);
    out.push(code);
    out.put_u16(flags);
    out.push(digits);
    out.extend_from_slice(&[0; 2]);
}

const UNSIGNED: u16 = 0x20;

/// A table of texts.
pub(super) fn texts<const N: usize>(
    columns: &'static [Column],
    rows: &[[&'static str; N]],
) -> Table {
    let mut table = Table::new(columns);
    for row in rows {
        table.add(row.map(Value::from));
    }
    table
}

#[cfg(test)]
mod tests {
    use view::table::{count, text};
    use wire::command::Shape;
    use wire::reply::{Follower, Step};

    use super::*;

    #[test]
    fn a_reply_is_one_that_can_be_followed() {
        let mut table = Table::new(const { &[text("name"), count("count")] });
        for at in 0..600_u32 {
            table.add([format!("row {at}").into(), at.into()]);
        }
        table.add([Value::Null, 1_u32.into()]);
        for capabilities in [Capabilities::NONE, Capabilities::DEPRECATE_EOF] {
            let mut packets = Packets::new(1, capabilities);
            packets.put_table(&table);
            let mut follower = Follower::new(Shape::Results, capabilities);
            let mut at = 0;
            let len = packets.bytes.len();
            loop {
                match follower.advance(&mut packets.bytes, at).unwrap() {
                    Step::Packet { end, .. } => at = end,
                    Step::End { at } => break assert_eq!(at, len),
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(follower.rows(), 601);
        }
    }
}
