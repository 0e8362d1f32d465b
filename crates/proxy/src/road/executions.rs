//! A command that names a prepared statement: what is answered here, and what the statement's text means for its
//! execution.
//!
//! How other commands are read is [`crate::road::commands`]'. Invariants: a statement that was sent a piece of a
//! parameter that it does not have is not executed before it is reset; a statement that was never prepared is refused
//! as the server does it.

use std::rc::Rc;

use engine::counts::Asked;
use engine::intent::{Digest, Trait};
use engine::kept::{Diagnosis, Format};
use engine::kill::{self, Scope};
use engine::pin::Pin;
use engine::session::facts::{InHand, Reads};
use engine::session::{Diagnostics, DiagnosticsUse};
use engine::source::Source;
use engine::statements::KeptByServer as KeptOnBackend;
use wire::command::Opcode;
use wire::frame::HEADER;
use wire::statement::{self, Execute};
use wire::text::{Lexed, Text};

use crate::answers::answer;
use crate::answers::diagnostics;
use crate::answers::notes;
use crate::answers::query_rewrite;
use crate::features::mirrored;
use crate::features::ruled::waits::AfterRules;
use crate::features::ruled::{self, SeenText};
use crate::road::entry;
use crate::road::kill_orders;
use crate::routing::earlier;
use crate::routing::out_of_sight;
use crate::session::own_id;
use crate::session::pins;
use crate::session::prepared;
use crate::session::rights;
use crate::state::client::Client;
use crate::state::command::{Awaits, Command};
use crate::state::worker::Worker;

/// The client closes a statement: its backend may have been kept for that alone.
pub(crate) fn close(worker: &Rc<Worker>, client: &Rc<Client>, id: u32) {
    if prepared::close(client, prepared::named(client, id)) {
        answer::let_go(worker, client);
    }
}

/// A prepared statement as a command finds it.
struct Named {
    id: u32,
    kept: KeptOnBackend,
    source: Rc<Source>,
    /// The parameters of an execution could be read.
    is_read: bool,
    /// What an earlier statement left may have to be had first.
    may_yield: bool,
}

/// A command that names a prepared statement.
pub(crate) fn read(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    command: Box<Command>,
    opcode: Opcode,
    packet: &mut [u8],
) {
    let Some((mut command, named)) = look_up(worker, client, command, opcode, packet) else {
        return;
    };
    let Named { id, kept, source, is_read, may_yield } = named;
    let intent = source.intent;
    let is_single = opcode == Opcode::StmtExecute;
    if worker.features.ruled.is_on() && opcode.executes() {
        let after = execute_by_rules(worker, client, command, packet, &source);
        let AfterRules::GoesOn(goes_on) = after else { return };
        command = goes_on;
    }
    if intent.has(Trait::Kill)
        && is_single
        && let Some((packet, order)) = prepared_order(worker, client, &source, id, packet)
    {
        return kill_orders::send_order(worker, client, command, &packet, order);
    }
    if is_single && may_yield && earlier::is_due(worker, client, intent, &command) {
        return answer::hold(worker, client, command, packet, Awaits::Backend);
    }
    command.facts.in_hand = Some(InHand::new(opcode, id));
    match opcode {
        Opcode::StmtReset if !kept.any() => {
            client.session.borrow_mut().tell(0);
            answer::ok(client, command)
        }
        Opcode::StmtFetch if !kept.cursor => {
            let fault = prepared::no_cursor(worker.is_mysql(client), id);
            answer::refuse_adding(worker, client, command, packet, &fault)
        }
        Opcode::StmtExecute | Opcode::StmtBulkExecute => {
            // With so many parameters that their types do not fit a buffer, only the server knows them.
            let is_unread = client.input.is_part() && !is_read;
            execute(worker, client, command, packet, &source, is_unread)
        }
        Opcode::StmtSendLongData => {
            keep_piece(worker, client, KeptOnBackend { long_data: true, ..kept }, (id, &*source));
            entry::enter(worker, client, command, packet)
        }
        _ => entry::enter(worker, client, command, packet),
    }
}

/// The statement that a command names, which is written into the packet by its own number; `None` where the command
/// is answered by this.
fn look_up(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    mut command: Box<Command>,
    opcode: Opcode,
    packet: &mut [u8],
) -> Option<(Box<Command>, Named)> {
    let id = prepared::named(client, statement::id(&packet[HEADER..]).unwrap_or(0));
    statement::set_id(&mut packet[HEADER..], id);
    command.facts = diagnostics::facts(worker, client, opcode);
    let mut session = client.session.borrow_mut();
    let Some(statement) = session.statements.get(id) else {
        drop(session);
        if opcode == Opcode::StmtSendLongData {
            // It has no reply; the execute that follows is refused.
            client.input.drop_rest(client.input.upload.take());
            return None;
        }
        let fault = prepared::unknown(worker, client, opcode, id);
        answer::refuse_adding(worker, client, command, packet, &fault);
        return None;
    };
    let piece_of = statement::parameter_of_piece(&packet[HEADER..]);
    if opcode == Opcode::StmtSendLongData && piece_of.is_none_or(|it| it >= statement.parameters) {
        // As the server does it: the execute that follows is refused, until the statement is reset.
        statement.is_spoiled |= piece_of.is_some();
        drop(session);
        client.input.drop_rest(client.input.upload.take());
        return None;
    }
    if opcode == Opcode::StmtReset {
        statement.is_spoiled = false;
    }
    if statement.is_spoiled && prepared::is_refused_spoiled(opcode, &statement.source.intent) {
        let is_mysql = worker.is_mysql(client);
        let fault = prepared::wrong_piece(is_mysql, statement, &packet[HEADER..]);
        drop(session);
        answer::refuse_adding(worker, client, command, packet, &fault);
        return None;
    }
    let read = Execute::decode(&packet[HEADER..], statement.parameters);
    let is_read = read.is_ok();
    if let Ok(execute) = read
        && opcode.executes()
    {
        // Whatever becomes of this one, the client may leave them out from now on.
        statement.learn_types(execute.types);
    }
    let kept = statement.kept();
    let source = Rc::clone(&statement.source);
    // A backend that is kept for good may have been told diagnostics, too.
    let may_yield = session.diagnostics() == Diagnostics::Marked || session.can_yield();
    Some((command, Named { id, kept, source, is_read, may_yield }))
}

