//! Through the gate and out of it: who starts now, who waits, who follows.

use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use engine::gate::{Start, Want};
use wire::passage::Passage;

use crate::ahead;
use crate::client::{Client, Turn};
use crate::fault::{Fault, Kind};
use crate::keys::KeyId;
use crate::launch;
use crate::links::Link;
use crate::opener;
use crate::worker::{Mail, Worker};

/// Starts the command now, or puts its client in line.
///
/// `urgent`: it must not wait, because others may wait for what it holds.
pub(crate) fn enter(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    packet: &mut [u8],
    upload: Option<Passage>,
    urgent: bool,
) {
    client.upload.set(upload);
    let link = client.link();
    let mut gate = worker.gate.borrow_mut();
    match (link, client.key.get()) {
        (Some(link), _) => {
            if urgent {
                gate.force();
            } else if !gate.enter_own() {
                hold(worker, client, packet);
                client.waiting.set(Some(gate.wait_own(Rc::clone(client), crate::clock::now())));
                drop(gate);
                worker.counters.waits.add(1);
                return start_ready(worker);
            }
            drop(gate);
            launch::launch(worker, client, &link, packet);
        }
        (None, Some(key)) => {
            if let Some(link) = gate.enter(key, |link| suits(client, link)) {
                drop(gate);
                link.hold_for(client);
                return launch::launch(worker, client, &link, packet);
            }
            hold(worker, client, packet);
            let waiting = gate.wait(key, Rc::clone(client), crate::clock::now());
            client.waiting.set(Some(waiting));
            drop(gate);
            worker.counters.waits.add(1);
            start_ready(worker);
            provide_links(worker, key);
        }
        // A carried client whose link is gone is being closed.
        (None, None) => client.close(),
    }
}

fn hold(worker: &Worker, client: &Client, packet: &[u8]) {
    *client.held.borrow_mut() = worker.buffers.keep(packet);
    client.set_turn(Turn::Line);
}

/// Gives a statement's slot back: the longest waiter who can use it starts.
///
/// One that starts may end at once (it needs no reply, or is refused), and give its slot back in turn. That is done
/// here in a loop, not by recursion: a line of ten thousand such statements must not be ten thousand calls deep.
pub(crate) fn leave(worker: &Rc<Worker>) {
    worker.slots_left.set(worker.slots_left.get() + 1);
    if worker.is_passing_on.replace(true) {
        return;
    }
    while worker.slots_left.get() > 0 {
        worker.slots_left.set(worker.slots_left.get() - 1);
        let (start, other) = worker.gate.borrow_mut().pass_on(|client, link| suits(client, link));
        if let Some(start) = start {
            begin(worker, start);
        }
        if let Some(other) = other {
            worker.shared.mail(other, Mail::SlotFree);
        }
    }
    worker.is_passing_on.set(false);
}

/// A slot is free for somebody here. If it comes too late to be of use, the next worker that waits
/// gets it.
pub(crate) fn take_slot(worker: &Rc<Worker>) {
    pump(worker);
    let other = worker.gate.borrow().unused_slot();
    if let Some(other) = other {
        worker.shared.mail(other, Mail::SlotFree);
    }
}

/// Starts everyone who can start, and opens links for those who wait for one: after anything has changed.
pub(crate) fn pump(worker: &Rc<Worker>) {
    start_ready(worker);
    let keys: Vec<_> = worker.gate.borrow().keys_waiting().collect();
    for key in keys {
        provide_links(worker, key);
    }
}

/// Starts everyone who can start.
fn start_ready(worker: &Rc<Worker>) {
    loop {
        let start = worker.gate.borrow_mut().next(|client, link| suits(client, link));
        match start {
            Some(start) => begin(worker, start),
            None => break,
        }
    }
}

/// Sees to it that those of this key who wait for a link get one, as far as the cap allows.
fn provide_links(worker: &Rc<Worker>, key: KeyId) {
    loop {
        if worker.user_of(key, |user| user.links.is_full()) {
            ask_for_place(worker, key);
            break;
        }
        let want = worker.gate.borrow_mut().want(key, crate::clock::now());
        match want {
            Want::Nothing => break,
            Want::Open if take_place(worker, key) => opener::open(worker, key),
            // Another worker was quicker.
            Want::Open => break do_without(worker, key),
            Want::Close(link) => {
                // Its place under the cap is free once its task has ended; that pumps again.
                link.close();
                break;
            }
            Want::Ask => {
                // Whichever is free first, here or elsewhere.
                worker.owes_link.set(true);
                worker.shared.ask_for_link(worker.index, None);
                break;
            }
        }
    }
}

/// Counts one more link of this key's user, if there may be one.
fn take_place(worker: &Worker, key: KeyId) -> bool {
    worker.user_of(key, |user| {
        user.link_wanted.store(false, Relaxed);
        user.links.try_take()
    })
}

/// The place for a link that was to be opened is given back.
fn do_without(worker: &Worker, key: KeyId) {
    let mut gate = worker.gate.borrow_mut();
    gate.opened(key);
    let other = gate.closed(key, |_| false);
    drop(gate);
    if let Some(other) = other {
        worker.shared.mail(other, Mail::LinkFree);
    }
}

/// The user has as many links as it may. Where none of them serves this key here, one of the others must go.
fn ask_for_place(worker: &Rc<Worker>, key: KeyId) {
    if worker.gate.borrow().has_links(key) {
        return;
    }
    let name = Rc::clone(&worker.keys.borrow().get(key).user);
    if !close_idle_of(worker, &name) {
        worker.user_of(key, |user| user.link_wanted.store(true, Relaxed));
        worker.shared.ask_for_link(worker.index, Some(&name));
    }
}

