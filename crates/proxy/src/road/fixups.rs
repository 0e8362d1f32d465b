//! Fix-ups: what a link is told in the same write as the statement that needs it, and what becomes of the statement
//! should the link not take it.
//!
//! A statement behind a fix-up that fails runs regardless. So a fix-up goes ahead unanswered only where that does no
//! harm: settings by a text that the server has accepted before, a schema by way of one that no statement can do
//! anything to. If it fails all the same, the client gets an error in place of whatever its statement brings, the
//! statement is killed, and the link is dropped.
//!
//! Behind a `SET` whose effect the server does not report goes a probe that has it report; the client's turn comes
//! when that has been answered.

use std::borrow::Cow;
use std::rc::Rc;

use engine::counts::Asked;
use engine::insert_id::{InsertId, OnLink};
use engine::intent::Sets;
use engine::kept::Kept;
use engine::link_state::LinkState;
use engine::own_id::Tell;
use engine::pin::Pin;
use engine::session::{Diagnostics, Messages, Session};
use engine::settings::{Collates, Settings};
use engine::variables::Variables;
use smallvec::SmallVec;
use wire::command::Opcode;
use wire::frame::put_joined;
use wire::reply::Follower;

use crate::fault::{Fault, Kind};
use crate::links::{Flight, Link, Purpose};
use crate::outbox;
use crate::road::added;
use crate::road::admit;
use crate::road::client::Client;
use crate::road::command::Command;
use crate::road::facts::Facts;
use crate::road::kill;
use crate::road::losses;
use crate::road::owed;
use crate::road::own_id;
use crate::road::parting;
use crate::road::replies::Settled;
use crate::worker::Worker;

/// A command of Flifo's own.
pub(crate) struct FixUp {
    pub(crate) purpose: Purpose,
    pub(crate) command: Opcode,
    pub(crate) body: Cow<'static, [u8]>,
}

impl FixUp {
    pub(crate) const fn query(purpose: Purpose, text: &'static str) -> Self {
        Self { purpose, command: Opcode::Query, body: Cow::Borrowed(text.as_bytes()) }
    }

    pub(crate) fn own_query(purpose: Purpose, text: String) -> Self {
        Self { purpose, command: Opcode::Query, body: text.into_bytes().into() }
    }
}

/// Uses a table, else MariaDB keeps the messages of statements before it; and one that is no engine's, else it refuses
/// between the end of a global transaction and its commit.
const CLEAR: &str = "DO (SELECT 1 FROM information_schema.CHARACTER_SETS LIMIT 0)";

/// MySQL keeps none.
const CLEAR_ON_MYSQL: &str = NOTHING;

/// What `COM_RESET_CONNECTION` makes of the collation that has come with the schema.
const SCHEMA_RESET: &str = "SET collation_database=@@global.collation_database";

const NOTHING: &str = "DO 0";

/// Behind rows, the count of those affected is −1.
const ROWS: &str = "SELECT 0";

const BEGIN: &str = "BEGIN";

/// Ends what a client has made of its link's reports.
const REPORT: &str = "SET session_track_system_variables='*'";

/// Nearly always none or one; that takes no memory.
pub(crate) type FixUps = SmallVec<[FixUp; 2]>;

/// What this link must be told before the command in hand of this client.
pub(crate) enum Lack {
    Nothing,
    /// This goes in the same write.
    Told(FixUps),
    /// This must be answered first.
    Answered(FixUp),
    /// Nobody knows what it asks for.
    Past,
}

/// The schema that a link leaves its own for: there, statements that name no schema can change nothing.
const HARMLESS: &[u8] = b"information_schema";

