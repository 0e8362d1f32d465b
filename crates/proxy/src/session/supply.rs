//! A worker's supply of backends: waiting clients get one, and each backend goes back to the next client, or is closed.
//!
//! Decides nothing of which statement may start: that is the gate's ([`crate::road::admit`]). Invariants: a backend
//! is put back only when nothing of its last client is left on it; what it alone knows of a client is asked before it
//! is closed.

use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use engine::account::name::UserName;
use engine::gate::{Due, Want};

use crate::cluster::servers::ServerId;
use crate::pool::keys::KeyId;
use crate::session::backend_reset;
use crate::session::capture;
use crate::session::questions;
use crate::session::rights;
use crate::session::transfers;
use crate::state::backend::{Backend, Taint};
use crate::state::client::Client;
use crate::state::client_state::ClientState;
use crate::state::command::Awaits;
use crate::state::local::Local;
use crate::state::shared::Mail;
use crate::state::worker::Worker;

/// Sees to it that waiting clients of this key get a backend, as far as the places allow.
pub(crate) fn provide(worker: &Rc<Worker>, local: &Local, key: KeyId) {
    loop {
        let now = crate::worker::clock::now();
        let is_full = worker.user_of(key, |user| user.backends.is_full());
        let want = if is_full {
            let keys = worker.pool.keys.borrow();
            let user = keys.get(key).user.clone();
            local.gate.borrow_mut().want_of_user(key, now, |it| keys.get(it).user == user)
        } else {
            local.gate.borrow_mut().unblock(key);
            local.gate.borrow_mut().want(key, now)
        };
        match want {
            Want::Nothing => break,
            Want::Open if take_place(worker, key) => {
                worker.shared.mail(worker.index, Mail::OpenBackend(local.server.id, key));
            }
            // Another worker was quicker.
            Want::Open => do_without(worker, local, key),
            Want::Close(backend) => {
                // Its place is free once its task has ended; that pumps again.
                worker.counters.backends_given_up.add(1);
                capture::retire(worker, &backend);
                break;
            }
            Want::Later(wait) => break look_later(worker, local, wait),
            Want::Ask if is_full => break ask_for_place(worker, key),
            Want::Ask => break ask_others(worker, local),
        }
    }
}

/// A backend of the key is likely to come back in this time: if not, another one has to go.
fn look_later(worker: &Rc<Worker>, local: &Local, wait: Duration) {
    if local.looks_later.replace(true) {
        return;
    }
    let (worker, server) = (Rc::clone(worker), local.server.id);
    crate::worker::tasks::vital(async move {
        tokio::time::sleep(wait).await;
        crate::worker::clock::tick();
        worker.at(server).looks_later.set(false);
        worker.shared.mail(worker.index, Mail::SlotFree(server));
    });
}

/// No backend here can go. Those that clients keep for their diagnostics only, here and elsewhere, do; and idle ones of
/// other workers.
fn ask_others(worker: &Worker, local: &Local) {
    let (server, others) = (local.server.id, local.gate.borrow().inattentive());
    if !local.takes_back.replace(true) {
        worker.shared.mail(worker.index, Mail::ReclaimIdle(server));
    }
    for other in others {
        worker.shared.mail(other, Mail::BackendWanted(server));
    }
}

/// A client of another worker lacks a backend: what is idle here, and not missed more, goes there.
pub(crate) fn give_idle(worker: &Rc<Worker>, server: ServerId) {
    let local = worker.at(server);
    loop {
        let given = local.gate.borrow_mut().give_idle(crate::worker::clock::now());
        match given {
            None => break,
            Some((_, backend, Due::Worker(to))) => transfers::send(worker, &backend, to),
            Some((_, backend, _)) => {
                worker.counters.backends_given_up.add(1);
                capture::retire(worker, &backend);
            }
        }
    }
    if local.gate.borrow_mut().lacks_more() {
        worker.shared.mail(worker.index, Mail::BackendFree(server));
    }
    reclaim_idle(worker, server);
}

/// Counts one more backend of this key's user, if there may be one.
fn take_place(worker: &Worker, key: KeyId) -> bool {
    worker.user_of(key, |user| {
        user.backend_wanted.store(false, Relaxed);
        user.backends.try_take()
    })
}

