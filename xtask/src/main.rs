//! What maintainers run beside `cargo test`: `cargo xtask drivers | sysbench-matrix |
//! beyond | bulk | cost | statement-cost | gate-cost | rule-cost | iteration-cost | differ | logins | logs | linear | hostile | impostors |
//! reloads | rights | rules | servers | set-up | sim | share-cost | cache-cost | package | upgrades |
//! texts`.
//!
//! Owns the command line only; each command is a module. Ships nothing. Invariant: whatever was
//! started is stopped at the end, on an error and on Ctrl-C.

mod beyond;
mod bulk;
mod cache_cost;
mod callgrind;
mod cost;
mod differ;
mod drivers;
mod errand;
mod gate_cost;
mod hostile;
mod impostors;
mod iteration_cost;
mod linear;
mod logins;
mod logs;
mod matrix;
mod package;
mod price;
mod reloads;
mod repository;
mod rights;
mod rule_cost;
mod rules;
mod servers;
mod set_up;
mod share_cost;
mod sim;
mod statement_cost;
mod texts;
mod upgrades;
mod variant;
mod ways;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use bench::interrupt::Interrupt;
use clap::{Parser, Subcommand};

use crate::drivers::Suite;
use crate::set_up::{Beside, Library};
use crate::ways::Way;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "What maintainers run")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Runs all of sysbench's database workloads each way; any error fails.
    SysbenchMatrix {
        #[command(flatten)]
        extent: matrix::Extent,
        #[command(flatten)]
        program: Program,
    },
    /// Builds servers of another make, and compares what they do directly with what they do behind Flifo.
    Beyond {
        #[command(flatten)]
        extent: beyond::Extent,
        #[command(flatten)]
        program: Program,
    },
    /// Moves big data through Flifo: a dump and its restoration, values of 64 MiB, a file.
    #[command(after_help = bulk::DISK_HELP)]
    Bulk {
        /// Size of the database, such as 1GiB or 200MiB.
        #[arg(long, default_value = "1GiB", value_parser = bulk::parse_size)]
        size: u64,
        #[arg(long, value_delimiter = ',', default_value = "pass-through,pooled")]
        modes: Vec<Way>,
        #[command(flatten)]
        program: Program,
    },
    /// Measures what clients at rest cost, and the system calls of a statement.
    Cost {
        #[command(flatten)]
        extent: cost::Extent,
        #[command(flatten)]
        program: Program,
    },
    /// Counts a statement's instructions with valgrind, and how often it makes Flifo ask for memory.
    StatementCost {
        #[command(flatten)]
        extent: statement_cost::Extent,
        #[command(flatten)]
        program: Program,
    },
    /// Counts the instructions of a gate that does not bind, with valgrind, and weighs its CPU.
    GateCost {
        #[command(flatten)]
        extent: gate_cost::Extent,
        #[command(flatten)]
        program: Program,
    },
    /// Counts the instructions that rules cost a statement that they let pass, with valgrind.
    RuleCost {
        #[command(flatten)]
        extent: rule_cost::Extent,
        #[command(flatten)]
        program: Program,
    },
    /// Counts the instructions of a statement whose reply is kept, with valgrind.
    CacheCost {
        #[command(flatten)]
        extent: cache_cost::Extent,
        #[command(flatten)]
        program: Program,
    },
    /// Counts what shared reads cost a statement, with valgrind, and has a thousand clients ask the same at once.
    ShareCost {
        #[command(flatten)]
        extent: share_cost::Extent,
        #[command(flatten)]
        program: Program,
    },
    /// Measures what part of a statement's CPU goes into watching the worker's loop.
    IterationCost {
        #[command(flatten)]
        extent: iteration_cost::Extent,
        #[command(flatten)]
        program: Program,
    },
    /// Runs random programs of many clients directly and through few backends, and compares every
    /// reply.
    Differ {
        #[command(flatten)]
        extent: differ::Extent,
        #[command(flatten)]
        program: Program,
    },
    /// Makes random accounts, and logs in at random directly and through Flifo: nothing more is let
    /// in, and less is counted.
    Logins {
        #[command(flatten)]
        extent: logins::Extent,
        #[command(flatten)]
        program: Program,
    },
    /// Has the programs for slow logs read long ones, of entries of every kind.
    Logs {
        #[command(flatten)]
        extent: logs::Extent,
        #[command(flatten)]
        program: Program,
    },
    /// Has clients read and write a few registers through a Flifo that shares reads, and beside it: what they saw must
    /// be linear.
    Linear {
        #[command(flatten)]
        extent: linear::Extent,
        #[command(flatten)]
        program: Program,
    },
    /// Attacks Flifo as strangers and clients would, and watches what other clients have of it.
    Hostile {
        #[command(flatten)]
        extent: hostile::Extent,
        #[command(flatten)]
        program: Program,
    },
    /// Servers that are not the server make random demands in logins: they hear no password but where
    /// `server.tls` says so.
    Impostors {
        #[command(flatten)]
        extent: impostors::Extent,
        #[command(flatten)]
        program: Program,
    },
    /// Reloads the configuration under load, of which clients may see nothing; or changes each option, and sets of them.
    Reloads {
        #[command(flatten)]
        extent: reloads::Extent,
        #[command(flatten)]
        program: Program,
    },
    /// Has Flifos take over from each other, of which clients may see nothing.
    Upgrades {
        #[command(flatten)]
        extent: upgrades::Extent,
        #[command(flatten)]
        program: Program,
    },
    /// Measures how long it takes until changes of rights hold for new clients.
    Rights {
        #[command(flatten)]
        extent: rights::Extent,
        #[command(flatten)]
        program: Program,
    },
    /// Runs texts that are easily misread on a server, and compares what they do with what was read.
    Texts {
        #[command(flatten)]
        extent: texts::Extent,
    },
    /// Builds Flifo without one of the rules that keep backends apart at a time, and expects the tests
    /// that are named for it to fail.
    Rules {
        #[command(flatten)]
        extent: rules::Extent,
    },
    /// Runs drivers' test suites directly and through Flifo, and compares them test by test.
    Drivers {
        /// Only these suites.
        #[arg(long, value_delimiter = ',')]
        suite: Vec<Suite>,
        /// The ways to the server; the first is what the others are compared with.
        #[arg(long, value_delimiter = ',', default_value = "direct,pass-through,pooled")]
        modes: Vec<Way>,
        /// The most clients that a proxy accepts: a small number shows that the comparison can fail.
        #[arg(long, default_value_t = 1000)]
        clients_max: u32,
        /// How many backends pooled clients share; with few, they meet what others leave.
        #[arg(long)]
        backends: Option<u32>,
        /// A client of the same driver with other settings is there all the time.
        #[arg(long)]
        noise: bool,
        #[command(flatten)]
        program: Program,
    },
    /// Shows what is promised of several servers, with real ones.
    Servers {
        #[command(subcommand)]
        part: servers::Part,
        #[command(flatten)]
        program: Program,
    },
    /// Installs the Debian package in fresh trees of Debian releases, in which systemd and MariaDB run.
    Package {
        #[command(flatten)]
        extent: package::Extent,
    },
    /// Runs worlds in which a whole process, its clients and its server are simulated, by their seeds
    Sim {
        #[command(flatten)]
        extent: sim::Extent,
    },
    /// Runs little applications of many libraries, and tells which of them share backends, and what
    /// that costs. Or sets Flifo up beside servers that others depend on, and takes that back.
    SetUp {
        /// Only these libraries; then nothing is written.
        #[arg(long, value_delimiter = ',')]
        library: Vec<Library>,
        /// Runs `flifo init` beside servers instead of libraries: these, or without a value all of them.
        #[arg(long, value_delimiter = ',', num_args = 0.., conflicts_with = "library")]
        beside: Option<Vec<Beside>>,
        /// Where servers of other releases are kept for the next run; by default they are fetched anew and removed.
        #[arg(long, value_name = "DIR", requires = "beside")]
        keep: Option<PathBuf>,
        #[command(flatten)]
        program: Program,
    },
}

