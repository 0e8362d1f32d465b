//! One client: its socket, its session, and what it is doing.
//!
//! A client that rests owns no buffer. Its task ([`crate::frontend::client_task`]) is woken by its socket only: a reply
//! is written by the backend's task, and the client's task hears of it only if it has something left to do.
//!
//! Here are also what a login hands over ([`Login`]), and a statement that is held back ([`Stranded`]).

use std::cell::{Cell, Ref, RefCell, RefMut};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use backend::Stream;
use engine::account::name::UserName;
use engine::classes::ClassId;
use engine::cluster::past::Past;
use engine::gate::Ask;
use engine::intent::Digest;
use engine::pin::Pin;
use engine::rights::PreparedChanges;
use engine::session::Session;
use engine::time_limits::PassedLimit;
use engine::upload::Progress;
use wire::Capabilities;

use crate::cluster::members::ClusterId;
use crate::cluster::pasts::Common;
use crate::cluster::servers::ServerId;
use crate::config::Mode;
use crate::pool::keys::KeyId;
use crate::records::{LoggedClient, SlowClient};
use crate::state::backend::Backend;
use crate::state::came_by::{CameBy, KnownView};
use crate::state::client_state::ClientState;
use crate::state::command::{Awaits, Command};
use crate::state::doing::{Doing, Ticket};
use crate::state::input::Input;
use crate::state::memory::{Claimant, ReservedMemory};
use crate::worker::outbox::{Outbox, SharedBytes};
use crate::worker::seldom::Seldom;
use crate::worker::steps::step;

/// A client that has logged in.
pub(crate) struct Client {
    pub(crate) id: u32,
    pub(crate) stream: Stream,
    pub(crate) capabilities: Capabilities,
    /// Where it came from, as it or a proxy before Flifo has said; `None`: by a Unix socket.
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) user: RefCell<UserName>,
    /// Which backends serve it, if it is pooled. A pass-through client has one of its own.
    pub(crate) key: Cell<Option<KeyId>>,
    pub(crate) session: RefCell<Session>,
    doing: RefCell<Doing>,
    pub(crate) times: ClientTimes,
    pub(crate) backend: RefCell<Option<Rc<Backend>>>,
    pub(crate) routing: ClientRouting,
    /// The class of what it asks, unless a command names another one.
    pub(crate) class: Cell<ClassId>,
    /// Statements that change rights, which it has prepared by name.
    pub(crate) prepared_changes: Seldom<PreparedChanges>,
    /// Why it keeps its backend, and since when.
    pub(crate) pinned: Seldom<Pinned>,
    /// Whether a text may hold several statements, if the client has said so since its login (`COM_SET_OPTION`).
    pub(crate) several: Cell<Option<bool>>,
    pub(crate) input: Input,
    /// What logs have of it.
    pub(crate) logged: LoggedClient,
    /// The end of a reply that the client has not taken yet.
    outbox: Outbox,
    course: Cell<Course>,
    waker: RefCell<Option<Waker>>,
}

/// Where its statements go: what servers, clusters and rules go by.
pub(crate) struct ClientRouting {
    pub(crate) mode: Cell<Mode>,
    /// The server of its backend; without one, that which its last statement went to.
    pub(crate) server: Cell<ServerId>,
    /// What one of `[[routes]]` has said of it at its login.
    pub(crate) routed: Cell<Option<Routed>>,
    /// The cluster that serves it, and the one of its user.
    pub(crate) cluster: Cell<ClusterId>,
    pub(crate) home: Cell<ClusterId>,
    /// Further clusters that it has come to.
    pub(crate) visits: Seldom<Visits>,
    /// What rules may ask for.
    pub(crate) came_by: CameBy,
    pub(crate) view: KnownView,
    /// What it has written and read, if that matters to where it reads.
    pub(crate) past: Seldom<Past>,
    /// The GTID of its last write, as the server has reported it.
    pub(crate) gtid: Seldom<Box<[u8]>>,
    /// What it has in common with others that count as one with it.
    pub(crate) common: Seldom<Common>,
}

/// What one of `[[routes]]` says of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Routed {
    /// So it is in all clusters.
    pub(crate) mode: Mode,
    /// In the place of its user's.
    pub(crate) cluster: Option<ClusterId>,
}

/// Clusters that are not its user's own.
#[derive(Debug, Default)]
pub(crate) struct Visits {
    /// Its account there was looked at.
    pub(crate) admitted: Vec<ClusterId>,
    /// It is to be looked at here.
    pub(crate) asked: Option<ClusterId>,
}

