//! What may be true of a statement, as its text tells.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trait {
    /// Calls what may be a routine.
    Calls,
    /// Does what no reset of the backend undoes, routines aside: that may be another reason than the first one.
    BeyondReset,
    /// Ends the transaction (`COMMIT`, `ROLLBACK`): never made to wait.
    EndsTransaction,
    /// Ends the connection with the transaction (`COMMIT RELEASE`).
    Releases,
    /// Asks for the last insert id of its session.
    AsksInsertId,
    /// Shows variables of its session, and that among them, if it is known.
    ShowsVariables,
    /// May fire triggers.
    Fires,
    /// Asks for the number of its connection; see [`crate::own_id`].
    AsksConnectionId,
    /// Gives its connection another number.
    SetsNumber,
    /// Asks for the GTID of its session's last write.
    AsksGtid,
    /// Is a `KILL` statement; see [`crate::kill`].
    Kill,
    /// Is the plain start of a transaction and nothing else: it may as well begin with the next statement.
    Begin,
    /// Is a plain `COMMIT` or `ROLLBACK` and nothing else.
    End,
    /// Has a `sql_mode` of its own, which ends with it although its reply shows it.
    PassingMode,
    /// May define something, or take a schema or a right from any user.
    Alters,
}

crate::marks!(Trait);

impl Trait {
    pub(super) const ALL: [Self; 15] = [
        Self::Calls,
        Self::BeyondReset,
        Self::EndsTransaction,
        Self::Releases,
        Self::AsksInsertId,
        Self::ShowsVariables,
        Self::Fires,
        Self::AsksConnectionId,
        Self::SetsNumber,
        Self::AsksGtid,
        Self::Kill,
        Self::Begin,
        Self::End,
        Self::PassingMode,
        Self::Alters,
    ];
}
