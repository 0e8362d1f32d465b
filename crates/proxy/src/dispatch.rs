//! The road of a statement, from its client to a server and back.
//!
//! Read the files in the order in which a statement travels: [`task`] makes commands of a client's bytes, [`commands`]
//! decides what each asks for, [`route`] chooses among several servers, [`admit`] starts a command or has it wait,
//! [`launch`] sends it behind its [`setup`], [`replies`] follows the answer back, [`done`] gives link and slot back.
//!
//! [`client`] and [`backend`] are the two ends of the road; [`worker`] owns all of them.

pub(crate) mod added;
pub(crate) mod admit;
pub(crate) mod agenda;
pub(crate) mod ages;
pub(crate) mod ahead;
pub(crate) mod anew;
pub(crate) mod answer;
pub(crate) mod answered;
pub(crate) mod backend;
pub(crate) mod client;
pub(crate) mod command;
pub(crate) mod commands;
pub(crate) mod done;
pub(crate) mod in_flight;
pub(crate) mod input;
pub(crate) mod kill;
pub(crate) mod kill_orders;
pub(crate) mod late;
pub(crate) mod launch;
pub(crate) mod link_task;
pub(crate) mod local;
pub(crate) mod login_schema;
pub(crate) mod losses;
pub(crate) mod memory;
pub(crate) mod moves;
pub(crate) mod orders;
pub(crate) mod out_of_sight;
pub(crate) mod owed;
pub(crate) mod own_id;
pub(crate) mod parting;
pub(crate) mod past;
pub(crate) mod pins;
pub(crate) mod pipeline;
pub(crate) mod prepared;
pub(crate) mod replies;
pub(crate) mod report;
pub(crate) mod reset;
pub(crate) mod resets;
pub(crate) mod resume;
pub(crate) mod rewrite;
pub(crate) mod rights;
pub(crate) mod route;
pub(crate) mod setup;
pub(crate) mod steer;
pub(crate) mod stranded;
pub(crate) mod supply;
pub(crate) mod tally;
pub(crate) mod task;
pub(crate) mod transfers;
pub(crate) mod undone;
pub(crate) mod waits;
pub(crate) mod wanted;
pub(crate) mod whole;
pub(crate) mod wording;
pub(crate) mod worker;
