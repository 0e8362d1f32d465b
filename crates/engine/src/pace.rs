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
    /// The least time of late, from sending to the end of the reply, in microseconds. On a busy machine the mean
    /// says more about the processes that compete for its CPUs than about the statement.
    least: u32,
    /// Grows with each one that is not long, and shrinks by far more with each that is.
    trust: u32,
}

/// The table. Belongs to one worker.
#[derive(Debug)]
pub struct Pace {
    kinds: Box<[Kind]>,
    /// What one that is known to be short takes of late, in microseconds.
    usual: u32,
}

/// A power of two. Applications send some hundred kinds of statements; at 16 bytes each this is 64 KiB.
const KINDS: usize = 1 << 12;

/// A kind that can be done in less counts as short. To wait so long behind another statement is little beside
/// what a server's thread loses by going to sleep and being woken on a busy machine.
const SHORT: Duration = Duration::from_millis(1);

/// One that takes so long was not short: it kept others waiting, or would have.
const LONG: Duration = Duration::from_millis(50);

/// Where all take long, because the machine is busy, one is long only if it takes so many times as long as they do.
const LONG_USUALS: u32 = 8;

/// But never longer than this.
const LONG_MAX: Duration = Duration::from_millis(400);

/// What is usual goes over about so many statements.
const USUAL_OF: u32 = 64;

/// What a long one costs of the trust, so that of a kind only one in so many may be long.
const LOSS: u32 = 16;

/// A kind that is trusted less is not believed to be short.
const BELIEVED: u32 = 8;

/// More trust than this is not gathered: a kind that changes is found out soon.
const TRUST_MAX: u32 = 64;

impl Default for Pace {
    fn default() -> Self {
        Self { kinds: vec![Kind::default(); KINDS].into(), usual: 0 }
    }
}

impl Pace {
    /// Learns how long one statement took.
    pub fn learn(&mut self, digest: Digest, took: Duration) {
        let is_long = self.long() <= took;
        let kind = &mut self.kinds[digest.hash() as usize % KINDS];
        if kind.digest != digest.hash() {
            *kind = Kind { digest: digest.hash(), least: u32::MAX, trust: 0 };
        }
        kind.trust = match is_long {
            true => kind.trust.saturating_sub(LOSS),
            false => (kind.trust + 1).min(TRUST_MAX),
        };
        let is_believed = BELIEVED <= kind.trust;
        let took = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        // The least time is forgotten by and by.
        let faded = kind.least.saturating_add(kind.least / 8).saturating_add(8);
        kind.least = took.min(faded);
        if is_believed && !is_long {
            self.usual = self.usual - self.usual / USUAL_OF + took / USUAL_OF;
        }
    }

    /// A statement in front of others that has run for so long keeps them waiting. On a machine whose processors
    /// are all busy each takes long, and to send the others again would only add to the work.
    pub fn long(&self) -> Duration {
        LONG.max(Duration::from_micros(u64::from(self.usual)) * LONG_USUALS).min(LONG_MAX)
    }

    /// Whether statements of this kind are known to be short.
    pub fn is_short(&self, digest: Digest) -> bool {
        let kind = &self.kinds[digest.hash() as usize % KINDS];
        kind.digest == digest.hash()
            && kind.trust >= BELIEVED
            && u128::from(kind.least) < SHORT.as_micros()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Duration = Duration::from_micros(100);

    #[test]
    fn short_is_who_was_short_again_and_again() {
        let mut pace = Pace::default();
        let digest = Digest::new(7);
        for _ in 0..BELIEVED {
            assert!(!pace.is_short(digest));
            pace.learn(digest, FAST);
        }
        assert!(pace.is_short(digest));
        assert!(!pace.is_short(Digest::new(8)));
        // One long one is enough to stop believing at first; it takes as many short ones to believe again.
        pace.learn(digest, Duration::from_secs(1));
        assert!(!pace.is_short(digest));
        for _ in 0..BELIEVED {
            pace.learn(digest, FAST);
        }
        assert!(pace.is_short(digest));
    }

    #[test]
    fn who_has_been_short_for_long_may_be_long_once_in_a_while() {
        let mut pace = Pace::default();
        let digest = Digest::new(7);
        (0..100).for_each(|_| pace.learn(digest, FAST));
        for run in 0..1000 {
            pace.learn(digest, if run % 50 == 0 { LONG } else { FAST });
            assert!(pace.is_short(digest), "one of fifty");
        }
        (0..100).for_each(|run| pace.learn(digest, if run % 8 == 0 { LONG } else { FAST }));
        assert!(!pace.is_short(digest), "one of eight");
    }

    #[test]
    fn delays_do_not_make_it_long_but_a_lasting_change_does() {
        let mut pace = Pace::default();
        let digest = Digest::new(7);
        for run in 0..100 {
            pace.learn(digest, if run % 4 == 0 { FAST } else { Duration::from_millis(20) });
            assert_eq!(pace.is_short(digest), run >= BELIEVED - 1);
        }
        for _ in 0..30 {
            pace.learn(digest, Duration::from_millis(4));
        }
        assert!(!pace.is_short(digest));
    }

    #[test]
    fn where_all_take_long_it_takes_more_to_be_long() {
        let mut pace = Pace::default();
        let digest = Digest::new(7);
        (0..100).for_each(|_| pace.learn(digest, FAST));
        assert_eq!(pace.long(), LONG);
        for run in 0..1000 {
            pace.learn(digest, if run % 8 == 0 { FAST } else { Duration::from_millis(20) });
        }
        assert!(pace.long() > 2 * LONG && pace.is_short(digest), "{:?}", pace.long());
        (0..1000).for_each(|_| pace.learn(digest, Duration::from_millis(99)));
        assert!(pace.long() <= LONG_MAX);
        let quiet = Digest::new(8);
        (0..1000).for_each(|_| pace.learn(quiet, FAST));
        assert_eq!(pace.long(), LONG);
    }

    #[test]
    fn kinds_that_share_a_place_displace_each_other() {
        let mut pace = Pace::default();
        let (one, two) = (Digest::new(5), Digest::new(5 + KINDS as u64));
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
            pace.learn(Digest::new(1), Duration::MAX);
        }
        assert!(!pace.is_short(Digest::new(1)));
    }
}
