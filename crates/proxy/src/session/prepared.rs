//! Prepared statements between client and backend: what a reply tells of them, when a backend is done with one, and
//! what helps when the server takes one no more.
//!
//! How a client names them is [`crate::road::executions`]', what goes to the server [`crate::road::launch`]'s.
//! Invariants: a statement of one client's own lives on a backend only while that client holds the backend; a command
//! is sent once more only if the server has refused it before it did anything.

use std::rc::Rc;

use engine::counts::{Asked, Finds};
use engine::intent::{Inserts, Intent};
use engine::pin::Pin;
use engine::session::facts::InHand;
use engine::session::prepared::{Preparation, Refused, Release};
use engine::session::setup::Purpose;
use engine::session::{self, DiagnosticsUse};
use engine::source::Source;
use engine::statements::{KNOWN_MAX, Prepared};
use wire::capability::Capabilities;
use wire::command::Opcode;
use wire::frame::{HEADER, put_joined, put_packet_with};
use wire::response::{ErrPacket, Status};
use wire::statement::{self, Execute};
use wire::text::Lexed;

use crate::fault::{Fault, Kind};
use crate::session::pins;
use crate::session::pipeline;
use crate::state::backend::Backend;
use crate::state::client::Client;
use crate::state::command::{Awaits, Command};
use crate::state::doing::Doing;
use crate::state::in_flight::InFlight;
use crate::state::worker::Worker;
use crate::worker::counters::Why;

/// What a server says of a packet that it cannot read (`ER_MALFORMED_PACKET`).
pub(crate) const MALFORMED: u16 = 1835;

/// A command is sent again so often.
const AGAIN_MAX: u8 = 2;

/// How many statements a backend may keep prepared: all backends together half of what the server allows, so that
/// others have the rest.
fn known_max(worker: &Worker, backend: &Backend) -> usize {
    let server = &worker.at(backend.server).server;
    let backends = server.backends.held().max(1) as usize;
    (server.facts.statements_max() as usize / 2 / backends).clamp(1, KNOWN_MAX)
}

/// The statement that a client means: MariaDB's clients may mean the one that was prepared last.
pub(crate) fn named(client: &Client, id: u32) -> u32 {
    match id {
        statement::LAST_PREPARED => client.session.borrow().statements.last().unwrap_or(id),
        id => id,
    }
}

/// What a client's statement is executed by.
pub(crate) fn source(command: &Command, prepared: &Prepared) -> Rc<Source> {
    Rc::clone(command.found.instead.as_ref().unwrap_or(&prepared.source))
}

/// The query with the text of a statement that is executed.
pub(crate) fn as_query(client: &Client, text: &[u8]) -> Vec<u8> {
    let has_attributes = client.capabilities.has(Capabilities::QUERY_ATTRIBUTES);
    let attributes: &[u8] = if has_attributes { &[0, 1] } else { &[] };
    let mut packet = Vec::new();
    put_joined(&mut packet, 0, &[&[Opcode::Query as u8], attributes, text]);
    packet
}

/// Has the statement in hand executed by a text in which the counts that it asks for stand as numbers. False: that
/// cannot be done.
pub(crate) fn put_counts(client: &Client, command: &mut Command) -> bool {
    let asked = command.facts.counts;
    let executes = |it: &InHand| it.command == Opcode::StmtExecute;
    let Some(in_hand) = command.facts.in_hand.filter(executes) else { return false };
    let mut session = client.session.borrow_mut();
    let (counts, is_pinned) = (session.counts, session.pin().is_some());
    let Some(prepared) = session.statements.get(in_hand.id) else { return false };
    // A statement of the client's own stays on a backend that the client keeps, and so would the numbers.
    if is_pinned || prepared.own.is_some() {
        return false;
    }
    let of = &prepared.source;
    let text = match counts.put(Lexed::default().text(&of.text, of.dialect), asked, None) {
        (Some(text), left) if left == Asked::default() => text.into(),
        _ => return false,
    };
    let (schema, settings) = (of.schema.clone(), Rc::clone(&of.settings));
    command.found.instead = Some(Rc::new(Source::new(schema, text, settings, of.dialect)));
    true
}

/// Whether one statement was executed for several rows of parameters, each of which counts for itself: inserts are
/// done, and counted, as one.
pub(crate) fn is_repeated(flight: &InFlight) -> bool {
    let is_bulk = |it: InHand| it.command == Opcode::StmtBulkExecute;
    let facts = flight.command.as_ref().map(|command| &command.facts);
    facts.is_some_and(|it| it.inserts == Inserts::No && it.in_hand.is_some_and(is_bulk))
}

