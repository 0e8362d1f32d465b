//! Reads the tables of an SQLite database from its bytes: ProxySQL keeps its configuration in one.
//!
//! Owns SQLite's file format, as far as ordinary tables need it: no index, no write-ahead log, no text but UTF-8. The
//! format is documented and does not change, so that this needs neither the library, which is larger than Flifo, nor a
//! program on the machine.
//!
//! Invariants: each page is read at most once, and rows take at most as many bytes as the file has; so neither circles
//! nor shared pages cost memory or time.

use std::collections::BTreeSet;

use crate::create_table::{self, Column};

/// A row's values, as texts; `None`: NULL.
pub(crate) type Values = Vec<Option<String>>;

/// A table with its rows.
#[derive(Debug)]
pub(crate) struct StoredTable {
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Values>,
}

/// Why a database cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseError {
    #[error("it is no SQLite database")]
    NoDatabase,
    #[error("its texts are not in UTF-8")]
    Encoding,
    #[error("page {0} is damaged")]
    Damaged(u32),
}

/// How each database begins.
pub(crate) const MAGIC: &[u8] = b"SQLite format 3\0";

/// Reads the tables whose names are wanted.
pub(crate) fn read(
    bytes: &[u8],
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<StoredTable>, DatabaseError> {
    let mut database = Database::open(bytes)?;
    let mut tables = Vec::new();
    // The table of tables: kind, name, table, first page, statement.
    for (_, record) in database.rows(1)? {
        let text = |at: usize| record.get(at).cloned().flatten().unwrap_or_default();
        if text(0) != "table" || !is_wanted(&text(1)) {
            continue;
        }
        let columns = create_table::columns(&text(4));
        let root = text(3).parse().map_err(|_| DatabaseError::Damaged(1))?;
        let rows = database.rows(root)?;
        let rows = rows.into_iter().map(|(id, values)| with_id(values, id, &columns)).collect();
        tables.push(StoredTable { name: text(1), columns, rows });
    }
    Ok(tables)
}

/// The column that is a row's number is stored as NULL.
fn with_id(mut values: Values, id: i64, columns: &[Column]) -> Values {
    values.truncate(columns.len());
    for (value, _) in values.iter_mut().zip(columns).filter(|(_, column)| column.is_row_id) {
        value.get_or_insert_with(|| id.to_string());
    }
    values
}

struct Database<'a> {
    bytes: &'a [u8],
    page_size: usize,
    /// What of a page is in use.
    usable: usize,
    seen: BTreeSet<u32>,
    /// Bytes that rows may still have.
    left: usize,
}

type Found<T> = Result<T, DatabaseError>;

impl<'a> Database<'a> {
    fn open(bytes: &'a [u8]) -> Found<Self> {
        if !bytes.starts_with(MAGIC) {
            return Err(DatabaseError::NoDatabase);
        }
        let header = bytes.get(..HEADER).ok_or(DatabaseError::NoDatabase)?;
        let page_size = match u16::from_be_bytes([header[16], header[17]]) {
            1 => 65_536,
            size => usize::from(size),
        };
        let usable = page_size.saturating_sub(usize::from(header[20]));
        if !page_size.is_power_of_two() || page_size < 512 || usable < 480 {
            return Err(DatabaseError::NoDatabase);
        }
        if header[56..60] != [0, 0, 0, 1] && header[56..60] != [0; 4] {
            return Err(DatabaseError::Encoding);
        }
        Ok(Self { bytes, page_size, usable, seen: BTreeSet::new(), left: bytes.len() })
    }

    /// A page, which must not have been read before.
    fn page(&mut self, number: u32) -> Found<&'a [u8]> {
        let damaged = DatabaseError::Damaged(number);
        let index = usize::try_from(number).ok().and_then(|it| it.checked_sub(1));
        let begin = index.and_then(|index| index.checked_mul(self.page_size));
        let rest =
            begin.and_then(|begin| self.bytes.get(begin..)).ok_or_else(|| damaged.clone())?;
        if !self.seen.insert(number) {
            return Err(damaged);
        }
        rest.get(..self.usable).ok_or(damaged)
    }

    /// All rows of the table that begins at this page, with their numbers.
    fn rows(&mut self, root: u32) -> Found<Vec<(i64, Values)>> {
        let mut rows = Vec::new();
        // The next page is the last one here.
        let mut pages = vec![root];
        while let Some(number) = pages.pop() {
            let page = self.page(number)?;
            self.node(number, page, &mut pages, &mut rows).ok_or(DatabaseError::Damaged(number))?;
        }
        Ok(rows)
    }

    /// Reads one page of a table's tree.
    fn node(
        &mut self,
        number: u32,
        page: &'a [u8],
        pages: &mut Vec<u32>,
        rows: &mut Vec<(i64, Values)>,
    ) -> Option<()> {
        let begin = if number == 1 { HEADER } else { 0 };
        let header = page.get(begin..)?;
        let count = usize::from(u16::from_be_bytes([*header.get(3)?, *header.get(4)?]));
        let (is_leaf, length) = match *header.first()? {
            INTERIOR => (false, 12),
            LEAF => (true, 8),
            _ => return None,
        };
        let pointers = header.get(length..length + 2 * count)?;
        let cells =
            pointers.chunks_exact(2).map(|it| usize::from(u16::from_be_bytes([it[0], it[1]])));
        if is_leaf {
            for at in cells {
                rows.push(self.cell(page.get(at..)?)?);
            }
            return Some(());
        }
        let mut children = Vec::with_capacity(count + 1);
        for at in cells {
            children.push(u32_at(page, at)?);
        }
        children.push(u32_at(header, 8)?);
        pages.extend(children.into_iter().rev());
        Some(())
    }

    /// A row: its length, its number, what of it stands here, and where the rest is.
    fn cell(&mut self, cell: &'a [u8]) -> Option<(i64, Values)> {
        let mut rest = cell;
        let length = usize::try_from(varint(&mut rest)?).ok()?;
        let id = varint(&mut rest)?;
        self.left = self.left.checked_sub(length)?;
        let here = self.here(length);
        let mut payload = rest.get(..here)?.to_vec();
        if here < length {
            let mut next = u32_at(rest, here)?;
            while payload.len() < length {
                let page = self.page(next).ok()?;
                next = u32_at(page, 0)?;
                let part = (length - payload.len()).min(self.usable - 4);
                payload.extend_from_slice(page.get(4..4 + part)?);
            }
        }
        Some((id, record(&payload)?))
    }

    /// How many bytes of a row stand in its own page.
    const fn here(&self, length: usize) -> usize {
        let most = self.usable - 35;
        if length <= most {
            return length;
        }
        let least = (self.usable - 12) * 32 / 255 - 23;
        let fitting = least + (length - least) % (self.usable - 4);
        if fitting <= most { fitting } else { least }
    }
}

