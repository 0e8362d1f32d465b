//! What becomes of the reply to a run that fetches one for others: it is kept, if nothing was written meanwhile.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use engine::cache::WhyNot;
use engine::session::observe::SharedEnd;
use wire::response::Status;

use crate::state::backend::Backend;
use crate::state::kept_replies::{Entry, Fill};
use crate::state::shared_run::SharedRun;
use crate::state::worker::Worker;
use crate::worker::outbox::SharedBytes;

/// The reply to a run that fills an entry has ended, in rows that are as good for others. `head`: what its first client
/// was written before the end.
pub(crate) fn keep(
    worker: &Worker,
    backend: &Backend,
    run: &SharedRun,
    head: &[u8],
    end: &SharedEnd<'_>,
) {
    let Some(fill) = &run.fill else { return };
    let SharedEnd::Rows { rows, status } = *end else { return };
    if let Err(why) = try_keep(worker, backend, fill, head, (rows, status)) {
        worker.counters.cache_not[why as usize].add(1);
    }
}

fn try_keep(
    worker: &Worker,
    backend: &Backend,
    fill: &Fill,
    head: &[u8],
    (rows, status): (u64, Status),
) -> Result<(), WhyNot> {
    let shared = &worker.shared;
    let members = shared.cluster.of(backend.server);
    if shared.is_departing()
        || shared.is_arriving()
        || !worker.features.caches.are_all_on(&shared.changes.caches_on, shared.worker_count())
    {
        return Err(WhyNot::HandOver);
    }
    if shared.cluster.is_routed() && !members.has_all_writes(backend.server) {
        return Err(WhyNot::Reader);
    }
    if fill.since != shared.changes.alterations.now() || fill.era != shared.proofs.rights.eras.now()
    {
        return Err(WhyNot::Definitions);
    }
    let begun = fill.begun.take().flatten().filter(|seen| {
        Arc::ptr_eq(&fill.generations, &members.generations) && seen.holds(&fill.generations)
    });
    let seen = begun.ok_or(WhyNot::Written)?;
    let tail = fill.tail.take();
    if tail.is_empty() || head.len() + tail.len() > fill.reply_max() {
        return Err(WhyNot::TooLarge);
    }
    let reply = SharedBytes::uncounted([head, &tail].concat());
    let entry = Entry {
        asked: fill.asked.clone(),
        reply: Rc::new(reply),
        rows,
        status,
        seen,
        generations: Arc::clone(&fill.generations),
        since: fill.since,
        era: fill.era,
        at: crate::worker::clock::now(),
        hits: Cell::new(0),
    };
    let mut store = worker.features.caches.store.borrow_mut();
    store.insert(fill.hash, Rc::new(entry));
    if store.peek(&fill.hash).is_none() {
        // It is longer than all that this worker may keep.
        return Err(WhyNot::TooLarge);
    }
    worker.counters.cache_fills.add(1);
    Ok(())
}
