//! Through the gate and out of it: which statement starts now, which waits, which follows.

use std::collections::HashSet;
use std::rc::Rc;

use engine::gate::{Ask, Full, Slot, Start};
use wire::command::Opcode;
use wire::frame::HEADER;

use crate::answers::answer;
use crate::cluster::servers::ServerId;
use crate::features::cached::{self, CacheLook};
use crate::features::sharing;
use crate::features::sharing::crowds;
use crate::pool::keys::KeyId;
use crate::road::launch;
use crate::road::queue_timeout;
use crate::routing::clusters::{self, Way};
use crate::routing::route;
use crate::session::pipeline;
use crate::session::rights;
use crate::session::supply;
use crate::state::agenda::Due;
use crate::state::backend::{Backend, SetDown};
use crate::state::client::Client;
use crate::state::client_state::ClientState;
use crate::state::command::Command;
use crate::state::doing::{Doing, Ticket};
use crate::state::local::Local;
use crate::state::shared::Mail;
use crate::state::worker::Worker;
use crate::worker::counters::Why;
use crate::worker::steps::step;
use crate::worker::wreckage;

/// Starts the command now, or puts its client in the queue.
///
/// `urgent`: it must not wait, because others may wait for what it holds.
pub(crate) fn enter(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    command: Box<Command>,
    packet: &mut [u8],
    urgent: bool,
) {
    if worker.shared.cluster.is_routed() && client.is_pooled() {
        if worker.shared.cluster.are_several() {
            return enter_cluster(worker, client, command, packet, urgent);
        }
        if client.backend.borrow().is_none() {
            return enter_routed(worker, client, command, packet, urgent);
        }
    }
    enter_here(worker, client, command, packet, urgent);
}

/// The same where there are several clusters.
fn enter_cluster(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    mut command: Box<Command>,
    packet: &mut [u8],
    urgent: bool,
) {
    let mut instead = match clusters::lead(worker, client, &mut command, packet) {
        Ok(Way::Free) => Vec::new(),
        Ok(Way::As(instead)) => instead,
        Ok(Way::Waits(awaits)) => {
            return answer::hold(worker, client, command, packet, awaits);
        }
        // A piece of a parameter has no reply.
        Err(fault) if packet.get(HEADER) == Some(&(Opcode::StmtSendLongData as u8)) => {
            return answer::refuse_and_close(worker, client, &fault);
        }
        Err(fault) => return answer::refuse(worker, client, command, &fault),
    };
    let packet = if instead.is_empty() { packet } else { &mut instead[..] };
    match client.backend() {
        None => enter_routed(worker, client, command, packet, urgent),
        Some(_) => enter_here(worker, client, command, packet, urgent),
    }
}

/// The same for a client that may go to any server of its cluster.
fn enter_routed(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    command: Box<Command>,
    packet: &mut [u8],
    urgent: bool,
) {
    if let Some(members) = worker.shared.cluster.routes(clusters::of(client, &command)) {
        match route::take(worker, members, client, &command) {
            Some(server) => client.routing.server.set(server),
            None => return route::strand(worker, client, command, packet),
        }
    }
    enter_here(worker, client, command, packet, urgent);
}

/// The same for a command whose bytes are kept.
pub(crate) fn enter_held(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    mut command: Box<Command>,
    urgent: bool,
) {
    let mut packet = std::mem::take(&mut command.packet);
    enter(worker, client, command, &mut packet, urgent);
    worker.spare.buffers.forget(packet);
}