/// Compares what a client's session is with what the link's is.
pub(crate) fn lacks(
    worker: &Worker,
    client: &Client,
    link: &Link,
    command: &Command,
    opcode: Opcode,
) -> Lack {
    let (session, state) = (client.session.borrow(), link.state.borrow());
    let (own, facts) = (session.insert_id, &command.facts);
    // What is kept may ask for it unseen.
    let is_kept = session.pin().is_some() && !facts.keeps_insert_id();
    let asks = facts.needs_insert_id() || (is_kept && command.asks_link == Asked::default());
    if facts.insert_id && own == InsertId::Lost {
        return Lack::Past;
    }
    if let Some(fix_up) = variables(link, &session.variables) {
        return Lack::Answered(fix_up);
    }
    let number = own_id::lacks(worker, client, facts, &session, link, &state);
    if let Tell::Try(id) = number {
        return Lack::Answered(own_id::fix_up(link, Some(id)));
    }
    if asks && own.is_on(state.id) && !own.is_plainly_on(state.id) {
        return Lack::Answered(owed::ask(client.id));
    }
    let needs_insert_id = asks && !own.is_on(state.id) && !state.insert_id.is(own);
    let needs_clear = needs_clear(facts, &session, &state);
    let set_up = set_up(facts, &session);
    let asked = owed::insert_id(worker, client, facts, own, &state);
    let finder = owed::found(worker, client, &state);
    let needs_more = finder.is_some()
        || needs_insert_id
        || needs_clear
        || set_up.is_some()
        || asked.is_some()
        || number != Tell::Nothing
        || command.affected.is_some();
    if state.suits(&session) && !needs_more {
        return Lack::Nothing;
    }
    let mut told = FixUps::new();
    // Before anything that finds rows of its own.
    if let Some(finder) = finder {
        told.push(owed::ask_found(finder, asked));
    }
    if let Some(fix_up) = settings(link, state.wanted(&session)) {
        if !is_accepted(worker, &fix_up) {
            return Lack::Answered(fix_up);
        }
        told.push(fix_up);
    }
    // A link that was reset has its schema, and not what comes with it.
    let is_entered = state.was_reset && !session.was_reset && state.schema == session.schema;
    let entered = session.schema.as_ref().filter(|_| is_entered).map(enter_schema);
    if opcode != Opcode::InitDb
        && let Some(fix_up) = entered.or_else(|| schema(link, session.schema.as_ref()))
    {
        if state.schema.is_some() {
            let (purpose, command) = (Purpose::NoSchema, Opcode::InitDb);
            told.push(FixUp { purpose, command, body: HARMLESS.into() });
        }
        told.push(fix_up);
    }
    let is_entered_anew = state.schema != session.schema || !state.was_reset;
    // MySQL lets hardly anybody set it.
    let may_be_set = || worker.at(link.server).server.facts.is_mariadb();
    if session.was_reset && session.schema.is_some() && is_entered_anew && may_be_set() {
        told.push(FixUp::query(Purpose::SchemaReset, SCHEMA_RESET));
    }
    if let (Some(inserter), None) = (asked, finder) {
        told.push(owed::ask(inserter));
    }
    if let (true, InsertId::Known(id)) = (needs_insert_id, session.insert_id) {
        let purpose = Purpose::InsertId(client.id, id);
        told.push(FixUp::own_query(purpose, format!("SET last_insert_id={id}")));
    }
    if let Tell::Show(shown) = number {
        told.push(own_id::fix_up(link, shown));
    }
    if needs_clear {
        let is_mysql = added::is_mysql(worker, client);
        told.push(FixUp::query(Purpose::Clear, if is_mysql { CLEAR_ON_MYSQL } else { CLEAR }));
    }
    if let Some(kept) = set_up {
        told.push(FixUp::own_query(Purpose::Messages, kept.set_up()));
        told.extend((1..kept.errors()).map(|_| one_more_error()));
    }
    // What goes ahead affects no rows, or is rows.
    let is_lost = !told.is_empty() && command.asks_link.affected;
    let own = if is_lost { session.counts.affected() } else { None };
    if let Some(affected) = command.affected.or(own) {
        let text = if affected < 0 { ROWS } else { NOTHING };
        told.push(FixUp::query(Purpose::Nothing, text));
    }
    if session.has_begun() {
        told.push(FixUp::query(Purpose::Begin, BEGIN));
    }
    if told.is_empty() { Lack::Nothing } else { Lack::Told(told) }
}

