//! The lines of a gate, and which of them is served next.
//!
//! One line for statements that come back, one for each class of clients that hold a backend, and one for each key and
//! class of clients that need a backend. Owns the comparison; slots and backends are taken elsewhere.

use std::hash::Hash;
use std::time::{Duration, Instant};

use super::keys::Keys;
use super::waiter::{Ask, Candidates, Waiter};
use super::{Full, Gate, KICKED_UP, Reason, Refusal, Waiting};
use crate::classes::{ClassId, Rank};
use crate::intent::Digest;
use crate::likeness::Likeness;
use crate::overload::QueueOrder;
use crate::parked::{Bulkheads, Decision, Held, Room};
use crate::queue::Queue;

/// Which line: the number is a class's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane<K> {
    Again,
    Own(usize),
    Key(K, usize),
}

/// What has changed for statements of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    /// One that was tried has ended, or waits.
    Trials,
    /// One that waited does so no longer.
    Waits,
}

/// Which of a form may be left of those set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// Those whose equals wait.
    Equals,
    Others,
}

/// So many of those set aside are brought back at once where nothing tells which of them may start.
const LOOKED_AGAIN: usize = 64;

/// So many of a lane are looked at, each twice: now and then, when a lock has passed on, and when any other statement of
/// the form has ended. What one statement costs must not grow with the number of those that wait.
const LOOKS_NOW_AND_THEN: usize = 1024;
const LOOKS_AT_WAITS: usize = 64;
const LOOKS_AT_TRIALS: usize = 8;

/// The look at one lane begins behind so many of those set aside at most, for each one costs a step; or at the last ones.
const LOOKS_FROM: usize = 256;

/// What decides which lane is served next; the least score comes first.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
struct Score {
    is_kept_waiting: bool,
    rank: Option<Rank>,
    since: Instant,
}

