//! How sure one can be of a ratio, from two handfuls of measurements or from one of pairs.
//!
//! Pure numbers; what is a reading and independent of others is told by [`crate::figures::units`].
//! Of three to ten readings neither ranks nor resampling can tell much: five against
//! five have 252 orders in all, too few for a confidence that holds over a hundred cells at once,
//! and resampled medians of so few are too sure of themselves. Logarithms of rounds lie close enough
//! to a bell curve, so Student's intervals are taken, which pay for few rounds with their width.

/// A ratio, and the ends between which it lies with the confidence that was asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
}

/// A figure of a start or a round, and the time that a known piece of work took meanwhile, if there was one: the
/// longer, the slower was the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    pub value: f64,
    pub yardstick: Option<f64>,
}

/// How often `new` is `old`, on a machine that is equally fast both times. Both are in the order of
/// time. `None` of fewer than two numbers on a side, or of such as have no logarithm.
///
/// How much the figure follows the machine's speed is learned from the rounds themselves (a
/// covariance analysis with one slope for both sides), and the interval pays for that. It pays too
/// for rounds that resemble the one before, since those tell less than as many independent ones, and
/// for every correction: the slope within a run need not hold from one run to the other.
pub fn ratio(old: &[Reading], new: &[Reading], confidence: f64) -> Option<Estimate> {
    let (old, new) = (Side::of(old)?, Side::of(new)?);
    let count = old.count() + new.count();
    let yardsticks = old.products(&old.yardsticks, &old.yardsticks)
        + new.products(&new.yardsticks, &new.yardsticks);
    let together =
        old.products(&old.values, &old.yardsticks) + new.products(&new.values, &new.yardsticks);
    let learns = 0.0 < yardsticks && SLOPE_FROM <= count;
    let slope = if learns { together / yardsticks } else { 0.0 };
    let apart = new.yardsticks.mean - old.yardsticks.mean;
    let middle = new.values.mean - old.values.mean - slope * apart;
    let rests = [old.rests(slope), new.rests(slope)];
    let squares: f64 = rests.iter().flatten().map(|rest| rest * rest).sum();
    let freedom = count - if learns { 3.0 } else { 2.0 };
    let mut spread = 1.0 / old.count() + 1.0 / new.count();
    if learns {
        spread += apart * apart / yardsticks;
    }
    let alike = alike(&rests);
    let variance = squares / freedom * spread * alike + (DOUBT * slope * apart).powi(2);
    Estimate::around(middle, variance, freedom / alike, confidence)
}

/// The ratio of which each of these is one reading. Averaged are the logarithms, so that a target
/// compared with another says the same as the other compared with it. `None` as above.
pub fn mean(ratios: &[f64], confidence: f64) -> Option<Estimate> {
    if ratios.len() < 2 {
        return None;
    }
    let logs = Logs::of(ratios.iter().copied())?;
    let count = logs.all.len() as f64;
    let squares: f64 = logs.all.iter().map(|log| (log - logs.mean).powi(2)).sum();
    Estimate::around(logs.mean, squares / (count - 1.0) / count, count - 1.0, confidence)
}

impl Estimate {
    /// Student's interval around a logarithm.
    fn around(middle: f64, variance: f64, freedom: f64, confidence: f64) -> Option<Self> {
        let half =
            if variance == 0.0 { 0.0 } else { student(confidence, freedom) * variance.sqrt() };
        let [ratio, low, high] = [middle, middle - half, middle + half].map(f64::exp);
        [ratio, low, high].iter().all(|it| it.is_finite()).then_some(Self { ratio, low, high })
    }
}

/// The confidence of each of so many intervals, for all of them together to have this one.
pub fn each_of(count: usize, together: f64) -> f64 {
    together.powf(1.0 / count.max(1) as f64)
}

/// The rounds of one run.
struct Side {
    values: Logs,
    /// All the same where there is no yardstick.
    yardsticks: Logs,
}

impl Side {
    fn of(readings: &[Reading]) -> Option<Self> {
        if readings.len() < 2 {
            return None;
        }
        let values = Logs::of(readings.iter().map(|it| it.value))?;
        let has_all = readings.iter().all(|it| it.yardstick.is_some_and(|it| 0.0 < it));
        let yardstick = |it: &Reading| if has_all { it.yardstick.unwrap_or(1.0) } else { 1.0 };
        Some(Self { values, yardsticks: Logs::of(readings.iter().map(yardstick))? })
    }

    fn count(&self) -> f64 {
        self.values.all.len() as f64
    }

    /// The sum of the products of the deviations of two series.
    fn products(&self, a: &Logs, b: &Logs) -> f64 {
        a.all.iter().zip(&b.all).map(|(x, y)| (x - a.mean) * (y - b.mean)).sum()
    }

