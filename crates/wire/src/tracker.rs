//! Session trackers: what a server says has changed in a session, in the tail of an OK packet.

use crate::bytes::{Malformed, Reader, Write};

/// One reported change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    Variable {
        name: &'a [u8],
        value: &'a [u8],
    },
    Schema(&'a [u8]),
    /// Something changed that is not named: a user variable, a temporary table, a prepared statement… It goes on
    /// as it came.
    State(&'a [u8]),
    Gtids(&'a [u8]),
    /// The statement that would set up the transaction's characteristics again.
    TransactionCharacteristics(&'a [u8]),
    /// Eight characters; `L` in the last means that tables are locked.
    TransactionState(&'a [u8]),
    /// A kind that this version does not know.
    Other(u8),
}

const VARIABLES: u8 = 0;
const SCHEMA: u8 = 1;
const STATE: u8 = 2;
const GTIDS: u8 = 3;
const CHARACTERISTICS: u8 = 4;
const TRANSACTION: u8 = 5;

/// Appends the change that tells of a new schema.
pub fn put_schema(schema: &[u8], out: &mut Vec<u8>) {
    out.push(SCHEMA);
    let mut name = Vec::with_capacity(schema.len() + 3);
    name.put_lenenc_bytes(schema);
    out.put_lenenc_bytes(&name);
}

/// Iterates over the `changes` of an [`OkPacket`](crate::response::OkPacket). Ends after the first malformed entry.
#[derive(Clone, Copy, Debug)]
pub struct Changes<'a> {
    rest: Reader<'a>,
    /// Variables left in the current entry: MariaDB puts several pairs into one.
    variables: Reader<'a>,
}

impl<'a> Changes<'a> {
    pub const fn new(changes: &'a [u8]) -> Self {
        Self { rest: Reader::new(changes), variables: Reader::new(b"") }
    }

    fn read(&mut self) -> Result<Change<'a>, Malformed> {
        if !self.variables.is_empty() {
            let name = self.variables.lenenc_bytes("variable name")?;
            let value = self.variables.lenenc_bytes("variable value")?;
            return Ok(Change::Variable { name, value });
        }
        let kind = self.rest.u8("kind of session change")?;
        let mut data = Reader::new(self.rest.lenenc_bytes("session change")?);
        Ok(match kind {
            VARIABLES => {
                self.variables = data;
                let name = self.variables.lenenc_bytes("variable name")?;
                let value = self.variables.lenenc_bytes("variable value")?;
                Change::Variable { name, value }
            }
            SCHEMA => Change::Schema(data.lenenc_bytes("schema")?),
            STATE => Change::State(data.rest()),
            GTIDS => Change::Gtids(data.rest()),
            CHARACTERISTICS => {
                Change::TransactionCharacteristics(data.lenenc_bytes("characteristics")?)
            }
            TRANSACTION => Change::TransactionState(data.lenenc_bytes("transaction state")?),
            other => Change::Other(other),
        })
    }
}

impl<'a> Iterator for Changes<'a> {
    type Item = Result<Change<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() && self.variables.is_empty() {
            return None;
        }
        let change = self.read();
        if change.is_err() {
            *self = Self::new(b"");
        }
        Some(change)
    }
}

/// Appends one change in the form that [`Changes`] reads.
pub fn put_change(out: &mut Vec<u8>, change: Change<'_>) {
    let mut data = Vec::new();
    let kind = match change {
        Change::Variable { name, value } => {
            data.put_lenenc_bytes(name);
            data.put_lenenc_bytes(value);
            VARIABLES
        }
        Change::Schema(name) => {
            data.put_lenenc_bytes(name);
            SCHEMA
        }
        Change::State(bytes) => {
            data.extend_from_slice(bytes);
            STATE
        }
        Change::Gtids(bytes) => {
            data.extend_from_slice(bytes);
            GTIDS
        }
        Change::TransactionCharacteristics(text) => {
            data.put_lenenc_bytes(text);
            CHARACTERISTICS
        }
        Change::TransactionState(text) => {
            data.put_lenenc_bytes(text);
            TRANSACTION
        }
        Change::Other(kind) => kind,
    };
    out.push(kind);
    out.put_lenenc_bytes(&data);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_survive_a_round_trip() {
        let changes = [
            Change::Variable { name: b"autocommit", value: b"ON" },
            Change::Schema(b"test"),
            Change::State(b"\x011"),
            Change::State(b"1"),
            Change::TransactionCharacteristics(b"START TRANSACTION;"),
            Change::TransactionState(b"_______L"),
            Change::Other(77),
        ];
        let mut bytes = Vec::new();
        for change in changes {
            put_change(&mut bytes, change);
        }
        let read: Result<Vec<_>, _> = Changes::new(&bytes).collect();
        assert_eq!(read.unwrap(), changes);
    }

    #[test]
    fn several_variables_may_share_an_entry() {
        let mut pairs = Vec::new();
        for word in [b"a", b"1", b"b", b"2"] {
            pairs.put_lenenc_bytes(word);
        }
        let mut bytes = vec![VARIABLES];
        bytes.put_lenenc_bytes(&pairs);
        let read: Result<Vec<_>, _> = Changes::new(&bytes).collect();
        let want = [
            Change::Variable { name: b"a", value: b"1" },
            Change::Variable { name: b"b", value: b"2" },
        ];
        assert_eq!(read.unwrap(), want);
    }

    #[test]
    fn a_truncated_list_ends_in_one_error() {
        let read: Vec<_> = Changes::new(&[SCHEMA, 9, 1]).collect();
        assert_eq!(read.len(), 1);
        assert!(read[0].is_err());
    }
}