/// A backend of this key's user is gone. Workers whose clients have waited for that are told.
pub(crate) fn give_back_place(worker: &Worker, key: KeyId) {
    let is_wanted = worker.user_of(key, |user| {
        user.backends.give_back();
        user.backend_wanted.load(Relaxed)
    });
    if is_wanted {
        for local in worker.locals() {
            worker.shared.mail_others(worker.index, || Mail::BackendFree(local.server.id));
        }
    }
}

/// The place for a backend that was to be opened is given back.
fn do_without(worker: &Worker, local: &Local, key: KeyId) {
    let mut gate = local.gate.borrow_mut();
    gate.opened(key);
    let other = gate.closed(key, |_| false);
    drop(gate);
    if let Some(other) = other {
        worker.shared.mail(other, Mail::BackendFree(local.server.id));
    }
}

/// The user has as many backends as it may, and none of them is idle here: one of the others must go.
fn ask_for_place(worker: &Worker, key: KeyId) {
    // Told each time: what was busy when another worker was told before may be idle there by now.
    worker.user_of(key, |user| user.backend_wanted.store(true, Relaxed));
    let name = worker.pool.keys.borrow().get(key).user.clone();
    worker.shared.mail_others(worker.index, || Mail::BackendOfUserWanted(name.clone()));
}

/// Closes an idle backend of this user, if there is one here.
pub(crate) fn close_idle_of(worker: &Worker, name: &UserName) -> bool {
    let keys = worker.pool.keys.borrow();
    let is_one = |key| keys.get(key).user == *name;
    let now = crate::worker::clock::now();
    let mut locals = worker.locals();
    let idle = locals.find_map(|local| local.gate.borrow_mut().take_idle(is_one, now));
    if let Some(backend) = &idle {
        capture::retire(worker, backend);
    }
    idle.is_some()
}

/// Clients wait for backends: backends that are kept for nothing but diagnostics, which their clients may never ask for,
/// go back. Those of busy clients go back when their statements end; those of clients whose statements wait for a rule,
/// at once: what has the rule's place may wait for a backend. Looks at the backends, not at the clients, of which
/// thousands may wait.
pub(crate) fn reclaim_idle(worker: &Rc<Worker>, server: ServerId) {
    let lacks = lacks_backends(worker, server);
    let yields = |backend: &&Rc<Backend>| {
        let holder = backend.holder.borrow();
        let is_asked = backend.capture.borrow().is_some();
        let is_one = backend.server == server && backend.key.get().is_some() && !is_asked;
        let client = holder.as_ref().filter(|it| is_one && it.session.borrow().can_yield());
        let is_idle = client.is_some_and(|client| is_idle(client));
        backend.fate.is_wanted.set(lacks && client.is_some() && !is_idle);
        is_idle
    };
    let backends: Vec<_> = worker.backends.borrow().values().filter(yields).cloned().collect();
    for backend in backends {
        let Some(client) = backend.holder.borrow().clone() else { continue };
        // The one before it may have served this one's client.
        if !is_idle(&client) || !client.session.borrow().can_yield() {
            continue;
        }
        if !client.session.borrow().can_yield_unseen() {
            questions::begin(worker, &client, &backend);
        } else {
            yield_backend(&client, &backend);
            backend.release();
            give_back(worker, &backend);
        }
    }
}

/// Whether the client uses its backend for nothing now.
fn is_idle(client: &Client) -> bool {
    client.state() == ClientState::Reading || client.awaits() == Some(Awaits::Rule)
}

/// A statement has ended on a backend that its client keeps. If others have waited for that, and all that it is kept
/// for is diagnostics, it is asked for them, and goes back.
pub(crate) fn take_wanted(worker: &Worker, client: &Client, backend: &Backend) {
    if backend.fate.is_wanted.get()
        && backend.in_flight.borrow().is_empty()
        && client.session.borrow().can_yield()
    {
        backend.fate.is_wanted.set(false);
        questions::begin(worker, client, backend);
    }
}

/// Whether a client waits, here or in another worker, and no more backends may be opened.
pub(crate) fn lacks_backends(worker: &Worker, server: ServerId) -> bool {
    let local = worker.at(server);
    let waits = || local.server.backends.oldest_other(worker.index).is_some();
    local.server.backends.is_full() && (local.gate.borrow().waiting() > 0 || waits())
}

