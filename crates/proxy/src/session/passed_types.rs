//! What a pass-through client's executions must say of types because Flifo has refused the one that said it.
//!
//! What is kept is [`engine::passed_types`]'.

use wire::command::Opcode;
use wire::frame::HEADER;
use wire::statement::{self, Execute, Prepared};

use crate::state::client::Client;

/// The server has prepared a statement.
pub(crate) fn see_prepared(client: &Client, payload: &[u8]) {
    if let Ok(Prepared { id, parameters, .. }) = Prepared::decode(payload) {
        client.session.borrow_mut().passed_types.get_or_insert_default().add(id, parameters);
    }
}

/// A command has come, which may have types, or end statements.
pub(crate) fn see_command(client: &Client, opcode: Option<Opcode>, packet: &[u8]) {
    let mut session = client.session.borrow_mut();
    let (Some(types), Some(opcode)) = (&mut session.passed_types, opcode) else { return };
    let payload = &packet[HEADER..];
    let id = statement::id(payload).unwrap_or(0);
    match opcode {
        Opcode::StmtClose => types.close(id),
        Opcode::ResetConnection | Opcode::ChangeUser => session.passed_types = None,
        _ if opcode.executes() => {
            let execution = types.named(id).and_then(|(id, parameters)| {
                Some((id, Execute::decode(payload, parameters).ok()?))
            });
            match execution {
                Some((id, execute)) => types.see_execution(id, execute.types),
                None => types.put_away(),
            }
        }
        _ => {}
    }
}
