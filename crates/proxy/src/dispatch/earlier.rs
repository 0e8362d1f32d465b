//! Statements that ask for what came before them: messages, counts of rows, the last insert id. They are answered by
//! the link that knows, or by what is known without it; never by another client's past.
//!
//! * Messages keep the link with its client, until a statement clears them or another client has waited for the link.
//! * Counts are told by the link that the client used last, if no other client has used it since.
//! * The last insert id is known by the link of the insert. Before another client uses that link, it is asked for the
//!   id.

use std::rc::Rc;

use engine::counts::Asked;
use engine::insert_id::InsertId;
use engine::intent::{Inserts, Intent, Trait};
use engine::session::plan::lacks_insert_id;
use engine::session::setup::Purpose;
use engine::session::{CHARSET, Diagnostics, Messages};

use crate::cluster::servers::ServerId;
use crate::dispatch::backend::Link;
use crate::dispatch::capture;
use crate::dispatch::client::Client;
use crate::dispatch::command::Command;
use crate::dispatch::handover;
use crate::dispatch::in_flight::Flight;
use crate::dispatch::prepared;
use crate::dispatch::route;
use crate::dispatch::session_setup;
use crate::dispatch::worker::{Mail, Worker};
use crate::fault::{Fault, Kind};

/// Where the answer is.
pub(crate) enum AnswerPlace {
    /// On the client's link, or on any.
    Here,
    /// On a link that is in use, and that has been asked already.
    Soon,
    /// The same; the statement is read again when that has answered.
    Later,
    Nowhere(Fault),
}

/// Finds the link that can answer, and gives it to the client.
pub(crate) fn find(worker: &Rc<Worker>, client: &Rc<Client>, command: &mut Command) -> AnswerPlace {
    if !find_messages(client, command) {
        return nowhere(
            "somebody else has its last statements' link, and their messages are not known any more",
        );
    }
    let counts = command.facts.counts;
    if counts.found && capture::is_asked_elsewhere(worker, client) {
        return AnswerPlace::Later;
    }
    if !find_counts(worker, client, command) && !prepared::put_counts(client, command) {
        return nowhere(
            "another client has used the link of the statement before, which has counted",
        );
    }
    if command.facts.calls && counts == Asked::default() {
        hide_counts(worker, client, command);
    }
    let facts = &command.facts;
    // Of one that it may get, its old one must be told.
    let is_asked = facts.has(Trait::AsksInsertId)
        || facts.inserts != Inserts::No
        || facts.has(Trait::ShowsVariables);
    // What runs on a link that is kept may ask for it unseen.
    match find_insert_id(worker, client, is_asked) {
        AnswerPlace::Nowhere(_) if !facts.has(Trait::AsksInsertId) => AnswerPlace::Here,
        found => found,
    }
}

/// Whether the client's link has the messages, or they are kept here and can be put in the answer.
fn find_messages(client: &Client, command: &mut Command) -> bool {
    let session = client.session.borrow();
    match (command.facts.messages, session.diagnostics()) {
        (Messages::Shown, Diagnostics::Kept) => {
            let rows =
                command.facts.shows.zip(session.kept()).and_then(|((shows, format), kept)| {
                    // Not known for a client that has run nothing yet: then its messages are Flifo's own.
                    let charset = session.settings.as_ref().and_then(|it| it.get(CHARSET));
                    kept.rows(shows, format, charset.unwrap_or_default())
                });
            let is_known = rows.is_some();
            if let Some(rows) = rows {
                command.rare().shown = Some(Rc::from(rows));
            }
            is_known
        }
        (Messages::Diagnosed, Diagnostics::Kept) => false,
        (asked, Diagnostics::Lost) => !asked.are_asked_for(),
        _ => true,
    }
}

/// Finds the link that has counted; or says what it is to be told, as far as links can be told counts.
fn find_counts(worker: &Rc<Worker>, client: &Rc<Client>, command: &mut Command) -> bool {
    let asked = command.facts.counts;
    if asked == Asked::default() {
        return true;
    }
    let counts = client.session.borrow().counts;
    let can_be_told = matches!(counts.affected(), Some(-1 | 0));
    let has_them = |link: &Rc<Link>| counts.are_on(asked, link.id);
    let is_it = |link: &Rc<Link>| link.state.borrow().last_client == client.id && has_them(link);
    let is_here = match client.link() {
        Some(link) => has_them(&link),
        None => claim(worker, client, client.server.get(), is_it),
    };
    // What goes ahead of the statement can be followed by what counts 0 or -1, and by nothing that counts more.
    let is_here = is_here
        && client.link().is_none_or(|link| {
            match session_setup::counts_anew(worker, client, command, &link) {
                None => true,
                Some(finds) => {
                    let is_rows = asked.affected && counts.affected() != Some(0);
                    !(asked.found && (finds || is_rows) || asked.affected && !can_be_told)
                }
            }
        });
    if is_here {
        command.found.asks_backend = asked;
    }
    let is_told = !is_here && !asked.found && can_be_told;
    if is_told {
        command.found.affected = counts.affected();
    }
    is_here || is_told
}

