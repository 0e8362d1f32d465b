//! The keys of a gate: which clients wait for a backend of which key, which backends are idle, and which key has waited
//! longest.
//!
//! Owns the lines and the pools of all keys, and totals and orders over all keys that need no look at each key: a gate
//! may have thousands of keys with waiters in the queue, and the choice among them must not take longer for it.
//!
//! Invariants: a key is changed by functions of [`Keys`] only, which bring the lists up to date;
//! so a key is in a list if, and only if, its lines and its pool say so.

mod front;

use std::collections::BTreeSet;
use std::hash::Hash;
use std::time::{Duration, Instant};

use super::waiter::{Candidates, Waiter};
use crate::numbers::NumberMap;
use crate::pool::Pool;
use crate::queue::Queue;
use front::Front;

/// What there is of one key.
#[derive(Debug)]
pub(super) struct Keyed<W, L> {
    /// One for each class.
    pub(super) queues: Vec<Queue<Waiter<W>>>,
    pub(super) idle: Pool<L>,
    pub(super) opening: usize,
    /// Backends of this key that exist: idle, running or held.
    pub(super) backends: usize,
    /// When one was put back last.
    pub(super) put: Option<Instant>,
    /// When the last attempt to open one failed, if none has succeeded since.
    pub(super) failed: Option<Instant>,
    /// Its user has as many backends as it may: a place of the server's would not help.
    pub(super) is_blocked: bool,
    listed: Listed,
}

/// How a key stands in the lists.
#[derive(Debug)]
struct Listed {
    /// For each class.
    heads: Vec<Head>,
    demand: usize,
    demands_since: Option<Instant>,
    is_aside: bool,
    has_idle: bool,
    /// No client waits, and the lists know it.
    is_quiet: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Head {
    /// Since when the oldest in the queue has waited; the same, if it lacks nothing but a slot.
    since: Option<Instant>,
    ready_since: Option<Instant>,
    /// How many lack nothing but a slot.
    ready: usize,
}

/// All keys.
#[derive(Debug)]
pub(super) struct Keys<K, W, L> {
    keys: NumberMap<K, Keyed<W, L>>,
    lists: Lists<K>,
}

#[derive(Debug)]
struct Lists<K> {
    /// For each class.
    classes: Vec<ClassLists<K>>,
    /// How many another backend would serve at once, and the keys that they have; the longest waiter's is in front.
    demand: usize,
    demanding: Front<(Instant, K)>,
    /// Keys for which that has changed; with one worker, none is noted.
    moved: Vec<(K, Option<Instant>)>,
    is_told: bool,
    /// Keys with waiters set aside, and keys with an idle backend.
    aside: Front<K>,
    idle: Front<K>,
}

/// Of one class.
#[derive(Debug)]
struct ClassLists<K> {
    /// Keys with waiters in the queue, and of these the ones with an idle backend; the key of the longest waiter is in
    /// front.
    heads: Front<(Instant, K)>,
    ready_heads: Front<(Instant, K)>,
    /// How many lack nothing but a slot.
    ready: usize,
}

impl<K> Default for ClassLists<K> {
    fn default() -> Self {
        Self { heads: Front::default(), ready_heads: Front::default(), ready: 0 }
    }
}

impl<W, L> Keyed<W, L> {
    fn new(classes: usize) -> Self {
        let heads = vec![Head::default(); classes];
        Self {
            queues: (0..classes).map(|_| Queue::default()).collect(),
            idle: Pool::default(),
            opening: 0,
            backends: 0,
            put: None,
            failed: None,
            is_blocked: false,
            listed: Listed {
                heads,
                demand: 0,
                demands_since: None,
                is_aside: false,
                has_idle: false,
                is_quiet: true,
            },
        }
    }

    /// How many stand in the queue, without those set aside.
    pub(super) fn waiting(&self) -> usize {
        self.queues.iter().map(Queue::len).sum()
    }

    /// How many wait, those set aside included.
    pub(super) fn all_waiting(&self) -> usize {
        self.waiting() + self.queues.iter().map(Queue::aside).sum::<usize>()
    }

    /// How many wait for a backend that is not even being opened.
    pub(super) fn lacking(&self) -> usize {
        self.waiting().saturating_sub(self.idle.len() + self.opening)
    }

