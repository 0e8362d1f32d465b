//! What all parts of SQL speak of: names of tables, rows under headings, errors, and the running of one statement.

use std::cell::Cell;

use sqlparser::ast::ObjectName;

use crate::narrow::Narrow;
use crate::table::{Column, Kind, Table, Value};

/// Expressions, subqueries and unions inside one another.
pub(super) const DEPTH_MAX: usize = 48;

/// The name of the table that a `SHOW` is about, in its tree.
pub(super) const SHOWN: &str = "\u{1}shown";

/// The name of the first column of a table, in the tree of a `SHOW ... LIKE`.
pub(super) const FIRST: &str = "\u{1}first";

/// A table that a statement is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableName {
    /// As it stands before the dot, or behind `FROM` of a `SHOW`.
    pub schema: Option<String>,
    /// In lower case; of a `SHOW`, the words behind it, like `table status`.
    pub name: String,
    /// The table or topic that a `SHOW` asks about, as in `SHOW COLUMNS FROM clients`.
    pub of: Option<String>,
    pub form: TableForm,
}

/// How a table is asked for, which says what of it is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TableForm {
    /// By a `SELECT`: all its columns.
    #[default]
    Selected,
    /// By a `SHOW`: what fits a screen.
    Shown,
    /// By a `SHOW FULL`.
    ShownInFull,
}

/// What a statement is answered from.
pub trait Source {
    /// A table. `None` is an error for the statement; a source that makes its tables when they are named remembers the
    /// name, and has the statement run again.
    fn table(&self, name: &TableName) -> Option<&Table>;

    /// Under which other names columns of a table are shown, as title and column.
    fn titles(&self, _: &TableName) -> &'static [Narrow] {
        &[]
    }

    /// `@@name`, in lower case.
    fn variable(&self, name: &str) -> Option<Value>;

    fn session(&self) -> &Session;
}

/// What functions tell of the session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Session {
    pub schema: Option<String>,
    pub user: String,
    pub id: u32,
    pub version: String,
    /// Seconds since 1970.
    pub now: f64,
}

/// Rows under their names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    pub columns: Vec<AnswerColumn>,
    pub rows: Vec<Vec<Value>>,
}

/// A column of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerColumn {
    /// The table that it comes from, if it comes from one.
    pub table: String,
    pub name: String,
    pub kind: Kind,
}

impl From<Table> for Answer {
    fn from(table: Table) -> Self {
        let heading = |column: &Column| AnswerColumn {
            table: String::new(),
            name: column.name.to_owned(),
            kind: column.kind,
        };
        Self { columns: table.columns.iter().map(heading).collect(), rows: table.rows }
    }
}

impl Answer {
    /// A JSON list of objects.
    pub fn to_json(&self) -> serde_json::Value {
        let object = |row: &Vec<Value>| {
            let pairs = self.columns.iter().zip(row);
            let pairs = pairs.map(|(column, value)| (column.name.clone(), value.to_json()));
            serde_json::Value::Object(pairs.collect())
        };
        serde_json::Value::Array(self.rows.iter().map(object).collect())
    }
}

/// Why there is no answer, with a server's number and SQLSTATE for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError {
    pub code: u16,
    pub sqlstate: &'static [u8; 5],
    pub message: String,
}

impl SqlError {
    pub(super) fn new(code: u16, sqlstate: &'static [u8; 5], message: impl Into<String>) -> Self {
        Self { code, sqlstate, message: message.into() }
    }

    pub(crate) fn syntax(message: impl Into<String>) -> Self {
        Self::new(1064, b"42000", message)
    }

    /// What a server could do, and the console cannot.
    pub(super) fn unsupported(what: impl std::fmt::Display) -> Self {
        Self::new(1235, b"42000", format!("the console has no {what}"))
    }
}

/// How much work a statement may still cause: a unit is a value that is computed or copied, or 16 bytes of text.
#[derive(Debug)]
pub(super) struct Fuel(Cell<u32>);

/// A table of 100 000 clients can be asked for with all its columns.
const FUEL: u32 = 4_000_000;

impl Fuel {
    pub(super) const fn full() -> Self {
        Self(Cell::new(FUEL))
    }

    pub(super) fn burn(&self, units: usize) -> Result<(), SqlError> {
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        let left = self.0.get().checked_sub(units).ok_or_else(|| {
            let message = "the statement would look at too many rows; ask for fewer tables at once";
            SqlError::new(1104, b"42000", message)
        })?;
        self.0.set(left);
        Ok(())
    }

    /// For a copy of these values.
    pub(super) fn copy(&self, values: &[Value]) -> Result<(), SqlError> {
        let texts = values.iter().map(|value| match value {
            Value::Text(text) => text.len() / 16,
            _ => 0,
        });
        self.burn(values.len() + texts.sum::<usize>())
    }
}

/// One running of a statement.
pub(super) struct Run<'a> {
    pub(super) source: &'a dyn Source,
    pub(super) shown: Option<&'a TableName>,
    pub(super) fuel: Fuel,
}

impl From<Answer> for Relation {
    fn from(answer: Answer) -> Self {
        let heading = |column: AnswerColumn| Heading {
            table: column.table,
            name: column.name,
            kind: column.kind,
            is_merged: false,
            titles: Vec::new(),
        };
        Self { headings: answer.columns.into_iter().map(heading).collect(), rows: answer.rows }
    }
}

/// A column that expressions can name.
#[derive(Clone, Debug)]
pub(super) struct Heading {
    pub(super) table: String,
    pub(super) name: String,
    pub(super) kind: Kind,
    /// `USING` shows it once, as the other table's.
    pub(super) is_merged: bool,
    /// What a `SHOW` writes above it, if that is another name.
    pub(super) titles: Vec<&'static str>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Relation {
    pub(super) headings: Vec<Heading>,
    pub(super) rows: Vec<Vec<Value>>,
}

/// The identifiers of a name.
pub(super) fn parts(name: &ObjectName) -> Vec<&str> {
    name.0.iter().filter_map(|part| part.as_ident()).map(|ident| ident.value.as_str()).collect()
}

/// One level further in, of as many as there may be.
pub(super) fn deeper(depth: usize) -> Result<usize, SqlError> {
    let message = || format!("the statement is nested more than {DEPTH_MAX} deep");
    depth.checked_sub(1).ok_or_else(|| SqlError::syntax(message()))
}
