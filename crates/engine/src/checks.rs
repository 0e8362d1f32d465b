//! Checks of servers: which worker runs which one, and what their results make of a server.
//!
//! [`scheduler`] is one worker's checks: when they are due, how many run, which go to another worker. [`health`] is
//! what a server is, from one result to the next; [`agent`] is what an agent beside the server says of it. None of the
//! three has a clock or a socket; time and chance are arguments.

pub mod agent;
pub mod health;
pub mod scheduler;