    /// How many another backend would serve at once. Where backends are idle, only slots are missing.
    pub(super) fn demand(&self) -> usize {
        let is_hopeless = self.is_blocked || self.failed.is_some() || !self.idle.is_empty();
        if is_hopeless { 0 } else { self.waiting().saturating_sub(self.opening) }
    }

    /// Since when the oldest in the queue waits.
    pub(super) fn waits_since(&self) -> Option<Instant> {
        self.queues.iter().filter_map(Queue::head_since).min()
    }

    /// For how long it is still better to wait for one of its own backends than to open another one: they come round,
    /// and the oldest in the queue has not waited for longer than that would take.
    pub(super) fn patience(&self, now: Instant, setup: Duration) -> Option<Duration> {
        let left =
            |at| setup.checked_sub(now.saturating_duration_since(at)).filter(|it| !it.is_zero());
        let comes_round = self.backends > 0 && self.put.is_some_and(|at| left(at).is_some());
        self.waits_since().and_then(left).filter(|_| comes_round)
    }

    /// Whether no client waits, in the queue or set aside.
    pub(super) const fn is_quiet(&self) -> bool {
        self.listed.is_quiet
    }

    fn head(&self, class: usize) -> Head {
        let queue = &self.queues[class];
        let since = queue.head_since();
        let ready_since = since.filter(|_| !self.idle.is_empty());
        Head { since, ready_since, ready: queue.len().min(self.idle.len()) }
    }
}

impl<K: Copy + Ord + Hash, W, L> Keys<K, W, L> {
    /// `is_told`: other workers are told how long keys' clients lack backends.
    pub(super) fn new(classes: usize, is_told: bool) -> Self {
        let lists = Lists {
            classes: (0..classes).map(|_| ClassLists::default()).collect(),
            demand: 0,
            demanding: Front::default(),
            moved: Vec::new(),
            is_told,
            aside: Front::default(),
            idle: Front::default(),
        };
        Self { keys: NumberMap::default(), lists }
    }

    /// There are so many classes, and never fewer than before.
    pub(super) fn resize(&mut self, classes: usize) {
        self.lists.classes.resize_with(classes, ClassLists::default);
        for keyed in self.keys.values_mut() {
            keyed.queues.resize_with(classes, Queue::default);
            keyed.listed.heads.resize(classes, Head::default());
        }
    }

    pub(super) fn get(&self, key: K) -> Option<&Keyed<W, L>> {
        self.keys.get(&key)
    }

    /// Changes a key that exists.
    pub(super) fn change<R>(
        &mut self,
        key: K,
        change: impl FnOnce(&mut Keyed<W, L>) -> R,
    ) -> Option<R> {
        let keyed = self.keys.get_mut(&key)?;
        let answer = change(keyed);
        self.lists.update(key, keyed);
        Some(answer)
    }

    /// Takes an idle backend of this key; one that `suits` is preferred.
    pub(super) fn take_idle(&mut self, key: K, suits: impl Fn(&L) -> bool) -> Option<L> {
        let keyed = self.keys.get_mut(&key)?;
        let backend = keyed.idle.take(suits);
        self.lists.update_idle(key, keyed);
        backend
    }

    /// Puts a backend back. Returns whether a client of its key waits.
    pub(super) fn put_idle(&mut self, key: K, backend: L, now: Instant) -> bool {
        let classes = self.lists.classes.len();
        let keyed = self.keys.entry(key).or_insert_with(|| Keyed::new(classes));
        keyed.idle.put(backend, now);
        keyed.put = Some(now);
        self.lists.update_idle(key, keyed);
        !keyed.is_quiet()
    }

    /// Changes a key, which is made if need be.
    pub(super) fn change_new<R>(
        &mut self,
        key: K,
        change: impl FnOnce(&mut Keyed<W, L>) -> R,
    ) -> R {
        let classes = self.lists.classes.len();
        let keyed = self.keys.entry(key).or_insert_with(|| Keyed::new(classes));
        let answer = change(keyed);
        self.lists.update(key, keyed);
        answer
    }

    /// Forgets a key of which nothing is left.
    pub(super) fn forget(&mut self, key: K) {
        let is_left = |it: &Keyed<W, L>| it.backends > 0 || it.all_waiting() > 0 || it.opening > 0;
        if self.keys.get(&key).is_some_and(|keyed| !is_left(keyed)) {
            self.keys.remove(&key);
        }
    }

