//! The writes that a statement or a transaction has under way.

use engine::cache::Written;
use engine::schemas::Since;

/// The writes of a statement, or of all statements of a transaction.
#[derive(Debug)]
pub(crate) struct Writes {
    pub(crate) written: Written,
    /// Views, triggers or keys may be others behind it.
    pub(crate) defines: bool,
    /// What it writes was told by the definitions of then.
    pub(crate) since: Since,
}

impl Writes {
    /// It has ended. If definitions have changed meanwhile, the server may have used those that came: then it may have
    /// written anything.
    pub(crate) fn end(self, now: Since) {
        if self.since != now {
            self.written.everything();
        }
    }

    /// Both end together from now on. `other` began later.
    pub(crate) fn join(&mut self, other: Self) {
        self.defines |= other.defines;
        self.written.join(other.written);
    }
}
