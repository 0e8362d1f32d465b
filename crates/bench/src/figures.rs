//! What is made of a measurement: distributions, comparisons, accounts of processes, reports.

pub mod histogram;
pub mod statistics;
