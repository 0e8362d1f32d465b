//! Statements that rules mirror: what is copied of them, and what is handed over when their replies have ended.
//!
//! A copy is made when the statement is read, of what is sent to the server; its reply is summed up as it passes
//! ([`wire::reply_sum`]), and then the copy leaves the worker ([`crate::mirror`]). Invariants: nothing here changes what
//! the client's command does, where it goes, or when; what is mirrored means the same in another session.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use engine::intent::Intent;
use engine::mirror::Unmirrored;
use engine::mirror::compare::{RowsCompare, is_of_moment};
use engine::mirror::fit;
use engine::session::Session;
use engine::sharing::is_steady;
use engine::source::Source;
use engine::statement::rule::RuleMirror;
use wire::frame::HEADER;
use wire::reply_sum::Summer;
use wire::statement::{self, Execute};
use wire::text::{Lexed, Text};

use crate::answers::interrupted;
use crate::features::sharing::is_free;
use crate::mirror::copies::{CopiedClient, CopiedCommand, MirrorCopy};
use crate::routing::out_of_sight;
use crate::state::backend::Backend;
use crate::state::client::Client;
use crate::state::command::Command;
use crate::state::copied::{Copied, MirrorPart};
use crate::state::in_flight::InFlight;
use crate::state::shared_run::Sharing;
use crate::state::worker::Worker;

/// A longer command is not copied.
const COPY_MAX: usize = 1 << 20;

/// A query has been read that rules have judged, and that is sent as this text.
pub(crate) fn see_query(
    worker: &Worker,
    client: &Client,
    command: &mut Command,
    text: Text<'_>,
    intent: &Intent,
) {
    let Some(rule) = due(worker, client, command) else { return };
    let copied = copy(worker, client, command, rule, (text, intent), None);
    see(worker, client, command, copied);
}

/// The same of the execution of a statement that was prepared with this source.
pub(crate) fn see_execute(
    worker: &Worker,
    client: &Client,
    command: &mut Command,
    packet: &[u8],
    source: &Source,
) {
    let Some(rule) = due(worker, client, command) else { return };
    let lexed = Lexed::default();
    let text = lexed.text(&source.text, source.dialect);
    let executes = Some((packet, source));
    let copied = copy(worker, client, command, rule, (text, &source.intent), executes);
    see(worker, client, command, copied);
}

/// The place of the rule that mirrors this command, if it was not copied yet. What is read again has its copy.
fn due(worker: &Worker, client: &Client, command: &mut Command) -> Option<usize> {
    match command.rare.as_ref()?.ruled.as_ref()?.mirror {
        MirrorPart::None => None,
        MirrorPart::Due(rule) => Some(rule),
        MirrorPart::Copied(_) => {
            sum_up(worker, client, command);
            None
        }
    }
}

fn see(
    worker: &Worker,
    client: &Client,
    command: &mut Command,
    copied: Result<Box<Copied>, Unmirrored>,
) {
    let Some(ruled) = command.rare().ruled.as_mut() else { return };
    match copied {
        Ok(copied) => {
            ruled.mirror = MirrorPart::Copied(copied);
            sum_up(worker, client, command);
        }
        Err(why) => ruled.leave_out_of_mirror(why),
    }
}

/// Has its reply summed up as its client gets it. What rules have judged is shared with no other client.
fn sum_up(worker: &Worker, client: &Client, command: &mut Command) {
    let sum = Summer::new(client.capabilities);
    command.sharing = Sharing::Leads(worker.features.sharing.summing(sum));
}

