//! A MariaDB server of our own: on a free port, in a temporary folder, for one demo or one test.
//!
//! Never touches the system's server, its data or its configuration. Does not know what it is used
//! for. Invariants: it listens on 127.0.0.1 and one Unix socket only; every account that can log in
//! there has a random password; it stops, and its folder goes, when this value is dropped; it is
//! killed when this process is.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::folder::Folder;
use crate::kept;
use crate::programs::{INSTALL_DB, MARIADB, MARIADBD, Program};

pub struct PrivateServer {
    process: Option<Child>,
    folder: Folder,
    /// Where its programs are, if they are not this machine's.
    programs: Option<PathBuf>,
    port: u16,
    password: String,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    entrance: Vec<String>,
    keep: bool,
}

/// What differs from a server as the demo wants it.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    programs: Option<PathBuf>,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    entrance: Vec<String>,
    password: Option<String>,
    keep: bool,
    in_memory: bool,
}

impl Builder {
    /// Takes `mariadbd` and `mariadb-install-db` of this folder in the place of this machine's.
    pub fn programs(mut self, folder: impl Into<PathBuf>) -> Self {
        self.programs = Some(folder.into());
        self
    }

    /// Gives the accounts this password, because the server gets another one's data.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Adds an argument to mariadbd's command line; it wins over the settings of this module.
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Sets a variable of mariadbd's environment, such as one that its allocator reads.
    pub fn environment(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Starts mariadbd by a command that becomes the program which it is told, such as `nsenter`.
    pub fn through(mut self, entrance: &[String]) -> Self {
        self.entrance = entrance.to_vec();
        self
    }

    /// Leaves the folder behind, with its data and its error log.
    pub fn keep(mut self, keep: bool) -> Self {
        self.keep = keep;
        self
    }

    /// Has its data in memory if there is room, and never waits for a disk: for tests that make and
    /// drop many tables.
    pub fn in_memory(mut self) -> Self {
        self.in_memory = true;
        self.arguments.extend(IN_MEMORY.map(str::to_owned));
        self
    }

    /// Starts the server and waits until it answers. An error ends with the tail of its error log.
    pub fn start(self) -> Result<PrivateServer> {
        let folder = if self.in_memory { Folder::create_in_memory() } else { Folder::create() }?;
        let mut server = PrivateServer {
            process: None,
            folder,
            programs: self.programs,
            port: 0,
            password: self.password.map_or_else(random_password, Ok)?,
            arguments: self.arguments,
            environment: self.environment,
            entrance: self.entrance,
            keep: self.keep,
        };
        server.write_files()?;
        let programs = server.programs.as_deref().unwrap_or_else(|| Path::new("")).display();
        let name = format!("mariadb{programs}").replace('/', "-");
        kept::fill(&name, &server.folder().join("data"), || server.install())?;
        server.start()?;
        Ok(server)
    }
}

impl PrivateServer {
    /// An account with all rights in [`Self::DATABASE`] only, and `mysql_native_password`.
    pub const USER: &str = "sbtest";
    /// An account with all rights.
    pub const ADMIN: &str = "admin";
    pub const DATABASE: &str = "sbtest";

    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Starts a server as the demo wants it.
    pub fn start_default() -> Result<Self> {
        Self::builder().start()
    }

    pub fn socket(&self) -> PathBuf {
        self.folder().join("mysqld.sock")
    }

    /// The port on 127.0.0.1. It stays the same when the server is started again.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process; `None` while the server is stopped.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    /// The password of both accounts.
    pub fn password(&self) -> &str {
        &self.password
    }

