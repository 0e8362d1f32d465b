//! `lab limit`: the limit that finds itself, beside every fixed one, for four loads of a real server.
//!
//! Owns the loads and the order of turns; what the figures say is put into words in [`finding`].
//! Invariants: before `auto` is measured under a load it has settled on another one, and has had as
//! long as it is given to change; all limits are up at the same time and take turns.

mod finding;
mod trace;

use std::time::Duration;

use anyhow::Result;

use self::trace::Decision;
use super::ways::{self, FlifoSetup, Limit, Load, Log, Sharing, Way};
use super::{About, Experiment, Finding, Lab, Options, Undo};
use crate::private_server::PrivateServer;
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
    pub(super) fn new(options: &Options) -> Self {
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

    fn set_up(&self, _: &Sort, lab: &Lab, _: &mut Undo) -> Result<Stage> {
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
                links_max: 2 * FIXED[FIXED.len() - 1],
                pipeline: 8,
                sharing: Sharing::Pooled,
                log: if limit == Limit::Auto { Log::Decisions } else { Log::Usual },
                ..FlifoSetup::USUAL
            };
            ways.push((limit, Way::flifo(&format!("flifo-{at}"), &server, setup, lab)?));
        }
        let workloads = Sort::ALL.into_iter().map(|sort| Ok((sort, sort.workload(&server)?)));
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
        Load { workload, extent: LARGE, clients: self.clients, warm_up, length, seed }
    }
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

    fn script(self) -> String {
        // Reads two hundred rows in memory, and hands out one.
        let near = format!("SELECT COUNT(DISTINCT c) FROM small WHERE page = {{1..{PAGES}}};\n");
        let far = "SELECT c FROM sbtest{table} WHERE id={id};\n";
        match self {
            Self::Processors => near,
            Self::Disk => far.to_owned(),
            Self::Mixed => format!("{near}{far}"),
            Self::HotRows => "UPDATE small SET c = {c} WHERE id = {1..8};\n".to_owned(),
        }
    }

    fn workload(self, server: &PrivateServer) -> Result<Workload> {
        let path = server.folder().join(format!("{self:?}.sql"));
        std::fs::write(&path, self.script())?;
        Ok(Workload::parse(&format!("script:{}", path.display()), &Shape::default())?)
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
            let path = folder.path().join("s.sql");
            std::fs::write(&path, sort.script()).expect("writes");
            let name = format!("script:{}", path.display());
            let workload = Workload::parse(&name, &Shape::default()).expect("parses");
            let statements = if sort == Sort::Mixed { 2 } else { 1 };
            assert_eq!(workload.statements.len(), statements, "{sort:?}");
        }
    }
}
