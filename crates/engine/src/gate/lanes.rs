//! The lines of a gate, and which of them is served next.
//!
//! One line for statements that come back, one for each class of clients that hold a backend, and one for each key and
//! class of clients that need a backend. Owns the comparison; slots and backends are taken elsewhere.

use std::hash::Hash;
use std::time::{Duration, Instant};

use super::waiter::{Ask, Candidates, Waiter};
use super::{Full, Gate, KICKED_UP, Reason, Refusal};
use crate::classes::{ClassId, Rank};
use crate::intent::Digest;
use crate::overload::QueueOrder;
use crate::queue::Queue;

/// Which line: the number is a class's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane<K> {
    Again,
    Own(usize),
    Key(K, usize),
}

/// What decides which lane is served next; the least score comes first.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
struct Score {
    is_kept_waiting: bool,
    rank: Option<Rank>,
    since: Instant,
}

impl<K: Copy + Ord + Hash, W, L> Gate<K, W, L> {
    /// The lane that is served next. Waiters whose kind is held back are set aside on the way. However many keys have
    /// waiters in the queue, only one key of each class is looked at.
    pub(super) fn best(&mut self, now: Instant, candidates: Candidates) -> Option<Lane<K>> {
        if !self.again.is_empty() {
            return Some(Lane::Again);
        }
        let mut best: Option<(Score, Lane<K>)> = None;
        for class in 0..self.own.len() {
            let id = class_id(class);
            if !self.shares.may_start(id) {
                continue;
            }
            let Some((since, lane)) = self.first_of_class(class, candidates) else { continue };
            let is_kept_waiting = now.saturating_duration_since(since) < KICKED_UP;
            let rank = (is_kept_waiting && !self.shares.are_one()).then(|| self.shares.rank(id));
            let score = Score { is_kept_waiting, rank, since };
            if best.is_none_or(|(least, _)| score < least) {
                best = Some((score, lane));
            }
        }
        best.map(|(_, lane)| lane)
    }

    /// The lane of a class whose oldest waiter has waited longest, if the first of it may start.
    fn first_of_class(
        &mut self,
        class: usize,
        candidates: Candidates,
    ) -> Option<(Instant, Lane<K>)> {
        let part = self.part_of_slots();
        loop {
            let own = self.own[class].head_since().map(|since| (since, Lane::Own(class)));
            let keyed = self.keys.first(class, candidates);
            let keyed = keyed.map(|(since, key)| (since, Lane::Key(key, class)));
            let (since, lane) = own.into_iter().chain(keyed).min_by_key(|(since, _)| *since)?;
            let digest = self.first_of(lane)?.ask.digest;
            if self.bulkheads.may_start(digest, || part) {
                return Some((since, lane));
            }
            let order = self.order(lane);
            self.change(lane, |queue| order.set_aside(queue));
        }
    }

    pub(super) fn queue(&self, lane: Lane<K>) -> Option<&Queue<Waiter<W>>> {
        match lane {
            Lane::Again => Some(&self.again),
            Lane::Own(class) => self.own.get(class),
            Lane::Key(key, class) => self.keys.get(key)?.queues.get(class),
        }
    }

    pub(super) fn change<R>(
        &mut self,
        lane: Lane<K>,
        change: impl FnOnce(&mut Queue<Waiter<W>>) -> R,
    ) -> Option<R> {
        match lane {
            Lane::Again => Some(change(&mut self.again)),
            Lane::Own(class) => self.own.get_mut(class).map(change),
            Lane::Key(key, class) => {
                self.keys.change(key, |keyed| keyed.queues.get_mut(class).map(change))?
            }
        }
    }

    pub(super) fn order(&self, lane: Lane<K>) -> QueueOrder {
        match lane {
            Lane::Again => QueueOrder::OldestFirst,
            Lane::Own(class) | Lane::Key(_, class) => self.shares.order(class_id(class)),
        }
    }

    /// The waiter that would be served if this lane were.
    pub(super) fn first_of(&self, lane: Lane<K>) -> Option<&Waiter<W>> {
        self.order(lane).first(self.queue(lane)?)
    }

    pub(super) fn class_index(&self, ask: Ask) -> usize {
        usize::from(ask.class.0).min(self.own.len() - 1)
    }

    /// The slots that a worker may think of as its own, where each must have a part.
    pub(super) fn part_of_slots(&self) -> u32 {
        (self.slots.limit() / self.slots.workers()).max(1)
    }

    /// Whether a waiter here lacks nothing but a slot.
    pub(super) fn has_ready(&self) -> bool {
        let is_quiet = self.shares.all_waiting() == 0;
        !is_quiet && (!self.again.is_empty() || self.queued(&self.own) > 0 || self.ready() > 0)
    }

    /// How many without a backend wait for a slot only: a backend is there for them.
    fn ready(&self) -> usize {
        let may_start = |class: &usize| self.shares.may_start(class_id(*class));
        (0..self.own.len()).filter(may_start).map(|class| self.keys.ready(class)).sum()
    }

    /// How many stand in these lines, of classes that may run another one.
    pub(super) fn queued(&self, queues: &[Queue<Waiter<W>>]) -> usize {
        let may_start = |class: usize| self.shares.may_start(class_id(class));
        let queues = queues.iter().enumerate().filter(|(_, queue)| !queue.is_empty());
        queues.filter(|(class, _)| may_start(*class)).map(|(_, queue)| queue.len()).sum()
    }

    /// Since when the oldest of these has waited.
    pub(super) fn oldest_ready(&self) -> Option<Instant> {
        let own = self.own.iter().chain([&self.again]).filter_map(Queue::head_since);
        let keyed =
            (0..self.own.len()).filter_map(|class| self.keys.first(class, Candidates::Ready));
        own.chain(keyed.map(|(since, _)| since)).min()
    }

