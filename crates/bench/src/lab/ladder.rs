//! `lab ladder`: one remedy on top of the other, and what each one gains.
//!
//! Repeats the note's way of working with what a server and a proxy of today have. Owns the steps; what the figures say
//! is put into words in [`finding`]. Invariants: steps take turns, each with a Flifo of its own; what a step changes on
//! the machine is undone before the next one begins.

mod finding;

use std::time::Duration;

use anyhow::Result;

use super::experiment::{About, Experiment, Finding, Lab, LabOptions};
use super::undo::Undo;
use super::ways::{self, Door, FlifoSetup, Limit, Load, Sharing, Turn, Way};
use crate::private_server::PrivateServer;
use crate::workloads::random::Distribution;
use crate::workloads::tables::Extent;
use crate::workloads::{Shape, Workload};

/// The experiment, and how long it takes its time.
#[derive(Clone, Debug)]
pub(super) struct Ladder {
    rounds: u32,
    turn: Duration,
    clients: u32,
}

/// What is done in addition to all that stands before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// One worker, one backend over TCP, one statement at a time.
    Start,
    /// The CPUs' frequency no longer follows the load.
    Governor,
    Workers,
    Backends,
    Pipeline,
    Limit,
    Placement,
    Socket,
}

/// One turn.
pub(super) struct Sample {
    step: Step,
    turn: Turn,
}

pub(super) struct Stage {
    server: PrivateServer,
    workload: Workload,
    steps: Vec<Step>,
}

/// Why a step cannot be taken here.
struct Missing {
    step: Step,
    why: &'static str,
}

impl Ladder {
    pub(super) fn new(options: &LabOptions) -> Self {
        let own = Self::default();
        Self {
            rounds: options.rounds.unwrap_or(own.rounds),
            turn: options.length.unwrap_or(own.turn),
            clients: options.clients.first().copied().unwrap_or(own.clients),
        }
    }
}

impl Default for Ladder {
    fn default() -> Self {
        Self { rounds: 5, turn: Duration::from_secs(3), clients: 64 }
    }
}

impl Experiment for Ladder {
    type Treatment = ();
    type Stage = Stage;
    type Figure = Sample;

    fn about(&self) -> About {
        let steps = Step::ALL.len() as f64;
        let turn = (self.turn + WARM_UP + CONNECT).as_secs_f64();
        About {
            name: "ladder",
            question: "Which of the machine's and the proxy's settings make a server faster, and by how much?",
            seed: "Noted in September 2010 of MySQL Cluster under sysbench: no power management and eight threads \
                   made 3.5 times as much, eight connections of the server to the data nodes instead of one made \
                   twice that, threads locked to CPUs 1.8 times that: 14 times in all.",
            seconds: (f64::from(self.rounds) * steps * turn + STARTS) as u32,
        }
    }

    fn treatments(&self) -> (Vec<()>, Vec<String>) {
        let note = |it: &Missing| format!("{}: {}.", it.step.name(), it.why);
        (vec![()], missing().iter().map(note).collect())
    }

    fn name(&self, (): &()) -> String {
        "all steps, by turns".to_owned()
    }

    fn set_up(&self, (): &(), lab: &Lab, _: &mut Undo) -> Result<Stage> {
        let server = PrivateServer::builder()
            .argument("--innodb-buffer-pool-size=128M")
            .argument("--max-connections=4500")
            .start()?;
        ways::fill(&server, EXTENT, &lab.interrupt)?;
        let workload = Workload::parse("oltp_point_select", &Shape::default())?;
        let missing = missing();
        let is_there = |step: &Step| !missing.iter().any(|it| it.step == *step);
        let steps = Step::ALL.into_iter().filter(is_there).collect();
        Ok(Stage { server, workload, steps })
    }

    fn measure(&self, (): &(), stage: &mut Stage, lab: &Lab) -> Result<Vec<Sample>> {
        let mut samples = Vec::new();
        for round in 0..self.rounds {
            for step in &stage.steps {
                let mut undo = Undo::new(&lab.interrupt);
                if *step >= Step::Governor && stage.steps.contains(&Step::Governor) {
                    perform(&mut undo)?;
                }
                let setup = step.setup(self.clients);
                let way = Way::flifo("flifo", &stage.server, setup, lab)?;
                let load = Load {
                    workload: &stage.workload,
                    extent: EXTENT,
                    clients: self.clients,
                    warm_up: WARM_UP,
                    length: self.turn,
                    distribution: Distribution::Uniform,
                    seed: u64::from(round) + 1,
                };
                let turn = way.turn(load, &lab.interrupt)?;
                samples.push(Sample { step: *step, turn });
                drop(way);
                undo.unwind()?;
            }
        }
        Ok(samples)
    }

