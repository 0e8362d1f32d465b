//! The targets of a run: named ones as they are, and those that are started for it.
//!
//! Finds out which server and which processes are there. Invariant: what was started here ends with this value.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use backend::Address;
use backend::stream::Peer;

use super::options::RunOptions;
use super::{ROWS, TABLES};
use crate::interrupt::Interrupt;
use crate::load::{Account, connect_once};
use crate::private_server::PrivateServer;
use crate::results::{Process, Role, TargetResult};
use crate::targets::{self, Setup, TargetKind};
use crate::workloads::tables::{self, Extent};

pub(super) struct RunTargets {
    pub(super) list: Vec<RunTarget>,
    /// What a reader of the figures should know of the targets.
    pub(super) notes: Vec<String>,
    /// Dropped before the server to which they hold connections.
    _proxies: Vec<targets::Target>,
    _server: Option<PrivateServer>,
}

/// One target.
pub(super) struct RunTarget {
    pub(super) target: TargetResult,
    pub(super) address: Address,
    pub(super) account: Account,
    /// By this run, and anew for each start.
    pub(super) is_started: bool,
}

impl RunTargets {
    pub(super) fn open(options: &RunOptions, interrupt: &Interrupt) -> Result<Self> {
        let mut run_targets =
            Self { list: Vec::new(), notes: Vec::new(), _proxies: Vec::new(), _server: None };
        if !options.start.is_empty() {
            run_targets.start(options, interrupt)?;
        }
        for ((name, shown), (account, address)) in options.targets.iter().zip(options.addresses()?)
        {
            let target = visit(name, shown, &account, &address)?;
            run_targets.list.push(RunTarget { target, address, account, is_started: false });
        }
        run_targets.find_servers();
        run_targets.add_named(options)?;
        Ok(run_targets)
    }

    /// Starts a private server with tables, and the targets in front of it.
    fn start(&mut self, options: &RunOptions, interrupt: &Interrupt) -> Result<()> {
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
        let setup =
            Setup { flifo: options.flifo.clone(), workers: options.workers, clients_max: most };
        for kind in &options.start {
            let target = targets::Target::start(*kind, &server, &setup, interrupt)?;
            let address = target.backend_address();
            let account = options.account(&address, server.password())?;
            let mut visited = visit(kind.name(), &address.to_string(), &account, &address)?;
            visited.address = kind.name().to_owned();
            visited.processes = self.started(*kind, &target, &server)?;
            self.list.push(RunTarget { target: visited, address, account, is_started: true });
            self._proxies.push(target);
        }
        self._server = Some(server);
        Ok(())
    }

    fn started(
        &self,
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

    /// Behind a proxy of this machine stands a server, most likely the one that is known.
    fn find_servers(&mut self) {
        let known: BTreeSet<(String, u32)> = self
            .list
            .iter()
            .flat_map(|run_target| &run_target.target.processes)
            .filter(|process| process.role == Role::Server)
            .map(|process| (process.name.clone(), process.pid))
            .collect();
        let known = if known.is_empty() { servers_of_machine() } else { known };
        for run_target in &mut self.list {
            let processes = &mut run_target.target.processes;
            let lacks = !processes.iter().any(|process| process.role == Role::Server);
            let is_here = !processes.is_empty();
            if !(lacks && is_here) {
                continue;
            }
            if let (1, Some((name, pid))) = (known.len(), known.first()) {
                processes.push(Process { role: Role::Server, name: name.clone(), pid: *pid });
            } else {
                self.notes.push(format!(
                    "{}: which server is behind it could not be told; name it with --process \
                     server=PID to see what it uses",
                    run_target.target.name
                ));
            }
        }
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
        for RunTarget { target, .. } in &mut self.list {
            for process in &named {
                if !target.processes.iter().any(|known| known.pid == process.pid) {
                    target.processes.push(process.clone());
                }
            }
        }
        Ok(())
    }
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
