//! Taking up a run that was cut off: what of its plan is missing, and whether the plan is the same.
//!
//! Measures nothing. Invariants: a file is continued only by what was asked for when it was begun,
//! on the machine and against the servers of then; more starts may be asked for than then.

use std::fmt::Write;
use std::ops::RangeInclusive;

use anyhow::{Result, bail};
use serde::Serialize;
use serde_json::Value;

use super::options::{RunOptions, Wrong};
use super::run_targets::RunTargets;
use super::{now, settings};
use crate::results::{Machine, Results};
use crate::workloads::tables::Extent;

/// Checks that the file holds a part of what is asked for, and returns both, ready to go on.
pub(super) fn take_up(
    mut file: Results,
    options: &RunOptions,
    machine: &Machine,
) -> Result<(RunOptions, Results)> {
    let Extent { tables, rows } = Extent { tables: file.settings.tables, rows: file.settings.rows };
    let (tables, rows) = (options.tables.unwrap_or(tables), options.rows.unwrap_or(rows));
    let mut asked = settings(options, Extent { tables, rows });
    let restarts = asked.restarts;
    // More of them are a longer run, not another one.
    asked.restarts = restarts.min(file.settings.restarts);
    let names: Vec<_> =
        file.targets.iter().map(|it| (it.name.clone(), it.address.clone())).collect();
    let mut differ = differences("", &file.settings, &asked);
    differ += &differences("machine: ", &file.machine, machine);
    differ += &differences("flifo-bench's version", &file.version, &env!("CARGO_PKG_VERSION"));
    differ += &differences("targets", &names, &options.names());
    if !differ.is_empty() {
        let why =
            format!("the file is of another run and cannot be continued by this one:{differ}");
        return Err(Wrong(why).into());
    }
    file.settings.restarts = restarts;
    if 0 < turns_missing(&file, 1..=restarts * options.rounds) {
        file.resumed.push(now());
    }
    let options = RunOptions { tables: Some(tables), rows: Some(rows), ..options.clone() };
    Ok((options, file))
}

/// How many turns of these rounds there are no figures of.
pub(super) fn turns_missing(results: &Results, numbers: RangeInclusive<u32>) -> u64 {
    let in_round = |number| results.cells.iter().filter(|cell| cell.lacks(number)).count() as u64;
    numbers.map(in_round).sum()
}

/// The last start that left a round.
pub(super) fn last_start(results: &Results) -> u32 {
    let rounds = results.cells.iter().flat_map(|cell| &cell.rounds);
    rounds.map(|round| round.start).max().unwrap_or(0)
}

/// Records the servers of the targets when they are known for the first time; else checks that they are the same.
pub(super) fn settle(
    results: &mut Results,
    run_targets: &RunTargets,
    extent: Extent,
) -> Result<()> {
    for note in &run_targets.notes {
        if !results.notes.contains(note) {
            results.notes.push(note.clone());
        }
    }
    if results.targets.is_empty() {
        results.targets =
            run_targets.first().iter().map(|run_target| run_target.target.clone()).collect();
        results.settings.tables = extent.tables;
        results.settings.rows = extent.rows;
        return Ok(());
    }
    let mut differ = String::new();
    for (was, is) in results.targets.iter().zip(run_targets.first()) {
        let name = format!("server of {}", was.name);
        differ += &differences(&name, &was.server_version, &is.target.server_version);
    }
    if !differ.is_empty() {
        bail!("the file was begun with other servers and cannot be continued with these:{differ}");
    }
    Ok(())
}

/// A line for each part that is not the same in both.
fn differences(name: &str, was: &impl Serialize, is: &impl Serialize) -> String {
    let value = |it: Result<Value, _>| it.unwrap_or(Value::Null);
    let (was, is) = (value(serde_json::to_value(was)), value(serde_json::to_value(is)));
    let mut lines = String::new();
    let mut note = |name: &str, was: &Value, is: &Value| {
        if was != is {
            // Writing to a string cannot fail.
            let _ = write!(lines, "\n  {name}: {was} in the file, {is} now");
        }
    };
    match (&was, &is) {
        (Value::Object(was), Value::Object(is)) => {
            for (key, was) in was {
                let words = format!("{name}{}", key.replace('_', " "));
                note(&words, was, is.get(key).unwrap_or(&Value::Null));
            }
        }
        _ => note(name, &was, &is),
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_the_same_is_named_with_both_values() {
        let was = Machine { cpus: 2, kernel: "6.1".into(), ..Machine::default() };
        let is = Machine { cpus: 4, ..was.clone() };
        assert_eq!(differences("machine: ", &was, &was.clone()), "");
        let said = differences("machine: ", &was, &is);
        assert_eq!(said, "\n  machine: cpus: 2 in the file, 4 now");
        assert_eq!(differences("seed", &1, &2), "\n  seed: 1 in the file, 2 now");
    }

    #[test]
    fn turns_without_a_round_that_counts_are_missing() {
        let mut results: Results =
            serde_json::from_str(include_str!("../results/example.json")).expect("reads");
        assert_eq!(turns_missing(&results, 1..=3), 0);
        assert_eq!(turns_missing(&results, 1..=5), 2 * results.cells.len() as u64);
        for round in &mut results.cells[0].rounds {
            round.standing = crate::results::Standing::Cut;
        }
        assert_eq!(turns_missing(&results, 1..=3), 3);
    }
}
