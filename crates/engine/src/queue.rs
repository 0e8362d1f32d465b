//! A waiting line: first in, first out, and any waiter may leave it at any time.
//!
//! It can be served from its end, too. A waiter that could not be served even if it were its turn can be set aside, so
//! that those behind it are served; later it is brought back to the head.
//!
//! Entries live in one vector and are linked by index, so that joining, being served and leaving early cost the
//! same few instructions whatever the length, and a line that has reached its usual length allocates no more.

use std::time::Instant;

/// A place in a line, for leaving it early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePlace {
    index: u32,
    /// Tells apart the entries that used the same index one after another.
    generation: u32,
}

#[derive(Debug)]
struct Entry<W> {
    /// `None` while the entry is on the free list.
    waiter: Option<W>,
    since: Instant,
    generation: u32,
    row: Row,
    before: u32,
    after: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Row {
    Queue,
    Aside,
}

/// The ends of a row, and how many stand in it.
#[derive(Clone, Copy, Debug)]
struct Ends {
    head: u32,
    tail: u32,
    len: usize,
}

/// The line itself. `W` is a waiter.
#[derive(Debug)]
pub struct Queue<W> {
    entries: Vec<Entry<W>>,
    queue: Ends,
    aside: Ends,
    free: u32,
}

const NONE: u32 = u32::MAX;

const EMPTY: Ends = Ends { head: NONE, tail: NONE, len: 0 };

impl<W> Default for Queue<W> {
    fn default() -> Self {
        Self { entries: Vec::new(), queue: EMPTY, aside: EMPTY, free: NONE }
    }
}

impl<W> Queue<W> {
    /// How many stand in the queue, without those set aside.
    pub const fn len(&self) -> usize {
        self.queue.len
    }

    pub const fn is_empty(&self) -> bool {
        self.queue.len == 0
    }

    /// How many have been set aside.
    pub const fn aside(&self) -> usize {
        self.aside.len
    }

    /// Since when the oldest has waited.
    pub fn head_since(&self) -> Option<Instant> {
        self.entries.get(self.queue.head as usize).map(|entry| entry.since)
    }

    /// Since when the oldest of those set aside has waited.
    pub fn aside_since(&self) -> Option<Instant> {
        self.entries.get(self.aside.head as usize).map(|entry| entry.since)
    }

    /// Joins at the end.
    pub fn push(&mut self, waiter: W, now: Instant) -> QueuePlace {
        let index = self.new_entry(waiter, now);
        self.backend_last(index, Row::Queue);
        self.place(index)
    }

    /// Joins at the head, before all others: a waiter that was served and must be served again.
    pub fn push_first(&mut self, waiter: W, now: Instant) -> QueuePlace {
        let since = self.head_since().map_or(now, |head| head.min(now));
        let index = self.new_entry(waiter, since);
        self.backend_first(index);
        self.place(index)
    }

    /// The waiter that has waited longest.
    pub fn head(&self) -> Option<&W> {
        self.entries.get(self.queue.head as usize)?.waiter.as_ref()
    }

    /// The waiter that came last.
    pub fn last(&self) -> Option<&W> {
        self.entries.get(self.queue.tail as usize)?.waiter.as_ref()
    }

    /// The waiter that has waited longest, to be changed.
    pub fn head_mut(&mut self) -> Option<&mut W> {
        self.entries.get_mut(self.queue.head as usize)?.waiter.as_mut()
    }

    /// The waiter that came last, to be changed.
    pub fn last_mut(&mut self) -> Option<&mut W> {
        self.entries.get_mut(self.queue.tail as usize)?.waiter.as_mut()
    }

    /// Serves the waiter that has waited longest.
    pub fn pop(&mut self) -> Option<(W, Instant)> {
        let since = self.head_since()?;
        Some((self.free(self.queue.head)?, since))
    }

    /// Serves the waiter that came last.
    pub fn pop_last(&mut self) -> Option<(W, Instant)> {
        let since = self.entries.get(self.queue.tail as usize)?.since;
        Some((self.free(self.queue.tail)?, since))
    }

    /// Takes out the oldest of those set aside.
    pub fn pop_aside(&mut self) -> Option<(W, Instant)> {
        let since = self.aside_since()?;
        Some((self.free(self.aside.head)?, since))
    }

    /// Leaves the line. `None` if that place was served already.
    pub fn leave(&mut self, place: QueuePlace) -> Option<W> {
        let entry = self.entries.get(place.index as usize)?;
        if entry.generation != place.generation || entry.waiter.is_none() {
            return None;
        }
        self.free(place.index)
    }

    /// Sets the one at the head aside; it keeps its place for leaving.
    pub fn set_head_aside(&mut self) {
        self.set_aside(self.queue.head);
    }

