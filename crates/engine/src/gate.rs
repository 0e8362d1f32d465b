//! Admission to one server: who may start a statement now, who waits, and who is next.
//!
//! One gate per worker and server; the slots and the cap on links behind it belong to the whole process
//! ([`Slots`]). Clients wait first-in-first-out, links are reused last-in-first-out. A client that holds a link
//! (it is carried, pinned or in a transaction) needs a slot only; one that does not needs a slot and a link of its
//! key. A client in a transaction may hold locks that others wait for, so it is never made to wait.
//!
//! Invariants: a waiter stands in one line only; a slot that is given back goes to the longest waiter who can use
//! it, in this worker or in another; nobody waits while a slot and a link that suits are free.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::line::{Line, Place};
use crate::pool::Pool;
use crate::slots::Slots;

/// Where a waiter stands, so that it can leave early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting<K> {
    lane: Lane<K>,
    place: Place,
}

/// The lines of a gate: one for those with links of their own, one for each key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane<K> {
    Own,
    Key(K),
}

/// A statement that may start now. Its slot has been taken.
#[derive(Debug, PartialEq, Eq)]
pub enum Start<W, L> {
    /// On the link that it holds.
    Own(W),
    /// On this link, which has been taken from the pool.
    On(W, L),
}

/// What should be done so that those who wait for a link get one.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Want<L> {
    Nothing,
    /// Open a link; its place under the cap has been taken.
    Open,
    /// Close this idle link of another key, then ask again.
    Close(L),
    /// All places under the cap are taken, perhaps by idle links of other workers: ask them to close one.
    Ask,
}

#[derive(Debug)]
struct Keyed<W, L> {
    line: Line<W>,
    idle: Pool<L>,
    opening: usize,
    /// Links of this key that exist: idle, running or held.
    links: usize,
    /// When the last attempt to open one failed, if none has succeeded since.
    failed: Option<Instant>,
}

impl<W, L> Keyed<W, L> {
    /// How many wait for a slot only: a link is there for them.
    fn ready(&self) -> usize {
        self.line.len().min(self.idle.len())
    }

    /// How many wait for a link that is not even being opened.
    fn lacking(&self) -> usize {
        self.line.len().saturating_sub(self.idle.len() + self.opening)
    }
}

impl<W, L> Default for Keyed<W, L> {
    fn default() -> Self {
        Self { line: Line::default(), idle: Pool::default(), opening: 0, links: 0, failed: None }
    }
}

/// One worker's gate. `W` stands for a waiter, `L` for a link, `K` tells which links suit which clients.
#[derive(Debug)]
pub struct Gate<K, W, L> {
    worker: usize,
    slots: Arc<Slots>,
    links: Arc<Slots>,
    own: Line<W>,
    keyed: HashMap<K, Keyed<W, L>>,
    /// Slots handed on within this worker since another worker was looked at.
    handed_on: u32,
}

/// A link that has been idle for so long is spare: nobody misses it.
const SPARE: Duration = Duration::from_secs(1);

/// Time between a link that could not be opened and the next attempt, while others are still hoped for.
const RETRY: Duration = Duration::from_millis(500);

/// After so many slots handed on within a worker, another worker that waits gets one.
const OWN_TURNS: u32 = 8;

impl<K: Copy + Eq + Hash, W, L> Gate<K, W, L> {
    /// `slots` and `links` are the process's limits on statements and on links.
    pub fn new(worker: usize, slots: Arc<Slots>, links: Arc<Slots>) -> Self {
        Self { worker, slots, links, own: Line::default(), keyed: HashMap::new(), handed_on: 0 }
    }

    /// How many wait in this worker.
    pub fn waiting(&self) -> usize {
        self.own.len() + self.keyed.values().map(|keyed| keyed.line.len()).sum::<usize>()
    }

    pub fn idle_links(&self) -> usize {
        self.keyed.values().map(|keyed| keyed.idle.len()).sum()
    }

    /// A client that holds a link wants to start. True: it may, with a slot taken.
    pub fn enter_own(&mut self) -> bool {
        self.own.is_empty() && self.slots.try_take()
    }

