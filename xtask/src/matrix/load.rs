//! sysbench's workloads: which tables each needs, one run of each, and what went wrong in it.
//!
//! Does not judge the whole. Invariant: what sysbench could not do is an [`Outcome`] with a
//! complaint; an error is returned only if the run as a whole must end.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use bench::interrupt::Interrupt;
use bench::private_server::PrivateServer;
use bench::process::{Said, Talker};
use bench::programs::SYSBENCH;

/// A workload that comes with sysbench.
#[derive(Clone, Copy, Debug)]
pub(super) struct Workload {
    pub(super) name: &'static str,
    pub(super) tables: Tables,
    /// It leaves too few rows, or too many, for the next run.
    pub(super) consumes: bool,
}

/// What a workload needs to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tables {
    Four,
    One,
    OnePerClient,
}

pub(super) const WORKLOADS: [Workload; 11] = [
    Workload { name: "oltp_point_select", tables: Tables::Four, consumes: false },
    Workload { name: "oltp_read_only", tables: Tables::Four, consumes: false },
    Workload { name: "oltp_read_write", tables: Tables::Four, consumes: false },
    Workload { name: "oltp_write_only", tables: Tables::Four, consumes: false },
    Workload { name: "oltp_update_index", tables: Tables::Four, consumes: false },
    Workload { name: "oltp_update_non_index", tables: Tables::Four, consumes: false },
    Workload { name: "oltp_insert", tables: Tables::Four, consumes: true },
    Workload { name: "oltp_delete", tables: Tables::Four, consumes: true },
    Workload { name: "select_random_points", tables: Tables::One, consumes: false },
    Workload { name: "select_random_ranges", tables: Tables::One, consumes: false },
    Workload { name: "bulk_insert", tables: Tables::OnePerClient, consumes: true },
];

/// The workload of that name.
pub(super) fn find(name: &str) -> Result<&'static Workload, String> {
    WORKLOADS.iter().find(|workload| workload.name == name).ok_or_else(|| {
        format!("there is none of that name, but {}", WORKLOADS.map(|it| it.name).join(", "))
    })
}

impl Tables {
    pub(super) fn count(self, clients: u32) -> u32 {
        match self {
            Self::Four => 4,
            Self::One => 1,
            Self::OnePerClient => clients,
        }
    }
}

/// Whether sysbench prepares its statements at the server, in its own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preparation {
    Auto,
    Disable,
}

impl Preparation {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Disable => "disable",
        }
    }
}

pub(super) struct Load {
    pub(super) workload: &'static Workload,
    pub(super) preparation: Preparation,
    pub(super) clients: u32,
    pub(super) seconds: u32,
}

/// What came out of a run.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) statements: u64,
    pub(super) statements_per_second: f64,
    /// Errors after which sysbench goes on: of its default list, deadlocks and waits for locks.
    pub(super) ignored: u64,
    pub(super) reconnects: u64,
    /// How many of those the server says it has answered.
    pub(super) conflicts: u64,
    pub(super) complaint: Option<String>,
}

impl Outcome {
    /// What must not be.
    pub(super) fn fault(&self) -> Option<String> {
        let Self { ignored, reconnects, conflicts, .. } = self;
        if self.complaint.is_some() {
            return self.complaint.clone();
        }
        if 0 < *reconnects {
            return Some(format!("{reconnects} reconnects"));
        }
        if conflicts < ignored {
            return Some(format!(
                "{ignored} errors, where the server counts {conflicts} conflicts"
            ));
        }
        (self.statements == 0).then(|| "not one statement".to_owned())
    }

    pub(super) fn tell(&self) -> String {
        self.fault().unwrap_or_else(|| format!("{:.0} statements/s", self.statements_per_second))
    }
}

pub(super) struct Sysbench {
    program: PathBuf,
    password: String,
}

impl Sysbench {
    pub(super) fn find(password: &str) -> Result<Self> {
        Ok(Self { program: SYSBENCH.find()?, password: password.to_owned() })
    }

    /// Makes the tables that so many clients need.
    pub(super) fn prepare(
        &self,
        workload: &Workload,
        clients: u32,
        port: u16,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let threads = match workload.tables {
            Tables::OnePerClient => clients,
            tables => tables.count(clients),
        };
        let mut command = self.command(workload, clients, port);
        command.arg(format!("--threads={threads}")).arg("prepare");
        let said = listen("sysbench prepare", command, PREPARE_MAX, interrupt)?;
        ensure!(said.complaints.is_empty(), "sysbench makes no tables: {}", said.complaints[0]);
        Ok(())
    }

    pub(super) fn run(&self, load: &Load, port: u16, interrupt: &Interrupt) -> Result<Outcome> {
        let mut command = self.command(load.workload, load.clients, port);
        command
            .arg(format!("--threads={}", load.clients))
            .arg(format!("--time={}", load.seconds))
            .arg(format!("--db-ps-mode={}", load.preparation.name()))
            .arg("run");
        let limit = Duration::from_secs(load.seconds.into()) + RUN_SLACK;
        match listen("sysbench", command, limit, interrupt) {
            Ok(said) => Ok(said.outcome()),
            Err(error) => {
                interrupt.check()?;
                Ok(Outcome { complaint: Some(format!("{error:#}")), ..Outcome::default() })
            }
        }
    }

