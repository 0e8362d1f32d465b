//! A backend's task: waits for the server and does what comes. And how a backend comes to a worker and leaves it:
//! opened for waiting clients, or taken apart and sent to another worker ([`crate::session::transfers`]).

use std::future::poll_fn;
use std::rc::Rc;

use engine::backend_session::BackendSession;

use crate::answers::answer;
use crate::cluster::dial::NoBackend;
use crate::cluster::servers::ServerId;
use crate::features::cached::written;
use crate::pool::keys::{Key, KeyId};
use crate::pool::opener::{self, Opened};
use crate::pool::parcel::Parcel;
use crate::road::admit;
#[cfg(debug_assertions)]
use crate::road::invariants;
use crate::road::lost_backend;
use crate::road::replies;
use crate::routing::route;
use crate::session::backend_reset;
use crate::session::rights;
use crate::session::supply;
use crate::state::backend::{Backend, Taint};
use crate::state::description::{Departure, IdleDescription, KeyDescription, ServerDescription};
use crate::state::fate::{Destination, Life};
use crate::state::local::Local;
use crate::state::shared::Mail;
use crate::state::worker::Worker;
use crate::worker::steps::step;
use crate::worker::tasks;
use crate::worker::wreckage::{PanicNote, Wreck};

/// Serves a backend until it ends.
pub(crate) async fn serve(worker: Rc<Worker>, backend: Rc<Backend>) {
    let about = PanicNote::new(Wreck::BackendTask(backend.id));
    loop {
        let event = poll_fn(|context| backend.poll_event(context)).await;
        crate::worker::iterations::see_ready();
        if event.is_err() {
            break;
        }
        if let Some(to) = backend.fate.leaves_for.get()
            && backend.in_flight.borrow().is_empty()
        {
            match to {
                Destination::Worker(to) => depart(&worker, backend, to),
                Destination::Successor => send_to_successor(&worker, &backend),
            }
            admit::work_off(&worker);
            return about.forget();
        }
        if !replies::read(&worker, &backend) {
            break;
        }
        admit::work_off(&worker);
        #[cfg(debug_assertions)]
        invariants::assert_backend(&worker, &backend);
    }
    if backend.fate.life.get() == Life::Departed {
        admit::work_off(&worker);
        return about.forget();
    }
    if let Some(Destination::Worker(to)) = backend.fate.leaves_for.take() {
        worker.at(backend.server).gate.borrow_mut().not_sent(to);
    }
    lost_backend::end(&worker, &backend);
    admit::work_off(&worker);
    about.forget();
}

/// The connection's task has ended for it: it goes.
pub(crate) fn depart(worker: &Rc<Worker>, backend: Rc<Backend>, to: usize) {
    backend_reset::forget(worker, &backend);
    worker.backends.borrow_mut().remove(&backend.id);
    let (server, key) = (backend.server, backend.key.get());
    match pack(worker, backend) {
        Ok(parcel) => {
            if let Some(key) = key {
                worker.at(server).gate.borrow_mut().sent(key);
            }
            worker.counters.backends_handed_over.add(1);
            worker.shared.mail(to, Mail::Backend(Box::new(parcel)));
            worker.agenda.look_at(server);
        }
        Err(Some(backend)) => {
            worker.at(server).gate.borrow_mut().not_sent(to);
            lost_backend::end(worker, &backend);
        }
        // The socket is gone.
        Err(None) => {
            worker.at(server).gate.borrow_mut().not_sent(to);
            lost_backend::give_back_place(worker, server, key, u64::MAX);
            worker.agenda.look_at(server);
        }
    }
}

