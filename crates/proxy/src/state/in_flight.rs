//! What a backend carries: commands that were sent, whose replies have not ended, and what has come of them so far.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Instant;

use engine::intent::{Digest, Sets};
use engine::kept::Message;
use engine::rights::Change;
use engine::session::DiagnosticsUse;
use engine::session::prepared::Refused;
use engine::session::setup::{Purpose, Setup};
use engine::time_limits::Limit;
use wire::capability::Capabilities;
use wire::command::Shape;
use wire::frame::HEADER;
use wire::reply::Follower;
use wire::response::{ErrPacket, OkPacket};
use wire::rows;

use crate::state::client::Client;
use crate::state::command::Command;
use crate::state::shared_run::{SharedRun, Sharing};
use crate::worker::outbox::SharedBytes;

/// One command that was sent, whose reply has not ended.
pub(crate) struct InFlight {
    pub(crate) follower: Follower,
    /// The client that the reply is for. `None`: it is gone, the reply is read and dropped.
    pub(crate) client: Option<Rc<Client>>,
    pub(crate) purpose: Purpose,
    /// The command that it carries, if it is its client's own.
    pub(crate) command: Option<Box<Command>>,
    /// It holds a slot of the gate. What was pipelined gets the slot of the one before it; setups have none.
    pub(crate) slot: bool,
    /// What kind of statement it is, if all it does is to read and its backend's session is as new.
    pub(crate) read: Option<Digest>,
    /// What the backend is asked when it has succeeded, if that does not go in the same write.
    pub(crate) probe: Option<Box<Setup>>,
    /// The collation that it is known to give the connection.
    pub(crate) collation: Option<Rc<[u8]>>,
    /// Rows that it has changed.
    pub(crate) affected: u64,
    /// How many warnings its reply has counted, where it has counted the most.
    pub(crate) warnings: u16,
    /// How many its last packet has counted.
    pub(crate) last: u16,
    /// Its error, if that goes behind diagnostics which the backend does not have.
    pub(crate) added: Option<Box<Message>>,
    /// The reply has an error in it.
    pub(crate) failed: bool,
    /// The error is one that can be helped.
    pub(crate) refused: Option<Refused>,
    /// The number of the packet in which the server has said, in the reply's place or behind its beginning, that it
    /// ends the connection. The client does not get that packet.
    pub(crate) farewell: Option<u8>,
    /// What answers a question of Flifo's own.
    pub(crate) said: Said,
    /// How many clients get its reply.
    pub(crate) sharers: u32,
    /// The error that it has ended in, as a packet.
    pub(crate) failure: Option<Box<[u8]>>,
    pub(crate) since: Instant,
}

thread_local! {
    /// Memory of flights that have landed.
    #[allow(clippy::vec_box, reason = "it is the boxes that are spared")]
    static SPARE: RefCell<Vec<Box<InFlight>>> = const { RefCell::new(Vec::new()) };
}

/// As many as a worker's backends have at once on a busy server.
pub(crate) const SPARE_FLIGHTS: usize = 256;

/// An answer to a question of Flifo's own.
#[derive(Debug, Default)]
pub(crate) enum Said {
    #[default]
    Nothing,
    /// One number or two, which came in one piece.
    Numbers([Option<u64>; 2]),
    Reply(Vec<u8>),
}

impl Said {
    /// The whole of the answer, where that is kept.
    pub(crate) fn reply(&self) -> &[u8] {
        match self {
            Self::Reply(reply) => reply,
            _ => &[],
        }
    }
}

impl InFlight {
    /// One that is Flifo's own affair.
    pub(crate) fn new(follower: Follower, purpose: Purpose) -> Box<Self> {
        let mut flight = SPARE.with_borrow_mut(Vec::pop).unwrap_or_else(|| Box::new(Self::blank()));
        (flight.follower, flight.purpose) = (follower, purpose);
        flight.since = crate::worker::clock::now();
        flight
    }

