//! Has the session of a backend begin anew, and learns what it is then.
//!
//! `COM_RESET_CONNECTION` also ends session tracking, silently: it is asked for again, and the variables' values with
//! it. A backend that does not answer as it should is closed ([`crate::road::own_replies`]).

use std::rc::Rc;

use engine::insert_id::InsertId;
use engine::session::setup::{Purpose, Setup, Step};
use wire::charset::Charset;
use wire::command::Opcode;
use wire::response::{OkPacket, Status};
use wire::rows;

use crate::pool::opener::TRACK;
use crate::session::alone;
use crate::session::capture;
use crate::session::session_setup;
use crate::state::backend::{Backend, Taint};
use crate::state::command::Awaits;
use crate::state::shared::Mail;
use crate::state::worker::Worker;

/// Has a backend begin anew. A backend that no client has is put back when it has done so.
pub(crate) fn begin(worker: &Rc<Worker>, backend: &Rc<Backend>) {
    backend.taint.set(Taint::Clean);
    if !backend.reports {
        return alone::reset(worker, backend);
    }
    let fresh = Rc::clone(backend.session.borrow().fresh());
    // MySQL does not let every user set all variables to what they are. MariaDB's reset leaves the character sets as
    // they were at the login, if it had been told one that it knows.
    let ask = match has_row(worker, backend) {
        true => Some(fresh.question_of_values()),
        false => fresh.probe(fresh.unchanged()),
    };
    let Some(ask) = ask.filter(|_| !fresh.unchanged().is_empty()) else {
        // A backend of which nothing is known cannot be checked.
        return backend.close();
    };
    // What the old session had prepared is closed with it.
    backend.known.borrow_mut().clear();
    backend.bytes.ahead.borrow_mut().clear();
    let clients = worker.clients.borrow();
    let inserters = clients.values().filter(|it| it.session.borrow().insert_id.is_on(backend.id));
    let finder = capture::finder(&clients, backend);
    backend.in_one_write(|| {
        if let Some(finder) = finder {
            session_setup::send(backend, Setup::found(finder, None));
        }
        inserters.for_each(|client| capture::ask_insert_id(client.id, backend));
        for (step, command, text) in [
            (Step::Reset, Opcode::ResetConnection, ""),
            (Step::Track, Opcode::Query, TRACK),
            (Step::Ask, Opcode::Query, &ask),
        ] {
            let (purpose, body) = (Purpose::Reset(step), text.as_bytes().to_vec().into());
            session_setup::send(backend, Setup { purpose, opcode: command, body });
        }
    });
}

pub(crate) fn is_mysql(worker: &Worker, backend: &Backend) -> bool {
    worker.at(backend.server).server.facts.is_mysql()
}

/// Learns what the variables are, as MariaDB reports them; MySQL's answer has them in a row. False: they are not all
/// there.
pub(crate) fn renew(worker: &Worker, backend: &Backend, ok: &OkPacket<'_>) -> bool {
    if !backend.reports {
        // Its answer is a row, too.
        return !ok.status.has(Status::IN_TRANSACTION);
    }
    has_row(worker, backend)
        || backend.session.borrow_mut().renew(ok, &mut worker.pool.interned.borrow_mut())
}

/// Whether a session that was reset answers with a row.
pub(crate) fn has_row(worker: &Worker, backend: &Backend) -> bool {
    !backend.reports || is_mysql(worker, backend) || has_any_charset(worker, backend)
}

/// Whether a reset may leave any character set: see [`Charset::is_of_mariadb`].
fn has_any_charset(worker: &Worker, backend: &Backend) -> bool {
    let key = backend.key.get().map(|key| worker.pool.keys.borrow().get(key));
    key.is_some_and(|key| !Charset::is_of_mariadb(key.collation))
}

/// The same from a row.
pub(crate) fn renew_from_row(worker: &Worker, backend: &Backend, answer: &[u8]) -> bool {
    let rows = rows::read(answer).unwrap_or_default();
    if !backend.reports {
        return rows.first().is_some_and(|row| backend.session.borrow_mut().renew_silent(row));
    }
    let mut interned = worker.pool.interned.borrow_mut();
    rows.first().is_some_and(|row| backend.session.borrow_mut().renew_from_row(row, &mut interned))
}

/// The backend is gone, and with it what only it knew of its last client.
pub(crate) fn forget(worker: &Worker, backend: &Backend) {
    for client in worker.clients.borrow().values() {
        if client.session.borrow().insert_id.is_on(backend.id) {
            client.session.borrow_mut().insert_id = InsertId::Lost;
            if client.awaits() == Some(Awaits::InsertId) {
                worker.shared.mail(worker.index, Mail::Resume(client.id));
            }
        }
    }
}
