//! A table as the rows of a reply in MySQL's protocol, in its text form or the binary one of prepared statements.

use view::sql::{Answer, AnswerColumn};
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
    form: Form,
}

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Binary,
}

impl Packets {
    pub(super) const fn new(sequence: u8, capabilities: Capabilities) -> Self {
        Self { bytes: Vec::new(), sequence, capabilities, form: Form::Text }
    }

    /// The same, of rows in this form.
    pub(super) fn in_form(self, form: Form) -> Self {
        Self { form, ..self }
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

    pub(super) fn put_table(&mut self, table: Table) {
        self.put_answer(&table.into());
    }

    /// Rows under their names.
    pub(super) fn put_answer(&mut self, answer: &Answer) {
        let columns = &answer.columns;
        self.put_with(|out| out.put_lenenc(columns.len() as u64));
        for column in columns {
            self.put_with(|out| put_column(&column.table, &column.name, column.kind, out));
        }
        if !self.capabilities.has(Capabilities::DEPRECATE_EOF) {
            self.put_eof();
        }
        let form = self.form;
        for row in &answer.rows {
            self.put_with(|out| match form {
                Form::Text => put_text_row(row, out),
                Form::Binary => put_binary_row(columns, row, out),
            });
        }
        self.put_eof();
    }

    /// So many parameters of a statement, whatever they are.
    pub(super) fn put_parameters(&mut self, count: u16) {
        for _ in 0..count {
            self.put_with(|out| put_column("", "?", Kind::Text, out));
        }
        if count > 0 && !self.capabilities.has(Capabilities::DEPRECATE_EOF) {
            self.put_eof();
        }
    }
}

fn put_text_row(row: &[Value], out: &mut Vec<u8>) {
    for value in row {
        match value {
            Value::Null => out.push(NOTHING),
            value => out.put_lenenc_bytes(value.to_string().as_bytes()),
        }
    }
}

/// A row whose values have the forms of their columns' types.
fn put_binary_row(columns: &[AnswerColumn], row: &[Value], out: &mut Vec<u8>) {
    out.push(0);
    // The first two bits are reserved.
    let mut nulls = vec![0_u8; (columns.len() + 2).div_ceil(8)];
    let mut values = Vec::new();
    for (at, (value, column)) in row.iter().zip(columns).enumerate() {
        match (column.kind, value) {
            (_, Value::Null) => nulls[(at + 2) / 8] |= 1 << ((at + 2) % 8),
            (Kind::Count, Value::Count(count)) => values.extend_from_slice(&count.to_le_bytes()),
            (Kind::Real, Value::Real(real)) => values.extend_from_slice(&real.to_le_bytes()),
            (Kind::Real, Value::Count(count)) => {
                values.extend_from_slice(&(*count as f64).to_le_bytes());
            }
            (Kind::Real, Value::Signed(number)) => {
                values.extend_from_slice(&(*number as f64).to_le_bytes());
            }
            (Kind::Signed, Value::Signed(number)) => {
                values.extend_from_slice(&number.to_le_bytes())
            }
            (Kind::Signed, Value::Count(count)) => {
                let number = i64::try_from(*count).unwrap_or(i64::MAX);
                values.extend_from_slice(&number.to_le_bytes());
            }
            (Kind::Count | Kind::Signed, other) => {
                // A column of counts that holds anything else says that it knows nothing.
                debug_assert!(false, "{other:?} in a column of counts");
                nulls[(at + 2) / 8] |= 1 << ((at + 2) % 8);
            }
            (Kind::Real, Value::Text(_)) => nulls[(at + 2) / 8] |= 1 << ((at + 2) % 8),
            (Kind::Text, value) => values.put_lenenc_bytes(value.to_string().as_bytes()),
        }
    }
    out.extend_from_slice(&nulls);
    out.extend_from_slice(&values);
}

/// The definition of a column.
fn put_column(table: &str, name: &str, kind: Kind, out: &mut Vec<u8>) {
    // Type, collation, the most characters there may be, flags, digits behind the point.
    let (code, collation, width, flags, digits) = match kind {
        Kind::Text => (0xfd, UTF8MB4, 1024 * 4, 0, 0),
        Kind::Count => (0x08, BINARY, 20, UNSIGNED, 0),
        Kind::Signed => (0x08, BINARY, 20, 0, 0),
        Kind::Real => (0x05, BINARY, 22, 0, 3),
    };
    for text in ["def", "flifo", table, table, name, name] {
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
    fn a_binary_row_has_a_bit_for_what_is_nothing() {
        let column = |(name, kind): (&str, Kind)| AnswerColumn {
            table: String::new(),
            name: name.to_owned(),
            kind,
        };
        let columns = [("a", Kind::Text), ("b", Kind::Count), ("c", Kind::Real), ("d", Kind::Text)];
        let columns = columns.map(column);
        let row = [Value::Null, 7_u32.into(), Value::Real(0.5), "x".into()];
        let mut out = Vec::new();
        put_binary_row(&columns, &row, &mut out);
        let (count, real) = (7_u64.to_le_bytes(), 0.5_f64.to_le_bytes());
        assert_eq!(out, [&[0, 0b100][..], &count, &real, b"\x01x"].concat());
    }

    #[test]
    fn a_reply_is_one_that_can_be_followed() {
        let mut table = Table::new(const { &[text("name"), count("count")] });
        for at in 0..600_u32 {
            table.add([format!("row {at}").into(), at.into()]);
        }
        table.add([Value::Null, 1_u32.into()]);
        for capabilities in [Capabilities::NONE, Capabilities::DEPRECATE_EOF] {
            let mut packets = Packets::new(1, capabilities);
            packets.put_table(table.clone());
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
