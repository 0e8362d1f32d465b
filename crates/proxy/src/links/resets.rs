//! Links whose client has left something on them: their sessions begin anew, are asked what they are now, and go back.
//!
//! `COM_RESET_CONNECTION` also ends session tracking, silently: it is asked for again, and the variables' values with
//! it. A link that does not answer as it should is closed; so is one on which a client has done what a reset does not
//! undo (an option of the connection, whatever a routine may have done; a role, unless the client itself begins anew).

use std::rc::Rc;

use engine::insert_id::InsertId;
use engine::pin::Pin;
use engine::session::Session;
use engine::session::setup::{Setup, Step};
use wire::command::Opcode;
use wire::response::OkPacket;
use wire::rows;

use crate::links::opener::TRACK;
use crate::links::supply;
use crate::links::{Flight, Link, Purpose, Taint, Then};
use crate::road::client::Client;
use crate::road::command::Awaits;
use crate::road::fixups;
use crate::road::owed;
use crate::road::parting;
use crate::road::pins;
use crate::worker::{Mail, Worker};

/// The client's session begins anew: its link, if it has one, is free of it. True: what it has left there will be gone
/// when the link has answered; then the client's turn of [`Turn::Preparation`] ends.
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
        link.then.set(Then::Close);
    }
    begin(worker, &link);
    let mut flights = link.flights.borrow_mut();
    let reset = flights.iter_mut().find(|it| it.purpose == Purpose::Reset(Step::Reset));
    reset.map(|flight| flight.client = Some(Rc::clone(client))).is_some()
}

/// The session of a client begins anew on its own link, where something stays with that which no other link could be
/// told: that. When the link has answered, the client goes on.
pub(crate) fn keep(worker: &Worker, client: &Client) -> Option<Pin> {
    let link = client.link()?;
    let stays = client.session.borrow().outlives_reset(is_mysql(worker, &link))?;
    let is_idle = link.flights.borrow().is_empty() && !link.is_closing();
    if !is_idle || link.key.get().is_none() || link.is_being_killed() {
        return None;
    }
    begin(worker, &link);
    Some(stays)
}

/// Makes a link that this client had, on which none of its statements runs, one for everybody; or closes it. A link that
/// is being asked for something answers first.
pub(crate) fn clean(worker: &Rc<Worker>, client: &Client, link: &Rc<Link>) {
    link.holder.take();
    pins::ended(client);
    let session = client.session.borrow();
    let is_asked = !link.flights.borrow().is_empty();
    // What it says of this client's messages is nobody's.
    link.parting.take();
    if is_in_doubt(&session, link) {
        // Others may wait for what it is asked, or may yet want to know.
        return match is_asked {
            true if link.key.get().is_some() => link.then.set(Then::Close),
            false if !link.is_being_killed() => supply::retire(worker, link),
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

/// Has a link begin anew. If nobody has it, it is put back when it has.
pub(crate) fn begin(worker: &Worker, link: &Rc<Link>) {
    link.taint.set(Taint::Clean);
    let fresh = Rc::clone(link.state.borrow().fresh());
    // MySQL lets not everybody set all variables to what they are. MariaDB's reset leaves the character sets as they were
    // at the login.
    let ask = match is_mysql(worker, link) {
        true => Some(fresh.question_of_values()),
        false => fresh.probe(fresh.unchanged()),
    };
    let Some(ask) = ask.filter(|_| !fresh.unchanged().is_empty()) else {
        // A link of which nothing is known cannot be checked.
        return link.close();
    };
    // What the old session had prepared is closed with it.
    link.known.borrow_mut().clear();
    link.ahead.borrow_mut().clear();
    let inserters = worker.clients.borrow();
    let inserters = inserters.values().filter(|it| it.session.borrow().insert_id.is_on(link.id));
    link.in_one_write(|| {
        inserters.for_each(|client| owed::ask_insert_id(client.id, link));
        for (step, command, text) in [
            (Step::Reset, Opcode::ResetConnection, ""),
            (Step::Track, Opcode::Query, TRACK),
            (Step::Ask, Opcode::Query, &ask),
        ] {
            let (purpose, body) = (Purpose::Reset(step), text.as_bytes().to_vec().into());
            fixups::send(link, Setup { purpose, opcode: command, body });
        }
    });
}

fn is_mysql(worker: &Worker, link: &Link) -> bool {
    worker.at(link.server).server.facts.is_mysql()
}

fn is_in_doubt(session: &Session, link: &Link) -> bool {
    link.key.get().is_none()
        || link.is_being_killed()
        || link.is_closing()
        || session.is_beyond_reset()
}

/// Learns what the variables are, as MariaDB reports them; MySQL's answer has them in a row. False: they are not all
/// there.
pub(crate) fn renew(worker: &Worker, link: &Link, ok: &OkPacket<'_>) -> bool {
    is_mysql(worker, link) || link.state.borrow_mut().renew(ok, &mut worker.interned.borrow_mut())
}

/// The same from a row.
fn renew_from_row(worker: &Worker, link: &Link, answer: &[u8]) -> bool {
    let rows = rows::read(answer).unwrap_or_default();
    let mut interned = worker.interned.borrow_mut();
    rows.first().is_some_and(|row| link.state.borrow_mut().renew_from_row(row, &mut interned))
}

/// One of the commands has been answered.
pub(crate) fn finish(worker: &Rc<Worker>, link: &Rc<Link>, step: Step, flight: &Flight) {
    let has_row = step == Step::Ask && is_mysql(worker, link);
    let is_done = !flight.failed && (!has_row || renew_from_row(worker, link, flight.said.reply()));
    if !is_done {
        tracing::debug!(link = link.id, ?step, "a link could not be reset");
        link.close();
    } else if step == Step::Ask && !link.is_closing() {
        worker.counters.links_reset.add(1);
        if let Some(client) = &*link.holder.borrow() {
            return worker.shared.mail(worker.index, Mail::Resume(client.id));
        }
        link.give_back_later();
        parting::answered(worker, link);
    }
}

/// The link is gone, and with it what only it knew of its last client.
pub(crate) fn forget(worker: &Worker, link: &Link) {
    for client in worker.clients.borrow().values() {
        if client.session.borrow().insert_id.is_on(link.id) {
            client.session.borrow_mut().insert_id = InsertId::Lost;
            if client.awaits() == Some(Awaits::InsertId) {
                worker.shared.mail(worker.index, Mail::Resume(client.id));
            }
        }
    }
}
