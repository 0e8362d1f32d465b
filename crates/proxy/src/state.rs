//! What a worker owns: its clients and backends, their commands and what is in flight, and what it counts of them.
//!
//! Values and their transitions; no decision. [`worker`] owns all, [`client`] and [`backend`] are the two ends of the
//! road, [`command`] is what a client asks, and [`in_flight`] what a backend has still to answer.

pub(crate) mod agenda;
pub(crate) mod backend;
pub(crate) mod came_by;
pub(crate) mod client;
pub(crate) mod client_state;
pub(crate) mod command;
pub(crate) mod copied;
pub(crate) mod description;
pub(crate) mod doing;
pub(crate) mod fate;
pub(crate) mod in_flight;
pub(crate) mod input;
pub(crate) mod kept_replies;
pub(crate) mod likeness;
pub(crate) mod local;
pub(crate) mod memory;
pub(crate) mod neighbours;
pub(crate) mod orders;
pub(crate) mod predecessor;
pub(crate) mod rule_hits;
pub(crate) mod shared;
pub(crate) mod shared_run;
pub(crate) mod tally;
pub(crate) mod traffic;
pub(crate) mod worker;
pub(crate) mod writes;
