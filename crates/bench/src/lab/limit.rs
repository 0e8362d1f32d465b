//! `lab limit`: the limit that finds itself, beside every fixed one, for four loads of a real server.
//!
//! Owns the loads and the order of turns; what the figures say is put into words in [`finding`].
//! Invariants: before `auto` is measured under a load it has settled on another one, and has had as
//! long as it is given to change; all limits are up at the same time and take turns; generator and
//! proxies share CPUs in every turn.

mod finding;
mod trace;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use sys::cpus::Cpus;
use sys::tree::Tree;
use sys::{scheduling, threads};

use self::trace::Decision;
use super::experiment::{About, Experiment, Finding, Lab, LabOptions};
use super::undo::Undo;
use super::ways::{self, FlifoSetup, Limit, Load, Log, Sharing, Way};
use crate::private_server::PrivateServer;
use crate::workloads::random::Distribution;
use crate::workloads::tables::Extent;
use crate::workloads::{Shape, Workload};

/// The experiment, and how long it takes its time.
#[derive(Clone, Debug)]
pub(super) struct AutoLimit {
    loads: Vec<Sort>,
    rounds: u32,
    turn: Duration,
    clients: u32,
}

/// What the server is bound by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Processors,
    Disk,
    Mixed,
    HotRows,
}

/// One turn.
pub(super) struct Sample {
    sort: Sort,
    limit: Limit,
    rate: f64,
    p99_ms: f64,
    /// What others had of the machine's CPUs meanwhile.
    foreign: f64,
    /// Of a limit that finds itself: what it decided from the change of load on.
    decisions: Vec<Decision>,
}

pub(super) struct Stage {
    /// In this order they stop: proxies first.
    ways: Vec<(Limit, Way)>,
    _server: PrivateServer,
    workloads: Vec<(Sort, Workload)>,
}

impl AutoLimit {
    pub(super) fn new(options: &LabOptions) -> Self {
        let own = Self::default();
        Self {
            rounds: options.rounds.unwrap_or(own.rounds),
            turn: options.length.unwrap_or(own.turn),
            clients: options.clients.first().copied().unwrap_or(own.clients),
            ..own
        }
    }
}

impl Default for AutoLimit {
    fn default() -> Self {
        Self { loads: Sort::ALL.to_vec(), rounds: 3, turn: Duration::from_secs(3), clients: 256 }
    }
}

impl Experiment for AutoLimit {
    type Treatment = Sort;
    type Stage = Stage;
    type Figure = Sample;

    fn about(&self) -> About {
        let fixed = FIXED.len() as f64 * (self.turn + WARM_UP + CONNECT).as_secs_f64();
        let auto = (SETTLED + CHANGED + self.auto_turn() + 2 * CONNECT).as_secs_f64();
        let loads = self.loads.len() as f64;
        About {
            name: "limit",
            question: "Does a limit that finds itself find the best one, whatever the server is \
                       bound by?",
            seed: "Noted in 2009: an IO bound server needs a higher limit than a CPU bound one, \
                   and as some servers are the one and the other by turns, it is difficult to find \
                   the best value for innodb_thread_concurrency.",
            seconds: (loads * (f64::from(self.rounds) * (fixed + auto) + STARTS)) as u32,
        }
    }

    fn treatments(&self) -> (Vec<Sort>, Vec<String>) {
        (self.loads.clone(), vec![])
    }

    fn name(&self, sort: &Sort) -> String {
        sort.label().to_owned()
    }

