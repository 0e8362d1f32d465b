//! `lab starvation`: a proxy that the kernel is fair to, and what may be done about it.
//!
//! Repeats the note's set-up on one machine: a server, many clients, and a Flifo of one worker that has a backend for
//! each client. Owns the loads and the treatments; what the figures say is put into words in [`finding`]. Invariants:
//! the treatments take turns, each with a Flifo of its own that undoes what it has changed when it ends; what the
//! kernel groups by sessions is not grouped meanwhile, where that can be changed, and is afterwards.

mod finding;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::experiment::{About, Experiment, Finding, Lab, LabOptions};
use super::undo::Undo;
use super::ways::{self, FlifoSetup, Limit, Load, Sharing, Turn, Way};
use crate::private_server::PrivateServer;
use crate::workloads::random::Distribution;
use crate::workloads::tables::Extent;
use crate::workloads::{Shape, Workload};

/// The experiment, and how long it takes its time.
#[derive(Clone, Debug)]
pub(super) struct Starvation {
    cases: Vec<Case>,
    rounds: u32,
    turn: Duration,
    clients: u32,
    /// How long `auto` may try remedies before it is measured, at most.
    settle: Duration,
}

/// How much of a CPU the proxy needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    /// The server works long for each statement.
    Light,
    /// The server works no longer for a statement than the proxy: the proxy needs a whole CPU, as the note's did.
    Heavy,
}

/// What is done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    Nothing,
    Batch,
    Priority,
    PrivateCore,
    /// Few statements at once, on few backends that stay hot.
    OwnCap,
    Auto,
}

/// One turn.
pub(super) struct Sample {
    case: Case,
    remedy: Remedy,
    turn: Turn,
    /// What Flifo's placement has said.
    said: Said,
    /// Nothing was on trial any more.
    has_settled: bool,
}

/// What is read from Flifo's log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Said {
    /// What was tried and helped, or did not.
    helped: Vec<String>,
    useless: Vec<String>,
    refused: bool,
}

pub(super) struct Stage {
    server: PrivateServer,
    workload: Workload,
}

impl Starvation {
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

impl Starvation {
    /// Keeps `auto` under load until it has tried what it wants to try. Says whether it has.
    fn settle(&self, way: &Way, load: Load<'_>, lab: &Lab) -> Result<bool> {
        let load = Load { warm_up: Duration::ZERO, length: self.settle, ..load };
        let (mut last, mut since) = (None, Instant::now());
        let has_settled = || {
            let now = Said::of_trials(&way.log());
            if now != last {
                (last, since) = (now, Instant::now());
            }
            !Said::is_trying(last.as_deref()) && since.elapsed() > SILENCE
        };
        way.occupy(load, has_settled, &lab.interrupt)
    }
}

impl Default for Starvation {
    fn default() -> Self {
        Self {
            cases: Case::ALL.to_vec(),
            rounds: 3,
            turn: Duration::from_secs(3),
            clients: 100,
            settle: Duration::from_secs(240),
        }
    }
}

impl Experiment for Starvation {
    type Treatment = Case;
    type Stage = Stage;
    type Figure = Sample;

    fn about(&self) -> About {
        let turns = Remedy::ALL.len() as f64 * (self.turn + WARM_UP + CONNECT).as_secs_f64();
        let round = turns + SETTLES;
        let cases = self.cases.len() as f64;
        About {
            name: "starvation",
            question: "Does the kernel's fairness starve a proxy that feeds a hundred threads?",
            seed: "Noted in July 2011 of a proxy of one thread in front of MySQL on 16 virtual cores: the server used \
                   750 % of the CPUs and the proxy 30 %, half of the machine idled, whatever the number of clients. \
                   With a core of its own the proxy used nearly 100 %, the server close to 1500 %, and nothing idled.",
            seconds: (cases * (f64::from(self.rounds) * round + STARTS)) as u32,
        }
    }

    fn treatments(&self) -> (Vec<Case>, Vec<String>) {
        (self.cases.clone(), Vec::new())
    }

    fn name(&self, case: &Case) -> String {
        case.label().to_owned()
    }

    fn set_up(&self, case: &Case, lab: &Lab, undo: &mut Undo) -> Result<Stage> {
        let server = PrivateServer::builder()
            .argument("--innodb-buffer-pool-size=128M")
            .argument("--max-connections=4500")
            .start()?;
        ways::fill(&server, EXTENT, &lab.interrupt)?;
        let state = FlifoSetup::state_file(NAME, &server);
        let flifo = lab.flifo.clone();
        undo.later("how threads are scheduled", move || restore(&flifo, &state));
        ungroup(undo)?;
        let workload = case.workload(&server)?;
        Ok(Stage { server, workload })
    }

