//! `cargo xtask sim`: worlds of seeds, in which a whole process is simulated, its clients and its server with it.
//!
//! Owns the threads that run worlds and what is told of them. What a world is stands in the crate `sim`. Invariant: a
//! world in which something is wrong fails the command, which prints the shortest program that shows it.

mod plants;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Result, bail};
use bench::interrupt::Interrupt;
use bench::progress::Progress;
use sim::world::{self, Report, Shape};
use testkit::differ::peer::Outcome;
use testkit::differ::{shrink, text};
use wire::response::ErrPacket;

#[derive(clap::Args)]
pub(crate) struct Extent {
    /// These worlds: a seed, or `A..B` without B.
    #[arg(long, default_value = "0..1000", value_parser = seeds)]
    seeds: Range<u64>,
    /// Begins no more worlds after so long.
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// Begins no more worlds after so many statements.
    #[arg(long, value_name = "N")]
    statements: Option<usize>,
    /// Ends at the first world that is wrong, and does not look for the shortest program.
    #[arg(long)]
    first: bool,
    /// Clients share connections, of a server and its readers. These worlds are not all right yet, and one may not end.
    #[arg(long)]
    shared: bool,
    /// Prints each command that the server hears.
    #[arg(long)]
    tell: bool,
    /// Builds Flifo with each fault of `plants.toml`, and tells whether worlds find it
    #[arg(long)]
    plants: bool,
    /// With `--plants`: only those whose names contain this.
    #[arg(long, default_value = "", requires = "plants")]
    only: String,
}

impl Extent {
    fn shape(&self, seed: u64) -> Shape {
        if self.shared { Shape::shared(seed) } else { Shape::of(seed) }
    }
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text:?}: {error}"));
    match text.split_once("..") {
        Some((first, end)) => Ok(number(first)?..number(end)?),
        None => number(text).map(|seed| seed..seed + 1),
    }
}

/// After so many that are wrong, no more are begun.
const WRONG_MAX: usize = 10;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What came of all worlds.
#[derive(Default)]
struct Sum {
    worlds: u64,
    statements: usize,
    answers: BTreeMap<String, usize>,
    digest: u64,
    wrong: Vec<u64>,
}

pub(crate) fn run(extent: &Extent, interrupt: &Interrupt) -> Result<()> {
    if extent.plants {
        return plants::run(&extent.only, interrupt);
    }
    let Range { start, end } = extent.seeds;
    let (next, begun) = (AtomicU64::new(start), Instant::now());
    let hundreds = end.saturating_sub(start).div_ceil(100);
    let sum = Mutex::new((Sum::default(), Progress::begin("hundreds of worlds", hundreds)));
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Relaxed);
                    let is_late = extent.seconds.is_some_and(|it| begun.elapsed().as_secs() >= it);
                    let is_enough = lock(&sum).0.is_enough(extent);
                    if seed >= end || is_late || is_enough || interrupt.check().is_err() {
                        return;
                    }
                    let report = world::run(&Shape { tells: extent.tell, ..extent.shape(seed) });
                    let mut sum = lock(&sum);
                    sum.0.add(seed, &report);
                    if let Some(fault) = report.fault {
                        eprintln!("seed {seed}: {fault}");
                    }
                    if sum.0.worlds.is_multiple_of(100) {
                        sum.1.step("");
                    }
                }
            });
        }
    });
    interrupt.check()?;
    let (mut sum, progress) = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    drop(progress);
    println!(
        "{} worlds, {} statements in {:.1} s; all that was sent: {:016x}",
        sum.worlds,
        sum.statements,
        begun.elapsed().as_secs_f64(),
        sum.digest
    );
    for (answer, count) in &sum.answers {
        println!("{count:>10} {answer}");
    }
    sum.wrong.sort_unstable();
    let Some(first) = sum.wrong.first() else { return Ok(()) };
    if !extent.first {
        explain(&extent.shape(*first));
    }
    bail!("{} of these worlds are wrong: {:?}", sum.wrong.len(), sum.wrong);
}

impl Sum {
    fn is_enough(&self, extent: &Extent) -> bool {
        let wrong_max = if extent.first { 1 } else { WRONG_MAX };
        self.wrong.len() >= wrong_max || extent.statements.is_some_and(|it| self.statements >= it)
    }

    fn add(&mut self, seed: u64, report: &Report) {
        self.worlds += 1;
        self.statements += report.statements;
        // In whatever order they end.
        self.digest ^= report.digest.rotate_left((seed % 64) as u32);
        for outcome in &report.trace {
            *self.answers.entry(kind(outcome)).or_default() += 1;
        }
        if report.fault.is_some() {
            self.wrong.push(seed);
        }
    }
}

fn kind(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Reply(packets) => {
            let last = packets.last().map(|packet| ErrPacket::decode(&packet.payload));
            match last {
                Some(Ok(error)) => format!("error {}", error.code),
                _ => "answers".to_owned(),
            }
        }
        Outcome::Closed(_) => "ends of connections".to_owned(),
        Outcome::Skipped => "steps without a connection".to_owned(),
        Outcome::Stuck(_) => "statements without an answer".to_owned(),
    }
}

/// Prints the shortest program that shows what is wrong in a world.
fn explain(shape: &Shape) {
    let seed = shape.seed;
    eprintln!("seed {seed}: looking for the shortest program that shows it");
    let kind = |program: &_| {
        let fault = world::run_program(shape, program).fault;
        fault.map(|fault| std::mem::discriminant(&fault))
    };
    let program = world::program(shape);
    // What is left of a program may be wrong in another way.
    let first = kind(&program);
    let program = shrink::shrink(&program, |program| kind(program) == first);
    println!("\n{}\n{}", sim::configuration::first(shape), text::print(&program));
    if let Some(fault) = world::run_program(shape, &program).fault {
        println!("{fault}");
    }
}
