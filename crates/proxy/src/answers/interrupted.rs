//! A statement that is to end because of a limit of time: which error its client gets, in which place, and what the
//! limit is called. Clients that pass one are ended in [`crate::road::time_limits`].

use std::time::Instant;

use engine::classes::ClassId;
use engine::intent::{Ends, Trait};
use engine::time_limits::{Limit, LimitSource, PassedLimit, Timed};

use crate::answers::notes;
use crate::fault::{Fault, Kind};
use crate::state::client::Client;
use crate::state::client_state::ClientState;
use crate::state::command::Command;
use crate::state::in_flight::InFlight;
use crate::state::worker::Worker;

/// Whether the client's statement is to end because of a limit.
pub(crate) fn is_passed(client: &Client) -> bool {
    client.times.passed.get().is_some_and(|passed| passed.ends_statement())
}

/// What the client is told whose backend was lost while its statement was to end. `None`: it was not.
pub(crate) fn lost(worker: &Worker, client: &Client) -> Option<Fault> {
    let passed = client.times.passed.take()?;
    passed.ends_statement().then(|| interrupted(worker, client, passed.limit))
}

/// Since when a client's statement runs, and of which class it is. One that was written behind others does not yet.
pub(crate) fn running(client: &Client) -> (Option<Instant>, ClassId) {
    let class = client.class.get();
    let (ClientState::Running, Some(backend)) = (client.state(), client.backend()) else {
        return (None, class);
    };
    // What its client does not read is no fault of the statement's.
    let flights = backend.in_flight.borrow();
    let own = flights.iter().find(|flight| flight.slot && flight.is_of(client));
    let Some(flight) = own.filter(|_| !client.is_draining()) else { return (None, class) };
    let named = flight.command.as_ref().and_then(|command| command.class);
    (Some(flight.since), named.unwrap_or(class))
}

/// How long rules let the statement run that a client runs, and the one that says so.
pub(crate) fn limit_by_rule(client: &Client) -> Option<(Limit, String)> {
    let backend = client.backend()?;
    let flights = backend.in_flight.borrow();
    let own = flights.iter().find(|flight| flight.slot && flight.is_of(client))?;
    let ruled = own.command.as_ref()?.rare.as_ref()?.ruled.as_ref()?;
    let (max, ready) = ruled.hits().statement_time()?;
    let limit = Limit { timed: Timed::Statement, max, source: LimitSource::Rule };
    Some((limit, ready.rule.name.clone()))
}

/// The error of the server's own for a statement that took too long.
pub(crate) fn interrupted(worker: &Worker, client: &Client, limit: Limit) -> Fault {
    let what = match limit.timed {
        Timed::Transaction => "its transaction was open",
        Timed::Statement | Timed::IdleTransaction | Timed::ClientAge => "it ran",
    };
    let why = format!("{what} for {:?} ({})", limit.max, option(worker, client, limit));
    let fault = match worker.is_mysql(client) {
        true => {
            let said = "Query execution was interrupted, maximum statement execution time exceeded";
            Fault::relayed(3024, "HY000", &format!("{said}: {why}"))
        }
        false => {
            let said = "Query execution was interrupted (max_statement_time exceeded)";
            Fault::relayed(1969, "70100", &format!("{said}: {why}"))
        }
    };
    fault.of_kind(kind(limit.timed))
}

/// The server's errors of a statement that was told to end: by `KILL QUERY`, and by the limits of MariaDB and MySQL.
const INTERRUPTED: [u16; 3] = [1317, 1969, 3024];

/// Tells a client of its limit in the place of the server's error, which is of a `KILL`. `before`: what of the reply it
/// has not got yet. False: the server's error is the client's.
pub(crate) fn tell_instead(
    worker: &Worker,
    flight: &InFlight,
    before: &[u8],
    sequence: u8,
) -> bool {
    let Some(client) = flight.listener() else { return false };
    let Some(passed) = client.times.passed.get().filter(PassedLimit::ends_statement) else {
        return false;
    };
    if !flight.error().is_some_and(|error| INTERRUPTED.contains(&error.code)) {
        return false;
    }
    client.write_with_next(before);
    client.write_with_next(&interrupted(worker, &client, passed.limit).packet(sequence));
    true
}

/// A client's command has been answered. The answer is a limit that ends the client now.
#[inline]
pub(crate) fn see_end(client: &Client, command: &Command, failed: bool) -> Option<Limit> {
    if let Some(begun) = command.begun {
        client.logged.last_digest.set(begun.place.digest());
    }
    let facts = &command.facts;
    let ends = facts.has(Trait::EndsTransaction) && facts.ends != Ends::Never;
    if !failed && (ends || facts.has(Trait::Begin)) {
        // If one is open now, it is another one.
        client.times.transaction.set(None);
    }
    if client.times.passed.is_some() { see_passed(client, failed) } else { None }
}

fn see_passed(client: &Client, failed: bool) -> Option<Limit> {
    let passed = client.times.passed.take()?;
    let is_open = client.session.borrow().in_transaction();
    match passed.limit.timed {
        Timed::ClientAge if is_open => {
            client.times.passed.set(Some(passed));
            None
        }
        Timed::ClientAge => Some(passed.limit),
        Timed::Transaction => Some(passed.limit).filter(|_| failed && is_open),
        Timed::Statement | Timed::IdleTransaction => None,
    }
}

pub(crate) const fn kind(timed: Timed) -> Kind {
    match timed {
        Timed::Statement => Kind::StatementTooLong,
        Timed::Transaction => Kind::TransactionTooLong,
        Timed::IdleTransaction => Kind::IdleInTransaction,
        Timed::ClientAge => Kind::ClientTooOld,
    }
}

/// The option that the limit comes from. Asks nothing of the client's backend, whose flights the caller may be changing.
pub(crate) fn option(worker: &Worker, client: &Client, limit: Limit) -> String {
    let name = limit.timed.name();
    match limit.source {
        LimitSource::All => format!("limits.{name}"),
        LimitSource::Rule => {
            let rule = client.times.rule.with(|rule| rule.to_string()).unwrap_or_default();
            format!("statement_time of the rule {rule:?}")
        }
        LimitSource::User => format!("users.{}.{name}", notes::named(&client.user.borrow())),
        LimitSource::Class(class) => {
            format!("classes.{}.{name}", worker.classes().get(class).name)
        }
    }
}
