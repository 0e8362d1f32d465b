//! Several real servers that belong together: MariaDB with asynchronous replication by GTID, or a cluster ([`galera`]).
//!
//! Owns how they are set up, and what an operator would do to them: promote one, have one follow another. Invariants of
//! [`PrivateServer`] hold: loopback only, free ports, nothing is left behind.

mod galera;

use std::path::Path;

use bench::private_server::{Builder, PrivateServer};
use rustix::process::{Pid, Signal, kill_process};

use crate::lan::{self, Lan};
pub use crate::scene::wait_for as wait;

/// One server that is written to and others that follow it.
pub struct Cluster {
    pub servers: Vec<PrivateServer>,
    /// Where its machines are, if they are not this one.
    pub lan: Option<Lan>,
    /// What nodes of a cluster call.
    _scripts: Option<tempfile::TempDir>,
}

/// All servers have this one, since they get one another's accounts.
const PASSWORD: &str = "a-password-for-all-of-them";

/// Small ones: several run on one machine.
fn small() -> Builder {
    PrivateServer::builder()
        .password(PASSWORD)
        .argument("--innodb-buffer-pool-size=32M")
        .argument("--innodb-log-file-size=16M")
        .argument("--thread-cache-size=100")
}

/// The same on a machine of its own, if there are some.
fn placed(lan: Option<&Lan>, at: usize) -> Builder {
    match lan {
        None => small(),
        Some(lan) => {
            small().through(&lan.entrance(at)).argument(format!("--bind-address={}", lan.host(at)))
        }
    }
}

impl Cluster {
    /// The first server is written to, so many others follow it.
    ///
    /// # Panics
    /// If one of them does not start, or does not follow.
    pub fn replicated(readers: usize) -> Self {
        Self::replicated_with(readers, &[])
    }

    /// The same, of servers with more arguments.
    ///
    /// # Panics
    /// If one of them does not start, or does not follow.
    pub fn replicated_with(readers: usize, arguments: &[&str]) -> Self {
        Self::replicated_by(None, None, readers, arguments)
    }

    /// The same, of the servers whose programs are in this folder.
    ///
    /// # Panics
    /// If one of them does not start, or does not follow.
    pub fn replicated_of(programs: Option<&Path>, readers: usize, arguments: &[&str]) -> Self {
        Self::replicated_by(programs, None, readers, arguments)
    }

    /// The same, on machines of this network.
    ///
    /// # Panics
    /// If one of them does not start, or does not follow.
    pub fn replicated_on(lan: Option<Lan>, readers: usize, arguments: &[&str]) -> Self {
        Self::replicated_by(None, lan, readers, arguments)
    }

    fn replicated_by(
        programs: Option<&Path>,
        lan: Option<Lan>,
        readers: usize,
        arguments: &[&str],
    ) -> Self {
        crate::overdue::watch();
        let server = |number: usize| {
            let read_only = u8::from(number > 1);
            let builder = placed(lan.as_ref(), number - 1);
            let builder = programs.into_iter().fold(builder, Builder::programs);
            let builder = arguments.iter().fold(builder, |builder, it| builder.argument(*it));
            builder
                .argument(format!("--server-id={number}"))
                .argument("--log-bin=binlog")
                .argument("--log-slave-updates")
                .argument("--binlog-format=ROW")
                .argument(format!("--read-only={read_only}"))
                .start()
                .expect("a server starts")
        };
        let servers = (1..=readers + 1).map(server).collect();
        let mut cluster = Self { servers, lan, _scripts: None };
        for server in &mut cluster.servers {
            // Each has made its own accounts, which are the same. Were that repeated at a later start, a reader would have
            // written transactions of its own, from which it would go on when it follows another server: what it has
            // got is then got once more, or not at all.
            server.sql("RESET MASTER; SET GLOBAL gtid_slave_pos = ''").expect("begins anew");
            server.replace_argument("--init-file", "--init-file=");
        }
        for reader in 1..=readers {
            cluster.follow(reader, 0);
        }
        cluster
    }

