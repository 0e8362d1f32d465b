//! The tests of MariaDB Connector/J: its sources' tests, compiled against the released driver.
//!
//! Decides nothing on what the tests say. Invariants: the driver's version is that of the tests; of an earlier run's
//! classes none is left.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use bench::interrupt::Interrupt;
use bench::programs::Program;

use super::suites::{Ready, Suite, ours, text};
use super::{debian, lines};

pub(super) fn prepare(folder: PathBuf, interrupt: &Interrupt) -> Result<Ready> {
    let java = JAVA.find()?;
    let (sources, version) = debian::sources(PACKAGE, &folder, interrupt)?;
    let pom = ours("connector-j/pom.xml");
    let jars = folder.join(format!("jars-{version}"));
    if !jars.is_dir() {
        let driver = format!("<version>{version}</version>");
        ensure!(fs::read_to_string(&pom)?.contains(&driver), "{} lacks {driver}", pom.display());
        let fresh = tempfile::tempdir_in(&folder)?;
        let all = fresh.path().join("jars");
        let mut fetch = Command::new(MAVEN.find()?);
        fetch.args(["--quiet", "--batch-mode", "--file"]).arg(&pom);
        fetch.arg("dependency:copy-dependencies");
        fetch.arg(format!("-DoutputDirectory={}", all.display()));
        lines::run("mvn", fetch, interrupt)?;
        fs::rename(&all, &jars).context("Java's packages")?;
    }
    let classes = compile(&sources.join("src/test"), &jars, &folder, interrupt)?;
    let path = format!("{}:{}/*", classes.display(), jars.display());
    let arguments = ["-Xmx1g", "-cp", &path, "RunTests", &text(&classes)].map(str::to_owned).into();
    let title = format!("MariaDB Connector/J {version}");
    Ok(Ready { suite: Suite::ConnectorJ, program: java, arguments, folder, title })
}

/// Compiles the tests and their runner, and lays what the tests read beside them.
fn compile(tests: &Path, jars: &Path, folder: &Path, interrupt: &Interrupt) -> Result<PathBuf> {
    let classes = folder.join("classes");
    if classes.is_dir() {
        fs::remove_dir_all(&classes).context("cannot remove the tests of an earlier run")?;
    }
    copy(&tests.join("resources"), &classes)?;
    let mut files = vec![ours("connector-j/RunTests.java")];
    list(&tests.join("java"), &mut files)?;
    let mut compile = Command::new(JAVAC.find()?);
    compile.args(["-nowarn", "-encoding", "UTF-8", "-cp", &format!("{}/*", jars.display()), "-d"]);
    compile.arg(&classes).args(files);
    lines::run("javac", compile, interrupt)?;
    Ok(classes)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

/// Lists the sources below a folder.
fn list(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let cannot = || format!("cannot read {}", folder.display());
    for entry in fs::read_dir(folder).with_context(cannot)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            list(&path, found)?;
        } else if path.extension().is_some_and(|it| it == "java") {
            found.push(path);
        }
    }
    Ok(())
}

const PACKAGE: &str = "mariadb-connector-java";
const JAVA: Program = Program { name: "java", what: "Java", package: "default-jdk-headless" };
const JAVAC: Program =
    Program { name: "javac", what: "Java's compiler", package: "default-jdk-headless" };
const MAVEN: Program = Program { name: "mvn", what: "the package tool of Java", package: "maven" };