    /// Keeps its memory for another one: each statement has one.
    pub(crate) fn land(mut self: Box<Self>) {
        if let Some(command) = self.command.take() {
            command.end();
        }
        *self = Self::blank();
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < SPARE_FLIGHTS {
                spare.push(self);
            }
        });
    }

    fn blank() -> Self {
        Self {
            follower: Follower::new(Shape::None, Capabilities::default()),
            client: None,
            purpose: Purpose::Statement,
            command: None,
            slot: false,
            read: None,
            probe: None,
            collation: None,
            affected: 0,
            warnings: 0,
            last: 0,
            added: None,
            failed: false,
            refused: None,
            farewell: None,
            said: Said::Nothing,
            sharers: 1,
            failure: None,
            since: crate::worker::clock::now(),
        }
    }

    /// What its statement is. A preparation, or a login's schema, is none.
    fn statement(&self) -> Option<&Command> {
        self.command.as_deref().filter(|_| matches!(self.purpose, Purpose::Statement))
    }

    /// Whether its reply has rows in it that no server sends.
    pub(crate) fn has_own_rows(&self) -> bool {
        let rare = self.command.as_ref().and_then(|command| command.rare.as_ref());
        rare.is_some_and(|rare| rare.shown.is_some())
    }

    /// What it does with the diagnostics of statements before it.
    pub(crate) fn diagnostics(&self) -> DiagnosticsUse {
        self.command.as_ref().map_or(DiagnosticsUse::Stay, |command| command.facts.diagnostics)
    }

    /// How many diagnostics it is to tell, if not those of the backend.
    pub(crate) fn ok_warnings(&self) -> Option<u16> {
        self.statement()?.facts.ok_warnings
    }

    /// What it does to rights, which may be others behind it.
    pub(crate) fn change(&self) -> Option<&Rc<Change>> {
        let rare = self.command.as_ref()?.rare.as_ref()?;
        rare.change.as_ref().filter(|_| self.purpose.is_clients())
    }

    /// What it sets, if that is all it does.
    pub(crate) fn sets(&self) -> Option<Sets> {
        self.statement()?.facts.sets
    }

    /// Whether it surely leaves its backend's last insert id as it is.
    pub(crate) fn keeps_insert_id(&self) -> bool {
        self.purpose.keeps_insert_id()
            || self.read.is_some()
            || self.statement().is_some_and(|command| command.facts.keeps_insert_id())
    }

    /// The run that other clients get the reply to as well, if its client leads one.
    #[inline]
    pub(crate) fn shared(&mut self) -> Option<&mut SharedRun> {
        match &mut self.command.as_mut()?.sharing {
            Sharing::Leads(run) => Some(run),
            _ => None,
        }
    }

    /// Its client is written this part of the reply.
    #[inline]
    pub(crate) fn copy(&mut self, bytes: &[u8]) {
        if let Some(run) = self.shared() {
            run.copy(bytes);
        }
    }

    /// The end of its reply, which its client is written later.
    #[inline]
    pub(crate) fn keep_tail(&mut self, bytes: &[u8]) {
        if let Some(run) = self.shared()
            && let Some(fill) = &run.fill
        {
            fill.keep_tail(bytes);
        }
    }

    /// Its client and its command, which is to wait again; what was sent runs for nothing.
    pub(crate) fn give_up(&mut self) -> Option<(Rc<Client>, Box<Command>)> {
        let (client, mut command) = (self.client.take()?, self.command.take()?);
        // Those that were to get the reply wait again as well.
        command.sharing.cut_off();
        command.counted = None;
        Some((client, command))
    }

    /// Whether something of the reply has come.
    pub(crate) fn is_answered(&self) -> bool {
        self.follower.has_begun() && self.farewell != Some(1)
    }

    /// Counts what the reply says that the statement has changed.
    pub(crate) fn count(&mut self, ok: &OkPacket<'_>) {
        if self.purpose.is_clients() {
            self.affected = self.affected.saturating_add(ok.affected_rows);
        }
    }
}

/// A reply that has ended, whose last bytes are still to be written to its client.
pub(crate) struct Settled {
    pub(crate) client: Rc<Client>,
    /// What another client has been written before, whose run this reply is to.
    pub(crate) head: Option<Rc<SharedBytes>>,
    /// Where the bytes stand in the buffer.
    pub(crate) tail: Range<usize>,
    pub(crate) then: AfterReply,
}

/// What follows the end of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterReply {
    /// The client may send its next command.
    AwaitCommand,
    /// Flifo is not done with it.
    More,
    /// The client cannot go on.
    Close,
    /// It has passed this limit, which ends it now.
    Over(Limit),
}

impl Settled {
    /// All of the reply has been written; now the client may send its next command.
    pub(crate) fn nothing_more(client: Rc<Client>) -> Self {
        Self { client, head: None, tail: 0..0, then: AfterReply::AwaitCommand }
    }
}

impl InFlight {
    /// The error that it has ended in.
    pub(crate) fn error(&self) -> Option<ErrPacket<'_>> {
        ErrPacket::decode(self.failure.as_deref()?.get(HEADER..)?).ok()
    }

    pub(crate) fn is_of(&self, client: &Client) -> bool {
        self.client.as_ref().is_some_and(|other| other.id == client.id)
    }

    /// The client that the reply is passed on to.
    pub(crate) fn listener(&self) -> Option<Rc<Client>> {
        if self.purpose.is_clients() { self.client.clone() } else { None }
    }
}

/// What a backend has answered so far.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    pub(crate) numbers: Vec<rows::Row>,
    pub(crate) diagnostics: Vec<rows::Row>,
    pub(crate) states: Vec<rows::Row>,
    pub(crate) failed: bool,
    /// How many rows its client has found is known to the backend alone.
    pub(crate) tells_found: bool,
    /// The same of those affected.
    pub(crate) tells_affected: bool,
}
