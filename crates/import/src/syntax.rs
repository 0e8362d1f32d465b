//! What is wrong with a text that cannot be read.

/// The first thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct SyntaxError {
    pub line: u32,
    pub why: String,
}
