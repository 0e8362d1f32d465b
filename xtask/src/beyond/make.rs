//! The servers of another make: how each is built from its Go module, started, and asked.
//!
//! Invariants: versions and checksums are pinned by files of the repository; nothing is written into the repository;
//! what was started ends with its value.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bench::folder::Folder;
use bench::interrupt::Interrupt;
use bench::private_server::free_port;
use bench::process::Running;
use bench::programs::Program;
use clap::ValueEnum;
use serde_json::{Value, json};
use testkit::client::Client;
use testkit::mysql::Mysql;

use super::{PASSWORD, SCHEMAS, USERS};
use crate::drivers::lines;
use crate::{repository, ways};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Make {
    /// github.com/dolthub/go-mysql-server, with data in memory.
    Gms,
    /// github.com/dolthub/dolt.
    Dolt,
    /// vitess.io/vitess: vtgate and tablets in one process (vtcombo), before a MySQL.
    Vitess,
}

/// A server that runs. The fields are dropped in this order.
pub(super) struct Standing {
    pub(super) port: u16,
    user: &'static str,
    password: &'static str,
    running: Running,
    /// Has the data.
    beneath: Option<Rc<Mysql>>,
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
            Self::Vitess => &[("vtcombo", ".")],
        }
    }

    /// What Go is told beside the package. Without its tag, Dolt wants the headers of ICU.
    fn tags(self) -> &'static [&'static str] {
        match self {
            Self::Dolt => &["-tags", "gms_pure_go"],
            Self::Gms | Self::Vitess => &[],
        }
    }

    /// Builds the programs below this folder, unless they are there. The answer is where they lie.
    pub(super) fn build(self, builds: &Path, interrupt: &Interrupt) -> Result<PathBuf> {
        let folder = builds.join(self.name());
        let programs = folder.join("bin");
        fs::create_dir_all(&programs)
            .with_context(|| format!("cannot make {}", programs.display()))?;
        let ours = repository::root().join("xtask/beyond").join(self.name());
        for entry in fs::read_dir(&ours).with_context(|| ours.display().to_string())? {
            let entry = entry?;
            fs::copy(entry.path(), folder.join(entry.file_name()))?;
        }
        for (name, package) in self.packages() {
            let program = programs.join(name);
            if program.exists() {
                continue;
            }
            eprintln!("{}: build {name} (this may take minutes)", self.name());
            let begun = Instant::now();
            let mut command = Command::new(GO.find()?);
            command.args(["build", "-trimpath"]).args(self.tags());
            command.arg("-o").arg(&program).arg(package).current_dir(&folder);
            lines::run_within(BUILD_MAX, "go build", command, interrupt)?;
            eprintln!(
                "{}: {name} was built in {:.0} s",
                self.name(),
                begun.elapsed().as_secs_f64()
            );
        }
        Ok(programs)
    }

    pub(super) fn start(self, programs: &Path, interrupt: &Interrupt) -> Result<Standing> {
        let (folder, port) = (Folder::create()?, free_port()?);
        let (command, beneath) = match self {
            Self::Gms => (gms(programs, port), None),
            Self::Dolt => (dolt(programs, folder.path(), port, None, interrupt)?, None),
            Self::Vitess => {
                let mysql = Rc::new(tablets_server()?);
                (vitess(programs, folder.path(), port, &mysql)?, Some(mysql))
            }
        };
        let standing = self.stand(command, port, folder, beneath, interrupt)?;
        standing.set_up(self)?;
        Ok(standing)
    }

    /// Two servers with the same data, the first of which is written to; none where the make has no such thing.
    pub(super) fn start_pair(
        self,
        programs: &Path,
        interrupt: &Interrupt,
    ) -> Result<Option<[Standing; 2]>> {
        match self {
            Self::Gms => Ok(None),
            Self::Dolt => {
                let remotes = [free_port()?, free_port()?];
                let start = |role, own, other| {
                    let (folder, port) = (Folder::create()?, free_port()?);
                    let member = Member { role, own, other };
                    let command = dolt(programs, folder.path(), port, Some(member), interrupt)?;
                    self.stand(command, port, folder, None, interrupt)
                };
                let standby = start("standby", remotes[1], remotes[0])?;
                let primary = start("primary", remotes[0], remotes[1])?;
                primary.set_up(self)?;
                Ok(Some([primary, standby]))
            }
            Self::Vitess => {
                let mysql = Rc::new(tablets_server()?);
                let start = || {
                    let (folder, port) = (Folder::create()?, free_port()?);
                    let command = vitess(programs, folder.path(), port, &mysql)?;
                    self.stand(command, port, folder, Some(Rc::clone(&mysql)), interrupt)
                };
                Ok(Some([start()?, start()?]))
            }
        }
    }

    /// Starts it and waits until it greets.
    fn stand(
        self,
        mut command: Command,
        port: u16,
        folder: Folder,
        beneath: Option<Rc<Mysql>>,
        interrupt: &Interrupt,
    ) -> Result<Standing> {
        let log = folder.path().join("server.log");
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
        Ok(Standing { port, user, password, running, beneath, _folder: folder })
    }
}

