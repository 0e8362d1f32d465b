//! What a link is asked before it is taken from the client whose messages it has. The client's next command waits until
//! the link has answered.
//!
//! Invariant: a link goes to somebody else only if all that it alone knows of its client is known here, or known to be
//! lost, where the server does not understand the questions; what is too long to be kept here keeps the link, with a
//! pin.

use std::rc::Rc;

use engine::intent::Intent;
use engine::kept::{Kept, MESSAGES, NUMBERS, STATES};
use engine::pin::Pin;
use engine::session::setup::{Question, Setup, Step};
use engine::session::{CHARSET, Diagnostics, Messages};
use wire::rows;

use crate::fault::Fault;
use crate::links::supply;
use crate::links::{Flight, Link, Purpose, Said, Then};
use crate::road::added;
use crate::road::client::{Client, Turn};
use crate::road::command::{Awaits, Command};
use crate::road::commands;
use crate::road::fixups;
use crate::road::route;
use crate::worker::{Mail, Worker};

/// What a link has answered so far.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    numbers: Vec<rows::Row>,
    messages: Vec<rows::Row>,
    states: Vec<rows::Row>,
    failed: bool,
    /// How many rows its client has found is known to the link alone.
    tells_found: bool,
    /// The same of those affected.
    tells_affected: bool,
}

/// The questions, in this order: the first one still finds the rows that its client has found.
const MARIADB: &[(Question, &str)] =
    &[(Question::Numbers, NUMBERS), (Question::Messages, MESSAGES), (Question::States, STATES)];

/// MySQL has no messages any more when it has been asked for the numbers, and `SHOW` finds no rows there.
const MYSQL: &[(Question, &str)] = &[(Question::Messages, MESSAGES), (Question::Numbers, NUMBERS)];

fn questions(worker: &Worker, link: &Link) -> &'static [(Question, &'static str)] {
    let is_mysql = worker.at(link.server).server.facts.is_mysql();
    if is_mysql { MYSQL } else { MARIADB }
}

/// More than this is not read of an answer.
const ANSWER_MAX: usize = 64 << 10;

/// Asks a link on which nothing runs, and whose client has nothing on it but messages.
pub(crate) fn begin(worker: &Worker, client: &Client, link: &Link) {
    let counts = client.session.borrow().counts;
    let tells_found = counts.are_found_on(link.id);
    let tells_affected = counts.are_affected_on_link();
    link.parting.replace(Some(Answers { tells_found, tells_affected, ..Answers::default() }));
    link.in_one_write(|| {
        for (question, text) in questions(worker, link) {
            fixups::send(link, Setup::query(Purpose::Parting(*question), text));
        }
    });
    // The questions count rows of their own.
    client.session.borrow_mut().counts.lose(link.id);
}

/// Whether this client's link is being asked: its command has to wait.
pub(crate) fn is_asked(client: &Client) -> bool {
    client.is_pooled() && client.link().is_some_and(|link| link.parting.borrow().is_some())
}

/// Asks the client's link whether it still has the messages that it was told, or which it has behind those that are kept
/// here. False: there is no doubt.
fn begin_for(worker: &Worker, client: &Client, messages: Messages) -> bool {
    let in_doubt = client.session.borrow().are_messages_in_doubt();
    let link = client.link().filter(|_| in_doubt && messages.are_asked_for());
    link.inspect(|link| begin(worker, client, link)).is_some()
}

/// Whether the link that the client has must be asked for messages before the statement may go anywhere. It is asked.
pub(crate) fn is_due(worker: &Rc<Worker>, client: &Rc<Client>, intent: Intent) -> bool {
    begin_for(worker, client, intent.messages)
        || !intent.messages.are_asked_for()
            && route::leave_link(worker, client, intent.read.is_some())
}

/// Part of an answer, of which the follower needs no more.
pub(crate) fn listen(flight: &mut Flight, bytes: &[u8]) {
    let keep = |mut reply: Vec<u8>| {
        reply.extend_from_slice(bytes);
        // Cut off, it cannot be read.
        reply.truncate(ANSWER_MAX);
        Said::Reply(reply)
    };
    let (Purpose::Parting(_) | Purpose::Found { .. } | Purpose::Reset(Step::Ask)) = flight.purpose
    else {
        return;
    };
    if bytes.is_empty() {
        return;
    }
    flight.said = match (std::mem::take(&mut flight.said), &flight.purpose) {
        (Said::Nothing, Purpose::Found { .. }) if flight.follower.is_done() => {
            Said::Numbers(rows::numbers(bytes))
        }
        (Said::Reply(reply), _) => keep(reply),
        (Said::Nothing, _) => keep(Vec::new()),
        (said @ Said::Numbers(_), _) => said,
    };
}

