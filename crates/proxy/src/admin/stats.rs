//! /stats;csv: what reads HAProxy's page reads this one. Sessions are clients, queued are statements in the queue.

use std::time::Duration;

use view::haproxy::{About, Row, page};
use view::histogram::Histogram;

use super::Outside;
use super::survey::Surveyed;
use super::tables::{server_errors, total, whole};
use crate::cluster::facts::Standing;
use crate::cluster::servers::Server;
use crate::dispatch::report::{GateReport, Report};
use crate::dispatch::worker::Shared;
use crate::fault::Kind;

/// The name of what clients connect to.
const FRONTEND: &str = "mysql";

impl Outside {
    pub(super) fn stats(&self, surveyed: &Surveyed) -> String {
        let shared = &self.shared;
        let whole = whole(surveyed);
        let clients = total(surveyed, "clients_pooled") + total(surveyed, "clients_pass_through");
        let fault = |kind| faults(surveyed, kind);
        let frontend = traffic(surveyed, Row::new(FRONTEND, About::Frontend, ""))
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
                .behind(surveyed, Row::new(FRONTEND, About::Server, &server.name), &[server])
                .with("status", status(shared, server))
                .with("act", 1_u32)
                .with("lastchg", state.since.elapsed().as_secs())
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
            .map(|server| shared.cluster.state_of(server).since.elapsed().as_secs())
            .min();
        let backups = shared.plan().servers.iter().filter(|rule| rule.backup).count();
        let backend = self
            .behind(surveyed, Row::new(FRONTEND, About::Backend, ""), &all)
            .with("act", (all.len() - backups) as u64)
            .with("bck", backups as u64)
            .with("status", if is_served { "UP" } else { "DOWN" })
            .with("lastchg", changed.unwrap_or_default())
            .with("sid", 0_u32);
        rows.push(backend);
        page(&rows)
    }

    /// What servers, or all of them, have done and have to do.
    fn behind(&self, surveyed: &Surveyed, row: Row, servers: &[&Server]) -> Row {
        let lost = faults(surveyed, Kind::BackendLost) + faults(surveyed, Kind::TransactionLost);
        let again = surveyed.reports.iter().flat_map(|report| &report.sent_again);
        let sent_again: u64 = again.sum();
        let gates = servers.iter().map(|server| surveyed.at(server.id));
        let gate = gates.fold(GateReport::default(), GateReport::plus);
        // What is only counted for all servers together is told where that is the same.
        let is_all = servers.len() == self.shared.cluster.servers.len();
        let statements = if is_all { total(surveyed, "statements") } else { gate.ended };
        let sum = |of: fn(&Server) -> u32| servers.iter().map(|it| of(it)).sum::<u32>();
        traffic(surveyed, row)
            .with("qcur", gate.waiting)
            .with("scur", sum(|server| server.slots.held()))
            .with("slim", sum(|server| server.slots.limit()))
            .with("stot", statements)
            .with("econ", total(surveyed, "backends_failed"))
            .with("eresp", lost + faults(surveyed, Kind::NonsenseFromServer))
            .with("wredis", sent_again)
            .with("hrsp_other", server_errors(surveyed))
            .with("connect", total(surveyed, "backends_opened"))
            .with("qtime", mean(surveyed, |report| &report.waited))
            .with("rtime", mean(surveyed, |report| &report.run))
            .with("weight", 1_u32)
            .with("iid", 2_u32)
            .with("req_tot", statements)
    }
}

impl Outside {
    /// What checks say of one of several servers.
    fn checked(&self, row: Row, server: &Server) -> Row {
        let shared = &self.shared;
        if !shared.cluster.asks() {
            return row.with("bck", 0_u32);
        }
        let seen = shared.cluster.members.watched(server.id);
        let rules = &shared.plan().checks.rules;
        let is_backup = shared.plan().server_rule(&server.name).is_some_and(|rule| rule.backup);
        let row = row
            .with("act", u32::from(!is_backup))
            .with("bck", u32::from(is_backup))
            .with("weight", seen.weight.round() as u64)
            .with("chkfail", seen.results.failed)
            .with("last_chk", seen.results.error)
            .with("check_rise", rules.rise)
            .with("check_fall", rules.fall)
            .with("throttle", seen.growth.map(|growth| (growth * 100.0) as u64));
        match &server.agent {
            Some(_) => row.with("last_agt", seen.heard.error.unwrap_or(seen.agent)),
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
    let watched = shared.cluster.asks().then(|| shared.cluster.members.watched(server.id));
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

/// In milliseconds, over all that has been; that page knows nothing finer.
fn mean(surveyed: &Surveyed, of: fn(&Report) -> &Histogram) -> u64 {
    let mut all = Histogram::default();
    surveyed.reports.iter().for_each(|report| all.merge(of(report)));
    let sum: Duration = all.sum();
    (sum.as_millis() as u64).checked_div(all.count()).unwrap_or(0)
}

fn faults(surveyed: &Surveyed, kind: Kind) -> u64 {
    surveyed.reports.iter().map(|report| report.faults[kind as usize]).sum()
}

/// What all rows tell alike.
fn traffic(surveyed: &Surveyed, row: Row) -> Row {
    row.with("bin", total(surveyed, "bytes_in"))
        .with("bout", total(surveyed, "bytes_out"))
        .with("mode", "mysql")
        .with("pid", 1_u32)
}
