//! The servers of another make: how each is built from its Go module, started, and asked.
//!
//! Invariants: versions and checksums are pinned by files of the repository; nothing is written into the repository;
//! what was started ends with its value.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bench::folder::Folder;
use bench::interrupt::Interrupt;
use bench::private_server::free_port;
use bench::process::Running;
use bench::programs::Program;
use clap::ValueEnum;
use testkit::client::Client;

use super::{PASSWORD, SCHEMAS, USERS};
use crate::drivers::lines;
use crate::{repository, ways};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Make {
    /// github.com/dolthub/go-mysql-server, with data in memory.
    Gms,
    /// github.com/dolthub/dolt.
    Dolt,
    /// vitess.io/vitess: vtgate and tablets in one process (vtcombo), before a MariaDB that it starts.
    Vitess,
}

/// A server that runs. The fields are dropped in this order.
pub(super) struct Standing {
    pub(super) port: u16,
    user: &'static str,
    password: &'static str,
    _running: Running,
    _folder: Folder,
}

impl Make {
    pub(crate) const ALL: [Self; 3] = [Self::Gms, Self::Dolt, Self::Vitess];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Gms => "gms",
            Self::Dolt => "dolt",
            Self::Vitess => "vitess",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Gms => "go-mysql-server",
            Self::Dolt => "Dolt",
            Self::Vitess => "Vitess",
        }
    }

    /// The programs, by the packages that they are built from.
    fn packages(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Gms => &[("gms", ".")],
            Self::Dolt => &[("dolt", "github.com/dolthub/dolt/go/cmd/dolt")],
            Self::Vitess => &[
                ("mysqlctl", "vitess.io/vitess/go/cmd/mysqlctl"),
                ("vtcombo", "vitess.io/vitess/go/cmd/vtcombo"),
                ("vttestserver", "vitess.io/vitess/go/cmd/vttestserver"),
            ],
        }
    }

    /// Builds the programs below this folder, unless they are there. The answer is where they lie.
    pub(super) fn build(self, builds: &Path, interrupt: &Interrupt) -> Result<PathBuf> {
        let folder = builds.join(self.name());
        let programs = folder.join("bin");
        fs::create_dir_all(&programs)
            .with_context(|| format!("cannot make {}", programs.display()))?;
        let ours = repository::root().join("xtask/beyond").join(self.name());
        let settings = folder.join("config");
        fs::create_dir_all(&settings)?;
        for entry in fs::read_dir(&ours).with_context(|| ours.display().to_string())? {
            let (path, name) = entry.map(|it| (it.path(), it.file_name()))?;
            // What is not Go's is what a server looks for in this folder.
            let is_of_go =
                path.extension().is_some_and(|it| ["go", "mod", "sum"].iter().any(|go| it == *go));
            let to = if is_of_go { &folder } else { &settings };
            fs::copy(&path, to.join(name))?;
        }
        for (name, package) in self.packages() {
            let program = programs.join(name);
            if program.exists() {
                continue;
            }
            eprintln!("{}: build {name} (this may take minutes)", self.name());
            let begun = Instant::now();
            let mut command = Command::new(GO.find()?);
            command.args(["build", "-trimpath", "-o"]).arg(&program).arg(package);
            command.current_dir(&folder);
            lines::run("go build", command, interrupt)?;
            eprintln!(
                "{}: {name} was built in {:.0} s",
                self.name(),
                begun.elapsed().as_secs_f64()
            );
        }
        Ok(programs)
    }

    pub(super) fn start(self, programs: &Path, interrupt: &Interrupt) -> Result<Standing> {
        let folder = Folder::create()?;
        let base = free_port()?;
        let (port, command) = match self {
            Self::Gms => (base, gms(programs, base)),
            Self::Dolt => (base, dolt(programs, folder.path(), base, interrupt)?),
            Self::Vitess => (base + VITESS_MYSQL, vitess(programs, folder.path(), base)),
        };
        let log = folder.path().join("server.log");
        let mut command = command;
        let out = File::create(&log)?;
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        let mut running = Running::start(self.name(), command)?;
        let begun = Instant::now();
        while !ways::greets(port) {
            let said = || ways::tail(&log);
            if let Some(status) = running.ended()? {
                bail!("it ended while it started ({status}); its log ends with:\n{}", said());
            }
            ensure!(
                begun.elapsed() < START_MAX,
                "it does not greet; its log ends with:\n{}",
                said()
            );
            interrupt.sleep(Duration::from_millis(100))?;
        }
        let (user, password) = match self {
            Self::Dolt => ("root", ""),
            Self::Gms | Self::Vitess => (USERS[0], PASSWORD),
        };
        let standing = Standing { port, user, password, _running: running, _folder: folder };
        standing.set_up(self)?;
        Ok(standing)
    }
}

