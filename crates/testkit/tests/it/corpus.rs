//! Replays the fuzz targets' corpora, and mutations of each file, on the stable compiler.
//!
//! What must hold is said in `fuzz/src`, which is compiled into this test as it is: the fuzz crate
//! stands outside the workspace because libFuzzer needs a nightly compiler, and its targets must
//! not rot for that. Mutations come from seeds made of the files' names, so a failure comes back at
//! each run.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[expect(unreachable_pub, reason = "public in the fuzz crate")]
#[path = "../../../../fuzz/src/lib.rs"]
mod bodies;

/// All corpora together stay small enough to be read by people.
const BYTES_MAX: u64 = 300 * 1024;

/// Files that a corpus has at least.
const FILES_MIN: usize = 12;

/// Mutations for each target, spread over its files, so that a larger corpus takes no longer.
const MUTATIONS: usize = 60_000;

/// Where one takes longer.
const MUTATIONS_OF_SLOW: &[(&str, usize)] = &[("configuration", 15_000)];

#[test]
fn each_target_has_a_corpus_and_a_fuzzer() {
    let names: BTreeSet<_> = bodies::TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(stems("corpus"), names);
    assert_eq!(stems("fuzz_targets"), names);
    let mut bytes = 0;
    for (name, _) in bodies::TARGETS {
        let files = corpus(name);
        assert!(files.len() >= FILES_MIN, "{name} has {} files", files.len());
        bytes += files.iter().map(|(_, data)| data.len() as u64).sum::<u64>();
    }
    assert!(bytes <= BYTES_MAX, "{bytes} bytes");
}

/// Declares a test for each target, so that they run side by side and are told apart.
macro_rules! replays {
    ($($target:ident)*) => {
        $(#[test]
        fn $target() {
            replay(stringify!($target), bodies::$target::run);
        })*

        #[test]
        fn each_target_is_replayed() {
            let replayed = [$(stringify!($target)),*];
            let targets: Vec<_> = bodies::TARGETS.iter().map(|(name, _)| *name).collect();
            assert_eq!(targets, replayed);
        }
    };
}

replays! {
    binlog command configuration frame handshake intent lexer password proxy_header reply response
    tracker
}

fn replay(target: &str, body: bodies::Body) {
    let files = corpus(target);
    let slow = MUTATIONS_OF_SLOW.iter().find(|(name, _)| *name == target);
    let mutations = slow.map_or(MUTATIONS, |(_, count)| *count) / files.len();
    for (name, data) in &files {
        let mut random = Random::seeded(name);
        let mut input = data.clone();
        for mutation in 0..=mutations {
            {
                let _told = Told { name, mutation, input: &input };
                body(&input);
            }
            input.clone_from(data);
            mutate(&mut input, &files, &mut random);
        }
    }
}

/// Tells what was being tried when a body panics. Mutation 0 is the file itself.
struct Told<'a> {
    name: &'a str,
    mutation: usize,
    input: &'a [u8],
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { name, mutation, input } = self;
            eprintln!("{name}, mutation {mutation}: {}", input.escape_ascii());
        }
    }
}

/// Numbers and words at which code that reads packets or statements turns.
const INTERESTING: &[&[u8]] = &[
    &[0],
    &[0xfa],
    &[0xfb],
    &[0xfc, 0xfb, 0],
    &[0xfc, 0xff, 0xff],
    &[0xfd, 0xff, 0xff, 0xff],
    &[0xfe],
    &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    &[0xff],
    &[0x7f, 0xff],
    &[0xff, 0xff, 0xff],
    &[0, 0, 0, 0],
    &[5, 0, 0, 1, 0xfe, 0, 0, 2, 0],
    &[7, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0],
    b"'",
    b"\"",
    b"`",
    b"\\",
    b"@",
    b"@@",
    b"/*",
    b"/*!",
    b"*/",
    b"-- ",
    b"#",
    b"\n",
    b";",
    b".",
    b"(",
    b" = ",
    b"[[",
    b"]",
    b"\"\"\"",
    "\u{e4}".as_bytes(),
];

/// Changes `input` in one to four places.
fn mutate(input: &mut Vec<u8>, files: &[(String, Vec<u8>)], random: &mut Random) {
    for _ in 0..=random.below(4) {
        let at = random.below(input.len() + 1);
        let end = at + random.below((input.len() - at).min(16) + 1);
        match random.below(8) {
            0 if at < input.len() => input[at] ^= 1 << random.below(8),
            1 if at < input.len() => input[at] = random.next() as u8,
            2 => input.truncate(at),
            3 => drop(input.drain(at..end)),
            4 => {
                let again = input[at..end].to_vec();
                input.splice(at..at, again);
            }
            5 => {
                let (_, other) = &files[random.below(files.len())];
                let from = random.below(other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            6 => {
                let value = INTERESTING[random.below(INTERESTING.len())];
                let covered = (at + value.len()).min(input.len());
                input.splice(at..covered, value.iter().copied());
            }
            _ => {
                let value = INTERESTING[random.below(INTERESTING.len())];
                input.splice(at..at, value.iter().copied());
            }
        }
    }
}

/// Marsaglia's xorshift: the same on every machine.
struct Random(u64);

impl Random {
    fn seeded(name: &str) -> Self {
        let fnv = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        Self(name.bytes().fold(0xcbf2_9ce4_8422_2325, fnv).max(1))
    }

    const fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    const fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// A target's files in order of their names.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = entries(&folder("corpus").join(target))
        .into_iter()
        .map(|path| (path.display().to_string(), fs::read(&path).expect("a file")))
        .map(|(path, data)| (path.rsplit('/').next().unwrap_or_default().to_owned(), data))
        .collect();
    files.sort();
    files
}

fn stems(name: &str) -> BTreeSet<String> {
    let stem = |path: &PathBuf| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    entries(&folder(name)).iter().filter_map(stem).collect()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    entries.map(|entry| entry.expect("reads").path()).collect()
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz").join(name)
}
