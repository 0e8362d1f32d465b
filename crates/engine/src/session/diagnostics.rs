//! Where the errors and warnings of a session's last statements are, and how many the last one has left.

use serde::{Deserialize, Serialize};

/// The variable that says what diagnostics are written in.
pub const CHARSET: &str = "character_set_results";

/// Where the errors and warnings of a session's last statements are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Diagnostics {
    /// There are none.
    #[default]
    None,
    /// On the backend, which is kept for them.
    OnBackend,
    /// Here: their backend was given to a client that had waited for it, or Flifo has answered itself.
    Kept,
    /// Here, unless the backend has none any more: it was told as many before a statement that may have cleared them.
    Marked,
    /// With a backend that was lost.
    Lost,
}

/// How many diagnostics the last statement has left, as MySQL tells it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Told {
    Known(u16),
    /// It has failed: its packet does not say how many warnings came before the error.
    OnBackend,
}

impl Default for Told {
    fn default() -> Self {
        Self::Known(0)
    }
}
