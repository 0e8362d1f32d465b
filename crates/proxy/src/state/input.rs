//! What a client has sent and Flifo has not dealt with, and what is still missing of its command.

use std::cell::{Cell, RefCell};

use engine::upload::Progress;
use wire::frame::Extent;
use wire::passage::Passage;

use crate::state::memory::ReservedMemory;
use crate::worker::seldom::Seldom;

#[derive(Default)]
pub(crate) struct Input {
    /// Bytes that came behind the command in hand, or the beginning of the next one.
    more: RefCell<Vec<u8>>,
    /// Whether `more` has not been looked at since the client may send again.
    pub(crate) unseen: Cell<bool>,
    /// The socket became readable while the client might not send.
    pub(crate) unread: Cell<bool>,
    /// The room of a long command that is read as a whole.
    pub(crate) reserved: Seldom<ReservedMemory>,
    /// In how many packets the command in hand came, if it is all there: its reply's sequence ids follow theirs.
    pub(crate) packets: Cell<u8>,
    /// The command in hand completes the login; its reply has this sequence id.
    pub(crate) login_sequence: Cell<Option<u8>>,
    /// What that reply says to vouch for Flifo's certificate.
    pub(crate) vouched: Seldom<Vec<u8>>,
    /// What the client still has to send for the command in hand.
    pub(crate) upload: Seldom<Passage>,
    /// What the client still has to send of a command that was dealt with by its beginning: it is dropped.
    pub(crate) dropped: Seldom<Passage>,
    /// The client may send its next command when the upload ends: there will be no reply.
    pub(crate) upload_ends_turn: Cell<bool>,
    /// How many changes of user were refused.
    pub(crate) refused_changes: Cell<u8>,
    /// The client sends nothing more.
    pub(crate) half_closed: Seldom<()>,
    /// How fast the command in hand comes, if not all of it was there at once.
    progress: Seldom<Progress>,
}

impl Input {
    /// Of a client behind whose login these bytes have come.
    pub(crate) fn new(more: Vec<u8>, login_sequence: Option<u8>, vouched: Option<Vec<u8>>) -> Self {
        let input = Self {
            unseen: Cell::new(!more.is_empty()),
            more: RefCell::new(more),
            packets: Cell::new(1),
            login_sequence: Cell::new(login_sequence),
            ..Self::default()
        };
        input.vouched.set(vouched);
        input
    }

    /// Takes what was read too early.
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
        if !bytes.is_empty() && !self.progress.is_some() {
            self.begin_upload();
        }
    }

    /// Keeps an unfinished command for later, without a copy.
    pub(crate) fn put_more(&self, bytes: Vec<u8>) {
        *self.more.borrow_mut() = bytes;
        self.unseen.set(false);
    }

    /// How many packets of an unfinished command are there: an error in its answer's place is numbered behind them.
    pub(crate) fn packets_sent(&self) -> u8 {
        Extent::of(&self.more.borrow()).packets().max(1) as u8
    }

    /// Whether there is more to come of the command in hand than is there.
    pub(crate) fn is_part(&self) -> bool {
        self.upload.is_some()
    }

    /// What is still to come of the command in hand goes to no server.
    pub(crate) fn drop_rest(&self, rest: Option<Passage>) {
        if let Some(rest) = rest.filter(|rest| !rest.is_done()) {
            self.dropped.set(Some(rest));
            self.begin_upload();
        }
    }

    /// From now on, the client is expected to send what is missing of its command.
    pub(crate) fn begin_upload(&self) {
        self.progress.set(Some(Progress::begin(crate::worker::clock::now())));
    }

    /// So much has come, if something was missing.
    pub(crate) fn see_upload(&self, bytes: usize) {
        self.progress.with(|progress| progress.see(bytes, crate::worker::clock::now()));
    }

    pub(crate) fn end_upload(&self) {
        self.progress.set(None);
    }

    /// How the rest of a command comes that the client is expected to send.
    pub(crate) fn progress(&self) -> Option<Progress> {
        self.progress.get()
    }

    /// Whether something is missing of the client's command.
    pub(crate) fn is_sending(&self) -> bool {
        self.progress.is_some()
    }

    /// The last command was a long one, perhaps.
    pub(crate) fn give_room_back(&self) {
        self.reserved.take();
    }
}