    /// A client that must not wait starts: its slot may be beyond the limit.
    pub fn force(&mut self) {
        self.slots.force();
    }

    /// A client without a link wants to start; `suits` prefers some links. Its slot is taken with the link.
    pub fn enter(&mut self, key: K, suits: impl Fn(&L) -> bool) -> Option<L> {
        let keyed = self.keyed.get_mut(&key)?;
        if !keyed.line.is_empty() || keyed.idle.is_empty() || !self.slots.try_take() {
            return None;
        }
        keyed.idle.take(suits)
    }

    /// Takes this very link, if it is idle, without a slot: the client then holds it.
    pub fn claim(&mut self, key: K, is_it: impl Fn(&L) -> bool) -> Option<L> {
        let link = self.keyed.get_mut(&key)?.idle.remove(is_it);
        self.publish();
        link
    }

    /// Joins the line of those who hold a link. Call [`Self::next`] once afterwards.
    pub fn wait_own(&mut self, waiter: W, now: Instant) -> Waiting<K> {
        let place = self.own.push(waiter, now);
        self.publish();
        Waiting { lane: Lane::Own, place }
    }

    /// Joins the line of a key. Call [`Self::next`] and [`Self::want`] afterwards.
    pub fn wait(&mut self, key: K, waiter: W, now: Instant) -> Waiting<K> {
        let place = self.keyed.entry(key).or_default().line.push(waiter, now);
        self.publish();
        Waiting { lane: Lane::Key(key), place }
    }

    /// Joins the line of a key at its head: a client whose statement was sent, and must be sent again.
    pub fn wait_again(&mut self, key: K, waiter: W, now: Instant) -> Waiting<K> {
        let place = self.keyed.entry(key).or_default().line.push_first(waiter, now);
        self.publish();
        Waiting { lane: Lane::Key(key), place }
    }

    /// Leaves the line, because the client is gone. `None` if it was served already.
    pub fn leave(&mut self, waiting: Waiting<K>) -> Option<W> {
        let waiter = match waiting.lane {
            Lane::Own => self.own.leave(waiting.place),
            Lane::Key(key) => self.keyed.get_mut(&key)?.line.leave(waiting.place),
        };
        self.publish();
        waiter
    }

    /// Starts the longest waiter who can start. Call until `None` after anything was given back or put in.
    pub fn next(&mut self, suits: impl Fn(&W, &L) -> bool) -> Option<Start<W, L>> {
        let lane = self.first_ready()?;
        if !self.slots.try_take() {
            return None;
        }
        Some(self.start_head(lane, suits))
    }

    /// Ends a statement: its slot passes straight to the longest waiter who can start, if there is one here.
    ///
    /// The second part of the answer is another worker that must be woken because it waits for the slot.
    pub fn pass_on(
        &mut self,
        suits: impl Fn(&W, &L) -> bool,
    ) -> (Option<Start<W, L>>, Option<usize>) {
        let over_limit = self.slots.held() > self.slots.limit();
        if !over_limit && let Some(lane) = self.first_ready() {
            self.handed_on += 1;
            if self.handed_on < OWN_TURNS || self.slots.other_waiting(self.worker).is_none() {
                return (Some(self.start_head(lane, suits)), None);
            }
        }
        self.handed_on = 0;
        (None, self.slots.give_back(self.worker))
    }

    /// Takes the head of a key's line, whose statement is to be written to a busy link behind others: it needs no
    /// slot of its own, as it will run on theirs. `suits` says whether it may.
    ///
    /// `None` if somebody in another line has waited longer and could have the slot, or another worker is due.
    pub fn take_ahead(&mut self, key: K, suits: impl Fn(&W) -> bool) -> Option<W> {
        let line = &self.keyed.get(&key)?.line;
        let since = line.head_since()?;
        let is_due = |other: Instant| other < since;
        let other_is_due = self.own.head_since().is_some_and(is_due)
            || self
                .keyed
                .iter()
                .any(|(other, keyed)| *other != key && keyed.line.head_since().is_some_and(is_due));
        if other_is_due || !line.head().is_some_and(suits) {
            return None;
        }
        if self.handed_on >= OWN_TURNS && self.slots.other_waiting(self.worker).is_some() {
            return None;
        }
        self.handed_on += 1;
        let (waiter, _) = self.keyed.get_mut(&key)?.line.pop()?;
        self.publish();
        Some(waiter)
    }

