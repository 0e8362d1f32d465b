//! What pass-through clients have prepared, where rules are in force: their executions are judged by it.
//!
//! Such a client's commands go to its server as they are, so texts are noted when they are prepared, and known by the
//! server's numbers when that has answered. Invariant: what could not be noted is not prepared; so no text gets by that
//! was prepared while rules were in force.

use std::rc::Rc;

use engine::passed_texts::{PassedText, PassedTexts};
use engine::statements::{BYTES_MAX, STATEMENTS_MAX};
use wire::command::Opcode;
use wire::frame::HEADER;
use wire::statement;
use wire::text::{Lexed, Text};

use crate::answers::answer;
use crate::fault::{Fault, Kind};
use crate::features::ruled::waits::AfterRules;
use crate::features::ruled::{self, SeenText};
use crate::state::client::Client;
use crate::state::command::Command;
use crate::state::worker::Worker;

/// Notes a text that is to be prepared, as its client has written it.
pub(crate) fn note(
    worker: &Rc<Worker>,
    client: &Client,
    mut command: Box<Command>,
    text: Text<'_>,
) -> AfterRules {
    let ruled = command.rare.as_ref().and_then(|rare| rare.ruled.as_ref());
    let original = ruled.and_then(|ruled| ruled.original.as_deref()).unwrap_or(text.bytes);
    let has_room = match &client.session.borrow().passed {
        Some(passed) => passed.has_room(original.len()),
        None => PassedTexts::default().has_room(original.len()),
    };
    if !has_room {
        let message = format!(
            "Can't create more prepared statements: Flifo keeps {STATEMENTS_MAX} of a client for its rules, with texts \
             of {BYTES_MAX} bytes in all; close some that are not needed"
        );
        let fault = Fault::new(Kind::TooManyStatements, message);
        answer::refuse(worker, client, command, &fault);
        return AfterRules::Over;
    }
    let noted = PassedText::new(original, text.dialect);
    command.rare().prepares = Some(noted);
    AfterRules::GoesOn(command)
}

/// The server has prepared what was noted.
pub(crate) fn see_prepared(client: &Client, command: Option<&mut Box<Command>>, payload: &[u8]) {
    let noted = command.and_then(|command| command.rare.as_mut()?.prepares.take());
    if let (Some(noted), Some(id)) = (noted, statement::id(payload)) {
        client.session.borrow_mut().passed.get_or_insert_default().add(id, noted);
    }
}

/// A command that may end what is prepared goes to the server.
pub(crate) fn see_command(client: &Client, opcode: Option<Opcode>, packet: &[u8]) {
    match opcode {
        Some(Opcode::ResetConnection | Opcode::ChangeUser) => {
            let mut session = client.session.borrow_mut();
            (session.rule_label, session.passed) = (None, None);
        }
        Some(Opcode::StmtClose) => {
            let closed = packet.get(HEADER..).and_then(statement::id);
            if let (Some(id), Some(passed)) = (closed, &mut client.session.borrow_mut().passed) {
                passed.close(id);
            }
        }
        _ => {}
    }
}

/// Rules look at an execution of what was noted.
pub(crate) fn see_execute(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    command: Box<Command>,
    packet: &[u8],
) -> AfterRules {
    let named = packet.get(HEADER..).and_then(statement::id);
    let noted = match (named, &client.session.borrow().passed) {
        (Some(statement::LAST_PREPARED), Some(passed)) => {
            passed.last().and_then(|id| passed.get(id)).cloned()
        }
        (Some(id), Some(passed)) => passed.get(id).cloned(),
        _ => None,
    };
    // It was prepared while there were no rules.
    let Some(noted) = noted else { return AfterRules::GoesOn(command) };
    let lexed = Lexed::default();
    let text = lexed.text(&noted.text, noted.dialect());
    let (intent, notes) = worker.learnt.readings.borrow_mut().read_noted(text);
    let (digest, decisions) = (intent.digest, notes.as_ref().map(|notes| &notes.decisions));
    let seen = SeenText { digest, decisions, ..SeenText::default() };
    ruled::see_execute(worker, client, command, packet, seen, text)
}
