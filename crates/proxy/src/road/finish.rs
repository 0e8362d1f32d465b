//! A statement is over: its backend goes back unless its client must keep it, its slot to the next.

use std::rc::Rc;

use crate::features::cached::written;
use crate::routing::route;
use crate::session::pipeline;
use crate::session::supply;
use crate::state::backend::Backend;
use crate::state::client::Client;
use crate::state::command::Command;
use crate::state::worker::Worker;
use crate::worker::counters::Why;
use crate::worker::steps::step;

/// A statement is over: its backend goes back unless the client must keep it, its slot goes to the next.
pub(crate) fn finish_command(
    worker: &Rc<Worker>,
    client: &Client,
    backend: &Rc<Backend>,
    command: &Command,
    slot: bool,
) {
    note(worker, client, backend, command);
    release(worker, client, backend, slot);
}

/// What is counted and remembered of a statement that is over.
pub(crate) fn note(worker: &Rc<Worker>, client: &Client, backend: &Rc<Backend>, command: &Command) {
    worker.counters.statements.add(1);
    route::note_end(worker, client, command, backend);
    if worker.features.caches.is_on() {
        written::end(worker, client, backend, command);
    }
}

/// A command does not need its backend and its slot any more, or not yet.
pub(crate) fn release(worker: &Rc<Worker>, client: &Client, backend: &Rc<Backend>, slot: bool) {
    let freed;
    if client.session.borrow().can_yield_unseen() && supply::lacks_backends(worker, backend.server)
    {
        supply::yield_backend(client, backend);
    }
    if let Some(key) = backend.key.get()
        && !client.session.borrow().holds_backend()
    {
        backend.release();
        let key = key.with_schema(backend.session.borrow().schema.is_some());
        supply::rekey(worker, backend, key);
        client.rekey();
        if slot && pipeline::promote(worker, backend) {
            return;
        }
        // Taken before the backend is put back, where the next one may find it at once.
        freed = backend.slot.take();
        step!("leave");
        supply::return_to_pool(worker, key, backend);
    } else {
        freed = backend.slot.take();
        if client.is_pooled() {
            pipeline::cancel_pipelined(worker, backend, Why::Kept);
            supply::take_wanted(worker, client, backend);
        }
    }
    if slot {
        worker.agenda.leave_slot(backend.server, freed);
    }
}
