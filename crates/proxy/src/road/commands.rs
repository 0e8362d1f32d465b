//! What each command of a client asks for: an answer of Flifo's own, a backend, the end.
//!
//! A pass-through client's commands go to its own backend as they are. A pooled client's are read first: its session
//! learns what they would leave behind. Those that name a prepared statement are [`crate::road::executions`]'.

use std::rc::Rc;

use engine::classes::ClassId;
use engine::counts::{Asked, Finds};
use engine::intent::{Ends, Intent, Moves, Sets, Trait};
use engine::kept::{Diagnosis, Format};
use engine::pin::Pin;
use engine::session::DiagnosticsUse;
use engine::session::facts::{Facts, Reads};
use engine::session_variables::SessionVariables;
use engine::statements::{BYTES_MAX, STATEMENTS_MAX};
use engine::trackers::Listen;
use engine::user_variables::Assignment;
use wire::command::{Opcode, Shape, query_text_at};
use wire::frame::HEADER;
use wire::statement::{self};
use wire::text::Text;

use crate::answers::answer;
use crate::answers::diagnostics;
use crate::answers::lost_transaction;
use crate::answers::notes;
use crate::answers::query_rewrite::{self, QueryPacket};
use crate::config::allowance;
use crate::fault::{Fault, Kind};
use crate::features::mirrored;
use crate::features::ruled::passed;
use crate::features::ruled::waits::AfterRules;
use crate::features::ruled::{self, Comes};
use crate::road::admit;
use crate::road::entry;
use crate::road::executions;
use crate::road::kill_orders;
use crate::road::large_commands;
use crate::road::reset_connection;
use crate::road::wanted;
use crate::routing::earlier::{self};
use crate::routing::freshness;
use crate::routing::out_of_sight;
use crate::session::alone;
use crate::session::own_id;
use crate::session::passed_types;
use crate::session::pins;
use crate::session::questions;
use crate::session::rights;
use crate::state::client::Client;
use crate::state::command::{Awaits, Command};
use crate::state::rule_hits::Look;
use crate::state::worker::Worker;
use crate::worker::steps::step;

/// Handles one command: all of it, or its first piece. `awaited`: what it has waited for, if it
/// is read again.
pub(crate) fn handle(worker: &Rc<Worker>, client: &Rc<Client>, packet: &mut [u8], awaited: Awaits) {
    step!("command");
    let Some(&byte) = packet.get(HEADER) else {
        let fault = Fault::new(Kind::Malformed, "Malformed packet: a command of no bytes");
        return answer::refuse_and_close(worker, client, &fault);
    };
    let mut command = Command::new();
    if questions::is_asked(client) {
        if let Some(carried) = worker.features.ruled.carried.take() {
            command.rare().ruled = Some(carried);
        }
        if let Some(looked) = worker.features.ruled.looked.take() {
            command.rare().look = Some(Look::Done(looked));
        }
        let awaits = if awaited == Awaits::Reset { awaited } else { Awaits::Backend };
        return answer::hold(worker, client, command, packet, awaits);
    }
    let opcode = Opcode::decode(byte);
    command.class = class_named(worker, client, opcode, packet);
    if client.is_pooled() && (opcode.is_none() || !alone::is_due(worker, client)) {
        match opcode {
            Some(Opcode::ResetConnection) if awaited == Awaits::Reset => {
                answer::ok(client, command)
            }
            Some(opcode) => pooled(worker, client, command, opcode, packet),
            None => answer::refuse_adding(worker, client, command, packet, &unknown()),
        }
    } else {
        pass_through(worker, client, command, opcode, packet);
    }
}

fn unknown() -> Fault {
    Fault::new(Kind::UnknownCommand, "Unknown command")
}

/// The class that the command's text names, or the text of the statement that it executes.
fn class_named(
    worker: &Worker,
    client: &Client,
    command: Option<Opcode>,
    packet: &[u8],
) -> Option<ClassId> {
    if !worker.has_classes() {
        return None;
    }
    let payload = &packet[HEADER..];
    match command? {
        Opcode::Query => {
            let text_at = query_text_at(payload, client.capabilities)?;
            worker.class_named_in(&payload[text_at..])
        }
        Opcode::StmtExecute | Opcode::StmtBulkExecute => {
            let mut session = client.session.borrow_mut();
            let id = match statement::id(payload)? {
                statement::LAST_PREPARED => session.statements.last()?,
                id => id,
            };
            worker.class_named_in(&session.statements.get(id)?.source.text)
        }
        _ => None,
    }
}

