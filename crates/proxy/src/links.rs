//! One link as a worker uses it: its socket, the statements in flight on it, and what its server session is.
//!
//! Its task reads replies, follows them and writes them straight to the clients they belong to. Writing a statement
//! is done by whoever has it at hand: a client's task, or the task of a link that has just become free.

pub(crate) mod keys;
pub(crate) mod moves;
pub(crate) mod opener;
pub(crate) mod resets;
pub(crate) mod room;
pub(crate) mod supply;
pub(crate) mod transfers;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use engine::gate::Slot;
use engine::intent::{Digest, Sets};
use engine::kept::Message;
use engine::link_state::LinkState;
use engine::rights::{Change, Era};
use engine::session::Messages;
pub(crate) use engine::session::setup::Purpose;
use engine::session::setup::Setup;
use engine::statements::Known;
use link::Stream;
use wire::Capabilities;
use wire::command::Shape;
use wire::frame::{self, HEADER, PAYLOAD_MAX, put_packet_with};
use wire::reply::Follower;
use wire::response::OkPacket;
use wire::statement;

use crate::links::keys::KeyId;
use crate::outbox::Outbox;
use crate::road::client::{Client, Turn};
use crate::road::command::Command;
use crate::road::losses;
use crate::road::parting;
use crate::road::prepared::Refused;
use crate::road::replies;
use crate::road::whole;
use crate::servers::ServerId;
use crate::worker::Worker;

/// One command that was sent, whose reply has not ended.
pub(crate) struct Flight {
    pub(crate) follower: Follower,
    /// Whom the reply is for. `None`: the client is gone, the reply is read and dropped.
    pub(crate) client: Option<Rc<Client>>,
    pub(crate) purpose: Purpose,
    /// The command that it carries, if it is its client's own.
    pub(crate) command: Option<Box<Command>>,
    /// It holds a slot of the gate. What was written ahead gets the slot of the one before it; fix-ups have none.
    pub(crate) slot: bool,
    /// What kind of statement it is, if all it does is to read and its link's session is as new.
    pub(crate) read: Option<Digest>,
    /// What the link is asked when it has succeeded, if that does not go in the same write.
    pub(crate) probe: Option<Box<Setup>>,
    /// The collation that it is known to give the connection.
    pub(crate) collation: Option<Rc<[u8]>>,
    /// Rows that it has changed.
    pub(crate) affected: u64,
    /// How many warnings its reply has counted, where it has counted the most.
    pub(crate) warnings: u16,
    /// How many its last packet has counted.
    pub(crate) last: u16,
    /// Its error, if that goes behind messages which the link does not have.
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
    /// The error that it has ended in, as a packet.
    pub(crate) failure: Option<Box<[u8]>>,
    pub(crate) since: Instant,
}

thread_local! {
    /// Memory of flights that have landed.
    #[allow(clippy::vec_box, reason = "it is the boxes that are spared")]
    static SPARE: RefCell<Vec<Box<Flight>>> = const { RefCell::new(Vec::new()) };
}

/// As many as a worker's links have at once on a busy server.
const SPARE_FLIGHTS: usize = 256;

/// Rows, as packets hold them.
pub(crate) type Shown = Rc<[Vec<u8>]>;

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

