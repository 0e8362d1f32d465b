//! The one integration binary: the project's own files, and the running program from outside.

mod accounts;
mod authentication;
mod bare;
mod corpus;
mod hostile_clients;
mod hostile_commands;
mod legs;
mod mysql;
mod road;
mod tidy;
