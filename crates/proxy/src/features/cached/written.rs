//! Which tables statements write that pass this Flifo: followed from before they are sent until they have surely ended.
//!
//! A write of a transaction ends with that. If a connection is lost while the server may still be at work for it, its
//! writes count as being under way until the server has ended the session ([`lost`]). Invariants: a write begins before a byte of it
//! is sent, and ends before its client is told; what cannot be read writes everything.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use engine::cache::effects::PARSE_ERROR;
use engine::cache::{Effects, NotedEffects, Written};
use engine::intent::Intent;
use engine::session::Session;
use engine::source::Source;
use wire::command::{Opcode, query_text_at};
use wire::frame::HEADER;
use wire::statement;
use wire::text::{Lexed, Text};

use crate::cluster::members::Members;
use crate::cluster::servers::ServerId;
use crate::config::Plan;
use crate::features::cached::lost;
use crate::state::backend::Backend;
use crate::state::client::Client;
use crate::state::command::Command;
use crate::state::fate::Life;
use crate::state::in_flight::InFlight;
use crate::state::worker::Worker;
use crate::state::writes::Writes;
use crate::users::sight::FoundDefinitions;

/// What stands behind the tables of a cluster, if that is known and as it is by now.
pub(crate) fn definitions(
    worker: &Worker,
    client: &Client,
    members: &Members,
) -> Option<Arc<FoundDefinitions>> {
    let (shared, now) = (&worker.shared, worker.shared.changes.alterations.now());
    let hidden = &shared.changes.hidden;
    let is_common =
        hidden.is_common_whole.load(SeqCst) && shared.cluster.is_common(&worker.plan(), members.id);
    let found = match is_common {
        true => hidden.common.current(now),
        false => {
            let sight = |key| worker.user_of(key, |user| Some(user.sight.of(members.id)));
            client.key.get().and_then(sight).and_then(|sight| sight.current(now))
        }
    };
    found.filter(|found| found.is_whole)
}

/// A command is about to be sent on this backend.
pub(crate) fn begin(
    worker: &Worker,
    client: &Client,
    backend: &Backend,
    command: &mut Command,
    packet: &[u8],
) {
    if let Some(rare) = &command.rare
        && let Some(writes) = rare.written.take()
    {
        // It was told something first.
        return rare.written.set(Some(writes));
    }
    let members = worker.shared.cluster.of(backend.server);
    let since = worker.shared.changes.alterations.now();
    let mut effects = effects(worker, client, members, command, packet);
    if backend.written.may_write_more.get() && matches!(effects, Effects::Tables(_)) {
        effects = Effects::Everything { defines: false };
    }
    if effects != Effects::Nothing || command.facts.alters {
        let defines = effects == Effects::UNKNOWN;
        let written = Written::begin(&members.generations, effects.places());
        let is_parsed_first = matches!(effects, Effects::Everything { .. })
            && !client.input.is_part()
            && text_of(client, packet).is_some_and(Effects::is_parsed_first);
        let writes = Writes { written, defines, since, is_parsed_first };
        command.rare().written.set(Some(Box::new(writes)));
    }
}

fn effects(
    worker: &Worker,
    client: &Client,
    members: &Members,
    command: &Command,
    packet: &[u8],
) -> Effects {
    let payload = packet.get(HEADER..).unwrap_or_default();
    let opcode = payload.first().copied().and_then(Opcode::decode);
    let session = client.session.borrow();
    let lexed = Lexed::default();
    let writes = EffectsOf { worker, client, members };
    match opcode {
        Some(Opcode::Query | Opcode::StmtExecute | Opcode::StmtBulkExecute)
            if client.input.is_part() && command.facts.read.is_none() =>
        {
            Effects::UNKNOWN
        }
        Some(Opcode::Query) => {
            let text = text_of(client, packet);
            let schema = session.schema.as_deref().filter(|_| client.is_pooled());
            match text {
                Some(text) => writes.text(lexed.text(text, session.dialect()), schema),
                None => Effects::UNKNOWN,
            }
        }
        Some(Opcode::StmtExecute | Opcode::StmtBulkExecute) => {
            executed(&writes, &session, statement::id(payload))
        }
        Some(
            Opcode::Quit
            | Opcode::InitDb
            | Opcode::FieldList
            | Opcode::Statistics
            | Opcode::ProcessInfo
            | Opcode::ProcessKill
            | Opcode::Ping
            | Opcode::ChangeUser
            | Opcode::BinlogDump
            | Opcode::BinlogDumpGtid
            | Opcode::TableDump
            | Opcode::RegisterReplica
            | Opcode::StmtPrepare
            | Opcode::StmtSendLongData
            | Opcode::StmtClose
            | Opcode::StmtReset
            | Opcode::StmtFetch
            | Opcode::SetOption
            | Opcode::ResetConnection,
        ) => Effects::Nothing,
        _ => Effects::UNKNOWN,
    }
}

