//! What a worker knows of shared reads: which waiting statements stand together, and the runs that are shared.
//!
//! A run belongs to the command of its leader, the client that the statement is sent for, and goes where that goes. Its
//! followers are known by their numbers only: each has its own command on hold, and any of them may be gone when the
//! reply comes. Invariant: a run that ends without having answered its followers, in whatever way its leader's command
//! ends, leaves them as strays, and each stray waits again ([`crate::upkeep::cut_out`]).

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher, Hash};
use std::rc::Rc;

use engine::intent::Digest;
use engine::sharing::{Crowd, Crowds, CutOut, Groups, Kinds, ShareReads, is_plain};
use tokio::sync::Notify;
use wire::reply_sum::Summer;
use wire::response::{EofPacket, OkPacket, Status};

use crate::config::Plan;
use crate::state::kept_replies::Fill;
use crate::worker::outbox::SharedBytes;

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
    /// Others get the reply to its run, or a mirror's is compared with it.
    Leads(Box<SharedRun>),
}

impl Sharing {
    /// Its run will not be answered. Those that were to get the reply wait again; a sum is made of the next one.
    pub(crate) fn cut_off(&mut self) {
        if let Self::Leads(run) = self
            && let Some(sum) = &mut run.sum
        {
            sum.begin_again();
        }
        self.part();
    }

    /// Those that were to get the reply to its run do not wait for that. A sum that is made of it goes on.
    pub(crate) fn part(&mut self) {
        match self {
            Self::Leads(run) if run.sum.is_some() => {
                run.reply.clear();
                run.cut_out(CutOut::Again);
            }
            _ => *self = Self::Alone,
        }
    }
}

/// The shared reads of a worker.
#[derive(Default)]
pub(crate) struct SharedReads {
    /// By client.
    pub(crate) groups: RefCell<Groups<u32>>,
    pub(crate) kinds: RefCell<Kinds>,
    /// By client.
    pub(crate) crowds: Rc<RefCell<Crowds<u32>>>,
    /// Bytes of replies that are kept for clients until these have taken them.
    pub(crate) held: Rc<Cell<usize>>,
    /// Reads are shared by some of its clients.
    is_used: Cell<bool>,
    strays: Rc<Strays>,
    next_run: Cell<u64>,
    /// For hashes that no client can foresee.
    secret: foldhash::quality::RandomState,
}

impl SharedReads {
    pub(crate) fn hash(&self, what: impl Hash) -> u64 {
        self.secret.hash_one(what)
    }

    pub(crate) fn of(plan: &Plan) -> Self {
        let new = Self::default();
        new.adopt(plan);
        new
    }

    /// Whether reads of any client are shared.
    #[inline]
    pub(crate) const fn is_used(&self) -> bool {
        self.is_used.get()
    }

    /// This plan is in force.
    pub(crate) fn adopt(&self, plan: &Plan) {
        let of_users = plan.users.iter().map(|user| user.share_reads);
        let of_classes = plan.classes.iter().map(|rule| rule.class.share_reads);
        let rules = plan.rules.iter().filter(|rule| !rule.off);
        let of_rules = rules.map(|rule| rule.acts.share_reads);
        let mut below = of_users.chain(of_classes).chain(of_rules);
        self.is_used.set(plan.server.share_reads.is_on() || below.any(ShareReads::is_on));
    }

    /// A crowd goes back to the queue.
    pub(crate) fn release(&self, crowd: Crowd<u32>) {
        self.strays.add(crowd.number, crowd.waiters.into_iter(), WaitsAgain::Crowd);
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
        let (status, fill, sum) = (None, None, None);
        let reply = SharedBytes::new(&self.held);
        Box::new(SharedRun { number, followers, reply, status, fill, sum, strays })
    }

    /// A run whose reply is summed up, and which no other client shares.
    pub(crate) fn summing(&self, sum: Summer) -> Box<SharedRun> {
        let mut run = self.run(0, Vec::new());
        run.sum = Some(sum);
        run
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

/// A client that was to get the reply to this run, and waits again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stray {
    pub(crate) client: u32,
    pub(crate) run: u64,
    pub(crate) why: WaitsAgain,
}

/// Why a client waits again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitsAgain {
    /// It does not get the reply to a run.
    CutOut(CutOut),
    /// The run of its crowd may begin.
    Crowd,
}

/// A run that is counted, as others that ask the same may wait for its end.
#[derive(Debug)]
pub(crate) struct CountedRun {
    hash: u64,
    crowds: Rc<RefCell<Crowds<u32>>>,
    strays: Rc<Strays>,
}

