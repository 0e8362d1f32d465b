//! Links whose client has left something on them: their sessions begin anew, are asked what they are now, and go back.
//!
//! `COM_RESET_CONNECTION` also ends session tracking, silently: it is asked for again, and the variables' values with
//! it. A link that does not answer as it should is closed; so is one on which a client has done what a reset does not
//! undo (an option of the connection, whatever a routine may have done; a role, unless the client itself begins anew).

use std::rc::Rc;

use engine::insert_id::InsertId;
use engine::session::Session;
use engine::settings::Settings;
use wire::command::Command;
use wire::response::OkPacket;
use wire::rows;

use crate::links::opener::TRACK;
use crate::links::supply;
use crate::links::{Flight, Link, Purpose};
use crate::road::client::Client;
use crate::road::fixups::{self, FixUp};
use crate::road::owed;
use crate::road::parting;
use crate::road::pins;
use crate::worker::{Mail, Worker};

/// What a link is told, one after the other in one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Reset,
    /// Changes are to be reported again.
    Track,
    /// What the variables are now.
    Ask,
}

/// The client's session begins anew: its link, if it has one, is free of it. True: what it has left there will be gone
/// when the link has answered; then the client's turn of [`Turn::Preparation`] ends.
pub(crate) fn give_up(worker: &Rc<Worker>, client: &Rc<Client>) -> bool {
    let Some(link) = client.link.take() else { return false };
    let session = client.session.borrow();
    let is_idle = link.flights.borrow().is_empty() && !link.is_closing();
    let leaves_something = session.holds_link() && !session.can_yield();
    let may_stay = !session.is_beyond_reset();
    drop(session);
    if !is_idle || !leaves_something || link.key.get().is_none() || link.being_killed.get() {
        clean(worker, client, &link);
        return false;
    }
    link.holder.take();
    pins::ended(client);
    link.retires.set(!may_stay);
    begin(worker, &link);
    let mut flights = link.flights.borrow_mut();
    let reset = flights.iter_mut().find(|it| it.purpose == Purpose::Reset(Step::Reset));
    reset.map(|flight| flight.client = Some(Rc::clone(client))).is_some()
}

/// The session of a client that has chosen a role begins anew on its own link: the role stays (MariaDB 10.11, MySQL
/// 8.0.15), and no other link could be told which one it is. True: it does; when the link has answered, the client goes on.
pub(crate) fn keep(worker: &Worker, client: &Client) -> bool {
    let Some(link) = client.link().filter(|_| client.session.borrow().has_role()) else {
        return false;
    };
    let is_idle = link.flights.borrow().is_empty() && !link.is_closing();
    let may_begin = is_idle && link.key.get().is_some() && !link.being_killed.get();
    if may_begin {
        begin(worker, &link);
    }
    may_begin
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
        // Others may wait for what it is asked.
        let answers = is_asked && link.key.get().is_some();
        return if answers { link.retires.set(true) } else { link.close() };
    }
    if session.can_yield() || !session.holds_link() {
        if session.variables.are_on_link() {
            link.soiled.set(true);
        }
    } else {
        link.is_doubtful.set(true);
    }
    drop(session);
    link.is_out.set(is_asked);
    if !is_asked {
        supply::give_back(worker, link);
    }
}

/// Has a link begin anew. If nobody has it, it is put back when it has.
pub(crate) fn begin(worker: &Worker, link: &Rc<Link>) {
    link.soiled.set(false);
    link.is_doubtful.set(false);
    let fresh = Rc::clone(link.state.borrow().fresh());
    let asked = fresh.unchanged();
    let ask = if answers_in_rows(worker, link) {
        Some(Settings::question())
    } else {
        // A reset leaves the character sets as they were at the login.
        fresh.probe(asked).filter(|_| !asked.is_empty())
    };
    let Some(ask) = ask else {
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
            (Step::Reset, Command::ResetConnection, ""),
            (Step::Track, Command::Query, TRACK),
            (Step::Ask, Command::Query, &ask),
        ] {
            let (purpose, body) = (Purpose::Reset(step), text.as_bytes().to_vec().into());
            fixups::send(link, FixUp { purpose, command, body });
        }
    });
}

/// MySQL lets not everybody set all variables to what they are; so it is asked for them, which takes longer.
fn answers_in_rows(worker: &Worker, link: &Link) -> bool {
    worker.at(link.server).server.facts.is_mysql()
}

fn is_in_doubt(session: &Session, link: &Link) -> bool {
    link.key.get().is_none()
        || link.being_killed.get()
        || link.is_closing()
        || session.is_beyond_reset()
}

/// Learns what the variables are, as MariaDB reports them; MySQL's answer has them in its rows. False: they are not all
/// there.
pub(crate) fn renew(worker: &Worker, link: &Link, ok: &OkPacket<'_>) -> bool {
    answers_in_rows(worker, link)
        || link.state.borrow_mut().renew(ok, &mut worker.interned.borrow_mut())
}

/// The same from rows.
fn renew_from_rows(worker: &Worker, link: &Link, answer: &[u8]) -> bool {
    let Some(rows) = rows::read(answer) else { return false };
    let pairs = rows.iter().filter_map(|row| match &row[..] {
        [Some(name), Some(value)] => Some((&name[..], &value[..])),
        _ => None,
    });
    link.state.borrow_mut().renew_from_rows(pairs, &mut worker.interned.borrow_mut())
}

/// One of the commands has been answered.
pub(crate) fn finish(worker: &Rc<Worker>, link: &Rc<Link>, step: Step, flight: &Flight) {
    let has_rows = step == Step::Ask && answers_in_rows(worker, link);
    let is_done = !flight.failed && (!has_rows || renew_from_rows(worker, link, &flight.said));
    if !is_done {
        tracing::debug!(link = link.id, ?step, "a link could not be reset");
        link.close();
    } else if step == Step::Ask && !link.is_closing() {
        worker.counters.links_reset.add(1);
        if let Some(client) = &*link.holder.borrow() {
            return worker.shared.mail(worker.index, Mail::Resume(client.id));
        }
        link.is_out.set(true);
        parting::answered(worker, link);
    }
}

/// The link is gone, and with it what only it knew of its last client.
pub(crate) fn forget(worker: &Worker, link: &Link) {
    for client in worker.clients.borrow().values() {
        if client.session.borrow().insert_id.is_on(link.id) {
            client.session.borrow_mut().insert_id = InsertId::Lost;
            if client.awaits_insert_id.replace(false) {
                worker.shared.mail(worker.index, Mail::Resume(client.id));
            }
        }
    }
}
