//! The tables of servers and of their checks: SHOW SERVERS and SHOW CHECKS.
//!
//! Names of columns are promises.

use std::time::SystemTime;

use view::histogram::Histogram;
use view::narrow::{Form, Narrow, cut, plain, shown, wrapped};
use view::table::{Column, Table, Value, count, real, text};

use super::Outside;
use super::survey::Surveyed;
use super::tables::{clock, millis};
use crate::cluster::servers::Server;

pub(super) const SERVERS: &[Column] = &[
    text("name"),
    text("address"),
    text("state"),
    real("state_seconds"),
    text("reason"),
    text("version"),
    count("limit"),
    text("limit_from"),
    count("running"),
    count("waiting"),
    count("parked"),
    count("backends"),
    count("connections_max"),
    count("backends_idle"),
    count("statements"),
    count("errors"),
    text("role"),
    real("lag_seconds"),
    real("weight"),
    text("agent"),
    text("resolved"),
    text("cluster"),
    text("why"),
    real("mean_ms"),
    real("p50_ms"),
    real("p95_ms"),
    real("p99_ms"),
    real("max_ms"),
    real("waiting_seconds"),
    real("running_seconds"),
];

pub(super) const NARROW: &[Narrow] = &[
    cut("name", 10),
    cut("address", 18),
    shown("role", "role", Form::Head),
    plain("state"),
    shown("lag", "lag_seconds", Form::Seconds),
    shown("run", "running", Form::AsItIs),
    shown("wait", "waiting", Form::AsItIs),
    shown("oldest", "waiting_seconds", Form::Seconds),
    plain("limit"),
    wrapped("why", 19),
];

pub(super) const CHECKS_NARROW: &[Narrow] = &[
    cut("server", 14),
    cut("kind", 11),
    plain("result"),
    cut("reason", 30),
    plain("passed"),
    plain("failed"),
    shown("last", "last", Form::Ago),
];

pub(super) fn fill(outside: &Outside, surveyed: &Surveyed, table: &mut Table) {
    let shared = &outside.shared;
    for server in shared.cluster.servers.iter() {
        let (state, gate) = (shared.cluster.state_of(server), surveyed.at(server.id));
        let watched =
            shared.cluster.asks().then(|| shared.cluster.of(server.id).watched(server.id));
        let lag = watched.as_ref().and_then(|it| it.lag).map(|lag| lag.as_secs_f64());
        let weight = watched.as_ref().map(|it| it.weight);
        let agent = watched.as_ref().filter(|_| server.agent.is_some());
        let agent = agent.map(|it| it.agent.clone());
        let resolved = server.place.looked().map(|(addresses, _)| {
            let texts: Vec<_> = addresses.iter().map(ToString::to_string).collect();
            texts.join(", ")
        });
        let version =
            server.facts.greeting().map(|it| String::from_utf8_lossy(&it.version).into_owned());
        let why =
            why(watched.as_ref().map(|it| it.role.as_str()), state.name, state.reason.as_deref());
        let (run, oldest) = (surveyed.run_at(server.id), surveyed.oldest_at(server.id));
        let quantile = |share| run.quantile(share).map(millis);
        table.add([
            server.name.clone().into(),
            server.address.to_string().into(),
            state.name.into(),
            crate::worker::clock::since(state.since).as_secs_f64().into(),
            state.reason.into(),
            version.into(),
            server.slots.limit().into(),
            limit_from(server).into(),
            server.slots.held().into(),
            gate.waiting.into(),
            server.slots.parked().into(),
            server.backends.held().into(),
            server.backends.limit().into(),
            gate.backends_idle.into(),
            gate.traffic.answered.into(),
            gate.traffic.errors.into(),
            watched.map(|it| it.role).into(),
            lag.into(),
            weight.into(),
            agent.into(),
            resolved.into(),
            server.cluster.clone().into(),
            why.into(),
            mean(&run).into(),
            quantile(0.5).into(),
            quantile(0.95).into(),
            quantile(0.99).into(),
            run.longest().map(millis).into(),
            oldest.waiting.map(|age| age.as_secs_f64()).into(),
            oldest.running.map(|age| age.as_secs_f64()).into(),
        ]);
    }
}

fn mean(run: &Histogram) -> Option<f64> {
    (run.count() > 0).then(|| millis(run.sum()) / run.count() as f64)
}

/// Why a server is not used, or not as others are. `None`: there is nothing to say.
fn why(role: Option<&str>, state: &str, reason: Option<&str>) -> Option<String> {
    let of_role = role.and_then(|role| role.split_once([':', ',']));
    match of_role {
        Some((_, why)) => Some(why.trim().to_owned()),
        None => reason.filter(|_| state != "up").map(str::to_owned),
    }
}

/// What has set a server's limit.
fn limit_from(server: &Server) -> &'static str {
    match (server.limit_by_hand(), server.limit_by_agent(), server.limit_by_file()) {
        (Some(_), ..) => "console",
        (None, Some(_), _) => "agent",
        (None, None, None) => "auto",
        (None, None, Some(_)) => "configuration",
    }
}

pub(super) const CHECKS: &[Column] = &[
    text("server"),
    text("kind"),
    text("result"),
    text("reason"),
    count("passed"),
    count("failed"),
    text("last"),
];

/// What one way of looking at a server has shown.
struct Seen {
    kind: &'static str,
    result: Option<&'static str>,
    reason: Option<String>,
    passed: u64,
    failed: u64,
    last: Option<SystemTime>,
}

pub(super) fn fill_checks(outside: &Outside, _: &Surveyed, table: &mut Table) {
    for server in outside.shared.cluster.servers.iter() {
        for seen in all_seen(outside, server) {
            let row: [Value; 7] = [
                server.name.clone().into(),
                seen.kind.into(),
                seen.result.into(),
                seen.reason.into(),
                seen.passed.into(),
                seen.failed.into(),
                seen.last.map(clock).into(),
            ];
            table.add(row);
        }
    }
}

fn all_seen(outside: &Outside, server: &Server) -> Vec<Seen> {
    let evidence = server.facts.evidence();
    let mut all = vec![Seen {
        kind: "connections",
        result: evidence.result(),
        reason: evidence.error,
        passed: evidence.passed,
        failed: evidence.failed,
        last: evidence.last,
    }];
    if let Some((_, looked)) = server.place.looked() {
        let result = if looked.error.is_none() { "passed" } else { "failed" };
        all.push(Seen {
            kind: "name",
            result: looked.last.map(|_| result),
            reason: looked.error,
            passed: looked.passed,
            failed: looked.failed,
            last: looked.last,
        });
    }
    let cluster = &outside.shared.cluster;
    if !cluster.asks() {
        return all;
    }
    let watched = cluster.of(server.id).watched(server.id);
    let asked = [("checks", watched.results), ("agent", watched.heard)];
    for (kind, results) in asked {
        if kind == "agent" && server.agent.is_none() {
            continue;
        }
        let result = if results.error.is_none() { "passed" } else { "failed" };
        all.push(Seen {
            kind,
            result: results.last.map(|_| result),
            reason: results.error,
            passed: results.passed,
            failed: results.failed,
            last: results.last,
        });
    }
    all
}
