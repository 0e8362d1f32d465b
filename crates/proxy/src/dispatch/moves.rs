//! Backends that are left behind when the name of their server has come to mean another address.
//!
//! Invariants: no statement, transaction or pinned client is cut off for it; a backend that no client has is closed,
//! one that a client has is closed when it is put back.

use std::rc::Rc;
use std::time::Duration;

use crate::cluster::servers::Server;
use crate::dispatch::backend::Backend;
use crate::dispatch::local::Local;
use crate::dispatch::supply;
use crate::dispatch::worker::Worker;

/// Has names asked for again that are due, and looks for backends that have been left behind.
pub(crate) fn look(worker: &Rc<Worker>, local: &Local) {
    let server = &local.server;
    if worker.index == 0 {
        server.place.look(worker.plan().server.resolve);
        server.agent.iter().for_each(|agent| agent.look(worker.plan().server.resolve));
    }
    let version = server.place.version();
    if local.place_version.replace(version) == version {
        return;
    }
    for backend in worker.backends.borrow().values().filter(|backend| backend.server == server.id) {
        backend.is_left_behind.set(is_left_behind(server, backend));
    }
    // Idle backends mostly lead to the old address.
    supply::close_idle_for(worker, local, Duration::ZERO);
    worker.checks.hasten(server.id);
}

/// Whether a backend leads to where its server is no longer.
pub(crate) fn is_left_behind(server: &Server, backend: &Backend) -> bool {
    backend.stream.peer_address().is_some_and(|peer| !server.place.is_at(peer))
}
