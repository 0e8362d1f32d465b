//! `flifo bench run`: every target under every load, taking turns, round by round.
//!
//! Owns the order of measurements and what happens when one fails. Invariants: what was measured
//! is in the results, however the run ended; a target that fails does not keep others from their
//! turns; arguments are judged before anything is started.

mod loads;
mod options;
mod venues;

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use self::loads::Load;
pub use self::options::{Options, Wrong};
use self::venues::Venues;
use crate::figures::pairs::ratios;
use crate::interrupt::{Interrupt, Interrupted};
use crate::progress::Progress;
use crate::results::{Cell, Ending, FORMAT, Machine, ProcessFigures, Results, Role, Settings};
use crate::workloads::Workload;
use crate::workloads::tables::{self, Extent};

/// Measures. `keep` is shown the results so far after each load, so that they outlive an accident.
pub fn run(
    options: &Options,
    interrupt: &Interrupt,
    mut keep: impl FnMut(&Results) -> Result<()>,
) -> Result<Results> {
    let workloads = options.check()?;
    see_descriptors(options)?;
    let venues = Venues::open(options, interrupt)?;
    let extent = extent(options, &workloads, &venues)?;
    let loads: Vec<Load<'_>> = workloads
        .iter()
        .flat_map(|workload| options.clients.iter().map(move |clients| (workload, *clients)))
        .map(|(workload, clients)| Load { options, venues: &venues, extent, workload, clients })
        .collect();
    let mut results = Results {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: options.command.clone(),
        started: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        ending: Ending::Interrupted,
        notes: Vec::new(),
        machine: machine(),
        settings: settings(options, extent),
        targets: venues.list.iter().map(|venue| venue.target.clone()).collect(),
        cells: loads.iter().flat_map(Load::cells).collect(),
        ratios: Vec::new(),
    };
    let ended = measure(&loads, options, &mut results, interrupt, |results| {
        conclude(results, options, &venues);
        keep(results)
    });
    conclude(&mut results, options, &venues);
    match ended {
        Ok(()) => results.ending = ending(&results.cells, options.rounds),
        Err(error) if error.is::<Interrupted>() => {}
        Err(error) => return Err(error),
    }
    Ok(results)
}

