//! Statements that rules name by the number of their digest.
//!
//! The number is a fast hash that anyone can compute, so a client that can send any SQL can make a statement with the
//! number of another one. What a rule means is the statement that first came with the number; its form is compared with
//! those that come later. A statement of another form is *unsure*: rules that refuse refuse it, no other rule is hit.
//! Invariant: one form for each number that a rule names, of bounded length.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::reading::DIGEST_TEXT_MAX;
use super::rules::Truth;

/// The forms that came first with numbers that rules name. Shared by all workers, and kept when rules are read again.
#[derive(Debug, Default)]
pub(super) struct NumberedForms(Mutex<BTreeMap<u64, Box<[u8]>>>);

impl NumberedForms {
    /// Whether a statement of this form, which has this number, is the one that is meant.
    pub(super) fn is_it(&self, number: u64, form: &[u8]) -> Truth {
        if form.len() > DIGEST_TEXT_MAX {
            // Not all of it is there to be compared.
            return Truth::Unsure;
        }
        let mut forms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = forms.entry(number).or_insert_with(|| form.into());
        if **first == *form { Truth::Yes } else { Truth::Unsure }
    }

    /// Forgets numbers that no rule names any more.
    pub(super) fn retain(&self, is_named: impl Fn(u64) -> bool) {
        let mut forms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        forms.retain(|number, _| is_named(*number));
    }
}
