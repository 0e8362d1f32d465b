//! Answers of Flifo's own: OK and errors that no server has sent, and commands that are held until one can be given.

use std::rc::Rc;

use engine::kept::Message;
use engine::session::{CHARSET, DiagnosticsUse};
use wire::command::Opcode;
use wire::frame::{HEADER, put_packet_with};
use wire::response::{OK, OkPacket};

use crate::answers::diagnostics::{self, KILL_IS_OLD};
use crate::answers::notes;
use crate::fault::{Fault, Kind};
use crate::session::supply;
use crate::state::client::Client;
use crate::state::command::{Awaits, Command};
use crate::state::doing::Doing;
use crate::state::worker::Worker;
use crate::worker::outbox;

/// Sends an error that ends the connection.
pub(crate) fn refuse_and_close(worker: &Worker, client: &Client, fault: &Fault) {
    worker.count_fault(fault.kind);
    tell_late(client, fault);
    client.write_last(&fault.packet(1));
    client.close();
}

/// That statements wait in vain is an operator's affair, too.
fn tell_late(client: &Client, fault: &Fault) {
    if fault.kind == Kind::WaitedTooLong {
        let (user, reason) = (client.user.borrow().to_string(), &fault.message);
        tracing::warn!(client = client.id, user, reason, "a statement was not run");
    }
}

/// Logs that it is not known whether a client's statement was executed: its program or an operator has to look.
pub(crate) fn log_untold(client: &Client, fault: &Fault) {
    let (user, reason) = (client.user.borrow().to_string(), &fault.message);
    tracing::warn!(client = client.id, user, reason, "a statement may have been executed");
}

/// Answers the command that a client has on hold with an error.
pub(crate) fn refuse_held(worker: &Rc<Worker>, client: &Client, fault: &Fault) {
    let command = client.take_command().unwrap_or_default();
    refuse(worker, client, command, fault);
}

/// Gives the client's backend back, if it has one that it need not keep.
pub(crate) fn let_go(worker: &Rc<Worker>, client: &Client) {
    let Some(backend) = client.backend() else { return };
    if !client.is_pooled() || client.session.borrow().holds_backend() {
        return;
    }
    if backend.in_flight.borrow().is_empty() {
        backend.release();
        supply::give_back(worker, &backend);
    } else if backend.in_flight.borrow().iter().all(|flight| flight.client.is_none()) {
        // It has still to answer something that no client waits for: then it goes back by itself.
        backend.release();
        backend.fate.give_back_later();
    }
}

/// Answers a command with an error.
pub(crate) fn refuse(
    worker: &Rc<Worker>,
    client: &Client,
    mut command: Box<Command>,
    fault: &Fault,
) {
    if let Some(noted) = command.noted.take() {
        notes::see_fault(worker, client, *noted, fault);
    }
    // The last message is this one, of which no server knows.
    diagnostics::keep_fault(worker, client, command.facts.diagnostics, fault);
    worker.spare.buffers.forget(command.end());
    // A backend that it was given to ask for the past is of no use now.
    let_go(worker, client);
    worker.count_fault(fault.kind);
    tell_late(client, fault);
    client.session.borrow_mut().counts.answer(-1);
    let logs_in = client.input.login_sequence.get().is_some();
    if logs_in {
        notes::see_no_login(worker, client, fault.code().0, &fault.message);
    }
    let settings = client.session.borrow().settings.clone();
    let charset = settings.as_ref().and_then(|it| it.get(CHARSET)).unwrap_or_default();
    client.write_last(&fault.packet_in(client.take_sequence(), charset));
    // The rest of a command that comes in pieces would be taken for commands; a login that failed is over.
    if client.input.upload.take().is_some() || logs_in {
        client.close();
    }
}

/// Keeps the command until the client's backend, or the one that it had, has answered.
pub(crate) fn hold(
    worker: &Worker,
    client: &Client,
    mut command: Box<Command>,
    packet: &[u8],
    awaits: Awaits,
) {
    command.packet = worker.spare.buffers.keep(packet);
    client.become_state(Doing::Preparing { command, awaits });
}

/// Answers OK without asking the server.
pub(crate) fn ok(client: &Client, command: Box<Command>) {
    ok_telling(client, command, 0);
}

/// The same, with so many diagnostics of before.
pub(crate) fn ok_telling(client: &Client, command: Box<Command>, warnings: u16) {
    command.end();
    let status = client.session.borrow().status();
    client.session.borrow_mut().counts.answer(0);
    let packet = OkPacket { status, warnings, ..OkPacket::EMPTY };
    let sequence = client.take_sequence();
    outbox::in_spare(|out| {
        put_packet_with(out, sequence, |out| packet.encode(OK, client.capabilities, out));
        client.write_last(out);
    });
}

/// Answers a `GET DIAGNOSTICS` about a condition that does not exist.
pub(crate) fn no_condition(client: &Client, command: Box<Command>) {
    let mut session = client.session.borrow_mut();
    session.add_own_message(Message::no_condition());
    session.tell(1);
    drop(session);
    ok_telling(client, command, 1);
}

/// A client has killed another one by a command, or has tried to.
/// Returns how many diagnostics it is told.
pub(crate) fn note_kill(worker: &Rc<Worker>, client: &Client, command: &mut Command) -> u16 {
    let opcode = command.packet.get(HEADER).copied().and_then(Opcode::decode);
    if opcode != Some(Opcode::ProcessKill) || !worker.is_mysql(client) {
        clear(worker, client);
        return 0;
    }
    command.facts.diagnostics = DiagnosticsUse::Added;
    let mut session = client.session.borrow_mut();
    session.add_own_message(Message::warning(KILL_IS_OLD.0, KILL_IS_OLD.1));
    session.tell_more(1);
    session.told().unwrap_or(1)
}

/// Flifo has answered a statement itself, which at MySQL has cleared the diagnostics.
pub(crate) fn clear(worker: &Rc<Worker>, client: &Client) {
    if worker.is_mysql(client) {
        let mut session = client.session.borrow_mut();
        session.see_diagnostics(0, false, DiagnosticsUse::Go);
        session.tell(0);
        drop(session);
        // They may have been all that its backend was kept for.
        let_go(worker, client);
    }
}

/// Refuses a command in the server's place that clears no diagnostics at MySQL.
pub(crate) fn refuse_adding(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    mut command: Box<Command>,
    packet: &[u8],
    fault: &Fault,
) {
    if worker.is_mysql(client) {
        if diagnostics::must_ask(worker, client) {
            return hold(worker, client, command, packet, Awaits::Diagnostics);
        }
        command.facts.diagnostics = DiagnosticsUse::Added;
    }
    refuse(worker, client, command, fault);
}
