//! The running proxy, in rooms. Each uses only those that are below it in this list; a test checks that.
//!
//! * `simulation`: a process in a simulated world, for tests
//! * [`run`]: start, stop, signals, logs, a worker's loop
//! * [`admin`]: the console, the HTTP port, metrics
//! * [`succession`]: clients and backends that go to the next Flifo, and come from the one before
//! * [`frontend`]: how a client gets in, and becomes another user
//! * [`upkeep`]: what is done now and then, beside the road
//! * [`road`]: a statement's way from its client to a server and back
//! * [`features`]: rules, cache, shared reads, mirrors
//! * [`routing`]: which cluster, which server
//! * [`answers`]: replies of Flifo's own, and what is changed in packets
//! * [`session`]: what a session needs of a backend, and what a backend owes it
//! * [`state`]: clients, backends, commands, what is in flight
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
#[cfg_attr(not(test), deny(clippy::disallowed_methods))]
mod answers;
mod cluster;
pub mod config;
pub mod discover;
mod fault;
#[cfg_attr(not(test), deny(clippy::disallowed_methods))]
mod features;
mod frontend;
mod mirror;
pub mod placement;
mod pool;
mod records;
#[cfg_attr(not(test), deny(clippy::disallowed_methods))]
mod road;
#[cfg_attr(not(test), deny(clippy::disallowed_methods))]
mod routing;
mod run;
#[cfg_attr(not(test), deny(clippy::disallowed_methods))]
mod session;
#[cfg(feature = "simulation")]
pub mod simulation;
#[cfg_attr(not(test), deny(clippy::disallowed_methods))]
mod state;
#[cfg_attr(not(test), deny(clippy::disallowed_methods))]
mod succession;
#[cfg_attr(not(test), deny(clippy::disallowed_methods))]
mod upkeep;
mod users;
mod worker;

pub use admin::{health, remote, rules};
pub use backend::{Address, NoAddress};
pub use frontend::watch::rights_tables;
pub use records::RecordError;
pub use run::logs;
pub use run::{Before, Relations, RunError, become_user, run};
pub use succession::arrivals::{Predecessor, SuccessionError};
