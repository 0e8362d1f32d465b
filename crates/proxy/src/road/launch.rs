//! From the gate to the wire: tells the backend what the command needs, then sends the command itself.
//!
//! Most of what a backend lacks goes in the same write as the command ([`crate::session::session_setup`]). What must
//! be answered first is asked for one thing at a time; each answer brings the command back here. The slot stays with
//! the command all the while.

use std::rc::Rc;

use engine::intent::Trait;
use engine::session::facts::{Facts, Leaves};
use engine::session::plan::Plan;
use engine::session::setup::{Purpose, Setup};
use engine::source::Source;
use wire::capability::Capabilities;
use wire::command::{Opcode, Shape};
use wire::frame::{self, HEADER, Header, PAYLOAD_MAX, put_packet};
use wire::passage::{Passage, Until};
use wire::reply::Follower;
use wire::statement::{self, Execute};

use crate::answers::answer;
use crate::fault::{Fault, Kind};
use crate::features::cached::{self, written};
use crate::features::sharing;
use crate::road::finish;
use crate::routing::earlier;
use crate::session::alone;
use crate::session::prepared;
use crate::session::session_setup;
use crate::state::backend::{Backend, Taint};
use crate::state::client::Client;
use crate::state::command::{Awaits, Command};
use crate::state::doing::Doing;
use crate::state::in_flight::InFlight;
use crate::state::worker::Worker;
use crate::worker::steps::step;

/// Sends the command, or first what the backend needs to run it. The client holds the backend, a slot has been taken.
pub(crate) fn launch(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    backend: &Rc<Backend>,
    mut command: Box<Command>,
    packet: &mut [u8],
) {
    step!("launch");
    if let Some(noted) = &mut command.noted {
        noted.launch(crate::worker::clock::now());
    }
    if worker.features.caches.is_on() {
        written::begin(worker, client, backend, &mut command, packet);
        cached::begin_run(&command);
    }
    let Some(opcode) = packet.get(HEADER).copied().and_then(Opcode::decode) else {
        // Only a pass-through client's unknown command comes this far: the server answers it as it likes.
        return send(client, backend, command, packet, Shape::Simple, Purpose::Statement);
    };
    if !client.is_pooled() {
        return send_unread(client, backend, command, packet, opcode, Purpose::Statement);
    }
    if !backend.reports {
        return launch_alone(worker, client, backend, command, opcode, packet);
    }
    match session_setup::plan(worker, client, backend, &command, opcode, packet) {
        Plan::Ready if command.facts.sets.is_none() => {
            send_pooled(worker, client, backend, command, opcode, packet);
        }
        Plan::Ready => {
            backend.in_one_write(|| send_pooled(worker, client, backend, command, opcode, packet));
        }
        Plan::Told(setups) => backend.in_one_write(|| {
            if command.facts.read.is_some() && !client.input.reserved.is_some() {
                // Should one of them fail, it is sent again.
                command.packet = worker.spare.buffers.keep(packet);
            }
            for setup in setups {
                session_setup::send_for(client, backend, setup);
            }
            send_pooled(worker, client, backend, command, opcode, packet);
        }),
        Plan::Lost => {
            refuse_launched(worker, client, backend, command, &earlier::insert_id_is_lost());
        }
        Plan::Answered(setup) => {
            let affected = client.session.borrow().counts.affected();
            if command.found.asks_backend.affected && affected.is_some_and(|it| it <= 0) {
                // The backend counts this now.
                command.found.affected = affected;
            }
            prepare_first(worker, client, backend, command, packet, setup);
        }
    }
}

/// Sends what must be answered before a command.
fn prepare_first(
    worker: &Worker,
    client: &Rc<Client>,
    backend: &Backend,
    mut command: Box<Command>,
    packet: &[u8],
    setup: Setup,
) {
    let Setup { purpose, opcode, body } = setup;
    command.packet = worker.spare.buffers.keep(packet);
    session_setup::see_ahead(client, backend, &purpose);
    client.become_state(Doing::Preparing { command, awaits: Awaits::Answer });
    fly(client, backend, None, opcode.shape(), purpose, 0);
    session_setup::send_bytes(backend, opcode, &body);
}

