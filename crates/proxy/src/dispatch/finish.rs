//! A statement is over: its link goes back unless its client must keep it, its slot to the next.

use std::rc::Rc;

use crate::dispatch::backend::Link;
use crate::dispatch::client::Client;
use crate::dispatch::command::Command;
use crate::dispatch::pipeline;
use crate::dispatch::route;
use crate::dispatch::supply;
use crate::dispatch::worker::Worker;
use crate::worker::counters::Why;

/// A statement is over: its link goes back unless the client must keep it, its slot goes to the next.
pub(crate) fn over(
    worker: &Rc<Worker>,
    client: &Client,
    link: &Rc<Link>,
    command: &Command,
    slot: bool,
) {
    worker.counters.statements.add(1);
    route::note_end(worker, client, command, link.server);
    let freed;
    if client.session.borrow().can_yield_unseen() && supply::lacks_links(worker, link.server) {
        supply::yield_link(client, link);
    }
    if let Some(key) = link.key.get()
        && !client.session.borrow().holds_link()
    {
        link.release();
        let key = key.with_schema(link.state.borrow().schema.is_some());
        supply::rekey(worker, link, key);
        client.rekey();
        if slot && pipeline::promote(worker, link) {
            return;
        }
        // Taken before the link is put back, where the next one may find it at once.
        freed = link.slot.take();
        supply::put(worker, key, link);
    } else {
        freed = link.slot.take();
        if client.is_pooled() {
            pipeline::take_back(worker, link, Why::Kept);
            supply::take_wanted(worker, client, link);
        }
    }
    if slot {
        worker.agenda.leave_slot(link.server, freed);
    }
}
