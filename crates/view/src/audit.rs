//! The audit log's form: one JSON object a line, for each thing that happened. And which statements are in it.
//!
//! Invariant: whatever a client has sent, it is one line, and its parts are strings of that line.

use std::fmt::Write;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use wire::lex::Token;
use wire::text::{Lexed, Text};

use crate::calendar;
use crate::logged::{Literals, LogEntry, LoggedText};

/// What is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AuditKind {
    Logins,
    Refusals,
    Logouts,
    /// Statements that change definitions.
    Ddl,
    /// Statements that change accounts and what they may do.
    Accounts,
    /// Orders on Flifo's console.
    Console,
    /// Statements that a rule has told.
    Ruled,
}

impl AuditKind {
    /// Those that the configuration chooses, with their names there.
    pub const ALL: [(&'static str, Self); 6] = [
        ("logins", Self::Logins),
        ("refusals", Self::Refusals),
        ("logouts", Self::Logouts),
        ("ddl", Self::Ddl),
        ("accounts", Self::Accounts),
        ("console", Self::Console),
    ];

    /// What one of them is called in the log.
    const fn event(self) -> &'static str {
        match self {
            Self::Logins => "login",
            Self::Refusals => "refusal",
            Self::Logouts => "logout",
            Self::Ddl => "ddl",
            Self::Accounts => "account",
            Self::Console => "console",
            Self::Ruled => "statement",
        }
    }
}

/// One thing that happened.
#[derive(Clone, Debug)]
pub struct AuditEntry {
    pub kind: AuditKind,
    pub client: Option<u32>,
    pub user: Option<String>,
    pub address: Option<IpAddr>,
    pub facts: Vec<(&'static str, Fact)>,
    /// The statement, if there is one. Its literals are shown, unless there may be a password among them.
    pub text: Option<LoggedText>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    Text(String),
    Number(u64),
    Seconds(Duration),
    Is(bool),
}

/// Bytes of one fact that are shown.
const FACT_MAX: usize = 1 << 10;

impl LogEntry for AuditEntry {
    const BREAK: &'static str = "\n";

    fn size(&self) -> usize {
        let facts = self.facts.iter().map(|(_, fact)| match fact {
            Fact::Text(text) => text.len(),
            Fact::Number(_) | Fact::Seconds(_) | Fact::Is(_) => 16,
        });
        let facts: usize = facts.sum();
        let user = self.user.as_ref().map_or(0, String::len);
        facts + user + self.text.as_ref().map_or(0, LoggedText::size)
    }

    /// Appends the entry, behind one that tells of those that are missing before it, if there are any.
    fn put(&self, at: SystemTime, lost: u64, out: &mut String) {
        let time = calendar::iso(at);
        if lost > 0 {
            put_line(&time, "lost", [("entries", Value::from(lost))], out);
        }
        let cut = |text: &str| Value::from(text.chars().take(FACT_MAX).collect::<String>());
        let facts = self.facts.iter().map(|(name, fact)| {
            let value = match fact {
                Fact::Text(text) => cut(text),
                Fact::Number(number) => Value::from(*number),
                Fact::Seconds(time) => Value::from(time.as_secs_f64()),
                Fact::Is(is) => Value::from(*is),
            };
            (*name, value)
        });
        let client = self.client.map(|id| ("client", Value::from(id)));
        let user = self.user.as_deref().map(|user| ("user", cut(user)));
        let address = self.address.map(|it| ("address", Value::from(it.to_string())));
        let text = self.text.as_ref();
        let text = text.map(|text| ("statement", Value::from(text.show(Literals::Show))));
        let fields = client.into_iter().chain(user).chain(address).chain(facts).chain(text);
        put_line(&time, self.kind.event(), fields, out);
    }
}

fn put_line(
    time: &str,
    event: &str,
    fields: impl IntoIterator<Item = (&'static str, Value)>,
    out: &mut String,
) {
    let fixed = [("time", Value::from(time)), ("event", Value::from(event))];
    for (at, (name, value)) in fixed.into_iter().chain(fields).enumerate() {
        out.push_str(if at == 0 { "{" } else { "," });
        // A string takes everything.
        let _ = write!(out, "\"{name}\":{value}");
    }
    out.push_str("}\n");
}

/// The verbs of statements that change definitions, accounts or rights, and of those that stand before such a verb.
const VERBS: [&str; 15] = [
    "CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE", "GRANT", "REVOKE", "SET", "PREPARE",
    "EXECUTE", "BEGIN", "IF", "CASE", "FOR", "DECLARE",
];

/// Which kind of statement a text is, if it is of one that is told of: of several statements, and of several readings, the
/// one that matters more. A text that begins otherwise costs a look at its first word and for a semicolon.
pub fn kind_of(text: Text<'_>) -> Option<AuditKind> {
    let bytes = text.bytes.trim_ascii_end();
    let has_more = || bytes.strip_suffix(b";").unwrap_or(bytes).contains(&b';');
    if !text.may_begin_with(&VERBS) && !has_more() {
        return None;
    }
    let other = text.other().and_then(|other| read(other, Within::Text));
    read(text, Within::Text).max(other)
}

/// Where a statement's text stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    Text,
    /// In a string of another one. What is in its strings is not looked at.
    String,
}

/// Reads one statement behind the other, and those within a compound one.
#[derive(Default)]
struct KindReader<'a> {
    verb: &'a [u8],
    second: &'a [u8],
    /// In a compound statement, a verb may stand anywhere.
    is_compound: bool,
    was_dot: bool,
}

