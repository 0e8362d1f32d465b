//! The slow log's form: that of MariaDB's own, as `pt-query-digest` and `mysqldumpslow` read it.
//!
//! Owns one entry: five lines that begin with `#`, then the schema, the time and the statement. Each attribute of
//! Flifo's own stands at the end of a line, where both programs expect more of them. Invariants: no statement, and no
//! name, can be taken for the beginning of another entry. An attribute has values of one kind in all entries: the first
//! program takes one for a number if the first value that it meets is one, and gives up on a hundred that are none.

use std::fmt::Write;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use crate::calendar;
use crate::logged::{Literals, LogEntry, LoggedText, word};

/// A statement that has ended.
#[derive(Clone, Debug)]
pub struct SlowEntry {
    pub client: u32,
    pub user: String,
    /// `None`: by a Unix socket.
    pub address: Option<IpAddr>,
    pub schema: Option<String>,
    pub parts: Parts,
    pub rows: u64,
    pub affected: u64,
    /// The number of the error that it has ended in, if it has.
    pub error: Option<u16>,
    pub backend: SlowBackend,
    /// How many clients have got the reply to its run: a part of the server's time is its own.
    pub sharers: u32,
    pub why: Why,
    pub text: LoggedText,
    pub literals: Literals,
}

/// Where a statement's time went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// It waited for a slot and a backend connection.
    pub queued: Duration,
    /// Its backend connection was told or asked something first.
    pub setup: Duration,
    /// From its writing to the server to the end of the reply.
    pub server: Duration,
    /// The client took the end of the reply.
    pub writing: Duration,
}

/// The connection that a statement ran on.
#[derive(Clone, Debug, Default)]
pub struct SlowBackend {
    pub server: String,
    /// The server's number of it; `None`: the statement has not reached a server.
    pub id: Option<u32>,
}

/// Why a statement is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    Slow,
    /// It is one of so many, whatever time it has taken.
    Sampled,
    /// A rule says so.
    Ruled,
}

impl Parts {
    pub fn sum(&self) -> Duration {
        self.queued + self.setup + self.server + self.writing
    }
}

impl LogEntry for SlowEntry {
    const BREAK: &'static str = ";\n";

    fn size(&self) -> usize {
        let schema = self.schema.as_ref().map_or(0, String::len);
        self.user.len() + schema + self.backend.server.len() + self.text.size()
    }

    fn put(&self, at: SystemTime, lost: u64, out: &mut String) {
        let Self { client, parts, rows, affected, .. } = self;
        let seconds = |time: Duration| format!("{:.6}", time.as_secs_f64());
        let user = name(&self.user);
        let (host, address) = match self.address {
            Some(address) => (address.to_string(), address.to_string()),
            None => ("localhost".to_owned(), String::new()),
        };
        let schema = self.schema.as_deref().map(name);
        // A string takes everything.
        let _ = writeln!(
            out,
            "# Time: {}\n\
             # User@Host: {user}[{user}] @ {host} [{address}]\n\
             # Thread_id: {client}  Schema: {}  QC_hit: No\n\
             # Query_time: {}  Lock_time: 0.000000  Rows_sent: {rows}  Rows_examined: 0\n\
             # Rows_affected: {affected}  Queued_time: {}  Setup_time: {}  Server_time: {}  Writing_time: {}  \
             Server: {}{}  Last_errno: {}  Sampled: {}{}{}",
            calendar::short(at),
            schema.as_deref().unwrap_or_default(),
            seconds(parts.sum()),
            seconds(parts.queued),
            seconds(parts.setup),
            seconds(parts.server),
            seconds(parts.writing),
            name(&self.backend.server),
            self.backend.id.map_or_else(String::new, |id| format!("  Backend_id: {id}")),
            self.error.unwrap_or_default(),
            if self.why == Why::Sampled { "Yes" } else { "No" },
            match self.sharers {
                0 | 1 => String::new(),
                sharers => format!("  Shared_by: {sharers}"),
            },
            if lost > 0 { format!("  Lost_before: {lost}") } else { String::new() },
        );
        if let Some(schema) = self.schema.as_deref().map(word) {
            let is_plain = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '$');
            let _ = match schema.chars().all(is_plain) && !is_value(&schema) {
                true => writeln!(out, "use {schema};"),
                false => writeln!(out, "use `{}`;", schema.replace('`', "``")),
            };
        }
        let began = calendar::since_1970(at).saturating_sub(parts.sum());
        let _ = writeln!(out, "SET timestamp={};", began.as_secs());
        put_statement(&self.text, self.literals, out);
    }
}

