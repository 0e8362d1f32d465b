//! The payloads of prepared statements' commands: ids, and the parameter types that an execute may leave out.

use crate::bytes::{Malformed, Reader, Write};
use crate::command::Opcode;

/// The id that means "the statement prepared last" (MariaDB).
pub const LAST_PREPARED: u32 = u32::MAX;

/// Where a statement's id stands in the payload of each command that names one, and in a prepare's answer.
pub const ID_AT: usize = 1;

/// Reads the statement's id of an execute, close, reset, fetch, long-data or bulk command, or of a prepare's answer.
pub fn id(payload: &[u8]) -> Option<u32> {
    payload.get(ID_AT..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

/// Writes another id in its place. Short payloads are left alone.
pub fn set_id(payload: &mut [u8], id: u32) {
    if let Some(place) = payload.get_mut(ID_AT..ID_AT + 4) {
        place.copy_from_slice(&id.to_le_bytes());
    }
}

/// What the server answers a preparation, in front of definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepared {
    pub id: u32,
    pub columns: u16,
    pub parameters: u16,
    /// None where an old server says nothing of them.
    pub warnings: u16,
}

impl Prepared {
    pub fn decode(payload: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        reader.u8("a zero")?;
        let id = reader.u32("statement id")?;
        let columns = reader.u16("column count")?;
        let parameters = reader.u16("parameter count")?;
        let warnings = match reader.len() {
            0..3 => 0,
            _ => {
                reader.u8("a filler")?;
                reader.u16("warning count")?
            }
        };
        Ok(Self { id, columns, parameters, warnings })
    }
}

/// The parameter of which a piece is sent.
pub fn parameter_of_piece(payload: &[u8]) -> Option<u16> {
    payload.get(5..7).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
}

/// Whether an execute asks for a cursor instead of rows. Its first bytes are enough.
pub fn asks_for_cursor(payload: &[u8]) -> bool {
    payload.get(ID_AT + 4).is_some_and(|flags| flags & 0x07 != 0)
}

/// The flag of a bulk execute that says that types come with it (MariaDB).
const BULK_TYPES: u16 = 0x80;

/// The parts of an execute, of one row or in bulk, that matter to a caller that shares statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execute<'a> {
    /// Two bytes a parameter, if they are sent; else the server uses those of the last execute.
    pub types: Option<&'a [u8]>,
    /// Where the flag that says so stands, if the statement has parameters.
    pub types_at: Option<usize>,
    /// How many bytes of the payload this is about: the rest are values.
    pub head: usize,
}

impl<'a> Execute<'a> {
    /// Reads the payload of an execute of a statement with so many parameters, or the beginning of it.
    pub fn decode(payload: &'a [u8], parameters: u16) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        reader.take(ID_AT + 4, "statement id")?;
        let count = usize::from(parameters);
        let (types_at, has_types) = if is_bulk(payload) {
            (payload.len() - reader.len(), reader.u16("bulk flags")? & BULK_TYPES != 0)
        } else {
            reader.u8("execute flags")?;
            reader.u32("iteration count")?;
            if count == 0 {
                return Ok(Self {
                    types: None,
                    types_at: None,
                    head: payload.len() - reader.len(),
                });
            }
            reader.take(count.div_ceil(8), "null bitmap")?;
            (payload.len() - reader.len(), reader.u8("new-types flag")? != 0)
        };
        let types = match has_types {
            true => Some(reader.take(count * 2, "parameter types")?),
            false => None,
        };
        Ok(Self { types, types_at: Some(types_at), head: payload.len() - reader.len() })
    }

    /// Appends the payload with `types` put in, for an execute that left them out.
    pub fn put_with_types(&self, payload: &[u8], types: &[u8], out: &mut Vec<u8>) {
        let Some(at) = self.types_at.filter(|_| self.types.is_none()) else {
            out.extend_from_slice(payload);
            return;
        };
        out.extend_from_slice(&payload[..at]);
        if is_bulk(payload) {
            let flags =
                payload[at..self.head].first_chunk().map_or(0, |it| u16::from_le_bytes(*it));
            out.put_u16(flags | BULK_TYPES);
        } else {
            out.push(1);
        }
        out.extend_from_slice(types);
        out.extend_from_slice(&payload[self.head..]);
    }

    /// Whether the values of one row are there, and as long as these types say. A type that is not known is taken for
    /// well-formed.
    pub fn has_values(&self, payload: &[u8], parameters: u16, types: &[u8]) -> bool {
        self.values(payload, parameters, types).all(|value| value.is_ok())
    }

    /// The values of one row, by these types. Behind one whose type is not known, they cannot be told apart.
    pub fn values<'b>(
        &self,
        payload: &'b [u8],
        parameters: u16,
        types: &'b [u8],
    ) -> impl Iterator<Item = Result<Value<'b>, Malformed>> {
        let count = usize::from(parameters);
        let nulls = payload.get(NULLS_AT..NULLS_AT + count.div_ceil(8)).unwrap_or_default();
        let is_null = |at: usize| nulls.get(at / 8).is_some_and(|byte| byte & 1 << (at % 8) != 0);
        let mut values = Reader::new(payload.get(self.head..).unwrap_or_default());
        types.as_chunks().0.iter().enumerate().map(move |(at, kind)| match is_null(at) {
            true => Ok(Value::Null),
            false => Value::read(*kind, &mut values),
        })
    }
}

