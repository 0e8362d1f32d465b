//! A statement with places that are filled anew each time, as text or as parameters.
//!
//! Owns the notation of placeholders; knows no workload. Invariants: what is filled in needs no
//! escaping; as a prepared statement each value is one parameter, and `{table}`, which no parameter
//! can be, is part of the text.

use wire::bytes::Write as _;
use wire::command::Opcode;

use super::random::{Distribution, Random};

/// A statement with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    pieces: Vec<Piece>,
    /// Sent as text also where others are prepared.
    is_text_only: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Table,
    Value(Value),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    /// Draws an id of a row.
    Id,
    /// So much above the id that was drawn last.
    IdPlus(u32),
    /// Draws from the part of the ids that belongs to this client.
    Segment,
    SegmentPlus(u32),
    /// Draws like an id, and leaves the last id alone.
    K,
    /// Digits as sysbench's two columns hold them.
    C,
    Pad,
    /// A number between two others, all alike.
    Between(u32, u32),
    /// The client's number, from 1.
    Client,
}

/// What one client draws from.
#[derive(Clone, Debug)]
pub struct Draw {
    pub random: Random,
    pub distribution: Distribution,
    pub tables: u32,
    pub rows: u32,
    /// This client of so many, from 0.
    pub client: u32,
    pub clients: u32,
    /// The table that `{table}` stands for, from 1.
    pub table: u32,
    id: u32,
    segment: u32,
}

impl Draw {
    pub const fn new(random: Random, distribution: Distribution, tables: u32, rows: u32) -> Self {
        Self {
            random,
            distribution,
            tables,
            rows,
            client: 0,
            clients: 1,
            table: 1,
            id: 1,
            segment: 1,
        }
    }

    pub fn draw_table(&mut self) {
        self.table = match self.tables {
            0 | 1 => 1,
            tables => self.random.between(1, u64::from(tables)) as u32,
        };
    }

    fn number(&mut self, value: Value) -> u32 {
        let mut id = || self.distribution.draw(&mut self.random, 1, self.rows);
        match value {
            Value::Id => {
                self.id = id();
                self.id
            }
            Value::K => id(),
            Value::IdPlus(more) => self.id.saturating_add(more),
            Value::Segment => {
                self.segment = self.draw_segment();
                self.segment
            }
            Value::SegmentPlus(more) => self.segment.saturating_add(more),
            Value::Between(low, high) => {
                self.random.between(u64::from(low), u64::from(high)) as u32
            }
            Value::Client => self.client + 1,
            Value::C | Value::Pad => 0,
        }
    }

    /// The clients share the ids out among themselves.
    fn draw_segment(&mut self) -> u32 {
        let length = f64::from(self.rows) / f64::from(self.clients.max(1));
        let low = length * f64::from(self.client);
        self.distribution.draw(&mut self.random, low as u32, (low + length) as u32)
    }
}

