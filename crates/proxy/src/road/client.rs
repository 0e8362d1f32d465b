//! One client: its socket, its session, and whose turn it is. Its task waits for the socket and does what comes.
//!
//! A client that rests owns no buffer. Its task is woken by its socket only: a reply is written by the link's task,
//! and the client's task hears of it only if it has something left to do.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use engine::account::name::UserName;
use engine::classes::ClassId;
use engine::counts::{self, Finds};
use engine::fleet::writes::Writes;
use engine::gate::Waiting;
use engine::intent::{Digest, Ends, Inserts, LooksUp, Sets};
use engine::rights::{Change, Prepared};
use engine::session::{Messages, Session};
use engine::source::Source;
use engine::upload::Progress;
use engine::variables::Assignment;
use link::Stream;
use wire::Capabilities;
use wire::frame::Extent;
use wire::passage::Passage;

use crate::config::Mode;
use crate::links::keys::KeyId;
use crate::links::{Link, Shown};
use crate::outbox::Outbox;
use crate::road;
use crate::road::admit;
use crate::road::change_user;
use crate::road::own_id::Reads;
use crate::road::pins::{Leaves, Pinned};
use crate::road::prepared::InHand;
use crate::road::whole::Reserved;
use crate::servers::ServerId;
use crate::tally::Asked;
use crate::worker::Worker;

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The client may send a command.
    Client,
    /// Its command waits in line for a slot or a link.
    Line,
    /// Its link is being told what its command needs.
    Preparation,
    /// The server works, or answers.
    Server,
    /// A long command waits until there is room for it; see [`crate::road::whole`].
    Memory,
}

