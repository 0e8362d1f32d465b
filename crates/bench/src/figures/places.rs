//! A topology as people read it: which process ran where, and what it shared with which other one.
//!
//! Interprets nothing but what the kernel's automatic groups mean for a comparison.

use sys::cgroup::Cgroup;
use sys::tree::Seen;

use crate::names;
use crate::results::{ProcessPlace, Results, Topology};
use crate::table::{Colours, Style, Table, TableCell, paint, wrap};

/// All topologies of a run.
pub fn text(results: &Results, colours: Colours) -> String {
    let mut text = String::new();
    for topology in &results.topologies {
        let mut table = Table::new(&TITLES);
        for row in rows(topology) {
            table.row(row.map(TableCell::plain).into());
        }
        text.push('\n');
        text.push_str(&paint(&heading(topology), Style::Strong, colours));
        text.push('\n');
        text.push_str(&table.render(colours));
        text.push_str(&paint(&wrap(&groups(topology)), Style::Faint, colours));
        for caution in &topology.cautions {
            text.push_str(&paint(&format!("Not as asked: {caution}."), Style::Marked, colours));
            text.push('\n');
        }
    }
    text
}

/// What was asked for.
pub fn heading(topology: &Topology) -> String {
    match &topology.layout {
        None => "Topology: nothing was bound to CPUs".to_owned(),
        Some(layout) => format!(
            "Topology {}: server on CPUs {}, proxy on {}, clients on {}",
            topology.name, layout.server, layout.proxy, layout.clients
        ),
    }
}

/// A row for each process.
pub fn rows(topology: &Topology) -> Vec<[String; 5]> {
    let row = |place: &ProcessPlace| {
        let ProcessPlace { role, name, pid, cpus, autogroup, cgroup } = place;
        let or_reason = |shown: Option<String>, reason: String| shown.unwrap_or(reason);
        [
            format!("{}, {name} ({pid})", names::of_role(*role)),
            or_reason(cpus.known().map(ToString::to_string), cpus.reason()),
            autogroup.known().map_or_else(
                || "none".to_owned(),
                |it| match it.nice {
                    0 => it.id.to_string(),
                    nice => format!("{}, nice {nice}", it.id),
                },
            ),
            or_reason(cgroup.known().map(|it| it.path.clone()), cgroup.reason()),
            cgroup.known().map(limits).unwrap_or_default(),
        ]
    };
    topology.processes.iter().map(row).collect()
}

/// What a control group allows and is worth.
fn limits(group: &Cgroup) -> String {
    let shown = |seen: Seen<Option<String>>, what: &str| match seen {
        Seen::Known(value) => value,
        _ => Some(format!("{what} unknown")),
    };
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    let parts = [
        shown(group.weight.clone().map(|it| it.map(|it| format!("weight {it}"))), "weight"),
        shown(group.quota.clone().map(|it| it.map(|it| format!("{it} CPUs' time"))), "quota"),
        shown(group.cpus.clone().map(|it| Some(format!("CPUs {it}"))), "CPUs"),
        shown(group.memory.clone().map(|it| it.map(mib)), "memory"),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// What the automatic groups mean for the figures.
pub fn groups(topology: &Topology) -> String {
    let ids: Vec<(&str, u64)> = topology
        .processes
        .iter()
        .filter_map(|it| Some((it.name.as_str(), it.autogroup.known()?.id)))
        .collect();
    if ids.len() < topology.processes.len() {
        let unseen = topology.processes.iter().map(|it| it.autogroup.reason());
        let reason = unseen.filter(|reason| !reason.is_empty()).collect::<Vec<_>>();
        return format!(
            "Automatic groups: none for all ({}). Without them the kernel shares CPUs among threads, and a proxy has few.",
            reason.first().map_or("", String::as_str)
        );
    }
    let shared = |at: usize| {
        let (name, id) = ids[at];
        ids.iter().skip(at + 1).find(|(_, other)| *other == id).map(|(other, _)| (name, *other))
    };
    match (0..ids.len()).find_map(shared) {
        None => "Automatic groups: each process has one of its own, and as much of a CPU as another one.".to_owned(),
        Some((one, other)) => format!(
            "Automatic groups: {one} and {other} are in one, where the kernel shares CPUs among threads, and a proxy has \
             few."
        ),
    }
}

pub const TITLES: [&str; 5] = ["process", "CPUs", "automatic group", "control group", "its limits"];

#[cfg(test)]
mod tests {
    use super::*;
    use sys::details::Autogroup;

    fn topology() -> Topology {
        let text = include_str!("../results/example.json");
        let results: Results = serde_json::from_str(text).expect("is one");
        results.topologies[0].clone()
    }

    #[test]
    fn every_process_has_its_row() {
        let topology = topology();
        assert_eq!(
            heading(&topology),
            "Topology beside-clients: server on CPUs 1, proxy on 0, clients on 0"
        );
        let rows = rows(&topology);
        let want = [
            "server, mariadbd (4711)",
            "0-1",
            "25",
            "/system.slice/mariadbd.service",
            "weight 100, CPUs 0-1, 4096 MiB",
        ];
        assert_eq!(rows[0], want);
        assert_eq!(rows.len(), 3);
        let free = Topology { layout: None, name: String::new(), ..topology };
        assert_eq!(heading(&free), "Topology: nothing was bound to CPUs");
    }

    #[test]
    fn what_is_not_as_it_was_asked_for_is_said() {
        let results: Results =
            serde_json::from_str(include_str!("../results/example.json")).expect("is one");
        let text = text(&results, Colours::Off);
        assert!(text.contains("Not as asked: mariadbd (process 4711) stays on CPUs 0-1"), "{text}");
    }

    #[test]
    fn groups_that_are_shared_or_missing_are_told() {
        let mut topology = topology();
        assert!(groups(&topology).contains("each process has one of its own"));
        topology.processes[1].autogroup = Seen::Known(Autogroup { id: 25, nice: 0 });
        assert!(groups(&topology).contains("mariadbd and flifo are in one"));
        topology.processes[0].autogroup = Seen::Unknown("the switch is 0".into());
        assert!(groups(&topology).contains("none for all (the switch is 0)"));
        assert_eq!(rows(&topology)[0][2], "none");
    }

    #[test]
    fn limits_that_cannot_be_seen_are_not_taken_for_none() {
        let group = Cgroup { quota: Seen::Known(Some(0.5)), ..Cgroup::default() };
        let want = "weight unknown, 0.5 CPUs' time, CPUs unknown, memory unknown";
        assert_eq!(limits(&group), want);
    }
}
