//! Comparing pairs of rounds: a middle, and how sure it is.
//!
//! Owns what is a pair; the arithmetic is that of [`crate::statistics`]. Invariant: only rounds of
//! the same number that count on both sides are a pair.

use crate::results::{Cell, Interval, Measure, Ratio};
use crate::statistics::{Estimate, mean};

/// The geometric mean of some ratios, and where the true one lies with this confidence, if the
/// noise of their logarithms is normal. `None` without a single pair.
pub fn middle(pairs: &[f64]) -> Option<(f64, Option<Interval>)> {
    match pairs {
        [pair] if pair.is_finite() && 0.0 < *pair => Some((*pair, None)),
        _ => {
            let Estimate { ratio, low, high } = mean(pairs, CONFIDENCE)?;
            let interval = Interval { low, high, confidence: CONFIDENCE };
            Some((ratio, Some(interval).filter(|_| PAIRS_MIN <= pairs.len())))
        }
    }
}

/// Compares one cell with another round by round, by each measure that both have.
pub fn ratios(cell: &Cell, base: &Cell) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for measure in Measure::ALL {
        let pairs: Vec<f64> = pairs(cell, base, measure).collect();
        let Some((middle, interval)) = middle(&pairs) else { continue };
        ratios.push(Ratio {
            workload: cell.workload.clone(),
            clients: cell.clients,
            target: cell.target.clone(),
            base: base.target.clone(),
            measure,
            pairs,
            middle,
            interval,
        });
    }
    ratios
}

/// Rounds of the same number that count on both sides.
fn pairs(cell: &Cell, base: &Cell, measure: Measure) -> impl Iterator<Item = f64> {
    cell.kept().filter_map(move |round| {
        let other = base.kept().find(|other| other.number == round.number)?;
        let ratio = measure.of(round)? / measure.of(other)?;
        (ratio.is_finite() && 0.0 < ratio).then_some(ratio)
    })
}

const CONFIDENCE: f64 = 0.95;
/// Of two pairs an interval could be computed, but it would reach from nothing to everything.
const PAIRS_MIN: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Results, Standing};

    #[test]
    fn few_or_impossible_pairs_have_no_interval() {
        assert_eq!(middle(&[]), None);
        assert_eq!(middle(&[1.0, 0.0, 2.0]), None);
        assert_eq!(middle(&[1.0, f64::NAN]), None);
        assert_eq!(middle(&[2.0]), Some((2.0, None)));
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
