//! What befalls servers of a cluster, one after the other, and that they come back from it.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail, ensure};
use bench::interrupt::Interrupt;
use clap::ValueEnum;
use rustix::process::Signal;
use testkit::client::Client;
use testkit::cluster::Cluster;

use super::{Kind, seen};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Fault {
    /// Galera: the writer is desynced for two seconds.
    Desync,
    /// All tables of one server are locked for reading (`FLUSH TABLES WITH READ LOCK`), for four seconds.
    Ftwrl,
    /// Replication: the writer is `read_only` for two seconds while a reader is behind.
    ReadOnly,
    /// Replication: readers stop to apply for two seconds.
    Lag,
    /// Replication: the writer becomes `read_only`, and a reader that has all takes its place.
    Switchover,
    /// Replication: a reader that lacks what was acknowledged can be written to while the writer is frozen.
    Promotion,
    /// A server is killed, and comes back; in replication, a reader.
    Kill,
    /// The same, but it is stopped.
    Stop,
    /// A server answers nothing for a second; in replication, a reader.
    Freeze,
    /// The writer of a cluster, or a reader, is drained for two seconds.
    Drain,
}

impl Fault {
    /// All that befall servers of this kind.
    pub(super) const fn all(kind: Kind) -> &'static [Self] {
        match kind {
            Kind::Replication => &Self::REPLICATION,
            Kind::Galera => &Self::GALERA,
        }
    }

    const REPLICATION: [Self; 8] = [
        Self::ReadOnly,
        Self::Lag,
        Self::Switchover,
        Self::Promotion,
        Self::Kill,
        Self::Stop,
        Self::Drain,
        Self::Ftwrl,
    ];
    const GALERA: [Self; 6] =
        [Self::Desync, Self::Ftwrl, Self::Kill, Self::Stop, Self::Freeze, Self::Drain];
}

/// Where a fault strikes.
pub(super) struct Scene<'a> {
    pub(super) cluster: &'a mut Cluster,
    pub(super) console: &'a mut Client,
    pub(super) interrupt: &'a Interrupt,
    pub(super) kind: Kind,
    /// What the names of its servers begin with.
    pub(super) name: &'a str,
}

impl Scene<'_> {
    pub(super) fn befall(&mut self, fault: Fault, chance: usize) -> Result<()> {
        let writer = self.wait_for_all()?;
        let reader = (writer + 1 + chance % 2) % 3;
        let third = 3 - writer - reader;
        // In asynchronous replication, what dies with the writer was acknowledged.
        let any = match self.kind {
            Kind::Galera if !chance.is_multiple_of(3) => writer,
            _ => reader,
        };
        match fault {
            Fault::Desync => {
                self.sql(writer, "SET GLOBAL wsrep_desync = ON")?;
                self.sleep(2000)?;
                self.sql(writer, "SET GLOBAL wsrep_desync = OFF")
            }
            Fault::Ftwrl => {
                // The lock is its session's.
                self.sql(any, "FLUSH TABLES WITH READ LOCK; DO SLEEP(4); UNLOCK TABLES")
            }
            Fault::ReadOnly => {
                self.sql(reader, "STOP SLAVE SQL_THREAD")?;
                self.sleep(300)?;
                self.sql(writer, "SET GLOBAL read_only = 1")?;
                self.sleep(2000)?;
                self.sql(writer, "SET GLOBAL read_only = 0")?;
                self.sleep(300)?;
                self.sql(reader, "START SLAVE SQL_THREAD")
            }
            Fault::Lag => {
                self.sql(reader, "STOP SLAVE SQL_THREAD")?;
                self.sleep(500)?;
                self.sql(third, "STOP SLAVE SQL_THREAD")?;
                self.sleep(2000)?;
                self.sql(reader, "START SLAVE SQL_THREAD")?;
                self.sql(third, "START SLAVE SQL_THREAD")
            }
            Fault::Switchover => {
                self.sql(writer, "SET GLOBAL read_only = 1")?;
                // Statements that run are let go on by read_only.
                self.sleep(300)?;
                self.cluster.wait_for(reader, writer);
                self.cluster.promote(reader, &[writer, third]);
                Ok(())
            }
            Fault::Promotion => self.promote_behind(writer, reader),
            Fault::Kill | Fault::Stop => {
                match fault {
                    Fault::Kill => self.cluster.servers[any].kill()?,
                    _ => self.cluster.servers[any].stop()?,
                }
                self.sleep(2000)?;
                self.cluster.servers[any].start()?;
                if self.kind == Kind::Replication {
                    // It was started as it was set up, and goes on to follow.
                    self.sql(any, "SET GLOBAL read_only = 1")?;
                }
                Ok(())
            }
            Fault::Freeze => {
                self.cluster.signal(any, Signal::STOP);
                let slept = self.sleep(1000);
                self.cluster.signal(any, Signal::CONT);
                slept
            }
            Fault::Drain => {
                self.order(&format!("DRAIN {}{}", self.name, any + 1))?;
                self.sleep(2000)?;
                self.order(&format!("ENABLE {}{}", self.name, any + 1))
            }
        }
    }

    /// A reader that is behind is made to be written to while the writer does not answer: it must not be used.
    fn promote_behind(&mut self, writer: usize, reader: usize) -> Result<()> {
        self.sql(reader, "STOP SLAVE SQL_THREAD")?;
        self.sleep(1500)?;
        self.cluster.signal(writer, Signal::STOP);
        let promoted = self.sql(reader, "SET GLOBAL read_only = 0");
        let slept = self.sleep(3000);
        let role = seen(self.console, &format!("{}{}", self.name, reader + 1));
        let followed = self.sql(reader, "SET GLOBAL read_only = 1; START SLAVE SQL_THREAD");
        self.cluster.signal(writer, Signal::CONT);
        promoted.and(slept).and(followed)?;
        let role = role?.2;
        ensure!(role.contains("lacks what was acknowledged"), "the reader is {role:?}");
        Ok(())
    }

    /// Waits until all servers are up and of some use. Answers with which is the writer.
    pub(super) fn wait_for_all(&mut self) -> Result<usize> {
        let begun = Instant::now();
        loop {
            let roles: Vec<_> = (1..=3)
                .map(|at| seen(self.console, &format!("{}{at}", self.name)))
                .collect::<Result<_>>()?;
            let writer = roles.iter().position(|(_, _, role)| role == "writer");
            let readers = roles.iter().filter(|(_, _, role)| role.starts_with("reader")).count();
            match writer {
                Some(writer) if readers == 2 => return Ok(writer),
                _ if begun.elapsed() > PATIENCE => {
                    let of_each =
                        |at: usize| self.cluster.servers[at].sql("SHOW ALL SLAVES STATUS\\G");
                    let status: Vec<_> = (0..3).map(|at| of_each(at).unwrap_or_default()).collect();
                    bail!("they do not come back: {roles:?}\n{}", status.join("\n"))
                }
                _ => self.sleep(50)?,
            }
        }
    }

    fn sql(&self, at: usize, text: &str) -> Result<()> {
        self.cluster.servers[at].sql(text).map(drop)
    }

    fn order(&mut self, text: &str) -> Result<()> {
        self.console.query(text).map(drop).map_err(|problem| anyhow!("{text}: {problem}"))
    }

    fn sleep(&self, millis: u64) -> Result<()> {
        self.interrupt.sleep(Duration::from_millis(millis))
    }
}

/// A node that was killed gets its data and works off what it has missed.
const PATIENCE: Duration = Duration::from_secs(90);
