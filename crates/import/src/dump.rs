//! Reads what `sqlite3 proxysql.db .dump` prints: ProxySQL keeps its configuration in an SQLite database.
//!
//! Owns the syntax of such a text: how tables are made, and their rows. Other statements are left out.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::sync::Arc;
use std::vec::IntoIter;

use crate::report::Place;
use crate::syntax::SyntaxError;
use crate::tables::{Tables, is_known};

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// A name, a number, or a word of SQL.
    Word(String),
    /// What stood in quotes.
    Quoted(String),
    Mark(char),
}

impl Token {
    fn is(&self, word: &str) -> bool {
        matches!(self, Self::Word(it) if it.eq_ignore_ascii_case(word))
    }

    fn into_text(self) -> String {
        match self {
            Self::Word(text) | Self::Quoted(text) => text,
            Self::Mark(mark) => mark.to_string(),
        }
    }
}

type Tokens = Peekable<IntoIter<Token>>;

/// The tables that the text makes and fills.
pub(crate) fn read(file: &Arc<str>, text: &str) -> Result<Tables, SyntaxError> {
    let (mut tables, mut columns) = (Tables::default(), BTreeMap::new());
    let mut statements = Statements { rest: text, line: 1 };
    while let Some((line, statement)) = statements.next()? {
        let mut tokens = statement.into_iter().peekable();
        let verb = tokens.next().map_or_else(String::new, Token::into_text).to_ascii_uppercase();
        let object = tokens.next().map_or_else(String::new, Token::into_text).to_ascii_uppercase();
        match (&*verb, &*object) {
            ("CREATE", "TABLE") => {
                let (name, made) = created(tokens);
                columns.insert(name, made);
            }
            ("INSERT", "INTO") => {
                let name = tokens.next().map_or_else(String::new, Token::into_text);
                if !is_known(&name) {
                    continue;
                }
                let wrong = |why: String| SyntaxError { line, why };
                let made = columns.get(&name);
                let made =
                    made.ok_or_else(|| wrong(format!("{name} is filled before it is made")))?;
                let row = row(tokens).filter(|row| row.len() == made.len()).ok_or_else(|| {
                    wrong(format!(
                        "a row of {name} is `INSERT INTO {name} VALUES(…);` with all columns"
                    ))
                })?;
                let place = Place::new(Arc::clone(file), line);
                tables.add_values(place, &name, made.iter().map(String::as_str), row);
            }
            _ => {}
        }
    }
    Ok(tables)
}

/// The name and the columns of a table, from what stands behind CREATE TABLE.
fn created(mut tokens: Tokens) -> (String, Vec<String>) {
    if tokens.next_if(|it| it.is("IF")).is_some() {
        tokens.next_if(|it| it.is("NOT"));
        tokens.next_if(|it| it.is("EXISTS"));
    }
    let name = tokens.next().map_or_else(String::new, Token::into_text);
    let (mut columns, mut depth, mut is_first) = (Vec::new(), 0_u32, false);
    for token in tokens {
        match token {
            Token::Mark('(') => {
                depth += 1;
                is_first |= depth == 1;
            }
            Token::Mark(')') => depth = depth.saturating_sub(1),
            Token::Mark(',') => is_first |= depth == 1,
            name if is_first => {
                is_first = false;
                if !BOUNDS.iter().any(|bound| name.is(bound)) {
                    columns.push(name.into_text());
                }
            }
            _ => {}
        }
    }
    (name, columns)
}

/// What begins a definition that is no column's.
const BOUNDS: [&str; 5] = ["CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"];

/// The values of a row, from what stands behind the table's name. `None`: it is none.
fn row(mut tokens: Tokens) -> Option<Vec<Option<String>>> {
    tokens.next_if(|it| it.is("VALUES"))?;
    tokens.next_if(|it| *it == Token::Mark('('))?;
    let mut values = Vec::new();
    loop {
        values.push(value(&mut tokens, NESTED_MAX)?);
        match tokens.next()? {
            Token::Mark(',') => {}
            Token::Mark(')') => return tokens.next().is_none().then_some(values),
            _ => return None,
        }
    }
}

