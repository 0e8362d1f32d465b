//! Tests only: the program as a child process, and what the integration tests need around it.

pub mod flifo;
