//! The workloads of `flifo bench`, run by the program as a user runs it, and the tables that they need.

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

/// Runs a workload by this port. Returns how many transactions a second that were.
pub(super) fn run(
    table: &Table<'_>,
    workload: &str,
    port: u16,
    seconds: u32,
    clients: u32,
    interrupt: &Interrupt,
) -> Result<f64> {
    let file = tempfile::NamedTempFile::new()?;
    let mut command = table.command("run", port);
    command
        .args(["--workloads", workload, "--clients", &clients.to_string()])
        .args(["--seconds", &seconds.to_string(), "--warm-up", "0.5", "--rounds", "1"])
        .args(["--repeats", "0", "--json"])
        .arg(file.path());
    lines::run("flifo-bench bench run", command, interrupt)?;
    let json = fs::read_to_string(file.path()).context("it has left no results")?;
    rate(&serde_json::from_str(&json)?)
}

fn rate(results: &Results) -> Result<f64> {
    let cell = results.cells.first().context("nothing was measured")?;
    if let Some(failure) = cell.failures.first() {
        anyhow::bail!("{}", failure.why);
    }
    let round = cell.rounds.last().context("nothing was measured")?;
    ensure!(round.errors.is_empty(), "errors: {:?}", round.errors);
    ensure!(round.transactions > 0, "no transaction has ended");
    Ok(round.transactions_per_second)
}
