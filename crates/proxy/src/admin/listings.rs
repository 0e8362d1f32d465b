//! The tables that list things one by one: what clients run, connections to servers, users, routes, listeners, what is
//! prepared, what takes memory.
//!
//! Names of columns are promises; those of `PROCESSLIST` are the servers', as far as servers have such a column.

use view::narrow::{Form, Narrow, cut, plain, shown};
use view::table::{Column, Table, Value, count, real, text};

use super::Outside;
use super::survey::Surveyed;
use super::tables::{joined, pools_of_all, server_name};
use crate::config::{ClientTlsMode, Listen};
use crate::state::client_state::ClientState;
use crate::upkeep::report::Person;

pub(super) const PROCESSLIST: &[Column] = &[
    count("Id"),
    text("User"),
    text("Host"),
    text("db"),
    text("Server"),
    text("Command"),
    count("Time"),
    real("Time_ms"),
    text("State"),
    text("Wait"),
    text("Info"),
    text("Digest"),
    count("Backend"),
];

pub(super) const PROCESSLIST_NARROW: &[Narrow] = &[
    plain("Id"),
    cut("User", 10),
    shown("Host", "Host", Form::Host(15)),
    cut("Server", 10),
    shown("Time", "Time_ms", Form::Millis),
    cut("State", 8),
    cut("Wait", 12),
    cut("Info", 20),
];

/// What a client does, by the word that servers have for it.
pub(super) fn command_of(person: &Person) -> &'static str {
    match (&person.work, person.state) {
        (_, ClientState::Reading) => "Sleep",
        (Some(work), _) if work.is_execute => "Execute",
        _ => "Query",
    }
}

pub(super) fn processlist(outside: &Outside, surveyed: &Surveyed, table: &mut Table) {
    for report in &surveyed.reports {
        for person in &report.clients {
            let digest = person.work.as_ref().and_then(|work| work.digest);
            let row: [Value; 13] = [
                person.id.into(),
                person.user.clone().into(),
                person.address.map_or_else(|| "localhost".to_owned(), |it| it.to_string()).into(),
                person.schema.clone().into(),
                server_name(outside, person.server).into(),
                command_of(person).into(),
                person.changed.as_secs().into(),
                (person.changed.as_secs_f64() * 1e3).into(),
                person.state.name().into(),
                person.wait.into(),
                person.work.as_ref().and_then(|work| work.text.clone()).into(),
                digest.map(|digest| format!("{digest:016x}")).into(),
                person.backend.into(),
            ];
            table.add(row);
        }
    }
}

pub(super) const BACKENDS: &[Column] = &[
    count("id"),
    text("server"),
    text("user"),
    text("kind"),
    text("state"),
    real("age_seconds"),
    count("client"),
    count("in_flight"),
    count("prepared"),
    count("worker"),
];

pub(super) const BACKENDS_NARROW: &[Narrow] = &[
    plain("id"),
    cut("server", 14),
    cut("user", 14),
    plain("kind"),
    plain("state"),
    shown("age", "age_seconds", Form::Seconds),
    plain("client"),
    plain("in_flight"),
    plain("prepared"),
];

pub(super) fn backends(outside: &Outside, surveyed: &Surveyed, table: &mut Table) {
    for report in &surveyed.reports {
        for backend in &report.backends {
            table.add([
                backend.thread_id.into(),
                server_name(outside, backend.server).into(),
                backend.user.clone().into(),
                if backend.is_pooled { "pooled" } else { "pass-through" }.into(),
                backend.state.into(),
                backend.age.as_secs_f64().into(),
                backend.client.into(),
                backend.in_flight.into(),
                backend.prepared.into(),
                report.worker.into(),
            ]);
        }
    }
}

pub(super) const USERS: &[Column] = &[
    text("name"),
    text("kind"),
    text("from"),
    count("clients"),
    count("clients_max"),
    count("backends"),
    count("backends_busy"),
    count("connections_max"),
    text("routines"),
    text("triggers"),
    text("pins"),
];

pub(super) const USERS_NARROW: &[Narrow] = &[
    cut("name", 20),
    plain("kind"),
    plain("from"),
    plain("clients"),
    plain("clients_max"),
    plain("backends"),
    shown("busy", "backends_busy", Form::AsItIs),
    shown("backends_max", "connections_max", Form::AsItIs),
];

