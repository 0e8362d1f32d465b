//! Faults that may take acknowledged writes away: a server is set back, a binary log begins anew, the writer goes while
//! the others are behind. What an operator does then: promotes, confirms, sets up anew.
//!
//! What is lost is forgiven only where Flifo had said so before it was told to go on, and exactly that: what clients were
//! told by then and the confirmed server does not have.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bench::private_server::PrivateServer;
use rustix::process::Signal;
use testkit::lan::Cable;

use super::{Chance, LACKS, Scene};
use crate::servers::Kind::{Galera, Group, Replication};

impl Scene<'_> {
    /// A server goes back to what its disk had some seconds before.
    pub(super) fn restore(&mut self, at: usize, writer: usize, chance: &mut Chance) -> Result<()> {
        let older = self.copy_disk(at)?;
        self.sleep(2500)?;
        self.servers.kill(at)?;
        let data = self.servers.data(at);
        std::fs::remove_dir_all(&data)?;
        std::fs::rename(&older, &data)?;
        if self.kind == Galera {
            // A disk that was copied in full run does not say where in the history it is.
            forget_history(&data)?;
        }
        self.start(at)?;
        match self.kind {
            // It gets from the others what it lacks.
            Galera | Group => Ok(()),
            Replication if at != writer => self.sql(at, "SET GLOBAL read_only = 1"),
            Replication => {
                let others = [(at + 1) % 3, (at + 2) % 3];
                let next = match chance.below(2) {
                    0 => {
                        self.sql(at, "SET GLOBAL read_only = 0")?;
                        at
                    }
                    _ => {
                        self.sql(at, "SET GLOBAL read_only = 1")?;
                        self.servers.cluster()?.promote_the_furthest(&others)
                    }
                };
                self.take_as_writer(next)?;
                self.set_up_anew(&[(next + 1) % 3, (next + 2) % 3], next)
            }
        }
    }

    /// A copy of a server's disk at one moment, while it stands still.
    fn copy_disk(&self, at: usize) -> Result<PathBuf> {
        let data = self.servers.data(at);
        let older = data.with_file_name("older");
        remove(&older)?;
        self.servers.signal(at, Signal::STOP)?;
        let copied = Command::new("cp").arg("-a").arg(&data).arg(&older).status();
        self.servers.signal(at, Signal::CONT)?;
        ensure!(copied?.success(), "{} is not copied", data.display());
        Ok(older)
    }

    /// A binary log begins anew.
    pub(super) fn reset(&mut self, at: usize, writer: usize) -> Result<()> {
        if self.kind == Group {
            self.sql(at, "STOP GROUP_REPLICATION")?;
            self.sql(at, "RESET BINARY LOGS AND GTIDS")?;
            self.sleep(1000)?;
            let primary = self.wait_for_writer_beside(at)?;
            return self.set_up_anew(&[at], primary);
        }
        if at != writer {
            self.sql(at, "RESET MASTER")?;
            return self.sleep(1000);
        }
        // One that was a reader would go on to say that it is where it was then.
        self.sql(at, "RESET MASTER; SET GLOBAL gtid_slave_pos = ''")?;
        // Checks find that soon.
        self.sleep(1000)?;
        self.take_as_writer(at)?;
        self.set_up_anew(&[(at + 1) % 3, (at + 2) % 3], at)
    }

    /// The writer is gone, and the next one lacks what it had.
    pub(super) fn lose_writer(
        &mut self,
        writer: usize,
        next: usize,
        chance: &mut Chance,
    ) -> Result<()> {
        let third = 3 - writer - next;
        match self.kind {
            Replication => {
                for reader in [next, third] {
                    self.sql(reader, "STOP SLAVE IO_THREAD")?;
                }
            }
            Group => self.sql(next, "STOP GROUP_REPLICATION")?,
            Galera => self.servers.stop(next)?,
        }
        self.sleep(2000)?;
        let by = if self.kind == Replication { chance.below(3) } else { 0 };
        match by {
            0 => self.servers.kill(writer)?,
            1 => self.servers.signal(writer, Signal::STOP)?,
            _ => self.servers.set_cable(writer, Cable::Dead)?,
        }
        if self.kind != Replication {
            self.servers.kill(third)?;
        }
        match self.kind {
            Replication => self.servers.cluster()?.promote(next, &[]),
            Group => self.servers.group()?.bootstrap(next),
            Galera => self.begin_anew(next)?,
        }
        self.take_as_writer(next)?;
        match by {
            0 => {}
            1 => self.servers.signal(writer, Signal::CONT)?,
            _ => self.servers.set_cable(writer, Cable::Good)?,
        }
        if self.kind != Galera {
            for at in [writer, third] {
                self.start(at)?;
            }
        }
        self.set_up_anew(&[writer, third], next)
    }

    /// A Galera cluster begins with a node that was stopped.
    fn begin_anew(&mut self, at: usize) -> Result<()> {
        let place = self.servers.data(at).join("grastate.dat");
        let text = std::fs::read_to_string(&place)?;
        std::fs::write(&place, text.replace("safe_to_bootstrap: 0", "safe_to_bootstrap: 1"))?;
        let server = &mut self.servers.cluster()?.servers[at];
        let joining = server.argument("--wsrep-cluster-address").context("it has an address")?;
        server.replace_argument("--wsrep-cluster-address", "--wsrep-cluster-address=gcomm://");
        server.start()?;
        server.replace_argument("--wsrep-cluster-address", &joining);
        Ok(())
    }

    /// Waits until a server is written to. Where Flifo says that it lacks something, that is confirmed: what it lacks is
    /// lost then, and forgiven.
    fn take_as_writer(&mut self, at: usize) -> Result<()> {
        let (begun, name) = (Instant::now(), format!("{}{}", self.name, at + 1));
        let mut named = None;
        loop {
            let role = self.role(at)?;
            if role == "writer" {
                return Ok(());
            }
            let is_named = role.contains(LACKS);
            let since = named.filter(|_| is_named).or_else(|| is_named.then(Instant::now));
            named = since;
            // An operator reads it, and decides.
            if since.is_some_and(|since| since.elapsed() > Duration::from_millis(500)) {
                let ledgers = self.more()?.0;
                let told = ledgers.sure();
                let has = self.servers.lines(at)?;
                ledgers.forgive(&told, &has);
                self.order(&format!("CONFIRM WRITER {name}"))?;
            }
            if begun.elapsed() > PATIENCE {
                bail!("{name} is not the writer: it is {role:?}");
            }
            self.sleep(50)?;
        }
    }

    /// Waits until another member is the writer.
    fn wait_for_writer_beside(&mut self, at: usize) -> Result<usize> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            for other in [(at + 1) % 3, (at + 2) % 3] {
                if self.role(other)? == "writer" {
                    return Ok(other);
                }
            }
            self.sleep(50)?;
        }
        bail!("there is no writer")
    }

    /// Servers get what another one has, and follow it.
    pub(super) fn set_up_anew(&mut self, all: &[usize], from: usize) -> Result<()> {
        for at in all {
            self.order(&format!("DISABLE {}{}", self.name, at + 1))?;
            match self.kind {
                Galera => {
                    self.servers.kill(*at)?;
                    forget_history(&self.servers.data(*at))?;
                    self.start(*at)?;
                }
                Replication => {
                    self.sql(*at, "STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = 1")?;
                    self.copy_rows(*at, from)?;
                    self.servers.cluster()?.follow(*at, from);
                }
                Group => {
                    self.sql(*at, "STOP GROUP_REPLICATION")?;
                    self.sql(*at, "SET GLOBAL super_read_only = 0; SET GLOBAL read_only = 0")?;
                    self.copy_rows(*at, from)?;
                    self.sql(*at, "START GROUP_REPLICATION")?;
                }
            }
            self.order(&format!("ENABLE {}{}", self.name, at + 1))?;
        }
        // Of the server that all others were set up from as well, numbers from before are none that others could lack.
        self.order(&format!("ENABLE {}{}", self.name, from + 1))
    }

    /// Copies all rows of one moment, and where in the binary log that was.
    fn copy_rows(&self, to: usize, from: usize) -> Result<()> {
        let table = format!("{}.ledger", PrivateServer::DATABASE);
        let (position, reset, set) = match self.kind {
            Group => ("gtid_executed", "RESET BINARY LOGS AND GTIDS", "gtid_purged"),
            _ => ("gtid_binlog_pos", "RESET MASTER", "gtid_slave_pos"),
        };
        let taken = self.servers.sql(
            from,
            &format!(
                "FLUSH TABLES WITH READ LOCK; SELECT @@global.{position}, 0, 0; \
                 SELECT id, client, n FROM {table}; UNLOCK TABLES"
            ),
        )?;
        let mut rows = taken.lines();
        let place = rows.next().context("a position")?.trim_end_matches("\t0\t0");
        let place = place.replace("\\n", "").replace('\n', "");
        let rows: Vec<_> = rows.map(|row| format!("({})", row.replace('\t', ", "))).collect();
        let mut text = format!("SET sql_log_bin = 0; DELETE FROM {table}; ");
        for part in rows.chunks(1000) {
            text += &format!("INSERT INTO {table} (id, client, n) VALUES {}; ", part.join(", "));
        }
        text += &format!("{reset}; SET GLOBAL {set} = '{place}'");
        self.sql(to, &text)
    }
}

/// A Galera node that is started next gets all data from another one, and does not look for those with which it was.
fn forget_history(data: &Path) -> Result<()> {
    ["grastate.dat", "gvwstate.dat", "galera.cache"]
        .iter()
        .try_for_each(|it| remove(&data.join(it)))
}

fn remove(path: &Path) -> Result<()> {
    let removed = match path.is_dir() {
        true => std::fs::remove_dir_all(path),
        false => std::fs::remove_file(path),
    };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

const PATIENCE: Duration = Duration::from_secs(60);
