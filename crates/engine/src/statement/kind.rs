//! What kind a statement is, as rules name it.

use wire::lex::Token;
use wire::text::Lexed;

use super::part::{Part, parts};
use super::truth::Truth;
use crate::compound::CONTROL;

/// What a statement does, roughly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementKind {
    /// Changes no row and locks none.
    Read,
    Write,
    Ddl,
    Transaction,
    /// All else: settings, accounts, what concerns the server.
    Administration,
}

impl StatementKind {
    pub const ALL: [(&'static str, Self); 5] = [
        ("read", Self::Read),
        ("write", Self::Write),
        ("ddl", Self::Ddl),
        ("transaction", Self::Transaction),
        ("administration", Self::Administration),
    ];

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// Whether a statement is of one of these kinds. It may be of several: one that is built of others, or runs a text.
    pub fn is_one_of(part: &Part<'_>, kinds: &[Self]) -> Truth {
        let own = Kinds::of(part).is_one_of(kinds);
        match part.other().map(|other| Kinds::of(other).is_one_of(kinds)) {
            Some(other) if other != own => Truth::Unsure,
            _ => own,
        }
    }
}

/// The kinds that a statement is of.
#[derive(Clone, Copy, Default)]
struct Kinds {
    bits: u8,
    /// It runs what cannot be read here.
    is_open: bool,
}

impl Kinds {
    fn of(part: &Part<'_>) -> Self {
        let mut found = Self::default();
        let tokens: Vec<_> =
            part.tokens().skip_while(|token| *token == Token::Symbol(b'(')).collect();
        match proper(&tokens) {
            Some(rest) => found.add(one_kind(rest)),
            None => found.add_compound(&tokens),
        }
        match run_text(part) {
            None => {}
            Some(None) => found.is_open = true,
            Some(Some(text)) => {
                let lexed = Lexed::default();
                let all = parts(lexed.text(text, part.dialect()));
                found.is_open |= all.is_none();
                for part in all.into_iter().flatten() {
                    // A text within a text is rare enough to be in doubt.
                    found.is_open |= run_text(&part).is_some();
                    let tokens: Vec<_> = part.tokens().collect();
                    match proper(&tokens) {
                        Some(rest) => found.add(one_kind(rest)),
                        None => found.add_compound(&tokens),
                    }
                }
            }
        }
        found
    }

    fn add(&mut self, kind: StatementKind) {
        self.bits |= 1 << kind as u8;
    }

    /// A part of a compound statement: control, and what stands behind that.
    fn add_compound(&mut self, tokens: &[Token<'_>]) {
        const BEGIN: &[&str] = &[
            "INSERT",
            "UPDATE",
            "DELETE",
            "REPLACE",
            "LOAD",
            "CALL",
            "HANDLER",
            "IMPORT",
            "CREATE",
            "ALTER",
            "DROP",
            "RENAME",
            "TRUNCATE",
            "SELECT",
            "SET",
            "EXECUTE",
            "GRANT",
            "REVOKE",
            "FLUSH",
            "COMMIT",
            "ROLLBACK",
            "WITH",
            "KILL",
            "LOCK",
            "DO",
            "ANALYZE",
            "START",
            "SAVEPOINT",
            "XA",
        ];
        self.add(StatementKind::Administration);
        for (at, token) in tokens.iter().enumerate() {
            let is_name = at > 0 && tokens[at - 1] == Token::Symbol(b'.');
            let is_call = tokens.get(at + 1) == Some(&Token::Symbol(b'('))
                && ["INSERT", "REPLACE", "TRUNCATE", "VALUES"].iter().any(|it| token.is_word(it));
            if !is_name && !is_call && BEGIN.iter().any(|word| token.is_word(word)) {
                self.add(one_kind(&tokens[at..]));
            }
        }
    }

    fn is_one_of(self, kinds: &[StatementKind]) -> Truth {
        match kinds.iter().any(|kind| self.bits & 1 << *kind as u8 != 0) {
            true => Truth::Yes,
            false if self.is_open => Truth::Unsure,
            false => Truth::No,
        }
    }
}

/// The statement that one runs with something before it (`ANALYZE`, `SET STATEMENT … FOR`). `None`: it is a part of a
/// compound one.
fn proper<'a, 'b>(mut tokens: &'b [Token<'a>]) -> Option<&'b [Token<'a>]> {
    // Each round takes a word off.
    loop {
        let is = |at: usize, words: &[&str]| {
            tokens.get(at).is_some_and(|token| words.iter().any(|word| token.is_word(word)))
        };
        if is(0, &["ANALYZE"]) {
            const RUN: &[&str] =
                &["SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE", "WITH", "VALUES"];
            if is(1, &["TABLE", "TABLES", "LOCAL", "NO_WRITE_TO_BINLOG"]) {
                return Some(tokens);
            }
            let Some(at) = (1..tokens.len()).find(|at| is(*at, RUN)) else { return Some(tokens) };
            tokens = &tokens[at..];
        } else if is(0, &["SET"]) && is(1, &["STATEMENT"]) {
            let (mut depth, mut found) = (0_usize, None);
            for (at, token) in tokens.iter().enumerate() {
                match token {
                    Token::Symbol(b'(') => depth += 1,
                    Token::Symbol(b')') => depth = depth.saturating_sub(1),
                    _ if depth == 0 && token.is_word("FOR") => {
                        found = Some(at);
                        break;
                    }
                    _ => {}
                }
            }
            let Some(at) = found else { return Some(tokens) };
            tokens = &tokens[at + 1..];
        } else {
            let is_block = is(0, &["BEGIN"]) && tokens.len() > 1 && !is(1, &["WORK"]);
            let is_label = tokens.get(1) == Some(&Token::Symbol(b':'))
                || !matches!(tokens.first(), None | Some(Token::Word(_)));
            return (!is_block && !is_label && !is(0, &CONTROL)).then_some(tokens);
        }
    }
}

