//! The backends behind a gate: which are idle, which are wanted, and what becomes of them.
//!
//! Owns the pools of each key and this worker's share of the places; which client gets a backend is decided by the
//! lanes.
//!
//! Room is made when a client begins to wait or stops, and when a backend comes back, not by a clock: an idle backend of
//! another key is closed, one of another worker is handed over. Where clients wait for backends in several workers, a
//! backend that comes back goes to the oldest of them, but not with each statement: its own worker's may have waited a
//! little less long, and a backend serves its own key for a while before it is given up for another one.

use std::hash::{Hash, Hasher};
use std::time::{Duration, Instant};

use super::waiter::Waiter;
use super::{Gate, MUCH_OLDER, OLDER};
use crate::numbers::OwnNumber;
use crate::places::Elder;
use crate::pool::Pool;
use crate::slots::micros;

/// What should be done so that clients that wait for a backend get one.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Want<L> {
    Nothing,
    /// Open a backend; its place has been taken.
    Open,
    /// Close this idle backend of another key, then ask again.
    Close(L),
    /// A backend of the key is likely to be free before another one is ready: ask again in this time.
    Later(Duration),
    /// All places are taken: tell the workers that do not know it ([`Gate::inattentive`]).
    Ask,
}

/// Where a backend that comes back is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Due {
    /// In this gate's pool.
    Here,
    /// A client that needs another kind of backend gets its place, here or in another worker: it is closed.
    Nowhere,
    /// In another worker, which has a client that it suits: it is sent there.
    Worker(usize),
}

/// Time between a backend that could not be opened and the next attempt, while others are still hoped for.
const RETRY: Duration = Duration::from_millis(500);

/// About what it takes until a new backend is ready. One that comes back sooner saves that.
pub(super) const SETUP: Duration = Duration::from_millis(5);

/// Before a backend is given up for clients of another key, it serves its own key for so long, if clients of that key
/// wait. Where there are more keys than backends, the keys take turns, and the backends do not spend all their time
/// with logins.
pub(super) const TENURE: Duration = Duration::from_millis(100);

/// After so many turns within a worker, a backend goes to a client of another worker if that client is [`OLDER`] by
/// this. The number is higher than for slots: to move a backend to another worker costs as much as some statements.
pub(super) const BACKEND_TURNS: u32 = 32;

impl<K: Copy + Ord + Hash, W, L> Gate<K, W, L> {
    pub fn idle_backends(&self) -> usize {
        self.keys.idle().map(|(_, idle)| idle.len()).sum()
    }

    /// Takes this very backend, if it is idle, without a slot: the client then holds it.
    pub fn claim(&mut self, key: K, is_it: impl Fn(&L) -> bool) -> Option<L> {
        let backend = self.keys.change(key, |keyed| keyed.idle.remove(is_it))?;
        self.publish();
        backend
    }

    /// Whether one of the idle backends is such a one.
    pub fn has_idle(&self, is_one: impl Fn(&L) -> bool) -> bool {
        self.keys.idle().any(|(_, idle)| idle.any(&is_one))
    }

    /// Puts a backend back that anyone of its key may use. Call [`Self::due`] before, and [`Self::next`] afterwards.
    #[inline]
    pub fn put(&mut self, key: K, backend: L, now: Instant) {
        // If no client of its key waits, no statement can start because of it.
        if self.keys.put_idle(key, backend, now) {
            self.publish();
        }
    }

    /// Where a backend of this key is due, and `age` tells how long ago it was opened.
    #[inline]
    pub fn due(&mut self, key: K, age: impl FnOnce() -> Duration) -> Due {
        // Mostly no client lacks a backend, here or elsewhere.
        if !self.is_attentive && self.keys.demand() == 0 {
            return Due::Here;
        }
        self.due_among(key, age())
    }

