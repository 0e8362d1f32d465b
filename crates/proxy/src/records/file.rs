//! A file that entries are appended to, and those that it was before: at a bound of its size it is renamed.
//!
//! Used by one thread. Invariants: it never waits for a reader; what is no plain file (a pipe, a device) is written to
//! and never renamed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::config::RecordOptions;

/// Why entries cannot go where they should.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot write {option}.file = {}: {error}; change it, or its folder's rights{}",
    path.display(),
    if error.kind() == io::ErrorKind::PermissionDenied { SANDBOX } else { "" }
)]
pub struct RecordError {
    option: &'static str,
    path: PathBuf,
    error: io::Error,
}

/// What may be the reason where a folder's rights are not.
const SANDBOX: &str = ", or start Flifo again: while it runs, its sandbox (hardening.sandbox) keeps it from folders \
                       that the configuration did not name when it started";

/// Statements are users' data: others do not read them.
const MODE: u32 = 0o640;

#[derive(Debug)]
pub(super) struct RecordFile {
    option: &'static str,
    path: PathBuf,
    file: File,
    size_max: u64,
    files_max: u32,
    /// The last entry was broken off.
    is_broken: bool,
}

/// What could not be written.
#[derive(Debug)]
pub(super) struct Unwritten {
    /// So many bytes were.
    pub(super) written: usize,
    pub(super) error: io::Error,
}

impl RecordFile {
    pub(super) fn open(
        option: &'static str,
        path: PathBuf,
        options: &RecordOptions,
    ) -> Result<Self, RecordError> {
        match open(&path) {
            Ok(file) => {
                let (size_max, files_max) = (options.size_max, options.files_max);
                Ok(Self { option, path, file, size_max, files_max, is_broken: false })
            }
            Err(error) => Err(RecordError { option, path, error }),
        }
    }

    /// Other bounds are in force.
    pub(super) fn adopt(&mut self, options: &RecordOptions) {
        (self.size_max, self.files_max) = (options.size_max, options.files_max);
    }

    /// Goes on in the file that has the name now.
    pub(super) fn reopen(&mut self) -> Result<(), RecordError> {
        match open(&self.path) {
            Ok(file) => {
                (self.file, self.is_broken) = (file, false);
                Ok(())
            }
            Err(error) => Err(RecordError { option: self.option, path: self.path.clone(), error }),
        }
    }

    /// Appends whole entries. `end`: what ends one that was broken off.
    pub(super) fn append(&mut self, entries: &[u8], end: &str) -> Result<(), Unwritten> {
        let nothing = |error| Unwritten { written: 0, error };
        if self.is_broken {
            self.file.write_all(end.as_bytes()).map_err(nothing)?;
            self.is_broken = false;
        }
        let mut written = 0;
        while written < entries.len() {
            let error = match self.file.write(&entries[written..]) {
                Ok(0) => io::ErrorKind::WriteZero.into(),
                Ok(more) => {
                    written += more;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => error,
            };
            self.is_broken = written > 0;
            return Err(Unwritten { written, error });
        }
        Ok(())
    }

    /// Begins another file if this one has no room for so many bytes more.
    pub(super) fn make_room(&mut self, more: usize) -> io::Result<()> {
        let known = self.file.metadata()?;
        let is_full = known.len() > 0 && known.len().saturating_add(more as u64) > self.size_max;
        if !known.is_file() || !is_full {
            return Ok(());
        }
        if self.files_max == 0 {
            return self.file.set_len(0);
        }
        for number in (1..self.files_max).rev() {
            move_on(&numbered(&self.path, number), &numbered(&self.path, number + 1))?;
        }
        move_on(&self.path, &numbered(&self.path, 1))?;
        // There were more of them before another bound was set.
        let mut beyond = self.files_max + 1;
        while fs::remove_file(numbered(&self.path, beyond)).is_ok() {
            beyond += 1;
        }
        (self.file, self.is_broken) = (open(&self.path)?, false);
        Ok(())
    }
}

fn move_on(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        moved => moved,
    }
}

/// The name of an old file: `slow.log.1` is the last one before `slow.log`.
fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