/// Why a text is no statement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{{{name}}} is no placeholder: there are {{id}}, {{id+N}}, {{segment}}, {{segment+N}}, {{k}}, \
     {{c}}, {{pad}}, {{A..B}}, {{client}} and {{table}}; a brace itself is written {{{{"
)]
pub struct NoPlaceholder {
    name: String,
}

impl Statement {
    pub fn parse(text: &str) -> Result<Self, NoPlaceholder> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('{') {
            literal.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('{') {
                literal.push('{');
                rest = after;
                continue;
            }
            let (name, after) = rest.split_once('}').unwrap_or((rest, ""));
            let piece = Piece::parse(name).ok_or_else(|| NoPlaceholder { name: name.into() })?;
            if !literal.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut literal)));
            }
            pieces.push(piece);
            rest = after;
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            pieces.push(Piece::Text(literal));
        }
        Ok(Self { pieces, is_text_only: false })
    }

    pub fn text_only(self) -> Self {
        Self { is_text_only: true, ..self }
    }

    pub const fn is_text_only(&self) -> bool {
        self.is_text_only
    }

    /// Whether it names one of sysbench's tables by number.
    pub fn needs_table(&self) -> bool {
        self.pieces.contains(&Piece::Table)
    }

    /// Whether it draws anything from those tables.
    pub fn needs_rows(&self) -> bool {
        self.values().any(|it| matches!(it, Value::Id | Value::K | Value::Segment))
    }

    /// Appends the payload of a query with everything filled in.
    pub fn put_query(&self, draw: &mut Draw, out: &mut Vec<u8>) {
        out.push(Opcode::Query as u8);
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
                Piece::Table => put_decimal(draw.table, out),
                Piece::Value(value @ (Value::C | Value::Pad)) => {
                    out.push(b'\'');
                    draw.random.put_digits(value.groups(), out);
                    out.push(b'\'');
                }
                Piece::Value(value) => put_decimal(draw.number(*value), out),
            }
        }
    }

    /// Appends the payload that prepares it for a table.
    pub fn put_prepare(&self, table: u32, out: &mut Vec<u8>) {
        out.push(Opcode::StmtPrepare as u8);
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
                Piece::Table => put_decimal(table, out),
                Piece::Value(_) => out.push(b'?'),
            }
        }
    }

    /// Appends the payload that executes it under its id. The types go along the first time.
    pub fn put_execute(&self, id: u32, types: Types, draw: &mut Draw, out: &mut Vec<u8>) {
        out.push(Opcode::StmtExecute as u8);
        out.put_u32(id);
        out.push(0);
        out.put_u32(1);
        let count = self.values().count();
        if count == 0 {
            return;
        }
        // No value is NULL.
        out.resize(out.len() + count.div_ceil(8), 0);
        match types {
            Types::Known => out.push(0),
            Types::Sent => {
                out.push(1);
                self.values().for_each(|value| out.put_u16(value.type_code()));
            }
        }
        for value in self.values() {
            match value {
                Value::C | Value::Pad => {
                    // Shorter than what would take more than one byte to count.
                    let at = out.len();
                    out.push(0);
                    draw.random.put_digits(value.groups(), out);
                    out[at] = (out.len() - at - 1) as u8;
                }
                value => out.put_u32(draw.number(value)),
            }
        }
    }

    fn values(&self) -> impl Iterator<Item = Value> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Value(value) => Some(*value),
            Piece::Text(_) | Piece::Table => None,
        })
    }
}

/// Whether an execute tells the types of its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Types {
    Sent,
    /// The server knows them from the last execute.
    Known,
}

impl Piece {
    fn parse(name: &str) -> Option<Self> {
        let value = match name {
            "table" => return Some(Self::Table),
            "id" => Value::Id,
            "segment" => Value::Segment,
            "k" => Value::K,
            "c" => Value::C,
            "pad" => Value::Pad,
            "client" => Value::Client,
            name => match (name.split_once('+'), name.split_once("..")) {
                (Some(("id", more)), _) => Value::IdPlus(more.parse().ok()?),
                (Some(("segment", more)), _) => Value::SegmentPlus(more.parse().ok()?),
                (_, Some((low, high))) => {
                    let (low, high) = (low.parse().ok()?, high.parse().ok()?);
                    if high < low {
                        return None;
                    }
                    Value::Between(low, high)
                }
                _ => return None,
            },
        };
        Some(Self::Value(value))
    }
}

impl Value {
    /// Groups of digits in sysbench's columns.
    const fn groups(self) -> usize {
        match self {
            Self::C => 10,
            Self::Pad => 5,
            _ => 0,
        }
    }

    /// The protocol's number of a type: a 32-bit integer, or a string.
    const fn type_code(self) -> u16 {
        match self {
            Self::C | Self::Pad => 0xfe,
            _ => 0x03,
        }
    }
}

