//! `cargo xtask linear`: many operations on a few registers, through a Flifo that shares reads and beside it, in rounds
//! with a server of their own; what the clients saw is judged behind each round.
//!
//! With `--cache`, reads of replies that are kept, of which none may be older than is promised; with `--keys` too, so many
//! different ones that most do not stay.
//!
//! Owns the command only; clients and judgement are those of `testkit::linear`, `testkit::kept_reads` and
//! `testkit::kept_keys`.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use bench::interrupt::Interrupt;
use testkit::kept_reads::Disaster;
use testkit::linear::{campaign, check};
use testkit::{kept_keys, kept_reads};

/// How much is done.
#[derive(clap::Args)]
pub(crate) struct Extent {
    /// Operations in all.
    #[arg(long, default_value_t = 1_000_000)]
    operations: u64,
    /// Operations of a round.
    #[arg(long, default_value_t = 100_000)]
    round: u64,
    #[arg(long, default_value_t = 48)]
    readers: usize,
    /// Through Flifo, and as many beside it.
    #[arg(long, default_value_t = 2)]
    writers: u64,
    /// Clients that write, and read what they have written.
    #[arg(long, default_value_t = 4)]
    both: u64,
    #[arg(long, default_value_t = 3)]
    registers: u32,
    /// How often a client, its statement or a backend is killed, a second; in every second round.
    #[arg(long, default_value_t = 20)]
    kills: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Reads of replies that are kept instead (`cache.binlog`): none may be older than its bound.
    #[arg(long)]
    cache: bool,
    /// `cache.binlog_lag_max` in milliseconds, of that.
    #[arg(long, default_value_t = 500)]
    bound: u64,
    /// So many different reads, and a few that come again and again, in a small `server.cache_memory`: it is not exceeded,
    /// and those that come again stay.
    #[arg(long, requires = "cache", conflicts_with = "fault")]
    keys: Option<u64>,
    /// The binary log is not followed: something must be found, of that.
    #[arg(long)]
    fault: bool,
}

pub(crate) fn run(extent: &Extent, flifo: &Path, interrupt: &Interrupt) -> Result<()> {
    if let Some(keys) = extent.keys {
        return run_keys(keys, flifo);
    }
    if extent.cache {
        return run_cache(extent, flifo, interrupt);
    }
    let (mut done, mut spared, mut killed, mut round) = (0, 0, 0, 0);
    while done < extent.operations {
        interrupt.check()?;
        let operations = extent.round.min(extent.operations - done);
        let kills = if round % 2 == 1 { extent.kills } else { 0 };
        let of_round = campaign::Extent {
            operations,
            readers: extent.readers,
            writers: extent.writers,
            both: extent.both,
            registers: extent.registers,
            kills,
        };
        let seed = extent.seed + round;
        let outcome = campaign::run(Some(flifo), of_round, seed);
        println!(
            "round {round}: {} operations, {} joined, {} spared; {} kills, {} clients left, errors {:?}",
            outcome.history.len(),
            outcome.joined,
            outcome.spared,
            outcome.kills,
            outcome.left,
            outcome.failed
        );
        let found = check(&outcome.history);
        ensure!(found.is_none(), "round {round} (seed {seed}) is not linear: {found:?}");
        ensure!(outcome.unexplained() == 0, "round {round} (seed {seed}): errors without a kill");
        (done, spared, killed) =
            (done + operations, spared + outcome.spared, killed + outcome.kills);
        round += 1;
    }
    ensure!(spared > 0, "nothing was shared");
    println!(
        "{done} operations, {spared} of them answered by another client's run, {killed} kills: linear, and no error \
         that no kill explains"
    );
    Ok(())
}

/// A shorter round is over before the binary log is followed again behind a kill.
const CACHE_ROUND: u64 = 500_000;

/// What befalls the server in one round after the other.
const DISASTERS: [&[Disaster]; 4] = [
    &[],
    &[Disaster::Kill, Disaster::Kill],
    &[Disaster::Restore, Disaster::Kill, Disaster::Restore],
    &[Disaster::FailOver, Disaster::FailOver],
];

/// Rounds of reads of replies that are kept, through disasters.
fn run_cache(extent: &Extent, flifo: &Path, interrupt: &Interrupt) -> Result<()> {
    let (mut total, mut round) = (kept_reads::Outcome::default(), 0);
    while total.reads < extent.operations {
        interrupt.check()?;
        let of_round = kept_reads::Extent {
            reads: extent.round.max(CACHE_ROUND),
            hits: 1,
            writes: 1,
            readers: extent.readers as u64,
            writers: extent.writers,
            pause: Duration::from_millis(200),
            bound: Duration::from_millis(extent.bound),
            disasters: if extent.fault { &[] } else { DISASTERS[round as usize % DISASTERS.len()] },
            is_followed: !extent.fault,
        };
        let outcome = kept_reads::run(flifo, of_round, extent.seed + round);
        println!(
            "round {round}: {} reads, {} of replies that were kept; {} writes through Flifo, {} beside it; {} errors",
            outcome.reads, outcome.hits, outcome.through, outcome.beside, outcome.errors
        );
        if extent.fault {
            ensure!(!outcome.violations.is_empty(), "round {round}: the fault was not found");
            println!("the fault was found: {}", outcome.violations[0]);
        } else {
            ensure!(outcome.violations.is_empty(), "round {round}: {:#?}", outcome.violations);
        }
        let is_calm = of_round.disasters.is_empty();
        ensure!(!is_calm || outcome.errors == 0, "round {round}: errors without a kill");
        ensure!(outcome.hits > 0, "round {round}: nothing that was kept was used");
        total.reads += outcome.reads;
        total.hits += outcome.hits;
        total.through += outcome.through;
        total.beside += outcome.beside;
        round += 1;
    }
    println!(
        "{} reads, {} of replies that were kept, {} writes through Flifo, {} beside it: {}",
        total.reads,
        total.hits,
        total.through,
        total.beside,
        if extent.fault { "the fault was found in each round" } else { "none was too old" }
    );
    Ok(())
}

/// Many different reads in little memory.
fn run_keys(keys: u64, flifo: &Path) -> Result<()> {
    let extent = kept_keys::Extent { keys, clients: 4, memory: 8 << 20 };
    let outcome = kept_keys::run(flifo, extent);
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "{keys} keys: {:.2} MiB of {:.2} MiB at most by replies that are kept ({} of them at the end, {} fetched)",
        mib(outcome.bytes_max),
        mib(extent.memory),
        outcome.entries,
        outcome.fills
    );
    println!(
        "the hot keys: {} reads, {} of replies that were kept, {} at the server",
        outcome.hot_reads,
        outcome.hits,
        outcome.hot_reads - outcome.hits
    );
    println!(
        "memory of the process: {:.1} MiB before, {:.1} MiB with a tenth of the keys, {:.1} MiB with all",
        mib(outcome.memory[0]),
        mib(outcome.memory[1]),
        mib(outcome.memory[2])
    );
    ensure!(outcome.is_good(extent), "memory is exceeded, or a hot key is not kept: {outcome:?}");
    Ok(())
}
