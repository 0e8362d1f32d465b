//! What a transaction has written, gathered from its events.
//!
//! Invariants: a group is handed out once it has ended; what it holds has a bound, beyond which everything may have been
//! written; a transaction that is cut off or that begins within another one counts as everything.

use std::borrow::Cow;

use super::{Event, EventHeader, Gtid};

/// What was committed at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Its name, where the server names transactions.
    pub gtid: Option<Gtid>,
    /// The tables that rows were written of. MariaDB names those as well that foreign keys change.
    pub tables: Vec<Written>,
    /// Statements that were logged as texts.
    pub texts: Vec<Said>,
    /// Whatever there is may have been written.
    pub is_everything: bool,
    /// But no definition: a transaction that was prepared has none.
    pub is_of_rows: bool,
    /// When, by the server's clock: seconds since 1970.
    pub timestamp: u32,
}

/// A table that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub schema: Box<[u8]>,
    pub name: Box<[u8]>,
    /// Rows were changed or taken away that were there before: foreign keys may have passed that on.
    pub has_changes: bool,
}

/// A statement, and the schema that it was run in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    pub schema: Box<[u8]>,
    pub text: Box<[u8]>,
}

/// Tables that one transaction may name.
const TABLES_MAX: usize = 1024;

/// Numbers that one transaction may give them: a table that was changed meanwhile gets another one.
const NUMBERS_MAX: usize = 2 * TABLES_MAX;

/// Bytes of the texts of one transaction.
const TEXTS_MAX: usize = 1 << 20;

/// Gathers groups.
#[derive(Debug, Default)]
pub struct Groups {
    open: Option<Open>,
}

/// A transaction whose end has not come.
#[derive(Debug, Default)]
struct Open {
    group: Group,
    /// One statement, without an end of its own.
    is_alone: bool,
    /// Whether it has begun, in such a way that a statement does not end it.
    is_begun: bool,
    /// The numbers that rows name tables by, with the tables' places in the group.
    numbers: Vec<(u64, usize)>,
    bytes: usize,
}

impl Groups {
    /// Takes an event. The answer is what was committed by it.
    pub fn take(&mut self, header: &EventHeader, event: Event<'_>) -> Option<Group> {
        match event {
            Event::Begin { gtid, is_alone } => {
                // MySQL's transactions say BEGIN in a statement, MariaDB's do not.
                let is_begun = matches!(gtid, Some(Gtid::MariaDb { .. })) && !is_alone;
                let cut =
                    self.open.take().map(|_| Group { is_everything: true, ..Group::default() });
                let group = Group { gtid, timestamp: header.timestamp, ..Group::default() };
                self.open = Some(Open { group, is_alone, is_begun, ..Open::default() });
                return cut;
            }
            Event::Query { schema, text } => return self.query(header, schema, text),
            Event::Table { number, schema, name } => {
                self.open(header).table(number, schema, name);
            }
            Event::Rows { number, is_change } => self.open(header).rows(number, is_change),
            Event::Commit | Event::Prepared => return Some(self.close(header)),
            Event::Unclear { is_whole: true } => {
                self.open(header).group.is_everything = true;
                return Some(self.close(header));
            }
            Event::Unclear { is_whole: false } => {
                let open = self.open(header);
                open.group.is_everything = true;
                if !open.is_begun {
                    return Some(self.close(header));
                }
            }
            // A transaction does not go on in another file.
            Event::Rotate { .. } => {
                let cut = self.open.take();
                return cut.map(|_| Group { is_everything: true, ..Group::default() });
            }
            Event::Format(_) | Event::Heartbeat { .. } | Event::Nothing => {}
        }
        None
    }

