//! One backend as a worker uses it: its socket, the statements in flight on it, and what its server session is.
//!
//! Its task ([`crate::road::backend_task`]) reads replies; [`crate::road::replies`] follows them and writes
//! them straight to the clients they belong to. A statement is written by the task that has it at hand: its client's,
//! or that of a backend that has just become free.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use backend::Stream;
use engine::backend_session::BackendSession;
use engine::gate::Slot;
use engine::rights::Era;
use engine::session::setup::Purpose;
use engine::statements::Known;
use serde::{Deserialize, Serialize};
use wire::frame::{self, HEADER, PAYLOAD_MAX, put_packet_with};
use wire::{Capabilities, statement};

use crate::cluster::servers::{Server, ServerId};
use crate::pool::keys::KeyId;
use crate::state::client::Client;
use crate::state::client_state::{BackendState, ClientState};
use crate::state::in_flight::{self, InFlight};
use crate::state::writes::BackendWrites;
use crate::users::ReservedPlace;
use crate::worker::outbox::Outbox;
use crate::worker::steps::step;

/// A connection to the server.
pub(crate) struct Backend {
    /// Tells the backends of a worker apart.
    pub(crate) id: u64,
    pub(crate) server: ServerId,
    /// The server's id of this connection.
    pub(crate) thread_id: u32,
    pub(crate) stream: Stream,
    pub(crate) capabilities: Capabilities,
    /// Whether its server reports changes of its session; see [`crate::session::alone`].
    pub(crate) reports: bool,
    /// Which clients may share it; `None` for a pass-through client's own.
    pub(crate) key: Cell<Option<KeyId>>,
    /// The places of its pass-through client under the bounds of its user.
    pub(crate) places: RefCell<Vec<ReservedPlace>>,
    pub(crate) opened: Instant,
    /// Before this moment its age is no matter.
    pub(crate) young_until: Instant,
    /// When its login began: rights that have changed since are not the ones that it has.
    pub(crate) era: Era,
    pub(crate) in_flight: RefCell<VecDeque<Box<InFlight>>>,
    /// The slot of what runs on it.
    pub(crate) slot: Cell<Option<Slot>>,
    /// What its session at the server is.
    pub(crate) session: RefCell<BackendSession>,
    pub(crate) known: RefCell<Known>,
    /// The client that has it now, whether a statement runs or not.
    pub(crate) holder: RefCell<Option<Rc<Client>>>,
    /// Whether the slot of what runs on it was left, because its own client keeps the server waiting.
    pub(crate) set_down: Cell<SetDown>,
    pub(crate) kills: Cell<Kills>,
    pub(crate) taint: Cell<Taint>,
    /// What becomes of it when it has answered what Flifo has asked it.
    pub(crate) then: Cell<AfterAnswers>,
    /// Its server has moved: it is closed when it is put back.
    pub(crate) is_left_behind: Cell<bool>,
    /// Its client keeps it for messages only, was busy when another client needed one, and is asked at its statement's
    /// end.
    pub(crate) is_wanted: Cell<bool>,
    /// It goes to another worker, whose client has waited longer, or to another process; see [`crate::session::transfers`].
    pub(crate) leaves_for: Cell<Option<Destination>>,
    /// It is being asked for its client's messages before it is taken.
    pub(crate) capture: RefCell<Option<in_flight::Answers>>,
    /// Commands without replies that go ahead of the next statement.
    pub(crate) ahead: RefCell<Vec<u8>>,
    /// The unfinished packet at the end of what was read.
    pub(crate) unread: RefCell<Vec<u8>>,
    pub(crate) written: BackendWrites,
    /// Bytes that were sent since that was counted.
    pub(crate) sent: Cell<u64>,
    /// Bytes that the socket has not taken yet.
    outbox: Outbox,
    pub(crate) life: Cell<Life>,
    waker: RefCell<Option<Waker>>,
}

