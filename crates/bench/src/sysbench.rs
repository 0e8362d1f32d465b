//! sysbench as the load: its arguments, its course, and what it reports.
//!
//! Knows neither targets nor tables of results. Invariant: a run either yields a report of its
//! whole time or an error that quotes what sysbench complained about.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};

use crate::interrupt::Interrupt;
use crate::private_server::PrivateServer;
use crate::process::{Said, Talker};
use crate::programs::SYSBENCH;

/// Where sysbench connects to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Port(u16),
    Socket(PathBuf),
}

/// The tables that sysbench works on.
#[derive(Clone, Copy, Debug)]
pub struct Tables {
    pub count: u32,
    pub rows: u32,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Load<'a> {
    /// A workload by sysbench's own name, such as `oltp_read_write`.
    pub workload: &'a str,
    pub clients: u32,
    pub seconds: u32,
}

/// When all clients are connected and begin to work, and when all have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    Begin,
    End,
}

/// What sysbench counted between the two moments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    pub statements: u64,
    pub statements_per_second: f64,
    pub transactions_per_second: f64,
    pub p95_ms: f64,
    /// Reconnects, and deadlocks and the like, after which sysbench goes on.
    pub errors_per_second: f64,
}

pub struct Sysbench {
    program: PathBuf,
    password: String,
    tables: Tables,
}

impl Sysbench {
    pub fn find(password: &str, tables: Tables) -> Result<Self> {
        Ok(Self { program: SYSBENCH.find()?, password: password.to_owned(), tables })
    }

    /// Makes and fills the tables. Calls `tick` several times a second until it is done.
    pub fn prepare(
        &self,
        address: &Address,
        interrupt: &Interrupt,
        mut tick: impl FnMut(),
    ) -> Result<()> {
        let mut command = self.command("oltp_read_write", address);
        command.arg(format!("--threads={}", self.tables.count)).arg("prepare");
        let mut talker = Talker::start("sysbench prepare", command, PREPARE_MAX)?;
        let mut heard = Heard::default();
        loop {
            match talker.listen(interrupt)? {
                Said::Line(line) => heard.line(line),
                Said::Nothing => tick(),
                Said::End => break,
            }
        }
        let status = talker.wait(interrupt)?;
        ensure!(
            status.success() && heard.complaints.is_empty(),
            "sysbench could not fill the tables ({status}): {}",
            heard.complaint()
        );
        Ok(())
    }

    /// Runs one load, and calls `at` with sysbench's process at both moments.
    pub fn run(
        &self,
        load: &Load<'_>,
        address: &Address,
        interrupt: &Interrupt,
        mut at: impl FnMut(Moment, u32) -> Result<()>,
    ) -> Result<Report> {
        let mut command = self.command(load.workload, address);
        command
            .arg(format!("--threads={}", load.clients))
            .arg(format!("--time={}", load.seconds))
            .args(["--db-ps-mode=disable", "run"]);
        let limit = Duration::from_secs(load.seconds.into()) + RUN_SLACK;
        let mut talker = Talker::start("sysbench", command, limit)?;
        let mut heard = Heard::default();
        loop {
            match talker.listen(interrupt)? {
                Said::Line(line) => {
                    match line.as_str() {
                        "Threads started!" => at(Moment::Begin, talker.pid())?,
                        "SQL statistics:" => at(Moment::End, talker.pid())?,
                        _ => {}
                    }
                    heard.line(line);
                }
                Said::Nothing => {}
                Said::End => break,
            }
        }
        let status = talker.wait(interrupt)?;
        ensure!(
            status.success() && heard.complaints.is_empty(),
            "sysbench failed ({status}): {}",
            heard.complaint()
        );
        parse(&heard.lines).context("sysbench's report is not understood")
    }

    fn command(&self, workload: &str, address: &Address) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg(workload)
            .arg(format!("--mysql-user={}", PrivateServer::USER))
            .arg(format!("--mysql-password={}", self.password))
            .arg(format!("--mysql-db={}", PrivateServer::DATABASE))
            .arg(format!("--tables={}", self.tables.count))
            .arg(format!("--table-size={}", self.tables.rows));
        match address {
            Address::Port(port) => {
                command.arg("--mysql-host=127.0.0.1").arg(format!("--mysql-port={port}"))
            }
            Address::Socket(path) => command
                .arg("--mysql-host=localhost")
                .arg(format!("--mysql-socket={}", path.display())),
        };
        command
    }
}

/// Bounded notes of what a sysbench said.
#[derive(Default)]
struct Heard {
    lines: Vec<String>,
    complaints: Vec<String>,
}

impl Heard {
    fn line(&mut self, line: String) {
        let complains = ["FATAL:", "ALERT:", "PANIC:"].iter().any(|mark| line.starts_with(mark));
        let (notes, max) = if complains {
            (&mut self.complaints, COMPLAINTS_MAX)
        } else {
            (&mut self.lines, LINES_MAX)
        };
        if notes.len() < max {
            notes.push(line);
        }
    }

    /// The first complaints, or for want of any the last lines.
    fn complaint(&self) -> String {
        let last = self.lines.len().saturating_sub(COMPLAINTS_MAX);
        let said = if self.complaints.is_empty() { &self.lines[last..] } else { &self.complaints };
        said.join("; ")
    }
}

/// Understands the report of sysbench 1.0; lines that it does not need may differ or be absent.
fn parse(lines: &[String]) -> Result<Report> {
    let value = |name: &str| {
        let line = lines.iter().find_map(|line| line.trim_start().strip_prefix(name));
        line.map(str::trim).ok_or_else(|| anyhow!("it has no line `{name}`"))
    };
    let number = |name: &str, text: &str| {
        let parsed = text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        parsed.ok_or_else(|| anyhow!("`{name}` is followed by {text:?} where a number belongs"))
    };
    // Such as `queries:      51320  (25120.10 per sec.)`.
    let count_and_rate = |name: &str| -> Result<(f64, f64)> {
        let text = value(name)?;
        let (count, rate) = text.split_once('(').unwrap_or((text, ""));
        let rate = rate.trim_end_matches(')').trim_end().trim_end_matches("per sec.");
        Ok((number(name, count)?, number(name, rate)?))
    };
    let (statements, statements_per_second) = count_and_rate("queries:")?;
    let (_, transactions_per_second) = count_and_rate("transactions:")?;
    Ok(Report {
        statements: statements as u64,
        statements_per_second,
        transactions_per_second,
        p95_ms: number("95th percentile:", value("95th percentile:")?)?,
        errors_per_second: count_and_rate("ignored errors:")?.1 + count_and_rate("reconnects:")?.1,
    })
}

/// A hundred million rows take less.
const PREPARE_MAX: Duration = Duration::from_secs(3600);
/// For connecting thousands of clients, and for statements under way at the end.
const RUN_SLACK: Duration = Duration::from_secs(40);
const COMPLAINTS_MAX: usize = 3;
const LINES_MAX: usize = 200;

#[cfg(test)]
mod tests;