fn put_decimal(number: u32, out: &mut Vec<u8>) {
    let mut digits = [0; 10];
    let mut at = digits.len();
    let mut rest = number;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw() -> Draw {
        Draw { table: 3, ..Draw::new(Random::new(1), Distribution::Uniform, 4, 1000) }
    }

    fn query(text: &str) -> String {
        let mut out = Vec::new();
        Statement::parse(text).expect("parses").put_query(&mut draw(), &mut out);
        assert_eq!(out.remove(0), Opcode::Query as u8);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_range_ends_where_its_begin_says() {
        let text = query("SELECT c FROM sbtest{table} WHERE id BETWEEN {id} AND {id+99}");
        let rest = text.strip_prefix("SELECT c FROM sbtest3 WHERE id BETWEEN ").expect("begins");
        let (low, high) = rest.split_once(" AND ").expect("two ends");
        assert_eq!(low.parse::<u32>().unwrap() + 99, high.parse::<u32>().unwrap());
    }

    #[test]
    fn a_new_k_does_not_move_the_id() {
        let text = query("{id} {k} {id+0}");
        let words: Vec<&str> = text.split(' ').collect();
        assert_eq!(words[0], words[2]);
        assert_ne!(words[0], words[1]);
    }

    #[test]
    fn strings_are_quoted_and_braces_kept() {
        let text = query("SET @a = {c}, @b = {pad}, @c = '{{}', @d = {client}");
        let quoted: Vec<usize> = text.split('\'').map(str::len).collect();
        assert_eq!((quoted[1], quoted[3]), (119, 59));
        assert!(text.ends_with("'{}', @d = 1"), "{text}");
        assert!((5..=7).contains(&query("{5..7}").parse().unwrap()));
    }

    #[test]
    fn as_a_prepared_statement_values_are_parameters() {
        let text = "UPDATE sbtest{table} SET c={c} WHERE id={id}";
        let statement = Statement::parse(text).expect("parses");
        let mut out = Vec::new();
        statement.put_prepare(7, &mut out);
        assert_eq!(&out[1..], b"UPDATE sbtest7 SET c=? WHERE id=?");

        out.clear();
        statement.put_execute(9, Types::Sent, &mut draw(), &mut out);
        assert_eq!(out[..12], [0x17, 9, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]);
        assert_eq!(out[12..17], [0xfe, 0, 3, 0, 119]);
        assert_eq!(out.len(), 17 + 119 + 4);
        let execute = wire::statement::Execute::decode(&out, 2).expect("decodes");
        assert_eq!(execute.types, Some(&[0xfe, 0, 3, 0][..]));

        out.clear();
        statement.put_execute(9, Types::Known, &mut draw(), &mut out);
        assert_eq!(out.len(), 13 + 119 + 4);
    }

    #[test]
    fn a_statement_without_values_has_no_bitmap() {
        let mut out = Vec::new();
        let begin = Statement::parse("BEGIN").expect("parses");
        begin.put_execute(1, Types::Sent, &mut draw(), &mut out);
        assert_eq!(out.len(), 10);
        assert!(!begin.needs_table() && !begin.needs_rows());
    }

    #[test]
    fn unknown_placeholders_are_refused() {
        for text in ["{", "{}", "{ids}", "{id-1}", "{id+x}", "{9..2}", "{..}", "{id+99999999999}"] {
            let error = Statement::parse(text).expect_err(text).to_string();
            assert!(error.contains("is no placeholder"), "{error}");
        }
    }

    #[test]
    fn segments_do_not_overlap() {
        let statement = Statement::parse("{segment}").expect("parses");
        for client in 0..4 {
            let mut draw = Draw { client, clients: 4, ..draw() };
            for _ in 0..100 {
                let mut out = Vec::new();
                statement.put_query(&mut draw, &mut out);
                let id: u32 = String::from_utf8_lossy(&out[1..]).parse().unwrap();
                assert!((client * 250..=client * 250 + 250).contains(&id), "{client}: {id}");
            }
        }
    }
}
