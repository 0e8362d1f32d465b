//! What kind a statement is, as rules name it.

use wire::lex::Token;

use super::part::Part;

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

    pub fn of(part: &Part<'_>) -> Self {
        let mut words = part.tokens().skip_while(|token| *token == Token::Symbol(b'('));
        let Some(Token::Word(first)) = words.next() else { return Self::Administration };
        let second = match words.next() {
            Some(Token::Word(second)) => second.to_ascii_uppercase(),
            _ => Vec::new(),
        };
        let is_of_accounts = matches!(&*second, b"USER" | b"ROLE");
        match &*first.to_ascii_uppercase() {
            b"SELECT" | b"WITH" | b"VALUES" | b"TABLE" => selects(part),
            b"SHOW" | b"DESCRIBE" | b"DESC" | b"EXPLAIN" | b"HELP" | b"DO" | b"CHECKSUM" => {
                Self::Read
            }
            b"INSERT" | b"UPDATE" | b"DELETE" | b"REPLACE" | b"LOAD" | b"CALL" | b"HANDLER"
            | b"IMPORT" => Self::Write,
            b"CREATE" | b"ALTER" | b"DROP" | b"RENAME" if is_of_accounts => Self::Administration,
            b"CREATE" | b"ALTER" | b"DROP" | b"RENAME" | b"TRUNCATE" => Self::Ddl,
            b"START" if *second != *b"TRANSACTION" => Self::Administration,
            b"BEGIN" | b"START" | b"COMMIT" | b"ROLLBACK" | b"SAVEPOINT" | b"RELEASE" | b"XA" => {
                Self::Transaction
            }
            _ => Self::Administration,
        }
    }
}

/// What begins like a question may lock rows, write a file, or change rows behind its common tables.
fn selects(part: &Part<'_>) -> StatementKind {
    let mut previous = Token::Symbol(b';');
    let (mut depth, mut writes) = (0_usize, false);
    for token in part.tokens() {
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
    use crate::statement::part::parts;
    use wire::lex::Dialect;
    use wire::text::Lexed;

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
            let lexed = Lexed::default();
            let parts = parts(lexed.text(text.as_bytes(), Dialect::default())).expect("it is read");
            assert_eq!(StatementKind::of(&parts[0]).name(), want, "{text}");
        }
        for (name, kind) in StatementKind::ALL {
            assert_eq!(StatementKind::named(name), Some(kind));
        }
    }
}
