//! The road of a statement, from its client to a server and back.
//!
//! Read the files in the order in which a statement travels: [`client_input`] makes commands of a client's bytes,
//! [`commands`] decides what each asks for, [`crate::routing::route`] chooses among several servers, [`admit`] starts a
//! command or has it wait, [`launch`] sends it behind its [`crate::session::session_setup`], [`replies`] follows the
//! answer back, [`reply_end`] settles what it leaves, [`finish`] gives backend and slot back.

pub(crate) mod admit;
pub(crate) mod backend_task;
pub(crate) mod beginning;
pub(crate) mod client_input;
pub(crate) mod commands;
pub(crate) mod ending;
pub(crate) mod entry;
pub(crate) mod executions;
pub(crate) mod finish;
#[cfg(any(debug_assertions, feature = "simulation"))]
pub(crate) mod invariants;
pub(crate) mod kill;
pub(crate) mod kill_orders;
pub(crate) mod large_commands;
pub(crate) mod launch;
pub(crate) mod leaving;
pub(crate) mod login_schema;
pub(crate) mod lost_backend;
pub(crate) mod own_replies;
pub(crate) mod pipelining;
pub(crate) mod queue_timeout;
pub(crate) mod refused;
pub(crate) mod replies;
pub(crate) mod reply_end;
pub(crate) mod reset_connection;
pub(crate) mod resume;
pub(crate) mod time_limits;
pub(crate) mod unreported;
pub(crate) mod wanted;
