//! How sure one can be of a ratio, from two handfuls of measurements or from one of pairs.
//!
//! Pure numbers. Of three to ten rounds neither ranks nor resampling can tell much: five against
//! five have 252 orders in all, too few for a confidence that holds over a hundred cells at once,
//! and resampled medians of so few are too sure of themselves. Logarithms of rounds lie close enough
//! to a bell curve, so Welch's interval for the difference of their means is taken, which pays for
//! few rounds and for unequal noise with its width.

/// A ratio, and the ends between which it lies with the confidence that was asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
}

/// How often `new` is `old`. `None` of fewer than two numbers on a side, or of such as have no
/// logarithm.
pub fn ratio(old: &[f64], new: &[f64], confidence: f64) -> Option<Estimate> {
    let (old, new) = (Logs::of(old)?, Logs::of(new)?);
    let variance = old.variance_of_mean() + new.variance_of_mean();
    // Welch and Satterthwaite: as many degrees of freedom as the noisier side lets count.
    let part = |side: &Logs| side.variance_of_mean().powi(2) / (side.count - 1.0);
    let freedom = variance * variance / (part(&old) + part(&new));
    Estimate::around(new.mean - old.mean, variance, freedom, confidence)
}

/// The ratio of which each of these is one reading. Averaged are the logarithms, so that a target
/// compared with another says the same as the other compared with it. `None` as above.
pub fn mean(ratios: &[f64], confidence: f64) -> Option<Estimate> {
    let logs = Logs::of(ratios)?;
    Estimate::around(logs.mean, logs.variance_of_mean(), logs.count - 1.0, confidence)
}

impl Estimate {
    /// Student's interval around a logarithm.
    fn around(middle: f64, variance: f64, freedom: f64, confidence: f64) -> Option<Self> {
        // Without any noise there are no degrees of freedom either.
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

struct Logs {
    count: f64,
    mean: f64,
    variance: f64,
}

impl Logs {
    fn of(values: &[f64]) -> Option<Self> {
        if values.len() < 2 || values.iter().any(|value| !value.is_finite() || *value <= 0.0) {
            return None;
        }
        let count = values.len() as f64;
        let mean = values.iter().map(|value| value.ln()).sum::<f64>() / count;
        let squares = values.iter().map(|value| (value.ln() - mean).powi(2)).sum::<f64>();
        Some(Self { count, mean, variance: squares / (count - 1.0) })
    }

    fn variance_of_mean(&self) -> f64 {
        self.variance / self.count
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

const FAR: f64 = 1e9;
const HALVINGS: u32 = 80;
const TERMS: u32 = 300;
const TINY: f64 = 1e-300;
const STIRLING_FROM: f64 = 15.0;

#[cfg(test)]
mod tests {
    use super::*;

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
        let old = [100.0, 101.0, 99.0];
        let new = [95.0, 96.0, 94.0];
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

    #[test]
    fn rounds_without_noise_have_an_interval_without_width() {
        let found = ratio(&[2.0, 2.0], &[3.0, 3.0], 0.95).expect("has one");
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
            assert_eq!(ratio(old, new, 0.95), None, "{old:?} {new:?}");
        }
    }

    #[test]
    fn many_intervals_are_each_surer() {
        assert!((each_of(1, 0.99) - 0.99).abs() < 1e-12);
        assert!((each_of(100, 0.99) - 0.9999).abs() < 1e-6);
    }
}
