//! Which hostgroups belong to one cluster, and what each is for.
//!
//! ProxySQL knows hostgroups only: that two of them are the writer and the readers of the same servers is said by a
//! table, or shows in that they share servers, or that reads are sent from one to the other.

use std::collections::{BTreeMap, BTreeSet};

use crate::draft::word;
use crate::form::{Cluster, Target};
use crate::tables::{Row, Tables};
use crate::value::Value;
use crate::work::Work;

use super::expression::{Picks, picks};
use super::servers::Scope;

/// What a hostgroup is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Duty {
    Writer,
    Reader,
    /// Servers are moved there while they are not to be used.
    Unused,
}

/// How it is found out which server is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Roles {
    /// The servers say it.
    Asked,
    /// The hostgroups say it.
    Fixed,
}

/// A hostgroup's place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Membership {
    pub(super) cluster: usize,
    pub(super) duty: Duty,
    /// Whether a table says so; else it is a guess.
    is_told: bool,
}

/// Hostgroups that belong together.
#[derive(Clone, Debug)]
pub(super) struct Family {
    pub(super) name: String,
    pub(super) roles: Roles,
    hostgroups: Vec<i64>,
}

/// All hostgroups.
#[derive(Debug, Default)]
pub(super) struct Topology {
    pub(super) families: Vec<Family>,
    members: BTreeMap<i64, Membership>,
    /// Addresses in each hostgroup.
    servers: BTreeMap<i64, BTreeSet<String>>,
}

/// Tables that pair hostgroups, with their columns and what those are for.
const PAIRS: &[(&str, &[(&str, Duty)])] = &[
    (
        "mysql_replication_hostgroups",
        &[("writer_hostgroup", Duty::Writer), ("reader_hostgroup", Duty::Reader)],
    ),
    ("mysql_galera_hostgroups", GROUPS),
    ("mysql_group_replication_hostgroups", GROUPS),
    (
        "mysql_aws_aurora_hostgroups",
        &[("writer_hostgroup", Duty::Writer), ("reader_hostgroup", Duty::Reader)],
    ),
];

const GROUPS: &[(&str, Duty)] = &[
    ("writer_hostgroup", Duty::Writer),
    ("backup_writer_hostgroup", Duty::Reader),
    ("reader_hostgroup", Duty::Reader),
    ("offline_hostgroup", Duty::Unused),
];

/// `host:port` of a row of mysql_servers.
pub(super) fn address(row: &Row) -> Option<String> {
    let port = row.number("port").and_then(|port| u16::try_from(port).ok()).unwrap_or(3306);
    Some(crate::draft::address(row.text("hostname")?, port))
}

impl Topology {
    pub(super) fn of(tables: &Tables) -> Self {
        let mut topology = Self::default();
        let mut sets = Sets::default();
        for row in tables.rows("mysql_servers") {
            let (Some(hostgroup), Some(address)) = (row.number("hostgroup_id"), address(row))
            else {
                continue;
            };
            topology.servers.entry(hostgroup).or_default().insert(address);
            sets.find(hostgroup);
        }
        let mut duties = BTreeMap::new();
        let mut names = BTreeMap::new();
        for (row, columns) in pairs(tables) {
            let hostgroups =
                columns.iter().filter_map(|(column, duty)| Some((row.number(column)?, *duty)));
            let hostgroups: Vec<_> = hostgroups.collect();
            for (hostgroup, duty) in &hostgroups {
                sets.join(hostgroups[0].0, *hostgroup);
                duties.entry(*hostgroup).or_insert(*duty);
            }
            if let (Some((first, _)), Some(comment)) = (hostgroups.first(), row.text("comment"))
                && comment.len() <= NAME_MAX
            {
                names.insert(*first, word(comment));
            }
        }
        let told: BTreeSet<i64> = duties.keys().copied().collect();
        let uses = Uses::of(tables);
        topology.join_by_servers(&mut sets);
        uses.join_reads(&topology, &told, &mut sets);
        topology.settle(&mut sets, &duties, &uses, &names);
        topology
    }

    /// Hostgroups that share a server are of one cluster.
    fn join_by_servers(&self, sets: &mut Sets) {
        let mut first: BTreeMap<&str, i64> = BTreeMap::new();
        for (hostgroup, addresses) in &self.servers {
            for address in addresses {
                let other = *first.entry(address).or_insert(*hostgroup);
                sets.join(other, *hostgroup);
            }
        }
    }