/// Where a connection goes that leaves its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    Worker(usize),
    /// The Flifo that takes over.
    Successor,
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
    /// It is on its way to the Flifo that takes over: nothing is read here.
    Departing,
    /// That Flifo has it.
    Departed,
}

/// Orders to kill what runs on a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kills {
    /// So many have not been answered.
    under_way: u32,
    /// The backend was put back meanwhile, and is free once all of them have been.
    is_put_back: bool,
}

/// What a backend's clients may have left on it that is undone before it is put back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Taint {
    #[default]
    Clean,
    /// A statement failed that may have fired triggers: an error tells nothing of what they have set.
    Doubtful,
    /// A routine may have left something.
    Soiled,
}

/// What becomes of a backend that has answered what Flifo has asked it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AfterAnswers {
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

/// While more than this is unsent, a client that streams has to wait.
const OUTBOX_MAX: usize = 64 << 10;

impl Backend {
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
            reports: true,
            key: Cell::new(key),
            places: RefCell::default(),
            opened: crate::worker::clock::now(),
            young_until: crate::worker::clock::now(),
            era: Era::default(),
            in_flight: RefCell::default(),
            slot: Cell::new(None),
            session: RefCell::default(),
            known: RefCell::default(),
            holder: RefCell::default(),
            set_down: Cell::default(),
            kills: Cell::default(),
            taint: Cell::default(),
            then: Cell::default(),
            is_left_behind: Cell::new(false),
            is_wanted: Cell::new(false),
            leaves_for: Cell::new(None),
            capture: RefCell::default(),
            ahead: RefCell::default(),
            unread: RefCell::default(),
            written: BackendWrites::default(),
            sent: Cell::new(0),
            outbox: Outbox::default(),
            life: Cell::default(),
            waker: RefCell::default(),
        }
    }

    /// What it is doing.
    pub(crate) fn state(&self) -> BackendState {
        if self.is_closing() {
            return BackendState::Closing;
        }
        let has_holder = self.holder.borrow().is_some();
        match self.in_flight.borrow().front() {
            None if has_holder => BackendState::Held,
            None => BackendState::Idle,
            Some(flight) => match flight.purpose {
                Purpose::Reset(_) => BackendState::Resetting,
                _ if flight.purpose.is_clients() => match flight.client {
                    Some(_) => BackendState::Busy,
                    None => BackendState::Draining,
                },
                _ if has_holder => BackendState::Preparing,
                _ => BackendState::Draining,
            },
        }
    }

    #[cfg(any(debug_assertions, feature = "simulation"))]
    pub(crate) fn has_slot(&self) -> bool {
        let slot = self.slot.take();
        let has = slot.is_some();
        self.slot.set(slot);
        has
    }

    /// Gives the backend to a client.
    pub(crate) fn hold_for(self: &Rc<Self>, client: &Rc<Client>) {
        let last = std::mem::replace(&mut self.session.borrow_mut().last_client, client.id);
        if last != client.id {
            client.session.borrow_mut().counts.lose(self.id);
        }
        *self.holder.borrow_mut() = Some(Rc::clone(client));
        client.server.set(self.server);
        *client.backend.borrow_mut() = Some(Rc::clone(self));
    }

    /// Shows a client on which backend its statement is, without giving it the backend.
    pub(crate) fn board(self: &Rc<Self>, client: &Client) {
        client.server.set(self.server);
        *client.backend.borrow_mut() = Some(Rc::clone(self));
    }

    /// Takes the backend from its client.
    pub(crate) fn release(&self) {
        self.is_wanted.set(false);
        if let Some(client) = self.holder.take() {
            client.backend.take();
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

    /// Sends bytes. What the socket does not take at once is kept and sent by the backend's task.
    pub(crate) fn send(&self, bytes: &[u8]) {
        step!("send");
        self.sent.update(|sent| sent + bytes.len() as u64);
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
        // On an error the backend's task reads what the server may have said before it closed, then ends.
        if matches!(taken, Ok(false)) {
            self.wake();
        }
    }

    /// Whether all that is in flight leaves the last insert id as it is, so that it can be asked for behind that.
    pub(crate) fn can_be_asked(&self) -> bool {
        !self.is_closing() && self.in_flight.borrow().iter().all(|flight| flight.keeps_insert_id())
    }

    /// Whether so much is unsent that no more should be read from a client for it.
    pub(crate) fn is_full(&self) -> bool {
        self.outbox.len() >= OUTBOX_MAX
    }

    /// Whether some of what was sent is still here.
    pub(crate) fn owes_bytes(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Ends the backend, whatever is in flight.
    pub(crate) fn close(&self) {
        self.life.set(Life::Closing);
        self.wake();
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.life.get() == Life::Closing
    }

    /// Whether its age need not be looked at.
    pub(crate) fn is_young(&self, now: Instant) -> bool {
        now < self.young_until
    }

    /// Whether a `KILL` for what runs on it is under way: a client that is served next could be hit.
    pub(crate) fn is_being_killed(&self) -> bool {
        self.kills.get().under_way > 0
    }

    /// One more `KILL` is under way.
    pub(crate) fn begin_kill(&self) {
        let kills = self.kills.get();
        self.kills.set(Kills { under_way: kills.under_way.saturating_add(1), ..kills });
    }

    /// One has been answered. The answer is whether the backend, which was put back meanwhile, is free now.
    pub(crate) fn end_kill(&self) -> bool {
        let kills = self.kills.get();
        let under_way = kills.under_way.saturating_sub(1);
        let is_free = under_way == 0 && kills.is_put_back;
        self.kills.set(Kills { under_way, is_put_back: kills.is_put_back && !is_free });
        is_free
    }

    /// It is put back while one is under way.
    pub(crate) fn put_back_behind_kills(&self) {
        self.kills.set(Kills { is_put_back: true, ..self.kills.get() });
    }

    /// Something may be left on it of which the server tells nothing.
    pub(crate) fn doubt(&self) {
        self.taint.set(self.taint.get().max(Taint::Doubtful));
    }

    /// It is not to be given back any more when it has answered.
    pub(crate) fn stay(&self) {
        if self.then.get() == AfterAnswers::GiveBack {
            self.then.set(AfterAnswers::Stay);
        }
    }

    /// No client has it: it goes back when it has answered what it is asked, unless it is to be closed then.
    pub(crate) fn give_back_later(&self) {
        self.then.set(self.then.get().max(AfterAnswers::GiveBack));
    }

    pub(crate) fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Whether it leads to where its server is no longer.
    pub(crate) fn leads_elsewhere(&self, server: &Server) -> bool {
        self.stream.peer_address().is_some_and(|peer| !server.place.is_at(peer))
    }

    /// Whether what the server says cannot go on because its client does not take it.
    pub(crate) fn is_held_up(&self) -> bool {
        if self.set_down.get() == SetDown::Unread {
            return true;
        }
        let is_draining = |client: &Rc<Client>| client.is_draining();
        match self.in_flight.borrow().front() {
            // Ignores a client that is still draining its previous reply.
            Some(flight) if !flight.follower.has_begun() => false,
            Some(flight) => flight.client.as_ref().is_some_and(is_draining),
            // A server that speaks out of turn must not fill the memory either.
            None => self.holder.borrow().as_ref().is_some_and(is_draining),
        }
    }

    /// Waits until there is something to read. An error ends the backend.
    pub(crate) fn poll_event(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.register(context);
        match self.life.get() {
            Life::Closing | Life::Departed => {
                return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
            }
            Life::Departing => return Poll::Pending,
            Life::Open | Life::Farewell => {}
        }
        if self.outbox.is_draining(&self.stream) {
            // An error of writing is no reason to stop reading.
            let _ = self.poll_flush(context);
        } else if self.leaves_for.get().is_some() && self.in_flight.borrow().is_empty() {
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
            if client.state() == ClientState::Running {
                client.end_claim();
            }
            // Its time for the next step begins: it was not asked for more.
            if client.input.upload.is_some() {
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
