//! What is seen of the proxy from outside, as values: tables, what is asked of them, formats, figures of statements.
//!
//! Owns no socket, no clock and no state of the proxy: that makes [`table::Table`]s, and passes on what [`command`]
//! has read. Whatever is read here is hostile, and has a bound.

pub mod audit;
mod calendar;
pub mod command;
pub mod digests;
pub mod haproxy;
pub mod histogram;
pub mod logged;
pub mod metrics;
pub mod narrow;
pub mod slow;
pub mod sql;
pub mod table;
mod words;