/// Sends a command of which nothing needs to be known, because its backend is its client's own.
fn send_unread(
    client: &Rc<Client>,
    backend: &Rc<Backend>,
    command: Box<Command>,
    packet: &[u8],
    opcode: Opcode,
    purpose: Purpose,
) {
    let told = told_types(client, opcode, packet);
    let packet = told.as_deref().unwrap_or(packet);
    send(client, backend, command, packet, opcode.shape(), purpose);
    if opcode.shape() == Shape::Stream {
        client.input.upload.set(Some(Passage::new(Until::Never)));
    }
}

/// The packet of an execution that lacks types which the server has not been told. It is sent as it is where they have no
/// room.
fn told_types(client: &Client, opcode: Opcode, packet: &[u8]) -> Option<Vec<u8>> {
    if !opcode.executes() {
        return None;
    }
    let mut session = client.session.borrow_mut();
    let types = session.passed_types.as_mut()?.see_sent()?;
    // Two bytes a parameter.
    let parameters = u16::try_from(types.len() / 2).ok()?;
    let execute = Execute::decode(&packet[HEADER..], parameters).ok()?;
    with_types(&execute, packet, !client.input.is_part(), types).ok()
}

/// Sends the first command of a client that is to be alone on this backend, or first what its session is.
fn launch_alone(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    backend: &Rc<Backend>,
    mut command: Box<Command>,
    opcode: Opcode,
    packet: &[u8],
) {
    match alone::enter(worker, client, backend) {
        Ok(Some(setup)) => {
            if setup.purpose == Purpose::Begin {
                client.session.borrow_mut().tell_begin();
            }
            prepare_first(worker, client, backend, command, packet, setup);
        }
        Ok(None) => {
            // No other statement is sent behind it, nor is it sent again elsewhere.
            command.facts = Facts { alters: command.facts.alters, ..Facts::default() };
            if opcode.shape() == Shape::None {
                return send_silently(worker, client, backend, command, packet);
            }
            let purpose = match opcode {
                Opcode::InitDb if client.input.login_sequence.get().is_some() => {
                    login_schema(worker, packet)
                }
                _ => Purpose::Statement,
            };
            send_unread(client, backend, command, packet, opcode, purpose);
        }
        Err(fault) => refuse_launched(worker, client, backend, command, &fault),
    }
}

/// Whether the command that a client has on hold could be sent on this backend as it is.
pub(crate) fn is_ready(worker: &Worker, client: &Client, backend: &Backend) -> bool {
    let Some(command) = client.command() else { return false };
    let packet = &command.packet;
    let opcode = packet.get(HEADER).copied().and_then(Opcode::decode);
    opcode.is_some_and(|opcode| {
        matches!(
            session_setup::plan(worker, client, backend, &command, opcode, packet),
            Plan::Ready
        )
    })
}

/// Sends the command that a client has on hold behind others. Its packet is kept until its reply is the next to come.
pub(crate) fn launch_ahead(worker: &Rc<Worker>, client: &Rc<Client>, backend: &Rc<Backend>) {
    let Some(mut command) = client.take_command() else { return };
    sharing::gather(worker, client, &mut command, backend);
    backend.board(client);
    let mut packet = std::mem::take(&mut command.packet);
    if worker.features.caches.is_on() {
        written::begin(worker, client, backend, &mut command, &packet);
        cached::begin_run(&command);
    }
    let id = statement::id(&packet[HEADER..]);
    let sent = if packet.get(HEADER) == Some(&(Opcode::StmtExecute as u8)) {
        let sent = send_execute(client, backend, command, &mut packet);
        // On another backend it would have another id.
        id.inspect(|id| statement::set_id(&mut packet[HEADER..], *id));
        sent
    } else {
        send(client, backend, command, &packet, Shape::Results, Purpose::Statement);
        Ok(())
    };
    match sent {
        Ok(()) => {
            if let Some(flight) = backend.in_flight.borrow_mut().back_mut() {
                flight.slot = false;
                if let Some(command) = &mut flight.command {
                    command.packet = packet;
                }
            }
            worker.counters.pipelined.add(1);
        }
        Err((command, fault)) => {
            client.backend.take();
            worker.spare.buffers.forget(packet);
            answer::refuse(worker, client, command, &fault);
        }
    }
}

