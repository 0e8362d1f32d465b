//! `lab sharing`: what many clients ask at the same time is run once, and what that gains.
//!
//! Owns the loads and the ways to the server; what the figures say is put into words in [`finding`]. Invariants: all ways
//! are up at the same time and take turns; a turn that fails is told, and costs the others nothing; how often a statement
//! was run is counted by the server, not by Flifo.

mod finding;

use std::time::Duration;

use anyhow::{Context, Result};

use super::experiment::{About, Experiment, Finding, Lab, LabOptions};
use super::undo::Undo;
use super::ways::{self, FlifoSetup, Limit, Load, Turn, Way};
use crate::interrupt::Interrupted;
use crate::private_server::PrivateServer;
use crate::workloads::random::Distribution;
use crate::workloads::tables::Extent;
use crate::workloads::{Shape, Workload};

/// The experiment, and how long it takes its time.
#[derive(Clone, Debug)]
pub(super) struct SharedReads {
    rounds: u32,
    turn: Duration,
    clients: Vec<u32>,
}

/// What clients ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// All of them the same, for which the server works long.
    Stampede,
    /// One row each, some rows much more often than others.
    Zipfian,
    /// One row each, each as often as any other.
    Uniform,
}

/// How clients reach the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Direct,
    Off,
    On,
    /// Shared, and a slot for each client: none stands in the queue.
    FreeSlots,
}

/// One turn.
pub(super) struct Sample {
    asked: Asked,
    route: Route,
    clients: u32,
    turn: Turn,
    /// How many statements the server ran meanwhile.
    runs: u64,
}

pub(super) struct Stage {
    /// In this order they stop: proxies first.
    ways: Vec<(Route, Way)>,
    server: PrivateServer,
    workload: Workload,
}

impl SharedReads {
    pub(super) fn new(options: &LabOptions) -> Self {
        let own = Self::default();
        let clients = match options.clients.as_slice() {
            [] => own.clients,
            clients => clients.to_vec(),
        };
        Self {
            rounds: options.rounds.unwrap_or(own.rounds),
            turn: options.length.unwrap_or(own.turn),
            clients,
        }
    }
}

impl Default for SharedReads {
    fn default() -> Self {
        Self { rounds: 3, turn: Duration::from_secs(2), clients: vec![8, 64, 512] }
    }
}

impl Experiment for SharedReads {
    type Treatment = Asked;
    type Stage = Stage;
    /// Or why it was not measured.
    type Figure = Result<Sample, String>;

    fn about(&self) -> About {
        let turns = (self.rounds as usize * self.clients.len() * Route::ALL.len()) as f64;
        let loads = turns * (self.turn + WARM_UP + CONNECT).as_secs_f64() + STARTS;
        About {
            name: "sharing",
            question: "What is gained if a read that many clients ask at the same time is run once for all of them?",
            seed: "Measured in November 2026, before Flifo shared reads: 512 clients that asked for the same sum over \
                   2000 rows got 1.09 times as many answers through Flifo as directly, as the server ran each statement \
                   by itself.",
            seconds: (Asked::ALL.len() as f64 * loads) as u32,
        }
    }

    fn treatments(&self) -> (Vec<Asked>, Vec<String>) {
        (Asked::ALL.to_vec(), Vec::new())
    }

    fn name(&self, asked: &Asked) -> String {
        asked.label().to_owned()
    }

    fn set_up(&self, asked: &Asked, lab: &Lab, _: &mut Undo) -> Result<Stage> {
        let server = PrivateServer::builder()
            .argument("--innodb-buffer-pool-size=128M")
            .argument("--max-connections=4500")
            .start()?;
        ways::fill(&server, EXTENT, &lab.interrupt)?;
        let workload = Workload::parse(asked.workload(), &Shape::default())?;
        let most = self.clients.iter().copied().max().unwrap_or(1);
        let mut ways = vec![(Route::Direct, Way::direct(&server)?)];
        for (route, setup) in Route::flifos(slots(), most) {
            let way = Way::flifo(&format!("flifo-{}", ways.len()), &server, setup, lab)?;
            ways.push((route, way));
        }
        Ok(Stage { ways, server, workload })
    }

    fn measure(
        &self,
        asked: &Asked,
        stage: &mut Stage,
        lab: &Lab,
    ) -> Result<Vec<Result<Sample, String>>> {
        let mut samples = Vec::new();
        for round in 0..self.rounds {
            for &clients in &self.clients {
                let turns = stage.ways.len();
                for at in 0..turns {
                    // Each round begins with another one.
                    let (route, way) = &stage.ways[(at + round as usize) % turns];
                    let load = Load {
                        workload: &stage.workload,
                        extent: EXTENT,
                        clients,
                        warm_up: WARM_UP,
                        length: self.turn,
                        distribution: asked.distribution(),
                        seed: u64::from(round) + 1,
                    };
                    let before = runs(&stage.server)?;
                    samples.push(match way.turn(load, &lab.interrupt) {
                        Ok(turn) => {
                            // All have their answers: what was run was run for them, but for what Flifo asks.
                            let runs = runs(&stage.server)?.saturating_sub(before);
                            let (asked, route) = (*asked, *route);
                            Ok(Sample { asked, route, clients, turn, runs })
                        }
                        Err(error) if error.is::<Interrupted>() => return Err(error),
                        Err(error) => Err(format!(
                            "{}, {clients} clients, {}: {error:#}.",
                            asked.label(),
                            route.name()
                        )),
                    });
                }
            }
        }
        Ok(samples)
    }

