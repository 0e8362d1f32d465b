//! What a statement does with the diagnostics of those before it: the server clears them before it runs one that uses a
//! table. Whether one does is not always in its text.

use super::builtins::is_one_of;
use super::reader::{Mark, Reader, Verb};
use crate::pin::Pin;

/// What a statement does with the diagnostics of those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiagnosticsUse {
    /// They stay, unless there are new ones: it uses no table.
    Stay,
    /// It may use a table.
    #[default]
    Unsure,
    /// They are gone before it begins: it uses a table.
    Go,
    /// It asks for them as rows, and for nothing else.
    Shown,
    /// It asks how many there are.
    Counted,
    /// It asks how many there are by a variable, which MySQL takes for a statement like any other.
    Spent,
    /// It asks for them in another way.
    Diagnosed,
    /// They stay, and if it fails its error is behind them.
    Added,
    /// They stay, and behind them is what its reply does not show.
    Noted,
}

impl DiagnosticsUse {
    pub const fn are_asked_for(self) -> bool {
        matches!(self, Self::Shown | Self::Counted | Self::Spent | Self::Diagnosed)
    }

    /// The same when it is only prepared, for which the server opens its tables.
    pub const fn prepared(self) -> Self {
        if self.are_asked_for() { Self::Stay } else { self }
    }

    /// The same at a MySQL server: whatever is a statement clears them, unless it is there to ask for them.
    pub const fn on_mysql(self) -> Self {
        match self {
            Self::Stay | Self::Unsure => Self::Go,
            asked => asked,
        }
    }

    /// The same at a MariaDB server.
    pub const fn on_mariadb(self) -> Self {
        match self {
            Self::Spent => Self::Counted,
            other => other,
        }
    }
}

impl Reader<'_> {
    /// A statement begins with this word.
    pub(super) fn begin_diagnostics(&mut self, word: &[u8]) {
        if !uses_no_table(word) {
            self.doubt_diagnostics();
        } else if self.statements == 1 && self.found.diagnostics == DiagnosticsUse::Unsure {
            self.found.diagnostics = DiagnosticsUse::Stay;
        }
    }

    /// It goes on with this word, which is in capitals.
    pub(super) fn word_of_diagnostics(&mut self, name: &[u8]) {
        match (self.verb, name) {
            // Also between the arguments of a function.
            (_, b"FROM" | b"INTO" | b"TABLE") if self.depth > 0 || name != b"FROM" => {
                self.doubt_diagnostics();
            }
            (_, b"NEXTVAL" | b"LASTVAL" | b"SETVAL" | b"VALUE") => self.doubt_diagnostics(),
            _ => {}
        }
        match (self.verb, name) {
            // Not in a routine's body, which is only defined.
            (Verb::Define, b"TABLE" | b"VIEW")
                if self.depth == 0 && self.found.pin != Some(Pin::Unreadable) =>
            {
                self.clear_diagnostics();
            }
            (Verb::Show, b"TABLE" | b"TABLES" | b"COLUMNS" | b"VARIABLES" | b"STATUS") => {
                self.clear_diagnostics();
            }
            _ => {}
        }
    }

    /// The statement uses a table: the diagnostics of those before it go.
    pub(super) fn clear_diagnostics(&mut self) {
        let is_behind = self.found.diagnostics.are_asked_for() && self.marks.has(Mark::Behind);
        if self.found.diagnostics != DiagnosticsUse::Shown && !is_behind {
            self.found.diagnostics = DiagnosticsUse::Go;
        }
    }

    /// What asks for the diagnostics of this very text asks for nothing of the past.
    pub(super) fn ask_for_diagnostics(&mut self, how: DiagnosticsUse) {
        if self.found.diagnostics != DiagnosticsUse::Go {
            self.found.diagnostics =
                if self.marks.has(Mark::Behind) { DiagnosticsUse::Diagnosed } else { how };
        }
    }

    /// A statement that may use a table begins, or a part of one.
    pub(super) fn doubt_diagnostics(&mut self) {
        if self.found.diagnostics == DiagnosticsUse::Stay {
            self.found.diagnostics = DiagnosticsUse::Unsure;
        }
    }
}

/// Whether a statement that begins so uses no table unless it says `FROM`, `INTO` or `TABLE`.
fn uses_no_table(word: &[u8]) -> bool {
    const VERBS: [&str; 11] = [
        "SELECT",
        "DO",
        "SET",
        "USE",
        "BEGIN",
        "START",
        "COMMIT",
        "ROLLBACK",
        "SAVEPOINT",
        "RELEASE",
        "KILL",
    ];
    is_one_of(word, &VERBS)
}
