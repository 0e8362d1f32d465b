//! How long things took: counts in classes that grow with what they hold, so that no value is off by more than an
//! eighth of itself.
//!
//! Owns its counts; what is counted, and in which thread, is the owner's affair. Adding costs two additions.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Classes of each power of two.
const PARTS: usize = 4;

/// Everything from 2^32 µs (71 minutes) up is in the last class.
const CLASSES: usize = 31 * PARTS;

/// Durations, counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Histogram {
    #[serde(with = "described")]
    counts: [u64; CLASSES],
    count: u64,
    micros: u64,
    /// The longest of all.
    #[serde(default)]
    longest: u64,
}

/// Written as classes and their counts, without those that are empty.
mod described {
    use std::collections::BTreeMap;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::CLASSES;

    pub(super) fn serialize<S: Serializer>(
        counts: &[u64; CLASSES],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let counted = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counted.collect::<BTreeMap<_, _>>().serialize(serializer)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(
        deserializer: D,
    ) -> Result<[u64; CLASSES], D::Error> {
        let mut counts = [0; CLASSES];
        for (class, count) in BTreeMap::<usize, u64>::deserialize(deserializer)? {
            let place = counts.get_mut(class);
            *place.ok_or_else(|| D::Error::custom("there is no such class of times"))? = count;
        }
        Ok(counts)
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: [0; CLASSES], count: 0, micros: 0, longest: 0 }
    }
}

impl Histogram {
    pub fn add(&mut self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.counts[class(micros)] += 1;
        self.count += 1;
        self.micros = self.micros.saturating_add(micros);
        self.longest = self.longest.max(micros);
    }

    pub fn merge(&mut self, other: &Self) {
        for (here, there) in self.counts.iter_mut().zip(&other.counts) {
            *here += there;
        }
        self.count += other.count;
        self.micros = self.micros.saturating_add(other.micros);
        self.longest = self.longest.max(other.longest);
    }

    /// What has been added since an earlier state of the same histogram.
    pub fn since(&self, before: &Self) -> Self {
        let mut since = self.clone();
        for (here, there) in since.counts.iter_mut().zip(&before.counts) {
            *here = here.saturating_sub(*there);
        }
        since.count = since.counts.iter().sum();
        since.micros = self.micros.saturating_sub(before.micros);
        since
    }

    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The sum of all.
    pub const fn sum(&self) -> Duration {
        Duration::from_micros(self.micros)
    }

    /// How many were shorter than 2^`exponent` µs. Exact: no class crosses a power of two.
    pub fn below(&self, exponent: u32) -> u64 {
        let end = 1_u64.checked_shl(exponent).map_or(CLASSES, class);
        self.counts[..end].iter().sum()
    }

    /// How many were shorter than this; those of the class that it lies in count as longer.
    pub fn below_time(&self, time: Duration) -> u64 {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.counts[..class(micros)].iter().sum()
    }

    /// The longest of all; of what has been added [`Self::since`], not less than that.
    pub fn longest(&self) -> Option<Duration> {
        (self.count > 0).then(|| Duration::from_micros(self.longest))
    }

    /// The time that `share` of all did not exceed; a little more, never less, and never more than the longest.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let rank = (share.clamp(0.0, 1.0) * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let class = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(Duration::from_micros(first(class + 1).min(self.longest)))
    }
}

/// The class of a number of microseconds.
const fn class(micros: u64) -> usize {
    if micros < PARTS as u64 {
        return micros as usize;
    }
    let power = micros.ilog2();
    let part = (micros >> (power - 2)) as usize % PARTS;
    let class = (power as usize - 1) * PARTS + part;
    if class < CLASSES { class } else { CLASSES - 1 }
}

/// The first number of microseconds of a class.
const fn first(class: usize) -> u64 {
    if class < PARTS {
        return class as u64;
    }
    ((PARTS + class % PARTS) as u64) << (class / PARTS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_since_is_counted_alone() {
        let mut histogram = Histogram::default();
        histogram.add(Duration::from_micros(5));
        let before = histogram.clone();
        histogram.add(Duration::from_millis(3));
        let since = histogram.since(&before);
        assert_eq!((since.count(), since.sum()), (1, Duration::from_millis(3)));
        assert!(since.quantile(0.01) > Some(Duration::from_millis(2)));
        // Of workers, one of which did not answer the second time.
        assert_eq!(before.since(&histogram).count(), 0);
    }

    #[test]
    fn classes_follow_one_another() {
        for at in 0..CLASSES {
            assert_eq!(class(first(at)), at);
            assert_eq!(class(first(at + 1) - 1), at, "the end of {at}");
        }
        assert_eq!(class(u64::MAX), CLASSES - 1);
    }

    #[test]
    fn a_class_is_no_wider_than_a_quarter_of_what_it_holds() {
        for at in PARTS..CLASSES {
            assert!((first(at + 1) - first(at)) * 4 <= first(at), "{at}");
        }
    }

    #[test]
    fn quantiles_are_never_too_low() {
        let mut histogram = Histogram::default();
        for micros in 1..=1000 {
            histogram.add(Duration::from_micros(micros));
        }
        for share in [0.01, 0.5, 0.9, 0.99, 1.0] {
            let found = histogram.quantile(share).unwrap().as_micros() as f64;
            let exact = share * 1000.0;
            assert!(found >= exact && found <= exact * 1.3 + 1.0, "{share}: {found}");
        }
        assert_eq!(histogram.quantile(1.0), Some(Duration::from_micros(1000)), "what was longest");
        assert_eq!(histogram.longest(), Some(Duration::from_micros(1000)));
        let (default, mut merged) = (Histogram::default(), histogram.clone());
        assert_eq!((default.quantile(0.5), default.longest()), (None, None));
        histogram.add(Duration::from_secs(7));
        merged.merge(&histogram);
        assert_eq!(merged.longest(), Some(Duration::from_secs(7)));
    }

    #[test]
    fn powers_of_two_are_cumulative_and_exact() {
        let mut histogram = Histogram::default();
        for micros in [0, 1, 15, 16, 31, 32, 1 << 40] {
            histogram.add(Duration::from_micros(micros));
        }
        assert_eq!([0, 4, 5, 6, 70].map(|it| histogram.below(it)), [1, 3, 5, 6, 7]);
        assert_eq!((histogram.count(), histogram.sum().as_micros()), (7, (1 << 40) + 95));
        let mut twice = histogram.clone();
        twice.merge(&histogram);
        assert_eq!((twice.count(), twice.below(5)), (14, 10));
    }
}
