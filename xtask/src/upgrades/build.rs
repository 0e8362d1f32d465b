//! The program of another commit.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::repository;

/// Builds the release of a commit, once. Its target folder is one of its own, where only what differs is built again.
pub(super) fn of(commit: &str) -> Result<PathBuf> {
    let root = repository::root();
    let out = Command::new("git")
        .arg("-C")
        .arg(&root)
        .args(["rev-parse", "--short=12"])
        .arg(commit)
        .output()?;
    ensure!(out.status.success(), "{commit}: {}", String::from_utf8_lossy(&out.stderr));
    let name = String::from_utf8(out.stdout)?.trim().to_owned();
    let folder = repository::target().join("other-builds");
    let kept = folder.join(format!("flifo-{name}"));
    if kept.is_file() {
        return Ok(kept);
    }
    println!("{commit} is {name}: it is built, which takes minutes");
    std::fs::create_dir_all(&folder)?;
    let source = folder.join("source");
    let run = |command: &mut Command| -> Result<()> {
        let status = command.status()?;
        ensure!(status.success(), "{command:?} ends with {status}");
        Ok(())
    };
    if source.exists() {
        run(git(&root).args(["worktree", "remove", "--force"]).arg(&source))?;
    }
    run(git(&root).args(["worktree", "add", "--detach", "--quiet"]).arg(&source).arg(&name))?;
    let target = folder.join("target");
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--quiet", "--release", "--locked", "--package", "flifo"]);
    let built = run(cargo.current_dir(&source).env("CARGO_TARGET_DIR", &target));
    run(git(&root).args(["worktree", "remove", "--force"]).arg(&source))?;
    built?;
    std::fs::copy(target.join("release/flifo"), &kept).context("the program")?;
    Ok(kept)
}

fn git(root: &Path) -> Command {
    let mut git = Command::new("git");
    git.arg("-C").arg(root);
    git
}
