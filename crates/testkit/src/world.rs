//! A world in simulated time, in which the engine's own gates and its own limit run.
//!
//! Clients ask, a model of a server runs what it is given (processors that are shared and contended for, a disk,
//! row locks, a blocker from outside), workers mail each other, clocks tick. One seed gives one run, whatever the
//! machine. What it cannot show: the operating system's scheduler, the proxy's own work, real locks.
//!
//! Invariants of the gates are checked after every event; a failure names the seed and the time.

mod chance;
mod client;
mod door;
mod flifo;
mod note;
mod others;
pub mod phases;
mod plan;
mod run;
pub(crate) mod server;
mod tally;

pub use self::door::Door;
pub use self::flifo::{Locks, Process, Steering};
pub use self::note::NoteGate;
pub use self::others::{Aimd, Gradient2, Other, Probing, Vegas};
pub use self::plan::{Arrivals, Phase, Plan, Server, Transactions, Work};
pub use self::run::run;
pub use self::tally::{Outcome, jain};
