//! What a pooled client's session begins with (`init_connect`): its first backend runs it before the client's first
//! command, and that is read again behind it, as the session is another one then.

use std::rc::Rc;

use engine::session::beginning::Beginning;
use engine::session::setup::Purpose;

use crate::answers::notes;
use crate::road::finish;
use crate::state::backend::Backend;
use crate::state::client::Client;
use crate::state::in_flight::InFlight;
use crate::state::shared::Mail;
use crate::state::worker::Worker;

/// The backend has run what the session begins with, or has said what came of it. True: the command is read again.
pub(crate) fn see_answer(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    backend: &Rc<Backend>,
    flight: &InFlight,
) -> bool {
    let mut session = client.session.borrow_mut();
    if flight.failure.is_some() {
        return false;
    }
    let see_run =
        |it: &mut Box<Beginning>| it.see_run(backend.id, backend.session.borrow().settings());
    if let Purpose::Init(_) = flight.purpose
        && session.beginning.as_mut().is_some_and(see_run)
    {
        return false;
    }
    if !backend.reports {
        // It is over when the client has the backend for good: another one would have to run it again.
        return false;
    }
    session.beginning = None;
    session.see_settings(&backend.session.borrow());
    drop(session);
    if client.input.is_part() {
        // Its text is not read anyway.
        return false;
    }
    if client.command().is_none() {
        return false;
    }
    client.await_backend();
    finish::release(worker, client, backend, flight.slot);
    worker.shared.mail(worker.index, Mail::Resume(client.id));
    true
}

/// The server has refused it: the client gets its error, and what was set before that is undone.
pub(crate) fn see_failure(worker: &Worker, client: &Client, backend: &Backend, flight: &InFlight) {
    if !matches!(flight.purpose, Purpose::Init(_) | Purpose::InitProbe(_)) {
        return;
    }
    backend.doubt();
    let now = crate::worker::clock::now();
    if worker.upkeep.limit_lines.borrow_mut().write(now).is_some() {
        let error = flight.error().map(|error| notes::shown(error.message)).unwrap_or_default();
        let user = notes::named(&client.user.borrow());
        tracing::warn!(client = client.id, user, error, "init_connect failed");
    }
}
