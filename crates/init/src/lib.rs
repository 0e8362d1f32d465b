//! `flifo init`: sets Flifo up beside the server of this machine, and takes that back.
//!
//! Looks first ([`facts`]), decides what is to be done ([`steps`]), and does it one by one ([`act`]). Each deed is written
//! down ([`journal`]) before it is done, so a set-up that has failed half-way is taken back ([`undo`]) like a whole one.

mod act;
mod advice;
pub mod facts;
mod files;
mod journal;
mod server;
pub mod steps;
mod trial;
mod undo;

use std::path::{Path, PathBuf};

use proxy::Address;

pub use self::act::carry_out;
pub use self::advice::certificate;
pub use self::facts::{Facts, look};
pub use self::steps::{Step, steps};
pub use self::trial::{Tried, try_out};
pub use self::undo::{Undone, undo};

/// What is wished of a set-up.
#[derive(Clone, Debug)]
pub struct Wishes {
    /// Without one, it is looked for.
    pub server: Option<Address>,
    pub layout: Layout,
    /// Flifo's account at the server is there already.
    pub has_account: bool,
    /// Where clients come in.
    pub listen: String,
    pub console: String,
    pub http: String,
}

/// Where things go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The configuration, the password, the journal.
    pub folder: PathBuf,
    /// Sockets.
    pub run: PathBuf,
    /// The log of a Flifo that no systemd starts.
    pub log: PathBuf,
    /// `None`: no unit is made.
    pub unit: Option<PathBuf>,
}

impl Layout {
    /// That of a machine, for root.
    pub fn of_machine() -> Self {
        Self {
            folder: "/etc/flifo".into(),
            run: "/run/flifo".into(),
            log: "/var/log/flifo.log".into(),
            unit: Some("/etc/systemd/system/flifo.service".into()),
        }
    }

    /// All in one folder, for any user.
    pub fn in_folder(folder: &Path) -> Self {
        let (run, log) = (folder.join("run"), folder.join("flifo.log"));
        Self { folder: folder.to_owned(), run, log, unit: None }
    }

    pub fn config(&self) -> PathBuf {
        self.folder.join("flifo.toml")
    }

    pub fn password(&self) -> PathBuf {
        self.folder.join("password")
    }

    pub fn socket(&self) -> PathBuf {
        self.run.join("flifo.sock")
    }

    pub fn console(&self) -> PathBuf {
        self.run.join("console.sock")
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.folder.join("init.json")
    }
}

/// The password in a file, as Flifo reads it: one line end behind it does not count, blanks do.
pub fn read_password(path: &Path) -> std::io::Result<String> {
    let mut text = std::fs::read_to_string(path)?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

/// Whether a set-up has begun that can be taken back.
pub fn has_begun(layout: &Layout) -> bool {
    layout.journal().exists()
}

/// The name of Flifo's own account at the server, and of its own user on the machine.
pub const NAME: &str = "flifo";

/// Why a set-up is not made, or not taken back.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    #[error("{0}")]
    NoServer(String),
    #[error(
        "{} is there already: Flifo is set up, or was. To take it back: flifo init --undo; what you have written yourself, \
         move away",
        .0.display()
    )]
    Exists(PathBuf),
    #[error(
        "the server has an account flifo@localhost already, perhaps of a set-up beside its primary or beside another node \
         of its cluster. With the password of that in a file, --password-file takes it; one that is not needed, drop \
         where it was made"
    )]
    AccountExists,
    #[error("nothing to take back: there is no {}", .0.display())]
    NothingDone(PathBuf),
    #[error("{} is not the journal of a set-up: {why}", path.display())]
    BadJournal { path: PathBuf, why: String },
    #[error("cannot {what}: {why}")]
    Step { what: String, why: String },
    #[error("Flifo is set up, and does not work: {0}")]
    Trial(String),
}
