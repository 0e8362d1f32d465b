//! Accounts of a server: which one a client gets by its name and address, and on what terms.
//!
//! Pure: rows, names and addresses go in, a choice or a refusal comes out. What is read from a server, and when, is the
//! proxy's.

pub mod guessing;
pub mod held;
pub mod host;
pub mod name;
pub mod row;
pub mod shown;
pub mod terms;