    /// What the machine's speed does not explain.
    fn rests(&self, slope: f64) -> Vec<f64> {
        let pairs = self.values.all.iter().zip(&self.yardsticks.all);
        pairs.map(|(x, y)| x - self.values.mean - slope * (y - self.yardsticks.mean)).collect()
    }
}

/// How many rounds tell as much as one independent one: by the correlation of each with the next.
fn alike(rests: &[Vec<f64>; 2]) -> f64 {
    let squares: f64 = rests.iter().flatten().map(|rest| rest * rest).sum();
    if squares == 0.0 {
        return 1.0;
    }
    let next: f64 = rests.iter().flat_map(|it| it.windows(2)).map(|it| it[0] * it[1]).sum();
    let correlation = (next / squares).clamp(0.0, ALIKE_MAX);
    (1.0 + correlation) / (1.0 - correlation)
}

struct Logs {
    all: Vec<f64>,
    mean: f64,
}

impl Logs {
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let logs = values.map(|value| (value.is_finite() && 0.0 < value).then(|| value.ln()));
        let all: Vec<f64> = logs.collect::<Option<_>>()?;
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        Some(Self { all, mean })
    }
}

/// How many standard errors to each side Student's distribution has this confidence.
fn student(confidence: f64, freedom: f64) -> f64 {
    let outside = |t: f64| incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5);
    let (mut low, mut high) = (0.0, 1.0);
    while 1.0 - confidence < outside(high) && high < FAR {
        high *= 2.0;
    }
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if 1.0 - confidence < outside(middle) { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// The regularized incomplete beta function, by its continued fraction (Lentz's way).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || 1.0 <= x {
        return if x <= 0.0 { 0.0 } else { 1.0 };
    }
    // The fraction converges on this side; on the other the mirror image does.
    if (a + 1.0) / (a + b + 2.0) < x {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = a * x.ln() + b * (1.0 - x).ln() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b);
    let apart = |value: f64| if value.abs() < TINY { TINY } else { value };
    let (mut c, mut d) = (1.0, 1.0 / apart(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for step in 1..=TERMS {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        for term in [even, odd] {
            d = 1.0 / apart(1.0 + term * d);
            c = apart(1.0 + term / c);
            fraction *= c * d;
        }
        if (c * d - 1.0).abs() < f64::EPSILON {
            break;
        }
    }
    front.exp() * fraction / a
}

/// By Stirling's series, far enough from zero for it to be exact.
fn ln_gamma(x: f64) -> f64 {
    if x < STIRLING_FROM {
        return ln_gamma(x + 1.0) - x.ln();
    }
    let square = x * x;
    let series = (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / (1260.0 * square)) / square) / x;
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series
}