/// The same, on the server that the client's backend or an order names.
pub(crate) fn enter_here(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    command: Box<Command>,
    packet: &mut [u8],
    urgent: bool,
) {
    step!("gate");
    rights::look(worker);
    let backend = client.backend();
    let command = match worker.features.caches.is_on() && backend.is_none() {
        true => match cached::enter(worker, client, command, packet) {
            CacheLook::GoesOn(command) => command,
            CacheLook::Over => return,
        },
        false => command,
    };
    let command = match worker.features.sharing.is_used() && backend.is_none() {
        true => match crowds::enter(worker, client, command, packet) {
            Some(command) => command,
            None => return,
        },
        false => command,
    };
    let (ask, now) = (client.ask(&command), crate::worker::clock::now());
    let local = worker.at(client.routing.server.get());
    let mut gate = local.gate.borrow_mut();
    match (backend, client.key.get()) {
        (Some(backend), _) => {
            let slot = if urgent { Some(gate.force(ask, now)) } else { gate.enter_own(ask, now) };
            if slot.is_some() {
                drop(gate);
                backend.slot.set(slot);
                launch::launch(worker, client, &backend, command, packet);
                if client.input.is_part() {
                    await_rest(worker, client, &backend);
                }
                return;
            }
            let waiting = gate.wait_own(Rc::clone(client), ask, now);
            drop(gate);
            if wait(worker, client, command, packet, waiting) {
                start_ready(worker, local);
            }
        }
        (None, Some(key)) => {
            if let Some((backend, slot)) =
                gate.enter(key, ask, now, |backend| suits(client, backend))
            {
                drop(gate);
                backend.slot.set(Some(slot));
                backend.hold_for(client);
                launch::launch(worker, client, &backend, command, packet);
                if client.input.is_part() {
                    await_rest(worker, client, &backend);
                }
                return;
            }
            let waiting = gate.wait(key, Rc::clone(client), ask, now);
            drop(gate);
            let is_read = command.facts.read.is_some();
            if wait(worker, client, command, packet, waiting) {
                if is_read {
                    sharing::join(worker, client);
                }
                start_ready(worker, local);
                supply::provide(worker, local, key);
                if is_read && client.state() == ClientState::Queued {
                    worker.has_waiters.notify_one();
                }
            }
        }
        // A pass-through client whose backend is gone is being closed.
        (None, None) => client.close(),
    }
}

/// Puts the command in hand on hold. False: the line is full, and the client has been told.
fn wait(
    worker: &Rc<Worker>,
    client: &Client,
    mut command: Box<Command>,
    packet: &[u8],
    waiting: Result<Ticket, Full<Rc<Client>>>,
) -> bool {
    match waiting {
        Ok(ticket) => {
            command.packet = worker.spare.buffers.keep(packet);
            command.set_runs(false);
            client.become_state(Doing::Queued { command, ticket });
            step!("queue");
            worker.counters.waits.add(1);
            worker.at(client.routing.server.get()).count_queue();
            true
        }
        Err((_, refusal)) => {
            let local = worker.at(client.routing.server.get());
            let fault = queue_timeout::not_run(local, &refusal, Some(&command));
            answer::refuse(worker, client, command, &fault);
            false
        }
    }
}

/// Does what is due: slots that were left go to the longest waiters that can use them, and what can start starts.
///
/// A statement that starts may end at once (it needs no reply, or is refused), and leave its slot in turn. So this is a
/// loop, and calls from within it return: a line of ten thousand such statements must not be ten thousand calls deep.
pub(crate) fn work_off(worker: &Rc<Worker>) {
    if !worker.agenda.begin() {
        return;
    }
    while let Some(due) = worker.agenda.next() {
        match due {
            Due::Slot(server, slot) => pass_on(worker, worker.at(server), slot),
            Due::Look(server) => pump(worker, server),
        }
    }
    worker.agenda.end();
    worker.locals().for_each(Local::count_queue);
}

fn pass_on(worker: &Rc<Worker>, local: &Local, slot: Slot) {
    rights::look(worker);
    let now = crate::worker::clock::now();
    let start =
        local.gate.borrow_mut().pass_on(slot, now, |client, backend| suits(client, backend));
    if let Some(start) = start {
        begin(worker, local, start);
    }
    start_ready(worker, local);
}

/// Which statements wait in a server, as it says itself.
#[derive(Debug)]
pub(crate) enum Waits {
    /// It is not asked.
    Unknown,
    /// It says how many.
    Number,
    /// The same, and those on the connections of these numbers waited a short time ago.
    Of(HashSet<u32>),
}

/// The key of a backend whose statement seems to wait for something in the server, if any statement waits for a slot.
/// Where the server tells which statements wait, those may wait that are not as old yet.
pub(crate) fn stuck(worker: &Worker, local: &Local, waits: &Waits) -> Option<KeyId> {
    let (gate, now) = (local.gate.borrow(), crate::worker::clock::now());
    if !gate.wants_slot(now) {
        return None;
    }
    let is_stuck = |backend: &&Rc<Backend>| {
        if backend.server != local.server.id {
            return false;
        }
        let slot = backend.slot.take();
        let is_stuck = slot.as_ref().is_some_and(|slot| match waits {
            Waits::Of(_) if gate.has_parked() => gate.may_wait(slot, now),
            _ => gate.may_be_stuck(slot, now),
        });
        backend.slot.set(slot);
        is_stuck && backend.key.get().is_some()
    };
    worker.backends.borrow().values().find(is_stuck)?.key.get()
}

/// Statements that seem to wait for something in the server leave their slots to statements that wait for one.
pub(crate) fn park_stuck(worker: &Rc<Worker>) {
    worker.locals().for_each(|local| park_stuck_at(worker, local, &Waits::Unknown));
}

