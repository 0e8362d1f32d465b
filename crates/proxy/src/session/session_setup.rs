//! Session setup: what a backend is told or asked in the same write as the statement that needs it.
//!
//! A statement behind a setup that fails runs regardless. So a setup goes ahead unanswered only where that does no
//! harm: variables by a text that the server has accepted before, a schema by way of one that no statement can do
//! anything to. If it fails all the same, the client gets an error in place of whatever its statement brings
//! ([`crate::road::lost_backend::spoil`]), the statement is killed, and the backend is dropped.
//!
//! Behind a `SET` whose effect the server does not report goes a probe that has it report; the client may go on when
//! that has been answered ([`crate::road::own_replies`]).

use engine::backend_session::BackendSession;
use engine::intent::{SetMark, Sets};
use engine::pin::Pin;
use engine::session::Session;
use engine::session::observe::{self, Answer};
use engine::session::plan::{OtherClients, Pair, Plan, Request};
use engine::session::setup::{Purpose, Setup};
use engine::session_variables::Collates;
use wire::Capabilities;
use wire::command::Opcode;
use wire::frame::{HEADER, put_joined};
use wire::reply::Follower;

use crate::state::backend::Backend;
use crate::state::client::Client;
use crate::state::command::Command;
use crate::state::in_flight::InFlight;
use crate::state::worker::Worker;
use crate::worker::outbox;
use crate::worker::steps::step;

/// Ends what a client has made of its backend's reports.
pub(crate) const REPORT: &str = "SET session_track_system_variables='*'";

/// What this backend must be told before a command of this client.
pub(crate) fn plan(
    worker: &Worker,
    client: &Client,
    backend: &Backend,
    command: &Command,
    opcode: Opcode,
    packet: &[u8],
) -> Plan {
    step!("plan");
    let request = Request {
        opcode,
        payload: &packet[HEADER..],
        is_part: client.input.is_part(),
        facts: &command.facts,
        found: &command.found,
    };
    let (session, state) = (client.session.borrow(), backend.session.borrow());
    let (mut known, mut interned) = (backend.known.borrow_mut(), worker.pool.interned.borrow_mut());
    pair(worker, client, backend, &session, &state).plan(&mut known, request, &mut interned)
}

/// Whether this backend counts something of Flifo's own before the command; see [`Pair::counts_anew`].
pub(crate) fn counts_anew(
    worker: &Worker,
    client: &Client,
    command: &Command,
    backend: &Backend,
) -> Option<bool> {
    let (session, state) = (client.session.borrow(), backend.session.borrow());
    pair(worker, client, backend, &session, &state).counts_anew(&command.facts)
}

pub(crate) fn pair<'a>(
    worker: &'a Worker,
    client: &Client,
    backend: &Backend,
    session: &'a Session,
    state: &'a BackendSession,
) -> Pair<'a> {
    let facts = &worker.at(backend.server).server.facts;
    Pair {
        session,
        backend: state,
        client: client.id,
        thread_id: backend.thread_id,
        is_mysql: facts.is_mysql(),
        is_mariadb: facts.is_mariadb(),
        sends_several: client.capabilities_now().has(Capabilities::MULTI_STATEMENTS),
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
pub(crate) fn send_for(client: &Client, backend: &Backend, setup: Setup) {
    match setup.purpose {
        Purpose::Begin => client.session.borrow_mut().tell_begin(),
        Purpose::Found { .. } => backend.session.borrow_mut().finder = None,
        _ => {}
    }
    see_ahead(client, backend, &setup.purpose);
    send(backend, setup);
}

/// Before a client's statement, its backend is told or asked this, and counts that.
pub(crate) fn see_ahead(client: &Client, backend: &Backend, purpose: &Purpose) {
    let counts = &mut client.session.borrow_mut().counts;
    match purpose {
        // These are rows of their own, or diagnostics.
        Purpose::Found { .. } | Purpose::Clear | Purpose::Diagnostics | Purpose::Nothing => {
            counts.lose(backend.id)
        }
        _ => counts.see_none_affected(backend.id),
    }
}

/// Sends what goes ahead of a statement, or behind it. Its reply goes to no client.
pub(crate) fn send(backend: &Backend, setup: Setup) {
    let Setup { purpose, opcode, body } = setup;
    let follower = Follower::new(opcode.shape(), backend.capabilities);
    backend.in_flight.borrow_mut().push_back(InFlight::new(follower, purpose));
    send_bytes(backend, opcode, &body);
}

pub(crate) fn send_bytes(backend: &Backend, command: Opcode, body: &[u8]) {
    outbox::in_spare(|out| {
        put_joined(out, 0, &[&[command as u8], body]);
        backend.send_joined(out);
    });
}

/// Asks behind a statement that sets something, by this text, what it has set. On MySQL the question would clear the
/// diagnostics of a statement that fails or warns: there it is sent when that has ended.
pub(crate) fn send_probe(
    worker: &Worker,
    client: &Client,
    backend: &Backend,
    sets: Sets,
    text: Option<&[u8]>,
) {
    let Some(probe) = probe(worker, client, backend, sets, text) else { return };
    if !worker.is_mysql(client) {
        send(backend, probe);
    } else if let Some(flight) = backend.in_flight.borrow_mut().back_mut() {
        flight.probe = Some(Box::new(probe));
    }
}

/// What must be asked behind a statement that sets something, by this text.
pub(crate) fn probe(
    worker: &Worker,
    client: &Client,
    backend: &Backend,
    sets: Sets,
    text: Option<&[u8]>,
) -> Option<Setup> {
    if !sets.has(SetMark::Tracks) && sets.unreported.is_empty() {
        return None;
    }
    // Whatever a pinned client sets goes with its backend.
    if client.session.borrow().pin().is_some() {
        return None;
    }
    let text = text.filter(|_| sets.has(SetMark::Names));
    if let Some(text) = text
        && let Some(collation) = worker.pool.interned.borrow().collation(text)
    {
        backend.in_flight.borrow_mut().back_mut()?.collation = Some(collation);
        return None;
    }
    let state = backend.session.borrow();
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

/// Whether the backend is now what it was told to be.
pub(crate) fn is_done(worker: &Worker, backend: &Backend, flight: &InFlight) -> bool {
    let answer = Answer {
        failed: flight.failed,
        error: flight.error(),
        is_awaited: flight.client.is_some(),
    };
    let (mut state, mut interned) =
        (backend.session.borrow_mut(), worker.pool.interned.borrow_mut());
    observe::is_done(&mut state, &flight.purpose, answer, &mut interned)
}