/// Closes an idle link of this user, if there is one here.
pub(crate) fn close_idle_of(worker: &Worker, name: &[u8]) -> bool {
    let keys = worker.keys.borrow();
    let is_one = |key| *keys.get(key).user == *name;
    let idle = worker.gate.borrow_mut().take_idle(is_one, crate::clock::now());
    if let Some(link) = &idle {
        link.close();
    }
    idle.is_some()
}

fn begin(worker: &Rc<Worker>, start: Start<Rc<Client>, Rc<Link>>) {
    let (client, link) = match start {
        Start::Own(client) => match client.link() {
            Some(link) => (client, link),
            // It is being closed; its slot goes on to the next.
            None => return leave(worker),
        },
        Start::On(client, link) => {
            link.hold_for(&client);
            (client, link)
        }
    };
    client.waiting.set(None);
    launch_held(worker, &client, &link);
}

/// Launches the command that a client has on hold. Its slot has been taken.
pub(crate) fn launch_held(worker: &Rc<Worker>, client: &Rc<Client>, link: &Rc<Link>) {
    let mut held = client.held.take();
    launch::launch(worker, client, link, &mut held);
    worker.buffers.forget(held);
    if client.upload.get().is_some() {
        client.wake();
    }
}

fn suits(client: &Client, link: &Link) -> bool {
    *link.schema.borrow() == client.session.borrow().schema
}

/// A statement is over: its link goes back unless the client must keep it, its slot goes to the next.
pub(crate) fn over(worker: &Rc<Worker>, client: &Client, link: &Rc<Link>, slot: bool) {
    worker.counters.statements.add(1);
    if let Some(key) = link.key.get()
        && !client.session.borrow().holds_link()
    {
        link.release();
        let key = key.with_schema(link.schema.borrow().is_some());
        rekey(worker, link, key);
        client.key.set(Some(key.with_schema(client.session.borrow().schema.is_some())));
        if slot && ahead::promote(worker, link) {
            return;
        }
        put(worker, key, link);
    } else if client.is_pooled() {
        ahead::take_back(worker, link);
    }
    if slot {
        leave(worker);
    }
}

/// A statement may have given the link a schema, or taken it away.
fn rekey(worker: &Worker, link: &Link, key: KeyId) {
    if let Some(old) = link.key.replace(Some(key)) {
        worker.gate.borrow_mut().rekey(old, key);
    }
}

/// Before a link is given up for others who have none, it serves its own for so long: where there are more keys than
/// links, they take turns, and do not spend all their time with logins.
const TENURE: Duration = Duration::from_millis(100);

/// Whether somebody who has no link at all waits for the place of one like this.
fn is_owed(worker: &Worker, key: KeyId) -> bool {
    worker.owes_link.take()
        || worker.user_of(key, |user| {
            user.link_wanted.load(Relaxed) && user.link_wanted.swap(false, Relaxed)
        })
}

/// Puts a link back, or closes it if it is too old.
pub(crate) fn put(worker: &Rc<Worker>, key: KeyId, link: &Rc<Link>) {
    if link.being_killed.get() {
        return link.parked.set(true);
    }
    let now = crate::clock::now();
    let is_old = worker.plan.limits.link_age.is_some_and(|age| now - link.opened >= age);
    // Those who were in line when Flifo was told to stop are still served.
    let is_spare = worker.is_stopping() && worker.gate.borrow().waiting() == 0;
    let is_owed = now - link.opened >= TENURE && is_owed(worker, key);
    if is_old || is_spare || is_owed || link.is_closing() {
        link.close();
    } else {
        worker.gate.borrow_mut().put(key, Rc::clone(link), now);
    }
}

/// Refuses those who have waited too long. Nothing of their statements has reached the server.
pub(crate) fn expire(worker: &Rc<Worker>) {
    let Some(wait_max) = worker.plan.limits.wait else { return };
    loop {
        let now = crate::clock::now();
        let late = worker.gate.borrow_mut().expire_waiter(now, wait_max);
        let Some((client, waited)) = late else { return };
        let slots = &worker.shared.slots;
        let fault = Fault::new(
            Kind::WaitedTooLong,
            format!(
                "Flifo did not run this statement: it waited {:.1} s for a slot or a link \
                 (limits.wait {:.1} s); {} of {} slots and {} of {} links in use. \
                 It is safe to try again",
                waited.as_secs_f64(),
                wait_max.as_secs_f64(),
                slots.held(),
                slots.limit(),
                worker.shared.links.held(),
                worker.shared.links.limit(),
            ),
        );
        refuse_held(worker, &client, &fault);
    }
}

/// Answers the command that a client has on hold with an error.
pub(crate) fn refuse_held(worker: &Worker, client: &Client, fault: &Fault) {
    client.waiting.set(None);
    worker.buffers.forget(client.held.take());
    refuse(worker, client, fault);
}

/// Answers the command in hand with an error.
pub(crate) fn refuse(worker: &Worker, client: &Client, fault: &Fault) {
    worker.count_fault(fault.kind);
    let logging_in = client.login_sequence.take();
    client.write_last(&fault.packet(logging_in.unwrap_or(1)));
    // The rest of a command that comes in pieces would be taken for commands; a login that failed is over.
    if client.upload.take().is_some() || logging_in.is_some() {
        client.close();
    }
}
