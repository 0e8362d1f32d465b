//! `GET DIAGNOSTICS` where no backend has what it asks for: a `SET` of the same user variables to what is known; or, of
//! a condition that does not exist, nothing but a message of its own.

use wire::lex::Token;
use wire::text::Text;

use super::{Message, SavedDiagnostics, Server, literal};
use crate::intent::is_one_of;

/// How a `GET DIAGNOSTICS` is answered without the backend that has what it asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Diagnosis {
    /// By any backend that runs this text.
    Sets(Vec<u8>),
    /// It sets nothing. Its reply is OK, and [`Message::no_condition`] stands behind the messages of before.
    NoCondition,
}

/// What may be asked of a condition. MySQL lacks the last one.
const ITEMS: &[&str] = &[
    "CLASS_ORIGIN",
    "SUBCLASS_ORIGIN",
    "RETURNED_SQLSTATE",
    "MESSAGE_TEXT",
    "MYSQL_ERRNO",
    "CONSTRAINT_CATALOG",
    "CONSTRAINT_SCHEMA",
    "CONSTRAINT_NAME",
    "CATALOG_NAME",
    "SCHEMA_NAME",
    "TABLE_NAME",
    "COLUMN_NAME",
    "CURSOR_NAME",
    "ROW_NUMBER",
];

/// What the statement asks about.
enum About<'a> {
    Statement { number: usize, affected: i64 },
    Condition(&'a SavedDiagnostics, &'a Message),
    NoCondition,
}

pub(super) fn rewrite(
    kept: Option<&SavedDiagnostics>,
    affected: i64,
    text: Text<'_>,
    server: Server,
) -> Option<Diagnosis> {
    let mut tokens = text.tokens();
    let mut next = || tokens.next().map(|token| (token, tokens.span()));
    let mut token = next().filter(|(token, _)| token.is_word("GET")).and_then(|_| next())?;
    if token.0.is_word("CURRENT") {
        token = next()?;
    }
    if !token.0.is_word("DIAGNOSTICS") {
        return None;
    }
    token = next()?;
    let about = if token.0.is_word("CONDITION") {
        let Token::Number(number) = next()?.0 else { return None };
        let number: usize = std::str::from_utf8(number).ok()?.parse().ok()?;
        token = next()?;
        condition(kept, number)?
    } else {
        let number = kept.map_or(0, |kept| kept.messages.len());
        About::Statement { number, affected }
    };
    let mut out = b"SET ".to_vec();
    loop {
        let (Token::UserVariable(_), (start, end)) = token else { return None };
        let (Some((Token::Symbol(b'='), _)), Some((Token::Word(item), _))) = (next(), next())
        else {
            return None;
        };
        out.extend_from_slice(&text.bytes[start..end]);
        out.extend_from_slice(b" = ");
        out.extend_from_slice(about.value(item, server)?.as_bytes());
        match next() {
            None => break,
            Some((Token::Symbol(b','), _)) => out.extend_from_slice(b", "),
            Some((Token::Symbol(b';'), _)) if next().is_none() => break,
            Some(_) => return None,
        }
        token = next()?;
    }
    let said = match about {
        About::NoCondition => Diagnosis::NoCondition,
        About::Statement { .. } | About::Condition(..) => Diagnosis::Sets(out),
    };
    (!tokens.saw_executable_comment()).then_some(said)
}

/// The condition of this number, from one. `None`: the server may have it, and it is not known here.
fn condition(kept: Option<&SavedDiagnostics>, number: usize) -> Option<About<'_>> {
    let Some(kept) = kept else { return Some(About::NoCondition) };
    if let Some(message) = number.checked_sub(1).and_then(|at| kept.messages.get(at)) {
        return Some(About::Condition(kept, message));
    }
    // A session may have its messages counted and none kept (`max_error_count = 0`).
    let is_none = number == 0 || number as u64 > kept.warnings || kept.messages.is_empty();
    is_none.then_some(About::NoCondition)
}

impl About<'_> {
    fn value(&self, item: &[u8], server: Server) -> Option<String> {
        let is = |name: &str| item.eq_ignore_ascii_case(name.as_bytes());
        let unsigned = |number: u64| format!("CAST({number} AS UNSIGNED)");
        Some(match self {
            Self::Statement { number, .. } if is("NUMBER") => unsigned(*number as u64),
            Self::Statement { affected, .. } if is("ROW_COUNT") => affected.to_string(),
            Self::Condition(_, message) if is("MYSQL_ERRNO") => unsigned(message.code.into()),
            Self::Condition(_, message) if is("RETURNED_SQLSTATE") => {
                literal(&message.state?.0, server)?
            }
            Self::Condition(_, message) if is("ROW_NUMBER") && server == Server::MariaDb => {
                unsigned(message.state?.1)
            }
            Self::Condition(kept, message) if is("MESSAGE_TEXT") => {
                literal(kept.words(message)?, server)?
            }
            // What it would be is not said.
            Self::NoCondition if is_one_of(item, ITEMS) => "NULL".to_owned(),
            _ => return None,
        })
    }
}
