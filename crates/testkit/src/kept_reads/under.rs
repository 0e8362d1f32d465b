//! The servers behind replies that are kept, and what befalls them.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use backend::Address;
use bench::private_server::PrivateServer;

use crate::cluster::Cluster;

/// What befalls the server that is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disaster {
    /// It is killed, and started again as it was.
    Kill,
    /// It is killed, and has the rows of long ago when it is back.
    Restore,
    /// It is killed for ever, and a server that has followed it is written to instead. What that had not got is lost.
    FailOver,
}

/// One server, or one and those that follow it.
pub(super) enum Under {
    One(PrivateServer),
    Several {
        cluster: Cluster,
        /// Those that run, the one that is written to first.
        alive: Vec<usize>,
    },
}

const ARGUMENTS: [&str; 4] =
    ["--log-bin=bin", "--server-id=1", "--binlog-format=ROW", "--innodb-buffer-pool-size=32M"];

impl Under {
    /// Servers for all of this, on which these statements were run.
    pub(super) fn start(disasters: &[Disaster], definitions: &str) -> Self {
        let failovers = disasters.iter().filter(|it| **it == Disaster::FailOver).count();
        if failovers > 0 {
            let cluster = Cluster::replicated(failovers);
            cluster.servers[0].sql(definitions).expect("tables");
            (1..=failovers).for_each(|reader| cluster.wait_for(reader, 0));
            return Self::Several { cluster, alive: (0..=failovers).collect() };
        }
        let builder = PrivateServer::builder();
        let builder = ARGUMENTS.iter().fold(builder, |builder, it| builder.argument(*it));
        let mut server = builder.start().expect("a private server");
        server.sql(definitions).expect("tables");
        if disasters.contains(&Disaster::Restore) {
            server.stop().expect("it stops in good order");
            copy(&server.folder().join("data"), &server.folder().join("dump"));
            server.start().expect("it starts again");
        }
        Self::One(server)
    }

    /// The part of Flifo's configuration that tells of them.
    pub(super) fn configuration(&self) -> String {
        match self {
            Self::One(server) => format!("[server]\naddress = {:?}\n", server.socket()),
            Self::Several { cluster, .. } => format!(
                "[routing]\nmode = \"split\"\nhold = \"60s\"\n[checks]\ninter = \"100ms\"\nfastinter = \"100ms\"\n\
                 downinter = \"100ms\"\ntimeout = \"2s\"\n{}",
                cluster.listed()
            ),
        }
    }

    /// The server that is written to.
    pub(super) fn writer(&self) -> &PrivateServer {
        match self {
            Self::One(server) => server,
            Self::Several { cluster, alive } => &cluster.servers[alive[0]],
        }
    }

    pub(super) fn address(&self) -> Address {
        Address::Unix(self.writer().socket())
    }

    pub(super) fn suffer(&mut self, disaster: Disaster) {
        let server = match self {
            Self::One(server) => server,
            Self::Several { cluster, alive } => {
                cluster.servers[alive[0]].kill().expect("it is killed");
                alive.remove(0);
                let furthest = cluster.promote_the_furthest(alive);
                alive.retain(|it| *it != furthest);
                return alive.insert(0, furthest);
            }
        };
        server.kill().expect("it is killed");
        thread::sleep(Duration::from_millis(50));
        if disaster == Disaster::Restore {
            let (data, dump) = (server.folder().join("data"), server.folder().join("dump"));
            fs::remove_dir_all(&data).expect("the data is gone");
            copy(&dump, &data);
        }
        server.start().expect("it starts again");
    }
}

/// Copies a folder.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match from.is_dir() {
            true => copy(&from, &to),
            false => _ = fs::copy(&from, &to).expect("a file is copied"),
        }
    }
}