/// A value: NULL, a number, a text, or a text whose line ends are written as `\n` (with `replace`) or whose control
/// characters are written as `\u000a` (with `unistr`, from SQLite 3.50 on).
fn value(tokens: &mut Tokens, nested: u8) -> Option<Option<String>> {
    match tokens.next()? {
        Token::Quoted(text) => Some(Some(text)),
        Token::Word(word) if word.eq_ignore_ascii_case("NULL") => Some(None),
        Token::Word(word) if word.eq_ignore_ascii_case("replace") => {
            let nested = nested.checked_sub(1)?;
            tokens.next_if(|it| *it == Token::Mark('('))?;
            let text = value(tokens, nested)??;
            tokens.next_if(|it| *it == Token::Mark(','))?;
            let Token::Quoted(written) = tokens.next()? else { return None };
            tokens.next_if(|it| *it == Token::Mark(','))?;
            tokens.next_if(|it| it.is("char"))?;
            tokens.next_if(|it| *it == Token::Mark('('))?;
            let letter: u8 = tokens.next()?.into_text().parse().ok()?;
            tokens.next_if(|it| *it == Token::Mark(')'))?;
            tokens.next_if(|it| *it == Token::Mark(')'))?;
            Some(Some(text.replace(&written, char::from(letter).encode_utf8(&mut [0; 4]))))
        }
        Token::Word(word) if word.eq_ignore_ascii_case("unistr") => {
            tokens.next_if(|it| *it == Token::Mark('('))?;
            let Token::Quoted(written) = tokens.next()? else { return None };
            tokens.next_if(|it| *it == Token::Mark(')'))?;
            Some(Some(unescaped(&written)?))
        }
        Token::Word(number) => Some(Some(number)),
        Token::Mark(_) => None,
    }
}

/// A text in which `\\` is a backslash and `\u000a` a character.
fn unescaped(written: &str) -> Option<String> {
    let (mut text, mut rest) = (String::new(), written);
    while let Some((before, escape)) = rest.split_once('\\') {
        text.push_str(before);
        rest = match escape.strip_prefix('u') {
            None => {
                text.push('\\');
                escape.strip_prefix('\\')?
            }
            Some(digits) => {
                text.push(char::from_u32(u32::from_str_radix(digits.get(..4)?, 16).ok()?)?);
                &digits[4..]
            }
        };
    }
    Some(text + rest)
}

/// Line ends of two kinds.
const NESTED_MAX: u8 = 2;

/// A text that is read statement by statement.
struct Statements<'a> {
    rest: &'a str,
    line: u32,
}

/// No row has so many values.
const TOKENS_MAX: usize = 10_000;

impl Statements<'_> {
    /// The next statement, and the line in which it begins.
    fn next(&mut self) -> Result<Option<(u32, Vec<Token>)>, SyntaxError> {
        let (mut statement, mut begun) = (Vec::new(), self.line);
        while let Some(first) = self.rest.chars().next() {
            let wrong = |why: &str| Err(SyntaxError { line: self.line, why: why.to_owned() });
            let length = match first {
                ';' => {
                    self.rest = &self.rest[1..];
                    return Ok(Some((begun, statement)));
                }
                '-' if self.rest.starts_with("--") => {
                    self.rest.find('\n').unwrap_or(self.rest.len())
                }
                _ if first.is_whitespace() => first.len_utf8(),
                _ => {
                    if statement.is_empty() {
                        begun = self.line;
                    }
                    let Some((token, length)) = token(self.rest, first) else {
                        return wrong("a quote is not closed");
                    };
                    statement.push(token);
                    if statement.len() > TOKENS_MAX {
                        return wrong("a statement is too long for a row of ProxySQL's");
                    }
                    length
                }
            };
            let (taken, behind) = self.rest.split_at(length);
            let lines = u32::try_from(taken.matches('\n').count()).unwrap_or(u32::MAX);
            self.line = self.line.saturating_add(lines);
            self.rest = behind;
        }
        match statement.is_empty() {
            true => Ok(None),
            false => {
                let why = "the file ends within a statement".to_owned();
                Err(SyntaxError { line: self.line, why })
            }
        }
    }
}

