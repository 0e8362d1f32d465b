//! Statements that show what the server has to look up first.
//!
//! On MariaDB, one that fails while it looks something up leaves `ROW_COUNT()` as it was; whatever else fails counts
//! −1.

use wire::lex::Token;

use super::builtins::is_one_of;

/// Whether a statement that fails may have failed while it looked something up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LooksUp {
    #[default]
    No,
    Yes,
    /// One of several may have.
    Perhaps,
}

/// What has been read of a text's statements.
#[derive(Clone, Copy, Default)]
pub(super) struct LooksReader {
    /// Its second word is still to come.
    begun: Option<Begun>,
    /// One looks something up.
    looks: bool,
    /// One does not.
    does_not: bool,
}

#[derive(Clone, Copy)]
enum Begun {
    Show,
    Describe,
}

impl LooksReader {
    /// A statement begins with this word, in capitals.
    pub(super) fn begin(&mut self, word: &[u8]) {
        self.begun = match word {
            b"SHOW" => Some(Begun::Show),
            b"DESCRIBE" | b"DESC" | b"EXPLAIN" => Some(Begun::Describe),
            _ => None,
        };
        self.does_not |= self.begun.is_none();
        // What a routine does is not known.
        self.looks |= word == b"CALL";
    }

    /// It goes on with this.
    #[inline]
    pub(super) fn go_on(&mut self, token: Token<'_>) {
        if self.begun.is_some() {
            self.read_second(token);
        }
    }

    fn read_second(&mut self, token: Token<'_>) {
        const EXPLAINED: &[&str] = &[
            "SELECT",
            "WITH",
            "VALUES",
            "TABLE",
            "INSERT",
            "REPLACE",
            "UPDATE",
            "DELETE",
            "EXTENDED",
            "PARTITIONS",
            "FORMAT",
            "ANALYZE",
        ];
        let Some(begun) = self.begun.take() else { return };
        let is_other = match (begun, token) {
            (Begun::Show, token) => token.is_word("CREATE"),
            (Begun::Describe, Token::Word(word)) => is_one_of(word, EXPLAINED),
            (Begun::Describe, token) => token == Token::Symbol(b'('),
        };
        self.looks |= !is_other;
        self.does_not |= is_other;
    }

    /// All has been read.
    pub(super) const fn end(self, is_certain: bool) -> LooksUp {
        match (self.looks, self.does_not || !is_certain) {
            (false, _) => LooksUp::No,
            (true, false) => LooksUp::Yes,
            (true, true) => LooksUp::Perhaps,
        }
    }
}
