//! `SHOW x` and `DESCRIBE x` as a `SELECT`: the words before `LIKE`, `WHERE` and so on say which table is meant.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::Token;

use super::run::{FIRST, SHOWN, SqlError, TableForm, TableName};
use super::{is_keyword, word};

/// Names of two words.
const PAIRS: [(&str, &str); 14] = [
    ("binary", "logs"),
    ("character", "set"),
    ("create", "database"),
    ("create", "schema"),
    ("create", "table"),
    ("create", "view"),
    ("function", "status"),
    ("index", "stats"),
    ("master", "status"),
    ("open", "tables"),
    ("procedure", "status"),
    ("replica", "status"),
    ("slave", "status"),
    ("table", "status"),
];

/// What is about one table.
const OF_TABLES: [&str; 5] = ["columns", "fields", "index", "indexes", "keys"];

/// Puts a `SELECT` in the place of the first words, and says which table it is about.
pub(super) fn rewrite(tokens: &mut Vec<Token>) -> Result<TableName, SqlError> {
    let mut words = Head { tokens, at: 1 };
    let mut shown = TableName { form: TableForm::Shown, ..TableName::default() };
    if !is_keyword(words.tokens.first(), Keyword::SHOW) {
        shown.name = "columns".to_owned();
        let (schema, of) = words.name("a table's name")?;
        (shown.schema, shown.of) = (schema, Some(of));
        // `DESCRIBE t column`
        let like = words.tokens.get(words.at).and_then(word).map(str::to_owned);
        let rest =
            like.map(|like| vec![Token::make_keyword("LIKE"), Token::SingleQuotedString(like)]);
        *tokens = spliced(rest.unwrap_or_default())?;
        return Ok(shown);
    }
    head(&mut words, &mut shown)?;
    let rest = words.tokens.split_off(words.at);
    *tokens = spliced(rest)?;
    Ok(shown)
}

fn head(words: &mut Head<'_>, shown: &mut TableName) -> Result<(), SqlError> {
    loop {
        if words.take("FULL") {
            shown.form = TableForm::ShownInFull;
        } else if !["GLOBAL", "SESSION", "LOCAL", "EXTENDED", "STORAGE"]
            .iter()
            .any(|it| words.take(it))
        {
            break;
        }
    }
    let first = words.bare("what to show")?;
    let second = PAIRS.iter().find(|(one, two)| *one == first && words.take(two));
    shown.name = second.map_or_else(|| first.clone(), |(one, two)| format!("{one} {two}"));
    match shown.name.as_str() {
        "create table" | "create view" => {
            let (schema, of) = words.name("a table's name")?;
            (shown.schema, shown.of) = (schema, Some(of));
        }
        "create database" | "create schema" => shown.of = Some(words.name("a schema's name")?.1),
        "grants" => words.at = words.tokens.len(),
        "help" => shown.of = words.topic(),
        _ => {}
    }
    if OF_TABLES.contains(&shown.name.as_str()) {
        words.from()?;
        let (schema, of) = words.name("a table's name")?;
        (shown.schema, shown.of) = (schema, Some(of));
    }
    if words.is("FROM") || words.is("IN") {
        words.at += 1;
        shown.schema = Some(words.name("a schema's name")?.1);
    }
    Ok(())
}

/// The words that have not been read yet.
struct Head<'a> {
    tokens: &'a mut Vec<Token>,
    at: usize,
}

impl Head<'_> {
    fn is(&self, wanted: &str) -> bool {
        self.tokens.get(self.at).and_then(word).is_some_and(|it| it.eq_ignore_ascii_case(wanted))
    }

    fn take(&mut self, wanted: &str) -> bool {
        let found = self.is(wanted);
        self.at += usize::from(found);
        found
    }

    fn missing(&self, what: &str) -> SqlError {
        let place = match self.tokens.get(self.at) {
            Some(token) => format!("before {token}"),
            None => "at the end".to_owned(),
        };
        SqlError::syntax(format!("{what} is missing {place}"))
    }

    fn from(&mut self) -> Result<(), SqlError> {
        match self.take("FROM") || self.take("IN") {
            true => Ok(()),
            false => Err(self.missing("FROM")),
        }
    }

    /// A word, in lower case.
    fn bare(&mut self, what: &str) -> Result<String, SqlError> {
        let found = self.tokens.get(self.at).and_then(word).map(str::to_ascii_lowercase);
        self.at += 1;
        found.ok_or_else(|| {
            self.at -= 1;
            self.missing(what)
        })
    }

    /// A name, and what stands before its dot.
    fn name(&mut self, what: &str) -> Result<(Option<String>, String), SqlError> {
        let mut one = || {
            let found = self.tokens.get(self.at).and_then(word).map(str::to_owned);
            self.at += usize::from(found.is_some());
            found
        };
        let first = one();
        let Some(first) = first else { return Err(self.missing(what)) };
        if self.tokens.get(self.at) == Some(&Token::Period) {
            self.at += 1;
            let second = self.tokens.get(self.at).and_then(word).map(str::to_owned);
            let Some(second) = second else { return Err(self.missing(what)) };
            self.at += 1;
            return Ok((Some(first), second));
        }
        Ok((None, first))
    }

    /// What `SHOW HELP` is about: a word, or a text.
    fn topic(&mut self) -> Option<String> {
        let topic = match self.tokens.get(self.at)? {
            Token::Word(word) => word.value.clone(),
            Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) => text.clone(),
            _ => return None,
        };
        self.at += 1;
        Some(topic)
    }
}

pub(super) fn select_from_shown() -> Vec<Token> {
    let keyword = Token::make_keyword;
    vec![keyword("SELECT"), Token::Mul, keyword("FROM"), Token::make_word(SHOWN, Some('`'))]
}

/// The same tail behind a `SELECT`. `LIKE` is about the first column.
fn spliced(rest: Vec<Token>) -> Result<Vec<Token>, SqlError> {
    let mut tokens = select_from_shown();
    match rest.first() {
        None => {}
        first if is_keyword(first, Keyword::LIKE) => {
            tokens.push(Token::make_keyword("WHERE"));
            tokens.push(Token::make_word(FIRST, Some('`')));
            tokens.extend(rest);
        }
        first
            if [Keyword::WHERE, Keyword::ORDER, Keyword::LIMIT, Keyword::GROUP]
                .iter()
                .any(|it| is_keyword(first, *it)) =>
        {
            tokens.extend(rest);
        }
        Some(other) => {
            return Err(SqlError::syntax(format!("nothing more was expected before {other}")));
        }
    }
    Ok(tokens)
}
