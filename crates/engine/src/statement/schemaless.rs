//! Statements that mean the same in any schema.
//!
//! A client's schema may be gone: dropped, or out of reach since its rights were taken. Directly it goes on with
//! whatever needs no schema. Invariant: what is not known to need none needs one.

use wire::lex::Token;
use wire::text::Text;

use super::part::{Part, parts};
use super::tables::NamedTables;

/// Whether a text is one statement that does the same whatever schema its session is in. Whether it calls routines is
/// not looked at.
pub fn is_schemaless(text: Text<'_>) -> bool {
    let Some(parts) = parts(text) else { return false };
    let [part] = &parts[..] else { return false };
    if text.tokens().saw_executable_comment() || part.tokens().any(|token| names_schema(&token)) {
        return false;
    }
    let Some(Token::Word(verb)) = part.token(0) else { return false };
    let is = |words: &[&str]| words.iter().any(|word| verb.eq_ignore_ascii_case(word.as_bytes()));
    match () {
        () if is(&SESSION_ONLY) => true,
        () if is(&["SET"]) => {
            let may_run = |token: &Token<'_>| token.is_word("SELECT") || token.is_word("FOR");
            !part.tokens().any(|token| may_run(&token))
        }
        () if is(&WITH_TABLES) => all_are_qualified(part),
        () if is(&["SHOW"]) => shows_no_schema(part),
        () => false,
    }
}

/// What is done to the session, or to other ones.
const SESSION_ONLY: [&str; 9] =
    ["BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "START", "USE", "KILL", "UNLOCK"];

const WITH_TABLES: [&str; 5] = ["SELECT", "INSERT", "REPLACE", "UPDATE", "DELETE"];

/// Whether it asks in which schema it is, or names what is looked for there although it is no table.
fn names_schema(token: &Token<'_>) -> bool {
    const WORDS: [&str; 9] = [
        "DATABASE",
        "SCHEMA",
        "NEXTVAL",
        "LASTVAL",
        "SETVAL",
        "NEXT",
        "PREVIOUS",
        "PROCEDURE",
        // `BEGIN NOT ATOMIC` holds statements of its own.
        "ATOMIC",
    ];
    WORDS.iter().any(|word| token.is_word(word))
}

/// Whether it shows what belongs to the session or the server.
fn shows_no_schema(part: &Part<'_>) -> bool {
    const SHOWN: [&str; 7] =
        ["WARNINGS", "ERRORS", "VARIABLES", "STATUS", "PROCESSLIST", "GRANTS", "DATABASES"];
    const BEFORE: [&str; 4] = ["SESSION", "GLOBAL", "LOCAL", "FULL"];
    let is = |at: usize, words: &[&str]| {
        part.token(at).is_some_and(|token| words.iter().any(|word| token.is_word(word)))
    };
    let has_tables = part.tokens().any(|token| token.is_word("SELECT") || token.is_word("FROM"));
    !has_tables && (is(1, &SHOWN) || is(1, &BEFORE) && is(2, &SHOWN))
}

fn all_are_qualified(part: &Part<'_>) -> bool {
    let named = NamedTables::of(part);
    let is_dual = |name: &[u8]| name.eq_ignore_ascii_case(b"DUAL");
    !named.is_cut
        && named.tables.iter().all(|it| it.schema.is_some() || is_dual(&it.table))
        // Behind a brace, and in a common table expression, there may be tables that were not found.
        && part.tokens().all(|token| token != Token::Symbol(b'{') && !token.is_word("WITH"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::lex::Dialect;
    use wire::text::Lexed;

    #[test]
    fn only_what_is_known_to_need_no_schema_needs_none() {
        let is = |text: &str| {
            let lexed = Lexed::default();
            is_schemaless(lexed.text(text.as_bytes(), Dialect::default()))
        };
        for text in [
            "SELECT 1",
            "select @@version, 'from t'",
            "COMMIT",
            "ROLLBACK",
            "BEGIN",
            "START TRANSACTION READ ONLY",
            "USE other",
            "SET autocommit = 1",
            "SET NAMES utf8mb4",
            "INSERT INTO other.t VALUES (1)",
            "SELECT * FROM a.t JOIN `b`.`u` ON t.x = u.x WHERE t.y IN (SELECT z FROM c.v)",
            "DELETE FROM a.t WHERE x = 1",
            "SELECT 1 FROM DUAL",
            "KILL 7",
            "SHOW WARNINGS",
            "SHOW SESSION VARIABLES LIKE 'a'",
            "SELECT 1;",
        ] {
            assert!(is(text), "{text}");
        }
        for text in [
            "",
            "SELECT * FROM t",
            "SELECT DATABASE()",
            "select schema ( )",
            "INSERT INTO other.t SELECT * FROM t",
            "SELECT * FROM a.t, u",
            "SELECT * FROM a.t JOIN u",
            "SELECT * FROM {oj a.t LEFT JOIN u ON 1}",
            "UPDATE t SET a = 1",
            "CREATE TABLE t (a INT)",
            "CREATE DATABASE x",
            "SHOW TABLES",
            "SHOW TABLE STATUS",
            "SHOW COLUMNS FROM t",
            "SHOW VARIABLES WHERE variable_name IN (SELECT a FROM t)",
            "CALL p()",
            "SELECT 1; SELECT 2",
            "SELECT 1 /*! FROM t */",
            "SET @a = (SELECT 1 FROM t)",
            "SET STATEMENT max_statement_time = 1 FOR SELECT * FROM t",
            "BEGIN NOT ATOMIC INSERT INTO t VALUES (1); END",
            "SELECT NEXT VALUE FOR s",
            "SELECT 'unfinished",
        ] {
            assert!(!is(text), "{text}");
        }
    }
}