    /// Makes clusters of what was joined.
    fn settle(
        &mut self,
        sets: &mut Sets,
        duties: &BTreeMap<i64, Duty>,
        uses: &Uses,
        names: &BTreeMap<i64, String>,
    ) {
        let mut families: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        for hostgroup in sets.all() {
            families.entry(sets.find(hostgroup)).or_default().push(hostgroup);
        }
        for hostgroups in families.into_values() {
            if !hostgroups.iter().any(|it| self.servers.contains_key(it)) {
                continue;
            }
            let cluster = self.families.len();
            let is_asked = hostgroups.iter().any(|it| duties.contains_key(it));
            let writer =
                hostgroups.iter().max_by_key(|it| (uses.users(**it), std::cmp::Reverse(**it)));
            for hostgroup in &hostgroups {
                let duty = match duties.get(hostgroup) {
                    Some(duty) => *duty,
                    None if is_asked => self.beside_pair(*hostgroup, duties),
                    None if Some(hostgroup) == writer || !uses.is_read_only(*hostgroup) => {
                        Duty::Writer
                    }
                    None => Duty::Reader,
                };
                let is_told = duties.contains_key(hostgroup) || hostgroups.len() == 1;
                self.members.insert(*hostgroup, Membership { cluster, duty, is_told });
            }
            let name = hostgroups.iter().find_map(|it| names.get(it));
            let name = name.cloned().unwrap_or_else(|| format!("hostgroup-{}", hostgroups[0]));
            let roles = if is_asked { Roles::Asked } else { Roles::Fixed };
            self.families.push(Family { name, roles, hostgroups });
        }
        let mut seen = BTreeSet::new();
        for family in &mut self.families {
            if !seen.insert(family.name.clone()) {
                family.name = format!("{}-{}", family.name, family.hostgroups[0]);
            }
        }
    }

    /// A further hostgroup of servers that a pair has.
    fn beside_pair(&self, hostgroup: i64, duties: &BTreeMap<i64, Duty>) -> Duty {
        let own = self.servers.get(&hostgroup);
        let reads = duties.iter().filter(|(_, duty)| **duty == Duty::Reader);
        let mut readers = reads.filter_map(|(hostgroup, _)| self.servers.get(hostgroup));
        let is_reader = own.is_some_and(|own| readers.any(|it| !it.is_disjoint(own)));
        if is_reader { Duty::Reader } else { Duty::Writer }
    }

    pub(super) const fn is_single(&self) -> bool {
        self.families.len() < 2
    }

    /// The place of a hostgroup that has servers, or is paired with one that has.
    pub(super) fn member(&self, hostgroup: i64) -> Option<Membership> {
        self.members.get(&hostgroup).copied()
    }

    /// The cluster's name, where there are several.
    pub(super) fn cluster(&self, cluster: usize) -> Option<String> {
        let family = self.families.get(cluster)?;
        (!self.is_single()).then(|| family.name.clone())
    }

    /// Where a rule sends what it sent to this hostgroup, and whether that is all of it.
    pub(super) fn target(&self, hostgroup: i64) -> Option<(Target, Option<&'static str>)> {
        let membership = self.member(hostgroup)?;
        let cluster = self.cluster(membership.cluster);
        let role = match membership.duty {
            Duty::Writer => "writer",
            Duty::Reader => "reader",
            Duty::Unused => return None,
        };
        let difference = (!membership.is_told)
            .then_some("that this hostgroup is for reads of that cluster is a guess from its servers and rules");
        Some((Target { cluster, server: None, role: Some(role) }, difference))
    }

    /// The only server of a hostgroup that is one of several of its kind in its cluster.
    pub(super) fn only_server(&self, hostgroup: i64) -> Option<&str> {
        let own = self.servers.get(&hostgroup).filter(|own| own.len() == 1)?;
        let membership = self.members.get(&hostgroup)?;
        let is_extra = !membership.is_told && membership.duty == Duty::Reader;
        own.first().filter(|_| is_extra).map(|address| &**address)
    }

    /// Tells of the pairs, and makes the clusters.
    pub(super) fn tell(&self, tables: &Tables, work: &mut Work) {
        let also = writer_is_also_reader(tables);
        for (row, columns) in pairs(tables) {
            let columns: Vec<_> = columns.iter().map(|(column, _)| *column).collect();
            let item = row.whole(&columns);
            let cluster = columns.first().and_then(|it| self.members.get(&row.number(it)?));
            let name = cluster
                .and_then(|it| self.cluster(it.cluster))
                .unwrap_or_else(|| "main".to_owned());
            let told = format!("cluster {name:?}: its servers are asked for their role ([checks])");
            match row.table {
                "mysql_aws_aurora_hostgroups" => {
                    work.differs(
                        &item,
                        &format!("{told}; Aurora's servers are not found by Aurora's own tables"),
                    );
                }
                _ => work.converted(&item, &told),
            }
        }
        let families = self.families.iter().filter(|_| !self.is_single());
        for family in families {
            let hostgroups: Vec<_> = family.hostgroups.iter().map(ToString::to_string).collect();
            let comments = vec![format!("hostgroups {}", hostgroups.join(", "))];
            work.draft.clusters.push(Cluster {
                name: family.name.clone(),
                comments,
                ..Cluster::default()
            });
        }
        for (row, columns) in pairs(tables) {
            let first = columns.first().and_then(|(column, _)| row.number(column));
            let Some(membership) = first.and_then(|it| self.member(it)) else { continue };
            let scope = match self.is_single() {
                true => Scope::All,
                false => Scope::Cluster(membership.cluster),
            };
            pair_options(row, scope, also, work);
        }
    }
}

