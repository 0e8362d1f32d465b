//! Session setup: what a link is told or asked in the same write as the statement that needs it.
//!
//! A statement behind a setup that fails runs regardless. So a setup goes ahead unanswered only where that does no harm:
//! variables by a text that the server has accepted before, a schema by way of one that no statement can do anything to. If
//! it fails all the same, the client gets an error in place of whatever its statement brings
//! ([`crate::dispatch::lost_backend::spoil`]), the statement is killed, and the link is dropped.
//!
//! Behind a `SET` whose effect the server does not report goes a probe that has it report; the client's turn comes when
//! that has been answered ([`crate::dispatch::own_replies`]).

use engine::intent::{SetMark, Sets};
use engine::link_state::LinkState;
use engine::pin::Pin;
use engine::session::Session;
use engine::session::observe::{self, Answer};
use engine::session::plan::{OtherClients, Pair, Plan, Request};
use engine::session::setup::{Purpose, Setup};
use engine::settings::Collates;
use wire::command::Opcode;
use wire::frame::{HEADER, put_joined};
use wire::reply::Follower;

use crate::dispatch::backend::Link;
use crate::dispatch::client::Client;
use crate::dispatch::command::Command;
use crate::dispatch::in_flight::Flight;
use crate::dispatch::worker::Worker;
use crate::worker::outbox;

/// Ends what a client has made of its link's reports.
pub(crate) const REPORT: &str = "SET session_track_system_variables='*'";

/// What this link must be told before a command of this client.
pub(crate) fn plan(
    worker: &Worker,
    client: &Client,
    link: &Link,
    command: &Command,
    opcode: Opcode,
    packet: &[u8],
) -> Plan {
    let request = Request {
        opcode,
        payload: &packet[HEADER..],
        is_part: client.input.is_part(),
        facts: &command.facts,
        found: &command.found,
    };
    let (session, state) = (client.session.borrow(), link.state.borrow());
    let (mut known, mut interned) = (link.known.borrow_mut(), worker.pool.interned.borrow_mut());
    pair(worker, client, link, &session, &state).plan(&mut known, request, &mut interned)
}

/// Whether this link counts something of Flifo's own before the command; see [`Pair::counts_anew`].
pub(crate) fn counts_anew(
    worker: &Worker,
    client: &Client,
    command: &Command,
    link: &Link,
) -> Option<bool> {
    let (session, state) = (client.session.borrow(), link.state.borrow());
    pair(worker, client, link, &session, &state).counts_anew(&command.facts)
}

pub(crate) fn pair<'a>(
    worker: &'a Worker,
    client: &Client,
    link: &Link,
    session: &'a Session,
    backend: &'a LinkState,
) -> Pair<'a> {
    let facts = &worker.at(link.server).server.facts;
    Pair {
        session,
        backend,
        client: client.id,
        thread_id: link.thread_id,
        is_mysql: facts.is_mysql(),
        is_mariadb: facts.is_mariadb(),
        others: worker,
    }
}

impl OtherClients for Worker {
    fn insert_id_is_on(&self, client: u32, backend: u64) -> bool {
        let clients = self.clients.borrow();
        clients.get(&client).is_some_and(|it| it.session.borrow().insert_id.is_on(backend))
    }

    fn found_is_on(&self, client: u32, backend: u64) -> bool {
        let clients = self.clients.borrow();
        clients.get(&client).is_some_and(|it| it.session.borrow().counts.are_found_on(backend))
    }
}

/// Sends what goes ahead of this client's statement.
pub(crate) fn send_for(client: &Client, link: &Link, fix_up: Setup) {
    match fix_up.purpose {
        Purpose::Begin => client.session.borrow_mut().tell_begin(),
        Purpose::Found { .. } => link.state.borrow_mut().finder = None,
        _ => {}
    }
    see_ahead(client, link, &fix_up.purpose);
    send(link, fix_up);
}

