//! Why a session keeps its backend: the reasons that are counted and shown.

use serde::{Deserialize, Serialize};

/// What a backend would carry over to the next client if it were shared. Ends only with the session, or with a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Pin {
    /// The server reported that a session variable was set.
    SessionVariable,
    /// `SET` in a form whose effect is not reported.
    Set,
    /// `@x` was read or written. An older Flifo that hands over has called it otherwise where `GET DIAGNOSTICS` did so.
    #[serde(alias = "Diagnostics")]
    UserVariable,
    /// The server reported some change of state that it does not name.
    State,
    /// A temporary table or sequence.
    TemporaryTable,
    /// `PREPARE`, `EXECUTE` or `DEALLOCATE` as text.
    TextPrepare,
    /// `LOCK TABLES`, `FLUSH TABLES … WITH READ LOCK`, `BACKUP STAGE`.
    TableLock,
    /// `GET_LOCK()` and its kin.
    UserLock,
    /// `HANDLER … OPEN`.
    Handler,
    /// `NEXTVAL`, `LASTVAL` and their kin.
    Sequence,
    /// `SQL_CALC_FOUND_ROWS`.
    FoundRows,
    /// `LAST_INSERT_ID(n)` sets what the next one reads.
    InsertId,
    /// `CALL`: a procedure may do anything.
    Call,
    /// A function that is not built in may do anything.
    Function,
    /// A trigger may do anything.
    Trigger,
    /// `XA` transactions.
    Xa,
    /// A cursor was opened by a prepared statement.
    Cursor,
    /// A parameter was sent in pieces.
    LongData,
    /// `COM_SET_OPTION` changed how the server reads statements.
    Option,
    /// The statement could not be read: too long, malformed, or of a kind that is not known to be harmless.
    Unreadable,
    /// A replication stream.
    Replication,
    /// `SET ROLE`.
    Role,
    /// The client's character set has letters that contain quotes or backslashes.
    Charset,
    /// The server reports no changes of session state: whatever the client does there stays on its backend.
    Unreported,
    /// A rule keeps it (`connection = "keep"`).
    Rule,
}

impl Pin {
    pub const ALL: [Self; 25] = [
        Self::SessionVariable,
        Self::Set,
        Self::UserVariable,
        Self::State,
        Self::TemporaryTable,
        Self::TextPrepare,
        Self::TableLock,
        Self::UserLock,
        Self::Handler,
        Self::Sequence,
        Self::FoundRows,
        Self::InsertId,
        Self::Call,
        Self::Function,
        Self::Trigger,
        Self::Xa,
        Self::Cursor,
        Self::LongData,
        Self::Option,
        Self::Unreadable,
        Self::Replication,
        Self::Role,
        Self::Charset,
        Self::Unreported,
        Self::Rule,
    ];

    /// Whether `COM_RESET_CONNECTION` surely undoes what made the session keep its backend. It leaves roles and the
    /// connection's options alone, and a routine, or a text that is executed, may have done anything.
    pub const fn ends_with_reset(self) -> bool {
        !matches!(
            self,
            Self::TextPrepare
                | Self::Call
                | Self::Function
                | Self::Trigger
                | Self::Xa
                | Self::Option
                | Self::Unreadable
                | Self::Replication
                | Self::Role
        )
    }

    /// Whether others may wait for what such a session has, though it is in no transaction.
    pub const fn may_lock(self) -> bool {
        matches!(self, Self::TableLock | Self::UserLock | Self::Handler | Self::Xa)
    }

    /// The name in logs, counters and the console.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SessionVariable => "session_variable",
            Self::Set => "set",
            Self::UserVariable => "user_variable",
            Self::State => "state",
            Self::TemporaryTable => "temporary_table",
            Self::TextPrepare => "text_prepare",
            Self::TableLock => "table_lock",
            Self::UserLock => "user_lock",
            Self::Handler => "handler",
            Self::Sequence => "sequence",
            Self::FoundRows => "found_rows",
            Self::InsertId => "insert_id",
            Self::Call => "call",
            Self::Function => "function",
            Self::Trigger => "trigger",
            Self::Xa => "xa",
            Self::Cursor => "cursor",
            Self::LongData => "long_data",
            Self::Option => "option",
            Self::Unreadable => "unreadable",
            Self::Replication => "replication",
            Self::Role => "role",
            Self::Charset => "charset",
            Self::Unreported => "unreported",
            Self::Rule => "rule",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_name_of_its_own() {
        let names: std::collections::HashSet<_> = Pin::ALL.iter().map(|pin| pin.name()).collect();
        assert_eq!(names.len(), Pin::ALL.len());
    }
}
