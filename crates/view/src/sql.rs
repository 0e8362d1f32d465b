//! SQL over tables that are made when they are asked for: `SELECT` of any usual form, and `SHOW` as a form of it.
//!
//! `sqlparser` reads the text; what the tree means is decided here. Owns no table: a [`Source`] has them. Invariants: a
//! statement has at most [`TOKENS_MAX`] tokens, nests at most [`DEPTH_MAX`] deep, and does at most so much work as its
//! [`Fuel`] lasts for; so a hostile one costs a bounded time and bounded memory.

mod compile;
mod functions;
mod node;
mod relation;
mod select;
mod show;

use std::cell::Cell;

use sqlparser::ast;
use sqlparser::dialect::MySqlDialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, Tokenizer};

use self::relation::Relation;
use crate::table::{Kind, Table, Value};

/// No statement of a person or a tool has more.
const TOKENS_MAX: usize = 2048;

/// Expressions, subqueries and unions inside one another.
const DEPTH_MAX: usize = 48;

/// The same while a text is read, where each level takes much of the stack.
const PARSED_DEPTH_MAX: usize = 32;

/// The stack of a thread that reads and answers statements: several times what the deepest of them needs.
pub const STACK: usize = 16 << 20;

/// The name of the table that a `SHOW` is about, in its tree.
const SHOWN: &str = "\u{1}shown";

/// The name of the first column of a table, in the tree of a `SHOW ... LIKE`.
const FIRST: &str = "\u{1}first";

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

/// A statement that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    tree: Box<ast::Query>,
    /// What `SHOW` is about.
    shown: Option<TableName>,
}

/// What a statement is answered from.
pub trait Source {
    /// A table. `None` is an error for the statement; a source that makes its tables when they are named remembers the
    /// name, and has the statement run again.
    fn table(&self, name: &TableName) -> Option<&Table>;

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
    fn new(code: u16, sqlstate: &'static [u8; 5], message: impl Into<String>) -> Self {
        Self { code, sqlstate, message: message.into() }
    }

    pub(crate) fn syntax(message: impl Into<String>) -> Self {
        Self::new(1064, b"42000", message)
    }

    /// What a server could do, and the console cannot.
    fn unsupported(what: impl std::fmt::Display) -> Self {
        Self::new(1235, b"42000", format!("the console has no {what}"))
    }
}

/// How much work a statement may still cause: a unit is a value that is computed or copied, or 16 bytes of text.
#[derive(Debug)]
struct Fuel(Cell<u32>);

/// A table of 100 000 clients can be asked for with all its columns.
const FUEL: u32 = 4_000_000;

impl Fuel {
    const fn full() -> Self {
        Self(Cell::new(FUEL))
    }

    fn burn(&self, units: usize) -> Result<(), SqlError> {
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        let left = self.0.get().checked_sub(units).ok_or_else(|| {
            let message = "the statement would look at too many rows; ask for fewer tables at once";
            SqlError::new(1104, b"42000", message)
        })?;
        self.0.set(left);
        Ok(())
    }

    /// For a copy of these values.
    fn copy(&self, values: &[Value]) -> Result<(), SqlError> {
        let texts = values.iter().map(|value| match value {
            Value::Text(text) => text.len() / 16,
            _ => 0,
        });
        self.burn(values.len() + texts.sum::<usize>())
    }
}

/// Whether a statement is one that is read here.
pub fn is_query(first: &[u8]) -> bool {
    ["SELECT", "SHOW", "DESC", "DESCRIBE", "EXPLAIN", "WITH"]
        .iter()
        .any(|word| first.eq_ignore_ascii_case(word.as_bytes()))
}

impl Query {
    /// Reads a `SELECT`, `SHOW` or `DESCRIBE`.
    pub fn read(text: &str) -> Result<Self, SqlError> {
        let mut tokens = tokens(text)?;
        let first = tokens.first().and_then(word).map(str::to_ascii_uppercase);
        let shown = match first.as_deref() {
            Some("SHOW" | "DESC" | "DESCRIBE" | "EXPLAIN") => Some(show::rewrite(&mut tokens)?),
            _ => None,
        };
        let tree = parse(tokens)?;
        Ok(Self { tree, shown })
    }

