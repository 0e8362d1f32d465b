//! How long statements of a kind run, learnt from those that have run: which ones are known to be short.
//!
//! A fixed table, so that no flood of different statements can make it grow: two kinds that fall into one place
//! displace each other, and then are merely not known.

use std::time::Duration;

use crate::intent::Digest;

/// What is known of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    digest: u64,
    /// Moving mean of the time between sending and the end of the reply, in microseconds.
    mean: u32,
    seen: u32,
}

/// The table. Belongs to one worker.
#[derive(Debug)]
pub struct Pace {
    kinds: Box<[Kind]>,
}

/// A power of two. Applications send some hundred kinds of statements; at 16 bytes each this is 64 KiB.
const KINDS: usize = 1 << 12;

/// Below this mean a kind counts as short. A wait of that length behind another statement is less than what a
/// server's thread loses by going to sleep and being woken on a busy machine some times over.
const SHORT: Duration = Duration::from_millis(1);

/// So often a kind must have been seen before it is believed to be short.
const BELIEVED: u32 = 8;

/// The mean moves by this part of each new time.
const WEIGHT: u32 = 8;

impl Default for Pace {
    fn default() -> Self {
        Self { kinds: vec![Kind::default(); KINDS].into() }
    }
}

impl Pace {
    /// Learns how long one statement took.
    pub fn learn(&mut self, digest: Digest, took: Duration) {
        let took = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        let kind = &mut self.kinds[digest.0 as usize % KINDS];
        if kind.digest != digest.0 || kind.seen == 0 {
            *kind = Kind { digest: digest.0, mean: took, seen: 1 };
            return;
        }
        kind.seen = kind.seen.saturating_add(1);
        kind.mean = kind.mean - kind.mean / WEIGHT + took / WEIGHT;
    }

    /// Whether statements of this kind are known to be short.
    pub fn is_short(&self, digest: Digest) -> bool {
        let kind = &self.kinds[digest.0 as usize % KINDS];
        kind.digest == digest.0
            && kind.seen >= BELIEVED
            && u128::from(kind.mean) < SHORT.as_micros()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Duration = Duration::from_micros(100);

    #[test]
    fn short_is_who_was_short_again_and_again() {
        let mut pace = Pace::default();
        let digest = Digest(7);
        for _ in 0..BELIEVED {
            assert!(!pace.is_short(digest));
            pace.learn(digest, FAST);
        }
        assert!(pace.is_short(digest));
        assert!(!pace.is_short(Digest(8)));
        // One slow one is enough to stop believing; many fast ones are needed to believe again.
        pace.learn(digest, Duration::from_secs(1));
        assert!(!pace.is_short(digest));
        for _ in 0..50 {
            pace.learn(digest, FAST);
        }
        assert!(pace.is_short(digest));
    }

    #[test]
    fn kinds_that_share_a_place_displace_each_other() {
        let mut pace = Pace::default();
        let (one, two) = (Digest(5), Digest(5 + KINDS as u64));
        for _ in 0..BELIEVED {
            pace.learn(one, FAST);
        }
        pace.learn(two, FAST);
        assert!(!pace.is_short(one) && !pace.is_short(two));
    }

    #[test]
    fn the_longest_time_does_no_harm() {
        let mut pace = Pace::default();
        for _ in 0..100 {
            pace.learn(Digest(1), Duration::MAX);
        }
        assert!(!pace.is_short(Digest(1)));
    }
}
