//! What a pass-through client's executions must say of types because Flifo has refused the one that said it.
//!
//! What is kept is [`engine::passed_types`]'.

use wire::bytes::Reader;
use wire::command::Opcode;
use wire::frame::HEADER;
use wire::statement::{self, Execute};

use crate::state::client::Client;

/// The server has prepared a statement.
pub(crate) fn see_prepared(client: &Client, payload: &[u8]) {
    let mut reader = Reader::new(payload);
    let counts = (|| {
        reader.u8("a zero")?;
        let id = reader.u32("statement id")?;
        reader.u16("column count")?;
        Ok::<_, wire::Malformed>((id, reader.u16("parameter count")?))
    })();
    if let Ok((id, parameters)) = counts {
        client.session.borrow_mut().passed_types.get_or_insert_default().add(id, parameters);
    }
}

/// A command has come, and may have types, or end statements.
pub(crate) fn read(client: &Client, opcode: Option<Opcode>, packet: &[u8]) {
    let mut session = client.session.borrow_mut();
    let Some(types) = &mut session.passed_types else { return };
    match opcode {
        Some(Opcode::StmtExecute | Opcode::StmtBulkExecute) => {
            if let Some((id, execute)) = types_of(packet, |id| types.named(id))
                && let Some(sent) = execute.types
            {
                types.read(id, sent);
            }
        }
        Some(Opcode::StmtClose) => {
            if let Some(id) = packet.get(HEADER..).and_then(statement::id) {
                types.close(id);
            }
        }
        Some(Opcode::ResetConnection | Opcode::ChangeUser) => session.passed_types = None,
        _ => {}
    }
}

/// An execution is sent: the types that it lacks, and where they go.
pub(crate) fn lacks<'a>(client: &Client, packet: &'a [u8]) -> Option<(Execute<'a>, Box<[u8]>)> {
    let mut session = client.session.borrow_mut();
    let types = session.passed_types.as_mut()?;
    let (id, execute) = types_of(packet, |id| types.named(id))?;
    if execute.types.is_some() {
        types.sent(id);
        return None;
    }
    Some((execute, types.untold(id)?))
}

/// The statement of an execution that has parameters, and what it says of their types.
fn types_of(
    packet: &[u8],
    named: impl Fn(u32) -> Option<(u32, u16)>,
) -> Option<(u32, Execute<'_>)> {
    let payload = packet.get(HEADER..)?;
    let (id, parameters) = named(statement::id(payload)?)?;
    Some((id, Execute::decode(payload, parameters).ok()?))
}
