//! The tables: what SHOW shows, and what /api answers with, by name.
//!
//! A table is made anew each time from what the workers have told. Names of columns are promises.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use engine::cache::WhyNot;
use engine::classes::WhenOverloaded;
use engine::pin::Pin;
use engine::sharing::CutOut;
use view::digests;
use view::histogram::Histogram;
use view::narrow::{Form, Narrow, cut, plain, shown};
use view::table::{Column, Table, Value, count, real, text};

use super::survey::Surveyed;
use super::{
    Outside, binlogs, blockers, cached, listings, mirrors, placement, rules, servers, succession,
};
use crate::cluster::servers::ServerId;
use crate::config;
use crate::fault::Kind;
use crate::records::events;
use crate::state::client_state::ClientState;
use crate::upkeep::report::{PoolReport, Want};
use crate::worker::counters::Why;

/// A table that can be asked for.
pub(super) struct Shown {
    /// In lower case.
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) want: Want,
    pub(super) columns: &'static [Column],
    /// What `SHOW` shows of it without `FULL`, in 120 columns. Empty: all of it.
    pub(super) narrow: &'static [Narrow],
    pub(super) fill: fn(&Outside, &Surveyed, &mut Table),
}

impl Shown {
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        SHOWN.iter().find(|shown| shown.name.eq_ignore_ascii_case(name))
    }

    pub(super) async fn make(&self, outside: &Outside) -> Table {
        let surveyed = outside.survey.ask(&outside.shared, self.want).await;
        let mut table = Table::new(self.columns);
        (self.fill)(outside, &surveyed, &mut table);
        if self.name == blockers::NAME {
            // The only one that servers are asked for.
            blockers::fill_now(outside, &surveyed, &mut table).await;
        }
        outside.baseline.take_off(self.name, &mut table);
        table
    }
}

pub(super) const NUMBERS: Want = Want { clients: false, digests: false, backends: false };
pub(super) const CLIENTS: Want = Want { clients: true, ..NUMBERS };
pub(super) const DIGESTS: Want = Want { digests: true, ..NUMBERS };
pub(super) const BACKENDS: Want = Want { backends: true, ..NUMBERS };

