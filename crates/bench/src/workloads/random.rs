//! Random numbers, and sysbench's ways of drawing ids from a range.
//!
//! Not for secrets. Invariant: the same seed gives the same numbers, and every id drawn lies in the
//! range that was asked for.

use std::fmt;
use std::str::FromStr;

/// A small and fast generator: the one called SplitMix64.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A generator of its own for each number.
    pub fn split(seed: u64, number: u64) -> Self {
        let mut parent = Self::new(seed ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93));
        Self::new(parent.draw())
    }

    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 up to and without 1.
    pub fn unit(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// From `low` to `high`, both included, all alike.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        let span = high.saturating_sub(low).saturating_add(1);
        low + ((u128::from(self.draw()) * u128::from(span)) >> 64) as u64
    }

    /// Appends groups of eleven digits with dashes between them, as sysbench's columns hold them.
    pub fn put_digits(&mut self, groups: usize, out: &mut Vec<u8>) {
        for group in 0..groups {
            if 0 < group {
                out.push(b'-');
            }
            // As a fraction of 2^64, multiplied by ten again and again: its digits fall out.
            let mut fraction = self.draw();
            for _ in 0..GROUP {
                let tenfold = u128::from(fraction) * 10;
                out.push(b'0' + (tenfold >> 64) as u8);
                fraction = tenfold as u64;
            }
        }
    }
}

/// Digits in a group.
const GROUP: usize = 11;

/// How ids are drawn; sysbench's names and its defaults for their shapes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distribution {
    /// Three of four from one percent in the middle, the others bell-shaped around it.
    #[default]
    Special,
    Uniform,
    Gaussian,
    Pareto,
    /// The lowest id most often, each after it as often as its place to the power of −0.8 says.
    Zipfian,
}

impl Distribution {
    pub const ALL: [Self; 5] =
        [Self::Special, Self::Uniform, Self::Gaussian, Self::Pareto, Self::Zipfian];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Special => "special",
            Self::Uniform => "uniform",
            Self::Gaussian => "gaussian",
            Self::Pareto => "pareto",
            Self::Zipfian => "zipfian",
        }
    }

    /// Draws from `low` to `high`, both included.
    pub fn draw(self, random: &mut Random, low: u32, high: u32) -> u32 {
        let high = high.max(low);
        let span = f64::from(high - low);
        let above = match self {
            Self::Special => special(random, span),
            Self::Uniform => random.unit() * (span + 1.0),
            Self::Gaussian => bell(random) * (span + 1.0),
            Self::Pareto => random.unit().powf(pareto_power()) * (span + 1.0),
            Self::Zipfian => zipfian(random, span + 1.0) - 1.0,
        };
        low + (above as u32).min(high - low)
    }
}

impl FromStr for Distribution {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|it| it.name() == name);
        known.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("{name:?} is no distribution; there are {names}")
        })
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One draw decides which part it belongs to, and in the middle part where it falls.
fn special(random: &mut Random, span: f64) -> f64 {
    let drawn = random.unit();
    if drawn < 1.0 - SPECIAL_SHARE {
        return bell(random) * span;
    }
    let middle = span * SPECIAL_WIDTH;
    (drawn * (middle + 1.0) + span / 2.0 - middle / 2.0).trunc()
}

/// The mean of several draws.
fn bell(random: &mut Random) -> f64 {
    (0..ITERATIONS).map(|_| random.unit()).sum::<f64>() / f64::from(ITERATIONS)
}

fn pareto_power() -> f64 {
    PARETO_H.ln() / (1.0 - PARETO_H).ln()
}

