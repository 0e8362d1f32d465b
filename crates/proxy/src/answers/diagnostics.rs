//! Commands that are no statements, at a MySQL server: they clear no diagnostics. What fails of them adds its error to
//! those that are there, and their OK tells again how many the last statement has left.
//!
//! MariaDB's leave the diagnostics alone as well, and tell nothing. Invariant: what a client is told of diagnostics is its
//! own statements', never what a backend remembers of another client.

use engine::kept::Message;
use engine::session::facts::Facts;
use engine::session::{Diagnostics, DiagnosticsUse};
use wire::command::Opcode;
use wire::frame::HEADER;
use wire::reply::Kind as Packet;
use wire::response::ErrPacket;

use crate::fault::{Fault, Kind};
use crate::session::prepared::MALFORMED;
use crate::session::questions;
use crate::state::client::Client;
use crate::state::in_flight::InFlight;
use crate::state::worker::Worker;

/// What the server warns of when a connection is killed by a command (`ER_WARN_DEPRECATED_SYNTAX`).
pub(crate) const KILL_IS_OLD: (u16, &[u8]) = (
    1287,
    b"'COM_PROCESS_KILL' is deprecated and will be removed in a future release. Please use KILL \
      CONNECTION/QUERY statement instead",
);

/// What the command in hand does with diagnostics, at the server that its client is at.
pub(crate) fn at_server(
    worker: &Worker,
    client: &Client,
    diagnostics: DiagnosticsUse,
) -> DiagnosticsUse {
    match worker.is_mysql(client) {
        true => diagnostics.on_mysql(),
        false => diagnostics.on_mariadb(),
    }
}

/// What a command without a text asks of its backend.
pub(crate) fn facts(worker: &Worker, client: &Client, opcode: Opcode) -> Facts {
    let session = client.session.borrow();
    // Where its backend is another's now, it has left one at least: it has failed.
    let is_lost = session.diagnostics() == Diagnostics::Lost;
    let told = session.told().or_else(|| is_lost.then_some(1));
    let (diagnostics, ok_warnings) = match opcode {
        _ if !worker.is_mysql(client) => match opcode {
            Opcode::InitDb => (DiagnosticsUse::Stay, None),
            _ => (DiagnosticsUse::Unsure, None),
        },
        // It warns that it is old, but counts anew; unless it fails before that, for want of a schema.
        Opcode::FieldList if session.schema.is_none() => {
            (DiagnosticsUse::Noted, told.map(|told| told.saturating_add(1)))
        }
        Opcode::FieldList => (DiagnosticsUse::Noted, Some(0)),
        // It warns of the same.
        Opcode::ProcessKill => (DiagnosticsUse::Noted, told.map(|told| told.saturating_add(1))),
        // These count anew.
        Opcode::StmtExecute | Opcode::StmtReset | Opcode::StmtFetch => {
            (DiagnosticsUse::Added, None)
        }
        _ => (DiagnosticsUse::Added, told),
    };
    Facts { diagnostics, ok_warnings, ..Facts::default() }
}

/// Whether the backend must be asked first that has the diagnostics behind which a kill puts its warning.
pub(crate) fn must_ask_for_kill(worker: &Worker, client: &Client) -> bool {
    worker.is_mysql(client) && must_ask(worker, client)
}

/// Whether the backend has diagnostics that must be known here before more of them are added. It is asked.
pub(crate) fn must_ask(worker: &Worker, client: &Client) -> bool {
    let backend = match client.session.borrow().diagnostics() {
        Diagnostics::OnBackend | Diagnostics::Marked => client.backend(),
        _ => None,
    };
    backend.inspect(|backend| questions::begin(worker, client, backend)).is_some()
}

/// The client's last message is this error, of which no server knows.
pub(crate) fn keep_fault(
    worker: &Worker,
    client: &Client,
    diagnostics: DiagnosticsUse,
    fault: &Fault,
) {
    let (code, state) = fault.code();
    if !worker.is_mysql(client) {
        return questions::keep_fault(client, fault);
    }
    let mut session = client.session.borrow_mut();
    if diagnostics != DiagnosticsUse::Added {
        drop(session);
        questions::keep_fault(client, fault);
        return client.session.borrow_mut().tell(1);
    }
    match fault.kind {
        _ if code == MALFORMED => session.tell_more(1),
        Kind::UnknownCommand | Kind::UnknownThread | Kind::NotOwner => session.tell_more(1),
        _ => session.tell(1),
    }
    session.add_own_message(Message::error(code, state, fault.message.as_bytes()));
}

/// The server has counted diagnostics in this packet of a reply: those of the client that used the backend before. Puts
/// the number of this client's own there.
pub(crate) fn put_told(flight: &InFlight, kind: Packet, packet: &mut [u8]) {
    let Some(told) = flight.ok_warnings() else { return };
    let payload = packet.get_mut(HEADER..).unwrap_or_default();
    let at = match kind {
        Packet::Eof => 1,
        // Nothing is affected by such a command, and nothing inserted.
        Packet::Ok if payload.get(1..3) == Some(&[0, 0]) => 5,
        _ => return,
    };
    if let Some(counted) = payload.get_mut(at..at + 2) {
        counted.copy_from_slice(&told.to_le_bytes());
    }
}

/// A client's command has failed: its error, if it stands behind diagnostics of which the backend has none.
pub(crate) fn added(
    worker: &Worker,
    client: &Client,
    flight: &InFlight,
    packet: &[u8],
) -> Option<Message> {
    const WRONG_ARGUMENTS: u16 = 1210;
    let error = ErrPacket::decode(packet.get(HEADER..)?).ok()?;
    // It has not come to a statement's beginning.
    let is_early = matches!(error.code, MALFORMED | WRONG_ARGUMENTS)
        && packet.get(HEADER - 1) == Some(&1)
        && flight.command.as_ref().is_some_and(|it| it.facts.in_hand.is_some());
    let adds = flight.diagnostics() == DiagnosticsUse::Added || is_early;
    let is_elsewhere = !matches!(
        client.session.borrow().diagnostics(),
        Diagnostics::OnBackend | Diagnostics::Marked
    );
    (adds && is_elsewhere && worker.is_mysql(client))
        .then(|| Message::error(error.code, error.sqlstate, error.message))
}
