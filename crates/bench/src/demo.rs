//! `flifo demo`: this machine with and without Flifo, or with another proxy, side by side.
//!
//! Reads as the story that its user sees: start a private server, fill it, start the proxies, let
//! all take turns under the same load, show one table. Invariant: whatever happens, what was
//! started is stopped, and what was written is removed.

mod measure;
mod report;

use std::io::{IsTerminal, Write, stdout};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};

use self::measure::{Sample, measure};
use self::report::{Group, Machine, Report, Series, Version};
use crate::interrupt::{Interrupt, Interrupted};
use crate::private_server::PrivateServer;
use crate::programs::{HAPROXY, INSTALL_DB, MARIADB, MARIADBD, SYSBENCH};
use crate::progress::Progress;
use crate::sysbench::{Address, Load, Sysbench, Tables};
use crate::table::Colours;
use crate::targets::{Setup, Target, TargetKind};

#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// Length of one run.
    pub seconds: u32,
    /// How often each target has its turn under each load.
    pub rounds: u32,
    pub clients: Vec<u32>,
    /// Workloads by sysbench's names.
    pub workloads: Vec<String>,
    pub tables: u32,
    pub rows: u32,
    pub targets: Vec<TargetKind>,
    /// Workers of Flifo and threads of HAProxy; each one's own default if not given.
    pub workers: Option<u32>,
    /// The program that is started as Flifo.
    pub flifo: PathBuf,
    pub json: bool,
    /// Leave the server's folder behind.
    pub keep: bool,
}

impl Default for DemoOptions {
    fn default() -> Self {
        Self {
            seconds: 3,
            rounds: 3,
            clients: vec![8, 64, 512],
            workloads: vec!["oltp_point_select".into(), "oltp_read_write".into()],
            tables: 4,
            rows: 100_000,
            targets: vec![TargetKind::Direct, TargetKind::Flifo],
            workers: None,
            flifo: "flifo".into(),
            json: false,
            keep: false,
        }
    }
}

/// Runs the demo and prints its report to standard output.
pub fn run(options: &DemoOptions) -> Result<()> {
    options.check()?;
    let interrupt = Interrupt::listen()?;
    let report = compare(options, &interrupt)?;
    print(&report, options.json).context("cannot print the report")?;
    let failures = report.failures();
    ensure!(failures == 0, "{failures} runs failed; the report says which, and why");
    Ok(())
}

/// Everything between the first process that starts and the last that stops.
fn compare(options: &DemoOptions, interrupt: &Interrupt) -> Result<Report> {
    let programs = find_programs(options)?;
    eprintln!("Starting a private MariaDB …");
    // Dropped last, since the proxies hold connections to it.
    let server = PrivateServer::builder().keep(options.keep).start()?;
    if options.keep {
        eprintln!("Its folder will be kept: {}", server.folder().display());
    }
    let tables = Tables { count: options.tables, rows: options.rows };
    let sysbench = Sysbench::find(server.password(), tables)?;
    fill(&server, &sysbench, tables, interrupt)?;

    let setup = Setup {
        flifo: options.flifo.clone(),
        workers: options.workers,
        clients_max: options.clients.iter().copied().max().unwrap_or_default(),
        cpus: None,
    };
    let mut targets = Vec::new();
    for kind in &options.targets {
        targets.push(Target::start(*kind, &server, &setup, interrupt)?);
    }
    let mut turns = Turns { options, server: &server, sysbench, targets, interrupt };
    let groups = turns.take()?;
    Ok(Report {
        machine: machine(),
        programs,
        seconds: options.seconds,
        rounds: options.rounds,
        tables: options.tables,
        rows: options.rows,
        groups,
    })
}

impl DemoOptions {
    fn check(&self) -> Result<()> {
        let zero = [
            ("seconds", self.seconds),
            ("rounds", self.rounds),
            ("tables", self.tables),
            ("clients", self.clients.iter().copied().min().unwrap_or_default()),
        ];
        if let Some((name, _)) = zero.into_iter().find(|(_, value)| *value == 0) {
            bail!("{name} must be at least 1");
        }
        let most = self.clients.iter().copied().max().unwrap_or_default();
        ensure!(most <= CLIENTS_MAX, "{most} clients are too many; at most {CLIENTS_MAX} work");
        ensure!(
            ROWS_MIN <= self.rows,
            "{} rows are too few for sysbench's ranges; at least {ROWS_MIN} are needed",
            self.rows
        );
        ensure!(!self.workloads.is_empty(), "no workload is given; try oltp_point_select");
        for (index, kind) in self.targets.iter().enumerate() {
            let twice = self.targets[..index].contains(kind);
            ensure!(!twice, "the target {} is given twice", kind.name());
        }
        ensure!(!self.targets.is_empty(), "no target is given; try direct");
        Ok(())
    }
}

/// Finds everything that will be started, so that nothing is missed half-way.
fn find_programs(options: &DemoOptions) -> Result<Vec<Version>> {
    let mut needed = vec![MARIADBD, INSTALL_DB, MARIADB, SYSBENCH];
    if options.targets.contains(&TargetKind::Haproxy) {
        needed.push(HAPROXY);
    }
    let mut missing = Vec::new();
    let mut found = Vec::new();
    for program in needed {
        match program.find() {
            Ok(path) => found.push((program.name, path)),
            Err(error) => missing.push(error.to_string()),
        }
    }
    ensure!(missing.is_empty(), "{}", missing.join("\n"));
    if options.targets.contains(&TargetKind::Flifo) {
        found.push(("flifo", options.flifo.clone()));
    }
    let told = found.iter().filter(|(name, _)| *name != INSTALL_DB.name);
    Ok(told.map(|(name, path)| version(name, path)).collect())
}

