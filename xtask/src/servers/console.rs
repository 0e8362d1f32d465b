//! The console as clients and drivers see it: the `mariadb` client, mycli, PyMySQL, mysql2 and go-sql-driver, as text and
//! prepared, and dolphie, a dashboard for ProxySQL, in a terminal. What each asks stands in `xtask/drivers`; it fails if it is told something else.

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
    let flifo = Flifo::start_program(flifo, &rest);
    // A dashboard has something to show.
    let mut shown = super::client(flifo.port())?;
    shown.query("SELECT 1 FROM DUAL WHERE 2 > 1")?;
    let mut found = Findings::default();
    let mut client = Command::new(MARIADB.find()?);
    client
        .args(["--no-defaults", "--batch", "--host=127.0.0.1", "--user=admin"])
        .arg(format!("--port={port}"))
        .arg(format!("--password={PASSWORD}"))
        .args([
            "--execute",
            "SHOW FULL SERVERS WHERE name = 'db1'; HELP PAUSE; DRAIN db2; ENABLE db2",
        ]);
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
    for (name, command) in python_clients(port, interrupt)? {
        let said = lines::run(name, command, interrupt)?;
        ensure!(name != "mycli" || said.contains("db1"), "mycli shows something else: {said}");
        found.note(name, &"works");
    }
    found.print()
}

/// The clients that are programs in Python, each as a command to run.
fn python_clients(port: u16, interrupt: &Interrupt) -> Result<Vec<(&'static str, Command)>> {
    let folder = repository::target().join("console-clients");
    let (packages, list) =
        (folder.join("packages"), repository::root().join("xtask/drivers/console/python.txt"));
    std::fs::create_dir_all(&folder).context("cannot make a folder for Python's packages")?;
    let mut install = Command::new("python3");
    install.args(["-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--upgrade"]);
    install.arg("--requirement").arg(&list).arg("--target").arg(&packages);
    lines::run("pip install", install, interrupt)?;
    let with = |arguments: &[&str]| {
        let mut command = Command::new("python3");
        command.args(arguments).env("PYTHONPATH", &packages).env("SUITE_FOLDER", &folder);
        command.env("SUITE_PORT", port.to_string()).env("SUITE_PASSWORD", PASSWORD);
        command.env("SUITE_USER", PrivateServer::USER);
        // Neither reads or writes what a person has at home.
        command.env("HOME", &folder);
        command
    };
    let address = ["--host=127.0.0.1", &format!("--port={port}"), "--user=admin"];
    let mut mycli = with(&["-c", "from mycli.main import main; main()"]);
    mycli.args(address).arg(format!("--password={PASSWORD}"));
    mycli.args(["--execute", "SHOW FULL SERVERS"]);
    let script = repository::root().join("xtask/drivers/console/dolphie.py");
    let dolphie = with(&[&script.display().to_string()]);
    Ok(vec![("mycli", mycli), ("dolphie", dolphie)])
}
