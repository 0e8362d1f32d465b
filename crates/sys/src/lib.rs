//! Linux beneath Flifo: processes, their accounts and their ends.
//!
//! The only crate with `unsafe` code; each block says why it is sound. No policy lives here: the
//! callers decide what to do with what they read.

pub mod account;
pub mod cgroup;
pub mod child;
pub mod cpus;
pub mod details;
pub mod heap;
pub mod identity;
pub mod io_uring;
pub mod keeper;
pub mod kernel;
pub mod later_user;
pub mod local_time;
pub mod machine;
pub mod network;
pub mod passing;
pub mod peers;
pub mod placing;
pub mod power;
pub mod process;
pub mod programs;
pub mod random;
pub mod sandbox;
pub mod scheduling;
pub mod secret_memory;
pub mod sockets;
pub mod state_file;
pub mod supervisor;
pub mod tcp;
pub mod threads;
pub mod topology;
pub mod tree;
