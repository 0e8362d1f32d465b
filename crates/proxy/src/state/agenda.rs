//! What is due on a worker when the function at hand has ended: work that functions further down the road ask for, and
//! must not do themselves in the middle of theirs.
//!
//! [`crate::road::admit::work_off`] does it. Each task of a worker calls that before it waits again, so nothing
//! stays here.

use std::cell::{Cell, RefCell};

use engine::gate::Slot;

use crate::cluster::servers::ServerId;

#[derive(Default)]
pub(crate) struct Agenda {
    /// Slots that have been left and not been passed on yet.
    slots: RefCell<Vec<(ServerId, Slot)>>,
    /// Servers at which something has changed that clients may have waited for.
    changed: RefCell<Vec<ServerId>>,
    /// Whether something is due that is not being worked off.
    is_due: Cell<bool>,
    is_worked_off: Cell<bool>,
}

/// One thing that is due.
pub(crate) enum Due {
    /// This slot goes to the next statement.
    Slot(ServerId, Slot),
    /// All that can start at this server starts.
    Look(ServerId),
}

impl Agenda {
    #[cfg(feature = "simulation")]
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.borrow().is_empty()
    }

    /// A statement has left its slot.
    pub(crate) fn leave_slot(&self, server: ServerId, slot: Option<Slot>) {
        if let Some(slot) = slot {
            self.slots.borrow_mut().push((server, slot));
            self.is_due.set(true);
        }
    }

    /// Something has changed at this server that clients may have waited for.
    pub(crate) fn look_at(&self, server: ServerId) {
        let mut changed = self.changed.borrow_mut();
        if !changed.contains(&server) {
            changed.push(server);
        }
        self.is_due.set(true);
    }

    /// What is due next: slots first.
    pub(crate) fn next(&self) -> Option<Due> {
        if let Some((server, slot)) = self.slots.borrow_mut().pop() {
            return Some(Due::Slot(server, slot));
        }
        self.changed.borrow_mut().pop().map(Due::Look)
    }

    /// Begins to work off what is due. False: nothing is, or a caller does so already.
    #[inline]
    pub(crate) fn begin(&self) -> bool {
        self.is_due.get() && !self.is_worked_off.replace(true)
    }

    /// A caller that worked it off has not come to the end: it is worked off from the beginning.
    pub(crate) fn begin_anew(&self) {
        self.is_worked_off.set(false);
        self.is_due.set(true);
    }

    /// All is done.
    pub(crate) fn end(&self) {
        self.is_due.set(false);
        self.is_worked_off.set(false);
    }
}
