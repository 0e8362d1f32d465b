//! What clients of a program say: tables of kinds of statement, topic by topic.
//!
//! A kind is one step or several, separated by ` ;; `. A step that begins with a colon is an action as programs write
//! it, any other one a query. Braces hold what a seed decides:
//!
//! * `{one|another}`: one of these;
//! * `{n}` a small number, `{w}` a word, `{s}` the client's schema, `{p}` a slot, the same one in all of a kind;
//! * `{long}`: a value longer than a buffer, in an execute, as long data, or behind raw bytes;
//! * `{made}`: a number that no other client's tables make;
//! * `{lock}` and `{xid}`: names that no other session of the program uses;
//! * `{victim}`: another client;
//! * `{id}` stays, for the client's connection id.
//!
//! Invariants: what a kind is answered depends on its client's session and schemas only, never on time, on chance or
//! on other clients; a kind of a topic that is not `alone` never waits for another client.

pub(super) mod again;
mod commands;
pub(super) mod crowd;
mod hidden;
pub(super) mod loud;
mod mysql;
mod numbers;
mod reads;
mod routines;
mod state;
mod transactions;
mod variables;

/// Kinds that belong together: one is likely to be followed by another one of the same topic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Topic {
    pub name: &'static str,
    pub when: When,
    pub kinds: &'static [&'static str],
}

/// Which programs have a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Always,
    /// Only those in which all other clients merely read: it holds locks of the whole server.
    Alone,
    /// Only those whose clients take turns: it names other clients.
    InTurns,
    OnMySql,
    AloneOnMySql,
}

pub(super) const TOPICS: &[&[Topic]] = &[
    variables::TOPICS,
    state::TOPICS,
    routines::TOPICS,
    hidden::TOPICS,
    transactions::TOPICS,
    numbers::TOPICS,
    reads::TOPICS,
    commands::TOPICS,
    mysql::TOPICS,
];

/// Words of kinds that Flifo is known to answer differently, and why. A change that ends a difference removes its
/// entry.
pub(super) const UNSETTLED: &[(&str, &str)] = &[
    ("FOUND_ROWS", "refused where neither the reply nor a backend connection tells it"),
    (
        "k (a) VALUES (NULL)",
        "what a trigger of a failed statement sets is undone, also for its client",
    ),
    (
        "collation_database",
        "that of the schema is lost when a backend connection is reset and told its schema again",
    ),
    ("character_set_database", "see above"),
    ("collation%", "see above"),
    ("LIKE 'character_set_%'", "see above"),
    (
        "session_track_schema",
        "without these reports, a reset of the connection forgets the schema of a USE",
    ),
    (
        "CALL p_out(?, ?) ;; :execute",
        "what a CALL that affects nothing tells on MySQL of the statement before it, whose backend connection is another client's",
    ),
    (
        "DELETE FROM k",
        "its trigger takes a lock, of which nobody hears: `users.triggers` is \"trust\", so another client that has the backend connection \
         next may release it",
    ),
    ("h_fail", "what a routine of a failed read sets is undone, also for its client"),
    ("hs (a) VALUES (NULL)", "see `k (a) VALUES (NULL)`"),
    ("vh_lock", "a view's lock, of which no server tells"),
    ("vh_id", "a view's `LAST_INSERT_ID(n)`, of which no server tells"),
    ("vh_into", "a view's `SELECT … INTO @h`, of which no server tells"),
    ("vh_unscoped", "a view's `SET @@x`, of which no server tells"),
    ("LASTVAL({s}b", "a view or a default may have taken a number, of which no server tells"),
    ("PREVIOUS VALUE FOR {s}b", "see above"),
    ("RESIGNAL", "outside of a handler: refused if the messages before it are kept by Flifo"),
    ("GET STACKED", "see above: it always fails there"),
    (
        ":beside DROP DATABASE",
        "where its schema is gone, a client gets that error also for what cannot be read, and for what is prepared",
    ),
    ("SET CHARSET", "takes the collation of the schema: see above"),
    ("SET CHARACTER SET", "see above"),
];

/// Words of kinds that MySQL answers otherwise from run to run, without Flifo, and why.
pub(super) const UNSTEADY_ON_MYSQL: &[(&str, &str)] = &[
    (
        "h_cursor",
        "a function's own cursor sets the flag of a client's (0x0040) behind the columns: not to be told without that packet",
    ),
    (
        "SHOW DATABASES",
        "whether an index was used of its own tables: the flag 0x0020 comes and goes",
    ),
    (
        "JOIN m ON m.id = t.id",
        "the order of the join goes by statistics that are renewed behind the scenes",
    ),
];

/// Whether a kind changes the user where it must not: on MySQL before 8.0.29 a prepared XA transaction stays with a
/// connection whose user changes, and through Flifo it is detached, as later ones do at once.
pub(super) fn changes_user(kind: &str) -> bool {
    kind.contains(":user ")
}

/// Whether a kind prepares an XA transaction; what should end it may fail.
pub(super) fn prepares_xa(kind: &str) -> bool {
    kind.contains("XA PREPARE")
}

/// What most programs ask again and again: it tells of state that leaked.
pub(super) const PROBES: &[&str] = &[
    "SELECT @@autocommit, @@sql_mode, @@time_zone, @@character_set_client, \
     @@character_set_connection, @@character_set_results, @@collation_connection, \
     @@group_concat_max_len, @@max_sort_length, @@sql_safe_updates, @@sql_select_limit, \
     @@foreign_key_checks, @@unique_checks, @@lc_time_names, @@div_precision_increment, \
     @@default_week_format, @@auto_increment_increment, @@sql_auto_is_null, @@wait_timeout, \
     @@innodb_lock_wait_timeout, @@lock_wait_timeout, @@completion_type, @@insert_id",
    "SELECT @a, @b, @c, @r, @p, @f, @h, @chain, @trigger, @ps, @big",
    "SELECT DATABASE(), SCHEMA(), USER(), CURRENT_USER()",
    "SHOW SESSION VARIABLES LIKE '{character_set_%|collation%|max_%|sql_%|tx_%|%timeout|div%|auto%}'",
    "SELECT @@SESSION.last_insert_id, LAST_INSERT_ID(), @@identity",
    "SELECT CHARSET('x'), COLLATION('x'), CHARSET(USER()), COERCIBILITY('x')",
    "SELECT * FROM t ORDER BY id",
    "SELECT {n} AS number, '{w}' AS word",
];

/// How many kinds there are.
pub fn count() -> usize {
    TOPICS.iter().copied().flatten().map(|topic| topic.kinds.len()).sum::<usize>() + PROBES.len()
}
