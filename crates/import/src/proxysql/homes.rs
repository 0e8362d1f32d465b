//! Which cluster serves a client: that of its schema, else that of its user, else the first.
//!
//! ProxySQL has rules for that: fast routing, and rules that ask for a user or a schema only. What all of them say of a
//! schema becomes `clusters.schemas`, and what one says of a user `users.cluster`. A rule that sends statements where
//! their client is served anyway need not name the cluster.

use std::collections::{BTreeMap, BTreeSet};

use crate::form::Target;
use crate::tables::{Row, Tables};
use crate::work::Work;

use super::topology::Topology;

/// Clusters of users and of schemas.
#[derive(Debug, Default)]
pub(super) struct Homes {
    is_single: bool,
    users: BTreeMap<String, usize>,
    schemas: BTreeMap<String, SchemaHome>,
}

/// The cluster of a schema.
#[derive(Debug)]
struct SchemaHome {
    cluster: usize,
    /// Users that were sent there; `None`: all.
    users: Option<BTreeSet<String>>,
}

/// A row that says where a user or a schema is served.
struct Said<'a> {
    user: Option<&'a str>,
    schema: Option<&'a str>,
    cluster: usize,
}

/// Columns with which a rule says more than where a user or a schema is served.
const FURTHER: &[&str] = &[
    "client_addr",
    "proxy_addr",
    "proxy_port",
    "digest",
    "match_digest",
    "match_pattern",
    "flagout",
    "replace_pattern",
    "error_msg",
    "ok_msg",
];

impl Homes {
    pub(super) fn of(tables: &Tables, topology: &Topology) -> Self {
        if topology.is_single() {
            return Self { is_single: true, ..Self::default() };
        }
        let mut homes = Self::default();
        for row in tables.rows("mysql_users") {
            let home = topology.member(row.number("default_hostgroup").unwrap_or(0));
            if let Some(name) = row.text("username") {
                homes.users.insert(name.to_owned(), home.map_or(0, |it| it.cluster));
            }
        }
        let fast = tables.rows("mysql_query_rules_fast_routing").iter();
        let rules = tables.rows("mysql_query_rules").iter().filter(|row| is_plain(row));
        let said: Vec<_> = fast.chain(rules).filter_map(|row| Said::read(row, topology)).collect();
        homes.learn_schemas(&said);
        if homes.schemas.is_empty() {
            for it in said.iter().filter(|it| it.schema.is_none()) {
                if let Some(home) = it.user.and_then(|user| homes.users.get_mut(user)) {
                    *home = it.cluster;
                }
            }
        }
        homes
    }

    /// Schemas whose rows agree, unless their users are served there anyway.
    fn learn_schemas(&mut self, said: &[Said<'_>]) {
        let mut of_schema: BTreeMap<&str, Vec<&Said<'_>>> = BTreeMap::new();
        for it in said {
            if let Some(schema) = it.schema {
                of_schema.entry(schema).or_default().push(it);
            }
        }
        for (schema, said) in of_schema {
            let Some(cluster) = said.first().map(|it| it.cluster) else { continue };
            let is_home = |it: &&Said<'_>| self.home(it.user) == Some(cluster);
            let agree = said.iter().all(|it| it.cluster == cluster);
            if !agree || said.iter().all(is_home) {
                continue;
            }
            let users: Option<BTreeSet<String>> =
                said.iter().map(|it| it.user.map(str::to_owned)).collect();
            self.schemas.insert(schema.to_owned(), SchemaHome { cluster, users });
        }
    }

    /// The cluster of a user, or of all of them.
    fn home(&self, user: Option<&str>) -> Option<usize> {
        if let Some(user) = user {
            return self.users.get(user).copied();
        }
        let mut all = self.users.values();
        let first = all.next().copied().unwrap_or(0);
        all.all(|it| *it == first).then_some(first)
    }

    pub(super) fn user(&self, name: &str) -> Option<usize> {
        self.users.get(name).copied()
    }

    /// The cluster that serves each client of this user in this schema. `None`: that may be one or another.
    pub(super) fn cluster(&self, user: Option<&str>, schema: Option<&str>) -> Option<usize> {
        if self.is_single {
            return Some(0);
        }
        if let Some(home) = schema.and_then(|it| self.schemas.get(it)) {
            return Some(home.cluster);
        }
        let home = self.home(user)?;
        let is_sure = schema.is_some() || self.schemas.values().all(|it| it.cluster == home);
        is_sure.then_some(home)
    }

    /// Leaves the cluster out of a target where it is the client's own anyway.
    pub(super) fn relative(&self, row: &Row, target: Target, cluster: usize) -> Target {
        match self.cluster(row.text("username"), row.text("schemaname")) == Some(cluster) {
            true => Target { cluster: None, ..target },
            false => target,
        }
    }

    /// What is not as it was where a schema has a cluster.
    pub(super) fn difference(&self, schema: Option<&str>) -> Option<String> {
        let home = self.schemas.get(schema?)?;
        let users = home.users.as_ref()?;
        let other = |(name, cluster): (&String, &usize)| {
            (!users.contains(name) && *cluster != home.cluster).then(|| name.clone())
        };
        let others: Vec<String> = self.users.iter().filter_map(other).take(NAMES_MAX).collect();
        (!others.is_empty())
            .then(|| format!("there, clients of {} are served by it as well", others.join(", ")))
    }

    /// Writes schemas into their clusters.
    pub(super) fn tell(&self, work: &mut Work) {
        for (schema, home) in &self.schemas {
            if let Some(cluster) = work.draft.clusters.get_mut(home.cluster) {
                cluster.schemas.push(schema.clone());
            }
        }
    }
}

impl<'a> Said<'a> {
    fn read(row: &'a Row, topology: &Topology) -> Option<Self> {
        let (user, schema) = (row.text("username"), row.text("schemaname"));
        let cluster = topology.member(row.number("destination_hostgroup")?)?.cluster;
        let says = row.number("flagin").unwrap_or(0) == 0 && (user.is_some() || schema.is_some());
        says.then_some(Self { user, schema, cluster })
    }
}

/// Whether a rule says nothing but where a user or a schema is served.
fn is_plain(row: &Row) -> bool {
    let is_active = row.written("active").is_none() || row.is_on("active");
    is_active && row.is_on("apply") && FURTHER.iter().all(|column| row.text(column).is_none())
}

/// As many names are told.
const NAMES_MAX: usize = 5;
