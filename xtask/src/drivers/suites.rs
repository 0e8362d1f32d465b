//! The suites: where each comes from, what it needs, and how it is started.
//!
//! What they say is read elsewhere. Invariants: versions and checksums are pinned in files of the
//! repository; whatever is downloaded or built stays below the target folder; a suite that ran to
//! its end tells so by its exit status, whatever the outcome of its tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result, bail};
use bench::interrupt::Interrupt;
use bench::programs::Program;
use clap::ValueEnum;
use serde::Deserialize;

use super::outcomes::Format;
use super::{java, lines, perl, python};
use crate::repository;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Suite {
    /// The tests of go-sql-driver/mysql.
    Go,
    /// The tests of PyMySQL.
    Pymysql,
    /// The tests of mysqlclient for Python.
    Mysqlclient,
    /// The tests of DBD::mysql for Perl.
    DbdMysql,
    /// The tests of DBD::MariaDB for Perl.
    DbdMariadb,
    /// The tests of MariaDB Connector/J.
    ConnectorJ,
    /// Ours, of PHP's mysqli and PDO.
    Mysqli,
    /// Ours, of mysql2 for Node.js.
    Mysql2,
}

/// Where a suite finds its server.
pub(crate) struct Target {
    pub(crate) port: u16,
    pub(crate) user: &'static str,
    /// To change to; with the same password.
    pub(crate) other_user: &'static str,
    pub(crate) password: String,
    /// The authority of the server's certificate.
    pub(crate) ca: PathBuf,
}

/// A suite that can be started.
pub(crate) struct Ready {
    pub(super) suite: Suite,
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    pub(super) folder: PathBuf,
    /// The driver and its version.
    pub(crate) title: String,
}

impl Suite {
    pub(crate) const ALL: [Self; 8] = [
        Self::Go,
        Self::Pymysql,
        Self::Mysqlclient,
        Self::DbdMysql,
        Self::DbdMariadb,
        Self::ConnectorJ,
        Self::Mysqli,
        Self::Mysql2,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Go => "go",
            Self::Pymysql => "pymysql",
            Self::Mysqlclient => "mysqlclient",
            Self::DbdMysql => "dbd-mysql",
            Self::DbdMariadb => "dbd-mariadb",
            Self::ConnectorJ => "connector-j",
            Self::Mysqli => "mysqli",
            Self::Mysql2 => "mysql2",
        }
    }

    pub(crate) fn format(self) -> Format {
        match self {
            Self::Go => Format::Go,
            _ => Format::Tap,
        }
    }

    /// What the administrator runs before each run.
    pub(crate) fn databases(self) -> &'static [&'static str] {
        match self {
            Self::Go => &["gotest"],
            Self::Pymysql => &["test1", "test2"],
            Self::DbdMysql | Self::DbdMariadb => &["test"],
            Self::ConnectorJ => &["testj"],
            Self::Mysqlclient | Self::Mysqli | Self::Mysql2 => &["suite1", "suite2"],
        }
    }

    /// Fetches, builds and checks what it needs.
    pub(crate) fn prepare(self, interrupt: &Interrupt) -> Result<Ready> {
        let folder = repository::target().join("drivers").join(self.name());
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let prepare = match self {
            Self::Go => prepare_go,
            Self::Pymysql => python::prepare_pymysql,
            Self::Mysqlclient => python::prepare_mysqlclient,
            Self::DbdMysql => perl::prepare_mysql,
            Self::DbdMariadb => perl::prepare_mariadb,
            Self::ConnectorJ => java::prepare,
            Self::Mysqli => prepare_mysqli,
            Self::Mysql2 => prepare_mysql2,
        };
        prepare(folder, interrupt).with_context(|| format!("cannot prepare {}", self.name()))
    }

    /// Whether it ran all its tests.
    pub(crate) fn is_complete(self, status: ExitStatus) -> bool {
        match self {
            // A test binary ends with 1 if tests have failed, and with 2 if one has stopped it.
            Self::Go => matches!(status.code(), Some(0 | 1)),
            _ => status.success(),
        }
    }
}

