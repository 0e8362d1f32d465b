//! Sources of drivers from the archives of Debian that this machine's apt knows.
//!
//! Builds nothing. Invariants: each file is named in a list of the repository with its checksum, and apt refuses
//! another; a folder of sources is there whole, with Debian's patches applied, or not at all.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use bench::interrupt::Interrupt;
use bench::programs::Program;

use super::lines;
use super::suites::ours;

/// A package's sources.
#[derive(Debug, PartialEq, Eq)]
struct Pinned<'a> {
    /// As Debian calls it, without Debian's own number.
    version: &'a str,
    files: Vec<File<'a>>,
}

#[derive(Debug, PartialEq, Eq)]
struct File<'a> {
    /// Below an archive's address.
    path: &'a str,
    sha256: &'a str,
}

impl Pinned<'_> {
    /// Another one if a file is added to the list, or replaced.
    fn name(&self) -> &str {
        let last = self.files.last().map_or("", File::name);
        last.split_once(".tar.").map_or(last, |(stem, _)| stem)
    }
}

impl File<'_> {
    fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(self.path)
    }
}

/// Returns the folder with a package's unpacked sources, and the version.
pub(super) fn sources(
    package: &str,
    folder: &Path,
    interrupt: &Interrupt,
) -> Result<(PathBuf, String)> {
    let list = fs::read_to_string(ours(LIST)).with_context(|| format!("cannot read {LIST}"))?;
    let pinned = pinned(&list, package).with_context(|| format!("{LIST} lacks {package}"))?;
    let version = pinned.version.to_owned();
    let unpacked = folder.join(pinned.name());
    if unpacked.is_dir() {
        return Ok((unpacked, version));
    }
    for file in &pinned.files {
        fetch(file, folder, interrupt)?;
    }
    let fresh = tempfile::tempdir_in(folder)?;
    let made = fresh.path().join("sources");
    for file in &pinned.files {
        if file.name().contains(".orig.") {
            unpack(&folder.join(file.name()), &made, interrupt)?;
        } else {
            let debian = fresh.path().join("debian");
            unpack(&folder.join(file.name()), &debian, interrupt)?;
            patch(&made, &debian, interrupt)?;
        }
    }
    fs::rename(&made, &unpacked).with_context(|| format!("cannot make {}", unpacked.display()))?;
    Ok((unpacked, version))
}

/// Asks one archive after the other: not each has all packages.
fn fetch(file: &File<'_>, folder: &Path, interrupt: &Interrupt) -> Result<()> {
    let mut ask = Command::new(APT_GET.find()?);
    ask.args(["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]);
    let said = lines::run("apt-get indextargets", ask, interrupt)?;
    let mut archives: Vec<_> = said.lines().collect();
    archives.dedup();
    ensure!(!archives.is_empty(), "apt knows no archive; try `apt-get update`");
    let mut refusals = String::new();
    for archive in archives {
        let mut download = Command::new(APT_HELPER);
        download.arg("download-file").arg(format!("{archive}{}", file.path));
        download.arg(folder.join(file.name())).arg(format!("SHA256:{}", file.sha256));
        match lines::run("apt-helper", download, interrupt) {
            Ok(_) => return Ok(()),
            Err(error) => refusals.push_str(&format!("\n{error}")),
        }
    }
    bail!("no archive that apt knows gives {}, as {LIST} has it:{refusals}", file.name())
}

/// Unpacks what an archive's only folder holds.
fn unpack(archive: &Path, folder: &Path, interrupt: &Interrupt) -> Result<()> {
    fs::create_dir_all(folder)?;
    let mut tar = Command::new(TAR.find()?);
    tar.arg("-xf").arg(archive).args(["--strip-components=1", "-C"]).arg(folder);
    lines::run("tar", tar, interrupt).map(drop)
}

/// Applies Debian's patches.
fn patch(sources: &Path, debian: &Path, interrupt: &Interrupt) -> Result<()> {
    let patches = debian.join("patches");
    let series = fs::read_to_string(patches.join("series")).context("Debian's list of patches")?;
    for name in series.lines().map(str::trim).filter(|it| !it.is_empty() && !it.starts_with('#')) {
        let mut patch = Command::new(PATCH.find()?);
        patch.args(["-p1", "-i"]).arg(patches.join(name)).current_dir(sources);
        lines::run("patch", patch, interrupt).with_context(|| name.to_owned())?;
    }
    Ok(())
}

fn pinned<'a>(list: &'a str, package: &str) -> Option<Pinned<'a>> {
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    let all = lines.filter_map(|line| line.split_once(' '));
    let files: Vec<_> = all
        .map(|(path, sha256)| File { path, sha256: sha256.trim() })
        .filter(|file| file.name().split('_').next() == Some(package))
        .collect();
    let (_, rest) = files.first()?.name().split_once('_')?;
    let (version, _) = rest.split_once(".orig.")?;
    // It lies in the list, not in one of these files.
    let version = list.get(list.find(rest)?..)?.get(..version.len())?;
    Some(Pinned { version, files })
}

const LIST: &str = "debian.txt";
const APT_HELPER: &str = "/usr/lib/apt/apt-helper";
const APT_GET: Program =
    Program { name: "apt-get", what: "which knows where Debian's sources are", package: "apt" };
const TAR: Program = Program { name: "tar", what: "which unpacks sources", package: "tar" };
const PATCH: Program =
    Program { name: "patch", what: "which applies Debian's patches", package: "patch" };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_s_files_are_found_with_their_checksums() {
        let list = "# Why.\npool/a/ab_1.2.orig.tar.gz 00\npool/a/ab_1.2-3.debian.tar.xz 01\n\
            pool/b/b_7.orig.tar.xz 02\n";
        let found = pinned(list, "ab").expect("is there");
        assert_eq!((found.version, found.files.len()), ("1.2", 2));
        assert_eq!(found.name(), "ab_1.2-3.debian");
        assert_eq!(
            (found.files[1].name(), found.files[1].sha256),
            ("ab_1.2-3.debian.tar.xz", "01")
        );
        assert_eq!(pinned(list, "b").expect("is there").version, "7");
        assert_eq!(pinned(list, "a"), None);
    }

    #[test]
    fn the_list_has_a_checksum_for_each_file() {
        let list = fs::read_to_string(ours(LIST)).expect("is there");
        for line in list.lines().filter(|line| !line.starts_with('#')) {
            let (path, sha256) = line.split_once(' ').expect("has two words");
            let package = path.rsplit('/').next().and_then(|name| name.split('_').next());
            assert!(pinned(&list, package.expect("has a name")).is_some(), "{line}");
            assert!(
                sha256.len() == 64 && sha256.bytes().all(|it| it.is_ascii_hexdigit()),
                "{line}"
            );
        }
    }
}
