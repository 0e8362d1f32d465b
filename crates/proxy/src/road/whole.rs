//! Texts that are longer than a buffer and are read as a whole all the same, so that they can be judged like any other:
//! inserts of many rows, lists of many numbers; and executes with so many parameters. What is longer still goes on to the
//! server in pieces, and keeps its client's link.
//!
//! Invariant: what the clients of a worker have sent of such texts, or have waiting, is bounded; beyond that a text is
//! taken for one that is too long.

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use wire::command::Command;
use wire::frame::{HEADER, Header};
use wire::statement::{self, Execute};

use crate::buffers::BUFFER;
use crate::road;
use crate::road::client::{Client, Turn};
use crate::road::prepared;
use crate::worker::Worker;

/// The longest such packet's payload, in bytes: as much as dumps put into one insert. To judge a list of numbers of that
/// length takes five milliseconds, in which its worker does nothing else; the server took fifty for it.
const LONGEST: usize = 1 << 20;

/// How many bytes the clients of a worker may have reserved at once.
const ALL: usize = 32 << 20;

/// A place for a long text, from when it begins to come until its client's next turn.
#[derive(Debug)]
pub(crate) struct Reserved {
    all: Rc<Cell<usize>>,
    len: usize,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.all.set(self.all.get() - self.len);
    }
}

/// Whether this command, of which more is to come, is waited for. What is there fills a buffer.
pub(crate) fn is_awaited(worker: &Worker, client: &Client, header: Header, there: &[u8]) -> bool {
    let len = HEADER + header.len;
    if client.reserved.borrow().is_some() {
        return true;
    }
    let all = &worker.reserved;
    let may_wait = client.is_pooled()
        && client.session.borrow().pin().is_none()
        && header.len <= LONGEST
        && all.get() + len <= ALL
        && is_judged_whole(client, there);
    if may_wait {
        all.set(all.get() + len);
        client.reserved.replace(Some(Reserved { all: Rc::clone(all), len }));
    }
    may_wait
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
    let len = client.reserved.borrow().as_ref().map_or(0, |reserved| reserved.len);
    if client.turn.get() != Turn::Client || len == 0 {
        return false;
    }
    // Straight to where it stays: to copy it for each piece would take longer than to read it.
    let mut text = client.take_more();
    let have = text.len();
    text.reserve_exact(len - have);
    text.resize(len.min(have + BUFFER), 0);
    let read = client.stream.try_read(&mut text[have..]);
    text.truncate(have + *read.as_ref().unwrap_or(&0));
    match read {
        Ok(0) => client.close(),
        Ok(read) => worker.counters.bytes_in.add(read as u64),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        Err(_) => client.close(),
    }
    if text.len() < len {
        client.put_more(text);
    } else {
        road::handle(worker, client, &mut text);
    }
    true
}
