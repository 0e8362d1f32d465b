//! The console as clients and drivers see it: the `mariadb` client, PyMySQL, mysql2 and go-sql-driver, as text and
//! prepared. What each asks stands in `xtask/drivers`; it fails if it is told something else.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use bench::interrupt::Interrupt;
use bench::private_server::PrivateServer;
use bench::programs::MARIADB;
use testkit::cluster::Cluster;
use testkit::flifo::{Flifo, free_port};

use super::{CHECKS, Findings};
use crate::drivers::lines;
use crate::repository;
use crate::set_up::libraries::{Library, Target};

const PASSWORD: &str = "a-password-of-the-console";

pub(crate) fn run(flifo: &Path, interrupt: &Interrupt) -> Result<()> {
    let cluster = Cluster::replicated(1);
    let (user, password, port) = (PrivateServer::USER, Cluster::password(), free_port());
    let rest = format!(
        "{CHECKS}[console]\nlisten = \"127.0.0.1:{port}\"\npassword = {PASSWORD:?}\n\
         [http]\nlisten = []\n{}[[users]]\nname = \"{user}\"\npassword = \"{password}\"\n",
        cluster.listed()
    );
    let _flifo = Flifo::start_program(flifo, &rest);
    let mut found = Findings::default();
    let mut client = Command::new(MARIADB.find()?);
    client
        .args(["--no-defaults", "--batch", "--host=127.0.0.1", "--user=admin"])
        .arg(format!("--port={port}"))
        .arg(format!("--password={PASSWORD}"))
        .args(["--execute", "SHOW SERVERS WHERE name = 'db1'; HELP PAUSE; DRAIN db2; ENABLE db2"]);
    let said = lines::run("mariadb", client, interrupt)?;
    ensure!(said.contains("db1\t127.0.0.1"), "the client shows something else: {said}");
    found.note("mariadb", &"works");
    let drivers = repository::root().join("xtask/drivers");
    for library in [Library::Pymysql, Library::Mysql2Node, Library::Go] {
        let program = library.prepare(interrupt)?;
        let target = Target { port, user: "admin", password: PASSWORD };
        let command = match library {
            Library::Go => {
                let mut go = program.with("go", &["run", "./console"], &target);
                go.current_dir(drivers.join("go"));
                go
            }
            Library::Pymysql => {
                let script = drivers.join("console/console.py").display().to_string();
                program.with("python3", &[&script], &target)
            }
            _ => {
                // Modules are looked up from where the script lies.
                let script = program.folder.join("console.mjs");
                std::fs::copy(drivers.join("console/console.mjs"), &script)
                    .context("cannot copy the script")?;
                program.with("node", &["console.mjs"], &target)
            }
        };
        lines::run(library.name(), command, interrupt)?;
        found.note(&program.title, &"works");
    }
    found.print()
}
