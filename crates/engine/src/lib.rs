//! Decisions as state machines: whether a statement may start, on which backend, and what its session must keep.
//!
//! Nothing here owns a socket, reads a clock or sees a packet's body as a whole: time is an argument, backends and
//! clients are opaque values. The proxy asks and obeys; a simulation can do the same.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod account;
pub mod arrivals;
pub mod backend_session;
pub mod binlog;
pub mod budget;
pub mod cache;
pub mod calls;
pub mod cap;
pub mod checks;
pub mod claims;
pub mod classes;
pub mod cluster;
mod compound;
pub mod counts;
pub mod described;
pub mod descriptors;
pub mod form_notes;
pub mod gate;
pub mod gtid;
pub mod hidden;
pub mod init_connect;
pub mod insert_id;
pub mod intent;
pub mod iterations;
pub mod kept;
pub mod kill;
pub mod likeness;
pub mod limit;
pub mod marks;
pub mod mirror;
pub mod numbers;
pub mod overload;
pub mod own_id;
pub mod pace;
pub mod parked;
pub mod passed_texts;
pub mod passed_types;
pub mod pin;
pub mod placement;
pub mod places;
pub mod pool;
pub mod queue;
pub mod releases;
pub mod repeats;
pub mod rights;
pub mod schemas;
pub mod session;
pub mod session_variables;
pub mod sharing;
pub mod silence;
pub mod slots;
pub mod source;
pub mod spare_memory;
pub mod statement;
pub mod statements;
mod sync;
pub mod time_limits;
pub mod trackers;
pub mod trial;
pub mod upload;
pub mod user_variables;
pub mod visits;
pub mod waves;
