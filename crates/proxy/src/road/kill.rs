//! Kills what runs on a pooled backend, through a short-lived backend of the same user.
//!
//! An order of another client comes from [`crate::road::kill_orders`]. Invariants: a worker opens at most
//! `KILLERS_MAX` backends at once just to kill; until each order to the server has been answered, its backend runs no
//! statement of another client.

use std::rc::Rc;
use std::time::Duration;

use engine::kill::Scope;

use crate::cluster::dial::NoBackend;
use crate::pool::opener;
use crate::session::pipeline;
use crate::session::supply;
use crate::state::backend::Backend;
use crate::state::shared::Mail;
use crate::state::worker::Worker;
use crate::worker::counters::Why;
use crate::worker::tasks;

/// How long a killed statement may take to end before its backend is closed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// So many backends at once may be opened just to kill.
const KILLERS_MAX: u64 = 32;

/// The client of a running statement is gone: the statement is killed, and its backend ends with it.
pub(crate) fn abandon(worker: &Rc<Worker>, backend: &Rc<Backend>) {
    backend.holder.take();
    if let Some(flight) = backend.in_flight.borrow_mut().front_mut() {
        flight.since = crate::worker::clock::now();
    }
    kill_on(worker, backend, Scope::Query);
}

/// Kills what runs on a pooled backend, through a short-lived backend of the same user.
pub(crate) fn kill_on(worker: &Rc<Worker>, backend: &Rc<Backend>, scope: Scope) {
    let Some(key) = backend.key.get() else { return };
    pipeline::cancel_pipelined(worker, backend, Why::Killed);
    if worker.counters.killing.get() >= KILLERS_MAX {
        return backend.close();
    }
    let text = match scope {
        Scope::Query => format!("KILL QUERY {}", backend.thread_id),
        Scope::Connection => format!("KILL {}", backend.thread_id),
    };
    worker.counters.kills.add(1);
    let (worker, backend) = (Rc::clone(worker), Rc::clone(backend));
    // Until each order has been answered, the backend must not run another client's statement.
    backend.fate.begin_kill();
    worker.counters.killing.set(worker.counters.killing.get() + 1);
    tasks::vital(async move {
        let (own, server) = (Rc::clone(&worker), backend.server);
        let order = async move { opener::run_once(&own.pool, server, key, &text).await };
        let obeyed = tasks::contained(order).await;
        if let Err(error) = obeyed.unwrap_or(Err(NoBackend::Panicked)) {
            tracing::info!(backend = backend.id, %error, "a statement could not be killed");
            backend.close();
        }
        worker.counters.killing.set(worker.counters.killing.get() - 1);
        if let (true, Some(key)) = (backend.fate.end_kill(), backend.key.get()) {
            supply::return_to_pool(&worker, key, &backend);
            worker.shared.mail(worker.index, Mail::SlotFree(backend.server));
        }
    });
}
