//! Answers to questions of rules, of which some are not sure.

/// An answer. In this order, the least of several is that of all, and the greatest that of any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Truth {
    No,
    /// It is not known, or not yet.
    Unsure,
    Yes,
}

impl Truth {
    pub(super) const fn of(is: bool) -> Self {
        if is { Self::Yes } else { Self::No }
    }
}
