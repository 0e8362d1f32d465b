//! Comparing pairs of rounds: a middle, and how sure it is.
//!
//! Invariant: ratios are averaged by their logarithms, so that a target compared with another says
//! the same as the other compared with it.

use crate::results::{Cell, Interval, Measure, Ratio};

/// The geometric mean of some ratios, and where the true one lies with this confidence, if the
/// noise of their logarithms is normal: Student's interval. `None` without a single pair.
pub fn middle(pairs: &[f64]) -> Option<(f64, Option<Interval>)> {
    if pairs.is_empty() || pairs.iter().any(|pair| !pair.is_finite() || *pair <= 0.0) {
        return None;
    }
    let count = pairs.len() as f64;
    let mean = pairs.iter().map(|pair| pair.ln()).sum::<f64>() / count;
    if pairs.len() < PAIRS_MIN {
        return Some((mean.exp(), None));
    }
    let squares = pairs.iter().map(|pair| (pair.ln() - mean).powi(2)).sum::<f64>();
    let error = (squares / (count - 1.0)).sqrt() / count.sqrt();
    let reach = student(pairs.len() - 1) * error;
    let interval =
        Interval { low: (mean - reach).exp(), high: (mean + reach).exp(), confidence: CONFIDENCE };
    Some((mean.exp(), Some(interval)))
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

/// Two-sided quantiles of Student's distribution for 95 %, by degrees of freedom.
pub fn student(freedom: usize) -> f64 {
    let exact = freedom.checked_sub(1).and_then(|at| STUDENT.get(at));
    // Beyond the table, an expansion around the normal distribution is exact to a few thousandths.
    exact.copied().unwrap_or_else(|| {
        let n = freedom as f64;
        let z = 1.959_964_f64;
        z + (z.powi(3) + z) / (4.0 * n)
            + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * n * n)
    })
}

pub const CONFIDENCE: f64 = 0.95;
/// Of two pairs an interval could be computed, but it would reach from nothing to everything.
const PAIRS_MIN: usize = 3;
const STUDENT: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Results, Standing};

    #[test]
    fn ratios_and_their_inverses_say_the_same() {
        let pairs = [0.9, 1.0, 1.2, 0.95];
        let inverse = pairs.map(f64::recip);
        let (middle_of, interval) = middle(&pairs).expect("has pairs");
        let (middle_inverse, interval_inverse) = middle(&inverse).expect("has pairs");
        let (interval, interval_inverse) = (interval.unwrap(), interval_inverse.unwrap());
        assert!((middle_of * middle_inverse - 1.0).abs() < 1e-12);
        assert!((interval.low * interval_inverse.high - 1.0).abs() < 1e-12);
        assert!(interval.low < middle_of && middle_of < interval.high);
    }

    #[test]
    fn a_known_interval() {
        // Logarithms -0.1, 0, 0.1: deviation 0.1, of the mean 0.1/sqrt(3), times 4.303.
        let (middle, interval) = middle(&[(-0.1_f64).exp(), 1.0, 0.1_f64.exp()]).expect("pairs");
        let interval = interval.expect("three pairs");
        assert!((middle - 1.0).abs() < 1e-12);
        assert!((interval.high.ln() - 0.248_43).abs() < 1e-4, "{interval:?}");
    }

    #[test]
    fn few_or_impossible_pairs_have_no_interval() {
        assert_eq!(middle(&[]), None);
        assert_eq!(middle(&[1.0, 0.0, 2.0]), None);
        assert_eq!(middle(&[1.0, f64::NAN]), None);
        assert_eq!(middle(&[2.0]), Some((2.0, None)));
    }

    #[test]
    fn the_table_goes_on_smoothly() {
        assert!((student(11) - 2.201).abs() < 3e-3 && (student(30) - 2.042).abs() < 1e-3);
        assert!((1..40).map(student).collect::<Vec<_>>().is_sorted_by(|a, b| a > b));
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
