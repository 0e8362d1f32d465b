//! What becomes of a backend when its client goes or its session begins anew, and the client has left something on it.
//!
//! The backend is reset ([`crate::session::backend_reset`]) and goes back, or stays with its client. It is closed
//! where the client has done what a reset does not undo (an option of the connection, whatever a routine may have done;
//! a role, unless the client itself begins anew).

use std::rc::Rc;

use engine::pin::Pin;
use engine::session::leftover::{Fate, Leftover, Trouble};
use engine::session::setup::{Purpose, Step};

use crate::session::backend_reset;
use crate::session::capture;
use crate::session::pins;
use crate::session::supply;
use crate::state::backend::{Backend, Taint};
use crate::state::client::Client;
use crate::state::fate::AfterAnswers;
use crate::state::worker::Worker;

/// The client's session begins anew: its backend, if it has one, is free of it. True: what it has left there will be
/// gone when the backend has answered; until then the client is
/// [`crate::state::client_state::ClientState::Preparing`].
pub(crate) fn give_up(worker: &Rc<Worker>, client: &Rc<Client>) -> bool {
    let Some(backend) = client.backend.take() else { return false };
    let left = client.session.borrow().leaves();
    if !left.is_awaited(trouble(&backend), is_asked(&backend)) {
        clean(worker, client, &backend);
        return false;
    }
    backend.holder.take();
    pins::ended(client);
    if left == Leftover::Lasting {
        backend.fate.then.set(AfterAnswers::Close);
    }
    backend_reset::begin(worker, &backend);
    let mut flights = backend.in_flight.borrow_mut();
    let reset = flights.iter_mut().find(|it| it.purpose == Purpose::Reset(Step::Reset));
    reset.map(|flight| flight.client = Some(Rc::clone(client))).is_some()
}

/// The session of a client begins anew on its own backend, where something stays with that which no other backend could
/// be told: that. When the backend has answered, the client goes on.
pub(crate) fn keep(worker: &Rc<Worker>, client: &Client) -> Option<Pin> {
    let backend = client.backend()?;
    let stays =
        client.session.borrow().outlives_reset(backend_reset::is_mysql(worker, &backend))?;
    if is_asked(&backend) || trouble(&backend) != Trouble::None {
        return None;
    }
    backend_reset::begin(worker, &backend);
    Some(stays)
}

/// Makes a backend that this client had, on which none of its statements runs, one that any client may have; or closes
/// it. A backend that is being asked for something answers first.
pub(crate) fn clean(worker: &Rc<Worker>, client: &Client, backend: &Rc<Backend>) {
    backend.holder.take();
    pins::ended(client);
    // No client needs what it says of this client's diagnostics.
    backend.capture.take();
    let left = client.session.borrow().leaves();
    match left.fate(trouble(backend), is_asked(backend)) {
        Fate::PutBack => {
            taint(backend, left);
            backend.fate.stay();
            supply::give_back(worker, backend);
        }
        Fate::PutBackLater => {
            taint(backend, left);
            backend.fate.give_back_later();
        }
        Fate::Retired => capture::retire(worker, backend),
        Fate::Closed => backend.close(),
        Fate::ClosedLater => {
            backend.fate.then.set(AfterAnswers::Close);
        }
    }
}

fn taint(backend: &Backend, left: Leftover) {
    match left {
        Leftover::Variables => backend.taint.set(Taint::Soiled),
        Leftover::Undoable => backend.doubt(),
        Leftover::Nothing | Leftover::Lasting => {}
    }
}

fn is_asked(backend: &Backend) -> bool {
    !backend.in_flight.borrow().is_empty()
}

fn trouble(backend: &Backend) -> Trouble {
    match backend {
        _ if backend.fate.is_being_killed() => Trouble::Killed,
        _ if backend.key.get().is_none() => Trouble::Unpooled,
        _ if backend.is_closing() => Trouble::Ending,
        _ => Trouble::None,
    }
}
