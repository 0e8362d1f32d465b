//! `flifo init` beside a real server, without a machine of its own that it might change: a copy of the program and all its
//! files are in one folder, and where this process is root's, a user of the machine without rights runs it.
//!
//! Owns how it is run; what it leaves at the server and in logs is told by [`traces`], what must be so by [`trial`]. Invariant: what is set up ends, and
//! its files go, with this value.

pub mod traces;
pub mod trial;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::flifo::free_port;

/// A machine's user without rights. As whom root runs what it would not have changed on the machine.
const NOBODY: &str = "65534";

/// Where one Flifo is set up.
pub struct SetUp {
    folder: TempDir,
    program: PathBuf,
    socket: PathBuf,
    listen: String,
}

impl SetUp {
    /// Beside the server of this socket, whose folder another user must be able to enter.
    ///
    /// # Panics
    /// If there is no room for a folder.
    pub fn beside(socket: &Path, flifo: &Path) -> Self {
        let open = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode));
        open(socket.parent().expect("it is in a folder"), 0o755).expect("the server's folder");
        let folder = tempfile::tempdir().expect("a folder");
        open(folder.path(), 0o777).expect("the folder of the set-up");
        let program = folder.path().join("flifo");
        // By another process: a descriptor of this one, open for writing, would go to the children that other tests start
        // at the same time, and a program that is written cannot be started.
        let copied = Command::new("cp").arg(flifo).arg(&program).status();
        assert!(copied.is_ok_and(|status| status.success()), "a copy of the program");
        let listen = format!("127.0.0.1:{}", free_port());
        Self { folder, program, socket: socket.to_owned(), listen }
    }

    /// Where `flifo init` is to put its files.
    pub fn places(&self) -> PathBuf {
        self.folder.path().join("set-up")
    }

    /// A folder for what an administrator writes.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Where clients come in.
    pub fn listen(&self) -> &str {
        &self.listen
    }

    /// Runs `flifo init` with these arguments.
    ///
    /// # Panics
    /// If it cannot be run.
    pub fn init(&self, arguments: &[&str]) -> Output {
        let mut command = match is_root() {
            true => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
                command.arg(&self.program);
                command
            }
            false => Command::new(&self.program),
        };
        command.arg("init").arg("--folder").arg(self.places()).args(arguments);
        command.output().expect("it runs")
    }

    /// The same, with the server and free ports named.
    ///
    /// # Panics
    /// If it cannot be run.
    pub fn set_up(&self, more: &[&str]) -> Output {
        let ports = [free_port(), free_port()].map(|it| format!("127.0.0.1:{it}"));
        let server = ["--server", self.socket.to_str().expect("UTF-8"), "--listen", &self.listen];
        let others = ["--console", &ports[0], "--http", &ports[1]];
        self.init(&[&server, &others, more].concat())
    }
}

impl Drop for SetUp {
    fn drop(&mut self) {
        if self.places().join("init.json").exists() {
            // One that was left half-way by a test that has failed.
            let _ = self.init(&["--undo"]);
        }
    }
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The user that runs `flifo init`, as the server knows it.
///
/// # Panics
/// If this machine does not tell the user of this process.
pub fn user() -> String {
    if is_root() {
        return "nobody".to_owned();
    }
    let output = Command::new("id").arg("-un").output().expect("it runs");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// All that a command has printed.
pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}
