//! What was pipelined on a backend: the next statement begins, or all of them go back into the queue.

use std::rc::Rc;

use engine::gate::Ask;

use crate::state::backend::Backend;
use crate::state::client::Client;
use crate::state::command::Command;
use crate::state::doing::Doing;
use crate::state::shared::Mail;
use crate::state::worker::Worker;
use crate::worker::counters::Why;

/// The statement in front has ended: the next one on the backend runs now, on the same slot. False: there is none.
pub(crate) fn promote(worker: &Worker, backend: &Rc<Backend>) -> bool {
    let mut flights = backend.in_flight.borrow_mut();
    let Some(next) = flights.front_mut() else { return false };
    next.slot = true;
    next.since = crate::worker::clock::now();
    let mut ask = Ask::default();
    if let (Some(client), Some(command)) = (next.client.clone(), &mut next.command) {
        if command.facts.in_hand.is_none() && !worker.shared.cluster.is_routed() {
            worker.spare.buffers.forget(std::mem::take(&mut command.packet));
        }
        backend.hold_for(&client);
        ask = client.ask(command);
    }
    ask.digest = next.read;
    if let Some(mut slot) = backend.slot.take() {
        worker.at(backend.server).gate.borrow_mut().renew(
            &mut slot,
            ask,
            crate::worker::clock::now(),
        );
        backend.slot.set(Some(slot));
    }
    true
}

/// Puts the clients that wait behind the statement in front back into the queue. What was sent for them runs, and its
/// replies are dropped.
pub(crate) fn cancel_pipelined(worker: &Rc<Worker>, backend: &Backend, why: Why) {
    let mut flights = backend.in_flight.borrow_mut();
    if flights.is_empty() {
        return;
    }
    let behind = flights.iter_mut().filter(|flight| !flight.slot);
    let clients: Vec<_> = behind.filter_map(|flight| flight.give_up()).collect();
    drop(flights);
    send_again(worker, clients, why);
}

/// Puts clients whose statements were pipelined, and not answered, back at the head of the queue, in this order.
pub(crate) fn send_again(worker: &Rc<Worker>, clients: Vec<(Rc<Client>, Box<Command>)>, why: Why) {
    if clients.is_empty() {
        return;
    }
    worker.counters.sent_again[why as usize].add(clients.len() as u64);
    for (client, mut command) in clients.into_iter().rev() {
        client.backend.take();
        let Some(key) = client.key.get() else { continue };
        command.set_runs(false);
        // Once is enough: next time it stands in front.
        command.rare().goes_first = true;
        let (ask, now) = (client.ask(&command), crate::worker::clock::now());
        let server = client.routing.server.get();
        let mut gate = worker.at(server).gate.borrow_mut();
        let ticket = gate.wait_again(key, Rc::clone(&client), ask, now);
        client.become_state(Doing::Queued { command, ticket });
        // Not from within whatever is going on now.
        worker.shared.mail(worker.index, Mail::SlotFree(server));
    }
}

/// Whether the client's statement waits on the backend behind another one.
pub(crate) fn is_behind(client: &Client, backend: &Backend) -> bool {
    backend.in_flight.borrow().iter().any(|flight| !flight.slot && flight.is_of(client))
}

/// The client goes away, or its statement is to be killed, and what runs for it need not be: the reply of a short
/// read is dropped when it comes. `None`: it must be killed.
pub(crate) fn disown(worker: &Worker, client: &Client, backend: &Backend) -> Option<Box<Command>> {
    let mut flights = backend.in_flight.borrow_mut();
    let flight = flights.iter_mut().find(|flight| flight.is_of(client))?;
    let is_short = flight.read.is_some_and(|digest| worker.learnt.pace.borrow().is_short(digest));
    if flight.slot && !is_short {
        return None;
    }
    flight.client = None;
    if flight.slot {
        backend.holder.take();
    }
    client.backend.take();
    let command = flight.command.take();
    drop(flights);
    let mut command = command?;
    worker.spare.buffers.forget(std::mem::take(&mut command.packet));
    Some(command)
}