/// Sends a pooled client's command, with its statement's id as the backend knows it.
fn send_pooled(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    backend: &Rc<Backend>,
    mut command: Box<Command>,
    opcode: Opcode,
    packet: &mut [u8],
) {
    command.found.affected = None;
    command.found.told_mode = false;
    let facts = &mut command.facts;
    if facts.leaves == Leaves::Anything {
        backend.taint.set(Taint::Soiled);
    }
    if facts.leaves != Leaves::Nothing && facts.has(Trait::AsksInsertId) {
        // The backend has been told it, so that what is there behind the routine is the client's.
        let own = backend.session.borrow_mut().may_insert_unseen(client.id);
        client.session.borrow_mut().insert_id = own;
    }
    facts.traits.remove(Trait::AsksInsertId);
    let (sets, is_read) = (facts.sets, facts.read.is_some());
    let purpose = match opcode {
        Opcode::StmtPrepare => {
            let schema = client.session.borrow().schema.clone();
            let text = packet[HEADER + 1..].into();
            let settings = Rc::clone(backend.session.borrow().wanted(&client.session.borrow()));
            let dialect = client.session.borrow().dialect();
            let ruled = command.rare.as_mut().and_then(|rare| rare.ruled.as_mut());
            let original = ruled.and_then(|ruled| ruled.original.take());
            let source = Source::new(schema, text, settings, dialect).written_as(original);
            Purpose::Prepare(Rc::new(source))
        }
        Opcode::InitDb if client.input.login_sequence.get().is_some() => {
            login_schema(worker, packet)
        }
        _ => Purpose::Statement,
    };
    // A long one is not kept.
    let is_short = !client.input.reserved.is_some();
    match opcode {
        Opcode::StmtExecute | Opcode::StmtBulkExecute => {
            if !client.input.is_part() && is_short && command.packet.is_empty() {
                // The server may want it once more; see `crate::session::prepared`.
                command.packet = worker.spare.buffers.keep(packet);
            }
            if let Err((command, fault)) = send_execute(client, backend, command, packet) {
                return refuse_launched(worker, client, backend, command, &fault);
            }
        }
        Opcode::StmtSendLongData | Opcode::StmtFetch | Opcode::StmtReset => {
            let id = statement::id(&packet[HEADER..]).unwrap_or(0);
            let mut session = client.session.borrow_mut();
            let own = session.statements.get(id).and_then(|it| it.own.as_ref()).map(|own| own.id);
            drop(session);
            statement::set_id(&mut packet[HEADER..], own.unwrap_or(0));
            if opcode.shape() == Shape::None {
                return send_silently(worker, client, backend, command, packet);
            }
            send(client, backend, command, packet, opcode.shape(), purpose);
        }
        _ => {
            let may_again = worker.shared.cluster.is_routed() || command.retries().is_some();
            if may_again && is_read && is_short && command.packet.is_empty() {
                // Should the server be lost, another one may be asked.
                command.packet = worker.spare.buffers.keep(packet);
            }
            if opcode.shape() == Shape::None {
                return send_silently(worker, client, backend, command, packet);
            }
            send(client, backend, command, packet, opcode.shape(), purpose);
        }
    }
    if let Some(sets) = sets {
        let text = (opcode == Opcode::Query).then(|| &packet[HEADER + 1..]);
        session_setup::send_probe(worker, client, backend, sets, text);
    }
    if opcode.shape() == Shape::Stream {
        client.input.upload.set(Some(Passage::new(Until::Never)));
    }
}

/// A login ends with this packet, which names its schema.
fn login_schema(worker: &Worker, packet: &[u8]) -> Purpose {
    Purpose::LoginSchema(packet[HEADER + 1..].into(), worker.shared.changes.alterations.now())
}

