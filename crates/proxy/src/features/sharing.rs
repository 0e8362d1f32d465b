//! Identical reads that wait in the queue of one gate are run once, and each client gets the reply.
//!
//! Owns which waiting statements may stand together ([`join`]), the moment in which a group is closed ([`gather`]: when
//! the run of its first statement begins), and the answer to the followers ([`deliver`]). What a text may be is
//! `engine::sharing`'s. Followers that get no answer wait again: [`cut_out`]. Reads of which equal ones run: [`crowds`].
//! Invariants: a statement joins only a run that begins when it waits already; only clients are together to which each
//! byte of the reply would have been the same; a follower has been written nothing before all of the reply is there.

pub(crate) mod crowds;

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use engine::counts::{Asked, Finds};
use engine::session::facts::{Leaves, Reads};
use engine::session::observe::{self, SharedEnd, is_before_any_row};
use engine::session::{DiagnosticsUse, Session};
use engine::sharing::{CutOut, is_own_schema, is_steady};
use engine::statements::Prepared;
use wire::capability::Capabilities;
use wire::command::{Opcode, query_text_at};
use wire::frame::HEADER;
use wire::lex::Dialect;
use wire::statement::{self, Execute};
use wire::text::{Lexed, Text};

use crate::answers::interrupted;
use crate::answers::notes;
use crate::features::cached::keeping;
use crate::routing::out_of_sight;
use crate::state::backend::Backend;
use crate::state::client::Client;
use crate::state::client_state::ClientState;
use crate::state::command::Command;
use crate::state::copied::MirrorPart;
use crate::state::doing::Doing;
use crate::state::in_flight::{AfterReply, InFlight, Settled};
use crate::state::local::ClientsGate;
use crate::state::rule_hits::Ruled;
use crate::state::shared_run::{CountedRun, SharedRun, Sharing};
use crate::state::worker::Worker;

/// A longer statement is not compared with others.
const PACKET_MAX: usize = 64 << 10;

/// A statement that merely reads waits in the queue of a key: those that ask the same stand together from now on. Whether
/// they may share a run is looked at when it begins, so that one that nothing equals pays for its hash alone.
pub(crate) fn join(worker: &Worker, client: &Client) {
    if !worker.features.sharing.is_used() {
        return;
    }
    let Some(mut command) = client.command_mut() else { return };
    if matches!(command.sharing, Sharing::Leads(_)) {
        // A run that others wait for goes on alone.
        return;
    }
    let known = command.counted.as_ref().map(CountedRun::hash);
    let Some(hash) = known.or_else(|| hash(worker, client, &command)) else { return };
    (command.sharing, command.counted) = (Sharing::Waits(hash), None);
    drop(command);
    let clients = worker.clients.borrow();
    let waits = |id: &u32| clients.get(id).is_some_and(|client| waits_in(client, None));
    worker.features.sharing.groups.borrow_mut().join(hash, client.id, waits);
}

/// Whether reads of this client and class are shared.
pub(crate) fn is_on(worker: &Worker, client: &Client, command: &Command) -> bool {
    let of_server = worker.plan().server.share_reads;
    let of_user = client.key.get().map(|key| worker.user_of(key, |user| user.share_reads));
    let of_class = worker.classes().get(client.ask(command).class).share_reads;
    let of_rules = ruled(command).map(|ruled| ruled.hits().share_reads()).unwrap_or_default();
    of_server.narrowed(of_user.unwrap_or_default()).narrowed(of_class).narrowed(of_rules).is_on()
}

/// Whether the statement may get the reply to another client's run, or others the reply to its own. Its client has no
/// backend, or one for this statement only.
pub(crate) fn may_share(worker: &Worker, client: &Client, command: &Command) -> bool {
    may_be_ruled_so(command) && may_be_cached(worker, client, command)
}

/// What rules have said of a command, if any has.
fn ruled(command: &Command) -> Option<&Ruled> {
    command.rare.as_ref()?.ruled.as_deref()
}

/// Whether rules do nothing to it that its own run is needed for: to be copied, or to be kept.
fn may_be_ruled_so(command: &Command) -> bool {
    ruled(command)
        .is_none_or(|ruled| ruled.cache.is_none() && matches!(ruled.mirror, MirrorPart::None))
}

/// Whether the same rules have said all that was said of both.
fn are_ruled_alike(one: &Command, two: &Command) -> bool {
    match (ruled(one), ruled(two)) {
        (None, None) => true,
        (Some(one), Some(two)) => Arc::ptr_eq(&one.rules, &two.rules) && one.hit == two.hit,
        _ => false,
    }
}