fn is(word: &[u8], names: &[&str]) -> bool {
    names.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()))
}

impl<'a> KindReader<'a> {
    fn word(&mut self, word: &'a [u8]) -> Option<AuditKind> {
        const BEGIN: &[&str] =
            &["CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE", "GRANT", "REVOKE", "SET"];
        let begins_anew = self.is_compound
            && !self.was_dot
            && is(word, BEGIN)
            && !is(self.verb, &["CREATE", "ALTER", "DROP", "RENAME", "GRANT", "REVOKE"]);
        if self.verb.is_empty() || begins_anew {
            const CONTROL: &[&str] = &[
                "BEGIN", "IF", "CASE", "WHILE", "LOOP", "REPEAT", "FOR", "DECLARE", "ELSE",
                "ELSEIF", "WHEN", "END",
            ];
            self.is_compound |= is(word, CONTROL);
            (self.verb, self.second) = (word, b"");
            return match () {
                () if is(word, &["GRANT", "REVOKE"]) => Some(AuditKind::Accounts),
                () if is(word, &["TRUNCATE"]) => Some(AuditKind::Ddl),
                () => None,
            };
        }
        if self.second.is_empty() {
            // `CREATE OR REPLACE USER` and the like.
            if is(word, &["OR", "REPLACE"]) {
                return None;
            }
            self.second = word;
            return match () {
                () if is(self.verb, &["CREATE", "ALTER", "DROP", "RENAME"]) => match () {
                    () if is(word, &["USER", "ROLE"]) => Some(AuditKind::Accounts),
                    () if is(word, &["PREPARE"]) => None,
                    () => Some(AuditKind::Ddl),
                },
                () if is(self.verb, &["SET"]) && is(word, &["PASSWORD"]) => {
                    Some(AuditKind::Accounts)
                }
                () => None,
            };
        }
        // `SET DEFAULT ROLE`; `SET STATEMENT a = 1 FOR DROP TABLE t`.
        if is(self.verb, &["SET"]) && is(self.second, &["DEFAULT"]) {
            return is(word, &["ROLE"]).then_some(AuditKind::Accounts);
        }
        if is(self.verb, &["SET"]) && is(self.second, &["STATEMENT"]) && is(word, &["FOR"]) {
            (self.verb, self.second) = (b"", b"");
        }
        None
    }
}

