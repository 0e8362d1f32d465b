//! Finds the answer to a statement that asks for what came before it: the backend that knows is given to the client, or
//! is asked. Where it is, [`engine::session::earlier`] decides.

use std::rc::Rc;

use engine::counts::Asked;
use engine::intent::{Intent, Trait};
use engine::session::earlier::{self, Before, CountsPlace, DiagnosticsPlace, InsertIdPlace};
use engine::session::plan::lacks_insert_id;
use engine::session::setup::Purpose;
use engine::session::{Diagnostics, DiagnosticsUse};

use crate::cluster::servers::ServerId;
use crate::fault::{Fault, Kind};
use crate::routing::clusters;
use crate::routing::route;
use crate::session::capture;
use crate::session::prepared;
use crate::session::questions;
use crate::session::session_setup;
use crate::state::backend::Backend;
use crate::state::client::Client;
use crate::state::command::Command;
use crate::state::in_flight::InFlight;
use crate::state::shared::Mail;
use crate::state::worker::Worker;

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
    if !earlier::may_ask(&client.session.borrow(), &command.facts) {
        return AnswerPlace::Here;
    }
    let place = earlier::diagnostics(
        &client.session.borrow(),
        &command.facts,
        worker.kind_of_server(client),
    );
    match place {
        DiagnosticsPlace::Backend => {}
        DiagnosticsPlace::Kept(rows) => command.rare().shown = Some(Rc::from(rows)),
        DiagnosticsPlace::Discarded => {
            return nowhere(
                "diagnostics of the previous statement were discarded: its backend connection was \
                 reassigned",
            );
        }
    }
    let counts = command.facts.counts;
    if counts.found && capture::is_asked_elsewhere(worker, client) {
        return AnswerPlace::Later;
    }
    if !find_counts(worker, client, command) && !prepared::put_counts(client, command) {
        return nowhere(
            "the row counts of the previous statement were discarded: its backend connection was \
             reassigned",
        );
    }
    if command.facts.calls && counts == Asked::default() {
        mask_row_count(worker, client, command);
    }
    let own = client.backend().map(|backend| backend.id);
    let place = earlier::insert_id(&client.session.borrow(), &command.facts, own);
    let found = match place {
        InsertIdPlace::Here => AnswerPlace::Here,
        InsertIdPlace::On(id) => ask_insert_id(worker, client, id),
        InsertIdPlace::Lost => lost(),
    };
    match found {
        AnswerPlace::Nowhere(_) if !command.facts.has(Trait::AsksInsertId) => AnswerPlace::Here,
        found => found,
    }
}

/// Finds the backend that has counted; or says what it is to be told. False: the counts are lost.
fn find_counts(worker: &Rc<Worker>, client: &Rc<Client>, command: &mut Command) -> bool {
    let asked = command.facts.counts;
    let own = if asked == Asked::default() {
        None
    } else {
        claim_counter(worker, client, command, asked)
    };
    let counts = client.session.borrow().counts;
    match earlier::counts(&counts, asked, own) {
        CountsPlace::Unasked => true,
        CountsPlace::Backend => {
            command.found.asks_backend = asked;
            true
        }
        CountsPlace::Told(affected) => {
            command.found.affected = Some(affected);
            true
        }
        CountsPlace::Lost => false,
    }
}

/// Gives the client the backend that has counted for its last statement, if it has none and that one is free. The
/// answer is what that backend runs before the command; `None`: the client does not have it.
fn claim_counter(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    command: &Command,
    asked: Asked,
) -> Option<Before> {
    let counts = client.session.borrow().counts;
    let has_them = |backend: &Rc<Backend>| counts.are_on(asked, backend.id);
    let is_it = |backend: &Rc<Backend>| {
        backend.session.borrow().last_client == client.id && has_them(backend)
    };
    claim(worker, client, client.routing.server.get(), is_it);
    let backend = client.backend().filter(has_them)?;
    Some(Before::of(session_setup::counts_anew(worker, client, command, &backend)))
}

/// A routine may ask for the count of the statement before it, and on MySQL the reply tells that if a procedure counts
/// nothing itself. It is the client's own where its backend is free, or can be told it; and none, never another's.
fn mask_row_count(worker: &Rc<Worker>, client: &Rc<Client>, command: &mut Command) {
    let asked = Asked { affected: true, found: false };
    let before = claim_counter(worker, client, command, asked);
    let session = client.session.borrow();
    let lacks_id =
        |backend: Rc<Backend>| lacks_insert_id(session.insert_id, &backend.session.borrow());
    let is_here = before == Some(Before::Nothing) && !client.backend().is_some_and(lacks_id);
    if !is_here {
        command.found.affected = Some(earlier::masked(&session.counts));
    }
}

/// Gives the client the backend that knows its last insert id, if that is free; else asks the backend.
fn ask_insert_id(worker: &Rc<Worker>, client: &Rc<Client>, id: u64) -> AnswerPlace {
    let is_it = |backend: &Rc<Backend>| backend.id == id;
    let Some(backend) = worker.backends.borrow().get(&id).cloned() else { return lost() };
    if client.backend.borrow().is_none() && claim(worker, client, backend.server, is_it) {
        return AnswerPlace::Here;
    }
    let asks = |flight: &InFlight| match flight.purpose {
        Purpose::AskInsertId(inserter) | Purpose::Found { inserter: Some(inserter), .. } => {
            inserter == client.id
        }
        _ => false,
    };
    if backend.in_flight.borrow().iter().any(|it| asks(it)) {
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
        backend.fate.give_back_later();
    }
    let holder = backend.holder.borrow().clone().filter(|it| {
        let has_diagnostics = it.session.borrow().diagnostics() == Diagnostics::OnBackend;
        has_diagnostics && backend.in_flight.borrow().is_empty() && worker.is_mysql(it)
    });
    if let Some(holder) = holder {
        // The question would clear them.
        questions::begin(worker, &holder, &backend);
    }
    capture::ask_insert_id(client.id, &backend);
    AnswerPlace::Soon
}

fn lost() -> AnswerPlace {
    AnswerPlace::Nowhere(insert_id_is_lost())
}

pub(crate) fn insert_id_is_lost() -> Fault {
    cannot_tell("the last insert id of this session is not certain")
}

fn nowhere(why: &str) -> AnswerPlace {
    AnswerPlace::Nowhere(cannot_tell(why))
}

fn cannot_tell(why: &str) -> Fault {
    let message = format!(
        "Flifo cannot answer this any more: {why}. Ask in a transaction, or set this user's mode \
         to \"pass-through\""
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
    // Its statement would not run there.
    if !clusters::is_own(worker, client, server) {
        return false;
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
    }
    backend.is_some()
}

/// Asks the client's backend whether it still has the diagnostics that it was told, or which it has behind those that are
/// kept here. False: there is no doubt.
pub(crate) fn begin_for(worker: &Worker, client: &Client, diagnostics: DiagnosticsUse) -> bool {
    let in_doubt = client.session.borrow().are_diagnostics_in_doubt();
    let backend = client.backend().filter(|_| in_doubt && diagnostics.are_asked_for());
    backend.inspect(|backend| questions::begin(worker, client, backend)).is_some()
}

/// Whether the backend that the client has must be asked for diagnostics before the statement may go anywhere. It is
/// asked.
pub(crate) fn is_due(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    intent: Intent,
    command: &Command,
) -> bool {
    begin_for(worker, client, intent.diagnostics)
        || !intent.diagnostics.are_asked_for()
            && route::leave_backend(worker, client, intent.read.is_some(), command)
}
