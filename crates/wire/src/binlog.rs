//! The binary log as a server sends it to a replica: what each event says of what was written.
//!
//! Rows are not read, only the tables that they belong to. Invariants: what is not understood is [`Event::Unclear`],
//! never nothing; no input makes this panic; of an event that is longer than [`KEPT_MAX`], no more than that is held.

mod crc32;
mod group;
mod inflate;
mod intake;
mod requests;

pub use crc32::Crc32;
pub use group::{Group, Groups, Said, Written};
pub use intake::{Damage, Intake, KEPT_MAX, Packet};
pub use requests::{dump, dump_gtid, register};

use std::borrow::Cow;

use crate::Malformed;
use crate::bytes::Reader;

/// Bytes before each event's body.
pub const HEADER: usize = 19;

/// What stands before each event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventHeader {
    /// Seconds since 1970, by the clock of the server that took the statement.
    pub timestamp: u32,
    pub kind: u8,
    pub server: u32,
    /// With this header and the checksum.
    pub len: u32,
    /// Where the event ends in its file, modulo 4 GiB; 0 if it stands in none.
    pub end: u32,
    pub flags: u16,
}

impl EventHeader {
    /// Servers that do not know the event may leave it out.
    const IGNORABLE: u16 = 0x80;

    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        Ok(Self {
            timestamp: reader.u32("timestamp")?,
            kind: reader.u8("event type")?,
            server: reader.u32("server id")?,
            len: reader.u32("event length")?,
            end: reader.u32("event position")?,
            flags: reader.u16("event flags")?,
        })
    }
}

/// What is behind each event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    #[default]
    None,
    Crc32,
}

impl Checksum {
    /// By the value of `@@binlog_checksum`.
    pub const fn by_name(name: &[u8]) -> Option<Self> {
        match name {
            b"NONE" => Some(Self::None),
            b"CRC32" => Some(Self::Crc32),
            _ => None,
        }
    }

    const fn len(self) -> usize {
        match self {
            Self::None => 0,
            Self::Crc32 => 4,
        }
    }
}

/// The name of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gtid {
    MariaDb { domain: u32, server: u32, sequence: u64 },
    MySql { origin: [u8; 16], number: u64 },
}

/// What an event says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// How the events behind it are laid out.
    Format(Format),
    /// What follows stands in this file, from this place on.
    Rotate { file: &'a [u8], position: u64 },
    /// A transaction begins. `is_alone`: it is the next statement, and has no end of its own.
    Begin { gtid: Option<Gtid>, is_alone: bool },
    /// A statement, and the schema it was run in.
    Query { schema: &'a [u8], text: Cow<'a, [u8]> },
    /// Rows of this table may follow under this number: those of it, or of what foreign keys change with it.
    Table { number: u64, schema: &'a [u8], name: &'a [u8] },
    /// Rows of the table of this number were written; `is_change`: some that were there before.
    Rows { number: u64, is_change: bool },
    /// The transaction ends.
    Commit,
    /// The transaction is prepared; a statement ends it, or this does.
    Prepared,
    /// Nothing was written up to this place of this file. The file's name is not told in MySQL's later form.
    Heartbeat { file: &'a [u8] },
    /// Nothing that was written.
    Nothing,
    /// Whatever may have been written, in a transaction of its own or in this one.
    Unclear { is_whole: bool },
}

/// Events' types.
mod kind {
    pub(super) const QUERY: u8 = 2;
    pub(super) const STOP: u8 = 3;
    pub(super) const ROTATE: u8 = 4;
    pub(super) const INTVAR: u8 = 5;
    pub(super) const RAND: u8 = 13;
    pub(super) const USER_VAR: u8 = 14;
    pub(super) const FORMAT: u8 = 15;
    pub(super) const XID: u8 = 16;
    pub(super) const APPEND_BLOCK: u8 = 9;
    pub(super) const DELETE_FILE: u8 = 11;
    pub(super) const BEGIN_LOAD_QUERY: u8 = 17;
    pub(super) const EXECUTE_LOAD_QUERY: u8 = 18;
    pub(super) const TABLE_MAP: u8 = 19;
    pub(super) const ROWS: std::ops::RangeInclusive<u8> = 20..=25;
    /// Those among the types of rows that say which rows are new.
    pub(super) const INSERTED: [u8; 5] = [20, 23, 30, 166, 169];
    pub(super) const HEARTBEAT: u8 = 27;
    pub(super) const IGNORABLE: u8 = 28;
    pub(super) const ROWS_QUERY: u8 = 29;
    pub(super) const ROWS_V2: std::ops::RangeInclusive<u8> = 30..=32;
    pub(super) const MYSQL_GTID: u8 = 33;
    pub(super) const ANONYMOUS_GTID: u8 = 34;
    pub(super) const PREVIOUS_GTIDS: u8 = 35;
    pub(super) const TRANSACTION_CONTEXT: u8 = 36;
    pub(super) const VIEW_CHANGE: u8 = 37;
    pub(super) const XA_PREPARE: u8 = 38;
    pub(super) const PARTIAL_UPDATE_ROWS: u8 = 39;
    pub(super) const TRANSACTION_PAYLOAD: u8 = 40;
    pub(super) const HEARTBEAT_V2: u8 = 41;
    pub(super) const ANNOTATE_ROWS: u8 = 160;
    pub(super) const CHECKPOINT: u8 = 161;
    pub(super) const MARIADB_GTID: u8 = 162;
    pub(super) const GTID_LIST: u8 = 163;
    pub(super) const START_ENCRYPTION: u8 = 164;
    pub(super) const QUERY_COMPRESSED: u8 = 165;
    pub(super) const ROWS_COMPRESSED: std::ops::RangeInclusive<u8> = 166..=171;
}

/// How events are laid out, by the event that says so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Format {
    pub checksum: Checksum,
    /// How many bytes of each type of event stand before its body; types count from 1.
    fixed: Vec<u8>,
}

