//! The links behind a gate: which are idle, which are wanted, and what becomes of them.
//!
//! Owns the pools of each key and the places under the cap on links; who gets a link is decided by the lanes.

use std::hash::Hash;
use std::time::{Duration, Instant};

use super::keys::Keyed;
use super::{Gate, Waiter};
use crate::pool::Pool;

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
    /// The same, but there are links of this key: ask other workers to close so many that nobody misses.
    AskSpare(usize),
}

/// A link that has been idle for so long is spare: nobody misses it.
const SPARE: Duration = Duration::from_secs(1);

/// Time between a link that could not be opened and the next attempt, while others are still hoped for.
const RETRY: Duration = Duration::from_millis(500);

impl<K: Copy + Ord + Hash, W, L> Gate<K, W, L> {
    pub fn idle_links(&self) -> usize {
        self.keys.idle().map(|(_, idle)| idle.len()).sum()
    }

    /// Takes this very link, if it is idle, without a slot: the client then holds it.
    pub fn claim(&mut self, key: K, is_it: impl Fn(&L) -> bool) -> Option<L> {
        let link = self.keys.change(key, |keyed| keyed.idle.remove(is_it))?;
        self.publish();
        link
    }

    /// Puts a link back that anyone of its key may use. Call [`Self::next`] afterwards.
    pub fn put(&mut self, key: K, link: L, now: Instant) {
        // Where nobody waits, nothing has become possible.
        if self.keys.put_idle(key, link, now) {
            self.publish();
        }
    }

    /// Says what would help those of this key who wait for a link.
    ///
    /// A key that has links already gets more only from those that are really spare: else two keys, or two workers,
    /// would close each other's links in turn. Unless its clients keep them all: whoever else has this key would wait in
    /// vain.
    pub fn want(&mut self, key: K, now: Instant) -> Want<L> {
        let Some(keyed) = self.keys.get(key).filter(|keyed| keyed.lacking() > 0) else {
            return Want::Nothing;
        };
        if keyed.failed.is_some_and(|at| now.saturating_duration_since(at) < RETRY) {
            return Want::Nothing;
        }
        let is_served = keyed.is_served(now, SPARE);
        if self.links.try_take() {
            self.keys.change(key, |keyed| {
                keyed.opening += 1;
                keyed.links += 1;
            });
            self.publish();
            return Want::Open;
        }
        let spare = if is_served { SPARE } else { Duration::ZERO };
        // Idle links of the key itself only wait for a slot.
        let others = self.keys.idle().filter(|(other, _)| *other != key);
        let coldest = others.filter_map(|(other, idle)| Some((idle.coldest()?, other))).min();
        let link = coldest
            .and_then(|(_, other)| self.keys.change(other, |it| it.idle.expire(now, spare))?);
        match link {
            Some(link) => {
                self.publish();
                Want::Close(link)
            }
            None if is_served => self.want_spare(key, now),
            None => Want::Ask,
        }
    }

    /// Other workers may have links that nobody misses, while slots are free and none here can use them.
    fn want_spare(&mut self, key: K, now: Instant) -> Want<L> {
        let free = self.slots.limit().saturating_sub(self.slots.held()) as usize;
        let lacking = self.keys.get(key).map_or(0, Keyed::lacking).min(free);
        let is_early = self.asked.is_some_and(|at| now.saturating_duration_since(at) < RETRY);
        if lacking == 0 || is_early || self.slots.workers() == 1 {
            return Want::Nothing;
        }
        self.asked = Some(now);
        Want::AskSpare(lacking)
    }

    /// Takes out a link that has been idle so long that nobody here misses it, for another worker that has need of
    /// its place.
    pub fn spare_link(&mut self, now: Instant) -> Option<L> {
        self.expire_link(now, SPARE)
    }

    /// A link that is not idle serves another key from now on.
    pub fn rekey(&mut self, from: K, to: K) {
        if from != to {
            self.keys.change(from, |keyed| keyed.links = keyed.links.saturating_sub(1));
            self.keys.change_new(to, |keyed| keyed.links += 1);
        }
    }