/// A copy of this command; an error says why there is none.
fn copy(
    worker: &Worker,
    client: &Client,
    command: &Command,
    rule: usize,
    (text, intent): (Text<'_>, &Intent),
    executes: Option<(&[u8], &Source)>,
) -> Result<Box<Copied>, Unmirrored> {
    let ruled = command.rare.as_ref().and_then(|rare| rare.ruled.as_ref());
    let ready = ruled.and_then(|ruled| ruled.rules.get(rule)).ok_or(Unmirrored::Removed)?;
    let (Some(mirror), Some(state)) = (&ready.rule.acts.mirror, &ready.mirror) else {
        return Err(Unmirrored::Removed);
    };
    let session = client.session.borrow();
    if session.in_transaction() || session.has_begun() {
        return Err(Unmirrored::Transaction);
    }
    fit::judge(text, intent, mirror.takes())?;
    if !is_free(&session) {
        return Err(Unmirrored::Session);
    }
    let copied = match executes {
        None if text.bytes.len() <= COPY_MAX => CopiedCommand::Query(text.bytes.to_vec()),
        None => return Err(Unmirrored::Large),
        Some((packet, source)) => execution(client, &session, packet, source)?,
    };
    let held = state.hold(copied.bytes(), memory(mirror)).ok_or(Unmirrored::Memory)?;
    let source = executes.map(|(_, source)| source);
    let schema = source.map_or_else(|| session.schema.clone(), |source| source.schema.clone());
    let found = out_of_sight::found_for(worker, client, command, schema.as_deref());
    let is_same_always = is_steady(text) && found.varying.find(text, schema.as_deref()).is_none();
    Ok(Box::new(Copied {
        rule,
        held,
        command: copied,
        is_read: intent.read.is_some(),
        digest: intent.digest.hash(),
        dialect: text.dialect,
        rows: if is_same_always { RowsCompare::Yes } else { RowsCompare::No },
        schema,
        settings: session.settings.clone(),
        prepared_under: source.map(|source| Rc::clone(&source.settings)),
    }))
}

/// How much memory all copies of a rule may take.
fn memory(mirror: &RuleMirror) -> usize {
    usize::try_from(mirror.memory).unwrap_or(usize::MAX)
}

/// The execution of a statement, with the types of its parameters.
fn execution(
    client: &Client,
    session: &Session,
    packet: &[u8],
    source: &Source,
) -> Result<CopiedCommand, Unmirrored> {
    let payload = packet.get(HEADER..).unwrap_or_default();
    let is_large = client.input.is_part() || client.input.packets.get() > 1;
    if is_large || COPY_MAX < payload.len() + source.text.len() {
        return Err(Unmirrored::Large);
    }
    let id = statement::id(payload).unwrap_or(0);
    let prepared = session.statements.look(id).ok_or(Unmirrored::Execution)?;
    let is_plain = payload.first() == Some(&(wire::command::Opcode::StmtExecute as u8))
        && !statement::asks_for_cursor(payload)
        && !prepared.kept().any()
        && !prepared.is_spoiled;
    let execute = Execute::decode(payload, prepared.parameters).ok().filter(|_| is_plain);
    let execute = execute.ok_or(Unmirrored::Execution)?;
    let types = execute.types.or(prepared.types.as_deref()).unwrap_or_default();
    if !execute.has_values(payload, prepared.parameters, types) {
        return Err(Unmirrored::Execution);
    }
    let mut values = Vec::with_capacity(payload.len() + types.len());
    execute.put_with_types(payload, types, &mut values);
    values.drain(..statement::ID_AT + 4);
    Ok(CopiedCommand::Execute { text: source.text.to_vec(), values })
}

/// The reply to a command that was copied has ended. `tail`: what of it was not summed up yet.
pub(crate) fn end(
    worker: &Worker,
    backend: &Backend,
    flight: &mut InFlight,
    mut sum: Summer,
    tail: &[u8],
    took: Duration,
) {
    let Some(client) = flight.client.clone() else { return };
    let rare = flight.command.as_mut().and_then(|command| command.rare.as_mut());
    let Some(ruled) = rare.and_then(|rare| rare.ruled.as_mut()) else { return };
    sum.feed(tail);
    let own = match sum.finished() {
        // It was ended, or has met what does not concern the statement.
        Some(own) if own.error.is_some_and(|(code, _)| is_of_moment(code)) => None,
        own => own.filter(|_| !interrupted::is_passed(&client)),
    };
    let Some(own) = own else { return ruled.leave_out_of_mirror(Unmirrored::Unanswered) };
    let rules = Arc::clone(&ruled.rules);
    let ready = ruled.mirror.rule().and_then(|at| rules.get(at));
    let Some((ready, mirror)) = ready.and_then(|it| Some((it, it.rule.acts.mirror.as_ref()?)))
    else {
        return;
    };
    let clusters = &worker.shared.cluster;
    let is_same = clusters.named(&mirror.cluster).is_some_and(|it| it.has(backend.server));
    if is_same || !backend.reports {
        let why = if is_same { Unmirrored::SameCluster } else { Unmirrored::Session };
        return ruled.leave_out_of_mirror(why);
    }
    if let MirrorPart::Copied(copied) = std::mem::take(&mut ruled.mirror)
        && let Some(copied_client) = copied_client(worker, &client, backend, &copied)
    {
        let ended = crate::worker::clock::now();
        let Copied { mut held, command, is_read, digest, dialect, rows, .. } = *copied;
        if !held.take_more(copied_client.bytes(), memory(mirror)) {
            return held.of().leave_out(Unmirrored::Memory);
        }
        worker.shared.mirrors.hand_over(Box::new(MirrorCopy {
            held,
            rule: ready.rule.name.clone(),
            mirror: mirror.clone(),
            client: copied_client,
            command,
            is_read,
            digest,
            dialect,
            rows,
            own,
            took,
            ended,
        }));
    }
}

/// The session that a copy comes from, as a new one is made like it.
fn copied_client(
    worker: &Worker,
    client: &Client,
    backend: &Backend,
    copied: &Copied,
) -> Option<CopiedClient> {
    let id = client.key.get()?;
    let keys = worker.pool.keys.borrow();
    let (key, user) = (keys.get(id), Arc::clone(keys.user(id)?));
    let session = backend.session.borrow();
    let fresh = session.fresh();
    let settings = copied.settings.as_ref().unwrap_or(fresh);
    let setup = match &copied.prepared_under {
        Some(mode) if !Rc::ptr_eq(mode, settings) => settings.in_mode_of(mode).setup(fresh),
        _ if Rc::ptr_eq(settings, fresh) => String::new(),
        _ => settings.setup(fresh),
    };
    Some(CopiedClient {
        name: key.user.clone(),
        user,
        capabilities: key.capabilities,
        collation: key.collation,
        setup: (setup.len() > SET.len()).then_some(setup),
        schema: copied.schema.as_deref().map(Into::into),
    })
}

/// How a statement begins that sets something.
const SET: &str = "SET ";
