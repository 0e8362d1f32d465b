//! `cargo xtask impostors`: servers that are not the server, which make random demands in the logins of Flifo's own
//! backends and of clients that are passed through, in each mode of `server.tls`.
//!
//! What runs and what it is judged by is [`testkit::impostor`]'s; this owns the command line and what is printed.

use std::path::Path;

use anyhow::{Result, ensure};
use bench::interrupt::Interrupt;
use bench::progress::Progress;
use testkit::impostor::{self, Report};

/// How much is run.
#[derive(clap::Args)]
pub(crate) struct Extent {
    /// Conducts of impostors; each meets two clients in each mode.
    #[arg(long, default_value_t = 500)]
    seeds: u64,
    /// The first of them, as a finding names it.
    #[arg(long, default_value_t = 0)]
    begin: u64,
    /// Ends after so many findings.
    #[arg(long, default_value_t = 10)]
    findings: usize,
}

/// Conducts of one pair of Flifo and impostor.
const SERIES: u64 = 100;

pub(crate) fn run(extent: &Extent, flifo: &Path, interrupt: &Interrupt) -> Result<()> {
    let mut progress = Progress::begin("impostors", extent.seeds);
    let mut total = Report::default();
    let end = extent.begin.saturating_add(extent.seeds);
    let mut begin = extent.begin;
    while begin < end && total.findings.len() < extent.findings {
        let seeds = begin..begin.saturating_add(SERIES).min(end);
        total.add(impostor::run(flifo, &seeds, || interrupt.check().is_err()));
        interrupt.check()?;
        begin = seeds.end;
        progress.set(begin - extent.begin);
    }
    total.findings.iter().for_each(|finding| println!("BROKEN: {finding}"));
    println!("{total}");
    ensure!(total.findings.is_empty(), "{} promises are not kept", total.findings.len());
    Ok(())
}
