//! What a worker knows of shared reads: which waiting statements stand together, and the runs that are shared.
//!
//! A run belongs to the command of its leader, the client that the statement is sent for, and goes where that goes. Its
//! followers are known by their numbers only: each has its own command on hold, and any of them may be gone when the
//! reply comes. Invariant: a run that ends without having answered its followers, in whatever way its leader's command
//! ends, leaves them as strays, and each stray waits again ([`crate::dispatch::cut_out`]).

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher, Hash, RandomState};
use std::rc::Rc;

use engine::sharing::{CutOut, Groups, Kinds, is_plain};
use tokio::sync::Notify;
use wire::response::{OkPacket, Status};

/// What a command is to those that ask the same.
#[derive(Debug, Default)]
pub(crate) enum Sharing {
    /// It runs by itself.
    #[default]
    Alone,
    /// It waits in the queue, in the group of this hash.
    Waits(u64),
    /// It gets the reply to the run of this number.
    Follows(u64),
    /// Others get the reply to its run.
    Leads(Box<SharedRun>),
}

/// The shared reads of a worker.
pub(crate) struct SharedReads {
    /// By client.
    pub(crate) groups: RefCell<Groups<u32>>,
    pub(crate) kinds: RefCell<Kinds>,
    strays: Rc<Strays>,
    next_run: Cell<u64>,
    /// For hashes that no client can foresee.
    secret: RandomState,
}

impl Default for SharedReads {
    fn default() -> Self {
        Self {
            groups: RefCell::default(),
            kinds: RefCell::default(),
            strays: Rc::default(),
            next_run: Cell::default(),
            secret: RandomState::new(),
        }
    }
}

impl SharedReads {
    pub(crate) fn hash(&self, what: impl Hash) -> u64 {
        self.secret.hash_one(what)
    }

    /// The number of a run that begins now.
    pub(crate) fn next_number(&self) -> u64 {
        let number = self.next_run.get() + 1;
        self.next_run.set(number);
        number
    }

    /// A run whose reply these clients get as well.
    pub(crate) fn run(&self, number: u64, followers: Vec<u32>) -> Box<SharedRun> {
        let strays = Rc::clone(&self.strays);
        Box::new(SharedRun { number, followers, reply: Vec::new(), status: None, strays })
    }

    /// Waits until there are strays, and takes them: in the order in which they came to be followers.
    pub(crate) async fn await_strays(&self) -> Vec<Stray> {
        loop {
            let strays = self.strays.waiting.take();
            if !strays.is_empty() {
                return strays;
            }
            self.strays.came.notified().await;
        }
    }
}

/// A client that was to get the reply to this run, and does not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stray {
    pub(crate) client: u32,
    pub(crate) run: u64,
    pub(crate) why: CutOut,
}

#[derive(Debug, Default)]
struct Strays {
    waiting: RefCell<Vec<Stray>>,
    came: Notify,
}

/// One run for several clients.
#[derive(Debug)]
pub(crate) struct SharedRun {
    pub(crate) number: u64,
    followers: Vec<u32>,
    /// What its leader has been written of the reply.
    reply: Vec<u8>,
    /// What the end of the rows says, if that leaves nothing to be learnt of.
    status: Option<Status>,
    strays: Rc<Strays>,
}

/// A longer reply is its leader's alone.
pub(crate) const REPLY_MAX: usize = 256 << 10;

impl SharedRun {
    /// Its leader is written this part of the reply.
    pub(crate) fn copy(&mut self, bytes: &[u8]) {
        if self.followers.is_empty() {
            return;
        }
        if self.reply.len() + bytes.len() > REPLY_MAX {
            self.reply = Vec::new();
            return self.cut_out(CutOut::TooLarge);
        }
        self.reply.extend_from_slice(bytes);
    }

    /// The packet that ends the rows.
    pub(crate) fn see_end(&mut self, ok: &OkPacket<'_>) {
        self.status = is_plain(ok).then_some(ok.status);
    }

    pub(crate) const fn status(&self) -> Option<Status> {
        self.status
    }

    /// What its leader has been written before the end.
    pub(crate) fn take_reply(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.reply)
    }

    /// Its followers, which get the reply now.
    pub(crate) fn take_followers(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.followers)
    }

    /// These do not get the reply after all.
    pub(crate) fn leave(&self, clients: impl Iterator<Item = u32>, why: CutOut) {
        let run = self.number;
        self.strays.waiting.borrow_mut().extend(clients.map(|client| Stray { client, run, why }));
        self.strays.came.notify_one();
    }

    /// Its followers do not get the reply.
    pub(crate) fn cut_out(&mut self, why: CutOut) {
        let followers = self.take_followers();
        if !followers.is_empty() {
            self.leave(followers.into_iter(), why);
        }
    }
}

impl Drop for SharedRun {
    fn drop(&mut self) {
        self.cut_out(CutOut::Again);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strays(reads: &SharedReads) -> Vec<(u32, u64, CutOut)> {
        reads.strays.waiting.take().iter().map(|it| (it.client, it.run, it.why)).collect()
    }

    #[test]
    fn followers_of_a_run_that_ends_without_an_answer_wait_again() {
        let reads = SharedReads::default();
        drop(reads.run(3, vec![7, 8]));
        assert_eq!(strays(&reads), [(7, 3, CutOut::Again), (8, 3, CutOut::Again)]);
        let mut run = reads.run(4, vec![9]);
        assert_eq!(run.take_followers(), [9]);
        drop(run);
        assert_eq!(strays(&reads), [], "it has been answered");
    }

    #[test]
    fn a_copy_of_a_reply_has_a_bound() {
        let reads = SharedReads::default();
        let mut run = reads.run(1, vec![7]);
        run.copy(&[0; REPLY_MAX]);
        assert_eq!(run.reply.len(), REPLY_MAX);
        run.copy(&[0]);
        assert_eq!(strays(&reads), [(7, 1, CutOut::TooLarge)]);
        run.copy(&[0; 64]);
        assert!(run.reply.is_empty(), "it has no followers any more");
        drop(run);
        assert_eq!(strays(&reads), []);
    }
}