fn read(text: Text<'_>, within: Within) -> Option<AuditKind> {
    let (mut found, mut reader) = (None, KindReader::default());
    let mut previous = Token::Unfinished;
    for token in text.tokens() {
        let kind = match token {
            Token::Symbol(b';') => {
                (reader.verb, reader.second) = (b"", b"");
                None
            }
            // A label before a compound statement.
            Token::Symbol(b':' | b'<') if reader.second.is_empty() => {
                reader.is_compound = true;
                None
            }
            Token::Word(word) => reader.word(word),
            Token::String(inner)
                if within == Within::Text && is(reader.verb, &["PREPARE", "EXECUTE"]) =>
            {
                let is_plain = !inner.iter().any(|byte| matches!(byte, b'\\' | b'\'' | b'"'));
                let built = || built(text.bytes);
                let is_part = matches!(previous, Token::String(_) | Token::Symbol(_));
                let whole = read(Lexed::default().text(inner, text.dialect), Within::String);
                if is_plain && !is_part { whole } else { whole.max(built()) }
            }
            // What cannot be read may be anything: what matters most.
            Token::Unfinished if within == Within::Text && is_told(text) => {
                Some(AuditKind::Accounts)
            }
            _ => None,
        };
        reader.was_dot = token == Token::Symbol(b'.');
        previous = token;
        found = found.max(kind);
    }
    found
}

/// Which kind a text may be of that is put together of pieces, or written with escapes: the pieces as one.
fn built(text: &[u8]) -> Option<AuditKind> {
    const ACCOUNTS: [&[u8]; 7] = [
        b"grant",
        b"revoke",
        b"createuser",
        b"dropuser",
        b"alteruser",
        b"renameuser",
        b"setpassword",
    ];
    const DDL: [&[u8]; 5] = [b"create", b"alter", b"drop", b"rename", b"truncate"];
    let letters: Vec<u8> = text.iter().filter(|it| it.is_ascii_alphanumeric()).copied().collect();
    let has = |word: &[u8]| letters.windows(word.len()).any(|it| it.eq_ignore_ascii_case(word));
    match () {
        () if ACCOUNTS.into_iter().any(has) => Some(AuditKind::Accounts),
        () if DDL.into_iter().any(has) => Some(AuditKind::Ddl),
        () => None,
    }
}

