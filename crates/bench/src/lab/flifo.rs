//! `lab flifo`: the note's experiment with threads, and the same curve for a real server.
//!
//! Owns what is compared and in which order; what the figures say is put into words in [`finding`].
//! Invariants: all ways to the server are up at the same time and take turns, so that a slow minute
//! of the machine meets them all; a way that fails is told, and costs the others nothing.

mod doors;
mod finding;
mod threads;
mod work;

use std::time::Duration;

use anyhow::{Context, Result};

use super::experiment::{About, Experiment, Finding, Lab, LabOptions};
use super::undo::Undo;
use super::ways::{self, FlifoSetup, Limit, Load, Sharing, Turn, Way};
use crate::interrupt::Interrupted;
use crate::private_server::PrivateServer;
use crate::programs::HAPROXY;
use crate::workloads::random::Distribution;
use crate::workloads::tables::Extent;
use crate::workloads::{Shape, Workload};

use self::threads::{Figures, Gate};
use self::work::Table;

/// The experiment, and how long it takes its time.
#[derive(Clone, Debug)]
pub(super) struct Flifo {
    parts: Vec<Part>,
    /// How often each has its turn, and for how long it is measured.
    rounds: u32,
    threads_turn: Duration,
    server_turn: Duration,
    /// How many threads, and how many clients of the server.
    threads: Vec<u32>,
    clients: Vec<u32>,
    /// How long `auto` may look for its limit before it is measured.
    search: Duration,
}

/// What is put under load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The small engine.
    Threads,
    /// A real server, with the note's own transaction.
    Ranges,
    /// A real server, with statements so short that switching between them is what costs.
    Points,
}

/// How clients reach the real server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Direct,
    /// With the server's own limit, where it still has one.
    InnodbLimit,
    ThreadPool,
    Haproxy,
    /// Flifo's queue, and a backend for each client: the next one's thread in the server is cold.
    FifoBackends,
    /// Flifo's queue, and a few backends that stay hot.
    LifoBackends,
    Pipelined,
    Auto,
}

/// One turn.
pub(super) enum Sample {
    Threads {
        gate: Gate,
        threads: u32,
        figures: Figures,
    },
    Server {
        part: Part,
        route: Route,
        clients: u32,
        turn: Turn,
    },
    /// What could not be measured, and why.
    Failed {
        part: Part,
        route: Route,
        clients: u32,
        why: String,
    },
}

pub(super) enum Stage {
    Threads(Table),
    /// In this order they stop: proxies first.
    Server {
        ways: Vec<(Route, Way)>,
        _servers: Vec<PrivateServer>,
    },
}

impl Flifo {
    pub(super) fn new(options: &LabOptions) -> Self {
        let own = Self::default();
        let clients = |own: Vec<u32>| match options.clients.as_slice() {
            [] => own,
            clients => clients.to_vec(),
        };
        Self {
            rounds: options.rounds.unwrap_or(own.rounds),
            threads_turn: options.length.unwrap_or(own.threads_turn),
            server_turn: options.length.unwrap_or(own.server_turn),
            threads: clients(own.threads),
            clients: clients(own.clients),
            ..own
        }
    }
}

impl Default for Flifo {
    fn default() -> Self {
        Self {
            parts: vec![Part::Threads, Part::Ranges, Part::Points],
            rounds: 2,
            threads_turn: Duration::from_secs(1),
            server_turn: Duration::from_secs(2),
            threads: NOTE_THREADS.to_vec(),
            clients: vec![1, 8, 64, 256, 1024],
            search: Duration::from_secs(10),
        }
    }
}

impl Experiment for Flifo {
    type Treatment = Part;
    type Stage = Stage;
    type Figure = Sample;

    fn about(&self) -> About {
        let threads = self.threads.len() as f64 * Gate::ALL.len() as f64;
        let server = (self.clients.len() * Route::ALL.len()) as f64;
        let time = f64::from(self.rounds)
            * (threads * (self.threads_turn + WARM_UP).as_secs_f64()
                + 2.0 * server * (self.server_turn + WARM_UP + CONNECT).as_secs_f64());
        About {
            name: "flifo",
            question: "Does a server slow down because it runs too much at once, or because it \
                       runs what is cold?",
            seed: "Noted in 2009 of MySQL 5.0.84 on 8 cores: with 1024 threads and a limit on \
                   those that run in InnoDB, first in, first out, it did 255 transactions a second \
                   where 8 threads had done 646: those called took too long to begin. Letting as \
                   many newcomers in as had been called and did not run yet (FLIFO), it did 637, \
                   with a third of the context switches.",
            seconds: (time + 2.0 * (self.search.as_secs_f64() + STARTS)) as u32,
        }
    }

