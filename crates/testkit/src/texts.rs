//! Compares the reader of texts with a server: random texts are run, and what they did is what their reading must have
//! said, or more.
//!
//! Texts are made to be misread: quotes that a character set or a mode hides, comments that depend on the server's
//! version, numbers glued to words, statements within statements ([`grammar`]). Each has in it, perhaps within a string or
//! a comment, something whose effect the server shows: a lock, a variable, an id, rows of a table that are read or
//! written, an account ([`Effects`]). Owns the server, the session and the comparison; shrinks nothing, as texts are short.
//!
//! Invariant: a text is read as its session is known, and once more as one of which nothing is known.

mod grammar;

use std::fmt::Write;

use bench::private_server::PrivateServer;
use engine::cache::{Effects as Written, Links, TablePlace};
use engine::intent::{Intent, Trait};
use engine::kept::Server;
use engine::rights::Change;
use engine::statement::kind::StatementKind;
use engine::statement::part::parts;
use engine::statement::rules::Truth;
use engine::statement::tables::NamedTables;
use view::audit::{self, AuditKind};
use view::digests::normalise;
use wire::charset::Charset;
use wire::lex::{Dialect, DoubleQuotes};
use wire::text::{Lexed, Text};

use crate::client::Client;
use grammar::Grammar;

/// What stands in texts as a literal, and must not be shown of them.
const LITERAL: &str = "k77k";
/// The last insert id that a session has before each text.
const OWN_ID: &str = "424242";
/// What has to be told of a text that did something.
const SCHEMA: &[u8] = b"texts";

/// A server of one's own with what texts are about.
pub struct Site {
    _server: PrivateServer,
    client: Client,
    grammar: Grammar,
    mode: Mode,
}

/// How the session's texts are read, as it has been told.
#[derive(Clone, Copy, Debug, Default)]
struct Mode {
    charset: &'static str,
    sql_mode: &'static str,
}

/// What a text has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Effects {
    lock: bool,
    variable: bool,
    id: bool,
    reads: bool,
    writes: bool,
    rights: bool,
}

/// How it went.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub texts: u64,
    /// The server has run so many of them to their ends.
    pub ran: u64,
    /// So many have done something.
    pub did: u64,
    /// What was read as less than it did.
    pub misread: Vec<String>,
}

const SETS: [&str; 17] = [
    "utf8mb4", "latin1", "gbk", "big5", "sjis", "cp932", "eucjpms", "cp1250", "cp1251", "cp850",
    "cp852", "hebrew", "hp8", "latin2", "latin7", "macroman", "binary",
];
const MODES: [&str; 5] =
    ["", "", "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES"];

/// A session keeps its mode for so many texts.
const TEXTS_A_MODE: u64 = 40;

impl Site {
    /// # Panics
    /// If the server does not start.
    pub fn start(seed: u64) -> Self {
        let builder = PrivateServer::builder().in_memory().argument("--userstat=1");
        let server = builder.start().expect("a private server");
        let client = Client::admin(&server).expect("the administrator logs in");
        let mut site =
            Self { _server: server, client, grammar: Grammar::new(seed), mode: Mode::default() };
        site.sql("CREATE DATABASE texts");
        site.sql("USE texts");
        for table in ["secret", "plain", "`2024`"] {
            site.sql(&format!("CREATE TABLE {table} (a INT) ENGINE=MyISAM"));
        }
        site.sql("INSERT INTO secret VALUES (1), (2)");
        site.sql("CREATE USER texts_u");
        site.begin_mode();
        site
    }

    /// Runs so many texts.
    pub fn run(&mut self, texts: u64) -> Outcome {
        let mut outcome = Outcome::default();
        for number in 0..texts {
            if number % TEXTS_A_MODE == 0 {
                self.begin_mode();
            }
            let text = self.grammar.text();
            self.try_text(&text, &mut outcome);
        }
        outcome.texts = texts;
        outcome
    }

