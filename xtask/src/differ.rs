//! `cargo xtask differ`: the long run of the differential test.
//!
//! Owns the command only; programs, servers and judgement are `testkit::differ`'s. Every difference is printed as a
//! program that shows it, and kept where `--keep` says.

use std::fs;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bench::interrupt::Interrupt;
use bench::private_server::PrivateServer;
use bench::progress::Progress;
use clap::ValueEnum;
use testkit::differ::caching::ThroughCache;
use testkit::differ::campaign::{Between, Campaign, Finding, Lane, Nothing, ThroughFlifo, check};
use testkit::differ::generate::{Asks, Shape};
use testkit::differ::program::Brand;
use testkit::differ::random_rules::{Chance, ThroughRules};
use testkit::differ::random_templates::{Compared, compare};
use testkit::differ::sharing::{Shared, ThroughSharing};
use testkit::differ::site::Site;
use testkit::differ::succession::ThroughSuccessors;
use testkit::differ::text;

#[derive(Clone, clap::Args)]
pub(crate) struct Extent {
    /// Statements for each seed: commands that are answered through Flifo and compared. Those that
    /// are sent directly are not counted; those that have no answer neither.
    #[arg(long, default_value_t = 20_000)]
    statements: usize,
    /// A series of programs begins with each of these seeds.
    #[arg(long, value_delimiter = ',', default_value = "1")]
    seeds: Vec<u64>,
    /// Programs of each series that have run before: a long run goes on where it ended.
    #[arg(long, default_value_t = 0)]
    skip: u64,
    /// Backends that the clients share: every program runs with each of these numbers.
    #[arg(long, value_delimiter = ',', default_value = "1,2,3")]
    backends: Vec<u32>,
    #[arg(long, value_enum, default_value = "mariadb")]
    server: ServerKind,
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    clients: u32,
    /// Steps of a program, of all its clients together.
    #[arg(long, default_value_t = 400)]
    steps: usize,
    /// Runs these stored programs, and no others.
    #[arg(long, num_args = 1..)]
    programs: Vec<PathBuf>,
    /// Flifos take over from each other all the time.
    #[arg(long, conflicts_with_all = ["direct", "programs"])]
    upgrades: bool,
    /// Flifo has rules, made by chance from the seeds, that must change nothing a client can see.
    #[arg(long, conflicts_with_all = ["direct", "programs", "upgrades"])]
    rules: bool,
    /// Statements are rewritten by rules with templates, made by chance from the seeds, and compared with references.
    #[arg(long, conflicts_with_all = ["direct", "programs", "upgrades", "rules"])]
    templates: bool,
    /// All clients ask the same at once, among writers, and Flifo shares reads.
    #[arg(long, conflicts_with_all = ["programs", "upgrades", "rules", "templates"])]
    share_reads: bool,
    /// Clients ask the same again and again while it is written in every way, and Flifo keeps replies.
    #[arg(long, conflicts_with_all = ["upgrades", "rules", "templates", "share_reads"])]
    cache: bool,
    /// Clients leave diagnostics of every kind, and rest while one of them asks: none may keep a backend for them.
    #[arg(long, conflicts_with_all = ["rules", "templates", "share_reads", "cache"])]
    diagnostics: bool,
    /// Compares two direct runs: shows whether the programs themselves can be repeated.
    #[arg(long)]
    direct: bool,
    /// Also kinds of statement that Flifo is known to answer otherwise.
    #[arg(long)]
    all: bool,
    /// Prints programs that differ as they are, without looking for shorter ones.
    #[arg(long)]
    unshrunk: bool,
    /// Ends after so many differences.
    #[arg(long, default_value_t = 10)]
    differences: usize,
    /// Programs that run at once, each on a pair of servers of its own.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=16))]
    lanes: u32,
    /// A folder for the programs that differ.
    #[arg(long)]
    keep: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ServerKind {
    Mariadb,
    Mysql,
}

/// A program that differs is shortened for so long.
const SHRINK_MAX: Duration = Duration::from_secs(60);

/// Seeds of one series do not meet those of another.
const SERIES: u64 = 1 << 32;

pub(crate) fn run(extent: &Extent, flifo: PathBuf, interrupt: &Interrupt) -> Result<()> {
    let brand = match extent.server {
        ServerKind::Mariadb => Brand::MariaDb,
        ServerKind::Mysql => Brand::MySql,
    };
    if extent.templates {
        return templates(extent, &flifo, interrupt);
    }
    let mut sites = start(brand, if extent.programs.is_empty() { extent.lanes } else { 1 })
        .context("there is no such server on this machine")?;
    let found = if !extent.programs.is_empty() && extent.cache {
        let mut between = ThroughCache::of(flifo, Arc::default());
        stored(extent, Lane { site: &mut sites[0], between: &mut between }, interrupt)?
    } else if !extent.programs.is_empty() {
        let site = &mut sites[0];
        stored(extent, Lane { site, between: &mut ThroughFlifo::of(flifo) }, interrupt)?
    } else if extent.direct {
        series(extent, brand, &mut sites, || Nothing, interrupt)?
    } else if extent.upgrades {
        let took_over = Arc::new(AtomicU64::new(0));
        let between = || ThroughSuccessors::of(flifo.clone(), Arc::clone(&took_over));
        let found = series(extent, brand, &mut sites, between, interrupt)?;
        println!("{} Flifos took over from the one before", took_over.load(Ordering::Relaxed));
        found
    } else if extent.rules {
        with_rules(extent, brand, &mut sites, &flifo, interrupt)?
    } else if extent.share_reads {
        let shared = Arc::new(Shared::default());
        let between = || ThroughSharing::of(flifo.clone(), Arc::clone(&shared));
        let found = series(extent, brand, &mut sites, between, interrupt)?;
        let spared = shared.spared.load(Ordering::Relaxed);
        println!("{spared} statements got the reply to another client's run");
        ensure!(spared > 0, "nothing was shared");
        found
    } else if extent.cache && !extent.direct {
        let hits = Arc::new(AtomicU64::new(0));
        let between = || ThroughCache::of(flifo.clone(), Arc::clone(&hits));
        let found = series(extent, brand, &mut sites, between, interrupt)?;
        let hits = hits.load(Ordering::Relaxed);
        println!("{hits} statements got a reply that was kept");
        ensure!(hits > 0, "no reply that was kept was used");
        found
    } else {
        series(extent, brand, &mut sites, || ThroughFlifo::of(flifo.clone()), interrupt)?
    };
    ensure!(found == 0, "{found} programs differ");
    Ok(())
}

/// Templates for each Flifo, and statements for each of them.
const TEMPLATES: (usize, usize) = (100, 50);

/// Rewritten statements against their references.
fn templates(extent: &Extent, flifo: &Path, interrupt: &Interrupt) -> Result<()> {
    let server = PrivateServer::start_default()?;
    for seed in &extent.seeds {
        let (mut chance, mut all) = (Chance::new(*seed), Compared::default());
        let mut progress = Progress::begin(&format!("seed {seed}"), extent.statements as u64);
        while all.statements < extent.statements {
            interrupt.check()?;
            match compare(&server, flifo, &mut chance, TEMPLATES) {
                Ok(more) => {
                    all.statements += more.statements;
                    all.rows += more.rows;
                }
                Err(difference) => bail!("seed {seed}: replies differ\n{difference}"),
            }
            progress.set(all.statements as u64);
        }
        let Compared { statements, rows } = all;
        println!(
            "seed {seed}: {statements} statements rewritten as the reference has them, {rows} rows"
        );
    }
    Ok(())
}

/// Each lane has rules of its own, and each seed has others.
fn with_rules(
    extent: &Extent,
    brand: Brand,
    sites: &mut [Site],
    flifo: &Path,
    interrupt: &Interrupt,
) -> Result<usize> {
    let mut found = 0;
    for seed in &extent.seeds {
        let lane = AtomicU64::new(seed.wrapping_mul(u64::from(extent.lanes)));
        let (of, sets) =
            (Extent { seeds: vec![*seed], ..extent.clone() }, Mutex::new(String::new()));
        let between = || {
            let rules = ThroughRules::of(flifo.to_owned(), lane.fetch_add(1, Ordering::Relaxed));
            let mut sets = sets.lock().unwrap_or_else(PoisonError::into_inner);
            sets.push_str(&format!("# A lane of seed {seed}\n{}\n", rules.rules()));
            rules
        };
        let differ = series(&of, brand, sites, between, interrupt)?;
        if differ > 0 {
            println!("{}", sets.into_inner().unwrap_or_else(PoisonError::into_inner));
        }
        found += differ;
        if extent.differences <= found {
            break;
        }
    }
    Ok(found)
}

/// Starts servers for each lane, all at once.
fn start(brand: Brand, lanes: u32) -> Option<Vec<Site>> {
    thread::scope(|scope| {
        let starts: Vec<_> = (0..lanes).map(|_| scope.spawn(|| Site::start(brand))).collect();
        starts.into_iter().map(|it| it.join().unwrap_or_else(|why| resume_unwind(why))).collect()
    })
}

fn series<B: Between + Send>(
    extent: &Extent,
    brand: Brand,
    sites: &mut [Site],
    between: impl Fn() -> B,
    interrupt: &Interrupt,
) -> Result<usize> {
    let mut found = 0;
    let mut betweens: Vec<_> = sites.iter().map(|_| between()).collect();
    let backends = if extent.direct { vec![0] } else { extent.backends.clone() };
    for seed in &extent.seeds {
        let campaign = Campaign {
            seed: seed.wrapping_mul(SERIES).wrapping_add(extent.skip),
            statements: extent.statements,
            backends: backends.clone(),
            shape: Shape {
                brand,
                clients: extent.clients as usize,
                steps: extent.steps,
                all: extent.all,
                asks: match extent {
                    Extent { share_reads: true, .. } => Asks::AtOnce,
                    Extent { cache: true, .. } => Asks::Again,
                    Extent { diagnostics: true, .. } => Asks::Loudly,
                    _ => Asks::Apart,
                },
            },
            shrinks: (!extent.unshrunk).then_some(SHRINK_MAX),
        };
        let mut progress = Progress::begin(&format!("seed {seed}"), extent.statements as u64);
        let mut kept = Ok(());
        let (mut statements, mut programs) = (0, 0);
        let lanes = sites.iter_mut().zip(&mut betweens);
        let lanes = lanes.map(|(site, between)| Lane { site, between }).collect();
        let findings = campaign.run(lanes, |now, finding| {
            (statements, programs) = (now.statements, programs + 1);
            progress.set(now.statements as u64);
            progress.say(&format!("seed {seed}, {} differences", found + now.differences));
            if let Some(finding) = finding {
                kept = keep(extent, &format!("{:x}", now.seed), finding);
            }
            let enough = extent.differences <= found + now.differences;
            !enough && kept.is_ok() && interrupt.check().is_ok()
        });
        kept?;
        interrupt.check()?;
        found += findings.len();
        println!(
            "seed {seed}: {programs} programs, {statements} statements answered through Flifo as \
             directly, {} programs differ",
            findings.len()
        );
        if extent.differences <= found {
            break;
        }
    }
    Ok(found)
}

fn stored<B: Between>(
    extent: &Extent,
    mut lane: Lane<'_, B>,
    interrupt: &Interrupt,
) -> Result<usize> {
    let mut found = 0;
    for path in &extent.programs {
        interrupt.check()?;
        let read = || fs::read_to_string(path);
        let text = read().with_context(|| format!("cannot read {}", path.display()))?;
        let program = match text::parse(&text) {
            Ok(program) => program,
            Err(error) => bail!("{}: {error}", path.display()),
        };
        let (_, finding) = check(&program, &mut lane, &extent.backends);
        println!("{}: {}", path.display(), if finding.is_some() { "differs" } else { "same" });
        if let Some(finding) = finding {
            println!("{finding}");
            found += 1;
        }
    }
    Ok(found)
}

fn keep(extent: &Extent, name: &str, finding: &Finding) -> Result<()> {
    println!("{finding}");
    let Some(folder) = &extent.keep else { return Ok(()) };
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let path = folder.join(format!("{name}.prog"));
    fs::write(&path, finding.to_string())
        .with_context(|| format!("cannot write {}", path.display()))
}