/// A name as a word. What could be read as a value of another kind, or as the beginning of an attribute, is not.
fn name(name: &str) -> String {
    let mut name = word(name);
    if name.ends_with(':') {
        name.pop();
        name.push('?');
    }
    if is_value(&name) { format!("'{name}'") } else { name }
}

/// Whether it is a number, or what attributes have that are true or false.
fn is_value(word: &str) -> bool {
    let is_numeric = |letter: char| letter.is_ascii_digit() || "+-.eE".contains(letter);
    let is_number =
        || word.chars().all(is_numeric) && word.contains(|it: char| it.is_ascii_digit());
    matches!(word, "Yes" | "No") || is_number()
}

/// How lines begin that the programs take for a log's own. The last ones stand in a log's title, which a server writes
/// when it starts, and which is dropped wherever it stands, with what is around it.
const LOG_LINES: [&str; 8] = ["#", "use ", "SET ", "Time", "Tcp", "TCP", "TCp", "TcP"];

/// A line that begins as those of a log do is moved to the right, which means the same to a server.
fn put_statement(text: &LoggedText, literals: Literals, out: &mut String) {
    let shown = text.show(literals);
    let is_log = |line: &str| {
        let is_title = line.starts_with(|it: char| it == '/' || it.is_ascii_uppercase());
        LOG_LINES.iter().any(|it| line.starts_with(it)) || is_title && line.contains("Version")
    };
    for (at, line) in shown.split('\n').enumerate() {
        if at > 0 {
            out.push('\n');
        }
        if is_log(line) {
            out.push(' ');
        }
        out.push_str(line);
    }
    if shown.is_empty() {
        out.push_str("/* nothing */");
    }
    out.push_str(";\n");
}