impl Flight {
    /// One that is Flifo's own affair.
    pub(crate) fn new(follower: Follower, purpose: Purpose) -> Box<Self> {
        let mut flight = SPARE.with_borrow_mut(Vec::pop).unwrap_or_else(|| Box::new(Self::blank()));
        (flight.follower, flight.purpose) = (follower, purpose);
        flight.since = crate::clock::now();
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
            failure: None,
            since: crate::clock::now(),
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

    /// What it does with the messages of statements before it.
    pub(crate) fn messages(&self) -> Messages {
        self.command.as_ref().map_or(Messages::Stay, |command| command.facts.messages)
    }

    /// How many messages it is to tell, if not those of the link.
    pub(crate) fn carried(&self) -> Option<u16> {
        self.statement()?.facts.carried
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

    /// Whether it surely leaves its link's last insert id as it is.
    pub(crate) fn keeps_insert_id(&self) -> bool {
        self.purpose.keeps_insert_id()
            || self.read.is_some()
            || self.statement().is_some_and(|command| command.facts.keeps_insert_id())
    }

    /// Its client waits again, with its command; what was sent runs for nothing.
    pub(crate) fn give_up(&mut self) -> Option<Rc<Client>> {
        let client = self.client.take()?;
        *client.current.borrow_mut() = self.command.take();
        Some(client)
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

/// A connection to the server.
pub(crate) struct Link {
    /// Tells the links of a worker apart.
    pub(crate) id: u64,
    pub(crate) server: ServerId,
    /// The server's id of this connection.
    pub(crate) thread_id: u32,
    pub(crate) stream: Stream,
    pub(crate) capabilities: Capabilities,
    /// Which clients may share it; `None` for a carried client's own.
    pub(crate) key: Cell<Option<KeyId>>,
    pub(crate) opened: Instant,
    /// When its login began: rights that have changed since are not the ones that it has.
    pub(crate) era: Era,
    pub(crate) flights: RefCell<VecDeque<Box<Flight>>>,
    /// The slot of what runs on it.
    pub(crate) slot: Cell<Option<Slot>>,
    /// What its session at the server is.
    pub(crate) state: RefCell<LinkState>,
    pub(crate) known: RefCell<Known>,
    /// The client that has it now, whether a statement runs or not.
    pub(crate) holder: RefCell<Option<Rc<Client>>>,
    /// Whether the slot of what runs on it was left, because its own client keeps the server waiting.
    pub(crate) set_down: Cell<SetDown>,
    pub(crate) kill: Cell<Kill>,
    pub(crate) taint: Cell<Taint>,
    /// What becomes of it when it has answered what Flifo has asked it.
    pub(crate) then: Cell<Then>,
    /// Its server has moved: it is closed when it is put back.
    pub(crate) is_left_behind: Cell<bool>,
    /// Its client keeps it for messages only, was busy when somebody else needed one, and is asked at its statement's end.
    pub(crate) is_wanted: Cell<bool>,
    /// It goes to this worker, whose client has waited longer; see [`transfers`].
    pub(crate) leaves_for: Cell<Option<usize>>,
    /// It is being asked for its client's messages before it is taken.
    pub(crate) parting: RefCell<Option<parting::Answers>>,
    /// Commands without replies that go ahead of the next statement.
    pub(crate) ahead: RefCell<Vec<u8>>,
    /// The unfinished packet at the end of what was read.
    pub(crate) carry: RefCell<Vec<u8>>,
    /// Bytes that the socket has not taken yet.
    outbox: Outbox,
    pub(crate) life: Cell<Life>,
    waker: RefCell<Option<Waker>>,
}

/// Whether a connection goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Life {
    #[default]
    Open,
    /// Flifo ends it, whatever is in flight.
    Closing,
    /// The server has said that it ends it.
    Farewell,
}

/// An order to kill what runs on a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kill {
    #[default]
    None,
    UnderWay,
    /// The link was put back meanwhile, and is free once the order has been answered.
    PutBack,
}

/// What a link's clients may have left on it that is undone before it is put back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Taint {
    #[default]
    Clean,
    /// A statement failed that may have fired triggers: an error tells nothing of what they have set.
    Doubtful,
    /// A routine may have left something.
    Soiled,
}

/// What becomes of a link that has answered what Flifo has asked it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Then {
    /// It stays with its client.
    #[default]
    Stay,
    /// No client has it.
    GiveBack,
    /// It has said what it alone knew.
    Close,
}

/// Why the slot of a statement was left before its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SetDown {
    #[default]
    No,
    /// Its client does not read the reply; see [`crate::road::admit::hold_up`].
    Unread,
    /// Its client has not sent the end of the command; see [`crate::road::admit::await_rest`].
    Unsent,
}

/// More than this unsent, and whoever streams waits.
const OUTBOX_MAX: usize = 64 << 10;

