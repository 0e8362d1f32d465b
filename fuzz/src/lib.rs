//! What each fuzz target does with its input, and what must hold. Owns no corpus and no search for
//! inputs.
//!
//! Two crates compile this file: the fuzz crate around it, for libFuzzer, and the integration tests
//! in `testkit`, which replay the corpora and mutations of them on the stable compiler. So a target
//! cannot rot between two runs of the fuzzer, and there is one list of what must hold, not two.
//!
//! Invariants: a body takes any bytes; it panics only if the code under test broke a promise; it
//! depends on nothing but its input, so that a find can be kept as a file.

pub mod binlog;
pub mod command;
pub mod configuration;
pub mod frame;
pub mod handshake;
pub mod intent;
pub mod lexer;
pub mod password;
pub mod proxy_header;
pub mod reply;
pub mod response;
pub mod tracker;

/// What a target does with one input.
pub type Body = fn(&[u8]);

/// Each target's name, which is also its corpus's folder, and its body.
pub const TARGETS: &[(&str, Body)] = &[
    ("binlog", binlog::run),
    ("command", command::run),
    ("configuration", configuration::run),
    ("frame", frame::run),
    ("handshake", handshake::run),
    ("intent", intent::run),
    ("lexer", lexer::run),
    ("password", password::run),
    ("proxy_header", proxy_header::run),
    ("reply", reply::run),
    ("response", response::run),
    ("tracker", tracker::run),
];
