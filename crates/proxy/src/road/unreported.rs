//! Changes of a session that the end of rows could not report.
//!
//! Servers report changes in OK packets. To clients that do without those at the end of rows they send an EOF packet,
//! which reports nothing: what a SELECT has changed would be told with a later statement, which may be another
//! client's. So a backend is asked before it leaves its client. MariaDB says in the EOF packet that there is something
//! to be told, and tells it with the next change; only the begin of a transaction is one that is no change of state as
//! well. MySQL does not say so, and tells it with the next OK, be it that of a ping.
//!
//! In a transaction MariaDB need not be asked: its end reports what there is, or it is asked behind that.

use std::rc::Rc;

use engine::cluster::position::Gtid;
use engine::pin::Pin;
use engine::session::Diagnostics;
use engine::session::setup::{Purpose, Setup};
use wire::command::Opcode;
use wire::response::{EofPacket, OkPacket, Status};
use wire::tracker::{Change, Changes};

use crate::routing::freshness;
use crate::session::pipeline;
use crate::session::questions;
use crate::session::session_setup;
use crate::state::backend::{Backend, Taint};
use crate::state::client::Client;
use crate::state::in_flight::InFlight;
use crate::state::worker::Worker;
use crate::worker::counters::Why;

/// Rows, or their definitions, have ended in a packet that reports nothing. True: there may be something to be told.
pub(crate) fn see_end(
    worker: &Worker,
    client: &Client,
    backend: &Backend,
    flight: &InFlight,
    eof: EofPacket,
) -> bool {
    let is_statement = matches!(flight.purpose, Purpose::Statement);
    let may_have_changed = client.is_pooled()
        && backend.reports
        && is_statement
        && (eof.status.has(Status::STATE_CHANGED) || worker.is_mysql(client));
    if may_have_changed {
        backend.session.borrow_mut().has_unreported = true;
        freshness::doubt_number(worker, client, backend.server);
    }
    may_have_changed
}

/// Asks behind a client's statement for what its end could not report, if there may be something. What a statement that
/// has failed may have left is undone without a question.
pub(crate) fn ask(worker: &Rc<Worker>, client: &Rc<Client>, backend: &Backend, failed: bool) {
    if failed && backend.taint.get() == Taint::Doubtful {
        backend.session.borrow_mut().has_unreported = false;
    }
    if !backend.session.borrow().has_unreported {
        return;
    }
    let session = client.session.borrow();
    let is_mysql = worker.is_mysql(client);
    // Whatever a pinned client changes goes with its backend.
    let is_kept = session.pin().is_some()
        || !is_mysql && (session.in_transaction() || session.has_characteristics());
    let has_diagnostics = session.diagnostics() == Diagnostics::OnBackend;
    drop(session);
    if is_kept {
        return;
    }
    // What was pipelined may not have met the session that it was meant for.
    pipeline::cancel_pipelined(worker, backend, Why::Kept);
    backend.in_one_write(|| {
        if is_mysql {
            let (purpose, body) = (Purpose::Unreported, b"".as_slice().into());
            return session_setup::send(backend, Setup { purpose, opcode: Opcode::Ping, body });
        }
        if has_diagnostics {
            questions::begin(worker, client, backend);
        }
        for text in ["START TRANSACTION", "ROLLBACK"] {
            session_setup::send(backend, Setup::query(Purpose::Unreported, text));
        }
    });
}

/// The backend has told what a statement of this client's has changed.
pub(crate) fn learn(worker: &Worker, client: &Client, backend: &Backend, ok: &OkPacket<'_>) {
    let (mut state, mut interned) =
        (backend.session.borrow_mut(), worker.pool.interned.borrow_mut());
    let mut session = client.session.borrow_mut();
    let pin = session.see_ok(client.id, ok, &mut state, &mut interned, None);
    state.has_unreported = false;
    drop(state);
    let is_soiled = backend.taint.get() == Taint::Soiled;
    if pin.is_some() && is_soiled {
        session.forgive();
    }
    drop(session);
    if let Some(pin) = pin.filter(|_| !is_soiled) {
        worker.count_pin(client, pin, None);
    }
    for change in Changes::new(ok.changes).flatten() {
        if let Change::Variable { name: b"last_gtid", value } = change {
            note_gtid(worker, client, backend, value);
        }
    }
}

/// The backend was not able to answer.
pub(crate) fn see_failure(worker: &Worker, backend: &Backend) {
    let holder = backend.holder.borrow().clone();
    if let Some(client) = holder {
        worker.pin(&client, Pin::State);
    }
}

/// The server has reported the GTID of a write.
pub(crate) fn note_gtid(worker: &Worker, client: &Client, backend: &Backend, gtid: &[u8]) {
    client.routing.gtid.set(Some(gtid.into()));
    worker.at(backend.server).server.facts.see_gtid();
    if let Some(gtid) = std::str::from_utf8(gtid).ok().and_then(Gtid::read) {
        freshness::note_number(worker, client, backend.server, gtid);
    }
}

/// Learns from the reply to a setup, which may have told what an earlier statement of the backend's client has changed:
/// that cannot be told from what the setup itself has done.
pub(crate) fn see_setup(worker: &Worker, backend: &Backend, ok: &OkPacket<'_>) {
    if !backend.session.borrow().has_unreported || !ok.status.has(Status::STATE_CHANGED) {
        return;
    }
    backend.session.borrow_mut().has_unreported = false;
    let is_state = Changes::new(ok.changes).any(|change| matches!(change, Ok(Change::State(_))));
    let holder = backend.holder.borrow().clone();
    if let Some(client) = holder.filter(|_| is_state) {
        worker.pin(&client, Pin::State);
    }
}
