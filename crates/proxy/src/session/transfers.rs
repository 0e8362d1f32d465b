//! Backend connections that go from one worker to another, whose client has waited longer.
//!
//! A connection is a socket and what is known of its session; both go by mail, and the place under
//! `server.connections_max` and that of the user with them. What the connection alone knows of a client it is asked
//! before it goes. Prepared statements stay behind: the new worker has the server close them. What travels is
//! [`crate::pool::parcel`];
//! [`crate::road::backend_task`] takes a connection apart and puts it together again.
//!
//! Invariant: one that goes has no client, and nothing is in flight on it; so no statement depends on the way.

use crate::session::capture;
use crate::state::backend::Backend;
use crate::state::fate::Destination;
use crate::state::worker::Worker;

/// Has an idle connection go to this worker, as soon as nothing is in flight on it.
pub(crate) fn send(worker: &Worker, backend: &Backend, to: usize) {
    if backend.is_closing() || backend.key.get().is_none() || backend.fate.is_being_killed() {
        worker.at(backend.server).gate.borrow_mut().not_sent(to);
        return capture::retire(worker, backend);
    }
    capture::ask_before_end(worker, backend);
    backend.fate.leaves_for.set(Some(Destination::Worker(to)));
    backend.wake();
}
