//! The ways from a client to a private server: directly, through Flifo or through HAProxy.
//!
//! Starts and configures the proxies; does not know what is run through them. Invariants: a way
//! that was opened greets clients; its proxy stops when the way is dropped. HAProxy forwards bytes
//! that it does not read, so through it everything must be as it is directly: it tests the tests.

use std::fs::{self, File};
use std::io::Read;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bench::interrupt::Interrupt;
use bench::private_server::{PrivateServer, free_port};
use bench::process::Running;
use bench::programs::HAPROXY;
use clap::ValueEnum;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Way {
    /// To the server over TCP.
    Direct,
    /// Through Flifo, which does not know the users.
    PassThrough,
    /// Through Flifo, which knows the users and shares backends among them.
    Pooled,
    /// Through HAProxy in TCP mode.
    Haproxy,
}

impl Way {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::PassThrough => "pass-through",
            Self::Pooled => "pooled",
            Self::Haproxy => "haproxy",
        }
    }

    pub(crate) fn needs_flifo(self) -> bool {
        matches!(self, Self::PassThrough | Self::Pooled)
    }
}

/// How the proxies are set up.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) flifo: PathBuf,
    /// Statements at once.
    pub(crate) limit: u32,
    /// Backends that pooled clients share.
    pub(crate) connections_max: u32,
    pub(crate) clients_max: u32,
    /// How long a statement may wait for a backend.
    pub(crate) wait: Wait,
    /// With what Flifo proves itself to clients that want TLS: a certificate and its key. Backends then
    /// go over TCP, where the server is asked for TLS, too; without it they take the Unix socket.
    pub(crate) tls: Option<(PathBuf, PathBuf)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Hundreds of clients may each send megabytes over few backends: no client is refused for its long wait.
    Patient,
    /// A test that needs more backends than there are gets an error soon, instead of waiting for itself.
    Brief,
}

/// An open way: `127.0.0.1:port` leads to the server.
pub(crate) struct Passage {
    pub(crate) port: u16,
    proxy: Option<(Running, PathBuf)>,
}

impl Passage {
    pub(crate) fn open(
        way: Way,
        server: &PrivateServer,
        setup: &Setup,
        interrupt: &Interrupt,
    ) -> Result<Self> {
        if way == Way::Direct {
            return Ok(Self { port: server.port(), proxy: None });
        }
        let port = free_port()?;
        let (text, file) = match way {
            Way::Haproxy => {
                (haproxy_config(port, &server.socket(), setup.clients_max), "haproxy.cfg")
            }
            _ => (flifo_config(way, port, server, setup), "flifo.toml"),
        };
        let config = server.folder().join(file);
        fs::write(&config, text).with_context(|| format!("cannot write {}", config.display()))?;
        let mut command = if way == Way::Haproxy {
            let mut command = Command::new(HAPROXY.find()?);
            command.args(["-db", "-f"]).arg(&config);
            command
        } else {
            let mut command = Command::new(&setup.flifo);
            command.args(["run", "--config"]).arg(&config).env("FLIFO_ALLOW_PRIVILEGED_USER", "1");
            command
        };
        let log = server.folder().join(format!("{}.log", way.name()));
        let out = File::create(&log)?;
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        let mut running = Running::start(way.name(), command)?;
        wait_for_greeting(port, &mut running, &log, interrupt)?;
        Ok(Self { port, proxy: Some((running, log)) })
    }

