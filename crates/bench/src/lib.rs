//! Load, measurement and reports: the demo, and the private server that tests use too.
//!
//! Starts Flifo as a user would, by its command line; knows nothing of its inside.

pub mod agree;
pub mod chart;
pub mod compare;
pub mod csv;
pub mod date;
pub mod demo;
pub mod figures;
pub mod folder;
pub mod interrupt;
pub mod kept;
pub mod lab;
pub mod load;
pub mod names;
pub mod page;
pub mod private_server;
pub mod process;
pub mod programs;
pub mod progress;
pub mod relay;
pub mod results;
pub mod rules_demo;
pub mod run;
pub mod statistics;
pub mod sysbench;
pub mod table;
pub mod targets;
pub mod topology;
pub mod workloads;
