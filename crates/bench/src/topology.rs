//! Topologies: which of server, proxy and clients share CPUs in a run.
//!
//! Owns what `--place` may say and which CPUs that means on a machine; [`binding`] does it. Invariants: a layout names
//! only CPUs that this process may use, and at least one for each part; what a machine is too small for is an error, and
//! not another topology.

pub(crate) mod binding;
mod seen;
pub mod watcher;

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result};
use sys::cpus::Cpus;
use sys::scheduling;
use sys::topology::Cpu;

use crate::results::Layout;

/// What may be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopologyKind {
    /// All parts on all CPUs.
    Together,
    /// Server and proxy on one CPU, clients on the others.
    BesideServer,
    /// The server alone on one CPU, proxy and clients on the others.
    BesideClients,
    /// Server and proxy on a CPU each, clients on the others.
    Apart,
    /// Parts that are not named have all CPUs.
    Lists { server: Option<Cpus>, proxy: Option<Cpus>, clients: Option<Cpus> },
}

/// A text that names no topology, or one that the machine cannot have; says why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoTopology(String);

impl FromStr for TopologyKind {
    type Err = NoTopology;

    fn from_str(text: &str) -> Result<Self, NoTopology> {
        match NAMED.iter().find(|(name, _)| *name == text) {
            Some((_, kind)) => Ok(kind.clone()),
            None if text.contains('=') => lists(text),
            None => {
                let names = NAMED.map(|(name, _)| name).join(", ");
                let why = format!("{text:?} is no topology; there are {names}, and {EXAMPLE}");
                Err(NoTopology(why))
            }
        }
    }
}

/// Reads "server=0,2-3,proxy=1": a comma goes on with a list, or begins the next part.
fn lists(text: &str) -> Result<TopologyKind, NoTopology> {
    let wrong = |why: String| NoTopology(format!("{text:?}: {why}; write {EXAMPLE}"));
    let [mut server, mut proxy, mut clients] = [const { None }; 3];
    let mut list: Option<(&str, String)> = None;
    let mut pieces = text.split(',').peekable();
    while let Some(piece) = pieces.next() {
        match (piece.split_once('='), &mut list) {
            (Some((part, cpus)), _) => list = Some((part, cpus.to_owned())),
            (None, Some((_, cpus))) => *cpus = format!("{cpus},{piece}"),
            (None, None) => return Err(wrong(format!("{piece:?} names no part"))),
        }
        if pieces.peek().is_some_and(|next| !next.contains('=')) {
            continue;
        }
        let Some((part, cpus)) = list.take() else { continue };
        let place = match part {
            "server" => &mut server,
            "proxy" => &mut proxy,
            "clients" => &mut clients,
            _ => return Err(wrong(format!("{part:?} is none of server, proxy and clients"))),
        };
        let cpus: Cpus = cpus.parse().map_err(|error| wrong(format!("{part}: {error}")))?;
        if cpus.is_empty() {
            return Err(wrong(format!("{part} has no CPU")));
        }
        if place.replace(cpus).is_some() {
            return Err(wrong(format!("{part} is named twice")));
        }
    }
    Ok(TopologyKind::Lists { server, proxy, clients })
}

impl fmt::Display for TopologyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Lists { server, proxy, clients } = self else {
            let named = NAMED.iter().find(|(_, kind)| kind == self);
            return f.write_str(named.map_or("", |(name, _)| name));
        };
        let mut comma = "";
        for (part, cpus) in [("server", server), ("proxy", proxy), ("clients", clients)] {
            if let Some(cpus) = cpus {
                write!(f, "{comma}{part}={cpus}")?;
                comma = ",";
            }
        }
        Ok(())
    }
}