impl Format {
    /// Before a server has said it: its first event follows this.
    pub const fn agreed(checksum: Checksum) -> Self {
        Self { checksum, fixed: Vec::new() }
    }

    /// Reads the event that says it. The checksum's type stands before its own checksum, which is always there.
    fn decode(body: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        if reader.u16("version of the binary log")? != 4 {
            return Err(Malformed::new("version of the binary log"));
        }
        reader.take(50, "version of the server")?;
        reader.u32("time of creation")?;
        if usize::from(reader.u8("length of headers")?) != HEADER {
            return Err(Malformed::new("length of headers"));
        }
        let (rest, _sum) = reader
            .rest()
            .split_last_chunk::<4>()
            .ok_or(Malformed::new("checksum of the format"))?;
        let (checksum, fixed) = rest.split_last().ok_or(Malformed::new("type of checksums"))?;
        let checksum = match checksum {
            0 => Checksum::None,
            1 => Checksum::Crc32,
            _ => return Err(Malformed::new("type of checksums")),
        };
        Ok(Self { checksum, fixed: fixed.to_vec() })
    }

    /// How many bytes of this type of event stand before its body.
    fn fixed(&self, kind: u8) -> Option<usize> {
        let at = usize::from(kind).checked_sub(1)?;
        self.fixed.get(at).map(|len| usize::from(*len))
    }

    /// A server numbers tables in six bytes, a very old one in four.
    fn table_number(&self, kind: u8, reader: &mut Reader<'_>) -> Result<u64, Malformed> {
        let what = "number of a table";
        if self.fixed(kind) == Some(6) {
            return Ok(u64::from(reader.u32(what)?));
        }
        let (low, high) = (reader.u32(what)?, reader.u16(what)?);
        Ok(u64::from(low) | u64::from(high) << 32)
    }