/// A piece of a parameter is kept with a statement.
fn keep_piece(worker: &Worker, client: &Client, kept: KeptOnBackend, (id, of): (u32, &Source)) {
    client.session.borrow_mut().statements.keep(id, kept);
    worker.hold(client, Pin::LongData, of.intent.digest);
}

/// The order that an execution of a `KILL` statement gives which was prepared with this text, and the same as a query.
fn prepared_order(
    worker: &Worker,
    client: &Client,
    source: &Source,
    id: u32,
    packet: &[u8],
) -> Option<(Vec<u8>, (Scope, u32))> {
    let lexed = Lexed::default();
    let text = lexed.text(&source.text, source.dialect);
    if let Some(order) = kill_orders::read_order(worker, client, text) {
        return Some((prepared::as_query(client, &source.text), order));
    }
    let put = kill_text(client, text, id, &packet[HEADER..])?;
    let lexed = Lexed::default();
    let order = kill_orders::read_order(worker, client, lexed.text(&put, source.dialect))?;
    Some((prepared::as_query(client, &put), order))
}

/// The text of a `KILL` whose only parameter names a client, with the number in it.
fn kill_text(client: &Client, text: Text<'_>, id: u32, payload: &[u8]) -> Option<Vec<u8>> {
    let mut session = client.session.borrow_mut();
    let statement = session.statements.get(id)?;
    // A value that came in pieces is at the server.
    if statement.parameters != 1 || statement.kept().long_data {
        return None;
    }
    let execute = Execute::decode(payload, 1).ok()?;
    let types = statement.types.as_deref()?;
    let value = execute.values(payload, 1, types).next()?.ok()?;
    kill::with_value(text, &value)
}

/// Rules look at an execution: at the text as the client has written it.
fn execute_by_rules(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    command: Box<Command>,
    packet: &[u8],
    source: &Source,
) -> AfterRules {
    let lexed = Lexed::default();
    let (text, digest) = match &source.original {
        Some(original) => {
            let text = lexed.text(original, source.dialect);
            (text, Digest::of(text))
        }
        None => (lexed.text(&source.text, source.dialect), source.intent.digest),
    };
    let (reads, schema) = (source.intent.read.is_some(), source.schema.as_deref());
    let seen = SeenText { digest, reads, schema, decisions: Some(&source.notes.decisions) };
    match ruled::see_execute(worker, client, command, packet, seen, text) {
        AfterRules::GoesOn(mut command) => {
            mirrored::see_execute(worker, client, &mut command, packet, source);
            AfterRules::GoesOn(command)
        }
        AfterRules::Over => AfterRules::Over,
    }
}

/// A prepared statement is executed.
fn execute(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    mut command: Box<Command>,
    packet: &mut [u8],
    source: &Source,
    is_unread: bool,
) {
    let (intent, lexed) = (source.intent, Lexed::default());
    let text = lexed.text(&source.text, source.dialect);
    let in_hand = std::mem::take(&mut command.facts).in_hand;
    let may_change = own_id::may_change(client);
    command.begun = worker.learnt.tally.ask(intent.digest, text);
    command.noted = notes::begin(worker, &command, text);
    command.changes(rights::change(worker, client, intent, text));
    let schema = source.schema.as_deref();
    let out_of_sight = out_of_sight::find(worker, client, &command, text, schema);
    let judged = match is_unread {
        true => pins::keep(worker, client, Pin::LongData, Some(intent.digest)),
        false => pins::judge(worker, client, intent, out_of_sight),
    };
    let leaves = match judged {
        Ok(leaves) => leaves,
        Err(fault) => return answer::refuse(worker, client, command, &fault),
    };
    let facts = &mut command.facts;
    facts.learn(intent, text, Format::Binary);
    facts.leaves = leaves;
    let asks = facts.diagnostics == DiagnosticsUse::Diagnosed;
    let query = match asks.then(|| query_rewrite::diagnosis(worker, client, text)).flatten() {
        None => None,
        Some(diagnosis) => {
            client.input.drop_rest(client.input.upload.take());
            let Diagnosis::Sets(text) = diagnosis else {
                return answer::no_condition(client, command);
            };
            (facts.diagnostics, facts.counts) = (DiagnosticsUse::Added, Asked::default());
            command.rare().diagnoses = true;
            Some(query_rewrite::query_of(&text))
        }
    };
    let facts = &mut command.facts;
    let named = out_of_sight.asks_number;
    let reads_number = may_change
        && (intent.has(Trait::AsksConnectionId) || own_id::may_read(client, intent, named, leaves));
    facts.reads_number = Reads::of(reads_number, facts);
    match query {
        Some(mut query) => entry::enter(worker, client, command, &mut query),
        None => {
            facts.in_hand = in_hand;
            entry::enter(worker, client, command, packet);
        }
    }
}
