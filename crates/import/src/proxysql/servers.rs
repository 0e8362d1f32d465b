//! Rows of `mysql_servers`.

use std::collections::BTreeMap;

use crate::draft::{Group, host_word};
use crate::tables::{Row, Tables};
use crate::value::{Value, time};
use crate::work::{Item, Work};

use super::topology::{Duty, Roles, Topology, address};

pub(super) fn convert(tables: &Tables, topology: &Topology, work: &mut Work) {
    let rows = tables.rows("mysql_servers");
    let mut in_order: Vec<_> = rows.iter().collect();
    // The first server that may be written to is the first one here.
    in_order.sort_by_key(|row| {
        let membership = row.number("hostgroup_id").and_then(|it| topology.member(it));
        membership.map(|it| (it.cluster, it.duty != Duty::Writer))
    });
    let weights = weights(&in_order);
    for row in in_order {
        server(row, topology, &weights, work);
    }
    for scope in Scope::all(topology) {
        let rows: Vec<&Row> = rows.iter().filter(|row| scope.has(row, topology)).collect();
        scope.convert(&rows, work);
    }
}

fn server(row: &Row, topology: &Topology, weights: &BTreeMap<i64, Vec<i64>>, work: &mut Work) {
    let item = row.whole(&["hostgroup_id", "hostname", "port"]);
    let hostgroup = row.number("hostgroup_id").unwrap_or(0);
    let (Some(address), Some(membership)) = (address(row), topology.member(hostgroup)) else {
        return work.lost(&item, "a server has a hostgroup and a hostname");
    };
    let status = row.text("status").unwrap_or("ONLINE").to_ascii_uppercase();
    if status.starts_with("OFFLINE") || membership.duty == Duty::Unused {
        return work.lost(&item, "it is out of use; add it to [[servers]] when it is back (RELOAD), or DRAIN it on the console then");
    }
    let weight = row.number("weight").unwrap_or(1);
    if weight == 0 {
        return work.lost(
            &item,
            "of weight 0 it got no new statements; add it to [[servers]] when it shall",
        );
    }
    let Some(family) = topology.families.get(membership.cluster) else { return };
    let by_duty = if membership.duty == Duty::Reader { Group::Readers } else { Group::Writer };
    let group = if family.roles == Roles::Asked { Group::Auto } else { by_duty };
    let is_new = work.draft.server_at(&address).is_none();
    let host = host_word(row.text("hostname").unwrap_or_default());
    let server = work.draft.server(&address, &host, group);
    server.cluster = topology.cluster(membership.cluster);
    if is_new {
        server.fallback = by_duty;
    }
    server.comments.push(item.comment());
    if let Some(comment) = row.text("comment") {
        server.comments.push(comment.to_owned());
    }
    if let Some(weight) = share(weight, weights.get(&hostgroup)) {
        server.set("weight", weight.into());
    }
    let told = format!("servers {:?}", server.name);
    match is_new || family.roles == Roles::Asked {
        true => work.converted(&item, &told),
        false => {
            let difference = "it is written to, and read from only while there are no readers";
            work.differs(&item, &format!("{told}; {difference}"));
        }
    }
    if row.is_on("compression") {
        work.lost(&row.item("compression"), "connections to servers are not compressed");
    }
    if row.is_on("max_latency_ms") {
        work.lost(
            &row.item("max_latency_ms"),
            "a slow check is a failed one: checks.timeout, for all servers",
        );
    }
    if row.is_on("gtid_port") {
        work.needless(
            &row.item("gtid_port"),
            "positions are asked of the servers themselves; leave the GTID readers out",
        );
    }
}

/// Weights in each hostgroup.
fn weights(rows: &[&Row]) -> BTreeMap<i64, Vec<i64>> {
    let mut weights: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for row in rows {
        let hostgroup = row.number("hostgroup_id").unwrap_or(0);
        weights.entry(hostgroup).or_default().push(row.number("weight").unwrap_or(1));
    }
    weights
}

/// A weight beside the others: the largest is 100. `None` if all are equal.
fn share(weight: i64, others: Option<&Vec<i64>>) -> Option<u64> {
    let used = others?.iter().copied().filter(|it| 0 < *it);
    let (least, most) = (used.clone().min()?, used.max()?);
    if least == most {
        return None;
    }
    let share = i128::from(weight) * 100 / i128::from(most);
    u64::try_from(share.clamp(1, 1000)).ok()
}

