//! The targets of a run: named ones as they are, and those that are started for it.
//!
//! Finds out which server and which processes are there. A proxy is started once for each topology, on the CPUs that it
//! has in it, because programs count their CPUs when they begin; all topologies share the private server. Invariant: what
//! was started here ends with this value.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use backend::Address;
use backend::stream::Peer;

use super::options::{RunOptions, Stage};
use super::{ROWS, TABLES};
use crate::interrupt::Interrupt;
use crate::load::{Account, connect_once};
use crate::private_server::PrivateServer;
use crate::results::{Process, Role, TargetResult};
use crate::targets::{self, Setup, TargetKind};
use crate::topology::binding::{Origin, Part};
use crate::workloads::tables::{self, Extent};

pub(super) struct RunTargets {
    /// For each topology in the order of their turns.
    pub(super) stages: Vec<Vec<RunTarget>>,
    /// What a reader of the figures should know of the targets.
    pub(super) notes: Vec<String>,
    /// Each lives as long as this value. Dropped before the server to which they hold connections.
    proxies: Vec<targets::Target>,
    server: Option<PrivateServer>,
}

/// One target.
#[derive(Clone)]
pub(super) struct RunTarget {
    pub(super) target: TargetResult,
    pub(super) address: Address,
    pub(super) account: Account,
    /// By this run, and anew for each start.
    pub(super) is_started: bool,
}

impl RunTargets {
    pub(super) fn open(
        options: &RunOptions,
        stages: &[Stage],
        interrupt: &Interrupt,
    ) -> Result<Self> {
        let mut run_targets = Self {
            stages: stages.iter().map(|_| Vec::new()).collect(),
            notes: Vec::new(),
            proxies: Vec::new(),
            server: None,
        };
        if !options.start.is_empty() {
            run_targets.start(options, stages, interrupt)?;
        }
        for ((name, shown), (account, address)) in options.targets.iter().zip(options.addresses()?)
        {
            let target = visit(name, shown, &account, &address)?;
            let found = RunTarget { target, address, account, is_started: false };
            run_targets.stages.iter_mut().for_each(|stage| stage.push(found.clone()));
        }
        if !options.processes.iter().any(|(role, _)| *role == Role::Server) {
            run_targets.find_servers();
        }
        run_targets.add_named(options)?;
        Ok(run_targets)
    }

    /// The targets as they are in the first topology.
    pub(super) fn first(&self) -> &[RunTarget] {
        self.stages.first().map_or(&[], Vec::as_slice)
    }

    /// The processes that take part in a topology.
    pub(super) fn parts(&self, stage: usize) -> Vec<Part> {
        let started = self.server.iter().filter_map(PrivateServer::pid);
        let started = started.chain(self.proxies.iter().filter_map(targets::Target::proxy_pid));
        let started: BTreeSet<u32> = started.collect();
        let mut parts: Vec<Part> = Vec::new();
        let processes = self.stages.get(stage).into_iter().flatten();
        for process in processes.flat_map(|it| &it.target.processes) {
            if !parts.iter().any(|part| part.process.pid == process.pid) {
                let is_started = started.contains(&process.pid);
                let origin = if is_started { Origin::Started } else { Origin::Found };
                parts.push(Part { process: process.clone(), origin });
            }
        }
        parts.sort_by_key(|part| part.process.role as u8);
        parts
    }

    /// Targets whose processes are not known, and so cannot be bound.
    pub(super) fn unknown(&self) -> impl Iterator<Item = String> {
        let is_known = |it: &RunTarget| {
            it.target.processes.iter().any(|process| process.role != Role::Generator)
        };
        self.first().iter().filter(move |it| !is_known(it)).map(|it| {
            format!(
                "{}: its process was not found and is not bound: it runs on another machine, or belongs to another user \
                 and only root may look for it; --process server=PID names it",
                it.target.name
            )
        })
    }

    /// Starts a private server with tables, and the targets in front of it.
    fn start(
        &mut self,
        options: &RunOptions,
        stages: &[Stage],
        interrupt: &Interrupt,
    ) -> Result<()> {
        eprintln!("Starting a private MariaDB …");
        let most = options.clients.iter().copied().max().unwrap_or(0).saturating_add(options.idle);
        // Each client prepares up to nine statements for each table.
        let prepared = "--max-prepared-stmt-count=1048576";
        let connections = format!("--max-connections={}", most.saturating_add(SPARE));
        let builder = PrivateServer::builder().argument(prepared).argument(connections);
        let server = builder.start()?;
        let options = RunOptions {
            user: PrivateServer::USER.into(),
            schema: PrivateServer::DATABASE.into(),
            ..options.clone()
        };
        let extent =
            Extent { tables: options.tables.unwrap_or(TABLES), rows: options.rows.unwrap_or(ROWS) };
        let direct = Address::Unix(server.socket());
        let account = options.account(&direct, server.password())?;
        tables::prepare(&account, &direct, extent, options.seed, interrupt)?;
        for (at, stage) in stages.iter().enumerate() {
            let setup = Setup {
                flifo: options.flifo.clone(),
                workers: options.workers,
                clients_max: most,
                cpus: stage.layout.as_ref().map(|layout| layout.proxy.clone()),
            };
            for kind in &options.start {
                let target = targets::Target::start(*kind, &server, &setup, interrupt)?;
                let address = target.backend_address();
                let account = options.account(&address, server.password())?;
                let mut visited = visit(kind.name(), &address.to_string(), &account, &address)?;
                visited.address = kind.name().to_owned();
                visited.processes = started(*kind, &target, &server)?;
                let target_of_run =
                    RunTarget { target: visited, address, account, is_started: true };
                self.stages[at].push(target_of_run);
                self.proxies.push(target);
            }
        }
        self.server = Some(server);
        Ok(())
    }

