//! What tells a waiting statement from others of its form; see [`engine::likeness`].
//!
//! It is asked only while others of the form wait in the server for a lock.

use std::rc::Rc;

use engine::likeness::Likeness;
use wire::command::Opcode;
use wire::frame::HEADER;
use wire::statement::{self, Execute};
use wire::text::Lexed;

use crate::state::client::Client;
use crate::state::command::Command;

/// That of the statement that a client has in the queue. Nothing is told of one that cannot be read as a whole.
pub(crate) fn of(client: &Rc<Client>) -> Likeness {
    match client.command() {
        Some(command) if !client.input.is_part() => {
            of_command(client, &command).unwrap_or_default()
        }
        _ => Likeness::default(),
    }
}

fn of_command(client: &Client, command: &Command) -> Option<Likeness> {
    let payload = command.packet.get(HEADER..)?;
    let session = client.session.try_borrow().ok()?;
    match Opcode::decode(*payload.first()?)? {
        Opcode::Query => {
            let (lexed, text) = (Lexed::default(), payload.get(1..)?);
            let text = lexed.text(text, session.dialect());
            Some(Likeness::of_text(text, session.schema.as_deref()))
        }
        Opcode::StmtExecute => {
            let id = command.facts.in_hand.map(|it| it.id).or_else(|| statement::id(payload))?;
            let prepared = session.statements.look(id)?;
            // Pieces of a parameter are at the server.
            if prepared.kept().long_data {
                return None;
            }
            let execute = Execute::decode(payload, prepared.parameters).ok()?;
            let types = execute.types.or(prepared.types.as_deref()).unwrap_or_default();
            let values = execute.values(payload, prepared.parameters, types);
            let source = &prepared.source;
            Some(Likeness::of_values(&source.text, source.schema.as_deref(), values))
        }
        _ => None,
    }
}
