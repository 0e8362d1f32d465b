//! What a statement to the console asks for.
//!
//! Reads Flifo's own statements, and those that clients and drivers send on their own account when they connect.
//! Knows no names of tables or options: the code that carries out a command checks them.

use crate::filter::Filter;
use crate::like;
use crate::table::{Table, Value};
use crate::words::{Word, Words, Wrong, before};

/// A statement that was understood.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    Show(Show),
    /// `SELECT` of single values.
    Select(Vec<Item>),
    /// About everything, or about one thing.
    Help(Option<String>),
    /// An option and its new value.
    Set(String, String),
    /// Of the named server, or of all.
    Server(Verb, Option<String>),
    /// The named server is to be the writer, whatever it lacks.
    ConfirmWriter(String),
    Kill(Victim, u32),
    Reload,
    /// What concerns only the session of a client of the console, which has none.
    Nothing,
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

/// A table, and which of its rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Show {
    /// In upper case.
    pub what: String,
    like: Option<String>,
    filter: Option<Filter>,
    order: Vec<(String, Direction)>,
    limit: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

/// A value that is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    pub asks: Asks,
    /// The column's name.
    pub name: String,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Asks {
    /// `@@name`, in lower case.
    Variable(String),
    /// `NAME()`, in upper case.
    Function(String),
    Literal(Value),
}

/// Values asked for at once.
const ITEMS_MAX: usize = 256;