    fn due_among(&mut self, key: K, age: Duration) -> Due {
        let keyed = self.keys.get(key);
        // The client that takes it, if it stays.
        let own = keyed.filter(|it| it.waiting() > it.idle.len()).and_then(|it| it.waits_since());
        let of_others = self.keys.demand() - keyed.map_or(0, |keyed| keyed.demand());
        let here = self.keys.first_demand(Some(key)).filter(|_| of_others > self.closing);
        let here = here.map(|(since, _)| self.backends.at(since));
        let (alike, there) = self.elders(kind_of(key));
        let its_own = [alike.map(|it| it.since), own.map(|own| self.backends.at(own))];
        let others = [here, there.map(|it| it.since)];
        // The oldest that it suits, and the oldest of those that only its place would serve.
        let [suited, other] = [its_own, others].map(|all| all.into_iter().flatten().min());
        let gives_way = match (suited, other) {
            (_, None) => false,
            // No client would miss it but one that has still to come.
            (None, Some(_)) => true,
            (Some(suited), Some(other)) => {
                age >= TENURE && other.saturating_add(micros(OLDER)) <= suited
            }
        };
        if gives_way {
            match there {
                Some(elder) if other != here => {
                    self.backends.promise(elder.worker);
                    self.promised.push_back(elder.worker);
                }
                _ => self.closing += 1,
            }
            return Due::Nowhere;
        }
        let Some(elder) = alike else { return Due::Here };
        if own.is_none_or(|own| self.is_turn_of(elder.since, own)) {
            self.backends_kept = 0;
            self.backends.promise(elder.worker);
            return Due::Worker(elder.worker);
        }
        Due::Here
    }

    /// Whether a backend that could serve a client of this worker is due to an older one elsewhere: at once if that is
    /// much older, and if it is a little older after some turns.
    fn is_turn_of(&mut self, since: u64, own: Instant) -> bool {
        self.backends_kept += 1;
        let is_turn_over = self.backends_kept >= BACKEND_TURNS;
        let by = if is_turn_over { OLDER } else { MUCH_OLDER };
        let is_due = self.backends.is_older(since, own, by);
        if is_turn_over && !is_due {
            self.backends_kept = 0;
        }
        is_due
    }

    /// Whether a backend of this key that always has a next statement written behind the one that runs would keep it
    /// from a client that has waited longer than `since`.
    pub(super) fn is_backend_wanted(&mut self, key: K, since: Instant) -> bool {
        let here = (self.keys.demand() > 0).then(|| self.keys.first_demand(Some(key))).flatten();
        let here = here.map(|(since, _)| self.backends.at(since));
        let there = self.elder().map(|elder| elder.since);
        here.into_iter().chain(there).any(|oldest| self.backends.is_older(oldest, since, OLDER))
    }

    /// The client of another worker that has lacked a backend longest.
    fn elder(&mut self) -> Option<Elder> {
        if !self.is_attentive {
            return None;
        }
        if let Some(elder) = self.backends.oldest_other(self.worker) {
            return Some(elder);
        }
        self.look_away()
    }

    /// Of other workers' clients, the one that has lacked a backend of this kind longest, and one of any other kind.
    fn elders(&mut self, kind: u32) -> (Option<Elder>, Option<Elder>) {
        if self.elder().is_none() {
            return (None, None);
        }
        let (all, own) = (&self.backends, self.worker);
        (all.oldest_other_of(own, kind), all.oldest_other_but(own, kind))
    }

    /// Other workers have to tell it from now on when their clients lack backends.
    fn look_away(&mut self) -> Option<Elder> {
        self.is_attentive = false;
        self.backends.set_attentive(self.worker, false);
        // Both sides publish first and look second, so one of them sees the other.
        let elder = self.backends.oldest_other(self.worker)?;
        self.look_out();
        Some(elder)
    }

    fn look_out(&mut self) {
        self.is_attentive = true;
        self.backends.set_attentive(self.worker, true);
    }

    /// Whether clients of other workers lack backends, as far as is known here, and one is idle. If a waiter has gone,
    /// it may have been all that kept that one here: call [`Self::give_idle`].
    #[inline]
    pub fn may_give_idle(&self) -> bool {
        self.is_attentive && self.keys.idle().next().is_some()
    }

