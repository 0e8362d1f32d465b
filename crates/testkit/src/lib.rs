//! Tests only: the program as a child process, peers of both kinds that do as they are told, and what the integration
//! tests need around them.
pub mod asking;
pub mod binlog;
pub mod client;
pub mod cluster;
pub mod differ;
pub mod documented_options;
pub mod fairness;
pub mod fake_client;
pub mod fake_server;
pub mod flifo;
pub mod impostor;
pub mod kept_keys;
pub mod kept_reads;
pub mod linear;
pub mod logins;
pub mod mysql;
pub mod option_changes;
pub mod overdue;
pub mod relay;
pub mod reply;
pub mod rights;
pub mod scene;
pub mod simulated;
pub mod texts;
pub mod virtual_server;
pub mod world;