/// What the server says of a statement that was never prepared.
pub(crate) fn unknown(worker: &Worker, client: &Client, command: Opcode, id: u32) -> Fault {
    let server = &worker.at(client.routing.server.get()).server;
    let place = match command {
        _ if server.facts.is_mysql() => "mysql_stmt_precheck".to_owned(),
        Opcode::StmtBulkExecute => format!("mysqld_{}", Opcode::StmtExecute.name()),
        command => format!("mysqld_{}", command.name()),
    };
    let message = format!("Unknown prepared statement handler ({id}) given to {place}");
    Fault::new(Kind::UnknownStatement, message)
}

/// Whether a statement of which a parameter was sent that it does not have is refused for that: in bulk, others than
/// those that change rows are refused for being sent so.
pub(crate) fn is_refused_spoiled(command: Opcode, intent: &Intent) -> bool {
    let changes = intent.inserts != Inserts::No
        || intent.diagnostics == DiagnosticsUse::Go && intent.finds == Finds::Unknown;
    command == Opcode::StmtExecute || command == Opcode::StmtBulkExecute && changes
}

/// What the server says of a statement that has no rows left, or never had any in a cursor.
pub(crate) fn no_cursor(is_mysql: bool, id: u32) -> Fault {
    let dot = if is_mysql { "." } else { "" };
    Fault::new(Kind::NoCursor, format!("The statement ({id}) has no open cursor{dot}"))
}

/// What the server says of this execute of a statement that was sent a piece of a parameter that it does not have.
/// MySQL looks at the values before.
pub(crate) fn wrong_piece(is_mysql: bool, prepared: &Prepared, payload: &[u8]) -> Fault {
    let parameters = prepared.parameters;
    let is_whole = Execute::decode(payload, parameters).is_ok_and(|execute| {
        let types = execute.types.or(prepared.types.as_deref()).unwrap_or_default();
        execute.has_values(payload, parameters, types)
    });
    if is_mysql && !is_whole && !prepared.kept().long_data {
        return Fault::relayed(MALFORMED, "HY000", "Malformed communication packet.");
    }
    let place = if is_mysql { "mysql_stmt_precheck" } else { "mysqld_stmt_send_long_data" };
    Fault::relayed(1210, "HY000", &format!("Incorrect arguments to {place}"))
}

/// Learns from the answer to a preparation, and puts the client's id in the server's place.
pub(crate) fn see(
    worker: &Worker,
    backend: &Backend,
    client: &Client,
    flight: &mut InFlight,
    packet: &mut [u8],
) {
    let payload = &mut packet[HEADER..];
    let Ok(prepared) = statement::Prepared::decode(payload) else { return };
    let statement::Prepared { id, parameters, warnings, .. } = prepared;
    let mut session = client.session.borrow_mut();
    (flight.warnings, flight.last) = (warnings, warnings);
    if let Purpose::Prepare(source) = &mut flight.purpose {
        *source = worker.learnt.sources.borrow_mut().share(Rc::clone(source));
    }
    let (preparation, named) = session.see_prepared(&flight.purpose, id, parameters);
    match preparation {
        Some(Preparation::Shared(source)) => add(worker, backend, &source, id),
        Some(Preparation::Superfluous) => backend.close_statement(id),
        Some(Preparation::Own) | None => {}
    }
    if let Some(named) = named {
        statement::set_id(payload, named);
    }
}

fn add(worker: &Worker, backend: &Backend, source: &Rc<Source>, id: u32) {
    for closed in backend.known.borrow_mut().add(Rc::clone(source), id, known_max(worker, backend))
    {
        backend.close_statement(closed);
    }
}

/// Learns whether rows are left in a cursor.
pub(crate) fn see_status(flight: &mut InFlight, status: Status) {
    let command = flight.command.as_mut();
    if let Some(in_hand) = command.and_then(|command| command.facts.in_hand.as_mut()) {
        in_hand.see_status(status);
    }
}

/// A command has been answered: what does the server keep of its statement now?
pub(crate) fn see_answered(
    worker: &Worker,
    client: &Client,
    backend: &Backend,
    in_hand: Option<InHand>,
    flight: &InFlight,
) {
    let mut session = client.session.borrow_mut();
    if let Purpose::Prepare(_) = flight.purpose {
        session.see_preparation(flight.failed, worker.at(backend.server).server.facts.is_mysql());
    }
    let Some(in_hand) = in_hand else { return };
    if in_hand.is_shared && !in_hand.has_cursor && !client.pinned.is_some() {
        // As nearly all: nothing is kept that was not, and no look at the statement tells more.
        return;
    }
    let Some(kept) = session.see_executed(in_hand, flight.failed) else { return };
    let digest = session.statements.look(in_hand.id).map(|it| it.source.intent.digest);
    let release = session.release(in_hand.id);
    drop(session);
    if let (true, Some(digest)) = (kept.cursor, digest) {
        worker.hold(client, Pin::Cursor, digest);
    }
    carry_out(client, backend, release);
}