impl<K: Copy + Ord + Hash, W, L> Gate<K, W, L> {
    /// The lane that is served next. Waiters that are held back are set aside on the way. However many keys have
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
        loop {
            let own = self.own[class].head_since().map(|since| (since, Lane::Own(class)));
            let keyed = self.keys.first(class, candidates);
            let keyed = keyed.map(|(since, key)| (since, Lane::Key(key, class)));
            let (since, lane) = own.into_iter().chain(keyed).min_by_key(|(since, _)| *since)?;
            let digest = self.first_of(lane)?.ask.digest;
            if self.bulkheads.is_open(digest) {
                return Some((since, lane));
            }
            match self.look_at_first(lane) {
                Decision::Start => return Some((since, lane)),
                Decision::Hold(held) => self.bulkheads.holds(digest, held),
            }
            let order = self.order(lane);
            self.change(lane, |queue| order.set_aside(queue));
        }
    }

    /// Whether the first of a lane may start although others of its form wait in the server.
    #[inline(never)]
    fn look_at_first(&mut self, lane: Lane<K>) -> Decision {
        let (read, order) = (self.likeness, self.order(lane));
        self.change(lane, |queue| {
            if let Some(first) = order.first_mut(queue)
                && first.likeness.is_none()
            {
                first.likeness = Some(Box::new(read(&first.waiter)));
            }
        });
        let (slots, room) = (self.part_of_slots(), self.room(matches!(lane, Lane::Key(..))));
        let first = self.first_of(lane);
        first.map_or(Decision::Start, |it| it.decide(&self.bulkheads, slots, room, usize::MAX))
    }

    /// How many backends are left to statements of a form of which some wait in the server.
    fn room(&self, needs_backend: bool) -> Room {
        let places = self.backends.limit() / self.slots.workers();
        let parked = self.bulkheads.parked();
        match needs_backend {
            true if parked + 1 >= places => Room::None,
            true if parked >= places - places / 4 => Room::Least,
            true if parked >= places.div_ceil(2) => Room::Little,
            _ => Room::Enough,
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
            let waited = Duration::ZERO;
            let refusal = Refusal { waited, others: waiting, class, reason, behind: 0 };
            self.shares.refuses(ask.class);
            return Err((waiter, refusal));
        }
        self.shares.joins(ask.class);
        Ok(Waiter { waiter, ask, likeness: None })
    }

    /// Counts one that has left its line.
    pub(super) fn left(&mut self, ask: Ask) {
        self.shares.leaves(ask.class);
        self.publish();
    }

    /// Something has changed for statements of this form: those that may start now are brought back into the queue.
    #[inline]
    pub(super) fn bring_back(&mut self, digest: Option<Digest>, changed: Changed) {
        // Usually no client waits.
        if self.shares.all_waiting() > 0 {
            self.bring_back_waiting(digest, changed);
        }
    }

    /// Whether waiters are held back, because they would wait in the server.
    pub fn has_aside(&self) -> bool {
        self.own.iter().any(|queue| queue.aside() > 0) || self.keys.aside().next().is_some()
    }

    /// Whether a waiter is held back, because it would wait in the server.
    pub fn is_aside(&self, waiting: Waiting<K>) -> bool {
        self.queue(waiting.lane).is_some_and(|queue| queue.is_aside(waiting.place))
    }

    fn bring_back_waiting(&mut self, digest: Option<Digest>, changed: Changed) {
        let concerns_others = || self.bulkheads.holds_others(digest);
        if digest.is_none() || changed == Changed::Trials && !concerns_others() {
            return;
        }
        if self.bulkheads.is_open(digest) {
            self.bring_back_all(digest);
            return self.bulkheads.holds_only_equals(digest);
        }
        let looks = match changed {
            Changed::Waits => LOOKS_AT_WAITS,
            Changed::Trials => LOOKS_AT_TRIALS,
        };
        // One in the place of the one that has ended, and one because there may be more at once now.
        if self.bring_back_some(2, looks, LOOKS_FROM, |ask| ask.digest == digest) == Left::Equals {
            self.bulkheads.holds_only_equals(digest);
        }
    }

    /// Waiters that were set aside are looked at again: what has changed may have had to do with others. Call
    /// [`Self::next`] afterwards.
    pub fn look_again(&mut self) {
        if self.has_aside() {
            self.bring_back_some(LOOKED_AGAIN, LOOKS_NOW_AND_THEN, usize::MAX, |_| true);
        }
    }

    /// None of this form waits in the server any more.
    fn bring_back_all(&mut self, digest: Option<Digest>) {
        each_aside(&mut self.own, &mut self.keys, |queue, _| {
            queue.bring_back(0, usize::MAX, |waiter| waiter.ask.digest == digest);
        });
        self.publish();
    }

    /// Brings back so many waiters that were set aside and may start now, of so many in each lane that are looked at.
    fn bring_back_some(
        &mut self,
        most: usize,
        looks: usize,
        from: usize,
        concerned: impl Fn(Ask) -> bool,
    ) -> Left {
        let (slots, free, keyed) = (self.part_of_slots(), self.room(false), self.room(true));
        // The oldest ones have mostly come when the waiting began, and wait for the same: so any may be the first, and
        // every other time these are the newest.
        self.looks = self.looks.wrapping_mul(0x9e37_79b1).wrapping_add(0x7f4a_7c15);
        let first = (self.looks >> 8) as usize;
        let (mut came, mut left) = (0, Left::Equals);
        let Self { own, keys, bulkheads, .. } = self;
        // Those come first that have least in common with those that wait.
        for shared in [1, usize::MAX] {
            each_aside(own, keys, |queue, needs_backend| {
                let room = if needs_backend { keyed } else { free };
                let aside = queue.aside();
                let first = match first % 2 {
                    0 => first % aside.clamp(1, from),
                    _ => aside.saturating_sub(looks),
                };
                if aside > looks {
                    left = Left::Others;
                }
                queue.bring_back(first, looks, |waiter| {
                    if came >= most || !concerned(waiter.ask) {
                        return false;
                    }
                    match waiter.decide(bulkheads, slots, room, shared) {
                        Decision::Start => {
                            (came, left) = (came + 1, Left::Others);
                            true
                        }
                        Decision::Hold(Held::Untried) => {
                            left = Left::Others;
                            false
                        }
                        Decision::Hold(Held::Equal) => false,
                    }
                });
            });
        }
        if came > 0 {
            self.publish();
        }
        left
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
                    let refusal = Refusal { waited, others, class, reason, behind: 0 };
                    return Some((lane, is_aside, refusal));
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
    pub(super) fn publish(&mut self) {
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

/// Shows each lane of which waiters were set aside, and whether these need a backend.
fn each_aside<K: Copy + Ord + Hash, W, L>(
    own: &mut [Queue<Waiter<W>>],
    keys: &mut Keys<K, W, L>,
    mut see: impl FnMut(&mut Queue<Waiter<W>>, bool),
) {
    for queue in own.iter_mut().filter(|queue| queue.aside() > 0) {
        see(queue, false);
    }
    for key in keys.aside().collect::<Vec<_>>() {
        keys.change(key, |keyed| {
            keyed.queues.iter_mut().filter(|it| it.aside() > 0).for_each(|it| see(it, true));
        });
    }
}

impl<W> Waiter<W> {
    fn decide(&self, bulkheads: &Bulkheads, slots: u32, room: Room, shared: usize) -> Decision {
        let nothing = Likeness::default();
        let likeness = self.likeness.as_deref().unwrap_or(&nothing);
        bulkheads.decide(self.ask.digest, likeness, slots, room, shared)
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

    fn first_mut<W>(self, queue: &mut Queue<Waiter<W>>) -> Option<&mut Waiter<W>> {
        match self {
            Self::OldestFirst => queue.head_mut(),
            Self::NewestFirst => queue.last_mut(),
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
