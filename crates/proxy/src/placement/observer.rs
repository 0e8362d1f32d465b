//! What placement looks at: the workers' threads and counts, the machine's CPUs, quotas, and where each thread may run.
//!
//! Reads, and compares with what was read before; judges nothing. Invariants: what cannot be read counts as harmless
//! (no steal, no quota) and never as idle CPUs; the server's threads, which may be thousands, are read only while a
//! worker waits for a CPU.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use engine::placement::Look;
use sys::cgroup::{self, Throttling};
use sys::cpus::Cpus;
use sys::kernel::{self, Times};
use sys::threads::{self, Policy};
use sys::tree::Tree;
use view::histogram::Histogram;

/// What the workers have told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pulse {
    pub(crate) statements: u64,
    pub(crate) run: Histogram,
    /// The kernel's number of the worker's thread.
    pub(crate) thread: u32,
}

/// Everything that is read at one moment.
#[derive(Clone, Debug)]
struct Glance {
    at: Instant,
    times: Option<Times>,
    /// Of each worker's thread: time run, and waited.
    workers: BTreeMap<u32, (u64, u64)>,
    /// Of Flifo and of the server.
    throttling: [Option<Throttling>; 2],
    statements: u64,
    run: Histogram,
}

#[derive(Debug)]
pub(super) struct Observer {
    tree: Tree,
    last: Option<Glance>,
}

impl Observer {
    pub(super) const fn new(tree: Tree) -> Self {
        Self { tree, last: None }
    }

    /// What came since the last look; at the first one, nothing.
    pub(super) fn look(&mut self, pulses: &[Pulse], server: Option<u32>) -> Look {
        let now = self.glance(pulses, server);
        let mut look = self.last.as_ref().map_or_else(Look::default, |last| between(last, &now));
        self.last = Some(now);
        if let Some(server) = server.filter(|_| NOTABLE < look.waited) {
            self.see_threads(server, pulses, &mut look);
        }
        look
    }

    fn glance(&self, pulses: &[Pulse], server: Option<u32>) -> Glance {
        let own = std::process::id();
        let worker = |pulse: &Pulse| {
            let path = format!("/proc/{own}/task/{}/schedstat", pulse.thread);
            let seen = self.tree.text(&path).parse(&path, |text| {
                let mut words = text.split_ascii_whitespace().map(str::parse);
                Some((words.next()?.ok()?, words.next()?.ok()?))
            });
            Some((pulse.thread, *seen.known()?))
        };
        let throttling = |pid| {
            cgroup::cgroup(&self.tree, pid).known().and_then(|it| it.throttling.known().copied())
        };
        let mut run = Histogram::default();
        pulses.iter().for_each(|pulse| run.merge(&pulse.run));
        Glance {
            times: kernel::times(&self.tree).known().copied(),
            workers: pulses.iter().filter_map(worker).collect(),
            throttling: [throttling(own), server.and_then(throttling)],
            statements: pulses.iter().map(|pulse| pulse.statements).sum(),
            run,
            at: crate::worker::clock::read(),
        }
    }

    /// Where the threads may run, and with which policy.
    fn see_threads(&self, server: u32, pulses: &[Pulse], look: &mut Look) {
        let theirs = threads::threads(&self.tree, server);
        let ours = threads::threads(&self.tree, std::process::id());
        let (Some(theirs), Some(ours)) = (theirs.known(), ours.known()) else { return };
        let mut ordinary = theirs
            .iter()
            .filter(|it| matches!(it.policy, Policy::Other | Policy::Batch))
            .peekable();
        look.batch = ordinary.peek().is_some() && ordinary.all(|it| it.policy == Policy::Batch);
        let is_worker = |tid: u32| pulses.iter().any(|pulse| pulse.thread == tid);
        let workers = ours.iter().filter(|it| is_worker(it.tid));
        let all: Cpus = workers.chain(theirs).flat_map(|it| it.cpus.iter()).collect();
        let online = sys::placing::online(&self.tree);
        look.confined = all.len() == 1 && online.is_some_and(|online| online.len() > 1);
    }
}

fn between(before: &Glance, after: &Glance) -> Look {
    let length = after.at.saturating_duration_since(before.at);
    let share = |now: u64, then: u64| {
        let time = Duration::from_nanos(now.saturating_sub(then));
        if length.is_zero() { 0.0 } else { time.div_duration_f64(length).min(1.0) }
    };
    let workers = after.workers.iter().filter_map(|(tid, now)| {
        let then = before.workers.get(tid)?;
        Some((share(now.0, then.0), share(now.1, then.1)))
    });
    let keenest = workers.max_by(|one, other| (one.0 + one.1).total_cmp(&(other.0 + other.1)));
    let (ran, waited) = keenest.unwrap_or_default();
    let times = after.times.zip(before.times).map(|(now, then)| now.since(then));
    let part = |of: fn(Times) -> u64| {
        let times = times.filter(|it| it.all() > 0);
        times.map_or(0.0, |it| of(it) as f64 / it.all() as f64)
    };
    let throttled = after.throttling.iter().zip(&before.throttling).map(|(now, then)| {
        let since = now.zip(*then).map(|(now, then)| now.since(then));
        since.filter(|it| it.periods > 0).map_or(0.0, |it| it.throttled as f64 / it.periods as f64)
    });
    let run = after.run.since(&before.run);
    let statements = after.statements.saturating_sub(before.statements);
    Look {
        length,
        ran,
        waited,
        idle: part(|it| it.idle),
        steal: part(|it| it.steal),
        throttled: throttled.fold(0.0, f64::max),
        rate: if length.is_zero() { 0.0 } else { statements as f64 / length.as_secs_f64() },
        // Of fewer the slowest one is no tail.
        p99: if run.count() < P99_OF { None } else { run.quantile(0.99) },
        ..Look::default()
    }
}

/// A worker that waits more than this is worth a look at the server's threads.
const NOTABLE: f64 = 0.08;
const P99_OF: u64 = 200;

#[cfg(test)]
mod tests;