/// Draws a place from 1 to `n` by rejection-inversion (Hörmann and Derflinger, 1996), as sysbench does.
fn zipfian(random: &mut Random, n: f64) -> f64 {
    // The integral of x to the power of −e, its inverse, and that power.
    let integral = |x: f64| ((1.0 - ZIPFIAN_EXPONENT) * x.ln()).exp_m1() / (1.0 - ZIPFIAN_EXPONENT);
    let inverse = |y: f64| {
        let t = (y * (1.0 - ZIPFIAN_EXPONENT)).max(-1.0);
        (t.ln_1p() / (1.0 - ZIPFIAN_EXPONENT)).exp()
    };
    let power = |x: f64| x.powf(-ZIPFIAN_EXPONENT);
    let (first, last) = (integral(1.5) - 1.0, integral(n + 0.5));
    let near = 2.0 - inverse(integral(2.5) - power(2.0));
    loop {
        let drawn = last + random.unit() * (first - last);
        let x = inverse(drawn);
        let place = (x + 0.5).floor().clamp(1.0, n);
        if place - x <= near || drawn >= integral(place + 0.5) - power(place) {
            return place;
        }
    }
}

/// sysbench's `--rand-spec-iter`, `--rand-spec-res`, `--rand-spec-pct`, `--rand-pareto-h` and
/// `--rand-zipfian-exp`.
const ITERATIONS: u32 = 12;
const SPECIAL_SHARE: f64 = 0.75;
const SPECIAL_WIDTH: f64 = 0.01;
const PARETO_H: f64 = 0.2;
const ZIPFIAN_EXPONENT: f64 = 0.8;

#[cfg(test)]
mod tests {
    use super::*;

    fn share(distribution: Distribution, low: u32, high: u32) -> f64 {
        let mut random = Random::new(7);
        let draws = 100_000;
        let within = (0..draws)
            .map(|_| distribution.draw(&mut random, 1, 100_000))
            .inspect(|id| assert!((1..=100_000).contains(id), "{id}"))
            .filter(|id| (low..=high).contains(id))
            .count();
        within as f64 / f64::from(draws)
    }

    #[test]
    fn special_prefers_one_percent_in_the_middle() {
        // A share of 0.01 of the bell falls there too.
        let middle = share(Distribution::Special, 49_500, 50_501);
        assert!((0.75..0.80).contains(&middle), "{middle}");
    }

    #[test]
    fn the_others_have_their_shapes() {
        for (distribution, low, high, want) in [
            (Distribution::Uniform, 1, 25_000, 0.25),
            // A mean of twelve has a deviation of a twelfth: two thirds are this near.
            (Distribution::Gaussian, 41_667, 58_333, 0.683),
            // A fifth of the ids gets four fifths of the draws.
            (Distribution::Pareto, 1, 20_000, 0.8),
            // The sum of the first hundred powers by that of all.
            (Distribution::Zipfian, 1, 100, 0.1785),
            (Distribution::Zipfian, 1, 10_000, 0.595),
        ] {
            let got = share(distribution, low, high);
            assert!((got - want).abs() < 0.02, "{distribution}: {got}");
        }
    }

    #[test]
    fn narrow_and_reversed_ranges_hold_one_id() {
        let mut random = Random::new(1);
        for distribution in Distribution::ALL {
            assert_eq!(distribution.draw(&mut random, 5, 5), 5);
            assert_eq!(distribution.draw(&mut random, 5, 2), 5);
        }
        assert_eq!(random.between(9, 9), 9);
    }

    #[test]
    fn digits_stand_in_groups() {
        let mut out = Vec::new();
        Random::new(3).put_digits(10, &mut out);
        assert_eq!(out.len(), 119);
        let groups: Vec<&[u8]> = out.split(|byte| *byte == b'-').collect();
        assert!(groups.iter().all(|it| it.len() == 11 && it.iter().all(u8::is_ascii_digit)));
        assert_ne!(groups[0], groups[1]);
    }

    #[test]
    fn names_lead_back_to_their_distributions() {
        for distribution in Distribution::ALL {
            assert_eq!(distribution.to_string().parse(), Ok(distribution));
        }
        assert!("zipf".parse::<Distribution>().is_err());
    }

    #[test]
    fn split_generators_differ() {
        let first: Vec<u64> = (0..8).map(|number| Random::split(1, number).draw()).collect();
        let distinct: std::collections::BTreeSet<_> = first.iter().collect();
        assert_eq!(distinct.len(), first.len());
    }
}