    /// The key whose oldest of this class has waited longest, and since when.
    pub(super) fn first(&self, class: usize, candidates: Candidates) -> Option<(Instant, K)> {
        let lists = &self.lists.classes[class];
        match candidates {
            Candidates::Ready => lists.ready_heads.first(),
            Candidates::All => lists.heads.first(),
        }
        .copied()
    }

    /// How many of this class lack nothing but a slot: a few less, where classes share a key's last idle backends.
    pub(super) fn ready(&self, class: usize) -> usize {
        self.lists.classes[class].ready
    }

    /// How many another backend would serve at once.
    pub(super) const fn demand(&self) -> usize {
        self.lists.demand
    }

    /// Since when the oldest of these has waited, and its key; without those of one key, if that is told.
    pub(super) fn first_demand(&self, but: Option<K>) -> Option<(Instant, K)> {
        self.demands().find(|(_, key)| Some(*key) != but)
    }

    /// Keys whose clients another backend would serve at once, and since when the oldest has waited, which is the order.
    pub(super) fn demands(&self) -> impl Iterator<Item = (Instant, K)> + '_ {
        self.lists.demanding.iter().copied()
    }

    /// Keys for which that has changed since this was asked last. A key may come again; the last one is right.
    pub(super) fn moved_demands(&mut self) -> impl Iterator<Item = (K, Option<Instant>)> + '_ {
        self.lists.moved.drain(..)
    }

    /// Keys with waiters set aside.
    pub(super) fn aside(&self) -> impl Iterator<Item = K> + '_ {
        self.lists.aside.iter().copied()
    }

    /// Keys with an idle backend.
    pub(super) fn idle(&self) -> impl Iterator<Item = (K, &Pool<L>)> {
        self.lists.idle.iter().filter_map(|key| Some((*key, &self.keys.get(key)?.idle)))
    }

    /// Keys that have waiters; the key whose oldest waiter has waited longest is first.
    pub(super) fn waiting(&self) -> Vec<K> {
        let heads = self.lists.classes.iter().flat_map(|class| class.heads.iter().copied());
        let mut heads: Vec<_> = heads.collect();
        heads.sort_unstable();
        let keys = heads.into_iter().map(|(_, key)| key).chain(self.aside());
        let mut seen = BTreeSet::new();
        keys.filter(|key| seen.insert(*key)).collect()
    }
}

impl<K: Copy + Ord> Lists<K> {
    /// Brings a key's entries up to date.
    fn update<W, L>(&mut self, key: K, keyed: &mut Keyed<W, L>) {
        let was_quiet = keyed.listed.is_quiet;
        keyed.listed.is_quiet = keyed.all_waiting() == 0;
        let is_other = !was_quiet && keyed.listed.is_quiet;
        self.update_idle(key, keyed);
        if is_other {
            self.update_lines(key, keyed);
        }
    }

    /// The same, where only the pool has changed. Usually no client waits, and only the pool needs a look.
    fn update_idle<W, L>(&mut self, key: K, keyed: &mut Keyed<W, L>) {
        let has_idle = !keyed.idle.is_empty();
        if std::mem::replace(&mut keyed.listed.has_idle, has_idle) != has_idle {
            enlist(&mut self.idle, key, has_idle);
        }
        if !keyed.listed.is_quiet {
            self.update_lines(key, keyed);
        }
    }

    fn update_lines<W, L>(&mut self, key: K, keyed: &mut Keyed<W, L>) {
        for (class, lists) in self.classes.iter_mut().enumerate() {
            let now = keyed.head(class);
            let was = std::mem::replace(&mut keyed.listed.heads[class], now);
            if was == now {
                continue;
            }
            relist(&mut lists.heads, key, was.since, now.since);
            relist(&mut lists.ready_heads, key, was.ready_since, now.ready_since);
            lists.ready = lists.ready - was.ready + now.ready;
        }
        let demand = keyed.demand();
        self.demand = self.demand - std::mem::replace(&mut keyed.listed.demand, demand) + demand;
        let since = keyed.waits_since().filter(|_| demand > 0);
        let was = std::mem::replace(&mut keyed.listed.demands_since, since);
        relist(&mut self.demanding, key, was, since);
        if self.is_told && was != since {
            self.moved.push((key, since));
        }
        let is_aside = keyed.queues.iter().any(|queue| queue.aside() > 0);
        if std::mem::replace(&mut keyed.listed.is_aside, is_aside) != is_aside {
            enlist(&mut self.aside, key, is_aside);
        }
    }
}