/// Whether all that its reply can tell are rows, and these are the server's own.
fn is_plain(command: &Command) -> bool {
    let (facts, found) = (&command.facts, &command.found);
    facts.finds == Finds::Rows
        && facts.diagnostics == DiagnosticsUse::Go
        && facts.leaves == Leaves::Nothing
        && facts.reads_number == Reads::Nothing
        && facts.counts == Asked::default()
        && facts.ok_warnings.is_none()
        && found.instead.is_none()
        && found.affected.is_none()
        && found.asks_backend == Asked::default()
        && command
            .rare
            .as_ref()
            .is_none_or(|it| it.shown.is_none() && it.change.is_none() && it.cluster.is_none())
}

/// Whether all of it came in one packet, and is short enough to be compared.
fn is_whole(client: &Client, command: &Command) -> bool {
    let input = &client.input;
    !input.is_part()
        && !input.reserved.is_some()
        && input.packets.get() == 1
        && input.login_sequence.get().is_none()
        && command.packet.len() <= PACKET_MAX
}

/// The same of a statement that rules have looked at: its reply may be kept.
pub(crate) fn may_be_cached(worker: &Worker, client: &Client, command: &Command) -> bool {
    let Some(digest) = command.facts.read else { return false };
    if !is_plain(command) || !is_whole(client, command) {
        return false;
    }
    let session = client.session.borrow();
    if !is_free(&session) {
        return false;
    }
    let Some(asked) = Asks::of(client, &session, command) else { return false };
    let (text, dialect, schema) = asked.meaning(&session);
    if schema.is_some_and(is_own_schema) {
        return false;
    }
    let (lexed, now) = (Lexed::default(), crate::worker::clock::now());
    let text = lexed.text(text, dialect);
    worker.features.sharing.kinds.borrow_mut().may_share(digest, now, || is_steady(text))
        && !out_of_sight::may_vary(worker, client, command, text, schema)
}

/// Whether all that a session needs of a backend are its variables and its schema.
pub(crate) fn is_free(session: &Session) -> bool {
    session.is_plain()
        && !session.has_begun()
        && !session.has_lost_transaction()
        && session.beginning.is_none()
        && session.variables.is_empty()
        && session.kept().is_none()
}

/// The text of a statement that may be shared, and the schema that it is meant in.
pub(crate) fn with_text<R>(
    client: &Client,
    command: &Command,
    ask: impl FnOnce(Text<'_>, Option<&[u8]>) -> R,
) -> Option<R> {
    let session = client.session.borrow();
    let asked = Asks::of(client, &session, command)?;
    let (text, dialect, schema) = asked.meaning(&session);
    Some(ask(Lexed::default().text(text, dialect), schema))
}

/// What a client asks, as far as the server reads it.
pub(crate) enum Asks<'a> {
    Query {
        payload: &'a [u8],
        text: &'a [u8],
    },
    Execute {
        prepared: &'a Prepared,
        /// Behind the statement's id: flags, values, and their types if they are sent.
        values: &'a [u8],
        types: Option<&'a [u8]>,
    },
}

impl<'a> Asks<'a> {
    /// `None`: the server may keep something of it, or it cannot be read.
    pub(crate) fn of(client: &Client, session: &'a Session, command: &'a Command) -> Option<Self> {
        let payload = command.packet.get(HEADER..)?;
        match Opcode::decode(*payload.first()?)? {
            Opcode::Query => {
                let text = payload.get(query_text_at(payload, client.capabilities)?..)?;
                Some(Self::Query { payload, text })
            }
            Opcode::StmtExecute if !statement::asks_for_cursor(payload) => {
                let prepared = session.statements.look(statement::id(payload)?)?;
                let is_kept = prepared.own.is_some() || prepared.kept().any();
                let execute = Execute::decode(payload, prepared.parameters).ok()?;
                let types = execute.types.or(prepared.types.as_deref());
                let values = payload.get(statement::ID_AT + 4..)?;
                let is_free = !is_kept && !prepared.is_spoiled;
                is_free.then_some(Self::Execute { prepared, values, types })
            }
            _ => None,
        }
    }

    /// The text, how it is read, and the schema that it is meant in.
    fn meaning(&self, session: &'a Session) -> (&'a [u8], Dialect, Option<&'a [u8]>) {
        match self {
            Self::Query { text, .. } => (text, session.dialect(), session.schema.as_deref()),
            Self::Execute { prepared, .. } => {
                let source = &prepared.source;
                (&source.text, source.dialect, source.schema.as_deref())
            }
        }
    }

    fn is_same(&self, other: &Asks<'_>) -> bool {
        match (self, other) {
            (Self::Query { payload, .. }, Asks::Query { payload: other, .. }) => payload == other,
            (
                Self::Execute { prepared, values, types },
                Asks::Execute { prepared: other, values: other_values, types: other_types },
            ) => prepared.source == other.source && values == other_values && types == other_types,
            _ => false,
        }
    }
}

