//! The running proxy: workers, listeners, clients, links, configuration.
//!
//! Reads in the order in which a statement travels: [`arrive`], [`road`], [`links`], and back. What can be decided
//! without a socket is decided in `engine`.

mod arrive;
mod buffers;
mod checks;
mod clock;
pub mod config;
mod counters;
pub mod discover;
mod fault;
mod fleet;
mod hardening;
mod hidden;
#[cfg_attr(not(test), deny(clippy::disallowed_methods))]
mod links;
pub mod logs;
mod names;
mod outbox;
mod outside;
pub mod placement;
mod rights;
#[cfg_attr(not(test), deny(clippy::disallowed_methods))]
mod road;
mod run;
mod server;
mod servers;
mod signals;
mod spare_memory;
mod tally;
mod tls;
mod turns;
mod worker;

pub use link::Address;
pub use run::{RunError, run};
