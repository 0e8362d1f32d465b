//! The differential test: programs of eight clients, through few backends and directly; and the test of the test.
//!
//! One pair of servers of each kind is started for all of it. Programs that showed a difference once are kept in
//! `programs`. Where no MySQL is to be had, its tests print so and test nothing.

mod leaky;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use testkit::differ::caching::ThroughCache;
use testkit::differ::campaign::{Between, Campaign, Finding, Lane, Nothing, ThroughFlifo, check};
use testkit::differ::generate::{Asks, Shape};
use testkit::differ::program::{Brand, Program};
use testkit::differ::random_rules::ThroughRules;
use testkit::differ::site::Site;
use testkit::differ::text;

use self::leaky::{Forgets, Leaky};

/// The servers, for one test at a time.
fn site() -> MutexGuard<'static, Site> {
    static SITE: OnceLock<Mutex<Site>> = OnceLock::new();
    let start = || Mutex::new(Site::start(Brand::MariaDb).expect("MariaDB is installed"));
    SITE.get_or_init(start).lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same of MySQL, if there is one.
fn mysql() -> Option<MutexGuard<'static, Site>> {
    static SITE: OnceLock<Option<Mutex<Site>>> = OnceLock::new();
    let site = SITE.get_or_init(|| Site::start(Brand::MySql).map(Mutex::new)).as_ref()?;
    Some(site.lock().unwrap_or_else(PoisonError::into_inner))
}

fn campaign(brand: Brand, seed: u64, statements: usize, backends: &[u32], all: bool) -> Campaign {
    let shape = Shape { brand, clients: 8, steps: 400, all, asks: Asks::Apart };
    Campaign { seed, statements, backends: backends.to_vec(), shape, shrinks: Some(SHRINK_SOON) }
}

/// A difference that is not expected is shrunk for so long: other tests wait for the servers, and must not be taken for
/// ones that hang.
const SHRINK_SOON: Duration = Duration::from_secs(60);

/// On a busy machine each attempt takes long; that must not leave a program longer than it need be.
const SHRINK_MAX: Duration = Duration::from_secs(600);

/// What leaks at every turn shows in small programs. What differs through Flifo, as documented, is left out.
fn small(seed: u64) -> Campaign {
    let shape =
        Shape { brand: Brand::MariaDb, clients: 4, steps: 60, all: false, asks: Asks::Apart };
    Campaign { seed, statements: 5000, backends: vec![0], shape, shrinks: Some(SHRINK_MAX) }
}

/// Finds a leak that shows each time, in a program as short as this. What leaks goes by the order of the steps alone.
fn find_out(forgets: Forgets, is_short: impl Fn(&Finding) -> bool) {
    let found = first(&small(1), &mut site(), &mut Leaky::new(forgets)).expect("it leaks");
    assert!(found.is_steady && is_short(&found), "{found}");
}

/// Runs until the first difference.
fn first<B: Between + Send>(
    campaign: &Campaign,
    site: &mut Site,
    between: &mut B,
) -> Option<Finding> {
    campaign.run(vec![Lane { site, between }], |_, found| found.is_none()).pop()
}

/// What CI asks: twelve thousand statements without a difference.
#[test]
fn clients_cannot_tell_flifo_from_the_server() {
    let campaign = campaign(Brand::MariaDb, 1 << 20, 12_000, &[1, 2, 3], false);
    let found = first(&campaign, &mut site(), &mut ThroughFlifo::here());
    assert!(found.is_none(), "{}", found.expect("a difference"));
}

/// The same of MySQL, which is slower to begin anew for each program.
#[test]
fn clients_cannot_tell_flifo_from_mysql() {
    let Some(mut site) = mysql() else { return };
    let campaign = campaign(Brand::MySql, 1 << 21, 2000, &[1, 2, 3], false);
    let found = first(&campaign, &mut site, &mut ThroughFlifo::here());
    assert!(found.is_none(), "{}", found.expect("a difference"));
}