/// Whether a link that has counted for this client's last statement has to be told or asked something before the
/// command: then it counts that. `Some(true)`: rows found are counted anew as well.
pub(crate) fn counts_anew(
    worker: &Worker,
    client: &Client,
    command: &Command,
    link: &Link,
) -> Option<bool> {
    let (session, state) = (client.session.borrow(), link.state.borrow());
    let (own, facts) = (session.insert_id, &command.facts);
    let finds =
        needs_clear(facts, &session, &state) || owed::found(worker, client, &state).is_some();
    let affects = !state.suits(&session)
        || facts.needs_insert_id() && lacks_insert_id(own, &state)
        || set_up(facts, &session).is_some()
        || own_id::lacks(worker, client, facts, &session, link, &state) != Tell::Nothing
        || owed::insert_id(worker, client, facts, own, &state).is_some();
    (finds || affects).then_some(finds)
}

/// Whether the link must be asked for this last insert id, or told it, before who has it may ask for it.
pub(crate) fn lacks_insert_id(own: InsertId, state: &LinkState) -> bool {
    match own.is_on(state.id) {
        true => !own.is_plainly_on(state.id),
        false => !state.insert_id.is(own),
    }
}

/// Whether the link must have no messages before the command in hand, and may have some.
fn needs_clear(facts: &Facts, session: &Session, state: &LinkState) -> bool {
    let needs_none = match (facts.messages, session.diagnostics()) {
        (asked, Diagnostics::None) => asked.are_asked_for() || asked == Messages::Noted,
        (Messages::Shown | Messages::Noted, Diagnostics::Kept) => true,
        _ => false,
    };
    needs_none && !session.counts.is_clean(state.id)
}

/// The messages that the link must have as many of: the server knows whether they stay.
fn set_up<'a>(facts: &Facts, session: &'a Session) -> Option<&'a Kept> {
    let counts = |it| matches!(it, Messages::Counted | Messages::Spent | Messages::Unsure);
    let tells = counts(facts.messages);
    session.kept().filter(|_| tells)
}

/// Leaves one more error on a MySQL link, and clears nothing: no statement has this number.
const fn one_more_error() -> FixUp {
    let (purpose, command) = (Purpose::Messages, Opcode::StmtReset);
    FixUp { purpose, command, body: Cow::Borrowed(&[0; 4]) }
}

/// What tells the link a client's user variables, under the settings that they were set in.
fn variables(link: &Link, variables: &Variables) -> Option<FixUp> {
    if variables.are_on_link() {
        return None;
    }
    let body = variables.fix_up()?;
    let is_alike = |wanted: &&Rc<Settings>| wanted.mode() == link.state.borrow().settings().mode();
    match variables.settings().filter(|wanted| !is_alike(wanted)) {
        Some(wanted) => settings(link, wanted),
        None => {
            Some(FixUp { purpose: Purpose::Variables, command: Opcode::Query, body: body.into() })
        }
    }
}

/// What makes the link's schema this one.
pub(crate) fn schema(link: &Link, wanted: Option<&Rc<[u8]>>) -> Option<FixUp> {
    // A link cannot be told to have no schema: one that has any is never given to a client that has none.
    let wanted = wanted?;
    if link.state.borrow().schema.as_ref() == Some(wanted) {
        return None;
    }
    Some(enter_schema(wanted))
}

fn enter_schema(wanted: &Rc<[u8]>) -> FixUp {
    let purpose = Purpose::Schema(Rc::clone(wanted));
    FixUp { purpose, command: Opcode::InitDb, body: wanted.to_vec().into() }
}

/// What takes the link out of a schema that is another client's, before it prepares a text that was prepared in none.
pub(crate) fn no_schema(link: &Link) -> Option<FixUp> {
    let state = link.state.borrow();
    state.schema.as_deref().filter(|own| *own != HARMLESS)?;
    let purpose = Purpose::Schema(HARMLESS.into());
    Some(FixUp { purpose, command: Opcode::InitDb, body: HARMLESS.into() })
}

/// What makes the link's settings these.
pub(crate) fn settings(link: &Link, wanted: &Rc<Settings>) -> Option<FixUp> {
    let state = link.state.borrow();
    if Rc::ptr_eq(state.settings(), wanted) {
        return None;
    }
    let text = wanted.fix_up(state.settings());
    let purpose = Purpose::Settings(Rc::clone(wanted), text.as_str().into());
    Some(FixUp::own_query(purpose, text))
}

