//! What ProxySQL's tables mean.

mod expression;
mod homes;
mod ports;
mod rules;
mod servers;
mod topology;
mod users;
mod variables;

use std::collections::BTreeSet;

use crate::tables::Tables;
use crate::work::Work;

use self::homes::Homes;
use self::topology::Topology;

/// Converts all tables.
pub(crate) fn convert(tables: &Tables, work: &mut Work) {
    let topology = Topology::of(tables);
    variables::convert(tables, work);
    topology.tell(tables, work);
    let homes = Homes::of(tables, &topology);
    homes.tell(work);
    servers::convert(tables, &topology, work);
    users::convert(tables, &topology, &homes, work);
    rules::convert(tables, &topology, &homes, work);
    rest(tables, work);
}

/// Tables that have no counterpart: one line for each row.
fn rest(tables: &Tables, work: &mut Work) {
    let mut seen = BTreeSet::new();
    for row in tables.all() {
        let Some((_, instead)) = OTHERS.iter().find(|(table, _)| *table == row.table) else {
            continue;
        };
        // One is enough of tables that may have thousands.
        if seen.insert(row.table) {
            let columns: Vec<_> = row.columns().take(4).collect();
            work.lost(
                &row.whole(&columns),
                &format!("{instead} (and so for all rows of {})", row.table),
            );
        }
    }
}

const OTHERS: &[(&str, &str)] = &[
    (
        "mysql_hostgroup_attributes",
        "there are no such attributes; a cluster has [clusters.server], [clusters.checks] and [clusters.routing]",
    ),
    (
        "mysql_servers_ssl_params",
        "certificates are the same for all servers of a cluster: tls_ca, tls_cert and tls_key in [clusters.server]",
    ),
    (
        "mysql_firewall_whitelist_users",
        "what it has learnt is not taken over: a rule with firewall learns (docs/manual/firewall.md)",
    ),
    (
        "mysql_firewall_whitelist_rules",
        "what it has learnt is not taken over: a rule with firewall learns (docs/manual/firewall.md)",
    ),
    ("mysql_firewall_whitelist_sqli_fingerprints", "fingerprints are ProxySQL's own"),
    ("mysql_ldap_mapping", "users of LDAP are passed through: the server asks LDAP"),
    ("clickhouse_users", "Flifo speaks to MySQL and MariaDB only"),
    ("pgsql_servers", "Flifo speaks to MySQL and MariaDB only"),
    ("pgsql_users", "Flifo speaks to MySQL and MariaDB only"),
    ("pgsql_query_rules", "Flifo speaks to MySQL and MariaDB only"),
    ("pgsql_replication_hostgroups", "Flifo speaks to MySQL and MariaDB only"),
    (
        "proxysql_servers",
        "Flifos do not send each other their configurations: give each the same file",
    ),
    ("restapi_routes", "Flifo starts no programs; its HTTP port has /metrics and /api"),
    ("scheduler", "Flifo starts no programs: let a timer of systemd do that"),
];
