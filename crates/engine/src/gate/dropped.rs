//! Slots that a panic has dropped on its way: they would be taken for good, so they are kept here until they are given
//! back.
//!
//! Each thread has its own. Invariant: a slot that is given back as it should be costs nothing for this.

use std::cell::RefCell;
use std::mem;
use std::thread;
use std::time::Instant;

use super::{Ask, Hold, Slot};

thread_local! {
    static DROPPED: RefCell<Vec<Slot>> = const { RefCell::new(Vec::new()) };
}

/// What panics on this thread have dropped since this was asked last.
pub fn take() -> Vec<Slot> {
    DROPPED.take()
}

impl Slot {
    /// What it holds, which the caller gives back.
    #[inline]
    pub(super) const fn open(self) -> (Ask, Hold, Instant) {
        let (ask, hold, since) = (self.ask, self.hold, self.since);
        mem::forget(self);
        (ask, hold, since)
    }

    /// Whose slot it is.
    pub const fn home(&self) -> usize {
        self.home
    }
}

impl Drop for Slot {
    #[inline]
    fn drop(&mut self) {
        if thread::panicking() {
            keep(self);
        }
    }
}

#[cold]
fn keep(slot: &Slot) {
    let Slot { ask, hold, home, since } = *slot;
    DROPPED.with_borrow_mut(|dropped| dropped.push(Slot { ask, hold, home, since }));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::classes::{Class, Classes};
    use crate::gate::Gate;
    use crate::places::ConnectionPlaces;
    use crate::slots::Slots;

    #[test]
    fn a_slot_that_a_panic_drops_can_be_given_back() {
        let now = Instant::now();
        let slots = Arc::new(Slots::new(1, 1, now));
        let places = Arc::new(ConnectionPlaces::new(1, 1, now));
        let classes = Arc::new(Classes::new(vec![Class::default()], 1));
        let mut gate: Gate<u8, u8, u8> = Gate::new(0, Arc::clone(&slots), places, classes);
        let ask = Ask::default();
        let taken = gate.enter_own(ask, now).expect("one is free");
        let fell = std::panic::catch_unwind(move || {
            let _held = taken;
            panic!("with a slot in hand");
        });
        assert!(fell.is_err() && slots.held() == 1);
        let mut left = take();
        let slot = left.pop().expect("it is kept");
        assert_eq!((slot.home(), left.len()), (slots.identity(), 0));
        assert!(gate.pass_on(slot, now, |_, _| true).is_none());
        assert_eq!(slots.held(), 0);
        assert!(gate.enter_own(ask, now).is_some() && take().is_empty());
    }
}