fn open(path: &Path) -> io::Result<File> {
    // A pipe without a reader, or one whose reader is slow, is not waited for.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    sys::later_user::make(path, || {
        OpenOptions::new().create(true).append(true).mode(MODE).custom_flags(flags).open(path)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn options(size_max: u64, files_max: u32) -> RecordOptions {
        RecordOptions { file: None, size_max, files_max }
    }

    fn open(path: &Path, options: &RecordOptions) -> RecordFile {
        RecordFile::open("logs.slow", path.to_owned(), options).expect("opens")
    }

    /// What is in the folder's files, in the order of their names.
    fn found(folder: &Path) -> Vec<(String, String)> {
        let entries =
            fs::read_dir(folder).expect("reads").map(|entry| entry.expect("reads").path());
        let read = |path: PathBuf| {
            let name = path.file_name().expect("has one").to_string_lossy().into_owned();
            (name, fs::read_to_string(path).expect("reads"))
        };
        let mut found: Vec<_> = entries.map(read).collect();
        found.sort();
        found
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    fn put(file: &mut RecordFile, text: &str) {
        file.make_room(text.len()).expect("it can be renamed");
        file.append(text.as_bytes(), "\n").expect("it is written");
    }

    #[test]
    fn a_full_file_is_renamed_and_so_many_are_kept() {
        let folder = tempfile::tempdir().expect("makes");
        let path = folder.path().join("log");
        let mut file = open(&path, &options(8, 2));
        for text in ["one\n", "two\n", "three\n", "four\n"] {
            put(&mut file, text);
        }
        let want = [("log", "four\n"), ("log.1", "three\n"), ("log.2", "one\ntwo\n")];
        assert_eq!(found(folder.path()), pairs(&want));
        put(&mut file, "five\n");
        let want = [("log", "five\n"), ("log.1", "four\n"), ("log.2", "three\n")];
        assert_eq!(found(folder.path()), pairs(&want));
        file.adopt(&options(8, 1));
        put(&mut file, "sixth\n");
        assert_eq!(found(folder.path()), pairs(&[("log", "sixth\n"), ("log.1", "five\n")]));
        file.adopt(&options(8, 0));
        put(&mut file, "7\n");
        put(&mut file, "a long entry\n");
        let want = [("log", "a long entry\n"), ("log.1", "five\n")];
        assert_eq!(found(folder.path()), pairs(&want), "it was emptied");
        let mode = fs::metadata(&path).expect("is there").permissions().mode();
        assert_eq!(mode & 0o137, 0, "others read nothing");
    }

    #[test]
    fn a_file_that_was_renamed_is_left_for_a_new_one() {
        let folder = tempfile::tempdir().expect("makes");
        let path = folder.path().join("log");
        let mut file = open(&path, &options(100, 2));
        put(&mut file, "one\n");
        fs::rename(&path, folder.path().join("old")).expect("renames");
        put(&mut file, "two\n");
        file.reopen().expect("opens");
        put(&mut file, "three\n");
        fs::remove_file(&path).expect("removes");
        fs::create_dir(&path).expect("makes");
        let error = file.reopen().expect_err("a folder").to_string();
        assert!(error.contains("logs.slow.file") && error.contains("directory"), "{error}");
        fs::remove_dir(&path).expect("removes");
        assert_eq!(found(folder.path()), pairs(&[("old", "one\ntwo\n")]));
    }

    #[test]
    fn a_full_disk_and_a_pipe_without_a_reader_are_told() {
        let mut full = open(Path::new("/dev/full"), &options(8, 2));
        full.make_room(100).expect("a device is not renamed");
        let unwritten = full.append(b"one\n", "\n").expect_err("it is full");
        assert_eq!((unwritten.written, unwritten.error.kind()), (0, io::ErrorKind::StorageFull));
        let folder = tempfile::tempdir().expect("makes");
        let path = folder.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from(0o600),
            0,
        )
        .expect("makes");
        RecordFile::open("logs.slow", path, &options(8, 2)).expect_err("it has no reader");
    }

    #[test]
    fn an_entry_that_was_broken_off_is_ended() {
        let folder = tempfile::tempdir().expect("makes");
        let path = folder.path().join("log");
        let mut file = open(&path, &options(100, 2));
        file.append(b"brok", "\n").expect("it is written");
        file.is_broken = true;
        file.append(b"whole\n", "\n").expect("it is written");
        assert_eq!(found(folder.path()), pairs(&[("log", "brok\nwhole\n")]));
    }
}