/// The client can do without this backend. Its user variables are told to the next one, and no other client may read
/// them.
pub(crate) fn yield_backend(client: &Client, backend: &Backend) {
    let mut session = client.session.borrow_mut();
    if session.variables.are_on_backend() {
        backend.taint.set(Taint::Soiled);
    }
    session.yield_backend();
    drop(session);
    client.rekey();
}

/// Puts a backend back that no client has any more, and on which nothing is left.
pub(crate) fn give_back(worker: &Rc<Worker>, backend: &Rc<Backend>) {
    let Some(key) = backend.key.get() else { return backend.close() };
    let key = key.with_schema(backend.session.borrow().schema.is_some());
    rekey(worker, backend, key);
    return_to_pool(worker, key, backend);
    worker.agenda.look_at(backend.server);
}

/// A statement may have given the backend a schema, or taken it away.
pub(crate) fn rekey(worker: &Worker, backend: &Backend, key: KeyId) {
    if let Some(old) = backend.key.replace(Some(key)) {
        worker.at(backend.server).gate.borrow_mut().rekey(old, key);
    }
}

/// Before a backend is given up for another one of its user's, it serves its own for so long.
const TENURE: Duration = Duration::from_millis(100);

/// Whether another client waits for the place of a backend of this user's, and this one may be closed for it.
fn is_wanted_elsewhere(worker: &Worker, key: KeyId, may_go: impl FnOnce() -> bool) -> bool {
    worker.user_of(key, |user| {
        user.backend_wanted.load(Relaxed) && may_go() && user.backend_wanted.swap(false, Relaxed)
    })
}

/// Puts a backend back, or closes it if it is too old.
pub(crate) fn return_to_pool(worker: &Rc<Worker>, key: KeyId, backend: &Rc<Backend>) {
    if backend.fate.is_being_killed() {
        return backend.fate.put_back_behind_kills();
    }
    if backend.taint.get() != Taint::Clean {
        return backend_reset::begin(worker, backend);
    }
    backend.written.give_back(|| worker.shared.changes.alterations.now());
    let (now, local) = (crate::worker::clock::now(), worker.at(backend.server));
    let age = || now - backend.origin.opened;
    let is_aged = || {
        let max = worker.plan().backend_age(&worker.pool.keys.borrow().get(key).user);
        max.is_some_and(|max| age() >= max)
    };
    let is_old = rights::is_stale(worker, backend, now)
        || backend.fate.is_left_behind.get()
        || !backend.is_young(now) && is_aged();
    // Clients that were in the queue when Flifo was told to stop are still served.
    let is_left = worker
        .shared
        .cluster
        .routes_at(backend.server)
        .is_some_and(|members| !members.is_usable(backend.server));
    let is_spare = is_left && local.gate.borrow().waiting() == 0
        || worker.is_stopping() && local.gate.borrow().waiting() == 0;
    let is_missed = || local.gate.borrow().has_waiters(key);
    let is_wanted_elsewhere = is_wanted_elsewhere(worker, key, || age() >= TENURE || !is_missed());
    if is_old || is_spare || is_wanted_elsewhere || backend.is_closing() {
        return capture::retire(worker, backend);
    }
    let due = local.gate.borrow_mut().due(key, age);
    match due {
        Due::Here => local.gate.borrow_mut().put(key, Rc::clone(backend), now),
        Due::Worker(to) => transfers::send(worker, backend, to),
        Due::Nowhere => {
            worker.counters.backends_given_up.add(1);
            capture::retire(worker, backend);
        }
    }
}

/// Closes the backends that have been idle for so long.
pub(crate) fn close_idle_for(worker: &Worker, local: &Local, age: Duration) {
    let now = crate::worker::clock::now();
    loop {
        let idle = local.gate.borrow_mut().expire_backend(now, age);
        match idle {
            Some(backend) => capture::retire(worker, &backend),
            None => break,
        }
    }
}

/// Closes the backend of this worker that is idle longest.
pub(crate) fn give_up_idle(worker: &Worker, server: ServerId) -> bool {
    let idle = worker.at(server).gate.borrow_mut().take_coldest(crate::worker::clock::now());
    if let Some(backend) = &idle {
        worker.counters.backends_given_up.add(1);
        capture::retire(worker, backend);
    }
    idle.is_some()
}
