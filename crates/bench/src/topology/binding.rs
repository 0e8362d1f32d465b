//! The binding of the processes of a run to CPUs, and its undoing.
//!
//! Owns which threads are bound. Invariants: what was found is as it was before when this value is dropped, and after a
//! kill of this process too (see [`super::watcher`]); what the run has started ends with it and needs no undoing; what
//! cannot be bound is told, and keeps no other process from being bound.

use std::io;

use sys::account;
use sys::cpus::Cpus;
use sys::placing::{Deed, Left, Placed};
use sys::threads;
use sys::tree::{Seen, Tree};

use super::seen;
use super::watcher::Watcher;
use crate::results::{Layout, Process, ProcessPlace, Role, Topology};

/// A process that takes part in a run.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) process: Process,
    pub(crate) origin: Origin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// By the run, with which it ends.
    Started,
    /// It was there before, and will be afterwards.
    Found,
}

/// What is bound now.
#[derive(Debug)]
pub(crate) struct Binding {
    tree: Tree,
    /// To be undone: what was found, and this process.
    bound: Vec<Placed>,
    watcher: Option<Watcher>,
}

impl Binding {
    pub(crate) fn none() -> Self {
        Self { tree: Tree::live(), bound: Vec::new(), watcher: None }
    }

    /// Binds all parts as a layout says, in the place of what was bound before, and looks at what came of it.
    pub(crate) fn bind(&mut self, name: &str, layout: Option<&Layout>, parts: &[Part]) -> Topology {
        let mut cautions = self.release();
        if let Some(layout) = layout {
            let machine = sys::topology::cpus(&self.tree);
            cautions.extend(machine.known().and_then(|machine| super::near(layout, machine)));
            for part in parts {
                let Some(cpus) = layout.of(part.process.role) else { continue };
                cautions.extend(self.bind_part(part, cpus));
            }
        }
        let processes = parts.iter().map(|part| seen::process(&self.tree, &part.process)).collect();
        Topology { name: name.to_owned(), layout: layout.cloned(), processes, cautions }
    }

    /// What has left its CPUs since it was bound to them.
    pub(crate) fn strays(&self, topology: &Topology) -> Vec<String> {
        let Some(layout) = &topology.layout else { return Vec::new() };
        let stray = |place: &ProcessPlace| {
            let (wanted, was) = (layout.of(place.role)?, place.cpus.known()?);
            let Seen::Known(now) = seen::cpus(&self.tree, place.pid) else { return None };
            (was == wanted && now != *wanted).then(|| {
                format!(
                    "{} (process {}) did not stay on CPUs {wanted}: it had {now} later",
                    place.name, place.pid
                )
            })
        };
        topology.processes.iter().filter_map(stray).collect()
    }

    /// Undoes everything. Returns what could not be undone.
    pub(crate) fn release(&mut self) -> Vec<String> {
        let mut failures = Vec::new();
        while let Some(placed) = self.bound.pop() {
            failures.extend(restore(&self.tree, &placed).err());
        }
        if let Some(watcher) = &mut self.watcher {
            // Were it gone, there would be nothing that it could undo.
            let _ = watcher.keep(self.bound.iter());
        }
        failures
    }

    /// Binds a part, and of one that was found its children too: a proxy's master may have the socket, and they the work.
    fn bind_part(&mut self, part: &Part, cpus: &Cpus) -> Vec<String> {
        let Part { process: Process { role, name, pid }, origin } = part;
        let pids = match (origin, role) {
            (Origin::Found, Role::Server | Role::Proxy) => family(*pid),
            _ => vec![*pid],
        };
        let mut cautions = Vec::new();
        for pid in pids {
            let done = match origin {
                Origin::Started => self.bind_for_good(pid, cpus),
                Origin::Found => self.bind_for_now(pid, cpus),
            };
            if let Err(error) = done {
                let now = seen::cpus(&self.tree, pid);
                let now = now
                    .known()
                    .map_or_else(|| "where it is".to_owned(), |it| format!("on CPUs {it}"));
                cautions.push(format!("{name} (process {pid}) stays {now}: {}", reason(&error)));
            }
        }
        cautions
    }

    fn bind_for_good(&self, pid: u32, cpus: &Cpus) -> io::Result<()> {
        let mut placed = Placed::read(&self.tree, pid, Deed::Cpus(cpus.clone()), Vec::new())?;
        placed.apply(&self.tree, &mut |_| Ok(()))
    }

    fn bind_for_now(&mut self, pid: u32, cpus: &Cpus) -> io::Result<()> {
        let mut placed = Placed::read(&self.tree, pid, Deed::Cpus(cpus.clone()), Vec::new())?;
        // Of this process nothing is left to be undone after its end.
        let is_own = pid == std::process::id();
        if !is_own && self.watcher.is_none() {
            self.watcher = Some(Watcher::start().map_err(io::Error::other)?);
        }
        let Self { tree, bound, watcher } = self;
        let mut keep = |record: &Placed| match watcher {
            Some(watcher) if !is_own => watcher.keep(bound.iter().chain([record])),
            _ => Ok(()),
        };
        keep(&placed)?;
        placed.apply(tree, &mut keep)?;
        self.bound.push(placed);
        Ok(())
    }
}

impl Drop for Binding {
    fn drop(&mut self) {
        for failure in self.release() {
            eprintln!("flifo: {failure}");
        }
    }
}

