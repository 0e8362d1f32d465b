//! The glossary binds the code: what it names is there, and what it calls former is not.

use std::collections::BTreeSet;
use std::path::Path;

use crate::own_sources::{listed, root, sources, without_strings};

/// A word of the glossary.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    word: String,
    former: Vec<String>,
    /// Types, functions, files: what stands in the third column.
    in_code: Vec<String>,
}

/// Former words that mean something else in the files whose paths begin so.
const OTHERWISE: &[(&str, &str)] = &[
    // Lists of single ones.
    ("messages", "crates/engine/src/kept"),
    ("messages", "crates/testkit/src/differ/kinds.rs"),
    // Of sockets, of mail, and of the compiler.
    ("messages", "crates/sys/src/"),
    ("messages", "xtask/src/"),
    // Addresses that guess passwords.
    ("visitor", "crates/engine/src/visits.rs"),
];

fn glossary() -> Vec<Entry> {
    let text = std::fs::read_to_string(root().join("docs/glossary.md")).expect("the glossary");
    text.lines().filter_map(entry).collect()
}

fn entry(line: &str) -> Option<Entry> {
    let mut columns = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ");
    let (word, meaning) = (columns.next()?, columns.next()?);
    let names = columns.next().unwrap_or_default();
    if word == "word" {
        return None;
    }
    let former = meaning.split_once("Formerly: ").map_or("", |(_, former)| former);
    let former = former.trim_end_matches('.').split(", ").filter(|it| !it.is_empty());
    let names = names.split('`').skip(1).step_by(2).map(str::to_owned);
    Some(Entry {
        word: word.to_owned(),
        former: former.map(str::to_owned).collect(),
        in_code: names.collect(),
    })
}

/// The words of a name, in small letters: `TakeBackIdle` and `take_back_idle` have three.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut was_small = false;
    for letter in name.chars() {
        let begins = letter == '_' || letter.is_uppercase() && was_small;
        if begins {
            parts.push(String::new());
        }
        if letter != '_' {
            parts.last_mut().expect("the last one").extend(letter.to_lowercase());
        }
        was_small = !letter.is_uppercase() && letter != '_';
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// The names in a source, outside of its comments and strings.
fn names(source: &str) -> BTreeSet<String> {
    let code = without_strings(source);
    let words = code.split(|it: char| !it.is_alphanumeric() && it != '_');
    words.filter(|it| it.starts_with(|it: char| it.is_alphabetic())).map(str::to_owned).collect()
}

/// Whether a former word stands in a name.
fn has(name: &str, former: &str) -> bool {
    let wanted: Vec<_> = former.split([' ', '-']).collect();
    parts(name).windows(wanted.len()).any(|window| window == wanted)
}

#[test]
fn former_words_are_gone_from_names_files_and_commands() {
    let former: Vec<String> = glossary().into_iter().flat_map(|entry| entry.former).collect();
    assert!(former.len() >= 12, "the glossary has them: {former:?}");
    let mut found = Vec::new();
    for path in sources().iter().filter(|path| path.ends_with(".rs")) {
        let source = std::fs::read_to_string(root().join(path)).expect("a source");
        let file = Path::new(path).with_extension("");
        let file = file.iter().map(|it| it.to_string_lossy().replace('-', "_"));
        let names: BTreeSet<String> = names(&source).into_iter().chain(file).collect();
        for word in &former {
            if OTHERWISE.iter().any(|(other, place)| other == word && path.starts_with(place)) {
                continue;
            }
            let bad = names.iter().filter(|name| has(name, word));
            found.extend(bad.map(|name| format!("{path}: {name}: formerly \"{word}\"")));
        }
    }
    assert!(found.is_empty(), "{} names:\n{}", found.len(), found.join("\n"));
}

#[test]
fn what_the_glossary_names_is_in_the_code() {
    let files = listed(&[".rs"]);
    let mut known = BTreeSet::new();
    for path in &files {
        known.append(&mut names(&std::fs::read_to_string(root().join(path)).expect("a source")));
    }
    let is_there = |name: &str| match name.contains('/') {
        true => files.iter().any(|path| path.contains(name)),
        false => name.split("::").all(|part| known.contains(part)),
    };
    let lost: Vec<_> = glossary()
        .iter()
        .flat_map(|entry| entry.in_code.iter().map(|name| format!("{}: {name}", entry.word)))
        .filter(|it| !is_there(it.split_once(": ").expect("a name").1))
        .collect();
    assert!(lost.is_empty(), "{lost:?}");
}

#[test]
fn the_rules_can_fail() {
    assert_eq!(parts("TakeBackIdle"), ["take", "back", "idle"]);
    assert_eq!(parts("MAX_ROOM"), ["max", "room"]);
    assert!(has("take_back_idle", "take back") && !has("take_it_back", "take back"));
    assert!(has("Desk", "desk") && !has("Desktop", "desk"));
    let source = "fn a() { \"desk\" } // a hall\n/// A book.\nstruct Journal;";
    let found: Vec<_> = names(source).into_iter().collect();
    assert_eq!(found, ["Journal", "a", "fn", "struct"]);
    let line = "| queue | They wait. Formerly: line, row. | `Queue`, `x/y.rs` |";
    let queue = Entry {
        word: "queue".to_owned(),
        former: vec!["line".to_owned(), "row".to_owned()],
        in_code: vec!["Queue".to_owned(), "x/y.rs".to_owned()],
    };
    assert_eq!(entry(line), Some(queue));
}
