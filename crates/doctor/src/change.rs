//! A change of the machine or of the server that can be undone: what it is, as a command and as a
//! deed.
//!
//! Does not decide whether it is made. Invariants: the state before is read before anything is
//! changed, and undoing restores exactly that; a process is told from a later one of the same
//! number; what cannot be read is not changed.

use std::fmt;
use std::io;

use sys::cpus::Cpus;
use sys::placing::{Deed, Placed, flag, known};
use sys::threads::{self, Policy, Thread};
use sys::tree::Tree;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The policy of all ordinary threads of a process.
    Policy { pid: u32, policy: Policy },
    /// Where all threads of a process may run.
    Cpus { pid: u32, cpus: Cpus },
    /// The soft limit of open files rises to the hard one.
    OpenFiles { pid: u32 },
    /// A file of the kernel's is written.
    File { path: String, value: String },
    /// A global variable of the server.
    Variable { name: String, value: String },
}

impl fmt::Display for Change {
    /// The command of an administrator.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy { pid, policy } => {
                write!(f, "chrt --all-tasks {} --pid 0 {pid}", flag(*policy))
            }
            Self::Cpus { pid, cpus } => {
                write!(f, "taskset --all-tasks --cpu-list --pid {cpus} {pid}")
            }
            Self::OpenFiles { pid } => {
                write!(
                    f,
                    "prlimit --pid {pid} --nofile=\"$(prlimit --pid {pid} --nofile --noheadings \
                     --output HARD)\""
                )
            }
            Self::File { path, value } => {
                write!(f, "printf '%s' {} >{}", quote(value), quote(path))
            }
            Self::Variable { name, value } => write!(f, "SET GLOBAL {name} = {value}"),
        }
    }
}

/// How things were before a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Before {
    Threads(Placed),
    OpenFiles { pid: u32, started: u64, soft: Option<u64>, hard: Option<u64> },
    File { path: String, value: String },
    Variable { name: String, value: String },
}

/// What asks and tells the server.
pub trait GlobalVariables {
    fn get(&mut self, name: &str) -> io::Result<String>;
    fn set(&mut self, name: &str, value: &str) -> io::Result<()>;
}

impl Change {
    /// Reads what the change would change.
    pub fn before(&self, tree: &Tree, server: &mut dyn GlobalVariables) -> io::Result<Before> {
        Ok(match self {
            Self::Policy { .. } | Self::Cpus { .. } => Before::Threads(self.placed(tree)?),
            Self::OpenFiles { pid } => {
                let limit = known(sys::details::open_files_limit(tree, *pid))?;
                let started = started(tree, *pid)?;
                Before::OpenFiles { pid: *pid, started, soft: limit.soft, hard: limit.hard }
            }
            Self::File { path, .. } => {
                let value = known(tree.line(path))?;
                // Of "always [madvise] never" the marked one is written back.
                let marked =
                    value.split(' ').find_map(|it| it.strip_prefix('[')?.strip_suffix(']'));
                let value = marked.map_or_else(|| value.clone(), str::to_owned);
                Before::File { path: path.clone(), value }
            }
            Self::Variable { name, .. } => {
                Before::Variable { name: name.clone(), value: server.get(name)? }
            }
        })
    }

    /// The threads that it changes.
    fn placed(&self, tree: &Tree) -> io::Result<Placed> {
        let (pid, deed) = match self {
            Self::Policy { pid, policy } => (*pid, Deed::Policy(*policy)),
            Self::Cpus { pid, cpus } => (*pid, Deed::Cpus(cpus.clone())),
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        };
        Placed::read(tree, pid, deed, Vec::new())
    }

    pub fn apply(&self, tree: &Tree, server: &mut dyn GlobalVariables) -> io::Result<()> {
        match self {
            Self::Policy { .. } | Self::Cpus { .. } => {
                self.placed(tree)?.apply(tree, &mut |_| Ok(()))
            }
            Self::OpenFiles { pid } => {
                let limit = known(sys::details::open_files_limit(tree, *pid))?;
                sys::process::set_open_files(*pid, limit.hard, limit.hard)
            }
            Self::File { path, value } => std::fs::write(tree.path(path), value),
            Self::Variable { name, value } => server.set(name, value),
        }
    }
}

impl Before {
    /// Makes it so again.
    pub fn restore(&self, tree: &Tree, server: &mut dyn GlobalVariables) -> io::Result<()> {
        match self {
            Self::Threads(placed) => match placed.restore(tree)?.failed.first() {
                Some((tid, why)) => Err(io::Error::other(format!("thread {tid}: {why}"))),
                None => Ok(()),
            },
            Self::OpenFiles { pid, started: then, soft, hard } => {
                if started(tree, *pid).ok() != Some(*then) {
                    return Ok(());
                }
                sys::process::set_open_files(*pid, *soft, *hard)
            }
            Self::File { path, value } => std::fs::write(tree.path(path), value),
            Self::Variable { name, value } => server.set(name, value),
        }
    }

    /// The lines of a shell script that make it so again.
    pub fn script(&self, client: &str) -> String {
        match self {
            Self::Threads(placed) => {
                let Some(main) = placed.first() else { return String::new() };
                let Placed { pid, started, threads, .. } = placed;
                // All get what the first thread had, those that were born since among them; twice,
                // for some may have been born meanwhile. Then come those that had something else.
                let mut lines = tell("--all-tasks ", *pid, main).repeat(2);
                for it in threads.iter().filter(|it| !it.is_scheduled_as(main)) {
                    lines += &tell("", it.tid, it);
                }
                format!("if same {pid} {started}; then\n{lines}fi\n")
            }
            Self::OpenFiles { pid, started, soft, hard } => {
                let text = |limit: &Option<u64>| {
                    limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string())
                };
                let limits = format!("{}:{}", text(soft), text(hard));
                format!("if same {pid} {started}; then prlimit --pid {pid} --nofile={limits}; fi\n")
            }
            Self::File { path, value } => {
                format!("printf '%s' {} >{}\n", quote(value), quote(path))
            }
            Self::Variable { name, value } => {
                format!("{client} -e {}\n", quote(&set_global(name, value)))
            }
        }
    }
}

/// The lines of a script that schedule `whom`, a thread or with `all` a process, as `it` is. It may
/// have ended.
fn tell(all: &str, whom: u32, it: &Thread) -> String {
    let (policy, priority, cpus) = (flag(it.policy), it.priority, &it.cpus);
    format!(
        "    chrt {policy} {all}--pid {priority} {whom} || :\n    \
         taskset {all}--cpu-list --pid {cpus} {whom} >/dev/null || :\n"
    )
}

/// The statement that sets a variable.
pub(crate) fn set_global(name: &str, value: &str) -> String {
    if value.parse::<f64>().is_ok() {
        return format!("SET GLOBAL {name} = {value}");
    }
    format!("SET GLOBAL {name} = '{}'", value.replace('\\', "\\\\").replace('\'', "''"))
}

/// Begins an undo script.
pub(crate) const SCRIPT: &str = "#!/bin/sh\n\
    # Undoes what `flifo doctor --fix` has changed, the last first.\n\
    # A process that has ended since, or another one of its number, is left alone.\n\
    same() { test \"$(sed 's/.*) //' /proc/$1/stat 2>/dev/null | cut -d' ' -f20)\" = \"$2\"; }\n";

fn started(tree: &Tree, pid: u32) -> io::Result<u64> {
    known(threads::line(tree, pid)).map(|line| line.started)
}

/// For a shell.
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests;
