//! /stats;csv: what reads HAProxy's page reads this one. Sessions are clients, queued are statements in line.

use std::time::Duration;

use view::haproxy::{About, Row, page};
use view::histogram::Histogram;

use super::Outside;
use super::survey::Surveyed;
use super::tables::{server_errors, total, whole};
use crate::fault::Kind;
use crate::server::Standing;

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
        let behind = |row: Row| {
            let again = surveyed.reports.iter().flat_map(|report| &report.sent_again);
            let sent_again: u64 = again.sum();
            let waiting: usize = surveyed.reports.iter().map(|report| report.waiting).sum();
            traffic(row)
                .with("qcur", waiting)
                .with("scur", shared.slots.held())
                .with("slim", shared.slots.limit())
                .with("stot", total(surveyed, "statements"))
                .with("econ", total(surveyed, "links_failed"))
                .with("eresp", fault(Kind::LinkLost) + fault(Kind::NonsenseFromServer))
                .with("wredis", sent_again)
                .with("hrsp_other", server_errors(surveyed))
                .with("connect", total(surveyed, "links_opened"))
                .with("qtime", mean(surveyed, |report| &report.waited))
                .with("rtime", mean(surveyed, |report| &report.run))
                .with("act", 1_u32)
                .with("bck", 0_u32)
                .with("weight", 1_u32)
                .with("iid", 2_u32)
                .with("req_tot", total(surveyed, "statements"))
        };
        let state = shared.server.state();
        let status = match (state.name, shared.server.standing()) {
            (_, Standing::Paused | Standing::Drain) => "DRAIN",
            (_, Standing::Maintenance) => "MAINT",
            ("up", _) => "UP",
            ("down", _) => "DOWN",
            _ => "no check",
        };
        let seen = shared.server.evidence();
        let server = behind(Row::new(FRONTEND, About::Server, &shared.plan.server.name))
            .with("status", status)
            .with("lastchg", state.since.elapsed().as_secs())
            .with("chkfail", seen.failed)
            .with("last_chk", seen.error)
            .with("srv_icur", idle(surveyed))
            .with("addr", shared.address.to_string())
            .with("sid", 1_u32);
        let is_served = matches!(status, "UP" | "no check");
        let backend = behind(Row::new(FRONTEND, About::Backend, ""))
            .with("status", if is_served { "UP" } else { "DOWN" })
            .with("lastchg", state.since.elapsed().as_secs())
            .with("sid", 0_u32);
        page(&[frontend, server, backend])
    }
}

fn idle(surveyed: &Surveyed) -> usize {
    surveyed.reports.iter().map(|report| report.links_idle).sum()
}

/// In milliseconds, over all that has been; that page knows nothing finer.
fn mean(surveyed: &Surveyed, of: fn(&super::Report) -> &Histogram) -> u64 {
    let mut all = Histogram::default();
    surveyed.reports.iter().for_each(|report| all.merge(of(report)));
    let sum: Duration = all.sum();
    (sum.as_millis() as u64).checked_div(all.count()).unwrap_or(0)
}
