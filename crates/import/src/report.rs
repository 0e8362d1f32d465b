//! What became of each line of what was read, and the exit status that sums it up.
//!
//! Invariant: texts of the report are one line each and hold no control characters, whatever was read.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

/// Where something stands: a line of a file, or a row of a table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub(crate) file: Arc<str>,
    pub(crate) line: u32,
}

impl Place {
    pub(crate) const fn new(file: Arc<str>, line: u32) -> Self {
        Self { file, line }
    }

    /// The file that it stands in.
    pub(crate) fn of_file(self) -> Self {
        Self { line: 0, ..self }
    }

    /// A file as a whole.
    pub(crate) fn whole(file: &str) -> Self {
        Self { file: file.into(), line: 0 }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            line => write!(f, "{}:{line}", self.file),
        }
    }
}

/// How well something was converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Flifo does the same.
    Converted,
    /// Flifo needs nothing for it.
    Needless,
    /// Flifo does something similar; the text says what differs.
    Differs,
    /// It is not in the file; the text says what to use instead.
    Lost,
}

/// What became of one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub place: Place,
    /// What stands there, in the words of the other proxy.
    pub what: String,
    pub outcome: Outcome,
    /// What it became, or why not and what to use instead.
    pub told: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, what, outcome, told } = self;
        let arrow = match outcome {
            Outcome::Converted => "->",
            Outcome::Needless => "needs nothing:",
            Outcome::Differs => "-> (differs)",
            Outcome::Lost => "NOT CONVERTED:",
        };
        write!(f, "{place}: {what} {arrow} {told}")
    }
}

impl Serialize for Finding {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shown<'a> {
            file: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            line: Option<u32>,
            what: &'a str,
            outcome: Outcome,
            told: &'a str,
        }
        let Self { place, what, outcome, told } = self;
        let line = Some(place.line).filter(|line| *line != 0);
        Shown { file: &place.file, line, what, outcome: *outcome, told }.serialize(serializer)
    }
}

/// All findings, in the order of what was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Report {
    findings: Vec<Finding>,
}

impl Report {
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    pub(crate) fn add(&mut self, place: &Place, what: &str, outcome: Outcome, told: &str) {
        let (what, told) = (plain(what), plain(told));
        self.findings.push(Finding { place: place.clone(), what, outcome, told });
    }

    /// Puts the findings into the order of what was read; the files stay in the order in which they were given.
    pub(crate) fn sort(&mut self) {
        let mut files: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        for finding in &self.findings {
            let next = files.len();
            files.entry(Arc::clone(&finding.place.file)).or_insert(next);
        }
        let order =
            |finding: &Finding| (files.get(&finding.place.file).copied(), finding.place.line);
        self.findings.sort_by_key(order);
    }

    fn count(&self, outcome: Outcome) -> usize {
        self.findings.iter().filter(|it| it.outcome == outcome).count()
    }

    /// 0: Flifo does the same; 1: something differs; 2: something was not converted.
    pub fn status(&self) -> u8 {
        match (self.count(Outcome::Lost), self.count(Outcome::Differs)) {
            (0, 0) => 0,
            (0, _) => 1,
            _ => 2,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            writeln!(f, "{finding}")?;
        }
        let count = |outcome| self.count(outcome);
        writeln!(
            f,
            "{} converted, {} differ, {} not converted, {} need nothing",
            count(Outcome::Converted),
            count(Outcome::Differs),
            count(Outcome::Lost),
            count(Outcome::Needless),
        )
    }
}

/// One line of bounded length, without control characters.
pub(crate) fn plain(text: &str) -> String {
    let mut letters = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    let mut plain: String = letters.by_ref().take(TEXT_MAX).collect();
    if letters.next().is_some() {
        plain.push('…');
    }
    plain.trim_end().to_owned()
}

/// Letters of a text that was read and is repeated.
const TEXT_MAX: usize = 600;
