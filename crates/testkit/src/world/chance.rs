//! Numbers that look random and are the same each time.

use bench::workloads::random::Random;

/// A generator of its seed.
#[derive(Debug)]
pub(super) struct Chance(Random);

impl Chance {
    pub(super) const fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    /// At least 0 and less than 1.
    pub(super) fn share(&mut self) -> f64 {
        self.0.unit()
    }

    /// A time whose mean this is, as between independent events.
    pub(super) fn around(&mut self, mean: f64) -> f64 {
        -(1.0 - self.share()).ln() * mean
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.share() * bound as f64) as usize
    }
}
