//! What contradicts itself where there are several clusters: names that nothing bears, and clusters without servers.

use std::collections::HashMap;

use wire::like::NamePattern;

use crate::config::plan::{MAIN, Plan};
use crate::config::problem::{Origin, Report};
use crate::config::reader::{Reading, Written, WrittenItem};
use crate::config::suggest;

/// Tells of everything that does not fit together.
pub(super) fn contradictions(reading: &mut Reading<'_>) {
    names(reading);
    schemas(reading);
    servers(reading);
    users(reading);
    routes(reading);
}

fn names(reading: &mut Reading<'_>) {
    let Reading { plan, clusters, report, .. } = reading;
    let (mut seen, option) = (HashMap::new(), "clusters.name");
    for (rule, WrittenItem { origin, written }) in plan.clusters.iter().zip(clusters.iter()) {
        if !written.has(option) {
            report.error(origin, Some(option.to_owned()), "a cluster needs its name".to_owned());
        } else if !rule.name.is_empty() && seen.insert(&rule.name, ()).is_some() {
            let message = format!("there is already a cluster {:?}", rule.name);
            report.error(&written.origin(option), Some(option.to_owned()), message);
        }
    }
}

fn schemas(reading: &mut Reading<'_>) {
    let Reading { plan, clusters, report, .. } = reading;
    let (mut seen, option) = (HashMap::new(), "clusters.schemas");
    for (rule, WrittenItem { written, .. }) in plan.clusters.iter().zip(clusters.iter()) {
        for (index, schema) in rule.schemas.iter().map(NamePattern::text).enumerate() {
            if let Some(other) = seen.insert(schema, &rule.name) {
                let message = match *other == rule.name {
                    true => format!("{schema:?} is listed twice"),
                    false => format!("{schema:?} lies in the cluster {other:?} already"),
                };
                report.error(&written.item(option, index), Some(option.to_owned()), message);
            }
        }
    }
}

fn servers(reading: &mut Reading<'_>) {
    let Reading { plan, clusters, servers, report, .. } = reading;
    let option = "servers.cluster";
    for (rule, WrittenItem { origin, written }) in plan.servers.iter().zip(servers.iter()) {
        if written.has(option) {
            exists(plan, &rule.cluster, written, option, report);
        } else if !plan.clusters.is_empty() {
            let message =
                "a server needs the name of its cluster, since [[clusters]] are listed".to_owned();
            report.error(origin, Some(option.to_owned()), message);
        }
    }
    for (rule, WrittenItem { origin, .. }) in plan.clusters.iter().zip(clusters.iter()) {
        if !rule.name.is_empty() && !plan.servers.iter().any(|server| server.cluster == rule.name) {
            let message = format!(
                "no server of [[servers]] belongs to the cluster {:?}: name it in servers.cluster",
                rule.name
            );
            report.error(origin, Some("clusters".to_owned()), message);
        }
    }
}

fn users(reading: &mut Reading<'_>) {
    let Reading { plan, users, report, .. } = reading;
    for (user, place) in plan.users.iter().zip(users.iter()) {
        if let Some(cluster) = &user.cluster {
            exists(plan, cluster, &place.written, "users.cluster", report);
        }
    }
}

fn routes(reading: &mut Reading<'_>) {
    let Reading { plan, routes, report, .. } = reading;
    for (rule, place) in plan.routes.iter().zip(routes.iter()) {
        if let Some(cluster) = &rule.cluster {
            exists(plan, cluster, &place.written, "routes.cluster", report);
        }
    }
}

/// Tells if there is no cluster of this name.
fn exists(plan: &Plan, name: &str, written: &Written, option: &str, report: &mut Report<'_>) {
    if plan.cluster_names().any(|known| known == name) {
        return;
    }
    let known = plan.cluster_names().filter(|known| !known.is_empty());
    let hint = match suggest::nearest(name, known) {
        Some(near) => format!("; did you mean {near:?}?"),
        None if plan.clusters.is_empty() => {
            format!(": without [[clusters]] there is only {MAIN:?}")
        }
        None => String::new(),
    };
    let message = format!("there is no cluster {name:?}{hint}");
    report.error(&written.origin(option), Some(option.to_owned()), message);
}

/// Where an option of a cluster stands: behind the cluster, or where it is said for all.
pub(super) fn origin_in(own: &Written, all: &Written, option: &str) -> Origin {
    if own.has(option) { own.origin(option) } else { all.origin(option) }
}
