//! A transaction that was lost with its backend: what its client is told.
//!
//! The number is a deadlock's, SQLSTATE 40001, which drivers and frameworks answer by running the whole transaction
//! again. Invariant: a client that believes in a transaction that is gone hears of it before any statement of its runs.

use engine::intent::{Ends, Intent};
use wire::command::{Opcode, query_text_at};
use wire::frame::HEADER;
use wire::statement;
use wire::text::Lexed;

use crate::cluster::servers::ServerId;
use crate::fault::{Fault, Kind};
use crate::session::prepared;
use crate::state::client::Client;
use crate::state::worker::Worker;

/// What a client is told whose transaction was open on a backend to this server.
pub(crate) fn fault(worker: &Worker, server: ServerId) -> Fault {
    let message = format!(
        "Flifo lost its backend connection to the server at {}, which rolls back what was open on it: nothing of this transaction is \
         kept. Run it again from its beginning",
        worker.at(server).server.address
    );
    Fault::new(Kind::TransactionLost, message)
}

/// What answers the next command of a client whose transaction was lost while it ran nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LossAnswer {
    /// The command needs no server and asks for nothing of the transaction: it is handled as ever.
    None,
    Ok,
    /// [`fault`].
    Fault,
    /// There is no reply to it, and the execute behind it must not run without it: the client ends.
    End,
}

pub(crate) fn answer(client: &Client, opcode: Opcode, packet: &[u8]) -> LossAnswer {
    match opcode {
        Opcode::Quit
        | Opcode::Ping
        | Opcode::ResetConnection
        | Opcode::ChangeUser
        | Opcode::StmtClose
        | Opcode::StmtReset => LossAnswer::None,
        Opcode::StmtSendLongData => LossAnswer::End,
        _ => {
            let is_rollback = !client.input.is_part() && is_rollback(client, opcode, packet);
            client.session.borrow_mut().hear_of_loss();
            if is_rollback { LossAnswer::Ok } else { LossAnswer::Fault }
        }
    }
}

/// Whether all that is asked for is what has happened already.
fn is_rollback(client: &Client, command: Opcode, packet: &[u8]) -> bool {
    let payload = &packet[HEADER..];
    let ends = match command {
        Opcode::Query => {
            let dialect = client.session.borrow().dialect();
            let text_at = query_text_at(payload, client.capabilities);
            let lexed = Lexed::default();
            text_at.map(|at| Intent::read(lexed.text(&payload[at..], dialect)).ends)
        }
        Opcode::StmtExecute => {
            let id = prepared::named(client, statement::id(payload).unwrap_or(0));
            let mut session = client.session.borrow_mut();
            session.statements.get(id).map(|statement| statement.source.intent.ends)
        }
        _ => None,
    };
    ends == Some(Ends::Undone)
}
