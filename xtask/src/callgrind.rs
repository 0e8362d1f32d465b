//! Flifo under callgrind, which counts instructions and calls: time plays no part, so another load on the machine does
//! not disturb it.
//!
//! Owns the program under valgrind and what it writes. Invariant: only what runs between the two commands of
//! [`Watched::count`] is counted.

use std::cell::Cell;
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench::interrupt::Interrupt;
use bench::private_server::{PrivateServer, free_port};
use bench::process::Running;
use testkit::fake_client::FakeClient;

/// A running Flifo, and where clients log in.
pub(crate) struct Proxy {
    running: Running,
    port: u16,
    password: String,
}

impl Proxy {
    /// Runs Flifo, so many statements at once and with more in its configuration, by this command, to which its
    /// arguments are added.
    pub(crate) fn start(
        mut command: Command,
        server: &PrivateServer,
        limit: u32,
        more: &str,
        interrupt: &Interrupt,
    ) -> Result<Self> {
        let (user, password, port) = (PrivateServer::USER, server.password(), free_port()?);
        let config = server.folder().join("flifo.toml");
        let socket = server.socket().display().to_string();
        // Valgrind makes calls that the sandbox does not allow.
        let text = format!(
            "listen = [\"127.0.0.1:{port}\"]\nworkers = 1\n[server]\naddress = {socket:?}\nlimit = {limit}\n\
             [limits]\nwait = \"120s\"\n[hardening]\nsandbox = \"off\"\n[placement]\npolicy = \"off\"\n\
             [console]\nlisten = []\n[http]\nlisten = []\n[[users]]\nname = {user:?}\npassword = {password:?}\n{more}"
        );
        fs::write(&config, text)?;
        command.args(["run", "--config"]).arg(config).env("FLIFO_ALLOW_PRIVILEGED_USER", "1");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = Running::start("Flifo", command)?;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = running.ended()?;
            ensure!(ended.is_none(), "Flifo ended while it started ({ended:?})");
            interrupt.sleep(Duration::from_millis(50))?;
        }
        Ok(Self { running, port, password: password.to_owned() })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.running.pid()
    }

    pub(crate) fn log_in(&self) -> Result<FakeClient> {
        FakeClient::login(self.port, PrivateServer::USER, &self.password)
            .map_err(|refusal| anyhow::anyhow!("a client cannot log in: {refusal:?}"))
    }

    /// So many clients work at once.
    pub(crate) fn work(
        &self,
        clients: u32,
        work: impl Fn(&mut FakeClient) -> Result<()> + Sync,
    ) -> Result<()> {
        let ask = || work(&mut self.log_in()?);
        thread::scope(|scope| {
            let clients: Vec<_> = (0..clients).map(|_| scope.spawn(ask)).collect();
            clients.into_iter().try_for_each(|client| client.join().expect("does not panic"))
        })
    }
}

/// The same under callgrind.
pub(crate) struct Watched {
    pub(crate) proxy: Proxy,
    dump: PathBuf,
    dumps: Cell<u32>,
}

impl Watched {
    pub(crate) fn start(
        flifo: &Path,
        server: &PrivateServer,
        limit: u32,
        interrupt: &Interrupt,
    ) -> Result<Self> {
        Self::start_with(flifo, server, limit, "", interrupt)
    }

    /// With more in its configuration.
    pub(crate) fn start_with(
        flifo: &Path,
        server: &PrivateServer,
        limit: u32,
        more: &str,
        interrupt: &Interrupt,
    ) -> Result<Self> {
        let dump = server.folder().join(format!("callgrind.{limit}"));
        let mut command = Command::new("valgrind");
        command.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", dump.display()));
        command.arg(flifo);
        let proxy = Proxy::start(command, server, limit, more, interrupt)
            .context("Flifo cannot be run under valgrind (package valgrind)")?;
        Ok(Self { proxy, dump, dumps: Cell::new(0) })
    }

    /// What callgrind has counted while this was done, in its own words.
    pub(crate) fn count(&self, work: impl FnOnce() -> Result<()>) -> Result<String> {
        self.control("-z")?;
        work()?;
        self.control("-d")?;
        self.dumps.set(self.dumps.get() + 1);
        let numbered = self.dump.with_added_extension(self.dumps.get().to_string());
        let begun = Instant::now();
        while fs::metadata(&numbered).map_or(true, |file| file.len() == 0) {
            ensure!(begun.elapsed() < PATIENCE, "callgrind has written no {}", numbered.display());
            thread::sleep(Duration::from_millis(100));
        }
        Ok(fs::read_to_string(&numbered)?)
    }

    fn control(&self, what: &str) -> Result<()> {
        let status = Command::new("callgrind_control")
            .args([what, &self.proxy.pid().to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .context("callgrind_control cannot be run (package valgrind)")?;
        ensure!(status.success(), "callgrind_control {what} failed ({status})");
        Ok(())
    }
}

/// All that callgrind has counted: the sum stands in its last lines.
pub(crate) fn instructions(text: &str) -> u64 {
    let sum = |line: &str| line.strip_prefix("totals: ")?.trim().parse().ok();
    text.lines().rev().find_map(sum).unwrap_or_default()
}

const PATIENCE: Duration = Duration::from_secs(30);
