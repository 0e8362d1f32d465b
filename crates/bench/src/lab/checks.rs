//! Health checks of many servers by many workers: what they cost in CPU and in the latency of everything else.
//!
//! Repeats the report of HAProxy's commit that spread checks over its threads. Owns the treatments and what is
//! measured; the workers are in [`workers`], the servers that they check and the client that asks for pages in
//! [`peers`]. Sockets, threads and the balancer are real; servers are fake, and on this machine. Nothing is changed on
//! the machine.

mod finding;
mod haproxy;
mod peers;
mod workers;

use std::time::Duration;

use anyhow::Result;

use super::experiment::{About, Experiment, Finding, Lab};
use super::undo::Undo;
use crate::figures::histogram::Histogram;
use crate::programs::HAPROXY;

use self::haproxy::HaProxy;
use self::peers::Servers;
use self::workers::{Crew, Hold};

/// The experiment.
#[derive(Debug)]
pub struct Checks {
    pub time: Duration,
}

impl Default for Checks {
    fn default() -> Self {
        Self { time: Duration::from_secs(10) }
    }
}

/// How checks are given to workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    HaProxy,
    Held(Hold),
}

/// How many workers check how many servers, in which way and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChecksTreatment {
    way: Way,
    workers: usize,
    servers: usize,
    interval: Duration,
}

/// What runs for a treatment.
pub struct ChecksStage {
    _servers: Servers,
    runs: Runs,
}

enum Runs {
    Crew(Crew),
    HaProxy(HaProxy),
}

/// What was measured of a treatment.
#[derive(Clone, Debug)]
pub struct Figure {
    treatment: ChecksTreatment,
    /// CPU time for each second.
    cpu: f64,
    switches: f64,
    /// The fewest and the most checks that a worker owns, after two intervals.
    owned: Option<(usize, usize)>,
    checks: f64,
    /// How late the latest check began.
    late: Option<Duration>,
    /// Waits for the first byte of the page.
    pages: Histogram,
}

const WORKERS: usize = 48;
const SERVERS: usize = 200;
const WAYS: [Way; 4] =
    [Way::HaProxy, Way::Held(Hold::SharedQueue), Way::Held(Hold::Bound), Way::Held(Hold::Spread)];

impl Experiment for Checks {
    type Treatment = ChecksTreatment;
    type Stage = ChecksStage;
    type Figure = Figure;

    fn about(&self) -> About {
        About {
            name: "checks",
            question: "What do health checks of many servers cost the clients that are served \
                       meanwhile?",
            seed: "Willy Tarreau reported in October 2022, in the commit of HAProxy that spreads \
                   checks over its threads: on 48 threads with 100 servers checked every second, \
                   5 % of CPU and a tail of 100 ms, because sleeping checks were in one queue that \
                   all threads looked at; bound to their threads and spread at random, 0.5 to 1 % \
                   and a tail of 10 ms.",
            seconds: (2 * self.time.as_secs() as u32 + 5) * 13,
        }
    }

    fn treatments(&self) -> (Vec<ChecksTreatment>, Vec<String>) {
        let mut treatments = Vec::new();
        let mut notes = Vec::new();
        for (servers, interval) in [
            (SERVERS, Duration::from_secs(2)),
            (SERVERS / 2, Duration::from_secs(1)),
            (SERVERS, Duration::from_millis(4)),
        ] {
            let ways = WAYS.map(|way| ChecksTreatment { way, workers: WORKERS, servers, interval });
            treatments.extend(ways);
        }
        let interval = Duration::from_secs(1);
        let many =
            ChecksTreatment { way: Way::Held(Hold::Spread), workers: 4, servers: 5_000, interval };
        treatments.push(many);
        if let Err(error) = HAPROXY.find() {
            notes.push(format!("HAProxy was not measured: {error:#}."));
            treatments.retain(|treatment| treatment.way != Way::HaProxy);
        }
        (treatments, notes)
    }

    fn name(&self, treatment: &ChecksTreatment) -> String {
        treatment.to_string()
    }

    fn set_up(&self, treatment: &ChecksTreatment, _: &Lab, _: &mut Undo) -> Result<ChecksStage> {
        // Many servers share an address: that there are sockets behind them all shows nothing.
        let servers = Servers::start(treatment.servers.min(SERVERS))?;
        let runs = match treatment.way {
            Way::HaProxy => Runs::HaProxy(HaProxy::start(treatment, servers.addresses())?),
            Way::Held(hold) => Runs::Crew(Crew::start(hold, treatment, servers.addresses())?),
        };
        Ok(ChecksStage { _servers: servers, runs })
    }