    /// A link that was being opened is there, and is put in with [`Self::put`].
    pub fn opened(&mut self, key: K) {
        self.keys.change(key, |keyed| {
            keyed.opening = keyed.opening.saturating_sub(1);
            keyed.failed = None;
        });
        self.publish();
    }

    /// A link could not be opened, and no other is tried for a while: a server that refuses is not to be stormed.
    /// The answer is another worker that waits for its place under the cap.
    #[must_use]
    pub fn failed(&mut self, key: K, now: Instant) -> Option<usize> {
        self.keys.change(key, |keyed| {
            keyed.opening = keyed.opening.saturating_sub(1);
            keyed.failed = Some(now);
        });
        self.closed(key, |_| false)
    }

    /// A link of this key is gone. The answer is another worker that waits for its place under the cap.
    #[must_use]
    pub fn closed(&mut self, key: K, is_it: impl Fn(&L) -> bool) -> Option<usize> {
        self.keys.change(key, |keyed| {
            keyed.idle.remove(is_it);
            keyed.links = keyed.links.saturating_sub(1);
        });
        self.keys.forget(key);
        self.publish();
        self.links.give_back(self.worker)
    }

    /// Whether those who wait with this key may expect one of its links.
    pub fn serves(&self, key: K, now: Instant) -> bool {
        self.keys.get(key).is_some_and(|keyed| keyed.is_served(now, SPARE))
    }

    /// Whether links of this key exist, or are being opened.
    pub fn has_links(&self, key: K) -> bool {
        self.keys.get(key).is_some_and(|keyed| keyed.links > 0)
    }

    /// Takes out an idle link of one of these keys.
    pub fn take_idle(&mut self, is_one: impl Fn(K) -> bool, now: Instant) -> Option<L> {
        let key = self.keys.idle().map(|(key, _)| key).find(|key| is_one(*key))?;
        let link = self.keys.change(key, |keyed| keyed.idle.expire(now, Duration::ZERO))?;
        self.publish();
        link
    }

    /// Takes out the coldest link that has been idle for `age`; zero takes any.
    pub fn expire_link(&mut self, now: Instant, age: Duration) -> Option<L> {
        let is_old = |since| now.saturating_duration_since(since) >= age;
        let has_old = |idle: &Pool<L>| idle.coldest().is_some_and(is_old);
        let key = self.keys.idle().find(|(_, idle)| has_old(idle)).map(|(key, _)| key)?;
        let link = self.keys.change(key, |keyed| keyed.idle.expire(now, age))?;
        self.publish();
        link
    }

    /// Takes out a waiter of this key, if no link of the key exists or is being opened that could ever serve it.
    pub fn give_up(&mut self, key: K) -> Option<W> {
        if self.has_links(key) {
            return None;
        }
        let waiter = self.take_waiter(key);
        self.keys.change(key, |keyed| {
            if keyed.all_waiting() == 0 {
                // Who comes next has a try of his own.
                keyed.failed = None;
            }
        });
        waiter
    }

    /// Takes out a waiter of this key, because the server is not for those who have no link to it.
    pub fn take_waiter(&mut self, key: K) -> Option<W> {
        let (Waiter { waiter, ask }, _) = self.keys.change(key, |keyed| {
            let mut lines = keyed.lines.iter_mut();
            lines.find_map(|line| line.pop_aside().or_else(|| line.pop()))
        })??;
        self.left(ask);
        Some(waiter)
    }

    /// Keys that have somebody waiting for a link.
    pub fn keys_waiting(&self) -> impl Iterator<Item = K> {
        self.keys.waiting().into_iter()
    }

    /// How many of those who wait in a key's line fall to each of its busy links.
    pub fn share(&self, key: K) -> usize {
        self.keys.get(key).map_or(0, |keyed| {
            let busy = keyed.links.saturating_sub(keyed.idle.len() + keyed.opening);
            keyed.waiting().div_ceil(busy.max(1))
        })
    }
}