/// Sends a command to which nothing will come back: it is over as soon as it is sent.
fn send_silently(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    backend: &Rc<Backend>,
    command: Box<Command>,
    packet: &[u8],
) {
    client.become_state(Doing::RUNNING);
    send_bytes(client, backend, packet);
    finish::finish_command(worker, client, backend, &command, true);
    worker.spare.buffers.forget(command.end());
    if client.input.is_part() {
        client.input.upload_ends_turn.set(true);
    } else {
        client.await_command();
    }
}

/// Sends an execute, with parameter types if the server knows those of another client.
fn send_execute(
    client: &Rc<Client>,
    backend: &Rc<Backend>,
    mut command: Box<Command>,
    packet: &mut [u8],
) -> Result<(), (Box<Command>, Fault)> {
    let mut told = None;
    match prepare_execute(client, backend, &mut command, packet, &mut told) {
        Ok(()) => {
            let packet = told.as_deref().unwrap_or(packet);
            send(client, backend, command, packet, Shape::Results, Purpose::Statement);
            Ok(())
        }
        Err(fault) => Err((command, fault)),
    }
}

/// Puts the statement's id into the packet as the backend knows it. `told`: the packet otherwise, where it must be
/// another one.
fn prepare_execute(
    client: &Client,
    backend: &Backend,
    command: &mut Command,
    packet: &mut [u8],
    told: &mut Option<Vec<u8>>,
) -> Result<(), Fault> {
    let payload = &packet[HEADER..];
    let id = statement::id(payload).unwrap_or(0);
    let unknown = || Fault::new(Kind::UnknownStatement, format!("Unknown prepared statement {id}"));
    let mut session = client.session.borrow_mut();
    let prepared = session.statements.get(id).ok_or_else(unknown)?;
    let execute = match (Execute::decode(payload, prepared.parameters), &prepared.own) {
        (Ok(execute), _) => execute,
        // The server knows what to make of it, or ends what it keeps of the statement.
        (Err(_), Some(own)) => {
            statement::set_id(&mut packet[HEADER..], own.id);
            return Ok(());
        }
        (Err(error), None) => {
            let malformed = || Fault::new(Kind::Malformed, error.to_string());
            let known = backend.known.borrow_mut().get(&prepared.source).map(|it| it.id);
            let on_backend = known.ok_or_else(unknown)?;
            let mut out = without_parameters(payload).ok_or_else(malformed)?;
            statement::set_id(&mut out[HEADER..], on_backend);
            *told = Some(out);
            return Ok(());
        }
    };
    let source = prepared::source(command, prepared);
    let mut known = backend.known.borrow_mut();
    let on_backend = match &mut prepared.own {
        Some(own) => own,
        None => known.get(&source).ok_or_else(unknown)?,
    };
    let is_told = execute.types.is_some() || on_backend.types == prepared.types;
    match &prepared.types {
        Some(types) if !is_told => {
            let is_whole = !client.input.is_part();
            let mut out = with_types(&execute, packet, is_whole, types)?;
            statement::set_id(&mut out[HEADER..], on_backend.id);
            *told = Some(out);
        }
        _ => statement::set_id(&mut packet[HEADER..], on_backend.id),
    }
    on_backend.types.clone_from(&prepared.types);
    if let Some(in_hand) = &mut command.facts.in_hand {
        in_hand.is_shared = prepared.own.is_none() && !prepared.kept().any();
    }
    Ok(())
}

/// An unparsable EXECUTE, stripped of its parameters. The server refuses it as it would have refused the original, and
/// learns no types from it that another client could be taken to have sent.
fn without_parameters(payload: &[u8]) -> Option<Vec<u8>> {
    const HEAD: usize = 10;
    let is_bulk = payload.first() == Some(&(Opcode::StmtBulkExecute as u8));
    let head = payload.get(..HEAD).filter(|_| !is_bulk)?;
    let mut out = Vec::with_capacity(HEADER + HEAD);
    put_packet(&mut out, 0, head);
    Some(out)
}

