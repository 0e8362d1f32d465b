//! What an experiment is: its steps, what it is given, and what comes of it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use super::undo::Undo;
use crate::chart::{Chart, Grid};
use crate::interrupt::Interrupt;

/// What an experiment is about, before it runs.
#[derive(Clone, Copy, Debug)]
pub struct About {
    pub name: &'static str,
    /// What it answers.
    pub question: &'static str,
    /// What was reported, by whom, when.
    pub seed: &'static str,
    /// About how long it takes.
    pub seconds: u32,
}

/// What experiments are given.
#[derive(Clone, Debug)]
pub struct Lab {
    pub interrupt: Interrupt,
    /// The program that is started as Flifo.
    pub flifo: PathBuf,
    /// Only treatments whose names contain this.
    pub only: Option<String>,
}

/// What the user wants otherwise than an experiment would have it.
#[derive(Clone, Debug, Default)]
pub struct LabOptions {
    /// How often each treatment has its turn.
    pub rounds: Option<u32>,
    /// How long a turn is measured.
    pub length: Option<Duration>,
    /// Numbers of clients, where an experiment tries several.
    pub clients: Vec<u32>,
}

/// An experiment, as steps. They are called in the order in which they stand here.
pub trait Experiment {
    /// One way in which things are set up.
    type Treatment;
    /// What was started for a treatment. It stops when it is dropped.
    type Stage;
    /// What is measured of one load.
    type Figure;

    fn about(&self) -> About;

    /// All treatments, and notes on those that this machine cannot have.
    fn treatments(&self) -> (Vec<Self::Treatment>, Vec<String>);

    /// A treatment in a few words.
    fn name(&self, treatment: &Self::Treatment) -> String;

    /// Sets a treatment up. What does not end with the stage is noted in `undo`.
    fn set_up(
        &self,
        treatment: &Self::Treatment,
        lab: &Lab,
        undo: &mut Undo,
    ) -> Result<Self::Stage>;

    /// Puts load on it and measures.
    fn measure(
        &self,
        treatment: &Self::Treatment,
        stage: &mut Self::Stage,
        lab: &Lab,
    ) -> Result<Vec<Self::Figure>>;

    /// What the figures say.
    fn finding(&self, figures: &[Self::Figure]) -> Finding;
}

/// What came of an experiment.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The report's own figures and those measured here.
    pub table: Grid,
    pub charts: Vec<Chart>,
    /// How to read them, a paragraph each.
    pub reading: Vec<String>,
    /// What could not be tried here.
    pub notes: Vec<String>,
}

/// An experiment without its steps, for callers that only run it.
pub trait Entry {
    fn about(&self) -> About;
    fn run(&self, lab: &Lab) -> Result<Finding>;
}