    fn query(&mut self, header: &EventHeader, schema: &[u8], text: Cow<'_, [u8]>) -> Option<Group> {
        match Word::of(&text) {
            Word::Begin => {
                let open = self.open(header);
                open.is_begun = true;
                None
            }
            Word::End => Some(self.close(header)),
            Word::Savepoint => None,
            // What was prepared under this name may have been long ago.
            Word::Prepared => {
                let group = &mut self.open(header).group;
                (group.is_of_rows, group.is_everything) = (!group.is_everything, true);
                Some(self.close(header))
            }
            Word::Other => {
                let open = self.open(header);
                open.text(schema, text);
                (open.is_alone || !open.is_begun).then(|| self.close(header))
            }
        }
    }

    fn open(&mut self, header: &EventHeader) -> &mut Open {
        self.open.get_or_insert_with(|| {
            let group = Group { timestamp: header.timestamp, ..Group::default() };
            Open { group, ..Open::default() }
        })
    }

    fn close(&mut self, header: &EventHeader) -> Group {
        self.open(header);
        self.open.take().unwrap_or_default().group
    }

    /// Whether a transaction has begun whose end has not come.
    pub const fn is_within(&self) -> bool {
        self.open.is_some()
    }
}

/// Rows of no table: an event that only says that a statement ends.
const NO_TABLE: u64 = 0xff_ffff;

impl Open {
    fn table(&mut self, number: u64, schema: &[u8], name: &[u8]) {
        let group = &mut self.group;
        if group.is_everything {
            return;
        }
        // A statement names the tables of the one before it again, in most transactions.
        let is_it = |it: &Written| *it.schema == *schema && *it.name == *name;
        let at = group.tables.iter().rposition(is_it).unwrap_or(group.tables.len());
        if at == TABLES_MAX || self.numbers.len() == NUMBERS_MAX {
            self.give_up();
            return;
        }
        if at == group.tables.len() {
            let (schema, name) = (schema.into(), name.into());
            group.tables.push(Written { schema, name, has_changes: false });
        }
        if !self.numbers.contains(&(number, at)) {
            self.numbers.push((number, at));
        }
    }

    fn rows(&mut self, number: u64, is_change: bool) {
        if number == NO_TABLE {
            return;
        }
        let known = self.numbers.iter().rev().find(|known| known.0 == number);
        match known.and_then(|(_, at)| self.group.tables.get_mut(*at)) {
            Some(table) => table.has_changes |= is_change,
            None => self.give_up(),
        }
    }

    fn give_up(&mut self) {
        self.group.is_everything = true;
        self.group.tables = Vec::new();
        self.group.texts = Vec::new();
        self.numbers = Vec::new();
    }

    fn text(&mut self, schema: &[u8], text: Cow<'_, [u8]>) {
        self.bytes = self.bytes.saturating_add(schema.len() + text.len() + size_of::<Said>());
        if self.bytes > TEXTS_MAX {
            self.give_up();
        }
        if !self.group.is_everything {
            let text = text.into_owned().into();
            self.group.texts.push(Said { schema: schema.into(), text });
        }
    }
}

/// What a statement is for the transaction that it is in. Servers write these themselves, in one way only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Begin,
    End,
    Savepoint,
    /// It ends a transaction that was prepared.
    Prepared,
    Other,
}

impl Word {
    fn of(text: &[u8]) -> Self {
        let begins = |with: &[u8]| {
            text.get(..with.len()).is_some_and(|head| head.eq_ignore_ascii_case(with))
        };
        match text {
            _ if text.eq_ignore_ascii_case(b"BEGIN") || begins(b"XA START ") => Self::Begin,
            _ if text.eq_ignore_ascii_case(b"COMMIT") || text.eq_ignore_ascii_case(b"ROLLBACK") => {
                Self::End
            }
            _ if begins(b"XA COMMIT ") || begins(b"XA ROLLBACK ") => Self::Prepared,
            _ if begins(b"XA END ") => Self::Savepoint,
            _ if begins(b"SAVEPOINT ") || begins(b"ROLLBACK TO ") => Self::Savepoint,
            _ => Self::Other,
        }
    }
}
