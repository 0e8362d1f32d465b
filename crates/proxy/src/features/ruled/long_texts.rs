//! Long texts in which rules look for expressions: that takes long, so it is done on another thread.
//!
//! The command is held meanwhile, and read again with what was found. Invariants: one text of a worker is looked through
//! at a time, in the order in which they came, so other clients keep their share of the CPU; what was found counts only
//! for the rules that it was looked for by.

use std::rc::Rc;
use std::sync::Arc;

use engine::statement::rules::Rules;
use wire::text::{Lexed, Text};

use crate::answers::answer;
use crate::state::client::Client;
use crate::state::command::{Awaits, Command};
use crate::state::rule_hits::{LongText, Look, LookedThrough};
use crate::state::shared::Mail;
use crate::state::worker::Worker;
use crate::worker::tasks;

/// Holds the command until these rules have looked through its text.
pub(super) fn look_through(
    worker: &Rc<Worker>,
    client: &Client,
    mut command: Box<Command>,
    packet: &[u8],
    text: Text<'_>,
    rules: Arc<Rules>,
) {
    let wait = worker.features.ruled.next_wait();
    let due =
        LongText { client: client.id, wait, rules, text: text.bytes.into(), dialect: text.dialect };
    command.rare().look = Some(Look::Waits(wait));
    answer::hold(worker, client, command, packet, Awaits::Text);
    let texts = &worker.features.ruled.long_texts;
    texts.due.borrow_mut().push_back(due);
    if !texts.is_looking.replace(true) {
        let worker = Rc::clone(worker);
        tasks::vital(async move {
            let next = || worker.features.ruled.long_texts.due.borrow_mut().pop_front();
            while let Some(due) = next() {
                look(&worker, due).await;
            }
            worker.features.ruled.long_texts.is_looking.set(false);
        });
    }
}

async fn look(worker: &Rc<Worker>, due: LongText) {
    // It may have left, or been killed.
    if waiting(worker, due.client, due.wait).is_none() {
        return;
    }
    let LongText { client, wait, rules, text, dialect } = due;
    let search = move || {
        let found = tasks::whole(|| rules.look_through(Lexed::default().text(&text, dialect)));
        Box::new(LookedThrough { rules, found })
    };
    // It fails when the process ends.
    let Ok(looked) = tasks::apart(search).await else { return };
    let Some(client) = waiting(worker, client, wait) else { return };
    if let Some(mut command) = client.command_mut() {
        command.rare().look = Some(Look::Done(looked));
    }
    worker.shared.mail(worker.index, Mail::Resume(client.id));
}

/// The client, if its command still waits for this.
fn waiting(worker: &Worker, client: u32, wait: u64) -> Option<Rc<Client>> {
    let client = worker.clients.borrow().get(&client).cloned()?;
    let waits = {
        let command = client.command();
        let look = command.as_ref().and_then(|command| command.rare.as_ref()?.look.as_ref());
        matches!(look, Some(Look::Waits(number)) if *number == wait)
    };
    waits.then_some(client)
}