    fn treatments(&self) -> (Vec<Part>, Vec<String>) {
        let missing = HAPROXY.find().err().map(|error| format!("HAProxy was not tried: {error:#}"));
        (self.parts.clone(), missing.into_iter().collect())
    }

    fn name(&self, part: &Part) -> String {
        part.label().to_owned()
    }

    fn set_up(&self, part: &Part, lab: &Lab, _: &mut Undo) -> Result<Stage> {
        match part {
            Part::Threads => Ok(Stage::Threads(Table::new())),
            Part::Ranges | Part::Points => self.start_server(*part, lab),
        }
    }

    fn measure(&self, part: &Part, stage: &mut Stage, lab: &Lab) -> Result<Vec<Sample>> {
        match stage {
            Stage::Threads(table) => self.measure_threads(table, lab),
            Stage::Server { ways, .. } => self.measure_server(*part, ways, lab),
        }
    }

    fn finding(&self, samples: &[Sample]) -> Finding {
        finding::of(samples)
    }
}

impl Flifo {
    fn measure_threads(&self, table: &Table, lab: &Lab) -> Result<Vec<Sample>> {
        let times = (WARM_UP, self.threads_turn);
        let mut samples = Vec::new();
        for _ in 0..self.rounds {
            for &threads in &self.threads {
                for gate in Gate::ALL {
                    let figures = threads::run(table, gate, threads, times, &lab.interrupt)?;
                    samples.push(Sample::Threads { gate, threads, figures });
                }
            }
        }
        Ok(samples)
    }

    fn start_server(&self, part: Part, lab: &Lab) -> Result<Stage> {
        let most = self.clients.iter().copied().max().unwrap_or(1);
        let limit = limit();
        let start = |arguments: &[String]| -> Result<PrivateServer> {
            let builder = PrivateServer::builder();
            let builder = arguments.iter().fold(builder, |it, argument| it.argument(argument));
            let server = builder.argument("--innodb-buffer-pool-size=128M").start()?;
            ways::fill(&server, EXTENT, &lab.interrupt)?;
            Ok(server)
        };
        let server = start(&[])?;
        let pool = start(&["--thread-handling=pool-of-threads".to_owned()])?;
        let mut ways =
            vec![(Route::Direct, Way::direct(&server)?), (Route::ThreadPool, Way::direct(&pool)?)];
        if HAPROXY.find().is_ok() {
            let way = Way::haproxy("haproxy", &server, (limit, most), lab)?;
            ways.push((Route::Haproxy, way));
        }
        for (route, setup) in Route::flifos(limit, most) {
            let way = Way::flifo(&format!("flifo-{}", ways.len()), &server, setup, lab)?;
            if route == Route::Auto {
                self.let_it_search(part, &way, lab)?;
            }
            ways.push((route, way));
        }
        let mut servers = vec![server, pool];
        // Old servers have it; MariaDB 10.11 and later do not.
        if servers[0].sql("SHOW VARIABLES LIKE 'innodb_thread_concurrency'")?.trim() != "" {
            let limited = start(&[format!("--innodb-thread-concurrency={limit}")])?;
            ways.insert(1, (Route::InnodbLimit, Way::direct(&limited)?));
            servers.push(limited);
        }
        Ok(Stage::Server { ways, _servers: servers })
    }

    /// A limit that finds itself is measured once it has had time to.
    fn let_it_search(&self, part: Part, way: &Way, lab: &Lab) -> Result<()> {
        let workload = part.workload(Route::Auto)?;
        let load = Load {
            workload: &workload,
            extent: EXTENT,
            clients: SEARCHING,
            warm_up: Duration::ZERO,
            length: self.search,
            distribution: Distribution::Uniform,
            seed: 0,
        };
        way.turn(load, &lab.interrupt).context("while it looks for its limit").map(|_| ())
    }

    fn measure_server(&self, part: Part, ways: &[(Route, Way)], lab: &Lab) -> Result<Vec<Sample>> {
        let mut samples = Vec::new();
        for round in 0..self.rounds {
            for &clients in &self.clients {
                for (route, way) in ways {
                    let workload = part.workload(*route)?;
                    let load = Load {
                        workload: &workload,
                        extent: EXTENT,
                        clients,
                        warm_up: WARM_UP,
                        length: self.server_turn,
                        distribution: Distribution::Uniform,
                        seed: u64::from(round) + 1,
                    };
                    let route = *route;
                    samples.push(match way.turn(load, &lab.interrupt) {
                        Ok(turn) => Sample::Server { part, route, clients, turn },
                        Err(error) if error.is::<Interrupted>() => return Err(error),
                        Err(error) => {
                            Sample::Failed { part, route, clients, why: format!("{error:#}") }
                        }
                    });
                }
            }
        }
        Ok(samples)
    }
}

