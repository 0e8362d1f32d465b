//! Prepared statements on the console, for drivers that prepare whatever they run.
//!
//! A statement is kept as its text; what an execute brings is written into it, as literals, in the place of its marks.
//! Its columns are told with its rows, as servers do for SHOW. Invariants: so many statements of a client and no more,
//! each no longer than a packet; a text that was made of values has them in quotes or is a number.

use wire::bytes::{Malformed, Write};
use wire::lex::{Dialect, Token};
use wire::statement::{self, Execute, Value};
use wire::text::Lexed;

use super::Refusal;
use crate::admin::resultset::Packets;

/// Statements that a client may have prepared at once.
const STATEMENTS_MAX: usize = 64;

/// The statements of one client.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    kept: Vec<Kept>,
    last: u32,
}

#[derive(Debug)]
struct Kept {
    id: u32,
    text: Vec<u8>,
    /// Where its question marks stand.
    marks: Vec<usize>,
    /// Of the parameters, two bytes each, as the last execute has told them.
    types: Vec<u8>,
    /// A value has come in pieces, which the console does not collect.
    is_in_pieces: bool,
}

impl Prepared {
    /// Keeps a statement.
    pub(super) fn prepare(&mut self, text: &[u8], packets: &mut Packets) -> Result<(), Refusal> {
        if self.kept.len() == STATEMENTS_MAX {
            let message = format!(
                "Can't create more than {STATEMENTS_MAX} prepared statements on the console; \
                 close some that are not needed"
            );
            return Err(Refusal(1461, b"42000", message));
        }
        let marks = marks(text);
        let count = u16::try_from(marks.len()).map_err(|_| {
            Refusal(1390, b"HY000", "Prepared statement contains too many placeholders".to_owned())
        })?;
        self.last = self.last.wrapping_add(1);
        let id = self.last;
        let mut payload = vec![0];
        payload.put_u32(id);
        payload.put_u16(0);
        payload.put_u16(count);
        payload.extend_from_slice(&[0; 3]);
        packets.put(&payload);
        packets.put_parameters(count);
        let (text, types) = (text.to_vec(), Vec::new());
        self.kept.push(Kept { id, text, marks, types, is_in_pieces: false });
        Ok(())
    }

    /// The text that an execute means.
    pub(super) fn execute(&mut self, payload: &[u8]) -> Result<Vec<u8>, Refusal> {
        let kept = self.find(payload)?;
        if kept.is_in_pieces {
            let message = "the console takes no long data; have the driver send values at once";
            return Err(Refusal(1295, b"HY000", message.to_owned()));
        }
        kept.text_with(payload).map_err(|error| match error {
            Wrong::Malformed(error) => Refusal(1835, b"HY000", error.to_string()),
            Wrong::Type(code) => {
                let message = format!("the console takes numbers and texts, not type {code}");
                Refusal(1210, b"HY000", message)
            }
        })
    }

    pub(super) fn take_piece(&mut self, payload: &[u8]) {
        if let Ok(kept) = self.find(payload) {
            kept.is_in_pieces = true;
        }
    }

    pub(super) fn reset(&mut self, payload: &[u8]) -> Result<(), Refusal> {
        self.find(payload)?.is_in_pieces = false;
        Ok(())
    }

    pub(super) fn close(&mut self, payload: &[u8]) {
        let id = statement::id(payload);
        self.kept.retain(|kept| Some(kept.id) != id);
    }

    pub(super) fn clear(&mut self) {
        self.kept.clear();
    }

    fn find(&mut self, payload: &[u8]) -> Result<&mut Kept, Refusal> {
        let id = match statement::id(payload) {
            Some(statement::LAST_PREPARED) => Some(self.last),
            id => id,
        };
        let unknown = || {
            let id = id.unwrap_or_default();
            let message = format!("Unknown prepared statement handler ({id}) given to the console");
            Refusal(1243, b"HY000", message)
        };
        self.kept.iter_mut().find(|kept| Some(kept.id) == id).ok_or_else(unknown)
    }
}

/// Why an execute cannot be understood.
enum Wrong {
    Malformed(Malformed),
    /// A type that the console does not take.
    Type(u8),
}

impl From<Malformed> for Wrong {
    fn from(error: Malformed) -> Self {
        Self::Malformed(error)
    }
}

