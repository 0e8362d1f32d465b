//! What each command of a client asks for: an answer of Flifo's own, a link, the end.
//!
//! A carried client's commands go to its own link as they are. A pooled client's are read first: its session learns
//! what they would leave behind, and what belongs to the client alone (its ids) is kept from the server.

use std::rc::Rc;

use engine::classes::ClassId;
use engine::counts::{Asked, Finds};
use engine::insert_id::InsertId;
use engine::intent::{Ends, Inserts, Intent, Moves, Sets};
use engine::kept::Format;
use engine::pin::Pin;
use engine::rights::Change;
use engine::session::{Diagnostics, Messages};
use engine::settings::Settings;
use engine::statements::{BYTES_MAX, Kept as KeptOnLink, STATEMENTS_MAX};
use engine::variables::Assignment;
use wire::command::{Opcode, Shape, query_text_at};
use wire::frame::{HEADER, put_packet_with};
use wire::passage::Passage;
use wire::response::{OK, OkPacket};
use wire::statement::{self, Execute};

use crate::fault::{Fault, Kind};
use crate::hidden;
use crate::outbox;
use crate::road::added;
use crate::road::admit;
use crate::road::anew;
use crate::road::asks::Asks;
use crate::road::change_user;
use crate::road::client::{Client, Turn};
use crate::road::kill;
use crate::road::own_id;
use crate::road::parting;
use crate::road::past::{self, Found, Past};
use crate::road::pins::{self, Leaves};
use crate::road::prepared::{self, InHand};
use crate::road::undone;
use crate::road::wording;
use crate::worker::Worker;

/// Handles one command: all of it, or its first piece and what is still to come.
pub(crate) fn handle(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    packet: &mut [u8],
    upload: Option<Passage>,
) {
    let Some(&byte) = packet.get(HEADER) else {
        let fault = Fault::new(Kind::Malformed, "Malformed packet: a command of no bytes");
        return crate::road::refuse_and_close(worker, client, &fault);
    };
    if parting::is_asked(client) {
        return hold(worker, client, packet, upload);
    }
    let command = Opcode::decode(byte);
    client.named_class.set(class_named(worker, client, command, packet));
    client.asked.set(None);
    client.messages.set(Messages::default());
    client.change.take();
    if client.is_pooled() {
        match command {
            Some(command) => pooled(worker, client, command, packet, upload),
            None => added::refuse(worker, client, packet, upload, &unknown()),
        }
    } else {
        carried(worker, client, command, packet, upload);
    }
}

fn unknown() -> Fault {
    Fault::new(Kind::UnknownCommand, "Unknown command")
}

/// Keeps the command until the client's link, or the one that it had, has answered.
pub(crate) fn hold(worker: &Worker, client: &Client, packet: &[u8], upload: Option<Passage>) {
    *client.held.borrow_mut() = worker.buffers.keep(packet);
    client.upload.set(upload);
    client.set_turn(Turn::Preparation);
    client.awaits_link.set(true);
}