    /// Sets the waiter that came last aside.
    pub fn set_last_aside(&mut self) {
        self.set_aside(self.queue.tail);
    }

    /// Looks at so many of those set aside, beginning behind so many first, and goes on with the first one behind the
    /// last. Those for which `comes_back` says so go back to the head, in their order.
    pub fn bring_back(
        &mut self,
        first: usize,
        looks: usize,
        mut comes_back: impl FnMut(&W) -> bool,
    ) {
        let mut back = Vec::new();
        let mut index = self.aside_at(first);
        for _ in 0..looks.min(self.aside.len) {
            let Some(entry) = self.entries.get(index as usize) else { break };
            if entry.waiter.as_ref().is_some_and(&mut comes_back) {
                back.push(index);
            }
            index = if entry.after == NONE { self.aside.head } else { entry.after };
        }
        for index in back.into_iter().rev() {
            self.unlink(index);
            self.backend_first(index);
        }
    }

    /// The one behind so many first that were set aside, from the end that is nearer.
    fn aside_at(&self, first: usize) -> u32 {
        let Ends { head, tail, len } = self.aside;
        let behind = len.saturating_sub(first);
        let (mut index, steps) =
            if first <= behind { (head, first) } else { (tail, behind.max(1) - 1) };
        for _ in 0..steps {
            let Some(entry) = self.entries.get(index as usize) else { break };
            index = if first <= behind { entry.after } else { entry.before };
        }
        index
    }

    /// Whether the waiter with this place is one that was set aside.
    pub fn is_aside(&self, place: QueuePlace) -> bool {
        let entry = self.entries.get(place.index as usize);
        entry.is_some_and(|it| {
            it.generation == place.generation && it.waiter.is_some() && it.row == Row::Aside
        })
    }

    fn set_aside(&mut self, index: u32) {
        if index != NONE {
            self.unlink(index);
            self.backend_last(index, Row::Aside);
        }
    }

    fn place(&self, index: u32) -> QueuePlace {
        QueuePlace { index, generation: self.entries[index as usize].generation }
    }

    fn new_entry(&mut self, waiter: W, since: Instant) -> u32 {
        let waiter = Some(waiter);
        if let Some(entry) = self.entries.get_mut(self.free as usize) {
            let index = self.free;
            self.free = entry.after;
            entry.waiter = waiter;
            entry.since = since;
            return index;
        }
        let index = u32::try_from(self.entries.len()).expect("a line is shorter than 2^32");
        let (row, generation) = (Row::Queue, 0);
        self.entries.push(Entry { waiter, since, generation, row, before: NONE, after: NONE });
        index
    }

    fn row(&mut self, row: Row) -> &mut Ends {
        match row {
            Row::Queue => &mut self.queue,
            Row::Aside => &mut self.aside,
        }
    }

    fn backend_last(&mut self, index: u32, row: Row) {
        let ends = self.row(row);
        let tail = std::mem::replace(&mut ends.tail, index);
        ends.len += 1;
        match self.entries.get_mut(tail as usize) {
            Some(last) => last.after = index,
            None => self.row(row).head = index,
        }
        let entry = &mut self.entries[index as usize];
        (entry.row, entry.before, entry.after) = (row, tail, NONE);
    }

    fn backend_first(&mut self, index: u32) {
        let head = std::mem::replace(&mut self.queue.head, index);
        self.queue.len += 1;
        match self.entries.get_mut(head as usize) {
            Some(first) => first.before = index,
            None => self.queue.tail = index,
        }
        let entry = &mut self.entries[index as usize];
        (entry.row, entry.before, entry.after) = (Row::Queue, NONE, head);
    }

    fn unlink(&mut self, index: u32) {
        let Entry { row, before, after, .. } = self.entries[index as usize];
        match self.entries.get_mut(before as usize) {
            Some(previous) => previous.after = after,
            None => self.row(row).head = after,
        }
        match self.entries.get_mut(after as usize) {
            Some(next) => next.before = before,
            None => self.row(row).tail = before,
        }
        self.row(row).len -= 1;
    }

