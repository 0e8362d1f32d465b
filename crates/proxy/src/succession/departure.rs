//! Clients and backends go to the Flifo that takes over from this one, while statements run.
//!
//! A client goes when it is at rest: its command has been answered, or waits in the queue, out of which it is taken; it
//! is read again over there. Its task is held ([`ClientState::Departing`]), what is known of it is written down
//! ([`crate::state::description`]), and its socket is passed, with that of the backend that it holds. When the other
//! process has understood all, this one says that the client is its own now, and forgets it without a word to either
//! end. Until then it is this process's: if the other one refuses it, or ends, it goes on here.
//!
//! What cannot go stays until it can, or ends: a statement that runs, a client or backend with TLS, a login. Invariant:
//! at any moment one process at most reads a client's socket.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;

use engine::cluster::past::Past;
use wire::frame::{HEADER, PAYLOAD_MAX, put_packet};

use crate::cluster::servers::ServerId;
use crate::fault::{Fault, Kind};
use crate::pool::keys::KeyId;
use crate::road::admit;
use crate::road::ending;
use crate::road::lost_backend;
use crate::session::capture;
use crate::session::rights;
use crate::state::backend::{Backend, SetDown};
use crate::state::client::Client;
use crate::state::client_state::ClientState;
use crate::state::description::{
    BackendDescription, ClientDescription, Departure, Departures, KeyDescription, Reception,
    ServerDescription,
};
use crate::state::doing::Doing;
use crate::state::fate::{AfterAnswers, Destination, Life};
use crate::state::predecessor::{Left, Stays};
use crate::state::worker::Worker;
use crate::users::bequeathed::Bequest;

/// So many clients of a worker are under way at once: each waits for those before it.
const AT_ONCE: usize = 32;

/// How often clients that the other process has refused are offered again.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// How often clients that could not go are looked at again.
const LOOK: Duration = Duration::from_millis(2);

/// From now on clients go as soon as they can.
pub(crate) fn begin(worker: &Rc<Worker>, tell: mpsc::Sender<Departure>) {
    let departures = Rc::new(Departures {
        tell,
        under_way: RefCell::default(),
        refused: RefCell::default(),
        told_of: RefCell::default(),
        ask_again: Cell::new(crate::worker::clock::now() + ASK_AGAIN),
        held: RefCell::default(),
        has_sent_idle: Cell::new(false),
        is_over: Cell::new(false),
    });
    *worker.moves.departures.borrow_mut() = Some(Rc::clone(&departures));
    let worker = Rc::clone(worker);
    crate::worker::tasks::vital(async move {
        while !departures.is_over.get() {
            crate::worker::clock::tick();
            look(&worker, &departures);
            admit::work_off(&worker);
            tokio::time::sleep(LOOK).await;
        }
    });
}

/// The other process has ended, or never was: what is here stays here.
pub(crate) fn cancel(worker: &Rc<Worker>) {
    let Some(departures) = worker.moves.departures.take() else { return };
    departures.is_over.set(true);
    let held: Vec<_> = departures.under_way.take().into_values().collect();
    held.iter().for_each(stay);
    for client in worker.clients.borrow().values().filter(|client| client.departs()) {
        client.depart(false);
        client.wake();
    }
    admit::work_off(worker);
}

/// The other process has taken a client, or has not.
pub(crate) fn hear(worker: &Rc<Worker>, id: u32, verdict: Reception) {
    let Some(departures) = worker.moves.departures.borrow().clone() else { return };
    let Some(client) = departures.under_way.borrow_mut().remove(&id) else { return };
    match verdict {
        Reception::Taken => {
            // If it is gone, it has taken the client with it; what it had not taken, it is not told to be its own.
            let _ = departures.tell.send(Departure::Yours { worker: worker.index, id });
            worker.counters.clients_handed_over.add(1);
            leave(worker, &client);
        }
        Reception::Refused => {
            departures.refused.borrow_mut().insert(id);
            stay(&client);
        }
    }
    refill(worker, &departures);
    admit::work_off(worker);
}

