//! A Galera cluster: nodes that all can be written to, on loopback, each a server of its own.
//!
//! Owns how nodes find one another and get their data; what is done to them is the tests'. A node that is started gets
//! what it lacks by a script of ours (`copy.sh`), since the ones that Galera brings want a daemon that does not serve
//! root. Invariant: nodes speak to one another on 127.0.0.1 only.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use bench::private_server::Builder;

use super::{Cluster, placed, wait};
use crate::flifo::free_port;
use crate::lan::{self, Lan};
use crate::need::Need;

const SCRIPT: &str = include_str!("copy.sh");

/// Where distributions put Galera.
const PROVIDERS: [&str; 3] = [
    "/usr/lib/galera/libgalera_smm.so",
    "/usr/lib64/galera-4/libgalera_smm.so",
    "/usr/lib/libgalera_smm.so",
];

impl Cluster {
    /// A cluster of so many nodes; `None` where there is no Galera, which is printed.
    ///
    /// # Panics
    /// If a node does not start.
    pub fn clustered(nodes: usize) -> Option<Self> {
        Self::clustered_on(None, nodes)
    }

    /// The same, on machines of this network.
    ///
    /// # Panics
    /// If a node does not start.
    pub fn clustered_on(lan: Option<Lan>, nodes: usize) -> Option<Self> {
        let Some(provider) = PROVIDERS.iter().map(Path::new).find(|path| path.exists()) else {
            Need::Galera.skip("there is no library of galera-4");
            return None;
        };
        crate::overdue::watch();
        let scripts = tempfile::tempdir().expect("a temporary folder");
        let script = scripts.path().join("wsrep_sst_copy");
        std::fs::write(&script, SCRIPT).expect("the script is written");
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).expect("it runs");
        let ports: Vec<_> = (0..nodes).map(|_| free_port()).collect();
        let address = |(at, port)| format!("{}:{port}", lan::host(lan.as_ref(), at));
        let all: Vec<_> = ports.iter().enumerate().map(address).collect();
        let all = all.join(",");
        let mut cluster = Self { servers: Vec::new(), lan, _scripts: Some(scripts) };
        for (at, port) in ports.iter().enumerate() {
            let address = if at == 0 { "" } else { &all };
            let place = (at, cluster.lan.as_ref(), *port);
            let server = node(place, provider, script.parent().expect("a folder"))
                .argument(format!("--wsrep-cluster-address=gcomm://{address}"))
                .start()
                .expect("a node starts");
            cluster.servers.push(server);
            cluster.wait_for_state(at, "Synced");
        }
        // From now on it joins the others, should it be started again.
        let address = format!("--wsrep-cluster-address=gcomm://{all}");
        cluster.servers[0].replace_argument("--wsrep-cluster-address", &address);
        Some(cluster)
    }

    /// What a node says of its place in the cluster.
    pub fn state(&self, at: usize) -> String {
        let text = "SELECT variable_value FROM information_schema.global_status WHERE \
                    variable_name = 'wsrep_local_state_comment'";
        self.servers[at].sql(text).unwrap_or_default().trim().to_owned()
    }

    /// Waits until a node says so.
    ///
    /// # Panics
    /// If it never does.
    pub fn wait_for_state(&self, at: usize, state: &str) {
        wait(&format!("node {at} to be {state}"), || self.state(at) == state);
    }

    /// Has the next node that needs all data keep its donor busy until what is returned is removed.
    ///
    /// # Panics
    /// If the donor's folder cannot be written to.
    pub fn hold_donor(&self, donor: usize) -> PathBuf {
        let hold = self.servers[donor].folder().join("hold");
        std::fs::write(&hold, "").expect("a file");
        hold
    }

    /// Has a node that is stopped need all data when it is started again.
    ///
    /// # Panics
    /// If its folder cannot be written to.
    pub fn forget_place(&self, at: usize) {
        let place = self.servers[at].folder().join("data/grastate.dat");
        std::fs::remove_file(place).expect("it has a place");
    }
}

fn node((at, lan, port): (usize, Option<&Lan>, u16), provider: &Path, scripts: &Path) -> Builder {
    let host = lan::host(lan, at);
    let path = std::env::var("PATH").unwrap_or_default();
    // The donor sends a node the data that it lacks: it is the node before it.
    let donor = if at == 0 { String::new() } else { format!("node{at},") };
    // A node that is silent is given up after seconds; half a minute is what is usual.
    let options = format!(
        "gmcast.listen_addr=tcp://{host}:{port};ist.recv_addr={host}:{};gcache.size=16M;\
         evs.keepalive_period=PT0.3S;evs.suspect_timeout=PT2S;evs.inactive_timeout=PT5S;\
         evs.inactive_check_period=PT0.3S",
        free_port()
    );
    placed(lan, at)
        .environment("PATH", format!("{}:{path}", scripts.display()))
        .argument(format!("--server-id={}", at + 1))
        .argument("--binlog-format=ROW")
        .argument("--innodb-autoinc-lock-mode=2")
        .argument("--wsrep-on=1")
        .argument(format!("--wsrep-provider={}", provider.display()))
        .argument(format!("--wsrep-node-name=node{}", at + 1))
        .argument(format!("--wsrep-node-address={host}"))
        .argument("--wsrep-sst-method=copy")
        .argument(format!("--wsrep-sst-donor={donor}"))
        .argument(format!("--wsrep-provider-options={options}"))
}
