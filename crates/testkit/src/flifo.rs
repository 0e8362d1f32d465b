//! The `flifo` program as a child process: built if need be, started with a configuration, stopped by pid.

use std::fs::File;
use std::io::Read;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

use crate::overdue;

/// A running proxy. Dropped, it is killed.
#[derive(Debug)]
pub struct Flifo {
    child: Child,
    port: u16,
    folder: tempfile::TempDir,
}

/// How long the program may take to begin or to end.
const PATIENCE: Duration = Duration::from_secs(180);

const SOCKET: &str = "flifo.sock";

/// What it says of a port that is not free.
const TAKEN: &str = "choose another";

impl Flifo {
    /// Starts the proxy on a free port and a Unix socket. `rest` is what the configuration says beyond `listen`.
    ///
    /// # Panics
    /// If it does not greet in time; with what it logged.
    pub fn start(rest: &str) -> Self {
        Self::start_program(program(), rest)
    }

    /// Starts a program that was built elsewhere.
    ///
    /// # Panics
    /// If it does not greet in time; with what it logged.
    pub fn start_program(program: &Path, rest: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let log = File::create(folder.path().join("log")).expect("a log");
        Self::begin(program, rest, folder, &log)
    }

    /// Starts the proxy by a command that is told its arguments: the program itself with another environment, or one that
    /// becomes it.
    ///
    /// # Panics
    /// If it does not greet in time; with what it logged.
    pub fn start_by(command: impl Fn() -> Command, rest: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let log = File::create(folder.path().join("log")).expect("a log");
        Self::begin_as(command, rest, folder, &log)
    }

    /// Starts the proxy with its log on a disk that is always full.
    pub fn start_on_full_disk(rest: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let full = File::options().write(true).open("/dev/full").expect("Linux has one");
        Self::begin(program(), rest, folder, &full)
    }

    /// Starts the proxy where names are looked up in this file alone; `None` where that is not to be had.
    ///
    /// # Panics
    /// If it does not greet in time; with what it logged.
    pub fn start_with_hosts(hosts: &Path, rest: &str) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let log = File::create(folder.path().join("log")).expect("a log");
        let switch = folder.path().join("nsswitch.conf");
        std::fs::write(&switch, "hosts: files\n").expect("it is written");
        // In a name space of its own, other files are in these places.
        let script = "mount --bind \"$0\" /etc/hosts && mount --bind \"$1\" /etc/nsswitch.conf && \
                      shift && exec \"$@\"";
        let own = |rest: &[&Path]| {
            let mut command = Command::new("unshare");
            command.args(["--map-root-user", "--mount", "sh", "-c", script]);
            command.arg(hosts).arg(&switch).args(rest);
            command
        };
        let can = own(&[Path::new("true")]).stderr(Stdio::null()).status();
        if !can.is_ok_and(|status| status.success()) {
            return None;
        }
        Some(Self::begin_as(|| own(&[program()]), rest, folder, &log))
    }

    /// Starts the proxy with bounds on its descriptors, as the shell's `ulimit` has them: `-n 64`, say.
    ///
    /// # Panics
    /// If it does not greet in time; with what it logged.
    pub fn start_with_descriptors(ulimit: &str, rest: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let log = File::create(folder.path().join("log")).expect("a log");
        let bounded = || {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("ulimit {ulimit} && exec \"$0\" \"$@\"")]).arg(program());
            command
        };
        Self::begin_as(bounded, rest, folder, &log)
    }

    fn begin(program: &Path, rest: &str, folder: tempfile::TempDir, log: &File) -> Self {
        Self::begin_as(|| Command::new(program), rest, folder, log)
    }

    fn begin_as(
        program: impl Fn() -> Command,
        rest: &str,
        folder: tempfile::TempDir,
        log: &File,
    ) -> Self {
        let config = folder.path().join("flifo.toml");
        let socket = folder.path().join(SOCKET);
        // Many run at once: their consoles would be in one another's way.
        let outside = match rest.contains("[console]") {
            true => "",
            false => "\n[console]\nlisten = []\n[http]\nlisten = []\n",
        };
        let rest = for_programs(&patient(rest));
        let start = |port: u16| {
            let text = format!("listen = [\"127.0.0.1:{port}\", {socket:?}]\n{rest}{outside}");
            std::fs::write(&config, text).expect("the configuration is written");
            let mut command = program();
            command.args(["run", "--config"]).arg(&config);
            // Tests may run as root; the servers of tests run as the same user as Flifo.
            command.env("FLIFO_ALLOW_PRIVILEGED_USER", "1");
            let log = log.try_clone().expect("one more descriptor");
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
            // Forked by a thread that lives on: the child dies with this process, not with this test.
            sys::child::spawn(command).expect("flifo starts")
        };
        let port = free_port();
        let child = start(port);
        let mut flifo = Self { child, port, folder };
        let begun = Instant::now();
        while !flifo.greets() {
            if flifo.has_ended() && flifo.log().contains(TAKEN) {
                // By a client's own end of a connection, since it was found to be free.
                flifo.port = free_port();
                flifo.child = start(flifo.port);
            }
            assert!(begun.elapsed() < PATIENCE, "flifo does not greet:\n{}", flifo.log());
            std::thread::sleep(Duration::from_millis(5));
        }
        flifo
    }

    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The Unix socket on which it listens as well.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join(SOCKET)
    }

    /// Writes its configuration anew, changed by this. It is read when it is told to.
    ///
    /// # Panics
    /// If the file cannot be read or written.
    pub fn change_configuration(&self, change: impl Fn(&str) -> String) {
        let config = self.folder.path().join("flifo.toml");
        let text = std::fs::read_to_string(&config).expect("the configuration");
        std::fs::write(&config, change(&text)).expect("the configuration is written");
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The CPU time that it has had so far.
    ///
    /// # Panics
    /// If it does not run.
    pub fn cpu(&self) -> Duration {
        sys::account::stat(self.pid()).expect("it runs").cpu.total()
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Asks it to stop (SIGTERM) and waits.
    pub fn stop(mut self) -> (ExitStatus, String) {
        let status = sys::child::stop(&mut self.child, PATIENCE).expect("flifo ends");
        (status, self.log())
    }

    /// Asks it to stop (SIGTERM), and does not wait.
    ///
    /// # Panics
    /// If it has ended already.
    pub fn ask_to_stop(&self) {
        self.signal(Signal::TERM);
    }

    /// Asks it to open its log anew (SIGHUP), and does not wait.
    ///
    /// # Panics
    /// If it has ended already.
    pub fn ask_to_reopen(&self) {
        self.signal(Signal::HUP);
    }

    /// Sends it a signal, and does not wait.
    ///
    /// # Panics
    /// If it has ended already.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("flifo runs");
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("it is our child").is_some()
    }

    /// Bytes of memory that it has now.
    ///
    /// # Panics
    /// If it has ended.
    pub fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()));
        let status = status.expect("flifo runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kibibytes.expect("Linux tells it") << 10
    }

    /// Descriptors that it has open now.
    ///
    /// # Panics
    /// If it has ended.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid())).expect("flifo runs").count()
    }

    /// From now on it may have no descriptor numbered `count` or higher.
    ///
    /// # Panics
    /// If it has ended.
    pub fn limit_descriptors(&self, count: u64) {
        let limit = Rlimit { current: Some(count), maximum: Some(count) };
        prlimit(Some(Pid::from_child(&self.child)), Resource::Nofile, limit).expect("flifo runs");
    }

    fn greets(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        // Another process may have the port now, and may be silent.
        let is_bounded = stream.set_read_timeout(Some(PATIENCE)).is_ok();
        is_bounded && stream.read(&mut [0; 5]).is_ok_and(|read| read > 0)
    }
}

