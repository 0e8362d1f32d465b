//! Bytes to MySQL meaning and back.
//!
//! Owns the protocol: packets, the handshake, passwords, commands, replies, session trackers and a lexer.
//! Sans-IO: every function takes bytes and gives values or bytes; there is no socket, no clock and no policy here.
//!
//! Invariants: no input makes it panic; what a parser keeps is bounded by what it was given; both sides of each
//! message can be read and written, so that a fake server and a fake client need nothing else.

pub mod auth;
pub mod binlog;
pub mod bytes;
pub mod capability;
pub mod charset;
pub mod command;
pub mod frame;
pub mod handshake;
pub mod lex;
pub mod like;
pub mod passage;
pub mod proxy_header;
pub mod reply;
pub mod reply_sum;
pub mod response;
pub mod rows;
pub mod statement;
pub mod text;
pub mod tracker;

pub use bytes::Malformed;
pub use capability::Capabilities;
