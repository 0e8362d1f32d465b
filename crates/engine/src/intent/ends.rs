//! Whether a statement may end the transaction that it runs in: this must be known when the server answers no more.
//!
//! Only what certainly does not is named. Whatever is not known to be harmless may have committed, as most statements
//! do that define something or see to tables.

use super::sets::{SetMark, Sets};

/// What becomes of the transaction that a statement runs in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ends {
    /// It goes on, or nothing of it is kept.
    Never,
    /// The same, with one more savepoint.
    Saves,
    /// It is rolled back, and that is all that was asked for.
    Undone,
    /// It is committed, and that is all that was asked for.
    Committed,
    /// It is committed if it is open, `autocommit` is on, and that is all that was asked for.
    TurnsAutocommitOn,
    /// It may be committed.
    #[default]
    Perhaps,
}

impl Ends {
    /// What the statement does that begins with this word, in capitals.
    pub(super) fn of(word: &[u8]) -> Self {
        match word {
            b"ROLLBACK" => Self::Undone,
            b"SELECT" | b"WITH" | b"VALUES" | b"TABLE" | b"DO" | b"INSERT" | b"REPLACE"
            | b"UPDATE" | b"DELETE" | b"SHOW" | b"DESCRIBE" | b"DESC" | b"EXPLAIN" | b"HELP"
            | b"USE" | b"RELEASE" => Self::Never,
            b"SAVEPOINT" => Self::Saves,
            _ => Self::Perhaps,
        }
    }

    /// The same when all of the text has been read, which is one statement for certain.
    pub(super) fn judged(self, is_end: bool, sets: Option<Sets>) -> Self {
        match (self, sets) {
            (_, Some(sets)) if !sets.has(SetMark::BeyondTransaction) => Self::Never,
            (_, Some(sets)) if sets.has(SetMark::TurnsAutocommitOn) => Self::TurnsAutocommitOn,
            // To a savepoint, or to begin another one.
            (Self::Undone, _) if !is_end => Self::Never,
            (Self::Perhaps, _) if is_end => Self::Committed,
            _ => self,
        }
    }
}
