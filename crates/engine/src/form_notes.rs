//! What is remembered with the form of a text beside its intent.

use crate::cache::NotedEffects;
use crate::statement::judge::Decisions;

/// The notes of a form.
#[derive(Debug, Default)]
pub struct FormNotes {
    /// What rules say of its statements.
    pub decisions: Decisions,
    /// What its statements write.
    pub effects: NotedEffects,
}
