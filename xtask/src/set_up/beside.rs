//! `flifo init` and `flifo init --undo` beside servers that others depend on: primaries, replicas, nodes of a cluster; of
//! MariaDB as this machine and as Debian 13 has it, and of MySQL's newest.
//!
//! Owns which servers; what must be so is [`Trial`]'s: replication goes on and has no transaction of a replica's own, no
//! log and no list of processes has the password, and accounts, rights, options and files are as they were when it is
//! taken back. Each row of the table that is printed was seen; the first thing that is not so ends the command.

use std::path::Path;

use anyhow::{Context, Result, bail};
use bench::interrupt::Interrupt;
use clap::ValueEnum;
use testkit::cluster::Cluster;
use testkit::mysql::{self, Mysql};
use testkit::set_up::traces::Served;
use testkit::set_up::trial::{Found, MARIADB_LOGS, MYSQL_LOGS, Place, Trial, prepare};

use super::trees;

/// Beside what Flifo is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Beside {
    /// A MariaDB of this machine's, which a replica follows.
    Primary,
    /// That replica: read-only, with strict GTIDs.
    Replica,
    /// A replica that another one follows.
    Between,
    /// A node of a Galera cluster.
    Galera,
    /// MySQL, which a replica follows.
    Mysql,
    /// That replica, with GTIDs.
    MysqlReplica,
    /// MariaDB of Debian 13, which a replica follows.
    Mariadb13,
    /// That replica.
    Mariadb13Replica,
}

impl Beside {
    pub(crate) const ALL: [Self; 8] = [
        Self::Primary,
        Self::Replica,
        Self::Between,
        Self::Galera,
        Self::Mysql,
        Self::MysqlReplica,
        Self::Mariadb13,
        Self::Mariadb13Replica,
    ];

    fn title(self) -> &'static str {
        match self {
            Self::Primary | Self::Mariadb13 => "a primary",
            Self::Replica | Self::Mariadb13Replica => "its replica, read-only, strict GTIDs",
            Self::Between => "a replica that has a replica",
            Self::Galera => "a node of a cluster",
            Self::Mysql => "a primary with GTIDs",
            Self::MysqlReplica => "its replica, read-only",
        }
    }
}

/// Sets Flifo up beside each of these. Trees of other releases are below `kept`, or made there.
pub(super) fn run(
    kinds: &[Beside],
    kept: Option<&Path>,
    flifo: &Path,
    interrupt: &Interrupt,
) -> Result<()> {
    let passing = tempfile::tempdir()?;
    let kept = kept.unwrap_or_else(|| passing.path());
    std::fs::create_dir_all(kept)?;
    println!("{HEAD}");
    for kind in kinds {
        interrupt.check()?;
        let found = try_one(*kind, kept, flifo, interrupt);
        println!("{}", found.with_context(|| format!("beside {}", kind.title()))?);
    }
    Ok(())
}

const HEAD: &str = "| server | where | made | replication | searched for the password | taken back |\n\
                    |---|---|---|---|---|---|";

fn try_one(kind: Beside, kept: &Path, flifo: &Path, interrupt: &Interrupt) -> Result<String> {
    match kind {
        Beside::Primary | Beside::Replica | Beside::Between => Ok(mariadb(kind, None, flifo)),
        Beside::Mariadb13 | Beside::Mariadb13Replica => {
            Ok(mariadb(kind, Some(&trees::MARIADB.programs(kept, interrupt)?), flifo))
        }
        Beside::Galera => galera(flifo),
        Beside::Mysql | Beside::MysqlReplica => {
            let program = trees::MYSQL.programs(kept, interrupt)?.join("mysqld");
            let program = mysql::Program::named(program).map_err(anyhow::Error::msg)?;
            let servers = Mysql::replicated(&program, &MYSQL_LOGS);
            servers.iter().for_each(|server| prepare(server));
            let [primary, replica] = &servers;
            let (at, place) = match kind {
                Beside::Mysql => (primary, Place::Primary),
                _ => (replica, Place::Replica),
            };
            let pairs = vec![(primary as &dyn Served, replica as &dyn Served)];
            Ok(row(kind, &Trial { at, socket: at.socket(), place, pairs }, flifo))
        }
    }
}

fn mariadb(kind: Beside, programs: Option<&Path>, flifo: &Path) -> String {
    let readers = if kind == Beside::Between { 2 } else { 1 };
    let cluster = Cluster::replicated_of(programs, readers, &MARIADB_LOGS);
    if kind == Beside::Between {
        cluster.follow(2, 1);
    }
    let servers = &cluster.servers;
    servers.iter().for_each(|server| prepare(server));
    let (at, place) = match kind {
        Beside::Primary | Beside::Mariadb13 => (&servers[0], Place::Primary),
        _ => (&servers[1], Place::Replica),
    };
    let pairs = servers[1..].iter().map(|it| (&servers[0] as &dyn Served, it as &dyn Served));
    row(kind, &Trial { at, socket: at.socket(), place, pairs: pairs.collect() }, flifo)
}

fn galera(flifo: &Path) -> Result<String> {
    let Some(cluster) = Cluster::clustered(2) else { bail!("there is no Galera (galera-4)") };
    let [one, other] = &cluster.servers[..] else { bail!("two nodes were asked for") };
    for server in [one, other] {
        prepare(server);
        server.ask("SET GLOBAL general_log = 1; SET GLOBAL slow_query_log = 1; SET GLOBAL long_query_time = 0");
    }
    let (one, both): (&dyn Served, &dyn Served) = (one, other);
    let pairs = vec![(one, both), (both, one)];
    let trial = Trial { at: other, socket: other.socket(), place: Place::Node, pairs };
    Ok(row(Beside::Galera, &trial, flifo))
}

/// Does it, and tells what was seen.
fn row(kind: Beside, trial: &Trial<'_>, flifo: &Path) -> String {
    let version = trial.at.ask("SELECT VERSION()");
    let make = if trial.at.is_mariadb() { "MariaDB" } else { "MySQL" };
    let Found { files, events, texts, looks } = trial.run(flifo);
    let made = match trial.place {
        Place::Replica => "here alone; its primary is named",
        Place::Primary | Place::Node => "for all servers",
    };
    format!(
        "| {make} {} | {} | {made} | goes on, no transaction of its own | nowhere: {files} files, {events} events of \
         binary logs, {texts} command lines and environments in {looks} looks | all as before |",
        version.trim().split('-').next().unwrap_or_default(),
        kind.title(),
    )
}