/// The packet, or the first piece of it, with parameter types put in.
fn with_types(
    execute: &Execute<'_>,
    packet: &[u8],
    is_whole: bool,
    types: &[u8],
) -> Result<Vec<u8>, Fault> {
    let mut out = Vec::with_capacity(packet.len() + types.len() + HEADER);
    out.extend_from_slice(&[0; HEADER]);
    execute.put_with_types(&packet[HEADER..], types, &mut out);
    let announced = Header::peek(packet).map_or(0, |header| header.len);
    let to_come = if is_whole { 0 } else { announced + HEADER - packet.len() };
    let len = out.len() - HEADER + to_come;
    if !is_whole && len >= PAYLOAD_MAX {
        let message = "Flifo cannot put parameter types into an execute of 16 MiB that leaves them \
            out: send the types with it, or the value in pieces of its own";
        return Err(Fault::new(Kind::PacketTooLarge, message));
    }
    let header = Header { len: len.min(PAYLOAD_MAX), sequence: 0 };
    out[..HEADER].copy_from_slice(&header.encode());
    Ok(out)
}

fn send(
    client: &Rc<Client>,
    backend: &Rc<Backend>,
    command: Box<Command>,
    packet: &[u8],
    shape: Shape,
    purpose: Purpose,
) {
    client.become_state(Doing::RUNNING);
    // What was put into a text may take it into one more packet, or into one less.
    let is_whole = !client.input.is_part();
    let sent = if is_whole { frame::packet_count(packet.len() - HEADER) as u8 } else { 1 };
    let shift = client.input.packets.get().wrapping_sub(sent);
    fly(client, backend, Some(command), shape, purpose, shift);
    if client.is_pooled() && !backend.capabilities.has(Capabilities::DEPRECATE_EOF) {
        see_no_cursor(backend, packet);
    }
    send_bytes(client, backend, packet);
}

/// The reply to what does not ask for a cursor has its rows in it, whatever flags it shows.
fn see_no_cursor(backend: &Backend, packet: &[u8]) {
    let payload = packet.get(HEADER..).unwrap_or_default();
    let is_execute = payload.first() == Some(&(Opcode::StmtExecute as u8));
    if is_execute && statement::asks_for_cursor(payload) {
        return;
    }
    if let Some(flight) = backend.in_flight.borrow_mut().back_mut() {
        flight.follower = flight.follower.without_cursor();
    }
}

/// Sends the bytes of a command, or the first piece of them.
fn send_bytes(client: &Client, backend: &Backend, packet: &[u8]) {
    let (ahead, is_whole) = (backend.bytes.ahead.take(), !client.input.is_part());
    let send = || if is_whole { backend.send_joined(packet) } else { backend.send(packet) };
    if ahead.is_empty() {
        send();
    } else {
        backend.in_one_write(|| {
            backend.send(&ahead);
            send();
        });
    }
    if !is_whole {
        client.input.begin_upload();
    }
    if client.input.reserved.is_some() && !backend.owes_bytes() {
        client.end_claim();
    }
}

/// `shift`: what the client's sequence ids are ahead of the server's.
fn fly(
    client: &Rc<Client>,
    backend: &Backend,
    mut command: Option<Box<Command>>,
    shape: Shape,
    purpose: Purpose,
    shift: u8,
) {
    if let Some(command) = &mut command {
        command.set_runs(true);
    }
    let mut follower = Follower::new(shape, backend.capabilities);
    if purpose.is_clients() {
        let shift = match (&purpose, client.input.login_sequence.get()) {
            (Purpose::LoginSchema(..), Some(sequence)) => sequence.wrapping_sub(1),
            _ => shift,
        };
        follower = follower.shifted(shift);
    }
    let mut flight = InFlight::new(follower, purpose);
    flight.client = Some(Rc::clone(client));
    flight.slot = true;
    flight.read = command.as_ref().and_then(|command| command.facts.read);
    flight.command = command;
    backend.in_flight.borrow_mut().push_back(flight);
    step!("fly");
}

/// Answers with an error a command that had its slot and its backend.
pub(crate) fn refuse_launched(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    backend: &Rc<Backend>,
    command: Box<Command>,
    fault: &Fault,
) {
    finish::finish_command(worker, client, backend, &command, true);
    answer::refuse(worker, client, command, fault);
}
