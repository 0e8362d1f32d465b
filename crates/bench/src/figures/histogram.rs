//! Counts of durations in buckets that are narrow where durations are short.
//!
//! Invariants: a bucket is at most a 64th as wide as what lies in it is long, so that a percentile
//! is wrong by 1.6 % at most, and never too low; sum and maximum are exact; histograms of the same
//! kind can be added.

use crate::results::Latency;

/// A histogram of nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// As long as what was recorded needs.
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    max: u64,
}

/// A histogram that takes as little room as it can, to be kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    counts: Vec<(u32, u64)>,
    max: u64,
}

impl Histogram {
    pub fn record(&mut self, nanoseconds: u64) {
        let index = index(nanoseconds);
        if self.counts.len() <= index {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += 1;
        self.count += 1;
        self.sum += u128::from(nanoseconds);
        self.max = self.max.max(nanoseconds);
    }

    pub fn add(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Takes everything out as a short list of buckets and their counts.
    pub fn drain(&mut self) -> Digest {
        let filled = self.counts.iter_mut().enumerate().filter(|(_, count)| 0 < **count);
        let counts = filled.map(|(at, count)| (at as u32, std::mem::take(count))).collect();
        let digest = Digest { counts, max: self.max };
        (self.count, self.sum, self.max) = (0, 0, 0);
        digest
    }

    /// Adds what was drained from another one; its sum is lost.
    pub fn add_digest(&mut self, digest: &Digest) {
        for (at, count) in &digest.counts {
            let at = *at as usize;
            if self.counts.len() <= at {
                self.counts.resize(at + 1, 0);
            }
            self.counts[at] += count;
            self.count += count;
        }
        self.max = self.max.max(digest.max);
    }

    pub const fn count(&self) -> u64 {
        self.count
    }

    pub const fn max(&self) -> u64 {
        self.max
    }

    /// What this share of all did not exceed; 0 if there is nothing.
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = ((self.count as f64 * share).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if wanted <= seen {
                return upper(index).min(self.max);
            }
        }
        self.max
    }

    /// As it is reported.
    pub fn latency(&self) -> Latency {
        let filled = self.counts.iter().enumerate().filter(|(_, count)| 0 < **count);
        Latency {
            count: self.count,
            mean_ms: self.sum as f64 / self.count.max(1) as f64 / NS_PER_MS,
            p50_ms: ms(self.quantile(0.5)),
            p95_ms: ms(self.quantile(0.95)),
            p99_ms: ms(self.quantile(0.99)),
            p99_9_ms: ms(self.quantile(0.999)),
            max_ms: ms(self.max),
            buckets: filled.map(|(index, count)| (ms(upper(index)), *count)).collect(),
        }
    }
}

pub fn ms(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / NS_PER_MS
}

/// Below 2^(BITS+1) units each unit has its own bucket; above, each power of two has 2^BITS.
fn index(nanoseconds: u64) -> usize {
    let units = nanoseconds.min(LONGEST) >> UNIT_BITS;
    let octave = (u64::BITS - units.leading_zeros()).saturating_sub(BITS + 1);
    ((u64::from(octave) << BITS) + (units >> octave)) as usize
}

/// The longest duration in a bucket.
fn upper(index: usize) -> u64 {
    let index = index as u64;
    let octave = (index >> BITS).saturating_sub(1);
    let units = index - (octave << BITS);
    (((units + 1) << octave) << UNIT_BITS) - 1
}

/// Sixty-four buckets for each power of two.
const BITS: u32 = 6;
/// 256 ns: nothing that is measured here is shorter than several of them.
const UNIT_BITS: u32 = 8;
/// Three hours and some; what lasts longer is counted as that long, but for sum and maximum.
const LONGEST: u64 = (1 << 44) - 1;
const NS_PER_MS: f64 = 1e6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_lies_in_a_bucket_that_is_narrow_enough() {
        let mut last = 0;
        for exponent in 0..44 {
            for step in 0..200_u64 {
                let value = (1_u64 << exponent) + step * (1 << exponent) / 200;
                let index = index(value);
                let end = upper(index);
                assert!(value <= end, "{value} {end}");
                assert!(end - value <= (value / 64).max(256), "{value} {end}");
                assert!(last <= index, "{value}");
                last = index;
            }
        }
        assert!(last < 3000, "{last}");
        assert_eq!(index(u64::MAX), index(LONGEST));
    }

    #[test]
    fn quantiles_of_a_known_series() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|value| histogram.record(value * 1_000_000));
        for (share, want) in [(0.0, 1.0), (0.5, 500.0), (0.95, 950.0), (0.999, 999.0), (1.0, 1e3)] {
            let got = ms(histogram.quantile(share));
            assert!(want <= got && got <= want * 1.017, "{share}: {got}");
        }
        let latency = histogram.latency();
        assert_eq!((latency.count, latency.mean_ms, latency.max_ms), (1000, 500.5, 1000.0));
        let sum: u64 = latency.buckets.iter().map(|(_, count)| count).sum();
        assert_eq!(sum, 1000);
        assert!(latency.buckets.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn sums_and_empty_ones() {
        let (mut one, mut two) = (Histogram::default(), Histogram::default());
        assert_eq!((one.quantile(0.99), one.latency()), (0, Latency::default()));
        one.record(5);
        two.record(7_000_000);
        two.record(9);
        one.add(&two);
        assert_eq!((one.count(), one.max()), (3, 7_000_000));
        let digest = two.drain();
        assert_eq!((two.count(), two.latency()), (0, Latency::default()));
        two.add_digest(&digest);
        assert_eq!((two.count(), two.max(), two.quantile(1.0)), (2, 7_000_000, 7_000_000));
    }
}