fn relist<K: Copy + Ord>(
    list: &mut Front<(Instant, K)>,
    key: K,
    was: Option<Instant>,
    now: Option<Instant>,
) {
    if was == now {
        return;
    }
    if let Some(was) = was {
        list.remove(&(was, key));
    }
    if let Some(now) = now {
        list.insert((now, key));
    }
}

fn enlist<K: Copy + Ord>(list: &mut Front<K>, key: K, is_in: bool) {
    if is_in {
        list.insert(key);
    } else {
        list.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::cmp::Ordering;
    use std::hash::Hasher;
    use std::sync::Arc;

    use super::*;
    use crate::classes::{Class, Classes};
    use crate::gate::{Ask, Gate, Start, Want};
    use crate::places::ConnectionPlaces;
    use crate::slots::Slots;

    thread_local! {
        static LOOKS: Cell<u32> = const { Cell::new(0) };
    }

    /// A key that counts how often it is looked at.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Counted(u32);

    impl Hash for Counted {
        fn hash<H: Hasher>(&self, state: &mut H) {
            LOOKS.set(LOOKS.get() + 1);
            self.0.hash(state);
        }
    }

    impl Ord for Counted {
        fn cmp(&self, other: &Self) -> Ordering {
            LOOKS.set(LOOKS.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    impl PartialOrd for Counted {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    #[test]
    fn a_key_whose_backends_are_all_kept_gets_another_ones_place() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let slots = Arc::new(Slots::new(4, 1, now));
        let classes = Arc::new(Classes::new(vec![Class::default()], 1));
        let mut gate = Gate::new(0, slots, Arc::new(ConnectionPlaces::new(2, 1, now)), classes);
        for key in [1, 2] {
            gate.wait(key, key, Ask::default(), now).expect("no line is full");
            assert_eq!(gate.want(key, now), Want::Open);
            gate.opened(key);
            gate.put(key, key, now);
            assert!(matches!(gate.next(now, |_, _| true), Some(Start::On(..))));
        }
        // The client on the first one keeps it.
        gate.wait(1, 3, Ask::default(), now + second).expect("no line is full");
        assert_eq!(gate.want(1, now + second), Want::Ask, "none is idle");
        gate.put(2, 2, now + second);
        assert_eq!(gate.want(1, now + second), Want::Close(2));
    }

    /// One slot, two workers, and so many keys, each with a waiter in the queue and a backend for it. Returns how many
    /// keys are looked at when a statement ends, with all that follows from that end.
    fn looks_of_one_end(keys: u32) -> u32 {
        let now = Instant::now();
        let slots = Arc::new(Slots::new(1, 2, now));
        let classes = Arc::new(Classes::new(vec![Class::default(), Class::default()], 2));
        let mut gate = Gate::new(0, slots, Arc::new(ConnectionPlaces::new(keys, 2, now)), classes);
        let mut running = gate.enter_own(Ask::default(), now);
        for key in 0..keys {
            let since = now + Duration::from_micros(u64::from(key));
            gate.wait(Counted(key), key, Ask::default(), since).expect("no line is full");
            assert_eq!(gate.want(Counted(key), now), Want::Open);
            gate.opened(Counted(key));
            gate.put(Counted(key), key, now);
        }
        LOOKS.set(0);
        for turn in 0..keys {
            let slot = running.take().expect("one runs");
            let Some(Start::On(waiter, backend, slot)) = gate.pass_on(slot, now, |_, _| true)
            else {
                panic!("somebody is in the queue");
            };
            assert_eq!(
                (waiter, backend),
                (turn, turn),
                "the oldest, on a backend connection of its key"
            );
            gate.put(Counted(backend), backend, now);
            running = Some(slot);
            assert!(gate.next(now, |_, _| true).is_none(), "one slot");
        }
        LOOKS.get() / keys
    }

    #[test]
    fn the_next_of_thousands_of_keys_is_found_without_a_look_at_each() {
        let (few, many) = (looks_of_one_end(4), looks_of_one_end(4096));
        assert!(few < 100 && many < 300, "{few} of 4, {many} of 4096");
    }
}