impl Ready {
    pub(crate) fn command(&self, target: &Target) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).current_dir(&self.folder);
        match self.suite {
            Suite::Go => command
                .env("MYSQL_TEST_USER", target.user)
                .env("MYSQL_TEST_PASS", &target.password)
                .env("MYSQL_TEST_PROT", "tcp")
                .env("MYSQL_TEST_ADDR", format!("127.0.0.1:{}", target.port))
                .env("MYSQL_TEST_DBNAME", "gotest"),
            Suite::ConnectorJ => command
                // Some tests make accounts for this name.
                .env("TEST_DB_HOST", "localhost")
                .env("TEST_DB_PORT", target.port.to_string())
                .env("TEST_DB_USER", target.user)
                .env("TEST_DB_PASSWORD", &target.password)
                .env("TEST_DB_DATABASE", "testj")
                .env("TEST_DB_SERVER_CERT", &target.ca),
            _ => name(&mut command, target),
        };
        command
    }

    /// Leaves these tests out as well; only Go's tests can be.
    pub(crate) fn leave_out(&mut self, tests: &[String]) {
        for argument in self.arguments.iter_mut().filter(|it| it.starts_with(GO_SKIP)) {
            *argument = format!("{GO_SKIP}^({GO_SKIPPED}|{})$", tests.join("|"));
        }
    }

    /// A client of the same driver, with the same user, that uses other settings until it is stopped.
    pub(crate) fn noise(&self, target: &Target) -> Result<Command> {
        let mut command = match (self.suite, self.arguments.as_slice()) {
            (Suite::Go, _) => Command::new(self.folder.join("noise")),
            (Suite::Pymysql, [_, sources, ..]) => {
                let mut command = Command::new(&self.program);
                command.arg(ours("pymysql/noise.py")).arg(sources);
                command
            }
            (suite, _) => bail!("{} has no client that makes noise", suite.name()),
        };
        name(&mut command, target);
        Ok(command)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Tells a program where its server is.
fn name<'a>(command: &'a mut Command, target: &Target) -> &'a mut Command {
    command
        .env("SUITE_HOST", "127.0.0.1")
        .env("SUITE_PORT", target.port.to_string())
        .env("SUITE_USER", target.user)
        .env("SUITE_OTHER_USER", target.other_user)
        .env("SUITE_PASSWORD", &target.password)
        .env("SUITE_CA", &target.ca)
}

/// The version stands in go.mod, which go.sum holds to its checksums.
fn prepare_go(folder: PathBuf, interrupt: &Interrupt) -> Result<Ready> {
    let go = GO.find()?;
    let program = folder.join("mysql.test");
    let mut build = Command::new(&go);
    build.args(["test", "-c", "-o"]).arg(&program).arg(GO_MODULE).current_dir(ours("go"));
    lines::run("go test -c", build, interrupt)?;
    let mut build = Command::new(go);
    build.args(["build", "-o"]).arg(folder.join("noise")).arg("./noise").current_dir(ours("go"));
    lines::run("go build ./noise", build, interrupt)?;
    let version = pinned("go/go.mod", GO_MODULE)?;
    Ok(Ready {
        suite: Suite::Go,
        program,
        arguments: vec!["-test.v=test2json".to_owned(), format!("{GO_SKIP}^{GO_SKIPPED}$")],
        folder,
        title: format!("go-sql-driver/mysql {}", version.trim_start_matches('v')),
    })
}

/// Ours: nothing to fetch. PHP brings the drivers.
fn prepare_mysqli(folder: PathBuf, interrupt: &Interrupt) -> Result<Ready> {
    let php = PHP.find()?;
    let mut check = Command::new(&php);
    check.args(["-r", PHP_CHECK]);
    let version = lines::run("php", check, interrupt)?;
    let mut arguments: Vec<_> = PHP_SETTINGS.iter().flat_map(|it| ["-d", it]).collect();
    let script = text(&ours("mysqli/suite.php"));
    arguments.push(&script);
    let arguments = arguments.into_iter().map(str::to_owned).collect();
    let title = format!("mysqli and PDO of PHP {}", version.trim());
    Ok(Ready { suite: Suite::Mysqli, program: php, arguments, folder, title })
}