/// Before a client's statement, its link is told or asked this, and counts that.
pub(crate) fn see_ahead(client: &Client, link: &Link, purpose: &Purpose) {
    let counts = &mut client.session.borrow_mut().counts;
    match purpose {
        // These are rows of their own, or messages.
        Purpose::Found { .. } | Purpose::Clear | Purpose::Messages | Purpose::Nothing => {
            counts.lose(link.id)
        }
        _ => counts.see_none_affected(link.id),
    }
}

/// Sends what goes ahead of a statement, or behind it. Its reply goes to no client.
pub(crate) fn send(link: &Link, fix_up: Setup) {
    let Setup { purpose, opcode, body } = fix_up;
    let follower = Follower::new(opcode.shape(), link.capabilities);
    link.flights.borrow_mut().push_back(Flight::new(follower, purpose));
    send_bytes(link, opcode, &body);
}

pub(crate) fn send_bytes(link: &Link, command: Opcode, body: &[u8]) {
    outbox::in_spare(|out| {
        put_joined(out, 0, &[&[command as u8], body]);
        link.send_joined(out);
    });
}

/// Asks behind a statement that sets something, by this text, what it has set. On MySQL the question would clear the
/// messages of a statement that fails or warns: there it is sent when that has ended.
pub(crate) fn send_probe(
    worker: &Worker,
    client: &Client,
    link: &Link,
    sets: Sets,
    text: Option<&[u8]>,
) {
    let Some(probe) = probe(worker, client, link, sets, text) else { return };
    if !worker.is_mysql(client) {
        send(link, probe);
    } else if let Some(flight) = link.flights.borrow_mut().back_mut() {
        flight.probe = Some(Box::new(probe));
    }
}

/// What must be asked behind a statement that sets something, by this text.
pub(crate) fn probe(
    worker: &Worker,
    client: &Client,
    link: &Link,
    sets: Sets,
    text: Option<&[u8]>,
) -> Option<Setup> {
    if !sets.has(SetMark::Tracks) && sets.unreported.is_empty() {
        return None;
    }
    // Whatever a pinned client sets goes with its link.
    if client.session.borrow().pin().is_some() {
        return None;
    }
    let text = text.filter(|_| sets.has(SetMark::Names));
    if let Some(text) = text
        && let Some(collation) = worker.pool.interned.borrow().collation(text)
    {
        link.flights.borrow_mut().back_mut()?.collation = Some(collation);
        return None;
    }
    let state = link.state.borrow();
    let settings = state.settings();
    let probe = if sets.has(SetMark::Tracks) && client.session.borrow().has_characteristics() {
        // To set a transaction's variables to what they are ends what was said of the next one alone.
        None
    } else if sets.has(SetMark::Tracks) {
        // Some of it may have been set behind the end of the reports. Character sets that are asked for have their own
        // collation then.
        let has_sets = sets.collates != Collates::default();
        let asked = if has_sets { settings.all() } else { settings.unchanged() };
        let all = settings.probe(asked).filter(|_| !sets.has(SetMark::NamesCollation));
        all.and_then(|text| Some(format!("{REPORT}, {}", text.strip_prefix("SET ")?)))
    } else {
        settings.probe(sets.unreported)
    };
    drop(state);
    let Some(body) = probe else {
        worker.pin(client, Pin::Set);
        return None;
    };
    let purpose = Purpose::Probe(text.map(Box::from));
    Some(Setup::own_query(purpose, body))
}

/// Whether the link is now what it was told to be.
pub(crate) fn is_done(worker: &Worker, link: &Link, flight: &Flight) -> bool {
    let answer = Answer {
        failed: flight.failed,
        error: flight.error(),
        is_awaited: flight.client.is_some(),
    };
    let (mut state, mut interned) = (link.state.borrow_mut(), worker.pool.interned.borrow_mut());
    observe::is_done(&mut state, &flight.purpose, answer, &mut interned)
}
