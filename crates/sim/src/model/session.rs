//! A session of the model's server: what it remembers, and what statements make of that.
//!
//! What a statement means that is not known here goes by a rule: it reads or writes the tables that it names, and its
//! answer is a hash of its words and of all that it may depend on: variables, schema, user variables that it names,
//! tables that it names. So state of another session shows in the answer to nearly everything.

mod read;
mod set;
mod write;

use std::collections::BTreeMap;

use wire::response::Status;
use wire::tracker::{Change, put_change};

use super::reply::{Answer, End, ModelError, Row};
use super::tables::{Place, Table, Tables};
use super::tokens::Token;

/// Numbers from here on are marks: each is written by one statement of a world.
pub const FIRST_MARK: u64 = 1_000_000;

/// A variable, or else the name of a user variable, and what it becomes.
type Assignment = (Option<&'static str>, String, Option<Vec<u8>>);

/// What comes of a statement.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    Answer(Answer),
    /// The same, so many milliseconds later.
    Later(u64, Answer),
    /// Another session has this row.
    Waits(u32),
    /// Another session, or its statement, is to be killed.
    Kill {
        id: u64,
        is_query: bool,
    },
}

pub struct Session {
    pub user: String,
    pub schema: Option<String>,
    variables: BTreeMap<&'static str, Vec<u8>>,
    user_variables: BTreeMap<String, Vec<u8>>,
    temporary: BTreeMap<String, Table>,
    named_locks: BTreeMap<Vec<u8>, u32>,
    transaction: Option<Transaction>,
    /// What the next transaction is to be.
    next_is_read_only: bool,
    last_insert_id: u64,
    row_count: i64,
    diagnostics: Vec<(&'static str, u16, String)>,
    /// None of them is of a statement before.
    has_cleared: bool,
    changes: Vec<u8>,
    characteristics: &'static str,
    /// What its server is, and how far it has come.
    server: (Place, String),
    /// It reports changes if it is asked to.
    pub reports: bool,
}

/// Its name, the tables as they were written by then, and how many numbers were.
type Savepoint = (String, BTreeMap<(String, String), u64>, usize);

#[derive(Default)]
struct Transaction {
    is_read_only: bool,
    /// Tables as it has written them: no other session sees that before it is committed.
    own: BTreeMap<(String, String), u64>,
    marks: Vec<u64>,
    savepoints: Vec<Savepoint>,
}

type Done = Result<Outcome, ModelError>;

const fn ok(affected: u64) -> Outcome {
    Outcome::Answer(Answer::Ok { affected, insert_id: 0 })
}

fn rows(columns: &[&str], rows: Vec<Row>) -> Outcome {
    let columns = columns.iter().map(|name| name.as_bytes().to_vec()).collect();
    Outcome::Answer(Answer::Rows { columns, rows })
}

fn text(value: &(impl ToString + ?Sized)) -> Option<Vec<u8>> {
    Some(value.to_string().into_bytes())
}

impl Session {
    pub fn new(user: &str) -> Self {
        let variables = VARIABLES.iter().map(|(name, value)| (*name, value.as_bytes().to_vec()));
        Self {
            user: user.to_owned(),
            schema: None,
            variables: variables.collect(),
            user_variables: BTreeMap::new(),
            temporary: BTreeMap::new(),
            named_locks: BTreeMap::new(),
            transaction: None,
            next_is_read_only: false,
            last_insert_id: 0,
            row_count: 0,
            diagnostics: Vec::new(),
            has_cleared: false,
            changes: Vec::new(),
            characteristics: "",
            server: (Place::Alone, String::new()),
            reports: false,
        }
    }

    fn variable(&self, name: &str) -> &[u8] {
        self.variables.get(name).map_or(b"", Vec::as_slice)
    }

    fn is_on(&self, name: &str) -> bool {
        self.variable(name) == b"ON"
    }

