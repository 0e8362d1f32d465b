//! What a statement may do to the last insert id of its session.

/// Whether a statement may give its session another last insert id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Inserts {
    #[default]
    No,
    /// Reported, if it succeeds.
    Reported,
    /// Of several rows that fail together, the first one's number stays; and rows that are returned, or loaded, come
    /// without a report.
    Unreported,
}

impl Inserts {
    /// Whether a number may have been made of which the reply tells nothing.
    pub const fn is_unreported(self, failed: bool) -> bool {
        match self {
            Self::No => false,
            Self::Reported => failed,
            Self::Unreported => true,
        }
    }
}
