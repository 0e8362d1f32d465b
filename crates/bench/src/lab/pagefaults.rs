//! `lab pagefaults`: a large buffer, taken anew for each connection, and what the allocator does.
//!
//! Repeats a report of 2006 on the MariaDB of today: the same variable, the same two sizes, the
//! allocator as it comes and as it was then. Owns what is changed and how it is loaded; what the
//! figures say is put into words in [`finding`]. Invariant: only servers of its own are changed,
//! and they end with their treatment.

mod finding;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use backend::login::Credential;

use super::experiment::{About, Experiment, Finding, Lab};
use super::undo::Undo;
use crate::figures::accounts::Accounts;
use crate::load::{self, Account, Order};
use crate::private_server::PrivateServer;
use crate::results::{Arrivals, Pacing, Process, ProcessFigures, Protocol, Role};
use crate::targets::{Setup, Target, TargetKind};
use crate::workloads::Workload;
use crate::workloads::random::Distribution;

/// The experiment, and how long it takes its time.
#[derive(Clone, Debug)]
pub struct PageFaults {
    pub treatments: Vec<PageFaultsTreatment>,
    /// How often each way has its turn, and for how long.
    pub rounds: u32,
    pub round: Duration,
}

/// A server, and what it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageFaultsTreatment {
    /// The report's own statement, where the allocator does its worst.
    Plain,
    SmallToday,
    LargeToday,
    SmallFixed,
    /// First case: the allocator as it was in 2006.
    LargeFixed,
    /// Second case: larger than what the allocator learns.
    Beyond,
    /// What the third case is compared with.
    MiddleToday,
    /// Third case: another allocator.
    Jemalloc,
}

/// From the client to the server, and how often.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Way {
    route: TargetKind,
    pace: Pace,
}

/// When the one client connects again.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Pace {
    /// So many times a second, at even distances; what is late is caught up with.
    Rate(f64),
    FullSpeed,
    /// Never: it asks at full speed, and stays.
    Staying,
}

/// One turn. Figures are those of one round of connecting, asking and leaving.
pub struct Sample {
    treatment: PageFaultsTreatment,
    way: Way,
    a_second: f64,
    server: ProcessFigures,
    flifo: Option<ProcessFigures>,
    /// Whether others had much of the machine meanwhile.
    is_disturbed: bool,
}

/// A server, and Flifo in front of it. In this order they stop.
pub struct PageFaultsStage {
    flifo: Target,
    direct: Target,
    server: PrivateServer,
}

impl Default for PageFaults {
    fn default() -> Self {
        Self {
            treatments: PageFaultsTreatment::ALL.to_vec(),
            rounds: 3,
            round: Duration::from_millis(1500),
        }
    }
}

impl Experiment for PageFaults {
    type Treatment = PageFaultsTreatment;
    type Stage = PageFaultsStage;
    type Figure = Sample;

    fn about(&self) -> About {
        About {
            name: "pagefaults",
            question: "What does a large buffer cost an application that connects for each page?",
            seed: "Reported in 2006: a PHP application connected 60 to 100 times a second, each \
                   time for an INSERT. With read_buffer at 5 MB the profile was full of page \
                   faults, and the server took about 100 % of one CPU more than with 128 KB. Its C \
                   library, glibc 2.3.4, fetched every block from 128 or 256 KB on from the kernel, \
                   and gave it back at once.",
            seconds: 200,
        }
    }

    fn treatments(&self) -> (Vec<PageFaultsTreatment>, Vec<String>) {
        let mut notes: Vec<String> = ALLOCATOR_VARIABLES
            .into_iter()
            .filter(|name| std::env::var_os(name).is_some())
            .map(|name| format!("{name} is set in the environment, and the servers inherit it."))
            .collect();
        let mut treatments = self.treatments.clone();
        if treatments.contains(&PageFaultsTreatment::Jemalloc) && jemalloc().is_none() {
            treatments.retain(|it| *it != PageFaultsTreatment::Jemalloc);
            notes.push(
                "jemalloc is not installed, so the third case was not tried. Debian has it in \
                 libjemalloc2."
                    .to_owned(),
            );
        }
        (treatments, notes)
    }

    fn name(&self, treatment: &PageFaultsTreatment) -> String {
        treatment.label().to_owned()
    }

    fn set_up(
        &self,
        treatment: &PageFaultsTreatment,
        lab: &Lab,
        _: &mut Undo,
    ) -> Result<PageFaultsStage> {
        let mut builder = PrivateServer::builder()
            .argument(format!("--read-buffer-size={}", treatment.buffer()))
            .argument("--innodb-buffer-pool-size=32M");
        if let Some((name, value)) = treatment.environment() {
            builder = builder.environment(name, value);
        }
        let server = builder.start()?;
        if *treatment == PageFaultsTreatment::Jemalloc {
            ensure!(uses_jemalloc(&server)?, "the server does not use jemalloc though it was told");
        }
        server.sql(&treatment.tables())?;
        let flifo = lab.flifo.clone();
        let setup = Setup { flifo, workers: Some(1), clients_max: 16, cpus: None };
        let start = |kind| Target::start(kind, &server, &setup, &lab.interrupt);
        let (flifo, direct) = (start(TargetKind::Flifo)?, start(TargetKind::Direct)?);
        Ok(PageFaultsStage { flifo, direct, server })
    }