    fn finding(&self, samples: &[Sample]) -> Finding {
        finding::of(samples)
    }
}

/// The files that hold the CPUs' governors.
fn governors() -> Vec<std::path::PathBuf> {
    let folders = std::fs::read_dir("/sys/devices/system/cpu/cpufreq").into_iter().flatten();
    let files = folders.flatten().map(|folder| folder.path().join("scaling_governor"));
    files.filter(|file| file.exists()).collect()
}

fn missing() -> Vec<Missing> {
    let mut missing = Vec::new();
    let set: Vec<_> = governors().iter().flat_map(std::fs::read_to_string).collect();
    if set.is_empty() {
        let why = "this machine shows no frequencies; its host decides";
        missing.push(Missing { step: Step::Governor, why });
    } else if set.iter().all(|governor| governor.trim() == "performance") {
        let why = "the governor is \"performance\" already";
        missing.push(Missing { step: Step::Governor, why });
    } else if !sys::process::is_root() {
        missing.push(Missing { step: Step::Governor, why: "only root may set it" });
    }
    if std::thread::available_parallelism().map_or(1, usize::from) == 1 {
        missing.push(Missing { step: Step::Workers, why: "there is one CPU" });
    }
    missing
}

/// Has all CPUs run at full speed.
fn perform(undo: &mut Undo) -> Result<()> {
    for file in governors() {
        let before = std::fs::read_to_string(&file)?;
        let again = file.clone();
        undo.later(format!("the governor {}", before.trim()), move || {
            Ok(std::fs::write(again, before.trim())?)
        });
        std::fs::write(file, "performance")?;
    }
    Ok(())
}

impl Step {
    const ALL: [Self; 8] = [
        Self::Start,
        Self::Governor,
        Self::Workers,
        Self::Backends,
        Self::Pipeline,
        Self::Limit,
        Self::Placement,
        Self::Socket,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Start => "one of everything, over TCP",
            Self::Governor => "governor performance",
            Self::Workers => "two workers",
            Self::Backends => "backends 1 → 8",
            Self::Pipeline => "pipelining",
            Self::Limit => "limit 4 for each CPU",
            Self::Placement => "server batch",
            Self::Socket => "Unix socket",
        }
    }

    /// With all that stands before it.
    fn setup(self, clients: u32) -> FlifoSetup {
        let cpus = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
        let from = |step, with: u32, without: u32| if self >= step { with } else { without };
        let backends = match self {
            step if step >= Self::Limit => 8 * cpus,
            step if step >= Self::Backends => 8,
            _ => 1,
        };
        FlifoSetup {
            limit: Limit::Fixed(from(Self::Limit, 4 * cpus, clients)),
            connections_max: backends,
            pipeline: from(Self::Pipeline, 8, 1),
            sharing: Sharing::Pooled,
            workers: from(Self::Workers, 2, 1),
            server: if self >= Self::Socket { Door::Socket } else { Door::Tcp },
            placement: if self >= Self::Placement { "batch" } else { "off" },
            ..FlifoSetup::USUAL
        }
    }
}

const EXTENT: Extent = Extent { tables: 4, rows: 25_000 };
const WARM_UP: Duration = Duration::from_secs(1);
const CONNECT: Duration = Duration::from_millis(700);
/// A server with its tables, in seconds.
const STARTS: f64 = 8.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_adds_one_thing() {
        let setups = Step::ALL.map(|step| step.setup(64));
        let start = setups[0];
        assert_eq!((start.workers, start.connections_max, start.pipeline), (1, 1, 1));
        assert_eq!((start.server, start.placement), (Door::Tcp, "off"));
        // The governor is none of Flifo's.
        assert_eq!(setups[0], setups[1]);
        for pair in setups[1..].windows(2) {
            assert_ne!(pair[0], pair[1]);
        }
        let last = setups[7];
        assert_eq!((last.server, last.placement, last.pipeline), (Door::Socket, "batch", 8));
    }

    #[test]
    fn it_takes_less_than_a_quarter_of_an_hour() {
        let own = Experiment::about(&Ladder::default()).seconds;
        assert!((60..900).contains(&own), "{own}");
    }
}