    /// All rows of a table of which a condition, if there is one, is true.
    pub fn of_table(name: &str, condition: Option<&str>) -> Result<Self, SqlError> {
        let mut all = show::select_from_shown();
        if let Some(condition) = condition {
            all.push(Token::make_keyword("WHERE"));
            all.push(Token::LParen);
            all.extend(tokens(condition)?);
            all.push(Token::RParen);
        }
        let shown = TableName {
            name: name.to_ascii_lowercase(),
            form: TableForm::ShownInFull,
            ..TableName::default()
        };
        Ok(Self { tree: parse(all)?, shown: Some(shown) })
    }

    /// What it shows, if it is a `SHOW` or `DESCRIBE`.
    pub const fn shown(&self) -> Option<&TableName> {
        self.shown.as_ref()
    }

    /// The answer.
    pub fn run(&self, source: &dyn Source) -> Result<Answer, SqlError> {
        let run = Run { source, shown: self.shown.as_ref(), fuel: Fuel::full() };
        select::query(&run, &self.tree, DEPTH_MAX)
    }
}

/// One running of a statement.
struct Run<'a> {
    source: &'a dyn Source,
    shown: Option<&'a TableName>,
    fuel: Fuel,
}

impl From<Answer> for Relation {
    fn from(answer: Answer) -> Self {
        let heading = |column: AnswerColumn| relation::Heading {
            table: column.table,
            name: column.name,
            kind: column.kind,
            is_merged: false,
        };
        Self { headings: answer.columns.into_iter().map(heading).collect(), rows: answer.rows }
    }
}

fn parse(tokens: Vec<Token>) -> Result<Box<ast::Query>, SqlError> {
    let mut parser =
        Parser::new(&MySqlDialect {}).with_recursion_limit(PARSED_DEPTH_MAX).with_tokens(tokens);
    let tree = parser.parse_query().map_err(|error| SqlError::syntax(explain(&error)))?;
    match parser.next_token().token {
        Token::EOF => Ok(tree),
        other => Err(SqlError::syntax(format!("nothing more was expected before {other}"))),
    }
}

fn explain(error: &impl std::fmt::Display) -> String {
    let told = error.to_string();
    let told = told.trim_start_matches("sql parser error: ");
    format!("You have an error in your SQL syntax: {}", told.chars().take(200).collect::<String>())
}

/// The tokens of a text without its comments and the semicolons at its end.
fn tokens(text: &str) -> Result<Vec<Token>, SqlError> {
    let all = Tokenizer::new(&MySqlDialect {}, text).tokenize();
    let all = all.map_err(|error| SqlError::syntax(explain(&error)))?;
    let mut tokens: Vec<Token> = Vec::new();
    for token in all {
        match token {
            Token::Whitespace(_) => continue,
            // ProxySQL's variables have a hyphen in their names: `@@admin-version`.
            Token::Word(ref part) if part.quote_style.is_none() => {
                if let [.., Token::Word(scope), Token::Minus] = tokens.as_slice()
                    && ["@@admin", "@@mysql"].iter().any(|it| scope.value.eq_ignore_ascii_case(it))
                {
                    let whole = format!("{}-{}", scope.value, part.value);
                    tokens.truncate(tokens.len() - 2);
                    tokens.push(Token::make_word(&whole, None));
                    continue;
                }
                tokens.push(token);
            }
            other => tokens.push(other),
        }
        if tokens.len() > TOKENS_MAX {
            let message = format!("the statement has more than {TOKENS_MAX} words and signs");
            return Err(SqlError::syntax(message));
        }
    }
    while tokens.last() == Some(&Token::SemiColon) {
        tokens.pop();
    }
    Ok(tokens)
}

/// A word or a name, its quotes taken off.
fn word(token: &Token) -> Option<&str> {
    match token {
        Token::Word(word) => Some(&word.value),
        _ => None,
    }
}

fn is_keyword(token: Option<&Token>, keyword: Keyword) -> bool {
    matches!(token, Some(Token::Word(word)) if word.keyword == keyword)
}

#[cfg(test)]
mod tests;
