//! What becomes of a client that has passed a limit of time: of its statement, its transaction, its connection.
//!
//! Which limit holds, and when it is passed, [`engine::time_limits`] decides; [`crate::upkeep::ages`] looks at all
//! clients. A statement that runs is killed, and its client gets the server's error for that in the reply's place. A
//! client at rest is told and ended; what it has left on its backend is undone as behind any client that goes
//! ([`crate::road::leaving`]). Invariant: a client that has passed a limit with a statement has its answer within
//! [`PATIENCE`] beyond that, whatever its server does.

use std::rc::Rc;
use std::time::{Duration, Instant};

use engine::kill::Scope;
use engine::time_limits::{Doing, Limit, LimitSource, PassedLimit, TimeLimits, Timed};

use crate::answers::interrupted::{interrupted, kind, limit_by_rule, option, running};
use crate::answers::notes;
use crate::fault::Fault;
use crate::road::ending;
use crate::road::kill;
use crate::state::backend::Backend;
use crate::state::client::Client;
use crate::state::client_state::ClientState;
use crate::state::worker::Worker;

/// How long a server may take to end a statement that it was told to; then its backend is closed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// The limit that a client passes next, and in how long.
pub(crate) fn due(limits: &TimeLimits, client: &Client, now: Instant) -> Option<(Duration, Limit)> {
    if client.is_closing() {
        return None;
    }
    let (running, class) = running(client);
    let is_open = client.session.borrow().in_transaction();
    let doing = Doing {
        idle: rests(client).then(|| client.times.changed.get()),
        running,
        transaction: is_open
            .then(|| client.times.transaction.get().unwrap_or_else(|| client.times.changed.get())),
        connected: Some(client.logged.since),
    };
    let user = client.user.borrow();
    let by_rule = running.and_then(|_| limit_by_rule(client)).map(|(limit, _)| limit);
    doing.first(now, |timed| match timed {
        Timed::Statement => Limit::narrower(limits.find(timed, user.as_bytes(), class), by_rule),
        _ => limits.find(timed, user.as_bytes(), client.class.get()),
    })
}

/// Whether the client may send a command, and has not begun to.
fn rests(client: &Client) -> bool {
    client.state() == ClientState::Reading && !client.input.is_sending() && !client.is_draining()
}

/// The client has passed this limit.
pub(crate) fn pass(worker: &Rc<Worker>, client: &Rc<Client>, limit: Limit, now: Instant) {
    let is_open = client.session.borrow().in_transaction();
    match limit.timed {
        Timed::Statement => interrupt(worker, client, limit, now),
        Timed::Transaction if running(client).0.is_some() => interrupt(worker, client, limit, now),
        Timed::Transaction | Timed::IdleTransaction if rests(client) => {
            end(worker, client, limit);
        }
        Timed::ClientAge if rests(client) && !is_open => end(worker, client, limit),
        // It ends behind the statement at hand.
        Timed::ClientAge if !client.times.passed.is_some() => {
            client.times.passed.set(Some(PassedLimit { limit, at: now }));
        }
        Timed::Transaction | Timed::IdleTransaction | Timed::ClientAge => {}
    }
}

/// Ends a client at rest.
fn end(worker: &Worker, client: &Client, limit: Limit) {
    write_line(worker, client, limit, "ended: a client has passed a limit");
    let option = option(worker, client, limit);
    let (kind, max) = (kind(limit.timed), limit.max);
    let why = match limit.timed {
        Timed::IdleTransaction => format!(
            "of inactivity in its transaction, which is rolled back: it asked nothing for {max:?}"
        ),
        Timed::ClientAge => format!("it was connected for {max:?}"),
        Timed::Statement | Timed::Transaction => {
            format!("its transaction, which is rolled back, was open for {max:?}")
        }
    };
    let message = format!("The client was disconnected by Flifo because {why} ({option})");
    ending::end_client(worker, client, &Fault::new(kind, message));
}

/// Has the server end the statement that runs, where Flifo knows how to log in; else its backend is closed. A server
/// that waits for the rest of a command, or of a file, cannot be told.
fn interrupt(worker: &Rc<Worker>, client: &Rc<Client>, limit: Limit, now: Instant) {
    let Some(backend) = client.backend() else { return };
    if let Some(passed) = client.times.passed.get().filter(PassedLimit::ends_statement) {
        return see_patience(worker, client, &backend, passed, now);
    }
    if limit.source == LimitSource::Rule {
        client.times.rule.set(limit_by_rule(client).map(|(_, rule)| rule.into()));
    }
    write_line(worker, client, limit, "killed: a statement has passed a limit");
    if backend.key.get().is_some() && !client.input.is_sending() {
        worker.count_fault(kind(limit.timed));
        client.times.passed.set(Some(PassedLimit { limit, at: now }));
        kill::kill_on(worker, &backend, Scope::Query);
    } else {
        ending::cut_off(worker, client, &interrupted(worker, client, limit));
    }
}

/// The server has been told to end the statement, and has not done so yet.
fn see_patience(
    worker: &Worker,
    client: &Client,
    backend: &Backend,
    passed: PassedLimit,
    now: Instant,
) {
    if now.saturating_duration_since(passed.at) >= PATIENCE {
        let what = "closed: a server does not end a statement that has passed a limit";
        write_line(worker, client, passed.limit, what);
        backend.close();
    }
}

/// The client ends behind the reply that it has just been written.
pub(crate) fn end_behind(worker: &Worker, client: &Client, limit: Limit) {
    match limit.timed {
        Timed::ClientAge => end(worker, client, limit),
        // It has been told in the reply's place.
        Timed::Statement | Timed::Transaction | Timed::IdleTransaction => client.close(),
    }
}

/// Writes a line of the log, unless there were many a moment ago.
fn write_line(worker: &Worker, client: &Client, limit: Limit, what: &'static str) {
    let now = crate::worker::clock::now();
    let Some(left_out) = worker.upkeep.limit_lines.borrow_mut().write(now) else { return };
    let took = match limit.timed {
        Timed::Statement => running(client).0,
        Timed::Transaction => client.times.transaction.get(),
        Timed::IdleTransaction => Some(client.times.changed.get()),
        Timed::ClientAge => Some(client.logged.since),
    };
    let took = now.saturating_duration_since(took.unwrap_or(now));
    let digest = digest(client);
    let text = digest.and_then(|digest| worker.learnt.tally.text(digest));
    tracing::info!(
        client = client.id,
        user = notes::named(&client.user.borrow()),
        address = client
            .peer
            .map_or_else(|| "a Unix socket".to_owned(), |peer| peer.to_string()),
        limit = option(worker, client, limit),
        max = ?limit.max,
        took = ?took,
        digest = digest.map(|digest| format!("{digest:016x}")),
        statement = text,
        left_out = Some(left_out).filter(|count| *count > 0),
        "{what}"
    );
}

/// The digest of the statement that runs, else of the last one.
fn digest(client: &Client) -> Option<u64> {
    let running = client.backend().and_then(|backend| {
        let flights = backend.in_flight.borrow();
        let own = flights.iter().find(|flight| flight.is_of(client));
        own.and_then(|flight| Some(flight.command.as_ref()?.begun?.place.digest()))
    });
    running.or_else(|| Some(client.logged.last_digest.get()).filter(|digest| *digest != 0))
}
