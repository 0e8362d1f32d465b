//! Ends clients, and tells each one why: one that may send a command, or one in the middle of what it sends.

use std::rc::Rc;

use crate::fault::{Fault, Kind};
use crate::road::lost_backend;
use crate::state::backend::Backend;
use crate::state::client::Client;
use crate::state::client_state::ClientState;
use crate::state::worker::Worker;

/// Ends a client in the middle of what it sends, and the backend that it sends it to.
pub(crate) fn cut_off(worker: &Rc<Worker>, client: &Rc<Client>, fault: &Fault) {
    if client.is_closing() {
        return;
    }
    worker.count_fault(fault.kind);
    let runs = |backend: &Rc<Backend>| {
        backend.in_flight.borrow().iter().any(|flight| flight.is_of(client))
    };
    match client.backend().filter(runs) {
        Some(backend) => lost_backend::cut_off(&backend, fault),
        None => {
            client.write(&fault.packet(client.input.packets_sent()));
        }
    }
    client.close();
}

pub(crate) fn stop_client(worker: &Worker, client: &Client) {
    let asks_nothing = matches!(client.state(), ClientState::Reading | ClientState::AwaitingMemory);
    if asks_nothing && !client.session.borrow().in_transaction() {
        end_client(worker, client, &Fault::new(Kind::Stopping, "Flifo is stopping"));
    }
}

/// Whether a client is between two transactions and sends nothing: it can be ended without a loss of what it does.
pub(crate) fn may_end(client: &Client) -> bool {
    let asks_nothing = matches!(client.state(), ClientState::Reading | ClientState::AwaitingMemory);
    let is_sending = client.input.is_sending() || client.is_closing();
    asks_nothing && !is_sending && !client.session.borrow().in_transaction()
}

/// Ends a client that may send a command, telling why: once, though its task may not have run since it was told.
pub(crate) fn end_client(worker: &Worker, client: &Client, fault: &Fault) {
    if client.is_closing() {
        return;
    }
    worker.count_fault(fault.kind);
    client.write(&fault.packet(0));
    client.close();
}