/// A routine may ask for the count of the statement before it, and on MySQL the reply tells that if a procedure counts
/// nothing itself. It is the client's own where its link is free, or can be told it; and none, never another's.
fn hide_counts(worker: &Rc<Worker>, client: &Rc<Client>, command: &mut Command) {
    let (counts, insert_id) = (client.session.borrow().counts, client.session.borrow().insert_id);
    let asked = Asked { affected: true, found: false };
    let has_them = |link: &Rc<Link>| counts.are_on(asked, link.id);
    let is_it = |link: &Rc<Link>| link.state.borrow().last_client == client.id && has_them(link);
    let is_here = claim(worker, client, client.server.get(), is_it)
        && client.link().is_none_or(|link| {
            has_them(&link)
                && session_setup::counts_anew(worker, client, command, &link).is_none()
                && !lacks_insert_id(insert_id, &link.state.borrow())
        });
    if !is_here {
        command.found.affected = counts.affected().filter(|it| *it <= 0).or(Some(0));
    }
}

fn find_insert_id(worker: &Rc<Worker>, client: &Rc<Client>, is_asked: bool) -> AnswerPlace {
    if !is_asked && client.session.borrow().pin().is_none() {
        return AnswerPlace::Here;
    }
    let id = match client.session.borrow().insert_id {
        InsertId::Known(_) => return AnswerPlace::Here,
        InsertId::OnLink { link, .. } => link,
        InsertId::Lost => return lost(),
    };
    let is_it = |link: &Rc<Link>| link.id == id;
    if client.link().as_ref().is_some_and(is_it) {
        return AnswerPlace::Here;
    }
    let Some(link) = worker.links.borrow().get(&id).cloned() else { return lost() };
    if client.link.borrow().is_none() && claim(worker, client, link.server, is_it) {
        return AnswerPlace::Here;
    }
    let asks = |flight: &Flight| match flight.purpose {
        Purpose::Capture(inserter) | Purpose::Found { inserter: Some(inserter), .. } => {
            inserter == client.id
        }
        _ => false,
    };
    if link.flights.borrow().iter().any(|it| asks(it)) {
        return AnswerPlace::Soon;
    }
    // A statement that would change the id is sent behind a question for it. So as long as no question was sent, the
    // link still has the id, whichever client has the link, and is asked behind what is in flight.
    if !link.can_be_asked() {
        return lost();
    }
    let gate = &worker.at(link.server).gate;
    let is_idle = link.key.get().and_then(|key| gate.borrow_mut().claim(key, is_it)).is_some();
    if is_idle {
        // Otherwise a client has the link, or it goes back already, without this question.
        link.give_back_later();
    }
    let holder = link.holder.borrow().clone().filter(|it| {
        let has_messages = it.session.borrow().diagnostics() == Diagnostics::OnLink;
        has_messages && link.flights.borrow().is_empty() && worker.is_mysql(it)
    });
    if let Some(holder) = holder {
        // The question would clear them.
        handover::begin(worker, &holder, &link);
    }
    capture::ask_insert_id(client.id, &link);
    AnswerPlace::Soon
}

fn lost() -> AnswerPlace {
    AnswerPlace::Nowhere(insert_id_is_lost())
}

pub(crate) fn insert_id_is_lost() -> Fault {
    cannot_tell("nobody knows the last insert id of this session for sure")
}

fn nowhere(why: &str) -> AnswerPlace {
    AnswerPlace::Nowhere(cannot_tell(why))
}

fn cannot_tell(why: &str) -> Fault {
    let message = format!(
        "Flifo cannot answer this any more: {why}. Ask in a transaction, or set this user's mode to \
         \"carried\""
    );
    Fault::new(Kind::CannotTell, message)
}

/// Gives the client such a link, unless it has one already: what it has done since then is on that.
fn claim(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    server: ServerId,
    is_it: impl Fn(&Rc<Link>) -> bool,
) -> bool {
    if client.link.borrow().is_some() {
        return true;
    }
    let Some(key) = client.key.get() else { return false };
    let mut gate = worker.at(server).gate.borrow_mut();
    let link = gate.claim(key, is_it);
    if gate.lacks_more() {
        // Another client waited for a slot to run on it.
        worker.shared.mail(worker.index, Mail::LinkFree(server));
    }
    drop(gate);
    if let Some(link) = &link {
        link.hold_for(client);
    }
    link.is_some()
}

/// Asks the client's link whether it still has the messages that it was told, or which it has behind those that are
/// kept here. False: there is no doubt.
pub(crate) fn begin_for(worker: &Worker, client: &Client, messages: Messages) -> bool {
    let in_doubt = client.session.borrow().are_messages_in_doubt();
    let link = client.link().filter(|_| in_doubt && messages.are_asked_for());
    link.inspect(|link| handover::begin(worker, client, link)).is_some()
}

/// Whether the link that the client has must be asked for messages before the statement may go anywhere. It is asked.
pub(crate) fn is_due(worker: &Rc<Worker>, client: &Rc<Client>, intent: Intent) -> bool {
    begin_for(worker, client, intent.messages)
        || !intent.messages.are_asked_for()
            && route::leave_link(worker, client, intent.read.is_some())
}