impl Link {
    pub(crate) fn new(
        id: u64,
        server: ServerId,
        thread_id: u32,
        stream: Stream,
        capabilities: Capabilities,
        key: Option<KeyId>,
    ) -> Self {
        Self {
            id,
            server,
            thread_id,
            stream,
            capabilities,
            key: Cell::new(key),
            opened: crate::clock::now(),
            era: Era::default(),
            flights: RefCell::default(),
            slot: Cell::new(None),
            state: RefCell::default(),
            known: RefCell::default(),
            holder: RefCell::default(),
            set_down: Cell::default(),
            kill: Cell::default(),
            taint: Cell::default(),
            then: Cell::default(),
            is_left_behind: Cell::new(false),
            is_wanted: Cell::new(false),
            leaves_for: Cell::new(None),
            parting: RefCell::default(),
            ahead: RefCell::default(),
            carry: RefCell::default(),
            outbox: Outbox::default(),
            life: Cell::default(),
            waker: RefCell::default(),
        }
    }

    /// Gives the link to a client.
    pub(crate) fn hold_for(self: &Rc<Self>, client: &Rc<Client>) {
        let last = std::mem::replace(&mut self.state.borrow_mut().last_client, client.id);
        if last != client.id {
            client.session.borrow_mut().counts.lose(self.id);
        }
        *self.holder.borrow_mut() = Some(Rc::clone(client));
        client.server.set(self.server);
        *client.link.borrow_mut() = Some(Rc::clone(self));
    }

    /// Shows a client on which link its statement is, without giving it the link.
    pub(crate) fn board(self: &Rc<Self>, client: &Client) {
        client.server.set(self.server);
        *client.link.borrow_mut() = Some(Rc::clone(self));
    }

    /// Takes the link from its client.
    pub(crate) fn release(&self) {
        self.is_wanted.set(false);
        if let Some(client) = self.holder.take() {
            client.link.take();
        }
    }

    /// Closes a prepared statement with the next command that is sent.
    pub(crate) fn close_statement(&self, id: u32) {
        put_packet_with(&mut self.ahead.borrow_mut(), 0, |out| statement::put_close(id, out));
    }

    /// Sends now what was to go with the next command.
    pub(crate) fn send_ahead(&self) {
        let ahead = self.ahead.take();
        if !ahead.is_empty() {
            self.send(&ahead);
        }
    }

    /// Sends bytes. What the socket does not take at once is kept and sent by the link's task.
    pub(crate) fn send(&self, bytes: &[u8]) {
        self.after_sending(&self.outbox.send(&self.stream, bytes));
    }

    /// Sends a command's payload behind one header, however long it is: in as many packets as it takes.
    pub(crate) fn send_joined(&self, joined: &[u8]) {
        let payload = &joined[HEADER..];
        if payload.len() < PAYLOAD_MAX {
            return self.send(joined);
        }
        for (header, part) in frame::packets(payload, 0) {
            self.send(&header.encode());
            self.send(part);
        }
    }

    /// Keeps what is sent from now on, until [`Self::uncork`].
    pub(crate) fn cork(&self) {
        self.outbox.cork();
    }

    /// Sends what was kept, in one write.
    pub(crate) fn uncork(&self) {
        self.after_sending(&self.outbox.uncork(&self.stream));
    }

    /// Sends all that this sends in one write.
    pub(crate) fn in_one_write<R>(&self, send: impl FnOnce() -> R) -> R {
        let is_inner = self.outbox.is_corked();
        self.cork();
        let result = send();
        if !is_inner {
            self.uncork();
        }
        result
    }

    fn after_sending(&self, taken: &io::Result<bool>) {
        // On an error the link's task reads what the server may have said before it closed, then ends.
        if matches!(taken, Ok(false)) {
            self.wake();
        }
    }

    /// Whether all that is in flight leaves the last insert id as it is, so that it can be asked for behind that.
    pub(crate) fn can_be_asked(&self) -> bool {
        !self.is_closing() && self.flights.borrow().iter().all(|flight| flight.keeps_insert_id())
    }

