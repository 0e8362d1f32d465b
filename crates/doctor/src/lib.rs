//! The doctor: what is wrong with a server and the machine beneath it, why, and what helps.
//!
//! Facts are collected, findings judge them, cures change what can be changed back. The command's
//! arguments and exit codes are not here. Invariant: nothing is changed unless a cure is asked for.

mod ask;
mod change;
mod collect;
#[cfg(test)]
mod example;
mod facts;
mod findings;
mod judgement;
mod watch;

pub use ask::{Account, NoServer, Server};
pub use change::{Before, Change, SCRIPT, Variables};
pub use facts::Facts;
pub use findings::{ALL, diagnose};
pub use judgement::{Cure, Diagnosis, Finding, Judgement, Proof, Verdict};
