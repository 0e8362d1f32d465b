//! The tests of Python's drivers, PyMySQL and mysqlclient.
//!
//! Decides nothing on what the tests say. Invariant: packages are those of our lists, which name checksums.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use bench::interrupt::Interrupt;
use bench::programs::Program;

use super::lines;
use super::suites::{Ready, Suite, ours, pinned, text};

/// Later sources come without tests.
pub(super) fn prepare_pymysql(folder: PathBuf, interrupt: &Interrupt) -> Result<Ready> {
    let python = PYTHON.find()?;
    let (sources, version) = sources(&python, "pymysql", "PyMySQL", &folder, interrupt)?;
    let runner = runner(&python, "pymysql", "pytest", &folder, interrupt)?;
    let script = ours("pymysql/run.py");
    let arguments = [script, sources, runner].iter().map(|it| text(it)).collect();
    let title = format!("PyMySQL {version}");
    Ok(Ready { suite: Suite::Pymysql, program: python, arguments, folder, title })
}

/// Built with this machine's MariaDB library.
pub(super) fn prepare_mysqlclient(folder: PathBuf, interrupt: &Interrupt) -> Result<Ready> {
    let python = PYTHON.find()?;
    let needs = || format!("it needs `apt-get install {BUILDS}`");
    let (sources, version) =
        sources(&python, "mysqlclient", "mysqlclient", &folder, interrupt).with_context(needs)?;
    let runner = runner(&python, "mysqlclient", "sqlalchemy", &folder, interrupt)?;
    let built = folder.join(format!("built-{version}"));
    if !built.is_dir() {
        let mut install = Command::new(&python);
        install.args(["-m", "pip", "install", "--no-deps", "--target"]).arg(&built).arg(&sources);
        lines::run("pip install", install, interrupt).with_context(needs)?;
    }
    let script = ours("mysqlclient/run.py");
    let arguments = [script, sources, runner, built].iter().map(|it| text(it)).collect();
    let title = format!("mysqlclient {version}");
    Ok(Ready { suite: Suite::Mysqlclient, program: python, arguments, folder, title })
}

/// Returns the folder with a driver's unpacked sources, and the version.
fn sources(
    python: &Path,
    suite: &str,
    package: &str,
    folder: &Path,
    interrupt: &Interrupt,
) -> Result<(PathBuf, String)> {
    let version = pinned(&format!("{suite}/sdist.txt"), package)?;
    let sources = folder.join(format!("{package}-{version}"));
    if !sources.is_dir() {
        let mut download = pip(python, "download", suite, "sdist.txt");
        download.args(["--no-binary", ":all:", "--dest"]).arg(folder);
        lines::run("pip download", download, interrupt)?;
        let mut unpack = Command::new(python);
        unpack.args(["-m", "tarfile", "-e"]);
        unpack.arg(folder.join(format!("{package}-{version}.tar.gz"))).arg(folder);
        lines::run("unpack", unpack, interrupt)?;
    }
    Ok((sources, version))
}

/// Returns the folder with what runs the tests; `last` is one of its packages.
fn runner(
    python: &Path,
    suite: &str,
    last: &str,
    folder: &Path,
    interrupt: &Interrupt,
) -> Result<PathBuf> {
    let runner = folder.join("runner");
    if !runner.join(last).is_dir() {
        let mut install = pip(python, "install", suite, "runner.txt");
        install.arg("--target").arg(&runner);
        lines::run("pip install", install, interrupt)?;
    }
    Ok(runner)
}

/// A command of pip with one of our lists of requirements.
fn pip(python: &Path, command: &str, suite: &str, list: &str) -> Command {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", command, "--no-deps", "--require-hashes", "--requirement"]);
    pip.arg(ours(suite).join(list));
    pip
}

const PYTHON: Program =
    Program { name: "python3", what: "Python, with pip", package: "python3 python3-pip" };
const BUILDS: &str = "python3-dev libmariadb-dev pkg-config gcc";
