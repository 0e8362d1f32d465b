//! Rows of `mysql_servers`.

use std::collections::BTreeMap;

use crate::draft::{Group, host_word};
use crate::tables::{Row, Tables};
use crate::value::{Value, time};
use crate::work::Work;

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
    whole(rows, work);
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

/// What servers have each there, and all together here.
fn whole(rows: &[Row], work: &mut Work) {
    let number = |row: &Row, column: &str| row.number(column).filter(|it| 0 < *it);
    let connections =
        |row: &Row| number(row, "max_connections").filter(|it| *it != CONNECTIONS_DEFAULT);
    together(
        rows,
        work,
        "max_connections",
        "server.connections_max",
        |it| it.max(),
        connections,
        |it| Value::Number(it.clamp(1, 100_000).unsigned_abs()),
    );
    let lag = |row: &Row| number(row, "max_replication_lag");
    together(
        rows,
        work,
        "max_replication_lag",
        "routing.lag_max",
        |it| it.min(),
        lag,
        |it| time(it.clamp(1, 86_400).unsigned_abs() * 1000),
    );
    let tls = |row: &Row| row.number("use_ssl").filter(|it| *it == 1);
    let all = rows.iter().all(|row| tls(row).is_some());
    if let Some(row) = rows.iter().find(|row| tls(row).is_some()) {
        let difference = if all { "" } else { "for all servers, although not all of them had it" };
        work.set_noted(&row.item("use_ssl"), "server.tls", "required".into(), difference);
    }
}

const CONNECTIONS_DEFAULT: i64 = 1000;

/// Sets an option to one of the values of all servers.
fn together(
    rows: &[Row],
    work: &mut Work,
    column: &str,
    option: &'static str,
    choose: impl Fn(&mut dyn Iterator<Item = i64>) -> Option<i64>,
    value: impl Fn(&Row) -> Option<i64>,
    written: impl Fn(i64) -> Value,
) {
    let Some(chosen) = choose(&mut rows.iter().filter_map(&value)) else { return };
    let mut seen = false;
    for row in rows {
        match value(row) {
            Some(it) if it == chosen && !seen => {
                seen = true;
                work.set(&row.item(column), option, written(chosen));
            }
            Some(it) if it != chosen => {
                let told = format!("{option} = {} for all servers", written(chosen));
                work.differs(&row.item(column), &told);
            }
            _ => {}
        }
    }
}
