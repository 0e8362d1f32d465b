//! What else went on on the machine: other processes, the hypervisor, pressure on disk and memory.
//!
//! Judges a round by it. Invariant: the kernel's own threads are not others: what they do is mostly
//! the load's own network traffic and disk writes.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use sys::account;
use sys::machine::{CpuTimes, cpu_times};

use crate::results::Disturbance;

/// The machine at one moment.
pub struct WatchReading {
    pub at: Instant,
    wall: SystemTime,
    machine: CpuTimes,
    /// By process: its name, its CPU time, and whether it is the kernel's.
    processes: HashMap<u32, (String, Duration, bool)>,
    io: Option<Duration>,
    memory: Option<Duration>,
}

impl WatchReading {
    pub fn take() -> Result<Self> {
        let (at, wall) = (Instant::now(), SystemTime::now());
        let machine = cpu_times().context("the machine's CPU times cannot be read")?;
        let pids = account::pids().context("the list of processes cannot be read")?;
        let stat = |pid: u32| {
            let stat = account::stat(pid).ok()?;
            let is_kernel = stat.is_kernel(pid);
            Some((pid, (stat.name, stat.cpu.total(), is_kernel)))
        };
        Ok(Self {
            at,
            wall,
            machine,
            processes: pids.into_iter().filter_map(stat).collect(),
            io: pressure("io"),
            memory: pressure("memory"),
        })
    }

    /// How far the wall clock ran ahead of the steady one since an earlier reading, in seconds.
    pub fn clock_jump(&self, before: &Self) -> f64 {
        let steady = self.at.duration_since(before.at).as_secs_f64();
        let wall = match self.wall.duration_since(before.wall) {
            Ok(ahead) => ahead.as_secs_f64(),
            Err(behind) => -behind.duration().as_secs_f64(),
        };
        wall - steady
    }
}

/// What others than `own` had between two readings.
pub fn disturbance(begin: &WatchReading, end: &WatchReading, own: &[u32]) -> Disturbance {
    let CpuTimes { busy, idle, steal } = end.machine.since(begin.machine);
    let whole = (busy + idle + steal).as_secs_f64();
    if whole == 0.0 {
        return Disturbance::default();
    }
    // A process that is new began at nothing.
    let used = end.processes.iter().map(|(pid, (name, cpu, is_kernel))| {
        let before = begin.processes.get(pid).map_or(Duration::ZERO, |(_, cpu, _)| *cpu);
        (*pid, name, cpu.saturating_sub(before), *is_kernel)
    });
    let (mut known, mut others) = (Duration::ZERO, Vec::new());
    for (pid, name, cpu, is_kernel) in used {
        if is_kernel || own.contains(&pid) {
            known += cpu;
        } else if OTHERS_MIN <= cpu.as_secs_f64() / whole {
            others.push((cpu, name, pid));
        }
    }
    others.sort_by_key(|(cpu, ..)| std::cmp::Reverse(*cpu));
    let share = |time: Duration| time.as_secs_f64() / whole;
    let shown = |(cpu, name, pid): &(Duration, &String, u32)| {
        format!("{name} (process {pid}): {:.0} % of all CPUs", share(*cpu) * 100.0)
    };
    let elapsed = end.at.duration_since(begin.at).as_secs_f64();
    let (steal, foreign) = (share(steal), share(busy.saturating_sub(known)));
    let memory_pressure = stalled(begin.memory, end.memory, elapsed);
    Disturbance {
        steal,
        foreign,
        io_pressure: stalled(begin.io, end.io, elapsed),
        memory_pressure,
        others: others.iter().take(OTHERS_MAX).map(shown).collect(),
        is_notable: NOTABLE < steal + foreign || MEMORY_NOTABLE < memory_pressure.unwrap_or(0.0),
    }
}

/// The share of time in which some task waited.
fn stalled(begin: Option<Duration>, end: Option<Duration>, elapsed: f64) -> Option<f64> {
    let waited = end?.saturating_sub(begin?).as_secs_f64();
    (0.0 < elapsed).then(|| waited / elapsed)
}