    /// What the end of a reply says; it takes what has changed if an OK packet can report it.
    pub fn end(&mut self, is_ok: bool) -> End {
        if !self.reports {
            self.changes.clear();
        }
        let mut status = 0;
        for (is, flag) in [
            (self.is_on("autocommit"), Status::AUTOCOMMIT),
            (self.transaction.is_some(), Status::IN_TRANSACTION),
            (
                self.transaction.as_ref().is_some_and(|it| it.is_read_only),
                Status::IN_READONLY_TRANSACTION,
            ),
            (!self.changes.is_empty(), Status::STATE_CHANGED),
        ] {
            status |= if is { flag.0 } else { 0 };
        }
        let changes = if is_ok { std::mem::take(&mut self.changes) } else { Vec::new() };
        let warnings = if self.has_cleared { self.diagnostics.len() as u16 } else { 0 };
        End { status, warnings, changes }
    }

    /// Milliseconds that it waits for a row.
    pub fn lock_patience(&self) -> u64 {
        let seconds = std::str::from_utf8(self.variable("innodb_lock_wait_timeout"));
        seconds.ok().and_then(|it| it.parse::<u64>().ok()).unwrap_or(50) * 1000
    }

    /// Runs one statement. `by` is its connection.
    pub fn run(&mut self, tables: &mut Tables, tokens: &[Token], by: u64) -> Outcome {
        let first = tokens.first().and_then(Token::name).unwrap_or_default().to_owned();
        self.has_cleared = false;
        if uses_tables(tokens) {
            self.clear();
        }
        (self.server, self.reports) = ((tables.place, tables.position()), tables.reports);
        let before = tables.changes;
        let done = self.understand(tables, tokens, &first, by);
        if tables.changes != before && !self.in_transaction() {
            self.track_position(tables);
        }
        match done {
            Ok(outcome) => {
                match &outcome {
                    Outcome::Answer(Answer::Ok { affected, .. }) => {
                        self.row_count = *affected as i64
                    }
                    Outcome::Answer(Answer::Rows { .. }) | Outcome::Later(..) => {
                        self.row_count = -1
                    }
                    _ => {}
                }
                outcome
            }
            Err(error) => {
                self.add_error(&error);
                Outcome::Answer(Answer::Error(error))
            }
        }
    }

    /// A statement has failed.
    pub fn fail(&mut self, error: &ModelError) {
        self.has_cleared = false;
        self.add_error(error);
    }

    fn add_error(&mut self, error: &ModelError) {
        self.row_count = -1;
        self.add_condition("Error", error.code, error.message.clone());
    }

    /// The first condition of a statement takes the place of those before.
    fn add_condition(&mut self, level: &'static str, code: u16, message: String) {
        if !self.has_cleared {
            self.clear();
        }
        self.diagnostics.push((level, code, message));
    }

    fn clear(&mut self) {
        self.diagnostics.clear();
        self.has_cleared = true;
    }

    fn understand(&mut self, tables: &mut Tables, tokens: &[Token], first: &str, by: u64) -> Done {
        let word = |at: usize| tokens.get(at).and_then(Token::name).unwrap_or_default();
        match first {
            // No statement of it is understood.
            "begin" if word(1) == "not" => Err(ModelError::syntax()),
            "begin" => self.begin(tables, false),
            "start" if word(1) == "transaction" => {
                self.begin(tables, word(2) == "read" && word(3) == "only")
            }
            "start" => Err(ModelError::new(1290, b"HY000", "not in this model")),
            "commit" => Ok(self.commit(tables)),
            "rollback" if word(1) == "to" => {
                let name = word(if word(2) == "savepoint" { 3 } else { 2 }).to_owned();
                self.roll_back_to(&name)
            }
            "rollback" => Ok(self.roll_back()),
            "savepoint" => {
                if let Some(open) = &mut self.transaction {
                    open.savepoints.push((word(1).to_owned(), open.own.clone(), open.marks.len()));
                }
                Ok(ok(0))
            }
            "set" => self.set(tables, &tokens[1..]),
            "use" => self.enter(tables, word(1)),
            "select" => self.select(tables, tokens, by),
            "do" if names_description(tokens) => Ok(ok(0)),
            // What an earlier statement has left is made anew in this way.
            "do" if tokens.iter().any(|it| it.is_word("union") || it.is_word("benchmark")) => {
                let count = tokens.windows(3).find_map(|it| match it {
                    [Token::Word(call), Token::Sign(b'('), Token::Number(count)]
                        if call == "benchmark" =>
                    {
                        count.parse().ok()
                    }
                    _ => None,
                });
                for _ in 0..count.unwrap_or(0_u32) {
                    let message = "Truncated incorrect DOUBLE value: 'x'".to_owned();
                    self.add_condition("Warning", 1292, message);
                }
                match tokens.iter().any(|it| it.is_word("union")) {
                    true => {
                        Err(ModelError::new(1242, b"21000", "Subquery returns more than 1 row"))
                    }
                    false => Ok(ok(0)),
                }
            }
            "do" => {
                let items = read::items(&tokens[1..]);
                items.into_iter().try_for_each(|item| self.value(item, by).map(|_| ()))?;
                Ok(ok(0))
            }
            "show" => self.show(tables, tokens),
            "kill" => {
                let is_query = word(1) == "query";
                let number = tokens.iter().find_map(|token| match token {
                    Token::Number(digits) => digits.parse().ok(),
                    _ => None,
                });
                Ok(Outcome::Kill { id: number.ok_or_else(ModelError::syntax)?, is_query })
            }
            "create" | "drop" | "alter" | "truncate" => self.define(tables, tokens),
            "insert" | "replace" | "update" | "delete" => self.write(tables, tokens, by),
            _ if word(0).is_empty() => Err(ModelError::syntax()),
            _ => Err(ModelError::new(1064, b"42000", format!("not in this model: {first}"))),
        }
    }

