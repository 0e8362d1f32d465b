//! Comparing pairs of rounds: a middle, and how sure it is.
//!
//! Owns what is a pair; what of them is independent is told by [`super::units`], the arithmetic is
//! that of [`crate::statistics`]. Invariant: only rounds of the same number that count on both sides
//! are a pair.

use super::units::{self, UNITS_MIN, Units};
use crate::results::{Cell, Interval, Measure, Ratio};
use crate::statistics::{Estimate, Reading, mean};

/// Compares one cell with another round by round, by each measure that both have.
pub fn ratios(cell: &Cell, base: &Cell) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for measure in Measure::ALL {
        let rounds: Vec<(u32, f64)> = pairs(cell, base, measure).collect();
        let Some((middle, interval)) = middle(&rounds) else { continue };
        ratios.push(Ratio {
            topology: cell.topology.clone(),
            workload: cell.workload.clone(),
            clients: cell.clients,
            target: cell.target.clone(),
            base: base.target.clone(),
            measure,
            pairs: rounds.into_iter().map(|(_, pair)| pair).collect(),
            middle,
            interval,
        });
    }
    ratios
}

/// The geometric mean of some ratios, each with its start, and where the true one lies with this
/// confidence, if the noise of their logarithms is normal. Of too few starts the interval is one over
/// their rounds, and says so. `None` without a single pair.
fn middle(rounds: &[(u32, f64)]) -> Option<(f64, Option<Interval>)> {
    let of = |each: fn(u32) -> u32| {
        let reading =
            |&(start, value): &(u32, f64)| (each(start), Reading { value, yardstick: None });
        units::of_rounds(rounds.iter().map(reading))
    };
    let starts = of(|start| start);
    let units = if starts.readings.len() < UNITS_MIN { of(|_| 0) } else { starts };
    middle_of(&units)
}

fn middle_of(Units { readings, over }: &Units) -> Option<(f64, Option<Interval>)> {
    let values: Vec<f64> = readings.iter().map(|it| it.value).collect();
    if let [value] = values[..] {
        return (value.is_finite() && 0.0 < value).then_some((value, None));
    }
    let Estimate { ratio, low, high } = mean(&values, CONFIDENCE)?;
    let interval = Interval { low, high, confidence: CONFIDENCE, over: *over };
    Some((ratio, Some(interval).filter(|_| UNITS_MIN <= values.len())))
}

/// Rounds of the same number that count on both sides.
fn pairs(cell: &Cell, base: &Cell, measure: Measure) -> impl Iterator<Item = (u32, f64)> {
    cell.kept().filter_map(move |round| {
        let other = base.kept().find(|other| other.number == round.number)?;
        let ratio = measure.of(round)? / measure.of(other)?;
        // Of a pair where only one was started, the other has nothing to do with it.
        let start = round.start.max(other.start);
        (ratio.is_finite() && 0.0 < ratio).then_some((start, ratio))
    })
}

const CONFIDENCE: f64 = 0.95;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Over, Results, Standing};

    #[test]
    fn few_or_impossible_pairs_have_no_interval() {
        let of = |ratios: &[f64]| middle(&ratios.iter().map(|it| (1, *it)).collect::<Vec<_>>());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[1.0, 0.0, 2.0]), None);
        assert_eq!(of(&[1.0, f64::NAN]), None);
        assert_eq!(of(&[2.0]), Some((2.0, None)));
        assert!(of(&[2.0, 2.0]).is_some_and(|(_, interval)| interval.is_none()));
    }

    #[test]
    fn intervals_are_over_starts_if_there_are_enough() {
        // Rounds agree within a start, and starts do not with each other.
        let apart = [0.9, 1.0, 1.1];
        let of = |starts: [u32; 3]| {
            let pairs: Vec<_> =
                starts.iter().zip(apart).flat_map(|(at, it)| [(*at, it); 4]).collect();
            middle(&pairs).and_then(|(_, interval)| interval).expect("has one")
        };
        let (starts, one, none) = (of([1, 2, 3]), of([1, 1, 1]), of([0, 0, 0]));
        assert_eq!((starts.over, one.over, none.over), (Over::Starts, Over::Rounds, Over::Rounds));
        assert!(3.0 * (one.high - one.low) < starts.high - starts.low, "{starts:?} {one:?}");
        assert!((one.low - none.low).abs() < 1e-12);
    }

    #[test]
    fn only_rounds_that_count_on_both_sides_are_pairs() {
        let example = include_str!("../results/example.json");
        let results: Results = serde_json::from_str(example).expect("is one");
        let (base, mut cell) = (results.cells[0].clone(), results.cells[1].clone());
        let ratio = &ratios(&cell, &base)[0];
        assert_eq!((ratio.pairs.len(), ratio.measure), (3, Measure::StatementsPerSecond));
        assert!((ratio.pairs[0] - 52_000.0 / 60_000.0).abs() < 1e-9);
        cell.rounds[1].standing = Standing::Cut;
        assert_eq!(ratios(&cell, &base)[0].pairs.len(), 2);
        let proxied = |it: &Ratio| it.measure == Measure::ProxyCpuUs;
        assert!(!ratios(&cell, &base).iter().any(proxied), "the base has no proxy");
    }
}