/// Users of the configuration, and others that are connected.
pub(super) fn users(outside: &Outside, surveyed: &Surveyed, table: &mut Table) {
    let plan = outside.shared.plan();
    let pools = pools_of_all(surveyed);
    for user in &plan.users {
        let pool = pools.get(user.name.as_str());
        let pooled = user.pooled.then_some(());
        table.add([
            user.name.clone().into(),
            if user.pooled { "pooled" } else { "pass-through" }.into(),
            "configuration".into(),
            pool.map_or(0, |pool| pool.clients).into(),
            user.clients_max.into(),
            pool.map_or(0, |pool| pool.backends).into(),
            pool.map_or(0, |pool| pool.backends_busy).into(),
            user.connections_max.into(),
            pooled.map(|()| format!("{:?}", user.routines).to_lowercase()).into(),
            pooled.map(|()| format!("{:?}", user.triggers).to_lowercase()).into(),
            pooled.map(|()| format!("{:?}", user.pins).to_lowercase()).into(),
        ]);
    }
    for (name, pool) in
        pools.iter().filter(|(name, _)| plan.users.iter().all(|it| it.name != **name))
    {
        let kind = if pool.pass_through == pool.clients && pool.clients > 0 {
            "pass-through"
        } else {
            "pooled"
        };
        let mut row: Vec<Value> = vec![
            (*name).to_owned().into(),
            kind.into(),
            "server".into(),
            pool.clients.into(),
            Value::Null,
            pool.backends.into(),
            pool.backends_busy.into(),
        ];
        row.resize(USERS.len(), Value::Null);
        table.rows.push(row);
    }
}

pub(super) const ROUTES: &[Column] = &[
    count("route"),
    text("mode"),
    text("listen"),
    text("users"),
    text("schemas"),
    text("classes"),
];

/// In the order in which they are tried. The last one is what holds for all others.
pub(super) fn routes(outside: &Outside, _: &Surveyed, table: &mut Table) {
    let plan = outside.shared.plan();
    for (at, route) in plan.routes.iter().enumerate() {
        let any = |texts: String| if texts.is_empty() { Value::from("any") } else { texts.into() };
        table.add([
            (at + 1).into(),
            format!("{:?}", route.mode).to_lowercase().into(),
            any(joined(&route.listen)),
            any(joined(&route.users)),
            any(joined(&route.schemas)),
            any(joined(&route.classes)),
        ]);
    }
}

pub(super) const LISTENERS: &[Column] =
    &[text("address"), text("kind"), text("tls"), text("protection")];

pub(super) fn listeners(outside: &Outside, _: &Surveyed, table: &mut Table) {
    let plan = outside.shared.plan();
    let tls = match plan.tls.mode {
        ClientTlsMode::Required => "required",
        _ if outside.shared.tls().clients.is_some() => "offered",
        _ => "off",
    };
    let is_unix = |listen: &Listen| matches!(listen, Listen::Unix(_));
    let mut add =
        |listen: &Listen, kind: &'static str, tls: &'static str, protection: &'static str| {
            table.add([listen.to_string().into(), kind.into(), tls.into(), protection.into()]);
        };
    for listen in &plan.listen {
        add(listen, "clients", tls, "users' passwords");
    }
    for listen in &plan.console.listen {
        let protection = match plan.console.password {
            _ if is_unix(listen) => "Flifo's own user",
            Some(_) => "console.password",
            None => "none: it only shows",
        };
        add(listen, "console", tls, protection);
    }
    for listen in &plan.http.listen {
        let protection =
            if plan.http.token.is_some() { "http.token" } else { "asked as localhost" };
        add(listen, "http", "off", protection);
    }
}

pub(super) const PREPARED: &[Column] = &[
    count("client"),
    text("user"),
    text("kind"),
    count("statements"),
    count("bytes"),
    count("backend"),
];

pub(super) fn prepared(_: &Outside, surveyed: &Surveyed, table: &mut Table) {
    let clients = surveyed.reports.iter().flat_map(|report| &report.clients);
    for person in clients.filter(|person| person.prepared.0 > 0) {
        table.add([
            person.id.into(),
            person.user.clone().into(),
            if person.is_pooled { "pooled" } else { "pass-through" }.into(),
            person.prepared.0.into(),
            person.prepared.1.into(),
            person.backend.into(),
        ]);
    }
}

pub(super) const MEMORY: &[Column] =
    &[text("name"), count("bytes"), count("bytes_max"), text("what_it_is")];

pub(super) fn memory(_: &Outside, surveyed: &Surveyed, table: &mut Table) {
    let mut add =
        |name: &'static str, bytes: Option<u64>, most: Option<u64>, what: &'static str| {
            table.add([name.into(), bytes.into(), most.into(), what.into()]);
        };
    add(
        "process",
        sys::heap::resident(),
        None,
        "resident memory of Flifo, with the programs' code",
    );
    let reports = &surveyed.reports;
    let rooms = |at: usize| {
        let sum = |of: fn(&crate::state::memory::RoomReport) -> usize| {
            reports.iter().map(|report| of(&report.rooms[at]) as u64).sum::<u64>()
        };
        (Some(sum(|room| room.claimed)), Some(sum(|room| room.room)))
    };
    let (claimed, room) = rooms(0);
    add("long_commands", claimed, room, "commands that are read as a whole, in all workers");
    let (claimed, room) = rooms(1);
    add("longest_commands", claimed, room, "the same, of those that no other room takes");
    let kept = reports.iter().flat_map(|report| &report.clients).map(|it| it.prepared.1 as u64);
    add(
        "prepared_statements",
        Some(kept.sum()),
        None,
        "texts of statements that clients have prepared",
    );
}
