//! The cache of results: a read under a rule that says `cache` gets a reply that is kept, if nothing was written since.
//!
//! Owns the look before the gate ([`enter`]), the run that fills an entry while others wait for it ([`begin_run`]), and
//! what becomes of its reply ([`keeping`]). Which statements may share a reply is said by
//! [`crate::features::sharing`], which tables they read and write by `engine::cache`; writes are followed in
//! [`written`]. Invariants: a client gets a reply that is kept only if no statement that might have changed it has ended
//! since its run began, nor is under way; while another Flifo takes over, none does.

pub(crate) mod keeping;
pub(crate) mod lost;
pub(crate) mod store;
pub(crate) mod written;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use engine::cache::WhyNot;
use engine::cache::effects::places_read;
use engine::session::observe::{self, SharedEnd};
use engine::statement::rule::RuleCache;

use crate::answers::notes;
use crate::features::sharing;
use crate::state::client::Client;
use crate::state::command::Command;
use crate::state::doing::Doing;
use crate::state::kept_replies::{Entry, Fill};
use crate::state::shared_run::Sharing;
use crate::state::worker::Worker;

/// The longest reply that is kept, and the longest that a rule may have kept.
const SMALL_MAX: usize = 256 << 10;
pub(crate) const LARGE_MAX: usize = 8 << 20;

/// What becomes of a command.
pub(crate) enum CacheLook {
    /// It goes on to the gate.
    GoesOn(Box<Command>),
    /// It was answered, or waits for another client's run.
    Over,
}

/// A command comes to the gate: it may be answered before.
pub(crate) fn enter(
    worker: &Worker,
    client: &Rc<Client>,
    mut command: Box<Command>,
    packet: &[u8],
) -> CacheLook {
    let Some(cache) = command.cache() else { return CacheLook::GoesOn(command) };
    let shared = &worker.shared;
    if shared.is_departing()
        || shared.is_arriving()
        || !worker.features.caches.are_all_on(&shared.changes.caches_on, shared.worker_count())
    {
        return not(worker, command, WhyNot::HandOver);
    }
    command.packet = worker.spare.buffers.keep(packet);
    match look(worker, client, &command, cache) {
        Ok(Found::Entry(entry)) => {
            answer(worker, client, command, &entry);
            return CacheLook::Over;
        }
        Ok(Found::Fill(fill)) => {
            if let Some(noted) = &mut command.noted {
                noted.launch(crate::worker::clock::now());
            }
            command.sharing = Sharing::Follows(fill.number);
            fill.late.borrow_mut().push(client.id);
            client.become_state(Doing::Sharing { command });
            worker.counters.cache_joined.add(1);
            return CacheLook::Over;
        }
        Ok(Found::Nothing(fill)) => {
            worker.counters.cache_misses.add(1);
            let mut run = worker.features.sharing.run(fill.number, Vec::new());
            worker.features.caches.filling.borrow_mut().insert(fill.hash, Rc::clone(&fill));
            run.fill = Some(fill);
            run.sum_as(&mut command.sharing);
            command.sharing = Sharing::Leads(run);
        }
        Err(why) => worker.counters.cache_not[why as usize].add(1),
    }
    worker.spare.buffers.forget(std::mem::take(&mut command.packet));
    CacheLook::GoesOn(command)
}

fn not(worker: &Worker, command: Box<Command>, why: WhyNot) -> CacheLook {
    worker.counters.cache_not[why as usize].add(1);
    CacheLook::GoesOn(command)
}

enum Found {
    Entry(Rc<Entry>),
    Fill(Rc<Fill>),
    Nothing(Rc<Fill>),
}

fn look(
    worker: &Worker,
    client: &Client,
    command: &Command,
    cache: RuleCache,
) -> Result<Found, WhyNot> {
    let server = client.routing.server.get();
    let members = worker.shared.cluster.of(server);
    if !sharing::may_be_cached(worker, client, command) {
        return Err(WhyNot::Unfit);
    }
    if !members.followed.may_serve(&worker.plan().cache, client.times.came) {
        return Err(WhyNot::Binlog);
    }
    let hash = store::hash(worker, client, command, members.id).ok_or(WhyNot::Unfit)?;
    let (now, era) = (crate::worker::clock::now(), worker.shared.proofs.rights.eras.now());
    let since = worker.shared.changes.alterations.now();
    let entry = worker.features.caches.store.borrow().get(&hash).cloned();
    let entry = entry.filter(|it| {
        it.is_good(since, era) && store::is_of(&it.asked, client, command, members.id)
    });
    let age = entry.as_ref().map(|entry| now.saturating_duration_since(entry.at));
    if let (Some(entry), true) = (&entry, age.is_some_and(|age| age < cache.keep)) {
        return Ok(Found::Entry(Rc::clone(entry)));
    }
    let fill = worker.features.caches.filling.borrow().get(&hash).cloned();
    let fill = fill.filter(|fill| {
        fill.may_join()
            && (fill.since, fill.era) == (since, era)
            && store::is_of(&fill.asked, client, command, members.id)
    });
    if let Some(fill) = fill {
        let may_be_stale = age.is_some_and(|age| age < cache.keep + cache.stale);
        return Ok(match entry.filter(|_| may_be_stale) {
            Some(entry) => Found::Entry(entry),
            None => Found::Fill(fill),
        });
    }
    if worker.shared.cluster.is_routed() && !members.has_all_writes(server) {
        return Err(WhyNot::Reader);
    }
    let found = written::definitions(worker, client, members).ok_or(WhyNot::Definitions)?;
    let links = found.links.as_ref().ok_or(WhyNot::Definitions)?;
    let places =
        sharing::with_text(client, command, |text, schema| places_read(text, schema, links));
    let places = places.flatten().ok_or(WhyNot::Tables)?;
    if members.generations.are_being_written(&places) {
        return Err(WhyNot::Written);
    }
    Ok(Found::Nothing(Rc::new(Fill {
        hash,
        number: worker.features.sharing.next_number(),
        asked: store::asked(client, command, members.id).ok_or(WhyNot::Unfit)?,
        most: if cache.is_large { LARGE_MAX } else { SMALL_MAX },
        places,
        generations: Arc::clone(&members.generations),
        since,
        era,
        begun: RefCell::default(),
        late: RefCell::default(),
        is_over: Cell::default(),
        filling: Rc::clone(&worker.features.caches.filling),
        tail: RefCell::default(),
    })))
}

/// A command is about to be sent: if its reply is to be kept, this is the moment that the reply is as old as.
pub(crate) fn begin_run(command: &Command) {
    if let Sharing::Leads(run) = &command.sharing
        && let Some(fill) = &run.fill
    {
        *fill.begun.borrow_mut() = Some(fill.generations.look(&fill.places));
    }
}

/// Answers a command with a reply that is kept, as if it had run.
fn answer(worker: &Worker, client: &Client, mut command: Box<Command>, entry: &Entry) {
    entry.hits.set(entry.hits.get() + 1);
    worker.learnt.tally.answer_cached(client, &command, entry.rows);
    if let Some(noted) = command.noted.take() {
        notes::see_cached(worker, client, *noted, entry.rows);
    }
    let mut session = client.session.borrow_mut();
    let end = SharedEnd::Rows { rows: entry.rows, status: entry.status };
    observe::end_shared(&mut session, &command.facts, &end);
    drop(session);
    worker.counters.statements.add(1);
    worker.counters.cache_hits.add(1);
    worker.spare.buffers.forget(command.end());
    client.take_sequence();
    client.write_shared(&entry.reply);
    client.write_last(&[]);
}
