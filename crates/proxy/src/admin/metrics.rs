//! /metrics: what Prometheus reads. Names are promises; times are histograms.

use std::sync::Arc;
use std::time::Duration;

use engine::cache::WhyNot;
use engine::pin::Pin;
use engine::sharing::CutOut;
use view::histogram::Histogram;
use view::metrics::{Family, Page};

use super::survey::Surveyed;
use super::tables::{pools_of_all, server_errors, total, whole};
use super::{Outside, binlogs, mirrors, placement};
use crate::cluster::servers::Server;
use crate::fault::Kind;
use crate::records::events;
use crate::state::client_state::{BackendState, ClientState, StateCounts};
use crate::upkeep::report::{GateReport, Oldest, Report};
use crate::worker::counters::Why;
use crate::worker::iterations::LoopReport;
use crate::worker::panics;

impl Outside {
    /// The page.
    pub(super) fn metrics(&self, surveyed: &Surveyed) -> String {
        let mut page = Page::default();
        self.process(&mut page, surveyed);
        self.servers(&mut page, surveyed);
        self.members(&mut page);
        placement::metrics(self, &mut page);
        binlogs::metrics(self, &mut page);
        self.records(&mut page);
        counters(&mut page, surveyed);
        labelled(&mut page, surveyed);
        mirrors::metrics(self, &mut page);
        // Times are counted for all servers together.
        let name = match self.shared.cluster.servers.len() {
            1 => self.shared.cluster.first().name.as_str(),
            _ => "all",
        };
        let mut times = |family, help, of: fn(&Report) -> &Histogram| {
            let mut all = Histogram::default();
            surveyed.reports.iter().for_each(|report| all.merge(of(report)));
            page.family(family, Family::Histogram, help);
            page.histogram(&[("server", name)], &all);
        };
        times(
            "flifo_statement_run_seconds",
            "From the writing of a statement to the server to the end of its reply.",
            |report| &report.run,
        );
        times(
            "flifo_statement_wait_seconds",
            "From the reading of a statement to its writing to the server.",
            |report| &report.waited,
        );
        self.times_by_server(&mut page, surveyed);
        self.ages(&mut page, surveyed);
        page.into_text()
    }

    /// For how long what is unanswered has been so.
    fn ages(&self, page: &mut Page, surveyed: &Surveyed) {
        for (name, help, of) in AGES {
            page.family(name, Family::Gauge, help);
            for server in self.shared.cluster.servers.iter() {
                let age = of(surveyed.oldest_at(server.id)).unwrap_or_default();
                page.sample(&[("server", &server.name)], age.as_secs_f64());
            }
        }
    }

    fn times_by_server(&self, page: &mut Page, surveyed: &Surveyed) {
        page.family(
            "flifo_server_statement_seconds",
            Family::Histogram,
            "The same as flifo_statement_run_seconds, of each server.",
        );
        for server in self.shared.cluster.servers.iter() {
            page.histogram(&[("server", &server.name)], &surveyed.run_at(server.id));
        }
    }

    fn process(&self, page: &mut Page, surveyed: &Surveyed) {
        page.family("flifo_build_info", Family::Gauge, "Always 1; the version is a label.");
        page.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
        let started = self.started.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        page.family(
            "flifo_start_time_seconds",
            Family::Gauge,
            "When Flifo started, in seconds since 1970.",
        );
        page.sample(&[], started.as_secs_f64());
        page.family(
            "flifo_panics_total",
            Family::Counter,
            "Faults of Flifo's own that have ended a client, a backend connection or both; the log has each as ERROR.",
        );
        page.sample(&[], panics::count());
        page.family("flifo_worker_up", Family::Gauge, "Whether a worker answers.");
        for report in &surveyed.reports {
            page.sample(&[("worker", &report.worker.to_string())], 1);
        }
        for worker in &surveyed.missing {
            page.sample(&[("worker", &worker.to_string())], 0);
        }
        iterations(page, surveyed);
        let whole = whole(surveyed);
        page.family(
            "flifo_clients",
            Family::Gauge,
            "Clients that have logged in, by what they do.",
        );
        let states = StateCounts::sum(surveyed.reports.iter().map(|report| report.states));
        for ((_, state), clients) in ClientState::ALL.iter().zip(states.clients) {
            page.sample(&[("state", state)], clients);
        }
        page.family(
            "flifo_backends_by_state",
            Family::Gauge,
            "Backend connections by state, of pooled users and of pass-through clients.",
        );
        for ((_, state), backends) in BackendState::ALL.iter().zip(states.backends) {
            page.sample(&[("state", state)], backends);
        }
        page.family("flifo_clients_max", Family::Gauge, "Clients that may be connected.");
        page.sample(&[], self.shared.plan().clients_max);
        page.family(
            "flifo_clients_pinned",
            Family::Gauge,
            "Clients that must keep their backend connections.",
        );
        page.sample(&[], whole.pinned);
        page.family("flifo_user_clients", Family::Gauge, "Clients of each user.");
        for (user, pool) in pools_of_all(surveyed).into_iter().take(USERS_MAX) {
            page.sample(&[("user", user)], pool.clients);
        }
    }

