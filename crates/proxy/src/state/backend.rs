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
use crate::state::fate::{Fate, Life};
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
    pub(crate) origin: Origin,
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
    pub(crate) taint: Cell<Taint>,
    pub(crate) fate: Fate,
    /// It is being asked for its client's diagnostics before it is taken.
    pub(crate) capture: RefCell<Option<in_flight::Answers>>,
    pub(crate) written: BackendWrites,
    pub(crate) bytes: BackendBytes,
    waker: RefCell<Option<Waker>>,
}

/// Where it comes from.
pub(crate) struct Origin {
    pub(crate) opened: Instant,
    /// Before this moment its age is no matter.
    pub(crate) young_until: Instant,
    /// When its login began: rights that have changed since are not the ones that it has.
    pub(crate) era: Era,
    /// The places of its pass-through client under the bounds of its user.
    pub(crate) places: RefCell<Vec<ReservedPlace>>,
}

impl Origin {
    fn new(now: Instant) -> Self {
        Self { opened: now, young_until: now, era: Era::default(), places: RefCell::default() }
    }
}

/// What is on its way to the server, and from it.
#[derive(Default)]
pub(crate) struct BackendBytes {
    /// Commands without replies that go ahead of the next statement.
    pub(crate) ahead: RefCell<Vec<u8>>,
    /// The unfinished packet at the end of what was read.
    pub(crate) unread: RefCell<Vec<u8>>,
    /// How many were sent since that was counted.
    pub(crate) sent: Cell<u64>,
    /// What the socket has not taken yet.
    outbox: Outbox,
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
            origin: Origin::new(crate::worker::clock::now()),
            in_flight: RefCell::default(),
            slot: Cell::new(None),
            session: RefCell::default(),
            known: RefCell::default(),
            holder: RefCell::default(),
            set_down: Cell::default(),
            taint: Cell::default(),
            fate: Fate::default(),
            capture: RefCell::default(),
            written: BackendWrites::default(),
            bytes: BackendBytes::default(),
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
        client.routing.server.set(self.server);
        *client.backend.borrow_mut() = Some(Rc::clone(self));
    }

    /// Shows a client on which backend its statement is, without giving it the backend.
    pub(crate) fn board(self: &Rc<Self>, client: &Client) {
        client.routing.server.set(self.server);
        *client.backend.borrow_mut() = Some(Rc::clone(self));
    }

    /// Takes the backend from its client.
    pub(crate) fn release(&self) {
        self.fate.is_wanted.set(false);
        if let Some(client) = self.holder.take() {
            client.backend.take();
        }
    }

    /// Closes a prepared statement with the next command that is sent.
    pub(crate) fn close_statement(&self, id: u32) {
        put_packet_with(&mut self.bytes.ahead.borrow_mut(), 0, |out| statement::put_close(id, out));
    }

    /// Sends now what was to go with the next command.
    pub(crate) fn send_ahead(&self) {
        let ahead = self.bytes.ahead.take();
        if !ahead.is_empty() {
            self.send(&ahead);
        }
    }

    /// Sends bytes. What the socket does not take at once is kept and sent by the backend's task.
    pub(crate) fn send(&self, bytes: &[u8]) {
        step!("send");
        self.bytes.sent.update(|sent| sent + bytes.len() as u64);
        self.after_sending(&self.bytes.outbox.send(&self.stream, bytes));
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
        self.bytes.outbox.cork();
    }

    /// Sends what was kept, in one write.
    pub(crate) fn uncork(&self) {
        self.after_sending(&self.bytes.outbox.uncork(&self.stream));
    }

    /// Sends all that this sends in one write.
    pub(crate) fn in_one_write<R>(&self, send: impl FnOnce() -> R) -> R {
        let is_inner = self.bytes.outbox.is_corked();
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
        self.bytes.outbox.len() >= OUTBOX_MAX
    }

    /// Whether some of what was sent is still here.
    pub(crate) fn owes_bytes(&self) -> bool {
        !self.bytes.outbox.is_empty()
    }

    /// Ends the backend, whatever is in flight.
    pub(crate) fn close(&self) {
        self.fate.life.set(Life::Closing);
        self.wake();
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.fate.life.get() == Life::Closing
    }

    /// Whether its age need not be looked at.
    pub(crate) fn is_young(&self, now: Instant) -> bool {
        now < self.origin.young_until
    }

    /// Something may be left on it of which the server tells nothing.
    pub(crate) fn doubt(&self) {
        self.taint.set(self.taint.get().max(Taint::Doubtful));
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
        match self.fate.life.get() {
            Life::Closing | Life::Departed => {
                return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
            }
            Life::Departing => return Poll::Pending,
            Life::Open | Life::Farewell => {}
        }
        if self.bytes.outbox.is_draining(&self.stream) {
            // An error of writing is no reason to stop reading.
            let _ = self.poll_flush(context);
        } else if self.fate.leaves_for.get().is_some() && self.in_flight.borrow().is_empty() {
            return Poll::Ready(Ok(()));
        }
        if self.is_held_up() {
            return Poll::Pending;
        }
        self.stream.poll_readable(context)
    }

    fn poll_flush(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let was_full = self.is_full();
        let result = self.bytes.outbox.poll_flush(&self.stream, context);
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