/// A process and all that descend from it, without this process and what it has started.
fn family(pid: u32) -> Vec<u32> {
    let (tree, own) = (Tree::live(), std::process::id());
    let parent = |pid: u32| Some((pid, threads::line(&tree, pid).known()?.parent));
    let all: Vec<(u32, u32)> =
        account::pids().unwrap_or_default().into_iter().filter_map(parent).collect();
    let mut family = vec![pid];
    let mut at = 0;
    while let Some(parent) = family.get(at).copied() {
        at += 1;
        let is_new = |pid: u32| pid != own && !family.contains(&pid);
        let children = all.iter().filter(|(pid, its)| *its == parent && is_new(*pid));
        let children: Vec<u32> = children.map(|(pid, _)| *pid).collect();
        family.extend(children);
    }
    family
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "only root, its own user and a process with CAP_SYS_NICE may bind it".to_owned()
        }
        io::ErrorKind::InvalidInput => "its control group allows none of the CPUs".to_owned(),
        _ => format!("{error:#}"),
    }
}

/// Gives a process the CPUs back that it had. An error says what could not be undone.
pub(super) fn restore(tree: &Tree, placed: &Placed) -> Result<(), String> {
    let pid = placed.pid;
    match placed.restore(tree) {
        Ok(left) if left.is_nothing() => Ok(()),
        Ok(left) => Err(format!("process {pid}: {}", in_words(&left))),
        Err(error) => Err(format!("the CPUs of process {pid} cannot be restored: {error}")),
    }
}

/// What of a binding could not be undone.
fn in_words(left: &Left) -> String {
    let mut parts = Vec::new();
    if !left.others.is_empty() {
        parts.push(format!(
            "{} threads were given other CPUs meanwhile, and keep them",
            left.others.len()
        ));
    }
    if let Some((tid, why)) = left.failed.first() {
        parts.push(format!(
            "{} threads could not be given their CPUs back, such as {tid}: {why}",
            left.failed.len()
        ));
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn sleeper(script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(std::process::Stdio::piped());
        sys::child::spawn(command).expect("starts")
    }

    fn part(role: Role, pid: u32, origin: Origin) -> Part {
        Part { process: Process { role, name: "sh".into(), pid }, origin }
    }

    #[test]
    fn parts_are_bound_as_the_layout_says() {
        let one: Cpus = super::super::given().expect("told").iter().take(1).collect();
        let mut child = sleeper("read line");
        let mut other = sleeper("read line");
        let parts = [
            part(Role::Server, child.id(), Origin::Started),
            part(Role::Proxy, other.id(), Origin::Started),
        ];
        let layout = Layout { server: one.clone(), proxy: one.clone(), clients: one.clone() };
        let mut binding = Binding::none();
        let topology = binding.bind("test", Some(&layout), &parts);
        assert_eq!(topology.cautions, [""; 0]);
        for place in &topology.processes {
            assert_eq!(place.cpus.known(), Some(&one), "{place:?}");
        }
        assert_eq!(binding.strays(&topology), [""; 0]);
        for child in [&mut child, &mut other] {
            child.kill().and_then(|()| child.wait().map(drop)).expect("ends");
        }
    }

    #[test]
    fn what_is_gone_is_told_and_keeps_no_other_from_its_place() {
        let one: Cpus = super::super::given().expect("told").iter().take(1).collect();
        let mut child = sleeper("read line");
        let parts = [
            part(Role::Server, u32::MAX, Origin::Started),
            part(Role::Proxy, child.id(), Origin::Started),
        ];
        let layout = Layout { server: one.clone(), proxy: one.clone(), clients: one.clone() };
        let topology = Binding::none().bind("test", Some(&layout), &parts);
        assert!(topology.cautions[0].contains("stays where it is"), "{topology:?}");
        assert_eq!(topology.processes[1].cpus.known(), Some(&one), "{topology:?}");
        child.kill().and_then(|()| child.wait().map(drop)).expect("ends");
    }

    #[test]
    fn a_process_that_left_its_cpus_is_told() {
        let given = super::super::given().expect("told");
        if given.len() < 2 {
            return;
        }
        let one: Cpus = given.iter().take(1).collect();
        let mut child = sleeper("read line");
        let parts = [part(Role::Server, child.id(), Origin::Started)];
        let layout = Layout { server: one.clone(), proxy: one.clone(), clients: one };
        let mut binding = Binding::none();
        let topology = binding.bind("test", Some(&layout), &parts);
        sys::scheduling::set_cpus(child.id(), &given).expect("binds");
        let strays = binding.strays(&topology);
        assert!(strays[0].contains("did not stay on CPUs"), "{strays:?}");
        child.kill().and_then(|()| child.wait().map(drop)).expect("ends");
    }

    #[test]
    fn children_belong_to_a_found_process() {
        let mut child = sleeper("sh -c 'read line; true'; true");
        let is_there = || (family(child.id()).len() == 2).then_some(());
        let found = (0..3000).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            is_there()
        });
        assert!(found.is_some(), "{:?}", family(child.id()));
        child.kill().and_then(|()| child.wait().map(drop)).expect("ends");
    }

    #[test]
    fn what_was_left_is_told_in_words() {
        let left = Left { others: vec![7, 8], failed: vec![(9, "no".to_owned())] };
        let want = "2 threads were given other CPUs meanwhile, and keep them; \
                    1 threads could not be given their CPUs back, such as 9: no";
        assert_eq!(in_words(&left), want);
        assert_eq!(in_words(&Left::default()), "");
        let denied = reason(&io::Error::from(io::ErrorKind::PermissionDenied));
        assert!(denied.contains("CAP_SYS_NICE"), "{denied}");
    }
}
