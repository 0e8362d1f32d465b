//! What is wrong with a configuration, and where.
//!
//! Invariant: no problem repeats a value that may be secret.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use serde::Serialize;

/// One thing that is wrong, or odd.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problem {
    #[serde(flatten)]
    pub place: ProblemPlace,
    pub severity: Severity,
    /// The option it is about, where it is about one.
    pub option: Option<String>,
    /// What is wrong, why, and what to write instead.
    pub message: String,
}

/// Something that works, but hardly as it was meant.
pub type Warning = Problem;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Error,
    Warning,
}

/// Where something was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ProblemPlace {
    /// A file, or an argument of the command line.
    pub file: String,
    /// Line and column, both from 1; none if it is about the whole.
    #[serde(flatten)]
    pub at: Option<Position>,
}

/// A place in a text, counted from 1; columns are characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if self.severity == Severity::Warning {
            f.write_str("warning: ")?;
        }
        if let Some(option) = &self.option {
            write!(f, "{option}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl fmt::Display for ProblemPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            None => f.write_str(&self.file),
            Some(Position { line, column }) => write!(f, "{}:{line}:{column}", self.file),
        }
    }
}

/// A text, what it is called, and where its lines begin.
#[derive(Debug)]
pub(super) struct Source<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
    /// The first byte of each line.
    lines: Vec<usize>,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// These bytes of the text.
    Text(Range<usize>),
    /// An argument of the command line.
    Argument(&'static str),
    /// The text as a whole, or its absence.
    Whole,
}

impl<'a> Source<'a> {
    pub(super) fn new(file: &'a str, text: &'a str) -> Self {
        let newlines = text.match_indices('\n').map(|(at, _)| at + 1);
        Self { file, text, lines: std::iter::once(0).chain(newlines).collect() }
    }

    pub(super) fn place(&self, origin: &Origin) -> ProblemPlace {
        match origin {
            Origin::Text(span) => {
                let at = Some(self.position(span.start));
                ProblemPlace { file: self.file.to_owned(), at }
            }
            Origin::Argument(argument) => ProblemPlace { file: (*argument).to_owned(), at: None },
            Origin::Whole => ProblemPlace { file: self.file.to_owned(), at: None },
        }
    }

    fn position(&self, byte: usize) -> Position {
        let line = self.lines.partition_point(|start| *start <= byte);
        let start = self.lines[line - 1];
        let column = self.text.get(start..byte).map_or(0, |before| before.chars().count()) + 1;
        Position { line, column }
    }
}

/// Collects what is wrong.
#[derive(Debug)]
pub(super) struct Report<'a> {
    pub(super) source: Source<'a>,
    /// What does not even parse was not read as it was meant.
    pub(super) is_toml: bool,
    problems: Vec<Problem>,
}

impl<'a> Report<'a> {
    pub(super) const fn new(source: Source<'a>) -> Self {
        Self { source, is_toml: true, problems: Vec::new() }
    }

    pub(super) fn error(&mut self, origin: &Origin, option: Option<String>, message: String) {
        self.add(Severity::Error, origin, option, message);
    }

    /// Tells what is not even TOML. What comes close behind that, and what was made of those lines,
    /// is most likely a consequence, and nothing is said of it.
    pub(super) fn not_toml(&mut self, mut errors: Vec<(Range<usize>, &str)>) {
        errors.sort_by_key(|(span, _)| span.start);
        self.is_toml &= errors.is_empty();
        let mut damaged = BTreeSet::new();
        let mut causes = Vec::new();
        for (span, message) in errors {
            let line = self.source.position(span.start).line;
            let is_near = damaged.last().is_some_and(|last| line <= last + NEAR);
            damaged.insert(line);
            if !is_near && causes.len() < PROBLEMS_MAX {
                causes.push(Problem {
                    place: self.source.place(&Origin::Text(span)),
                    severity: Severity::Error,
                    option: None,
                    message: format!("this is not TOML: {message}"),
                });
            }
        }
        let is_damaged = |problem: &Problem| {
            problem.place.at.is_some_and(|position| damaged.contains(&position.line))
        };
        self.problems.retain(|problem| !is_damaged(problem));
        self.problems.extend(causes);
    }

    pub(super) fn warn(&mut self, origin: &Origin, option: &str, message: String) {
        self.add(Severity::Warning, origin, Some(option.to_owned()), message);
    }

    fn add(
        &mut self,
        severity: Severity,
        origin: &Origin,
        option: Option<String>,
        message: String,
    ) {
        // More would not be read, and a file full of nonsense must not fill the memory.
        if self.problems.len() < PROBLEMS_MAX {
            let place = self.source.place(origin);
            let mut message = message;
            message.truncate(message.floor_char_boundary(MESSAGE_MAX));
            self.problems.push(Problem { place, severity, option, message });
        }
    }

    /// Everything, in the order of the text, and whether something of it is an error.
    pub(super) fn finish(mut self) -> Result<Vec<Warning>, Vec<Problem>> {
        self.problems.sort();
        self.problems.dedup();
        let is_error = |problem: &Problem| problem.severity == Severity::Error;
        if self.problems.iter().any(is_error) { Err(self.problems) } else { Ok(self.problems) }
    }
}

/// More than there are options.
const PROBLEMS_MAX: usize = 500;
/// Lines within which one mistake commonly causes others.
const NEAR: usize = 2;
const MESSAGE_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_from_one_in_characters() {
        let source = Source::new("f", "ab\n\u{e4}\u{f6}c\n");
        let place = |at| source.place(&Origin::Text(at..at)).to_string();
        for (at, want) in [(0, "f:1:1"), (2, "f:1:3"), (3, "f:2:1"), (7, "f:2:3"), (9, "f:3:1")] {
            assert_eq!(place(at), want);
        }
        // Inside a character or behind the end, which no parser names: still no panic.
        place(4);
        place(99);
    }

    #[test]
    fn problems_are_bounded_and_in_order() {
        let mut report = Report::new(Source::new("f", "a\nb\n"));
        report.warn(&Origin::Text(2..3), "b", "odd".to_owned());
        report.error(&Origin::Text(0..1), None, "wrong".to_owned());
        for count in 0..1000 {
            report.error(&Origin::Argument("--x"), None, count.to_string());
        }
        let problems = report.finish().expect_err("has errors");
        assert_eq!(problems.len(), PROBLEMS_MAX);
        let shown: Vec<_> = problems.iter().map(ToString::to_string).collect();
        let of_file: Vec<_> = shown.iter().filter(|line| line.starts_with('f')).collect();
        assert_eq!(of_file, ["f:1:1: wrong", "f:2:1: warning: b: odd"]);
    }
}
