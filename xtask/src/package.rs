//! Installs the Debian package where nothing else is: in fresh trees of Debian releases, with that release's systemd as
//! their first process and its MariaDB as their server.
//!
//! Owns which releases; what is tried in each is in scripts, as an administrator would type it. Needs root, a mirror that
//! apt can reach, and mmdebstrap and lintian. Invariants: name spaces keep what runs in a tree away from this machine
//! (processes, mounts, network, control groups); all of it ends with this command.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bench::interrupt::Interrupt;
use bench::programs::Program;

use crate::{errand, repository};

#[derive(clap::Args)]
pub(crate) struct Extent {
    /// The releases.
    #[arg(long, value_delimiter = ',', default_value = "bookworm,trixie")]
    suites: Vec<String>,
    /// The folder with the programs flifo and flifo-bench, which are built already.
    #[arg(long, value_name = "DIR", default_value = "target/release")]
    programs: PathBuf,
    /// Where trees are kept for the next run; by default they are made anew and removed.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// Builds two packages, an older one and a newer one, has lintian judge them, and tries them in each release.
pub(crate) fn run(extent: &Extent, interrupt: &Interrupt) -> Result<()> {
    ensure!(sys::process::is_root(), "only root can make a tree of another system and start it");
    let (lintian, _) = (LINTIAN.find()?, MMDEBSTRAP.find()?);
    let folder = tempfile::tempdir()?;
    let kept = extent.keep.as_deref().unwrap_or_else(|| folder.path());
    std::fs::create_dir_all(kept)?;
    let packages = folder.path().join("packages");
    for revision in ["1", "2"] {
        let mut command = Command::new(repository::root().join("packaging/package.sh"));
        command.args(["--revision", revision]).arg(&extent.programs).arg(&packages);
        command.current_dir(repository::root());
        // lintian minds an address that there cannot be.
        let maintainer = std::env::var_os("DEBEMAIL").unwrap_or_else(|| "flifo@example.org".into());
        command.env("DEBEMAIL", maintainer);
        errand::run("package.sh", command, folder.path(), MINUTES, interrupt, || {})?;
    }
    let mut lintian = Command::new(lintian);
    lintian.args(["--fail-on", "error,warning", "--allow-root"]).args(built(&packages)?);
    errand::run("lintian", lintian, folder.path(), MINUTES, interrupt, || {})?;
    for suite in &extent.suites {
        let tree = kept.join(format!("{suite}.tar"));
        if !tree.exists() {
            println!("{suite}: making a tree");
            make(suite, &tree, folder.path(), interrupt)?;
        }
        let place = folder.path().join(suite);
        let tried = try_in(&tree, &place, &packages, folder.path(), interrupt);
        tried.with_context(|| format!("in {suite}"))?;
        println!("{suite}: installed, started, reloaded, upgraded, removed, purged");
    }
    Ok(())
}

const MINUTES: Duration = Duration::from_mins(10);

fn built(packages: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(packages)?.map(|entry| Ok(entry?.path()));
    entries.collect()
}

const LINTIAN: Program =
    Program { name: "lintian", what: "which judges packages", package: "lintian" };
pub(crate) const MMDEBSTRAP: Program =
    Program { name: "mmdebstrap", what: "which makes trees of Debian", package: "mmdebstrap" };

/// A tree with systemd and MariaDB, and nothing of Flifo.
fn make(suite: &str, tree: &Path, folder: &Path, interrupt: &Interrupt) -> Result<()> {
    let include = "systemd,systemd-sysv,dbus,adduser,procps,curl,iproute2,mariadb-server";
    let new = tree.with_extension("new.tar");
    let mut command = Command::new("mmdebstrap");
    command
        .args(["--variant=minbase", "--quiet", &format!("--include={include}"), suite])
        .arg(&new);
    errand::run("mmdebstrap", command, folder, MINUTES, interrupt, || {})?;
    std::fs::rename(new, tree).context("cannot keep the tree")
}

/// Starts the tree, and has the script in it try the packages.
fn try_in(
    tree: &Path,
    place: &Path,
    packages: &Path,
    folder: &Path,
    interrupt: &Interrupt,
) -> Result<()> {
    std::fs::create_dir_all(place)?;
    let mut unpack = Command::new("tar");
    unpack.arg("--extract").arg("--file").arg(tree).arg("--directory").arg(place);
    errand::run("tar", unpack, folder, MINUTES, interrupt, || {})?;
    let trial = place.join("trial");
    std::fs::create_dir_all(&trial)?;
    for package in built(packages)? {
        let name = package.file_name().context("a file has a name")?;
        std::fs::copy(&package, trial.join(name))?;
    }
    std::fs::write(trial.join("try.sh"), include_str!("package/try.sh"))?;
    let boot = folder.join("boot.sh");
    std::fs::write(&boot, include_str!("package/boot.sh"))?;
    let mut command = Command::new("sh");
    command.arg(boot).arg(place);
    let tried = errand::run("the tree", command, folder, MINUTES, interrupt, || {});
    let log = std::fs::read_to_string(trial.join("try.log")).unwrap_or_default();
    tried.map(drop).with_context(|| format!("the trial ended with:\n{}", last(&log)))
}

/// The last lines of a log.
fn last(log: &str) -> String {
    let lines: Vec<_> = log.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

const LINES: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_log_is_told() {
        assert_eq!(last("a\nb"), "a\nb");
        let long: String = (0..100).map(|number| format!("{number}\n")).collect();
        assert!(last(&long).starts_with("60\n") && last(&long).ends_with("\n99"));
    }
}
