//! The one integration binary: the project's own files, and the running program from outside.

mod authentication;
mod hostile_clients;
mod hostile_commands;
mod road;
mod tidy;
