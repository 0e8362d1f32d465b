//! The differential test: the same program of several clients runs directly against one server and through Flifo
//! against an equal one, and every reply must be the same.
//!
//! [`program`] is what is run, [`text`] how it is written down, [`generate`] makes it from a seed and the tables in
//! `kinds`, [`crowd`] one whose clients ask the same at once, [`again`] one whose clients ask the same while it is
//! written, and `loud` one whose clients leave diagnostics and rest. [`peer`] is one client, [`run`] has several of them take their turns, [`compare`] judges, [`shrink`] finds
//! the shortest program that still differs, [`site`] owns servers and accounts, [`campaign`] does all of it for many
//! seeds. Invariants: clients of one program have schemas, locks and names of their own, or write what no other one can
//! see (`kinds::crowd`), or not while an answer to another one is judged (`kinds::again`), so that what one is answered
//! depends on no other; whatever is masked is listed in [`peer`].

pub mod again;
pub mod caching;
pub mod campaign;
pub mod compare;
pub mod crowd;
pub mod generate;
mod kinds;
mod loud;
mod masks;
pub mod peer;
pub mod program;
pub mod random_rules;
pub mod random_templates;
mod reading;
pub mod run;
mod script;
pub mod sharing;
pub mod shrink;
pub mod site;
pub mod succession;
pub mod text;
mod told;