fn pass_through(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    command: Box<Command>,
    opcode: Option<Opcode>,
    packet: &mut [u8],
) {
    let backend = client.backend();
    if backend.is_none() && !client.has_key() {
        return client.close();
    }
    match opcode {
        // Its backend may serve the next.
        Some(Opcode::Quit) if client.has_key() => client.close(),
        Some(Opcode::Quit) => {
            if let Some(backend) = &backend {
                backend.send(packet);
            }
            client.close();
        }
        // Without a backend there is nothing that it could name.
        Some(opcode) if opcode.shape() == Shape::None => {
            passed::see_command(client, Some(opcode), packet);
            passed_types::see_command(client, Some(opcode), packet);
            if let Some(backend) = &backend {
                backend.send(packet);
            }
            client.upload_silently();
        }
        Some(Opcode::ChangeUser) if client.input.is_part() => {
            let message = "Malformed packet: COM_CHANGE_USER is never this long";
            let fault = Fault::new(Kind::Malformed, message);
            answer::refuse_and_close(worker, client, &fault);
        }
        Some(Opcode::ChangeUser) if client.has_key() => {
            client.begin_change_of_user(&packet[HEADER..]);
        }
        Some(Opcode::ChangeUser)
            if backend
                .as_ref()
                .is_some_and(|it| wanted::needs_login(worker, client, it, &packet[HEADER..])) =>
        {
            client.begin_change_of_user(&packet[HEADER..]);
        }
        _ => pass(worker, client, command, opcode, packet),
    }
}

/// Passes a command on that the server answers. What it kills may be a client of Flifo's. `CONNECTION_ID()` is the
/// server's to answer: that is the number in its process list, where tools look for it.
fn pass(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    mut command: Box<Command>,
    opcode: Option<Opcode>,
    packet: &mut [u8],
) {
    passed::see_command(client, opcode, packet);
    passed_types::see_command(client, opcode, packet);
    if opcode.is_some_and(alone::outlives_reset) {
        client.session.borrow_mut().go_beyond_reset();
    }
    let text_at = query_rewrite::text_at(client, opcode, packet);
    // An id of a pass-through client may be its server's: then nothing has to be translated.
    let is_servers = client.backend().is_some_and(|backend| client.id == backend.thread_id);
    let has_own_id = !is_servers && !client.input.is_part();
    let Some(text_at) = text_at else {
        let executes = opcode.is_some_and(Opcode::executes);
        if executes {
            client.session.borrow_mut().see_passed_execute();
        }
        if has_own_id
            && opcode == Some(Opcode::ProcessKill)
            && worker.knows_process_kill(client)
            && let Some(order) = kill_orders::read_process_kill(packet)
        {
            return kill_orders::send_order(worker, client, command, packet, order);
        }
        if worker.features.ruled.is_on() && executes {
            let AfterRules::GoesOn(goes_on) = passed::see_execute(worker, client, command, packet)
            else {
                return;
            };
            command = goes_on;
        }
        command.begun = worker.learnt.tally.ask_pass_through(opcode, None);
        command.noted = notes::begin_pass_through(worker, &command, opcode, None);
        command.changes(rights::change_by_opcode(opcode, packet));
        return enter_pass_through(worker, client, command, packet);
    };
    let mut query = QueryPacket::new(client, text_at, packet);
    let is_query = opcode == Some(Opcode::Query);
    if worker.features.ruled.is_on() {
        let comes = if is_query { Comes::AsQuery } else { Comes::ToBePrepared };
        match ruled::see_passing_text(worker, client, command, &mut query, comes) {
            AfterRules::GoesOn(goes_on) => command = goes_on,
            AfterRules::Over => return,
        }
        if !is_query {
            match passed::note(worker, client, command, query.text()) {
                AfterRules::GoesOn(goes_on) => command = goes_on,
                AfterRules::Over => return,
            }
        }
    }
    if has_own_id
        && is_query
        && let Some(order) = kill_orders::read_order(worker, client, query.text())
    {
        return kill_orders::send_order(worker, client, command, query.packet(), order);
    }
    let text = Some(query.text()).filter(|_| is_query);
    command.begun = worker.learnt.tally.ask_pass_through(opcode, text);
    command.noted = notes::begin_pass_through(worker, &command, opcode, text);
    command.changes(text.and_then(|text| rights::change_by_text(worker, client, text)));
    client.session.borrow_mut().see_passed_text(query.text(), !is_query);
    enter_pass_through(worker, client, command, query.packet());
}

