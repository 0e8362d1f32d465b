//! What follows when a backend has answered a question or an order of Flifo's own.

use std::rc::Rc;

use engine::pin::Pin;
use engine::session::Diagnostics;
use engine::session::setup::{Purpose, Question, Step};
use wire::rows;

use crate::fault::{Fault, Kind};
use crate::road::finish;
use crate::road::kill;
use crate::road::lost_backend;
use crate::road::unreported;
use crate::session::backend_reset;
use crate::session::capture;
use crate::session::questions;
use crate::session::schema_gone;
use crate::session::session_setup;
use crate::session::supply;
use crate::state::backend::Backend;
use crate::state::client::Client;
use crate::state::command::{Awaits, Command};
use crate::state::fate::AfterAnswers;
use crate::state::in_flight::{Answers, InFlight, Settled};
use crate::state::shared::Mail;
use crate::state::worker::Worker;

/// A statement has ended. If its probe is still to be answered, the client waits for that, and its command goes
/// on with the probe; else the command comes back.
pub(crate) fn await_probe(
    worker: &Rc<Worker>,
    backend: &Backend,
    client: &Rc<Client>,
    flight: &mut InFlight,
    command: Box<Command>,
) -> Option<Box<Command>> {
    unreported::ask(worker, client, backend, flight.failed);
    // What fails has set nothing, or has pinned its client.
    if let Some(probe) = flight.probe.take().filter(|_| !flight.failed) {
        let has_diagnostics = client.session.borrow().diagnostics() == Diagnostics::OnBackend;
        backend.in_one_write(|| {
            if has_diagnostics {
                questions::begin(worker, client, backend);
            }
            session_setup::send(backend, *probe);
        });
    }
    let mut flights = backend.in_flight.borrow_mut();
    let is_probe = |it: &&mut Box<InFlight>| it.purpose.is_probe() && it.client.is_none();
    let Some(probe) = flights.iter_mut().rfind(is_probe) else { return Some(command) };
    probe.client = Some(Rc::clone(client));
    probe.command = Some(command);
    probe.slot = flight.slot;
    None
}

/// The server has said what a client's statement has set. Now the client may send its next command.
pub(crate) fn finish_probe(
    worker: &Rc<Worker>,
    backend: &Rc<Backend>,
    client: Rc<Client>,
    flight: &mut InFlight,
) -> Settled {
    let command = flight.command.take().unwrap_or_default();
    let sets = command.facts.sets.unwrap_or_default();
    backend
        .session
        .borrow_mut()
        .see_collates(sets.collates, &mut worker.pool.interned.borrow_mut());
    {
        let mut session = client.session.borrow_mut();
        session.see_settings(&backend.session.borrow());
        if flight.failed {
            // It has left its error, and what an error counts.
            session.counts.see_diagnostics(backend.id);
            session.counts.see_own_failed(backend.id);
        } else {
            session.counts.see_none_affected(backend.id);
        }
    }
    if flight.failed {
        worker.pin(&client, Pin::Set);
    } else if let Purpose::Probe(Some(text)) = &flight.purpose
        && let Some(collation) = backend.session.borrow().settings().get("collation_connection")
    {
        worker.pool.interned.borrow_mut().learn_collation(text, collation);
    }
    finish::finish_command(worker, &client, backend, &command, flight.slot);
    worker.spare.buffers.forget(command.end());
    Settled::nothing_more(client)
}

/// The client goes, and its statements have been answered: what the server is still asked about the last one ends with
/// no client. Nothing is killed; a reset undoes what the answer would have told.
pub(crate) fn leave_probe(worker: &Rc<Worker>, client: &Client, backend: &Rc<Backend>) {
    let mut flights = backend.in_flight.borrow_mut();
    let mut own = flights.iter_mut().filter(|it| it.client.is_some());
    let (Some(flight), None) = (own.next(), own.next()) else { return };
    if !flight.purpose.is_probe() {
        return;
    }
    flight.client = None;
    let has_slot = std::mem::take(&mut flight.slot);
    let command = flight.command.take().unwrap_or_default();
    drop(flights);
    backend.doubt();
    finish::note(worker, client, backend, &command);
    if has_slot {
        worker.agenda.leave_slot(backend.server, backend.slot.take());
    }
    worker.spare.buffers.forget(command.end());
}

/// What a connection was told, as a log says it: never with what a client has set.
const fn part_of_setup(purpose: &Purpose) -> &'static str {
    match purpose {
        Purpose::Begin => "BEGIN",
        Purpose::Schema(_) | Purpose::NoSchema | Purpose::SchemaReset => "the schema",
        Purpose::SessionVariables(..) => "session variables",
        Purpose::UserVariables => "user variables",
        Purpose::InsertId(..) => "the last insert id",
        Purpose::Shared(_) | Purpose::Own(_) | Purpose::Prepare(_) => "a prepared statement",
        Purpose::Clear | Purpose::Diagnostics | Purpose::Nothing => "diagnostics",
        Purpose::Number(_) => "the client's number",
        Purpose::Reset(_) => "a reset",
        Purpose::Init(_) | Purpose::InitProbe(_) => "server.init_connect",
        _ => "a question about the session",
    }
}