    fn measure(
        &self,
        treatment: &ChecksTreatment,
        stage: &mut ChecksStage,
        lab: &Lab,
    ) -> Result<Vec<Figure>> {
        let interval = treatment.interval.max(Duration::from_millis(500));
        lab.interrupt.sleep(2 * interval + interval / 2)?;
        let owned = match &stage.runs {
            Runs::Crew(crew) => crew.owned(),
            Runs::HaProxy(_) => None,
        };
        // The cost of the checks is measured while no client asks for pages.
        let begin = stage.runs.account()?;
        lab.interrupt.sleep(self.time)?;
        let end = stage.runs.account()?;
        let pages = peers::ask_for_pages(&stage.runs.addresses(), self.time, &lab.interrupt)?;
        let seconds = (end.at - begin.at).as_secs_f64();
        Ok(vec![Figure {
            treatment: *treatment,
            cpu: (end.cpu.saturating_sub(begin.cpu)).as_secs_f64() / seconds,
            switches: end.switches.saturating_sub(begin.switches) as f64 / seconds,
            owned,
            checks: end.checks.saturating_sub(begin.checks) as f64 / seconds,
            late: end.late,
            pages,
        }])
    }

    fn finding(&self, figures: &[Figure]) -> Finding {
        finding::of(figures)
    }
}

/// What has been used so far.
#[derive(Clone, Copy, Debug)]
struct Account {
    at: std::time::Instant,
    cpu: Duration,
    switches: u64,
    checks: u64,
    late: Option<Duration>,
}

impl Runs {
    fn addresses(&self) -> Vec<std::net::SocketAddr> {
        match self {
            Self::Crew(crew) => crew.addresses(),
            Self::HaProxy(haproxy) => vec![haproxy.page()],
        }
    }

    fn account(&self) -> Result<Account> {
        let (pid, threads, checks, late) = match self {
            Self::Crew(crew) => {
                (std::process::id(), Some(crew.threads()), crew.checks(), Some(crew.late()))
            }
            Self::HaProxy(haproxy) => (haproxy.pid(), None, 0, None),
        };
        let (cpu, switches) = used(pid, threads)?;
        Ok(Account { at: std::time::Instant::now(), cpu, switches, checks, late })
    }
}

/// The CPU time and context switches of these threads of a process, or of all.
fn used(pid: u32, threads: Option<&[u32]>) -> Result<(Duration, u64)> {
    let mut used = (Duration::ZERO, 0);
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let task = task?;
        let id: u32 = task.file_name().to_string_lossy().parse()?;
        if threads.is_some_and(|threads| !threads.contains(&id)) {
            continue;
        }
        let schedule = std::fs::read_to_string(task.path().join("schedstat"))?;
        let nanoseconds = schedule.split(' ').next().unwrap_or_default().parse()?;
        used.0 += Duration::from_nanos(nanoseconds);
        let status = std::fs::read_to_string(task.path().join("status"))?;
        for line in status.lines() {
            if let Some((name, count)) = line.split_once(':')
                && name.ends_with("voluntary_ctxt_switches")
            {
                used.1 += count.trim().parse::<u64>()?;
            }
        }
    }
    Ok(used)
}

impl std::fmt::Display for ChecksTreatment {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let way = match self.way {
            Way::HaProxy => "HAProxy",
            Way::Held(Hold::SharedQueue) => "one shared queue",
            Way::Held(Hold::Bound) => "bound for ever",
            Way::Held(Hold::Spread) => "spread",
        };
        let Self { workers, servers, interval, .. } = self;
        write!(formatter, "{way}: {workers} workers, {servers} servers every {interval:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(way: Way) -> Figure {
        run_for(Duration::from_millis(600), way)
    }

    fn run_for(time: Duration, way: Way) -> Figure {
        let interval = Duration::from_millis(200);
        let treatment = ChecksTreatment { way, workers: 6, servers: 24, interval };
        let checks = Checks { time };
        let servers = Servers::start(24).unwrap();
        let Way::Held(hold) = way else { panic!("only crews are tested here") };
        let runs = Runs::Crew(Crew::start(hold, &treatment, servers.addresses()).unwrap());
        let mut stage = ChecksStage { _servers: servers, runs };
        let interrupt = crate::interrupt::Interrupt::never();
        let lab = Lab { interrupt, flifo: "flifo".into(), only: None };
        checks.measure(&treatment, &mut stage, &lab).unwrap().remove(0)
    }

    #[test]
    fn every_way_checks_all_servers_and_serves_pages() {
        for hold in [Hold::SharedQueue, Hold::Bound, Hold::Spread] {
            let mut time = Duration::from_millis(600);
            let (figure, pages) = loop {
                let figure = run_for(time, Way::Held(hold));
                let pages = figure.pages.count();
                // A busy machine gets more time.
                if figure.checks >= 40.0 && pages > 10 || time > Duration::from_secs(20) {
                    break (figure, pages);
                }
                time *= 3;
            };
            // 24 servers five times a second.
            assert!((40.0..200.0).contains(&figure.checks), "{hold:?}: {}", figure.checks);
            assert!(pages > 10, "{hold:?}");
            assert!(figure.cpu > 0.0 && figure.switches > 0.0, "{hold:?}");
        }
    }

    #[test]
    fn all_begin_on_one_worker_and_are_spread_by_themselves() {
        let figure = run(Way::Held(Hold::Spread));
        let (least, most) = figure.owned.unwrap();
        assert!(least >= 3 && most <= 5, "{least} to {most}");
        let bound = run(Way::Held(Hold::Bound));
        assert_eq!(bound.owned, Some((0, 24)), "what is bound stays where it began");
    }
}
