//! Checks of servers: which worker runs which one, and what their results make of a server.
//!
//! [`scheduler`] is one worker's checks: when they are due, which go to another worker; [`places`] is how many of them
//! run, and which first. [`health`] is what a server is, from one result to the next; [`agent`] is what an agent beside
//! the server says of it. None of them has a clock or a socket; time and chance are arguments.

pub mod agent;
pub mod health;
pub mod places;
pub mod scheduler;