/// Listens with the users and schemas that are asked for.
fn gms(programs: &Path, port: u16) -> Command {
    let mut command = Command::new(programs.join("gms"));
    command.arg(format!("127.0.0.1:{port}")).arg(PASSWORD).args(USERS).arg("--").args(SCHEMAS);
    command
}

/// A server of a pair of Dolt's: what it is at first, and where both listen to each other.
struct Member {
    role: &'static str,
    own: u16,
    other: u16,
}

impl Member {
    /// All that `dolt sql-server` is told then.
    fn config(&self, port: u16, data: &Path) -> String {
        let Self { role, own, other } = self;
        format!(
            "listener:\n  host: 127.0.0.1\n  port: {port}\ndata_dir: {data:?}\ncluster:\n  standby_remotes:\n  \
             - name: other\n    remote_url_template: http://127.0.0.1:{other}/{{database}}\n  \
             bootstrap_role: {role}\n  bootstrap_epoch: 1\n  remotesapi:\n    address: 127.0.0.1\n    \
             port: {own}\n"
        )
    }
}

fn dolt(
    programs: &Path,
    folder: &Path,
    port: u16,
    member: Option<Member>,
    interrupt: &Interrupt,
) -> Result<Command> {
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
    command.arg("sql-server");
    if let Some(member) = member {
        let config = folder.join("config.yaml");
        fs::write(&config, member.config(port, &data))?;
        command.arg("--config").arg(config);
    } else {
        command
            .args(["--host", "127.0.0.1", "--port", &port.to_string()])
            .args(["--max-connections", "1000", "--data-dir"])
            .arg(data);
    }
    Ok(command)
}

/// The MySQL that has the data of Vitess: each keyspace's shard has a schema of its own there.
fn tablets_server() -> Result<Mysql> {
    let arguments = ["--log-bin=binlog", "--gtid-mode=ON", "--enforce-gtid-consistency=ON"];
    let mysql = Mysql::start(&arguments).context("Vitess needs a MySQL, and there is none")?;
    for schema in SCHEMAS {
        mysql.sql(&[&format!("CREATE DATABASE `vt_{schema}_0` CHARACTER SET utf8mb4")]);
    }
    Ok(mysql)
}

