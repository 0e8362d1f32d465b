//! Clients that are alone on their backends, because the server reports no changes of session state: when one may be,
//! and what becomes of the backend behind it. What is decided is [`engine::session::alone`]'s.
//!
//! Such a client is pooled until its first command is to be sent; from then on its commands go as a pass-through
//! client's do. Invariants: no byte of its goes to the server before the backend was told what its session is; the
//! backend goes to another client only when it was reset, by a server whose resets are known to leave nothing, and has
//! answered that it is as it was.

use std::rc::Rc;

use engine::pin::Pin;
use engine::session::alone::{self, AloneEntry, GoesTo};
use engine::session::setup::{Purpose, Setup, Step};
use wire::command::Opcode;

use crate::cluster::members::Members;
use crate::cluster::servers::ServerId;
use crate::config::Mode;
use crate::fault::{Fault, Kind};
use crate::pool::trial;
use crate::session::session_setup;
use crate::state::backend::Backend;
use crate::state::client::Client;
use crate::state::worker::Worker;

/// Whether statements of this client may go to a server, as far as that depends on what it reports.
pub(crate) fn may_go(
    worker: &Worker,
    members: &Members,
    client: &Client,
    server: ServerId,
) -> bool {
    let is_silent = worker.at(server).server.facts.reports.are_missing();
    alone::may_serve(is_silent, goes_to(members, client, server))
}

/// Whether a client will be alone where its next command goes, so that nothing needs to be known of that.
pub(crate) fn is_due(worker: &Worker, client: &Client) -> bool {
    // What completes a login is answered as such.
    if client.backend.borrow().is_some() || client.input.login_sequence.get().is_some() {
        return false;
    }
    // Which cluster it goes to is not known before it is read.
    if worker.shared.cluster.are_several() {
        return false;
    }
    let is_silent = |server: ServerId| worker.at(server).server.facts.reports.are_missing();
    let server = match worker.shared.cluster.routes(client.routing.cluster.get()) {
        None => Some(client.routing.server.get()),
        Some(members) if client.routing.mode.get() != Mode::Readers => members.writer_of(client.id),
        Some(_) => None,
    };
    server.is_some_and(is_silent) && !client.session.borrow().has_lost_transaction()
}

fn goes_to(members: &Members, client: &Client, server: ServerId) -> GoesTo {
    match client.routing.mode.get() {
        Mode::Split => GoesTo::Split { is_writer: members.is_writer(server) },
        Mode::Writer | Mode::Readers => GoesTo::One,
    }
}

/// What comes before the first command of a client on such a backend, which it has been given. A fault is what it is
/// told instead; nothing has been sent then.
pub(crate) fn enter(
    worker: &Worker,
    client: &Client,
    backend: &Backend,
) -> Result<Option<Setup>, Fault> {
    let members = worker.shared.cluster.routes_at(backend.server);
    if members.is_some_and(|it| !alone::may_serve(true, goes_to(it, client, backend.server))) {
        let name = &worker.at(backend.server).server.name;
        let message = format!(
            "Flifo did not run this statement: {name}, which it was to run on, has turned out not to report changes of \
             session state just now. It is safe to try again"
        );
        return Err(Fault::new(Kind::ServerUnreachable, message));
    }
    let (session, state) = (client.session.borrow(), backend.session.borrow());
    let pair = session_setup::pair(worker, client, backend, &session, &state);
    let entry = pair.enter_alone(client.capabilities, backend.capabilities);
    drop((session, state));
    let setup = match entry {
        AloneEntry::Ready => None,
        AloneEntry::Told(setup) => Some(setup),
        AloneEntry::Refused(why) => {
            client.close();
            let server = &worker.at(backend.server).server;
            let message = format!(
                "Flifo did not run this statement: the server {} reports no changes of session state, so this \
                 client cannot go on there: {why}. Connect again",
                server.name
            );
            return Err(Fault::new(Kind::CannotTell, message));
        }
    };
    // Whatever comes of it, the next client gets no more than what a reset leaves.
    backend.doubt();
    if setup.is_none() {
        let mut session = client.session.borrow_mut();
        session.keep(Pin::Unreported);
        session.beginning = None;
        drop(session);
        worker.count_pin(client, Pin::Unreported, None);
    }
    Ok(setup)
}

/// Whether a command may leave what no reset undoes, which no trial has tried.
pub(crate) const fn outlives_reset(command: Opcode) -> bool {
    matches!(
        command,
        Opcode::SetOption
            | Opcode::BinlogDump
            | Opcode::BinlogDumpGtid
            | Opcode::TableDump
            | Opcode::RegisterReplica
    )
}

/// Has a backend of such a server begin anew, or closes it. It goes back when it has answered.
pub(crate) fn reset(worker: &Rc<Worker>, backend: &Rc<Backend>) {
    let reports = &worker.at(backend.server).server.facts.reports;
    let question = backend.session.borrow().question_of_silent();
    let Some(question) = question.filter(|_| reports.resets_cleanly()) else {
        try_once(worker, backend);
        return backend.close();
    };
    backend.known.borrow_mut().clear();
    backend.bytes.ahead.borrow_mut().clear();
    backend.in_one_write(|| {
        for (step, opcode, text) in [
            (Step::Undo, Opcode::Query, "ROLLBACK"),
            (Step::Reset, Opcode::ResetConnection, ""),
            (Step::Ask, Opcode::Query, &question),
        ] {
            let (purpose, body) = (Purpose::Reset(step), text.as_bytes().to_vec().into());
            session_setup::send(backend, Setup { purpose, opcode, body });
        }
    });
}

/// The next one of this user's need not be closed, if a reset leaves nothing.
fn try_once(worker: &Rc<Worker>, backend: &Backend) {
    let Some(key) = backend.key.get() else { return };
    let (worker, server) = (Rc::clone(worker), backend.server);
    crate::worker::tasks::vital(async move { trial::run(&worker.pool, server, key).await });
}