/// Of fewer rounds in all, a slope would be learned from too little.
const SLOPE_FROM: f64 = 8.0;
/// The standard error of a correction, as a share of it: by so much, about, slopes that were learned
/// from rounds differed from those that were learned from the starts of the same servers.
const DOUBT: f64 = 0.2;
/// Of a handful of rounds, chance makes correlations up to one.
const ALIKE_MAX: f64 = 0.7;
const FAR: f64 = 1e9;
const HALVINGS: u32 = 80;
const TERMS: u32 = 300;
const TINY: f64 = 1e-300;
const STIRLING_FROM: f64 = 15.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(values: &[f64]) -> Vec<Reading> {
        values.iter().map(|value| Reading { value: *value, yardstick: None }).collect()
    }

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (confidence, freedom, want) in [
            (0.95, 1.0, 12.706),
            (0.95, 4.0, 2.776),
            (0.99, 8.0, 3.355),
            (0.999, 8.0, 5.041),
            (0.95, 30.0, 2.042),
            (0.95, 1000.0, 1.962),
        ] {
            let t = student(confidence, freedom);
            assert!((t - want).abs() < 0.001 * want, "{confidence} {freedom}: {t}");
        }
    }

    #[test]
    fn an_interval_is_around_its_ratio_and_narrows_with_rounds() {
        let old = readings(&[100.0, 101.0, 99.0]);
        let new = readings(&[95.0, 96.0, 94.0]);
        let few = ratio(&old, &new, 0.95).expect("has one");
        assert!((few.ratio - 0.95).abs() < 0.001 && few.low < 0.95 && 0.95 < few.high, "{few:?}");
        let many = ratio(&old.repeat(3), &new.repeat(3), 0.95).expect("has one");
        assert!(many.high - many.low < (few.high - few.low) / 2.0, "{many:?}");
        let surer = ratio(&old, &new, 0.999).expect("has one");
        assert!(surer.low < few.low && few.high < surer.high);
    }

    #[test]
    fn ratios_and_their_inverses_say_the_same() {
        let ratios = [0.9, 1.0, 1.2, 0.95];
        let of = mean(&ratios, 0.95).expect("has one");
        let inverse = mean(&ratios.map(f64::recip), 0.95).expect("has one");
        assert!((of.ratio * inverse.ratio - 1.0).abs() < 1e-12);
        assert!((of.low * inverse.high - 1.0).abs() < 1e-12);
        assert!(of.low < of.ratio && of.ratio < of.high);
    }

    #[test]
    fn a_known_interval() {
        // Logarithms -0.1, 0, 0.1: deviation 0.1, of the mean 0.1/sqrt(3), times 4.303.
        let found = mean(&[(-0.1_f64).exp(), 1.0, 0.1_f64.exp()], 0.95).expect("has one");
        assert!((found.ratio - 1.0).abs() < 1e-12);
        assert!((found.high.ln() - 0.248_43).abs() < 1e-4, "{found:?}");
    }

    /// What a machine of these speeds shows of a figure that falls with their power of 1.5.
    fn beside(figure: f64, speeds: &[f64]) -> Vec<Reading> {
        let of = |(at, speed): (usize, &f64)| {
            // A small noise that has nothing to do with the speed.
            let noise = [1.004, 0.996, 0.999, 1.001][at % 4];
            Reading { value: figure * noise / speed.powf(1.5), yardstick: Some(*speed) }
        };
        speeds.iter().enumerate().map(of).collect()
    }

    fn blind(readings: &[Reading]) -> Vec<Reading> {
        readings.iter().map(|it| Reading { yardstick: None, ..*it }).collect()
    }

    #[test]
    fn a_machine_that_slows_down_is_told_from_a_figure_that_does() {
        let calm = [1.0, 1.1, 0.95, 1.05, 1.02, 0.98, 1.2, 1.0];
        let slow = calm.map(|speed| speed * 1.15);
        let (old, same, worse) = (beside(100.0, &calm), beside(100.0, &slow), beside(95.0, &slow));
        let equal = ratio(&old, &same, 0.99).expect("has one");
        assert!(
            equal.low < 1.0 && 1.0 < equal.high && (equal.ratio - 1.0).abs() < 0.002,
            "{equal:?}"
        );
        let found = ratio(&old, &worse, 0.99).expect("has one");
        assert!((found.ratio - 0.95).abs() < 0.003, "{found:?}");
        assert!(1.0 < found.high, "so large a correction is not trusted that far: {found:?}");
        let near = ratio(&old, &beside(95.0, &calm), 0.99).expect("has one");
        assert!(near.high < 0.96, "{near:?}");
        let without = ratio(&blind(&old), &blind(&worse), 0.99).expect("has one");
        assert!(without.ratio < 0.8, "{without:?}");
        let half = ratio(&blind(&old), &worse, 0.99);
        assert!(half.is_some_and(|it| 0.0 < it.low), "{half:?}");
    }

    #[test]
    fn rounds_that_resemble_the_one_before_tell_less() {
        let of = |values: [f64; 8]| values.map(|value| Reading { value, yardstick: None });
        let mixed = of([98.0, 102.0, 98.0, 102.0, 98.0, 102.0, 98.0, 102.0]);
        let drifting = of([98.0, 98.0, 98.0, 98.0, 102.0, 102.0, 102.0, 102.0]);
        let width = |it: &[Reading]| ratio(it, it, 0.95).map(|it| it.high - it.low).expect("one");
        assert!(1.8 * width(&mixed) < width(&drifting), "{}", width(&drifting));
    }

    #[test]
    fn rounds_without_noise_have_an_interval_without_width() {
        let found = ratio(&readings(&[2.0, 2.0]), &readings(&[3.0, 3.0]), 0.95).expect("has one");
        assert!((found.low - 1.5).abs() < 1e-9 && (found.high - 1.5).abs() < 1e-9);
    }

    #[test]
    fn what_has_no_interval_has_none() {
        for (old, new) in [
            (&[1.0][..], &[1.0, 2.0][..]),
            (&[1.0, 2.0], &[]),
            (&[0.0, 1.0], &[1.0, 2.0]),
            (&[f64::NAN, 1.0], &[1.0, 2.0]),
        ] {
            assert_eq!(ratio(&readings(old), &readings(new), 0.95), None, "{old:?} {new:?}");
        }
    }

    #[test]
    fn many_intervals_are_each_surer() {
        assert!((each_of(1, 0.99) - 0.99).abs() < 1e-12);
        assert!((each_of(100, 0.99) - 0.9999).abs() < 1e-6);
    }
}
