//! Random bytes: the kernel's; in a simulated world, those of its seed.

use std::io;

/// Fills this with random bytes.
pub fn fill(bytes: &mut [u8]) -> io::Result<()> {
    #[cfg(feature = "simulation")]
    if seeded::fill(bytes) {
        return Ok(());
    }
    getrandom::fill(bytes).map_err(io::Error::other)
}

/// A random number; 0 where the kernel has none.
pub fn number() -> u32 {
    let mut bytes = [0; 4];
    match fill(&mut bytes) {
        Ok(()) => u32::from_le_bytes(bytes),
        Err(_) => 0,
    }
}

/// Whatever a thread draws, as its seed says: also the keys of the standard library's hashes, which it asks the C
/// library's `getrandom` for.
#[cfg(feature = "simulation")]
pub mod seeded {
    use std::cell::Cell;

    thread_local! {
        static DICE: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// Draws of this thread go by this seed from now on. A thread's hashes get their keys once: begin before the first.
    pub fn begin(seed: u64) {
        DICE.set(Some(seed));
    }

    /// Whether this thread's numbers are a seed's.
    pub fn is_on() -> bool {
        DICE.get().is_some()
    }

    /// False: this thread has no seed.
    pub(super) fn fill(bytes: &mut [u8]) -> bool {
        let Some(mut state) = DICE.get() else { return false };
        for chunk in bytes.chunks_mut(8) {
            // SplitMix64 (Steele, Lea and Flood, 2014).
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            let drawn = (mixed ^ (mixed >> 31)).to_le_bytes();
            chunk.copy_from_slice(&drawn[..chunk.len()]);
        }
        DICE.set(Some(state));
        true
    }

    /// Stands in for the C library's in programs with this feature.
    ///
    /// # Safety
    ///
    /// `buffer` must be valid for writes of `len` bytes.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn getrandom(buffer: *mut u8, len: usize, flags: u32) -> isize {
        // SAFETY: the caller vouches for it.
        let bytes = unsafe { std::slice::from_raw_parts_mut(buffer, len) };
        if fill(bytes) {
            return len as isize;
        }
        // SAFETY: the buffer is as long as is said.
        unsafe { libc::syscall(libc::SYS_getrandom, buffer, len, flags) as isize }
    }

    #[cfg(test)]
    mod tests {
        use std::hash::{BuildHasher, RandomState};

        #[test]
        fn a_seed_draws_all_that_its_thread_draws() {
            let draw = |seed: u64| {
                let drawn = std::thread::spawn(move || {
                    super::begin(seed);
                    let hash = RandomState::new().hash_one("a key");
                    (hash, crate::random::number())
                });
                drawn.join().expect("no panic")
            };
            assert_eq!(draw(1), draw(1));
            assert!(draw(1).0 != draw(2).0 && draw(1).1 != draw(2).1);
        }
    }
}
