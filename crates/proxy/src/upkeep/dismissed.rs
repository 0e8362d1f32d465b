//! Clients that a reload leaves without what they use: a user that the configuration names no longer, or a server. Each
//! ends between two transactions, and all within a bound.

use std::rc::Rc;

use engine::account::name::UserName;

use crate::fault::{Fault, Kind};
use crate::road::ending;
use crate::state::backend::Backend;
use crate::state::client::{Client, Dismissed, WithoutIt};
use crate::state::worker::Worker;

/// The clients of these users, and those that cannot leave a server that is retired, are to end.
pub(crate) fn dismiss(worker: &Rc<Worker>, users: &[UserName]) {
    let until = crate::worker::clock::now() + worker.plan().limits.stop;
    let clients = worker.clients.borrow();
    let mut dismissed = worker.upkeep.dismissed.borrow_mut();
    for client in clients.values() {
        let is_known = |it: &Dismissed| Rc::ptr_eq(&it.client, client);
        let why = match users.contains(&client.user.borrow()) {
            true => Some(WithoutIt::User),
            false if is_left_behind(worker, client) => Some(WithoutIt::Server),
            false => None,
        };
        if let Some(why) = why.filter(|_| !dismissed.iter().any(is_known)) {
            dismissed.push(Dismissed { client: Rc::clone(client), why, until });
        }
    }
    drop((clients, dismissed));
    look(worker);
}

/// Whether a client has a backend to a server that is retired, and cannot leave it for its next statement.
fn is_left_behind(worker: &Worker, client: &Client) -> bool {
    let is_retired = |backend: Rc<Backend>| worker.at(backend.server).server.is_retired();
    let can_leave = client.is_pooled() && client.session.borrow().can_do_without();
    client.backend().is_some_and(is_retired) && !can_leave
}

/// Ends those that can be ended now.
pub(crate) fn look(worker: &Rc<Worker>) {
    if worker.upkeep.dismissed.borrow().is_empty() {
        return;
    }
    let now = crate::worker::clock::now();
    let mut left = worker.upkeep.dismissed.take();
    // The user may be named again. What a client of a pooled user was bound by may be over: then it goes to another
    // server.
    left.retain(|it| match it.why {
        WithoutIt::User => worker.shared.proofs.users.get(&it.client.user.borrow()).is_none(),
        WithoutIt::Server => is_left_behind(worker, &it.client),
    });
    left.iter().for_each(|it| end(worker, it, now >= it.until));
    left.retain(|it| !it.client.is_closing());
    worker.upkeep.dismissed.borrow_mut().append(&mut left);
}

/// `late`: whatever it does.
fn end(worker: &Rc<Worker>, dismissed: &Dismissed, late: bool) {
    let client = &dismissed.client;
    let fault = Fault::new(
        Kind::Stopping,
        match dismissed.why {
            WithoutIt::User => {
                "Flifo ended this connection: by its configuration, it does not know this user any more"
            }
            WithoutIt::Server => {
                "Flifo ended this connection: its configuration does not name this server any more"
            }
        },
    );
    if ending::may_end(client) {
        ending::end_client(worker, client, &fault);
    } else if late {
        ending::cut_off(worker, client, &fault);
    }
}