/// A setup that went ahead of a statement has been answered. If the backend has not taken it, the statement is not what
/// the client meant.
pub(crate) fn finish_setup(worker: &Rc<Worker>, backend: &Rc<Backend>, flight: &InFlight) {
    if capture::finish(worker, backend, flight) {
        return answered(worker, backend);
    }
    if session_setup::is_done(worker, backend, flight) {
        // The command behind it may be one without a reply, and its client gone.
        return answered(worker, backend);
    }
    let why = flight.error().map_or_else(
        || "it reports something else".to_owned(),
        |error| format!("{} (error {})", String::from_utf8_lossy(error.message), error.code),
    );
    let fault = Fault::new(
        Kind::NotAsMeant,
        format!(
            "Flifo could not set up its backend connection for this statement, which may have been \
             executed with another schema or other session variables: {why}"
        ),
    );
    tracing::warn!(
        server = &*worker.shared.cluster.server(backend.server).name,
        connection = backend.thread_id,
        part = part_of_setup(&flight.purpose),
        why,
        "a part of a session's setup failed: its client is told, or the statement runs again"
    );
    if schema_gone::runs_again(worker, backend, flight) {
        if !matches!(flight.purpose, Purpose::Schema(_)) {
            kill::abandon(worker, backend);
        }
        return;
    }
    lost_backend::spoil(worker, backend, &fault);
    if backend.in_flight.borrow().is_empty() {
        // Behind it was a command without a reply.
        return backend.close();
    }
    kill::abandon(worker, backend);
}

/// One of the commands has been answered.
pub(crate) fn finish_reset(
    worker: &Rc<Worker>,
    backend: &Rc<Backend>,
    step: Step,
    flight: &InFlight,
) {
    let has_row = step == Step::Ask && backend_reset::has_row(worker, backend);
    let is_done = !flight.failed
        && (!has_row || backend_reset::renew_from_row(worker, backend, flight.said.reply()));
    if !is_done {
        tracing::debug!(backend = backend.id, ?step, "cannot reset a backend connection");
        backend.close();
    } else if step == Step::Ask && !backend.is_closing() {
        worker.counters.backends_reset.add(1);
        if let Some(client) = &*backend.holder.borrow() {
            return worker.shared.mail(worker.index, Mail::Resume(client.id));
        }
        backend.fate.give_back_later();
        answered(worker, backend);
    }
}

/// A question has been answered.
pub(crate) fn finish_capture(
    worker: &Rc<Worker>,
    backend: &Rc<Backend>,
    flight: &InFlight,
    question: Question,
) {
    let rows = match question {
        // Those that are there were not cut off.
        Question::Diagnostics => rows::read_first(flight.said.reply()),
        _ => rows::read(flight.said.reply()),
    };
    if let Some(answers) = &mut *backend.capture.borrow_mut() {
        answers.failed |= rows.is_none() && question != Question::States;
        let rows = rows.unwrap_or_default();
        match question {
            Question::Numbers => answers.numbers = rows,
            Question::Diagnostics => answers.diagnostics = rows,
            Question::States => answers.states = rows,
        }
    }
    if questions::of(worker, backend).last().is_none_or(|(last, _)| *last != question) {
        return;
    }
    let (answers, holder) = (backend.capture.take(), backend.holder.borrow().clone());
    // Without them, its client has left meanwhile.
    if let (Some(answers), Some(client)) = (answers, holder) {
        hear(worker, &client, backend, &answers);
    }
    answered(worker, backend);
}

/// The client's backend has answered.
pub(crate) fn hear(worker: &Rc<Worker>, client: &Client, backend: &Rc<Backend>, answers: &Answers) {
    let adds = client.awaits() == Some(Awaits::Diagnostics);
    if !questions::learn(worker, client, backend, answers) {
        let mut session = client.session.borrow_mut();
        // MySQL has none any more when it was asked.
        let are_gone = worker.is_mysql(client) && session.diagnostics() == Diagnostics::OnBackend;
        // What else there is to be known could not be put behind them.
        if adds || are_gone || session.are_diagnostics_in_doubt() {
            session.lose_diagnostics();
        } else {
            // A client that asks for them is refused. To keep the backend would have others wait for a client that may
            // never ask.
            session.lose_mark();
        }
    }
    // A client that was asked for its own sake may keep the backend for another reason. One that waits for a probe
    // behind this gives it back then.
    let is_probe = |it: &InFlight| it.purpose.is_probe();
    let is_probed = backend.in_flight.borrow().iter().any(|it| is_probe(it));
    if client.session.borrow().can_do_without() && !is_probed {
        supply::yield_backend(client, backend);
        backend.release();
        backend.fate.give_back_later();
    }
    if client.awaits().is_some_and(Awaits::is_for_its_backend) {
        worker.shared.mail(worker.index, Mail::Resume(client.id));
    }
}

/// A backend has answered something that it was asked or told. With the last answer it goes back if no client has it,
/// or closes where that is due.
pub(crate) fn answered(worker: &Rc<Worker>, backend: &Rc<Backend>) {
    if !backend.in_flight.borrow().is_empty() {
        return;
    }
    match backend.fate.then.take() {
        AfterAnswers::Stay => {}
        AfterAnswers::GiveBack => supply::give_back(worker, backend),
        AfterAnswers::Close => backend.close(),
    }
}
