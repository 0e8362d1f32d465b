//! What a set-up has done so far, so that it can be taken back.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{InitError, Layout};

/// The journal of one set-up.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Journal {
    #[serde(skip)]
    path: PathBuf,
    /// The server that has Flifo's account.
    pub(crate) server: String,
    /// In the order in which it was done.
    pub(crate) done: Vec<Done>,
}

/// One thing that was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Done {
    Account,
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
    /// A program that was started, with this configuration.
    Process {
        pid: u32,
        config: PathBuf,
    },
}

impl Journal {
    pub(crate) fn new(layout: &Layout, server: String) -> Self {
        Self { path: layout.journal(), server, done: Vec::new() }
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

    /// Writes down what was done, before anything else is; with the next one, if that is to wait.
    pub(crate) fn add(&mut self, done: Done, at_once: bool) -> Result<(), InitError> {
        self.done.push(done);
        if at_once { self.write() } else { Ok(()) }
    }

    /// Writes down what is left, if anything is, and if there still is a folder for it.
    pub(crate) fn write_if_can(&self) -> Result<(), InitError> {
        match (self.done.is_empty(), self.path.parent().is_some_and(Path::is_dir)) {
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
        let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &self.path));
        written.map_err(|error| failed(error.to_string()))
    }
}
