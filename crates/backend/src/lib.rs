//! One connection to a server: connect, log in, send, follow replies.
//!
//! Also the socket type that a client's connection shares with it, and TLS for both. Which client may use a backend,
//! and when, is decided elsewhere.

pub mod address;
pub mod binlog;
pub mod dial;
pub mod login;
pub mod offer;
pub mod stream;
pub mod talk;
pub mod tls;

pub use address::{Address, NoAddress};
pub use stream::Stream;
pub use talk::Talk;
