//! What is made of a measurement: distributions, comparisons of pairs, accounts of processes.

pub mod accounts;
pub mod gain;
pub mod histogram;
pub mod pairs;
pub mod places;
pub mod terminal;
pub mod units;
pub mod watch;
