//! What a set-up does, so that it can be taken back.
//!
//! Invariant: a deed is written down before it is done, and only if what it makes was not there before. So each deed of
//! the journal was done, or was about to be: taking it back must do no harm in either case.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sys::identity::Identity;

use crate::{InitError, Layout};

/// The journal of one set-up.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Journal {
    #[serde(skip)]
    path: PathBuf,
    /// The server that has Flifo's account.
    pub(crate) server: String,
    /// In the order in which they were done. The last one may not have been.
    pub(crate) deeds: Vec<Deed>,
}

/// One thing that is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Deed {
    /// With the password that is in the password's file.
    Account,
    /// The same at this server alone: its binary log has nothing of it.
    AccountHere,
    SystemUser(String),
    Folder(PathBuf),
    File(PathBuf),
    /// A file of the package, and its text of before.
    Replaced {
        path: PathBuf,
        before: String,
    },
    /// Where Flifo listens: it may be left by one that was killed.
    Socket(PathBuf),
    Unit(PathBuf),
    /// The package's unit was enabled and started, and had been so before, or not.
    Service {
        was_enabled: bool,
        was_active: bool,
    },
    /// A program that was started.
    Process(Identity),
}

impl Journal {
    pub(crate) fn new(layout: &Layout, server: String) -> Self {
        Self { path: layout.journal(), server, deeds: Vec::new() }
    }

    pub(crate) fn read(layout: &Layout) -> Result<Self, InitError> {
        let path = layout.journal();
        let bad = |why: String| InitError::BadJournal { path: path.clone(), why };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(InitError::NothingDone(path));
            }
            Err(error) => return Err(bad(error.to_string())),
        };
        let journal: Self = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        Ok(Self { path, ..journal })
    }

    /// Writes down what is done next.
    pub(crate) fn add(&mut self, deed: Deed) -> Result<(), InitError> {
        self.deeds.push(deed);
        self.write()
    }

    /// The last deed was not done, because something was there already.
    pub(crate) fn withdraw(&mut self) -> Result<(), InitError> {
        self.deeds.pop();
        self.write()
    }

    /// The folder that it is in.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.path.parent()
    }

    /// Writes down what is left, if anything is, and if there still is a folder for it.
    pub(crate) fn write_if_can(&self) -> Result<(), InitError> {
        match (self.deeds.is_empty(), self.folder().is_some_and(Path::is_dir)) {
            (true, _) => {
                self.remove();
                Ok(())
            }
            (false, true) => self.write(),
            (false, false) => Ok(()),
        }
    }

    pub(crate) fn remove(&self) {
        // It may be gone already.
        let _ = std::fs::remove_file(&self.path);
    }

    fn write(&self) -> Result<(), InitError> {
        let failed =
            |why: String| InitError::Step { what: format!("write {}", self.path.display()), why };
        let text = serde_json::to_string_pretty(self).map_err(|error| failed(error.to_string()))?;
        let new = self.path.with_extension("new");
        let write = || {
            let mut file = File::create(&new)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&new, &self.path)
        };
        write().map_err(|error| failed(error.to_string()))
    }
}