/// All tables.
pub(super) static SHOWN: [Shown; 29] = [
    Shown {
        name: "servers",
        help: "servers, their states, and how much of them is in use",
        want: NUMBERS,
        columns: servers::SERVERS,
        narrow: servers::NARROW,
        fill: servers::fill,
    },
    Shown {
        name: "pools",
        help: "clients and backend connections of each user",
        want: NUMBERS,
        columns: &[
            text("user"),
            count("clients"),
            count("pass_through"),
            count("clients_idle"),
            count("clients_waiting"),
            count("clients_running"),
            count("clients_pinned"),
            count("backends"),
            count("backends_busy"),
            real("waiting_seconds"),
            real("running_seconds"),
        ],
        narrow: &[
            cut("user", 16),
            plain("clients"),
            plain("pass_through"),
            shown("idle", "clients_idle", Form::AsItIs),
            shown("waiting", "clients_waiting", Form::AsItIs),
            shown("oldest", "waiting_seconds", Form::Seconds),
            shown("running", "clients_running", Form::AsItIs),
            shown("longest", "running_seconds", Form::Seconds),
            shown("pinned", "clients_pinned", Form::AsItIs),
            plain("backends"),
            shown("busy", "backends_busy", Form::AsItIs),
        ],
        fill: pools,
    },
    Shown {
        name: "clients",
        help: "the connected clients, and the state of their statements",
        want: CLIENTS,
        columns: &[
            count("id"),
            text("user"),
            text("address"),
            text("tls"),
            text("kind"),
            text("schema"),
            text("state"),
            real("state_seconds"),
            text("in_transaction"),
            text("pin"),
            real("pinned_seconds"),
            text("pinned_by"),
            count("backend"),
            text("server"),
            count("worker"),
            text("program"),
            text("last_statement"),
            real("transaction_seconds"),
        ],
        narrow: &[
            plain("id"),
            cut("user", 10),
            shown("host", "address", Form::Host(15)),
            cut("program", 10),
            shown("state", "state", Form::Cut(8)),
            shown("since", "state_seconds", Form::Seconds),
            shown("trx", "transaction_seconds", Form::Seconds),
            cut("pin", 12),
            cut("last_statement", 14),
        ],
        fill: clients,
    },
    Shown {
        name: "workers",
        help: "threads that serve clients",
        want: NUMBERS,
        columns: &[
            count("worker"),
            text("state"),
            count("clients"),
            count("backends"),
            count("waiting"),
            count("statements"),
            count("waits"),
            count("pipelined"),
            count("bytes_in"),
            count("bytes_out"),
            real("ran"),
            real("waited"),
            count("iterations"),
            real("iteration_us"),
            real("iteration_max_us"),
            real("stolen_us"),
            real("ready"),
            count("ready_max"),
            count("thread"),
        ],
        narrow: &[
            plain("worker"),
            plain("state"),
            plain("clients"),
            plain("backends"),
            plain("waiting"),
            plain("statements"),
            plain("ran"),
            plain("waited"),
            shown("iteration", "iteration_us", Form::Micros),
            shown("longest", "iteration_max_us", Form::Micros),
        ],
        fill: workers,
    },
    Shown {
        name: "gates",
        help: "how each worker's statements were admitted",
        want: NUMBERS,
        columns: &[
            text("server"),
            count("worker"),
            count("waiting"),
            count("passed_on"),
            count("granted"),
            count("forced"),
            count("borrowed"),
            count("parked"),
        ],
        narrow: &[],
        fill: gates,
    },
    Shown {
        name: "classes",
        help: "classes of statements, what each may have, and what belongs to it",
        want: NUMBERS,
        columns: &[
            text("name"),
            count("weight"),
            count("minimum"),
            count("maximum"),
            count("queue_max"),
            real("wait_max_seconds"),
            text("when_overloaded"),
            text("users"),
            text("schemas"),
            text("from"),
        ],
        narrow: &[
            cut("name", 16),
            plain("weight"),
            plain("minimum"),
            plain("maximum"),
            plain("queue_max"),
            shown("wait_max", "wait_max_seconds", Form::Seconds),
            plain("when_overloaded"),
            cut("users", 16),
        ],
        fill: classes,
    },
    Shown {
        name: "pins",
        help: "why sessions kept their backend connections, and how often",
        want: CLIENTS,
        columns: &[text("pin"), count("count"), count("now")],
        narrow: &[],
        fill: pins,
    },
    Shown {
        name: "checks",
        help: "what is known of the servers' health, and from what",
        want: NUMBERS,
        columns: servers::CHECKS,
        narrow: servers::CHECKS_NARROW,
        fill: servers::fill_checks,
    },
    Shown {
        name: "stats",
        help: "everything that is counted, summed over the workers",
        want: NUMBERS,
        columns: &[text("name"), count("value")],
        narrow: &[],
        fill: stats,
    },
    Shown {
        name: "digests",
        help: "what statements cost that differ only in literals; times in milliseconds",
        want: DIGESTS,
        columns: &[
            text("digest"),
            text("text"),
            count("count"),
            count("errors"),
            count("rows"),
            count("affected"),
            real("total_ms"),
            real("mean_ms"),
            real("p50_ms"),
            real("p95_ms"),
            real("p99_ms"),
            real("max_ms"),
            real("waited_ms"),
            real("waited_most_ms"),
            count("shared"),
            real("charged_ms"),
            text("user"),
            text("schema"),
            text("server"),
            text("first_seen"),
            text("last_seen"),
        ],
        narrow: &[
            cut("text", 30),
            cut("user", 10),
            plain("count"),
            plain("errors"),
            shown("total", "total_ms", Form::Millis),
            shown("mean", "mean_ms", Form::Millis),
            shown("p99", "p99_ms", Form::Millis),
            shown("waited", "waited_ms", Form::Millis),
            shown("last", "last_seen", Form::Ago),
        ],
        fill: all_digests,
    },
    Shown {
        name: "errors",
        help: "errors that clients were told, Flifo's own and the server's",
        want: NUMBERS,
        columns: &[
            text("source"),
            text("name"),
            count("code"),
            text("sqlstate"),
            count("count"),
            real("last_seconds_ago"),
        ],
        narrow: &[
            plain("source"),
            plain("name"),
            plain("code"),
            plain("sqlstate"),
            plain("count"),
            shown("last", "last_seconds_ago", Form::Seconds),
        ],
        fill: errors,
    },
    Shown {
        name: "placement",
        help: "whether the workers get the CPU that they want, and what has been done about it",
        want: NUMBERS,
        columns: placement::COLUMNS,
        narrow: &[cut("name", 20), cut("value", 90)],
        fill: placement::fill,
    },
    Shown {
        name: "config",
        help: "options as they are in force; secrets are not shown",
        want: NUMBERS,
        columns: &[text("name"), text("value"), text("default"), text("source")],
        narrow: &[cut("name", 40), cut("value", 28), cut("default", 22), plain("source")],
        fill: options,
    },
    Shown {
        name: "processlist",
        help: "what each client runs or waits for, as servers show it",
        want: CLIENTS,
        columns: listings::PROCESSLIST,
        narrow: listings::PROCESSLIST_NARROW,
        fill: listings::processlist,
    },
    Shown {
        name: "backends",
        help: "the connections to the servers, and which client has each",
        want: BACKENDS,
        columns: listings::BACKENDS,
        narrow: listings::BACKENDS_NARROW,
        fill: listings::backends,
    },
    Shown {
        name: blockers::NAME,
        help: "which client holds a row that another client waits for, as the servers say",
        want: CLIENTS,
        columns: blockers::COLUMNS,
        narrow: blockers::NARROW,
        fill: |_, _, _| {},
    },
    Shown {
        name: "users",
        help: "users, what each may have, and what of it is taken",
        want: NUMBERS,
        columns: listings::USERS,
        narrow: listings::USERS_NARROW,
        fill: listings::users,
    },
    Shown {
        name: "routes",
        help: "which server takes statements of which clients (routing)",
        want: NUMBERS,
        columns: listings::ROUTES,
        narrow: &[],
        fill: listings::routes,
    },
    Shown {
        name: "rules",
        help: "what is done with some statements, and how often it was (rules)",
        want: NUMBERS,
        columns: rules::RULES,
        narrow: rules::NARROW,
        fill: rules::rules,
    },
    Shown {
        name: "cache",
        help: "replies that rules have kept, and how often each was given (rules.cache)",
        want: DIGESTS,
        columns: cached::CACHE,
        narrow: cached::NARROW,
        fill: cached::cache,
    },
    Shown {
        name: "mirrors",
        help: "what became of copies of statements in other clusters (rules.mirror)",
        want: NUMBERS,
        columns: mirrors::MIRRORS,
        narrow: mirrors::NARROW,
        fill: mirrors::mirrors,
    },
    Shown {
        name: "mirrored",
        help: "statements with copies in other clusters, those whose replies differ first",
        want: NUMBERS,
        columns: mirrors::MIRRORED,
        narrow: mirrors::MIRRORED_NARROW,
        fill: mirrors::mirrored,
    },
    Shown {
        name: "firewalls",
        help: "what rules' firewalls know of statements (rules.firewall)",
        want: NUMBERS,
        columns: rules::FIREWALLS,
        narrow: rules::FIREWALLS_NARROW,
        fill: rules::firewalls,
    },
    Shown {
        name: "binlogs",
        help: "servers whose binary logs are followed (cache.binlog)",
        want: NUMBERS,
        columns: binlogs::BINLOGS,
        narrow: binlogs::NARROW,
        fill: binlogs::binlogs,
    },
    Shown {
        name: "strangers",
        help: "forms of statements that came and that no firewall knows",
        want: NUMBERS,
        columns: rules::STRANGERS,
        narrow: rules::STRANGERS_NARROW,
        fill: rules::strangers,
    },
    Shown {
        name: "succession",
        help: "this process, and the one before it while that has clients (flifo upgrade)",
        want: NUMBERS,
        columns: succession::COLUMNS,
        narrow: succession::NARROW,
        fill: succession::fill,
    },
    Shown {
        name: "listeners",
        help: "the addresses that Flifo listens on, and for what",
        want: NUMBERS,
        columns: listings::LISTENERS,
        narrow: &[],
        fill: listings::listeners,
    },
    Shown {
        name: "prepared",
        help: "clients that have prepared statements, and what these keep",
        want: CLIENTS,
        columns: listings::PREPARED,
        narrow: &[],
        fill: listings::prepared,
    },
    Shown {
        name: "memory",
        help: "memory of the process, and of what has a bound of its own",
        want: CLIENTS,
        columns: listings::MEMORY,
        narrow: &[],
        fill: listings::memory,
    },
];