impl CountedRun {
    pub(crate) fn begin(sharing: &SharedReads, hash: u64, kind: Digest) -> Self {
        sharing.crowds.borrow_mut().begin(hash, kind);
        let (crowds, strays) = (Rc::clone(&sharing.crowds), Rc::clone(&sharing.strays));
        Self { hash, crowds, strays }
    }

    /// The hash of what it asks, and of where.
    pub(crate) const fn hash(&self) -> u64 {
        self.hash
    }
}

impl Drop for CountedRun {
    fn drop(&mut self) {
        let crowd = self.crowds.borrow_mut().end(self.hash);
        if let Some(crowd) = crowd {
            self.strays.add(crowd.number, crowd.waiters.into_iter(), WaitsAgain::Crowd);
        }
    }
}

#[derive(Debug, Default)]
struct Strays {
    waiting: RefCell<Vec<Stray>>,
    came: Notify,
}

impl Strays {
    fn add(&self, run: u64, clients: impl Iterator<Item = u32>, why: WaitsAgain) {
        self.waiting.borrow_mut().extend(clients.map(|client| Stray { client, run, why }));
        self.came.notify_one();
    }
}

/// One run for several clients.
#[derive(Debug)]
pub(crate) struct SharedRun {
    pub(crate) number: u64,
    followers: Vec<u32>,
    /// What its leader has been written of the reply.
    reply: SharedBytes,
    /// What the end of the rows says, if that leaves nothing to be learnt of.
    status: Option<Status>,
    /// What is kept of its reply, for those that come later.
    pub(crate) fill: Option<Rc<Fill>>,
    /// What the reply comes to, if its statement is mirrored.
    sum: Option<Summer>,
    strays: Rc<Strays>,
}

/// A longer reply is its leader's alone.
pub(crate) const REPLY_MAX: usize = 16 << 20;

/// No more is kept of replies, by all runs of a worker together, until clients have taken them.
const HELD_MAX: usize = 64 << 20;

impl SharedRun {
    /// Its leader is written this part of the reply.
    pub(crate) fn copy(&mut self, bytes: &[u8]) {
        if let Some(sum) = &mut self.sum {
            sum.feed(bytes);
        }
        if !self.is_shared() {
            return;
        }
        let most = self.fill.as_ref().map_or(REPLY_MAX, |fill| fill.reply_max());
        let is_too_much = self.reply.held() + bytes.len() > HELD_MAX;
        if self.reply.len() + bytes.len() > most || is_too_much {
            self.reply.clear();
            return self.cut_out(CutOut::TooLarge);
        }
        self.reply.push(bytes);
    }

    /// The packet that ends the rows.
    pub(crate) fn see_end(&mut self, ok: &OkPacket<'_>) {
        self.status = is_plain(ok).then_some(ok.status);
    }

    /// The same of a packet that does not report changes.
    pub(crate) fn see_eof(&mut self, eof: EofPacket, may_have_changed: bool) {
        let ok = OkPacket { status: eof.status, warnings: eof.warnings, ..OkPacket::EMPTY };
        self.status = (is_plain(&ok) && !may_have_changed).then_some(ok.status);
    }

    /// Its reply is summed up as that of this one was to be.
    pub(crate) fn sum_as(&mut self, other: &mut Sharing) {
        if let Sharing::Leads(run) = other {
            self.sum = run.sum.take();
        }
    }

    pub(crate) const fn take_sum(&mut self) -> Option<Summer> {
        self.sum.take()
    }

    /// Whether others get the reply.
    pub(crate) fn is_shared(&self) -> bool {
        self.fill.is_some() || !self.followers.is_empty()
    }

    pub(crate) const fn status(&self) -> Option<Status> {
        self.status
    }

    /// What its leader has been written before the end.
    pub(crate) fn take_reply(&mut self) -> SharedBytes {
        let none = self.reply.none();
        std::mem::replace(&mut self.reply, none)
    }

    /// Its followers, which get the reply now.
    pub(crate) fn take_followers(&mut self) -> Vec<u32> {
        let mut followers = std::mem::take(&mut self.followers);
        if let Some(fill) = &self.fill {
            followers.extend(fill.end());
        }
        followers
    }

    /// These do not get the reply after all.
    pub(crate) fn leave(&self, clients: impl Iterator<Item = u32>, why: CutOut) {
        self.strays.add(self.number, clients, WaitsAgain::CutOut(why));
    }

    /// Its followers do not get the reply.
    pub(crate) fn cut_out(&mut self, why: CutOut) {
        let followers = self.take_followers();
        self.fill = None;
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
        let why = |stray: &Stray| match stray.why {
            WaitsAgain::CutOut(why) => why,
            WaitsAgain::Crowd => panic!("{stray:?}"),
        };
        reads.strays.waiting.take().iter().map(|it| (it.client, it.run, why(it))).collect()
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