    /// Where data, socket and error log are; users of the server may put files of their own here.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs statements as [`Self::ADMIN`], in [`Self::DATABASE`], over the socket. Returns the rows
    /// of all results: a line each, tabs between columns, no headings, special characters escaped.
    pub fn sql(&self, statements: &str) -> Result<String> {
        let mut command = Command::new(MARIADB.find()?);
        command
            .arg(format!("--defaults-file={}", self.folder().join("client.cnf").display()))
            .args(["--batch", "--skip-column-names", "--connect-timeout=10"])
            .arg(format!("--database={}", Self::DATABASE))
            .stdin(input(statements)?)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let output = sys::child::spawn(command)?.wait_with_output()?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "the private server refused `{}`: {}",
            shorten(statements),
            complaint.trim()
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The argument of the next start that begins so.
    pub fn argument(&self, prefix: &str) -> Option<String> {
        self.arguments.iter().find(|known| known.starts_with(prefix)).cloned()
    }

    /// Has the next start use another argument in the place of one that begins so.
    pub fn replace_argument(&mut self, prefix: &str, argument: &str) {
        self.arguments.retain(|known| !known.starts_with(prefix));
        self.arguments.push(argument.to_owned());
    }

    /// Stops the server in good order. Port, data and accounts stay for [`Self::start`].
    pub fn stop(&mut self) -> Result<()> {
        if let Some(mut process) = self.process.take() {
            sys::child::stop(&mut process, STOP_MAX).context("cannot stop the private server")?;
        }
        Ok(())
    }

    /// Kills the server, as a crash of its process would. Port, data and accounts stay.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(mut process) = self.process.take() {
            process.kill().and_then(|()| process.wait()).context("cannot kill the server")?;
        }
        Ok(())
    }

    /// Starts the server again after [`Self::stop`] or [`Self::kill`]; does nothing while it runs.
    pub fn start(&mut self) -> Result<()> {
        if self.process.is_some() {
            return Ok(());
        }
        let fresh = self.port == 0;
        for attempt in 1.. {
            if fresh {
                self.port = free_port()?;
            }
            let Err(error) = self.try_start() else { break };
            self.kill()?;
            // Another process may take the free port before the server does.
            let taken = format!("{error:#}").contains("Address already in use");
            if !(fresh && taken && attempt < PORT_ATTEMPTS) {
                return Err(error);
            }
        }
        Ok(())
    }

    /// The last lines that the server wrote to its error log.
    pub fn error_log_tail(&self) -> String {
        tail(&self.error_log())
    }

    fn program(&self, program: Program) -> Result<PathBuf> {
        match &self.programs {
            Some(folder) => Ok(folder.join(program.name)),
            None => program.find(),
        }
    }

    fn error_log(&self) -> PathBuf {
        self.folder().join("error.log")
    }

    fn try_start(&mut self) -> Result<()> {
        sys::process::raise_open_files().context("cannot raise the limit of open files")?;
        // The tail of the log shall tell of this start, not of the one before.
        let _ = fs::remove_file(self.error_log());
        let program = self.program(MARIADBD)?;
        let mut command = match &self.entrance[..] {
            [] => Command::new(program),
            [entrance, rest @ ..] => {
                let mut command = Command::new(entrance);
                command.args(rest).arg(program);
                command
            }
        };
        command
            .arg(format!("--defaults-file={}", self.folder().join("my.cnf").display()))
            .arg(format!("--port={}", self.port))
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(self.folder())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.process = Some(sys::child::spawn(command).context("cannot start mariadbd")?);
        self.wait_until_it_answers()
    }

    fn wait_until_it_answers(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_MAX;
        loop {
            let status = self.process.as_mut().map(Child::try_wait).transpose()?.flatten();
            let answer = self.sql("SELECT 1");
            let problem = match (status, answer) {
                (Some(status), _) => {
                    anyhow!("the private server ended while it started ({status})")
                }
                (None, Ok(_)) => return Ok(()),
                (None, Err(error)) => error.context("the private server does not answer"),
            };
            if status.is_some() || deadline < Instant::now() {
                bail!("{problem:#}; its error log ends with:\n{}", self.error_log_tail());
            }
            thread::sleep(POLL);
        }
    }