/// ProxySQL puts a writer among the readers unless told otherwise.
fn writer_is_also_reader(tables: &Tables) -> bool {
    let name = "mysql-monitor_writer_is_also_reader";
    let mut rows = tables.rows("global_variables").iter();
    let row = rows.find(|row| row.text("variable_name") == Some(name));
    !row.and_then(|row| row.text("variable_value")).is_some_and(|it| matches!(it, "false" | "0"))
}

/// What else a pair says.
fn pair_options(row: &Row, scope: Scope, also: bool, work: &mut Work) {
    if let Some(writers) = row.number("max_writers").filter(|it| 1 < *it) {
        let item = row.item("max_writers");
        let value = Value::Number(writers.clamp(1, 1000).unsigned_abs());
        scope.set(&item, ("routing", "writers"), "routing.writers", value, "", work);
    }
    let always = match row.table {
        "mysql_replication_hostgroups" => also.then(|| row.whole(&["writer_hostgroup"])),
        _ => (row.number("writer_is_also_reader") == Some(1))
            .then(|| row.item("writer_is_also_reader")),
    };
    if let Some(item) = always {
        let (option, value) = (("routing", "writer_reads"), "always".into());
        scope.set(&item, option, "routing.writer_reads", value, "", work);
    }
    if row.number("max_transactions_behind").is_some_and(|it| it != 0) {
        let told = "how far a reader may be behind is told in time: routing.lag_max";
        work.differs(&row.item("max_transactions_behind"), told);
    }
    if row.written("active").is_some() && row.number("active") == Some(0) {
        work.differs(&row.item("active"), "the servers are asked for their role all the same");
    }
}

fn pairs(tables: &Tables) -> impl Iterator<Item = (&Row, &'static [(&'static str, Duty)])> {
    PAIRS.iter().flat_map(|(table, columns)| tables.rows(table).iter().map(|row| (row, *columns)))
}

/// Longer comments are no names.
const NAME_MAX: usize = 24;

/// Which users and rules use a hostgroup.
#[derive(Debug, Default)]
struct Uses {
    users: BTreeMap<i64, u32>,
    /// Rules that send reads there, and rules that send something else.
    reads: BTreeSet<i64>,
    others: BTreeSet<i64>,
}

impl Uses {
    fn of(tables: &Tables) -> Self {
        let mut uses = Self::default();
        for row in tables.rows("mysql_users") {
            *uses.users.entry(row.number("default_hostgroup").unwrap_or(0)).or_default() += 1;
        }
        for row in tables.rows("mysql_query_rules") {
            let Some(hostgroup) = row.number("destination_hostgroup") else { continue };
            let expression = row.text("match_digest").or_else(|| row.text("match_pattern"));
            let picks = expression.map_or(Picks::Other, picks);
            let is_read = matches!(picks, Picks::Selects | Picks::SomeSelects);
            let uses = if is_read && !row.is_on("negate_match_pattern") {
                &mut uses.reads
            } else {
                &mut uses.others
            };
            uses.insert(hostgroup);
        }
        uses
    }

    fn users(&self, hostgroup: i64) -> u32 {
        self.users.get(&hostgroup).copied().unwrap_or(0)
    }

    fn is_read_only(&self, hostgroup: i64) -> bool {
        self.reads.contains(&hostgroup) && !self.others.contains(&hostgroup)
    }

    /// Where all users begin in one cluster, hostgroups that are only read from belong to it.
    fn join_reads(&self, topology: &Topology, told: &BTreeSet<i64>, sets: &mut Sets) {
        let used = self.users.keys().filter(|it| topology.servers.contains_key(it));
        let homes: BTreeSet<i64> = used.map(|it| sets.find(*it)).collect();
        let [home] = homes.into_iter().collect::<Vec<_>>()[..] else { return };
        for hostgroup in topology.servers.keys() {
            let is_free = !told.contains(hostgroup) && self.users(*hostgroup) == 0;
            if is_free && self.is_read_only(*hostgroup) {
                sets.join(home, *hostgroup);
            }
        }
    }
}

/// Sets of hostgroups that were joined.
#[derive(Debug, Default)]
struct Sets {
    parents: BTreeMap<i64, i64>,
}

impl Sets {
    /// What stands for the set of a hostgroup: its smallest.
    fn find(&mut self, hostgroup: i64) -> i64 {
        let mut at = hostgroup;
        loop {
            let parent = *self.parents.entry(at).or_insert(at);
            if parent == at {
                break;
            }
            at = parent;
        }
        // The next search is short.
        self.parents.insert(hostgroup, at);
        at
    }

    fn join(&mut self, one: i64, other: i64) {
        let (one, other) = (self.find(one), self.find(other));
        self.parents.insert(one.max(other), one.min(other));
    }

    fn all(&self) -> Vec<i64> {
        self.parents.keys().copied().collect()
    }
}
