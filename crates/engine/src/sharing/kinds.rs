//! What is remembered of kinds of statements: whether a text of that kind may be shared, and whether that was in vain
//! lately.
//!
//! A kind is a digest: whether a text is steady depends on nothing that texts of one digest differ in
//! ([`is_steady`](super::is_steady)). Bounded: a kind takes the place of another one with the same last bits.

use std::time::{Duration, Instant};

use crate::intent::Digest;

const PLACES: usize = 1024;

/// For so long a kind is not shared after it was in vain.
const REST: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Kinds {
    places: Box<[Option<Place>]>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    digest: Digest,
    is_steady: bool,
    /// Until when it is not shared.
    rests: Option<Instant>,
}

impl Default for Kinds {
    fn default() -> Self {
        Self { places: vec![None; PLACES].into() }
    }
}

impl Kinds {
    /// Whether statements of this kind may be shared. `is_steady` looks at the text, if it is a new kind.
    pub fn may_share(
        &mut self,
        digest: Digest,
        now: Instant,
        is_steady: impl FnOnce() -> bool,
    ) -> bool {
        let Some(place) = self.place(digest) else { return false };
        match place {
            Some(known) if known.digest == digest => {
                known.is_steady && known.rests.is_none_or(|until| now >= until)
            }
            _ => {
                let is_steady = is_steady();
                *place = Some(Place { digest, is_steady, rests: None });
                is_steady
            }
        }
    }

    /// It was shared in vain: each runs by itself for a while.
    pub fn rest(&mut self, digest: Digest, now: Instant) {
        let until = Some(now + REST);
        match self.place(digest) {
            Some(Some(known)) if known.digest == digest => known.rests = until,
            Some(place) => *place = Some(Place { digest, is_steady: true, rests: until }),
            None => {}
        }
    }

    fn place(&mut self, digest: Digest) -> Option<&mut Option<Place>> {
        let hash = digest.hash();
        self.places.get_mut((hash ^ hash >> 32) as usize % PLACES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_read_once_and_rests_for_a_while() {
        let (mut kinds, now) = (Kinds::default(), Instant::now());
        let (good, bad) = (Digest::new(1), Digest::new(2));
        assert!(kinds.may_share(good, now, || true) && !kinds.may_share(bad, now, || false));
        let known = |kinds: &mut Kinds, digest, at| {
            kinds.may_share(digest, at, || unreachable!("it is known"))
        };
        assert!(known(&mut kinds, good, now) && !known(&mut kinds, bad, now));
        kinds.rest(good, now);
        kinds.rest(bad, now);
        assert!(!known(&mut kinds, good, now + REST / 2));
        assert!(known(&mut kinds, good, now + REST));
        assert!(!known(&mut kinds, bad, now + REST), "it is not steady for all that");
    }

    #[test]
    fn another_kind_takes_its_place_and_is_not_taken_for_it() {
        let (mut kinds, now) = (Kinds::default(), Instant::now());
        let (one, two) = (Digest::new(7), Digest::new(7 + PLACES as u64));
        assert!(kinds.may_share(one, now, || true));
        assert!(!kinds.may_share(two, now, || false));
        assert!(kinds.may_share(one, now, || true), "it is read again");
    }
}
