//! Commands that are longer than a buffer and are read as a whole all the same: they start when all of them is there,
//! and are judged like any other. Where one came in several packets, these are joined, and it is split again when it is
//! sent.
//!
//! A long command claims room for all of it first ([`engine::claims`]); without room it waits, the rest of it unread in
//! its client's socket. Some go on to the server in pieces: what is longer than [`Memory::longest`], and commands of clients
//! that hold a backend of their own anyway, if reading all would tell nothing or there is no room. Those have a slot
//! for the first piece and the last; see [`crate::road::admit::await_rest`].
//!
//! Invariants: what the clients of a worker have sent of long commands that are not on their way is bounded; a client
//! that sends a part of one has neither a slot nor, up to [`Memory::longest`], a backend.

use std::io;
use std::rc::Rc;

use wire::command::Opcode;
use wire::frame::{Extent, HEADER};
use wire::passage::Passage;
use wire::statement::{self, Execute};

use crate::session::prepared;
use crate::state::client::Client;
use crate::state::client_state::ClientState;
use crate::state::worker::Worker;
use crate::worker::buffers::PIECE;

/// What is to be done with a long command that has begun to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// It is read.
    Awaited,
    /// It waits for room.
    Unread,
    /// It goes on to the server as it comes.
    Passed,
}

/// What is to be done with the rest of a command of which a buffer is there, and not all.
pub(crate) fn rest(worker: &Worker, client: &Rc<Client>, extent: Extent, there: &[u8]) -> Rest {
    let is_short = extent.payload <= worker.memory.longest();
    // Its next header was awaited, and is there.
    if client.input.reserved.with(|reserved| reserved.whole = extent.len).is_some() {
        return if is_short { Rest::Awaited } else { Rest::Passed };
    }
    let holds_backend = client.session.borrow().holds_backend();
    let is_read = match client.is_pooled() {
        false => false,
        true if holds_backend => is_judged_whole(client, there),
        // The others are answered, or refused for their length, by their beginning.
        true => there.first().copied().and_then(Opcode::decode).is_some_and(may_be_long),
    };
    if !is_short || !is_read {
        return Rest::Passed;
    }
    // What is continued may become as long as can be.
    let claim = if extent.payload < extent.len - HEADER {
        worker.memory.longest() + PIECE
    } else {
        extent.len
    };
    let (memory, user) = (&worker.memory, client.user.borrow().clone());
    if let Some(room) = memory.claim(&user, claim, extent.len) {
        client.input.reserved.set(Some(room));
        return Rest::Awaited;
    }
    if holds_backend {
        // Others may wait for what it holds.
        return Rest::Passed;
    }
    let claimant = Rc::clone(client);
    memory.wait(claimant, &user, claim, extent.len, crate::worker::clock::now());
    worker.counters.waits.add(1);
    Rest::Unread
}

/// Whether to judge the command takes all of it: its text, or the types of so many parameters; or whether it is refused,
/// which costs a client that is in the middle of a command its connection.
fn is_judged_whole(client: &Client, payload: &[u8]) -> bool {
    let is_pinned = client.session.borrow().pin().is_some();
    match payload.first().copied().and_then(Opcode::decode) {
        Some(Opcode::Query | Opcode::StmtPrepare) => !is_pinned,
        Some(Opcode::StmtExecute | Opcode::StmtBulkExecute) => {
            let id = prepared::named(client, statement::id(payload).unwrap_or(0));
            let mut session = client.session.borrow_mut();
            let statement = session.statements.get(id);
            statement.is_none_or(|it| {
                let is_read = Execute::decode(payload, it.parameters).is_ok();
                it.is_spoiled || !is_pinned && !is_read
            })
        }
        _ => false,
    }
}

/// How much of a command counts, however long it is: a server reads the beginning of some commands and no more.
pub(crate) fn beginning(client: &Client, rest: Passage, there: &[u8]) -> Option<usize> {
    const ID: usize = 4;
    const ROWS: usize = 4;
    if rest.is_done() || rest.is_continued() || !client.is_pooled() {
        return None;
    }
    match there.first().copied().and_then(Opcode::decode)? {
        Opcode::StmtClose | Opcode::StmtReset => Some(1 + ID),
        Opcode::StmtFetch => Some(1 + ID + ROWS),
        _ => None,
    }
}

/// What came of reading on.
pub(crate) enum Collected {
    /// No such command is being collected.
    No,
    /// More of it has still to come.
    Part,
    /// All that was announced of it.
    All(Vec<u8>),
}

/// Reads on where such a command is being collected.
pub(crate) fn read(worker: &Worker, client: &Client) -> Collected {
    let whole = client.input.reserved.with(|reserved| reserved.whole).unwrap_or_default();
    if client.state() != ClientState::Reading || whole == 0 {
        return Collected::No;
    }
    // Straight to where it stays: to copy it for each piece would take longer than to read it. Memory is not asked for
    // by what was announced either.
    let mut text = client.input.take_more();
    let have = text.len();
    text.resize(whole.min(have + PIECE), 0);
    let read = client.stream.try_read(&mut text[have..]);
    text.truncate(have + *read.as_ref().unwrap_or(&0));
    match read {
        Ok(0) => client.close(),
        Ok(read) => {
            worker.counters.bytes_in.add(read as u64);
            client.input.see_upload(read);
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        Err(_) => client.close(),
    }
    // When that is there, it may tell that there is more.
    if text.len() < whole {
        client.input.put_more(text);
        return Collected::Part;
    }
    Collected::All(text)
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
