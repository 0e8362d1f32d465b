//! Slow logs, and what the programs that are made for slow logs count in them.
//!
//! Owns random entries of every form, and the reading of what the programs print; statements that a real Flifo writes down
//! are [`served`]'s. Each statement has a mark by which it is known again: what a program makes of the rest is its own.

pub mod served;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use view::logged::{Literals, LogEntry, LoggedText};
use view::slow::{Parts, SlowBackend, SlowEntry, Why};
use wire::lex::Dialect;
use wire::text::Lexed;

use crate::differ::generate::Random;

/// What is in a log, or what a program says is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    pub entries: u64,
    /// By mark.
    pub marked: BTreeMap<String, u64>,
    /// Rows that were sent.
    pub rows: u64,
}

impl Counted {
    /// What another count has otherwise: each mark with both counts.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let names = self.marked.keys().chain(other.marked.keys());
        let mut found: Vec<_> = names
            .filter(|name| self.marked.get(*name) != other.marked.get(*name))
            .map(|name| {
                format!("{name}: {:?}, not {:?}", other.marked.get(name), self.marked.get(name))
            })
            .collect();
        found.dedup();
        if self.entries != other.entries {
            found.push(format!("entries: {}, not {}", other.entries, self.entries));
        }
        found
    }
}

/// The kinds of statements in a slow log, as `pt-query-digest` reads it.
///
/// # Panics
/// If it says that there is something that it cannot read.
pub fn classes(path: &Path) -> Vec<Value> {
    let mut command = Command::new("pt-query-digest");
    command
        .args([
            "--no-version-check",
            "--limit",
            "100%",
            "--output",
            "json",
            "--progress",
            "time,86400",
        ])
        .arg(path);
    let done = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let beside = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && beside.is_empty(), "{}: {beside}", done.status);
    let read: Value = serde_json::from_slice(&done.stdout).expect("is JSON");
    read["classes"].as_array().expect("classes").clone()
}

/// What `mysqldumpslow` says of a slow log.
///
/// # Panics
/// If it fails, or says that there is something that it cannot read.
pub fn dump(path: &Path) -> String {
    let mut command = match dumpslow() {
        Some(path) => {
            let mut command = Command::new("perl");
            command.arg(path);
            command
        }
        None => Command::new("mariadb-dumpslow"),
    };
    let done = command.arg(path).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(done.status.success(), "{command:?}: {done:?}");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// The program, where it was unpacked for tests.
fn dumpslow() -> Option<PathBuf> {
    let own = std::env::current_exe().expect("a program");
    let unpacked = own.ancestors().map(|folder| folder.join("tools/bin/mariadb-dumpslow"));
    unpacked.into_iter().find(|path| path.exists())
}

/// What `pt-query-digest` counts. It counts no rows of what is no statement.
///
/// # Panics
/// If it does not read to the end.
pub fn digested(path: &Path) -> Counted {
    let mut counted = Counted::default();
    for class in classes(path) {
        let count = class["query_count"].as_u64().expect("a number");
        let sum = class["metrics"]["Rows_sent"]["sum"].as_str().unwrap_or("0");
        counted.rows += sum.parse::<f64>().expect("a sum") as u64;
        counted.add(class["fingerprint"].as_str().expect("a text"), count);
    }
    counted
}

/// What `mysqldumpslow` counts.
///
/// # Panics
/// If it does not read to the end.
pub fn dumped(path: &Path) -> Counted {
    let (text, mut counted) = (dump(path), Counted::default());
    for part in text.split("\nCount: ").chain(text.strip_prefix("Count: ")).skip(1) {
        let count = part.split(' ').next().and_then(|it| it.parse::<u64>().ok());
        let rows = part.split("Rows_sent=").nth(1).and_then(|it| it.split(['(', ')']).nth(1));
        counted.rows += rows.and_then(|it| it.parse::<u64>().ok()).expect("a sum");
        counted.add(part, count.expect("a number"));
    }
    counted
}

impl Counted {
    fn add(&mut self, text: &str, count: u64) {
        self.entries += count;
        let is_letter = |letter: &char| letter.is_ascii_lowercase();
        if let Some((_, behind)) = text.split_once("mark") {
            let name: String = behind.chars().take_while(is_letter).collect();
            *self.marked.entry(name).or_default() += count;
        }
    }
}

/// Random entries of every form, as a log; what is in it, and how many rows those of no statement have sent.
pub fn random(entries: u64, seed: u64) -> (String, Counted, u64) {
    let mut random = Random::new(seed);
    let (mut log, mut counted, mut of_commands) = (String::new(), Counted::default(), 0);
    for at in 0..entries {
        let which = random.below(TEXTS.len());
        let letter = (b'a'..=b'z').map(char::from).nth(which).expect("fewer texts than letters");
        let mark = format!("mark{letter}");
        let entry = entry(&mut random, &TEXTS[which].replace("{}", &mark));
        if matches!(&entry.text, LoggedText::Statement { len, .. } if *len > 0) {
            *counted.marked.entry(letter.to_string()).or_default() += 1;
        }
        counted.entries += 1;
        counted.rows += entry.rows;
        if matches!(entry.text, LoggedText::Command(_)) {
            of_commands += entry.rows;
        }
        let lost = if random.once_in(50) { random.number() % 100 + 1 } else { 0 };
        let when = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_716_402 + at);
        entry.put(when, lost, &mut log);
    }
    (log, counted, of_commands)
}

