//! The journal of what has been changed on the machine: written before anything is changed, and enough to undo it by
//! another process after this one was killed.
//!
//! Owns the file, and the order of writing and doing. Does not know why something is changed. Invariants: no thread and
//! no group is changed that the file does not hold as it was; the file on the disk is whole at each moment; a file of
//! another user, of another boot or of a Flifo that still runs is not acted upon; when nothing is changed there is
//! none.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sys::kernel;
use sys::placing::{GroupChange, Placed};
use sys::state_file::{self, StateFileError};
use sys::threads;
use sys::tree::Tree;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Change {
    Threads(Placed),
    Group(GroupChange),
}

impl Change {
    /// The command by which an administrator does the same.
    pub(super) fn command(&self) -> String {
        match self {
            Self::Threads(placed) => placed.command(),
            Self::Group(group) => group.command(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    /// Changes of one remedy are undone together.
    remedy: String,
    change: Change,
}

/// What is on the disk.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Page {
    version: u32,
    boot: String,
    /// The process that has changed it, and when that began.
    owner: u32,
    started: u64,
    entries: Vec<Entry>,
}

/// The journal of this process.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    tree: Tree,
    entries: Vec<Entry>,
}

/// Why a remedy could not be applied. What was begun of it is undone.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) command: String,
    pub(super) error: io::Error,
    /// Even that could not be undone.
    pub(super) is_stuck: bool,
}

/// What undoing has met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// Changes that are undone.
    pub changes: usize,
    /// What was changed from outside since, and was left alone.
    pub others: Vec<String>,
    /// What could not be undone; the file still has it.
    pub failed: Vec<String>,
}

/// Why a file is not acted upon.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("{path}: {error}")]
    Io { path: String, error: io::Error },
    #[error(
        "{path} belongs to user {owner}, or others may write to it: it is not believed. Restore as that user, or \
         remove the file"
    )]
    Foreign { path: String, owner: u32 },
    #[error("{path} is not understood: {why}. Look at it, and remove it")]
    Garbled { path: String, why: String },
    #[error(
        "Flifo with process id {pid} still runs and undoes {path} itself when it ends: stop it first"
    )]
    Busy { path: String, pid: u32 },
}

impl Journal {
    pub(super) fn new(path: PathBuf, tree: Tree) -> Self {
        Self { path, tree, entries: Vec::new() }
    }

    /// Makes all changes of a remedy, or none.
    pub(super) fn apply(&mut self, remedy: &str, changes: Vec<Change>) -> Result<(), Refused> {
        for change in changes {
            let command = change.command();
            self.entries.push(Entry { remedy: remedy.to_owned(), change });
            let at = self.entries.len() - 1;
            if let Err(error) = self.save().and_then(|()| self.make(at)) {
                let is_stuck = !self.undo(remedy).failed.is_empty();
                return Err(Refused { command, error, is_stuck });
            }
        }
        Ok(())
    }

    /// Makes a change that is in the journal.
    fn make(&mut self, at: usize) -> io::Result<()> {
        let mut change = self.entries[at].change.clone();
        let done = match &mut change {
            Change::Group(group) => group.apply(&self.tree),
            Change::Threads(placed) => {
                let tree = self.tree.clone();
                placed.apply(&tree, &mut |record| {
                    self.entries[at].change = Change::Threads(record.clone());
                    self.save()
                })
            }
        };
        self.entries[at].change = change;
        done
    }

    /// Changes threads of whole processes that were born since.
    pub(super) fn sweep(&mut self) -> io::Result<()> {
        for at in 0..self.entries.len() {
            if let Change::Threads(placed) = &self.entries[at].change
                && placed.only.is_empty()
                && placed.is_there(&self.tree)
            {
                self.make(at)?;
            }
        }
        Ok(())
    }

    /// Undoes a remedy, the last change first.
    pub(super) fn undo(&mut self, remedy: &str) -> Undone {
        self.undo_those(|entry| entry.remedy == remedy)
    }

    pub(super) fn undo_all(&mut self) -> Undone {
        self.undo_those(|_| true)
    }