/// A client that has logged in.
pub(crate) struct Client {
    pub(crate) id: u32,
    pub(crate) stream: Stream,
    pub(crate) capabilities: Capabilities,
    pub(crate) user: RefCell<UserName>,
    /// Which links serve it, if it is pooled. A carried client has one of its own.
    pub(crate) key: Cell<Option<KeyId>>,
    pub(crate) session: RefCell<Session>,
    pub(crate) turn: Cell<Turn>,
    pub(crate) link: RefCell<Option<Rc<Link>>>,
    /// The server of its link; without one, that which its last statement went to.
    pub(crate) server: Cell<ServerId>,
    /// Where its statements go, if there are several servers.
    pub(crate) mode: Cell<Mode>,
    /// Where it has written, if that matters to where it reads.
    pub(crate) writes: RefCell<Writes>,
    /// The server that has just failed the command in hand.
    pub(crate) avoids: Cell<Option<ServerId>>,
    /// Since when the command in hand is held back.
    pub(crate) stranded: Cell<Option<Instant>>,
    pub(crate) waiting: Cell<Option<Waiting<KeyId>>>,
    /// The command that waits or is being prepared for: all of it, or its first piece.
    pub(crate) held: RefCell<Vec<u8>>,
    /// The room of a long command that is read as a whole.
    pub(crate) reserved: RefCell<Option<Reserved>>,
    /// What the client still has to send for the command in hand.
    pub(crate) upload: Cell<Option<Passage>>,
    /// How fast the command in hand comes, if not all of it was there at once.
    progress: Cell<Option<Progress>>,
    /// The turn comes back when the upload ends: there will be no reply.
    pub(crate) upload_ends_turn: Cell<bool>,
    /// The statement in hand, for those who count what statements cost.
    pub(crate) asked: Cell<Option<Asked>>,
    /// The command in hand reads the session's last insert id.
    pub(crate) asks_insert_id: Cell<bool>,
    /// The command in hand shows that among others, if it is known.
    pub(crate) shows_variables: Cell<bool>,
    /// The command in hand may read the number of its connection out of sight; see [`crate::road::own_id`].
    pub(crate) reads_number: Cell<Reads>,
    /// The command in hand gives its connection another number.
    pub(crate) sets_number: Cell<bool>,
    pub(crate) inserts: Cell<Inserts>,
    pub(crate) finds: Cell<Finds>,
    /// Its session is beginning anew on the link that it keeps.
    pub(crate) is_reset: Cell<bool>,
    /// What becomes of the count of rows affected if it fails.
    pub(crate) looks_up: Cell<LooksUp>,
    /// What kind of statement the command in hand is, if that is known.
    pub(crate) kind: Cell<Option<Digest>>,
    /// The same, if all it does is to read. See [`crate::road::ahead`].
    pub(crate) read: Cell<Option<Digest>>,
    /// The class of what it asks, unless the command in hand names another one.
    pub(crate) class: Cell<ClassId>,
    /// Where it came from, as it or a proxy before Flifo has said; `None`: by a Unix socket.
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) named_class: Cell<Option<ClassId>>,
    /// What the command in hand sets, if that is all it does.
    pub(crate) sets: Cell<Option<Sets>>,
    /// The command in hand may take a schema, or a right to one, from somebody.
    pub(crate) alters: Cell<bool>,
    /// What the command in hand does to rights.
    pub(crate) change: RefCell<Option<Rc<Change>>>,
    /// Those that it has prepared by name.
    pub(crate) prepared_changes: RefCell<Prepared>,
    /// The command in hand changes nothing that anybody could read, although it is no mere read.
    pub(crate) is_still: Cell<bool>,
    /// What the command in hand does with the messages of those before it.
    pub(crate) messages: Cell<Messages>,
    /// The command in hand adds to them: its link is asked for them first.
    pub(crate) adds: Cell<bool>,
    /// How many of them its OK tells, if not those of the link.
    pub(crate) carried: Cell<Option<u16>>,
    /// The messages that the command in hand asks for, if its link does not have them.
    pub(crate) shown: RefCell<Option<Shown>>,
    /// The link that it keeps has said in what mode it is, and nothing was sent since.
    pub(crate) told_mode: Cell<bool>,
    /// The user variables that the command in hand sets, if that is all it does.
    pub(crate) assigns: RefCell<Vec<Assignment>>,
    /// What the prepared statement in hand is executed by, if its own text would not tell it what it asks for.
    pub(crate) instead: RefCell<Option<Rc<Source>>>,
    /// The prepared statement that the command in hand names.
    pub(crate) in_hand: Cell<Option<InHand>>,
    /// What becomes of the link behind the command in hand.
    pub(crate) leaves: Cell<Leaves>,
    /// How often the command in hand was sent once more; see [`crate::road::prepared`].
    pub(crate) again: Cell<u8>,
    /// It waits until a link that others use has said what its last insert id is.
    pub(crate) awaits_insert_id: Cell<bool>,
    /// It waits until the link that it has has answered; see [`crate::road::parting`].
    pub(crate) awaits_link: Cell<bool>,
    /// The server ends the connection with the statement in hand.
    pub(crate) releases: Cell<bool>,
    /// What becomes of its transaction, should nobody answer the statement in hand.
    pub(crate) ends: Cell<Ends>,
    /// What `ROW_COUNT()` must be when the statement in hand begins, if its link has to be told.
    pub(crate) affected: Cell<Option<i64>>,
    /// What of its counts the link that it has knows, and the statement in hand asks for.
    pub(crate) asks_link: Cell<counts::Asked>,
    /// The GTID of its last write, as the server has reported it.
    pub(crate) gtid: RefCell<Box<[u8]>>,
    /// Why it keeps its link, and since when.
    pub(crate) pinned: Cell<Option<Pinned>>,
    /// Whether a text may hold several statements, if the client has said so since its login (`COM_SET_OPTION`).
    pub(crate) several: Cell<Option<bool>>,
    /// The command in hand completes the login; its reply has this sequence id.
    pub(crate) login_sequence: Cell<Option<u8>>,
    /// In how many packets the command in hand came, if it is all there: its reply's sequence ids follow theirs.
    pub(crate) packets: Cell<u8>,
    /// What proves a change of user, until the client's task deals with it.
    change_of_user: RefCell<Option<Vec<u8>>>,
    /// When the turn last changed.
    pub(crate) turned: Cell<Instant>,
    /// Bytes that came behind the command in hand.
    more: RefCell<Vec<u8>>,
    /// The end of a reply that the client has not taken yet.
    outbox: Outbox,
    /// The turn passes to the client once the outbox is empty.
    turn_follows: Cell<bool>,
    /// The socket became readable while it was not the client's turn.
    unread: Cell<bool>,
    /// `more` has not been looked at since the turn came back.
    unseen: Cell<bool>,
    closing: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// What a client's task must do.