/// The class that the command's text names, or the text of the statement that it executes.
fn class_named(
    worker: &Worker,
    client: &Client,
    command: Option<Opcode>,
    packet: &[u8],
) -> Option<ClassId> {
    if worker.shared.classes.len() == 1 {
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

fn carried(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    command: Option<Opcode>,
    packet: &mut [u8],
    upload: Option<Passage>,
) {
    let Some(link) = client.link() else { return client.close() };
    match command {
        Some(Opcode::Quit) => {
            link.send(packet);
            client.close();
        }
        Some(command) if command.shape() == Shape::None => {
            link.send(packet);
            client.upload_silently(upload);
        }
        Some(Opcode::ChangeUser) if upload.is_some() => {
            let message = "Malformed packet: COM_CHANGE_USER is never this long";
            let fault = Fault::new(Kind::Malformed, message);
            crate::road::refuse_and_close(worker, client, &fault);
        }
        Some(Opcode::ChangeUser)
            if change_user::needs_login(worker, client, &link, &packet[HEADER..]) =>
        {
            client.begin_change_of_user(&packet[HEADER..]);
        }
        _ => {
            let mut replaced = None;
            if client.id != link.thread_id && upload.is_none() {
                // Its id is Flifo's, so what it says of ids must be translated.
                if kill::intercept(worker, client, command, packet) {
                    return;
                }
                (replaced, _) = wording::with_own_id(worker, client, command, packet);
            }
            worker.tally.ask_carried(client, command, packet);
            changes_by_command(worker, client, command, packet);
            let packet = replaced.as_deref_mut().unwrap_or(packet);
            let urgent = client.session.borrow().may_hold_locks();
            admit::enter(worker, client, packet, upload, urgent);
        }
    }
}

fn pooled(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    command: Opcode,
    packet: &mut [u8],
    upload: Option<Passage>,
) {
    if upload.is_some() && !may_be_long(command) {
        // What is still to come must not be taken for commands.
        let message = format!("Malformed packet: {} is never this long", command.name());
        return refuse(worker, client, upload, &Fault::new(Kind::Malformed, message));
    }
    if client.session.borrow().has_lost_transaction()
        && undone::answer(worker, client, command, packet, upload)
    {
        return;
    }
    let id = statement::id(&packet[HEADER..]).unwrap_or(0);
    client.assigns.borrow_mut().clear();
    match command {
        Opcode::Quit => client.close(),
        Opcode::Ping => added::ping(worker, client, packet),
        Opcode::ResetConnection => anew::reset(worker, client, packet),
        Opcode::ChangeUser => client.begin_change_of_user(&packet[HEADER..]),
        Opcode::StmtClose => prepared::close(worker, client, prepared::named(client, id)),
        Opcode::Query | Opcode::StmtPrepare => text(worker, client, command, packet, upload),
        Opcode::StmtBulkExecute if added::is_mysql(worker, client) => {
            added::refuse(worker, client, packet, upload, &unknown());
        }
        Opcode::StmtExecute
        | Opcode::StmtBulkExecute
        | Opcode::StmtSendLongData
        | Opcode::StmtReset
        | Opcode::StmtFetch => prepared(worker, client, command, packet, upload),
        Opcode::ProcessKill if added::must_ask_for_kill(worker, client) => {
            hold(worker, client, packet, upload);
        }
        Opcode::ProcessKill => {
            if !kill::intercept(worker, client, Some(command), packet) {
                let asks = added::asks(worker, client, command);
                enter(worker, client, packet, upload, asks);
            }
        }
        Opcode::SetOption => {
            match packet.get(HEADER + 1..) {
                Some([0, 0, ..]) => client.several.set(Some(true)),
                Some([1, 0, ..]) => client.several.set(Some(false)),
                // The server refuses it.
                _ => {}
            }
            enter_kept(worker, client, packet, upload, Pin::Option);
        }
        Opcode::BinlogDump
        | Opcode::BinlogDumpGtid
        | Opcode::TableDump
        | Opcode::RegisterReplica => enter_kept(worker, client, packet, upload, Pin::Replication),
        _ => {
            changes_by_command(worker, client, Some(command), packet);
            let is_still = command == Opcode::InitDb;
            let (ends, moves) = match is_still {
                true => (Ends::Never, Moves::IntoSchema),
                false => (Ends::Perhaps, Moves::No),
            };
            let asks = added::asks(worker, client, command);
            let asks = Asks { finds: Finds::Nothing, is_still, ends, moves, ..asks };
            enter(worker, client, packet, upload, asks);
        }
    }
}

/// Whether a command may be longer than a buffer: it carries a text or values of the client's.
pub(crate) const fn may_be_long(command: Opcode) -> bool {
    matches!(
        command,
        Opcode::Query
            | Opcode::StmtPrepare
            | Opcode::StmtExecute
            | Opcode::StmtBulkExecute
            | Opcode::StmtSendLongData
    )
}

/// A query, or the text of a statement to be prepared.
fn text(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    command: Opcode,
    packet: &mut [u8],
    upload: Option<Passage>,
) {
    let payload = &packet[HEADER..];
    let is_prepare = command == Opcode::StmtPrepare;
    if is_prepare && !client.session.borrow().statements.has_room(payload.len() - 1) {
        let message = format!(
            "Can't create more prepared statements: Flifo keeps {STATEMENTS_MAX} of a client, with texts of \
             {BYTES_MAX} bytes in all; close some that are not needed"
        );
        return refuse(worker, client, upload, &Fault::new(Kind::TooManyStatements, message));
    }
    let text_at = match command {
        Opcode::Query => query_text_at(payload, client.capabilities),
        _ => Some(1),
    };
    let (Some(text_at), None) = (text_at, upload) else {
        return enter_kept(worker, client, packet, upload, Pin::Unreadable);
    };
    let dialect = client.session.borrow().dialect();
    let mut intent = worker.readings.borrow_mut().read(&payload[text_at..], dialect);
    if is_prepare && intent.asks_gtid {
        // It is asked of the link that executes it.
        intent.pin.get_or_insert(Pin::SessionVariable);
    }
    if !is_prepare && parting::is_due(worker, client, intent) {
        return hold(worker, client, packet, upload);
    }
    if !is_prepare {
        worker.tally.ask(client, intent.digest, &payload[text_at..], dialect);
    }
    if !is_prepare {
        changes(worker, client, intent, &payload[text_at..]);
    }
    let assigns = match command {
        Opcode::Query => assigns(client, intent, &payload[text_at..]),
        _ => Vec::new(),
    };
    if !assigns.is_empty() {
        *client.assigns.borrow_mut() = assigns;
        // What else the server reports of it is that something has changed.
        let (sets, messages) = (Some(Sets::default()), Messages::Stay);
        let asks = Asks { sets, messages, ends: Ends::Never, ..Asks::default() };
        return enter(worker, client, packet, upload, asks);
    }
    let may_change = own_id::may_change(client);
    // A text that is prepared is judged as well: what it will leave behind is the same.
    let text = &payload[text_at..];
    let out_of_sight = hidden::find(worker, client, text, None);
    let leaves = match pins::judge(worker, client, intent, text, out_of_sight) {
        Ok(leaves) => leaves,
        Err(fault) => return refuse(worker, client, upload, &fault),
    };
    let (mut replaced, mut reads_number) = (None, false);
    if intent.asks_connection_id {
        (replaced, reads_number) = wording::with_own_id(worker, client, Some(command), packet);
        client.session.borrow_mut().ask_number();
    }
    if may_change {
        reads_number |= own_id::may_read(client, intent, out_of_sight.asks_number, leaves);
    }
    let packet = replaced.as_deref_mut().unwrap_or(packet);
    let told = (intent.asks_gtid && !is_prepare).then_some(text_at);
    let mut told = told.and_then(|at| wording::with_gtid(worker, client, at, packet));
    let packet = told.as_deref_mut().unwrap_or(packet);
    if intent.is_kill && kill::intercept(worker, client, Some(command), packet) {
        return;
    }
    if command == Opcode::Query && begins_or_ends_here(client, intent) {
        added::clear(worker, client);
        return ok(client);
    }
    // A preparation asks for nothing yet.
    let mut asks = match command {
        Opcode::Query => {
            let text = &packet[HEADER + text_at..];
            Asks { leaves, ..Asks::of(intent, text, dialect, Format::Text) }
        }
        _ => {
            let (messages, is_still, ends) = (intent.messages.prepared(), true, Ends::Never);
            Asks { messages, is_still, ends, ..Asks::default() }
        }
    };
    let mut diagnosed = None;
    if asks.messages == Messages::Diagnosed {
        diagnosed = wording::with_diagnostics(worker, client, text_at, packet);
    }
    if diagnosed.is_some() {
        (asks.messages, asks.counts) = (Messages::Added, Asked::default());
    }
    let packet = diagnosed.as_deref_mut().unwrap_or(packet);
    asks.reads_number = may_change && reads_number;
    asks.counts_at = Some(text_at).filter(|_| asks.counts != Asked::default());
    enter(worker, client, packet, upload, asks);
}

/// What a statement does to rights.
fn changes(worker: &Worker, client: &Client, intent: Intent, text: &[u8]) {
    if intent.read.is_none() {
        client.change.replace(change(worker, client, text).map(Rc::new));
    }
}

fn change(worker: &Worker, client: &Client, text: &[u8]) -> Option<Change> {
    let (dialect, is_mysql) = (client.session.borrow().dialect(), added::is_mysql(worker, client));
    let change = Change::read(text, dialect, is_mysql);
    change.or_else(|| client.prepared_changes.borrow_mut().read(text, dialect, is_mysql))
}

/// The same of a command whose text has not been read.
fn changes_by_command(worker: &Worker, client: &Client, command: Option<Opcode>, packet: &[u8]) {
    let payload = packet.get(HEADER..).unwrap_or_default();
    let change = match command {
        Some(Opcode::Query) => query_text_at(payload, client.capabilities)
            .and_then(|at| payload.get(at..))
            .and_then(|text| change(worker, client, text)),
        // `REFRESH_GRANT`, which is `FLUSH PRIVILEGES`.
        Some(Opcode::Refresh) if payload.get(1).is_some_and(|it| it & 1 == 1) => {
            Some(Change::of_all())
        }
        _ => None,
    };
    client.change.replace(change.map(Rc::new));
}

/// The user variables that a text sets, if that is all it does and any link can be told them.
fn assigns(client: &Client, intent: Intent, text: &[u8]) -> Vec<Assignment> {
    let session = client.session.borrow();
    if intent.pin != Some(Pin::UserVariable) || session.pin().is_some() {
        return Vec::new();
    }
    let assigns = Assignment::read_all(text, session.dialect()).unwrap_or_default();
    match session.variables.has_room(&assigns, session.settings.as_ref()) {
        true => assigns,
        false => Vec::new(),
    }
}

/// Whether a transaction begins that the server need not know of before its first statement, or ends before that.
fn begins_or_ends_here(client: &Client, intent: Intent) -> bool {
    let mut session = client.session.borrow_mut();
    let has_link = client.link.borrow().is_some();
    // What begins is told by status flags then, or is a block of statements: the server knows best.
    let is_odd = |it: &Rc<Settings>| {
        let modes = it.get("sql_mode").unwrap_or_default();
        it.get("transaction_read_only") == Some(b"ON")
            || modes.split(|byte| *byte == b',').any(|mode| mode == b"ORACLE")
    };
    let begins_oddly = || session.settings.as_ref().is_some_and(is_odd);
    let may_begin = !has_link && (session.is_plain() || session.has_begun());
    if intent.is_begin && may_begin && !begins_oddly() {
        session.begin();
    } else if intent.is_end && session.has_begun() {
        session.end_begun();
    } else {
        return false;
    }
    session.counts.answer(0);
    true
}

/// A command that names a prepared statement.
fn prepared(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    command: Opcode,
    packet: &mut [u8],
    upload: Option<Passage>,
) {
    let id = prepared::named(client, statement::id(&packet[HEADER..]).unwrap_or(0));
    statement::set_id(&mut packet[HEADER..], id);
    let mut asks = added::asks(worker, client, command);
    let mut session = client.session.borrow_mut();
    let Some(statement) = session.statements.get(id) else {
        drop(session);
        if command == Opcode::StmtSendLongData {
            // It has no reply; the execute that follows is refused.
            return client.upload_silently(upload);
        }
        let fault = prepared::unknown(worker, client, command, id);
        return added::refuse(worker, client, packet, upload, &fault);
    };
    let piece_of = statement::parameter_of_piece(&packet[HEADER..]);
    if command == Opcode::StmtSendLongData && piece_of.is_none_or(|it| it >= statement.parameters) {
        // As the server does it: the execute that follows is refused, until the statement is reset.
        statement.is_spoiled |= piece_of.is_some();
        drop(session);
        return client.upload_silently(upload);
    }
    if command == Opcode::StmtReset {
        statement.is_spoiled = false;
    }
    if statement.is_spoiled && prepared::is_refused_spoiled(command, &statement.source.intent) {
        let is_mysql = added::is_mysql(worker, client);
        let fault = prepared::wrong_piece(is_mysql, statement, &packet[HEADER..]);
        drop(session);
        return added::refuse(worker, client, packet, upload, &fault);
    }
    let kept = statement.kept();
    let source = Rc::clone(&statement.source);
    let intent = source.intent;
    let is_read = Execute::decode(&packet[HEADER..], statement.parameters).is_ok();
    if intent.is_kill && command == Opcode::StmtExecute {
        drop(session);
        if kill::intercept_prepared(worker, client, &source.text) {
            return;
        }
        session = client.session.borrow_mut();
    }
    let dialect = session.dialect();
    // A link that is kept for good may have been told messages, too.
    let is_marked = session.diagnostics() == Diagnostics::Marked;
    if command == Opcode::StmtExecute && (is_marked || session.can_yield()) {
        drop(session);
        if parting::is_due(worker, client, intent) {
            return hold(worker, client, packet, upload);
        }
        session = client.session.borrow_mut();
    }
    let may_change = own_id::may_change_of(client, &session);
    match command {
        Opcode::StmtReset if !kept.any() => {
            session.tell(0);
            drop(session);
            return ok(client);
        }
        Opcode::StmtFetch if !kept.cursor => {
            drop(session);
            let fault = prepared::no_cursor(added::is_mysql(worker, client), id);
            return added::refuse(worker, client, packet, upload, &fault);
        }
        Opcode::StmtExecute | Opcode::StmtBulkExecute => {
            drop(session);
            worker.tally.ask(client, intent.digest, &source.text, dialect);
            changes(worker, client, intent, &source.text);
            let out_of_sight = hidden::find(worker, client, &source.text, source.schema.as_deref());
            let judged = if upload.is_some() && !is_read {
                // So many parameters that their types do not fit a buffer: only the server knows them.
                pins::keep(worker, client, Pin::LongData, Some(&source.text))
            } else {
                pins::judge(worker, client, intent, &source.text, out_of_sight)
            };
            match judged {
                Ok(leaves) => {
                    let of = Asks::of(intent, &source.text, dialect, Format::Binary);
                    let named = out_of_sight.asks_number;
                    let reads_number = may_change
                        && (intent.asks_connection_id
                            || own_id::may_read(client, intent, named, leaves));
                    asks = Asks { leaves, reads_number, ..of };
                    if let Some(mut query) =
                        wording::diagnoses(worker, client, intent, &source.text)
                    {
                        (asks.messages, asks.counts) = (Messages::Added, Asked::default());
                        return enter(worker, client, &mut query, None, asks);
                    }
                }
                Err(fault) => return refuse(worker, client, upload, &fault),
            }
        }
        Opcode::StmtSendLongData => {
            session.statements.keep(id, KeptOnLink { long_data: true, ..kept });
            drop(session);
            worker.hold(client, Pin::LongData, &source.text);
        }
        _ => drop(session),
    }
    asks.in_hand = Some(InHand::new(command, id));
    enter(worker, client, packet, upload, asks);
}

pub(crate) fn enter(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    packet: &mut [u8],
    upload: Option<Passage>,
    mut asks: Asks,
) {
    client.session.borrow_mut().enter(asks.passing_mode, asks.moves);
    let is_plain = upload.is_none() && client.session.borrow().is_plain();
    client.kind.set(asks.kind);
    client.read.set(asks.read.filter(|_| is_plain));
    client.sets.set(asks.sets);
    client.alters.set(asks.alters);
    client.is_still.set(asks.is_still);
    client.in_hand.set(asks.in_hand);
    client.leaves.set(asks.leaves);
    let asks_insert_id = asks.insert_id
        || asks.leaves != Leaves::Nothing && client.session.borrow().insert_id != InsertId::Lost;
    client.again.set(0);
    client.shown.take();
    client.avoids.set(None);
    client.stranded.set(None);
    client.instead.take();
    client.messages.set(added::at_server(worker, client, asks.messages));
    client.carried.set(asks.carried);
    client.releases.set(asks.releases);
    client.ends.set(asks.ends);
    client.asks_insert_id.set(asks_insert_id);
    client.shows_variables.set(asks.shows_variables);
    client.reads_number.set(own_id::Reads::of(&asks));
    client.sets_number.set(asks.sets_number);
    client.inserts.set(asks.inserts);
    client.finds.set(asks.finds);
    client.looks_up.set(asks.looks_up);
    let mut counted = None;
    if let Some(text_at) = asks.counts_at {
        (counted, asks.counts) = wording::with_counts(worker, client, text_at, packet, asks.counts);
    }
    let packet = counted.as_deref_mut().unwrap_or(packet);
    let past = Past {
        messages: client.messages.get(),
        shows: asks.shows,
        counts: asks.counts,
        calls: asks.calls,
        insert_id: asks_insert_id,
        inserts: asks.inserts != Inserts::No || asks.shows_variables,
    };
    match past::find(worker, client, past) {
        Found::Here => {}
        Found::Nowhere(fault) => return refuse(worker, client, upload, &fault),
        Found::Later => return hold(worker, client, packet, upload),
        Found::Soon => {
            *client.held.borrow_mut() = worker.buffers.keep(packet);
            client.upload.set(upload);
            client.set_turn(Turn::Preparation);
            return client.awaits_insert_id.set(true);
        }
    }
    let urgent = asks.urgent || client.session.borrow().may_hold_locks();
    admit::enter(worker, client, packet, upload, urgent);
}

/// Enters with a command of which it is not known what it leaves behind, and keeps the link for it.
fn enter_kept(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    packet: &mut [u8],
    upload: Option<Passage>,
    pin: Pin,
) {
    let reads_number = own_id::may_change(client);
    match pins::keep(worker, client, pin, None) {
        Ok(_) => {
            let alters = pin == Pin::Unreadable;
            let is_still = pin == Pin::Option;
            let (finds, asks) = match is_still {
                true => (Finds::Nothing, added::asks(worker, client, Opcode::SetOption)),
                false => (Finds::default(), Asks::default()),
            };
            enter(
                worker,
                client,
                packet,
                upload,
                Asks { alters, finds, is_still, reads_number, ..asks },
            );
        }
        Err(fault) => refuse(worker, client, upload, &fault),
    }
}

/// Answers with an error without asking the server.
pub(crate) fn refuse(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    upload: Option<Passage>,
    fault: &Fault,
) {
    client.upload.set(upload);
    admit::refuse(worker, client, fault);
}

/// Answers OK without asking the server.
pub(crate) fn ok(client: &Client) {
    ok_telling(client, 0);
}

/// The same, with so many messages of before.
pub(crate) fn ok_telling(client: &Client, warnings: u16) {
    let status = client.session.borrow().status();
    client.session.borrow_mut().counts.answer(0);
    let packet = OkPacket { status, warnings, ..OkPacket::EMPTY };
    let sequence = client.take_sequence();
    outbox::in_spare(|out| {
        put_packet_with(out, sequence, |out| packet.encode(OK, client.capabilities, out));
        client.write_last(out);
    });
}

impl Client {
    /// A command without a reply was sent; the turn comes back when its last byte has passed.
    fn upload_silently(&self, upload: Option<Passage>) {
        if upload.is_some() {
            self.upload.set(upload);
            self.upload_ends_turn.set(true);
            self.begin_upload();
            self.set_turn(Turn::Server);
        }
    }
}
