//! What is noted of statements for the slow log and the audit log ([`crate::records`]): when they begin, and when their
//! clients have been answered.
//!
//! Where both logs are off, a statement costs one look at that.

use engine::account::name::UserName;
use view::audit::{AuditEntry, AuditKind, Fact};
use view::slow::SlowBackend;
use wire::command::Opcode;
use wire::text::Text;

use crate::fault::Fault;
use crate::records::{Noted, StatementEnd, ToldByRules};
use crate::state::backend::Backend;
use crate::state::client::Client;
use crate::state::command::Command;
use crate::state::in_flight::InFlight;
use crate::state::worker::Worker;

/// A command with this text begins.
#[inline]
pub(crate) fn begin(worker: &Worker, command: &Command, text: Text<'_>) -> Option<Box<Noted>> {
    let (noting, told) = (worker.learnt.noting.get(), told(command));
    if !noting.is_on() && !told.audit {
        return None;
    }
    noting.begin(text, crate::worker::clock::now(), next_number(worker), told)
}

/// What rules have told of a command.
#[inline]
fn told(command: &Command) -> ToldByRules {
    let ruled = command.rare.as_ref().and_then(|rare| rare.ruled.as_ref());
    ruled.map_or(ToldByRules::NONE, |ruled| ruled.told())
}

/// A pass-through client's command begins. `text`: that of a query.
#[inline]
pub(crate) fn begin_pass_through(
    worker: &Worker,
    command: &Command,
    opcode: Option<Opcode>,
    text: Option<Text<'_>>,
) -> Option<Box<Noted>> {
    let (noting, told) = (worker.learnt.noting.get(), told(command));
    if !noting.is_on() && !told.audit {
        return None;
    }
    let now = crate::worker::clock::now();
    match text {
        Some(text) => noting.begin(text, now, next_number(worker), told),
        // Which statement it executes, only the server knows.
        None => noting.begin_command(opcode?.name(), now, next_number(worker)),
    }
}

fn next_number(worker: &Worker) -> u64 {
    let number = worker.learnt.noted.get();
    worker.learnt.noted.set(number.wrapping_add(1));
    number
}

/// The server has answered a statement.
pub(crate) fn see_end(
    worker: &Worker,
    backend: &Backend,
    client: &Client,
    flight: &InFlight,
    noted: Noted,
) {
    let end = StatementEnd {
        rows: flight.follower.rows(),
        affected: flight.affected,
        error: flight.failed.then(|| flight.error().map_or(0, |error| error.code)),
        backend: SlowBackend {
            server: worker.at(backend.server).server.name.clone(),
            id: Some(backend.thread_id),
        },
        sharers: flight.sharers,
    };
    finish(worker, client, noted, end, Some(flight.since));
}

/// A reply that was kept has answered a statement.
pub(crate) fn see_cached(worker: &Worker, client: &Client, noted: Noted, rows: u64) {
    let server = worker.at(client.routing.server.get()).server.name.clone();
    let backend = SlowBackend { server, id: None };
    finish(worker, client, noted, StatementEnd { rows, backend, ..StatementEnd::default() }, None);
}

/// Flifo has answered a statement with an error.
pub(crate) fn see_fault(worker: &Worker, client: &Client, noted: Noted, fault: &Fault) {
    let (error, _) = fault.code();
    let server = worker.at(client.routing.server.get()).server.name.clone();
    let backend = SlowBackend { server, id: None };
    let end = StatementEnd { error: Some(error), backend, ..StatementEnd::default() };
    finish(worker, client, noted, end, None);
}

fn finish(
    worker: &Worker,
    client: &Client,
    noted: Noted,
    end: StatementEnd,
    sent: Option<std::time::Instant>,
) {
    let now = crate::worker::clock::now();
    let parts = noted.parts(sent, now);
    let records = &worker.shared.records;
    if let Some(kind) = noted.audited {
        let mut facts = vec![("server", Fact::Text(end.backend.server.clone()))];
        let schema = client.session.borrow().schema.as_ref().map(|schema| shown(schema));
        facts.extend(schema.map(|schema| ("schema", Fact::Text(schema))));
        facts.push(("seconds", Fact::Seconds(parts.sum())));
        facts.push(("ok", Fact::Is(end.error.is_none())));
        facts.extend(end.error.map(|error| ("error", Fact::Number(error.into()))));
        let text = Some(noted.text.clone());
        records.tell_surely(now, AuditEntry { text, ..of_client(client, kind, facts) });
    }
    client.logged.ended.set(noted.end(parts, end, now, &records.slow));
}

/// Something that a client did.
pub(crate) fn of_client(
    client: &Client,
    kind: AuditKind,
    facts: Vec<(&'static str, Fact)>,
) -> AuditEntry {
    AuditEntry {
        kind,
        client: Some(client.id),
        user: Some(named(&client.user.borrow())),
        address: client.peer.map(|peer| peer.ip()),
        facts,
        text: None,
    }
}

/// A client has logged in, or become another user.
pub(crate) fn see_login(worker: &Worker, client: &Client) {
    let plan = worker.plan();
    let facts = || {
        let schema = client.session.borrow().schema.as_ref().map(|schema| shown(schema));
        let kind = if client.has_key() { "pooled" } else { "pass-through" };
        let mut facts = vec![("mode", Fact::Text(kind.to_owned()))];
        facts.push(("tls", Fact::Is(client.stream.is_tls())));
        facts.extend(schema.map(|schema| ("schema", Fact::Text(schema))));
        facts
    };
    let (now, kind) = (crate::worker::clock::now(), AuditKind::Logins);
    worker.shared.records.tell(&plan, now, kind, || of_client(client, kind, facts()));
}

/// A client is not let into the schema that its login names.
pub(crate) fn see_no_login(worker: &Worker, client: &Client, code: u16, message: &str) {
    let facts =
        || vec![("error", Fact::Number(code.into())), ("message", Fact::Text(message.to_owned()))];
    let (now, kind) = (crate::worker::clock::now(), AuditKind::Refusals);
    worker.shared.records.tell(&worker.plan(), now, kind, || of_client(client, kind, facts()));
}

/// A client has gone.
pub(crate) fn see_logout(worker: &Worker, client: &Client) {
    let (now, kind) = (crate::worker::clock::now(), AuditKind::Logouts);
    let since = now.saturating_duration_since(client.logged.since);
    let facts = || vec![("seconds", Fact::Seconds(since))];
    worker.shared.records.tell(&worker.plan(), now, kind, || of_client(client, kind, facts()));
}

pub(crate) fn named(user: &UserName) -> String {
    shown(user.as_bytes())
}

pub(crate) fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
