//! Random accounts and random logins, each directly and through Flifo: what is let in through Flifo must be what is let
//! in directly.
//!
//! In the order of a run: [`generate`] makes accounts and attempts from a seed, [`site`] has the server and Flifos
//! before it, [`attempt`] logs in, [`verdict`] compares, [`campaign`] repeats it all. What "directly" means: the client
//! has the server's address in the place of Flifo's, and nothing else is changed.
//!
//! Beside that, [`connected`] has accounts changed ([`changes`]) under clients that are connected, and [`handshakes`] says
//! logins byte by byte.

pub mod account;
pub mod attempt;
pub mod campaign;
pub mod certificates;
pub mod changes;
pub mod connected;
pub mod generate;
pub mod handshakes;
pub mod site;
pub mod verdict;
