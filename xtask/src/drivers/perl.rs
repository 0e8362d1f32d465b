//! The tests of Perl's drivers, DBD::mysql and DBD::MariaDB, built against the MariaDB library of this machine.
//!
//! Decides nothing on what the tests say. Invariant: both go through the same build and the same runner.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use bench::interrupt::Interrupt;
use bench::programs::Program;

use super::suites::{Ready, Suite, ours, text};
use super::{debian, lines};

pub(super) fn prepare_mysql(folder: PathBuf, interrupt: &Interrupt) -> Result<Ready> {
    prepare(Suite::DbdMysql, "mysql", "libdbd-mysql-perl", folder, interrupt)
}

pub(super) fn prepare_mariadb(folder: PathBuf, interrupt: &Interrupt) -> Result<Ready> {
    prepare(Suite::DbdMariadb, "MariaDB", "libdbd-mariadb-perl", folder, interrupt)
}

fn prepare(
    suite: Suite,
    driver: &str,
    package: &str,
    folder: PathBuf,
    interrupt: &Interrupt,
) -> Result<Ready> {
    let perl = PERL.find()?;
    let (sources, version) = debian::sources(package, &folder, interrupt)?;
    if !sources.join(format!("blib/arch/auto/DBD/{driver}/{driver}.so")).is_file() {
        let config = format!("--mysql_config={}", text(&MARIADB_CONFIG.find()?));
        let mut configure = Command::new(&perl);
        configure.arg("Makefile.PL").arg(config).current_dir(&sources);
        lines::run("Makefile.PL", configure, interrupt).with_context(needs)?;
        let mut make = Command::new(MAKE.find()?);
        make.current_dir(&sources);
        lines::run("make", make, interrupt).with_context(needs)?;
    }
    let script = ours("perl/run.pl");
    let arguments = vec![text(&script), text(&sources), driver.to_owned()];
    let title = format!("DBD::{driver} {version}");
    Ok(Ready { suite, program: perl, arguments, folder, title })
}

fn needs() -> String {
    format!("it needs `apt-get install {}`", MARIADB_CONFIG.package)
}

const PERL: Program = Program { name: "perl", what: "Perl", package: "perl" };
const MAKE: Program = Program { name: "make", what: "which builds drivers", package: "make" };
const MARIADB_CONFIG: Program = Program {
    name: "mariadb_config",
    what: "which comes with the library that drivers are built with",
    package: "libmariadb-dev libdbi-perl libdevel-checklib-perl libtest-deep-perl gcc make",
};
