//! A client's schema cannot be entered on a backend: another client has dropped it, or its rights are gone.
//!
//! The client stays in it, as it does directly, and gets the server's error for what needs the schema. What means the
//! same in any schema goes on. Until it can be entered again, nothing is sent behind the order to enter it.

use std::rc::Rc;

use engine::session::facts::Leaves;
use engine::session::setup::Purpose;
use engine::statement::schemaless::is_schemaless;
use wire::command::Opcode;
use wire::frame::HEADER;
use wire::statement;
use wire::text::Lexed;

use crate::session::pipeline;
use crate::state::backend::Backend;
use crate::state::client::Client;
use crate::state::in_flight::InFlight;
use crate::state::worker::Worker;
use crate::worker::counters::Why;

/// The order to enter a schema was answered, before the command of its client was sent. True: it has failed, and the
/// command goes on without.
pub(crate) fn goes_on_without(
    worker: &Worker,
    client: &Client,
    backend: &Backend,
    flight: &mut InFlight,
) -> bool {
    if !flight.failed || !matches!(flight.purpose, Purpose::Schema(_)) {
        return false;
    }
    {
        let mut session = client.session.borrow_mut();
        session.see_schema(false);
        // It has left its error, and what an error counts.
        session.counts.lose(backend.id);
    }
    if needs_schema(client) {
        keep_error(worker, client, flight);
        return false;
    }
    flight.failure = None;
    if let Some(mut command) = client.command_mut() {
        command.found.needs_no_schema = true;
    }
    true
}

/// The client gets the server's error, and may ask for it.
fn keep_error(worker: &Worker, client: &Client, flight: &InFlight) {
    let mut session = client.session.borrow_mut();
    if let Some(error) = flight.error() {
        session.keep_error(error.code, error.sqlstate, error.message);
        if worker.is_mysql(client) {
            session.tell(1);
        }
    }
    session.counts.answer(-1);
}

/// Whether the command that a client has on hold may mean something else in another schema.
fn needs_schema(client: &Client) -> bool {
    if client.input.is_part() {
        return true;
    }
    let Some(command) = client.command() else { return true };
    let payload = command.packet.get(HEADER..).unwrap_or_default();
    let session = client.session.borrow();
    let may_call = command.facts.leaves != Leaves::Nothing || command.facts.calls;
    let stands_alone = |text: &[u8], dialect| {
        let lexed = Lexed::default();
        !may_call && is_schemaless(lexed.text(text, dialect))
    };
    let Some((opcode, body)) = payload.split_first() else { return true };
    match Opcode::decode(*opcode) {
        Some(Opcode::Query | Opcode::StmtPrepare) => !stands_alone(body, session.dialect()),
        Some(Opcode::StmtExecute | Opcode::StmtBulkExecute) => {
            let prepared = statement::id(payload).and_then(|id| session.statements.look(id));
            !prepared.is_some_and(|it| stands_alone(&it.source.text, it.source.dialect))
        }
        Some(Opcode::Ping | Opcode::Statistics | Opcode::SetOption | Opcode::StmtReset) => false,
        _ => true,
    }
}

/// A setup has failed that was sent in the same write as what is behind it. True: that is a mere read, which runs
/// again, and what it answers now is dropped.
pub(crate) fn runs_again(worker: &Rc<Worker>, backend: &Backend, flight: &InFlight) -> bool {
    let mut flights = backend.in_flight.borrow_mut();
    let Some(behind) = flights.iter_mut().find(|behind| behind.client.is_some()) else {
        return false;
    };
    let has_packet = behind.command.as_ref().is_some_and(|command| !command.packet.is_empty());
    let Some(client) = behind.client.clone() else { return false };
    if behind.read.is_none()
        || behind.follower.has_begun()
        || !has_packet
        || client.session.borrow().holds_backend()
    {
        return false;
    }
    let given_up = behind.give_up();
    backend.holder.take();
    drop(flights);
    if matches!(flight.purpose, Purpose::Schema(_)) {
        client.session.borrow_mut().see_schema(false);
    }
    pipeline::send_again(worker, given_up.into_iter().collect(), Why::Setup);
    true
}