impl Part {
    const fn label(self) -> &'static str {
        match self {
            Self::Threads => "a small engine, with threads",
            Self::Ranges => "MariaDB, the note's transaction",
            Self::Points => "MariaDB, short statements",
        }
    }

    fn workload(self, route: Route) -> Result<Workload> {
        let shape = Shape { range_size: 1000, skip_trx: true, ..Shape::default() };
        let name = match self {
            Self::Threads | Self::Ranges => "oltp_read_only",
            Self::Points => "oltp_point_select",
        };
        // HAProxy admits connections, not statements: a client that stays connected would keep the others out.
        let name = match (route, self) {
            (Route::Haproxy, Self::Points) => format!("connect:{name}*{}", work::STATEMENTS),
            (Route::Haproxy, _) => format!("connect:{name}"),
            _ => name.to_owned(),
        };
        Ok(Workload::parse(&name, &shape)?)
    }
}

impl Route {
    const ALL: [Self; 7] = [
        Self::Direct,
        Self::ThreadPool,
        Self::Haproxy,
        Self::FifoBackends,
        Self::LifoBackends,
        Self::Pipelined,
        Self::Auto,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::InnodbLimit => "innodb_thread_concurrency",
            Self::ThreadPool => "MariaDB's thread pool",
            Self::Haproxy => "HAProxy, maxconn",
            Self::FifoBackends => "Flifo, a backend connection for each client",
            Self::LifoBackends => "Flifo, shared backend connections",
            Self::Pipelined => "Flifo, and pipelined",
            Self::Auto => "Flifo, and auto",
        }
    }

    const fn is_flifo(self) -> bool {
        matches!(self, Self::FifoBackends | Self::LifoBackends | Self::Pipelined | Self::Auto)
    }

    /// The ways through Flifo: each has one thing more than the one before.
    fn flifos(limit: u32, clients: u32) -> [(Self, FlifoSetup); 4] {
        let fifo = FlifoSetup {
            limit: Limit::Fixed(limit),
            connections_max: clients + SPARE_BACKENDS,
            pipeline: 1,
            sharing: Sharing::PassThrough,
            ..FlifoSetup::USUAL
        };
        let lifo = FlifoSetup { connections_max: 2 * limit, sharing: Sharing::Pooled, ..fifo };
        let pipelined = FlifoSetup { pipeline: 8, ..lifo };
        let auto = FlifoSetup { limit: Limit::Auto, connections_max: 128, ..pipelined };
        [
            (Self::FifoBackends, fifo),
            (Self::LifoBackends, lifo),
            (Self::Pipelined, pipelined),
            (Self::Auto, auto),
        ]
    }
}

/// Statements at once, wherever a number is needed: four for each CPU, as the note had.
fn limit() -> u32 {
    4 * std::thread::available_parallelism().map_or(1, |count| count.get() as u32)
}

/// The note's columns.
const NOTE_THREADS: [u32; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
const WARM_UP: Duration = Duration::from_millis(300);
/// What clients need to come and go, about.
const CONNECT: Duration = Duration::from_millis(700);
/// Two servers with their tables and four proxies, in seconds.
const STARTS: f64 = 20.0;
const SEARCHING: u32 = 64;
const SPARE_BACKENDS: u32 = 16;
const EXTENT: Extent = Extent { tables: 4, rows: 25_000 };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_less_than_a_quarter_of_an_hour() {
        let own = Experiment::about(&Flifo::default()).seconds;
        assert!((300..900).contains(&own), "{own}");
        let short = LabOptions {
            rounds: Some(1),
            length: Some(Duration::from_millis(500)),
            clients: vec![64],
        };
        assert!(Experiment::about(&Flifo::new(&short)).seconds < own / 5);
    }

    #[test]
    fn each_way_through_flifo_has_one_thing_more() {
        let [fifo, lifo, pipelined, auto] = Route::flifos(8, 1024).map(|(_, setup)| setup);
        assert_eq!((fifo.sharing, lifo.sharing), (Sharing::PassThrough, Sharing::Pooled));
        assert!(fifo.connections_max > 1024 && lifo.connections_max < 64);
        assert_eq!((lifo.pipeline, pipelined.pipeline), (1, 8));
        assert_eq!((pipelined.limit, auto.limit), (Limit::Fixed(8), Limit::Auto));
    }

    #[test]
    fn every_route_asks_the_same_of_the_server() {
        for part in [Part::Ranges, Part::Points] {
            for route in Route::ALL {
                let workload = part.workload(route).expect("parses");
                assert_eq!(workload.per_connection.is_some(), route == Route::Haproxy);
            }
        }
    }
}
