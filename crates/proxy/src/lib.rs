//! The running proxy, in rooms. Each uses only those that are below it in this list; a test checks that.
//!
//! * `simulation`: a process in a simulated world, for tests
//! * [`run`]: start, stop, signals, logs, a worker's loop
//! * [`admin`]: the console, the HTTP port, metrics
//! * [`frontend`]: how a client gets in, and becomes another user
//! * [`dispatch`]: the road of a statement, from its client to a server and back
//! * [`mirror`]: copies of statements that run in another cluster
//! * [`pool`]: connections of users to servers
//! * [`users`]: which users may log in, and what is known of them
//! * [`cluster`]: the servers, their checks, and which is for what
//! * [`placement`]: which CPUs the threads run on
//! * [`records`]: the slow log and the audit log
//! * [`config`]: options, and what Flifo is to do by them; [`discover`] finds servers on this machine
//! * [`worker`]: what each thread has for itself; [`fault`]: errors of Flifo's own
//!
//! What can be decided without a socket is decided in `engine`.

mod admin;
mod cluster;
pub mod config;
pub mod discover;
#[cfg_attr(not(test), deny(clippy::disallowed_methods))]
mod dispatch;
mod fault;
mod frontend;
mod mirror;
pub mod placement;
mod pool;
mod records;
mod run;
#[cfg(feature = "simulation")]
pub mod simulation;
mod users;
mod worker;

pub use admin::{health, remote, rules};
pub use backend::{Address, NoAddress};
pub use frontend::succession::{Predecessor, SuccessionError};
pub use frontend::watch::rights_tables;
pub use records::RecordError;
pub use run::logs;
pub use run::{Before, Relations, RunError, become_user, run};
