//! /stats;csv: what reads HAProxy's page reads this one. Sessions are clients, queued are statements in the queue.

use std::time::Duration;

use engine::checks::health::CheckRules;
use view::haproxy::{About, Row, page};

use super::Outside;
use super::survey::Surveyed;
use super::tables::{total, whole};
use crate::cluster::facts::Standing;
use crate::cluster::members::{Results, Watched};
use crate::cluster::servers::Server;
use crate::fault::Kind;
use crate::state::shared::Shared;
use crate::upkeep::report::GateReport;

/// The name of what clients connect to.
const FRONTEND: &str = "mysql";

impl Outside {
    pub(super) fn stats(&self, surveyed: &Surveyed) -> String {
        let shared = &self.shared;
        let whole = whole(surveyed);
        let clients = total(surveyed, "clients_pooled") + total(surveyed, "clients_pass_through");
        let fault = |kind| faults(surveyed, kind);
        let frontend = Row::new(FRONTEND, About::Frontend, "")
            .with("mode", "mysql")
            .with("pid", 1_u32)
            .with("bin", total(surveyed, "bytes_in"))
            .with("bout", total(surveyed, "bytes_out"))
            .with("scur", whole.clients)
            .with("slim", shared.plan().clients_max)
            .with("stot", clients)
            .with("conn_tot", clients)
            .with("dreq", fault(Kind::AccessDenied) + fault(Kind::TlsRequired))
            .with("dcon", fault(Kind::TooManyClients))
            .with("ereq", fault(Kind::BadHandshake) + fault(Kind::Malformed))
            .with("req_tot", total(surveyed, "statements"))
            .with("status", if shared.is_stopping() { "STOP" } else { "OPEN" })
            .with("iid", 1_u32)
            .with("sid", 0_u32);
        let mut rows = vec![frontend];
        for server in shared.cluster.servers.iter() {
            let (state, seen) = (shared.cluster.state_of(server), server.facts.evidence());
            let row = self
                .behind(
                    surveyed,
                    Row::new(self.proxy_of(server), About::Server, &server.name),
                    &[server],
                )
                .with("status", status(shared, server))
                .with("act", 1_u32)
                .with("lastchg", crate::worker::clock::since(state.since).as_secs())
                .with("chkfail", seen.failed)
                .with("last_chk", seen.error)
                .with("srv_icur", surveyed.at(server.id).backends_idle)
                .with("addr", server.address.to_string())
                .with("sid", server.id.0 as u64 + 1);
            rows.push(self.checked(row, server));
        }
        let all: Vec<&Server> = shared.cluster.servers.iter().map(|server| &**server).collect();
        let is_served = all.iter().any(|server| {
            let status = status(shared, server);
            status == "no check" || status.starts_with("UP")
        });
        let changed = all
            .iter()
            .map(|server| {
                crate::worker::clock::since(shared.cluster.state_of(server).since).as_secs()
            })
            .min();
        let backups = shared.plan().servers.iter().filter(|rule| rule.backup).count();
        let again: u64 = surveyed.reports.iter().flat_map(|report| &report.sent_again).sum();
        let nonsense = fault(Kind::NonsenseFromServer);
        let backend = self
            .behind(surveyed, Row::new(FRONTEND, About::Backend, ""), &all)
            // Which server it was is not counted.
            .with("wredis", again)
            .with("dresp", nonsense)
            .with("act", (all.len() - backups) as u64)
            .with("bck", backups as u64)
            .with("status", if is_served { "UP" } else { "DOWN" })
            .with("lastchg", changed.unwrap_or_default())
            .with("sid", 0_u32);
        rows.push(backend);
        page(&rows)
    }

    /// What a server has done and has to do; or, of several, all together.
    fn behind(&self, surveyed: &Surveyed, row: Row, servers: &[&Server]) -> Row {
        let gates = servers.iter().map(|server| surveyed.at(server.id));
        let gate = gates.fold(GateReport::default(), GateReport::plus);
        let traffic = gate.traffic;
        let sum = |of: fn(&Server) -> u32| servers.iter().map(|it| of(it)).sum::<u32>();
        row.with("qcur", gate.waiting)
            .with("qmax", servers.iter().map(|it| it.queue.most()).max().unwrap_or_default())
            .with("scur", sum(|server| server.slots.held()))
            .with("slim", sum(|server| server.slots.limit()))
            .with("stot", traffic.answered)
            .with("bin", traffic.sent)
            .with("bout", traffic.received)
            .with("econ", traffic.failed)
            .with("eresp", traffic.lost)
            .with("hrsp_other", traffic.errors)
            .with("connect", traffic.opened)
            .with("reuse", traffic.answered.saturating_sub(traffic.opened))
            .with("qtime", millis(traffic.mean_waited()))
            .with("rtime", millis(traffic.mean_run()))
            .with("ttime", millis(traffic.mean_waited() + traffic.mean_run()))
            .with("qtime_max", millis(traffic.waited_max))
            .with("rtime_max", millis(traffic.run_max))
            .with("weight", 1_u32)
            .with("mode", "mysql")
            .with("pid", 1_u32)
            .with("iid", 2_u32)
            .with("req_tot", traffic.answered)
    }
}

