//! Clients of users that the configuration names no longer: each ends between two transactions, and all within a bound.

use std::rc::Rc;

use engine::account::name::UserName;

use crate::dispatch::ages;
use crate::dispatch::client::Client;
use crate::dispatch::states::ClientState;
use crate::dispatch::worker::Worker;
use crate::fault::{Fault, Kind};

/// The clients of these users are to end.
pub(crate) fn dismiss(worker: &Rc<Worker>, names: &[UserName]) {
    if names.is_empty() {
        return;
    }
    let until = crate::worker::clock::now() + worker.plan().limits.stop;
    let clients = worker.clients.borrow();
    let theirs = clients.values().filter(|client| names.contains(&client.user.borrow()));
    worker.dismissed.borrow_mut().extend(theirs.map(|client| (Rc::clone(client), until)));
    drop(clients);
    look(worker);
}

/// Ends those that can be ended now.
pub(crate) fn look(worker: &Rc<Worker>) {
    if worker.dismissed.borrow().is_empty() {
        return;
    }
    let now = crate::worker::clock::now();
    let mut left = worker.dismissed.take();
    for (client, until) in &left {
        end(worker, client, now >= *until);
    }
    left.retain(|(client, _)| !client.is_closing());
    worker.dismissed.borrow_mut().append(&mut left);
}

/// `late`: whatever it does.
fn end(worker: &Rc<Worker>, client: &Rc<Client>, late: bool) {
    let fault = Fault::new(
        Kind::Stopping,
        "Flifo ended this connection: its configuration does not name this user any more",
    );
    let asks_nothing = matches!(client.state(), ClientState::Reading | ClientState::AwaitingMemory);
    if asks_nothing && !client.input.is_sending() && !client.session.borrow().in_transaction() {
        ages::end_client(worker, client, &fault);
    } else if late {
        ages::cut_off(worker, client, &fault);
    }
}
