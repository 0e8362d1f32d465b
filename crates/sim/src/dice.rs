//! Random numbers of a seed: the same everywhere.

use testkit::differ::generate::Random;

use crate::model::tables::hash;

/// Draws of one kind. What draws apart keeps its draws when another thing draws more.
#[derive(Clone, Debug)]
pub struct Dice(Random);

impl Dice {
    /// Dice of their own for something that is named.
    pub fn of(seed: u64, name: &str) -> Self {
        Self(Random::new(hash(seed, name.as_bytes())))
    }

    /// A number below `end`, which is not zero.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0.number() % end
    }

    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.0.below(from.len())]
    }
}
