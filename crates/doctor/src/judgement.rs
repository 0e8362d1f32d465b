//! The verdict on one question about a machine, and what a cure would change.
//!
//! Invariant: what could not be seen is never judged to be well.

use std::fmt;

use serde::Serialize;
use sys::tree::Seen;

use crate::change::Change;
use crate::facts::Facts;

/// One question that the doctor asks of the facts.
#[derive(Clone, Copy)]
pub struct Finding {
    /// Its name in `--json` and in the manual.
    pub name: &'static str,
    /// What it is about, for the table.
    pub title: &'static str,
    /// Why it matters, in a sentence.
    pub why: &'static str,
    /// Where that is from.
    pub source: &'static str,
    pub judge: fn(&Facts) -> Judged,
}

/// From well to ill. What is unknown stands below what is known to be ill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Ok,
    Unknown,
    Warn,
    Bad,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Unknown => "unknown",
            Self::Warn => "warn",
            Self::Bad => "BAD",
        })
    }
}

/// A verdict with what it rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    pub verdict: Verdict,
    /// With numbers.
    pub evidence: String,
    /// A command, or what to do where no command does it.
    pub remedy: Option<String>,
    pub cure: Option<Cure>,
}

/// What the doctor can do itself, and undo.
#[derive(Clone, Debug, PartialEq)]
pub struct Cure {
    pub changes: Vec<Change>,
    pub proof: Proof,
}

/// What shows that a cure helped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The finding is gone, and nothing has become slower.
    Gone,
    /// More statements a second.
    Faster,
}

/// Why a question cannot be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown(pub String);

pub(crate) type Judged = Result<Judgement, Unknown>;

impl Judgement {
    pub(crate) fn ok(evidence: impl Into<String>) -> Self {
        Self { verdict: Verdict::Ok, evidence: evidence.into(), remedy: None, cure: None }
    }

    pub(crate) fn warn(evidence: impl Into<String>) -> Self {
        Self { verdict: Verdict::Warn, ..Self::ok(evidence) }
    }

    pub(crate) fn bad(evidence: impl Into<String>) -> Self {
        Self { verdict: Verdict::Bad, ..Self::ok(evidence) }
    }

    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    pub(crate) fn cure(mut self, proof: Proof, changes: Vec<Change>) -> Self {
        self.cure = Some(Cure { changes, proof });
        self
    }
}

/// What was seen, or that the question cannot be answered.
pub(crate) fn need<T>(seen: &Seen<T>) -> Result<&T, Unknown> {
    seen.known().ok_or_else(|| Unknown(seen.reason()))
}

/// A question and its answer.
#[derive(Clone)]
pub struct Diagnosis {
    pub finding: Finding,
    pub judgement: Judgement,
}

impl Finding {
    pub fn diagnose(self, facts: &Facts) -> Diagnosis {
        let judgement = (self.judge)(facts).unwrap_or_else(|Unknown(why)| Judgement {
            verdict: Verdict::Unknown,
            ..Judgement::ok(why)
        });
        Diagnosis { finding: self, judgement }
    }
}

impl fmt::Debug for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