/// Since when a client does what it does.
pub(crate) struct ClientTimes {
    /// When it had logged in.
    pub(crate) came: Instant,
    /// When its state last changed.
    pub(crate) changed: Cell<Instant>,
    /// Since when its transaction is open; `None`: none was when it might last send a command.
    pub(crate) transaction: Cell<Option<Instant>>,
    /// A limit of time that it has passed, and that it has still to be told of.
    pub(crate) passed: Seldom<PassedLimit>,
    /// The rule whose limit that is.
    pub(crate) rule: Seldom<Box<str>>,
}

impl ClientTimes {
    fn new(now: Instant) -> Self {
        let (transaction, passed, rule) = (Cell::default(), Seldom::default(), Seldom::default());
        Self { came: now, changed: Cell::new(now), transaction, passed, rule }
    }
}

/// What becomes of a client when it is at rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Course {
    /// Its next command is read.
    #[default]
    GoesOn,
    /// It goes to the Flifo that takes over.
    Departs,
    /// It ends, as soon as it has taken what was written so far.
    Closes,
}

/// What a client's task must do.
#[derive(Debug)]
pub(crate) enum Event {
    /// The socket has bytes for us.
    Read,
    /// Bytes that were read earlier are next.
    Resume,
    /// The client has taken what was left of a reply.
    Drained,
    /// The client wants to be another user; this is its command.
    ChangeUser(Vec<u8>),
    /// Its statement waits for what its account in this cluster is.
    Visit(ClusterId),
    /// It sends nothing more, and its statement runs. It may still read the reply, or be gone: a socket does not tell.
    HalfClosed,
    /// The client is gone, or Flifo has ended it.
    End,
    /// Another process has it.
    Departed,
}

impl Client {
    pub(crate) fn new(login: Login) -> Self {
        Self {
            id: login.id,
            stream: login.stream,
            capabilities: login.capabilities,
            peer: login.peer,
            user: RefCell::new(login.user),
            key: Cell::new(login.key),
            session: RefCell::new(login.session),
            doing: RefCell::new(Doing::Reading),
            times: ClientTimes::new(crate::worker::clock::now()),
            backend: RefCell::new(login.backend),
            routing: ClientRouting {
                mode: Cell::new(login.mode),
                server: Cell::new(login.server),
                routed: Cell::new(login.routed),
                cluster: Cell::new(login.cluster),
                home: Cell::new(login.cluster),
                visits: Seldom::default(),
                came_by: login.came_by,
                view: KnownView::default(),
                past: Seldom::default(),
                gtid: Seldom::default(),
                common: Seldom::default(),
            },
            class: Cell::new(login.class),
            prepared_changes: Seldom::default(),
            pinned: Seldom::default(),
            several: Cell::default(),
            input: Input::new(login.more, login.sequence, login.vouched),
            logged: LoggedClient::new(crate::worker::clock::now()),
            outbox: Outbox::default(),
            course: Cell::default(),
            waker: RefCell::default(),
        }
    }

    /// Whether it shares backends, or would, if it need not keep one.
    pub(crate) fn is_pooled(&self) -> bool {
        self.has_key() && !self.is_alone()
    }

    /// Whether its backend is its own for good, and its commands go there unread; see [`crate::session::alone`].
    pub(crate) fn is_alone(&self) -> bool {
        self.pinned.with(|pinned| pinned.pin == Pin::Unreported).unwrap_or(false)
    }

    /// Whether Flifo has authenticated it, and can log in as its user.
    pub(crate) const fn has_key(&self) -> bool {
        self.key.get().is_some()
    }

    /// It goes on as another user.
    pub(crate) fn become_user(&self, name: UserName) {
        *self.user.borrow_mut() = name;
        self.routing.view.forget();
        self.routing.visits.take();
        self.routing.common.take();
    }

    /// Its session has a schema now, or has none any more: backends that have one serve no client that has none.
    pub(crate) fn rekey(&self) {
        let has_schema = self.session.borrow().schema.is_some();
        self.key.set(self.key.get().map(|key| key.with_schema(has_schema)));
    }

    /// What the client's protocol is by now: it may have changed its mind on texts of several statements.
    pub(crate) fn capabilities_now(&self) -> Capabilities {
        match self.several.get() {
            None => self.capabilities,
            Some(true) => self.capabilities | Capabilities::MULTI_STATEMENTS,
            Some(false) => self.capabilities.without(Capabilities::MULTI_STATEMENTS),
        }
    }

    /// What its command is to the gate.
    pub(crate) fn ask(&self, command: &Command) -> Ask {
        let class = command.class.unwrap_or_else(|| self.class.get());
        Ask::new(class, command.facts.kind)
    }