/// The sum of a counter over the workers.
pub(super) fn total(surveyed: &Surveyed, name: &str) -> u64 {
    let counters = surveyed.reports.iter().flat_map(|report| &report.counters);
    counters.filter(|(counter, _)| *counter == name).map(|(_, count)| count).sum()
}

/// The users of all workers.
pub(super) fn pools_of_all(surveyed: &Surveyed) -> BTreeMap<&str, PoolReport> {
    let mut all: BTreeMap<&str, PoolReport> = BTreeMap::new();
    for (user, pool) in surveyed.reports.iter().flat_map(|report| &report.pools) {
        all.entry(user).or_default().add(pool);
    }
    all
}

/// All users as one.
pub(super) fn whole(surveyed: &Surveyed) -> PoolReport {
    let mut whole = PoolReport::default();
    pools_of_all(surveyed).values().for_each(|pool| whole.add(pool));
    whole
}

impl PoolReport {
    fn add(&mut self, other: &Self) {
        self.clients += other.clients;
        self.pass_through += other.pass_through;
        for (here, there) in self.states.iter_mut().zip(other.states) {
            *here += there;
        }
        self.pinned += other.pinned;
        self.backends += other.backends;
        self.backends_busy += other.backends_busy;
        self.oldest = self.oldest.max(other.oldest);
    }

