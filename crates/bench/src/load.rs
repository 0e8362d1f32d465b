//! Clients at work: thousands of them on a few threads, for one turn of one target.
//!
//! Owns when a client sends what, and what is noted of the answers. Knows neither rounds nor other
//! targets. Invariants: what is counted ended within the round; every latency counts from the time
//! at which its transaction was to begin; a client at rest owns no buffer.

mod account;
mod alarm;
mod bystander;
mod client;
mod connection;
mod pace;
mod recorder;
mod thread;
mod turn;

pub use self::account::{Account, OpenError, connect_once};
pub use self::connection::{Answer, Broken, Buffers, Connection};
pub use self::recorder::Recorder;
pub use self::turn::{Ended, Order, Outcome, TurnMoment, run};