    fn measure(
        &self,
        treatment: &PageFaultsTreatment,
        stage: &mut PageFaultsStage,
        lab: &Lab,
    ) -> Result<Vec<Sample>> {
        let warm_up = self.round.div_f64(5.0);
        for way in treatment.ways() {
            stage.turn(*treatment, Way { pace: Pace::FullSpeed, ..way }, warm_up, lab)?;
        }
        let mut samples = Vec::new();
        for _ in 0..self.rounds {
            for way in treatment.ways() {
                samples.push(stage.turn(*treatment, way, self.round, lab)?);
            }
        }
        Ok(samples)
    }

    fn finding(&self, samples: &[Sample]) -> Finding {
        finding::of(samples)
    }
}

impl PageFaultsStage {
    fn turn(
        &mut self,
        treatment: PageFaultsTreatment,
        way: Way,
        time: Duration,
        lab: &Lab,
    ) -> Result<Sample> {
        let target = if way.route == TargetKind::Flifo { &self.flifo } else { &self.direct };
        let processes = self.processes(target)?;
        let order = Arc::new(self.order(treatment, way, target, time)?);
        let mut accounts = Accounts::new(&processes);
        let outcome = load::run(&order, &lab.interrupt, |moment| accounts.witness(moment))?;
        lab.interrupt.check()?;
        let recorder = &outcome.recorder;
        if let Some(error) = recorder.errors().first() {
            bail!("a client was told {} ({}), {} times", error.message, error.code, error.count);
        }
        ensure!(recorder.statements != 0, "not one statement was answered in {time:?}");
        let figures = accounts.figures(recorder.statements, recorder.all_statements);
        let of = |role| figures.iter().find(|it| it.role == role).cloned();
        Ok(Sample {
            treatment,
            way,
            a_second: recorder.statements as f64 / outcome.length.as_secs_f64(),
            server: of(Role::Server).context("the private server has no account")?,
            flifo: of(Role::Proxy),
            is_disturbed: accounts.disturbance().is_notable,
        })
    }

    /// Those whose account is taken, and the generator, which is no stranger.
    fn processes(&self, target: &Target) -> Result<Vec<Process>> {
        let process = |role, name: &str, pid| Process { role, name: name.to_owned(), pid };
        let server = self.server.pid().context("the private server does not run")?;
        let mut processes = vec![
            process(Role::Server, "mariadbd", server),
            process(Role::Generator, "flifo lab", std::process::id()),
        ];
        processes.extend(target.proxy_pid().map(|pid| process(Role::Proxy, "flifo", pid)));
        Ok(processes)
    }

    fn order(
        &self,
        treatment: PageFaultsTreatment,
        way: Way,
        target: &Target,
        length: Duration,
    ) -> Result<Order> {
        let per_connection = (way.pace != Pace::Staying).then_some(1);
        Ok(Order {
            address: target.backend_address(),
            account: Account {
                user: PrivateServer::USER.into(),
                credential: Credential::Password(self.server.password().into()),
                // The report's application chose none when it connected.
                schema: String::new(),
                tls: None,
            },
            workload: Workload::of_statements("click", &[treatment.statement()], per_connection)?,
            protocol: Protocol::Text,
            pacing: match way.pace {
                Pace::Rate(rate) => Pacing::Open { rate, arrivals: Arrivals::Even },
                Pace::FullSpeed | Pace::Staying => Pacing::Closed { think_ms: 0.0 },
            },
            clients: 1,
            idle: 0,
            threads: 1,
            tables: 1,
            rows: 1,
            distribution: Distribution::default(),
            seed: 1,
            ramp: Duration::ZERO,
            warm_up: Duration::ZERO,
            length,
        })
    }
}

impl Sample {
    /// To one digit behind the point: one page in a thousand rounds is none.
    fn faults(&self) -> f64 {
        (self.server.minor_faults * 10.0).round() / 10.0
    }

    fn server_us(&self) -> f64 {
        self.server.cpu_us()
    }

    fn flifo_us(&self) -> Option<f64> {
        Some(self.flifo.as_ref()?.cpu_us())
    }

    fn a_second(&self) -> f64 {
        self.a_second
    }
}

impl PageFaultsTreatment {
    pub const ALL: [Self; 8] = [
        Self::SmallToday,
        Self::LargeToday,
        Self::SmallFixed,
        Self::LargeFixed,
        Self::Plain,
        Self::Beyond,
        Self::MiddleToday,
        Self::Jemalloc,
    ];