/// Sends what can go, and has clients that have something to do go when they have done that.
fn look(worker: &Rc<Worker>, departures: &Departures) {
    if departures.is_over.get() {
        return;
    }
    let now = crate::worker::clock::now();
    if now >= departures.ask_again.get() {
        // A client of the same user may have proved its password there.
        departures.refused.borrow_mut().clear();
        departures.ask_again.set(now + ASK_AGAIN);
    }
    for client in worker.clients.borrow().values() {
        let is_at_work = client.state() != ClientState::Departing && !rests(client);
        if is_at_work && !client.departs() && may_go(departures, client) {
            client.depart(true);
            departures.held.borrow_mut().push(Rc::clone(client));
        }
    }
    refill(worker, departures);
    // One that rests, and cannot go for another reason, goes on meanwhile.
    departures.held.borrow_mut().retain(|client| {
        let is_stuck = rests(client) && !is_at_rest(client);
        if is_stuck {
            client.depart(false);
            client.wake();
        }
        let is_on_its_way = matches!(client.state(), ClientState::Departing | ClientState::Leaving);
        client.departs() && !is_stuck && !is_on_its_way
    });
    // Clients that stay need what is given back after the first time.
    let all_go = || worker.clients.borrow().values().all(|client| may_go(departures, client));
    if !departures.has_sent_idle.replace(true) || all_go() {
        send_all_idle(worker);
    }
}

/// Sends as many clients as there is room for: first those that wait to go on.
fn refill(worker: &Rc<Worker>, departures: &Departures) {
    let room = || AT_ONCE.saturating_sub(departures.under_way.borrow().len());
    let mut next: Vec<_> =
        departures.held.borrow().iter().filter(|it| is_at_rest(it)).cloned().collect();
    next.truncate(room());
    if next.len() < room() {
        let clients = worker.clients.borrow();
        let others = clients.values().filter(|it| !it.departs() && is_at_rest(it));
        let others = others.filter(|it| may_go(departures, it));
        next.extend(others.take(room() - next.len()).cloned());
    }
    for client in next {
        // The one before it may have started it.
        if is_at_rest(&client) {
            depart(worker, departures, &client);
        }
    }
}

fn may_go(departures: &Departures, client: &Client) -> bool {
    !client.stream.is_tls()
        && !client.is_closing()
        && !departures.refused.borrow().contains(&client.id)
}

/// Why clients are still here.
pub(crate) fn left(worker: &Rc<Worker>) -> Left {
    let mut left = Left::default();
    let departures = worker.moves.departures.borrow();
    for client in worker.clients.borrow().values() {
        left.add(why_it_stays(departures.as_deref(), client));
    }
    left
}

fn why_it_stays(departures: Option<&Departures>, client: &Client) -> Stays {
    let is_refused = departures.is_some_and(|it| it.refused.borrow().contains(&client.id));
    match client.backend() {
        _ if client.stream.is_tls() => Stays::Tls,
        _ if is_refused => Stays::Refused,
        Some(backend) if rests(client) && backend.stream.is_tls() => Stays::ServerTls,
        _ => Stays::AtWork,
    }
}

/// Ends at most so many of the clients that stay, each between two transactions, so that they connect to the other
/// process. First those that lose nothing by it. The answer is how many that were.
pub(crate) fn send_away(worker: &Rc<Worker>, count: usize) -> usize {
    let departures = worker.moves.departures.borrow().clone();
    let stays = |client: &Client| why_it_stays(departures.as_deref(), client) != Stays::AtWork;
    let clients = worker.clients.borrow();
    let mut next: Vec<_> =
        clients.values().filter(|it| stays(it) && ending::may_end(it)).cloned().collect();
    drop(clients);
    next.sort_unstable_by_key(|client| {
        let loses_nothing = client.is_pooled() && client.session.borrow().can_do_without();
        (!loses_nothing, client.id)
    });
    next.truncate(count);
    let message = "Flifo ended this connection: another process has taken over, connect anew \
        (limits.upgrade_waves)";
    for client in &next {
        ending::end_client(worker, client, &Fault::new(Kind::Stopping, message));
    }
    next.len()
}

/// Whether it does nothing, as far as its client can tell.
fn rests(client: &Client) -> bool {
    client.state() == ClientState::Reading && !client.is_draining()
}