/// Each schema is a keyspace of one shard.
fn vitess(programs: &Path, folder: &Path, port: u16, mysql: &Mysql) -> Result<Command> {
    let keyspace =
        |name: &str| json!({ "name": name, "shards": [{ "name": "0" }], "replicaCount": 1 });
    let topology = json!({ "cells": ["test"], "keyspaces": SCHEMAS.map(keyspace) });
    let account = || json!([{ "Password": PASSWORD }]);
    let accounts: serde_json::Map<_, _> =
        USERS.map(|user| (user.to_owned(), account())).into_iter().collect();
    let program = folder.join("vtcombo");
    // Where it was built, not everybody may look.
    fs::copy(programs.join("vtcombo"), &program)?;
    let mut command = Command::new(program);
    if sys::process::is_root() {
        be_nobody(&mut command, folder, mysql)?;
    }
    let socket = mysql.socket();
    command.current_dir(folder).env("VTDATAROOT", folder);
    command.env("VITESS_USERS", Value::Object(accounts).to_string());
    let [http, grpc] = [free_port()?, free_port()?];
    for (option, value) in [
        ("--port", http.to_string()),
        ("--grpc-port", grpc.to_string()),
        ("--mysql-server-port", port.to_string()),
        ("--json-topo", topology.to_string()),
        ("--db-socket", socket.display().to_string()),
        ("--mycnf-socket-file", socket.display().to_string()),
    ] {
        command.arg(option).arg(value);
    }
    // Vitess has users of its own for what it does at the server.
    for role in ["app", "dba", "allprivs", "appdebug", "filtered", "repl"] {
        command.arg(format!("--db-{role}-user")).arg(Mysql::ADMIN);
    }
    command.args(VTCOMBO);
    Ok(command)
}

/// Vitess refuses to run as root.
fn be_nobody(command: &mut Command, folder: &Path, mysql: &Mysql) -> Result<()> {
    let (uid, gid) = sys::process::numbers_of("nobody").context("there is no user nobody")?;
    chown(folder, Some(uid), Some(gid))?;
    // The socket is everybody's, the folder is not.
    fs::set_permissions(mysql.folder(), Permissions::from_mode(0o711))?;
    command.uid(uid).gid(gid);
    Ok(())
}

impl Standing {
    /// The process that clients speak with.
    pub(super) fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// Kills it.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.running.kill()
    }

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

    /// The schemas are made anew, or their tables are dropped where that is not done in a moment.
    pub(super) fn empty(&self, schemas: &[&str]) -> Result<()> {
        let mut client = self.client()?;
        for schema in schemas {
            // Vitess takes a minute to give up a keyspace.
            let is_anew = self.beneath.is_none()
                && client.query(&format!("DROP DATABASE {schema}")).is_ok()
                && client.query(&format!("CREATE DATABASE {schema}")).is_ok();
            if is_anew {
                continue;
            }
            for row in client.query(&format!("SHOW FULL TABLES FROM {schema}"))? {
                let Some(table) = row.first() else { continue };
                let kind = if row.get(1).is_some_and(|it| it == "VIEW") { "VIEW" } else { "TABLE" };
                client.query(&format!("DROP {kind} {schema}.`{table}`"))?;
            }
        }
        Ok(())
    }
}

const GO: Program = Program { name: "go", what: "the Go toolchain", package: "golang-go" };
/// Thousands of files, on few CPUs.
const BUILD_MAX: Duration = Duration::from_secs(3600);
/// A server may have a server of its own to set up.
const START_MAX: Duration = Duration::from_secs(300);

/// What does not depend on ports, files and users.
const VTCOMBO: [&str; 26] = [
    "--bind-address",
    "127.0.0.1",
    "--grpc-bind-address",
    "127.0.0.1",
    "--mysql-server-bind-address",
    "127.0.0.1",
    "--mysql-auth-server-impl",
    "static",
    "--mysql-server-version",
    "8.0.15-Vitess",
    "--db-charset",
    "utf8mb4",
    "--mycnf-server-id",
    "1",
    "--tablet-types-to-wait",
    "PRIMARY",
    // Schemas are made and dropped as in other servers.
    "--dbddl-plugin",
    "vttest",
    // Clients may be many.
    "--queryserver-config-pool-size",
    "64",
    "--queryserver-config-transaction-cap",
    "64",
    "--queryserver-config-stream-pool-size",
    "64",
    "--normalize-queries",
    "--enable-system-settings",
];
