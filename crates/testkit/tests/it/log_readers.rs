//! A slow log of random entries of every kind, read by the programs that are made for slow logs: each entry is counted,
//! under its own statement, and nothing is said of entries that cannot be read.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, SystemTime};

use testkit::differ::generate::Random;
use view::logged::{Literals, LogEntry, LoggedText};
use view::slow::{Parts, SlowBackend, SlowEntry, Why};
use wire::lex::Dialect;
use wire::text::Lexed;

use crate::log_entries::{classes, dump};

/// More than the hundred after which the first program gives up.
const ENTRIES: usize = 2000;

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

#[test]
fn random_entries_are_all_counted_by_the_programs_for_slow_logs() {
    let mut random = Random::new(18);
    let mut log = String::new();
    let (mut marked, mut rows, mut of_commands) = (BTreeMap::new(), 0, 0);
    for at in 0..ENTRIES {
        let which = random.below(TEXTS.len());
        let letters: String = (b'a'..=b'z').map(char::from).skip(which).take(1).collect();
        let mark = format!("mark{letters}");
        let entry = entry(&mut random, &TEXTS[which].replace("{}", &mark));
        if matches!(&entry.text, LoggedText::Statement { len, .. } if *len > 0) {
            *marked.entry(mark).or_insert(0_u64) += 1;
        }
        rows += entry.rows;
        if matches!(entry.text, LoggedText::Command(_)) {
            of_commands += entry.rows;
        }
        let lost = if random.once_in(50) { random.number() % 100 + 1 } else { 0 };
        let when = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_716_402 + at as u64);
        entry.put(when, lost, &mut log);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("slow.log");
    std::fs::write(&path, &log).expect("is written");

    let (mut by_mark, mut counted, mut sent) = (BTreeMap::new(), 0, 0.0);
    for class in classes(&path) {
        let count = class["query_count"].as_u64().expect("a number");
        counted += count;
        let sum = class["metrics"]["Rows_sent"]["sum"].as_str().expect("a sum");
        sent += sum.parse::<f64>().expect("a sum");
        let text = class["fingerprint"].as_str().expect("a text");
        if let Some(at) = text.find("mark") {
            *by_mark.entry(text[at..at + 5].to_owned()).or_insert(0) += count;
        }
    }
    // That program counts no rows of what is no statement.
    assert_eq!((counted, sent), (ENTRIES as u64, (rows - of_commands) as f64));
    let missing: String = marked
        .iter()
        .filter(|(mark, count)| by_mark.get(*mark) != Some(count))
        .fold(String::new(), |mut out, (mark, count)| {
            let _ = write!(out, "{mark}: {count}, but {:?}; ", by_mark.get(mark));
            out
        });
    assert!(missing.is_empty(), "{missing}");

    let dumped = dump(&path);
    let (mut counted, mut sent) = (0_u64, 0_u64);
    for part in dumped.split("\nCount: ").chain(dumped.strip_prefix("Count: ")).skip(1) {
        let count = part.split(' ').next().and_then(|it| it.parse::<u64>().ok());
        counted += count.expect("a number");
        let rows = part.split("Rows_sent=").nth(1).and_then(|it| it.split(['(', ')']).nth(1));
        sent += rows.and_then(|it| it.parse::<u64>().ok()).expect("a sum");
    }
    assert_eq!((counted, sent), (ENTRIES as u64, rows));
}