/// The hash of what the statement asks, and of where.
pub(crate) fn hash(worker: &Worker, client: &Client, command: &Command) -> Option<u64> {
    hash_of(worker, client, command, client.routing.server.get().0)
}

/// The same, of one server or of a whole cluster.
pub(crate) fn hash_of(
    worker: &Worker,
    client: &Client,
    command: &Command,
    server: usize,
) -> Option<u64> {
    let session = client.session.borrow();
    let key = client.key.get()?;
    Some(match Asks::of(client, &session, command)? {
        Asks::Query { payload, .. } => {
            worker.features.sharing.hash((server, key, session.schema.as_deref(), payload))
        }
        Asks::Execute { prepared, values, .. } => {
            worker.features.sharing.hash((server, key, &*prepared.source, values))
        }
    })
}

/// Whether the client waits in the queue as one that others may join: in the group of this hash, if one is told.
fn waits_in(client: &Client, hash: Option<u64>) -> bool {
    let of_client = client.command().and_then(|command| match command.sharing {
        Sharing::Waits(hash) => Some(hash),
        _ => None,
    });
    client.state() == ClientState::Queued
        && of_client.is_some_and(|of_client| hash.is_none_or(|hash| hash == of_client))
}

/// A client's statement, which has waited, begins on a backend: those that wait in its group get the reply as well.
/// What comes from now on joins it no more.
#[inline]
pub(crate) fn gather(
    worker: &Worker,
    leader: &Rc<Client>,
    command: &mut Command,
    backend: &Backend,
) {
    if let Sharing::Waits(hash) = command.sharing {
        command.sharing = Sharing::Alone;
        let followers = close_group(worker, leader, command, backend, hash);
        if let Some((number, followers)) = followers {
            command.sharing = Sharing::Leads(worker.features.sharing.run(number, followers));
        }
        crowds::count(worker, command, hash);
    }
}

/// The followers that a run gets, and its number.
fn close_group(
    worker: &Worker,
    leader: &Client,
    command: &Command,
    backend: &Backend,
    hash: u64,
) -> Option<(u64, Vec<u32>)> {
    let mut group = worker.features.sharing.groups.borrow_mut().take(hash)?;
    if !backend.capabilities.has(Capabilities::DEPRECATE_EOF) && worker.is_mysql(leader) {
        // It does not say whether the run has changed something.
        worker.features.sharing.groups.borrow_mut().give_back(group);
        return None;
    }
    if !is_on(worker, leader, command) || !may_share(worker, leader, command) {
        // Another one may lead the others.
        group.retain(|id| *id != leader.id);
        for id in group {
            worker.features.sharing.groups.borrow_mut().join(hash, id, |_| true);
        }
        return None;
    }
    let number = worker.features.sharing.next_number();
    let clients = worker.clients.borrow();
    let mut gate = worker.at(leader.routing.server.get()).gate.borrow_mut();
    let mut others = Vec::new();
    group.retain(|id| {
        // The leader's command is in use.
        let other = clients.get(id).filter(|client| client.id != leader.id);
        let Some(client) = other.filter(|client| waits_in(client, Some(hash))) else {
            return false;
        };
        if !is_same(leader, command, client) {
            others.push(*id);
            return false;
        }
        if !may_follow(client) {
            return false;
        }
        follow(&mut gate, client, number)
    });
    drop((clients, gate));
    // Hashes of different statements may be the same.
    for id in others {
        worker.features.sharing.groups.borrow_mut().join(hash, id, |_| true);
    }
    worker.counters.joined.add(group.len() as u64);
    (!group.is_empty()).then_some((number, group))
}

/// Whether a client that asks the same as a leader may get its reply. What the text says of that is the same for both.
fn may_follow(client: &Client) -> bool {
    let Some(command) = client.command() else { return false };
    may_be_ruled_so(&command)
        && is_plain(&command)
        && is_whole(client, &command)
        && client.backend.borrow().is_none()
}

/// Takes a client out of the queue, as a follower of this run. False: it stands there no more.
fn follow(gate: &mut ClientsGate, client: &Client, number: u64) -> bool {
    if client.ticket().and_then(|ticket| gate.leave(ticket)).is_none() {
        return false;
    }
    let Some(mut command) = client.take_command() else { return false };
    command.sharing = Sharing::Follows(number);
    if let Some(noted) = &mut command.noted {
        noted.launch(crate::worker::clock::now());
    }
    client.become_state(Doing::Sharing { command });
    true
}

