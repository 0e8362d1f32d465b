//! The doctor: what is wrong with a server and the machine beneath it, why, and what helps.
//!
//! Facts are collected, findings judge them, cures change what can be changed back. The command's
//! arguments and exit codes are not here. Invariant: nothing is changed unless a cure is asked for.

mod ask;
mod change;
mod collect;
mod cure;
mod examine;
#[cfg(test)]
mod example;
mod facts;
mod findings;
mod judgement;
mod report;
mod watch;

pub use ask::{Account, AskedServer, NoServer};
pub use change::{Change, GlobalVariables};
pub use cure::{Outcome, Patient, Script, cure};
pub use examine::Examination;
pub use facts::{Certificate, Facts, Front};
pub use findings::{ALL, diagnose};
pub use judgement::{Cure, Diagnosis, Finding, Judgement, Proof, Verdict};
pub use report::{Colours, json, text, worst};
pub use sys::tree::{Seen, Tree};

/// The name of the user that this process acts as: the doctor logs in to the server as this user, if no other is named.
pub fn user() -> String {
    let (number, name) = sys::process::user();
    let name = name.map(|name| String::from_utf8_lossy(&name).into_owned());
    name.unwrap_or_else(|| number.to_string())
}
