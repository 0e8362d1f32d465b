//! Statements of a gate that seem to wait for something in the server: their slot passes on before they end.
//!
//! Owns when a statement seems stuck and what becomes of its slot; what is known of its kind is in
//! [`parked`](crate::parked).

use std::hash::Hash;
use std::time::{Duration, Instant};

use super::{Gate, Hold, Slot, Start};

/// A statement that may hold locks is parked after so long at the latest. Its kind may be known to be slow just
/// because it usually waits for locks.
const PATIENCE_FORCED: Duration = Duration::from_millis(50);

impl<K: Copy + Ord + Hash, W, L> Gate<K, W, L> {
    /// Whether a statement is so old that it seems to wait for something in the server.
    pub fn seems_stuck(&self, slot: &Slot, now: Instant) -> bool {
        let age = now.saturating_duration_since(slot.since);
        let patience = self.bulkheads.patience(slot.ask.digest);
        match slot.hold {
            Hold::Parked => false,
            // It is beyond the limit by right, so parking it lets no statement into the server that is not due there.
            Hold::Forced => age >= patience.min(PATIENCE_FORCED),
            Hold::Held | Hold::Borrowed => age >= patience,
        }
    }

    /// Parks a statement that seems stuck: its slot passes on as if it had ended. Call [`Self::next`] until `None`,
    /// and [`Self::next_wake`], afterwards.
    pub fn park(
        &mut self,
        slot: &mut Slot,
        now: Instant,
        suits: impl Fn(&W, &L) -> bool,
    ) -> Option<Start<W, L>> {
        if slot.hold == Hold::Parked || !self.slots.try_park(slot.hold == Hold::Forced) {
            return None;
        }
        self.bulkheads.park(slot.ask.digest);
        self.counts.parked += 1;
        match std::mem::replace(&mut slot.hold, Hold::Parked) {
            Hold::Held | Hold::Forced => self.pass(now, suits).0,
            hold => {
                self.return_slot(hold);
                None
            }
        }
    }
}
