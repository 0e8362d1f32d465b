//! A real MySQL server: on a free port and a Unix socket, in a temporary folder, for a file of
//! tests.
//!
//! Owns its start, its files and its end; where the program comes from is [`artefact`]'s. What it
//! is asked is the tests'. Invariants: it listens on 127.0.0.1 and one Unix socket only; it ends
//! when this value is dropped or when this process ends; its folder goes with it.

mod artefact;

use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use backend::Address;
use bench::folder::Folder;
use bench::kept;

use crate::client::{Client, Problem};
use crate::flifo::free_port;
use crate::need::Need;

pub use self::artefact::Program;

/// A running server.
pub struct Mysql {
    process: Option<Child>,
    program: Program,
    folder: Folder,
    port: u16,
    arguments: Vec<String>,
    /// What starts the program, if that is not done directly.
    entrance: Vec<String>,
}

impl Mysql {
    /// Has all rights and no password; may log in from this machine.
    pub const ADMIN: &str = "root";

    /// Makes a server and starts it; `None` where no MySQL is to be had, which is printed. An
    /// argument wins over the settings of this module.
    ///
    /// # Panics
    /// If the server does not start; with what it logged.
    pub fn start(arguments: &[&str]) -> Option<Self> {
        Self::start_in(arguments, &[], Folder::create)
    }

    /// The same, with its data in memory if there is room.
    ///
    /// # Panics
    /// If the server does not start; with what it logged.
    pub fn start_in_memory(arguments: &[&str]) -> Option<Self> {
        Self::start_in(arguments, &[], Folder::create_in_memory)
    }

    /// The same, started by a command that becomes the program which it is told, such as `nsenter`.
    ///
    /// # Panics
    /// If the server does not start; with what it logged.
    pub fn start_through(entrance: &[String], arguments: &[&str]) -> Option<Self> {
        Self::start_in(arguments, entrance, Folder::create)
    }

    fn start_in<E: Debug>(
        arguments: &[&str],
        entrance: &[String],
        folder: impl FnOnce() -> Result<Folder, E>,
    ) -> Option<Self> {
        let program = match Program::find() {
            Ok(program) => program,
            Err(why) => {
                Need::Mysql.skip(&why.to_string());
                return None;
            }
        };
        let folder = folder().expect("a temporary folder");
        Some(Self::start_of(program, arguments, entrance, folder))
    }

    fn start_of(program: Program, arguments: &[&str], entrance: &[String], folder: Folder) -> Self {
        let arguments = arguments.iter().map(|&it| it.to_owned()).collect();
        let (entrance, port) = (entrance.to_vec(), free_port());
        let mut server = Self { process: None, program, folder, port, arguments, entrance };
        server.initialize();
        server.start_again();
        server
    }

    /// Two servers with GTIDs, with more arguments, of which the second one follows the first and is read-only.
    ///
    /// # Panics
    /// If one does not start, or does not follow.
    pub fn replicated(program: &Program, arguments: &[&str]) -> [Self; 2] {
        let servers = [1, 2].map(|number| {
            let own = format!("--server-id={number}");
            let of_all = [&REPLICATED[..], &[&own], arguments].concat();
            let folder = Folder::create().expect("a temporary folder");
            Self::start_of(program.clone(), &of_all, &[], folder)
        });
        let [primary, replica] = &servers;
        let is_old = primary.version() < [8, 4, 0];
        primary.sql(&[
            "SET sql_log_bin = 0",
            "CREATE USER follower@'%' IDENTIFIED BY 'follower'",
            "GRANT REPLICATION SLAVE ON *.* TO follower@'%'",
        ]);
        let follow = format!(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {}, SOURCE_USER = 'follower', \
             SOURCE_PASSWORD = 'follower', SOURCE_AUTO_POSITION = 1, SOURCE_CONNECT_RETRY = 1, \
             GET_SOURCE_PUBLIC_KEY = 1",
            primary.port()
        );
        let follow = match is_old {
            true => follow.replace("REPLICATION SOURCE", "MASTER").replace("SOURCE_", "MASTER_"),
            false => follow,
        };
        let start = if is_old { "START SLAVE" } else { "START REPLICA" };
        replica.sql(&[&follow, start, "SET GLOBAL read_only = 1"]);
        servers
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn socket(&self) -> PathBuf {
        self.folder().join("mysql.sock")
    }

    /// Where its data are, in `data`, with the certificates and keys that it made for itself.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Logs in as [`Self::ADMIN`].
    pub fn admin(&self) -> Result<Client, Problem> {
        Client::builder(Address::Unix(self.socket()), Self::ADMIN, "").connect()
    }

    /// Runs statements as [`Self::ADMIN`], one by one. Returns the rows of the last one.
    ///
    /// # Panics
    /// If one fails.
    pub fn sql(&self, statements: &[&str]) -> Vec<Vec<String>> {
        let mut admin = self.admin().expect("root logs in");
        let mut rows = Vec::new();
        for statement in statements {
            rows = admin.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
        rows
    }

    /// The three numbers of its version.
    ///
    /// # Panics
    /// If it does not say them.
    pub fn version(&self) -> [u32; 3] {
        let rows = self.sql(&["SELECT VERSION()"]);
        let numbers = rows[0][0].split(['.', '-']).map_while(|it| it.parse().ok());
        let numbers: Vec<u32> = numbers.take(3).collect();
        numbers.try_into().expect("three numbers")
    }

    /// Says whether the server still has `mysql_native_password`.
    pub fn has_native(&self) -> bool {
        self.version() < [9, 0, 0]
    }

    /// Says whether its TLS has ciphers of today. Built with OpenSSL 1.0, MySQL has no ephemeral
    /// keys on elliptic curves, and Flifo no others.
    pub fn has_modern_tls(&self) -> bool {
        [8, 0, 16] <= self.version()
    }

    /// Stops the server and starts it again, on the same port, with the same data.
    pub fn restart(&mut self) {
        self.stop();
        self.start_again();
    }

    /// The process; `None` while it is stopped.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    /// Kills the server, as a crash of its process would. Port and data stay for [`Self::start_again`].
    ///
    /// # Panics
    /// If it cannot be killed.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().and_then(|()| process.wait()).expect("it is our child");
        }
    }