/// Servers that have options in common here, which each has for itself there.
#[derive(Clone, Copy)]
pub(super) enum Scope {
    All,
    Cluster(usize),
}

/// A column of servers with the option that it becomes.
struct Common<'a> {
    column: &'static str,
    /// The section of a cluster, and the option in it.
    option: (&'static str, &'static str),
    /// With its section.
    in_full: &'static str,
    value: &'a dyn Fn(&Row) -> Option<i64>,
    written: &'a dyn Fn(i64) -> Value,
}

impl Scope {
    fn all(topology: &Topology) -> Vec<Self> {
        match topology.is_single() {
            true => vec![Self::All],
            false => (0..topology.families.len()).map(Self::Cluster).collect(),
        }
    }

    fn has(self, row: &Row, topology: &Topology) -> bool {
        match self {
            Self::All => true,
            Self::Cluster(cluster) => {
                let member = topology.member(row.number("hostgroup_id").unwrap_or(0));
                member.is_some_and(|it| it.cluster == cluster)
            }
        }
    }

    fn convert(self, rows: &[&Row], work: &mut Work) {
        let number = |row: &Row, column: &str| row.number(column).filter(|it| 0 < *it);
        let connections = Common {
            column: "max_connections",
            option: ("server", "connections_max"),
            in_full: "server.connections_max",
            value: &|row| number(row, "max_connections").filter(|it| *it != CONNECTIONS_DEFAULT),
            written: &|it| Value::Number(it.clamp(1, 100_000).unsigned_abs()),
        };
        self.by_server(rows, &connections, work);
        let lag = Common {
            column: "max_replication_lag",
            option: ("routing", "lag_max"),
            in_full: "routing.lag_max",
            value: &|row| number(row, "max_replication_lag"),
            written: &|it| time(it.clamp(1, 86_400).unsigned_abs() * 1000),
        };
        self.by_server(rows, &lag, work);
        let is_verified = work.draft.option("server.tls_ca").is_some();
        let tls = Common {
            column: "use_ssl",
            option: ("server", "tls"),
            in_full: "server.tls",
            value: &|row| row.number("use_ssl").filter(|it| *it == 1),
            written: &|_| if is_verified { "verify-ca" } else { "required" }.into(),
        };
        self.by_server(rows, &tls, work);
    }

    /// Sets an option that all servers have in common once, and else each server's own.
    fn by_server(self, rows: &[&Row], common: &Common<'_>, work: &mut Work) {
        let values: Vec<_> = rows.iter().map(|row| (common.value)(row)).collect();
        let Some(first) = values.iter().position(Option::is_some) else { return };
        if values.iter().all(|it| *it == values[first]) {
            let Some(value) = values[first].map(common.written) else { return };
            let item = rows[first].item(common.column);
            return self.set(&item, common.option, common.in_full, value, "", work);
        }
        for (row, value) in rows.iter().zip(values) {
            let Some(value) = value.map(common.written) else { continue };
            let server = address(row).filter(|it| work.draft.server_at(it).is_some());
            let Some(server) = server else { continue };
            let server = work.draft.server(&server, "", Group::Auto);
            let own = server.own(common.option.1).cloned();
            let told = format!("servers {:?}: {} = ", server.name, common.option.1);
            server.set(common.option.1, value.clone());
            let item = row.item(common.column);
            match own {
                // A server is in several hostgroups.
                Some(own) if own != value => work.differs(&item, &format!("{told}{own}")),
                Some(_) => {}
                None => work.converted(&item, &format!("{told}{value}")),
            }
        }
    }

    pub(super) fn set(
        self,
        item: &Item,
        (section, key): (&'static str, &'static str),
        in_full: &'static str,
        value: Value,
        difference: &str,
        work: &mut Work,
    ) {
        let Self::Cluster(at) = self else {
            return work.set_noted(item, in_full, value, difference);
        };
        let Some(cluster) = work.draft.clusters.get_mut(at) else { return };
        let told = format!("clusters {:?}: {in_full} = {value}", cluster.name);
        let is_set = cluster.options.iter().any(|(of, it, _)| (*of, *it) == (section, key));
        if !is_set {
            cluster.options.push((section, key, value));
        }
        match difference {
            "" => work.converted(item, &told),
            _ => work.differs(item, &format!("{told}; {difference}")),
        }
    }
}

const CONNECTIONS_DEFAULT: i64 = 1000;