    fn servers(&self, page: &mut Page, surveyed: &Surveyed) {
        let help = "Whether the server can be used, as far as is known.";
        page.family("flifo_server_up", Family::Gauge, help);
        for server in self.shared.cluster.servers.iter() {
            let cluster = &self.shared.cluster;
            let is_up = match cluster.routes_at(server.id) {
                Some(members) => members.is_usable(server.id),
                None => matches!(cluster.state_of(server).name, "up" | "going down"),
            };
            page.sample(&[("server", &server.name)], u8::from(is_up));
        }
        for (name, help, of) in GAUGES {
            page.family(name, Family::Gauge, help);
            for server in self.shared.cluster.servers.iter() {
                page.sample(&[("server", &server.name)], of(server, &surveyed.at(server.id)));
            }
        }
        page.family(
            "flifo_gate_starts_total",
            Family::Counter,
            "How statements came by their slots.",
        );
        for server in self.shared.cluster.servers.iter() {
            let counts = surveyed.at(server.id).counts;
            for (how, count) in [
                ("passed_on", counts.passed_on),
                ("granted", counts.granted),
                ("forced", counts.forced),
                ("borrowed", counts.borrowed),
            ] {
                page.sample(&[("server", &server.name), ("how", how)], count);
            }
        }
    }
}

impl Outside {
    /// What the slow log and the audit log have written.
    fn records(&self, page: &mut Page) {
        let all = self.shared.records.counts();
        let help = "Entries that the slow log and the audit log have written.";
        page.family("flifo_log_entries_total", Family::Counter, help);
        for (log, counts) in all {
            page.sample(&[("log", log)], counts.written);
        }
        let help = "Entries that were lost, lines of the log of events among them: the file could not be written, or not fast enough.";
        page.family("flifo_log_entries_lost_total", Family::Counter, help);
        for (log, counts) in all {
            page.sample(&[("log", log)], counts.lost);
        }
        page.sample(&[("log", "events")], events::lost());
    }

    /// What checks have found of several servers.
    fn members(&self, page: &mut Page) {
        let cluster = &self.shared.cluster;
        if !cluster.is_routed() {
            return;
        }
        let watched = |server: &Arc<Server>| cluster.of(server.id).watched(server.id);
        let servers: Vec<_> =
            cluster.servers.iter().map(|server| (server, watched(server))).collect();
        page.family("flifo_server_info", Family::Gauge, "Always 1; its cluster is a label.");
        for (server, _) in &servers {
            page.sample(&[("server", &server.name), ("cluster", &server.cluster)], 1);
        }
        let help = "Whether a cluster has a server that is written to.";
        page.family("flifo_cluster_has_writer", Family::Gauge, help);
        for members in cluster.clusters().filter(|members| members.is_named()) {
            let has_writer = members.writer().is_some();
            page.sample(&[("cluster", &members.name)], u8::from(has_writer));
        }
        let help = "What a server is used for, by the checks: 1 for what it is.";
        page.family("flifo_server_role", Family::Gauge, help);
        for (server, _) in &servers {
            let members = cluster.of(server.id);
            let is_writer = members.is_writer(server.id);
            let is_reader = members.is_reader(server.id);
            for (role, is) in
                [("writer", is_writer), ("reader", is_reader), ("none", !is_writer && !is_reader)]
            {
                let labels = [("server", server.name.as_str()), ("role", role)];
                page.sample(&labels, u8::from(is));
            }
        }
        let help = "How far a server is behind the writer, if that is known.";
        page.family("flifo_server_lag_seconds", Family::Gauge, help);
        for (server, seen) in &servers {
            if let Some(lag) = seen.lag {
                page.sample(&[("server", &server.name)], lag.as_secs_f64());
            }
        }
        let help = "Share of the time between two checks in which a cluster waited for a node.";
        page.family("flifo_server_flow_control_paused_ratio", Family::Gauge, help);
        for (server, seen) in &servers {
            if let Some(paused) = seen.paused {
                page.sample(&[("server", &server.name)], paused);
            }
        }
        let help = "A server's weight for now: less while it grows after it has come up, as its agent says.";
        page.family("flifo_server_weight", Family::Gauge, help);
        for (server, seen) in &servers {
            page.sample(&[("server", &server.name)], seen.weight);
        }
        page.family("flifo_server_checks_total", Family::Counter, "Checks that have ended.");
        for (server, seen) in &servers {
            for (result, count) in
                [("passed", seen.results.passed), ("failed", seen.results.failed)]
            {
                page.sample(&[("server", &server.name), ("result", result)], count);
            }
        }
    }
}