/// The text that a packet has the server run at once.
fn text_of<'p>(client: &Client, packet: &'p [u8]) -> Option<&'p [u8]> {
    let payload = packet.get(HEADER..)?;
    let opcode = payload.first().copied().and_then(Opcode::decode);
    let at =
        query_text_at(payload, client.capabilities).filter(|_| opcode == Some(Opcode::Query))?;
    payload.get(at..)
}

/// Whose statements they are, and where.
struct EffectsOf<'a> {
    worker: &'a Worker,
    client: &'a Client,
    members: &'a Members,
}

impl EffectsOf<'_> {
    /// What a text writes in this schema.
    fn text(&self, text: Text<'_>, schema: Option<&[u8]>) -> Effects {
        // How a pass-through client's server reads backslashes is not known.
        if !self.client.is_pooled() && text.bytes.contains(&b'\\') {
            return Effects::UNKNOWN;
        }
        let (intent, notes) = self.worker.learnt.readings.borrow_mut().read_noted(text);
        self.noted(text, &intent, schema, notes.as_ref().map(|notes| &notes.effects))
    }

    /// What the executions of a prepared statement write.
    fn prepared(&self, source: &Source) -> Effects {
        let (lexed, noted) = (Lexed::default(), Some(&source.notes.effects));
        let text = lexed.text(&source.text, source.dialect);
        self.noted(text, &source.intent, source.schema.as_deref(), noted)
    }

    fn noted(
        &self,
        text: Text<'_>,
        intent: &Intent,
        schema: Option<&[u8]>,
        noted: Option<&NotedEffects>,
    ) -> Effects {
        let found = definitions(self.worker, self.client, self.members);
        let links = found.as_ref().and_then(|found| found.links.as_ref());
        let read = || match Effects::of(text, intent, schema, links.map(|links| &**links)) {
            // It may name a view whose routines write.
            Effects::Nothing if links.is_none() && may_read(text) => {
                Effects::Everything { defines: false }
            }
            effects => effects,
        };
        match noted {
            Some(noted) => noted.get_or_read(schema, links, read),
            None => read(),
        }
    }
}

/// What an execution writes, by the text that was prepared.
fn executed(writes: &EffectsOf<'_>, session: &Session, id: Option<u32>) -> Effects {
    if writes.client.is_pooled() {
        let prepared = id.and_then(|id| session.statements.look(id));
        let Some(prepared) = prepared else { return Effects::UNKNOWN };
        return writes.prepared(&prepared.source);
    }
    let passed = session.passed.as_ref();
    let noted = match id {
        Some(statement::LAST_PREPARED) => passed.and_then(|passed| passed.get(passed.last()?)),
        Some(id) => passed.and_then(|passed| passed.get(id)),
        None => None,
    };
    match noted {
        Some(noted) => writes.text(Lexed::default().text(&noted.text, noted.dialect()), None),
        None => Effects::UNKNOWN,
    }
}

/// Whether a text that writes nothing by itself may name a view.
fn may_read(text: Text<'_>) -> bool {
    text.bytes.first() == Some(&b'(')
        || text.may_begin_with(&[
            "SELECT", "WITH", "VALUES", "TABLE", "DO", "EXPLAIN", "SHOW", "DESC", "DESCRIBE",
        ])
}

/// A command has ended, and its client's session is as it is behind that: its client is told next. In a transaction, its
/// writes end with that.
pub(crate) fn end(worker: &Worker, client: &Client, backend: &Backend, command: &Command) {
    let own = command.rare.as_ref().and_then(|rare| rare.written.take());
    if own.is_none() && backend.written.open.borrow().is_none() {
        return;
    }
    let now = worker.shared.changes.alterations.now();
    if own.as_ref().is_some_and(|own| own.defines) {
        worker.shared.changes.alterations.add();
    }
    if own.as_ref().is_some_and(|own| own.written.is_of_everything()) {
        backend.written.may_write_more.set(true);
    }
    if client.session.borrow().in_transaction() {
        return own.into_iter().for_each(|own| hold_on(backend, *own));
    }
    own.into_iter().for_each(|own| own.end(now));
    backend.written.release(worker.shared.changes.alterations.now());
}