    /// Counts a waiter that joins a line, if its class's line is not full.
    pub(super) fn join(&mut self, waiter: W, ask: Ask) -> Result<Waiter<W>, Full<W>> {
        let plan = self.shares.plan(ask.class);
        let waiting = self.shares.waiting(ask.class);
        if let Some(bound) = plan.queue_max.filter(|bound| waiting >= *bound) {
            let (class, reason) = (plan.name.clone(), Reason::LineFull(bound));
            let refusal = Refusal { waited: Duration::ZERO, others: waiting, class, reason };
            self.shares.refuses(ask.class);
            return Err((waiter, refusal));
        }
        self.shares.joins(ask.class);
        Ok(Waiter { waiter, ask })
    }

    /// Counts one that has left its line.
    pub(super) fn left(&mut self, ask: Ask) {
        self.shares.leaves(ask.class);
        self.publish();
    }

    /// Statements of this kind may start again: as many as that goes for are brought back into line.
    #[inline]
    pub(super) fn bring_back(&mut self, digest: Option<Digest>) {
        // Usually no client waits.
        if self.shares.all_waiting() > 0 {
            self.bring_back_waiting(digest);
        }
    }

    fn has_aside(&self) -> bool {
        self.own.iter().any(|queue| queue.aside() > 0) || self.keys.aside().next().is_some()
    }

    fn bring_back_waiting(&mut self, digest: Option<Digest>) {
        if digest.is_none()
            || !self.has_aside()
            || !self.bulkheads.may_start(digest, || self.part_of_slots())
        {
            return;
        }
        // One if the kind is still held back, for it has room for one; all if it is not.
        let most = if self.bulkheads.is_open(digest) { usize::MAX } else { 1 };
        let concerned = |waiter: &Waiter<W>| waiter.ask.digest == digest;
        let mut came = 0;
        for queue in self.own.iter_mut().filter(|queue| queue.aside() > 0) {
            while came < most && queue.bring_back(concerned) {
                came += 1;
            }
        }
        let aside: Vec<_> = self.keys.aside().collect();
        for key in aside {
            self.keys.change(key, |keyed| {
                for queue in &mut keyed.queues {
                    while came < most && queue.bring_back(concerned) {
                        came += 1;
                    }
                }
            });
        }
        if came > 0 {
            self.publish();
        }
    }

    /// The first lane whose oldest waiter has waited too long, and whether that is one set aside.
    pub(super) fn first_late(
        &self,
        now: Instant,
        wait_max: Option<Duration>,
    ) -> Option<(Lane<K>, bool, Refusal)> {
        let classes = 0..self.own.len();
        let own = classes.clone().map(|class| (Lane::Own(class), class));
        let oldest =
            |class| Some((Lane::Key(self.keys.first(class, Candidates::All)?.1, class), class));
        let aside = self
            .keys
            .aside()
            .flat_map(|key| classes.clone().map(move |class| (Lane::Key(key, class), class)));
        for (lane, class) in own.chain(classes.clone().filter_map(oldest)).chain(aside) {
            let Some(queue) = self.queue(lane) else { continue };
            for (is_aside, since) in [(true, queue.aside_since()), (false, queue.head_since())] {
                let Some(since) = since else { continue };
                let waited = now.saturating_duration_since(since);
                if let Some(reason) = self.is_late(class_id(class), waited, wait_max) {
                    let others = self.shares.waiting(class_id(class)).saturating_sub(1);
                    let class = self.shares.plan(class_id(class)).name.clone();
                    return Some((lane, is_aside, Refusal { waited, others, class, reason }));
                }
            }
        }
        None
    }

    fn is_late(&self, id: ClassId, waited: Duration, all: Option<Duration>) -> Option<Reason> {
        let of_class = self.shares.plan(id).wait_max.map(Reason::ClassWaitMax);
        let of_overload = self.shares.patience(id).map(Reason::Overload);
        let bounds = [all.map(Reason::WaitMax), of_class, of_overload];
        bounds.into_iter().flatten().find(|bound| match bound {
            Reason::WaitMax(most) | Reason::ClassWaitMax(most) | Reason::Overload(most) => {
                waited >= *most
            }
            Reason::LineFull(_) => false,
        })
    }

    /// Tells the other workers how many here wait for nothing but a slot, and how many for nothing
    /// but a backend: what is given back must not go to a worker that cannot use it while others wait.
    pub(super) fn publish(&self) {
        if !self.slots.is_told() && self.backends.workers() == 1 {
            return;
        }
        let own = self.again.len() + self.queued(&self.own);
        self.slots.publish(self.worker, own + self.ready(), self.oldest_ready());
        self.publish_demand();
        for class in 0..self.own.len() {
            self.shares.publish(self.worker, class_id(class));
        }
    }
}

fn class_id(class: usize) -> ClassId {
    ClassId(u8::try_from(class).unwrap_or(0))
}

impl QueueOrder {
    fn first<W>(self, queue: &Queue<Waiter<W>>) -> Option<&Waiter<W>> {
        match self {
            Self::OldestFirst => queue.head(),
            Self::NewestFirst => queue.last(),
        }
    }

    pub(super) fn pop<W>(self, queue: &mut Queue<Waiter<W>>) -> Option<(Waiter<W>, Instant)> {
        match self {
            Self::OldestFirst => queue.pop(),
            Self::NewestFirst => queue.pop_last(),
        }
    }

    fn set_aside<W>(self, queue: &mut Queue<Waiter<W>>) {
        match self {
            Self::OldestFirst => queue.set_head_aside(),
            Self::NewestFirst => queue.set_last_aside(),
        }
    }
}
