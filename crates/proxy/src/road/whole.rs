//! Texts that are longer than a buffer and are read as a whole all the same, so that they can be judged like any other:
//! inserts of many rows, lists of many numbers; and executes with so many parameters. Where one came in several packets,
//! these are joined, and it is split again when it is sent. What is longer still goes on to the server in pieces, and keeps
//! its client's link.
//!
//! Invariant: what the clients of a worker have sent of such texts, or have waiting, is bounded; beyond that a text goes
//! on in pieces as well, from as much of it as has come.

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use wire::command::Command;
use wire::frame::{Extent, HEADER};
use wire::statement::{self, Execute};

use crate::buffers::PIECE;
use crate::road;
use crate::road::client::{Client, Turn};
use crate::road::prepared;
use crate::worker::Worker;

/// The longest such payload, in bytes: what drivers that go by the server's `max_allowed_packet` hardly exceed. How long
/// it takes to judge is bounded by [`engine::intent::TOKENS_MAX`].
const LONGEST: usize = 32 << 20;

/// How many bytes the clients of a worker may have reserved at once.
const ALL: usize = 2 * LONGEST;

/// A place for a long text, from when it begins to come until its client's next turn. It grows with what has come: who
/// announces much and sends little takes little.
#[derive(Debug)]
pub(crate) struct Reserved {
    all: Rc<Cell<usize>>,
    taken: usize,
    /// How long it is by what is there of it, headers included.
    whole: usize,
}

impl Reserved {
    /// What is needed behind so much of it.
    fn room_for(&self, there: usize) -> usize {
        self.whole.min(there + PIECE)
    }

    /// Takes place for this much in all. False: there is none.
    fn take(&mut self, len: usize) -> bool {
        let all = self.all.get() + len.saturating_sub(self.taken);
        let has_room = all <= ALL;
        if has_room {
            self.all.set(all);
            self.taken = self.taken.max(len);
        }
        has_room
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.all.set(self.all.get() - self.taken);
    }
}

/// Whether this command, of which more is to come, is waited for. What is there fills a buffer.
pub(crate) fn is_awaited(worker: &Worker, client: &Client, extent: Extent, there: &[u8]) -> bool {
    let mut reserved = client.reserved.borrow_mut();
    let may_wait = || {
        client.is_pooled()
            && client.session.borrow().pin().is_none()
            && is_judged_whole(client, there)
    };
    if reserved.is_none() && extent.payload <= LONGEST && may_wait() {
        let (all, whole) = (Rc::clone(&worker.reserved), extent.len);
        *reserved = Some(Reserved { all, taken: 0, whole });
    }
    let has_room = |it: &mut Reserved| {
        it.whole = extent.len;
        extent.payload <= LONGEST && it.take(it.room_for(HEADER + there.len()))
    };
    if !reserved.as_mut().is_some_and(has_room) {
        *reserved = None;
    }
    reserved.is_some()
}

/// Whether to judge the command takes all of it: its text, or the types of so many parameters.
fn is_judged_whole(client: &Client, payload: &[u8]) -> bool {
    match payload.first().copied().and_then(Command::decode) {
        Some(Command::Query | Command::StmtPrepare) => true,
        Some(Command::StmtExecute | Command::StmtBulkExecute) => {
            let id = prepared::named(client, statement::id(payload).unwrap_or(0));
            let mut session = client.session.borrow_mut();
            let statement = session.statements.get(id);
            statement.is_some_and(|it| Execute::decode(payload, it.parameters).is_err())
        }
        _ => false,
    }
}

/// Reads on where such a text is being collected. False: none is.
pub(crate) fn read(worker: &Rc<Worker>, client: &Rc<Client>) -> bool {
    let whole = client.reserved.borrow().as_ref().map_or(0, |reserved| reserved.whole);
    if client.turn.get() != Turn::Client || whole == 0 {
        return false;
    }
    // Straight to where it stays: to copy it for each piece would take longer than to read it. Memory is not asked for
    // by what was announced either.
    let mut text = client.take_more();
    let have = text.len();
    text.resize(whole.min(have + PIECE), 0);
    let read = client.stream.try_read(&mut text[have..]);
    text.truncate(have + *read.as_ref().unwrap_or(&0));
    match read {
        Ok(0) => client.close(),
        Ok(read) => worker.counters.bytes_in.add(read as u64),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        Err(_) => client.close(),
    }
    // When that is there, it may tell that there is more.
    let has_room = |it: &mut Reserved| it.take(it.room_for(text.len()));
    if text.len() < whole && client.reserved.borrow_mut().as_mut().is_some_and(has_room) {
        client.put_more(text);
    } else {
        road::handle(worker, client, &mut text);
    }
    true
}