/// Connections that no client has go, so that the other process need not open so many.
fn send_all_idle(worker: &Rc<Worker>) {
    for local in worker.locals() {
        loop {
            let idle = local.gate.borrow_mut().take_coldest(crate::worker::clock::now());
            let Some(backend) = idle else { break };
            // What it alone knows of a client, that client must know before it goes.
            capture::ask_before_end(worker, &backend);
            backend.fate.leaves_for.set(Some(Destination::Successor));
            backend.wake();
        }
    }
}

/// Whether nothing of a client's is under way, and all of it can be passed.
fn is_at_rest(client: &Client) -> bool {
    let is_known = match client.state() {
        ClientState::Reading => !client.input.is_part() && !client.input.dropped.is_some(),
        // What is longer than a packet, or has been read in part, waits for its turn here.
        ClientState::Queued | ClientState::Stranded => client.command().is_some_and(|command| {
            !client.input.is_part()
                && (HEADER..HEADER + PAYLOAD_MAX).contains(&command.packet.len())
        }),
        _ => false,
    };
    let own = client.backend();
    is_known
        && !client.stream.is_tls()
        && !client.is_closing()
        && !client.is_draining()
        && own.as_ref().is_none_or(|backend| is_backend_at_rest(client, backend))
        && !client.session.borrow().is_told_elsewhere(own.map(|backend| backend.id))
}

fn is_backend_at_rest(client: &Client, backend: &Backend) -> bool {
    let is_its_own = backend.holder.borrow().as_ref().is_some_and(|it| it.id == client.id);
    is_its_own
        && !backend.stream.is_tls()
        && backend.fate.life.get() == Life::Open
        && backend.in_flight.borrow().is_empty()
        && backend.bytes.unread.borrow().is_empty()
        && !backend.owes_bytes()
        && backend.capture.borrow().is_none()
        && !backend.fate.is_being_killed()
        && backend.fate.then.get() == AfterAnswers::Stay
        && backend.set_down.get() == SetDown::No
        && backend.fate.leaves_for.get().is_none()
}

/// Holds a client, and writes it down for the other process.
fn depart(worker: &Rc<Worker>, departures: &Departures, client: &Rc<Client>) {
    worker.leave_queue(client);
    let mut more = Vec::new();
    if let Some(command) = client.take_command() {
        put_packet(&mut more, 0, &command.packet[HEADER..]);
        worker.spare.buffers.forget(command.end());
    }
    more.extend(client.input.take_more());
    client.become_state(Doing::Departing);
    client.input.give_room_back();
    client.input.end_upload();
    let own = client.backend();
    own.iter().for_each(|backend| backend.fate.life.set(Life::Departing));
    let files =
        client.stream.file().into_iter().chain(own.iter().filter_map(|it| it.stream.file()));
    let files: Result<Vec<_>, _> = files.collect();
    let (description, more) = describe(worker, client, own.as_deref(), more);
    client.input.keep_more(&more, false);
    departures.under_way.borrow_mut().insert(client.id, Rc::clone(client));
    let (Ok(files), Ok(description)) = (files, description) else {
        // No descriptor is left, or it cannot be written: another time.
        departures.under_way.borrow_mut().remove(&client.id);
        return stay(client);
    };
    tell_of_password(worker, departures, client);
    let (worker, id) = (worker.index, client.id);
    // One that is not read is given back when the other process has ended.
    let _ = departures.tell.send(Departure::Client { worker, id, description, files });
}

/// What only clients have told of the user's password, the other process is told before the first of its clients.
fn tell_of_password(worker: &Worker, departures: &Departures, client: &Client) {
    let name = client.user.borrow();
    if !client.is_pooled() || departures.told_of.borrow().contains(&*name) {
        return;
    }
    let user = worker.shared.proofs.users.named(&name);
    if let Some(bequest) = user.and_then(|user| Bequest::of(&name, &user)) {
        let _ = departures.tell.send(Departure::Secret(bequest));
    }
    departures.told_of.borrow_mut().insert(name.clone());
}

/// The server that another process is to ask for what a client has written on this one: the writer, if that has it all.
/// Where a server that was replaced has been, that process need not learn any more.
fn heir(worker: &Worker, past: &Past, taker: ServerId) -> ServerId {
    let writer = worker.shared.cluster.routes_at(taker).and_then(|members| {
        let writer = members.writer()?;
        past.writes.is_held(taker.0, members.holds(writer, taker)).then_some(writer)
    });
    writer.unwrap_or(taker)
}