    /// Makes its data: no password for [`Self::ADMIN`].
    fn initialize(&self) {
        let mut command = self.command();
        let program = Path::new(command.get_program());
        let name = format!("mysql{}", program.display()).replace('/', "-");
        command.arg("--initialize-insecure");
        let data = self.folder().join("data");
        let filled = kept::fill(&name, &data, || {
            let status = sys::child::spawn(command)?.wait()?;
            assert!(status.success(), "mysqld --initialize: {status}\n{}", self.log());
            Ok(())
        });
        filled.expect("data of a new server");
        // Its identity, which no other server may have: it makes one when it starts.
        fs::remove_file(data.join("auto.cnf")).expect("the identity of a new server");
    }

    /// Starts the server that was stopped or killed; does nothing while it runs.
    ///
    /// # Panics
    /// If it does not start; with what it logged.
    pub fn start_again(&mut self) {
        if self.process.is_some() {
            return;
        }
        let mut command = self.entered(self.command());
        command.args(SETTINGS).args(&self.arguments);
        self.process = Some(sys::child::spawn(command).expect("mysqld starts"));
        let begun = Instant::now();
        while self.admin().is_err() {
            let ended = self.process.as_mut().is_some_and(|it| !matches!(it.try_wait(), Ok(None)));
            let is_late = PATIENCE < begun.elapsed();
            assert!(!ended && !is_late, "mysqld does not answer:\n{}", self.log());
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// The same command behind the entrance.
    fn entered(&self, command: Command) -> Command {
        let [entrance, rest @ ..] = &self.entrance[..] else { return command };
        let mut entered = Command::new(entrance);
        entered.args(rest).arg(command.get_program()).args(command.get_args());
        entered.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        entered
    }

    fn command(&self) -> Command {
        let folder = self.folder().display();
        let mut command = self.program.command();
        command
            .arg(format!("--datadir={folder}/data"))
            .arg(format!("--socket={folder}/mysql.sock"))
            .arg(format!("--pid-file={folder}/mysqld.pid"))
            .arg(format!("--log-error={folder}/log.err"))
            .arg(format!("--port={}", self.port))
            .arg("--mysqlx=OFF")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if sys::process::is_root() {
            // mysqld refuses to serve as root unless it is told to.
            command.arg("--user=root");
        }
        command
    }

    /// Stops the server in good order.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            // Killed where it does not end by itself; there is nothing else that could be done.
            let _ = sys::child::stop(&mut process, PATIENCE);
        }
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder().join("log.err")).unwrap_or_default()
    }
}

impl Drop for Mysql {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Small and quick to start; as it comes in what the tests are about.
const SETTINGS: [&str; 7] = [
    // No folder of the machine's.
    "--secure-file-priv=NULL",
    "--bind-address=127.0.0.1",
    "--skip-log-bin",
    "--performance-schema=OFF",
    "--innodb-buffer-pool-size=64M",
    "--innodb-flush-log-at-trx-commit=0",
    "--max-connections=500",
];

/// Of servers that follow one another, beside those.
const REPLICATED: [&str; 4] = [
    "--log-bin=binlog",
    "--gtid-mode=ON",
    "--enforce-gtid-consistency=ON",
    "--report-host=127.0.0.1",
];

/// How long it may take to begin or to end.
const PATIENCE: Duration = Duration::from_secs(180);