/// Whether the statement with this number is one of `of`, as if by chance: applications repeat themselves.
pub const fn is_sampled(number: u64, of: u32) -> bool {
    // The last steps of SplitMix64, whose every input bit changes half of its output.
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    of != 0 && mixed.is_multiple_of(of as u64)
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use wire::lex::Dialect;
    use wire::text::Lexed;

    fn entry(text: &str) -> SlowEntry {
        let text = LoggedText::new(Lexed::default().text(text.as_bytes(), Dialect::default()));
        let millis = Duration::from_millis;
        SlowEntry {
            client: 1_073_741_830,
            user: "ann".to_owned(),
            address: Some([10, 0, 0, 7].into()),
            schema: Some("shop".to_owned()),
            parts: Parts {
                queued: millis(500),
                setup: millis(1),
                server: millis(2000),
                writing: millis(20),
            },
            rows: 3,
            affected: 0,
            error: None,
            backend: SlowBackend { server: "db1".to_owned(), id: Some(77) },
            sharers: 1,
            why: Why::Slow,
            text,
            literals: Literals::Show,
        }
    }

    fn put(entry: &SlowEntry, lost: u64) -> String {
        let mut out = String::new();
        entry.put(UNIX_EPOCH + Duration::from_millis(1_795_716_402_521), lost, &mut out);
        out
    }

    #[test]
    fn an_entry_is_one_of_mariadb_with_more_attributes() {
        assert_eq!(
            put(&entry("SELECT SLEEP(2)"), 0),
            "# Time: 261126 18:06:42.521000\n\
             # User@Host: ann[ann] @ 10.0.0.7 [10.0.0.7]\n\
             # Thread_id: 1073741830  Schema: shop  QC_hit: No\n\
             # Query_time: 2.521000  Lock_time: 0.000000  Rows_sent: 3  Rows_examined: 0\n\
             # Rows_affected: 0  Queued_time: 0.500000  Setup_time: 0.001000  Server_time: 2.000000  \
             Writing_time: 0.020000  Server: db1  Backend_id: 77  Last_errno: 0  Sampled: No\n\
             use shop;\n\
             SET timestamp=1795716400;\n\
             SELECT SLEEP(2);\n"
        );
        let shared = SlowEntry { sharers: 512, ..entry("SELECT SLEEP(2)") };
        assert!(put(&shared, 0).contains("Sampled: No  Shared_by: 512\n"));
        let odd = SlowEntry {
            user: String::new(),
            address: None,
            schema: None,
            error: Some(1317),
            backend: SlowBackend { server: "db1".to_owned(), id: None },
            why: Why::Sampled,
            text: LoggedText::Command("Execute"),
            ..entry("")
        };
        let shown = put(&odd, 12);
        for line in [
            "# User@Host: <none>[<none>] @ localhost []\n",
            "# Thread_id: 1073741830  Schema:   QC_hit: No\n",
            "Server: db1  Last_errno: 1317  Sampled: Yes  Lost_before: 12\n\
             SET timestamp=1795716400;\nadministrator command: Execute;\n",
        ] {
            assert!(shown.contains(line), "{shown}");
        }
    }

    #[test]
    fn an_attribute_has_values_of_one_kind() {
        for (name, shown, used) in [
            ("123", "'123'", "`123`"),
            ("1.5", "'1.5'", "`1.5`"),
            ("+7.e-3", "'+7.e-3'", "`+7.e-3`"),
            ("Yes", "'Yes'", "`Yes`"),
            ("1st", "1st", "1st"),
            ("e", "e", "e"),
            ("Query_time:", "Query_time?", "`Query_time:`"),
        ] {
            let entry = SlowEntry {
                user: name.to_owned(),
                schema: Some(name.to_owned()),
                backend: SlowBackend { server: name.to_owned(), id: None },
                ..entry("SELECT 1")
            };
            let entry = put(&entry, 0);
            for part in [
                format!("User@Host: {shown}[{shown}] @"),
                format!("  Schema: {shown}  QC_hit"),
                format!("  Server: {shown}  Last_errno: 0"),
                format!("\nuse {used};\n"),
            ] {
                assert!(entry.contains(&part), "{part}: {entry}");
            }
        }
    }

    #[test]
    fn no_text_begins_another_entry() {
        for (text, shown) in [
            ("SELECT 1;\n# Time: 1", "SELECT 1;\n # Time: 1;\n"),
            ("# User@Host: root[root]\nSELECT 1", " # User@Host: root[root]\nSELECT 1;\n"),
            ("use other", " use other;\n"),
            ("SET timestamp=7;\nSELECT 1", " SET timestamp=7;\nSELECT 1;\n"),
            ("Time Id Command\nTcp port: 1", " Time Id Command\n Tcp port: 1;\n"),
            ("/* Version 1 */ SELECT 1", " /* Version 1 */ SELECT 1;\n"),
            ("SELECT 1;;\n", "SELECT 1;\n"),
            (";", "/* nothing */;\n"),
        ] {
            let entry = put(&entry(text), 0);
            let (_, statement) =
                entry.split_once("SET timestamp=1795716400;\n").expect("it is there");
            assert_eq!(statement, shown);
            assert_eq!(entry.matches(";\n#").count(), 0, "{entry}");
        }
        let hostile = SlowEntry {
            user: "x\n# Time: 1".to_owned(),
            schema: Some("a;\n# b".to_owned()),
            ..entry("SELECT 1")
        };
        let entry = put(&hostile, 0);
        assert!(entry.contains("User@Host: x?#?Time:?1[x?#?Time:?1] @"), "{entry}");
        assert!(entry.contains("\nuse `a??#?b`;\n"), "{entry}");
        assert_eq!(entry.matches("# Time").count(), 1, "{entry}");
    }

    #[test]
    fn one_of_so_many_is_taken_without_a_rhythm() {
        for of in [1, 2, 7, 100] {
            for (rhythm, first) in [(1, 0), (4, 0), (4, 3), (100, 5)] {
                let numbers = (0..100_000).map(|at| at * rhythm + first);
                let taken = numbers.filter(|number| is_sampled(*number, of)).count() as f64;
                let share = taken * f64::from(of) / 100_000.0;
                assert!((0.9..1.1).contains(&share), "{of} {rhythm} {first}: {share}");
            }
        }
        assert!(!is_sampled(0, 0) && !is_sampled(7, 0));
    }
}
