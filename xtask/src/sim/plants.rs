//! Whether worlds find a fault that was planted.
//!
//! Owns a copy of the repository, in which one fault at a time is planted: those of `plants.toml`, and the rules that
//! `rules.toml` takes out, where worlds have what the rule is about. Invariant: worlds find nothing before.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use bench::interrupt::Interrupt;
use bench::progress::Progress;
use serde::Deserialize;

use crate::rules;
use crate::variant::{Copy, Edit};

#[derive(Deserialize)]
struct Table {
    plant: Vec<Plant>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plant {
    name: String,
    edit: Vec<Edit>,
}

/// A fault is to be found within so many.
const STATEMENTS: &str = "100000";

/// What worlds have told.
struct Told {
    is_wrong: bool,
    /// `N worlds, M statements in S s`.
    extent: String,
    /// The first thing that was wrong.
    fault: String,
}

pub(super) fn run(only: &str, interrupt: &Interrupt) -> Result<()> {
    let rules = rules::read()?.into_iter().map(|rule| Plant { name: rule.name, edit: rule.edit });
    let mut plants = read()?;
    plants.extend(rules);
    plants.retain(|plant| plant.name.contains(only));
    ensure!(!plants.is_empty(), "there is no fault whose name contains {only:?}");
    let copy = Copy::make("plants")?;
    let mut progress = Progress::begin("faults", plants.len() as u64 + 1);
    copy.build("xtask").context("Flifo as it is")?;
    let told = worlds(&copy)?;
    ensure!(!told.is_wrong, "without any fault: {}", told.fault);
    progress.step(&format!("without any: nothing in {}", told.extent));
    let mut missed = 0;
    for plant in &plants {
        interrupt.check()?;
        let told = copy.with(&plant.edit, |copy| {
            copy.build("xtask").with_context(|| format!("with \"{}\"", plant.name))?;
            worlds(copy)
        })?;
        missed += usize::from(!told.is_wrong);
        progress.step(&match told.is_wrong {
            true => format!("\"{}\": found in {}\n    {}", plant.name, told.extent, told.fault),
            false => format!("\"{}\": NOT FOUND in {}", plant.name, told.extent),
        });
    }
    ensure!(missed == 0, "{missed} of {} faults are not found", plants.len());
    println!("each of {} faults is found within {STATEMENTS} statements", plants.len());
    Ok(())
}

fn read() -> Result<Vec<Plant>> {
    let table: Table = toml::from_str(include_str!("../../plants.toml")).context("plants.toml")?;
    Ok(table.plant)
}

/// Runs worlds with what was built last.
fn worlds(copy: &Copy) -> Result<Told> {
    let mut command = Command::new(copy.target().join("debug/xtask"));
    command.current_dir(copy.source());
    command.args(["sim", "--first", "--seeds", "0..1000000", "--statements", STATEMENTS]);
    let output = command.output().context("worlds do not run")?;
    let (told, wrong) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let fault = wrong.lines().find(|line| line.starts_with("seed "));
    let extent = told.lines().find_map(|line| line.split_once(';'));
    let (extent, _) = extent.with_context(|| format!("worlds did not end:\n{wrong}"))?;
    Ok(Told {
        is_wrong: fault.is_some(),
        extent: extent.to_owned(),
        fault: fault.unwrap_or_default().chars().take(240).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variant;

    #[test]
    fn every_fault_can_be_planted() {
        let plants = read().expect("reads");
        assert!(plants.len() >= 20);
        for plant in &plants {
            let edited = variant::edited(&plant.edit);
            assert!(!edited.expect("each cut is there").is_empty(), "{}", plant.name);
        }
    }
}
