//! `cargo xtask logins`: random accounts and random logins, directly and through Flifo, each way in which clients get
//! through.
//!
//! What runs is [`testkit::logins`]; this owns the command line, the lanes and what is printed.

use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use anyhow::{Context, Result, ensure};
use bench::interrupt::Interrupt;
use bench::progress::Progress;
use clap::ValueEnum;
use testkit::differ::program::Brand;
use testkit::logins::campaign::{self, Report};
use testkit::logins::connected::{self, PROMISE};
use testkit::logins::handshakes;
use testkit::logins::site::{Site, Way};

/// How much is run.
#[derive(clap::Args)]
pub(crate) struct Extent {
    /// Logins through Flifo of each seed, each with a direct one beside it.
    #[arg(long, default_value_t = 10_000)]
    logins: u64,
    #[arg(long, value_delimiter = ',', default_value = "1")]
    seeds: Vec<u64>,
    /// Only this batch of a seed, as a finding names it.
    #[arg(long)]
    batch: Option<u64>,
    /// Attempts of a batch of accounts; of those that change, steps.
    #[arg(long, default_value_t = 200)]
    attempts: usize,
    /// Only these ways.
    #[arg(long, value_delimiter = ',')]
    ways: Vec<WayName>,
    #[arg(long, value_enum, default_value = "mariadb")]
    server: ServerKind,
    /// Batches that run at once, each on a server of its own.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=16))]
    lanes: u32,
    /// A line of Flifo's section `[server]`, as `account_terms = "flifo"`: what it allows must be found.
    #[arg(long)]
    setting: Vec<String>,
    /// What is tried.
    #[arg(long, value_enum, default_value = "batches")]
    what: What,
    /// Ends after so many findings.
    #[arg(long, default_value_t = 10)]
    findings: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// Many accounts, and logins with them.
    Batches,
    /// A few accounts that change while clients are connected.
    Connected,
    /// Handshakes byte by byte.
    Handshakes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ServerKind {
    Mariadb,
    Mysql,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WayName {
    PassThrough,
    Configured,
    Accounts,
    Learnt,
}

/// Of one batch at most.
const HANDSHAKES: u64 = 1 << 16;

/// Seeds of one series do not meet those of another.
const SERIES: u64 = 1 << 32;

pub(crate) fn run(extent: &Extent, flifo: &Path, interrupt: &Interrupt) -> Result<()> {
    let brand = match extent.server {
        ServerKind::Mariadb => Brand::MariaDb,
        ServerKind::Mysql => Brand::MySql,
    };
    let ways: Vec<_> = match extent.ways.is_empty() {
        true => Way::all(brand).to_vec(),
        false => extent.ways.iter().map(|way| way.way()).collect(),
    };
    let lanes = if extent.batch.is_some() { 1 } else { extent.lanes };
    let mut sites: Vec<Site> = (0..lanes)
        .map(|_| Site::start(brand))
        .collect::<Option<_>>()
        .context("there is no such server on this machine")?;
    for site in &mut sites {
        site.settings = extent.setting.iter().map(|line| format!("{line}\n")).collect();
    }
    let mut found = 0;
    for seed in &extent.seeds {
        let report = series(extent, *seed, &mut sites, &ways, flifo, interrupt)?;
        interrupt.check()?;
        print(*seed, &report);
        found += report.findings.len() + report.undue.len();
        found += report.wordless.len() + report.misruled.len();
    }
    ensure!(found == 0, "{found} logins are not as they should be");
    Ok(())
}

/// The batches of a seed.
fn series(
    extent: &Extent,
    seed: u64,
    sites: &mut [Site],
    ways: &[Way],
    flifo: &Path,
    interrupt: &Interrupt,
) -> Result<Report> {
    if let Some(batch) = extent.batch {
        return Ok(extent.what.run(&mut sites[0], flifo, batch, extent.attempts, ways));
    }
    let progress = Mutex::new(Progress::begin(&format!("seed {seed}"), extent.logins));
    let total = Mutex::new(Report::default());
    let next = AtomicU64::new(seed.wrapping_mul(SERIES));
    let is_over = || {
        let total = total.lock().expect("no lane panics with it");
        let found = total.findings.len() + total.undue.len();
        let found = found + total.wordless.len() + total.misruled.len();
        extent.logins <= total.logins || extent.findings <= found || interrupt.check().is_err()
    };
    let lane = |site: &mut Site| {
        while !is_over() {
            let batch = next.fetch_add(1, Relaxed);
            let report = extent.what.run(site, flifo, batch, extent.attempts, ways);
            let mut total = total.lock().expect("no lane panics with it");
            total.add(report);
            progress.lock().expect("no lane panics with it").set(total.logins);
        }
    };
    thread::scope(|scope| {
        let lanes: Vec<_> = sites.iter_mut().map(|site| scope.spawn(move || lane(site))).collect();
        lanes.into_iter().for_each(|it| it.join().unwrap_or_else(|why| resume_unwind(why)));
    });
    Ok(total.into_inner().expect("no lane panics with it"))
}

fn print(seed: u64, report: &Report) {
    for finding in &report.findings {
        println!("MORE THAN DIRECTLY, {finding}");
    }
    for undue in &report.undue {
        println!("LESS THAN DIRECTLY, WITHOUT A REASON, {undue}");
    }
    for wordless in &report.wordless {
        println!("CLOSED WITHOUT A WORD, {wordless}");
    }
    for misruled in &report.misruled {
        println!("ANOTHER ACCOUNT THAN BY THE RULES, {misruled}");
    }
    let less: u64 = report.less.values().sum();
    let unknowable: u64 = report.unknowable.values().sum();
    println!(
        "seed {seed}: {} logins through Flifo, of which {} were let in as directly, {} refused as directly, {less} \
         refused by Flifo alone, {unknowable} let in as a less special account than directly, {} let in with more; in \
         {} direct logins the server chose another account than the rules",
        report.logins,
        report.admitted,
        report.refused,
        report.findings.len(),
        report.misruled.len()
    );
    for ((way, why), count) in &report.less {
        println!("{count:>8}  {way:?}: {why}");
    }
    for (way, count) in &report.unknowable {
        println!("{count:>8}  {way:?}: less special account");
    }
}

impl What {
    fn run(
        self,
        site: &mut Site,
        flifo: &Path,
        seed: u64,
        attempts: usize,
        ways: &[Way],
    ) -> Report {
        match self {
            Self::Batches => campaign::run(site, flifo, seed, attempts, ways),
            Self::Connected => connected::run(site, flifo, seed, attempts, ways, PROMISE),
            Self::Handshakes => {
                let (begin, count) = (seed.wrapping_mul(HANDSHAKES), attempts as u64);
                let undue = handshakes::compare(flifo, begin..begin.saturating_add(count));
                // Each by two Flifos.
                Report { logins: 2 * count, undue, ..Report::default() }
            }
        }
    }
}

impl WayName {
    const fn way(self) -> Way {
        match self {
            Self::PassThrough => Way::PassThrough,
            Self::Configured => Way::Configured,
            Self::Accounts => Way::Accounts,
            Self::Learnt => Way::Learnt,
        }
    }
}
