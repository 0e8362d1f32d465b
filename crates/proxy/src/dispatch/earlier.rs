//! Statements that ask for what came before them: messages, counts of rows, the last insert id. They are answered by
//! the backend that knows, or by what is known without it; never by another client's past.
//!
//! * Messages keep the backend with its client, until a statement clears them or another client has waited for the backend.
//! * Counts are told by the backend that the client used last, if no other client has used it since.
//! * The last insert id is known by the backend of the insert. Before another client uses that backend, it is asked for the
//!   id.

use std::rc::Rc;

use engine::counts::Asked;
use engine::insert_id::InsertId;
use engine::intent::{Inserts, Intent, Trait};
use engine::session::plan::lacks_insert_id;
use engine::session::setup::Purpose;
use engine::session::{CHARSET, Diagnostics, Messages};

use crate::cluster::servers::ServerId;
use crate::dispatch::backend::Backend;
use crate::dispatch::capture;
use crate::dispatch::client::Client;
use crate::dispatch::command::Command;
use crate::dispatch::handover;
use crate::dispatch::in_flight::InFlight;
use crate::dispatch::prepared;
use crate::dispatch::route;
use crate::dispatch::session_setup;
use crate::dispatch::worker::{Mail, Worker};
use crate::fault::{Fault, Kind};

/// Where the answer is.
pub(crate) enum AnswerPlace {
    /// On the client's backend, or on any.
    Here,
    /// On a backend that is in use, and that has been asked already.
    Soon,
    /// The same; the statement is read again when that has answered.
    Later,
    Nowhere(Fault),
}

/// Finds the backend that can answer, and gives it to the client.
pub(crate) fn find(worker: &Rc<Worker>, client: &Rc<Client>, command: &mut Command) -> AnswerPlace {
    if !find_messages(client, command) {
        return nowhere(
            "somebody else has its last statements' backend connection, and their messages are not known any more",
        );
    }
    let counts = command.facts.counts;
    if counts.found && capture::is_asked_elsewhere(worker, client) {
        return AnswerPlace::Later;
    }
    if !find_counts(worker, client, command) && !prepared::put_counts(client, command) {
        return nowhere(
            "another client has used the backend connection of the statement before, which has counted",
        );
    }
    if command.facts.calls && counts == Asked::default() {
        mask_row_count(worker, client, command);
    }
    let facts = &command.facts;
    // Of one that it may get, its old one must be told.
    let is_asked = facts.has(Trait::AsksInsertId)
        || facts.inserts != Inserts::No
        || facts.has(Trait::ShowsVariables);
    // What runs on a backend that is kept may ask for it unseen.
    match find_insert_id(worker, client, is_asked) {
        AnswerPlace::Nowhere(_) if !facts.has(Trait::AsksInsertId) => AnswerPlace::Here,
        found => found,
    }
}

/// Whether the client's backend has the messages, or they are kept here and can be put in the answer.
fn find_messages(client: &Client, command: &mut Command) -> bool {
    let session = client.session.borrow();
    match (command.facts.messages, session.diagnostics()) {
        (Messages::Shown, Diagnostics::Kept) => {
            let rows =
                command.facts.shows.zip(session.kept()).and_then(|((shows, format), kept)| {
                    // Not known for a client that has run nothing yet: then its messages are Flifo's own.
                    let charset = session.settings.as_ref().and_then(|it| it.get(CHARSET));
                    kept.rows(shows, format, charset.unwrap_or_default())
                });
            let is_known = rows.is_some();
            if let Some(rows) = rows {
                command.rare().shown = Some(Rc::from(rows));
            }
            is_known
        }
        (Messages::Diagnosed, Diagnostics::Kept) => false,
        (asked, Diagnostics::Lost) => !asked.are_asked_for(),
        _ => true,
    }
}

/// Finds the backend that has counted; or says what it is to be told, as far as backends can be told counts.
fn find_counts(worker: &Rc<Worker>, client: &Rc<Client>, command: &mut Command) -> bool {
    let asked = command.facts.counts;
    if asked == Asked::default() {
        return true;
    }
    let counts = client.session.borrow().counts;
    let can_be_told = matches!(counts.affected(), Some(-1 | 0));
    let has_them = |backend: &Rc<Backend>| counts.are_on(asked, backend.id);
    let is_it = |backend: &Rc<Backend>| {
        backend.state.borrow().last_client == client.id && has_them(backend)
    };
    let is_here = match client.backend() {
        Some(backend) => has_them(&backend),
        None => claim(worker, client, client.server.get(), is_it),
    };
    // What goes ahead of the statement can be followed by what counts 0 or -1, and by nothing that counts more.
    let is_here = is_here
        && client.backend().is_none_or(|backend| {
            match session_setup::counts_anew(worker, client, command, &backend) {
                None => true,
                Some(finds) => {
                    let is_rows = asked.affected && counts.affected() != Some(0);
                    !(asked.found && (finds || is_rows) || asked.affected && !can_be_told)
                }
            }
        });
    if is_here {
        command.found.asks_backend = asked;
    }
    let is_told = !is_here && !asked.found && can_be_told;
    if is_told {
        command.found.affected = counts.affected();
    }
    is_here || is_told
}