/// Whether each byte of the reply to this command of the leader's would be the same for this client's.
fn is_same(leader: &Client, command: &Command, client: &Client) -> bool {
    let (one, two) = (leader.session.borrow(), client.session.borrow());
    let Some(own) = client.command() else { return false };
    let is_set_alike = match (&one.settings, &two.settings) {
        (Some(one), Some(two)) => Rc::ptr_eq(one, two),
        (None, None) => true,
        _ => false,
    };
    let asks = (Asks::of(leader, &one, command), Asks::of(client, &two, &own));
    is_set_alike
        && leader.key.get() == client.key.get()
        && leader.routing.server.get() == client.routing.server.get()
        && leader.capabilities == client.capabilities
        && leader.capabilities_now() == client.capabilities_now()
        && leader.ask(command).class == client.ask(&own).class
        && are_ruled_alike(command, &own)
        && one.schema == two.schema
        && one.was_reset == two.was_reset
        && one.status() == two.status()
        && one.listens() == two.listens()
        && is_free(&two)
        && matches!(asks, (Some(one), Some(two)) if one.is_same(&two))
}

/// The client, if it still waits for the reply to this run.
pub(crate) fn follower(worker: &Worker, client: u32, run: u64) -> Option<Rc<Client>> {
    let client = worker.clients.borrow().get(&client).cloned()?;
    let of_client = client.command().and_then(|command| match command.sharing {
        Sharing::Follows(run) => Some(run),
        _ => None,
    });
    let is_there = client.state() == ClientState::Sharing && !client.is_closing();
    (is_there && of_client == Some(run)).then_some(client)
}

/// The reply to a leader's statement has ended: its followers get it, if it is as good for them. `tail`: what the leader
/// has not been written yet.
pub(crate) fn deliver(
    worker: &Rc<Worker>,
    backend: &Backend,
    flight: &mut InFlight,
    mut run: Box<SharedRun>,
    tail: &Range<usize>,
    took: Duration,
    settled: &mut Vec<Settled>,
) {
    let head = run.take_reply();
    if let Err(why) = end(flight, &run, &head) {
        return run.cut_out(why);
    }
    let followers = run.take_followers();
    let followers: Vec<_> =
        followers.into_iter().filter_map(|id| follower(worker, id, run.number)).collect();
    flight.sharers = u32::try_from(followers.len()).unwrap_or(u32::MAX - 1) + 1;
    let flight = &*flight;
    let Ok(end) = end(flight, &run, &head) else { return };
    keeping::keep(worker, backend, &run, &head, &end);
    let shares = !head.is_empty() && !followers.is_empty();
    let head = shares.then(|| Rc::new(head));
    for client in followers {
        let Some(command) = client.take_command() else { continue };
        let then = answer(worker, backend, flight, &client, command, &end, took);
        settled.push(Settled { client, head: head.clone(), tail: tail.clone(), then });
    }
}

/// How the reply has ended, if its followers can get it.
fn end<'a>(flight: &'a InFlight, run: &SharedRun, head: &[u8]) -> Result<SharedEnd<'a>, CutOut> {
    if !flight.failed {
        let status = run.status().filter(|_| flight.warnings == 0).ok_or(CutOut::Unfit)?;
        return Ok(SharedEnd::Rows { rows: flight.follower.rows(), status });
    }
    let error = flight.error().ok_or(CutOut::Unfit)?;
    let is_limit = || flight.client.as_ref().is_some_and(|client| interrupted::is_passed(client));
    match error.code {
        code if is_before_any_row(code) && head.is_empty() && flight.follower.rows() == 0 => {
            Ok(SharedEnd::Error(error))
        }
        // Only the leader's was to end.
        KILLED if !is_limit() => Err(CutOut::Again),
        _ => Err(CutOut::Unfit),
    }
}

/// `KILL QUERY`.
const KILLED: u16 = 1317;

/// What there is to be done for a client whose statement has been answered, as if it had run for it.
fn answer(
    worker: &Rc<Worker>,
    backend: &Backend,
    flight: &InFlight,
    client: &Rc<Client>,
    mut command: Box<Command>,
    end: &SharedEnd<'_>,
    took: Duration,
) -> AfterReply {
    let waited = worker.learnt.tally.answer(flight, (client, backend.server), &command, took);
    worker.learnt.tally.see_shared(&command);
    worker.at(backend.server).traffic.answer(took, waited);
    if let Some(noted) = command.noted.take() {
        notes::see_end(worker, backend, client, flight, *noted);
    }
    let mut session = client.session.borrow_mut();
    if session.settings.is_none() {
        session.see_settings(&backend.session.borrow());
    }
    observe::end_shared(&mut session, &command.facts, end);
    drop(session);
    let over = interrupted::see_end(client, &command, flight.failed);
    worker.counters.statements.add(1);
    worker.counters.spared.add(1);
    worker.spare.buffers.forget(command.end());
    over.map_or(AfterReply::AwaitCommand, AfterReply::Over)
}

/// The leader of the run on this backend does not read the reply: its followers do not wait for that.
pub(crate) fn part(backend: &Backend) {
    if let Some(flight) = backend.in_flight.borrow_mut().front_mut()
        && let Some(command) = &mut flight.command
    {
        command.counted = None;
        command.sharing.part();
    }
}
