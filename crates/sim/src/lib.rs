//! Whole processes in simulated worlds: real workers between simulated clients and a model of a server, under a clock
//! that stands still and dice of a seed. A world is run twice: through the process, and with each client directly at the
//! server. What clients are answered must be the same; nothing may be left when all have gone.

pub mod configuration;
pub mod dice;
pub mod judge;
pub mod model;
pub mod net;
pub mod programs;
pub mod world;