/// Names that something else could be taken for. The last one is none.
const NAMES: [&str; 20] = [
    "app",
    "shop",
    "db1",
    "123",
    "0",
    "7.5",
    "1.",
    "+1.5E3",
    "-3",
    "Yes",
    "No",
    "a b",
    "x;",
    "Query_time:",
    "cmd:",
    "a-b",
    "\n# Time: 1",
    "ä€",
    "[x]@y",
    "",
];

/// Statements, each with a mark in the place of `{}` by which it is known.
const TEXTS: [&str; 16] = [
    "SELECT {} FROM t WHERE a = 7 AND b = 'x'",
    "INSERT INTO {} VALUES (1, 'a'), (2, 'b')",
    "CALL {}(1)",
    "SELECT {};\n# Time: 261126 18:06:42\n# User@Host: root[root] @ x []",
    "SELECT {};\nSELECT 2 FROM t",
    "# {}\nSELECT {}",
    "use {}",
    "SET timestamp=7; SELECT {}",
    "SET insert_id=7;\nSELECT {}",
    "Time Id Command\nSELECT {}",
    "Tcp port: 1  Unix socket: x\nSELECT {}",
    "/usr/sbin/mysqld, Version: 1 started with:\nTime Id Command Argument\nSELECT {}",
    "SELECT {} FROM t WHERE a = 'it''s \\' open",
    "SELECT `{} x`, \"7\u{7}\", 'ä€\u{fffd}'",
    "{}: 7",
    "SELECT {} /* 7 */ -- x",
];

fn name(random: &mut Random) -> String {
    NAMES[random.below(NAMES.len())].to_owned()
}

fn moment(random: &mut Random) -> Duration {
    match random.below(4) {
        0 => Duration::ZERO,
        1 => Duration::from_micros(random.number() % 1_000_000),
        _ => Duration::from_micros(random.number() % 100_000_000_000),
    }
}

/// An entry, whose statement has `mark`.
fn entry(random: &mut Random, text: &str) -> SlowEntry {
    let text = match random.below(16) {
        0 => LoggedText::Command(["Execute", "Query", "Prepare"][random.below(3)]),
        1 => LoggedText::new(Lexed::default().text(b"", Dialect::default())),
        _ => LoggedText::new(Lexed::default().text(text.as_bytes(), Dialect::default())),
    };
    let backend = SlowBackend {
        server: name(random),
        id: (!random.once_in(3)).then(|| random.number() as u32),
    };
    SlowEntry {
        client: random.number() as u32,
        user: name(random),
        address: [None, Some([10, 0, 0, 7].into()), Some("::1".parse().expect("an address"))]
            [random.below(3)],
        schema: random.once_in(2).then(|| name(random)),
        parts: Parts {
            queued: moment(random),
            setup: moment(random),
            server: moment(random),
            writing: moment(random),
        },
        rows: random.number() % 1000,
        affected: random.number() % 1000,
        error: random.once_in(3).then(|| random.number() as u16),
        backend,
        sharers: random.below(3) as u32,
        why: [Why::Slow, Why::Sampled, Why::Ruled][random.below(3)],
        text,
        literals: [Literals::Show, Literals::Hide][random.below(2)],
    }
}
