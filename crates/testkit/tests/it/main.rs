//! The one integration binary: the project's own files, and the running program from outside.

mod accounts;
mod ahead;
mod authentication;
mod bare;
mod benching;
mod comparing;
mod corpus;
mod differ;
mod hostile_clients;
mod hostile_commands;
mod hostile_servers;
mod legs;
mod life;
mod limits;
mod login_schema;
mod mysql;
mod pages;
mod road;
mod shared;
mod shared_blind_spots;
mod shared_gaps;
mod shared_hostile;
mod shared_load;
mod shared_past;
mod shared_settings;
mod tidy;
