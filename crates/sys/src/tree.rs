//! What can be seen of a machine: the files below `/proc` and `/sys`, of this machine or recorded
//! from another one.
//!
//! Interprets nothing. Invariants: a read tells what was not there from what was not permitted; no
//! read takes more than a bounded number of bytes.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a read brought.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Seen<T> {
    Known(T),
    /// It is not there, or not understood: the reason in words.
    Unknown(String),
    /// It is there, but not for us: what was asked.
    Denied(String),
}

impl<T> Default for Seen<T> {
    fn default() -> Self {
        Self::Unknown("not read".to_owned())
    }
}

impl<T> Seen<T> {
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unknown(_) | Self::Denied(_) => None,
        }
    }

    /// Why it is not known; an empty text if it is.
    pub fn reason(&self) -> String {
        match self {
            Self::Known(_) => String::new(),
            Self::Unknown(why) => why.clone(),
            Self::Denied(what) => format!("{what}: not permitted"),
        }
    }

    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Seen<U> {
        match self {
            Self::Known(value) => Seen::Known(change(value)),
            Self::Unknown(why) => Seen::Unknown(why),
            Self::Denied(what) => Seen::Denied(what),
        }
    }

    /// Goes on reading from what is known.
    pub fn and_then<U>(&self, read: impl FnOnce(&T) -> Seen<U>) -> Seen<U> {
        match self {
            Self::Known(value) => read(value),
            Self::Unknown(why) => Seen::Unknown(why.clone()),
            Self::Denied(what) => Seen::Denied(what.clone()),
        }
    }

    /// Interprets what was read; `what` names it, for the case that it is not understood.
    pub fn parse<U>(self, what: &str, read: impl FnOnce(&T) -> Option<U>) -> Seen<U> {
        match self {
            Self::Known(value) => read(&value)
                .map_or_else(|| Seen::Unknown(format!("{what} is not understood")), Seen::Known),
            Self::Unknown(why) => Seen::Unknown(why),
            Self::Denied(what) => Seen::Denied(what),
        }
    }

    /// The first that is known; of two that are not, the one that was refused says more.
    pub fn or_else(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Known(_) => self,
            Self::Unknown(_) => other(),
            Self::Denied(_) => match other() {
                Self::Unknown(_) => self,
                better => better,
            },
        }
    }

    /// What an attempt at `what` brought.
    pub fn from_io(what: &str, result: io::Result<T>) -> Self {
        match result {
            Ok(value) => Self::Known(value),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Self::Denied(what.to_owned())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Self::Unknown(format!("{what} is not there"))
            }
            Err(error) => Self::Unknown(format!("{what}: {error}")),
        }
    }
}

/// Where the files of a machine begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    /// This machine, now.
    pub fn live() -> Self {
        Self { root: "/".into() }
    }

    /// A folder that holds a machine's `proc` and `sys`.
    pub fn recorded(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Whether system calls tell of the same machine as the files.
    pub fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    /// A file's place. `path` begins with a slash, and is one of the machine's.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// A file's text. Bytes that are no text are replaced.
    pub fn text(&self, path: &str) -> Seen<String> {
        let read = || {
            let mut bytes = Vec::new();
            File::open(self.path(path))?.take(TEXT_MAX).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        Seen::from_io(path, read())
    }

    /// A file's only line.
    pub fn line(&self, path: &str) -> Seen<String> {
        self.text(path).map(|text| text.trim().to_owned())
    }

    /// A file's only number, or other word.
    pub fn number<T: FromStr>(&self, path: &str) -> Seen<T> {
        self.line(path).parse(path, |line| line.parse().ok())
    }

    /// The names in a folder, in order.
    pub fn names(&self, path: &str) -> Seen<Vec<String>> {
        let read = || {
            let entries = fs::read_dir(self.path(path))?.flatten();
            let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
            let mut names: Vec<String> = names.take(NAMES_MAX).collect();
            names.sort_unstable();
            Ok(names)
        };
        Seen::from_io(path, read())
    }

    /// The numbers among the names in a folder.
    pub fn numbers(&self, path: &str) -> Seen<Vec<u32>> {
        self.names(path).map(|names| {
            let mut numbers: Vec<u32> = names.iter().filter_map(|it| it.parse().ok()).collect();
            numbers.sort_unstable();
            numbers
        })
    }

    /// Where a symbolic link points.
    pub fn target(&self, path: &str) -> Seen<String> {
        let target = fs::read_link(self.path(path));
        Seen::from_io(path, target.map(|target| target.to_string_lossy().into_owned()))
    }

    pub fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }
}

/// The value of a line that begins with a name: of "Threads:\t5", "5".
pub fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// The maps of a process with a thousand libraries are smaller.
const TEXT_MAX: u64 = 4 << 20;
/// As many as there can be processes on a large machine.
const NAMES_MAX: usize = 1 << 22;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A machine whose files are told.
    pub(crate) fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Tree) {
        let folder = tempfile::tempdir().expect("makes");
        let tree = Tree::recorded(folder.path());
        for (path, text) in files {
            let path = tree.path(path);
            fs::create_dir_all(path.parent().expect("has one")).expect("makes");
            fs::write(path, text).expect("writes");
        }
        (folder, tree)
    }

    #[test]
    fn what_is_there_is_known_and_what_is_not_says_so() {
        let (_folder, tree) =
            machine(&[("/proc/a", "7\n"), ("/proc/9/x", "?"), ("/proc/10/x", "")]);
        assert_eq!(tree.number::<u32>("/proc/a"), Seen::Known(7));
        assert_eq!(tree.number::<u32>("/proc/9/x").reason(), "/proc/9/x is not understood");
        assert_eq!(tree.text("/proc/b").reason(), "/proc/b is not there");
        assert_eq!(tree.numbers("/proc"), Seen::Known(vec![9, 10]));
        assert!(!tree.is_live() && Tree::live().is_live());
    }

    #[test]
    fn what_is_refused_is_not_called_absent() {
        let refused = || io::Error::from(io::ErrorKind::PermissionDenied);
        let seen: Seen<u32> = Seen::from_io("/proc/1/environ", Err(refused()));
        assert_eq!(seen, Seen::Denied("/proc/1/environ".into()));
        assert_eq!(seen.reason(), "/proc/1/environ: not permitted");
        // A second place that does not exist does not hide the refusal.
        let absent = || Seen::Unknown("absent".into());
        assert_eq!(seen.clone().or_else(absent), seen);
        assert_eq!(seen.or_else(|| Seen::Known(1)), Seen::Known(1));
    }

    #[test]
    fn fields_are_found_by_their_name() {
        assert_eq!(field("Name:\tx\nThreads:\t5\n", "Threads:"), Some("5"));
        assert_eq!(field("Name:\tx\n", "Threads:"), None);
    }
}
