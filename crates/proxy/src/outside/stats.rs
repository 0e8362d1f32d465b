//! /stats;csv: what reads HAProxy's page reads this one. Sessions are clients, queued are statements in line.

use std::time::Duration;

use view::haproxy::{About, Row, page};
use view::histogram::Histogram;

use super::Outside;
use super::report::GateReport;
use super::survey::Surveyed;
use super::tables::{server_errors, total, whole};
use crate::fault::Kind;
use crate::server::Standing;
use crate::servers::Server;
use crate::worker::Shared;

/// The name of what clients connect to.
const FRONTEND: &str = "mysql";

impl Outside {
    pub(super) fn stats(&self, surveyed: &Surveyed) -> String {
        let shared = &self.shared;
        let whole = whole(surveyed);
        let fault = |kind: Kind| {
            surveyed.reports.iter().map(|report| report.faults[kind as usize]).sum::<u64>()
        };
        let clients = total(surveyed, "clients_pooled") + total(surveyed, "clients_carried");
        let traffic = |row: Row| {
            row.with("bin", total(surveyed, "bytes_in"))
                .with("bout", total(surveyed, "bytes_out"))
                .with("mode", "mysql")
                .with("pid", 1_u32)
        };
        let frontend = traffic(Row::new(FRONTEND, About::Frontend, ""))
            .with("scur", whole.clients)
            .with("slim", shared.plan.clients_max)
            .with("stot", clients)
            .with("conn_tot", clients)
            .with("dreq", fault(Kind::AccessDenied) + fault(Kind::TlsRequired))
            .with("dcon", fault(Kind::TooManyClients))
            .with("ereq", fault(Kind::BadHandshake) + fault(Kind::Malformed))
            .with("req_tot", total(surveyed, "statements"))
            .with("status", if shared.is_stopping() { "STOP" } else { "OPEN" })
            .with("iid", 1_u32)
            .with("sid", 0_u32);
        let behind = |row: Row, servers: &[&Server]| {
            let again = surveyed.reports.iter().flat_map(|report| &report.sent_again);
            let sent_again: u64 = again.sum();
            let gates = servers.iter().map(|server| surveyed.at(server.id));
            let gate = gates.fold(GateReport::default(), GateReport::plus);
            // What is only counted for all servers together is told where that is the same.
            let is_all = servers.len() == shared.servers.len();
            let statements = if is_all { total(surveyed, "statements") } else { gate.ended };
            let sum = |of: fn(&Server) -> u32| servers.iter().map(|it| of(it)).sum::<u32>();
            traffic(row)
                .with("qcur", gate.waiting)
                .with("scur", sum(|server| server.slots.held()))
                .with("slim", sum(|server| server.slots.limit()))
                .with("stot", statements)
                .with("econ", total(surveyed, "links_failed"))
                .with("eresp", fault(Kind::LinkLost) + fault(Kind::NonsenseFromServer))
                .with("wredis", sent_again)
                .with("hrsp_other", server_errors(surveyed))
                .with("connect", total(surveyed, "links_opened"))
                .with("qtime", mean(surveyed, |report| &report.waited))
                .with("rtime", mean(surveyed, |report| &report.run))
                .with("act", servers.len() as u64)
                .with("bck", 0_u32)
                .with("weight", 1_u32)
                .with("iid", 2_u32)
                .with("req_tot", statements)
        };
        let mut rows = vec![frontend];
        for server in &shared.servers {
            let (state, seen) = (shared.state_of(server), server.facts.evidence());
            let row = behind(Row::new(FRONTEND, About::Server, &server.name), &[server])
                .with("status", status(shared, server))
                .with("lastchg", state.since.elapsed().as_secs())
                .with("chkfail", seen.failed)
                .with("last_chk", seen.error)
                .with("srv_icur", surveyed.at(server.id).links_idle)
                .with("addr", server.address.to_string())
                .with("sid", server.id.0 as u64 + 1);
            rows.push(row);
        }
        let all: Vec<&Server> = shared.servers.iter().map(|server| &**server).collect();
        let is_served =
            all.iter().any(|server| matches!(status(shared, server), "UP" | "no check"));
        let changed =
            all.iter().map(|server| shared.state_of(server).since.elapsed().as_secs()).min();
        let backend = behind(Row::new(FRONTEND, About::Backend, ""), &all)
            .with("status", if is_served { "UP" } else { "DOWN" })
            .with("lastchg", changed.unwrap_or_default())
            .with("sid", 0_u32);
        rows.push(backend);
        page(&rows)
    }
}

fn status(shared: &Shared, server: &Server) -> &'static str {
    match (shared.state_of(server).name, server.facts.standing()) {
        (_, Standing::Paused | Standing::Drain) => "DRAIN",
        (_, Standing::Maintenance) => "MAINT",
        ("up", _) => "UP",
        ("down", _) => "DOWN",
        _ => "no check",
    }
}

/// In milliseconds, over all that has been; that page knows nothing finer.
fn mean(surveyed: &Surveyed, of: fn(&super::Report) -> &Histogram) -> u64 {
    let mut all = Histogram::default();
    surveyed.reports.iter().for_each(|report| all.merge(of(report)));
    let sum: Duration = all.sum();
    (sum.as_millis() as u64).checked_div(all.count()).unwrap_or(0)
}
