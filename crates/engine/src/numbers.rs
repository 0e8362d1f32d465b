//! Tables whose keys are Flifo's own numbers, or hashes made with a secret and kept with what they are hashes of. No
//! client or server can choose these keys. So the tables need no hash that is hard to foresee; such a hash costs more
//! than the rest of the look-up.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A table by numbers that no client or server can choose.
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