    /// The process on the way, if there is one.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.proxy.as_ref().map(|(running, _)| running.pid())
    }

    /// The most memory that the proxy has had at once, in bytes.
    pub(crate) fn peak_memory(&self) -> Result<Option<u64>> {
        let Some((running, _)) = &self.proxy else { return Ok(None) };
        let status = fs::read_to_string(format!("/proc/{}/status", running.pid()))?;
        Ok(Some(parse_peak(&status).context("the kernel does not tell a process's peak memory")?))
    }

    /// Stops the proxy. Returns what it has logged.
    pub(crate) fn close(self) -> Result<String> {
        let Some((running, log)) = self.proxy else { return Ok(String::new()) };
        drop(running);
        let text = fs::read(&log).with_context(|| format!("cannot read {}", log.display()))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Fails if the proxy has ended, with the end of its log.
    pub(crate) fn check(&mut self) -> Result<()> {
        let Some((running, log)) = &mut self.proxy else { return Ok(()) };
        if let Some(status) = running.ended()? {
            bail!("the proxy has ended ({status}); its log ends with:\n{}", tail(log));
        }
        Ok(())
    }
}

fn wait_for_greeting(
    port: u16,
    running: &mut Running,
    log: &Path,
    interrupt: &Interrupt,
) -> Result<()> {
    let deadline = Instant::now() + START_MAX;
    while !greets(port) {
        if let Some(status) = running.ended()? {
            bail!("the proxy ended while it started ({status}); its log ends with:\n{}", tail(log));
        }
        if deadline < Instant::now() {
            bail!(
                "the proxy does not greet within {START_MAX:?}; its log ends with:\n{}",
                tail(log)
            );
        }
        interrupt.sleep(POLL)?;
    }
    Ok(())
}

/// In this protocol the server speaks first.
pub(crate) fn greets(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let mut first = [0];
    stream.set_read_timeout(Some(GREETING_MAX)).is_ok() && stream.read_exact(&mut first).is_ok()
}

fn flifo_config(way: Way, port: u16, server: &PrivateServer, setup: &Setup) -> String {
    let address = match setup.tls {
        Some(_) => format!("127.0.0.1:{}", server.port()),
        None => server.socket().display().to_string(),
    };
    let wait = match setup.wait {
        Wait::Patient => "5m",
        Wait::Brief => "10s",
    };
    let mut text = format!(
        "listen = [\"127.0.0.1:{port}\"]\nworkers = 1\nclients_max = {}\n\n[server]\n\
         address = {address:?}\nlimit = {}\nconnections_max = {}\n\n[limits]\nwait = {wait:?}\n",
        setup.clients_max, setup.limit, setup.connections_max
    );
    if let Some((cert, key)) = &setup.tls {
        text.push_str(&format!("\n[tls]\ncert = {cert:?}\nkey = {key:?}\n"));
    }
    if way == Way::Pooled {
        for user in [PrivateServer::ADMIN, PrivateServer::USER] {
            let password = server.password();
            text.push_str(&format!("\n[[users]]\nname = {user:?}\npassword = {password:?}\n"));
        }
    }
    text
}

fn haproxy_config(port: u16, socket: &Path, clients_max: u32) -> String {
    format!(
        "global\n    maxconn {clients_max}\n\ndefaults\n    mode tcp\n    timeout connect 10s\n    \
         timeout client 1h\n    timeout server 1h\n\nlisten mysql\n    bind 127.0.0.1:{port}\n    \
         server private unix@{}\n",
        socket.display()
    )
}

fn parse_peak(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

pub(crate) fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&text[text.len().saturating_sub(TAIL_MAX)..]).into_owned()
}

const START_MAX: Duration = Duration::from_secs(20);
const GREETING_MAX: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(20);
const TAIL_MAX: usize = 2000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_read_in_bytes() {
        assert_eq!(parse_peak("Name:\tx\nVmHWM:\t   12 kB\nVmRSS:\t 8 kB\n"), Some(12 << 10));
        assert_eq!(parse_peak("VmRSS:\t 8 kB\n"), None);
    }

    #[test]
    fn haproxy_gets_its_bound_and_its_server() {
        let config = haproxy_config(6033, Path::new("/t/m.sock"), 7);
        assert!(config.contains("maxconn 7\n"), "{config}");
        assert!(config.contains("unix@/t/m.sock\n"), "{config}");
    }
}
