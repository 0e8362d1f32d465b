//! The links behind a gate: which are idle, which are wanted, and what becomes of them.
//!
//! Owns the pools of each key and the places under the cap on links; who gets a link is decided by the lanes.

use std::hash::Hash;
use std::time::{Duration, Instant};

use super::{Gate, Waiter};

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

/// A link that has been idle for so long is spare: nobody misses it.
const SPARE: Duration = Duration::from_secs(1);

/// Time between a link that could not be opened and the next attempt, while others are still hoped for.
const RETRY: Duration = Duration::from_millis(500);

impl<K: Copy + Eq + Hash, W, L> Gate<K, W, L> {
    pub fn idle_links(&self) -> usize {
        self.keyed.values().map(|keyed| keyed.idle.len()).sum()
    }

    /// Takes this very link, if it is idle, without a slot: the client then holds it.
    pub fn claim(&mut self, key: K, is_it: impl Fn(&L) -> bool) -> Option<L> {
        let link = self.keyed.get_mut(&key)?.idle.remove(is_it);
        self.publish();
        link
    }

    /// Puts a link back that anyone of its key may use. Call [`Self::next`] afterwards.
    pub fn put(&mut self, key: K, link: L, now: Instant) {
        let keyed = self.keyed(key);
        keyed.idle.put(link, now);
        // Where nobody waits, nothing has become possible.
        if keyed.waiting() > 0 {
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
            self.keyed(to).links += 1;
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
            if keyed.links == 0 && keyed.all_waiting() == 0 && keyed.opening == 0 {
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

    /// Takes out a waiter of this key, if no link of the key exists or is being opened that could ever serve it.
    pub fn give_up(&mut self, key: K) -> Option<W> {
        let keyed = self.keyed.get_mut(&key).filter(|keyed| keyed.links == 0)?;
        let mut lines = keyed.lines.iter_mut();
        let waiter = lines.find_map(|line| line.pop_aside().or_else(|| line.pop()));
        if keyed.all_waiting() == 0 {
            // Who comes next has a try of his own.
            keyed.failed = None;
        }
        let (Waiter { waiter, ask }, _) = waiter?;
        self.left(ask);
        Some(waiter)
    }

    /// Takes out a waiter of this key, because the server is not for those who have no link to it.
    pub fn take_waiter(&mut self, key: K) -> Option<W> {
        let mut lines = self.keyed.get_mut(&key)?.lines.iter_mut();
        let waiter = lines.find_map(|line| line.pop_aside().or_else(|| line.pop()));
        let (Waiter { waiter, ask }, _) = waiter?;
        self.left(ask);
        Some(waiter)
    }

    /// Keys that have somebody waiting for a link.
    pub fn keys_waiting(&self) -> impl Iterator<Item = K> + '_ {
        self.keyed.iter().filter(|(_, keyed)| keyed.all_waiting() > 0).map(|(key, _)| *key)
    }

    /// How many of those who wait in a key's line fall to each of its busy links.
    pub fn share(&self, key: K) -> usize {
        self.keyed.get(&key).map_or(0, |keyed| {
            let busy = keyed.links.saturating_sub(keyed.idle.len() + keyed.opening);
            keyed.waiting().div_ceil(busy.max(1))
        })
    }
}