    /// Whether so much is unsent that no more should be read from a client for it.
    pub(crate) fn is_full(&self) -> bool {
        self.outbox.len() >= OUTBOX_MAX
    }

    /// Whether some of what was sent is still here.
    pub(crate) fn owes_bytes(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Whether the reply in flight has something to say before more of it comes.
    pub(crate) fn owes_eof(&self) -> bool {
        self.flights.borrow().front().is_some_and(|flight| flight.follower.owes_eof())
    }

    /// Ends the link, whatever is in flight.
    pub(crate) fn close(&self) {
        self.life.set(Life::Closing);
        self.wake();
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.life.get() == Life::Closing
    }

    /// Whether a `KILL` for what runs on it is under way: a client that is served next could be hit.
    pub(crate) fn is_being_killed(&self) -> bool {
        self.kill.get() != Kill::None
    }

    /// Something may be left on it of which the server tells nothing.
    pub(crate) fn doubt(&self) {
        self.taint.set(self.taint.get().max(Taint::Doubtful));
    }

    /// It is not to be given back any more when it has answered.
    pub(crate) fn stay(&self) {
        if self.then.get() == Then::GiveBack {
            self.then.set(Then::Stay);
        }
    }

    /// No client has it: it goes back when it has answered what it is asked, unless it is to be closed then.
    pub(crate) fn give_back_later(&self) {
        self.then.set(self.then.get().max(Then::GiveBack));
    }

    pub(crate) fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Whether what the server says cannot go on because its client does not take it.
    pub(crate) fn is_held_up(&self) -> bool {
        if self.set_down.get() == SetDown::Unread {
            return true;
        }
        let is_draining = |client: &Rc<Client>| client.is_draining();
        match self.flights.borrow().front() {
            // Who has still to take another reply is not asked for yet.
            Some(flight) if !flight.follower.has_begun() => false,
            Some(flight) => flight.client.as_ref().is_some_and(is_draining),
            // A server that speaks out of turn must not fill the memory either.
            None => self.holder.borrow().as_ref().is_some_and(is_draining),
        }
    }

    /// Waits until there is something to read. An error ends the link.
    fn poll_event(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.register(context);
        if self.is_closing() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        if self.outbox.is_draining(&self.stream) {
            // An error of writing is no reason to stop reading.
            let _ = self.poll_flush(context);
        } else if self.leaves_for.get().is_some() && self.flights.borrow().is_empty() {
            return Poll::Ready(Ok(()));
        }
        if self.is_held_up() {
            return Poll::Pending;
        }
        self.stream.poll_readable(context)
    }

    fn poll_flush(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let was_full = self.is_full();
        let result = self.outbox.poll_flush(&self.stream, context);
        // Not the client in flight: a value that comes in pieces of its own awaits no reply.
        if was_full
            && !self.is_full()
            && let Some(client) = &*self.holder.borrow()
        {
            if client.turn.get() == Turn::Server {
                whole::sent(client);
            }
            // Its time for the next step begins: it was not asked for more.
            if client.input.upload.get().is_some() {
                client.input.begin_upload();
            }
            client.wake();
        }
        result
    }

    fn register(&self, context: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        match &mut *waker {
            Some(waker) => waker.clone_from(context.waker()),
            None => *waker = Some(context.waker().clone()),
        }
    }
}

/// Serves a link until it ends.
pub(crate) async fn serve(worker: Rc<Worker>, link: Rc<Link>) {
    loop {
        let event = poll_fn(|context| link.poll_event(context)).await;
        crate::turns::see_ready();
        if event.is_err() {
            break;
        }
        if let Some(to) = link.leaves_for.get()
            && link.flights.borrow().is_empty()
        {
            return transfers::depart(&worker, link, to);
        }
        if !replies::read(&worker, &link) {
            break;
        }
    }
    if let Some(to) = link.leaves_for.take() {
        worker.at(link.server).gate.borrow_mut().not_sent(to);
    }
    losses::end(&worker, &link);
}