    fn begin(&mut self, tables: &mut Tables, is_read_only: bool) -> Done {
        self.commit(tables);
        let is_read_only = is_read_only || std::mem::take(&mut self.next_is_read_only);
        self.transaction = Some(Transaction { is_read_only, ..Transaction::default() });
        let text = if is_read_only { "START TRANSACTION READ ONLY;" } else { "START TRANSACTION;" };
        self.characterize(text);
        Ok(ok(0))
    }

    fn characterize(&mut self, text: &'static str) {
        if self.variable("session_track_transaction_info") != b"OFF" && self.characteristics != text
        {
            put_change(&mut self.changes, Change::TransactionCharacteristics(text.as_bytes()));
        }
        self.characteristics = text;
    }

    fn commit(&mut self, tables: &mut Tables) -> Outcome {
        if let Some(open) = self.transaction.take() {
            self.next_is_read_only = false;
            for ((schema, name), state) in open.own {
                if let Some(table) = tables.get_mut((&schema, &name)) {
                    table.state = state;
                }
            }
            open.marks.into_iter().for_each(|mark| *tables.marks.entry(mark).or_default() += 1);
        }
        self.characterize("");
        ok(0)
    }

    /// Also what a server does when a connection ends.
    pub fn roll_back(&mut self) -> Outcome {
        if self.transaction.take().is_some() {
            self.next_is_read_only = false;
        }
        self.characterize("");
        ok(0)
    }

    fn roll_back_to(&mut self, name: &str) -> Done {
        let none = || ModelError::new(1305, b"42000", format!("SAVEPOINT {name} does not exist"));
        let open = self.transaction.as_mut().ok_or_else(none)?;
        let place = open.savepoints.iter().rposition(|(own, ..)| own == name).ok_or_else(none)?;
        open.own = open.savepoints[place].1.clone();
        open.marks.truncate(open.savepoints[place].2);
        open.savepoints.truncate(place + 1);
        Ok(ok(0))
    }

    pub const fn in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// A transaction was committed: a session that tracks all variables is told its place in replication.
    fn track_position(&mut self, tables: &Tables) {
        let position = tables.position();
        if tables.place == Place::Writer && self.variable("session_track_system_variables") == b"*"
        {
            let value = position.as_bytes();
            put_change(&mut self.changes, Change::Variable { name: b"last_gtid", value });
        }
    }

    /// A server that is `read_only` takes this.
    fn may_write(&self, tables: &Tables) -> Result<(), ModelError> {
        if tables.place != Place::Reader {
            return Ok(());
        }
        let message = "The MariaDB server is running with the --read-only option so it cannot execute this \
                       statement";
        Err(ModelError::new(1290, b"HY000", message))
    }

    fn track_state(&mut self) {
        if self.is_on("session_track_state_change") {
            put_change(&mut self.changes, Change::State(b"\x011"));
        }
    }