    fn measure(&self, case: &Case, stage: &mut Stage, lab: &Lab) -> Result<Vec<Sample>> {
        let mut samples = Vec::new();
        for round in 0..self.rounds {
            for at in 0..Remedy::ALL.len() {
                // Each round begins with another one.
                let remedy = Remedy::ALL[(at + round as usize) % Remedy::ALL.len()];
                let setup = remedy.setup(self.clients);
                let way = Way::flifo(NAME, &stage.server, setup, lab)?;
                let load = Load {
                    workload: &stage.workload,
                    extent: EXTENT,
                    clients: self.clients,
                    warm_up: WARM_UP,
                    length: self.turn,
                    distribution: Distribution::Uniform,
                    seed: u64::from(round) + 1,
                };
                let has_settled = remedy != Remedy::Auto || self.settle(&way, load, lab)?;
                let turn = way.turn(load, &lab.interrupt)?;
                let said = Said::read(&way.log());
                samples.push(Sample { case: *case, remedy, turn, said, has_settled });
            }
        }
        Ok(samples)
    }

    fn finding(&self, samples: &[Sample]) -> Finding {
        finding::of(samples)
    }
}

/// Has the kernel share CPUs among threads and not among sessions: everything that is started here has a session of its
/// own, as services have, and a service of one thread would have as much as one of a hundred.
fn ungroup(undo: &mut Undo) -> Result<()> {
    match std::fs::read_to_string(GROUPS) {
        Ok(text) if text.trim() == "1" => {}
        // It is off, or this kernel does not do it.
        _ => return Ok(()),
    }
    undo.later("the kernel's groups of sessions", || {
        std::fs::write(GROUPS, "1").with_context(|| format!("cannot write {GROUPS}"))
    });
    // A user without the right to change it measures what sessions get; the notes of the figures say so.
    let _ = std::fs::write(GROUPS, "0");
    Ok(())
}

/// Undoes what a Flifo has left that did not end by itself.
fn restore(flifo: &PathBuf, state: &PathBuf) -> Result<()> {
    if !state.exists() {
        return Ok(());
    }
    let mut command = Command::new(flifo);
    command.args(["placement", "restore", "--state"]).arg(state);
    let output = command.output().context("cannot run flifo placement restore")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

impl Case {
    const ALL: [Self; 2] = [Self::Light, Self::Heavy];

    const fn label(self) -> &'static str {
        match self {
            Self::Light => "the server works long for a statement",
            Self::Heavy => "the proxy works as long as the server",
        }
    }

    const fn script(self) -> &'static str {
        match self {
            Self::Light => {
                "SELECT SUM(k) FROM (SELECT k FROM sbtest{table} WHERE id >= {id} ORDER BY id LIMIT 100) AS some;\n"
            }
            Self::Heavy => "DO 0;\n",
        }
    }

    fn workload(self, server: &PrivateServer) -> Result<Workload> {
        let path = server.folder().join(format!("{self:?}.sql"));
        std::fs::write(&path, self.script())?;
        Ok(Workload::parse(&format!("script:{}", path.display()), &Shape::default())?)
    }
}

impl Remedy {
    const ALL: [Self; 6] =
        [Self::Nothing, Self::Batch, Self::Priority, Self::PrivateCore, Self::OwnCap, Self::Auto];

    const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Batch => "server batch",
            Self::Priority => "priority (nice)",
            Self::PrivateCore => "private core",
            Self::OwnCap => "Flifo's own cap",
            Self::Auto => "auto",
        }
    }

    fn setup(self, clients: u32) -> FlifoSetup {
        let cpus = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
        let base = FlifoSetup {
            limit: Limit::Fixed(clients + SPARE),
            connections_max: clients + SPARE,
            pipeline: 1,
            sharing: Sharing::PassThrough,
            ..FlifoSetup::USUAL
        };
        let placed = |placement| FlifoSetup { placement, ..base };
        match self {
            Self::Nothing => base,
            Self::Batch => placed("batch"),
            Self::Priority => placed("priority"),
            Self::PrivateCore => placed("private-core"),
            Self::Auto => placed("auto"),
            Self::OwnCap => FlifoSetup {
                limit: Limit::Fixed(CAP * cpus),
                connections_max: 2 * CAP * cpus,
                sharing: Sharing::Pooled,
                ..base
            },
        }
    }
}