    fn command(&self, workload: &Workload, clients: u32, port: u16) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg(workload.name)
            .arg(format!("--mysql-user={}", PrivateServer::USER))
            .arg(format!("--mysql-password={}", self.password))
            .arg(format!("--mysql-db={}", PrivateServer::DATABASE))
            .args(["--mysql-host=127.0.0.1", &format!("--mysql-port={port}")]);
        // It takes its number of tables from its number of clients, and no option of the others'.
        if workload.tables != Tables::OnePerClient {
            let count = workload.tables.count(clients);
            command.args([format!("--tables={count}"), format!("--table-size={ROWS}")]);
        }
        command
    }
}

/// What a sysbench said.
#[derive(Default)]
struct Heard {
    report: Vec<String>,
    complaints: Vec<String>,
}

impl Heard {
    fn line(&mut self, line: &str) {
        let complains = ["FATAL:", "ALERT:", "PANIC:"].iter().any(|mark| line.starts_with(mark));
        let (notes, max) = if complains {
            (&mut self.complaints, COMPLAINTS_MAX)
        } else {
            (&mut self.report, LINES_MAX)
        };
        if notes.len() < max {
            // It quotes statements, which bulk_insert makes long.
            notes.push(line.chars().take(LINE_SHOWN).collect());
        }
    }

    fn outcome(self) -> Outcome {
        if !self.complaints.is_empty() {
            let complaint = Some(self.complaints.join("; "));
            return Outcome { complaint, ..Outcome::default() };
        }
        parse(&self.report).unwrap_or_else(|error| Outcome {
            complaint: Some(format!("sysbench's report is not understood: {error}")),
            ..Outcome::default()
        })
    }
}

/// Runs sysbench to its end. That it failed is a complaint.
fn listen(name: &str, command: Command, limit: Duration, interrupt: &Interrupt) -> Result<Heard> {
    let mut talker = Talker::start(name, command, limit)?;
    let mut heard = Heard::default();
    loop {
        match talker.listen(interrupt)? {
            Said::Line(line) => heard.line(&line),
            Said::Nothing => {}
            Said::End => break,
        }
    }
    let status = talker.wait(interrupt)?;
    if !status.success() && heard.complaints.is_empty() {
        // Its complaint and its name come by two pipes, in either order.
        let from = heard.report.len().saturating_sub(COMPLAINTS_MAX);
        let last = heard.report[from..].join(" | ");
        heard.complaints.push(format!("it ended with {status} and said last: {last}"));
    }
    Ok(heard)
}

/// Understands the report of sysbench 1.0: lines such as `queries:   51320  (25120.10 per sec.)`.
fn parse(report: &[String]) -> Result<Outcome> {
    let count_and_rate = |name: &str| {
        let found = report.iter().find_map(|line| line.trim_start().strip_prefix(name));
        let parse = |text: &str| {
            let (count, rate) = text.split_once('(')?;
            let rate = rate.trim_end().strip_suffix("per sec.)")?;
            Some((count.trim().parse::<u64>().ok()?, rate.trim().parse::<f64>().ok()?))
        };
        found.and_then(parse).ok_or_else(|| anyhow!("where are its {name}"))
    };
    let (statements, statements_per_second) = count_and_rate("queries:")?;
    Ok(Outcome {
        statements,
        statements_per_second,
        ignored: count_and_rate("ignored errors:")?.0,
        reconnects: count_and_rate("reconnects:")?.0,
        ..Outcome::default()
    })
}

const ROWS: u32 = 10_000;
const PREPARE_MAX: Duration = Duration::from_secs(300);
/// For connecting, and for what is under way at the end: bulk_insert sends most of its rows then.
const RUN_SLACK: Duration = Duration::from_secs(180);
const COMPLAINTS_MAX: usize = 3;
const LINE_SHOWN: usize = 400;
const LINES_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(text: &str) -> Outcome {
        let mut heard = Heard::default();
        text.lines().for_each(|line| heard.line(line));
        heard.outcome()
    }

    const REPORT: &str = "SQL statistics:\n    queries performed:\n        total:    72\n    \
        queries:                             72     (35.50 per sec.)\n    \
        ignored errors:                      2      (1.00 per sec.)\n    \
        reconnects:                          0      (0.00 per sec.)\n";

    #[test]
    fn errors_are_excused_by_the_servers_own_count_only() {
        let mut outcome = heard(REPORT);
        assert_eq!((outcome.statements, outcome.statements_per_second), (72, 35.5));
        assert!(outcome.fault().expect("unexcused").contains("2 errors"));
        outcome.conflicts = 2;
        assert_eq!(outcome.fault(), None);
        outcome.reconnects = 1;
        assert_eq!(outcome.fault().expect("a reconnect"), "1 reconnects");
        assert_eq!(Outcome::default().fault().expect("idle"), "not one statement");
    }

    #[test]
    fn complaints_and_strange_reports_are_faults() {
        let complaint = heard("FATAL: mysql_drv_query() returned error 1461\nFATAL: y\n");
        let fault = complaint.fault().expect("a complaint");
        assert_eq!(fault, "FATAL: mysql_drv_query() returned error 1461; FATAL: y");
        assert!(heard("queries: many\n").fault().expect("no report").contains("not understood"));
    }

    #[test]
    fn a_sysbench_that_fails_silently_is_heard() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo so long; exit 3"]);
        let heard = listen("it", command, RUN_SLACK, &Interrupt::never()).expect("ends");
        assert!(heard.complaints[0].contains("exit status: 3 and said last: so long"));
    }
}