    fn label(self) -> &'static str {
        match self {
            Self::Plain => "plain INSERT, buffer 5 MiB, threshold fixed",
            Self::SmallToday => "buffer 128 KiB, glibc as it comes",
            Self::LargeToday => "buffer 5 MiB, glibc as it comes",
            Self::SmallFixed => "buffer 128 KiB, threshold fixed as in 2006",
            Self::LargeFixed => "buffer 5 MiB, threshold fixed as in 2006 (case 1)",
            Self::Beyond => "buffer 40 MiB, glibc as it comes (case 2)",
            Self::MiddleToday => "buffer 16 MiB, glibc as it comes",
            Self::Jemalloc => "buffer 16 MiB, jemalloc (case 3)",
        }
    }

    /// In bytes.
    fn buffer(self) -> usize {
        match self {
            Self::SmallToday | Self::SmallFixed => 128 << 10,
            Self::Plain | Self::LargeToday | Self::LargeFixed => LARGE,
            Self::Beyond => 40 << 20,
            Self::MiddleToday | Self::Jemalloc => 16 << 20,
        }
    }

    fn environment(self) -> Option<(&'static str, String)> {
        match self {
            Self::Plain | Self::SmallFixed | Self::LargeFixed => {
                Some(("MALLOC_MMAP_THRESHOLD_", (128 << 10).to_string()))
            }
            Self::Jemalloc => Some(("LD_PRELOAD", jemalloc()?.display().to_string())),
            Self::SmallToday | Self::LargeToday | Self::Beyond | Self::MiddleToday => None,
        }
    }

    /// The table that clicks go to, and one that fills the buffer when it is read from end to end.
    fn tables(self) -> String {
        let rows = self.buffer().max(LARGE) / ROW + 10;
        let rows: Vec<String> = (1..=rows).map(|id| format!("({id},'x')")).collect();
        format!(
            "CREATE TABLE click (id INT AUTO_INCREMENT PRIMARY KEY, url VARCHAR(200), \
             agent VARCHAR(200), at DATETIME) ENGINE=MyISAM;\n\
             CREATE TABLE accounts (id INT, filler VARCHAR({ROW})) ENGINE=MyISAM ROW_FORMAT=FIXED \
             CHARACTER SET latin1;\n\
             INSERT INTO accounts VALUES {};\n",
            rows.join(",")
        )
    }

    /// MariaDB's INSERT has no use for a read buffer, so that one is given a table to read: as the
    /// reporter thought that logging in did, with the table of accounts.
    fn statement(self) -> &'static str {
        match self {
            Self::Plain => {
                "INSERT INTO sbtest.click (url, agent, at) VALUES ('/index.html', 'x', NOW())"
            }
            _ => {
                "INSERT INTO sbtest.click (url, agent, at) \
                 SELECT '/index.html', SUM(id), NOW() FROM sbtest.accounts"
            }
        }
    }

    /// At the report's pace where that is to be compared, and at full speed.
    fn ways(self) -> Vec<Way> {
        let is_paced = matches!(
            self,
            Self::SmallToday | Self::LargeToday | Self::SmallFixed | Self::LargeFixed
        );
        let paces: &[Pace] =
            if is_paced { &[Pace::Rate(RATE), Pace::FullSpeed] } else { &[Pace::FullSpeed] };
        let mut ways = Vec::new();
        for pace in paces {
            ways.extend(
                [TargetKind::Direct, TargetKind::Flifo].map(|route| Way { route, pace: *pace }),
            );
        }
        ways.push(Way { route: TargetKind::Direct, pace: Pace::Staying });
        ways
    }
}

fn uses_jemalloc(server: &PrivateServer) -> Result<bool> {
    let pid = server.pid().context("the private server does not run")?;
    Ok(std::fs::read_to_string(format!("/proc/{pid}/maps"))?.contains("jemalloc"))
}

/// Where distributions put jemalloc.
fn jemalloc() -> Option<PathBuf> {
    let of = |folder: &str| Path::new(folder).join("libjemalloc.so.2");
    let machine = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let folders = [machine.as_str(), "/usr/lib64", "/usr/lib", "/usr/local/lib"];
    folders.into_iter().map(of).find(|path| path.exists())
}

/// Connections a second: in the middle of what was reported.
const RATE: f64 = 80.0;
const LARGE: usize = 5 << 20;
/// Bytes of a row that is read: few rows, so that the buffer and not the rows cost the time.
const ROW: usize = 20_000;
const ALLOCATOR_VARIABLES: [&str; 3] = ["MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES", "LD_PRELOAD"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_larger_than_the_buffers_that_read_them() {
        for treatment in PageFaultsTreatment::ALL {
            let rows = treatment.tables().matches(",'x')").count();
            assert!(treatment.buffer() < rows * ROW, "{treatment:?}: {rows} rows");
        }
    }

    #[test]
    fn small_and_large_buffers_do_the_same_work() {
        let [small, large] = [PageFaultsTreatment::SmallFixed, PageFaultsTreatment::LargeFixed];
        assert_eq!(small.tables(), large.tables());
        assert_eq!(small.statement(), large.statement());
        assert!(small.buffer() < large.buffer());
    }
}