    fn set_up(&self, _: &Sort, lab: &Lab, undo: &mut Undo) -> Result<Stage> {
        // A pool that holds the small table, and hardly any of the large ones.
        let server = PrivateServer::builder()
            .argument("--innodb-buffer-pool-size=16M")
            .argument("--innodb-flush-method=O_DIRECT")
            .start()?;
        ways::fill(&server, LARGE, &lab.interrupt)?;
        server.sql(&format!(
            "CREATE TABLE small (id INT PRIMARY KEY, page INT, c CHAR(120), KEY (page)) \
             ENGINE=InnoDB;\n\
             INSERT INTO small SELECT id, id MOD {PAGES} + 1, c FROM sbtest1 WHERE id <= {SMALL};\n"
        ))?;
        let mut ways = Vec::new();
        let limits = FIXED.map(Limit::Fixed).into_iter().chain([Limit::Auto]);
        for (at, limit) in limits.enumerate() {
            let setup = FlifoSetup {
                limit,
                // How far `auto` may go.
                connections_max: 2 * FIXED[FIXED.len() - 1],
                pipeline: 8,
                sharing: Sharing::Pooled,
                log: if limit == Limit::Auto { Log::Decisions } else { Log::Usual },
                ..FlifoSetup::USUAL
            };
            ways.push((limit, Way::flifo(&format!("flifo-{at}"), &server, setup, lab)?));
        }
        keep_together(&ways, undo)?;
        let workloads =
            Sort::ALL.into_iter().map(|sort| Ok((sort, sort.workload(server.folder())?)));
        let workloads = workloads.collect::<Result<_>>()?;
        Ok(Stage { ways, _server: server, workloads })
    }

    fn measure(&self, sort: &Sort, stage: &mut Stage, lab: &Lab) -> Result<Vec<Sample>> {
        let mut samples = Vec::new();
        for round in 0..self.rounds {
            // Each limit is first, in the middle and last by turns: the machine's speed drifts.
            let turns = stage.ways.len();
            for at in 0..turns {
                let (limit, way) = &stage.ways[(at + SHIFT * round as usize) % turns];
                let (warm_up, length) = match limit {
                    Limit::Fixed(_) => (WARM_UP, self.turn),
                    Limit::Auto => {
                        let other = self.load(stage, sort.before(), round, (WARM_UP, SETTLED));
                        way.turn(other, &lab.interrupt)?;
                        (CHANGED, self.auto_turn())
                    }
                };
                let seen = way.log().len();
                let load = self.load(stage, *sort, round, (warm_up, length));
                let turn = way.turn(load, &lab.interrupt)?;
                samples.push(Sample {
                    sort: *sort,
                    limit: *limit,
                    rate: turn.rate,
                    p99_ms: turn.p99_ms,
                    foreign: turn.foreign,
                    decisions: trace::read(way.log().get(seen..).unwrap_or_default()),
                });
            }
        }
        Ok(samples)
    }

    fn finding(&self, samples: &[Sample]) -> Finding {
        finding::of(samples)
    }
}

impl AutoLimit {
    /// Longer than a fixed limit's: what it swings through is to be in it many times.
    fn auto_turn(&self) -> Duration {
        self.turn * 2
    }

    fn load<'a>(
        &self,
        stage: &'a Stage,
        sort: Sort,
        round: u32,
        (warm_up, length): (Duration, Duration),
    ) -> Load<'a> {
        let workload = stage.workloads.iter().find(|(its, _)| *its == sort);
        let (_, workload) = workload.expect("there is one for each sort");
        let seed = u64::from(round) + 1;
        let (clients, distribution) = (self.clients, Distribution::Uniform);
        Load { workload, extent: LARGE, clients, warm_up, length, distribution, seed }
    }
}

/// Keeps generator and proxies to half of the CPUs, where there are several; the server has all.
///
/// To wake a thread on another CPU costs a virtual machine as much as half a statement does. Left to
/// itself, the kernel has generator and proxy on one CPU in some turns and on two in others, whatever
/// the limit is: turns of the same limit then differ by as much as the limits do.
fn keep_together(ways: &[(Limit, Way)], undo: &mut Undo) -> Result<()> {
    let own = threads::own_number();
    let all = threads::threads(&Tree::live(), std::process::id());
    let all = all.known().and_then(|all| all.iter().find(|thread| thread.tid == own));
    let all = all.context("this thread's CPUs are not to be seen")?.cpus.clone();
    let half: Cpus = all.iter().take(all.len().div_ceil(2)).collect();
    for (_, way) in ways {
        way.keep_to(&half)?;
    }
    undo.later("the CPUs of the generator", move || Ok(scheduling::set_cpus(own, &all)?));
    scheduling::set_cpus(own, &half).context("cannot place the generator")
}