/// The configuration with longer limits than the usual ones, where it sets none: a machine that stands still for half a
/// minute must not end what a test waits for.
fn patient(rest: &str) -> String {
    if rest.contains("limits = {") {
        return rest.to_owned();
    }
    let (before, after) = rest.split_once("[limits]\n").unwrap_or((rest, ""));
    let own = after.split("\n[").next().unwrap_or_default();
    let is_set = |name: &str| own.lines().any(|line| line.trim_start().starts_with(name));
    let missing = [("connect", "60s"), ("login", "5m"), ("wait", "5m")]
        .into_iter()
        .filter(|(name, _)| !is_set(name))
        .map(|(name, limit)| format!("{name} = \"{limit}\"\n"))
        .collect::<String>();
    format!("{before}\n[limits]\n{missing}{after}")
}

/// Tests read the log as objects.
fn for_programs(rest: &str) -> String {
    const FORMAT: &str = "[logs]\nformat = \"json\"\n";
    match rest.split_once("[logs]\n") {
        Some((_, after)) if after.starts_with("format") => rest.to_owned(),
        Some((before, after)) => format!("{before}{FORMAT}{after}"),
        None => format!("{rest}\n{FORMAT}"),
    }
}

impl Drop for Flifo {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that no process uses.
///
/// # Panics
/// If there is none.
pub fn free_port() -> u16 {
    bench::private_server::free_port().expect("a free port")
}

/// A Flifo that has taken over from another one.
#[derive(Clone, Copy, Debug)]
pub struct TakenOver {
    pub pid: Pid,
    /// Clients that the other one still has.
    pub left: u64,
}

/// Has the program that is installed take over from the Flifo with this console. An error says why it does not.
pub fn take_over(program: &Path, console: &Path) -> Result<TakenOver, String> {
    let told = take_over_command(program, console).output().map_err(|error| error.to_string())?;
    if !told.status.success() {
        return Err(String::from_utf8_lossy(&told.stderr).into_owned());
    }
    let read = || {
        let told: serde_json::Value = serde_json::from_slice(&told.stdout).ok()?;
        let pid = Pid::from_raw(told["pid"].as_i64()?.try_into().ok()?)?;
        Some(TakenOver { pid, left: told["left"].as_u64()? })
    };
    read().ok_or_else(|| format!("it says {}", String::from_utf8_lossy(&told.stdout)))
}

/// The command that does that.
pub fn take_over_command(program: &Path, console: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["upgrade", "--json", "--console"]).arg(console);
    command
}

/// Set where `cargo test --workspace` has built the program: a build of one test's own has other features, and would
/// compile most of it again.
const IS_BUILT: &str = "FLIFO_IS_BUILT";

/// The program beside this test, built once, with flifo-bench beside it.
///
/// # Panics
/// If it does not build.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        let test = std::env::current_exe().expect("a path");
        let folder = test.ancestors().nth(2).expect("target/PROFILE/deps/TEST").to_owned();
        let program = folder.join("flifo");
        if std::env::var_os(IS_BUILT).is_some() {
            assert!(program.exists(), "{IS_BUILT} is set, and {} is not there", program.display());
            return program;
        }
        let mut build = Command::new(env!("CARGO"));
        match folder.ends_with("release") {
            true => {
                build.args(["build", "--release", "--package", "flifo", "--package", "flifo-bench"])
            }
            // With the features of `cargo test --workspace`, which has built it already.
            false => build.args(["test", "--no-run", "--workspace", "--test", "command"]),
        };
        build.arg("--quiet").arg("--target-dir").arg(folder.parent().expect("target"));
        assert!(build.status().expect("cargo runs").success(), "flifo does not build");
        program
    });
    // A build may take longer than any test.
    overdue::watch();
    program
}