/// A routine may ask for the count of the statement before it, and on MySQL the reply tells that if a procedure counts
/// nothing itself. It is the client's own where its backend is free, or can be told it; and none, never another's.
fn mask_row_count(worker: &Rc<Worker>, client: &Rc<Client>, command: &mut Command) {
    let (counts, insert_id) = (client.session.borrow().counts, client.session.borrow().insert_id);
    let asked = Asked { affected: true, found: false };
    let has_them = |backend: &Rc<Backend>| counts.are_on(asked, backend.id);
    let is_it = |backend: &Rc<Backend>| {
        backend.state.borrow().last_client == client.id && has_them(backend)
    };
    let is_here = claim(worker, client, client.server.get(), is_it)
        && client.backend().is_none_or(|backend| {
            has_them(&backend)
                && session_setup::counts_anew(worker, client, command, &backend).is_none()
                && !lacks_insert_id(insert_id, &backend.state.borrow())
        });
    if !is_here {
        command.found.affected = counts.affected().filter(|it| *it <= 0).or(Some(0));
    }
}

fn find_insert_id(worker: &Rc<Worker>, client: &Rc<Client>, is_asked: bool) -> AnswerPlace {
    if !is_asked && client.session.borrow().pin().is_none() {
        return AnswerPlace::Here;
    }
    let id = match client.session.borrow().insert_id {
        InsertId::Known(_) => return AnswerPlace::Here,
        InsertId::OnBackend { backend, .. } => backend,
        InsertId::Lost => return lost(),
    };
    let is_it = |backend: &Rc<Backend>| backend.id == id;
    if client.backend().as_ref().is_some_and(is_it) {
        return AnswerPlace::Here;
    }
    let Some(backend) = worker.backends.borrow().get(&id).cloned() else { return lost() };
    if client.backend.borrow().is_none() && claim(worker, client, backend.server, is_it) {
        return AnswerPlace::Here;
    }
    let asks = |flight: &InFlight| match flight.purpose {
        Purpose::Capture(inserter) | Purpose::Found { inserter: Some(inserter), .. } => {
            inserter == client.id
        }
        _ => false,
    };
    if backend.flights.borrow().iter().any(|it| asks(it)) {
        return AnswerPlace::Soon;
    }
    // A statement that would change the id is sent behind a question for it. So as long as no question was sent, the
    // backend still has the id, whichever client has the backend, and is asked behind what is in flight.
    if !backend.can_be_asked() {
        return lost();
    }
    let gate = &worker.at(backend.server).gate;
    let is_idle = backend.key.get().and_then(|key| gate.borrow_mut().claim(key, is_it)).is_some();
    if is_idle {
        // Otherwise a client has the backend, or it goes back already, without this question.
        backend.give_back_later();
    }
    let holder = backend.holder.borrow().clone().filter(|it| {
        let has_messages = it.session.borrow().diagnostics() == Diagnostics::OnBackend;
        has_messages && backend.flights.borrow().is_empty() && worker.is_mysql(it)
    });
    if let Some(holder) = holder {
        // The question would clear them.
        handover::begin(worker, &holder, &backend);
    }
    capture::ask_insert_id(client.id, &backend);
    AnswerPlace::Soon
}

fn lost() -> AnswerPlace {
    AnswerPlace::Nowhere(insert_id_is_lost())
}

pub(crate) fn insert_id_is_lost() -> Fault {
    cannot_tell("nobody knows the last insert id of this session for sure")
}

fn nowhere(why: &str) -> AnswerPlace {
    AnswerPlace::Nowhere(cannot_tell(why))
}

fn cannot_tell(why: &str) -> Fault {
    let message = format!(
        "Flifo cannot answer this any more: {why}. Ask in a transaction, or set this user's mode to \
         \"pass-through\""
    );
    Fault::new(Kind::CannotTell, message)
}

/// Gives the client such a backend, unless it has one already: what it has done since then is on that.
fn claim(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    server: ServerId,
    is_it: impl Fn(&Rc<Backend>) -> bool,
) -> bool {
    if client.backend.borrow().is_some() {
        return true;
    }
    let Some(key) = client.key.get() else { return false };
    let mut gate = worker.at(server).gate.borrow_mut();
    let backend = gate.claim(key, is_it);
    if gate.lacks_more() {
        // Another client waited for a slot to run on it.
        worker.shared.mail(worker.index, Mail::BackendFree(server));
    }
    drop(gate);
    if let Some(backend) = &backend {
        backend.hold_for(client);
        backend.settle();
    }
    backend.is_some()
}

/// Asks the client's backend whether it still has the messages that it was told, or which it has behind those that are
/// kept here. False: there is no doubt.
pub(crate) fn begin_for(worker: &Worker, client: &Client, messages: Messages) -> bool {
    let in_doubt = client.session.borrow().are_messages_in_doubt();
    let backend = client.backend().filter(|_| in_doubt && messages.are_asked_for());
    backend.inspect(|backend| handover::begin(worker, client, backend)).is_some()
}

/// Whether the backend that the client has must be asked for messages before the statement may go anywhere. It is asked.
pub(crate) fn is_due(worker: &Rc<Worker>, client: &Rc<Client>, intent: Intent) -> bool {
    begin_for(worker, client, intent.messages)
        || !intent.messages.are_asked_for()
            && route::leave_backend(worker, client, intent.read.is_some())
}
