//! What a statement to the console asks for.
//!
//! Reads Flifo's own statements, and those that clients and drivers send on their own account when they connect.
//! Knows no names of tables or options: the code that carries out a command checks them.

use wire::lex::{Dialect, Lexer, Token};

use crate::sql::{Query, SqlError, is_query};
use crate::words::{Word, Words, Wrong, before};

/// A statement that was understood.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// `SELECT`, `SHOW` or `DESCRIBE`.
    Query(Query),
    /// About everything, or about one thing.
    Help(Option<String>),
    /// An option and its new value; without one, what it would be had none been set.
    Set(String, Option<String>),
    /// Of the named server, or of all.
    Server(Verb, Option<String>),
    /// The named server is to be the writer, whatever it lacks.
    ConfirmWriter(String),
    Kill(Victim, u32),
    Reload,
    /// Another Flifo takes over.
    Upgrade,
    /// What is counted begins at zero again: what this table shows, or all.
    Reset(Option<String>),
    /// Replies that are kept end: those to texts that are like this, or all.
    FlushCache(Option<String>),
    /// What a statement would be to each rule.
    ExplainRules(RulesAsked),
    /// The schema whose tables are meant where none is named.
    Use(String),
    /// What concerns only the session of a client of the console, which has none.
    Nothing,
}

/// A statement that rules are asked about, and the session that it would come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RulesAsked {
    pub text: String,
    pub user: String,
    pub schema: Option<String>,
    pub address: Option<String>,
    pub listener: Option<String>,
    pub program: Option<String>,
    /// Where it would go if no rule sent it.
    pub cluster: Option<String>,
    pub role: Option<String>,
    /// The label at which earlier statements have had rules begin.
    pub label: Option<String>,
    pub in_transaction: bool,
}

/// What may be done to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Pause,
    Resume,
    Drain,
    Enable,
    Disable,
}

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    Client,
    Statement,
}

/// Reads a statement. An error says what is wrong with it.
pub fn read(text: &[u8]) -> Result<Command, SqlError> {
    let mut words = Lexer::new(text, Dialect::default());
    match words.next() {
        None => Ok(Command::Nothing),
        Some(first)
            if first.is_word("EXPLAIN") && words.next().is_some_and(|it| it.is_word("RULES")) =>
        {
            explain_rules(text).map_err(SqlError::syntax)
        }
        Some(Token::Word(first)) if is_query(first) => {
            Query::read(&String::from_utf8_lossy(text)).map(Command::Query)
        }
        Some(_) => order(text).map_err(SqlError::syntax),
    }
}

/// What is no question.
fn order(text: &[u8]) -> Result<Command, Wrong> {
    let mut words = Words::of(text)?;
    let Some(first) = words.next() else { return Ok(Command::Nothing) };
    let Word::Bare(first) = first else {
        return Err(format!("a statement begins with a word, not{}", before(Some(&first))));
    };
    let command = match first.to_ascii_uppercase().as_str() {
        "HELP" => help(&mut words)?,
        "SET" => return set(&mut words),
        "PAUSE" => server(Verb::Pause, &mut words)?,
        "RESUME" => server(Verb::Resume, &mut words)?,
        "DRAIN" => server(Verb::Drain, &mut words)?,
        "ENABLE" => server(Verb::Enable, &mut words)?,
        "DISABLE" => server(Verb::Disable, &mut words)?,
        "CONFIRM" => confirm(&mut words)?,
        "KILL" => kill(&mut words)?,
        "RESET" => reset(&mut words)?,
        "FLUSH" if words.take("CACHE") => match words.take("LIKE") {
            true => Command::FlushCache(Some(words.text("a pattern in quotes")?)),
            false => Command::FlushCache(None),
        },
        "RELOAD" => Command::Reload,
        "UPGRADE" => Command::Upgrade,
        "USE" => Command::Use(words.name("a schema's name")?),
        "BEGIN" | "START" | "COMMIT" | "ROLLBACK" => return Ok(Command::Nothing),
        _ => return Err(format!("{first:?} is no statement of this console; HELP lists them")),
    };
    words.end()?;
    Ok(command)
}

