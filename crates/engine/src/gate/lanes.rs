//! The lines of a gate, and which of them is served next.
//!
//! A line for those who come back, one for each class of those who hold a link, and one for each key and class of
//! those who need one. Owns the comparison; slots and links are taken elsewhere.

use std::hash::Hash;
use std::time::{Duration, Instant};

use super::{Ask, Candidates, Full, Gate, KICKED_UP, Reason, Refusal};
use crate::classes::{ClassId, Rank};
use crate::intent::Digest;
use crate::line::Line;
use crate::overload::Order;
use crate::pool::Pool;

/// Which line: the number is a class's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane<K> {
    Again,
    Own(usize),
    Key(K, usize),
}

#[derive(Debug)]
pub(super) struct Waiter<W> {
    pub(super) waiter: W,
    pub(super) ask: Ask,
}

/// What there is of one key.
#[derive(Debug)]
pub(super) struct Keyed<W, L> {
    /// One for each class.
    pub(super) lines: Box<[Line<Waiter<W>>]>,
    pub(super) idle: Pool<L>,
    pub(super) opening: usize,
    /// Links of this key that exist: idle, running or held.
    pub(super) links: usize,
    /// When the last attempt to open one failed, if none has succeeded since.
    pub(super) failed: Option<Instant>,
}

impl<W, L> Keyed<W, L> {
    fn new(classes: usize) -> Self {
        let lines = (0..classes).map(|_| Line::default()).collect();
        Self { lines, idle: Pool::default(), opening: 0, links: 0, failed: None }
    }

    /// How many stand in line, without those set aside.
    pub(super) fn waiting(&self) -> usize {
        self.lines.iter().map(Line::len).sum()
    }

    /// How many wait, those set aside included.
    pub(super) fn all_waiting(&self) -> usize {
        self.waiting() + self.lines.iter().map(Line::aside).sum::<usize>()
    }

    /// How many wait for a link that is not even being opened.
    pub(super) fn lacking(&self) -> usize {
        self.waiting().saturating_sub(self.idle.len() + self.opening)
    }
}

/// What decides who is next; the least comes first.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
struct Score {
    is_kept_waiting: bool,
    rank: Option<Rank>,
    since: Instant,
}

impl<K: Copy + Eq + Hash, W, L> Gate<K, W, L> {
    /// The lane that is served next. Waiters whose kind is held back are set aside on the way.
    pub(super) fn best(&mut self, now: Instant, candidates: Candidates) -> Option<Lane<K>> {
        if !self.again.is_empty() {
            return Some(Lane::Again);
        }
        let part = self.part_of_slots();
        let Self { own, keyed, shares, bulkheads, .. } = self;
        let own = own.iter_mut().enumerate().map(|(class, line)| (Lane::Own(class), class, line));
        let with_links =
            |keyed: &&mut Keyed<W, L>| candidates == Candidates::All || !keyed.idle.is_empty();
        let keyed = keyed.iter_mut().filter(|(_, keyed)| with_links(keyed));
        let keyed = keyed.flat_map(|(key, keyed)| {
            let lines = keyed.lines.iter_mut().enumerate();
            lines.map(|(class, line)| (Lane::Key(*key, class), class, line))
        });
        let mut best: Option<(Score, Lane<K>)> = None;
        for (lane, class, line) in own.chain(keyed) {
            if line.is_empty() {
                continue;
            }
            let id = class_id(class);
            let order = shares.order(id);
            while order.first(line).is_some_and(|it| !bulkheads.may_start(it.ask.digest, part)) {
                order.set_aside(line);
            }
            let Some(since) = line.head_since() else { continue };
            if !shares.may_start(id) {
                continue;
            }
            let is_kept_waiting = now.saturating_duration_since(since) < KICKED_UP;
            let rank = (is_kept_waiting && !shares.are_one()).then(|| shares.rank(id));
            let score = Score { is_kept_waiting, rank, since };
            if best.is_none_or(|(least, _)| score < least) {
                best = Some((score, lane));
            }
        }
        best.map(|(_, lane)| lane)
    }

    pub(super) fn line(&mut self, lane: Lane<K>) -> Option<&mut Line<Waiter<W>>> {
        match lane {
            Lane::Again => Some(&mut self.again),
            Lane::Own(class) => self.own.get_mut(class),
            Lane::Key(key, class) => self.keyed.get_mut(&key)?.lines.get_mut(class),
        }
    }

    pub(super) fn order(&self, lane: Lane<K>) -> Order {
        match lane {
            Lane::Again => Order::OldestFirst,
            Lane::Own(class) | Lane::Key(_, class) => self.shares.order(class_id(class)),
        }
    }

    /// Who would be served if this lane was.
    pub(super) fn first_of(&mut self, lane: Lane<K>) -> Option<&Waiter<W>> {
        let order = self.order(lane);
        order.first(self.line(lane)?)
    }

    pub(super) fn keyed(&mut self, key: K) -> &mut Keyed<W, L> {
        let classes = self.own.len();
        self.keyed.entry(key).or_insert_with(|| Keyed::new(classes))
    }

