//! Statements written ahead: while clients wait, a busy link is sent their statements behind the one that runs, so
//! that the server's thread finds its next command in its socket and does not sleep in between.
//!
//! Only statements that merely read are written ahead, behind others of the same sort, all of a kind known to be
//! short, of clients whose sessions are as new. Should the one in front turn out otherwise after all (it runs long,
//! its link dies or must be kept for its client, it is to be killed), those behind it, whose replies have not begun,
//! are taken back in line and sent again on another link, alone.
//!
//! Invariants: the flights of a link are answered in order; only the first one has a slot, which passes to the next;
//! a client whose statement was written ahead still holds its packet, until its reply is the next to come.

use std::rc::Rc;

use engine::counts::Finds;
use engine::gate::Ask;
use engine::kill::Scope;
use smallvec::SmallVec;

use crate::links::Link;
use crate::rights;
use crate::road::admit;
use crate::road::client::{Client, Turn};
use crate::road::command::Command;
use crate::road::kill;
use crate::road::launch;
use crate::servers::Local;
use crate::worker::{Mail, Worker};

/// Why statements that were written ahead are sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The one in front runs long.
    Long,
    /// The client of the one in front keeps the link.
    Kept,
    /// The client of the one in front does not read its reply.
    Unread,
    /// The client of the one in front has left.
    Left,
    /// The one in front is killed.
    Killed,
    /// The link was lost.
    Lost,
    /// The one in front is prepared anew, and runs again.
    Again,
}

impl Why {
    pub(crate) const ALL: [Self; 7] =
        [Self::Long, Self::Kept, Self::Unread, Self::Left, Self::Killed, Self::Lost, Self::Again];

    /// The name in counters.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Long => "long",
            Self::Kept => "kept",
            Self::Unread => "unread",
            Self::Left => "left",
            Self::Killed => "killed",
            Self::Lost => "lost",
            Self::Again => "again",
        }
    }
}

/// Writes statements of those who wait behind what is in flight.
pub(crate) fn refill(worker: &Rc<Worker>, link: &Rc<Link>) {
    let depth = worker.plan.server.pipeline as usize;
    let flying = link.flights.borrow().len();
    if flying == 0 || flying > half_of(worker) || link.is_held_up() || !may_lead(worker, link) {
        return;
    }
    let Some(key) = link.key.get() else { return };
    if key != key.with_schema(link.state.borrow().schema.is_some()) {
        return;
    }
    let room = (depth - flying).min(worker.at(link.server).gate.borrow().share(key));
    for _ in 0..room {
        let next = worker.at(link.server).gate.borrow_mut().take_ahead(
            key,
            crate::clock::now(),
            |client| may_follow(worker, client) && launch::is_ready(worker, client, link),
        );
        match next {
            Some((client, _)) => launch::launch_ahead(worker, &client, link),
            None => break,
        }
    }
}

/// Writes ahead for those who have joined the line in this turn of the loop, at its end: by the time of the next reply
/// the server's thread would be asleep.
pub(crate) async fn run(worker: Rc<Worker>) {
    loop {
        worker.has_waiters.notified().await;
        worker.servers.iter().for_each(|local| write_ahead(&worker, local));
    }
}

fn write_ahead(worker: &Rc<Worker>, local: &Local) {
    let is_busy =
        |link: &&Rc<Link>| link.server == local.server.id && !link.flights.borrow().is_empty();
    let (waiting, links) = (local.gate.borrow().waiting(), worker.links.borrow());
    // Where more wait than would be written now, each reply brings so many of them that no thread of the server rests.
    if waiting == 0 || links.values().filter(is_busy).count() * half_of(worker) < waiting {
        return;
    }
    let mut busy: SmallVec<[_; 16]> = links.values().filter(is_busy).cloned().collect();
    drop(links);
    busy.sort_by_key(|link: &Rc<Link>| link.flights.borrow().len());
    for link in busy {
        link.in_one_write(|| refill(worker, &link));
    }
}

/// Half at a time, so that several go in one write.
fn half_of(worker: &Worker) -> usize {
    worker.plan.server.pipeline as usize / 2
}

/// Whether others may be written behind what is in flight on this link.
fn may_lead(worker: &Worker, link: &Link) -> bool {
    let flights = link.flights.borrow();
    let pace = worker.pace.borrow();
    let now = crate::clock::now();
    let is_young = flights.front().is_some_and(|front| now - front.since < pace.long());
    // What is to be asked behind a statement must be asked before others': how many rows it has found, whether it has
    // cleared the messages that the link was told.
    let is_known = |client: &Rc<Client>| client.session.borrow().kept().is_none();
    let are_short = flights.iter().all(|flight| {
        flight.client.as_ref().is_some_and(is_known)
            && flight.command.as_ref().is_some_and(|it| it.facts.finds != Finds::Anew)
            && flight.read.is_some_and(|digest| pace.is_short(digest))
    });
    is_young
        && are_short
        && !link.is_being_killed()
        && !link.is_closing()
        && !rights::is_stale(worker, link, now - link.opened, now)
}

