//! Servers that belong together, of whatever kind: what an operator, or fate, does to one of them.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use bench::private_server::PrivateServer;
use rustix::process::{Pid, Signal, kill_process};
use testkit::cluster::Cluster;
use testkit::group::Group;
use testkit::lan::{Cable, Lan};

pub(super) enum Machines {
    MariaDb(Cluster),
    Group(Group),
}

impl Machines {
    /// Three members of a group of MySQL with the schema that clients use; the first is the primary.
    pub(super) fn of_group(lan: Option<Lan>) -> Result<Self> {
        let schema = PrivateServer::DATABASE;
        let user = (PrivateServer::USER, Cluster::password(), schema);
        let group = Group::start(lan, user).context("there is no group on this machine")?;
        group.bootstrap(0);
        let machines = Self::Group(group);
        machines.sql(0, &format!("CREATE DATABASE {schema}"))?;
        machines.sql(1, "START GROUP_REPLICATION")?;
        machines.sql(2, "START GROUP_REPLICATION")?;
        Ok(machines)
    }

    /// Runs statements with all rights, over the server's Unix socket. Returns the rows: a line each, tabs between
    /// columns.
    pub(super) fn sql(&self, at: usize, text: &str) -> Result<String> {
        match self {
            Self::MariaDb(cluster) => cluster.servers[at].sql(text),
            Self::Group(group) => {
                let mut admin = group.members[at].admin()?;
                let rows = admin.query(text).with_context(|| text.to_owned())?;
                Ok(rows.into_iter().map(|row| row.join("\t") + "\n").collect())
            }
        }
    }

    pub(super) fn kill(&mut self, at: usize) -> Result<()> {
        match self {
            Self::MariaDb(cluster) => cluster.servers[at].kill()?,
            Self::Group(group) => group.members[at].kill(),
        }
        Ok(())
    }

    pub(super) fn stop(&mut self, at: usize) -> Result<()> {
        match self {
            Self::MariaDb(cluster) => cluster.servers[at].stop()?,
            Self::Group(group) => group.members[at].stop(),
        }
        Ok(())
    }

    pub(super) fn start(&mut self, at: usize) -> Result<()> {
        match self {
            Self::MariaDb(cluster) => cluster.servers[at].start()?,
            Self::Group(group) => group.members[at].start_again(),
        }
        Ok(())
    }

    pub(super) fn signal(&self, at: usize, signal: Signal) -> Result<()> {
        let pid = match self {
            Self::MariaDb(cluster) => cluster.servers[at].pid(),
            Self::Group(group) => group.members[at].pid(),
        };
        let pid = pid.and_then(|pid| Pid::from_raw(pid.cast_signed()));
        Ok(kill_process(pid.context("it does not run")?, signal)?)
    }

    /// The folder of its data.
    pub(super) fn data(&self, at: usize) -> PathBuf {
        match self {
            Self::MariaDb(cluster) => cluster.servers[at].folder().join("data"),
            Self::Group(group) => group.members[at].folder().join("data"),
        }
    }

    /// The end of its error log.
    pub(super) fn log_tail(&self, at: usize) -> String {
        match self {
            Self::MariaDb(cluster) => cluster.servers[at].error_log_tail(),
            Self::Group(group) => {
                let log = group.members[at].log();
                let lines: Vec<_> = log.lines().rev().take(30).collect();
                lines.into_iter().rev().collect::<Vec<_>>().join("\n")
            }
        }
    }

    pub(super) fn listed(&self) -> String {
        match self {
            Self::MariaDb(cluster) => cluster.listed(),
            Self::Group(group) => group.listed(),
        }
    }

    pub(super) fn lan(&self) -> Result<&Lan> {
        let lan = match self {
            Self::MariaDb(cluster) => &cluster.lan,
            Self::Group(group) => &group.lan,
        };
        lan.as_ref().context("these servers have no network of their own")
    }

    pub(super) fn set_cable(&self, at: usize, cable: Cable) -> Result<()> {
        Ok(self.lan()?.set(at, cable)?)
    }

    /// Servers of MariaDB; a group has none.
    pub(super) fn cluster(&mut self) -> Result<&mut Cluster> {
        match self {
            Self::MariaDb(cluster) => Ok(cluster),
            Self::Group(_) => Err(anyhow!("a group is no cluster of MariaDB")),
        }
    }

    pub(super) fn group(&self) -> Result<&Group> {
        match self {
            Self::Group(group) => Ok(group),
            Self::MariaDb(_) => Err(anyhow!("MariaDB has no groups")),
        }
    }

    /// The lines of all ledgers that a server has: client, number, and how often.
    pub(super) fn lines(&self, at: usize) -> Result<Vec<(u32, u64, u64)>> {
        let schema = PrivateServer::DATABASE;
        let text = format!("SELECT client, n, COUNT(*) FROM {schema}.ledger GROUP BY client, n");
        let rows = self.sql(at, &text)?;
        let read = |row: &str| {
            let mut numbers = row.split('\t').map(str::parse::<u64>);
            let mut next = || numbers.next().context("a row with three numbers");
            Ok((u32::try_from(next()??)?, next()??, next()??))
        };
        rows.lines().map(read).collect()
    }
}
