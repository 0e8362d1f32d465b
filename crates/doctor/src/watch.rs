//! Two looks at a machine, and what came between them.
//!
//! Judges nothing. Invariants: only threads that lived all the while are compared; a process that
//! is another one than before has done nothing.

use std::collections::BTreeMap;
use std::time::Instant;

use sys::cgroup::{self, Throttling};
use sys::kernel::{self, Times};
use sys::network;
use sys::threads::{self, Line, Thread};
use sys::tree::{Seen, Tree};

use crate::collect::numbers;
use crate::facts::{Effort, Load, ThreadEffort};

/// One look.
#[derive(Debug)]
pub(crate) struct Look {
    at: Instant,
    times: Seen<Times>,
    server: Seen<Account>,
    clients: BTreeMap<u32, Seen<Account>>,
    status: Seen<BTreeMap<String, f64>>,
    listen_overflows: Seen<u64>,
    compaction_stalls: Seen<u64>,
}

#[derive(Debug)]
struct Account {
    at: Instant,
    line: Line,
    threads: Vec<Thread>,
    throttling: Seen<Throttling>,
}

impl Look {
    /// Looks at the server, its clients, and what the server said of itself.
    pub(crate) fn take(
        tree: &Tree,
        server: &Seen<u32>,
        clients: &[u32],
        status: &Seen<BTreeMap<String, String>>,
    ) -> Self {
        Self {
            server: server.and_then(|pid| account(tree, *pid)),
            clients: clients.iter().map(|pid| (*pid, account(tree, *pid))).collect(),
            status: status.clone().map(|status| numbers(&status)),
            listen_overflows: network::tcp_counter(tree, "ListenOverflows"),
            compaction_stalls: kernel::memory_counter(tree, "compact_stall"),
            times: kernel::times(tree),
            at: Instant::now(),
        }
    }

    /// What came since an earlier look.
    pub(crate) fn since(&self, before: &Self, running_max: Seen<u64>) -> Load {
        let clients = self.clients.iter().filter_map(|(pid, now)| {
            let effort = effort(before.clients.get(pid)?, now);
            Some((*pid, effort.known()?.clone()))
        });
        Load {
            seconds: (self.at - before.at).as_secs_f64(),
            times: both(&before.times, &self.times, |before, now| now.since(*before)),
            server: effort(&before.server, &self.server),
            clients: clients.collect(),
            status: both(&before.status, &self.status, grown),
            running_max,
            listen_overflows: both(&before.listen_overflows, &self.listen_overflows, less),
            compaction_stalls: both(&before.compaction_stalls, &self.compaction_stalls, less),
        }
    }
}

fn account(tree: &Tree, pid: u32) -> Seen<Account> {
    let threads = threads::threads(tree, pid);
    let cgroup = cgroup::cgroup(tree, pid);
    threads::line(tree, pid).map(|line| Account {
        at: Instant::now(),
        line,
        threads: threads.known().cloned().unwrap_or_default(),
        throttling: cgroup.and_then(|group| group.throttling.clone()),
    })
}

fn effort(before: &Seen<Account>, now: &Seen<Account>) -> Seen<Effort> {
    let (before, now) = match (before, now) {
        (Seen::Known(before), Seen::Known(now)) => (before, now),
        (Seen::Known(_), other) | (other, _) => {
            return other.and_then(|_| Seen::Unknown("it was not there all the while".to_owned()));
        }
    };
    if before.line.started != now.line.started {
        return Seen::Unknown("it was started again meanwhile".to_owned());
    }
    let nanos = (now.at - before.at).as_nanos() as f64;
    let threads = now.threads.iter().filter_map(|thread| {
        let then = before.threads.iter().find(|it| it.tid == thread.tid)?;
        Some(ThreadEffort {
            tid: thread.tid,
            name: thread.name.clone(),
            ran: thread.ran.saturating_sub(then.ran) as f64 / nanos,
            waited: thread.waited.saturating_sub(then.waited) as f64 / nanos,
            slices: thread.slices.saturating_sub(then.slices),
        })
    });
    Seen::Known(Effort {
        threads: threads.collect(),
        minor_faults: now.line.minor_faults.saturating_sub(before.line.minor_faults),
        major_faults: now.line.major_faults.saturating_sub(before.line.major_faults),
        user: now.line.user.saturating_sub(before.line.user),
        system: now.line.system.saturating_sub(before.line.system),
        throttling: both(&before.throttling, &now.throttling, |one, two| two.since(*one)),
    })
}

fn both<T, U>(before: &Seen<T>, now: &Seen<T>, compare: impl FnOnce(&T, &T) -> U) -> Seen<U> {
    before.and_then(|before| now.and_then(|now| Seen::Known(compare(before, now))))
}

fn less(before: &u64, now: &u64) -> u64 {
    now.saturating_sub(*before)
}

fn grown(before: &BTreeMap<String, f64>, now: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let grown = now.iter().filter_map(|(name, value)| {
        // Counters begin at zero again when a user flushes them.
        Some((name.clone(), (value - before.get(name)?).max(0.0)))
    });
    grown.collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn account_at(at: Instant, started: u64, threads: &[(u32, u64)]) -> Seen<Account> {
        let threads = threads.iter().map(|(tid, ran)| Thread {
            tid: *tid,
            ran: *ran,
            waited: ran / 2,
            ..Thread::default()
        });
        let line = Line { started, minor_faults: started * 2, ..Line::default() };
        let threads = threads.collect();
        Seen::Known(Account { at, line, threads, throttling: Seen::default() })
    }

    #[test]
    fn threads_that_lived_all_the_while_are_compared() {
        let begin = Instant::now();
        let before = account_at(begin, 9, &[(1, 100), (2, 100)]);
        let later = begin + Duration::from_secs(2);
        let now = account_at(later, 9, &[(1, 1_000_000_100), (3, 5)]);
        let seen = effort(&before, &now);
        let [thread] = &seen.known().expect("known").threads[..] else { panic!("{seen:?}") };
        assert_eq!((thread.tid, thread.ran, thread.waited), (1, 0.5, 0.25));
    }

    #[test]
    fn another_process_of_the_same_number_has_done_nothing() {
        let begin = Instant::now();
        let seen = effort(&account_at(begin, 9, &[]), &account_at(begin, 10, &[]));
        assert_eq!(seen.reason(), "it was started again meanwhile");
        let gone = Seen::Unknown("gone".to_owned());
        assert_eq!(effort(&account_at(begin, 9, &[]), &gone).reason(), "gone");
    }

    #[test]
    fn work_of_this_process_is_seen() {
        let me = Seen::Known(std::process::id());
        let look = || Look::take(&Tree::live(), &me, &[], &Seen::default());
        let before = look();
        let until = Instant::now() + Duration::from_millis(60);
        while Instant::now() < until {}
        let load = look().since(&before, Seen::default());
        let effort = load.server.known().expect("this process is here");
        assert!(effort.busiest().expect("has threads").ran > 0.0, "{effort:?}");
        assert!(load.seconds >= 0.06 && load.status.known().is_none());
    }
}