fn may_follow(worker: &Worker, client: &Client) -> bool {
    let read = client.current.borrow().as_ref().and_then(|command| command.facts.read);
    read.is_some_and(|digest| worker.pace.borrow().is_short(digest))
        && client.input.reserved.borrow().is_none()
}

/// The statement in front has ended: the next one on the link runs now, on the same slot. False: there is none.
pub(crate) fn promote(worker: &Worker, link: &Rc<Link>) -> bool {
    let mut flights = link.flights.borrow_mut();
    let Some(next) = flights.front_mut() else { return false };
    next.slot = true;
    next.since = crate::clock::now();
    let mut ask = Ask::default();
    if let (Some(client), Some(command)) = (next.client.clone(), &mut next.command) {
        if command.facts.in_hand.is_none() && worker.shared.fleet.is_none() {
            worker.buffers.forget(std::mem::take(&mut command.packet));
        }
        link.hold_for(&client);
        ask = admit::ask(&client, command);
    }
    ask.digest = next.read;
    if let Some(mut slot) = link.slot.take() {
        worker.at(link.server).gate.borrow_mut().renew(&mut slot, ask, crate::clock::now());
        link.slot.set(Some(slot));
    }
    true
}

/// Takes those who wait behind the statement in front back in line. What was sent for them runs, for nobody.
pub(crate) fn take_back(worker: &Rc<Worker>, link: &Link, why: Why) {
    let mut flights = link.flights.borrow_mut();
    let behind = flights.iter_mut().filter(|flight| !flight.slot);
    let clients: Vec<_> = behind.filter_map(|flight| flight.give_up()).collect();
    drop(flights);
    send_again(worker, clients, why);
}

/// Puts clients whose statements were written ahead, and not answered, back at the head of the line, in this order. They
/// have their commands again.
pub(crate) fn send_again(worker: &Rc<Worker>, clients: Vec<Rc<Client>>, why: Why) {
    if clients.is_empty() {
        return;
    }
    worker.counters.sent_again[why as usize].add(clients.len() as u64);
    for client in clients.into_iter().rev() {
        client.link.take();
        client.set_turn(Turn::Line);
        let mut current = client.current.borrow_mut();
        let (Some(command), Some(key)) = (&mut *current, client.key.get()) else { continue };
        // Once is enough: next time it runs alone.
        command.facts.read = None;
        let (ask, now) = (admit::ask(&client, command), crate::clock::now());
        drop(current);
        let server = client.server.get();
        let mut gate = worker.at(server).gate.borrow_mut();
        client.waiting.set(Some(gate.wait_again(key, Rc::clone(&client), ask, now)));
        // Not from within whatever is going on now.
        worker.shared.mail(worker.index, Mail::SlotFree(server));
    }
}

/// Whether the client's statement waits on the link behind another one.
pub(crate) fn is_behind(client: &Client, link: &Link) -> bool {
    link.flights.borrow().iter().any(|flight| !flight.slot && flight.is_of(client))
}

/// The client goes away, or its statement is to be killed, and what runs for it need not be: the reply of a short
/// read is dropped when it comes. `None`: it must be killed.
pub(crate) fn disown(worker: &Worker, client: &Client, link: &Link) -> Option<Box<Command>> {
    let mut flights = link.flights.borrow_mut();
    let flight = flights.iter_mut().find(|flight| flight.is_of(client))?;
    let is_short = flight.read.is_some_and(|digest| worker.pace.borrow().is_short(digest));
    if flight.slot && !is_short {
        return None;
    }
    flight.client = None;
    if flight.slot {
        link.holder.take();
    }
    client.link.take();
    let mut command = flight.command.take()?;
    worker.buffers.forget(std::mem::take(&mut command.packet));
    Some(command)
}

/// Looks after links whose statement in front was believed to be short and is not.
pub(crate) fn look_after(worker: &Rc<Worker>) {
    let (now, long) = (crate::clock::now(), worker.pace.borrow().long());
    let keeps_waiting = |link: &&Rc<Link>| {
        let flights = link.flights.borrow();
        let front = flights.front().filter(|front| front.slot && now - front.since >= long);
        front.is_some_and(|front| flights.len() > 1 || front.client.is_none())
    };
    let links: Vec<_> = worker.links.borrow().values().filter(keeps_waiting).cloned().collect();
    for link in links {
        let mut flights = link.flights.borrow_mut();
        let Some(front) = flights.front_mut() else { continue };
        let is_disowned = front.client.is_none() && front.read.take().is_some();
        drop(flights);
        take_back(worker, &link, Why::Long);
        if is_disowned {
            kill::kill_on(worker, &link, Scope::Query);
        }
    }
}