    /// Makes the system tables.
    fn install(&self) -> Result<()> {
        let mut command = Command::new(self.program(INSTALL_DB)?);
        command
            .arg(format!("--defaults-file={}", self.folder().join("my.cnf").display()))
            .args(["--auth-root-authentication-method=socket", "--skip-name-resolve"])
            // Also on a machine that does not know its own name: we use none.
            .args(["--skip-test-db", "--force"])
            .current_dir(self.folder())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let output = sys::child::spawn(command)?.wait_with_output()?;
        if !output.status.success() {
            let words = [output.stdout, output.stderr].concat();
            bail!(
                "mariadb-install-db could not make the system tables ({}): {}\nThe server's error \
                 log ends with:\n{}",
                output.status,
                String::from_utf8_lossy(&words).trim(),
                self.error_log_tail()
            );
        }
        Ok(())
    }

    fn write_files(&self) -> Result<()> {
        let folder = self.folder().display();
        let mut settings = format!(
            "[mysqld]\ndatadir={folder}/data\ntmpdir={folder}\nsocket={folder}/mysqld.sock\n\
             pid_file={folder}/mysqld.pid\nlog_error={folder}/error.log\n\
             init_file={folder}/accounts.sql\n{SETTINGS}"
        );
        if sys::process::is_root() {
            // mariadbd refuses to serve as root unless it is told to.
            settings.push_str("user=root\n");
        }
        let accounts = ACCOUNTS.replace("PASSWORD_HERE", &self.password);
        let client = format!(
            "[client]\nuser={}\npassword={}\nsocket={folder}/mysqld.sock\n",
            Self::ADMIN,
            self.password
        );
        self.write("my.cnf", &settings)?;
        self.write("accounts.sql", &accounts)?;
        self.write("client.cnf", &client)
    }

    /// Writes a file that may hold a password: other users cannot read the files in the folder.
    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder().join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        if self.keep {
            self.folder.keep();
        }
        if let Err(error) = self.stop() {
            eprintln!("flifo: {error:#}");
        }
    }
}

/// A server that is fast and quiet enough to compare proxies with, and otherwise as it comes.
const SETTINGS: &str = "\
bind_address=127.0.0.1
skip_name_resolve
skip_log_bin
performance_schema=OFF
max_connections=10000
max_connect_errors=1000000000
back_log=4096
innodb_buffer_pool_size=512M
# A comparison of proxies shall not wait for the disk at each COMMIT.
innodb_flush_log_at_trx_commit=2
# Threads of clients that have left are kept, and with them the accounts of their context switches.
thread_cache_size=10000
";

/// Also without a disk below: where there is no room in memory, data are in a folder like any other.
const IN_MEMORY: [&str; 4] = [
    "--debug-no-sync",
    "--innodb-flush-method=nosync",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-log-file-size=16M",
];

/// Run by the server at each start, one statement a line; what a test changed since is left.
const ACCOUNTS: &str = "\
CREATE DATABASE IF NOT EXISTS sbtest;
CREATE USER IF NOT EXISTS 'sbtest'@'%' IDENTIFIED VIA mysql_native_password \
USING PASSWORD('PASSWORD_HERE');
GRANT ALL ON sbtest.* TO 'sbtest'@'%';
CREATE USER IF NOT EXISTS 'admin'@'%' IDENTIFIED VIA mysql_native_password \
USING PASSWORD('PASSWORD_HERE');
GRANT ALL ON *.* TO 'admin'@'%' WITH GRANT OPTION;
";

