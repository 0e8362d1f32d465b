//! What follows when a link has answered a question or an order of Flifo's own.

use std::rc::Rc;

use engine::pin::Pin;
use engine::session::Diagnostics;
use engine::session::setup::{Purpose, Question, Step};
use wire::rows;

use crate::dispatch::backend::{AfterAnswers, Link};
use crate::dispatch::capture;
use crate::dispatch::client::{Client, Turn};
use crate::dispatch::command::{Awaits, Command};
use crate::dispatch::finish;
use crate::dispatch::handover::{self, Captured};
use crate::dispatch::in_flight::{Answers, Flight, Settled};
use crate::dispatch::kill;
use crate::dispatch::lost_backend;
use crate::dispatch::session_reset;
use crate::dispatch::session_setup;
use crate::dispatch::supply;
use crate::dispatch::worker::{Mail, Worker};
use crate::fault::{Fault, Kind};

/// A statement has ended. If its probe is still to be answered, the client's turn waits for that, and its command goes
/// on with the probe; else the command comes back.
pub(crate) fn await_probe(
    worker: &Worker,
    link: &Link,
    client: &Rc<Client>,
    flight: &mut Flight,
    command: Box<Command>,
) -> Option<Box<Command>> {
    // What fails has set nothing, or has pinned its client.
    if let Some(probe) = flight.probe.take().filter(|_| !flight.failed) {
        let has_messages = client.session.borrow().diagnostics() == Diagnostics::OnLink;
        link.in_one_write(|| {
            if has_messages {
                handover::begin(worker, client, link);
            }
            session_setup::send(link, *probe);
        });
    }
    let mut flights = link.flights.borrow_mut();
    let is_probe =
        |it: &&mut Box<Flight>| matches!(it.purpose, Purpose::Probe(_)) && it.client.is_none();
    let Some(probe) = flights.iter_mut().find(is_probe) else { return Some(command) };
    probe.client = Some(Rc::clone(client));
    probe.command = Some(command);
    probe.slot = flight.slot;
    None
}

/// The server has said what a client's statement has set. Now it is the client's turn.
pub(crate) fn finish_probe(
    worker: &Rc<Worker>,
    link: &Rc<Link>,
    client: Rc<Client>,
    flight: &mut Flight,
) -> Settled {
    let command = flight.command.take().unwrap_or_default();
    let sets = command.facts.sets.unwrap_or_default();
    link.state.borrow_mut().see_collates(sets.collates, &mut worker.pool.interned.borrow_mut());
    {
        let mut session = client.session.borrow_mut();
        session.see_settings(&link.state.borrow());
        if flight.failed {
            // It has left its error, and what an error counts.
            session.counts.see_messages(link.id);
            session.counts.see_own_failed(link.id);
        } else {
            session.counts.see_none_affected(link.id);
        }
    }
    if flight.failed {
        worker.pin(&client, Pin::Set);
    } else if let Purpose::Probe(Some(text)) = &flight.purpose
        && let Some(collation) = link.state.borrow().settings().get("collation_connection")
    {
        worker.pool.interned.borrow_mut().learn_collation(text, collation);
    }
    finish::over(worker, &client, link, &command, flight.slot);
    worker.buffers.forget(command.end());
    Settled::nothing_more(client)
}

/// A fix-up that went ahead of a statement has been answered. If the link has not taken it, the statement is not what
/// the client meant.
pub(crate) fn finish_setup(worker: &Rc<Worker>, link: &Rc<Link>, flight: &Flight) {
    if capture::finish(worker, link, flight) {
        return answered(worker, link);
    }
    if session_setup::is_done(worker, link, flight) {
        // The command behind it may be one without a reply, and its client gone.
        return answered(worker, link);
    }
    let why = flight.error().map_or_else(
        || "it reports something else".to_owned(),
        |error| format!("{} (error {})", String::from_utf8_lossy(error.message), error.code),
    );
    let fault = Fault::new(
        Kind::NotAsMeant,
        format!(
            "Flifo could not prepare its link for this statement, which may have been executed in \
             another schema's or session's place: {why}"
        ),
    );
    tracing::warn!(link = link.id, purpose = ?flight.purpose, why, "a link did not take a fix-up");
    lost_backend::spoil(worker, link, &fault);
    if link.flights.borrow().is_empty() {
        // Behind it was a command without a reply.
        return link.close();
    }
    kill::abandon(worker, link);
}

/// One of the commands has been answered.
pub(crate) fn finish_reset(worker: &Rc<Worker>, link: &Rc<Link>, step: Step, flight: &Flight) {
    let has_row = step == Step::Ask && session_reset::is_mysql(worker, link);
    let is_done = !flight.failed
        && (!has_row || session_reset::renew_from_row(worker, link, flight.said.reply()));
    if !is_done {
        tracing::debug!(link = link.id, ?step, "a link could not be reset");
        link.close();
    } else if step == Step::Ask && !link.is_closing() {
        worker.counters.links_reset.add(1);
        if let Some(client) = &*link.holder.borrow() {
            return worker.shared.mail(worker.index, Mail::Resume(client.id));
        }
        link.give_back_later();
        answered(worker, link);
    }
}

/// A question has been answered.
pub(crate) fn finish_parting(
    worker: &Rc<Worker>,
    link: &Rc<Link>,
    flight: &Flight,
    question: Question,
) {
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
    if handover::questions(worker, link).last().is_none_or(|(last, _)| *last != question) {
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
pub(crate) fn hear(worker: &Rc<Worker>, client: &Client, link: &Rc<Link>, answers: &Answers) {
    let adds = client.awaits() == Some(Awaits::Messages);
    match handover::learn(worker, client, link, answers) {
        Captured::All => {}
        // What else there is to be known could not be put behind them.
        _ if adds || client.session.borrow().are_messages_in_doubt() => {
            client.session.borrow_mut().lose_messages();
        }
        // A client that asks for them is refused. To keep the link would have others wait for a client that may never
        // ask.
        Captured::Nothing => client.session.borrow_mut().lose_mark(),
        Captured::TooMuch => worker.pin(client, Pin::Diagnostics),
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

/// A link has answered something that it was asked or told. With the last answer it goes back if no client has it, or
/// closes where that is due.
pub(crate) fn answered(worker: &Rc<Worker>, link: &Rc<Link>) {
    if !link.flights.borrow().is_empty() {
        return;
    }
    match link.then.take() {
        AfterAnswers::Stay => {}
        AfterAnswers::GiveBack => supply::give_back(worker, link),
        AfterAnswers::Close => link.close(),
    }
}