    /// Runs this text in this mode.
    pub fn run_one(
        &mut self,
        charset: &'static str,
        sql_mode: &'static str,
        text: &[u8],
    ) -> Outcome {
        self.mode = Mode { charset, sql_mode };
        self.set_mode();
        let mut outcome = Outcome { texts: 1, ..Outcome::default() };
        self.try_text(text, &mut outcome);
        outcome
    }

    #[track_caller]
    fn sql(&mut self, text: &str) -> Vec<Vec<String>> {
        self.client.query(text).unwrap_or_else(|problem| panic!("{text}: {problem}"))
    }

    fn begin_mode(&mut self) {
        let charset = self.grammar.one_of(&SETS);
        let sql_mode = self.grammar.one_of(&MODES);
        self.mode = Mode { charset, sql_mode };
        self.set_mode();
    }

    fn set_mode(&mut self) {
        let Mode { charset, sql_mode } = self.mode;
        self.sql(&format!("SET SESSION sql_mode = '{sql_mode}'"));
        self.sql(&format!("SET NAMES {charset}"));
        self.sql("SET character_set_results = NULL");
    }

    fn try_text(&mut self, text: &[u8], outcome: &mut Outcome) {
        let before = self.look();
        let rows = self.client.query_bytes(text);
        let after = self.look();
        let did = Effects::between(&before, &after);
        let rows = rows.ok();
        outcome.ran += u64::from(rows.is_some());
        let has_row = |value: &str| rows.iter().flatten().flatten().any(|it| it == value);
        let is_in_name = is_in_name(text, self.mode.charset);
        let (asks_id, shows) = (has_row(OWN_ID), has_row(LITERAL) && !is_in_name);
        outcome.did += u64::from(did != Effects::default() || asks_id);
        for dialect in self.mode.dialects() {
            let lexed = Lexed::default();
            let said = misread(lexed.text(text, dialect), &did, asks_id, shows);
            if let Some(said) = said {
                let Mode { charset, sql_mode } = self.mode;
                let mut told = format!("{said}: {} ({charset}, '{sql_mode}'", text.escape_ascii());
                let _ = write!(told, ", read as {:?})", dialect.charset);
                outcome.misread.push(told);
            }
        }
        if did != Effects::default() {
            self.undo(&did);
        }
    }

    /// What the server shows of the session and of what texts are about.
    fn look(&mut self) -> Vec<String> {
        // The session's own mode holds for this, too: it has no quotes but for these.
        let text = "SELECT IFNULL(IS_USED_LOCK('h'), 0), IFNULL(@texts, 0), LAST_INSERT_ID(), \
             (SELECT IFNULL(SUM(ROWS_READ), 0) FROM information_schema.TABLE_STATISTICS WHERE TABLE_NAME = 'secret'), \
             (SELECT IFNULL(SUM(ROWS_CHANGED), 0) FROM information_schema.TABLE_STATISTICS WHERE TABLE_NAME = 'secret'), \
             (SELECT SUM(JSON_VALUE(Priv, '$.access')) FROM mysql.global_priv WHERE User LIKE 'texts%'), \
             LAST_INSERT_ID(424242)";
        let mut rows = self.sql(text);
        rows.pop().unwrap_or_default()
    }

    fn undo(&mut self, did: &Effects) {
        if did.lock {
            self.sql("DO RELEASE_ALL_LOCKS()");
        }
        self.sql("SET @texts = NULL");
        if did.writes {
            let _ = self.client.query("CREATE TABLE IF NOT EXISTS secret (a INT) ENGINE=MyISAM");
            self.sql("TRUNCATE secret");
            self.sql("INSERT INTO secret VALUES (1), (2)");
        }
        if did.rights {
            self.sql("REVOKE PROCESS ON *.* FROM texts_u");
        }
    }
}

