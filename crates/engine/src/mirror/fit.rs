//! Which statements may be mirrored: those that mean the same in another session, and leave nothing in it.

use wire::lex::Token;
use wire::text::Text;

use super::Unmirrored;
use crate::counts::Asked;
use crate::intent::{DiagnosticsUse, Intent, Trait};
use crate::statement::part::parts;

/// What a mirror takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirrorTakes {
    Reads,
    ReadsAndWrites,
}

/// What asks for what only its own session knows.
const OF_SESSION: [Trait; 6] = [
    Trait::AsksInsertId,
    Trait::ShowsVariables,
    Trait::AsksConnectionId,
    Trait::SetsNumber,
    Trait::AsksGtid,
    Trait::PassingMode,
];

/// Whether a text may be mirrored of which this is known; an error says why not.
pub fn judge(text: Text<'_>, intent: &Intent, takes: MirrorTakes) -> Result<(), Unmirrored> {
    let is_read = intent.read.is_some();
    if !is_read && (takes == MirrorTakes::Reads || !changes_rows(text)) {
        return Err(Unmirrored::Kind);
    }
    let is_free = intent.pin.is_none()
        && intent.diagnostics == DiagnosticsUse::Go
        && intent.counts == Asked::default()
        && !OF_SESSION.iter().any(|asks| intent.has(*asks));
    if is_free { Ok(()) } else { Err(Unmirrored::Session) }
}

/// Whether a text is one statement that changes rows, and no more.
fn changes_rows(text: Text<'_>) -> bool {
    let Some(parts) = parts(text) else { return false };
    let [part] = &*parts else { return false };
    let first = match part.token(0) {
        Some(Token::Word(word)) if !part.saw_executable_comment() => word,
        _ => return false,
    };
    ["INSERT", "UPDATE", "DELETE", "REPLACE"]
        .iter()
        .any(|known| known.as_bytes().eq_ignore_ascii_case(first))
}

#[cfg(test)]
mod tests {
    use wire::lex::Dialect;
    use wire::text::Lexed;

    use super::*;

    #[test]
    fn reads_and_changes_of_rows_are_mirrored_and_nothing_else() {
        use Unmirrored::{Kind, Session};
        // What a mirror of reads says, and one that takes writes as well.
        for (text, reads, writes) in [
            ("SELECT a FROM t WHERE b = 1", Ok(()), Ok(())),
            ("SELECT a FROM t ORDER BY a LIMIT 3", Ok(()), Ok(())),
            ("SELECT NOW() FROM t", Ok(()), Ok(())),
            ("SELECT RAND() FROM t", Ok(()), Ok(())),
            // Such a one tells of the diagnostics of the statement before.
            ("SELECT NOW()", Err(Session), Err(Session)),
            ("SELECT a FROM t FOR UPDATE", Err(Kind), Err(Kind)),
            ("SELECT a INTO @v FROM t", Err(Kind), Err(Kind)),
            ("SELECT @v", Err(Kind), Err(Kind)),
            ("SELECT GET_LOCK('a', 1)", Err(Kind), Err(Kind)),
            ("SELECT f(1)", Err(Kind), Err(Kind)),
            ("INSERT INTO t VALUES (1)", Err(Kind), Ok(())),
            ("update t set a = 1", Err(Kind), Ok(())),
            ("DELETE FROM t WHERE a = 1", Err(Kind), Ok(())),
            ("REPLACE INTO t VALUES (1)", Err(Kind), Ok(())),
            ("INSERT INTO t VALUES (LAST_INSERT_ID())", Err(Kind), Err(Session)),
            ("INSERT INTO t VALUES (@v)", Err(Kind), Err(Session)),
            ("INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)", Err(Kind), Err(Kind)),
            ("SELECT 1; SELECT 2", Err(Kind), Err(Kind)),
            ("INSERT INTO t VALUES (1) /*! , (2) */", Err(Kind), Err(Kind)),
            ("LOAD DATA LOCAL INFILE 'a' INTO TABLE t", Err(Kind), Err(Kind)),
            ("CALL p()", Err(Kind), Err(Kind)),
            ("CREATE TABLE t (a INT)", Err(Kind), Err(Kind)),
            ("CREATE TEMPORARY TABLE t (a INT)", Err(Kind), Err(Kind)),
            ("BEGIN", Err(Kind), Err(Kind)),
            ("COMMIT", Err(Kind), Err(Kind)),
            ("SET time_zone = '+01:00'", Err(Kind), Err(Kind)),
            ("USE a", Err(Kind), Err(Kind)),
            ("SELECT 'not closed", Err(Kind), Err(Kind)),
        ] {
            let lexed = Lexed::default();
            let read = lexed.text(text.as_bytes(), Dialect::default());
            let intent = Intent::read(read);
            assert_eq!(judge(read, &intent, MirrorTakes::Reads), reads, "{text}");
            assert_eq!(judge(read, &intent, MirrorTakes::ReadsAndWrites), writes, "{text}");
        }
    }
}