fn enter_pass_through(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    command: Box<Command>,
    packet: &mut [u8],
) {
    let urgent = client.session.borrow().may_hold_locks();
    admit::enter(worker, client, command, packet, urgent);
}

fn pooled(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    mut command: Box<Command>,
    opcode: Opcode,
    packet: &mut [u8],
) {
    if client.input.is_part() && !large_commands::may_be_long(opcode) {
        // What is still to come must not be taken for commands.
        let message = format!("Malformed packet: {} is never this long", opcode.name());
        let fault = Fault::new(Kind::Malformed, message);
        return answer::refuse(worker, client, command, &fault);
    }
    if client.session.borrow().has_lost_transaction() {
        match lost_transaction::answer(client, opcode, packet) {
            lost_transaction::LossAnswer::None => {}
            lost_transaction::LossAnswer::End => return client.close(),
            lost_transaction::LossAnswer::Ok => return answer::ok(client, command),
            lost_transaction::LossAnswer::Fault => {
                let fault = lost_transaction::fault(worker, client.routing.server.get());
                return answer::refuse(worker, client, command, &fault);
            }
        }
    }
    let id = statement::id(&packet[HEADER..]).unwrap_or(0);
    match opcode {
        Opcode::Quit => client.close(),
        Opcode::Ping => ping(worker, client, command, packet),
        Opcode::ResetConnection => reset_connection::reset(worker, client, command, packet),
        Opcode::ChangeUser => client.begin_change_of_user(&packet[HEADER..]),
        Opcode::StmtClose => executions::close(worker, client, id),
        Opcode::Query | Opcode::StmtPrepare => text(worker, client, command, opcode, packet),
        Opcode::StmtBulkExecute | Opcode::ProcessKill if !is_known(worker, client, opcode) => {
            answer::refuse_adding(worker, client, command, packet, &unknown());
        }
        Opcode::StmtExecute
        | Opcode::StmtBulkExecute
        | Opcode::StmtSendLongData
        | Opcode::StmtReset
        | Opcode::StmtFetch => executions::read(worker, client, command, opcode, packet),
        Opcode::ProcessKill => {
            if diagnostics::must_ask_for_kill(worker, client) {
                return answer::hold(worker, client, command, packet, Awaits::Diagnostics);
            }
            if let Some(order) = kill_orders::read_process_kill(packet) {
                return kill_orders::send_order(worker, client, command, packet, order);
            }
            command.facts = diagnostics::facts(worker, client, opcode);
            entry::enter(worker, client, command, packet);
        }
        Opcode::SetOption => {
            match packet.get(HEADER + 1..) {
                Some([0, 0, ..]) => client.several.set(Some(true)),
                Some([1, 0, ..]) => client.several.set(Some(false)),
                // The server refuses it.
                _ => {}
            }
            entry::enter_kept(worker, client, command, packet, Pin::Option);
        }
        Opcode::BinlogDump
        | Opcode::BinlogDumpGtid
        | Opcode::TableDump
        | Opcode::RegisterReplica => {
            entry::enter_kept(worker, client, command, packet, Pin::Replication);
        }
        _ => {
            command.changes(rights::change_by_opcode(Some(opcode), packet));
            let is_still = opcode == Opcode::InitDb;
            let (ends, moves) = match is_still {
                true => (Ends::Never, Moves::IntoSchema),
                false => (Ends::Perhaps, Moves::No),
            };
            let facts = diagnostics::facts(worker, client, opcode);
            command.facts = Facts { finds: Finds::Nothing, is_still, ends, moves, ..facts };
            entry::enter(worker, client, command, packet);
        }
    }
}

/// Whether the client's server has this command, which not all have.
fn is_known(worker: &Worker, client: &Client, opcode: Opcode) -> bool {
    match opcode {
        Opcode::StmtBulkExecute => !worker.is_mysql(client),
        Opcode::ProcessKill => worker.knows_process_kill(client),
        _ => true,
    }
}

/// Whether the prepared texts of all clients leave room for one more of this length.
fn has_room_of_all(worker: &Worker, client: &Client, more: usize) -> bool {
    let max = allowance().texts(worker.shared.worker_count());
    let own = client.session.borrow().statements.bytes();
    worker.learnt.sources.borrow().has_room(max, worker.clients.borrow().len(), own, more)
}