/// The text that a statement runs or prepares, if it does: nothing, if that is put together elsewhere.
pub(super) fn run_text<'a>(part: &Part<'a>) -> Option<Option<&'a [u8]>> {
    let tokens: Vec<_> = (0..part.len()).filter_map(|at| part.token(at)).collect();
    let at = (0..tokens.len()).find_map(|at| {
        let is_word =
            |at: usize, word| tokens.get(at).is_some_and(|token: &Token<'_>| token.is_word(word));
        if is_word(at, "EXECUTE") && is_word(at + 1, "IMMEDIATE") {
            return Some(at + 2);
        }
        (is_word(at, "PREPARE") && is_word(at + 2, "FROM")).then_some(at + 3)
    })?;
    let Some(Token::String(text)) = tokens.get(at) else { return Some(None) };
    let is_plain = !text.iter().any(|byte| matches!(byte, b'\'' | b'"' | b'\\'));
    let is_whole = match tokens.get(at + 1) {
        None => true,
        Some(token) => {
            token.is_word("USING") || !matches!(token, Token::String(_) | Token::Symbol(_))
        }
    };
    Some(Some(*text).filter(|_| is_plain && is_whole))
}

/// The kind of a statement that is built of no others.
fn one_kind(tokens: &[Token<'_>]) -> StatementKind {
    use StatementKind::{Administration, Ddl, Read, Transaction, Write};
    let Some(Token::Word(first)) = tokens.first() else { return Administration };
    let second = match tokens.get(1) {
        Some(Token::Word(second)) => second.to_ascii_uppercase(),
        _ => Vec::new(),
    };
    let third_is_of_accounts =
        tokens.get(3).is_some_and(|it| it.is_word("USER") || it.is_word("ROLE"))
            && *second == *b"OR";
    let is_of_accounts = matches!(&*second, b"USER" | b"ROLE") || third_is_of_accounts;
    match &*first.to_ascii_uppercase() {
        b"SELECT" | b"WITH" | b"VALUES" | b"TABLE" => selects(tokens),
        b"SHOW" | b"DESCRIBE" | b"DESC" | b"EXPLAIN" | b"HELP" | b"DO" | b"CHECKSUM" => Read,
        b"INSERT" | b"UPDATE" | b"DELETE" | b"REPLACE" | b"LOAD" | b"CALL" | b"HANDLER"
        | b"IMPORT" => Write,
        b"CREATE" | b"ALTER" | b"DROP" | b"RENAME" if is_of_accounts => Administration,
        b"CREATE" | b"ALTER" | b"DROP" | b"RENAME" | b"TRUNCATE" => Ddl,
        b"START" if *second != *b"TRANSACTION" => Administration,
        b"BEGIN" | b"START" | b"COMMIT" | b"ROLLBACK" | b"SAVEPOINT" | b"RELEASE" | b"XA" => {
            Transaction
        }
        _ => Administration,
    }
}

/// What begins like a question may lock rows, write a file, or change rows behind its common tables.
fn selects(tokens: &[Token<'_>]) -> StatementKind {
    let mut previous = Token::Symbol(b';');
    let (mut depth, mut writes) = (0_usize, false);
    for token in tokens.iter().copied() {
        match token {
            Token::Symbol(b'(') => depth += 1,
            Token::Symbol(b')') => depth = depth.saturating_sub(1),
            Token::Word(_) => {
                let is_any = |words: &[&str]| words.iter().any(|word| token.is_word(word));
                writes |= previous.is_word("FOR") && is_any(&["UPDATE", "SHARE"])
                    || previous.is_word("LOCK") && token.is_word("IN")
                    || depth == 0
                        && is_any(&["INTO", "UPDATE", "DELETE", "INSERT", "REPLACE"])
                        && {
                            // A function, or a column's name.
                            !matches!(previous, Token::Symbol(b'.' | b','))
                                && !previous.is_word("SELECT")
                        };
            }
            _ => {}
        }
        previous = token;
    }
    if writes { StatementKind::Write } else { StatementKind::Read }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::lex::Dialect;

    /// The names of a statement's kinds, the uncertain ones with a question mark.
    fn kinds(text: &str) -> String {
        let lexed = Lexed::default();
        let parts = parts(lexed.text(text.as_bytes(), Dialect::default())).expect("it is read");
        let names = StatementKind::ALL.iter().filter_map(|(name, kind)| {
            match StatementKind::is_one_of(&parts[0], &[*kind]) {
                Truth::Yes => Some((*name).to_owned()),
                Truth::Unsure => Some(format!("{name}?")),
                Truth::No => None,
            }
        });
        names.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_built_of_others_is_of_their_kinds() {
        for (text, want) in [
            ("ANALYZE DELETE FROM t", "write"),
            ("ANALYZE FORMAT=JSON UPDATE t SET a = 1", "write"),
            ("ANALYZE SELECT * FROM t", "read"),
            ("ANALYZE TABLE t", "administration"),
            ("SET STATEMENT max_statement_time = (SELECT 1 FOR UPDATE) FOR DELETE FROM t", "write"),
            ("SET STATEMENT a = 1 FOR ANALYZE DELETE FROM t", "write"),
            ("BEGIN NOT ATOMIC DELETE FROM t", "write administration"),
            ("IF 1 THEN DROP TABLE t", "ddl administration"),
            ("FOR i IN 1..10 DO INSERT INTO t VALUES (i)", "read write administration"),
            ("a: LOOP DELETE FROM t", "write administration"),
            ("END IF", "administration"),
            ("BEGIN WORK", "transaction"),
            ("CREATE OR REPLACE USER u", "administration"),
            ("EXECUTE IMMEDIATE 'DELETE FROM t'", "write administration"),
            (
                "EXECUTE IMMEDIATE 'DEL' 'ETE FROM t'",
                "read? write? ddl? transaction? administration",
            ),
            (
                "EXECUTE IMMEDIATE CONCAT('DEL', @a)",
                "read? write? ddl? transaction? administration",
            ),
            ("PREPARE s FROM 'DROP TABLE t'", "ddl administration"),
            ("EXECUTE s", "administration"),
            ("/*!80000 SELECT */ DELETE FROM t", "read? write?"),
            ("/*!40000 DELETE */ FROM t", "write"),
        ] {
            assert_eq!(kinds(text), want, "{text}");
        }
    }

    #[test]
    fn kinds_are_told_by_words() {
        for (text, want) in [
            ("SELECT 1", "read"),
            ("(select 1) union (select 2)", "read"),
            ("SELECT * FROM t FOR UPDATE", "write"),
            ("SELECT * FROM t FOR SHARE SKIP LOCKED", "write"),
            ("SELECT * FROM t LOCK IN SHARE MODE", "write"),
            ("SELECT 'FOR UPDATE' FROM t /* FOR UPDATE */", "read"),
            ("SELECT * FROM t /*! FOR UPDATE */", "write"),
            ("SELECT 1 INTO OUTFILE 'x'", "write"),
            ("SELECT REPLACE(a, 'b', 'c') FROM t", "read"),
            ("SELECT a, REPLACE(a, 'b', 'c') FROM t", "read"),
            ("WITH x AS (SELECT 1) DELETE FROM t", "write"),
            ("WITH x AS (SELECT 1) SELECT * FROM x", "read"),
            ("SHOW TABLES", "read"),
            ("EXPLAIN DELETE FROM t", "read"),
            ("insert into t values (1)", "write"),
            ("CALL p()", "write"),
            ("CREATE TABLE t (a INT)", "ddl"),
            ("create user x", "administration"),
            ("TRUNCATE t", "ddl"),
            ("BEGIN", "transaction"),
            ("START TRANSACTION READ ONLY", "transaction"),
            ("START REPLICA", "administration"),
            ("SAVEPOINT a", "transaction"),
            ("SET NAMES utf8mb4", "administration"),
            ("GRANT ALL ON *.* TO x", "administration"),
            ("'a'", "administration"),
        ] {
            assert_eq!(kinds(text), want, "{text}");
        }
        for (name, kind) in StatementKind::ALL {
            assert_eq!(StatementKind::named(name), Some(kind));
        }
    }
}
