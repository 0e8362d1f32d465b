//! Statements as rules see them: what a text says, which rules it hits, and what these make of it.
//!
//! A text is cut into its statements ([`part`]), of each it is read what kind it is, which tables it names and which
//! tags it bears. [`rules`] makes a configuration's rules ready, [`judge`] says which of them a statement hits, and
//! [`edit`] does what they say to its text. Nothing here reads a clock or knows a socket. See `docs/design/rules.md`.

pub mod bucket;
pub mod edit;
pub mod explain;
mod expressions;
pub mod firewall;
pub mod judge;
pub mod kind;
mod numbered;
pub mod part;
mod reading;
pub mod room;
pub mod rule;
pub mod rules;
pub mod schemaless;
pub mod tables;
pub mod tags;
pub mod template;
#[cfg(test)]
mod tests;
mod truth;
pub mod verdict;
pub mod window;

pub use self::reading::{comparable, without_literals};