    pub(super) const fn idle(&self) -> u64 {
        self.states[ClientState::Reading as usize]
    }

    pub(super) const fn waiting(&self) -> u64 {
        self.states[ClientState::Queued as usize]
            + self.states[ClientState::Stranded as usize]
            + self.states[ClientState::AwaitingMemory as usize]
    }

    pub(super) const fn running(&self) -> u64 {
        self.states[ClientState::Preparing as usize]
            + self.states[ClientState::Running as usize]
            + self.states[ClientState::Writing as usize]
    }
}

/// Errors that the servers have answered with, by number.
pub(super) fn server_errors(surveyed: &Surveyed) -> u64 {
    let errors = surveyed.reports.iter().flat_map(|report| &report.errors);
    errors.map(|error| error.count).sum()
}

fn pools(_: &Outside, surveyed: &Surveyed, table: &mut Table) {
    for (user, pool) in pools_of_all(surveyed) {
        table.add([
            user.to_owned().into(),
            pool.clients.into(),
            pool.pass_through.into(),
            pool.idle().into(),
            pool.waiting().into(),
            pool.running().into(),
            pool.pinned.into(),
            pool.backends.into(),
            pool.backends_busy.into(),
            pool.oldest.waiting.map(|age| age.as_secs_f64()).into(),
            pool.oldest.running.map(|age| age.as_secs_f64()).into(),
        ]);
    }
}

