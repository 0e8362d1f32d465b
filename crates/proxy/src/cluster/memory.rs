//! What is known of servers, for another process: the one that takes over from this one, or the one after it.
//!
//! Owns the form between processes, in which servers go by their names; what is known is [`engine::cluster::memory`]'s.

use std::sync::Arc;

use engine::cluster::memory::ServersMemory;
use serde::{Deserialize, Serialize};

use crate::cluster::Cluster;
use crate::cluster::members::Members;
use crate::cluster::servers::Server;

/// What is known of the servers of all clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Memories(Vec<ClusterMemory>);

/// What is known of one cluster's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ClusterMemory {
    cluster: String,
    /// In the order in which the memory has them.
    servers: Vec<NamedServer>,
    memory: ServersMemory,
}

/// Another process may have it in another place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct NamedServer {
    name: String,
    address: String,
}

impl Memories {
    /// Writes down what is known. Of a server that stands alone nothing is.
    pub(crate) fn of(cluster: &Cluster) -> Self {
        match cluster.is_routed() {
            true => Self(cluster.clusters().map(ClusterMemory::of).collect()),
            false => Self::default(),
        }
    }

    /// Has this process go on from there. Clusters and servers that are not named any more are left out.
    pub(crate) fn recall(self, cluster: &Cluster) {
        if !cluster.is_routed() {
            return;
        }
        for ClusterMemory { cluster: name, servers, memory } in self.0 {
            let Some(members) = cluster.named(&name) else { continue };
            let own: Vec<_> = named(members).collect();
            let place = |there: &NamedServer| own.iter().position(|here| here == there);
            members.remember(memory, &servers.iter().map(place).collect::<Vec<_>>());
        }
    }
}

impl ClusterMemory {
    fn of(members: &Members) -> Self {
        Self {
            cluster: members.name.clone(),
            servers: named(members).collect(),
            memory: members.memory(),
        }
    }
}

fn named(members: &Members) -> impl Iterator<Item = NamedServer> {
    let name = |server: &Arc<Server>| NamedServer {
        name: server.name.clone(),
        address: server.address.to_string(),
    };
    members.all().map(name)
}