fn random_password() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).context("the kernel gives no random bytes")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A port that no process uses, at any address of this machine. The kernel gives it to no connection before it is
/// bound, as it lies below those that Linux gives to connections, and no other call of this process returns it soon.
pub fn free_port() -> Result<u16> {
    const FIRST: u32 = 10_000;
    const PORTS: u32 = 22_000;
    static BEGIN: OnceLock<u32> = OnceLock::new();
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let begin = match BEGIN.get() {
        Some(begin) => *begin,
        None => {
            let random = getrandom::u32().context("the kernel gives no random number")?;
            *BEGIN.get_or_init(|| random % PORTS)
        }
    };
    for _ in 0..PORTS {
        let port = FIRST + (begin + NEXT.fetch_add(1, Relaxed)) % PORTS;
        let port = u16::try_from(port).context("a port below 32000")?;
        if TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("all ports from {FIRST} to {} are in use", FIRST + PORTS - 1)
}

/// Statements as a file: a pipe would block us while the client waits for us to read its replies.
fn input(statements: &str) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    file.write_all(statements.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

fn shorten(statements: &str) -> String {
    let mut short: String = statements.chars().take(SHOWN_MAX).collect();
    if short.len() < statements.len() {
        short.push('…');
    }
    short
}

pub(crate) fn tail(path: &Path) -> String {
    let read = || {
        let mut file = File::open(path)?;
        let size = file.metadata()?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(TAIL_MAX)))?;
        let mut bytes = Vec::new();
        file.take(TAIL_MAX).read_to_end(&mut bytes)?;
        io::Result::Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    match read() {
        Ok(text) => text,
        Err(error) => format!("(cannot read {}: {error})", path.display()),
    }
}

const START_MAX: Duration = Duration::from_secs(180);
const STOP_MAX: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);
const PORT_ATTEMPTS: u32 = 5;
const SHOWN_MAX: usize = 200;
const TAIL_MAX: u64 = 2000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_starts_answers_restarts_and_leaves_nothing_behind() {
        let mut server = PrivateServer::start_default().expect("starts");
        let pid = server.pid().expect("runs");
        assert!(server.socket().as_os_str().len() <= 107);
        server.sql("CREATE TABLE t (a INT, b TEXT); INSERT t VALUES (1, 'x\ty')").expect("runs");
        assert_eq!(server.sql("SELECT * FROM t; SELECT 2").expect("runs"), "1\tx\\ty\n2\n");
        let complaint = server.sql("SELECT * FROM absent").expect_err("no such table");
        assert!(complaint.to_string().contains("1146"), "{complaint}");

        let port = server.port();
        server.kill().expect("ends");
        assert_eq!(server.pid(), None);
        assert!(server.sql("SELECT 1").is_err());
        server.start().expect("starts again");
        assert_eq!(server.port(), port);
        assert_ne!(server.pid().expect("runs"), pid);
        assert_eq!(server.sql("SELECT a FROM t").expect("runs"), "1\n");

        let folder = server.folder().to_owned();
        let pid = server.pid().expect("runs");
        drop(server);
        assert!(!folder.exists());
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn accounts_need_their_passwords() {
        let server = PrivateServer::start_default().expect("starts");
        let open = "SELECT user FROM mysql.global_priv WHERE \
                    JSON_VALUE(priv, '$.plugin') = 'mysql_native_password' AND \
                    JSON_VALUE(priv, '$.authentication_string') = '' AND \
                    JSON_VALUE(priv, '$.account_locked') IS NULL";
        assert_eq!(server.sql(open).expect("runs"), "");
        let users = "SELECT user FROM mysql.user WHERE plugin = 'mysql_native_password' AND \
                     user IN ('admin', 'sbtest') ORDER BY 1";
        assert_eq!(server.sql(users).expect("runs"), "admin\nsbtest\n");
    }

    #[test]
    fn a_server_that_cannot_start_shows_its_log() {
        let refused = PrivateServer::builder().argument("--no-such-option=1").start();
        let error = format!("{:#}", refused.err().expect("does not start"));
        assert!(error.contains("unknown variable 'no-such-option=1'"), "{error}");
    }

    #[test]
    fn long_statements_are_shortened_at_a_character() {
        assert_eq!(shorten("é"), "é");
        assert_eq!(shorten(&"é".repeat(300)).chars().count(), 201);
    }
}