/// The token with which a text begins, and its length. `None`: a quote is not closed.
fn token(text: &str, first: char) -> Option<(Token, usize)> {
    match first {
        '\'' | '"' | '`' | '[' => {
            let (inside, length) = quoted(text, if first == '[' { ']' } else { first })?;
            Some((Token::Quoted(inside), length))
        }
        _ if is_of_word(first) => {
            let length = text.find(|it| !is_of_word(it)).unwrap_or(text.len());
            Some((Token::Word(text[..length].to_owned()), length))
        }
        mark => Some((Token::Mark(mark), mark.len_utf8())),
    }
}

/// Letters of names and of numbers.
fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '.' | '-' | '+')
}

/// The text in quotes, where a doubled quote is one, and its length with the quotes.
fn quoted(from: &str, close: char) -> Option<(String, usize)> {
    let (mut text, mut at) = (String::new(), 1);
    loop {
        let (part, _) = from[at..].split_once(close)?;
        text.push_str(part);
        at += part.len() + 1;
        if close == ']' || !from[at..].starts_with(close) {
            return Some((text, at));
        }
        text.push(close);
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(text: &str) -> Vec<Token> {
        let mut statements = Statements { rest: text, line: 1 };
        statements.next().expect("is right").expect("is there").1
    }

    #[test]
    fn columns_are_found_among_bounds() {
        let statement = "CREATE TABLE IF NOT EXISTS \"mysql_query_rules\" (rule_id INTEGER PRIMARY KEY , \
                         active INT CHECK (active IN (0,1)) NOT NULL DEFAULT 0 , \"a,b\" VARCHAR DEFAULT ',)' , \
                         `c` INT, [d] INT PRIMARY KEY, PRIMARY KEY (active, c), UNIQUE(c));";
        let mut tokens = first(statement);
        tokens.drain(..2);
        let (name, columns) = created(tokens.into_iter().peekable());
        assert_eq!(name, "mysql_query_rules");
        assert_eq!(columns, ["rule_id", "active", "a,b", "c", "d"]);
    }

    #[test]
    fn values_are_read_as_they_were() {
        let values = |text: &str| row(first(text).into_iter().peekable());
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            values("VALUES(-1,NULL,1.5e-3,'it''s; \"so\"\n','');"),
            Some(vec![some("-1"), None, some("1.5e-3"), some("it's; \"so\"\n"), some("")])
        );
        let lines = "VALUES(replace(replace('a\\r\\nb','\\r',char(13)),'\\n',char(10)), 2);";
        assert_eq!(values(lines), Some(vec![some("a\r\nb"), some("2")]));
        let control = "VALUES(unistr('a\\u000ab\\\\'));";
        assert_eq!(values(control), Some(vec![some("a\nb\\")]));
        for other in
            ["VALUES(1;", "VALUES();", "VALUES(1) x;", "VALUES(f(1));", "VALUES(replace('a'));"]
        {
            assert_eq!(values(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let told = |text: &str| read(&"x".into(), text).map(|_| ()).unwrap_err().to_string();
        assert_eq!(told("BEGIN;\n\nINSERT INTO t VALUES('a"), "line 3: a quote is not closed");
        assert_eq!(told("BEGIN;\nCOMMIT"), "line 2: the file ends within a statement");
        let made = "CREATE TABLE scheduler (id INT, active INT);\n";
        assert_eq!(
            told(&format!("{made}INSERT INTO scheduler VALUES(1);")),
            "line 2: a row of scheduler is `INSERT INTO scheduler VALUES(…);` with all columns"
        );
        assert_eq!(
            told(&format!("{made}INSERT INTO scheduler VALUES(1{});", ",1".repeat(TOKENS_MAX))),
            "line 2: a statement is too long for a row of ProxySQL's"
        );
        assert_eq!(
            told("INSERT INTO scheduler VALUES(1);"),
            "line 1: scheduler is filled before it is made"
        );
    }
}