pub(crate) fn park_stuck_at(worker: &Rc<Worker>, local: &Local, waits: &Waits) {
    let now = crate::worker::clock::now();
    if !local.gate.borrow().wants_slot(now) {
        return;
    }
    let is_there = |backend: &&Rc<Backend>| backend.server == local.server.id;
    let mut backends: Vec<_> =
        worker.backends.borrow().values().filter(is_there).cloned().collect();
    let is_named = |backend: &Backend| matches!(waits, Waits::Of(threads) if threads.contains(&backend.thread_id));
    // If not all may be parked: a plain read rarely waits for a lock.
    let is_read = |backend: &Rc<Backend>| {
        backend.in_flight.borrow().front().is_some_and(|it| it.read.is_some())
    };
    backends.sort_by_cached_key(|backend| (!is_named(backend), is_read(backend)));
    for backend in backends {
        let Some(mut slot) = backend.slot.take() else { continue };
        let mut gate = local.gate.borrow_mut();
        let is_stuck = match waits {
            Waits::Of(_) if is_named(&backend) => gate.may_wait(&slot, now),
            Waits::Of(_) | Waits::Number => gate.may_be_stuck(&slot, now),
            Waits::Unknown => gate.seems_stuck(&slot, now),
        };
        if !is_stuck {
            backend.slot.set(Some(slot));
            continue;
        }
        let parked = gate.counts().parked;
        let start = gate.park(&mut slot, now, |client, backend| suits(client, backend));
        worker.counters.parked.add(gate.counts().parked - parked);
        drop(gate);
        backend.slot.set(Some(slot));
        if let Some(start) = start {
            begin(worker, local, start);
        }
    }
    pump(worker, local.server.id);
}

/// The reply on this backend waits for its own client to read: its slot goes to the next, until the client reads on.
pub(crate) fn hold_up(worker: &Rc<Worker>, backend: &Rc<Backend>) {
    let Some(slot) = backend.slot.take() else { return };
    worker.counters.held_up.add(1);
    pipeline::cancel_pipelined(worker, backend, Why::Unread);
    sharing::part(backend);
    set_down(worker, backend, slot, SetDown::Unread);
}

/// More of the command that was sent on this backend has still to come, and the server does not work before all is
/// there: its slot goes to the next, until the client sends the end. What the server has asked for in the middle of its
/// work (a file) does not count: it holds what others wait for.
pub(crate) fn await_rest(worker: &Rc<Worker>, client: &Rc<Client>, backend: &Rc<Backend>) {
    let is_command = client.input.upload.get().is_some_and(|upload| upload.payload_len().is_some());
    if !is_command || client.state() != ClientState::Running {
        return;
    }
    let Some(slot) = backend.slot.take() else { return };
    worker.counters.passed_in_pieces.add(1);
    set_down(worker, backend, slot, SetDown::Unsent);
}

/// The end of a command is there. False: its statement has no slot for it yet, and gets the next.
pub(crate) fn go_on(worker: &Rc<Worker>, client: &Rc<Client>, backend: &Rc<Backend>) -> bool {
    if backend.set_down.get() != SetDown::Unsent {
        return true;
    }
    if client.ticket().is_none() {
        let has_locks = client.session.borrow().may_hold_locks();
        take_up(worker, client, backend, has_locks);
    }
    backend.set_down.get() != SetDown::Unsent
}

/// The server has answered before the command was there: it needs no slot for the rest.
pub(crate) fn forget_rest(worker: &Rc<Worker>, client: &Rc<Client>, backend: &Rc<Backend>) {
    client.input.end_upload();
    if backend.set_down.get() != SetDown::Unsent {
        return;
    }
    backend.set_down.set(SetDown::No);
    worker.leave_queue(client);
}

fn set_down(worker: &Rc<Worker>, backend: &Rc<Backend>, slot: Slot, why: SetDown) {
    backend.set_down.set(why);
    let now = crate::worker::clock::now();
    let suits = |client: &Rc<Client>, backend: &Rc<Backend>| suits(client, backend);
    let local = worker.at(backend.server);
    let start = local.gate.borrow_mut().set_down(slot, now, suits);
    if let Some(start) = start {
        begin(worker, local, start);
    }
    start_ready(worker, local);
}

/// The client has read: its statement goes on as soon as it has a slot again, before all others.
pub(crate) fn come_back(worker: &Rc<Worker>, client: &Rc<Client>, backend: &Rc<Backend>) {
    if backend.set_down.get() != SetDown::Unread || client.ticket().is_some() {
        return;
    }
    // Others may wait for locks that it has, unless it is known to have none.
    let is_read = || backend.in_flight.borrow().front().is_some_and(|it| it.read.is_some());
    let has_locks = client.session.borrow().may_hold_locks() || client.is_pooled() && !is_read();
    take_up(worker, client, backend, has_locks);
}