/// What puts a link in this mode to prepare a statement. What a client that keeps it has set, and no report has told of,
/// is asked for first: the link is told it again behind the preparation.
pub(crate) fn mode(
    worker: &Worker,
    command: &Command,
    session: &Session,
    link: &Link,
    wanted: &Rc<Settings>,
) -> Option<FixUp> {
    let is_alike = || link.state.borrow().settings().mode() == wanted.mode();
    if session.pin().is_none() {
        return if is_alike() { None } else { settings(link, wanted) };
    }
    if !command.told_mode
        && let Some(question) = link.state.borrow().settings().ask_mode()
    {
        return Some(FixUp::own_query(Purpose::Mode, question));
    }
    if is_alike() {
        return None;
    }
    let mixed = link.state.borrow().settings().in_mode_of(wanted);
    settings(link, &worker.interned.borrow_mut().intern(mixed))
}

fn is_accepted(worker: &Worker, fix_up: &FixUp) -> bool {
    match &fix_up.purpose {
        Purpose::Settings(_, text) => worker.interned.borrow().is_accepted(text),
        _ => true,
    }
}

/// Sends what goes ahead of this client's statement.
pub(crate) fn send_for(client: &Client, link: &Link, fix_up: FixUp) {
    match fix_up.purpose {
        Purpose::Begin => client.session.borrow_mut().tell_begin(),
        Purpose::Found { .. } => link.state.borrow_mut().finder = None,
        _ => {}
    }
    see_ahead(client, link, &fix_up.purpose);
    send(link, fix_up);
}

/// Before a client's statement, its link is told or asked this, and counts that.
pub(crate) fn see_ahead(client: &Client, link: &Link, purpose: &Purpose) {
    let counts = &mut client.session.borrow_mut().counts;
    match purpose {
        // These are rows of their own, or messages.
        Purpose::Found { .. } | Purpose::Clear | Purpose::Messages | Purpose::Nothing => {
            counts.lose(link.id)
        }
        _ => counts.see_none_affected(link.id),
    }
}

/// Sends what goes ahead of a statement, or behind it. Its reply is nobody's.
pub(crate) fn send(link: &Link, fix_up: FixUp) {
    let FixUp { purpose, command, body } = fix_up;
    let follower = Follower::new(command.shape(), link.capabilities);
    link.flights.borrow_mut().push_back(Flight::new(follower, purpose));
    send_bytes(link, command, &body);
}

pub(crate) fn send_bytes(link: &Link, command: Opcode, body: &[u8]) {
    outbox::in_spare(|out| {
        put_joined(out, 0, &[&[command as u8], body]);
        link.send_joined(out);
    });
}

/// Asks behind a statement that sets something, by this text, what it has set. On MySQL the question would clear the
/// messages of a statement that fails or warns: there it is sent when that has ended.
pub(crate) fn send_probe(
    worker: &Worker,
    client: &Client,
    link: &Link,
    sets: Sets,
    text: Option<&[u8]>,
) {
    let Some(probe) = probe(worker, client, link, sets, text) else { return };
    if !added::is_mysql(worker, client) {
        send(link, probe);
    } else if let Some(flight) = link.flights.borrow_mut().back_mut() {
        flight.probe = Some(Box::new(probe));
    }
}

