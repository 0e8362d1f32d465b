//! The repository as it is now, in a folder of its own, where some of its texts are exchanged before it is built.
//!
//! Invariants: a text that is to be exchanged stands in its file once; what was exchanged is put back before anything else
//! is; the repository itself is only read.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::repository;

/// A text that another one stands in for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Edit {
    /// Under `crates/`.
    file: String,
    cut: String,
    put: String,
}

/// The files that are edited, as they are then, by their paths in the repository.
pub(crate) fn edited(edits: &[Edit]) -> Result<BTreeMap<PathBuf, String>> {
    let mut files = BTreeMap::new();
    for Edit { file, cut, put } in edits {
        let path = Path::new("crates").join(file);
        let before = match files.remove(&path) {
            Some(text) => text,
            None => {
                fs::read_to_string(repository::root().join(&path)).with_context(|| file.clone())?
            }
        };
        let count = before.matches(cut.as_str()).count();
        ensure!(count == 1, "what is to be cut stands {count} times in {file}: {cut}");
        files.insert(path, before.replacen(cut.as_str(), put, 1));
    }
    Ok(files)
}

pub(crate) struct Copy {
    source: PathBuf,
    target: PathBuf,
}

impl Copy {
    /// Makes it in this folder under the target folder. Only what differs is written: what was built of the rest stays
    /// good.
    pub(crate) fn make(name: &str) -> Result<Self> {
        let folder = repository::target().join(name);
        let copy = Self { source: folder.join("source"), target: folder.join("target") };
        let mut list = Command::new("git");
        list.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let output = list.current_dir(repository::root()).output().context("git does not run")?;
        ensure!(output.status.success(), "git does not list the files of this repository");
        let names = String::from_utf8(output.stdout).context("a file's name is not UTF-8")?;
        for name in names.split_terminator('\0') {
            // One that was removed and not committed is still listed.
            if let Ok(text) = fs::read(repository::root().join(name)) {
                copy.put(Path::new(name), &text)?;
            }
        }
        Ok(copy)
    }

    /// Where the sources lie.
    pub(crate) fn source(&self) -> &Path {
        &self.source
    }

    /// Where cargo builds them.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    fn put(&self, name: &Path, text: &[u8]) -> Result<()> {
        let path = self.source.join(name);
        if fs::read(&path).is_ok_and(|before| before == text) {
            return Ok(());
        }
        let folder = path.parent().context("it lies in a folder")?;
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&path, text))
            .with_context(|| path.display().to_string())
    }

    /// Does this while the texts are exchanged.
    pub(crate) fn with<T>(&self, edits: &[Edit], it: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        let edited = edited(edits)?;
        for (name, text) in &edited {
            self.put(name, text.as_bytes())?;
        }
        let result = it(self);
        for name in edited.keys() {
            self.put(name, &fs::read(repository::root().join(name))?)?;
        }
        result
    }

    pub(crate) fn build(&self, package: &str) -> Result<()> {
        let mut build = self.cargo();
        let output = build.args(["build", "--quiet", "--package", package]).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(())
    }

    /// To be given its arguments.
    pub(crate) fn cargo(&self) -> Command {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(&self.source).env("CARGO_TARGET_DIR", &self.target);
        cargo
    }
}