    pub const fn password() -> &'static str {
        PASSWORD
    }

    /// The address at which a server listens.
    pub fn host(&self, at: usize) -> String {
        lan::host(self.lan.as_ref(), at)
    }

    /// The part of Flifo's configuration that lists the servers, `db1` first.
    pub fn listed(&self) -> String {
        self.listed_as("db", "")
    }

    /// The same with names that begin with this, and more options for each.
    pub fn listed_as(&self, name: &str, more: &str) -> String {
        let server = |(at, server): (usize, &PrivateServer)| {
            let (number, host, port) = (at + 1, self.host(at), server.port());
            format!("[[servers]]\nname = \"{name}{number}\"\naddress = \"{host}:{port}\"\n{more}")
        };
        self.servers.iter().enumerate().map(server).collect()
    }

    /// Has a server follow another one.
    ///
    /// # Panics
    /// If it does not.
    pub fn follow(&self, reader: usize, writer: usize) {
        // What it has written itself is not in the position that it would go on from after a crash.
        let text = format!(
            "STOP SLAVE; SET GLOBAL read_only = 1; \
             SET GLOBAL gtid_slave_pos = @@global.gtid_current_pos; CHANGE MASTER TO master_host = '{}', \
             master_port = {}, master_user = '{}', master_password = '{PASSWORD}', \
             master_use_gtid = slave_pos, master_connect_retry = 1; START SLAVE",
            self.host(writer),
            self.servers[writer].port(),
            PrivateServer::ADMIN
        );
        self.servers[reader].sql(&text).expect("it follows");
        let runs = "SELECT COUNT(*) FROM information_schema.global_status WHERE \
                    variable_name = 'SLAVE_RUNNING' AND variable_value = 'ON'";
        wait("a reader to follow", || {
            self.servers[reader].sql(runs).is_ok_and(|count| count.trim() == "1")
        });
    }

    /// Makes a reader the writer, as a script of an operator would: the others follow it.
    ///
    /// # Panics
    /// If it cannot be.
    pub fn promote(&self, reader: usize, others: &[usize]) {
        self.apply_received(reader);
        self.servers[reader].sql("STOP SLAVE; SET GLOBAL read_only = 0").expect("is promoted");
        for other in others {
            self.follow(*other, reader);
        }
    }

    /// Promotes the one of these readers that has got most, and tells which: a reader cannot follow one that has less
    /// than itself, and what the dead writer sent to one of them only may be what it has acknowledged.
    ///
    /// # Panics
    /// If none can be.
    pub fn promote_the_furthest(&self, readers: &[usize]) -> usize {
        let position = |reader: &usize| {
            self.apply_received(*reader);
            let position =
                self.servers[*reader].sql("SELECT @@global.gtid_slave_pos").expect("tells");
            let sequence = position.trim().rsplit('-').next().and_then(|it| it.parse::<u64>().ok());
            sequence.expect("it has got something")
        };
        let furthest = *readers.iter().max_by_key(|it| position(it)).expect("there is one");
        let others: Vec<_> = readers.iter().copied().filter(|it| *it != furthest).collect();
        self.promote(furthest, &others);
        furthest
    }

    /// All that a reader has got is applied, and it gets no more.
    fn apply_received(&self, reader: usize) {
        let server = &self.servers[reader];
        server.sql("STOP SLAVE IO_THREAD").expect("stops");
        wait("what was received to be applied", || {
            let status = server.sql("SHOW SLAVE STATUS").unwrap_or_default();
            status.contains("has read all relay log") || status.contains("Slave has read all")
        });
    }

    /// Waits until a server has all that another one has.
    ///
    /// # Panics
    /// If it never gets it.
    pub fn wait_for(&self, reader: usize, writer: usize) {
        let position = self.servers[writer].sql("SELECT @@global.gtid_binlog_pos").expect("tells");
        let text = format!("SELECT MASTER_GTID_WAIT('{}', 60)", position.trim());
        assert_eq!(self.servers[reader].sql(&text).expect("waits").trim(), "0");
    }

    /// Sends a signal to a server's process.
    ///
    /// # Panics
    /// If it is not running.
    pub fn signal(&self, at: usize, signal: Signal) {
        let pid = self.servers[at].pid().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        kill_process(pid.expect("it runs"), signal).expect("it can be signalled");
    }
}
