//! The command line of flifo-bench: what may be typed. What it means is done in `main`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, value_parser};
use shell::{Manual, VERSION};

use crate::measure::Bench;

/// Load, measurement and experiments for MySQL and MariaDB servers, and proxies in front of them.
#[derive(Debug, Parser)]
#[command(
    name = "flifo-bench",
    version = VERSION.as_str(),
    disable_help_subcommand = true,
    after_help = EXIT_STATUS
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compare a private MariaDB with and without Flifo on this machine, in two topologies: the
    /// server alone on a CPU, and server and proxy on one CPU.
    Demo(Demo),
    /// Measure servers and proxies under load: sysbench's workloads, many clients, fixed rates.
    #[command(subcommand)]
    Bench(Bench),
    /// Repeat on this machine what was once reported of another.
    #[command(subcommand)]
    Lab(LabCommand),
    #[command(flatten)]
    Manual(Manual),
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// List the experiments.
    List,
    /// Run one experiment.
    Run {
        /// Its name.
        name: String,
        #[command(flatten)]
        turns: LabTurns,
        #[command(flatten)]
        output: LabOutput,
    },
    /// Run all experiments.
    All {
        #[command(flatten)]
        turns: LabTurns,
        #[command(flatten)]
        output: LabOutput,
    },
}

#[derive(Debug, Args)]
pub(crate) struct LabTurns {
    /// How often each treatment has its turn; else as the experiment wants it.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=100))]
    pub(crate) rounds: Option<u32>,
    /// How long a turn is measured, in seconds.
    #[arg(long, value_name = "S", value_parser = iteration_seconds)]
    pub(crate) seconds: Option<Duration>,
    /// How many clients, where an experiment tries several numbers: a list with commas.
    #[arg(
        long,
        value_name = "N,N",
        value_delimiter = ',',
        value_parser = value_parser!(u32).range(1..=4096)
    )]
    pub(crate) clients: Vec<u32>,
    /// Only the parts of the experiment whose names contain this; the page and the text name them.
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,
}

fn iteration_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=600.0).contains(seconds));
    let seconds = seconds.ok_or("it must be a number from 0.1 to 600")?;
    Ok(Duration::from_secs_f64(seconds))
}

#[derive(Debug, Args)]
pub(crate) struct LabOutput {
    /// Where the page with the charts is written.
    #[arg(long, value_name = "FILE", default_value = "flifo-lab.html")]
    pub(crate) html: PathBuf,
    /// Print what was found as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Length of one run.
    #[arg(long, default_value_t = 2)]
    pub(crate) seconds: u32,
    /// How often each target has its turn under each load.
    #[arg(long, default_value_t = 5)]
    pub(crate) rounds: u32,
    /// Numbers of clients.
    #[arg(long, value_delimiter = ',', default_value = "8,64,512", value_name = "N,…")]
    pub(crate) clients: Vec<u32>,
    /// Workloads by sysbench's names.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAME,…",
        default_value = "oltp_point_select,oltp_read_write"
    )]
    pub(crate) workloads: Vec<String>,
    /// Rows of each table.
    #[arg(long, default_value_t = 100_000)]
    pub(crate) rows: u32,
    /// Tables.
    #[arg(long, default_value_t = 4)]
    pub(crate) tables: u32,
    /// Another target beside: socket, haproxy, relay. May be repeated.
    #[arg(long, value_name = "TARGET")]
    pub(crate) with: Vec<String>,
    /// Workers of Flifo and threads of HAProxy.
    #[arg(long, value_name = "N")]
    pub(crate) workers: Option<u32>,
    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a page with charts.
    #[arg(long, value_name = "FILE", conflicts_with = "sysbench")]
    pub(crate) html: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) instead: DemoInstead,
    /// Leave the server's folder behind.
    #[arg(long, requires = "sysbench")]
    pub(crate) keep: bool,
}

/// What is shown in the place of the usual.
#[derive(Debug, Args)]
pub(crate) struct DemoInstead {
    /// Have sysbench make the load, for a second opinion. It has a thread for each client, and they
    /// share the CPUs with the server; nothing is bound to CPUs.
    #[arg(long)]
    pub(crate) sysbench: bool,
    /// Show what rules do to an application that runs, in front of two private servers; nothing is measured.
    #[arg(long, conflicts_with = "sysbench")]
    pub(crate) rules: bool,
}

const EXIT_STATUS: &str = "Exit status: 0 all is well, 1 a comparison found something worse, 64 wrong arguments, 69 a server, \
                           port or program is not available, 130 interrupted";
