//! Where the processes of a run ran: which of them shared CPUs, automatic groups and control groups.
//!
//! Owns the form of it in the file. Invariant: what could not be seen says why, and is not taken for free of limits.

use serde::{Deserialize, Serialize};
use sys::cgroup::Cgroup;
use sys::cpus::Cpus;
use sys::details::Autogroup;
use sys::tree::Seen;

use super::{Cell, Ratio, Role};

/// What a run has seen under one topology, in its first start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Topology {
    /// As it was asked for; empty where nothing was bound.
    pub name: String,
    /// Which CPUs each part was to have; absent where nothing was bound.
    pub layout: Option<Layout>,
    pub processes: Vec<ProcessPlace>,
    /// What is not as it was asked for, and why.
    pub cautions: Vec<String>,
}

/// The CPUs of each part of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    pub server: Cpus,
    pub proxy: Cpus,
    pub clients: Cpus,
}

/// Where a process was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessPlace {
    pub role: Role,
    pub name: String,
    pub pid: u32,
    /// Of all its threads together.
    pub cpus: Seen<Cpus>,
    /// The kernel's automatic group, of which each gets as much CPU time as another.
    pub autogroup: Seen<Autogroup>,
    pub cgroup: Seen<Cgroup>,
}

impl Layout {
    pub fn of(&self, role: Role) -> Option<&Cpus> {
        match role {
            Role::Server => Some(&self.server),
            Role::Proxy => Some(&self.proxy),
            Role::Generator => Some(&self.clients),
            Role::Other => None,
        }
    }
}

/// What clients do, how many there are, and where everything runs: what figures of two targets must have in common to
/// be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LoadKey<'a> {
    pub topology: &'a str,
    pub workload: &'a str,
    pub clients: u32,
}

impl std::fmt::Display for LoadKey<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.topology.is_empty() {
            write!(f, "{}, ", self.topology)?;
        }
        write!(f, "{}, {} clients", self.workload, self.clients)
    }
}

impl Cell {
    pub fn load(&self) -> LoadKey<'_> {
        let Self { topology, workload, clients, .. } = self;
        LoadKey { topology, workload, clients: *clients }
    }
}

impl Ratio {
    pub fn load(&self) -> LoadKey<'_> {
        let Self { topology, workload, clients, .. } = self;
        LoadKey { topology, workload, clients: *clients }
    }
}
