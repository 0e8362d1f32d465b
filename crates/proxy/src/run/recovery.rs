//! Gives back what a panic has left behind ([`crate::worker::wreckage`]): the clients and backends that it was about end,
//! and with them the slots, places and descriptors that they held. Other clients go on.
//!
//! Runs between the tasks of its worker, when none of them is in the middle of anything. Invariants: a client whose
//! statement has got lost on the way is ended, never left waiting; what cannot be given back ends the process.

use std::rc::Rc;

use engine::gate::dropped;

use crate::road::admit;
use crate::road::client_input;
use crate::road::lost_backend;
use crate::state::backend::Backend;
use crate::state::client::Client;
use crate::state::client_state::{BackendState, ClientState};
use crate::state::worker::Worker;
use crate::worker::panics;
use crate::worker::steps::step;
use crate::worker::wreckage::{self, Wreck};

/// A panic in the middle of a change of what all clients of the worker depend on is not recovered from.
pub(crate) fn ask_of_doubt(worker: &Rc<Worker>) {
    let worker = Rc::downgrade(worker);
    panics::ask_of_doubt(move || worker.upgrade().is_some_and(|worker| worker.is_being_changed()));
}

/// Recovers from panics for as long as the worker runs.
pub(super) async fn run(worker: Rc<Worker>) {
    loop {
        wreckage::comes().await;
        recover(&worker);
        admit::work_off(&worker);
    }
}

fn recover(worker: &Rc<Worker>) {
    step!("recovery");
    crate::worker::clock::tick();
    // It may have been in the middle of it.
    worker.agenda.begin_anew();
    let wrecks = wreckage::take();
    let client = |id: &u32| worker.clients.borrow().get(id).cloned();
    let backend = |id: &u64| worker.backends.borrow().get(id).cloned();
    for wreck in &wrecks {
        match wreck {
            Wreck::Client(id) => client(id).into_iter().for_each(|it| end_client(&it)),
            Wreck::Backend(id) => backend(id).into_iter().for_each(|it| it.close()),
            Wreck::ClientTask(id) => {
                client(id).into_iter().for_each(|it| bury_client(worker, &it));
            }
            Wreck::BackendTask(id) => {
                backend(id).into_iter().for_each(|it| bury_backend(worker, &it));
            }
        }
    }
    let clients: Vec<_> = worker.clients.borrow().values().cloned().collect();
    clients.iter().filter(|client| is_lost(client)).for_each(|client| end_client(client));
    let backends: Vec<_> = worker.backends.borrow().values().cloned().collect();
    backends.iter().filter(|it| is_astray(worker, it)).for_each(|backend| backend.close());
    let mut slots = 0;
    for slot in dropped::take() {
        let home = worker.locals().find(|local| local.server.slots.identity() == slot.home());
        if let Some(local) = home {
            worker.agenda.leave_slot(local.server.id, Some(slot));
            slots += 1;
        }
    }
    for local in worker.locals() {
        worker.agenda.look_at(local.server.id);
    }
    tracing::error!(worker = worker.index, about = ?wrecks, slots, "recovered from a panic: these end");
}

/// The client ends, and so does the backend that it has: what was sent there is not known.
fn end_client(client: &Client) {
    client.close();
    if let Some(backend) = client.backend() {
        backend.close();
    }
}

/// The same for a client that has no task any more.
fn bury_client(worker: &Rc<Worker>, client: &Rc<Client>) {
    end_client(client);
    client_input::end(worker, client);
}

/// The backend ends, and has no task any more. Clients whose statements are not known there have lost them.
fn bury_backend(worker: &Rc<Worker>, backend: &Rc<Backend>) {
    backend.close();
    let flies =
        |client: &Rc<Client>| backend.in_flight.borrow().iter().any(|flight| flight.is_of(client));
    let clients: Vec<_> = worker.clients.borrow().values().cloned().collect();
    for client in clients {
        let is_there = client.backend().is_some_and(|it| Rc::ptr_eq(&it, backend));
        let waits = matches!(client.state(), ClientState::Running | ClientState::Preparing);
        if is_there && waits && !flies(&client) {
            client.close();
        }
    }
    lost_backend::end(worker, backend);
}

/// Whether the client waits for the end of a statement that is nowhere.
fn is_lost(client: &Rc<Client>) -> bool {
    if client.is_in_hand() {
        return true;
    }
    if client.state() != ClientState::Running || client.input.upload.is_some() {
        return false;
    }
    let flies =
        |backend: Rc<Backend>| backend.in_flight.borrow().iter().any(|flight| flight.is_of(client));
    !client.backend().is_some_and(flies)
}

/// Whether the backend belongs to no client and is not in the pool either.
fn is_astray(worker: &Worker, backend: &Rc<Backend>) -> bool {
    backend.state() == BackendState::Idle
        && backend.key.get().is_some()
        && !backend.fate.is_being_killed()
        && !worker.at(backend.server).gate.borrow().has_idle(|idle| Rc::ptr_eq(idle, backend))
}
