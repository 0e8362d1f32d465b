//! `flifo lab`: experiments that repeat on this machine what was once reported of another machine.
//!
//! The frame: it takes an experiment through its steps, undoes what was done, and reports. What is
//! changed, loaded and measured is each experiment's own. Invariants: everything that an experiment
//! changes is undone before the next treatment begins, in reverse order, also when something fails
//! and when the user interrupts; the figures of the report that is being repeated stand beside
//! those measured here, and are marked as its own.

mod checks;
mod experiment;
mod flifo;
mod ladder;
mod limit;
mod pagefaults;
mod report;
mod sharing;
mod starvation;
mod undo;
mod ways;

use anyhow::{Context, Result, bail};

use crate::progress::Progress;

pub use self::checks::Checks;
pub use self::experiment::{About, Entry, Experiment, Finding, Lab, LabOptions};
use self::flifo::Flifo;
use self::ladder::Ladder;
use self::limit::AutoLimit;
pub use self::pagefaults::{PageFaults, PageFaultsTreatment};
pub use self::report::{json, page, text};
use self::sharing::SharedReads;
use self::starvation::Starvation;
pub use self::undo::Undo;

/// All experiments.
pub fn all(options: &LabOptions) -> Vec<Box<dyn Entry>> {
    let own = PageFaults::default();
    let pagefaults = PageFaults {
        rounds: options.rounds.unwrap_or(own.rounds),
        round: options.length.unwrap_or(own.round),
        ..own
    };
    vec![
        Box::new(pagefaults),
        Box::new(Flifo::new(options)),
        Box::new(AutoLimit::new(options)),
        Box::new(Checks::default()),
        Box::new(Starvation::new(options)),
        Box::new(Ladder::new(options)),
        Box::new(SharedReads::new(options)),
    ]
}

/// The experiment of this name.
pub fn find(name: &str, options: &LabOptions) -> Result<Box<dyn Entry>> {
    let all = all(options);
    let names = all.iter().map(|entry| entry.about().name).collect::<Vec<_>>().join(", ");
    let found = all.into_iter().find(|entry| entry.about().name == name);
    found.with_context(|| format!("there is no experiment {name:?}; there is: {names}"))
}

impl<E: Experiment> Entry for E {
    fn about(&self) -> About {
        Experiment::about(self)
    }

    fn run(&self, lab: &Lab) -> Result<Finding> {
        let (mut treatments, notes) = self.treatments();
        let all = treatments.len() as u64;
        if let Some(only) = &lab.only {
            let names: Vec<_> = treatments.iter().map(|treatment| self.name(treatment)).collect();
            treatments.retain(|treatment| self.name(treatment).contains(only.as_str()));
            if treatments.is_empty() {
                bail!(
                    "no part of this experiment is named {only:?}; they are: {}",
                    names.join("; ")
                );
            }
        }
        if treatments.is_empty() {
            bail!("nothing of this experiment can be tried here: {}", notes.join(" "));
        }
        let About { name, seconds, .. } = Experiment::about(self);
        let seconds = u64::from(seconds) * treatments.len() as u64 / all.max(1);
        let mut progress =
            Progress::begin(&format!("Lab {name}, about {seconds} s"), treatments.len() as u64);
        let mut figures = Vec::new();
        for treatment in &treatments {
            lab.interrupt.check()?;
            let name = self.name(treatment);
            progress.say(&name);
            figures.extend(attempt(self, treatment, lab).with_context(|| name.clone())?);
            progress.step(&name);
        }
        let mut finding = self.finding(&figures);
        finding.notes.extend(notes);
        Ok(finding)
    }
}

/// One treatment, from its set-up to its undoing, however it ends.
fn attempt<E: Experiment>(
    experiment: &E,
    treatment: &E::Treatment,
    lab: &Lab,
) -> Result<Vec<E::Figure>> {
    // Dropped after the stage: what is changed back is in use no more.
    let mut undo = Undo::new(&lab.interrupt);
    let mut stage = experiment.set_up(treatment, lab, &mut undo)?;
    let figures = experiment.measure(treatment, &mut stage, lab);
    drop(stage);
    let undone = undo.unwind();
    // What went wrong first is what the user must know; the rest was said by `unwind`.
    let figures = figures?;
    undone?;
    Ok(figures)
}

#[cfg(test)]
mod tests;