/// What must be asked behind a statement that sets something, by this text.
fn probe(
    worker: &Worker,
    client: &Client,
    link: &Link,
    sets: Sets,
    text: Option<&[u8]>,
) -> Option<FixUp> {
    if !sets.tracks && sets.unreported.is_empty() {
        return None;
    }
    // Whatever a pinned client sets goes with its link.
    if client.session.borrow().pin().is_some() {
        return None;
    }
    let text = text.filter(|_| sets.is_names);
    if let Some(text) = text
        && let Some(collation) = worker.interned.borrow().collation(text)
    {
        link.flights.borrow_mut().back_mut()?.collation = Some(collation);
        return None;
    }
    let state = link.state.borrow();
    let settings = state.settings();
    let probe = if sets.tracks && client.session.borrow().has_characteristics() {
        // To set a transaction's variables to what they are ends what was said of the next one alone.
        None
    } else if sets.tracks {
        // Some of it may have been set behind the end of the reports. Character sets that are asked for have their own
        // collation then.
        let has_sets = sets.collates != Collates::default();
        let asked = if has_sets { settings.all() } else { settings.unchanged() };
        let all = settings.probe(asked).filter(|_| !sets.names_collation);
        all.and_then(|text| Some(format!("{REPORT}, {}", text.strip_prefix("SET ")?)))
    } else {
        settings.probe(sets.unreported)
    };
    drop(state);
    let Some(body) = probe else {
        worker.pin(client, Pin::Set);
        return None;
    };
    let purpose = Purpose::Probe(text.map(Box::from));
    Some(FixUp::own_query(purpose, body))
}

/// A statement has ended: if its probe is still to be answered, the client's turn waits for that.
pub(crate) fn waits_for_probe(
    worker: &Worker,
    link: &Link,
    client: &Rc<Client>,
    flight: &mut Flight,
) -> bool {
    // What fails has set nothing, or has pinned its client.
    if let Some(probe) = flight.probe.take().filter(|_| !flight.failed) {
        let has_messages = client.session.borrow().diagnostics() == Diagnostics::OnLink;
        link.in_one_write(|| {
            if has_messages {
                parting::begin(worker, client, link);
            }
            send(link, *probe);
        });
    }
    let mut flights = link.flights.borrow_mut();
    let is_probe =
        |it: &&mut Box<Flight>| matches!(it.purpose, Purpose::Probe(_)) && it.client.is_none();
    let Some(probe) = flights.iter_mut().find(is_probe) else { return false };
    probe.client = Some(Rc::clone(client));
    probe.command = flight.command.take();
    probe.slot = flight.slot;
    true
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
    link.state.borrow_mut().see_collates(sets.collates, &mut worker.interned.borrow_mut());
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
        worker.interned.borrow_mut().learn_collation(text, collation);
    }
    admit::over(worker, &client, link, &command, flight.slot);
    worker.buffers.forget(command.end());
    Settled::nothing_more(client)
}

/// Whether the link is now what it was told to be. It remembers what has been accepted.
pub(crate) fn is_done(worker: &Worker, link: &Link, flight: &Flight) -> bool {
    match &flight.purpose {
        Purpose::Settings(wanted, text) => {
            let mut interned = worker.interned.borrow_mut();
            let mut state = link.state.borrow_mut();
            if !flight.failed {
                state.see_fix_up(wanted, &mut interned);
            }
            let is_so = !flight.failed && Rc::ptr_eq(state.settings(), wanted);
            if is_so {
                interned.accept(text)
            } else {
                interned.doubt(text)
            }
            is_so
        }
        Purpose::Schema(schema) if !flight.failed => {
            link.state.borrow_mut().enter_schema(Some(Rc::clone(schema)));
            true
        }
        Purpose::SchemaReset if !flight.failed => {
            link.state.borrow_mut().was_reset = true;
            true
        }
        Purpose::InsertId(client, id) if !flight.failed => {
            let mut state = link.state.borrow_mut();
            state.insert_id = OnLink::known(*id);
            state.inserter = Some(*client);
            true
        }
        Purpose::Number(shown) => own_id::is_done(link, flight, *shown),
        // It makes an error, if that is what its client's messages are.
        Purpose::Messages => true,
        _ => !flight.failed,
    }
}

/// A fix-up that went ahead of a statement has been answered. If the link has not taken it, the statement is not what
/// the client meant.
pub(crate) fn finish(worker: &Rc<Worker>, link: &Rc<Link>, flight: &Flight) {
    if owed::finish(worker, link, flight) {
        return parting::answered(worker, link);
    }
    if is_done(worker, link, flight) {
        // The command behind it may be one without a reply, and its client gone.
        return parting::answered(worker, link);
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
    losses::spoil(worker, link, &fault);
    if link.flights.borrow().is_empty() {
        // Behind it was a command without a reply.
        return link.close();
    }
    kill::abandon(worker, link);
}
