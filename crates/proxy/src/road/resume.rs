//! Commands that were held go on.

use std::rc::Rc;

use engine::insert_id::InsertId;
use engine::intent::Trait;

use crate::answers::answer;
use crate::road::admit;
use crate::road::commands;
use crate::routing::earlier;
use crate::state::client::Client;
use crate::state::client_state::ClientState;
use crate::state::command::{Awaits, Command};
use crate::state::doing::Doing;
use crate::state::rule_hits::Look;
use crate::state::worker::Worker;

/// A client whose command was held until its last insert id is known goes on.
pub(crate) fn resume(worker: &Rc<Worker>, client: &Rc<Client>) {
    let Some(awaited) = client.awaits() else { return };
    if awaited == Awaits::Answer {
        // It went on already.
        return;
    }
    let Some(command) = client.take_command() else { return };
    // A client that has lost a transaction meanwhile hears of that.
    if awaited.reads_again() || client.session.borrow().has_lost_transaction() {
        return read_again(worker, client, command, awaited);
    }
    if command.facts.has(Trait::AsksInsertId) && client.session.borrow().insert_id == InsertId::Lost
    {
        return answer::refuse(worker, client, command, &earlier::insert_id_is_lost());
    }
    let urgent = client.session.borrow().may_hold_locks();
    admit::enter_held(worker, client, command, urgent);
}

/// A client's command goes on that has waited for its backend's answers, as if it came now.
fn read_again(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    mut command: Box<Command>,
    awaited: Awaits,
) {
    let mut held = std::mem::take(&mut command.packet);
    // Rules have judged it already.
    worker.features.ruled.carried.set(command.rare.as_mut().and_then(|rare| rare.ruled.take()));
    if let Some(Look::Done(looked)) = command.rare.as_mut().and_then(|rare| rare.look.take()) {
        worker.features.ruled.looked.set(Some(looked));
    }
    command.end();
    client.become_state(Doing::Reading);
    commands::handle(worker, client, &mut held, awaited);
    worker.features.ruled.carried.take();
    worker.features.ruled.looked.take();
    worker.spare.buffers.forget(held);
    if client.state() == ClientState::Reading {
        // It has no reply, and what came behind it is still to be read.
        client.await_command();
    }
}