/// What the workers' loops have seen of themselves.
fn iterations(page: &mut Page, surveyed: &Surveyed) {
    let mut family = |name, kind, help, of: fn(&LoopReport) -> f64| {
        page.family(name, kind, help);
        for report in &surveyed.reports {
            page.sample(&[("worker", &report.worker.to_string())], of(&report.iterations));
        }
    };
    let total = Family::Counter;
    let run = "Time that a worker's thread ran, by the kernel's account.";
    family("flifo_worker_run_seconds_total", total, run, |it| it.totals.schedule.ran.as_secs_f64());
    let waited = "Time that a worker's thread could have run and had no CPU.";
    family("flifo_worker_delay_seconds_total", total, waited, |it| {
        it.totals.schedule.waited.as_secs_f64()
    });
    let count = "Iterations of the worker's event loop.";
    family("flifo_worker_iterations_total", total, count, |it| it.totals.iterations as f64);
    let busy = "Length of all iterations of the worker's event loop.";
    family("flifo_worker_iteration_seconds_total", total, busy, |it| it.totals.busy.as_secs_f64());
    let stolen = "Time within iterations in which another thread had the worker's CPU.";
    family("flifo_worker_stolen_seconds_total", total, stolen, |it| it.totals.stolen.as_secs_f64());
    let interrupted = "Iterations that lost half a millisecond or more to other threads.";
    family("flifo_worker_iterations_interrupted_total", total, interrupted, |it| {
        it.totals.interrupted as f64
    });
    let ready = "Sockets that were ready, of all iterations.";
    family("flifo_worker_ready_total", total, ready, |it| it.totals.ready as f64);
    let longest = "The longest iteration of the last second or two.";
    family("flifo_worker_iteration_max_seconds", Family::Gauge, longest, |it| {
        it.recent.longest.as_secs_f64()
    });
}

/// An age at one server: its name, what it tells, and where that is found.
type Age = (&'static str, &'static str, fn(Oldest) -> Option<Duration>);

const AGES: [Age; 2] = [
    (
        "flifo_server_waiting_oldest_seconds",
        "How long the statement has waited that has waited longest; 0: none waits.",
        |oldest| oldest.waiting,
    ),
    (
        "flifo_server_running_oldest_seconds",
        "How long the statement has run that has run longest and has no answer; 0: none runs.",
        |oldest| oldest.running,
    ),
];

/// A gauge of one server: its name, what it tells, and where that is found.
type Gauge = (&'static str, &'static str, fn(&Server, &GateReport) -> u64);

/// What is told of each server.
const GAUGES: [Gauge; 7] = [
    ("flifo_slots_limit", "Statements that may run at once.", |it, _| it.slots.limit().into()),
    ("flifo_slots_held", "Statements that run.", |it, _| it.slots.held().into()),
    (
        "flifo_statements_parked",
        "Statements that wait in the server for something, outside of the limit.",
        |server, _| server.slots.parked().into(),
    ),
    ("flifo_statements_waiting", "Statements in the queue.", |_, gate| gate.waiting as u64),
    ("flifo_backends", "Backend connections of pooled users.", |server, _| {
        server.backends.held().into()
    }),
    ("flifo_connections_max", "Backend connections that pooled users may have.", |it, _| {
        it.backends.limit().into()
    }),
    ("flifo_backends_idle", "Idle backend connections.", |_, gate| gate.backends_idle as u64),
];

/// More users than this are not told apart: the database that stores the metrics keeps a series for each.
const USERS_MAX: usize = 200;

