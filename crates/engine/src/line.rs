//! A waiting line: first in, first out, and anyone may leave it at any time.
//!
//! Entries live in one vector and are linked by index, so that joining, being served and leaving early cost the
//! same few instructions whatever the length, and a line that has reached its usual length allocates no more.

use std::time::Instant;

/// A place in a line, for leaving it early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
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
    before: u32,
    after: u32,
}

/// The line itself. `W` is whoever waits.
#[derive(Debug)]
pub struct Line<W> {
    entries: Vec<Entry<W>>,
    head: u32,
    tail: u32,
    free: u32,
    len: usize,
}

const NONE: u32 = u32::MAX;

impl<W> Default for Line<W> {
    fn default() -> Self {
        Self { entries: Vec::new(), head: NONE, tail: NONE, free: NONE, len: 0 }
    }
}

impl<W> Line<W> {
    pub const fn len(&self) -> usize {
        self.len
    }

    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Since when the oldest has waited.
    pub fn head_since(&self) -> Option<Instant> {
        self.entries.get(self.head as usize).map(|entry| entry.since)
    }

    /// Joins at the end.
    pub fn push(&mut self, waiter: W, now: Instant) -> Place {
        let index = self.free_entry(now);
        let entry = &mut self.entries[index as usize];
        entry.waiter = Some(waiter);
        entry.since = now;
        entry.before = self.tail;
        entry.after = NONE;
        let place = Place { index, generation: entry.generation };
        match self.entries.get_mut(self.tail as usize) {
            Some(last) => last.after = index,
            None => self.head = index,
        }
        self.tail = index;
        self.len += 1;
        place
    }

    /// Joins at the head, before everybody: somebody who was served and must be served again.
    pub fn push_first(&mut self, waiter: W, now: Instant) -> Place {
        let since = self.head_since().map_or(now, |head| head.min(now));
        let index = self.free_entry(since);
        let entry = &mut self.entries[index as usize];
        entry.waiter = Some(waiter);
        entry.since = since;
        entry.before = NONE;
        entry.after = self.head;
        let place = Place { index, generation: entry.generation };
        match self.entries.get_mut(self.head as usize) {
            Some(first) => first.before = index,
            None => self.tail = index,
        }
        self.head = index;
        self.len += 1;
        place
    }

    /// The one who has waited longest.
    pub fn head(&self) -> Option<&W> {
        self.entries.get(self.head as usize)?.waiter.as_ref()
    }

    /// Serves the one who has waited longest.
    pub fn pop(&mut self) -> Option<(W, Instant)> {
        let since = self.head_since()?;
        let waiter = self.unlink(self.head)?;
        Some((waiter, since))
    }

    /// Leaves the line. `None` if that place was served already.
    pub fn leave(&mut self, place: Place) -> Option<W> {
        let entry = self.entries.get(place.index as usize)?;
        if entry.generation != place.generation || entry.waiter.is_none() {
            return None;
        }
        self.unlink(place.index)
    }

    fn free_entry(&mut self, now: Instant) -> u32 {
        if self.free != NONE {
            let index = self.free;
            self.free = self.entries[index as usize].after;
            return index;
        }
        let index = u32::try_from(self.entries.len()).expect("a line is shorter than 2^32");
        let entry = Entry { waiter: None, since: now, generation: 0, before: NONE, after: NONE };
        self.entries.push(entry);
        index
    }

    fn unlink(&mut self, index: u32) -> Option<W> {
        let entry = self.entries.get_mut(index as usize)?;
        let waiter = entry.waiter.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        let (before, after) = (entry.before, entry.after);
        entry.after = self.free;
        self.free = index;
        match self.entries.get_mut(before as usize) {
            Some(previous) => previous.after = after,
            None => self.head = after,
        }
        match self.entries.get_mut(after as usize) {
            Some(next) => next.before = before,
            None => self.tail = before,
        }
        self.len -= 1;
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
        let mut line = Line::default();
        let _a = line.push('a', now);
        let b = line.push('b', now);
        let _c = line.push('c', now);
        assert_eq!(line.leave(b), Some('b'));
        assert_eq!(line.leave(b), None);
        assert_eq!(line.pop().map(|(waiter, _)| waiter), Some('a'));
        let d = line.push('d', now);
        assert_ne!(d, b, "a reused entry is another place");
        assert_eq!(line.leave(b), None);
        assert_eq!(line.pop().map(|(waiter, _)| waiter), Some('c'));
        assert_eq!(line.pop().map(|(waiter, _)| waiter), Some('d'));
        assert!(line.pop().is_none() && line.is_empty() && line.head_since().is_none());
    }

    /// Random joins, departures and services against a plain deque.
    #[test]
    fn agrees_with_a_deque() {
        let now = Instant::now();
        for seed in 1..50_u64 {
            let mut random = seed;
            let (mut line, mut model) = (Line::default(), VecDeque::new());
            for step in 0..2_000_u64 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                assert_eq!(line.head(), model.front().map(|(_, waiter)| waiter));
                match random >> 33 & 3 {
                    0 if random >> 50 & 7 == 0 => {
                        model.push_front((line.push_first(step, now), step));
                    }
                    0 | 1 => model.push_back((line.push(step, now), step)),
                    2 => {
                        let want = model.pop_front().map(|(_, waiter)| waiter);
                        assert_eq!(line.pop().map(|(waiter, _)| waiter), want, "seed {seed}");
                    }
                    _ if model.is_empty() => {}
                    _ => {
                        let (place, want) =
                            model.remove((random >> 40) as usize % model.len()).unwrap();
                        assert_eq!(line.leave(place), Some(want), "seed {seed}");
                    }
                }
                assert_eq!(line.len(), model.len());
            }
        }
    }
}