/// Listens with the users and schemas that are asked for.
fn gms(programs: &Path, port: u16) -> Command {
    let mut command = Command::new(programs.join("gms"));
    command.arg(format!("127.0.0.1:{port}")).arg(PASSWORD).args(USERS).arg("--").args(SCHEMAS);
    command
}

fn dolt(programs: &Path, folder: &Path, port: u16, interrupt: &Interrupt) -> Result<Command> {
    let program = programs.join("dolt");
    let dolt = || {
        let mut command = Command::new(&program);
        command.current_dir(folder).env("HOME", folder).env("DOLT_ROOT_PATH", folder);
        command
    };
    for (name, value) in [
        ("user.email", "beyond@example.com"),
        ("user.name", "beyond"),
        ("metrics.disabled", "true"),
    ] {
        let mut command = dolt();
        command.args(["config", "--global", "--add", name, value]);
        lines::run("dolt config", command, interrupt)?;
    }
    let data = folder.join("data");
    fs::create_dir(&data)?;
    let mut command = dolt();
    command
        .args(["sql-server", "--host", "127.0.0.1", "--port", &port.to_string()])
        .args(["--max-connections", "1000", "--data-dir"])
        .arg(data);
    Ok(command)
}

/// Each schema is a keyspace of one shard.
fn vitess(programs: &Path, folder: &Path, port: u16) -> Command {
    let mut command = Command::new(programs.join("vttestserver"));
    command
        .args(["--port", &port.to_string(), "--mysql-bind-host", "127.0.0.1"])
        .args(["--keyspaces", &SCHEMAS.join(","), "--num-shards", &["1"; SCHEMAS.len()].join(",")])
        .args(["--replica-count", "1", "--rdonly-count", "0"])
        .args(["--extra-my-cnf", "config/extra.cnf"])
        .env("VTDATAROOT", folder)
        .env("VTROOT", programs.parent().unwrap_or(programs))
        .env("MYSQL_FLAVOR", "MariaDB10");
    command
}

/// vttestserver's port for MySQL's protocol is so many behind its first.
const VITESS_MYSQL: u16 = 3;

impl Standing {
    /// A client of the server itself.
    pub(super) fn client(&self) -> Result<Client> {
        let address = backend::Address::Tcp { host: "127.0.0.1".into(), port: self.port };
        Ok(Client::builder(address, self.user, self.password).connect()?)
    }

    fn set_up(&self, make: Make) -> Result<()> {
        let mut client = self.client()?;
        if make == Make::Dolt {
            for user in USERS {
                client.query(&format!("CREATE USER '{user}'@'%' IDENTIFIED BY '{PASSWORD}'"))?;
                client.query(&format!("GRANT ALL ON *.* TO '{user}'@'%' WITH GRANT OPTION"))?;
            }
            for schema in SCHEMAS {
                client.query(&format!("CREATE DATABASE {schema}"))?;
            }
        }
        Ok(())
    }

    /// The schemas are made anew, or their tables are dropped where the server makes no schemas.
    pub(super) fn empty(&self, schemas: &[&str]) -> Result<()> {
        let mut client = self.client()?;
        for schema in schemas {
            let is_anew = client.query(&format!("DROP DATABASE {schema}")).is_ok()
                && client.query(&format!("CREATE DATABASE {schema}")).is_ok();
            if is_anew {
                continue;
            }
            for row in client.query(&format!("SHOW TABLES FROM {schema}"))? {
                let Some(table) = row.first() else { continue };
                client.query(&format!("DROP TABLE {schema}.`{table}`"))?;
            }
        }
        Ok(())
    }
}

const GO: Program = Program { name: "go", what: "the Go toolchain", package: "golang-go" };
/// A server may have a server of its own to set up.
const START_MAX: Duration = Duration::from_secs(300);