    /// A client of another worker lacks a backend. Takes out an idle one that is not wanted more here, and says where
    /// it is due. Call until `None`; then ask [`Self::lacks_more`], for a client here may have waited for a slot to run
    /// on it.
    pub fn give_idle(&mut self, now: Instant) -> Option<(K, L, Due)> {
        self.look_out();
        let elder = self.elder()?;
        let gate = &*self;
        let may_go = |key: K| {
            let waits_since = gate.keys.get(key).and_then(|keyed| keyed.waits_since());
            waits_since.is_none_or(|since| gate.backends.is_older(elder.since, since, OLDER))
        };
        let idle = || gate.keys.idle().filter(|(key, _)| may_go(*key));
        let alike = idle().find(|(key, _)| kind_of(*key) == elder.kind).map(|(key, _)| key);
        let coldest = || idle().filter_map(|(key, idle)| Some((idle.coldest()?, key))).min();
        let key = alike.or_else(|| coldest().map(|(_, key)| key))?;
        let backend = self.keys.change(key, |keyed| keyed.idle.expire(now, Duration::ZERO))??;
        self.backends.promise(elder.worker);
        self.publish();
        if alike.is_some() {
            return Some((key, backend, Due::Worker(elder.worker)));
        }
        self.promised.push_back(elder.worker);
        Some((key, backend, Due::Nowhere))
    }

    /// Whether more clients lack backends than when this was asked last: those that waited for a slot and a backend,
    /// and have seen another one take the backend. Ask after [`Self::next`] and [`Self::give_idle`]; if so, each key must
    /// be asked for with [`Self::want`].
    #[inline]
    pub const fn lacks_more(&mut self) -> bool {
        let demand = self.keys.demand();
        let lacks_more = demand > self.lacked;
        self.lacked = demand;
        lacks_more
    }

    /// Workers that must be told that clients here lack backends.
    pub fn inattentive(&self) -> Vec<usize> {
        self.backends.inattentive(self.worker).collect()
    }

    /// Says what would help the clients of this key that wait for a backend.
    pub fn want(&mut self, key: K, now: Instant) -> Want<L> {
        let Some(keyed) = self.keys.get(key).filter(|keyed| keyed.lacking() > 0) else {
            return Want::Nothing;
        };
        if let Some(failed) = keyed.failed {
            if now.saturating_duration_since(failed) < RETRY {
                return Want::Nothing;
            }
            self.keys.change(key, |keyed| keyed.failed = None);
            self.publish();
        }
        if self.backends.take(self.worker) {
            self.keys.change(key, |keyed| {
                keyed.opening += 1;
                keyed.backends += 1;
            });
            self.publish();
            return Want::Open;
        }
        self.want_room(key, now, |_| true)
    }

    /// The same where the key's user has as many backends as it may: one of its own others must go. `is_of_user` tells
    /// the keys of those.
    pub fn want_of_user(
        &mut self,
        key: K,
        now: Instant,
        is_of_user: impl Fn(K) -> bool,
    ) -> Want<L> {
        let lacks = |keyed: &super::keys::Keyed<W, L>| keyed.lacking() > 0;
        if !self.keys.get(key).is_some_and(lacks) {
            return Want::Nothing;
        }
        if self.keys.change(key, |keyed| !std::mem::replace(&mut keyed.is_blocked, true))
            == Some(true)
        {
            self.publish();
        }
        self.want_room(key, now, is_of_user)
    }

    /// The key's user may have more backends again.
    pub fn unblock(&mut self, key: K) {
        if self.keys.get(key).is_some_and(|keyed| keyed.is_blocked) {
            self.keys.change(key, |keyed| keyed.is_blocked = false);
            self.publish();
        }
    }

    /// No place is free: an idle backend of another key has to go, or one of another worker.
    fn want_room(&mut self, key: K, now: Instant, is_one: impl Fn(K) -> bool) -> Want<L> {
        // Idle backends of the key itself only wait for a slot.
        let Some(keyed) = self.keys.get(key).filter(|keyed| keyed.idle.is_empty()) else {
            return Want::Nothing;
        };
        let lacking = keyed.lacking().max(self.keys.demand());
        if self.closing >= lacking {
            return Want::Nothing;
        }
        if let Some(patience) = keyed.patience(now, SETUP) {
            return Want::Later(patience);
        }
        let others = self.keys.idle().filter(|(other, _)| *other != key && is_one(*other));
        let coldest = others.filter_map(|(other, idle)| Some((idle.coldest()?, other))).min();
        let backend = coldest
            .and_then(|(_, other)| {
                self.keys.change(other, |it| it.idle.expire(now, Duration::ZERO))
            })
            .flatten();
        match backend {
            Some(backend) => {
                self.closing += 1;
                self.publish();
                Want::Close(backend)
            }
            None => Want::Ask,
        }
    }