impl Sort {
    const ALL: [Self; 4] = [Self::Processors, Self::Disk, Self::Mixed, Self::HotRows];

    const fn label(self) -> &'static str {
        match self {
            Self::Processors => "bound by processors",
            Self::Disk => "bound by the disk",
            Self::Mixed => "half and half",
            Self::HotRows => "bound by hot rows",
        }
    }

    /// The load that `auto` comes from.
    fn before(self) -> Self {
        let at = Self::ALL.iter().position(|sort| *sort == self).unwrap_or_default();
        Self::ALL[(at + Self::ALL.len() - 1) % Self::ALL.len()]
    }

    /// What a client sends again and again; of several, one by chance. By turns would not do: all
    /// clients begin with the same one, and a small limit keeps them in step, so that the server has
    /// nothing but the one and then nothing but the other to do, which is another load.
    fn scripts(self) -> Vec<String> {
        // Reads two hundred rows in memory, and hands out one.
        let near = format!("SELECT COUNT(DISTINCT c) FROM small WHERE page = {{1..{PAGES}}};\n");
        let far = "SELECT c FROM sbtest{table} WHERE id={id};\n".to_owned();
        match self {
            Self::Processors => vec![near],
            Self::Disk => vec![far],
            Self::Mixed => vec![near, far],
            Self::HotRows => vec!["UPDATE small SET c = {c} WHERE id = {1..8};\n".to_owned()],
        }
    }

    /// `folder` is where the scripts are written to.
    fn workload(self, folder: &Path) -> Result<Workload> {
        let mut parts = Vec::new();
        for (at, script) in self.scripts().into_iter().enumerate() {
            let path = folder.join(format!("{self:?}-{at}.sql"));
            std::fs::write(&path, script)?;
            parts.push(format!("script:{}", path.display()));
        }
        Ok(Workload::parse(&format!("mixed:{}", parts.join("+")), &Shape::default())?)
    }
}

const FIXED: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// Rows of the table that fits the pool, and how many parts they are read in.
const SMALL: u32 = 10_000;
const PAGES: u32 = 50;
/// Five times the pool.
const LARGE: Extent = Extent { tables: 4, rows: 100_000 };
/// By so many places the order of turns is moved on with each round.
const SHIFT: usize = 3;
const WARM_UP: Duration = Duration::from_millis(500);
const CONNECT: Duration = Duration::from_millis(500);
/// `auto` under another load, and then under this one before it is measured.
const SETTLED: Duration = Duration::from_secs(8);
const CHANGED: Duration = Duration::from_secs(10);
/// The server with its tables and nine proxies, in seconds.
const STARTS: f64 = 20.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::random::Random;

    #[test]
    fn it_takes_less_than_a_quarter_of_an_hour() {
        let own = Experiment::about(&AutoLimit::default()).seconds;
        assert!((120..900).contains(&own), "{own}");
    }

    #[test]
    fn auto_comes_from_each_other_load() {
        let before: Vec<_> = Sort::ALL.into_iter().map(Sort::before).collect();
        assert!(Sort::ALL.into_iter().all(|sort| before.contains(&sort)));
        assert!(Sort::ALL.into_iter().all(|sort| sort.before() != sort));
    }

    #[test]
    fn scripts_are_workloads() {
        let folder = tempfile::tempdir().expect("makes");
        for sort in Sort::ALL {
            let workload = sort.workload(folder.path()).expect("parses");
            let statements = if sort == Sort::Mixed { 2 } else { 1 };
            assert_eq!(workload.statements.len(), statements, "{sort:?}");
            let drawn = &workload.draw(&mut Random::new(1)).steps[0].statements;
            assert_eq!(drawn.len(), 1, "{sort:?}: one by chance, not by turns");
        }
    }
}