/// `EXPLAIN RULES FOR 'text' [USER 'u'] [SCHEMA 's'] [ADDRESS 'a'] [LISTENER 'l'] [PROGRAM 'p'] [CLUSTER 'c']
/// [ROLE 'r'] [LABEL 'l'] [IN TRANSACTION]`
fn explain_rules(text: &[u8]) -> Result<Command, Wrong> {
    let mut words = Words::of(text)?;
    let mut asked = RulesAsked::default();
    if !(words.take("EXPLAIN") && words.take("RULES") && words.take("FOR")) {
        return Err(format!("FOR is missing{}", before(words.peek())));
    }
    asked.text = words.text("a statement in quotes")?;
    loop {
        if words.take("USER") {
            asked.user = words.text("a user's name in quotes")?;
        } else if words.take("SCHEMA") {
            asked.schema = Some(words.text("a schema's name in quotes")?);
        } else if words.take("ADDRESS") {
            asked.address = Some(words.text("an address in quotes")?);
        } else if words.take("LISTENER") {
            asked.listener = Some(words.text("an address in quotes")?);
        } else if words.take("PROGRAM") {
            asked.program = Some(words.text("a program's name in quotes")?);
        } else if words.take("CLUSTER") {
            asked.cluster = Some(words.text("a cluster's name in quotes")?);
        } else if words.take("ROLE") {
            asked.role = Some(words.text("a role in quotes")?);
        } else if words.take("LABEL") {
            asked.label = Some(words.text("a label in quotes")?);
        } else if words.take("IN") && words.take("TRANSACTION") {
            asked.in_transaction = true;
        } else {
            break;
        }
    }
    words.end()?;
    Ok(Command::ExplainRules(asked))
}

fn reset(words: &mut Words) -> Result<Command, Wrong> {
    if words.peek().is_none() {
        return Ok(Command::Reset(None));
    }
    Ok(Command::Reset(Some(words.name("what is to begin at zero")?.to_ascii_lowercase())))
}

fn confirm(words: &mut Words) -> Result<Command, Wrong> {
    if !words.take("WRITER") {
        return Err(format!("WRITER is missing{}", before(words.peek())));
    }
    Ok(Command::ConfirmWriter(words.name("a server's name")?))
}

fn help(words: &mut Words) -> Result<Command, Wrong> {
    let about = match words.peek() {
        None => return Ok(Command::Help(None)),
        // The mariadb client puts quotes around it.
        Some(Word::Text(_)) => words.text("what help is about")?,
        Some(_) => words.name("what help is about")?,
    };
    Ok(Command::Help(Some(about.to_ascii_uppercase())))
}

/// `SET` of what only a session has is none of the console's business: drivers send it unasked.
fn set(words: &mut Words) -> Result<Command, Wrong> {
    let is_sessions = |words: &mut Words| {
        matches!(words.peek(), Some(Word::Variable(_)))
            || ["NAMES", "CHARACTER", "CHARSET", "SESSION", "TRANSACTION", "LOCAL", "AUTOCOMMIT"]
                .iter()
                .any(|word| words.take(word))
    };
    if is_sessions(words) {
        return Ok(Command::Nothing);
    }
    words.take("GLOBAL");
    let name = words.name("an option's name")?;
    let lower = name.to_ascii_lowercase();
    if SESSIONS.contains(&lower.as_str()) || SESSIONS_BEGIN.iter().any(|it| lower.starts_with(it)) {
        return Ok(Command::Nothing);
    }
    if !words.take_symbol('=') && !words.take("TO") {
        return Err(format!("'=' is missing{}", before(words.peek())));
    }
    let value = match words.next() {
        Some(Word::Bare(value)) if value.eq_ignore_ascii_case("DEFAULT") => None,
        Some(Word::Bare(value) | Word::Text(value) | Word::Number(value)) => Some(value),
        other => return Err(format!("a value is missing{}", before(other.as_ref()))),
    };
    words.end()?;
    Ok(Command::Set(name, value))
}

/// Variables that drivers set when they connect.
const SESSIONS: &[&str] = &[
    "foreign_key_checks",
    "group_concat_max_len",
    "lc_messages",
    "lc_time_names",
    "max_execution_time",
    "max_statement_time",
    "profiling",
    "sql_auto_is_null",
    "sql_mode",
    "sql_notes",
    "sql_quote_show_create",
    "sql_safe_updates",
    "sql_select_limit",
    "time_zone",
    "unique_checks",
    "wait_timeout",
];
const SESSIONS_BEGIN: &[&str] = &["character_set_", "collation_", "net_", "tx_", "transaction_"];