    pub(crate) fn backend(&self) -> Option<Rc<Backend>> {
        self.backend.borrow().clone()
    }

    pub(crate) fn state(&self) -> ClientState {
        self.doing.borrow().state()
    }

    /// Passes to another state. A client that leaves stays so: what would change it comes too late.
    pub(crate) fn become_state(&self, next: Doing) {
        self.go_on_as(next);
        self.times.changed.set(crate::worker::clock::now());
    }

    /// The same for what the client has done before: its time goes on.
    pub(crate) fn go_on_as(&self, next: Doing) {
        let state = self.state();
        if state != ClientState::Leaving {
            let next_state = next.state();
            debug_assert!(
                state == next_state || self.is_in_hand() || state.may_become(next_state),
                "{state:?} becomes {next_state:?}"
            );
            *self.doing.borrow_mut() = next;
        }
    }

    /// The command that waits, or that its backend is prepared for.
    pub(crate) fn command(&self) -> Option<Ref<'_, Command>> {
        Ref::filter_map(self.doing.borrow(), Doing::command).ok()
    }

    pub(crate) fn command_mut(&self) -> Option<RefMut<'_, Command>> {
        RefMut::filter_map(self.doing.borrow_mut(), Doing::command_mut).ok()
    }

    /// Takes it: it is in hand until the client's next state is known.
    pub(crate) fn take_command(&self) -> Option<Box<Command>> {
        self.doing.borrow_mut().take_command()
    }

    /// Whether a function has it that has not come to its end.
    pub(crate) fn is_in_hand(&self) -> bool {
        matches!(*self.doing.borrow(), Doing::InHand)
    }

    /// Its place in the queue.
    pub(crate) fn ticket(&self) -> Option<Ticket> {
        self.doing.borrow().ticket()
    }

    /// Has a client that runs wait for a slot again, or no more.
    pub(crate) fn set_ticket(&self, again: Option<Ticket>) {
        if let Doing::Running { ticket } = &mut *self.doing.borrow_mut() {
            *ticket = again;
        }
    }

    /// What the command that waits is waiting for.
    pub(crate) fn awaits(&self) -> Option<Awaits> {
        self.doing.borrow().awaits()
    }

    /// Has a command that waits wait until its client's backend has answered; then it is read again.
    pub(crate) fn await_backend(&self) {
        if let Some(command) = self.take_command() {
            self.become_state(Doing::Preparing { command, awaits: Awaits::Backend });
        }
    }

    /// The sequence id of the first packet of the reply to the command in hand. A login is over with that.
    pub(crate) fn take_sequence(&self) -> u8 {
        self.input.login_sequence.take().unwrap_or_else(|| self.input.packets.get())
    }

    /// Writes part of a reply. What the socket does not take at once is kept, and the answer is false: nothing more
    /// may be written until the client's task has drained it.
    pub(crate) fn write(&self, bytes: &[u8]) -> bool {
        let mut taken = self.outbox.send(&self.stream, bytes);
        if self.outbox.is_corked() {
            taken = self.outbox.uncork(&self.stream);
        }
        match taken {
            Ok(true) => true,
            Ok(false) => {
                self.wake();
                false
            }
            Err(_) => {
                // The client's task sees the same error and ends.
                self.close();
                true
            }
        }
    }

    /// Writes what others are written as well.
    pub(crate) fn write_shared(&self, bytes: &Rc<SharedBytes>) {
        match self.outbox.send_shared(&self.stream, bytes) {
            Ok(true) => {}
            Ok(false) => self.wake(),
            // The client's task sees the same error and ends.
            Err(_) => self.close(),
        }
    }

    /// Keeps part of a reply that goes with what is written next, in this iteration of the loop.
    pub(crate) fn write_with_next(&self, bytes: &[u8]) {
        self.outbox.cork();
        // A corked outbox only keeps.
        let _: std::io::Result<bool> = self.outbox.send(&self.stream, bytes);
    }

    /// Writes the end of a reply; when the client has taken all, it may send its next command.
    pub(crate) fn write_last(&self, bytes: &[u8]) {
        step!("out");
        if self.write(bytes) {
            self.await_command();
        } else if !self.is_closing() {
            self.become_state(Doing::Writing);
        }
    }

    /// Ends the client as soon as it has taken what was written so far.
    pub(crate) fn close(&self) {
        self.course.set(Course::Closes);
        self.wake();
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.course.get() == Course::Closes
    }

    /// It sends no command here any more, or does again.
    pub(crate) fn depart(&self, departs: bool) {
        if !self.is_closing() {
            self.course.set(if departs { Course::Departs } else { Course::GoesOn });
        }
    }

    pub(crate) fn departs(&self) -> bool {
        self.course.get() == Course::Departs
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.outbox.is_draining(&self.stream)
    }

    /// How long the client has taken nothing of what is left for it.
    pub(crate) fn stalled_for(&self, now: Instant) -> Duration {
        self.outbox.stalled_for(now)
    }

    /// How the rest of a command comes that the client is expected to send.
    pub(crate) fn progress(&self) -> Option<Progress> {
        let progress = self.input.progress()?;
        let is_full = self.backend.borrow().as_ref().is_some_and(|backend| backend.is_full());
        let is_unread = self.input.dropped.is_some() && self.state() != ClientState::Reading;
        let is_held_up = self.state() == ClientState::Running && is_full;
        if self.ticket().is_some() || is_held_up || is_unread {
            // It is not asked for more: its time begins when it is.
            self.input.begin_upload();
            return None;
        }
        Some(progress)
    }

    /// Forgets what the client has not taken.
    pub(crate) fn drop_outbox(&self) {
        self.outbox.clear();
    }

    /// The command in hand was sent, or will not be: what is not kept of it needs no room.
    pub(crate) fn end_claim(&self) {
        if self.command().is_none() {
            self.input.reserved.take();
        }
    }

    /// Has the client's task check the password for another user.
    pub(crate) fn begin_change_of_user(&self, payload: &[u8]) {
        self.become_state(Doing::ChangingUser { proof: Some(payload.to_vec()) });
        self.wake();
    }

    /// Whether its account in a cluster was looked at.
    pub(crate) fn is_admitted(&self, cluster: ClusterId) -> bool {
        let has_been_there = |visits: &mut Visits| visits.admitted.contains(&cluster);
        self.routing.home.get() == cluster
            || self.routing.visits.with(has_been_there).unwrap_or(false)
    }

    /// Has the client's task look at its account in a cluster.
    pub(crate) fn begin_visit(&self, cluster: ClusterId) {
        self.routing.visits.change(|visits| visits.asked = Some(cluster));
        self.wake();
    }

    pub(crate) fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Its command has been answered: it may send the next one.
    pub(crate) fn await_command(&self) {
        let is_open = self.session.borrow().in_transaction();
        if is_open != self.times.transaction.get().is_some() {
            // It began with what has just been answered.
            self.times.transaction.set(is_open.then(|| self.times.changed.get()));
        }
        self.become_state(Doing::Reading);
        self.tell_ended();
        self.input.give_room_back();
        if self.input.unread.get() || self.input.unseen.get() {
            self.wake();
        }
    }

    /// A command without a reply was sent; the next one may come when its last byte has passed.
    pub(crate) fn upload_silently(&self) {
        if self.input.is_part() {
            self.input.upload_ends_turn.set(true);
            self.input.begin_upload();
            self.become_state(Doing::RUNNING);
        }
    }

    /// The answer to its statement is over.
    pub(crate) fn tell_ended(&self) {
        let Some(ended) = self.logged.ended.take() else { return };
        ended.take(crate::worker::clock::now(), || SlowClient {
            id: self.id,
            user: String::from_utf8_lossy(self.user.borrow().as_bytes()).into_owned(),
            address: self.peer.map(|peer| peer.ip()),
            schema: self
                .session
                .borrow()
                .schema
                .as_ref()
                .map(|schema| String::from_utf8_lossy(schema).into_owned()),
        });
    }

    pub(crate) fn poll_event(&self, context: &mut Context<'_>) -> Poll<Event> {
        self.register(context);
        match self.state() {
            ClientState::Departing => return Poll::Pending,
            ClientState::Leaving => return Poll::Ready(Event::Departed),
            _ => {}
        }
        if self.is_draining() {
            match self.outbox.poll_flush(&self.stream, context) {
                Poll::Ready(Ok(())) => return Poll::Ready(Event::Drained),
                Poll::Ready(Err(_)) => return Poll::Ready(Event::End),
                Poll::Pending => return self.poll_gone(context),
            }
        }
        if self.is_closing() {
            return Poll::Ready(Event::End);
        }
        let may_send = match self.state() {
            ClientState::Reading => !self.departs(),
            ClientState::Running => self.input.upload.is_some() && self.ticket().is_none(),
            _ => false,
        };
        // Back-pressure: the server takes its time. While a client may send, it may lag behind with
        // commands that it does not answer.
        let may_read = may_send && self.backend().is_none_or(|backend| !backend.is_full());
        if may_read && self.input.unseen.get() {
            return Poll::Ready(Event::Resume);
        }
        if !may_read {
            if let Doing::ChangingUser { proof } = &mut *self.doing.borrow_mut()
                && let Some(payload) = proof.take()
            {
                return Poll::Ready(Event::ChangeUser(payload));
            }
            if let Some(cluster) = self.routing.visits.with(|it| it.asked.take()).flatten() {
                return Poll::Ready(Event::Visit(cluster));
            }
            return self.poll_gone(context);
        }
        if self.input.unread.replace(false) {
            return Poll::Ready(Event::Read);
        }
        match ready!(self.stream.poll_readable(context)) {
            Ok(()) => Poll::Ready(Event::Read),
            Err(_) => Poll::Ready(Event::End),
        }
    }

    /// Waits for the client to go away while it may not send. What it sends early stays in the kernel.
    fn poll_gone(&self, context: &mut Context<'_>) -> Poll<Event> {
        // Once more after clearing, to be woken by what comes next. Buffered TLS records cannot be cleared.
        for _ in 0..2 {
            if ready!(self.stream.poll_readable(context)).is_err() {
                return Poll::Ready(Event::End);
            }
            if self.stream.hung_up() {
                return self.poll_half_closed();
            }
            self.input.unread.set(true);
            self.stream.clear_readable();
        }
        Poll::Pending
    }

    /// The client has ended its side. What runs for it may still be answered, for a while.
    fn poll_half_closed(&self) -> Poll<Event> {
        let runs = matches!(
            self.state(),
            ClientState::Queued
                | ClientState::Stranded
                | ClientState::Preparing
                | ClientState::ChangingUser
                | ClientState::Running
                | ClientState::Sharing
                | ClientState::Writing
        );
        let was_known = self.input.half_closed.is_some();
        self.input.half_closed.set(Some(()));
        match (runs, was_known) {
            (false, _) => Poll::Ready(Event::End),
            (true, false) => Poll::Ready(Event::HalfClosed),
            (true, true) => Poll::Pending,
        }
    }

    fn register(&self, context: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        match &mut *waker {
            Some(waker) => waker.clone_from(context.waker()),
            None => *waker = Some(context.waker().clone()),
        }
    }
}