fn carry_out(client: &Client, backend: &Backend, release: Release) {
    if let Some(id) = release.closes {
        backend.close_statement(id);
    }
    if release.is_free {
        pins::ended(client);
    }
}

/// The client closes a statement. True: its backend may have been kept for that alone.
pub(crate) fn close(client: &Rc<Client>, id: u32) -> bool {
    let closed = client.session.borrow_mut().close_statement(id);
    let (Some((release, kept)), Some(backend)) = (closed, client.backend()) else { return false };
    carry_out(client, &backend, release);
    if kept.any() {
        // Rows in a cursor are not to stay for as long as the backend rests.
        backend.send_ahead();
    }
    kept.any()
}

/// Whether an error packet says that a command was refused for what can be helped.
pub(crate) fn refused(flight: &InFlight, packet: &[u8]) -> Option<Refused> {
    // Behind anything else in a reply, something has been done already.
    if packet.get(HEADER - 1) != Some(&1) {
        return None;
    }
    let error = ErrPacket::decode(packet.get(HEADER..)?).ok()?;
    let in_hand = flight.command.as_ref().and_then(|command| command.facts.in_hand);
    session::prepared::refused(&flight.purpose, in_hand, error.code)
}

/// Helps, and puts the command on hold, to be sent once more. False: the client must be told.
pub(crate) fn retry(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    backend: &Rc<Backend>,
    flight: &mut InFlight,
    refused: Refused,
) -> bool {
    // Of what was to be told before, it waits; else it is in flight.
    let Some(mut command) = flight.command.take().or_else(|| client.take_command()) else {
        return false;
    };
    let helped = help(worker, client, backend, flight, &mut command, refused);
    if !helped {
        match flight.purpose.is_clients() {
            true => flight.command = Some(command),
            false => client.go_on_as(Doing::Preparing { command, awaits: Awaits::Answer }),
        }
        return false;
    }
    client.become_state(Doing::Preparing { command, awaits: Awaits::Answer });
    pipeline::cancel_pipelined(worker, backend, Why::Again);
    true
}

/// Does what it takes for the command to be sent once more.
fn help(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    backend: &Rc<Backend>,
    flight: &InFlight,
    command: &mut Command,
    refused: Refused,
) -> bool {
    let is_probed = flight.probe.is_some()
        || backend.in_flight.borrow().front().is_some_and(|next| !next.purpose.is_clients());
    if command.again >= AGAIN_MAX || is_probed || backend.is_closing() {
        return false;
    }
    let helped = match refused {
        Refused::Stale => forget(client, backend, command),
        Refused::TooMany => shed(worker, backend),
    };
    if !helped {
        return false;
    }
    command.again += 1;
    if let Purpose::Prepare(source) = &flight.purpose {
        let mut packet = Vec::with_capacity(source.text.len() + HEADER + 1);
        put_packet_with(&mut packet, 0, |out| {
            out.push(Opcode::StmtPrepare as u8);
            out.extend_from_slice(&source.text);
        });
        command.packet = packet;
    }
    true
}

/// Has the statement in hand prepared anew. False: then it would not be the same.
fn forget(client: &Client, backend: &Backend, command: &Command) -> bool {
    let mut session = client.session.borrow_mut();
    let Some(id) = command.facts.in_hand.map(|it| it.id) else { return false };
    let Some(prepared) = session.statements.get(id) else { return false };
    if !prepared.can_be_renewed() || command.packet.is_empty() {
        return false;
    }
    let stale = match prepared.own.take() {
        Some(own) => Some(own.id),
        None => backend.known.borrow_mut().remove(&source(command, prepared)),
    };
    stale.inspect(|id| backend.close_statement(*id)).is_some()
}

/// Closes the half of the backend's statements that was not used for longest; if it has none, that of all others'.
fn shed(worker: &Worker, backend: &Backend) -> bool {
    let halve = |backend: &Backend| {
        let mut known = backend.known.borrow_mut();
        let left = known.len() / 2;
        let closed = known.shrink(left);
        closed.iter().for_each(|id| backend.close_statement(*id));
        !closed.is_empty()
    };
    if halve(backend) {
        backend.send_ahead();
        return true;
    }
    let mut helped = false;
    for other in worker.backends.borrow().values() {
        // Between two commands, so that no client has to wait for it.
        if other.in_flight.borrow().is_empty() && other.holder.borrow().is_none() && halve(other) {
            other.send_ahead();
            helped = true;
        }
    }
    helped
}