/// Ours, beside the packages that the lock file names.
fn prepare_mysql2(folder: PathBuf, interrupt: &Interrupt) -> Result<Ready> {
    let (node, npm) = (NODE.find()?, NPM.find()?);
    let lock = fs::read(ours("mysql2/package-lock.json"))?;
    let fetched = folder.join("fetched");
    // Modules are looked up from where the script lies.
    for entry in fs::read_dir(ours("mysql2"))? {
        let entry = entry?;
        fs::copy(entry.path(), folder.join(entry.file_name()))?;
    }
    if fs::read(&fetched).ok().as_ref() != Some(&lock) {
        let mut install = Command::new(npm);
        install.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&folder);
        lines::run("npm ci", install, interrupt)?;
        fs::write(&fetched, &lock)?;
    }
    let manifest = fs::read_to_string(folder.join("node_modules/mysql2/package.json"))?;
    let manifest: Manifest = serde_json::from_str(&manifest).context("mysql2's package.json")?;
    let title = format!("mysql2 {}", manifest.version);
    let arguments = vec!["suite.mjs".to_owned()];
    Ok(Ready { suite: Suite::Mysql2, program: node, arguments, folder, title })
}

#[derive(Deserialize)]
struct Manifest {
    version: String,
}

/// The version that a file pins a package to: the word after its name.
pub(super) fn pinned(file: &str, package: &str) -> Result<String> {
    let text = fs::read_to_string(ours(file)).with_context(|| format!("cannot read {file}"))?;
    pinned_in(&text, package).with_context(|| format!("{file} does not name {package}"))
}

fn pinned_in(text: &str, package: &str) -> Option<String> {
    let code = text.lines().filter(|line| !line.starts_with(['#', '/']));
    let mut words = code.flat_map(str::split_whitespace).flat_map(|word| word.split("=="));
    words.find(|word| *word == package)?;
    words.next().map(str::to_owned)
}

pub(super) fn ours(path: &str) -> PathBuf {
    repository::root().join("xtask/drivers").join(path)
}

pub(super) fn text(path: &Path) -> String {
    path.display().to_string()
}

const GO_MODULE: &str = "github.com/go-sql-driver/mysql";
const GO: Program = Program { name: "go", what: "the Go toolchain", package: "golang-go" };
/// Regular expressions of tests that are left out.
const GO_SKIP: &str = "-test.skip=";
/// It connects to an address that swallows packets, which not every machine has.
const GO_SKIPPED: &str = "TestConnectorReturnsTimeout";
const PHP: Program = Program { name: "php", what: "PHP", package: "php-cli php-mysql" };
const NODE: Program = Program { name: "node", what: "Node.js", package: "nodejs" };
const NPM: Program = Program { name: "npm", what: "the package tool of Node.js", package: "npm" };

/// Prints PHP's version, or fails and says what is missing.
const PHP_CHECK: &str = "foreach (['mysqli', 'pdo_mysql'] as $it) if (!extension_loaded($it)) { \
    echo \"PHP lacks $it; install it, for example with `apt-get install php-mysql`\"; exit(1); } \
    echo PHP_VERSION;";
/// A value of 20 MiB has several copies at times.
const PHP_SETTINGS: [&str; 3] =
    ["memory_limit=1G", "mysqli.allow_local_infile=1", "mysqli.allow_persistent=1"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_both_kinds_of_files() {
        let go = "require github.com/a/b v1.9.3\nrequire c v2 // indirect\n";
        assert_eq!(pinned_in(go, "github.com/a/b").as_deref(), Some("v1.9.3"));
        assert_eq!(pinned_in(go, "c").as_deref(), Some("v2"));
        let python = "# Why B is.\nB==0.10.1 --hash=sha256:0\n";
        assert_eq!(pinned_in(python, "B").as_deref(), Some("0.10.1"));
        assert_eq!(pinned_in(python, "D"), None);
    }

    #[test]
    fn each_suite_pins_its_driver() {
        assert!(pinned("go/go.mod", GO_MODULE).is_ok_and(|it| it.starts_with('v')));
        assert!(pinned("pymysql/sdist.txt", "PyMySQL").is_ok());
        assert!(pinned("mysqlclient/sdist.txt", "mysqlclient").is_ok());
    }
}