fn server(verb: Verb, words: &mut Words) -> Result<Command, Wrong> {
    words.take("SERVER");
    let name = words.peek().is_some().then(|| words.name("a server's name")).transpose()?;
    Ok(Command::Server(verb, name))
}

fn kill(words: &mut Words) -> Result<Command, Wrong> {
    let mut victim = Victim::Client;
    if words.take("QUERY") || words.take("STATEMENT") {
        victim = Victim::Statement;
    } else if !words.take("CLIENT") {
        words.take("CONNECTION");
    }
    let id = words.number("client's id")?;
    let id = u32::try_from(id).map_err(|_| format!("{id} is no client's id"))?;
    Ok(Command::Kill(victim, id))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn statements_are_understood() {
        let is = |text: &str, want: Command| assert_eq!(read(text.as_bytes()), Ok(want), "{text}");
        is("pause", Command::Server(Verb::Pause, None));
        is("DRAIN SERVER db1.local", Command::Server(Verb::Drain, Some("db1.local".into())));
        is("confirm writer db2", Command::ConfirmWriter("db2".into()));
        is(
            "explain rules for 'SELECT \"a\"' user 'app' schema 's' address '::1' listener '%:1' program 'p' \
             cluster 'c' role 'reader' label 'x' in transaction",
            Command::ExplainRules(RulesAsked {
                text: "SELECT \"a\"".into(),
                user: "app".into(),
                schema: Some("s".into()),
                address: Some("::1".into()),
                listener: Some("%:1".into()),
                program: Some("p".into()),
                cluster: Some("c".into()),
                role: Some("reader".into()),
                label: Some("x".into()),
                in_transaction: true,
            }),
        );
        is("kill 1073741824", Command::Kill(Victim::Client, 1 << 30));
        is("kill query 7;", Command::Kill(Victim::Statement, 7));
        is("set server.limit = 8", Command::Set("server.limit".into(), Some("8".into())));
        is("set limits.wait = '5s'", Command::Set("limits.wait".into(), Some("5s".into())));
        is("set limits.wait = 5s", Command::Set("limits.wait".into(), Some("5s".into())));
        is("set limits.wait = default", Command::Set("limits.wait".into(), None));
        is(
            "set limits.wait = 'default'",
            Command::Set("limits.wait".into(), Some("default".into())),
        );
        let list = Some("['a', 'b']".to_owned());
        is("set listen = \"['a', 'b']\"", Command::Set("listen".into(), list));
        is("help show", Command::Help(Some("SHOW".into())));
        is("help 'show'", Command::Help(Some("SHOW".into())));
        is("reload", Command::Reload);
        is("Upgrade;", Command::Upgrade);
        is("reset", Command::Reset(None));
        is("FLUSH CACHE", Command::FlushCache(None));
        is("flush cache like '%from t%'", Command::FlushCache(Some("%from t%".into())));
        is("RESET Digests", Command::Reset(Some("digests".into())));
        is("use `main`", Command::Use("main".into()));
        is("", Command::Nothing);
        assert!(matches!(read(b" /* x */ select 1"), Ok(Command::Query(_))));
    }

    #[test]
    fn what_drivers_send_is_understood() {
        for text in [
            "SET NAMES utf8mb4",
            "SET NAMES 'utf8mb4' COLLATE 'utf8mb4_general_ci'",
            "SET character_set_results = NULL",
            "SET autocommit=1",
            "set session transaction isolation level read committed",
            "SET sql_mode='STRICT_TRANS_TABLES'",
            "SET lc_messages = 'en_US'",
            "SET SQL_SAFE_UPDATES=0",
            "/* app */ COMMIT",
        ] {
            assert_eq!(read(text.as_bytes()), Ok(Command::Nothing), "{text}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_with_a_reason() {
        for text in [
            "confirm db2",
            "confirm writer",
            "drop table x",
            "show",
            "kill x",
            "set x",
            "use",
            "select a from",
            "pause 'x'",
            "1",
        ] {
            let error = read(text.as_bytes()).unwrap_err();
            assert!(error.code == 1064 && !error.message.is_empty(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
        }
    }
}
