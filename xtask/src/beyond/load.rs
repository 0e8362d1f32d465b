//! The workloads of `flifo bench`, run by the program as a user runs it, and the tables that they need.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use bench::interrupt::Interrupt;
use bench::results::Results;

use super::{PASSWORD, USERS};
use crate::drivers::lines;

const ROWS: u32 = 1000;

/// The table of the workloads, made anew by the server itself.
pub(super) struct Table<'a> {
    pub(super) bench: &'a Path,
    pub(super) port: u16,
    /// The server's process: otherwise one of a name that is known would be taken for it.
    pub(super) pid: u32,
}

/// What a workload has done.
pub(super) struct Rate {
    pub(super) transactions_per_second: f64,
    /// Transactions that the server has undone because of others.
    pub(super) conflicts: u64,
}

impl Table<'_> {
    pub(super) fn make(&self, interrupt: &Interrupt) -> Result<()> {
        // There may be none.
        let _ =
            lines::run("flifo-bench bench cleanup", self.command("cleanup", self.port), interrupt);
        lines::run("flifo-bench bench prepare", self.command("prepare", self.port), interrupt)?;
        Ok(())
    }

    fn command(&self, what: &str, port: u16) -> Command {
        let mut command = Command::new(self.bench);
        command
            .args(["bench", what, "--tables", "1", "--rows", &ROWS.to_string()])
            .args(["--target", &format!("127.0.0.1:{port}"), "--user", USERS[0]])
            .env("MYSQL_PWD", PASSWORD);
        command
    }
}

/// Runs a workload by this port.
pub(super) fn run(
    table: &Table<'_>,
    workload: &str,
    port: u16,
    seconds: u32,
    clients: u32,
    interrupt: &Interrupt,
) -> Result<Rate> {
    let file = tempfile::NamedTempFile::new()?;
    let mut command = table.command("run", port);
    command
        .args(["--workloads", workload, "--clients", &clients.to_string()])
        .args(["--seconds", &seconds.to_string(), "--warm-up", "0.5", "--rounds", "1"])
        .args(["--process", &format!("server={}", table.pid), "--repeats", "0", "--json"])
        .arg(file.path());
    lines::run("flifo-bench bench run", command, interrupt)?;
    let json = fs::read_to_string(file.path()).context("it has left no results")?;
    rate(&serde_json::from_str(&json)?)
}

fn rate(results: &Results) -> Result<Rate> {
    let cell = results.cells.first().context("nothing was measured")?;
    if let Some(failure) = cell.failures.first() {
        anyhow::bail!("{}", failure.why);
    }
    let round = cell.rounds.last().context("nothing was measured")?;
    let (conflicts, others): (Vec<_>, Vec<_>) =
        round.errors.iter().partition(|it| CONFLICTS.contains(&it.code));
    ensure!(others.is_empty(), "errors: {others:?}");
    ensure!(round.transactions > 0, "no transaction has ended");
    Ok(Rate {
        transactions_per_second: round.transactions_per_second,
        conflicts: conflicts.iter().map(|it| it.count).sum(),
    })
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0}", self.transactions_per_second)?;
        match self.conflicts {
            0 => Ok(()),
            conflicts => write!(f, ", {conflicts} conflicts"),
        }
    }
}

/// The errors that sysbench ignores as it comes: deadlocks, waits for locks, rows that have changed.
const CONFLICTS: [u16; 3] = [1213, 1205, 1020];