/// How long some task has waited for this since boot; kernels may be built without knowing.
fn pressure(of: &str) -> Option<Duration> {
    parse_pressure(&fs::read_to_string(format!("/proc/pressure/{of}")).ok()?)
}

fn parse_pressure(text: &str) -> Option<Duration> {
    let some = text.lines().find(|line| line.starts_with("some "))?;
    let total = some.split(' ').find_map(|word| word.strip_prefix("total="))?;
    Some(Duration::from_micros(total.parse().ok()?))
}

/// The share of all CPUs above which a round is run again. The kernel samples the machine's account
/// and measures those of processes: they may differ by a hundredth or two.
pub const NOTABLE: f64 = 0.04;
/// Waiting for the disk may belong to the workload; waiting for memory is never intended.
const MEMORY_NOTABLE: f64 = 0.1;
const OTHERS_MIN: f64 = 0.005;
const OTHERS_MAX: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(
        busy_ms: u64,
        idle_ms: u64,
        steal_ms: u64,
        cpus: &[(u32, &str, u64)],
    ) -> WatchReading {
        let [busy, idle, steal] = [busy_ms, idle_ms, steal_ms].map(Duration::from_millis);
        let process = |(pid, name, ms): &(u32, &str, u64)| {
            (*pid, ((*name).to_owned(), Duration::from_millis(*ms), *pid == 2))
        };
        WatchReading {
            at: Instant::now(),
            wall: SystemTime::now(),
            machine: CpuTimes { busy, idle, steal },
            processes: cpus.iter().map(process).collect(),
            io: None,
            memory: None,
        }
    }

    #[test]
    fn others_are_told_from_ourselves_and_the_kernel() {
        let begin = reading(0, 0, 0, &[(7, "mariadbd", 100), (9, "cc1plus", 50)]);
        let cpus = [(7, "mariadbd", 1100), (9, "cc1plus", 250), (2, "kthreadd", 300), (8, "x", 1)];
        let end = reading(1600, 400, 0, &cpus);
        let seen = disturbance(&begin, &end, &[7]);
        assert!((seen.foreign - 0.15).abs() < 1e-9, "{seen:?}");
        assert_eq!(seen.others, ["cc1plus (process 9): 10 % of all CPUs"]);
        assert!(seen.is_notable);
        let calm = disturbance(&begin, &end, &[7, 9, 8]);
        assert!((calm.foreign - 0.0495).abs() < 1e-9, "a short-lived process may have used it");
    }

    #[test]
    fn steal_alone_is_notable() {
        let (begin, end) = (reading(0, 0, 0, &[]), reading(0, 900, 100, &[]));
        let seen = disturbance(&begin, &end, &[]);
        assert!(seen.is_notable && (seen.steal - 0.1).abs() < 1e-9, "{seen:?}");
        assert_eq!(disturbance(&begin, &begin, &[]), Disturbance::default());
    }

    #[test]
    fn pressure_is_a_sum_of_microseconds() {
        let text =
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0.00 total=1\n";
        assert_eq!(parse_pressure(text), Some(Duration::from_millis(2500)));
        assert_eq!(parse_pressure("full total=1"), None);
        let s = Duration::from_secs;
        assert_eq!(stalled(Some(s(1)), Some(s(2)), 4.0), Some(0.25));
        assert_eq!(stalled(None, Some(s(2)), 4.0), None);
    }

    #[test]
    fn a_clock_that_jumps_is_seen() {
        let (before, mut after) = (reading(0, 0, 0, &[]), reading(0, 0, 0, &[]));
        assert!(after.clock_jump(&before).abs() < 0.1);
        after.wall += Duration::from_secs(3600);
        assert!((after.clock_jump(&before) - 3600.0).abs() < 0.1);
        after.wall -= Duration::from_secs(7200);
        assert!((after.clock_jump(&before) + 3600.0).abs() < 0.1);
    }
}