/// Writes a client down. What that takes from it, it has again afterwards.
fn describe(
    worker: &Worker,
    client: &Client,
    own: Option<&Backend>,
    more: Vec<u8>,
) -> (serde_json::Result<Vec<u8>>, Vec<u8>) {
    let now = crate::worker::clock::now();
    let server = |id: ServerId| ServerDescription::of(&worker.at(id).server);
    let key = |key: KeyId| KeyDescription::of(&worker.pool.keys.borrow().get(key));
    let found_at = |past: &mut Past| {
        let taker = past.writes.taker().map(|it| server(heir(worker, past, ServerId(it))));
        let all = past.writes.takers().map(|it| server(heir(worker, past, ServerId(it))));
        (all.collect(), taker)
    };
    let (mut wrote, last): (Vec<_>, _) = client.routing.past.with(found_at).unwrap_or_default();
    wrote.retain(|server| Some(server) != last.as_ref());
    wrote.extend(last);
    let backend = own.map(|own| BackendDescription {
        server: server(own.server),
        key: own.key.get().map(key),
        thread_id: own.thread_id,
        capabilities: own.capabilities.0,
        age: now.saturating_duration_since(own.origin.opened),
        session: own.session.take(),
        statements: own.known.borrow().ids().collect(),
        ahead: own.bytes.ahead.borrow().clone(),
        taint: own.taint.get(),
        is_left_behind: own.fate.is_left_behind.get() || rights::is_stale(worker, own, now),
    });
    let name_of = |cluster| worker.shared.cluster.get(cluster).name.to_string();
    let description = ClientDescription {
        id: client.id,
        capabilities: client.capabilities.0,
        peer: client.peer,
        listener: said(&*client.routing.came_by.listener).map(str::to_owned),
        program: said(&*client.routing.came_by.program).map(<[u8]>::to_vec),
        user: client.user.borrow().clone(),
        key: client.key.get().map(key),
        session: client.session.take(),
        mode: client.routing.mode.get(),
        mode_by_route: client.routing.routed.get().map(|routed| routed.mode),
        cluster_by_route: client.routing.routed.get().and_then(|it| it.cluster).map(name_of),
        server: server(client.routing.server.get()),
        several: client.several.get(),
        gtid: client.routing.gtid.with(|gtid| gtid.to_vec()),
        wrote,
        prepared_changes: client.prepared_changes.with(|changes| changes.clone()),
        pinned: client.pinned.get().map(|it| (it.pin, now.saturating_duration_since(it.since))),
        transaction: client.times.transaction.get().map(|it| now.saturating_duration_since(it)),
        age: now.saturating_duration_since(client.logged.since),
        more,
        login_sequence: client.input.login_sequence.get(),
        backend,
    };
    let written = serde_json::to_vec(&description);
    let ClientDescription { session, backend, more, .. } = description;
    client.session.replace(session);
    if let (Some(own), Some(backend)) = (own, backend) {
        own.session.replace(backend.session);
    }
    (written, more)
}

/// Something, unless it is empty.
fn said<T: ?Sized + AsRef<[u8]>>(it: &T) -> Option<&T> {
    (!it.as_ref().is_empty()).then_some(it)
}

/// The client stays, as if it had never been held. What waited in the queue is read again.
fn stay(client: &Rc<Client>) {
    if let Some(own) = client.backend()
        && own.fate.life.get() == Life::Departing
    {
        own.fate.life.set(Life::Open);
        own.wake();
    }
    client.become_state(Doing::Reading);
    client.depart(false);
    client.wake();
}

/// The client is another process's: it is forgotten here, and its socket is only closed.
fn leave(worker: &Rc<Worker>, client: &Rc<Client>) {
    let own = client.backend();
    worker.remove_client(client);
    if let Some(own) = own {
        own.holder.take();
        client.backend.take();
        own.fate.life.set(Life::Departed);
        worker.backends.borrow_mut().remove(&own.id);
        lost_backend::give_back_place(worker, own.server, own.key.get(), own.id);
        worker.agenda.look_at(own.server);
        own.wake();
    }
    client.become_state(Doing::Leaving);
    client.wake();
}