/// All rounds. Each goes through all loads, so that the rounds of a load lie as far apart as the run
/// is long: a machine's speed drifts over minutes, and rounds that follow each other closely would
/// agree with each other, and with no other run.
fn measure(
    loads: &[Load<'_>],
    options: &Options,
    results: &mut Results,
    interrupt: &Interrupt,
    mut keep: impl FnMut(&mut Results) -> Result<()>,
) -> Result<()> {
    let steps = results.cells.len() as u64 * u64::from(options.rounds);
    let seconds = options.seconds + options.warm_up + options.ramp;
    let what = format!("Measuring, at least {:.0} s", steps as f64 * seconds);
    let mut progress = Progress::begin(&what, steps);
    let targets = results.targets.len();
    for number in 1..=options.rounds {
        for (load, at) in loads.iter().zip((0..).step_by(targets)) {
            load.take(number, &mut results.cells[at..at + targets], &mut progress, interrupt)?;
            keep(results)?;
        }
    }
    Ok(())
}

/// What follows from the rounds that are there.
fn conclude(results: &mut Results, options: &Options, venues: &Venues) {
    let base = |cells: &[Cell]| cells[1..].iter().flat_map(|it| ratios(it, &cells[0])).collect();
    let groups = results.cells.chunks(results.targets.len());
    results.ratios = groups.flat_map::<Vec<_>, _>(base).collect();
    results.notes = venues.notes.clone();
    results.notes.extend(busy_generator(&results.cells, options.threads));
}

/// Makes sysbench's tables at the one target that is named.
pub fn prepare(options: &Options, interrupt: &Interrupt) -> Result<()> {
    options.check_target()?;
    let extent =
        Extent { tables: options.tables.unwrap_or(TABLES), rows: options.rows.unwrap_or(ROWS) };
    for (account, address) in options.addresses()? {
        tables::prepare(&account, &address, extent, options.seed, interrupt)?;
    }
    Ok(())
}

/// Drops them. Returns how many there were.
pub fn cleanup(options: &Options) -> Result<u32> {
    options.check_target()?;
    let mut dropped = 0;
    for (account, address) in options.addresses()? {
        dropped += tables::cleanup(&account, &address)?;
    }
    Ok(dropped)
}

/// What is made when nothing else is asked for.
pub const TABLES: u32 = 4;
pub const ROWS: u32 = 100_000;

/// Looks at the tables at every target, if any workload needs them: all must have the same.
fn extent(options: &Options, workloads: &[Workload], venues: &Venues) -> Result<Extent> {
    let mut extent = None;
    if !workloads.iter().any(Workload::needs_tables) {
        return Ok(Extent { tables: 1, rows: 1 });
    }
    for venue in &venues.list {
        let found = tables::inspect(&venue.account, &venue.address, options.tables, options.rows)
            .with_context(|| format!("target {}", venue.target.name))?;
        match extent {
            None => extent = Some(found),
            Some(first) if first != found => bail!(
                "the targets have different tables: {} has {} of {} rows, {} has {} of {} rows; \
                 make them alike, or say --tables and --rows",
                venues.list[0].target.name,
                first.tables,
                first.rows,
                venue.target.name,
                found.tables,
                found.rows
            ),
            Some(_) => {}
        }
    }
    extent.context("no target has tables")
}

/// Raises the soft limit of open files as far as needed, or says what stands in the way.
fn see_descriptors(options: &Options) -> Result<()> {
    let clients = options.clients.iter().copied().max().unwrap_or(0);
    let wanted = u64::from(clients) + u64::from(options.idle) + SPARE_DESCRIPTORS;
    let hard = sys::process::raise_open_files().context("cannot raise the limit of open files")?;
    if let Some(hard) = hard.filter(|hard| *hard < wanted) {
        bail!(
            "{clients} clients and {} idle ones need {wanted} open files, and the hard limit is \
             {hard}; raise it (`ulimit -Hn {wanted}` as root, LimitNOFILE= of a unit, or \
             /etc/security/limits.conf), or ask for {} clients at most",
            options.idle,
            hard.saturating_sub(SPARE_DESCRIPTORS + u64::from(options.idle))
        );
    }
    Ok(())
}

/// Says so where the generator may have been what limited the figures.
fn busy_generator(cells: &[Cell], threads: u32) -> Vec<String> {
    let busy = |cell: &Cell| {
        let generator = |it: &&ProcessFigures| it.role == Role::Generator;
        let each = cell.kept().filter_map(|round| round.processes.iter().find(generator));
        each.map(|it| it.cpus).fold(0.0, f64::max) / f64::from(threads)
    };
    let busiest = cells.iter().map(|cell| (cell, busy(cell))).filter(|(_, busy)| FULL < *busy);
    let note = |(cell, busy): (&Cell, f64)| {
        format!(
            "{}, {} clients, {}: the generator's threads were busy for {:.0} % of the time; with \
             more --threads the target might have done more",
            cell.workload,
            cell.clients,
            cell.target,
            busy * 100.0
        )
    };
    busiest.map(note).collect()
}

fn ending(cells: &[Cell], rounds: u32) -> Ending {
    let failed: usize = cells.iter().map(|cell| cell.failures.len()).sum();
    match failed {
        0 => Ending::Complete,
        _ => Ending::Partial {
            why: format!("{failed} of {} turns failed", cells.len() * rounds as usize),
        },
    }
}

fn settings(options: &Options, extent: Extent) -> Settings {
    Settings {
        seconds: options.seconds,
        warm_up_seconds: options.warm_up,
        ramp_seconds: options.ramp,
        rounds: options.rounds,
        workloads: options.workloads.clone(),
        clients: options.clients.clone(),
        idle_clients: options.idle,
        protocol: options.protocol,
        pacing: options.pacing,
        threads: options.threads,
        tables: extent.tables,
        rows: extent.rows,
        distribution: options.distribution.name().to_owned(),
        seed: options.seed,
    }
}

fn machine() -> Machine {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let memory = field(&read("/proc/meminfo"), "MemTotal").unwrap_or_default();
    let kib: u64 = memory.trim_end_matches(" kB").parse().unwrap_or(0);
    Machine {
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        cpu_model: field(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        memory_mib: kib / 1024,
    }
}

/// For event loops, timers, logs, and the connections that look at tables.
const SPARE_DESCRIPTORS: u64 = 64;
/// The share of its threads' time from which the generator may be the bottleneck.
const FULL: f64 = 0.95;
