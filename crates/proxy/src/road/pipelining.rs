//! Pipelined statements: while clients wait, a busy backend is sent their statements behind the one that runs, so
//! that the server's thread finds its next command in its socket and does not sleep in between.
//!
//! Only statements that merely read are pipelined, behind others of the same sort, all of a kind known to be
//! short, of clients whose sessions are as new. Should the one in front turn out otherwise after all (it runs long,
//! its backend dies or must be kept for its client, it is to be killed), those behind it, whose replies have not begun,
//! go back into the queue and are sent again on another backend, alone.
//!
//! Invariants: the flights of a backend are answered in order; only the first one has a slot, which passes to the next;
//! a client whose statement was pipelined still holds its packet, until its reply is the next to come.

use std::rc::Rc;

use engine::counts::Finds;
use engine::kill::Scope;
use smallvec::SmallVec;
use wire::Capabilities;

use crate::road::admit;
use crate::road::kill;
use crate::road::launch;
use crate::session::backend_reset;
use crate::session::pipeline;
use crate::session::rights;
use crate::state::backend::Backend;
use crate::state::client::Client;
use crate::state::local::Local;
use crate::state::worker::Worker;
use crate::worker::counters::Why;
use crate::worker::steps::step;

/// Writes statements of waiting clients behind what is in flight.
pub(crate) fn refill(worker: &Rc<Worker>, backend: &Rc<Backend>) {
    step!("pipelining");
    let depth = worker.plan().server.pipeline as usize;
    let flying = backend.in_flight.borrow().len();
    if flying == 0 || flying > half_of(worker) || backend.is_held_up() || !may_lead(worker, backend)
    {
        return;
    }
    let Some(key) = backend.key.get() else { return };
    if key != key.with_schema(backend.session.borrow().schema.is_some()) {
        return;
    }
    let room = (depth - flying).min(worker.at(backend.server).gate.borrow().share(key));
    for _ in 0..room {
        let next = worker.at(backend.server).gate.borrow_mut().take_ahead(
            key,
            crate::worker::clock::now(),
            |client| may_follow(worker, client) && launch::is_ready(worker, client, backend),
        );
        match next {
            Some((client, _)) => launch::launch_ahead(worker, &client, backend),
            None => break,
        }
    }
}

/// At the end of each iteration of the loop, writes statements ahead that have joined the line in it: by the time of
/// the next reply the server's thread would be asleep.
pub(crate) async fn run(worker: Rc<Worker>) {
    loop {
        worker.has_waiters.notified().await;
        worker.locals().for_each(|local| pipeline_all(&worker, local));
        admit::work_off(&worker);
    }
}

fn pipeline_all(worker: &Rc<Worker>, local: &Local) {
    let is_busy = |backend: &&Rc<Backend>| {
        backend.server == local.server.id && !backend.in_flight.borrow().is_empty()
    };
    let (waiting, backends) = (local.gate.borrow().waiting(), worker.backends.borrow());
    // Where more wait than would be written now, each reply brings so many of them that no thread of the server rests.
    if waiting == 0 || backends.values().filter(is_busy).count() * half_of(worker) < waiting {
        return;
    }
    let mut busy: SmallVec<[_; 16]> = backends.values().filter(is_busy).cloned().collect();
    drop(backends);
    busy.sort_by_key(|backend: &Rc<Backend>| backend.in_flight.borrow().len());
    for backend in busy {
        backend.in_one_write(|| refill(worker, &backend));
    }
}

/// Half at a time, so that several go in one write.
fn half_of(worker: &Worker) -> usize {
    worker.plan().server.pipeline as usize / 2
}

/// Whether others may be written behind what is in flight on this backend.
fn may_lead(worker: &Worker, backend: &Backend) -> bool {
    let flights = backend.in_flight.borrow();
    let pace = worker.learnt.pace.borrow();
    let now = crate::worker::clock::now();
    let is_young = flights.front().is_some_and(|front| now - front.since < pace.long());
    // What is to be asked behind a statement must be asked before others': how many rows it has found, whether it has
    // cleared the diagnostics that the backend was told.
    let is_known = |client: &Rc<Client>| client.session.borrow().kept().is_none();
    let are_short = flights.iter().all(|flight| {
        flight.client.as_ref().is_some_and(is_known)
            && flight.command.as_ref().is_some_and(|it| it.facts.finds != Finds::Anew)
            && flight.read.is_some_and(|digest| pace.is_short(digest))
    });
    // What the end of its rows has not told must be asked behind each.
    let tells_all = backend.capabilities.has(Capabilities::DEPRECATE_EOF)
        || !backend_reset::is_mysql(worker, backend);
    is_young
        && are_short
        && tells_all
        && !backend.fate.is_being_killed()
        && !backend.is_closing()
        && !rights::is_stale(worker, backend, now)
}

fn may_follow(worker: &Worker, client: &Client) -> bool {
    let Some(command) = client.command() else { return false };
    command.facts.read.is_some_and(|digest| worker.learnt.pace.borrow().is_short(digest))
        && command.may_follow()
        && !client.input.reserved.is_some()
}

/// Looks after backends whose statement in front was believed to be short and is not.
pub(crate) fn look_after(worker: &Rc<Worker>) {
    let (now, long) = (crate::worker::clock::now(), worker.learnt.pace.borrow().long());
    let keeps_waiting = |backend: &&Rc<Backend>| {
        let flights = backend.in_flight.borrow();
        let front = flights.front().filter(|front| front.slot && now - front.since >= long);
        front.is_some_and(|front| flights.len() > 1 || front.client.is_none())
    };
    let backends: Vec<_> =
        worker.backends.borrow().values().filter(keeps_waiting).cloned().collect();
    for backend in backends {
        let mut flights = backend.in_flight.borrow_mut();
        let Some(front) = flights.front_mut() else { continue };
        let is_disowned = front.client.is_none() && front.read.take().is_some();
        drop(flights);
        pipeline::cancel_pipelined(worker, &backend, Why::Long);
        if is_disowned {
            kill::kill_on(worker, &backend, Scope::Query);
        }
    }
}
