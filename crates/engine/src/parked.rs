//! Statements that wait in the server for something (a row lock, a table that is being altered): which of them give
//! their slot to another one, and how many more of their kind may follow.
//!
//! A statement that is far older than its kind usually gets is *parked*: it goes on without a slot. While several of
//! one kind are parked, hardly any more of that kind are let in (a *bulkhead*): they would wait for the same thing.
//!
//! A fixed table: two kinds that fall into one place are held back together, which does little harm and ends soon.
//! Invariant: what was counted at a start is taken back at the end, under the same place.

use std::time::Duration;

use crate::intent::Digest;

/// What is known of the kinds. Belongs to one worker.
#[derive(Debug)]
pub struct Bulkheads {
    kinds: Box<[Kind; KINDS]>,
    parked: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    digest: u64,
    running: u32,
    parked: u32,
    /// Its mean time in the server, in microseconds.
    mean: f32,
}

/// A power of two; 24 bytes each.
const KINDS: usize = 1 << 10;

/// So many parked ones of a kind close its bulkhead.
const CLOSES: u32 = 3;

/// With a closed bulkhead, a kind gets this part of the slots.
const PART: u32 = 4;

/// A statement is parked when it is so old, and so many times as old as its kind usually gets.
const OLD: Duration = Duration::from_millis(20);
const OLD_MEANS: f64 = 10.0;

/// Nothing is known of the kind: it may be slow by nature.
const OLD_UNKNOWN: Duration = Duration::from_millis(100);

/// The mean goes over about so many statements.
const MEAN_OF: f32 = 16.0;

impl Default for Bulkheads {
    fn default() -> Self {
        Self { kinds: Box::new([Kind::default(); KINDS]), parked: 0 }
    }
}

impl Bulkheads {
    /// How many are parked in this worker.
    pub const fn parked(&self) -> u32 {
        self.parked
    }

    /// Whether one more of this kind may start. `slots`: how many there are for this worker's statements; it is asked
    /// for only where it matters.
    pub fn may_start(&self, digest: Option<Digest>, slots: impl FnOnce() -> u32) -> bool {
        let Some(kind) = digest.map(|digest| &self.kinds[place(digest)]) else { return true };
        kind.parked < CLOSES || kind.running < (slots() / PART).max(1)
    }

    /// Whether this kind is not held back at all.
    pub fn is_open(&self, digest: Option<Digest>) -> bool {
        digest.is_none_or(|digest| self.kinds[place(digest)].parked < CLOSES)
    }

    pub fn started(&mut self, digest: Option<Digest>) {
        if let Some(kind) = self.kind(digest) {
            kind.running += 1;
        }
    }

    /// One that was not parked has ended after so many microseconds.
    pub fn ended(&mut self, digest: Option<Digest>, took: u64) {
        let Some(digest) = digest else { return };
        let kind = &mut self.kinds[place(digest)];
        kind.running = kind.running.saturating_sub(1);
        let took = took as f32;
        if kind.digest == digest.hash() {
            kind.mean += (took - kind.mean) / MEAN_OF;
        } else {
            (kind.digest, kind.mean) = (digest.hash(), took);
        }
    }

    /// How old a statement of this kind gets before it is parked.
    pub fn patience(&self, digest: Option<Digest>) -> Duration {
        let known = digest.and_then(|digest| {
            let kind = &self.kinds[place(digest)];
            (kind.digest == digest.hash()).then_some(kind.mean)
        });
        known.map_or(OLD_UNKNOWN, |mean| {
            let old = Duration::try_from_secs_f64(f64::from(mean) * OLD_MEANS / 1e6);
            old.unwrap_or(Duration::MAX).max(OLD)
        })
    }

    /// One that was not parked leaves the count without having ended.
    pub fn set_down(&mut self, digest: Option<Digest>) {
        if let Some(kind) = self.kind(digest) {
            kind.running = kind.running.saturating_sub(1);
        }
    }

    /// One that runs is parked.
    pub fn park(&mut self, digest: Option<Digest>) {
        self.parked += 1;
        if let Some(kind) = self.kind(digest) {
            kind.running = kind.running.saturating_sub(1);
            kind.parked += 1;
        }
    }

    /// One that was parked has ended. Its time is not learnt: it says nothing of the statement.
    pub fn unpark(&mut self, digest: Option<Digest>) {
        self.parked = self.parked.saturating_sub(1);
        if let Some(kind) = self.kind(digest) {
            kind.parked = kind.parked.saturating_sub(1);
        }
    }

    fn kind(&mut self, digest: Option<Digest>) -> Option<&mut Kind> {
        digest.map(|digest| &mut self.kinds[place(digest)])
    }
}

fn place(digest: Digest) -> usize {
    digest.hash() as usize % KINDS
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const HOT: Option<Digest> = Some(Digest::new(5));
    const OTHER: Option<Digest> = Some(Digest::new(6));

    #[test]
    fn a_kind_of_which_several_are_parked_gets_a_part_of_the_slots() {
        let mut bulkheads = Bulkheads::default();
        for _ in 0..5 {
            bulkheads.started(HOT);
        }
        (0..2).for_each(|_| bulkheads.park(HOT));
        assert!(bulkheads.may_start(HOT, || 8));
        bulkheads.park(HOT);
        assert_eq!(bulkheads.parked(), 3);
        // Two run, of eight slots: that is all.
        assert!(!bulkheads.may_start(HOT, || 8));
        assert!(bulkheads.may_start(HOT, || 12) && bulkheads.may_start(OTHER, || 8));
        assert!(bulkheads.may_start(None, || 8));
        bulkheads.ended(HOT, 1_000);
        assert!(bulkheads.may_start(HOT, || 8));
        bulkheads.started(HOT);
        bulkheads.unpark(HOT);
        assert!(bulkheads.may_start(HOT, || 8));
    }

    #[test]
    fn one_may_always_start() {
        let mut bulkheads = Bulkheads::default();
        (0..9).for_each(|_| {
            bulkheads.started(HOT);
            bulkheads.park(HOT);
        });
        assert!(bulkheads.may_start(HOT, || 1));
    }

    #[test]
    fn patience_depends_on_what_the_kind_usually_takes() {
        let mut bulkheads = Bulkheads::default();
        assert_eq!(bulkheads.patience(HOT), OLD_UNKNOWN);
        assert_eq!(bulkheads.patience(None), OLD_UNKNOWN);
        for _ in 0..100 {
            bulkheads.started(HOT);
            bulkheads.ended(HOT, 1_000);
        }
        assert_eq!(bulkheads.patience(HOT), OLD);
        for _ in 0..200 {
            bulkheads.started(HOT);
            bulkheads.ended(HOT, 50_000);
        }
        let patience = bulkheads.patience(HOT);
        assert!(patience > 450 * MS && patience <= 500 * MS, "{patience:?}");
        // Another kind in the same place is another kind.
        assert_eq!(bulkheads.patience(Some(Digest::new(5 + KINDS as u64))), OLD_UNKNOWN);
        bulkheads.ended(HOT, u64::MAX);
        assert!(bulkheads.patience(HOT) > patience);
    }
}