fn refuse_text(worker: &Rc<Worker>, client: &Rc<Client>, command: Box<Command>) {
    let message = format!(
        "Can't create more prepared statements: those of all clients of a worker have texts of {} MiB already, and this \
         client has more than an equal part of that; close some that are not needed, or give Flifo more memory",
        allowance().texts(worker.shared.worker_count()) >> 20
    );
    answer::refuse(worker, client, command, &Fault::new(Kind::TooManyStatements, message));
}

/// A query, or the text of a statement to be prepared.
fn text(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    mut command: Box<Command>,
    opcode: Opcode,
    packet: &mut [u8],
) {
    let payload = &packet[HEADER..];
    let is_prepare = opcode == Opcode::StmtPrepare;
    if is_prepare && !client.session.borrow().statements.has_room(payload.len() - 1) {
        let message = format!(
            "Can't create more prepared statements: Flifo keeps {STATEMENTS_MAX} of a client, with texts of \
             {BYTES_MAX} bytes in all; close some that are not needed"
        );
        let fault = Fault::new(Kind::TooManyStatements, message);
        return answer::refuse(worker, client, command, &fault);
    }
    if is_prepare && !has_room_of_all(worker, client, payload.len() - 1) {
        return refuse_text(worker, client, command);
    }
    let text_at = query_rewrite::text_at(client, Some(opcode), packet);
    let (Some(text_at), false) = (text_at, client.input.is_part()) else {
        if worker.features.ruled.is_on() {
            match ruled::see_unreadable(worker, client, command) {
                AfterRules::GoesOn(goes_on) => command = goes_on,
                AfterRules::Over => return,
            }
        }
        return entry::enter_kept(worker, client, command, packet, Pin::Unreadable);
    };
    let mut query = QueryPacket::new(client, text_at, packet);
    step!("intent");
    let mut intent = if worker.features.ruled.is_on() {
        let comes = if is_prepare { Comes::ToBePrepared } else { Comes::AsQuery };
        match ruled::read_text(worker, client, command, &mut query, comes) {
            Some((goes_on, intent)) => {
                command = goes_on;
                if !is_prepare {
                    mirrored::see_query(worker, client, &mut command, query.text(), &intent);
                }
                intent
            }
            None => return,
        }
    } else {
        worker.learnt.readings.borrow_mut().read(query.text())
    };
    if is_prepare && intent.has(Trait::AsksGtid) {
        // It is asked of the backend that executes it.
        intent.pin.get_or_insert(Pin::SessionVariable);
    }
    if !is_prepare {
        if earlier::is_due(worker, client, intent, &command) {
            return answer::hold(worker, client, command, query.packet(), Awaits::Backend);
        }
        let text = query.text();
        command.begun = worker.learnt.tally.ask(intent.digest, text);
        command.noted = notes::begin(worker, &command, text);
        command.changes(rights::change(worker, client, intent, text));
        let assigns = assigns(client, intent, text);
        if !assigns.is_empty() {
            command.rare().assigns = assigns;
            // What else the server reports of it is that something has changed.
            let (sets, diagnostics) = (Some(Sets::default()), DiagnosticsUse::Stay);
            command.facts = Facts { sets, diagnostics, ends: Ends::Never, ..Facts::default() };
            return entry::enter(worker, client, command, query.packet());
        }
    }
    enter_text(worker, client, command, &mut query, intent, is_prepare)
}

