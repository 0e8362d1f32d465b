//! What a link still owes the clients that have used it: their last insert ids, and how many rows they have found. Only
//! the link knows, so it is asked before somebody else changes that; the questions go ahead of his statement.
//!
//! Invariant: a client that waits for such an answer is resumed when it has come, or when it never will.

use std::rc::Rc;

use engine::insert_id::{InsertId, OnLink};
use engine::link_state::LinkState;
use wire::response::OkPacket;
use wire::rows;
use wire::tracker::{Change, Changes};

use crate::links::{Flight, Link, Purpose, Said};
use crate::road::client::{Client, Turn};
use crate::road::command::Awaits;
use crate::road::facts::Facts;
use crate::road::fixups::{self, FixUp};
use crate::worker::{Mail, Worker};

/// Has the server report what it has; nothing else would say whether an insert has given its number itself.
const CAPTURE: &str = "SET last_insert_id=LAST_INSERT_ID()";

/// How many rows the last statement has found that has found some.
const FOUND: &str = "SELECT FOUND_ROWS()";

/// The same, and the last insert id.
const FOUND_AND_ID: &str = "SELECT FOUND_ROWS(), LAST_INSERT_ID()";

/// Whether the link must be asked for its last user's last insert id before this client uses it.
pub(crate) fn insert_id(
    worker: &Worker,
    client: &Client,
    facts: &Facts,
    own: InsertId,
    state: &LinkState,
) -> Option<u32> {
    if facts.keeps_insert_id() {
        return None;
    }
    let is_own = |inserter: u32| inserter == client.id && own.is_on(state.id);
    let inserter = state.inserter.filter(|it| !is_own(*it) && !state.insert_id.is_known())?;
    let clients = worker.clients.borrow();
    let owes =
        clients.get(&inserter).is_some_and(|it| it.session.borrow().insert_id.is_on(state.id));
    // What may insert must know what is there already; if it asks for messages as well, its number is lost.
    let may_insert = facts.read.is_none() && !facts.messages.are_asked_for();
    (owes || may_insert).then_some(inserter)
}

/// Whether the link must be asked how many rows its last user has found, before this client uses it.
pub(crate) fn found(worker: &Worker, client: &Client, state: &LinkState) -> Option<u32> {
    let finder = state.finder.filter(|finder| *finder != client.id)?;
    let clients = worker.clients.borrow();
    let owes = |it: &Rc<Client>| it.session.borrow().counts.are_found_on(state.id);
    clients.get(&finder).is_some_and(owes).then_some(finder)
}

/// The question for this client's last insert id.
pub(crate) const fn ask(inserter: u32) -> FixUp {
    FixUp::query(Purpose::Capture(inserter), CAPTURE)
}

/// The question for how many rows this client has found; and with it for the last insert id of another one.
pub(crate) const fn ask_found(finder: u32, inserter: Option<u32>) -> FixUp {
    let text = if inserter.is_some() { FOUND_AND_ID } else { FOUND };
    FixUp::query(Purpose::Found { finder, inserter }, text)
}

/// A question has been answered. False: it was something else.
pub(crate) fn finish(worker: &Worker, link: &Link, flight: &Flight) -> bool {
    match flight.purpose {
        // Who comes behind it is not concerned.
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
        (Some(finder), inserter) => fixups::send(link, ask_found(finder, inserter)),
        (None, Some(inserter)) => ask_insert_id(inserter, link),
        (None, None) => return false,
    }
    true
}

/// Asks a link that nobody uses.
pub(crate) fn ask_insert_id(client: u32, link: &Link) {
    fixups::send(link, ask(client));
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