#[derive(Debug)]
enum Event {
    /// The socket has bytes for us.
    Read,
    /// Bytes that were read earlier are next.
    Resume,
    /// The client has taken what was left of a reply.
    Drained,
    /// The client wants to be another user; this is its command.
    ChangeUser(Vec<u8>),
    /// The client is gone, or Flifo has ended it.
    End,
}

impl Client {
    pub(crate) fn new(login: Login) -> Self {
        Self {
            id: login.id,
            stream: login.stream,
            capabilities: login.capabilities,
            user: RefCell::new(login.user),
            key: Cell::new(login.key),
            session: RefCell::new(login.session),
            turn: Cell::new(Turn::Client),
            server: Cell::new(login.server),
            mode: Cell::new(login.mode),
            writes: RefCell::default(),
            avoids: Cell::new(None),
            stranded: Cell::new(None),
            link: RefCell::new(login.link),
            waiting: Cell::new(None),
            held: RefCell::default(),
            reserved: RefCell::default(),
            upload: Cell::new(None),
            progress: Cell::new(None),
            upload_ends_turn: Cell::new(false),
            asked: Cell::new(None),
            asks_insert_id: Cell::new(false),
            shows_variables: Cell::new(false),
            reads_number: Cell::default(),
            sets_number: Cell::new(false),
            inserts: Cell::new(Inserts::No),
            kind: Cell::new(None),
            finds: Cell::default(),
            is_reset: Cell::default(),
            told_mode: Cell::default(),
            looks_up: Cell::default(),
            read: Cell::new(None),
            class: Cell::new(login.class),
            peer: login.peer,
            named_class: Cell::new(None),
            sets: Cell::new(None),
            alters: Cell::new(false),
            change: RefCell::default(),
            prepared_changes: RefCell::default(),
            is_still: Cell::new(false),
            messages: Cell::default(),
            adds: Cell::new(false),
            carried: Cell::new(None),
            instead: RefCell::default(),
            shown: RefCell::default(),
            assigns: RefCell::default(),
            in_hand: Cell::new(None),
            leaves: Cell::default(),
            again: Cell::new(0),
            awaits_link: Cell::new(false),
            releases: Cell::new(false),
            ends: Cell::default(),
            awaits_insert_id: Cell::new(false),
            affected: Cell::new(None),
            asks_link: Cell::default(),
            gtid: RefCell::default(),
            pinned: Cell::new(None),
            several: Cell::default(),
            login_sequence: Cell::new(login.sequence),
            packets: Cell::new(1),
            change_of_user: RefCell::default(),
            turned: Cell::new(crate::clock::now()),
            unseen: Cell::new(!login.more.is_empty()),
            more: RefCell::new(login.more),
            outbox: Outbox::default(),
            turn_follows: Cell::new(false),
            unread: Cell::new(false),
            closing: Cell::new(false),
            waker: RefCell::default(),
        }
    }

    pub(crate) const fn is_pooled(&self) -> bool {
        self.key.get().is_some()
    }

    /// Its session has a schema now, or has none any more: links that have one serve no client that has none.
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

    pub(crate) fn link(&self) -> Option<Rc<Link>> {
        self.link.borrow().clone()
    }

    pub(crate) fn set_turn(&self, turn: Turn) {
        self.turn.set(turn);
        self.turned.set(crate::clock::now());
    }