#[derive(clap::Args)]
struct Program {
    /// The program to test; by default it is built here, in release mode.
    #[arg(long)]
    flifo: Option<PathBuf>,
}

impl Program {
    fn find(&self, modes: &[Way]) -> Result<PathBuf> {
        match &self.flifo {
            Some(path) => {
                path.canonicalize().with_context(|| format!("there is no {}", path.display()))
            }
            None if modes.iter().any(|way| way.needs_flifo()) => build_flifo(),
            None => Ok(PathBuf::from("flifo")),
        }
    }
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::SysbenchMatrix { extent, program } => {
            let flifo = program.find(&extent.modes)?;
            matrix::run(&extent, flifo, &Interrupt::listen()?)
        }
        Task::Beyond { extent, program } => {
            let flifo = program.find(&[Way::Pooled])?;
            beyond::run(&extent, &flifo, &Interrupt::listen()?)
        }
        Task::Bulk { size, modes, program } => {
            let flifo = program.find(&modes)?;
            bulk::run(size, &modes, flifo, &Interrupt::listen()?)
        }
        Task::Cost { extent, program } => {
            let flifo = program.find(&[Way::Pooled])?;
            cost::run(&extent, flifo, &Interrupt::listen()?)
        }
        Task::StatementCost { extent, program } => {
            let flifo = program.find(&[Way::Pooled])?;
            statement_cost::run(&extent, &flifo, &Interrupt::listen()?)
        }
        Task::GateCost { extent, program } => {
            let flifo = program.find(&[Way::Pooled])?;
            gate_cost::run(&extent, &flifo, &Interrupt::listen()?)
        }
        Task::RuleCost { extent, program } => {
            let flifo = program.find(&[Way::Pooled])?;
            rule_cost::run(&extent, &flifo, &Interrupt::listen()?)
        }
        Task::CacheCost { extent, program } => {
            let flifo = program.find(&[Way::Pooled])?;
            cache_cost::run(&extent, &flifo, &Interrupt::listen()?)
        }
        Task::ShareCost { extent, program } => {
            let flifo = program.find(&[Way::Pooled])?;
            share_cost::run(&extent, &flifo, &Interrupt::listen()?)
        }
        Task::IterationCost { extent, program } => {
            let flifo = program.find(&[Way::Pooled])?;
            iteration_cost::run(&extent, &flifo, &Interrupt::listen()?)
        }
        Task::Differ { extent, program } => {
            let flifo = program.find(&[Way::Pooled])?;
            differ::run(&extent, flifo, &Interrupt::listen()?)
        }
        Task::Logins { extent, program } => {
            let flifo = program.find(&[Way::Pooled])?;
            logins::run(&extent, &flifo, &Interrupt::listen()?)
        }
        Task::Logs { extent, program } => {
            let flifo = program.find(&[Way::Pooled])?;
            logs::run(&extent, &flifo, &Interrupt::listen()?)
        }
        Task::Linear { extent, program } => {
            let flifo = program.find(&[Way::Pooled])?;
            linear::run(&extent, &flifo, &Interrupt::listen()?)
        }
        Task::Hostile { extent, program } => {
            let flifo = program.find(&[Way::Pooled])?;
            hostile::run(&extent, &flifo, &Interrupt::listen()?)
        }
        Task::Impostors { extent, program } => {
            let flifo = program.find(&[Way::Pooled])?;
            impostors::run(&extent, &flifo, &Interrupt::listen()?)
        }
        Task::Reloads { extent, program } => {
            let flifo = program.find(&[Way::Pooled])?;
            reloads::run(&extent, &flifo, &Interrupt::listen()?)
        }
        Task::Upgrades { extent, program } => {
            let flifo = program.find(&[Way::Pooled])?;
            upgrades::run(&extent, &flifo, &Interrupt::listen()?)
        }
        Task::Rights { extent, program } => {
            let flifo = program.find(&[Way::Pooled])?;
            rights::run(&extent, &flifo, &Interrupt::listen()?)
        }
        Task::Texts { extent } => texts::run(&extent, &Interrupt::listen()?),
        Task::Rules { extent } => rules::run(&extent, &Interrupt::listen()?),
        Task::Drivers { suite, modes, clients_max, backends, noise, program } => {
            let flifo = program.find(&modes)?;
            let plan =
                drivers::Plan { suites: suite, ways: modes, clients_max, backends, noise, flifo };
            drivers::run(&plan, &Interrupt::listen()?)
        }
        Task::Servers { part, program } => {
            let flifo = program.find(&[Way::Pooled])?;
            servers::run(&part, &flifo, &Interrupt::listen()?)
        }
        Task::Package { extent } => package::run(&extent, &Interrupt::listen()?),
        Task::Sim { extent } => sim::run(&extent, &Interrupt::listen()?),
        Task::SetUp { library, beside, keep, program } => {
            let flifo = program.find(&[Way::Pooled])?;
            let interrupt = Interrupt::listen()?;
            match beside {
                Some(kinds) => set_up::run_beside(&kinds, keep.as_deref(), &flifo, &interrupt),
                None => set_up::run(&library, flifo, &interrupt),
            }
        }
    }
}

fn build_flifo() -> Result<PathBuf> {
    cargo(&["build", "--release", "--package", "flifo", "--package", "flifo-bench"])?;
    Ok(repository::target().join("release/flifo"))
}

fn cargo(arguments: &[&str]) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo).args(arguments).current_dir(repository::root()).status()?;
    ensure!(status.success(), "`cargo {}` failed ({status})", arguments.join(" "));
    Ok(())
}
