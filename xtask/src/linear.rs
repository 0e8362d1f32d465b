//! `cargo xtask linear`: many operations on a few registers, through a Flifo that shares reads and beside it, in rounds
//! with a server of their own; what the clients saw is judged behind each round.
//!
//! Owns the command only; clients and judgement are `testkit::linear`'s.

use std::path::Path;

use anyhow::{Result, ensure};
use bench::interrupt::Interrupt;
use testkit::linear::{campaign, check};

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
}

pub(crate) fn run(extent: &Extent, flifo: &Path, interrupt: &Interrupt) -> Result<()> {
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