    /// The sequence id of the first packet of the reply to the command in hand. A login is over with that.
    pub(crate) fn take_sequence(&self) -> u8 {
        self.login_sequence.take().unwrap_or_else(|| self.packets.get())
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

    /// Keeps part of a reply that goes with what is written next, in this turn of the loop.
    pub(crate) fn write_with_next(&self, bytes: &[u8]) {
        self.outbox.cork();
        // A corked outbox only keeps.
        let _: std::io::Result<bool> = self.outbox.send(&self.stream, bytes);
    }

    /// Writes the end of a reply; the turn passes to the client when it has taken all.
    pub(crate) fn write_last(&self, bytes: &[u8]) {
        if self.write(bytes) {
            self.give_turn();
        } else {
            self.turn_follows.set(true);
        }
    }

    /// Ends the client as soon as it has taken what was written so far.
    pub(crate) fn close(&self) {
        self.closing.set(true);
        self.wake();
    }

    pub(crate) const fn is_closing(&self) -> bool {
        self.closing.get()
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.outbox.is_draining(&self.stream)
    }

    /// How long the client has taken nothing of what is left for it.
    pub(crate) fn stalled_for(&self, now: Instant) -> Duration {
        self.outbox.stalled_for(now)
    }

    /// How many packets of an unfinished command are there: an error in its answer's place is numbered behind them.
    pub(crate) fn packets_sent(&self) -> u8 {
        Extent::of(&self.more.borrow()).packets().max(1) as u8
    }

    /// Takes what was read before its turn.
    pub(crate) fn take_more(&self) -> Vec<u8> {
        self.more.take()
    }

    /// Keeps bytes for later. `seen`: they are an unfinished command, so only more bytes help.
    pub(crate) fn keep_more(&self, bytes: &[u8], seen: bool) {
        if !bytes.is_empty() {
            *self.more.borrow_mut() = bytes.to_vec();
        }
        self.unseen.set(!seen && !bytes.is_empty());
    }

    /// Keeps the beginning of a command until more of it comes.
    pub(crate) fn keep_unfinished(&self, bytes: &[u8]) {
        self.keep_more(bytes, true);
        if !bytes.is_empty() && self.progress.get().is_none() {
            self.begin_upload();
        }
    }

    /// Keeps an unfinished command for later, without a copy.
    pub(crate) fn put_more(&self, bytes: Vec<u8>) {
        *self.more.borrow_mut() = bytes;
        self.unseen.set(false);
    }

    /// From now on, the client is expected to send what is missing of its command.
    pub(crate) fn begin_upload(&self) {
        self.progress.set(Some(Progress::begin(crate::clock::now())));
    }

    /// So much has come, if something was missing.
    pub(crate) fn see_upload(&self, bytes: usize) {
        if let Some(mut progress) = self.progress.get() {
            progress.see(bytes, crate::clock::now());
            self.progress.set(Some(progress));
        }
    }

    pub(crate) fn end_upload(&self) {
        self.progress.set(None);
    }

    /// Whether something is missing of the client's command.
    pub(crate) fn is_sending(&self) -> bool {
        self.progress.get().is_some()
    }

    /// How the rest of a command comes that the client is expected to send.
    pub(crate) fn progress(&self) -> Option<Progress> {
        let progress = self.progress.get()?;
        let is_full = self.link.borrow().as_ref().is_some_and(|link| link.is_full());
        if self.waiting.get().is_some() || self.turn.get() == Turn::Server && is_full {
            // It is not asked for more: its time begins when it is.
            self.begin_upload();
            return None;
        }
        Some(progress)
    }

    /// Forgets what the client has not taken.
    pub(crate) fn drop_outbox(&self) {
        self.outbox.clear();
    }

    /// Has the client's task check the password for another user.
    pub(crate) fn begin_change_of_user(&self, payload: &[u8]) {
        *self.change_of_user.borrow_mut() = Some(payload.to_vec());
        self.set_turn(Turn::Preparation);
        self.wake();
    }

    /// Forgets what was in hand: what a carried client asks for is known to the server alone.
    pub(crate) fn forget_command(&self) {
        self.kind.set(None);
        self.read.set(None);
        self.sets.set(None);
        self.alters.set(false);
        self.is_still.set(false);
        self.in_hand.set(None);
        self.leaves.set(Leaves::default());
        self.messages.set(Messages::default());
        self.carried.set(None);
        self.releases.set(false);
        self.ends.set(Ends::default());
        self.asks_insert_id.set(false);
        self.inserts.set(Inserts::No);
        self.finds.set(Finds::default());
        self.looks_up.take();
        self.affected.set(None);
        self.asks_link.set(counts::Asked::default());
        self.shown.take();
        self.instead.take();
        self.assigns.take();
        self.gtid.take();
    }

    pub(crate) fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Its last command was a long one, perhaps.
    pub(crate) fn give_room_back(&self) {
        if self.reserved.borrow().is_some() {
            self.reserved.take();
        }
    }

    pub(crate) fn give_turn(&self) {
        self.set_turn(Turn::Client);
        self.give_room_back();
        if self.unread.get() || self.unseen.get() {
            self.wake();
        }
    }

    fn poll_event(&self, context: &mut Context<'_>) -> Poll<Event> {
        self.register(context);
        if self.is_draining() {
            match self.outbox.poll_flush(&self.stream, context) {
                Poll::Ready(Ok(())) => return Poll::Ready(Event::Drained),
                Poll::Ready(Err(_)) => return Poll::Ready(Event::End),
                Poll::Pending => return self.poll_gone(context),
            }
        }
        if self.closing.get() {
            return Poll::Ready(Event::End);
        }
        let may_send = match self.turn.get() {
            Turn::Client => true,
            Turn::Server => self.upload.get().is_some() && self.waiting.get().is_none(),
            _ => false,
        };
        // Back-pressure: the server takes its time. In a client's turn it may lag behind with
        // commands that it does not answer.
        let may_read = may_send && self.link().is_none_or(|link| !link.is_full());
        if may_read && self.unseen.get() {
            return Poll::Ready(Event::Resume);
        }
        if !may_read {
            if let Some(payload) = self.change_of_user.take() {
                return Poll::Ready(Event::ChangeUser(payload));
            }
            return self.poll_gone(context);
        }
        if self.unread.replace(false) {
            return Poll::Ready(Event::Read);
        }
        match ready!(self.stream.poll_readable(context)) {
            Ok(()) => Poll::Ready(Event::Read),
            Err(_) => Poll::Ready(Event::End),
        }
    }

    /// Waits for the client to go away while it is not its turn. What it sends early stays in the kernel.
    fn poll_gone(&self, context: &mut Context<'_>) -> Poll<Event> {
        // Once more after clearing, to be woken by what comes next. Buffered TLS records cannot be cleared.
        for _ in 0..2 {
            if ready!(self.stream.poll_readable(context)).is_err() || self.stream.hung_up() {
                return Poll::Ready(Event::End);
            }
            self.unread.set(true);
            self.stream.clear_readable();
        }
        Poll::Pending
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
    pub(crate) session: Session,
    pub(crate) link: Option<Rc<Link>>,
    pub(crate) server: ServerId,
    pub(crate) mode: Mode,
    /// Bytes that came behind the login.
    pub(crate) more: Vec<u8>,
    /// The login ends with the reply to a command, whose sequence id must be this.
    pub(crate) sequence: Option<u8>,
}

/// Serves a client until it goes.
pub(crate) async fn serve(worker: Rc<Worker>, client: Rc<Client>) {
    loop {
        let event = poll_fn(|context| client.poll_event(context)).await;
        crate::turns::see_ready();
        match event {
            Event::Read => road::read(&worker, &client),
            Event::Resume => {
                client.unseen.set(false);
                let mut bytes = client.take_more();
                road::handle(&worker, &client, &mut bytes);
            }
            Event::Drained => {
                if client.turn_follows.replace(false) {
                    client.give_turn();
                }
                if let Some(link) = client.link() {
                    admit::come_back(&worker, &client, &link);
                    link.wake();
                }
            }
            Event::ChangeUser(payload) => {
                // Boxed, and not built into this loop, as logins are.
                let change: Pin<Box<dyn Future<Output = ()>>> =
                    Box::pin(change_user::run(&worker, &client, &payload));
                change.await;
            }
            Event::End => break,
        }
    }
    road::end(&worker, &client);
}
