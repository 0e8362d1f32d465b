//! What is wrong with a configuration, and where.
//!
//! Invariant: no problem repeats a value that may be secret.

use std::fmt;
use std::ops::Range;

use serde::Serialize;

/// One thing that is wrong, or odd.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problem {
    #[serde(flatten)]
    pub place: Place,
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
pub struct Place {
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

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            None => f.write_str(&self.file),
            Some(Position { line, column }) => write!(f, "{}:{line}:{column}", self.file),
        }
    }
}

/// A text, and what it is called.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
}

impl Source<'_> {
    /// The place of a span of bytes.
    pub(super) fn place(&self, span: &Range<usize>) -> Place {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.matches('\n').count() + 1;
        let column = before[line_start..].chars().count() + 1;
        Place { file: self.file.to_owned(), at: Some(Position { line, column }) }
    }

    /// The place of the whole text.
    pub(super) fn whole(&self) -> Place {
        Place { file: self.file.to_owned(), at: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_from_one_in_characters() {
        let source = Source { file: "f", text: "ab\n\u{e4}\u{f6}c\n" };
        for (at, want) in [(0, "f:1:1"), (2, "f:1:3"), (3, "f:2:1"), (7, "f:2:3"), (99, "f:3:1")] {
            assert_eq!(source.place(&(at..at)).to_string(), want);
        }
        // Inside a character, which no parser names: still no panic.
        source.place(&(4..4));
    }
}