impl Said {
    /// What was told last of trials.
    fn of_trials(log: &str) -> Option<String> {
        let is_told = |line: &&str| TRIES.iter().any(|told| line.contains(told));
        log.lines().rfind(is_told).map(str::to_owned)
    }

    /// Whether a remedy is on trial, if this was told last.
    fn is_trying(last: Option<&str>) -> bool {
        last.is_some_and(|line| line.contains(TRIES[0]) || line.contains(UNCLEAR))
    }

    fn read(log: &str) -> Self {
        let mut said =
            Self { refused: log.contains("placement is not possible"), ..Self::default() };
        // What is not clear yet is tried again.
        let is_clear = |line: &&str| line.contains(TRIES[1]) && !line.contains(UNCLEAR);
        for line in log.lines().filter(is_clear) {
            let remedy =
                ["batch", "priority", "private core"].into_iter().find(|it| line.contains(it));
            let Some(remedy) = remedy.map(str::to_owned) else { continue };
            match line.contains("Helped") {
                true => said.helped.push(remedy),
                false => said.useless.push(remedy),
            }
        }
        said
    }
}

/// How the log tells that a trial begins, and ends in one of two ways; and of an end that it goes on.
const TRIES: [&str; 3] = ["placement tries", "placement has tried", "placement does not try"];
const UNCLEAR: &str = "Hidden";
/// A starved Flifo that has a remedy left to try begins the trial sooner than this, as a rule.
const SILENCE: Duration = Duration::from_secs(30);
/// What `auto` needs, more or less, in seconds.
const SETTLES: f64 = 100.0;
const GROUPS: &str = "/proc/sys/kernel/sched_autogroup_enabled";
const NAME: &str = "flifo";
/// Statements at once for each CPU, where Flifo caps them.
const CAP: u32 = 8;
const SPARE: u32 = 16;
const EXTENT: Extent = Extent { tables: 4, rows: 25_000 };
const WARM_UP: Duration = Duration::from_secs(1);
const CONNECT: Duration = Duration::from_secs(1);
/// A server with its tables, in seconds.
const STARTS: f64 = 8.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_less_than_a_quarter_of_an_hour() {
        let own = Experiment::about(&Starvation::default()).seconds;
        assert!((120..900).contains(&own), "{own}");
    }

    #[test]
    fn treatments_differ_from_nothing_in_one_thing() {
        let base = Remedy::Nothing.setup(100);
        assert_eq!((base.placement, base.sharing), ("off", Sharing::PassThrough));
        for remedy in [Remedy::Batch, Remedy::Priority, Remedy::PrivateCore, Remedy::Auto] {
            let setup = remedy.setup(100);
            assert_ne!(setup.placement, "off");
            assert_eq!(FlifoSetup { placement: "off", ..setup }, base);
        }
        assert_eq!(Remedy::OwnCap.setup(100).sharing, Sharing::Pooled);
    }

    #[test]
    fn what_placement_said_is_read_from_its_log() {
        let log = "{\"message\":\"placement tries\",\"remedy\":\"batch\"}\n\
                   {\"message\":\"placement has tried\",\"remedy\":\"batch\",\"proof\":\"Useless { rate: 1.0 }\"}\n\
                   {\"message\":\"placement has tried\",\"remedy\":\"priority\",\"proof\":\"Helped { rate: 1.2 }\"}\n";
        let want = Said {
            helped: vec!["priority".to_owned()],
            useless: vec!["batch".to_owned()],
            refused: false,
        };
        assert_eq!(Said::read(log), want);
        let is_trying = |log: &str| Said::is_trying(Said::of_trials(log).as_deref());
        assert!(!is_trying("") && !is_trying(log));
        let more = log.to_owned() + "{\"message\":\"placement tries\"}\n{\"message\":\"more\"}\n";
        assert!(is_trying(&more));
        assert!(!is_trying(&(more + "{\"message\":\"placement does not try: why\"}\n")));
        assert!(is_trying(&log.replace("Helped", UNCLEAR)));
    }

    #[test]
    fn scripts_are_workloads() {
        let folder = tempfile::tempdir().expect("makes");
        for case in Case::ALL {
            let path = folder.path().join("s.sql");
            std::fs::write(&path, case.script()).expect("writes");
            let name = format!("script:{}", path.display());
            let workload = Workload::parse(&name, &Shape::default()).expect("parses");
            assert_eq!(workload.statements.len(), 1, "{case:?}");
        }
    }
}
