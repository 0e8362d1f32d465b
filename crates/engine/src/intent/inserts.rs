//! What a statement that writes may do beside that: to the last insert id of its session, and by triggers.

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

/// Whether a statement that begins with this word, in capitals, may fire triggers. What it analyses, `ANALYZE` runs;
/// what stands behind `WITH` may change rows.
pub(super) fn may_fire(word: &[u8]) -> bool {
    matches!(word, b"INSERT" | b"REPLACE" | b"UPDATE" | b"DELETE" | b"LOAD" | b"ANALYZE" | b"WITH")
}
