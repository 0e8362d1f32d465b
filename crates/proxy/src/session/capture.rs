//! What a backend still owes the clients that have used it: their last insert ids, and how many rows they have found.
//! Only the backend knows, so it is asked before another client's statement changes that; the questions go ahead of
//! that statement.
//!
//! Invariant: a client that waits for such an answer is resumed when it has come, or when it never will.

use std::rc::Rc;

use engine::insert_id::OnBackend;
use engine::numbers::NumberMap;
use engine::session::setup::{Purpose, Setup};
use wire::response::OkPacket;
use wire::rows;
use wire::tracker::{Change, Changes};

use crate::session::session_setup;
use crate::state::backend::Backend;
use crate::state::client::Client;
use crate::state::command::Awaits;
use crate::state::fate::AfterAnswers;
use crate::state::in_flight::{InFlight, Said};
use crate::state::shared::Mail;
use crate::state::worker::Worker;

/// A question has been answered. False: it was something else.
pub(crate) fn finish(worker: &Worker, backend: &Backend, flight: &InFlight) -> bool {
    match flight.purpose {
        // The client whose statement comes behind it is not concerned.
        Purpose::AskInsertId(client) if flight.failed => {
            could_not_say(worker, client, backend, flight)
        }
        Purpose::AskInsertId(_) => {}
        Purpose::Found { finder, inserter } => {
            let [rows, id] = numbers(flight);
            learn_found(worker, backend, finder, rows);
            match inserter {
                Some(inserter) if flight.failed => could_not_say(worker, inserter, backend, flight),
                Some(inserter) => learn_insert_id(worker, inserter, backend, id),
                None => {}
            }
        }
        _ => return false,
    }
    true
}

/// The numbers that a backend has answered with.
fn numbers(flight: &InFlight) -> [Option<u64>; 2] {
    match &flight.said {
        Said::Numbers(numbers) => *numbers,
        said => rows::numbers(said.reply()),
    }
}

/// A backend has said how many rows a client has found.
fn learn_found(worker: &Worker, backend: &Backend, client: u32, rows: Option<u64>) {
    let Some(client) = worker.clients.borrow().get(&client).cloned() else { return };
    let mut session = client.session.borrow_mut();
    if let Some(rows) = rows.filter(|_| session.counts.are_found_on(backend.id)) {
        session.counts.tell_found(rows);
    }
    session.counts.lose(backend.id);
    drop(session);
    // That of a reset is not over with this.
    let waits = |it: Awaits| it.reads_again() && it != Awaits::Reset;
    if client.awaits().is_some_and(waits) {
        worker.shared.mail(worker.index, Mail::Resume(client.id));
    }
}

/// Whether another client's backend has been asked how many rows this one has found.
pub(crate) fn is_asked_elsewhere(worker: &Worker, client: &Client) -> bool {
    let asks = |flight: &InFlight| matches!(flight.purpose, Purpose::Found { finder, .. } if finder == client.id);
    worker
        .backends
        .borrow()
        .values()
        .any(|backend| backend.in_flight.borrow().iter().any(|it| asks(it)))
}

/// A backend has said what a client's last insert id is.
pub(crate) fn capture(worker: &Worker, backend: &Backend, client: u32, ok: &OkPacket<'_>) {
    let value = Changes::new(ok.changes).flatten().find_map(|change| match change {
        Change::Variable { name: b"last_insert_id", value } => {
            std::str::from_utf8(value).ok()?.parse().ok()
        }
        _ => None,
    });
    learn_insert_id(worker, client, backend, value);
}

fn learn_insert_id(worker: &Worker, client: u32, backend: &Backend, value: Option<u64>) {
    if let Some(value) = value {
        let mut state = backend.session.borrow_mut();
        state.insert_id = OnBackend::known(value);
        state.inserter = None;
    }
    settle(worker, client, backend, value);
}

/// A backend was to say what a client's last insert id is, and has failed.
fn could_not_say(worker: &Worker, client: u32, backend: &Backend, flight: &InFlight) {
    if backend.can_be_asked() && was_interrupted(flight) {
        // A `KILL` that was meant for the statement before it: what the backend has is as it was.
        return ask_insert_id(client, backend);
    }
    settle(worker, client, backend, None);
}

/// Asks a backend that is to be closed, or to go to another worker, for what it alone knows of clients. True: it
/// answers.
pub(crate) fn ask_before_end(worker: &Worker, backend: &Backend) -> bool {
    let clients = worker.clients.borrow();
    let state = backend.session.borrow();
    let knows = |id: &u32, ask: fn(&Client, u64) -> bool| {
        clients.get(id).is_some_and(|client| ask(client, backend.id))
    };
    let inserter = state
        .inserter
        .filter(|id| knows(id, |it, backend| it.session.borrow().insert_id.is_on(backend)));
    drop(state);
    let finder = finder(&clients, backend);
    drop(clients);
    match (finder, inserter) {
        _ if backend.is_closing() => return false,
        (Some(finder), inserter) => session_setup::send(backend, Setup::found(finder, inserter)),
        (None, Some(inserter)) => ask_insert_id(inserter, backend),
        (None, None) => return false,
    }
    true
}

/// The client of which only this backend knows how many rows it has found.
pub(crate) fn finder(clients: &NumberMap<u32, Rc<Client>>, backend: &Backend) -> Option<u32> {
    let finder = backend.session.borrow().finder?;
    let client = clients.get(&finder)?;
    client.session.borrow().counts.are_found_on(backend.id).then_some(finder)
}

/// Asks a backend for this client's last insert id.
pub(crate) fn ask_insert_id(client: u32, backend: &Backend) {
    session_setup::send(backend, Setup::capture(client));
}

fn settle(worker: &Worker, client: u32, backend: &Backend, said: Option<u64>) {
    let Some(client) = worker.clients.borrow().get(&client).cloned() else { return };
    let own = client.session.borrow().insert_id;
    client.session.borrow_mut().insert_id = own.resolve(backend.id, said);
    if client.awaits() == Some(Awaits::InsertId) {
        worker.shared.mail(worker.index, Mail::Resume(client.id));
    }
}

/// Whether the server has not run it, because it was killed (`ER_QUERY_INTERRUPTED`).
fn was_interrupted(flight: &InFlight) -> bool {
    flight.error().is_some_and(|error| error.code == 1317)
}

/// Closes a backend that no client uses. First asks it for what it alone knows of a client.
pub(crate) fn retire(worker: &Worker, backend: &Backend) {
    if ask_before_end(worker, backend) {
        backend.fate.then.set(AfterAnswers::Close);
    } else {
        backend.close();
    }
}
