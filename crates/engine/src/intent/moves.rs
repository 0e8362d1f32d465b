//! What a statement does to its session's schema.

use serde::{Deserialize, Serialize};

/// Whether a statement enters a schema. A routine of another schema enters that one as well, and leaves it again; of
/// such a move no text tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Moves {
    #[default]
    No,
    /// It is a `USE`, and nothing else: it runs nothing that could change more than the schema.
    IntoSchema,
}