/// A question has been answered.
pub(crate) fn finish(worker: &Rc<Worker>, link: &Rc<Link>, flight: &Flight, question: Question) {
    let rows = rows::read(flight.said.reply());
    if let Some(answers) = &mut *link.parting.borrow_mut() {
        answers.failed |= rows.is_none() && question != Question::States;
        let rows = rows.unwrap_or_default();
        match question {
            Question::Numbers => answers.numbers = rows,
            Question::Messages => answers.messages = rows,
            Question::States => answers.states = rows,
        }
    }
    if questions(worker, link).last().is_none_or(|(last, _)| *last != question) {
        return;
    }
    let (answers, holder) = (link.parting.take(), link.holder.borrow().clone());
    // Without them, its client has left meanwhile.
    if let (Some(answers), Some(client)) = (answers, holder) {
        hear(worker, &client, link, &answers);
    }
    answered(worker, link);
}

/// The client's link has answered.
fn hear(worker: &Rc<Worker>, client: &Client, link: &Rc<Link>, answers: &Answers) {
    let adds = client.awaits() == Some(Awaits::Messages);
    match learn(worker, client, link, answers) {
        Learnt::All => {}
        // What else there is to be known could not be put behind them.
        _ if adds || client.session.borrow().are_messages_in_doubt() => {
            client.session.borrow_mut().lose_messages();
        }
        // Who asks for them is refused. To keep the link would have others wait for a client that may never ask.
        Learnt::Nothing => client.session.borrow_mut().lose_mark(),
        Learnt::TooMuch => worker.pin(client, Pin::Diagnostics),
    }
    // A client that was asked for its own sake may keep the link for another reason. One that waits for a probe behind
    // this gives it back then.
    let is_probe = |it: &Flight| matches!(it.purpose, Purpose::Probe(_));
    let is_probed = link.flights.borrow().iter().any(|it| is_probe(it));
    if client.session.borrow().can_do_without() && !is_probed {
        supply::yield_link(client, link);
        link.release();
        link.give_back_later();
    }
    if client.turn.get() == Turn::Preparation {
        worker.shared.mail(worker.index, Mail::Resume(client.id));
    }
}

/// A link has answered something that it was asked or told. With the last answer it goes back if nobody has it, or
/// closes where that is due.
pub(crate) fn answered(worker: &Rc<Worker>, link: &Rc<Link>) {
    if !link.flights.borrow().is_empty() {
        return;
    }
    match link.then.take() {
        Then::Stay => {}
        Then::GiveBack => supply::give_back(worker, link),
        Then::Close => link.close(),
    }
}

/// What came of the questions.
enum Learnt {
    All,
    /// The server does not understand them.
    Nothing,
    /// The messages are longer than what is kept of a client.
    TooMuch,
}

fn learn(worker: &Worker, client: &Client, link: &Link, answers: &Answers) -> Learnt {
    let text = |at: usize| std::str::from_utf8(answers.numbers.first()?.get(at)?.as_deref()?).ok();
    let number = |at: usize| -> Option<u64> { text(at)?.parse().ok() };
    let mut session = client.session.borrow_mut();
    if let Some(found) = number(0).filter(|_| answers.tells_found) {
        session.counts.tell_found(found);
    }
    let affected = text(3).and_then(|affected| affected.parse().ok());
    if let Some(affected) = affected.filter(|_| answers.tells_affected) {
        session.counts.tell_affected(affected);
    }
    let (Some(warnings), Some(errors), false) = (number(1), number(2), answers.failed) else {
        return Learnt::Nothing;
    };
    session.hear_told(warnings);
    let server = added::server(worker, client);
    match session.diagnostics() {
        Diagnostics::Marked => session.resolve_messages(warnings),
        Diagnostics::OnLink => {
            let state = link.state.borrow();
            let charset = state.settings().get(CHARSET).unwrap_or_default();
            let numbers = (warnings, errors);
            match Kept::read(numbers, &answers.messages, &answers.states, charset, server) {
                Some(kept) => session.hear_messages(kept),
                None => return Learnt::TooMuch,
            }
        }
        Diagnostics::None | Diagnostics::Kept | Diagnostics::Lost => {}
    }
    Learnt::All
}

/// The client's last message is this error, of which no server knows.
pub(crate) fn keep_fault(client: &Client, fault: &Fault) {
    let (code, state) = fault.code();
    client.session.borrow_mut().keep_error(code, state, fault.message.as_bytes());
}

/// A client's command goes on that has waited for its link's answers, as if it came now.
pub(crate) fn resume(worker: &Rc<Worker>, client: &Rc<Client>, mut command: Box<Command>) {
    let mut held = std::mem::take(&mut command.packet);
    let awaited = command.awaits;
    command.end();
    client.set_turn(Turn::Client);
    commands::handle(worker, client, &mut held, awaited);
    worker.buffers.forget(held);
    if client.turn.get() == Turn::Client {
        // It has no reply, and what came behind it is still to be read.
        client.give_turn();
    }
}