    fn finding(&self, samples: &[Result<Sample, String>]) -> Finding {
        finding::of(samples)
    }
}

/// How many SELECTs the server has run.
fn runs(server: &PrivateServer) -> Result<u64> {
    let row = server.sql("SHOW GLOBAL STATUS LIKE 'Com_select'")?;
    let count = row.split_whitespace().last().and_then(|count| count.parse().ok());
    count.with_context(|| format!("the server does not say what it ran: {row:?}"))
}

impl Asked {
    const ALL: [Self; 3] = [Self::Stampede, Self::Zipfian, Self::Uniform];

    const fn label(self) -> &'static str {
        match self {
            Self::Stampede => "the same sum, asked by all",
            Self::Zipfian => "single rows, some of them hot",
            Self::Uniform => "single rows, all alike",
        }
    }

    const fn workload(self) -> &'static str {
        match self {
            Self::Stampede => "stampede",
            Self::Zipfian | Self::Uniform => "oltp_point_select",
        }
    }

    const fn distribution(self) -> Distribution {
        match self {
            Self::Zipfian => Distribution::Zipfian,
            Self::Stampede | Self::Uniform => Distribution::Uniform,
        }
    }
}

impl Route {
    const ALL: [Self; 4] = [Self::Direct, Self::Off, Self::On, Self::FreeSlots];

    const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Off => "Flifo, not shared",
            Self::On => "Flifo, shared",
            Self::FreeSlots => "Flifo, shared, a slot for each client",
        }
    }

    /// The ways through Flifo: each has one thing more than the one before.
    fn flifos(slots: u32, clients: u32) -> [(Self, FlifoSetup); 3] {
        let off = FlifoSetup {
            limit: Limit::Fixed(slots),
            connections_max: 2 * slots,
            ..FlifoSetup::USUAL
        };
        let on = FlifoSetup { share_reads: "on", ..off };
        let free = FlifoSetup {
            limit: Limit::Fixed(clients + SPARE),
            connections_max: clients + SPARE,
            ..on
        };
        [(Self::Off, off), (Self::On, on), (Self::FreeSlots, free)]
    }
}

/// Statements at once: four for each CPU.
fn slots() -> u32 {
    4 * std::thread::available_parallelism().map_or(1, |count| count.get() as u32)
}

/// One table, so that all clients mean the same rows.
const EXTENT: Extent = Extent { tables: 1, rows: 100_000 };
/// Where each client has a slot, as many backend connections are opened meanwhile.
const WARM_UP: Duration = Duration::from_secs(1);
/// What clients need to come and go, about.
const CONNECT: Duration = Duration::from_millis(700);
/// A server with its table and three proxies, in seconds.
const STARTS: f64 = 10.0;
const SPARE: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_less_than_a_quarter_of_an_hour() {
        let own = Experiment::about(&SharedReads::default()).seconds;
        assert!((120..900).contains(&own), "{own}");
        let short = LabOptions {
            rounds: Some(1),
            length: Some(Duration::from_millis(500)),
            clients: vec![64],
        };
        assert!(Experiment::about(&SharedReads::new(&short)).seconds < own / 5);
    }

    #[test]
    fn each_way_through_flifo_has_one_thing_more() {
        let [off, on, free] = Route::flifos(8, 512).map(|(_, setup)| setup);
        assert_eq!((off.share_reads, on.share_reads), ("off", "on"));
        assert_eq!(FlifoSetup { share_reads: "off", ..on }, off);
        let Limit::Fixed(slots) = free.limit else { panic!("{free:?}") };
        assert!(slots > 512 && free.connections_max > 512, "no client waits");
        let few = FlifoSetup { limit: on.limit, connections_max: on.connections_max, ..free };
        assert_eq!(few, on);
    }

    #[test]
    fn all_ask_the_same_sum_and_other_rows_with_other_shares() {
        let mut random = crate::workloads::random::Random::new(1);
        for asked in Asked::ALL {
            let workload = Workload::parse(asked.workload(), &Shape::default()).expect("parses");
            assert_eq!(workload.statements.len(), 1, "{asked:?}");
        }
        let mut hot = |asked: Asked| {
            let ids = (0..1000).map(|_| asked.distribution().draw(&mut random, 1, EXTENT.rows));
            ids.filter(|id| *id <= 100).count()
        };
        let (zipfian, uniform) = (hot(Asked::Zipfian), hot(Asked::Uniform));
        assert!(zipfian > 100 && uniform < 20, "{zipfian} {uniform}");
    }
}
