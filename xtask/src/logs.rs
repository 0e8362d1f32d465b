//! `cargo xtask logs`: slow logs as large as those of a busy day, of random entries and of statements of every kind that a
//! Flifo has written down, read to their end by `pt-query-digest` and `mysqldumpslow`.
//!
//! Owns the command only; the logs and the counts are those of `testkit::slow_logs`.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use bench::interrupt::Interrupt;
use testkit::slow_logs::{Counted, digested, dumped, random, served};

#[derive(clap::Args)]
pub(crate) struct Extent {
    /// Entries of each log.
    #[arg(long, default_value_t = 100_000)]
    entries: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(extent: &Extent, flifo: &Path, interrupt: &Interrupt) -> Result<()> {
    println!("| log | size | read by | entries | marks | |\n|---|---|---|---|---|---|");
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("slow.log");
    let (log, written, of_commands) = random(extent.entries, extent.seed);
    std::fs::write(&path, &log).context("the log cannot be written")?;
    let readers = [
        ("pt-query-digest", digested as fn(&Path) -> Counted, written.rows - of_commands),
        ("mysqldumpslow", dumped as fn(&Path) -> Counted, written.rows),
    ];
    for (name, read, rows) in readers {
        interrupt.check()?;
        let found = told("random entries", name, &path, read)?;
        let differences = written.differences(&found);
        ensure!(differences.is_empty() && found.rows == rows, "{name}: {differences:?}; {found:?}");
    }
    interrupt.check()?;
    let served = served::run(flifo, extent.entries);
    let seen = served.is_whole().map_err(anyhow::Error::msg)?;
    for (name, read, _) in readers {
        interrupt.check()?;
        let found = told("statements of every kind", name, &served.path, read)?;
        let differences = served.differences(&found);
        ensure!(differences.is_empty(), "{name}: {differences:?}");
    }
    println!("\nOf the second log: {seen}");
    Ok(())
}

/// Has a program read a log, and prints what it counts.
fn told(log: &str, name: &str, path: &Path, read: fn(&Path) -> Counted) -> Result<Counted> {
    let (begun, size) = (Instant::now(), std::fs::metadata(path)?.len());
    let found = read(path);
    println!(
        "| {log} | {} MB | {name} | {} | {} | {:.0} s |",
        size / 1_000_000,
        found.entries,
        found.marked.values().sum::<u64>(),
        begun.elapsed().as_secs_f64()
    );
    Ok(found)
}