    fn undo_those(&mut self, which: impl Fn(&Entry) -> bool) -> Undone {
        let mut undone = Undone::default();
        for at in (0..self.entries.len()).rev() {
            if !which(&self.entries[at]) {
                continue;
            }
            let command = self.entries[at].change.command();
            match restore(&self.tree, &self.entries[at].change) {
                Ok(others) => {
                    self.entries.remove(at);
                    undone.changes += 1;
                    undone.others.extend(others);
                }
                Err(why) => undone.failed.push(format!("{command}: {why}")),
            }
        }
        if let Err(error) = self.save() {
            undone.failed.push(format!("{}: {error}", self.path.display()));
        }
        undone
    }

    /// Writes it anew beside the old one. An empty journal is none.
    fn save(&self) -> io::Result<()> {
        if self.entries.is_empty() {
            return match fs::remove_file(&self.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        let own = std::process::id();
        let line = sys::placing::known(threads::line(&self.tree, own))?;
        let entries = self.entries.clone();
        let page = Page {
            version: VERSION,
            boot: kernel::boot(&self.tree),
            owner: own,
            started: line.started,
            entries,
        };
        write(&self.path, &page)
    }
}

/// Undoes what a Flifo that was killed has left. `None`: there is nothing.
pub(super) fn restore_left(path: &Path, tree: &Tree) -> Result<Option<Undone>, JournalError> {
    let shown = path.display().to_string();
    let io_error = |error| JournalError::Io { path: shown.clone(), error };
    let Some(text) = read(path)? else { return Ok(None) };
    let page: Page = serde_json::from_str(&text)
        .map_err(|error| JournalError::Garbled { path: shown.clone(), why: error.to_string() })?;
    if page.version != VERSION {
        let why = format!("it is of version {}, and this Flifo writes {VERSION}", page.version);
        return Err(JournalError::Garbled { path: shown, why });
    }
    let is_alive = page.owner != std::process::id()
        && threads::line(tree, page.owner).known().is_some_and(|it| it.started == page.started);
    if page.boot == kernel::boot(tree) && is_alive {
        return Err(JournalError::Busy { path: shown, pid: page.owner });
    }
    let mut journal = Journal { path: path.to_owned(), tree: tree.clone(), entries: page.entries };
    if page.boot != kernel::boot(tree) {
        // Processes of before are gone, and groups begin anew.
        journal.entries.clear();
        journal.save().map_err(io_error)?;
        return Ok(Some(Undone::default()));
    }
    Ok(Some(journal.undo_all()))
}

/// Undoes a change. Returns what was left alone.
fn restore(tree: &Tree, change: &Change) -> Result<Vec<String>, String> {
    match change {
        Change::Threads(placed) => {
            let left = placed.restore(tree).map_err(|error| error.to_string())?;
            if let Some((tid, why)) = left.failed.first() {
                return Err(format!("thread {tid}: {why}"));
            }
            let pid = placed.pid;
            Ok(left.others.iter().map(|tid| format!("thread {tid} of process {pid}")).collect())
        }
        Change::Group(group) => {
            let is_others = group.restore(tree).map_err(|error| error.to_string())?;
            Ok(is_others.then(|| group.command()).into_iter().collect())
        }
    }
}

/// The text of a file that can be believed.
fn read(path: &Path) -> Result<Option<String>, JournalError> {
    let shown = || path.display().to_string();
    state_file::read(path, SIZE_MAX).map_err(|error| match error {
        StateFileError::Io(error) => JournalError::Io { path: shown(), error },
        StateFileError::Foreign { owner } => JournalError::Foreign { path: shown(), owner },
    })
}

fn write(path: &Path, page: &Page) -> io::Result<()> {
    if let Some(folder) = path.parent()
        && !folder.exists()
    {
        fs::DirBuilder::new().mode(0o700).create(folder)?;
    }
    state_file::write(path, &serde_json::to_vec(page)?, "placement.state_file")
}

const VERSION: u32 = 1;
/// Of ten thousand threads.
const SIZE_MAX: u64 = 16 << 20;

#[cfg(test)]
mod tests;
