//! How the threads of a process are scheduled, changed so that it can be undone exactly.
//!
//! Decides nothing. Invariants: the state of a thread is recorded, and the record is kept, before the thread is
//! changed; a change that fails is undone as far as it went; a process is told from a later process with the same
//! number; what another program has changed since is left alone; threads that begin in the meantime are changed too,
//! and are set back to the state of the first thread.

mod groups;

use std::io;

use serde::{Deserialize, Serialize};

use crate::cpus::Cpus;
use crate::scheduling;
use crate::threads::{self, Policy, Thread};
use crate::tree::{Seen, Tree};

pub use groups::{Group, GroupChange};

/// What is done to threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Deed {
    Policy(Policy),
    Nice(i32),
    Cpus(Cpus),
    /// Each keeps the CPUs that it has, but for these; one that has no others keeps them.
    Avoid(Cpus),
}

/// Threads that have been changed, and what they were.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    pub pid: u32,
    /// When the process began: a later one of its number began later.
    pub started: u64,
    pub deed: Deed,
    /// Only these threads; none are all.
    pub only: Vec<u32>,
    pub threads: Vec<Thread>,
}

/// What of a change could not be undone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Threads that another program has changed since.
    pub others: Vec<u32>,
    /// Threads that could not be set back, and why.
    pub failed: Vec<(u32, String)>,
}

impl Left {
    pub fn is_nothing(&self) -> bool {
        self.others.is_empty() && self.failed.is_empty()
    }
}

impl Placed {
    /// Reads what the threads are. Nothing is changed yet.
    pub fn read(tree: &Tree, pid: u32, deed: Deed, only: Vec<u32>) -> io::Result<Self> {
        let started = started(tree, pid)?;
        let mut placed = Self { pid, started, deed, only, threads: Vec::new() };
        placed.threads = placed.now(tree)?;
        match placed.threads.is_empty() {
            true => Err(io::Error::new(io::ErrorKind::NotFound, "there is no such thread")),
            false => Ok(placed),
        }
    }

    /// Whether the process that was read still lives.
    pub fn is_there(&self, tree: &Tree) -> bool {
        started(tree, self.pid).ok() == Some(self.started)
    }

    /// Changes all threads that are not changed yet. `keep` is given the record before any thread that is not in it is
    /// changed.
    pub fn apply(
        &mut self,
        tree: &Tree,
        keep: &mut dyn FnMut(&Self) -> io::Result<()>,
    ) -> io::Result<()> {
        let result = self.try_to_apply(tree, keep);
        if result.is_err() {
            // Why it failed says more than what else does.
            let _ = self.restore(tree);
        }
        result
    }

    fn try_to_apply(
        &mut self,
        tree: &Tree,
        keep: &mut dyn FnMut(&Self) -> io::Result<()>,
    ) -> io::Result<()> {
        for _ in 0..ROUNDS_MAX {
            if !self.is_there(tree) {
                return Err(io::Error::new(io::ErrorKind::NotFound, "the process has ended"));
            }
            let now = self.now(tree)?;
            // One that was born of a changed thread is what its parent is.
            let left: Vec<_> = now.iter().filter(|it| self.deed.changes(it)).collect();
            let fresh: Vec<Thread> = left
                .iter()
                .filter(|it| self.record_of(it.tid).is_none())
                .map(|it| (*it).clone())
                .collect();
            if !fresh.is_empty() {
                self.threads.extend(fresh);
                keep(self)?;
            }
            if left.is_empty() {
                return Ok(());
            }
            for thread in left {
                alive(self.deed.apply_to(thread))?;
            }
        }
        Ok(())
    }

    /// Makes it as it was.
    pub fn restore(&self, tree: &Tree) -> io::Result<Left> {
        let mut left = Left::default();
        if !self.is_there(tree) {
            return Ok(left);
        }
        let online = online(tree);
        let mut seen: Vec<u32> = Vec::new();
        // Threads may be born of changed ones while others are set back.
        for _ in 0..ROUNDS_MAX {
            let now = self.now(tree)?;
            let fresh: Vec<_> = now.into_iter().filter(|it| !seen.contains(&it.tid)).collect();
            if fresh.is_empty() {
                break;
            }
            for thread in fresh {
                seen.push(thread.tid);
                let known = self.record_of(thread.tid);
                let Some(was) = known.or_else(|| self.first()) else { continue };
                if self.deed.is_undone(&thread, was) {
                    continue;
                }
                if !self.deed.made(&thread, was, online.as_ref()) {
                    // What is not in the record was never changed by us, unless it looks so.
                    left.others.extend(known.map(|it| it.tid));
                    continue;
                }
                if let Err(error) = alive(self.deed.undo_on(thread.tid, was)) {
                    left.failed.push((thread.tid, error.to_string()));
                }
            }
        }
        Ok(left)
    }

    /// The first thread of the process, or of those that are meant.
    pub fn first(&self) -> Option<&Thread> {
        self.record_of(self.pid).or_else(|| self.threads.first())
    }

