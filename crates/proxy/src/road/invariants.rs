//! What holds of a worker whenever none of its tasks runs: each invariant is a function. A simulated world calls all of
//! them after each of its steps; debug builds, and so all tests, those of one client or backend behind each event of its.
//!
//! Knows how things hang together, and changes nothing. An answer is what is broken, one line each. Release builds have
//! none of it.

use std::rc::Rc;

use crate::state::backend::Backend;
use crate::state::client::Client;
use crate::state::client_state::{BackendState, ClientState};
use crate::state::worker::Worker;
#[cfg(debug_assertions)]
use crate::worker::wreckage;

/// All of them.
#[cfg(feature = "simulation")]
pub(crate) fn broken(worker: &Worker) -> Vec<String> {
    let mut broken = Vec::new();
    worker.backends.borrow().values().for_each(|it| broken.extend(of_backend(worker, it)));
    worker.clients.borrow().values().for_each(|it| broken.extend(of_client(worker, it)));
    if !worker.agenda.is_empty() {
        broken.push("what a statement has left was not worked off".to_owned());
    }
    broken
}

/// A client has dealt with what had come.
///
/// # Panics
/// If an invariant of it is broken, unless a panic broke it and what that has left was not given back yet.
#[cfg(debug_assertions)]
pub(crate) fn assert_client(worker: &Worker, client: &Rc<Client>) {
    if wreckage::is_left() {
        return;
    }
    let broken: Vec<_> = of_client(worker, client).collect();
    assert!(broken.is_empty(), "{}", broken.join("; "));
}

/// The same of a backend, and of the client that holds it.
///
/// # Panics
/// Likewise.
#[cfg(debug_assertions)]
pub(crate) fn assert_backend(worker: &Worker, backend: &Rc<Backend>) {
    if wreckage::is_left() {
        return;
    }
    let broken: Vec<_> = of_backend(worker, backend).collect();
    assert!(broken.is_empty(), "{}", broken.join("; "));
    let holder = backend.holder.borrow().clone();
    if let Some(client) = holder {
        assert_client(worker, &client);
    }
}

pub(super) fn of_backend(worker: &Worker, backend: &Rc<Backend>) -> impl Iterator<Item = String> {
    let checks = [held_by_one(worker, backend), slot_is_used(backend)];
    let (id, state) = (backend.id, backend.state());
    checks.into_iter().flatten().map(move |what| format!("backend {id} ({state:?}): {what}"))
}

pub(super) fn of_client(worker: &Worker, client: &Rc<Client>) -> impl Iterator<Item = String> {
    let checks = [
        waits_where_it_says(worker, client),
        has_its_command(client),
        has_its_backend(client),
        gets_one_reply(worker, client),
        never_waits_with_locks(client),
        owns_nothing_at_rest(client),
    ];
    let (id, state) = (client.id, client.state());
    checks.into_iter().flatten().map(move |what| format!("client {id} ({state:?}): {what}"))
}

/// A backend and the client that holds it name each other, and the client is there.
fn held_by_one(worker: &Worker, backend: &Rc<Backend>) -> Option<String> {
    let holder = backend.holder.borrow();
    let holder = holder.as_ref()?;
    let own = holder.backend();
    if !own.as_ref().is_some_and(|own| Rc::ptr_eq(own, backend)) {
        let own = own.map(|own| own.id);
        return Some(format!("client {} holds it, and says that it has {own:?}", holder.id));
    }
    let is_there = worker.clients.borrow().contains_key(&holder.id);
    (!is_there).then(|| format!("client {} holds it, and is gone", holder.id))
}

/// A slot belongs to something that runs.
fn slot_is_used(backend: &Backend) -> Option<String> {
    let is_used = !backend.in_flight.borrow().is_empty();
    (backend.has_slot() && !is_used).then(|| "it has a slot, and runs nothing".to_owned())
}

/// A client whose command waits for a server is among those that do.
fn waits_where_it_says(worker: &Worker, client: &Rc<Client>) -> Option<String> {
    let is_stranded =
        || worker.upkeep.stranded.borrow().iter().any(|it| Rc::ptr_eq(&it.client, client));
    (client.state() == ClientState::Stranded && !is_stranded())
        .then(|| "it is not among those that wait for a server".to_owned())
}

/// A command that was taken from its client went on, or was answered.
fn has_its_command(client: &Client) -> Option<String> {
    client.is_in_hand().then(|| "its command got lost".to_owned())
}

/// A client that has a backend holds it, or has something in flight there.
fn has_its_backend(client: &Rc<Client>) -> Option<String> {
    // A client that ends gives up its backend when its task runs next.
    let backend = client.backend().filter(|_| !client.is_closing());
    if let (ClientState::Reading, Some(backend)) = (client.state(), &backend) {
        let holder = backend.holder.borrow();
        let is_holder = holder.as_ref().is_some_and(|holder| Rc::ptr_eq(holder, client));
        if !is_holder {
            return Some(format!("backend {} is not its own", backend.id));
        }
        if backend.state() == BackendState::Closing {
            return Some(format!("backend {} is closed", backend.id));
        }
    }
    None
}

/// At most one command of a client is in flight.
fn gets_one_reply(worker: &Worker, client: &Rc<Client>) -> Option<String> {
    let mut count = 0;
    for backend in worker.backends.borrow().values() {
        let flights = backend.in_flight.borrow();
        let clients = flights.iter().filter(|flight| flight.purpose.is_clients());
        let own = clients.filter_map(|flight| flight.client.as_ref());
        count += own.filter(|own| Rc::ptr_eq(own, client)).count();
    }
    (count > 1).then(|| format!("{count} commands of it are in flight"))
}

/// A client that may hold locks does not wait for those that may wait for it.
fn never_waits_with_locks(client: &Client) -> Option<String> {
    let has_locks = client.backend().is_some() && client.session.borrow().in_transaction();
    let waits = matches!(client.state(), ClientState::Queued | ClientState::Stranded);
    (waits && has_locks).then(|| "it waits in the queue with a transaction open".to_owned())
}

/// A client at rest has been sent all of its reply, and owns no buffer for it. To a client that is passed through, its
/// server may speak although it was asked nothing.
fn owns_nothing_at_rest(client: &Client) -> Option<String> {
    let is_at_rest = client.state() == ClientState::Reading && client.is_pooled();
    (is_at_rest && client.is_draining()).then(|| "it has not taken all of its reply".to_owned())
}