    /// Behind a proxy of this machine stands a server, most likely the one that is known.
    fn find_servers(&mut self) {
        let known: BTreeSet<(String, u32)> = self
            .first()
            .iter()
            .flat_map(|run_target| &run_target.target.processes)
            .filter(|process| process.role == Role::Server)
            .map(|process| (process.name.clone(), process.pid))
            .collect();
        let known = if known.is_empty() { servers_of_machine() } else { known };
        let mut unknown = BTreeSet::new();
        for run_target in self.stages.iter_mut().flatten() {
            let processes = &mut run_target.target.processes;
            let lacks = !processes.iter().any(|process| process.role == Role::Server);
            let is_here = !processes.is_empty();
            if !(lacks && is_here) {
                continue;
            }
            if let (1, Some((name, pid))) = (known.len(), known.first()) {
                processes.push(Process { role: Role::Server, name: name.clone(), pid: *pid });
            } else {
                unknown.insert(run_target.target.name.clone());
            }
        }
        self.notes.extend(unknown.iter().map(|name| {
            format!(
                "{name}: which server is behind it could not be told; name it with --process \
                 server=PID to see what it uses"
            )
        }));
    }

    /// Processes that the user named count at every target, and so does the generator.
    fn add_named(&mut self, options: &RunOptions) -> Result<()> {
        let mut named = Vec::new();
        for (role, pid) in &options.processes {
            let stat = sys::account::stat(*pid)
                .with_context(|| format!("there is no process {pid} to be watched"))?;
            named.push(Process { role: *role, name: stat.name, pid: *pid });
        }
        named.push(Process {
            role: Role::Generator,
            name: "flifo bench".into(),
            pid: std::process::id(),
        });
        for RunTarget { target, .. } in self.stages.iter_mut().flatten() {
            for process in &named {
                if !target.processes.iter().any(|known| known.pid == process.pid) {
                    target.processes.push(process.clone());
                }
            }
        }
        Ok(())
    }
}

fn started(
    kind: TargetKind,
    target: &targets::Target,
    server: &PrivateServer,
) -> Result<Vec<Process>> {
    let pid = server.pid().context("the private server does not run")?;
    let mut processes = vec![Process { role: Role::Server, name: "mariadbd".into(), pid }];
    if let Some(pid) = target.proxy_pid() {
        processes.push(Process { role: Role::Proxy, name: kind.name().into(), pid });
    }
    Ok(processes)
}

/// Logs in once, to learn which version of a server answers there and which process it is.
fn visit(name: &str, shown: &str, account: &Account, address: &Address) -> Result<TargetResult> {
    let seen = connect_once(account, address, async |connection| {
        let pid = match connection.stream().peer() {
            Peer::Unix { pid, .. } => pid.and_then(|pid| u32::try_from(pid).ok()),
            Peer::Tcp(_) => connection.stream().addresses().and_then(|(peer, own)| {
                let is_here = peer.ip() == own.ip();
                if is_here { sys::sockets::listener(peer.port(), |_| true) } else { None }
            }),
            Peer::Gone => None,
        };
        let version = connection.version().to_owned();
        connection.quit();
        (version, pid)
    });
    let (server_version, pid) = seen.with_context(|| format!("target {name}"))?;
    let process = pid.and_then(|pid| {
        let stat = sys::account::stat(pid).ok()?;
        Some(Process { role: role_of(&stat.name), name: stat.name, pid })
    });
    Ok(TargetResult {
        name: name.to_owned(),
        address: shown.to_owned(),
        server_version,
        processes: process.into_iter().collect(),
    })
}

/// All servers that run here.
fn servers_of_machine() -> BTreeSet<(String, u32)> {
    let stat = |pid| Some((sys::account::stat(pid).ok()?.name, pid));
    let pids = sys::account::pids().unwrap_or_default();
    pids.into_iter().filter_map(stat).filter(|(name, _)| role_of(name) == Role::Server).collect()
}

fn role_of(name: &str) -> Role {
    match name {
        "mariadbd" | "mysqld" => Role::Server,
        _ => Role::Proxy,
    }
}

/// Connections of a private server beside those of clients: the backends of a Flifo at its defaults, which
/// stay open while others have their turn, and room to look at tables.
const SPARE: u32 = 300;