    /// The command that does it.
    pub fn command(&self) -> String {
        let pid = self.pid;
        let whom = match self.only.as_slice() {
            [] => ("--all-tasks ", pid.to_string()),
            only => ("", only.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")),
        };
        let each = |command: String| match self.only.len() {
            0 | 1 => format!("{command} {}", whom.1),
            _ => format!("for t in {}; do {command} $t; done", whom.1),
        };
        let cpus = |cpus: &Cpus| each(format!("taskset {}--cpu-list --pid {cpus}", whom.0));
        match &self.deed {
            Deed::Policy(policy) => each(format!("chrt {}{} --pid 0", whom.0, flag(*policy))),
            Deed::Nice(nice) if self.only.is_empty() => {
                format!("renice -n {nice} -p $(ls /proc/{pid}/task)")
            }
            Deed::Nice(nice) => format!("renice -n {nice} -p {}", whom.1),
            Deed::Cpus(set) => cpus(set),
            Deed::Avoid(set) => {
                cpus(&self.first().map(|it| it.cpus.without(set)).unwrap_or_default())
            }
        }
    }

    fn record_of(&self, tid: u32) -> Option<&Thread> {
        self.threads.iter().find(|it| it.tid == tid)
    }

    fn now(&self, tree: &Tree) -> io::Result<Vec<Thread>> {
        let mut threads = known(threads::threads(tree, self.pid))?;
        threads.retain(|it| self.only.is_empty() || self.only.contains(&it.tid));
        Ok(threads)
    }
}

impl Deed {
    /// Whether a thread would be another one after it.
    fn changes(&self, thread: &Thread) -> bool {
        match self {
            // A real-time or idle thread is so on purpose and stays so, unless this change ends a real-time policy.
            Self::Policy(policy) => {
                let is_ordinary = matches!(thread.policy, Policy::Other | Policy::Batch);
                let ends = *policy == Policy::Other && thread.policy.is_realtime();
                (is_ordinary || ends) && thread.policy != *policy
            }
            Self::Nice(nice) => thread.nice != *nice && !thread.policy.is_realtime(),
            Self::Cpus(cpus) => thread.cpus != *cpus,
            Self::Avoid(cpus) => thread.cpus.meets(cpus) && !thread.cpus.without(cpus).is_empty(),
        }
    }

    fn apply_to(&self, thread: &Thread) -> io::Result<()> {
        match self {
            Self::Policy(policy) => scheduling::set_policy(thread.tid, *policy, 0),
            Self::Nice(nice) => scheduling::set_nice(thread.tid, *nice),
            Self::Cpus(cpus) => scheduling::set_cpus(thread.tid, cpus),
            Self::Avoid(cpus) => scheduling::set_cpus(thread.tid, &thread.cpus.without(cpus)),
        }
    }

    /// Whether a thread is, in what this changes, what it was.
    fn is_undone(&self, now: &Thread, was: &Thread) -> bool {
        match self {
            Self::Policy(_) => now.policy == was.policy && now.priority == was.priority,
            Self::Nice(_) => now.nice == was.nice,
            Self::Cpus(_) | Self::Avoid(_) => now.cpus == was.cpus,
        }
    }

    /// Whether this change made the thread what it is. CPUs that went offline meanwhile do not count as another change.
    fn made(&self, now: &Thread, was: &Thread, online: Option<&Cpus>) -> bool {
        let is = |given: &Cpus| {
            let left = || online.map(|online| given.within(online));
            now.cpus == *given || left().is_some_and(|left| now.cpus == left)
        };
        match self {
            Self::Policy(policy) => now.policy == *policy,
            Self::Nice(nice) => now.nice == *nice,
            Self::Cpus(cpus) => is(cpus),
            Self::Avoid(cpus) => is(&was.cpus.without(cpus)),
        }
    }

    fn undo_on(&self, tid: u32, was: &Thread) -> io::Result<()> {
        match self {
            Self::Policy(_) => scheduling::set_policy(tid, was.policy, was.priority),
            Self::Nice(_) => scheduling::set_nice(tid, was.nice),
            Self::Cpus(_) | Self::Avoid(_) => scheduling::set_cpus(tid, &was.cpus),
        }
    }
}

/// The option of `chrt` for a policy.
pub fn flag(policy: Policy) -> &'static str {
    match policy {
        Policy::Other | Policy::Ext => "--other",
        Policy::Batch => "--batch",
        Policy::Idle => "--idle",
        Policy::Fifo => "--fifo",
        Policy::RoundRobin => "--rr",
        Policy::Deadline => "--deadline",
    }
}

/// The CPUs that are there, if the kernel tells.
pub fn online(tree: &Tree) -> Option<Cpus> {
    let path = "/sys/devices/system/cpu/online";
    tree.line(path).parse(path, |line| line.parse().ok()).known().cloned()
}

fn started(tree: &Tree, pid: u32) -> io::Result<u64> {
    known(threads::line(tree, pid)).map(|line| line.started)
}

/// A thread that has ended needs nothing.
fn alive(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        result => result,
    }
}

/// What was seen, or why not, as an error.
pub fn known<T>(seen: Seen<T>) -> io::Result<T> {
    match seen {
        Seen::Known(value) => Ok(value),
        Seen::Denied(what) => Err(io::Error::new(io::ErrorKind::PermissionDenied, what)),
        Seen::Unknown(why) => Err(io::Error::new(io::ErrorKind::NotFound, why)),
    }
}

/// Threads are born in these as well; a process that makes threads without end is not waited for.
const ROUNDS_MAX: usize = 8;

#[cfg(test)]
mod tests;