    /// How many of those who wait in a key's line fall to each of its busy links.
    pub fn share(&self, key: K) -> usize {
        self.keyed.get(&key).map_or(0, |keyed| {
            let busy = keyed.links.saturating_sub(keyed.idle.len() + keyed.opening);
            keyed.line.len().div_ceil(busy.max(1))
        })
    }

    /// Another worker that waits for a slot which is free and of no use here, because the waiter
    /// for whom this worker was woken has been served meanwhile, or has left. Call [`Self::next`]
    /// first.
    pub fn unused_slot(&self) -> Option<usize> {
        let is_free = self.slots.held() < self.slots.limit();
        is_free.then(|| self.slots.other_waiting(self.worker)).flatten()
    }

    /// Puts a link back that anyone of its key may use. Call [`Self::next`] afterwards.
    pub fn put(&mut self, key: K, link: L, now: Instant) {
        let keyed = self.keyed.entry(key).or_default();
        keyed.idle.put(link, now);
        // Where nobody waits, nothing has become possible.
        if !keyed.line.is_empty() {
            self.publish();
        }
    }

    /// Says what would help those of this key who wait for a link.
    ///
    /// A key that has links already gets more only from those that are really spare: else two keys, or two workers,
    /// would close each other's links in turn.
    pub fn want(&mut self, key: K, now: Instant) -> Want<L> {
        let Some(keyed) = self.keyed.get_mut(&key) else { return Want::Nothing };
        if keyed.lacking() == 0 {
            return Want::Nothing;
        }
        if keyed.failed.is_some_and(|at| now.saturating_duration_since(at) < RETRY) {
            return Want::Nothing;
        }
        if self.links.try_take() {
            keyed.opening += 1;
            keyed.links += 1;
            self.publish();
            return Want::Open;
        }
        let has_links = keyed.links > 0;
        let spare = if has_links { SPARE } else { Duration::ZERO };
        // Idle links of the key itself only wait for a slot.
        let coldest = self
            .keyed
            .iter_mut()
            .filter(|(other, _)| **other != key)
            .filter_map(|(_, keyed)| Some((keyed.idle.coldest()?, keyed)))
            .min_by_key(|(since, _)| *since);
        match coldest.and_then(|(_, keyed)| keyed.idle.expire(now, spare)) {
            Some(link) => {
                self.publish();
                Want::Close(link)
            }
            None if has_links => Want::Nothing,
            None => Want::Ask,
        }
    }

    /// A link that is not idle serves another key from now on.
    pub fn rekey(&mut self, from: K, to: K) {
        if from != to {
            if let Some(keyed) = self.keyed.get_mut(&from) {
                keyed.links = keyed.links.saturating_sub(1);
            }
            self.keyed.entry(to).or_default().links += 1;
        }
    }

    /// A link that was being opened is there, and is put in with [`Self::put`].
    pub fn opened(&mut self, key: K) {
        if let Some(keyed) = self.keyed.get_mut(&key) {
            keyed.opening = keyed.opening.saturating_sub(1);
            keyed.failed = None;
        }
        self.publish();
    }

    /// A link could not be opened, and no other is tried for a while: a server that refuses is not to be stormed.
    /// The answer is another worker that waits for its place under the cap.
    #[must_use]
    pub fn failed(&mut self, key: K, now: Instant) -> Option<usize> {
        if let Some(keyed) = self.keyed.get_mut(&key) {
            keyed.opening = keyed.opening.saturating_sub(1);
            keyed.failed = Some(now);
        }
        self.closed(key, |_| false)
    }

    /// A link of this key is gone. The answer is another worker that waits for its place under the cap.
    #[must_use]
    pub fn closed(&mut self, key: K, is_it: impl Fn(&L) -> bool) -> Option<usize> {
        if let Some(keyed) = self.keyed.get_mut(&key) {
            keyed.idle.remove(is_it);
            keyed.links = keyed.links.saturating_sub(1);
            if keyed.links == 0 && keyed.line.is_empty() && keyed.opening == 0 {
                self.keyed.remove(&key);
            }
        }
        self.publish();
        self.links.give_back(self.worker)
    }

