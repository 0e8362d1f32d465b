//! What a statement's text says about sharing backends: what it would leave behind, and what of the past it asks for.
//!
//! A statement is harmless only if every word that could leave state behind is known not to. Whatever is not
//! recognised pins. Harmless words in comments and strings are no danger, as the lexer has taken them out.

mod alters;
mod builtins;
mod diagnostics_use;
mod digest;
mod either;
mod ends;
mod inserts;
pub(crate) mod looks;
mod moves;
mod reader;
mod readings;
mod sets;
mod traits;
mod words;

pub(crate) use builtins::is_one_of;
pub use diagnostics_use::DiagnosticsUse;
pub use digest::Digest;
pub use ends::Ends;
pub use inserts::Inserts;
pub use looks::LooksUp;
pub use moves::{Moves, entered};
pub use reader::Intent;
pub(crate) use reader::is_builtin_function;
pub use readings::Readings;
pub use sets::{SetMark, Sets};
pub use traits::Trait;

#[cfg(test)]
mod tests;