/// A statement whose slot was left gets one, at once or before all others.
fn take_up(worker: &Rc<Worker>, client: &Rc<Client>, backend: &Rc<Backend>, has_locks: bool) {
    let class = backend.in_flight.borrow().front().and_then(|it| it.command.as_ref()?.class);
    let class = class.unwrap_or_else(|| client.class.get());
    let (ask, now) = (Ask::new(class, None), crate::worker::clock::now());
    let local = worker.at(backend.server);
    if has_locks {
        backend.slot.set(Some(local.gate.borrow_mut().force(ask, now)));
        return backend.set_down.set(SetDown::No);
    }
    let ticket = local.gate.borrow_mut().come_back(Rc::clone(client), ask, now);
    client.set_ticket(Some(ticket));
    start_ready(worker, local);
}

/// Starts every statement that can start, and opens backends for those that wait for one. Called after anything has
/// changed.
pub(crate) fn pump(worker: &Rc<Worker>, server: ServerId) {
    let local = worker.at(server);
    start_ready(worker, local);
    provide_all(worker, local);
    local.gate.borrow_mut().return_places();
    wake_others(worker, local);
}

fn provide_all(worker: &Rc<Worker>, local: &Local) {
    let keys: Vec<_> = local.gate.borrow().keys_waiting().collect();
    for key in keys {
        supply::provide(worker, local, key);
    }
}

/// Starts every statement that can start.
fn start_ready(worker: &Rc<Worker>, local: &Local) {
    rights::look(worker);
    loop {
        let now = crate::worker::clock::now();
        let start = local.gate.borrow_mut().next(now, |client, backend| suits(client, backend));
        match start {
            Some(start) => begin(worker, local, start),
            None => break,
        }
    }
    let lacks_more = local.gate.borrow_mut().lacks_more();
    if lacks_more {
        provide_all(worker, local);
    }
    wake_others(worker, local);
}

/// Others have been granted a slot or a place, or may wait for their class.
fn wake_others(worker: &Worker, local: &Local) {
    loop {
        // Not in the loop's head, where the gate would be borrowed for as long as its body.
        let other = local.gate.borrow_mut().next_wake();
        let Some(other) = other else { break };
        worker.shared.mail(other, Mail::SlotFree(local.server.id));
    }
}

fn begin(worker: &Rc<Worker>, local: &Local, start: Start<Rc<Client>, Rc<Backend>>) {
    let (client, backend) = match start {
        Start::Own(client, slot) => match client.backend() {
            Some(backend) => {
                backend.slot.set(Some(slot));
                (client, backend)
            }
            // It is being closed; its slot goes on to the next.
            None => return worker.agenda.leave_slot(local.server.id, Some(slot)),
        },
        Start::On(client, backend, slot) => {
            backend.slot.set(Some(slot));
            backend.hold_for(&client);
            (client, backend)
        }
    };
    if backend.set_down.take() != SetDown::No {
        client.set_ticket(None);
        // It goes on where its client kept it waiting.
        client.wake();
        return backend.wake();
    }
    // It is another client's task that does this.
    wreckage::contain(client.id, Some(backend.id), || {
        step!("begin");
        let Some(mut command) = client.take_command() else {
            // It was lost by a panic: the slot and the backend go on without it.
            return backend.close();
        };
        sharing::gather(worker, &client, &mut command, &backend);
        launch_again(worker, &client, &backend, command);
    });
}

/// Launches the command that a client has on hold. Its slot has been taken.
pub(crate) fn launch_held(worker: &Rc<Worker>, client: &Rc<Client>, backend: &Rc<Backend>) {
    match client.take_command() {
        Some(command) => launch_again(worker, client, backend, command),
        // It was lost by a panic: the slot and the backend go on without it.
        None => backend.close(),
    }
}

/// Launches a command whose bytes are kept.
fn launch_again(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    backend: &Rc<Backend>,
    mut command: Box<Command>,
) {
    let mut packet = std::mem::take(&mut command.packet);
    launch::launch(worker, client, backend, command, &mut packet);
    worker.spare.buffers.forget(packet);
    if client.input.is_part() {
        client.wake();
        await_rest(worker, client, backend);
    }
}

fn suits(client: &Client, backend: &Backend) -> bool {
    step!("suits");
    backend.session.borrow().suits(&client.session.borrow())
}
