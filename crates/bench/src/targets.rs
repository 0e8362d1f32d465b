//! What sysbench talks to: the server itself, or a proxy in front of it.
//!
//! Starts and configures proxies by their command lines; measures nothing. Invariants: a target
//! that was started answers; its proxy stops when the target is dropped.

use std::fs::{self, File};
use std::io::Read;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, bail};
use serde::Serialize;
use sys::cpus::Cpus;

use crate::interrupt::Interrupt;
use crate::private_server::{PrivateServer, free_port, tail};
use crate::process::Running;
use crate::programs::HAPROXY;
use crate::sysbench::Address;

/// The ways from a client to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TargetKind {
    /// To the server over TCP: what the others are compared with.
    Direct,
    /// To the server over its Unix socket.
    Socket,
    /// To Flifo over TCP, and on over the server's Unix socket.
    Flifo,
    /// To HAProxy over TCP, and on over the server's Unix socket, as bytes that it does not read.
    Haproxy,
    /// To a bare relay over TCP, and on over the server's Unix socket: the least that a proxy costs.
    Relay,
}

impl TargetKind {
    pub const ALL: [Self; 5] =
        [Self::Direct, Self::Socket, Self::Flifo, Self::Haproxy, Self::Relay];

    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Socket => "socket",
            Self::Flifo => "flifo",
            Self::Haproxy => "haproxy",
            Self::Relay => "relay",
        }
    }
}

impl FromStr for TargetKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|kind| kind.name() == name);
        let names = Self::ALL.map(Self::name).join(", ");
        known.with_context(|| format!("{name:?} is no target; the targets are {names}"))
    }
}

/// How proxies are set up. What is not named here stays at each proxy's own default.
#[derive(Clone, Debug)]
pub struct Setup {
    pub flifo: PathBuf,
    /// Workers of Flifo and threads of HAProxy.
    pub workers: Option<u32>,
    /// The most clients that a proxy must accept.
    pub clients_max: u32,
    /// Where proxies run from their beginning on; else where this process does.
    pub cpus: Option<Cpus>,
}

pub struct Target {
    pub kind: TargetKind,
    pub address: Address,
    proxy: Option<Proxy>,
}

/// A proxy's process, and where it logs.
pub(crate) struct Proxy {
    running: Running,
    log: PathBuf,
}

impl Target {
    /// Makes a way to `server`, and waits until it answers.
    pub fn start(
        kind: TargetKind,
        server: &PrivateServer,
        setup: &Setup,
        interrupt: &Interrupt,
    ) -> Result<Self> {
        let (port, mut command) = match kind {
            TargetKind::Direct => return Ok(Self::bare(kind, Address::Port(server.port()))),
            TargetKind::Socket => return Ok(Self::bare(kind, Address::Socket(server.socket()))),
            TargetKind::Flifo => flifo(server, setup)?,
            TargetKind::Haproxy => haproxy(server, setup)?,
            TargetKind::Relay => relay(server)?,
        };
        if let Some(cpus) = &setup.cpus {
            let unbound = || format!("{} cannot be bound to CPUs {cpus}", kind.name());
            sys::child::run_on(&mut command, cpus).with_context(unbound)?;
        }
        let log = server.folder().join(format!("{}-{port}.log", kind.name()));
        let proxy = Proxy::start(kind.name(), command, log, port, interrupt)?;
        Ok(Self { kind, address: Address::Port(port), proxy: Some(proxy) })
    }

    /// The same address for clients of our own.
    pub fn backend_address(&self) -> backend::Address {
        match &self.address {
            Address::Socket(path) => backend::Address::Unix(path.clone()),
            Address::Port(port) => backend::Address::Tcp { host: "127.0.0.1".into(), port: *port },
        }
    }

    /// The proxy's process, if there is a proxy.
    pub fn proxy_pid(&self) -> Option<u32> {
        self.proxy.as_ref().map(Proxy::pid)
    }

    /// Tells that and how the proxy has ended, if it has.
    pub fn obituary(&mut self) -> Option<String> {
        let proxy = self.proxy.as_mut()?;
        let status = proxy.running.ended().ok()??;
        let (name, log) = (self.kind.name(), tail(&proxy.log));
        Some(format!("{name} has ended ({status}); its log ends with:\n{log}"))
    }

    fn bare(kind: TargetKind, address: Address) -> Self {
        Self { kind, address, proxy: None }
    }
}