    pub(super) fn class_index(&self, ask: Ask) -> usize {
        usize::from(ask.class.0).min(self.own.len() - 1)
    }

    /// The slots that a worker may think of as its own, where each must have a part.
    pub(super) fn part_of_slots(&self) -> u32 {
        (self.slots.limit() / self.slots.workers()).max(1)
    }

    /// Whether anybody here waits for nothing but a slot.
    pub(super) fn has_ready(&self) -> bool {
        !self.again.is_empty()
            || self.in_line(&self.own) > 0
            || self.keyed.values().any(|keyed| self.ready(keyed) > 0)
    }

    /// How many of a key wait for a slot only: a link is there for them.
    fn ready(&self, keyed: &Keyed<W, L>) -> usize {
        if keyed.idle.is_empty() { 0 } else { self.in_line(&keyed.lines).min(keyed.idle.len()) }
    }

    /// How many stand in these lines, of classes that may run another one.
    pub(super) fn in_line(&self, lines: &[Line<Waiter<W>>]) -> usize {
        let may_start = |class: usize| self.shares.may_start(class_id(class));
        let lines = lines.iter().enumerate().filter(|(_, line)| !line.is_empty());
        lines.filter(|(class, _)| may_start(*class)).map(|(_, line)| line.len()).sum()
    }

    /// Since when the oldest of these has waited.
    pub(super) fn oldest_ready(&self) -> Option<Instant> {
        let ready = self.keyed.values().filter(|keyed| !keyed.idle.is_empty());
        let keyed = ready.flat_map(|keyed| keyed.lines.iter());
        let lines = self.own.iter().chain(keyed).chain([&self.again]);
        lines.filter_map(Line::head_since).min()
    }

    /// Counts a waiter that joins a line, if its class's line is not full.
    pub(super) fn join(&mut self, waiter: W, ask: Ask) -> Result<Waiter<W>, Full<W>> {
        let plan = self.shares.plan(ask.class);
        let waiting = self.shares.waiting(ask.class);
        if let Some(bound) = plan.line_max.filter(|bound| waiting >= *bound) {
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
    pub(super) fn bring_back(&mut self, digest: Option<Digest>) {
        if digest.is_none() || !self.bulkheads.may_start(digest, self.part_of_slots()) {
            return;
        }
        let is_open = self.bulkheads.is_open(digest);
        let keyed = self.keyed.values_mut().flat_map(|keyed| keyed.lines.iter_mut());
        let mut changed = false;
        for line in self.own.iter_mut().chain(keyed).filter(|line| line.aside() > 0) {
            let mut came = line.bring_back(|waiter| waiter.ask.digest == digest);
            changed |= came;
            while came && is_open {
                came = line.bring_back(|waiter| waiter.ask.digest == digest);
            }
            if changed && !is_open {
                break;
            }
        }
        if changed {
            self.publish();
        }
    }

    /// The first lane whose oldest waiter has waited too long, and whether that is one set aside.
    pub(super) fn first_late(
        &self,
        now: Instant,
        wait_max: Option<Duration>,
    ) -> Option<(Lane<K>, bool, Refusal)> {
        let own = self.own.iter().enumerate().map(|(class, line)| (Lane::Own(class), class, line));
        let keyed = self.keyed.iter().flat_map(|(key, keyed)| {
            let lines = keyed.lines.iter().enumerate();
            lines.map(|(class, line)| (Lane::Key(*key, class), class, line))
        });
        for (lane, class, line) in own.chain(keyed) {
            for (is_aside, since) in [(true, line.aside_since()), (false, line.head_since())] {
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
    /// but a place under the cap: whoever gives one back must not hand it to a worker that cannot
    /// use it while others wait.
    pub(super) fn publish(&self) {
        if !self.slots.is_told() && !self.links.is_told() {
            return;
        }
        let own = self.again.len() + self.in_line(&self.own);
        let ready = own + self.keyed.values().map(|keyed| self.ready(keyed)).sum::<usize>();
        self.slots.publish(self.worker, ready, self.oldest_ready());
        let lacking = self.keyed.values().map(Keyed::lacking).sum();
        self.links.publish_waiting(self.worker, lacking);
        for class in 0..self.own.len() {
            self.shares.publish(self.worker, class_id(class));
        }
    }
}

fn class_id(class: usize) -> ClassId {
    ClassId(u8::try_from(class).unwrap_or(0))
}

impl Order {
    fn first<W>(self, line: &Line<Waiter<W>>) -> Option<&Waiter<W>> {
        match self {
            Self::OldestFirst => line.head(),
            Self::NewestFirst => line.last(),
        }
    }

    pub(super) fn pop<W>(self, line: &mut Line<Waiter<W>>) -> Option<(Waiter<W>, Instant)> {
        match self {
            Self::OldestFirst => line.pop(),
            Self::NewestFirst => line.pop_last(),
        }
    }

    fn set_aside<W>(self, line: &mut Line<Waiter<W>>) {
        match self {
            Self::OldestFirst => line.set_head_aside(),
            Self::NewestFirst => line.set_last_aside(),
        }
    }
}