impl Kept {
    fn text_with(&mut self, payload: &[u8]) -> Result<Vec<u8>, Wrong> {
        let count = self.marks.len();
        let execute = Execute::decode(payload, count as u16)?;
        if let Some(types) = execute.types {
            types.clone_into(&mut self.types);
        }
        if count == 0 {
            return Ok(self.text.clone());
        }
        if self.types.len() != 2 * count {
            return Err(Malformed::new("parameter types").into());
        }
        let mut values = execute.values(payload, count as u16, &self.types);
        let (mut out, mut from) = (Vec::with_capacity(self.text.len() + payload.len()), 0);
        for (at, kind) in self.marks.iter().zip(self.types.chunks_exact(2)) {
            out.extend_from_slice(&self.text[from..*at]);
            from = at + 1;
            put_value(kind[0], values.next().ok_or(Malformed::new("parameter"))??, &mut out)?;
        }
        out.extend_from_slice(&self.text[from..]);
        Ok(out)
    }
}

/// Writes a value as a literal; of this type, if that is not known.
fn put_value(kind: u8, value: Value<'_>, out: &mut Vec<u8>) -> Result<(), Wrong> {
    let text = match value {
        Value::Null => "NULL".to_owned(),
        Value::Signed(number) => number.to_string(),
        Value::Unsigned(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Double(number) => number.to_string(),
        Value::Text(text) => {
            out.push(b'\'');
            for byte in text {
                if matches!(byte, b'\'' | b'\\') {
                    out.push(*byte);
                }
                out.push(*byte);
            }
            out.push(b'\'');
            return Ok(());
        }
        Value::Time(_) | Value::Unknown => return Err(Wrong::Type(kind)),
    };
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

/// Where question marks stand that are no part of a text or a comment.
fn marks(text: &[u8]) -> Vec<usize> {
    let lexed = Lexed::default();
    let mut tokens = lexed.text(text, Dialect::default()).tokens();
    let mut marks = Vec::new();
    while let Some(token) = tokens.next() {
        if token == Token::Symbol(b'?') {
            marks.push(tokens.span().0);
        }
    }
    marks
}

#[cfg(test)]
mod tests {
    use wire::Capabilities;

    use super::*;

    fn prepare(prepared: &mut Prepared, text: &str) -> Result<u32, Refusal> {
        let mut packets = Packets::new(1, Capabilities::DEPRECATE_EOF);
        prepared.prepare(text.as_bytes(), &mut packets)?;
        Ok(prepared.last)
    }

    fn execute(id: u32, rest: &[u8]) -> Vec<u8> {
        let mut payload = vec![0x17];
        payload.put_u32(id);
        payload.extend_from_slice(&[0, 1, 0, 0, 0]);
        payload.extend_from_slice(rest);
        payload
    }

    #[test]
    fn values_stand_in_the_place_of_marks() {
        let mut prepared = Prepared::default();
        let id = prepare(&mut prepared, "SHOW x WHERE a = ? AND b <> '?' AND c = ? -- ?").unwrap();
        let types = [0xfd, 0, 0x03, 0];
        let values = b"\x04o'\\k\xff\xff\xff\xff";
        let full = [&[0, 1][..], &types, values].concat();
        let want = b"SHOW x WHERE a = 'o''\\\\k' AND b <> '?' AND c = -1 -- ?";
        assert_eq!(prepared.execute(&execute(id, &full)).unwrap(), want);
        // Types come once; a bit stands for nothing.
        let short = [&[0b10, 0][..], b"\x01y"].concat();
        let want = b"SHOW x WHERE a = 'y' AND b <> '?' AND c = NULL -- ?";
        assert_eq!(prepared.execute(&execute(id, &short)).unwrap(), want);
        // Cut off anywhere, it is refused.
        for cut in 0..execute(id, &full).len() {
            assert!(prepared.execute(&execute(id, &full)[..cut]).is_err(), "{cut}");
        }
        let dates = [&[0, 1][..], &[0x0c, 0, 0x03, 0], values].concat();
        assert!(prepared.execute(&execute(id, &dates)).is_err_and(|it| it.2.contains("type 12")));
    }

    #[test]
    fn statements_are_bounded_and_can_be_closed() {
        let mut prepared = Prepared::default();
        for _ in 0..STATEMENTS_MAX {
            prepare(&mut prepared, "SHOW SERVERS").unwrap();
        }
        assert_eq!(prepare(&mut prepared, "SHOW SERVERS").unwrap_err().0, 1461);
        prepared.take_piece(&execute(3, b""));
        assert_eq!(prepared.execute(&execute(3, b"")).unwrap_err().0, 1295);
        prepared.reset(&execute(3, b"")).unwrap();
        assert_eq!(prepared.execute(&execute(3, b"")).unwrap(), b"SHOW SERVERS");
        prepared.close(&execute(3, b""));
        assert_eq!(prepared.execute(&execute(3, b"")).unwrap_err().0, 1243);
        assert_eq!(prepare(&mut prepared, "SHOW SERVERS").unwrap(), 65);
        assert!(prepared.execute(&execute(u32::MAX, b"")).is_ok());
        prepared.clear();
        assert!(prepared.execute(&execute(65, b"")).is_err());
    }
}