/// Judges what a text would leave behind, puts what is the client's own in the place of the server's, and enters.
fn enter_text(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    mut command: Box<Command>,
    query: &mut QueryPacket<'_>,
    intent: Intent,
    is_prepare: bool,
) {
    let may_change = own_id::may_change(client);
    // A text that is prepared is judged as well: what it will leave behind is the same.
    let out_of_sight = out_of_sight::find(worker, client, &command, query.text(), None);
    let leaves = match pins::judge(worker, client, intent, out_of_sight) {
        Ok(leaves) => leaves,
        Err(fault) => return answer::refuse(worker, client, command, &fault),
    };
    let mut reads_number = false;
    if intent.has(Trait::AsksConnectionId) {
        reads_number = query_rewrite::put_own_id(worker, client, query);
        client.session.borrow_mut().ask_number();
    }
    if may_change {
        reads_number |= own_id::may_read(client, intent, out_of_sight.asks_number, leaves);
    }
    if is_prepare {
        // A preparation asks for nothing yet.
        let (diagnostics, is_still, ends) = (intent.diagnostics.prepared(), true, Ends::Never);
        command.facts = Facts { diagnostics, is_still, ends, ..Facts::default() };
    } else {
        if intent.has(Trait::AsksGtid) {
            query_rewrite::put_gtid(worker, client, query);
        }
        if intent.has(Trait::ShowsVariables) {
            query_rewrite::list_gtid(worker, client, query);
        }
        if intent.has(Trait::Kill)
            && let Some(order) = kill_orders::read_order(worker, client, query.text())
        {
            return kill_orders::send_order(worker, client, command, query.packet(), order);
        }
        if begins_or_ends_here(client, intent) {
            answer::clear(worker, client);
            return answer::ok(client, command);
        }
        let text = query.text();
        command.facts.learn(intent, text, Format::Text);
        command.facts.leaves = leaves;
        if command.facts.read.is_some() {
            freshness::see_named(worker, client, &mut command, text);
        }
    }
    let facts = &mut command.facts;
    if facts.diagnostics == DiagnosticsUse::Diagnosed {
        match query_rewrite::diagnosis(worker, client, query.text()) {
            Some(Diagnosis::NoCondition) => return answer::no_condition(client, command),
            Some(Diagnosis::Sets(text)) => {
                query.put(text);
                (facts.diagnostics, facts.counts) = (DiagnosticsUse::Added, Asked::default());
                command.rare().diagnoses = true;
            }
            None => {}
        }
    }
    let facts = &mut command.facts;
    facts.reads_number = Reads::of(may_change && reads_number, facts);
    entry::settle(worker, client, &mut command);
    if command.facts.counts != Asked::default() {
        command.facts.counts = query_rewrite::put_counts(worker, client, &command, query);
    }
    entry::find_earlier(worker, client, command, query.packet());
}

/// The user variables that a text sets, if that is all it does and any backend can be told them.
fn assigns(client: &Client, intent: Intent, text: Text<'_>) -> Vec<Assignment> {
    let session = client.session.borrow();
    if intent.pin != Some(Pin::UserVariable) || session.pin().is_some() {
        return Vec::new();
    }
    let assigns = Assignment::read_all(text).unwrap_or_default();
    match session.variables.has_room(&assigns, session.settings.as_ref()) {
        true => assigns,
        false => Vec::new(),
    }
}

/// Whether a transaction begins that the server need not know of before its first statement, or ends before that.
fn begins_or_ends_here(client: &Client, intent: Intent) -> bool {
    let mut session = client.session.borrow_mut();
    let has_backend = client.backend.borrow().is_some();
    // What begins is told by status flags then, or is a block of statements: the server knows best.
    let is_odd = |it: &Rc<SessionVariables>| {
        let modes = it.get("sql_mode").unwrap_or_default();
        it.get("transaction_read_only") == Some(b"ON")
            || modes.split(|byte| *byte == b',').any(|mode| mode == b"ORACLE")
    };
    let begins_oddly = || session.settings.as_ref().is_some_and(is_odd);
    // A client that is told of transactions is told by the server.
    let is_told = session.listens().has(Listen::Transactions);
    let may_begin = !has_backend && !is_told && (session.is_plain() || session.has_begun());
    if intent.has(Trait::Begin) && may_begin && !begins_oddly() {
        session.begin();
    } else if intent.has(Trait::End) && session.has_begun() {
        session.end_begun();
    } else {
        return false;
    }
    session.counts.answer(0);
    true
}

/// Answers whether the server lives. MySQL tells with that how many diagnostics there were.
pub(crate) fn ping(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    mut command: Box<Command>,
    packet: &mut [u8],
) {
    if !worker.is_mysql(client) {
        return answer::ok(client, command);
    }
    let told = client.session.borrow().told();
    match told {
        // It has failed, and its backend knows the rest.
        None if client.backend.borrow().is_some() => {
            let diagnostics = DiagnosticsUse::Added;
            command.facts = Facts {
                diagnostics,
                finds: Finds::Nothing,
                is_still: true,
                ends: Ends::Never,
                ..Facts::default()
            };
            entry::enter(worker, client, command, packet);
        }
        told => answer::ok_telling(client, command, told.unwrap_or(1)),
    }
}