/// A backend that no client has, and that has said all that it alone knew, goes.
fn send_to_successor(worker: &Rc<Worker>, backend: &Backend) {
    backend_reset::forget(worker, backend);
    worker.backends.borrow_mut().remove(&backend.id);
    lost_backend::give_back_place(worker, backend.server, backend.key.get(), backend.id);
    worker.agenda.look_at(backend.server);
    let Some(departures) = worker.moves.departures.borrow().clone() else { return };
    let now = crate::worker::clock::now();
    if backend.fate.is_left_behind.get()
        || rights::is_stale(worker, backend, now)
        || backend.owes_bytes()
        || backend.taint.get() != Taint::Clean
    {
        return;
    }
    let Some(Ok(file)) = backend.stream.file() else { return };
    let key = |key: KeyId| KeyDescription::of(&worker.pool.keys.borrow().get(key));
    let description = IdleDescription {
        server: ServerDescription::of(&worker.at(backend.server).server),
        key: backend.key.get().map(key),
        thread_id: backend.thread_id,
        capabilities: backend.capabilities.0,
        age: now.saturating_duration_since(backend.origin.opened),
        session: backend.session.take().pack(),
        statements: backend.known.borrow().ids().collect(),
        ahead: backend.bytes.ahead.take(),
        taint: Taint::Clean,
        is_left_behind: false,
    };
    if let Ok(description) = serde_json::to_vec(&description) {
        // Where it is not taken, it ends.
        let _ =
            departures.tell.send(Departure::Backend { worker: worker.index, description, file });
    }
}

/// Takes a connection apart. What cannot be taken apart, because something else still looks at it, is given back.
pub(crate) fn pack(worker: &Worker, backend: Rc<Backend>) -> Result<Parcel, Option<Rc<Backend>>> {
    let Some(key) = backend.key.get() else { return Err(Some(backend)) };
    let backend = Rc::try_unwrap(backend).map_err(Some)?;
    let packed = worker.pool.keys.borrow().get(key);
    let user = worker.pool.keys.borrow().user(key).cloned();
    let mut known = backend.known.into_inner();
    Ok(Parcel {
        server: backend.server,
        thread_id: backend.thread_id,
        stream: backend.stream.pack().map_err(|_| None)?,
        capabilities: backend.capabilities,
        key: Key::clone(&packed),
        user,
        opened: backend.origin.opened,
        era: backend.origin.era,
        state: backend.session.into_inner().pack(),
        statements: known.shrink(0),
        is_left_behind: backend.fate.is_left_behind.get(),
    })
}

/// A connection has come from another worker.
pub(crate) fn arrive(worker: &Rc<Worker>, parcel: Parcel) {
    let Parcel { server, thread_id, stream, capabilities, key, user, .. } = parcel;
    let local = worker.at(server);
    let mut keys = worker.pool.keys.borrow_mut();
    let key = keys.id(key);
    if let (Some(key), Some(user)) = (key, &user) {
        keys.own(key, user);
    }
    drop(keys);
    let (Some(key), Ok(stream)) = (key, stream.unpack()) else {
        user.iter().for_each(|user| user.backends.give_back());
        let other = local.gate.borrow_mut().turned_away();
        other.into_iter().for_each(|other| worker.shared.mail(other, Mail::BackendFree(server)));
        return worker.agenda.look_at(server);
    };
    let id = worker.new_backend_id();
    let state = parcel.state.unpack(id, &mut worker.pool.interned.borrow_mut());
    let key = key.with_schema(state.schema.is_some());
    let mut backend = Backend::new(id, server, thread_id, stream, capabilities, Some(key));
    (backend.origin.opened, backend.origin.era) = (parcel.opened, parcel.era);
    backend.reports = !state.is_silent;
    backend.origin.young_until = rights::young_until(worker, backend.origin.opened);
    let backend = Rc::new(backend);
    backend.session.replace(state);
    backend.fate.is_left_behind.set(parcel.is_left_behind);
    parcel.statements.into_iter().for_each(|statement| backend.close_statement(statement));
    local.gate.borrow_mut().arrived(key);
    worker.add_backend(&backend);
    supply::return_to_pool(worker, key, &backend);
    tasks::contained(serve(Rc::clone(worker), backend));
    worker.agenda.look_at(server);
}