    /// Whether links of this key exist, or are being opened.
    pub fn has_links(&self, key: K) -> bool {
        self.keyed.get(&key).is_some_and(|keyed| keyed.links > 0)
    }

    /// Takes out an idle link of one of these keys.
    pub fn take_idle(&mut self, is_one: impl Fn(K) -> bool, now: Instant) -> Option<L> {
        let mut keyed = self.keyed.iter_mut().filter(|(key, _)| is_one(**key));
        let link = keyed.find_map(|(_, keyed)| keyed.idle.expire(now, Duration::ZERO));
        self.publish();
        link
    }

    /// Takes out the coldest link that has been idle for `age`; zero takes any.
    pub fn expire_link(&mut self, now: Instant, age: Duration) -> Option<L> {
        let link = self.keyed.values_mut().find_map(|keyed| keyed.idle.expire(now, age));
        self.publish();
        link
    }

    /// Takes out the waiter who has waited longest, if that is `wait_max` or more.
    pub fn expire_waiter(&mut self, now: Instant, wait_max: Duration) -> Option<(W, Duration)> {
        let is_late = |since: Instant| now.saturating_duration_since(since) >= wait_max;
        let line = if self.own.head_since().is_some_and(is_late) {
            &mut self.own
        } else {
            let mut lines = self.keyed.values_mut().map(|keyed| &mut keyed.line);
            lines.find(|line| line.head_since().is_some_and(is_late))?
        };
        let (waiter, since) = line.pop()?;
        self.publish();
        Some((waiter, now.saturating_duration_since(since)))
    }

    /// Takes out a waiter of this key, if no link of the key exists or is being opened that could ever serve it.
    pub fn give_up(&mut self, key: K) -> Option<W> {
        let keyed = self.keyed.get_mut(&key).filter(|keyed| keyed.links == 0)?;
        let waiter = keyed.line.pop();
        if keyed.line.is_empty() {
            // Who comes next has a try of his own.
            keyed.failed = None;
        }
        let (waiter, _) = waiter?;
        self.publish();
        Some(waiter)
    }

    /// Keys that have somebody waiting for a link.
    pub fn keys_waiting(&self) -> impl Iterator<Item = K> + '_ {
        self.keyed.iter().filter(|(_, keyed)| !keyed.line.is_empty()).map(|(key, _)| *key)
    }

    /// The lane whose head has waited longest among those that could start if they had a slot.
    fn first_ready(&self) -> Option<Lane<K>> {
        let own = self.own.head_since().map(|since| (since, Lane::Own));
        let keyed = self.keyed.iter().filter(|(_, keyed)| !keyed.idle.is_empty()).filter_map(
            |(key, keyed)| keyed.line.head_since().map(|since| (since, Lane::Key(*key))),
        );
        keyed.chain(own).min_by_key(|(since, _)| *since).map(|(_, lane)| lane)
    }

    fn start_head(&mut self, lane: Lane<K>, suits: impl Fn(&W, &L) -> bool) -> Start<W, L> {
        const READY: &str = "first_ready saw a waiter and a link here";
        let start = match lane {
            Lane::Own => Start::Own(self.own.pop().expect(READY).0),
            Lane::Key(key) => {
                let keyed = self.keyed.get_mut(&key).expect(READY);
                let (waiter, _) = keyed.line.pop().expect(READY);
                let link = keyed.idle.take(|link| suits(&waiter, link)).expect(READY);
                Start::On(waiter, link)
            }
        };
        self.publish();
        start
    }

    /// Tells the other workers how many here wait for nothing but a slot, and how many for nothing
    /// but a place under the cap: whoever gives one back must not hand it to a worker that cannot
    /// use it while others wait.
    fn publish(&self) {
        let for_slots = self.own.len() + self.keyed.values().map(Keyed::ready).sum::<usize>();
        self.slots.publish_waiting(self.worker, for_slots);
        let for_links = self.keyed.values().map(Keyed::lacking).sum();
        self.links.publish_waiting(self.worker, for_links);
    }
}

#[cfg(test)]
mod tests;
