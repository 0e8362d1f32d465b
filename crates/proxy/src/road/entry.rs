//! A command that has been read enters the queue: what its text tells is put together with what its session is, and the
//! backend that knows what it asks of those before it is found.

use std::rc::Rc;

use engine::counts::Finds;
use engine::insert_id::InsertId;
use engine::intent::Trait;
use engine::pin::Pin;
use engine::session::facts::{Facts, Leaves, Reads};
use wire::command::Opcode;

use crate::answers::answer;
use crate::answers::diagnostics;
use crate::road::admit;
use crate::routing::earlier::{self, AnswerPlace};
use crate::session::own_id;
use crate::session::pins;
use crate::state::client::Client;
use crate::state::command::{Awaits, Command};
use crate::state::worker::Worker;

/// A command has been read: it enters the queue of a backend that suits it.
pub(crate) fn enter(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    mut command: Box<Command>,
    packet: &mut [u8],
) {
    settle(worker, client, &mut command);
    find_earlier(worker, client, command, packet);
}

/// Puts what a command's text tells together with what its client's session and its server are.
pub(crate) fn settle(worker: &Worker, client: &Client, command: &mut Command) {
    let facts = &mut command.facts;
    let mut session = client.session.borrow_mut();
    session.enter(facts.has(Trait::PassingMode), facts.moves);
    if client.input.is_part() || !session.is_plain() {
        facts.read = None;
    }
    facts.traits.add_if(
        Trait::AsksInsertId,
        facts.leaves != Leaves::Nothing && session.insert_id != InsertId::Lost,
    );
    drop(session);
    facts.diagnostics = diagnostics::at_server(worker, client, facts.diagnostics);
}

/// Finds the backend that knows what the command asks of those before it, and enters with that.
pub(crate) fn find_earlier(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    mut command: Box<Command>,
    packet: &mut [u8],
) {
    match earlier::find(worker, client, &mut command) {
        AnswerPlace::Here => {}
        AnswerPlace::Nowhere(fault) => return answer::refuse(worker, client, command, &fault),
        AnswerPlace::Later => {
            return answer::hold(worker, client, command, packet, Awaits::Backend);
        }
        AnswerPlace::Soon => {
            return answer::hold(worker, client, command, packet, Awaits::InsertId);
        }
    }
    let urgent =
        command.facts.has(Trait::EndsTransaction) || client.session.borrow().may_hold_locks();
    admit::enter(worker, client, command, packet, urgent);
}

/// Enters with a command of which it is not known what it leaves behind, and keeps the backend for it.
pub(crate) fn enter_kept(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    mut command: Box<Command>,
    packet: &mut [u8],
    pin: Pin,
) {
    let reads_number = own_id::may_change(client);
    if let Err(fault) = pins::keep(worker, client, pin, None) {
        return answer::refuse(worker, client, command, &fault);
    }
    let facts = match pin == Pin::Option {
        true => Facts {
            finds: Finds::Nothing,
            is_still: true,
            ..diagnostics::facts(worker, client, Opcode::SetOption)
        },
        false => Facts { alters: pin == Pin::Unreadable, ..Facts::default() },
    };
    command.facts = Facts { reads_number: Reads::of(reads_number, &facts), ..facts };
    enter(worker, client, command, packet);
}