/// Counters of all workers: how they are called in the workers and here.
const COUNTERS: [(&str, &str, &str); 25] = [
    ("statements", "flifo_statements_total", "Commands that have been answered."),
    ("waits", "flifo_waits_total", "Commands that could not start at once."),
    ("parked", "flifo_parked_total", "Slots left because a statement seemed stuck in the server."),
    ("held_up", "flifo_held_up_total", "Slots left because a client did not read its reply."),
    (
        "passed_in_pieces",
        "flifo_passed_in_pieces_total",
        "Commands that were sent before all of them was there.",
    ),
    (
        "pipelined",
        "flifo_pipelined_total",
        "Pipelined statements: sent on a backend connection behind others.",
    ),
    (
        "share_crowded",
        "flifo_share_crowded_total",
        "Statements that waited although slots were free, as the same ran already and took long.",
    ),
    (
        "share_joined",
        "flifo_share_joined_total",
        "Statements that were to get the reply to another client's run of the same.",
    ),
    ("share_spared", "flifo_share_spared_total", "Statements that got it: runs that were spared."),
    ("cache_hits", "flifo_cache_hits_total", "Statements that got a reply which was kept."),
    (
        "cache_joined",
        "flifo_cache_joined_total",
        "Statements that waited for one that was fetched.",
    ),
    ("cache_misses", "flifo_cache_misses_total", "Statements that fetched one."),
    ("cache_fills", "flifo_cache_fills_total", "Replies that were kept."),
    (
        "clients_pass_through",
        "flifo_clients_pass_through_total",
        "Pass-through clients: each has its own backend connection.",
    ),
    (
        "clients_pooled",
        "flifo_clients_pooled_total",
        "Pooled clients: they share backend connections.",
    ),
    ("logins_waited", "flifo_logins_waited_total", "Clients whose logins did not begin at once."),
    (
        "backends_opened",
        "flifo_backends_opened_total",
        "Backend connections opened for pooled users.",
    ),
    (
        "backends_failed",
        "flifo_backends_failed_total",
        "Backend connections that could not be opened.",
    ),
    ("backends_reset", "flifo_backends_reset_total", "Session resets on backend connections."),
    (
        "backends_given_up",
        "flifo_backends_given_up_total",
        "Idle backend connections closed to make room for others.",
    ),
    (
        "backends_handed_over",
        "flifo_backends_handed_over_total",
        "Backend connections sent to another worker.",
    ),
    (
        "clients_handed_over",
        "flifo_clients_handed_over_total",
        "Clients that another Flifo has taken over.",
    ),
    ("kills", "flifo_kills_total", "Statements killed."),
    ("bytes_in", "flifo_received_bytes_total", "Bytes read from clients."),
    ("bytes_out", "flifo_sent_bytes_total", "Bytes read from backend connections for clients."),
];

fn counters(page: &mut Page, surveyed: &Surveyed) {
    for (counter, name, help) in COUNTERS {
        page.family(name, Family::Counter, help);
        page.sample(&[], total(surveyed, counter));
    }
    page.family("flifo_rows_total", Family::Counter, "Rows sent to clients.");
    page.sample(&[], surveyed.reports.iter().map(|report| report.rows).sum::<u64>());
    page.family(
        "flifo_server_errors_total",
        Family::Counter,
        "Statements that the server answered with an error.",
    );
    page.sample(&[], server_errors(surveyed));
}

fn labelled(page: &mut Page, surveyed: &Surveyed) {
    let sum = |at: usize, of: fn(&Report) -> &Vec<u64>| {
        surveyed.reports.iter().filter_map(|report| of(report).get(at)).sum::<u64>()
    };
    page.family(
        "flifo_faults_total",
        Family::Counter,
        "Errors of Flifo's own that clients were told.",
    );
    for (at, kind) in Kind::ALL.iter().enumerate() {
        page.sample(&[("kind", kind.name())], sum(at, |report| &report.faults));
    }
    page.family(
        "flifo_sent_again_total",
        Family::Counter,
        "Pipelined statements in vain, and sent again.",
    );
    for (at, why) in Why::ALL.iter().enumerate() {
        page.sample(&[("why", why.name())], sum(at, |report| &report.sent_again));
    }
    page.family(
        "flifo_share_cut_out_total",
        Family::Counter,
        "Statements that were to get the reply to another client's run, and did not.",
    );
    for (at, why) in CutOut::ALL.iter().enumerate() {
        page.sample(&[("why", why.name())], sum(at, |report| &report.cut_out));
    }
    page.family(
        "flifo_cache_not_total",
        Family::Counter,
        "Statements under a cache rule whose reply was not kept, or that were not given one.",
    );
    for (at, why) in WhyNot::ALL.iter().enumerate() {
        page.sample(&[("why", why.name())], sum(at, |report| &report.cache_not));
    }
    let all = |of: fn(&Report) -> u64| surveyed.reports.iter().map(of).sum::<u64>();
    page.family("flifo_cache_entries", Family::Gauge, "Replies that are kept.");
    page.sample(&[], all(|report| report.cache_entries));
    page.family("flifo_cache_bytes", Family::Gauge, "What they take.");
    page.sample(&[], all(|report| report.cache_bytes));
    page.family(
        "flifo_pins_total",
        Family::Counter,
        "Why sessions kept their backend connections.",
    );
    for (at, pin) in Pin::ALL.iter().enumerate() {
        page.sample(&[("pin", pin.name())], sum(at, |report| &report.pins));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_of_a_worker_is_told() {
        let counters = crate::worker::counters::Counters::default();
        let told: Vec<_> = COUNTERS.iter().map(|(name, ..)| *name).collect();
        let counted: Vec<_> = counters.plain().into_iter().map(|(name, _)| name).collect();
        assert_eq!(told, counted);
    }
}
