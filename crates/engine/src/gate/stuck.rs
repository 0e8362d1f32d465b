//! Statements of a gate that seem to wait for something in the server: their slot passes on before they end.
//!
//! Owns when a statement seems stuck and what becomes of its slot; what is known of its kind is in
//! [`parked`](crate::parked).

use std::hash::Hash;
use std::time::{Duration, Instant};

use super::lanes::Changed;
use super::{Gate, Hold, Slot, Start};
use crate::parked::OLD;

/// A statement that may hold locks is parked after so long at the latest. Its kind may be known to be slow just
/// because it usually waits for locks.
const PATIENCE_FORCED: Duration = Duration::from_millis(50);

/// After so long the server is asked, however slow the form usually is.
const PATIENCE_TOLD: Duration = Duration::from_millis(250);

impl<K: Copy + Ord + Hash, W, L> Gate<K, W, L> {
    /// Whether a statement is so old that it seems to wait for something in the server.
    pub fn seems_stuck(&self, slot: &Slot, now: Instant) -> bool {
        let age = now.saturating_duration_since(slot.since);
        let patience = self.bulkheads.patience(slot.ask.digest);
        match slot.hold {
            Hold::Parked => false,
            // It is beyond the limit by right, so parking it lets no statement into the server that is not due there.
            Hold::Forced | Hold::Beyond => age >= patience.min(PATIENCE_FORCED),
            Hold::Held | Hold::Borrowed => age >= patience,
        }
    }

    /// The same where the server tells how many wait: one that is slow by nature is not asked to prove that for long.
    pub fn may_be_stuck(&self, slot: &Slot, now: Instant) -> bool {
        let age = now.saturating_duration_since(slot.since);
        slot.hold != Hold::Parked && (age >= PATIENCE_TOLD || self.seems_stuck(slot, now))
    }

    /// The same, if the server says that it waits.
    pub fn may_wait(&self, slot: &Slot, now: Instant) -> bool {
        slot.hold != Hold::Parked && now.saturating_duration_since(slot.since) >= OLD
    }

    /// Whether any of its statements waits in the server, as far as that is known.
    pub const fn has_parked(&self) -> bool {
        self.bulkheads.parked() > 0
    }

    /// Parks a statement that seems stuck: its slot passes on as if it had ended. Call [`Self::next`] until `None`,
    /// and [`Self::next_wake`], afterwards.
    pub fn park(
        &mut self,
        slot: &mut Slot,
        now: Instant,
        suits: impl Fn(&W, &L) -> bool,
    ) -> Option<Start<W, L>> {
        let is_beyond = matches!(slot.hold, Hold::Forced | Hold::Beyond);
        if slot.hold == Hold::Parked || !self.slots.try_park(is_beyond) {
            return None;
        }
        self.bulkheads.park(slot.ask.digest, slot.ask.trial);
        self.counts.parked += 1;
        self.bring_back(slot.ask.digest, Changed::Trials);
        match std::mem::replace(&mut slot.hold, Hold::Parked) {
            Hold::Held | Hold::Forced => self.pass(now, suits).0,
            hold => {
                self.return_slot(hold);
                None
            }
        }
    }
}