    /// A backend that is not idle serves another key from now on.
    pub fn rekey(&mut self, from: K, to: K) {
        if from != to {
            self.keys.change(from, |keyed| keyed.backends = keyed.backends.saturating_sub(1));
            self.keys.change_new(to, |keyed| keyed.backends += 1);
        }
    }

    /// A backend that was being opened is there, and is put in with [`Self::put`].
    pub fn opened(&mut self, key: K) {
        self.keys.change(key, |keyed| {
            keyed.opening = keyed.opening.saturating_sub(1);
            keyed.failed = None;
        });
        self.publish();
    }

    /// A backend that another worker has sent is there, with its place, and is put in with [`Self::put`].
    pub fn arrived(&mut self, key: K) {
        self.backends.arrived(self.worker);
        self.keys.change_new(key, |keyed| keyed.backends += 1);
        self.publish();
    }

    /// A backend has come from another process, with no place of this one: it gets one, beyond the limit if need be.
    pub fn adopted(&mut self, key: K) {
        self.backends.force();
        self.keys.change_new(key, |keyed| keyed.backends += 1);
        self.publish();
    }

    /// A backend has been sent to the worker that [`Self::due`] has named.
    pub fn sent(&mut self, key: K) {
        self.keys.change(key, |keyed| keyed.backends = keyed.backends.saturating_sub(1));
        self.keys.forget(key);
        self.publish();
    }

    /// A backend that was due in this worker is closed instead of being sent. Call [`Self::closed`] afterwards.
    pub fn not_sent(&mut self, to: usize) {
        self.promised.push_back(to);
    }

    /// A backend that another worker has sent cannot be used; the place that came with it goes on. The answer must be
    /// woken.
    #[must_use]
    pub fn turned_away(&mut self) -> Option<usize> {
        self.backends.arrived(self.worker);
        self.backends.give_back()
    }

    /// A backend could not be opened, and no other is tried for a while: a server that refuses is not to be stormed.
    /// The answer is a worker that must be woken, because it waits for its place.
    #[must_use]
    pub fn failed(&mut self, key: K, now: Instant) -> Option<usize> {
        self.keys.change(key, |keyed| {
            keyed.opening = keyed.opening.saturating_sub(1);
            keyed.failed = Some(now);
        });
        self.closed(key, |_| false)
    }

    /// A backend of this key is gone. The answer is a worker that must be woken, because it waits for its place.
    #[must_use]
    pub fn closed(&mut self, key: K, is_it: impl Fn(&L) -> bool) -> Option<usize> {
        self.keys.change(key, |keyed| {
            keyed.idle.remove(is_it);
            keyed.backends = keyed.backends.saturating_sub(1);
        });
        self.keys.forget(key);
        self.publish();
        if let Some(worker) = self.promised.pop_front() {
            return self.backends.fulfil(worker);
        }
        self.closing = self.closing.saturating_sub(1);
        self.backends.give_back()
    }

    /// Places that were granted to this worker and that none of its clients can use go on. Call after each key has been
    /// asked for with [`Self::want`], and [`Self::next_wake`] afterwards.
    pub fn return_places(&mut self) {
        while self.backends.claim(self.worker) {
            let other = self.backends.give_back_elsewhere(self.worker);
            self.to_wake.extend(other);
        }
    }

    /// Whether clients of this key are in the queue.
    pub fn has_waiters(&self, key: K) -> bool {
        self.keys.get(key).is_some_and(|keyed| keyed.waiting() > 0)
    }

    /// Whether backends of this key exist, or are being opened.
    pub fn has_backends(&self, key: K) -> bool {
        self.keys.get(key).is_some_and(|keyed| keyed.backends > 0)
    }

