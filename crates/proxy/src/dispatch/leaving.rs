//! What becomes of a link when its client goes or its session begins anew, and the client has left something on it.
//!
//! The link is reset ([`crate::dispatch::session_reset`]) and goes back, or stays with its client. It is closed where the
//! client has done what a reset does not undo (an option of the connection, whatever a routine may have done; a role,
//! unless the client itself begins anew).

use std::rc::Rc;

use engine::pin::Pin;
use engine::session::Session;
use engine::session::setup::{Purpose, Step};

use crate::dispatch::backend::{AfterAnswers, Link, Taint};
use crate::dispatch::capture;
use crate::dispatch::client::Client;
use crate::dispatch::pins;
use crate::dispatch::session_reset;
use crate::dispatch::supply;
use crate::dispatch::worker::Worker;

/// The client's session begins anew: its link, if it has one, is free of it. True: what it has left there will be gone
/// when the link has answered; then the client's turn of [`crate::dispatch::client::Turn::Preparation`] ends.
pub(crate) fn give_up(worker: &Rc<Worker>, client: &Rc<Client>) -> bool {
    let Some(link) = client.link.take() else { return false };
    let session = client.session.borrow();
    let is_idle = link.flights.borrow().is_empty() && !link.is_closing();
    let leaves_something = session.holds_link() && !session.can_yield();
    let may_stay = !session.is_beyond_reset();
    drop(session);
    if !is_idle || !leaves_something || link.key.get().is_none() || link.is_being_killed() {
        clean(worker, client, &link);
        return false;
    }
    link.holder.take();
    pins::ended(client);
    if !may_stay {
        link.then.set(AfterAnswers::Close);
    }
    session_reset::begin(worker, &link);
    let mut flights = link.flights.borrow_mut();
    let reset = flights.iter_mut().find(|it| it.purpose == Purpose::Reset(Step::Reset));
    reset.map(|flight| flight.client = Some(Rc::clone(client))).is_some()
}

/// The session of a client begins anew on its own link, where something stays with that which no other link could be
/// told: that. When the link has answered, the client goes on.
pub(crate) fn keep(worker: &Worker, client: &Client) -> Option<Pin> {
    let link = client.link()?;
    let stays = client.session.borrow().outlives_reset(session_reset::is_mysql(worker, &link))?;
    let is_idle = link.flights.borrow().is_empty() && !link.is_closing();
    if !is_idle || link.key.get().is_none() || link.is_being_killed() {
        return None;
    }
    session_reset::begin(worker, &link);
    Some(stays)
}

/// Makes a link that this client had, on which none of its statements runs, one that any client may have; or closes it.
/// A link that is being asked for something answers first.
pub(crate) fn clean(worker: &Rc<Worker>, client: &Client, link: &Rc<Link>) {
    link.holder.take();
    pins::ended(client);
    let session = client.session.borrow();
    let is_asked = !link.flights.borrow().is_empty();
    // No client needs what it says of this client's messages.
    link.parting.take();
    if is_in_doubt(&session, link) {
        // Others may wait for what it is asked, or may yet want to know.
        return match is_asked {
            true if link.key.get().is_some() => link.then.set(AfterAnswers::Close),
            false if !link.is_being_killed() => capture::retire(worker, link),
            _ => link.close(),
        };
    }
    if session.can_yield() || !session.holds_link() {
        if session.variables.are_on_link() {
            link.taint.set(Taint::Soiled);
        }
    } else {
        link.doubt();
    }
    drop(session);
    match is_asked {
        true => link.give_back_later(),
        false => {
            link.stay();
            supply::give_back(worker, link);
        }
    }
}

fn is_in_doubt(session: &Session, link: &Link) -> bool {
    link.key.get().is_none()
        || link.is_being_killed()
        || link.is_closing()
        || session.is_beyond_reset()
}
