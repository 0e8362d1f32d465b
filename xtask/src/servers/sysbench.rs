//! sysbench as it is run when servers fail: it goes on after errors, if it is told to, and counts them.
//!
//! Beside `bench::sysbench`, for which an error ends the run. Dropped, it is stopped.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bench::interrupt::Interrupt;
use bench::private_server::PrivateServer;
use bench::process::{Said, Talker};
use bench::programs::SYSBENCH;
use testkit::cluster::Cluster;

/// What it does after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Errors {
    /// It goes on after what a transaction in flight is told when its backend is lost, and after what servers refuse so
    /// that it is tried again.
    GoOn,
    /// It ends, but for deadlocks, which are the server's answer to what clients do to one another.
    End,
}

/// What it has counted.
#[derive(Debug, Default)]
pub(super) struct Counted {
    pub(super) queries: u64,
    pub(super) errors: u64,
    pub(super) reconnects: u64,
}

/// A load under way.
pub(super) struct Load(Talker);

const TABLES: [&str; 2] = ["--tables=4", "--table-size=10000"];

/// Makes its tables on a server.
pub(super) fn prepare(port: u16, interrupt: &Interrupt) -> Result<()> {
    let mut command = command("oltp_read_write", port)?;
    command.arg("--threads=4").arg("prepare");
    listen(Talker::start("sysbench prepare", command, Duration::from_secs(300))?, interrupt)?;
    Ok(())
}

impl Load {
    /// Begins with a workload by sysbench's own name.
    pub(super) fn start(
        workload: &str,
        port: u16,
        (clients, seconds): (u32, u64),
        errors: Errors,
    ) -> Result<Self> {
        let mut command = command(workload, port)?;
        command.arg(format!("--threads={clients}")).arg(format!("--time={seconds}"));
        match errors {
            // Not the loss of the connection: sysbench 1.0 with MariaDB's library connects anew with a handle that it
            // has closed, and does not survive it, directly as well.
            Errors::GoOn => command.arg("--mysql-ignore-errors=1213,1430,1020,1205"),
            Errors::End => command.arg("--mysql-ignore-errors=1213"),
        };
        command.arg("run");
        let limit = Duration::from_secs(seconds + 60);
        Ok(Self(Talker::start("sysbench", command, limit)?))
    }

    /// Waits for its end, and for what it has counted.
    pub(super) fn end(self, interrupt: &Interrupt) -> Result<Counted> {
        let lines = listen(self.0, interrupt)?;
        let count = |name: &str| {
            let line = lines.iter().find_map(|line| line.trim().strip_prefix(name));
            let word = line.and_then(|line| line.split_whitespace().next());
            let count = word.and_then(|word| word.parse().ok());
            count.with_context(|| format!("sysbench does not tell its `{name}`: {lines:?}"))
        };
        Ok(Counted {
            queries: count("queries:")?,
            errors: count("ignored errors:")?,
            reconnects: count("reconnects:")?,
        })
    }
}

/// Hears it to its end, which must be a good one.
fn listen(mut talker: Talker, interrupt: &Interrupt) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    loop {
        match talker.listen(interrupt)? {
            Said::Line(line) if lines.len() < LINES_MAX => lines.push(line),
            Said::Line(_) | Said::Nothing => {}
            Said::End => break,
        }
    }
    let status = talker.wait(interrupt)?;
    let complaints = lines.iter().filter(|line| line.starts_with("FATAL")).take(3);
    let complaints: Vec<_> = complaints.map(String::as_str).collect();
    ensure!(status.success(), "sysbench failed ({status}): {}", complaints.join("; "));
    Ok(lines)
}

const LINES_MAX: usize = 1000;

fn command(workload: &str, port: u16) -> Result<Command> {
    let mut command = Command::new(SYSBENCH.find()?);
    command
        .arg(workload)
        .arg(format!("--mysql-user={}", PrivateServer::USER))
        .arg(format!("--mysql-password={}", Cluster::password()))
        .arg(format!("--mysql-db={}", PrivateServer::DATABASE))
        .args(["--mysql-host=127.0.0.1", &format!("--mysql-port={port}")])
        .args(TABLES);
    Ok(command)
}
