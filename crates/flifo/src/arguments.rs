//! The command line: what may be typed. What it means is done in `main`.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// A MySQL and MariaDB proxy that schedules.
#[derive(Debug, Parser)]
#[command(name = "flifo", version, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the proxy: with no options, in front of the local server, on 127.0.0.1:6033.
    Run {
        /// The configuration; every option in it is optional.
        #[arg(long, short, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Where clients come in, instead of the configuration's list. May be repeated.
        #[arg(long, value_name = "ADDRESS")]
        listen: Vec<String>,
        /// The server: "auto", "/path/of.sock" or "host:port".
        #[arg(long, value_name = "ADDRESS")]
        server: Option<String>,
        /// How many worker threads: a number or "auto".
        #[arg(long, value_name = "N")]
        workers: Option<String>,
    },
    /// Tell everything that is wrong with a configuration, with file, line and column.
    CheckConfig {
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// For machines.
        #[arg(long)]
        json: bool,
    },
    /// Print the reference of all options, with defaults.
    ConfigReference,
    /// Print a configuration with every option at its default, explained.
    ConfigSample,
    /// Compare a private MariaDB with and without Flifo on this machine.
    Demo {
        /// Length of one run.
        #[arg(long, default_value_t = 3)]
        seconds: u32,
        /// How often each target has its turn under each load.
        #[arg(long, default_value_t = 3)]
        rounds: u32,
        /// Numbers of clients.
        #[arg(long, value_delimiter = ',', default_value = "8,64,512", value_name = "N,…")]
        clients: Vec<u32>,
        /// Workloads by sysbench's names.
        #[arg(
            long,
            value_delimiter = ',',
            value_name = "NAME,…",
            default_value = "oltp_point_select,oltp_read_write"
        )]
        workloads: Vec<String>,
        /// Rows of each table.
        #[arg(long, default_value_t = 100_000)]
        rows: u32,
        #[arg(long, default_value_t = 4)]
        tables: u32,
        /// Another target beside: socket, haproxy. May be repeated.
        #[arg(long, value_name = "TARGET")]
        with: Vec<String>,
        /// Workers of Flifo and threads of HAProxy.
        #[arg(long)]
        workers: Option<u32>,
        /// For machines.
        #[arg(long)]
        json: bool,
        /// Leave the server's folder behind.
        #[arg(long)]
        keep: bool,
    },
    /// Print the completions of a shell.
    Completions { shell: clap_complete::Shell },
    /// Print the manual page.
    Man,
}