impl TopologyKind {
    /// The CPUs of each part, of those that are given.
    pub fn layout(&self, given: &Cpus) -> Result<Layout, NoTopology> {
        let needed = match self {
            Self::Together | Self::Lists { .. } => 1,
            Self::BesideServer | Self::BesideClients => 2,
            Self::Apart => 3,
        };
        if given.len() < needed {
            return Err(NoTopology(format!(
                "the topology {self} needs {needed} CPUs, and this process may use {} ({given})",
                given.len()
            )));
        }
        // The last ones: on many machines the first serves the most interrupts.
        let mut from_last: Vec<u32> = given.iter().collect();
        from_last.reverse();
        let one = |at: usize| from_last.iter().skip(at).take(1).copied().collect::<Cpus>();
        let rest = |from: usize| from_last.iter().skip(from).copied().collect::<Cpus>();
        let (server, proxy, clients) = match self {
            Self::Together => (rest(0), rest(0), rest(0)),
            Self::BesideServer => (one(0), one(0), rest(1)),
            Self::BesideClients => (one(0), rest(1), rest(1)),
            Self::Apart => (one(0), one(1), rest(2)),
            Self::Lists { server, proxy, clients } => {
                let asked = |cpus: &Option<Cpus>| match cpus {
                    None => Ok(given.clone()),
                    Some(cpus) if cpus.is_within(given) => Ok(cpus.clone()),
                    Some(cpus) => Err(NoTopology(format!(
                        "{self}: this process may use CPUs {given}, and {} are not among them",
                        cpus.without(given)
                    ))),
                };
                (asked(server)?, asked(proxy)?, asked(clients)?)
            }
        };
        Ok(Layout { server, proxy, clients })
    }
}

/// The CPUs that this process may use.
pub fn given() -> Result<Cpus> {
    scheduling::own_cpus().context("the CPUs of this process cannot be read")
}

/// Tries whether this process may bind threads at all, by binding its own to the CPUs that it has.
pub fn try_to_bind(given: &Cpus) -> Result<()> {
    let bound = scheduling::set_cpus(sys::threads::own_number(), given);
    bound.context(
        "this process may not bind threads to CPUs (a container or a sandbox can forbid it)",
    )
}

/// What `flifo demo` shows: two topologies, or none and the reason.
pub fn of_demo(given: &Cpus, bound: Result<()>) -> (Vec<TopologyKind>, Option<String>) {
    const BOTH: &str = "The topologies beside-clients and beside-server are not shown";
    let but = "below, nothing is bound to CPUs";
    let why = match (given.len(), bound) {
        (0 | 1, _) => format!("this process may use one CPU only ({given})"),
        (_, Err(error)) => format!("{error:#}"),
        (_, Ok(())) => {
            return (vec![TopologyKind::BesideClients, TopologyKind::BesideServer], None);
        }
    };
    (Vec::new(), Some(format!("{BOTH}: {why}; {but}.")))
}

/// Says which parts are nearer to each other than their CPUs' numbers tell: on two threads of one core.
pub fn near(layout: &Layout, machine: &[Cpu]) -> Option<String> {
    let core = |cpus: &Cpus| -> Cpus {
        let ours = machine.iter().filter(|cpu| cpus.has(cpu.number));
        ours.filter_map(|cpu| cpu.core.known()).flat_map(Cpus::iter).collect()
    };
    let Layout { server, proxy, clients } = layout;
    let pairs = [
        ("server and proxy", server, proxy),
        ("server and clients", server, clients),
        ("proxy and clients", proxy, clients),
    ];
    let are_near = |one: &Cpus, other: &Cpus| !one.meets(other) && core(one).meets(other);
    let near: Vec<&str> = pairs
        .iter()
        .filter(|(_, one, other)| are_near(one, other))
        .map(|(name, ..)| *name)
        .collect();
    let list = near.join(", ");
    (!near.is_empty()).then(|| format!("CPUs of {list} are threads of the same cores"))
}

const NAMED: [(&str, TopologyKind); 4] = [
    ("together", TopologyKind::Together),
    ("beside-server", TopologyKind::BesideServer),
    ("beside-clients", TopologyKind::BesideClients),
    ("apart", TopologyKind::Apart),
];
const EXAMPLE: &str = "lists of CPUs such as server=0-1,proxy=2,clients=3";

#[cfg(test)]
mod tests;