    /// Takes out an idle backend of one of these keys.
    pub fn take_idle(&mut self, is_one: impl Fn(K) -> bool, now: Instant) -> Option<L> {
        let key = self.keys.idle().map(|(key, _)| key).find(|key| is_one(*key))?;
        let backend = self.keys.change(key, |keyed| keyed.idle.expire(now, Duration::ZERO))?;
        self.publish();
        backend
    }

    /// Takes out the backend that is idle longest of those that no client here waits for, because the server, or the
    /// process, has no room for another one.
    pub fn take_coldest(&mut self, now: Instant) -> Option<L> {
        let spare = self.keys.idle().filter(|(key, _)| !self.has_waiters(*key));
        let (_, key) = spare.filter_map(|(key, idle)| Some((idle.coldest()?, key))).min()?;
        let backend = self.keys.change(key, |keyed| keyed.idle.expire(now, Duration::ZERO))?;
        self.publish();
        backend
    }

    /// Takes out an idle backend that is one of these.
    pub fn take_idle_backend(&mut self, is_one: impl Fn(&L) -> bool) -> Option<L> {
        let has_one = |idle: &Pool<L>| idle.has(&is_one);
        let key = self.keys.idle().find(|(_, idle)| has_one(idle)).map(|(key, _)| key)?;
        let backend = self.keys.change(key, |keyed| keyed.idle.remove(&is_one))?;
        self.publish();
        backend
    }

    /// Takes out the coldest backend that has been idle for `age`; zero takes any.
    pub fn expire_backend(&mut self, now: Instant, age: Duration) -> Option<L> {
        let is_old = |since| now.saturating_duration_since(since) >= age;
        let has_old = |idle: &Pool<L>| idle.coldest().is_some_and(is_old);
        let key = self.keys.idle().find(|(_, idle)| has_old(idle)).map(|(key, _)| key)?;
        let backend = self.keys.change(key, |keyed| keyed.idle.expire(now, age))?;
        self.publish();
        backend
    }

    /// Takes out a waiter of this key, if no backend of the key exists or is being opened that could ever serve it.
    pub fn give_up(&mut self, key: K) -> Option<W> {
        if self.has_backends(key) {
            return None;
        }
        let waiter = self.take_waiter(key);
        self.keys.change(key, |keyed| {
            if keyed.all_waiting() == 0 {
                // For the next client, a backend is tried again at once.
                keyed.failed = None;
            }
        });
        waiter
    }

    /// Takes out a waiter of this key, because the server is no longer for clients that have no backend to it.
    pub fn take_waiter(&mut self, key: K) -> Option<W> {
        let (Waiter { waiter, ask, .. }, _) = self.keys.change(key, |keyed| {
            let mut queues = keyed.queues.iter_mut();
            queues.find_map(|queue| queue.pop_aside().or_else(|| queue.pop()))
        })??;
        self.left(ask);
        Some(waiter)
    }

    /// Keys that have clients waiting for a backend.
    pub fn keys_waiting(&self) -> impl Iterator<Item = K> {
        self.keys.waiting().into_iter()
    }

    /// How many of the clients in a key's line fall to each of its busy backends.
    pub fn share(&self, key: K) -> usize {
        self.keys.get(key).map_or(0, |keyed| {
            let busy = keyed.backends.saturating_sub(keyed.idle.len() + keyed.opening);
            keyed.waiting().div_ceil(busy.max(1))
        })
    }

    /// Tells the other workers how many here another backend would serve at once: no more than there are slots for.
    pub(super) fn publish_demand(&mut self) {
        if self.backends.workers() == 1 {
            return;
        }
        for (key, since) in self.keys.moved_demands() {
            self.backends.publish_kind(self.worker, kind_of(key), since);
        }
        let count = self.keys.demand();
        if count == 0 {
            return self.backends.publish(self.worker, 0, []);
        }
        let free = self.slots.limit().saturating_sub(self.slots.held()) as usize;
        let oldest = self.keys.demands().map(|(since, key)| (since, kind_of(key))).take(2);
        self.backends.publish(self.worker, count.min(free.max(1)), oldest);
    }
}

/// A number for a key that is the same in each worker.
fn kind_of(key: impl Hash) -> u32 {
    let mut hasher = OwnNumber::default();
    key.hash(&mut hasher);
    hasher.finish() as u32
}
