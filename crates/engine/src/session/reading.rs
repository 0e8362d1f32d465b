//! How the server reads a session's texts: the mode of its quotes, and the character set of its client.
//!
//! The server reports both for sessions that share backends. For a client that is passed through, both are read off what
//! it sends: a statement that may change the character set makes it unknown until the server has answered, and for good
//! where its text does not tell the set. What is not known is in doubt ([`wire::lex`]).

use wire::charset::Charset;
use wire::lex::{Dialect, DoubleQuotes, Token};
use wire::response::Status;
use wire::text::Text;
use wire::tracker::{Change, Changes};

use super::state::{Mark, Session};
use crate::account::name::Brand;

impl Session {
    /// How the server reads this session's statements.
    #[inline]
    pub fn dialect(&self) -> Dialect {
        let mut dialect = self.reads;
        dialect.backslash_escapes = !self.status.has(Status::NO_BACKSLASH_ESCAPES);
        if self.status.has(Status::ANSI_QUOTES) {
            dialect.double_quotes = DoubleQuotes::Names;
        }
        dialect
    }

    /// It has logged in at a server of this brand with the collation of this number.
    pub const fn log_in_with(&mut self, collation: u16, brand: Brand) {
        self.reads.charset = Charset::of_collation(collation);
        // MySQL's status flags do not tell.
        self.reads.double_quotes = match brand {
            Brand::MariaDb => DoubleQuotes::Strings,
            Brand::MySql => DoubleQuotes::Unknown,
        };
    }

    /// It begins anew, with the server's own character set, which its settings tell after its next statement.
    pub(super) const fn forget_reading(&mut self, before: Dialect) {
        self.reads.charset = Charset::Unknown;
        self.reads.double_quotes = match before.double_quotes {
            DoubleQuotes::Strings => DoubleQuotes::Strings,
            _ => DoubleQuotes::Unknown,
        };
    }

    /// Its variables say how its texts are read.
    pub(super) fn learn_reading(&mut self) {
        let Some(settings) = &self.settings else { return };
        if let Some(name) = settings.get("character_set_client") {
            self.reads.charset = Charset::named(name);
        }
        if let Some(mode) = settings.get("sql_mode") {
            let is_ansi = mode.split(|byte| *byte == b',').any(|it| it == b"ANSI_QUOTES");
            self.reads.double_quotes =
                if is_ansi { DoubleQuotes::Names } else { DoubleQuotes::Strings };
        }
    }

    /// A text of a client that is passed through goes to its server. `prepared`: it is only prepared.
    #[inline]
    pub fn see_passed_text(&mut self, text: Text<'_>, prepared: bool) {
        let Some(becomes) = charset_set_by(text) else { return };
        if prepared {
            return self.marks.add(Mark::PreparesCharset);
        }
        self.reads.charset = Charset::Unknown;
        self.becomes = becomes.filter(|_| !self.marks.has(Mark::PreparesCharset));
    }

    /// What a client has prepared that is passed through goes to its server.
    #[inline]
    pub fn see_passed_execute(&mut self) {
        if self.marks.has(Mark::PreparesCharset) {
            (self.reads.charset, self.becomes) = (Charset::Unknown, None);
        }
    }

    /// The server's answer to what was passed on. `changes`: nothing, if it is an error.
    pub fn see_passed_answer(&mut self, changes: Option<&[u8]>) {
        let becomes = self.becomes.take();
        let Some(changes) = changes else { return };
        if let Some(charset) = becomes {
            self.reads.charset = charset;
        }
        for change in Changes::new(changes).flatten() {
            if let Change::Variable { name: b"character_set_client", value } = change {
                self.reads.charset = Charset::named(value);
            }
        }
    }
}

