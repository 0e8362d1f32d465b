//! The road of a statement, from its client to a server and back.
//!
//! Read the files in the order in which a statement travels: [`client_input`] makes commands of a client's bytes,
//! [`commands`] decides what each asks for, [`route`] chooses among several servers, [`admit`] starts a command or has
//! it wait, [`launch`] sends it behind its [`session_setup`], [`replies`] follows the answer back, [`reply_end`] settles
//! what it leaves, [`finish`] gives backend and slot back.
//!
//! [`client`] and [`backend`] are the two ends of the road; [`worker`] owns all of them.

pub(crate) mod admit;
pub(crate) mod agenda;
pub(crate) mod ages;
pub(crate) mod alone;
pub(crate) mod answer;
pub(crate) mod backend;
pub(crate) mod backend_task;
pub(crate) mod beginning;
pub(crate) mod cached;
pub(crate) mod capture;
pub(crate) mod client;
pub(crate) mod client_input;
pub(crate) mod clusters;
pub(crate) mod command;
pub(crate) mod commands;
pub(crate) mod departure;
pub(crate) mod description;
pub(crate) mod diagnostics;
pub(crate) mod dismissed;
pub(crate) mod earlier;
pub(crate) mod ending;
pub(crate) mod entry;
pub(crate) mod executions;
pub(crate) mod finish;
pub(crate) mod freshness;
pub(crate) mod handover;
pub(crate) mod in_flight;
pub(crate) mod input;
pub(crate) mod interrupted;
#[cfg(feature = "simulation")]
pub(crate) mod invariants;
pub(crate) mod kill;
pub(crate) mod kill_orders;
pub(crate) mod large_commands;
pub(crate) mod launch;
pub(crate) mod leaving;
pub(crate) mod likeness;
pub(crate) mod limit_reports;
pub(crate) mod local;
pub(crate) mod login_schema;
pub(crate) mod lost_backend;
pub(crate) mod lost_transaction;
pub(crate) mod memory;
pub(crate) mod mirrored;
pub(crate) mod moves;
pub(crate) mod neighbours;
pub(crate) mod notes;
pub(crate) mod ok_rewrite;
pub(crate) mod orders;
pub(crate) mod out_of_sight;
pub(crate) mod own_id;
pub(crate) mod own_replies;
pub(crate) mod pins;
pub(crate) mod pipeline;
pub(crate) mod pipelining;
pub(crate) mod predecessor;
pub(crate) mod prepared;
pub(crate) mod query_rewrite;
pub(crate) mod queue_timeout;
pub(crate) mod refused;
pub(crate) mod replies;
pub(crate) mod reply_end;
pub(crate) mod report;
pub(crate) mod reset_connection;
pub(crate) mod resume;
pub(crate) mod rights;
pub(crate) mod route;
pub(crate) mod ruled;
pub(crate) mod schema_gone;
pub(crate) mod session_reset;
pub(crate) mod session_setup;
pub(crate) mod sharing;
pub(crate) mod states;
pub(crate) mod stranded;
pub(crate) mod supply;
pub(crate) mod tally;
pub(crate) mod time_limits;
pub(crate) mod traffic;
pub(crate) mod transfers;
pub(crate) mod unreported;
pub(crate) mod vanished;
pub(crate) mod waits;
pub(crate) mod wanted;
pub(crate) mod worker;
