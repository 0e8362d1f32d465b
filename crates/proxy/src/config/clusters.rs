//! Reads the clusters of a text: each begins with what holds for all, and has options of its own on top.
//!
//! Owns which options a cluster may have of its own. They are read last, when the text, the command line and the console
//! have said what holds for all.

use std::collections::BTreeSet;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::options::{CLUSTERS, Row, SECTIONS, Section};
use super::plan::{ClusterOptions, ClusterRule, Plan};
use super::problem::{Origin, Report};
use super::reader::{Reading, Written, WrittenItem, each_of_list, read_option};

/// The sections of which a cluster may have options of its own.
const OWN: [&str; 3] = ["server", "checks", "routing"];

/// The options of `[server]` that a cluster may have of its own; of the other sections, all but what is a worker's.
const OF_SERVER: [&str; 10] = [
    "limit",
    "rhythm",
    "borrow",
    "connections_max",
    "send_proxy",
    "tls",
    "tls_ca",
    "tls_cert",
    "tls_key",
    "tls_server_name",
];

/// Whether an option may differ from one cluster to the other.
fn may_differ(section: &str, option: &str) -> bool {
    match section {
        "server" => OF_SERVER.contains(&option),
        _ => !["at_once", "state_file"].contains(&option),
    }
}

/// The sections and options that may differ, as they are shown and compared.
pub(super) fn differing() -> impl Iterator<Item = (&'static Section<Plan>, &'static Row<Plan>)> {
    let own = SECTIONS.into_iter().filter(|section| OWN.contains(&section.name));
    own.flat_map(|section| {
        let rows = section.rows.iter().filter(move |row| may_differ(section.name, row.name));
        rows.map(move |row| (section, row))
    })
}

impl ClusterRule {
    /// Its options where those of a plan stand.
    pub(super) fn as_plan(&self) -> Plan {
        let ClusterOptions { server, checks, routing } = self.options.clone();
        Plan { server, checks, routing, ..Plan::default() }
    }
}

/// Reads all clusters.
pub(super) fn read(reading: &mut Reading<'_>) {
    let (document, _) = DeTable::parse_recoverable(reading.report.source.text);
    let Some(value) = document.get_ref().get(CLUSTERS.name) else { return };
    let Reading { plan, clusters: places, report, .. } = reading;
    let all = plan.clone();
    let mut rules = Vec::new();
    each_of_list(CLUSTERS.name, value, report, |table, span, report| {
        let (rule, written) = read_one(&all, table, report);
        rules.push(rule);
        places.push(WrittenItem { origin: Origin::Text(span), written });
    });
    plan.clusters = rules;
}

fn read_one(all: &Plan, table: &DeTable<'_>, report: &mut Report<'_>) -> (ClusterRule, Written) {
    let (mut rule, mut written) = (ClusterRule::default(), Written::default());
    let mut own = all.clone();
    for (key, value) in table.iter() {
        let name: &str = key.get_ref();
        let section = SECTIONS.into_iter().find(|it| OWN.contains(&it.name) && it.name == name);
        match section {
            Some(section) => read_section(section, value, &mut own, &mut written, report),
            None => read_option(CLUSTERS, key, value, &mut rule, &mut written, report),
        }
    }
    let Plan { server, checks, routing, .. } = own;
    rule.options = ClusterOptions { server, checks, routing };
    let is_own = |path: &&str| !path.starts_with("clusters.");
    rule.own = written.names().filter(is_own).map(str::to_owned).collect::<BTreeSet<_>>();
    (rule, written)
}

fn read_section(
    section: &'static Section<Plan>,
    value: &Spanned<DeValue<'_>>,
    own: &mut Plan,
    written: &mut Written,
    report: &mut Report<'_>,
) {
    let name = section.name;
    let Some(table) = value.get_ref().as_table() else {
        let message = format!("this is a section, not an option: write [clusters.{name}]");
        let path = format!("clusters.{name}");
        return report.error(&Origin::Text(value.span()), Some(path), message);
    };
    for (key, value) in table.iter() {
        let option: &str = key.get_ref();
        let is_known = section.rows.iter().any(|row| row.name == option);
        if is_known && !may_differ(name, option) {
            let message = format!(
                "this is the same in all clusters: write it in [{name}] at the top of the file"
            );
            let path = format!("clusters.{name}.{option}");
            report.error(&Origin::Text(key.span()), Some(path), message);
            continue;
        }
        read_option(section, key, value, own, written, report);
    }
}
