//! What of a run is independent of each other: the starts of what it started, else its rounds.
//!
//! Rounds of one start share how the server lies in memory, what its caches hold, where its threads
//! were put. They agree with each other more than with those of another start, so a start counts
//! once, with the mean of its rounds' logarithms; what varies within it is then in its mean too.
//! Invariants: each round that is taken is in one unit; a round is left out for what others did on
//! the machine meanwhile, never for what it measured.

use crate::results::{Cell, Measure, Over, Ratio, Results, Round, Standing};
use crate::statistics::Reading;

/// Readings that are independent of each other, in the order of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Units {
    pub readings: Vec<Reading>,
    pub over: Over,
}

/// A figure of a cell, beside another one that tells the machine's speed. Rounds that count though
/// they were disturbed each time are left out if most units have others.
pub fn of_cell(cell: &Cell, measure: Measure, yardstick: Option<Measure>) -> Units {
    let each = |round: &Round| {
        let yardstick = yardstick.and_then(|it| it.of(round));
        Some((round.start, Reading { value: measure.of(round)?, yardstick }))
    };
    let all = of_rounds(cell.kept().filter_map(each));
    let is_calm = |round: &&Round| round.standing == Standing::Kept;
    let calm = of_rounds(cell.kept().filter(is_calm).filter_map(each));
    if UNITS_MIN.max(all.readings.len().div_ceil(2)) <= calm.readings.len() { calm } else { all }
}

/// Of readings of rounds, each with its start; 0 for a target that the run did not start.
pub fn of_rounds(rounds: impl Iterator<Item = (u32, Reading)>) -> Units {
    let mut starts: Vec<(u32, Vec<Reading>)> = Vec::new();
    for (start, reading) in rounds {
        match starts.iter_mut().find(|(known, _)| *known == start && start != 0) {
            Some((_, readings)) => readings.push(reading),
            None => starts.push((start, vec![reading])),
        }
    }
    let is_started = starts.iter().any(|(start, _)| *start != 0);
    Units {
        readings: starts.iter().map(|(_, readings)| together(readings)).collect(),
        over: if is_started { Over::Starts } else { Over::Rounds },
    }
}

/// What the intervals of a run's ratios do not hold for, if that is worth saying.
pub fn caution(results: &Results) -> Option<&'static str> {
    let is_narrow = |ratio: &Ratio| ratio.interval.is_some_and(|it| it.over == Over::Rounds);
    let started = |round: &Round| round.start != 0;
    let mut rounds = results.cells.iter().flat_map(Cell::kept);
    results.ratios.iter().any(is_narrow).then(|| match rounds.any(started) {
        true => FEW_STARTS,
        false => FOREIGN,
    })
}

/// The geometric means.
fn together(readings: &[Reading]) -> Reading {
    let mean = |sum: f64| (sum / readings.len() as f64).exp();
    let yardsticks: Option<Vec<f64>> = readings.iter().map(|it| it.yardstick).collect();
    Reading {
        value: mean(readings.iter().map(|it| it.value.ln()).sum()),
        yardstick: yardsticks.map(|all| mean(all.iter().map(|it| it.ln()).sum())),
    }
}

/// Of fewer, an interval says next to nothing.
pub const UNITS_MIN: usize = 3;

const FEW_STARTS: &str = "Intervals hold for these servers and proxies as they were started this \
                          time: with --restarts 3 or more they hold for other starts too.";
const FOREIGN: &str = "The targets were not started by the run: intervals do not hold for another \
                       start of them.";

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(value: f64, yardstick: Option<f64>) -> Reading {
        Reading { value, yardstick }
    }

    #[test]
    fn a_start_counts_once_and_a_round_of_no_start_too() {
        let rounds = [(1, 2.0), (1, 8.0), (2, 5.0)].map(|(at, it)| (at, reading(it, Some(it))));
        let units = of_rounds(rounds.into_iter());
        assert_eq!(units.over, Over::Starts);
        let values: Vec<f64> = units.readings.iter().map(|it| it.value).collect();
        assert!(values.len() == 2 && (values[0] - 4.0).abs() < 1e-9, "{values:?}");
        assert!((values[1] - 5.0).abs() < 1e-9 && units.readings[0].yardstick.is_some());

        let units = of_rounds(rounds.into_iter().map(|(_, it)| (0, it)));
        assert_eq!((units.readings.len(), units.over), (3, Over::Rounds));
    }

    #[test]
    fn disturbed_rounds_are_left_out_if_most_starts_have_others() {
        let results: Results =
            serde_json::from_str(include_str!("../results/example.json")).expect("reads");
        let mut cell = results.cells[0].clone();
        let round = cell.rounds[0].clone();
        cell.rounds = (1..=6).map(|start| Round { start, ..round.clone() }).collect();
        let disturb = |cell: &mut Cell, count: usize| {
            for round in cell.rounds.iter_mut().take(count) {
                round.standing = Standing::KeptThoughDisturbed;
            }
            of_cell(cell, Measure::StatementsPerSecond, None).readings.len()
        };
        assert_eq!([0, 1, 3, 4].map(|count| disturb(&mut cell, count)), [6, 5, 3, 6]);
    }

    #[test]
    fn a_start_has_a_yardstick_if_all_its_rounds_have_one() {
        let rounds = [(1, reading(2.0, Some(1.0))), (1, reading(2.0, None))];
        assert_eq!(of_rounds(rounds.into_iter()).readings[0].yardstick, None);
    }
}