/// Opens a backend for the waiting clients of this key. Its places under the caps have been taken.
pub(crate) fn open(worker: &Rc<Worker>, server: ServerId, key: KeyId) {
    let worker = Rc::clone(worker);
    tasks::vital(async move {
        let local = worker.at(server);
        let own = Rc::clone(&worker);
        // What a server says is read there.
        let opening = tasks::contained(async move {
            step!("open");
            opener::pooled(&own.pool, &own.at(server).server, key).await
        });
        match opening.await.unwrap_or(Err(NoBackend::Panicked)) {
            Ok(opened) => {
                let backend = backend_of(&worker, opened);
                backend.fate.is_left_behind.set(backend.leads_elsewhere(&local.server));
                local.gate.borrow_mut().opened(key);
                worker.counters.backends_opened.add(1);
                local.traffic.opened.add(1);
                worker.add_backend(&backend);
                supply::return_to_pool(&worker, key, &backend);
                tasks::contained(serve(Rc::clone(&worker), backend));
            }
            Err(error) => not_opened(&worker, local, key, &error),
        }
        worker.agenda.look_at(server);
        admit::work_off(&worker);
    });
}

/// A connection that has been opened, as the worker's own.
fn backend_of(worker: &Worker, opened: Opened) -> Rc<Backend> {
    let Opened { server, key, thread_id, stream, capabilities, .. } = opened;
    let id = worker.new_backend_id();
    let mut backend = Backend::new(id, server, thread_id, stream, capabilities, Some(key));
    (backend.origin.opened, backend.origin.era) = (opened.begun, opened.era);
    backend.origin.young_until = rights::young_until(worker, backend.origin.opened);
    backend.reports = opened.reports;
    let session = BackendSession::new(id, opened.fresh).renewed_as(opened.renewed);
    backend.session.replace(if opened.reports { session } else { session.silent() });
    Rc::new(backend)
}

/// No backend could be opened: if there is no other one either, the waiting clients are told why.
pub(crate) fn not_opened(worker: &Rc<Worker>, local: &Local, key: KeyId, error: &NoBackend) {
    let server = &local.server;
    worker.counters.backends_failed.add(1);
    written::see_unreachable(worker, server.id);
    local.traffic.failed.add(1);
    supply::give_back_place(worker, key);
    let user = worker.pool.keys.borrow().get(key).user.clone();
    let (name, address) = (&*server.name, &server.address);
    tracing::warn!(server = name, %address, %user, %error, "no backend connection");
    forget_refused(worker, server.id, key, error);
    if error.is_distress() {
        local.gate.borrow_mut().alarm();
    }
    let other = local.gate.borrow_mut().failed(key, crate::worker::clock::now());
    if let Some(other) = other {
        worker.shared.mail(other, Mail::BackendFree(server.id));
    }
    let fault = error.fault(server);
    let elsewhere = error.speaks_against_server();
    if let Some(members) = worker.shared.cluster.routes_at(server.id).filter(|_| elsewhere) {
        members.suspect(server.id, &error.to_string());
    }
    loop {
        let waiter = local.gate.borrow_mut().give_up(key);
        match waiter {
            Some(client) if elsewhere && route::elsewhere(worker, &client, server.id) => {}
            Some(client) => answer::refuse_held(worker, &client, &fault),
            None => break,
        }
    }
}

/// A server has refused a connection of a user whose password only a client has said: it may be right no longer.
fn forget_refused(worker: &Worker, server: ServerId, key: KeyId, error: &NoBackend) {
    let user = worker.pool.keys.borrow().user(key).cloned();
    let Some(user) = user.filter(|user| user.trust().is_some()) else { return };
    // Another server may only be late to hear of a user.
    let cluster = worker.shared.cluster.of(server).id;
    if server == worker.shared.cluster.greeter_in(cluster).id && error.is_refusal() {
        let name = worker.pool.keys.borrow().get(key).user.clone();
        worker.shared.proofs.users.forget_refused(&name, &user, error);
    }
}