/// Whether a text may give its session another character set: the set, if that is known. What a routine does to it ends
/// with the routine.
fn charset_set_by(text: Text<'_>) -> Option<Option<Charset>> {
    const PLAIN: &[&str] = &[
        "SELECT",
        "INSERT",
        "UPDATE",
        "DELETE",
        "REPLACE",
        "SHOW",
        "USE",
        "COMMIT",
        "ROLLBACK",
        "START",
        "WITH",
        "CREATE",
        "ALTER",
        "DROP",
        "TRUNCATE",
        "CALL",
        "EXPLAIN",
        "DESC",
        "DESCRIBE",
        "DO",
        "LOAD",
        "LOCK",
        "UNLOCK",
        "SAVEPOINT",
        "RELEASE",
        "KILL",
        "ANALYZE",
        "DEALLOCATE",
    ];
    let first = text.first_word();
    let is_plain = PLAIN.iter().any(|word| first.eq_ignore_ascii_case(word.as_bytes()));
    if is_plain && !text.bytes.contains(&b';') {
        return None;
    }
    let has = |word: &[u8]| text.bytes.windows(word.len()).any(|it| it.eq_ignore_ascii_case(word));
    // What is executed, or prepared to be, may be put together of pieces.
    let may =
        has(b"names") || has(b"charset") || has(b"character") || has(b"execute") || has(b"prepare");
    may.then(|| sole_names(text))
}

/// The character set of a text that is nothing but `SET NAMES x`.
fn sole_names(text: Text<'_>) -> Option<Charset> {
    let tokens = text.tokens();
    let mut words = tokens.into_iter().take_while(|token| *token != Token::Symbol(b';'));
    let is_names = words.next()?.is_word("SET") && words.next()?.is_word("NAMES");
    let (Token::Word(name) | Token::String(name)) = words.next()? else { return None };
    let rest: Vec<_> = words.take(3).collect();
    let is_rest = match rest[..] {
        [] => true,
        [word, Token::Word(_) | Token::String(_)] => word.is_word("COLLATE"),
        _ => false,
    };
    let ends = tokens
        .into_iter()
        .skip_while(|token| *token != Token::Symbol(b';'))
        .all(|it| it == Token::Symbol(b';'));
    let is_known = is_names && is_rest && ends && !tokens.saw_executable_comment();
    is_known.then(|| Charset::named(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::text::Lexed;
    use wire::tracker::put_change;

    fn pass(session: &mut Session, text: &str) {
        session.see_passed_text(Lexed::default().text(text.as_bytes(), Dialect::default()), false);
    }

    #[test]
    fn a_passed_client_is_read_in_the_set_that_it_has_chosen() {
        for (text, behind) in [
            ("SELECT 'names'", Charset::Latin1),
            ("CREATE TABLE t (a TEXT CHARACTER SET gbk)", Charset::Latin1),
            ("SET NAMES gbk", Charset::Gbk),
            ("set names 'big5' collate big5_bin;", Charset::Big5),
            ("SET NAMES ?", Charset::Unknown),
            ("SET NAMES DEFAULT", Charset::Unknown),
            ("SET CHARACTER SET gbk", Charset::Unknown),
            ("SET NAMES gbk, @a = 1", Charset::Unknown),
            ("SELECT 1; SET NAMES gbk", Charset::Unknown),
            ("/* a */ SET @@character_set_client = gbk", Charset::Unknown),
            ("EXECUTE IMMEDIATE CONCAT('SET NA', 'MES gbk')", Charset::Unknown),
            ("SET NAMES /*!80000 gbk */", Charset::Unknown),
            ("SET autocommit = 1", Charset::Latin1),
        ] {
            let mut session = Session::default();
            session.log_in_with(8, Brand::MariaDb);
            pass(&mut session, text);
            session.see_passed_answer(Some(&[]));
            assert_eq!(session.dialect().charset, behind, "{text}");
            let mut session = Session::default();
            session.log_in_with(8, Brand::MariaDb);
            pass(&mut session, text);
            session.see_passed_answer(None);
            let after_error = if behind == Charset::Latin1 { behind } else { Charset::Unknown };
            assert_eq!(session.dialect().charset, after_error, "{text}");
        }
    }

    #[test]
    fn what_is_prepared_sets_it_when_it_is_executed() {
        let mut session = Session::default();
        session.log_in_with(45, Brand::MySql);
        let lexed = Lexed::default();
        session.see_passed_text(lexed.text(b"SET NAMES ?", Dialect::default()), true);
        assert_eq!(session.dialect().charset, Charset::Plain);
        session.see_passed_execute();
        session.see_passed_answer(Some(&[]));
        assert_eq!(session.dialect().charset, Charset::Unknown);
        let mut changes = Vec::new();
        put_change(&mut changes, Change::Variable { name: b"character_set_client", value: b"gbk" });
        session.see_passed_answer(Some(&changes));
        assert_eq!(session.dialect().charset, Charset::Gbk);
        assert_eq!(session.dialect().double_quotes, DoubleQuotes::Unknown);
    }
}
