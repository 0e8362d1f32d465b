//! What a suite says of its tests: reads TAP and the marked output of Go's tests.
//!
//! Knows no suite. Invariants: a test that began and did not end has failed; of two words on one test
//! the worse counts.

use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    Passed,
    Skipped,
    Failed,
}

impl Outcome {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
        }
    }
}

pub(crate) type Results = BTreeMap<String, Outcome>;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Format {
    Tap,
    /// Of a test binary that runs with `-test.v=test2json`: its lines begin with a control character.
    Go,
}

impl Format {
    /// Reads one line of output into the results.
    pub(crate) fn read(self, line: &str, results: &mut Results) {
        let word = match self {
            Self::Tap => tap(line),
            Self::Go => go(line),
        };
        match word {
            Some(Word::Began(name)) => {
                results.entry(name).or_insert(Outcome::Failed);
            }
            Some(Word::Ended(name, outcome)) => match self {
                Self::Go => drop(results.insert(name, outcome)),
                Self::Tap => {
                    let known = results.entry(name).or_insert(outcome);
                    *known = outcome.max(*known);
                }
            },
            None => {}
        }
    }
}

enum Word {
    Began(String),
    Ended(String, Outcome),
}

fn tap(line: &str) -> Option<Word> {
    let (rest, good) = match line.strip_prefix("not ok ") {
        Some(rest) => (rest, false),
        None => (line.strip_prefix("ok ")?, true),
    };
    let (_, name) = rest.split_once(" - ")?;
    let (name, directive) = name.split_once(" # ").unwrap_or((name, ""));
    let skipped = directive.get(..4).is_some_and(|word| word.eq_ignore_ascii_case("skip"));
    let outcome = match (skipped, good) {
        (true, _) => Outcome::Skipped,
        (false, true) => Outcome::Passed,
        (false, false) => Outcome::Failed,
    };
    Some(Word::Ended(name.trim().to_owned(), outcome))
}

fn go(line: &str) -> Option<Word> {
    // A test may have printed before it on the same line.
    let (_, marked) = line.rsplit_once('\u{16}')?;
    if let Some(name) = marked.strip_prefix("=== RUN") {
        return Some(Word::Began(name.trim().to_owned()));
    }
    let (word, rest) = marked.strip_prefix("--- ")?.split_once(": ")?;
    let outcome = match word {
        "PASS" => Outcome::Passed,
        "SKIP" => Outcome::Skipped,
        "FAIL" => Outcome::Failed,
        _ => return None,
    };
    let name = rest.rsplit_once(" (").map_or(rest, |(name, _)| name);
    Some(Word::Ended(name.to_owned(), outcome))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(format: Format, lines: &[&str]) -> String {
        let mut results = Results::new();
        lines.iter().for_each(|line| format.read(line, &mut results));
        let words = results.iter().map(|(name, outcome)| format!("{name}={}", outcome.name()));
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn tap_is_read() {
        let lines = [
            "TAP version 13",
            "ok 1 - a",
            "not ok 2 - b",
            "  ok 9 - nested",
            "ok 3 - c # SKIP no TLS",
            "ok 4",
            "# done",
        ];
        assert_eq!(read(Format::Tap, &lines), "a=passed b=failed c=skipped");
    }

    #[test]
    fn a_failure_is_not_forgotten_for_a_later_success() {
        assert_eq!(read(Format::Tap, &["not ok 1 - a", "ok 2 - a"]), "a=failed");
    }

    #[test]
    fn go_is_read_and_tests_without_an_end_have_failed() {
        let lines = [
            "\u{16}=== RUN   TestA",
            "\u{16}=== RUN   TestA/x",
            "said\u{16}--- PASS: TestA (0.01s)",
            "    \u{16}--- SKIP: TestA/x (0.00s)",
            "--- PASS: TestFake (0.00s)",
            "\u{16}=== RUN   TestHangs",
        ];
        assert_eq!(read(Format::Go, &lines), "TestA=passed TestA/x=skipped TestHangs=failed");
    }
}
