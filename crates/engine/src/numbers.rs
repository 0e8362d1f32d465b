//! Tables whose keys are numbers of Flifo's own, or hashes with a secret that are kept with what they are of: nobody
//! outside can choose them, so they need no hash that is hard to foresee, which costs more than the rest of the look.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A table by numbers that nobody outside can choose.
pub type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<OwnNumber>>;

/// Spreads such numbers over a table.
#[derive(Debug, Default)]
pub struct OwnNumber(u64);

impl Hasher for OwnNumber {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        // Spreads into the high bits, of which the table looks at seven.
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}