impl Proxy {
    /// Starts a proxy, and waits until it greets clients on its port.
    pub(crate) fn start(
        name: &str,
        mut command: Command,
        log: PathBuf,
        port: u16,
        interrupt: &Interrupt,
    ) -> Result<Self> {
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let mut running = Running::start(name, command)?;
        let deadline = Instant::now() + START_MAX;
        while !greets(port) {
            if let Some(status) = running.ended()? {
                bail!(
                    "{name} ended while it started ({status}); its log ends with:\n{}",
                    tail(&log)
                );
            }
            if deadline < Instant::now() {
                bail!(
                    "{name} does not greet clients on 127.0.0.1:{port} within {START_MAX:?}; its \
                     log ends with:\n{}",
                    tail(&log)
                );
            }
            interrupt.sleep(POLL)?;
        }
        Ok(Self { running, log })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// Where what it says is written.
    pub(crate) fn log(&self) -> &Path {
        &self.log
    }
}

/// Tells whether a port sends a server's first packet: in this protocol the server speaks first.
fn greets(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let mut first = [0];
    stream.set_read_timeout(Some(GREETING_MAX)).is_ok() && stream.read_exact(&mut first).is_ok()
}

fn flifo(server: &PrivateServer, setup: &Setup) -> Result<(u16, Command)> {
    let port = free_port()?;
    let config = flifo_config(port, &server.socket(), server.password(), setup.workers);
    let path = server.folder().join(format!("flifo-{port}.toml"));
    write(&path, &config)?;
    let mut command = Command::new(&setup.flifo);
    command.args(["run", "--config"]).arg(path);
    // What is measured may run as root, beside a private server of the same user.
    command.env("FLIFO_ALLOW_PRIVILEGED_USER", "1");
    Ok((port, command))
}

fn flifo_config(port: u16, socket: &Path, password: &str, workers: Option<u32>) -> String {
    let workers = workers.map(|workers| format!("workers = {workers}\n")).unwrap_or_default();
    let user = PrivateServer::USER;
    format!(
        "listen = [\"127.0.0.1:{port}\"]\n{workers}\n\
         [server]\naddress = {socket:?}\n\n\
         [[users]]\nname = {user:?}\npassword = {password:?}\n"
    )
}

fn haproxy(server: &PrivateServer, setup: &Setup) -> Result<(u16, Command)> {
    let port = free_port()?;
    let path = server.folder().join(format!("haproxy-{port}.cfg"));
    write(&path, &haproxy_config(port, &server.socket(), setup))?;
    let mut command = Command::new(HAPROXY.find()?);
    // In the foreground and in one process, so that it can be measured and stopped.
    command.arg("-db").arg("-f").arg(path);
    Ok((port, command))
}

fn haproxy_config(port: u16, socket: &Path, setup: &Setup) -> String {
    let threads = setup.workers.map(|count| format!("    nbthread {count}\n")).unwrap_or_default();
    let clients_max = setup.clients_max.saturating_add(SPARE_CLIENTS);
    let socket = socket.display();
    format!(
        "global\n    maxconn {clients_max}\n{threads}\n\
         defaults\n    mode tcp\n    timeout connect 10s\n    timeout client 1h\n    \
         timeout server 1h\n\n\
         listen mysql\n    bind 127.0.0.1:{port}\n    server private unix@{socket}\n"
    )
}

/// [`crate::relay`] in a process of its own, so that what it costs is told apart: this program once
/// more, which is flifo-bench.
fn relay(server: &PrivateServer) -> Result<(u16, Command)> {
    let port = free_port()?;
    let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
    command.args(["bench", "relay", &port.to_string()]).arg(server.socket());
    Ok((port, command))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// For the checks whether a proxy answers.
const SPARE_CLIENTS: u32 = 16;
const START_MAX: Duration = Duration::from_secs(20);
const GREETING_MAX: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_targets() {
        for kind in TargetKind::ALL {
            assert_eq!(kind.name().parse::<TargetKind>().expect("known"), kind);
        }
        let error = "proxysql".parse::<TargetKind>().expect_err("unknown");
        assert!(error.to_string().contains("direct, socket, flifo, haproxy, relay"), "{error}");
    }

    #[test]
    fn flifo_is_configured_for_the_private_server() {
        let config = flifo_config(6033, Path::new("/t/m.sock"), "secret", Some(1));
        let want = "listen = [\"127.0.0.1:6033\"]\nworkers = 1\n\n[server]\n\
                    address = \"/t/m.sock\"\n\n[[users]]\n\
                    name = \"sbtest\"\npassword = \"secret\"\n";
        assert_eq!(config, want);
        let own_default = flifo_config(6033, Path::new("/t/m.sock"), "secret", None);
        assert!(!own_default.contains("workers"), "{own_default}");
    }

    #[test]
    fn a_proxy_that_ends_at_once_shows_its_log() {
        let folder = tempfile::tempdir().expect("makes");
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such option >&2; exit 64"]);
        let log = folder.path().join("flifo.log");
        let port = free_port().expect("a port is free");
        let started = Proxy::start("flifo", command, log, port, &Interrupt::never());
        let error = started.err().expect("does not start").to_string();
        assert!(error.contains("flifo ended while it started"), "{error}");
        assert!(error.contains("no such option"), "{error}");
    }

    #[test]
    fn a_port_greets_only_when_something_speaks_there() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
        let port = listener.local_addr().expect("has one").port();
        let speaker = std::thread::spawn(move || {
            use std::io::Write;
            listener.accept().expect("comes").0.write_all(b"J").expect("writes");
        });
        assert!(greets(port));
        speaker.join().expect("speaks");
        assert!(!greets(port));
    }
}
