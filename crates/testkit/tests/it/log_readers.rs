//! Slow logs, of random entries and of statements of every kind, read by the programs that are made for slow logs: each
//! entry is counted, under its own statement, and nothing is said of entries that cannot be read. `cargo xtask logs` does
//! the same with many more.

use testkit::flifo::program;
use testkit::slow_logs::{digested, dumped, random, served};

/// More than the hundred after which the first program gives up.
const ENTRIES: u64 = 2000;

#[test]
fn random_entries_are_all_counted_by_the_programs_for_slow_logs() {
    let (log, written, of_commands) = random(ENTRIES, 18);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("slow.log");
    std::fs::write(&path, &log).expect("is written");
    let found = digested(&path);
    assert_eq!(written.differences(&found), [""; 0]);
    // That program counts no rows of what is no statement.
    assert_eq!(found.rows, written.rows - of_commands);
    let found = dumped(&path);
    assert_eq!(written.differences(&found), [""; 0]);
    assert_eq!(found.rows, written.rows);
}

#[test]
fn statements_of_every_kind_are_all_counted_by_the_programs_for_slow_logs() {
    let served = served::run(program(), ENTRIES);
    let seen = served.is_whole();
    assert!(seen.is_ok(), "{seen:?}");
    for (program, found) in [("digest", digested(&served.path)), ("dump", dumped(&served.path))] {
        assert_eq!(served.differences(&found), [""; 0], "{program}");
    }
}
