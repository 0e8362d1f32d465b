//! What a link still owes the clients that have used it: their last insert ids, and how many rows they have found. Only
//! the link knows, so it is asked before another client's statement changes that; the questions go ahead of that
//! statement.
//!
//! Invariant: a client that waits for such an answer is resumed when it has come, or when it never will.

use engine::insert_id::OnLink;
use engine::session::setup::{Purpose, Setup};
use wire::response::OkPacket;
use wire::rows;
use wire::tracker::{Change, Changes};

use crate::dispatch::backend::{AfterAnswers, Link};
use crate::dispatch::client::{Client, Turn};
use crate::dispatch::command::Awaits;
use crate::dispatch::in_flight::{Flight, Said};
use crate::dispatch::session_setup;
use crate::dispatch::worker::{Mail, Worker};

/// A question has been answered. False: it was something else.
pub(crate) fn finish(worker: &Worker, link: &Link, flight: &Flight) -> bool {
    match flight.purpose {
        // The client whose statement comes behind it is not concerned.
        Purpose::Capture(client) if flight.failed => could_not_say(worker, client, link, flight),
        Purpose::Capture(_) => {}
        Purpose::Found { finder, inserter } => {
            let [rows, id] = numbers(flight);
            learn_found(worker, link, finder, rows);
            match inserter {
                Some(inserter) if flight.failed => could_not_say(worker, inserter, link, flight),
                Some(inserter) => learn_insert_id(worker, inserter, link, id),
                None => {}
            }
        }
        _ => return false,
    }
    true
}

/// The numbers that a link has answered with.
fn numbers(flight: &Flight) -> [Option<u64>; 2] {
    match &flight.said {
        Said::Numbers(numbers) => *numbers,
        said => rows::numbers(said.reply()),
    }
}

/// A link has said how many rows a client has found.
fn learn_found(worker: &Worker, link: &Link, client: u32, rows: Option<u64>) {
    let Some(client) = worker.clients.borrow().get(&client).cloned() else { return };
    let mut session = client.session.borrow_mut();
    if let Some(rows) = rows.filter(|_| session.counts.are_found_on(link.id)) {
        session.counts.tell_found(rows);
    }
    session.counts.lose(link.id);
    drop(session);
    if client.awaits().is_some_and(Awaits::reads_again) && client.turn.get() == Turn::Preparation {
        worker.shared.mail(worker.index, Mail::Resume(client.id));
    }
}

/// Whether another client's link has been asked how many rows this one has found.
pub(crate) fn is_asked_elsewhere(worker: &Worker, client: &Client) -> bool {
    let asks = |flight: &Flight| matches!(flight.purpose, Purpose::Found { finder, .. } if finder == client.id);
    worker.links.borrow().values().any(|link| link.flights.borrow().iter().any(|it| asks(it)))
}

/// A link has said what a client's last insert id is.
pub(crate) fn capture(worker: &Worker, link: &Link, client: u32, ok: &OkPacket<'_>) {
    let value = Changes::new(ok.changes).flatten().find_map(|change| match change {
        Change::Variable { name: b"last_insert_id", value } => {
            std::str::from_utf8(value).ok()?.parse().ok()
        }
        _ => None,
    });
    learn_insert_id(worker, client, link, value);
}

fn learn_insert_id(worker: &Worker, client: u32, link: &Link, value: Option<u64>) {
    if let Some(value) = value {
        let mut state = link.state.borrow_mut();
        state.insert_id = OnLink::known(value);
        state.inserter = None;
    }
    settle(worker, client, link, value);
}

/// A link was to say what a client's last insert id is, and has failed.
fn could_not_say(worker: &Worker, client: u32, link: &Link, flight: &Flight) {
    if link.can_be_asked() && was_interrupted(flight) {
        // A `KILL` that was meant for the statement before it: what the link has is as it was.
        return ask_insert_id(client, link);
    }
    settle(worker, client, link, None);
}

/// Asks a link that is to be closed, or to go to another worker, for what it alone knows of clients. True: it answers.
pub(crate) fn ask_before_end(worker: &Worker, link: &Link) -> bool {
    let clients = worker.clients.borrow();
    let state = link.state.borrow();
    let knows = |id: &u32, ask: fn(&Client, u64) -> bool| {
        clients.get(id).is_some_and(|client| ask(client, link.id))
    };
    let inserter =
        state.inserter.filter(|id| knows(id, |it, link| it.session.borrow().insert_id.is_on(link)));
    let found = |it: &Client, link: u64| it.session.borrow().counts.are_found_on(link);
    let finder = state.finder.filter(|id| knows(id, found));
    drop((clients, state));
    match (finder, inserter) {
        _ if link.is_closing() => return false,
        (Some(finder), inserter) => session_setup::send(link, Setup::found(finder, inserter)),
        (None, Some(inserter)) => ask_insert_id(inserter, link),
        (None, None) => return false,
    }
    true
}

/// Asks a link for this client's last insert id.
pub(crate) fn ask_insert_id(client: u32, link: &Link) {
    session_setup::send(link, Setup::capture(client));
}

fn settle(worker: &Worker, client: u32, link: &Link, said: Option<u64>) {
    let Some(client) = worker.clients.borrow().get(&client).cloned() else { return };
    let own = client.session.borrow().insert_id;
    client.session.borrow_mut().insert_id = own.resolve(link.id, said);
    if client.awaits() == Some(Awaits::InsertId) {
        worker.shared.mail(worker.index, Mail::Resume(client.id));
    }
}

/// Whether the server has not run it, because it was killed (`ER_QUERY_INTERRUPTED`).
fn was_interrupted(flight: &Flight) -> bool {
    flight.error().is_some_and(|error| error.code == 1317)
}

/// Closes a link that no client uses. First asks it for what it alone knows of a client.
pub(crate) fn retire(worker: &Worker, link: &Link) {
    if ask_before_end(worker, link) {
        link.then.set(AfterAnswers::Close);
    } else {
        link.close();
    }
}
