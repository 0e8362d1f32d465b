//! Kills what runs on a pooled link, through a short-lived link of the same user.
//!
//! An order of another client comes from [`crate::dispatch::kill_orders`]. Invariants: a worker opens at most
//! `KILLERS_MAX` links at once just to kill; until an order to the server has been answered, its link runs no statement
//! of another client.

use std::rc::Rc;
use std::time::Duration;

use engine::kill::Scope;

use crate::dispatch::backend::{self, Link};
use crate::dispatch::pipeline;
use crate::dispatch::supply;
use crate::dispatch::worker::{Mail, Worker};
use crate::pool::opener;
use crate::worker::counters::Why;

/// How long a killed statement may take to end before its link is closed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// So many links at once may be opened just to kill.
const KILLERS_MAX: u64 = 32;

/// The client of a running statement is gone: the statement is killed, and its link ends with it.
pub(crate) fn abandon(worker: &Rc<Worker>, link: &Rc<Link>) {
    link.holder.take();
    if let Some(flight) = link.flights.borrow_mut().front_mut() {
        flight.since = crate::worker::clock::now();
    }
    kill_on(worker, link, Scope::Query);
}

/// Kills what runs on a pooled link, through a short-lived link of the same user.
pub(crate) fn kill_on(worker: &Rc<Worker>, link: &Rc<Link>, scope: Scope) {
    let Some(key) = link.key.get() else { return };
    pipeline::take_back(worker, link, Why::Killed);
    if worker.counters.killing.get() >= KILLERS_MAX {
        return link.close();
    }
    let text = match scope {
        Scope::Query => format!("KILL QUERY {}", link.thread_id),
        Scope::Connection => format!("KILL {}", link.thread_id),
    };
    worker.counters.kills.add(1);
    let (worker, link) = (Rc::clone(worker), Rc::clone(link));
    // Until the order has been answered, the link must not run another client's statement.
    link.kill.set(backend::Kill::UnderWay);
    worker.counters.killing.set(worker.counters.killing.get() + 1);
    tokio::task::spawn_local(async move {
        if let Err(error) = opener::run_once(&worker.pool, link.server, key, &text).await {
            tracing::warn!(link = link.id, %error, "a statement could not be killed");
            link.close();
        }
        worker.counters.killing.set(worker.counters.killing.get() - 1);
        if let (backend::Kill::PutBack, Some(key)) = (link.kill.take(), link.key.get()) {
            supply::put(&worker, key, &link);
            worker.shared.mail(worker.index, Mail::SlotFree(link.server));
        }
    });
}