fn clients(outside: &Outside, surveyed: &Surveyed, table: &mut Table) {
    let yes = |is: bool| Value::from(if is { "yes" } else { "no" });
    for report in &surveyed.reports {
        for person in &report.clients {
            table.add([
                person.id.into(),
                person.user.clone().into(),
                person.address.map(|address| address.to_string()).into(),
                yes(person.is_tls),
                if person.is_pooled { "pooled" } else { "pass-through" }.into(),
                person.schema.clone().into(),
                person.state.name().into(),
                person.changed.as_secs_f64().into(),
                yes(person.in_transaction),
                person.pin.into(),
                person.pinned.as_ref().map(|(since, _)| since.as_secs_f64()).into(),
                person.pinned.as_ref().and_then(|(_, by)| by.clone()).into(),
                person.backend.into(),
                server_name(outside, person.server).into(),
                report.worker.into(),
                person.program.clone().into(),
                person.last_statement.clone().into(),
                person.transaction.map(|since| since.as_secs_f64()).into(),
            ]);
        }
    }
}

/// The name of a server.
pub(super) fn server_name(outside: &Outside, server: ServerId) -> String {
    outside.shared.cluster.server(server).name.clone()
}

/// Several things as one text.
pub(super) fn joined<T: std::fmt::Display>(all: &[T]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn workers(_: &Outside, surveyed: &Surveyed, table: &mut Table) {
    for report in &surveyed.reports {
        let counter = |name| report.counters.iter().find(|(it, _)| *it == name).map(|(_, it)| *it);
        let own = &report.iterations;
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let each = |sum: f64| sum / own.totals.iterations.max(1) as f64;
        table.add([
            report.worker.into(),
            "up".into(),
            report.pools.values().map(|pool| pool.clients).sum::<u64>().into(),
            report.pools.values().map(|pool| pool.backends).sum::<u64>().into(),
            report.waiting().into(),
            counter("statements").into(),
            counter("waits").into(),
            counter("pipelined").into(),
            counter("bytes_in").into(),
            counter("bytes_out").into(),
            own.recent.ran.into(),
            own.recent.waited.into(),
            own.totals.iterations.into(),
            each(micros(own.totals.busy)).into(),
            micros(own.recent.longest).into(),
            each(micros(own.totals.stolen)).into(),
            each(own.totals.ready as f64).into(),
            u64::from(own.recent.ready_max).into(),
            u64::from(own.thread).into(),
        ]);
    }
    for worker in &surveyed.missing {
        let mut row = vec![Value::from(*worker), "does not answer".into()];
        row.resize(table.columns.len(), Value::Null);
        table.rows.push(row);
    }
}

fn gates(outside: &Outside, surveyed: &Surveyed, table: &mut Table) {
    for report in &surveyed.reports {
        let gate = |id: ServerId| report.gates.get(id.0);
        let servers = outside.shared.cluster.servers.iter();
        for (server, gate) in servers.filter_map(|it| Some((it, gate(it.id)?))) {
            let counts = gate.counts;
            table.add([
                server.name.clone().into(),
                report.worker.into(),
                gate.waiting.into(),
                counts.passed_on.into(),
                counts.granted.into(),
                counts.forced.into(),
                counts.borrowed.into(),
                counts.parked.into(),
            ]);
        }
    }
}

fn classes(outside: &Outside, _: &Surveyed, table: &mut Table) {
    let (classes, plan) = (outside.shared.cluster.classes(), outside.shared.plan());
    for class in classes.iter() {
        let rule = plan.classes.iter().find(|rule| rule.class.name == class.name);
        let when = match class.when_overloaded {
            WhenOverloaded::Wait => "wait",
            WhenOverloaded::NewestFirst => "newest_first",
        };
        table.add([
            class.name.clone().into(),
            class.weight.into(),
            class.minimum.into(),
            class.maximum.into(),
            class.queue_max.into(),
            class.wait_max.map(|wait| wait.as_secs_f64()).into(),
            when.into(),
            rule.map(|rule| joined(&rule.users)).into(),
            rule.map(|rule| joined(&rule.schemas)).into(),
            rule.map(|rule| joined(&rule.from)).into(),
        ]);
    }
}

fn pins(_: &Outside, surveyed: &Surveyed, table: &mut Table) {
    for (at, pin) in Pin::ALL.iter().enumerate() {
        let counted = surveyed.reports.iter().filter_map(|report| report.pins.get(at)).sum::<u64>();
        let clients = surveyed.reports.iter().flat_map(|report| &report.clients);
        let now = clients.filter(|client| client.pin == Some(pin.name())).count();
        table.add([pin.name().into(), counted.into(), now.into()]);
    }
}

fn stats(outside: &Outside, surveyed: &Surveyed, table: &mut Table) {
    let Some(first) = surveyed.reports.first() else { return };
    for (name, _) in &first.counters {
        table.add([(*name).into(), total(surveyed, name).into()]);
    }
    let rows = surveyed.reports.iter().map(|report| report.rows).sum::<u64>();
    table.add(["rows".into(), rows.into()]);
    let entries = surveyed.reports.iter().map(|report| report.cache_entries).sum::<u64>();
    let bytes = surveyed.reports.iter().map(|report| report.cache_bytes).sum::<u64>();
    table.add(["cache_entries".into(), entries.into()]);
    table.add(["cache_bytes".into(), bytes.into()]);
    for (log, counts) in outside.shared.records.counts() {
        table.add([format!("logs.{log}.written").into(), counts.written.into()]);
        table.add([format!("logs.{log}.lost").into(), counts.lost.into()]);
    }
    table.add(["logs.events.lost".into(), events::lost().into()]);
    for (at, why) in Why::ALL.iter().enumerate() {
        let counted =
            surveyed.reports.iter().filter_map(|report| report.sent_again.get(at)).sum::<u64>();
        table.add([format!("sent_again.{}", why.name()).into(), counted.into()]);
    }
    for (at, why) in CutOut::ALL.iter().enumerate() {
        let counted =
            surveyed.reports.iter().filter_map(|report| report.cut_out.get(at)).sum::<u64>();
        table.add([format!("share_cut_out.{}", why.name()).into(), counted.into()]);
    }
    for (at, why) in WhyNot::ALL.iter().enumerate() {
        let counted =
            surveyed.reports.iter().filter_map(|report| report.cache_not.get(at)).sum::<u64>();
        table.add([format!("cache_not.{}", why.name()).into(), counted.into()]);
    }
    for (at, kind) in Kind::ALL.iter().enumerate() {
        let counted =
            surveyed.reports.iter().filter_map(|report| report.faults.get(at)).sum::<u64>();
        table.add([format!("faults.{}", kind.name()).into(), counted.into()]);
    }
    for (at, pin) in Pin::ALL.iter().enumerate() {
        let counted = surveyed.reports.iter().filter_map(|report| report.pins.get(at)).sum::<u64>();
        table.add([format!("pins.{}", pin.name()).into(), counted.into()]);
    }
}

fn all_digests(_: &Outside, surveyed: &Surveyed, table: &mut Table) {
    let mut told = digests::join(surveyed.reports.iter().map(|report| report.digests.clone()));
    // What Flifo answers itself, like a plain BEGIN, has cost the server nothing.
    told.retain(|told| told.figures.run.count() > 0);
    let ago = |ago: Duration| clock(SystemTime::now().checked_sub(ago).unwrap_or(UNIX_EPOCH));
    for digests::Told { digest, text, asked, figures } in told {
        let quantile = |run: &Histogram, share| run.quantile(share).map(millis);
        let count = figures.run.count();
        let total = millis(figures.run.sum());
        // What is in no row of its own any more has neither.
        let is_others = digest == 0 && text.is_empty();
        table.add([
            (!is_others).then(|| format!("{digest:016x}")).into(),
            (!is_others).then(|| String::from(text)).into(),
            count.into(),
            figures.errors.into(),
            figures.rows.into(),
            figures.affected.into(),
            total.into(),
            (count > 0).then(|| total / count as f64).into(),
            quantile(&figures.run, 0.5).into(),
            quantile(&figures.run, 0.95).into(),
            quantile(&figures.run, 0.99).into(),
            figures.run.longest().map(millis).into(),
            millis(figures.waited).into(),
            millis(figures.waited_most).into(),
            figures.shared.into(),
            millis(figures.charged).into(),
            asked.as_ref().map(|it| and_others(&it.user, it.others.users)).into(),
            asked.as_ref().and_then(schema_of).into(),
            asked.as_ref().map(|it| and_others(&it.server, it.others.servers)).into(),
            asked.as_ref().map(|it| ago(it.first)).into(),
            asked.as_ref().map(|it| ago(it.last)).into(),
        ]);
    }
    // The costliest first, as one wants to see them.
    let cost = |row: &Vec<Value>| match row[6] {
        Value::Real(total) => total,
        _ => 0.0,
    };
    table.rows.sort_by(|one, two| cost(two).total_cmp(&cost(one)));
}

/// The first of its kind, and whether there were more.
fn and_others(first: &str, more: bool) -> String {
    format!("{first}{}", if more { " and others" } else { "" })
}

fn schema_of(asked: &digests::ToldAsked) -> Option<String> {
    match (&asked.schema, asked.others.schemas) {
        (None, false) => None,
        (schema, more) => Some(and_others(schema.as_deref().unwrap_or("none"), more)),
    }
}

fn errors(_: &Outside, surveyed: &Surveyed, table: &mut Table) {
    for (at, kind) in Kind::ALL.iter().enumerate() {
        let counted =
            surveyed.reports.iter().filter_map(|report| report.faults.get(at)).sum::<u64>();
        if counted > 0 {
            let (code, sqlstate) = kind.code();
            let sqlstate = String::from_utf8_lossy(sqlstate).into_owned();
            let code = u64::from(code).into();
            let name = kind.name().into();
            table.add(["flifo".into(), name, code, sqlstate.into(), counted.into(), Value::Null]);
        }
    }
    let mut seen: BTreeMap<u16, (String, u64, Duration)> = BTreeMap::new();
    for report in &surveyed.reports {
        for error in &report.errors {
            let ago = report.at.saturating_duration_since(error.last);
            let sqlstate = String::from_utf8_lossy(&error.sqlstate).into_owned();
            let known = seen.entry(error.code).or_insert((sqlstate, 0, ago));
            known.1 += error.count;
            known.2 = known.2.min(ago);
        }
    }
    for (code, (sqlstate, counted, ago)) in seen {
        let (code, ago) = (u64::from(code).into(), ago.as_secs_f64().into());
        let row = ["server".into(), Value::Null, code, sqlstate.into(), counted.into(), ago];
        table.add(row);
    }
}

fn options(outside: &Outside, _: &Surveyed, table: &mut Table) {
    let servers = &outside.shared.cluster.servers;
    let by_hand = servers.iter().find_map(|server| server.limit_by_hand());
    for option in config::shown(&outside.shared.plan()) {
        let (value, source) = match by_hand.filter(|_| option.name == "server.limit") {
            Some(limit) => (Some(limit.to_string()), "console"),
            None => (option.value, option.source),
        };
        table.add([option.name.into(), value.into(), option.default.into(), source.into()]);
    }
}

pub(super) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Seconds since 1970, as a text that no client takes for local time.
pub(super) fn clock(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{:.3}", since.as_secs_f64())
}