/// A program for each of some sets of rules; `cargo xtask differ --rules` has many.
#[test]
fn clients_cannot_tell_rules_that_change_nothing() {
    let mut site = site();
    for seed in 1..4 {
        let campaign = campaign(Brand::MariaDb, seed << 24, 1, &[1, 2], false);
        let mut rules = ThroughRules::of(testkit::flifo::program().to_owned(), seed);
        let found = first(&campaign, &mut site, &mut rules);
        assert!(found.is_none(), "{}\n{}", found.expect("a difference"), rules.rules());
    }
}

/// What is kept is as good as what the server answers; `cargo xtask differ --cache` has many.
#[test]
fn clients_cannot_tell_replies_that_are_kept() {
    let hits = Arc::new(AtomicU64::new(0));
    let mut cache = ThroughCache::of(testkit::flifo::program().to_owned(), Arc::clone(&hits));
    let mut campaign = campaign(Brand::MariaDb, (1 << 22) + 1, 1, &[1, 2], false);
    campaign.shape.asks = Asks::Again;
    let found = first(&campaign, &mut site(), &mut cache);
    assert!(found.is_none(), "{}", found.expect("a difference"));
    drop(cache);
    assert!(hits.load(Relaxed) > 0, "no reply that was kept was used");
}

#[test]
fn a_cache_that_does_not_see_writes_is_found_out() {
    let cache = ThroughCache::of(testkit::flifo::program().to_owned(), Arc::default());
    let mut campaign = campaign(Brand::MariaDb, (1 << 22) + 1, 5000, &[1], false);
    campaign.shape.asks = Asks::Again;
    campaign.shrinks = None;
    let found = first(&campaign, &mut site(), &mut cache.blind()).expect("it is too old");
    assert!(found.backends.is_some(), "{found}");
}

/// Else a difference would say nothing of what stands between.
#[test]
fn two_equal_servers_answer_alike() {
    let found = first(&campaign(Brand::MariaDb, 1, 2000, &[0], true), &mut site(), &mut Nothing);
    assert!(found.is_none(), "{}", found.expect("a difference"));
}

#[test]
fn a_pool_that_forgets_everything_is_found_out() {
    find_out(Forgets::Everything, |found| steps(found) <= 8);
}

#[test]
fn a_pool_that_knows_schemas_but_no_other_state_is_found_out() {
    let clients = |found: &Finding| {
        let all = found.program.steps.iter().map(|step| step.client);
        all.collect::<std::collections::BTreeSet<_>>().len()
    };
    find_out(Forgets::AllButSchema, |found| steps(found) <= 12 && clients(found) == 2);
}

#[test]
fn a_server_with_another_default_is_found_out() {
    let settings = ["--div-precision-increment=3"];
    let mut site = Site::start_with(Brand::MariaDb, &settings).expect("MariaDB is installed");
    let found = first(&small(1), &mut site, &mut Nothing).expect("it differs");
    assert!(found.is_steady && steps(&found) <= 3, "{found}");
}

fn steps(found: &Finding) -> usize {
    found.program.steps.len()
}

/// Each of them has differed once.
#[test]
fn what_differed_once_does_not_differ_again() {
    run_stored(&mut site());
}

#[test]
fn what_differed_once_does_not_differ_again_with_mysql() {
    let Some(mut site) = mysql() else { return };
    run_stored(&mut site);
}

fn run_stored(site: &mut Site) {
    let brand = site.direct.brand();
    let mut lane = Lane { site, between: &mut ThroughFlifo::here() };
    let programs = programs();
    assert!(!programs.is_empty(), "there are stored programs");
    for (path, program) in programs {
        if program.only.is_some_and(|only| only != brand) {
            continue;
        }
        let (_, found) = check(&program, &mut lane, &[1, 2, 3]);
        assert!(found.is_none(), "{}:\n{}", path.display(), found.expect("a difference"));
    }
}

fn programs() -> Vec<(PathBuf, Program)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("programs");
    let files = std::fs::read_dir(folder).expect("the folder of programs");
    let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a program");
        let program = text::parse(&text).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        (path, program)
    };
    paths.into_iter().map(read).collect()
}
