//! Backends that are left behind when the name of their server has come to mean another address.
//!
//! Invariants: no statement, transaction or pinned client is cut off for it; a backend that no client has is closed,
//! one that a client has is closed when it is put back.

use std::rc::Rc;
use std::time::Duration;

use crate::session::supply;
use crate::state::local::Local;
use crate::state::worker::Worker;

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
        backend.fate.is_left_behind.set(backend.leads_elsewhere(server));
    }
    // Idle backends mostly lead to the old address.
    supply::close_idle_for(worker, local, Duration::ZERO);
    worker.checks.hasten(server.id);
}
