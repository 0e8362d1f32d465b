//! `flifo bench run`: every target under every load, taking turns, round by round, start by start.
//!
//! Owns the order of measurements and what happens when one fails. A *start* is the time from the
//! starting of the server and the proxies that a run starts to their end. Invariants: what was
//! measured is in the results, however the run ended; a target that fails does not keep others from
//! their turns, nor a start that fails the next one; arguments are judged before anything is
//! started.

mod loads;
mod options;
mod resume;
mod run_targets;

use std::ops::RangeInclusive;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use self::loads::Load;
use self::options::Stage;
pub use self::options::{RunOptions, Wrong};
use self::run_targets::RunTargets;
use crate::figures::pairs::ratios;
use crate::interrupt::{Interrupt, Interrupted};
use crate::progress::Progress;
use crate::results::{
    Cell, Ending, FORMAT, Failure, Machine, ProcessFigures, Results, Role, RunSettings, Topology,
};
use crate::topology::binding::Binding;
use crate::workloads::Workload;
use crate::workloads::tables::{self, Extent};

/// Measures, or measures what `earlier` lacks of the same plan. `keep` is shown the results so far
/// after each load, so that they outlive an accident.
pub fn run(
    options: &RunOptions,
    earlier: Option<Results>,
    interrupt: &Interrupt,
    keep: impl FnMut(&Results) -> Result<()>,
) -> Result<Results> {
    let workloads = options.check()?;
    let stages = options.stages()?;
    see_descriptors(options)?;
    let (options, mut results) = match earlier {
        Some(file) => resume::take_up(file, options, &machine())?,
        None => (options.clone(), nothing_yet(options, &stages, &workloads)),
    };
    let plan = Plan { options: &options, stages: &stages, workloads: &workloads };
    let ended = measure(&plan, &mut results, interrupt, keep);
    conclude(&mut results, &options);
    match ended {
        Ok(()) => results.ending = ending(&results),
        Err(error) if error.is::<Interrupted>() && !results.targets.is_empty() => {
            results.ending = Ending::Interrupted;
        }
        Err(error) => return Err(error),
    }
    Ok(results)
}

/// All rounds of all starts. Each round goes through all loads, so that the rounds of a load lie as
/// far apart as the run is long: a machine's speed drifts over minutes, and rounds that follow each
/// other closely would agree with each other, and with no other run.
fn measure(
    plan: &Plan<'_>,
    results: &mut Results,
    interrupt: &Interrupt,
    mut keep: impl FnMut(&Results) -> Result<()>,
) -> Result<()> {
    let Plan { options, workloads, .. } = *plan;
    let steps = resume::turns_missing(results, 1..=options.restarts * options.rounds);
    let seconds = options.seconds + options.warm_up + options.ramp;
    let what = format!("Measuring, at least {:.0} s", steps as f64 * seconds);
    let mut progress = Progress::begin(&what, steps);
    for before in 0..options.restarts {
        let numbers = before * options.rounds + 1..=(before + 1) * options.rounds;
        if resume::turns_missing(results, numbers.clone()) == 0 {
            continue;
        }
        let is_first = results.targets.is_empty();
        let (run_targets, extent) = match open(plan, interrupt) {
            Ok(opened) => opened,
            Err(error) if is_first || error.is::<Interrupted>() => return Err(error),
            Err(error) => {
                fail(results, numbers, &format!("{error:#}"));
                continue;
            }
        };
        resume::settle(results, &run_targets, extent)?;
        let start = resume::last_start(results) + 1;
        let targets = results.targets.len();
        let mut binding = Binding::none();
        for number in numbers {
            let mut first = 0;
            for (at, stage) in plan.stages.iter().enumerate() {
                let topology = place(&mut binding, &run_targets, stage, at);
                note(results, &topology);
                for (workload, clients) in pairs(options, workloads) {
                    let targets_here = &run_targets.stages[at];
                    let load =
                        Load { options, targets: targets_here, extent, workload, clients, start };
                    let cells = &mut results.cells[first..first + targets];
                    first += targets;
                    load.take(number, cells, &mut progress, interrupt)?;
                    conclude(results, options);
                    keep(results)?;
                }
                caution(results, &topology.name, binding.strays(&topology));
            }
        }
    }
    Ok(())
}

/// What is measured, checked.
#[derive(Clone, Copy)]
struct Plan<'a> {
    options: &'a RunOptions,
    stages: &'a [Stage],
    workloads: &'a [Workload],
}

/// Binds what takes part in a topology.
fn place(binding: &mut Binding, run_targets: &RunTargets, stage: &Stage, at: usize) -> Topology {
    let parts = run_targets.parts(at);
    let mut topology = binding.bind(&stage.name, stage.layout.as_ref(), &parts);
    if stage.layout.is_some() {
        topology.cautions.extend(run_targets.unknown());
    }
    topology
}

/// Records a topology as it was seen in the first start; of later starts only what is not as it was asked for.
fn note(results: &mut Results, topology: &Topology) {
    if results.topologies.iter().any(|known| known.name == topology.name) {
        return caution(results, &topology.name, topology.cautions.clone());
    }
    for caution in &topology.cautions {
        eprintln!("flifo: {}: {caution}", topology.name);
    }
    results.topologies.push(topology.clone());
}

/// Notes what is not as it was asked for.
fn caution(results: &mut Results, name: &str, cautions: Vec<String>) {
    let Some(topology) = results.topologies.iter_mut().find(|it| it.name == name) else { return };
    for caution in cautions {
        if !topology.cautions.contains(&caution) {
            topology.cautions.push(caution);
        }
    }
}