/// Reads a statement. An error says what is wrong with it.
pub fn read(text: &[u8]) -> Result<Command, String> {
    let mut words = Words::of(text)?;
    let Some(first) = words.next() else { return Ok(Command::Nothing) };
    let Word::Bare(first) = first else {
        return Err(format!("a statement begins with a word, not{}", before(Some(&first))));
    };
    let command = match first.to_ascii_uppercase().as_str() {
        "SHOW" => show(&mut words)?,
        "SELECT" => select(&mut words)?,
        "HELP" => help(&mut words)?,
        "SET" => return set(&mut words),
        "PAUSE" => server(Verb::Pause, &mut words)?,
        "RESUME" => server(Verb::Resume, &mut words)?,
        "DRAIN" => server(Verb::Drain, &mut words)?,
        "ENABLE" => server(Verb::Enable, &mut words)?,
        "DISABLE" => server(Verb::Disable, &mut words)?,
        "CONFIRM" => confirm(&mut words)?,
        "KILL" => kill(&mut words)?,
        "RELOAD" => Command::Reload,
        "USE" | "BEGIN" | "START" | "COMMIT" | "ROLLBACK" => return Ok(Command::Nothing),
        _ => return Err(format!("{first:?} is no statement of this console; HELP lists them")),
    };
    words.end()?;
    Ok(command)
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

fn show(words: &mut Words) -> Result<Command, Wrong> {
    for modifier in ["FULL", "GLOBAL", "SESSION", "EXTENDED"] {
        words.take(modifier);
    }
    let what = words.name("what to show")?.to_ascii_uppercase();
    if what == "CHARACTER" {
        words.take("SET");
    }
    // The one schema there is.
    if words.take("FROM") || words.take("IN") {
        words.name("a schema's name")?;
    }
    let mut show = Show::all_of(what);
    show.narrow(words)?;
    Ok(Command::Show(show))
}

fn select(words: &mut Words) -> Result<Command, Wrong> {
    if words.take_symbol('*') {
        if !words.take("FROM") {
            return Err(format!("FROM is missing{}", before(words.peek())));
        }
        let name = words.name("a table's name")?;
        // The schema that some clients put before it says nothing.
        let what = name.rsplit('.').next().unwrap_or_default().to_ascii_uppercase();
        let mut show = Show::all_of(what);
        show.narrow(words)?;
        return Ok(Command::Show(show));
    }
    let mut items = vec![item(words)?];
    while words.take_symbol(',') {
        if items.len() == ITEMS_MAX {
            return Err(format!("more than {ITEMS_MAX} values at once"));
        }
        items.push(item(words)?);
    }
    if words.take("FROM") && !words.take("DUAL") {
        return Err("only SELECT * FROM a table is understood here".to_owned());
    }
    if words.take("LIMIT") {
        words.number("number of rows")?;
    }
    Ok(Command::Select(items))
}

fn item(words: &mut Words) -> Result<Item, Wrong> {
    let (asks, name) = match words.next() {
        Some(Word::Variable(name)) => {
            let shown = format!("@@{name}");
            (Asks::Variable(name.to_ascii_lowercase()), shown)
        }
        Some(Word::Number(number)) => {
            let value = number.parse().map(Value::Count);
            let value = value.or_else(|_| number.parse().map(Value::Real));
            (Asks::Literal(value.map_err(|_| format!("{number} is no number"))?), number)
        }
        Some(Word::Text(text)) => (Asks::Literal(text.clone().into()), text),
        Some(Word::Bare(word)) if word.eq_ignore_ascii_case("NULL") => {
            (Asks::Literal(Value::Null), word)
        }
        Some(Word::Bare(word)) => {
            if words.take_symbol('(') && !words.take_symbol(')') {
                return Err(format!("no function takes arguments here{}", before(words.peek())));
            }
            let shown = format!("{word}()");
            (Asks::Function(word.to_ascii_uppercase()), shown)
        }
        other => return Err(format!("a value is missing{}", before(other.as_ref()))),
    };
    if words.take("AS") {
        let name = match words.next() {
            Some(Word::Bare(name) | Word::Quoted(name) | Word::Text(name)) => name,
            other => return Err(format!("a name is missing{}", before(other.as_ref()))),
        };
        return Ok(Item { asks, name });
    }
    Ok(Item { asks, name })
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
    let name = words.name("an option's name")?.to_ascii_lowercase();
    if SESSIONS.contains(&name.as_str()) || SESSIONS_BEGIN.iter().any(|it| name.starts_with(it)) {
        return Ok(Command::Nothing);
    }
    if !words.take_symbol('=') && !words.take("TO") {
        return Err(format!("'=' is missing{}", before(words.peek())));
    }
    let value = match words.next() {
        Some(Word::Bare(value) | Word::Text(value) | Word::Number(value)) => value,
        other => return Err(format!("a value is missing{}", before(other.as_ref()))),
    };
    words.end()?;
    Ok(Command::Set(name, value))
}

/// Variables that drivers set when they connect.
const SESSIONS: &[&str] =
    &["sql_mode", "time_zone", "wait_timeout", "sql_auto_is_null", "sql_select_limit", "profiling"];
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

impl Show {
    /// Every row, as the table has them.
    pub const fn all_of(what: String) -> Self {
        Self { what, like: None, filter: None, order: Vec::new(), limit: None }
    }

    fn narrow(&mut self, words: &mut Words) -> Result<(), Wrong> {
        if words.take("LIKE") {
            self.like = Some(words.text("a pattern in quotes")?);
        }
        if words.take("WHERE") {
            self.filter = Some(Filter::read(words)?);
        }
        if words.take("ORDER") {
            if !words.take("BY") {
                return Err(format!("BY is missing{}", before(words.peek())));
            }
            loop {
                let column = words.name("a column's name")?;
                let direction = if words.take("DESC") { Direction::Down } else { Direction::Up };
                words.take("ASC");
                self.order.push((column, direction));
                if !words.take_symbol(',') {
                    break;
                }
            }
        }
        if words.take("LIMIT") {
            self.limit = Some(words.number("number of rows")?);
        }
        Ok(())
    }

    /// Leaves of the table what was asked for. `LIKE` is about its first column.
    pub fn narrow_down(&self, table: &mut Table) -> Result<(), String> {
        if let Some(pattern) = &self.like {
            table.rows.retain(|row| {
                row.first().is_some_and(|value| like::matches(pattern, &value.to_string()))
            });
        }
        let unknown = |name: &str, table: &Table| {
            let names: Vec<_> = table.columns.iter().map(|column| column.name).collect();
            format!("Unknown column '{name}'; there are {}", names.join(", "))
        };
        if let Some(filter) = &self.filter {
            filter.apply(table).map_err(|name| unknown(&name, table))?;
        }
        // The sort keeps the order of equals: by the last column first.
        for (name, direction) in self.order.iter().rev() {
            let at = table.column(name).ok_or_else(|| unknown(name, table))?;
            table.rows.sort_by(|one, two| {
                let nothing = (two[at] == Value::Null).cmp(&(one[at] == Value::Null));
                let order = one[at].compare(&two[at]).unwrap_or(nothing);
                if *direction == Direction::Down { order.reverse() } else { order }
            });
        }
        if let Some(limit) = self.limit {
            table.rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::table::{count, text};

    fn narrowed(statement: &str) -> String {
        let mut table = Table::new(const { &[text("name"), count("clients")] });
        for (name, clients) in [("ab", Some(3_u64)), ("b", Some(20)), ("ac", None), ("d", Some(3))]
        {
            table.add([name.into(), clients.into()]);
        }
        let Ok(Command::Show(show)) = read(statement.as_bytes()) else { panic!("{statement}") };
        match show.narrow_down(&mut table) {
            Ok(()) => {
                let names: Vec<_> = table.rows.iter().map(|row| row[0].to_string()).collect();
                format!("{}: {}", show.what, names.join(" "))
            }
            Err(error) => error,
        }
    }

    #[test]
    fn tables_are_narrowed_down() {
        assert_eq!(narrowed("show servers"), "SERVERS: ab b ac d");
        assert_eq!(narrowed("show full servers like 'A%';"), "SERVERS: ab ac");
        assert_eq!(narrowed("select * from main.x where clients > 3"), "X: b");
        assert_eq!(narrowed("show x order by clients desc, name"), "X: b ab d ac");
        assert_eq!(narrowed("show x order by name desc limit 2"), "X: d b");
        assert_eq!(
            narrowed("show x where size = 1"),
            "Unknown column 'size'; there are name, clients"
        );
    }

    #[test]
    fn statements_are_understood() {
        let is = |text: &str, want: Command| assert_eq!(read(text.as_bytes()), Ok(want), "{text}");
        is("pause", Command::Server(Verb::Pause, None));
        is("DRAIN SERVER db1.local", Command::Server(Verb::Drain, Some("db1.local".into())));
        is("confirm writer db2", Command::ConfirmWriter("db2".into()));
        is("kill 1073741824", Command::Kill(Victim::Client, 1 << 30));
        is("kill query 7;", Command::Kill(Victim::Statement, 7));
        is("set server.limit = 8", Command::Set("server.limit".into(), "8".into()));
        is("set limits.wait = '5s'", Command::Set("limits.wait".into(), "5s".into()));
        is("help show", Command::Help(Some("SHOW".into())));
        is("help 'show'", Command::Help(Some("SHOW".into())));
        is("reload", Command::Reload);
        is("", Command::Nothing);
    }

    #[test]
    fn what_drivers_send_is_understood() {
        for text in [
            "SET NAMES utf8mb4",
            "SET character_set_results = NULL",
            "SET autocommit=1",
            "set session transaction isolation level read committed",
            "SET sql_mode='STRICT_TRANS_TABLES'",
            "USE main",
            "/* app */ COMMIT",
        ] {
            assert_eq!(read(text.as_bytes()), Ok(Command::Nothing), "{text}");
        }
        let text = "/* conn */SELECT  @@session.auto_increment_increment AS x, DATABASE(), 1";
        let Ok(Command::Select(items)) = read(text.as_bytes()) else { panic!("{text}") };
        let asks: Vec<_> = items.iter().map(|item| (&item.asks, item.name.as_str())).collect();
        let want = [
            (&Asks::Variable("auto_increment_increment".into()), "x"),
            (&Asks::Function("DATABASE".into()), "DATABASE()"),
            (&Asks::Literal(Value::Count(1)), "1"),
        ];
        assert_eq!(asks, want);
        assert!(read(b"select @@version_comment limit 1").is_ok());
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
            "select a from b",
            "pause 'x'",
            "1",
        ] {
            let error = read(text.as_bytes()).unwrap_err();
            assert!(!error.is_empty(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
        }

        #[test]
        fn no_order_of_words_makes_it_panic(
            words in prop::collection::vec(
                prop::sample::select(&[
                    "SHOW", "SELECT", "*", "FROM", "x", "LIKE", "'%'", "WHERE", "(", ")", "AND",
                    "NOT", "ORDER", "BY", "LIMIT", "1", "-", "=", "<", "IN", ",", "SET", "KILL",
                ][..]),
                0..30,
            )
        ) {
            if let Ok(Command::Show(show)) = read(words.join(" ").as_bytes()) {
                let mut table = Table::new(const { &[text("x")] });
                table.add(["a".into()]);
                let _ = show.narrow_down(&mut table);
            }
        }
    }
}
