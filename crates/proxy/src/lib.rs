//! The running proxy: workers, listeners, clients, links, configuration.
//!
//! Reads in the order in which a statement travels: [`listener`], [`logins`], [`login`], [`client`], [`road`], [`commands`],
//! [`admit`], [`launch`], [`links`], [`replies`]. What can be decided without a socket is decided in `engine`.

mod accounts;
mod admit;
mod ahead;
mod buffers;
mod carry;
mod change_user;
mod client;
mod clock;
mod commands;
pub mod config;
mod counters;
pub mod discover;
mod fault;
mod fixups;
mod keys;
mod kill;
mod launch;
mod links;
mod listener;
mod login;
mod login_schema;
mod logins;
pub mod logs;
mod losses;
mod namesake;
mod opener;
mod outbox;
mod outside;
mod past;
mod pins;
mod prepared;
mod prove;
mod proxy_protocol;
mod replies;
mod resets;
mod rewrite;
mod road;
mod rsa;
mod run;
mod server;
mod steer;
mod tally;
mod tls;
mod users;
mod worker;

pub use link::Address;
pub use run::{RunError, run};
