//! Cures, one at a time: noted, made, measured, and undone where they did not help.
//!
//! Does not decide what is ill. Invariants: what a change undoes is in the script before the change
//! is made; what failed, was refused or did not help leaves nothing changed and nothing in the
//! script; a script that is there already is never overwritten.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use sys::tree::Tree;

use crate::change::{Before, GlobalVariables, SCRIPT};
use crate::facts::Facts;
use crate::judgement::{Cure, Diagnosis, Proof, Verdict};

/// Whom the cures are for.
pub trait Patient {
    /// Examines anew, under the same load.
    fn examine(&mut self) -> Facts;
    fn variables(&mut self) -> &mut dyn GlobalVariables;
    /// Whether this cure may be tried.
    fn agrees(&mut self, diagnosis: &Diagnosis, cure: &Cure) -> bool;
    /// Tells how a cure went.
    fn hears(&mut self, diagnosis: &Diagnosis, outcome: &Outcome);
}

/// How a cure went.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Declined,
    /// It helped: statements a second before and after, where there was load; and without it
    /// again, where it is to make things faster.
    Kept {
        before: f64,
        after: f64,
        again: Option<f64>,
    },
    /// It did not help, and things are as before.
    Undone {
        /// Without it: the better look, where there were two.
        before: f64,
        after: f64,
        verdict: Verdict,
    },
    /// It could not be made; what was begun is undone.
    Failed(String),
    /// It could not be undone: what is left is in the script.
    Stuck(String),
}

/// The file that undoes what was kept.
#[derive(Debug)]
pub struct Script {
    path: PathBuf,
    /// The command that speaks to the server.
    client: String,
    kept: Vec<Before>,
}

impl Script {
    /// Begins a script. A file of that name must not be there.
    pub fn create(path: &Path, client: String) -> io::Result<Self> {
        OpenOptions::new().write(true).create_new(true).mode(0o700).open(path)?;
        Ok(Self { path: path.to_owned(), client, kept: Vec::new() })
    }

    fn note(&mut self, before: Vec<Before>) -> io::Result<()> {
        self.kept.extend(before);
        self.write()
    }

    fn forget(&mut self, count: usize) -> io::Result<()> {
        self.kept.truncate(self.kept.len().saturating_sub(count));
        self.write()
    }

    /// Writes it anew beside the old one, so that at each moment a whole script is there.
    fn write(&self) -> io::Result<()> {
        let mut text = String::from(SCRIPT);
        for before in self.kept.iter().rev() {
            text += &before.script(&self.client);
        }
        let fresh = self.path.with_extension("new");
        let options =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o700).clone();
        let mut file = options.open(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(fresh, &self.path)
    }

    /// Ends it: a script that undoes nothing goes. Says whether there is one.
    pub fn finish(self) -> io::Result<bool> {
        if self.kept.is_empty() {
            fs::remove_file(&self.path)?;
        }
        Ok(!self.kept.is_empty())
    }
}

/// Tries the cures of all that is ill, the worst first. Returns how things are then.
pub fn cure(
    tree: &Tree,
    patient: &mut dyn Patient,
    first: Facts,
    script: &mut Script,
) -> io::Result<Facts> {
    let mut facts = first;
    let mut tried = Vec::new();
    loop {
        let mut all = crate::findings::diagnose(&facts);
        all.sort_by_key(|it| std::cmp::Reverse(it.judgement.verdict));
        let next = all
            .into_iter()
            .find(|it| it.judgement.cure.is_some() && !tried.contains(&it.finding.name));
        let Some(diagnosis) = next else { return Ok(facts) };
        tried.push(diagnosis.finding.name);
        let Some(cure) = diagnosis.judgement.cure.clone() else { return Ok(facts) };
        let (outcome, seen) = attempt(tree, patient, &facts, script, &diagnosis, &cure)?;
        patient.hears(&diagnosis, &outcome);
        if let Some(seen) = seen {
            facts = seen;
        }
        if matches!(outcome, Outcome::Stuck(_)) {
            return Ok(facts);
        }
    }
}

/// Tries one. Also returns the facts under it, if it was kept.
fn attempt(
    tree: &Tree,
    patient: &mut dyn Patient,
    facts: &Facts,
    script: &mut Script,
    diagnosis: &Diagnosis,
    cure: &Cure,
) -> io::Result<(Outcome, Option<Facts>)> {
    if !patient.agrees(diagnosis, cure) {
        return Ok((Outcome::Declined, None));
    }
    let mut noted = Vec::new();
    for change in &cure.changes {
        match change.before(tree, patient.variables()) {
            Ok(before) => noted.push(before),
            Err(error) => return Ok((Outcome::Failed(format!("{change}: {error}")), None)),
        }
    }
    if let Some(failed) = make(tree, patient, script, cure, &noted)? {
        return Ok((failed, None));
    }
    let seen = patient.examine();
    let verdict = diagnosis.finding.diagnose(&seen).judgement.verdict;
    let (before, after) = (rate(facts), rate(&seen));
    let is_better = match cure.proof {
        Proof::Gone => {
            let is_milder = verdict < diagnosis.judgement.verdict && verdict != Verdict::Unknown;
            is_milder && after >= before * (1.0 - NOISE)
        }
        Proof::Faster => after > before * (1.0 + NOISE),
    };
    if is_better && cure.proof == Proof::Gone {
        return Ok((Outcome::Kept { before, after, again: None }, Some(seen)));
    }
    let undone = Outcome::Undone { before, after, verdict };
    let outcome = undo(tree, patient, script, &noted, undone)?;
    if !is_better || matches!(outcome, Outcome::Stuck(_)) {
        return Ok((outcome, None));
    }
    // A load that grew by itself looks like a cure until it is seen without it again.
    let again = rate(&patient.examine());
    if after <= again * (1.0 + NOISE) {
        return Ok((Outcome::Undone { before: before.max(again), after, verdict }, None));
    }
    Ok(match make(tree, patient, script, cure, &noted)? {
        Some(failed) => (failed, None),
        None => (Outcome::Kept { before, after, again: Some(again) }, Some(seen)),
    })
}

/// Notes a cure in the script and makes it. Returns what became of it, if it could not be made.
fn make(
    tree: &Tree,
    patient: &mut dyn Patient,
    script: &mut Script,
    cure: &Cure,
    noted: &[Before],
) -> io::Result<Option<Outcome>> {
    script.note(noted.to_vec())?;
    for (at, change) in cure.changes.iter().enumerate() {
        if let Err(error) = change.apply(tree, patient.variables()) {
            let failed = Outcome::Failed(format!("{change}: {error}"));
            // One that failed has been undone, as far as it went.
            script.forget(noted.len() - at)?;
            return undo(tree, patient, script, &noted[..at], failed).map(Some);
        }
    }
    Ok(None)
}

fn undo(
    tree: &Tree,
    patient: &mut dyn Patient,
    script: &mut Script,
    noted: &[Before],
    outcome: Outcome,
) -> io::Result<Outcome> {
    for before in noted.iter().rev() {
        if let Err(error) = before.restore(tree, patient.variables()) {
            return Ok(Outcome::Stuck(error.to_string()));
        }
    }
    script.forget(noted.len())?;
    Ok(outcome)
}

/// Statements a second while it was watched; none if that was no load.
fn rate(facts: &Facts) -> f64 {
    facts.busy().and_then(|load| load.rate("Questions")).unwrap_or(0.0)
}

/// By how much two looks of a few seconds at one load differ.
const NOISE: f64 = 0.05;

#[cfg(test)]
mod tests;
