//! What a configuration says of several clusters: which there are, what differs from one to the other, and whose
//! statements go to which.

use std::collections::BTreeSet;
use std::path::Path;

use engine::account::name::UserName;
use wire::like::NamePattern;

use super::{CheckOptions, Plan, Routing, ServerOptions};

/// What the cluster is called where none is listed.
pub(crate) const MAIN: &str = "main";

/// One of several clusters.
#[derive(Clone, Debug, Default)]
pub struct ClusterRule {
    pub name: String,
    /// Patterns of the schemas that lie in it.
    pub schemas: Vec<NamePattern>,
    /// What holds in it: its own options, and those of all clusters.
    pub options: ClusterOptions,
    /// The names in full of the options that are its own, as in `checks.inter`.
    pub(crate) own: BTreeSet<String>,
}

/// The options that may differ from one cluster to the other.
#[derive(Clone, Debug, Default)]
pub struct ClusterOptions {
    pub server: ServerOptions,
    pub checks: CheckOptions,
    pub routing: Routing,
}

/// The options that hold in a cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Governing<'a> {
    pub(crate) server: &'a ServerOptions,
    pub(crate) checks: &'a CheckOptions,
    pub(crate) routing: &'a Routing,
}

impl ClusterRule {
    /// The files of TLS towards its servers.
    fn files(&self) -> [Option<&Path>; 3] {
        let tls = &self.options.server.tls;
        let own = tls.identity.as_ref();
        [tls.ca.as_deref(), own.map(|it| &*it.certificate), own.map(|it| &*it.key)]
    }

    /// Whether a schema of this name lies in it.
    pub(crate) fn has_schema(&self, name: &[u8]) -> bool {
        self.schemas.iter().any(|pattern| pattern.fits(name))
    }
}

impl Plan {
    /// The cluster of this name, if clusters are listed.
    pub(crate) fn cluster(&self, name: &str) -> Option<&ClusterRule> {
        self.clusters.iter().find(|cluster| cluster.name == name)
    }

    /// What the clusters are called; the first one serves those that name none.
    pub(crate) fn cluster_names(&self) -> impl Iterator<Item = &str> {
        let only = self.clusters.is_empty().then_some(MAIN);
        self.clusters.iter().map(|cluster| cluster.name.as_str()).chain(only)
    }

    /// Whether a server is told clients' own addresses, by which it may tell accounts apart.
    pub(crate) fn sends_headers(&self) -> bool {
        let of_cluster = |name: &str| self.governing(name).server.send_proxy;
        self.cluster_names().any(of_cluster)
            || self.servers.iter().any(|rule| rule.send_proxy == Some(true))
    }

    /// What holds in the cluster of this name.
    pub(crate) fn governing(&self, cluster: &str) -> Governing<'_> {
        match self.cluster(cluster) {
            Some(ClusterRule { options: ClusterOptions { server, checks, routing }, .. }) => {
                Governing { server, checks, routing }
            }
            None => {
                Governing { server: &self.server, checks: &self.checks, routing: &self.routing }
            }
        }
    }

    /// The cluster of this user's clients, as far as no schema says otherwise. `None`: the first.
    pub(crate) fn cluster_of_user(&self, user: &UserName) -> Option<&str> {
        self.user(user)?.cluster.as_deref()
    }

    /// The cluster that names this schema as its own.
    pub(crate) fn cluster_of_schema(&self, schema: &[u8]) -> Option<&str> {
        let of = self.clusters.iter().find(|cluster| cluster.has_schema(schema));
        of.map(|cluster| cluster.name.as_str())
    }

    /// The files of TLS towards the servers of clusters that differ in that.
    pub(super) fn cluster_files(&self) -> impl Iterator<Item = &Path> {
        self.clusters.iter().flat_map(ClusterRule::files).flatten()
    }
}