/// Starts what is to be started, and looks at what is there.
fn open(plan: &Plan<'_>, interrupt: &Interrupt) -> Result<(RunTargets, Extent)> {
    let Plan { options, stages, workloads } = *plan;
    let run_targets = RunTargets::open(options, stages, interrupt)?;
    let extent = extent(options, workloads, &run_targets)?;
    Ok((run_targets, extent))
}

/// Workloads with numbers of clients, in the order in which a round goes through them.
fn pairs<'a>(
    options: &'a RunOptions,
    workloads: &'a [Workload],
) -> impl Iterator<Item = (&'a Workload, u32)> {
    let with_clients = |workload| options.clients.iter().map(move |clients| (workload, *clients));
    workloads.iter().flat_map(with_clients)
}

/// A start that did not come about: its turns failed.
fn fail(results: &mut Results, numbers: RangeInclusive<u32>, why: &str) {
    for number in numbers {
        for cell in results.cells.iter_mut().filter(|cell| cell.lacks(number)) {
            cell.failures.push(Failure { round: number, why: why.to_owned() });
        }
    }
}

/// What follows from the rounds that are there.
fn conclude(results: &mut Results, options: &RunOptions) {
    let base = |cells: &[Cell]| cells[1..].iter().flat_map(|it| ratios(it, &cells[0])).collect();
    let groups = results.cells.chunks(results.targets.len().max(1));
    results.ratios = groups.flat_map::<Vec<_>, _>(base).collect();
    results.notes.retain(|note| !note.contains(BUSY));
    results.notes.extend(busy_generator(&results.cells, options.threads));
}

/// The results of a run before its first round.
fn nothing_yet(options: &RunOptions, stages: &[Stage], workloads: &[Workload]) -> Results {
    let names = options.names();
    let mut cells = Vec::new();
    for stage in stages {
        for (workload, clients) in pairs(options, workloads) {
            cells.extend(names.iter().map(|(target, _)| Cell {
                topology: stage.name.clone(),
                target: target.clone(),
                workload: workload.name.clone(),
                clients,
                rounds: Vec::new(),
                failures: Vec::new(),
            }));
        }
    }
    Results {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: options.command.clone(),
        started: now(),
        resumed: Vec::new(),
        ending: Ending::Interrupted,
        notes: Vec::new(),
        machine: machine(),
        settings: settings(options, Extent { tables: 0, rows: 0 }),
        targets: Vec::new(),
        topologies: Vec::new(),
        cells,
        ratios: Vec::new(),
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Makes sysbench's tables at the one target that is named.
pub fn prepare(options: &RunOptions, interrupt: &Interrupt) -> Result<()> {
    options.check_target()?;
    let extent =
        Extent { tables: options.tables.unwrap_or(TABLES), rows: options.rows.unwrap_or(ROWS) };
    for (account, address) in options.addresses()? {
        tables::prepare(&account, &address, extent, options.seed, interrupt)?;
    }
    Ok(())
}

/// Drops them. Returns how many there were.
pub fn cleanup(options: &RunOptions) -> Result<u32> {
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
fn extent(
    options: &RunOptions,
    workloads: &[Workload],
    run_targets: &RunTargets,
) -> Result<Extent> {
    let mut extent = None;
    if !workloads.iter().any(Workload::needs_tables) {
        return Ok(Extent { tables: 1, rows: 1 });
    }
    for run_target in run_targets.first() {
        let found =
            tables::inspect(&run_target.account, &run_target.address, options.tables, options.rows)
                .with_context(|| format!("target {}", run_target.target.name))?;
        match extent {
            None => extent = Some(found),
            Some(first) if first != found => bail!(
                "the targets have different tables: {} has {} of {} rows, {} has {} of {} rows; \
                 make them alike, or say --tables and --rows",
                run_targets.first()[0].target.name,
                first.tables,
                first.rows,
                run_target.target.name,
                found.tables,
                found.rows
            ),
            Some(_) => {}
        }
    }
    extent.context("no target has tables")
}

/// Raises the soft limit of open files as far as needed, or says what stands in the way.
fn see_descriptors(options: &RunOptions) -> Result<()> {
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
            "{}, {}: {BUSY} {:.0} % of the time; with more --threads the target might \
             have done more",
            cell.load(),
            cell.target,
            busy * 100.0
        )
    };
    busiest.map(note).collect()
}

fn ending(results: &Results) -> Ending {
    let failed: usize = results.cells.iter().map(|cell| cell.failures.len()).sum();
    let RunSettings { rounds, restarts, .. } = &results.settings;
    let turns = results.cells.len() * *rounds as usize * *restarts as usize;
    match failed {
        0 => Ending::Complete,
        _ => Ending::Partial { why: format!("{failed} of {turns} turns failed") },
    }
}

fn settings(options: &RunOptions, extent: Extent) -> RunSettings {
    RunSettings {
        seconds: options.seconds,
        warm_up_seconds: options.warm_up,
        ramp_seconds: options.ramp,
        rounds: options.rounds,
        restarts: options.restarts,
        places: options.places.iter().map(ToString::to_string).collect(),
        workloads: options.workloads.clone(),
        clients: options.clients.clone(),
        idle_clients: options.idle,
        protocol: options.protocol,
        pacing: options.pacing,
        threads: options.threads,
        workers: options.workers,
        tables: extent.tables,
        rows: extent.rows,
        distribution: options.distribution.name().to_owned(),
        seed: options.seed,
        range_size: options.shape.range_size,
        skip_trx: options.shape.skip_trx,
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
const BUSY: &str = "the generator's threads were busy for";