impl Mode {
    /// As this session is known, and as one of which nothing is.
    fn dialects(self) -> [Dialect; 2] {
        let has = |mode: &str| self.sql_mode.split(',').any(|it| it == mode);
        let known = Dialect {
            backslash_escapes: !has("NO_BACKSLASH_ESCAPES"),
            double_quotes: if has("ANSI_QUOTES") {
                DoubleQuotes::Names
            } else {
                DoubleQuotes::Strings
            },
            charset: Charset::named(self.charset.as_bytes()),
            ..Dialect::default()
        };
        let unknown =
            Dialect { double_quotes: DoubleQuotes::Unknown, charset: Charset::Unknown, ..known };
        [known, unknown]
    }
}

impl Effects {
    fn between(before: &[String], after: &[String]) -> Self {
        let differs = |at: usize| before.get(at) != after.get(at);
        Self {
            lock: differs(0),
            variable: differs(1),
            id: after.get(2).is_some_and(|id| id != OWN_ID),
            reads: differs(3),
            writes: differs(4),
            rights: differs(5),
        }
    }
}

/// What the reading of a text says less of than the text did, if anything.
fn misread(text: Text<'_>, did: &Effects, asks_id: bool, shows: bool) -> Option<&'static str> {
    let intent = Intent::read(text);
    if (did.lock || did.variable || did.id) && intent.pin.is_none() {
        return Some("its session keeps a lock, a variable or an id, and it does not pin");
    }
    if asks_id && !intent.has(Trait::AsksInsertId) {
        return Some("it shows the last insert id, and does not ask for it");
    }
    if did.reads && !names_secret(text) {
        return Some("it reads a table that it does not name");
    }
    if did.writes {
        if !names_secret(text) {
            return Some("it writes a table that it does not name");
        }
        if !may_be(text, &[StatementKind::Write, StatementKind::Ddl]) {
            return Some("it writes, and is of another kind");
        }
        if !may_write(text, &intent) {
            return Some("it writes a table whose kept replies stay");
        }
    }
    if did.rights {
        if Change::read(text, Server::MariaDb).is_none() {
            return Some("it changes rights, and that is not noticed");
        }
        if audit::kind_of(text) != Some(AuditKind::Accounts) {
            return Some("it changes rights, and the audit log does not tell");
        }
    }
    if shows && normalise(text).contains(LITERAL) {
        return Some("its digest shows a literal");
    }
    None
}

/// Whether the literal stands in a name: the name's last byte and the quote behind it are one character.
fn is_in_name(text: &[u8], charset: &str) -> bool {
    const OPEN: &[u8] = b"`\xbf`";
    let open = text.windows(OPEN.len()).position(|bytes| bytes == OPEN);
    let rest = open.map_or(&[][..], |at| &text[at..]);
    let has_literal = rest.windows(LITERAL.len()).any(|bytes| bytes == LITERAL.as_bytes());
    matches!(charset, "gbk" | "big5") && has_literal
}

fn names_secret(text: Text<'_>) -> bool {
    let Some(parts) = parts(text) else { return true };
    parts.iter().any(|part| {
        let of = |named: NamedTables| {
            named.is_cut || named.tables.iter().any(|it| it.table.eq_ignore_ascii_case(b"secret"))
        };
        of(NamedTables::of(part)) || part.other().is_some_and(|other| of(NamedTables::of(other)))
    })
}

fn may_be(text: Text<'_>, kinds: &[StatementKind]) -> bool {
    let Some(parts) = parts(text) else { return true };
    parts.iter().any(|part| StatementKind::is_one_of(part, kinds) != Truth::No)
}

fn may_write(text: Text<'_>, intent: &Intent) -> bool {
    let links = Links::default();
    match Written::of(text, intent, Some(SCHEMA), Some(&links)) {
        Written::Nothing => false,
        Written::Everything { .. } => true,
        Written::Tables(places) => places.contains(&TablePlace::of_table(SCHEMA, b"secret")),
    }
}