    /// Takes a waiter out and keeps its entry for another.
    fn free(&mut self, index: u32) -> Option<W> {
        let waiter = self.entries.get_mut(index as usize)?.waiter.take()?;
        self.unlink(index);
        let entry = &mut self.entries[index as usize];
        entry.generation = entry.generation.wrapping_add(1);
        entry.after = self.free;
        self.free = index;
        Some(waiter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn first_in_first_out_and_anyone_may_leave() {
        let now = Instant::now();
        let mut queue = Queue::default();
        let _a = queue.push('a', now);
        let b = queue.push('b', now);
        let _c = queue.push('c', now);
        assert_eq!(queue.leave(b), Some('b'));
        assert_eq!(queue.leave(b), None);
        assert_eq!(queue.pop().map(|(waiter, _)| waiter), Some('a'));
        let d = queue.push('d', now);
        assert_ne!(d, b, "a reused entry is another place");
        assert_eq!(queue.leave(b), None);
        assert_eq!(queue.pop().map(|(waiter, _)| waiter), Some('c'));
        assert_eq!(queue.pop().map(|(waiter, _)| waiter), Some('d'));
        assert!(queue.pop().is_none() && queue.is_empty() && queue.head_since().is_none());
    }

    #[test]
    fn who_is_set_aside_lets_others_pass_and_comes_back_first() {
        let now = Instant::now();
        let mut queue = Queue::default();
        let [a, b, _, _] = ['a', 'b', 'c', 'd'].map(|waiter| queue.push(waiter, now));
        queue.set_head_aside();
        queue.set_head_aside();
        queue.set_last_aside();
        assert_eq!(
            (queue.len(), queue.aside(), queue.head(), queue.last()),
            (1, 3, Some(&'c'), Some(&'c'))
        );
        assert_eq!(queue.leave(a), Some('a'));
        let mut seen = Vec::new();
        let mut look = |first, looks, wanted| {
            seen.clear();
            queue.bring_back(first, looks, |waiter| {
                seen.push(*waiter);
                *waiter == wanted
            });
            seen.iter().collect::<String>()
        };
        assert_eq!([look(0, 9, 'a'), look(1, 9, 'a'), look(1, 1, 'a')], ["bd", "db", "d"]);
        assert_eq!([look(2, 0, 'b'), look(1, 9, 'd'), look(5, 9, 'a')], ["", "db", "b"]);
        assert_eq!(queue.pop().map(|it| it.0), Some('d'));
        assert_eq!(queue.pop().map(|it| it.0), Some('c'));
        assert_eq!(queue.aside_since(), Some(now));
        assert_eq!(queue.pop_aside().map(|it| it.0), Some('b'));
        assert_eq!(queue.leave(b), None);
        assert!(queue.pop_aside().is_none() && queue.pop_last().is_none());
    }

    #[test]
    fn those_that_come_back_keep_their_order() {
        let now = Instant::now();
        let mut queue = Queue::default();
        for waiter in 0..9 {
            queue.push(waiter, now);
            queue.set_head_aside();
        }
        for first in 0..9 {
            let mut seen = None;
            queue.bring_back(first, 1, |waiter| seen.replace(*waiter).is_some());
            assert_eq!(seen, Some(first));
        }
        queue.push(9, now);
        // Six, seven, eight, none, one and two are looked at.
        queue.bring_back(6, 6, |waiter| waiter % 2 == 0);
        let came: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|(waiter, _)| waiter).collect();
        assert_eq!((came, queue.aside()), (vec![6, 8, 0, 2, 9], 5));
    }

    /// Random joins, departures and services against a plain deque.
    #[test]
    fn agrees_with_a_deque() {
        let now = Instant::now();
        for seed in 1..50_u64 {
            let mut random = seed;
            let (mut queue, mut model) = (Queue::default(), VecDeque::new());
            for step in 0..2_000_u64 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                assert_eq!(queue.head(), model.front().map(|(_, waiter)| waiter));
                match random >> 33 & 3 {
                    0 if random >> 50 & 7 == 0 => {
                        model.push_front((queue.push_first(step, now), step));
                    }
                    0 | 1 => model.push_back((queue.push(step, now), step)),
                    2 if random >> 50 & 7 == 0 => {
                        assert_eq!(queue.last(), model.back().map(|(_, waiter)| waiter));
                        let want = model.pop_back().map(|(_, waiter)| waiter);
                        assert_eq!(queue.pop_last().map(|(waiter, _)| waiter), want, "seed {seed}");
                    }
                    2 if random >> 50 & 7 == 1 => {
                        // Aside and back again, of a waiter at either end: it is the first then.
                        queue.set_last_aside();
                        queue.bring_back(0, 1, |_| true);
                        if let Some(last) = model.pop_back() {
                            model.push_front(last);
                        }
                    }
                    2 => {
                        let want = model.pop_front().map(|(_, waiter)| waiter);
                        assert_eq!(queue.pop().map(|(waiter, _)| waiter), want, "seed {seed}");
                    }
                    _ if model.is_empty() => {}
                    _ => {
                        let (place, want) =
                            model.remove((random >> 40) as usize % model.len()).unwrap();
                        assert_eq!(queue.leave(place), Some(want), "seed {seed}");
                    }
                }
                assert_eq!(queue.len(), model.len());
            }
        }
    }
}