/// A parameter's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    Null,
    Signed(i64),
    Unsigned(u64),
    Float(f32),
    Double(f64),
    /// Texts, blobs and decimals.
    Text(&'a [u8]),
    /// A date, a time or both, packed.
    Time(&'a [u8]),
    /// Its type is not known.
    Unknown,
}

impl<'a> Value<'a> {
    /// Reads a value of this type, and its flags.
    fn read([kind, flags]: [u8; 2], from: &mut Reader<'a>) -> Result<Self, Malformed> {
        const WHAT: &str = "parameter";
        let is_unsigned = flags & UNSIGNED != 0;
        let number = |unsigned: u64, signed: i64| match is_unsigned {
            true => Self::Unsigned(unsigned),
            false => Self::Signed(signed),
        };
        Ok(match kind {
            0x01 => from.u8(WHAT).map(|it| number(it.into(), it.cast_signed().into()))?,
            0x02 | 0x0d => from.u16(WHAT).map(|it| number(it.into(), it.cast_signed().into()))?,
            0x03 | 0x09 => from.u32(WHAT).map(|it| number(it.into(), it.cast_signed().into()))?,
            0x08 => from.u64(WHAT).map(|it| number(it, it.cast_signed()))?,
            0x04 => Self::Float(f32::from_bits(from.u32(WHAT)?)),
            0x05 => Self::Double(f64::from_bits(from.u64(WHAT)?)),
            0x06 => Self::Null,
            0x00 | 0x0f | 0xf5 | 0xf6 | 0xf9..=0xfe => Self::Text(from.lenenc_bytes(WHAT)?),
            0x07 | 0x0a..=0x0c => {
                let length = from.u8(WHAT)?;
                Self::Time(from.take(length.into(), WHAT)?)
            }
            _ => Self::Unknown,
        })
    }
}

/// A flag of a parameter's type.
const UNSIGNED: u8 = 0x80;

/// Behind the command, the statement's id, the flags and the count of iterations.
const NULLS_AT: usize = ID_AT + 9;

fn is_bulk(payload: &[u8]) -> bool {
    payload.first() == Some(&(Opcode::StmtBulkExecute as u8))
}

/// Appends the payload of a close.
pub fn put_close(id: u32, out: &mut Vec<u8>) {
    out.push(Opcode::StmtClose as u8);
    out.put_u32(id);
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITH_TYPES: &[u8] = &[0x17, 5, 0, 0, 0, 0, 1, 0, 0, 0, 0b10, 1, 3, 0, 6, 0, 9, 0, 0, 0];
    const WITHOUT: &[u8] = &[0x17, 5, 0, 0, 0, 0, 1, 0, 0, 0, 0b10, 0, 9, 0, 0, 0];

    #[test]
    fn types_that_were_left_out_are_put_in() {
        let full = Execute::decode(WITH_TYPES, 2).unwrap();
        assert_eq!(full.types, Some(&[3, 0, 6, 0][..]));
        let short = Execute::decode(WITHOUT, 2).unwrap();
        assert_eq!((short.types, asks_for_cursor(WITHOUT)), (None, false));
        let mut out = Vec::new();
        short.put_with_types(WITHOUT, full.types.unwrap(), &mut out);
        assert_eq!(out, WITH_TYPES);
    }

    #[test]
    fn types_are_put_into_a_bulk_execute() {
        // One parameter; rows of an indicator and a value.
        let with = [0xfa, 5, 0, 0, 0, 0x80, 0, 3, 0, 0, 7, 0, 0, 0];
        let without = [0xfa, 5, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0];
        let full = Execute::decode(&with, 1).unwrap();
        assert_eq!((full.types, full.head), (Some(&[3, 0][..]), 9));
        let short = Execute::decode(&without, 1).unwrap();
        assert_eq!((short.types, short.head), (None, 7));
        let mut out = Vec::new();
        short.put_with_types(&without, full.types.unwrap(), &mut out);
        assert_eq!(out, with);
        assert!((0..9).all(|cut| Execute::decode(&with[..cut], 1).is_err()));
    }

    #[test]
    fn values_that_are_cut_off_are_missed() {
        // A text of three letters, NULL, a number, a date of four bytes.
        let types = [0xfd, 0, 3, 0, 8, 0, 0x0a, 0];
        let mut whole = vec![0x17, 5, 0, 0, 0, 0, 1, 0, 0, 0, 0b10, 1];
        whole.extend_from_slice(&types);
        whole.extend_from_slice(b"\x03abc\x01\0\0\0\0\0\0\0\x04dddd");
        let has_values = |payload: &[u8]| {
            Execute::decode(payload, 4).is_ok_and(|it| it.has_values(payload, 4, &types))
        };
        assert!(has_values(&whole));
        assert!((0..whole.len()).all(|cut| !has_values(&whole[..cut])));
    }

    #[test]
    fn ids_are_read_and_replaced() {
        let mut payload = WITHOUT.to_vec();
        set_id(&mut payload, 77);
        assert_eq!(id(&payload), Some(77));
        set_id(&mut [0x17, 1], 77);
        assert_eq!(id(&[0x17, 1]), None);
    }

    #[test]
    fn truncated_executes_are_refused() {
        for cut in 0..12 {
            assert!(Execute::decode(&WITHOUT[..cut.min(11)], 2).is_err());
        }
        assert!(Execute::decode(&WITHOUT[..10], 0).is_ok());
        assert!(Execute::decode(&WITH_TYPES[..14], 2).is_err());
    }
}
