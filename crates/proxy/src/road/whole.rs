//! Commands that are longer than a buffer and are read as a whole all the same: they start when all of them is there, and
//! are judged like any other. Where one came in several packets, these are joined, and it is split again when it is sent.
//!
//! A long command claims room for all of it first ([`engine::claims`]); without room it waits, the rest of it unread in its
//! client's socket. Some go on to the server in pieces: what is longer than [`LONGEST`], and commands of clients that hold a
//! link of their own anyway, if reading all would tell nothing or there is no room. Those have a slot for the first piece
//! and the last; see [`crate::road::admit::await_rest`].
//!
//! Invariants: what the clients of a worker have sent of long commands that are not on their way is bounded; a client that
//! sends a part of one has neither a slot nor, up to [`LONGEST`], a link.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use engine::account::name::UserName;
use engine::claims::Claims;
use wire::command::Opcode;
use wire::frame::{Extent, HEADER};
use wire::statement::{self, Execute};

use crate::buffers::PIECE;
use crate::road;
use crate::road::client::{Client, Turn};
use crate::road::commands;
use crate::road::prepared;
use crate::worker::Worker;

/// The longest such payload, in bytes: what drivers that go by the server's `max_allowed_packet` hardly exceed. How long
/// it takes to judge is bounded by [`engine::intent::TOKENS_MAX`].
const LONGEST: usize = 32 << 20;

/// Commands up to this claim of a room of their own, in bytes, which the longer ones cannot fill.
const SHORT: usize = 1 << 20;

/// The rooms of a worker, in bytes: for the short ones, and for two of the longest with their headers.
const ROOMS: [usize; 2] = [16 << 20, 2 * (LONGEST + PIECE)];

/// A worker's memory for long commands.
pub(crate) struct Memory {
    rooms: [RefCell<Claims<UserName, Waiter>>; 2],
}

/// A client whose command waits for room.
struct Waiter {
    client: Rc<Client>,
    whole: usize,
}

/// The room of a long command, from when it begins to be read until it is on its way.
pub(crate) struct Reserved {
    memory: Rc<Memory>,
    user: UserName,
    claim: usize,
    /// How long the command is by what is there of it, headers included.
    whole: usize,
}

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

impl Default for Memory {
    fn default() -> Self {
        Self { rooms: ROOMS.map(|room| RefCell::new(Claims::new(room))) }
    }
}

impl Memory {
    fn room(&self, claim: usize) -> &RefCell<Claims<UserName, Waiter>> {
        &self.rooms[usize::from(claim > SHORT + HEADER)]
    }

    /// Those that have room now are read on.
    fn pass_on(self: &Rc<Self>, claim: usize) {
        loop {
            // Not in the loop's head, where the room would be borrowed for as long as its body.
            let next = self.room(claim).borrow_mut().admit();
            let Some((Waiter { client, whole }, claim)) = next else { break };
            let (memory, user) = (Rc::clone(self), client.user.borrow().clone());
            *client.input.reserved.borrow_mut() = Some(Reserved { memory, user, claim, whole });
            client.set_turn(Turn::Client);
            client.input.begin_upload();
            client.wake();
        }
    }

    /// A client that waits is gone.
    pub(crate) fn leave(self: &Rc<Self>, client: &Client) {
        for (room, claim) in self.rooms.iter().zip([0, LONGEST]) {
            let user = client.user.borrow();
            let is_it = |waiter: &Waiter| waiter.client.id == client.id;
            let left = room.borrow_mut().leave(&user, is_it);
            drop(user);
            if left.is_some() {
                self.pass_on(claim);
            }
        }
    }

    /// A client whose command has waited for so long, and how much of its room others have.
    pub(crate) fn expire(
        self: &Rc<Self>,
        now: Instant,
        max: Duration,
    ) -> Option<(Rc<Client>, usize, usize)> {
        self.rooms.iter().zip([0, LONGEST]).find_map(|(room, claim)| {
            if !room.borrow().has_waiters() {
                return None;
            }
            let late = room.borrow_mut().expire(now, max)?;
            self.pass_on(claim);
            let room = room.borrow();
            Some((late.client, room.claimed(), room.room()))
        })
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.memory.room(self.claim).borrow_mut().end(&self.user, self.claim);
        self.memory.pass_on(self.claim);
    }
}

/// What is to be done with the rest of a command of which a buffer is there, and not all.
pub(crate) fn rest(worker: &Worker, client: &Rc<Client>, extent: Extent, there: &[u8]) -> Rest {
    let is_short = extent.payload <= LONGEST;
    if let Some(reserved) = client.input.reserved.borrow_mut().as_mut() {
        // Its next header was awaited, and is there.
        reserved.whole = extent.len;
        return if is_short { Rest::Awaited } else { Rest::Passed };
    }
    let holds_link = client.session.borrow().holds_link();
    let is_read = match client.is_pooled() {
        false => false,
        true if holds_link => {
            client.session.borrow().pin().is_none() && is_judged_whole(client, there)
        }
        // The others are answered, or refused for their length, by their beginning.
        true => there.first().copied().and_then(Opcode::decode).is_some_and(commands::may_be_long),
    };
    if !is_short || !is_read {
        return Rest::Passed;
    }
    // What is continued may become as long as can be.
    let claim = if extent.payload < extent.len - HEADER { LONGEST + PIECE } else { extent.len };
    let (memory, user) = (&worker.memory, client.user.borrow().clone());
    if !memory.room(claim).borrow_mut().claim(&user, claim) {
        if holds_link {
            // Others may wait for what it holds.
            return Rest::Passed;
        }
        let waiter = Waiter { client: Rc::clone(client), whole: extent.len };
        let now = crate::clock::now();
        memory.room(claim).borrow_mut().wait(&user, claim, waiter, now);
        worker.counters.waits.add(1);
        return Rest::Unread;
    }
    let memory = Rc::clone(memory);
    *client.input.reserved.borrow_mut() = Some(Reserved { memory, user, claim, whole: extent.len });
    Rest::Awaited
}

/// Whether to judge the command takes all of it: its text, or the types of so many parameters.
fn is_judged_whole(client: &Client, payload: &[u8]) -> bool {
    match payload.first().copied().and_then(Opcode::decode) {
        Some(Opcode::Query | Opcode::StmtPrepare) => true,
        Some(Opcode::StmtExecute | Opcode::StmtBulkExecute) => {
            let id = prepared::named(client, statement::id(payload).unwrap_or(0));
            let mut session = client.session.borrow_mut();
            let statement = session.statements.get(id);
            statement.is_some_and(|it| Execute::decode(payload, it.parameters).is_err())
        }
        _ => false,
    }
}

/// Reads on where such a command is being collected. False: none is.
pub(crate) fn read(worker: &Rc<Worker>, client: &Rc<Client>) -> bool {
    let whole = client.input.reserved.borrow().as_ref().map_or(0, |reserved| reserved.whole);
    if client.turn.get() != Turn::Client || whole == 0 {
        return false;
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
    } else {
        road::handle(worker, client, &mut text);
    }
    true
}

/// The command in hand was sent, or will not be: what is not kept of it needs no room.
pub(crate) fn sent(client: &Client) {
    if client.current.borrow().is_none() {
        client.input.reserved.take();
    }
}