/// A command has failed. If the server could not even parse it, it has done nothing.
pub(crate) fn see_failure(command: &Command, error: u16) {
    let Some(rare) = &command.rare else { return };
    let mut writes = rare.written.take();
    if let Some(writes) = writes.as_mut().filter(|writes| writes.is_parsed_first)
        && error == PARSE_ERROR
    {
        writes.nothing();
    }
    rare.written.set(writes);
}

/// Whether what a command has written is known, and it has surely defined nothing, whatever its first word lets fear.
pub(crate) fn defined_nothing(worker: &Worker, command: &Command) -> bool {
    let Some(rare) = &command.rare else { return false };
    let own = rare.written.take();
    let now = worker.shared.changes.alterations.now();
    let is_known = own.as_ref().is_some_and(|own| !own.defines && own.since == now);
    rare.written.set(own);
    is_known
}

fn hold_on(backend: &Backend, writes: Writes) {
    let mut held = backend.written.open.borrow_mut();
    match &mut *held {
        Some(held) => held.join(writes),
        None => *held = Some(Box::new(writes)),
    }
}

/// A client has come from the Flifo before, with its backend: what it has written there, that Flifo knew.
pub(crate) fn arrive(worker: &Worker, client: &Client, backend: &Backend) {
    if worker.features.caches.is_on() && client.session.borrow().in_transaction() {
        hold_all(worker, backend);
    }
}

/// Another plan is in force: replies are kept if a rule says so, and then all that is written is followed.
pub(crate) fn adopt_plan(worker: &Worker, plan: &Plan) {
    let (shared, is_on) = (&worker.shared, worker.shared.rules().cache());
    let memory = plan.server.cache_memory / shared.worker_count().max(1) as u64;
    if !worker.features.caches.adopt(is_on, memory) {
        return;
    }
    adopt(worker, is_on);
    match is_on {
        true => {
            // Definitions are read anew, with foreign keys.
            shared.changes.alterations.add();
            shared.changes.caches_on.0.fetch_add(1, SeqCst);
        }
        false => _ = shared.changes.caches_on.0.fetch_sub(1, SeqCst),
    }
}

/// Replies are kept from now on, or no longer. What runs already, and transactions that are open, may have written
/// anything.
fn adopt(worker: &Worker, is_on: bool) {
    for backend in worker.backends.borrow().values() {
        match is_on {
            true if !is_idle(backend) => hold_all(worker, backend),
            true => {}
            false => backend.written.release(worker.shared.changes.alterations.now()),
        }
    }
}

fn is_idle(backend: &Backend) -> bool {
    let holder = backend.holder.borrow();
    let is_open = holder.as_ref().is_some_and(|client| client.session.borrow().in_transaction());
    backend.in_flight.borrow().is_empty() && !is_open
}

/// It may have written anything, until its transaction ends, or what runs on it.
fn hold_all(worker: &Worker, backend: &Backend) {
    let generations = &worker.shared.cluster.of(backend.server).generations;
    let written = Written::begin(generations, Effects::UNKNOWN.places());
    let since = worker.shared.changes.alterations.now();
    hold_on(backend, Writes { written, defines: true, since, is_parsed_first: false });
}

/// A connection is gone, with what was in flight on it. The server may still be at work for it.
pub(crate) fn lose<'f>(
    worker: &Rc<Worker>,
    backend: &Backend,
    flights: impl Iterator<Item = &'f mut Box<InFlight>>,
) {
    if backend.fate.life.get() != Life::Closing {
        // The server has ended it, and may be another one when it is back.
        worker.shared.cluster.of(backend.server).generations.everything();
    }
    let (mut runs, mut all) = (false, backend.written.open.take());
    for flight in flights {
        runs |= flight.purpose.is_clients();
        let rare = flight.command.as_mut().and_then(|command| command.rare.as_mut());
        let Some(writes) = rare.and_then(|rare| rare.written.take()) else { continue };
        match &mut all {
            Some(all) => all.join(*writes),
            None => all = Some(writes),
        }
    }
    if let Some(writes) = all.filter(|_| runs) {
        let name = backend.key.get().map(|key| worker.pool.keys.borrow().get(key).user.clone());
        lost::await_end(worker, backend.server, name, backend.thread_id, *writes);
    }
}

/// A server could not be reached: it may be another one when it is back.
pub(crate) fn see_unreachable(worker: &Worker, server: ServerId) {
    worker.shared.cluster.of(server).generations.everything();
}
