//! The writes that a statement or a transaction has under way.

use std::cell::{Cell, RefCell};

use engine::cache::Written;
use engine::schemas::Since;

/// The writes of a backend's client.
#[derive(Debug, Default)]
pub(crate) struct BackendWrites {
    /// What the transaction that is open has written.
    pub(crate) open: RefCell<Option<Box<Writes>>>,
    /// It has done what may have made a temporary table whose rows are other tables': these are written under any name
    /// then.
    pub(crate) may_write_more: Cell<bool>,
}

impl BackendWrites {
    /// The backend is free of its client, whose transaction has ended in whatever way.
    pub(crate) fn release(&self, now: Since) {
        if let Some(writes) = self.open.take() {
            writes.end(now);
        }
    }

    /// The backend goes back to the pool, with nothing of its client on it.
    #[inline]
    pub(crate) fn give_back(&self, now: impl FnOnce() -> Since) {
        if self.open.borrow().is_some() {
            self.release(now());
        }
        self.may_write_more.set(false);
    }
}

/// The writes of a statement, or of all statements of a transaction.
#[derive(Debug)]
pub(crate) struct Writes {
    pub(crate) written: Written,
    /// Views, triggers or keys may be others behind it.
    pub(crate) defines: bool,
    /// What it writes was told by the definitions of then.
    pub(crate) since: Since,
    /// It is nothing if the server could not parse the text.
    pub(crate) is_parsed_first: bool,
}

impl Writes {
    /// It has ended. If definitions have changed meanwhile, the server may have used those that came: then it may have
    /// written anything.
    pub(crate) fn end(self, now: Since) {
        if self.since != now {
            self.written.everything();
        }
    }

    /// It is known to have done nothing.
    pub(crate) fn nothing(&mut self) {
        self.defines = false;
        self.written.nothing();
    }

    /// Both end together from now on. `other` began later.
    pub(crate) fn join(&mut self, other: Self) {
        self.defines |= other.defines;
        self.written.join(other.written);
    }
}
