//! Whether a statement may define something, or take a schema or a right from any user: what was read of the server's
//! definitions, and what its answers to logins have told, may be untrue behind it.
//!
//! Only what certainly does not is named.

/// Whether a statement may that begins with this word, in capitals.
pub(super) fn may_alter(word: &[u8]) -> bool {
    !matches!(
        word,
        b"SELECT" | b"WITH" | b"VALUES" | b"TABLE" | b"DO" | b"SHOW" | b"DESCRIBE" | b"DESC"
            | b"EXPLAIN" | b"HELP" | b"CHECKSUM" | b"HANDLER"
            | b"INSERT" | b"REPLACE" | b"UPDATE" | b"DELETE" | b"LOAD" | b"TRUNCATE"
            // What `SET STATEMENT` runs is a statement of its own here.
            | b"SET" | b"USE" | b"KILL" | b"LOCK" | b"UNLOCK"
            | b"BEGIN" | b"START" | b"COMMIT" | b"ROLLBACK" | b"SAVEPOINT" | b"RELEASE" | b"XA"
            | b"ANALYZE" | b"OPTIMIZE" | b"CHECK" | b"REPAIR" | b"PURGE"
            | b"PREPARE" | b"DEALLOCATE" | b"GET" | b"SIGNAL" | b"RESIGNAL"
    )
}
