//! Random numbers of a seed: the same everywhere.

/// Draws of one kind. What draws apart keeps its draws when another thing draws more.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Dice of their own for something that is named.
    pub fn of(seed: u64, name: &str) -> Self {
        Self(crate::model::tables::hash(seed, name.as_bytes()))
    }

    /// SplitMix64 (Steele, Lea and Flood, 2014).
    pub const fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not zero.
    pub const fn below(&mut self, end: u64) -> u64 {
        self.draw() % end
    }

    pub const fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
}