/// Whether a text that cannot be read to its end has a word of what is told of, wherever it stands.
fn is_told(text: Text<'_>) -> bool {
    const WORDS: [&[u8]; 7] =
        [b"create", b"alter", b"drop", b"rename", b"truncate", b"grant", b"revoke"];
    let has = |word: &[u8]| text.bytes.windows(word.len()).any(|it| it.eq_ignore_ascii_case(word));
    WORDS.into_iter().any(has)
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use wire::lex::Dialect;

    #[test]
    fn statements_that_change_definitions_and_accounts_are_told() {
        use AuditKind::{Accounts, Ddl};
        for (text, kind) in [
            ("CREATE TABLE t (a INT)", Some(Ddl)),
            ("create or replace view v as select 1", Some(Ddl)),
            ("ALTER TABLE t ADD b INT", Some(Ddl)),
            ("DROP TABLE IF EXISTS t", Some(Ddl)),
            ("RENAME TABLE a TO b", Some(Ddl)),
            ("TRUNCATE t", Some(Ddl)),
            ("/* why */ drop database d", Some(Ddl)),
            ("/*!50000 DROP TABLE t */", Some(Ddl)),
            ("SELECT 1; DROP TABLE t", Some(Ddl)),
            ("CREATE PROCEDURE p() BEGIN SELECT 1; END", Some(Ddl)),
            ("SET STATEMENT max_statement_time = 1 FOR DROP TABLE t", Some(Ddl)),
            ("BEGIN NOT ATOMIC DROP TABLE t; END", Some(Ddl)),
            ("IF 1 THEN GRANT SELECT ON t TO u; END IF", Some(Accounts)),
            ("FOR i IN 1..2 DO CREATE USER u; END FOR", Some(Accounts)),
            ("/*!50701 SELECT */ REVOKE SELECT ON t FROM u", Some(Accounts)),
            ("/*!99999 ' */ DROP USER u -- '", Some(Accounts)),
            ("BEGIN NOT ATOMIC SELECT 1; END", None),
            ("PREPARE s FROM 'DROP TABLE t'", Some(Ddl)),
            ("EXECUTE IMMEDIATE 'GRANT ALL ON *.* TO a'", Some(Accounts)),
            ("GRANT ALL ON *.* TO a", Some(Accounts)),
            ("revoke all on *.* from a", Some(Accounts)),
            ("CREATE USER a", Some(Accounts)),
            ("CREATE OR REPLACE USER a", Some(Accounts)),
            ("ALTER USER a ACCOUNT LOCK", Some(Accounts)),
            ("DROP ROLE r", Some(Accounts)),
            ("RENAME USER a TO b", Some(Accounts)),
            ("SET PASSWORD = 'x'", Some(Accounts)),
            ("SET DEFAULT ROLE r", Some(Accounts)),
            ("DROP TABLE t; DROP USER a", Some(Accounts)),
            ("DROP USER a; DROP TABLE t", Some(Accounts)),
            ("SELECT 'DROP TABLE t'", None),
            ("SELECT 1; SELECT 'x; DROP TABLE t'", None),
            ("INSERT INTO t VALUES (1);", None),
            ("DROP PREPARE s", None),
            ("SET NAMES utf8mb4", None),
            ("PREPARE s FROM 'SELECT 1'", None),
            ("EXECUTE s", None),
            ("BEGIN", None),
            ("", None),
        ] {
            let lexed = Lexed::default();
            assert_eq!(kind_of(lexed.text(text.as_bytes(), Dialect::default())), kind, "{text}");
        }
    }

    fn put(entry: &AuditEntry, lost: u64) -> String {
        let mut out = String::new();
        entry.put(UNIX_EPOCH + Duration::from_secs(1_795_716_400), lost, &mut out);
        out
    }

    #[test]
    fn an_entry_is_one_line() {
        let text = "GRANT ALL ON d.* TO 'a\n'@'%'";
        let entry = AuditEntry {
            kind: AuditKind::Accounts,
            client: Some(7),
            user: Some("ann\n\"".to_owned()),
            address: Some([10, 0, 0, 7].into()),
            facts: vec![
                ("server", Fact::Text("db1".to_owned())),
                ("seconds", Fact::Seconds(Duration::from_millis(1500))),
                ("error", Fact::Number(1064)),
                ("ok", Fact::Is(false)),
            ],
            text: Some(LoggedText::new(Lexed::default().text(text.as_bytes(), Dialect::default()))),
        };
        let line = put(&entry, 0);
        assert_eq!(line.lines().count(), 1, "{line}");
        let read: Value = serde_json::from_str(&line).expect("is JSON");
        for (name, value) in [
            ("time", Value::from("2026-11-26T18:06:40.000000Z")),
            ("event", "account".into()),
            ("client", 7.into()),
            ("user", "ann\n\"".into()),
            ("address", "10.0.0.7".into()),
            ("server", "db1".into()),
            ("seconds", 1.5.into()),
            ("error", 1064.into()),
            ("ok", false.into()),
            ("statement", text.into()),
        ] {
            assert_eq!(read[name], value, "{name}");
        }
        let lines = put(&entry, 3);
        let first: Value = serde_json::from_str(lines.lines().next().unwrap()).expect("is JSON");
        assert_eq!((first["event"].as_str(), first["entries"].as_u64()), (Some("lost"), Some(3)));
        assert_eq!(lines.lines().count(), 2);
    }

    #[test]
    fn long_facts_are_cut_and_names_are_different() {
        let long = "x".repeat(10_000);
        let facts = vec![("message", Fact::Text(long.clone()))];
        let entry = AuditEntry {
            kind: AuditKind::Refusals,
            client: None,
            user: Some(long),
            address: None,
            facts,
            text: None,
        };
        assert_eq!(entry.size(), 20_000);
        assert!(put(&entry, 0).len() < 3 * FACT_MAX);
        let names: std::collections::HashSet<_> =
            AuditKind::ALL.iter().flat_map(|(name, kind)| [*name, kind.event()]).collect();
        assert_eq!(names.len(), 2 * AuditKind::ALL.len() - 2, "ddl and console are both");
    }
}