impl Outside {
    /// The name of what a server is a part of, as HAProxy has proxies: its cluster, if there are several.
    fn proxy_of<'a>(&self, server: &'a Server) -> &'a str {
        if self.shared.cluster.are_several() { &server.cluster } else { FRONTEND }
    }

    /// What checks say of one of several servers.
    fn checked(&self, row: Row, server: &Server) -> Row {
        let shared = &self.shared;
        if !shared.cluster.asks() {
            return row.with("bck", 0_u32);
        }
        let seen = shared.cluster.of(server.id).watched(server.id);
        let plan = shared.plan();
        let rules = &plan.governing(&server.cluster).checks.rules;
        let is_backup = plan.server_rule(&server.name).is_some_and(|rule| rule.backup);
        let row = row
            .with("act", u32::from(!is_backup))
            .with("bck", u32::from(is_backup))
            .with("weight", seen.weight.round() as u64)
            .with("chkfail", seen.results.failed)
            .with("last_chk", seen.results.error.clone())
            .with("check_status", check_status(&seen.results))
            .with("check_rise", rules.rise)
            .with("check_fall", rules.fall)
            .with("check_health", check_health(&seen, rules))
            .with("throttle", seen.growth.map(|growth| (growth * 100.0) as u64));
        match &server.agent {
            Some(_) => row
                .with("agent_status", check_status(&seen.heard))
                .with("last_agt", seen.heard.error.unwrap_or(seen.agent)),
            None => row,
        }
    }
}

/// As HAProxy says it, with checks in a row out of how many where the state is about to change.
fn status(shared: &Shared, server: &Server) -> String {
    match server.facts.standing() {
        Standing::Paused | Standing::Drain => return "DRAIN".to_owned(),
        Standing::Maintenance => return "MAINT".to_owned(),
        Standing::Up => {}
    }
    let watched = shared.cluster.asks().then(|| shared.cluster.of(server.id).watched(server.id));
    let (so_many, of) = watched.as_ref().map_or((0, 0), |seen| seen.against);
    match shared.cluster.state_of(server).name {
        "up" => "UP".to_owned(),
        "going down" => format!("UP {}/{of}", of.saturating_sub(so_many)),
        "down" if watched.is_some_and(|seen| seen.is_by_agent) => "DOWN (agent)".to_owned(),
        "down" => "DOWN".to_owned(),
        "going up" => format!("DOWN {so_many}/{of}"),
        "drain" => "DRAIN".to_owned(),
        "maintenance" => "MAINT".to_owned(),
        _ => "no check".to_owned(),
    }
}

/// What HAProxy calls the result of the last check.
fn check_status(results: &Results) -> &'static str {
    let has = |text: &str, words: &[&str]| words.iter().any(|word| text.contains(word));
    match (&results.last, &results.error) {
        (None, _) => "INI",
        (_, None) => "L7OK",
        (_, Some(why)) if has(why, &["refused", "unreachable", "No route"]) => "L4CON",
        (_, Some(why)) if has(why, &["within", "timed out"]) => "L7TOUT",
        (_, Some(_)) => "L7RSP",
    }
}

/// From 0 to one less than `rise` and `fall` together; up from `rise` on.
fn check_health(seen: &Watched, rules: &CheckRules) -> u32 {
    let (against, _) = seen.against;
    match seen.state {
        "down" | "going up" if !seen.is_by_agent => against.min(rules.rise.saturating_sub(1)),
        _ => (rules.rise + rules.fall).saturating_sub(1 + against),
    }
}

/// Over all that has been; that page knows nothing finer than milliseconds.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn faults(surveyed: &Surveyed, kind: Kind) -> u64 {
    surveyed.reports.iter().map(|report| report.faults[kind as usize]).sum()
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn results_of_checks_have_haproxys_names() {
        let of = |last: Option<SystemTime>, error: Option<&str>| {
            let error = error.map(str::to_owned);
            check_status(&Results { last, error, ..Results::default() })
        };
        let now = Some(SystemTime::now());
        assert_eq!(of(None, None), "INI");
        assert_eq!(of(now, None), "L7OK");
        assert_eq!(of(now, Some("Connection refused (os error 111)")), "L4CON");
        assert_eq!(of(now, Some("no answer within 1s")), "L7TOUT");
        assert_eq!(of(now, Some("Access denied")), "L7RSP");
    }
}