fn version(name: &str, program: &Path) -> Version {
    let flag = if name == HAPROXY.name { "-v" } else { "--version" };
    let output = Command::new(program).arg(flag).stdin(Stdio::null()).output();
    let words = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let first = words.ok().and_then(|words| words.lines().next().map(str::to_owned));
    let version = first.unwrap_or_else(|| "unknown".to_owned());
    Version { program: name.to_owned(), version }
}

fn fill(
    server: &PrivateServer,
    sysbench: &Sysbench,
    tables: Tables,
    interrupt: &Interrupt,
) -> Result<()> {
    let Tables { count, rows } = tables;
    let what = format!("Filling {count} tables of {rows} rows");
    let mut progress = Progress::begin(&what, u64::from(count) * u64::from(rows));
    let mut asked = Instant::now();
    sysbench.prepare(&Address::Socket(server.socket()), interrupt, || {
        if ASK_EVERY < asked.elapsed() {
            asked = Instant::now();
            // An estimate does, and none is no reason to stop.
            let rows = server.sql(FILLED).ok().and_then(|rows| rows.trim().parse().ok());
            progress.set(rows.unwrap_or_default());
        }
    })?;
    let names: Vec<String> = (1..=count).map(|number| format!("sbtest{number}")).collect();
    server.sql(&format!("ANALYZE TABLE {}", names.join(", ")))?;
    Ok(())
}

/// The targets, taking turns under each load.
struct Turns<'a> {
    options: &'a DemoOptions,
    server: &'a PrivateServer,
    sysbench: Sysbench,
    targets: Vec<Target>,
    interrupt: &'a Interrupt,
}

impl Turns<'_> {
    fn take(&mut self) -> Result<Vec<Group>> {
        let DemoOptions { workloads, clients, rounds, seconds, .. } = self.options;
        let loads = workloads.len() * clients.len();
        let steps = loads as u64 * self.targets.len() as u64 * u64::from(*rounds);
        let what = format!("Measuring, about {} s", steps * u64::from(*seconds));
        let mut progress = Progress::begin(&what, steps);
        let mut groups = Vec::new();
        for workload in workloads {
            self.warm_up(workload, &progress)?;
            for clients in clients {
                let load = Load { workload, clients: *clients, seconds: *seconds };
                groups.push(self.group(&load, &mut progress)?);
            }
        }
        Ok(groups)
    }

    /// Lets each target work a little before it counts.
    fn warm_up(&mut self, workload: &str, progress: &Progress) -> Result<()> {
        for index in 0..self.targets.len() {
            progress.say(&format!("Warming up, {workload}: {}", self.targets[index].kind.name()));
            let load = Load { workload, clients: WARM_UP_CLIENTS, seconds: 1 };
            // Should it fail, so will the runs that count, and then it is told.
            let _ = self.turn(&load, index);
            self.interrupt.check()?;
        }
        Ok(())
    }

    fn group(&mut self, load: &Load<'_>, progress: &mut Progress) -> Result<Group> {
        let series = |target: &Target| Series {
            target: target.kind,
            samples: Vec::new(),
            failures: Vec::new(),
        };
        let mut series: Vec<Series> = self.targets.iter().map(series).collect();
        for round in 1..=self.options.rounds {
            for (index, series) in series.iter_mut().enumerate() {
                let turn = format!(
                    "{}, {} clients, round {round} of {}: {}",
                    load.workload,
                    load.clients,
                    self.options.rounds,
                    series.target.name()
                );
                progress.say(&turn);
                let outcome = match self.turn(load, index) {
                    Ok(sample) => {
                        let rate = format!("{:.0} statements/s", sample.statements_per_second);
                        series.samples.push(sample);
                        rate
                    }
                    Err(error) if error.is::<Interrupted>() => return Err(error),
                    Err(error) => {
                        series.failures.push(format!("{error:#}"));
                        "failed".to_owned()
                    }
                };
                progress.step(&format!("{turn}, {outcome}"));
            }
        }
        Ok(Group { workload: load.workload.to_owned(), clients: load.clients, series })
    }

    fn turn(&mut self, load: &Load<'_>, index: usize) -> Result<Sample> {
        let target = &mut self.targets[index];
        let server_pid = self.server.pid().context("the private server does not run")?;
        let sample = measure(&self.sysbench, load, target, server_pid, self.interrupt);
        sample.map_err(|error| match target.obituary() {
            Some(obituary) if !error.is::<Interrupted>() => anyhow!("{error:#}; {obituary}"),
            _ => error,
        })
    }
}

fn machine() -> Machine {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    Machine { cpus, kernel: kernel.trim().to_owned() }
}

fn print(report: &Report, json: bool) -> Result<()> {
    let mut out = stdout().lock();
    if json {
        serde_json::to_writer_pretty(&mut out, report)?;
        writeln!(out)?;
    } else {
        let wanted = out.is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let colours = if wanted { Colours::On } else { Colours::Off };
        write!(out, "\n{}", report.text(colours))?;
    }
    Ok(out.flush()?)
}

const FILLED: &str = "SELECT COALESCE(SUM(table_rows), 0) FROM information_schema.tables \
                      WHERE table_schema = 'sbtest'";
const ASK_EVERY: Duration = Duration::from_millis(250);
const WARM_UP_CLIENTS: u32 = 8;
/// What the private server accepts, less some for ourselves.
const CLIENTS_MAX: u32 = 9900;
const ROWS_MIN: u32 = 1000;

#[cfg(test)]
mod tests;
