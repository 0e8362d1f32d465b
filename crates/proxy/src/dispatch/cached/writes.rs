//! The writes that a statement or a transaction has under way.

use engine::cache::Written;

/// The writes of a statement, or of all statements of a transaction.
#[derive(Debug)]
pub(crate) struct Writes {
    pub(crate) written: Written,
    /// Views, triggers or keys may be others behind it.
    pub(crate) defines: bool,
}