    pub fn enter(&mut self, tables: &Tables, name: &str) -> Done {
        if !tables.has_schema(name) && name != "information_schema" {
            return Err(ModelError::new(1049, b"42000", format!("Unknown database '{name}'")));
        }
        self.schema = Some(name.to_owned());
        if self.is_on("session_track_schema") {
            put_change(&mut self.changes, Change::Schema(name.as_bytes()));
        }
        self.track_state();
        Ok(ok(0))
    }

    /// A table is read or written: without autocommit, that begins a transaction.
    fn touch(&mut self) -> Result<(), ModelError> {
        if self.transaction.is_none() && !self.is_on("autocommit") {
            let is_read_only = std::mem::take(&mut self.next_is_read_only);
            self.transaction = Some(Transaction { is_read_only, ..Transaction::default() });
            self.characterize("START TRANSACTION;");
        }
        Ok(())
    }
}

/// Whether a statement reads or writes any table, or selects within: only such a one clears what was told of the one
/// before.
fn uses_tables(tokens: &[Token]) -> bool {
    let of_tables = ["from", "join", "into", "table", "update", "delete", "insert", "database"];
    let is_one = |token: &Token| of_tables.iter().any(|word| token.is_word(word));
    tokens.iter().any(is_one) || tokens.iter().skip(1).any(|token| token.is_word("select"))
}

/// Whether a statement names the information schema.
fn names_description(tokens: &[Token]) -> bool {
    tokens.iter().any(|token| token.is_word("information_schema"))
}

/// Variables of a session, and what they are at first: MariaDB 10.11's.
const VARIABLES: [(&str, &str); 54] = [
    ("auto_increment_increment", "1"),
    ("auto_increment_offset", "1"),
    ("autocommit", "ON"),
    ("character_set_client", "utf8mb4"),
    ("character_set_connection", "utf8mb4"),
    ("character_set_database", "utf8mb4"),
    ("character_set_results", "utf8mb4"),
    ("collation_database", "utf8mb4_general_ci"),
    ("collation_connection", "utf8mb4_general_ci"),
    ("completion_type", "NO_CHAIN"),
    ("default_storage_engine", "InnoDB"),
    ("default_week_format", "0"),
    ("div_precision_increment", "4"),
    ("foreign_key_checks", "ON"),
    ("group_concat_max_len", "1048576"),
    ("innodb_lock_wait_timeout", "50"),
    ("innodb_strict_mode", "ON"),
    ("insert_id", "0"),
    ("interactive_timeout", "28800"),
    ("join_buffer_size", "262144"),
    ("lc_time_names", "en_US"),
    ("lock_wait_timeout", "86400"),
    ("long_query_time", "10.000000"),
    ("low_priority_updates", "OFF"),
    ("max_error_count", "64"),
    ("max_heap_table_size", "16777216"),
    ("max_join_size", "18446744073709551615"),
    ("max_prepared_stmt_count", "16382"),
    ("max_sort_length", "1024"),
    ("net_read_timeout", "30"),
    ("net_write_timeout", "60"),
    ("optimizer_switch", "index_merge=on"),
    ("query_cache_type", "OFF"),
    ("rand_seed1", "7"),
    ("session_track_schema", "ON"),
    ("session_track_state_change", "OFF"),
    (
        "session_track_system_variables",
        "autocommit,character_set_client,character_set_connection,character_set_results,time_zone",
    ),
    ("session_track_transaction_info", "OFF"),
    ("sort_buffer_size", "2097152"),
    ("sql_auto_is_null", "OFF"),
    ("sql_big_selects", "ON"),
    ("sql_log_bin", "ON"),
    ("sql_mode", "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION"),
    ("sql_notes", "ON"),
    ("sql_quote_show_create", "ON"),
    ("sql_safe_updates", "OFF"),
    ("sql_select_limit", "18446744073709551615"),
    ("sql_warnings", "OFF"),
    ("time_zone", "SYSTEM"),
    ("tmp_table_size", "16777216"),
    ("tx_isolation", "REPEATABLE-READ"),
    ("tx_read_only", "OFF"),
    ("unique_checks", "ON"),
    ("wait_timeout", "28800"),
];