/// The values of a row.
fn record(payload: &[u8]) -> Option<Values> {
    let mut kinds = payload;
    let length = usize::try_from(varint(&mut kinds)?).ok()?;
    let taken = payload.len() - kinds.len();
    let mut kinds = payload.get(taken..length)?;
    let mut body = payload.get(length..)?;
    let mut values = Vec::new();
    while !kinds.is_empty() {
        let kind = varint(&mut kinds)?;
        values.push(value(kind, &mut body)?);
    }
    Some(values)
}

fn value(kind: i64, body: &mut &[u8]) -> Option<Option<String>> {
    let length = match kind {
        0 | 8 | 9 => 0,
        1..=4 => usize::try_from(kind).ok()?,
        5 => 6,
        6 | 7 => 8,
        12.. => usize::try_from((kind - 12) / 2).ok()?,
        _ => return None,
    };
    let (bytes, rest) = body.split_at_checked(length)?;
    *body = rest;
    Some(Some(match kind {
        0 => return Some(None),
        8 => "0".to_owned(),
        9 => "1".to_owned(),
        7 => f64::from_be_bytes(bytes.try_into().ok()?).to_string(),
        1..=6 => {
            let first = if bytes.first()? & 0x80 == 0 { 0 } else { -1 };
            bytes.iter().fold(first, |sum: i64, byte| sum << 8 | i64::from(*byte)).to_string()
        }
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }))
}

/// One to nine bytes, of which the first eight give seven bits each.
fn varint(bytes: &mut &[u8]) -> Option<i64> {
    let mut number: u64 = 0;
    for at in 0..9 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        if at == 8 {
            number = number << 8 | u64::from(*byte);
            break;
        }
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            break;
        }
    }
    Some(number.cast_signed())
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

/// Length of the header of the database, before the first page's own.
const HEADER: usize = 100;

/// Kinds of pages.
const INTERIOR: u8 = 5;
const LEAF: u8 = 13;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Made by `sqlite3` from `tests/trees.sql`: pages of 512 bytes, so that there are inner and overflow pages.
    const TREES: &[u8] = include_bytes!("../tests/trees.db");

    #[test]
    fn trees_and_long_rows_are_read() {
        let tables = read(TREES, |name| name != "unwanted").expect("is a database");
        let names: Vec<_> = tables.iter().map(|table| &*table.name).collect();
        assert_eq!(names, ["numbers", "kinds"]);
        let rows = &tables[0].rows;
        assert_eq!(rows.len(), 120);
        for (at, row) in rows.iter().enumerate() {
            let at = at + 1;
            let long = at.is_multiple_of(10).then(|| "x".repeat(at * 20));
            assert_eq!(row, &[Some(at.to_string()), Some(format!("row {at}")), long]);
        }
        let kinds: Vec<Vec<_>> =
            tables[1].rows.iter().map(|row| row.iter().map(|it| it.as_deref()).collect()).collect();
        let want = [
            vec![Some("0"), Some("1"), Some("-1"), None],
            vec![Some("300"), Some("-70000"), Some("3000000000"), Some("1.5")],
            vec![Some("-9223372036854775808"), Some("9000000"), Some("ä"), Some("")],
        ];
        assert_eq!(kinds, want);
    }

    #[test]
    fn what_is_cut_or_damaged_is_told() {
        assert_eq!(read(b"SQLite", |_| true).err(), Some(DatabaseError::NoDatabase));
        for length in (0..TREES.len()).step_by(97) {
            assert!(read(&TREES[..length], |_| true).is_err(), "{length}");
        }
        let mut circle = TREES.to_vec();
        // The first page of the first table points at itself.
        let page = &mut circle[512..1024];
        assert_eq!(page[0], INTERIOR);
        page[8..12].copy_from_slice(&2_u32.to_be_bytes());
        assert_eq!(read(&circle, |_| true).err(), Some(DatabaseError::Damaged(2)));
    }

    proptest! {
        #[test]
        fn nothing_panics(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20)) {
            let mut bytes = TREES.to_vec();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            let _ = read(&bytes, |_| true);
        }
    }
}