/// What a login has found out.
pub(crate) struct Login {
    pub(crate) id: u32,
    pub(crate) stream: Stream,
    pub(crate) capabilities: Capabilities,
    pub(crate) user: UserName,
    pub(crate) key: Option<KeyId>,
    pub(crate) class: ClassId,
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) came_by: CameBy,
    pub(crate) session: Session,
    pub(crate) backend: Option<Rc<Backend>>,
    pub(crate) server: ServerId,
    pub(crate) mode: Mode,
    pub(crate) routed: Option<Routed>,
    /// The cluster of its user.
    pub(crate) cluster: ClusterId,
    /// Bytes that came behind the login.
    pub(crate) more: Vec<u8>,
    /// The login ends with the reply to a command, whose sequence id must be this.
    pub(crate) sequence: Option<u8>,
    /// What that reply says to vouch for Flifo's certificate.
    pub(crate) vouched: Option<Vec<u8>>,
}

/// A client whose statement is held back.
pub(crate) struct Stranded {
    pub(crate) client: Rc<Client>,
    /// When it began to wait: what waits may be another statement by now.
    pub(crate) changed: Instant,
    pub(crate) until: Instant,
}

/// A client that is to end; see [`crate::upkeep::dismissed`].
pub(crate) struct Dismissed {
    pub(crate) client: Rc<Client>,
    pub(crate) why: WithoutIt,
    /// Then it ends, whatever it does.
    pub(crate) until: Instant,
}

/// What the configuration names no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WithoutIt {
    User,
    /// The server of a backend that the client cannot leave.
    Server,
}

impl Stranded {
    pub(crate) fn is_good(&self) -> bool {
        let client = &self.client;
        client.state() == ClientState::Stranded
            && client.times.changed.get() == self.changed
            && !client.is_closing()
    }
}

impl Claimant for Client {
    fn id(&self) -> u32 {
        self.id
    }

    fn admit(&self, room: ReservedMemory) {
        self.input.reserved.set(Some(room));
        self.become_state(Doing::Reading);
        self.input.begin_upload();
        self.wake();
    }
}

/// Why a client keeps its backend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pinned {
    pub(crate) pin: Pin,
    /// What kind of statement was the reason, where one was.
    pub(crate) digest: Option<Digest>,
    pub(crate) since: Instant,
}