    /// Reads what an event says. `body` is what is behind its header, without the checksum (but for the event that tells
    /// the format), or the beginning of it if it `is_cut`.
    pub fn read<'a>(
        &self,
        header: &EventHeader,
        body: &'a [u8],
        is_cut: IsCut,
    ) -> Result<Event<'a>, Malformed> {
        let mut reader = Reader::new(body);
        Ok(match header.kind {
            kind::FORMAT => Event::Format(Self::decode(body)?),
            kind::ROTATE => {
                let position = reader.u64("position in a file")?;
                Event::Rotate { file: reader.rest(), position }
            }
            kind::QUERY | kind::QUERY_COMPRESSED | kind::EXECUTE_LOAD_QUERY => {
                self.query(header.kind, body, is_cut)?
            }
            kind::TABLE_MAP => {
                let number = self.table_number(header.kind, &mut reader)?;
                reader.u16("flags of a table")?;
                let schema = reader.lenenc_bytes("schema of a table")?;
                reader.u8("end of a schema")?;
                let name = reader.lenenc_bytes("name of a table")?;
                Event::Table { number, schema, name }
            }
            it if kind::ROWS.contains(&it)
                || kind::ROWS_V2.contains(&it)
                || kind::ROWS_COMPRESSED.contains(&it)
                || it == kind::PARTIAL_UPDATE_ROWS =>
            {
                let is_change = !kind::INSERTED.contains(&it);
                Event::Rows { number: self.table_number(header.kind, &mut reader)?, is_change }
            }
            kind::XID => Event::Commit,
            kind::XA_PREPARE => Event::Prepared,
            kind::MARIADB_GTID => {
                let (sequence, domain) = (reader.u64("sequence")?, reader.u32("domain")?);
                let is_alone = reader.u8("flags of a GTID")? & STANDALONE != 0;
                let gtid = Gtid::MariaDb { domain, server: header.server, sequence };
                Event::Begin { gtid: Some(gtid), is_alone }
            }
            kind::MYSQL_GTID => {
                reader.u8("flags of a GTID")?;
                let origin = reader.take(16, "origin of a GTID")?;
                let origin = *origin.first_chunk().ok_or(Malformed::new("origin of a GTID"))?;
                let gtid = Gtid::MySql { origin, number: reader.u64("number of a GTID")? };
                Event::Begin { gtid: Some(gtid), is_alone: false }
            }
            kind::ANONYMOUS_GTID => Event::Begin { gtid: None, is_alone: false },
            kind::HEARTBEAT => Event::Heartbeat { file: body },
            kind::HEARTBEAT_V2 => Event::Heartbeat { file: b"" },
            kind::STOP
            | kind::INTVAR
            | kind::RAND
            | kind::USER_VAR
            | kind::APPEND_BLOCK
            | kind::DELETE_FILE
            | kind::BEGIN_LOAD_QUERY
            | kind::IGNORABLE
            | kind::ROWS_QUERY
            | kind::PREVIOUS_GTIDS
            | kind::TRANSACTION_CONTEXT
            | kind::VIEW_CHANGE
            | kind::ANNOTATE_ROWS
            | kind::CHECKPOINT
            | kind::GTID_LIST
            | kind::START_ENCRYPTION => Event::Nothing,
            kind::TRANSACTION_PAYLOAD => Event::Unclear { is_whole: true },
            _ if header.flags & EventHeader::IGNORABLE != 0 => Event::Nothing,
            _ => Event::Unclear { is_whole: false },
        })
    }

    fn query<'a>(&self, kind: u8, body: &'a [u8], is_cut: IsCut) -> Result<Event<'a>, Malformed> {
        let mut reader = Reader::new(body);
        reader.take(8, "connection of a statement")?;
        let schema = reader.u8("length of a schema")?;
        reader.u16("error of a statement")?;
        let variables = reader.u16("length of variables")?;
        // A statement that loads a file says which.
        let known = 13;
        let more =
            self.fixed(kind).unwrap_or(if kind == kind::EXECUTE_LOAD_QUERY { 26 } else { known });
        reader.take(more.saturating_sub(known), "fixed part of a statement")?;
        reader.take(variables.into(), "variables of a statement")?;
        let schema = reader.take(schema.into(), "schema of a statement")?;
        reader.u8("end of a schema")?;
        if is_cut == IsCut::Yes {
            return Ok(Event::Unclear { is_whole: false });
        }
        let text = match kind {
            kind::QUERY_COMPRESSED => match inflate::inflate(reader.rest(), KEPT_MAX) {
                Some(text) => Cow::Owned(text),
                None => return Ok(Event::Unclear { is_whole: false }),
            },
            _ => Cow::Borrowed(reader.rest()),
        };
        Ok(Event::Query { schema, text })
    }
}

/// In the flags of MariaDB's GTIDs: what follows is one statement without an end of its own.
const STANDALONE: u8 = 1;

/// Whether more of an event was there than was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsCut {
    No,
    Yes,
}

#[cfg(test)]
mod tests;
