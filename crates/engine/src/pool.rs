//! A server's links that are free to be used: the most recently used one is taken first.
//!
//! Last in, first out keeps a few of the server's threads and their caches hot and lets the others age until they
//! are closed. Links are told apart by a key: only a link with the same key can serve a client.

use std::time::{Duration, Instant};

#[derive(Debug)]
struct Idle<L> {
    link: L,
    since: Instant,
}

/// The idle links of one key, oldest first.
#[derive(Debug)]
pub struct Pool<L> {
    idle: Vec<Idle<L>>,
}

impl<L> Default for Pool<L> {
    fn default() -> Self {
        Self { idle: Vec::new() }
    }
}

impl<L> Pool<L> {
    pub const fn len(&self) -> usize {
        self.idle.len()
    }

    pub const fn is_empty(&self) -> bool {
        self.idle.is_empty()
    }

    /// Takes the most recently used link that `suits`, else the most recently used one of all.
    ///
    /// A link that suits saves a fix-up; only the few hottest ones are looked at.
    pub fn take(&mut self, suits: impl Fn(&L) -> bool) -> Option<L> {
        if self.idle.last().is_some_and(|idle| suits(&idle.link)) {
            return self.idle.pop().map(|idle| idle.link);
        }
        let hottest = self.idle.len().saturating_sub(LOOK);
        let found = self.idle[hottest..].iter().rposition(|idle| suits(&idle.link));
        match found {
            Some(offset) => Some(self.idle.remove(hottest + offset).link),
            None => self.idle.pop().map(|idle| idle.link),
        }
    }

    pub fn put(&mut self, link: L, now: Instant) {
        self.idle.push(Idle { link, since: now });
    }

    /// Takes out the link that has been idle longest, if it has been so for `age`.
    pub fn expire(&mut self, now: Instant, age: Duration) -> Option<L> {
        let oldest = self.idle.first()?;
        (now.saturating_duration_since(oldest.since) >= age).then(|| self.idle.remove(0).link)
    }

    /// Since when the coldest link is idle.
    pub fn coldest(&self) -> Option<Instant> {
        self.idle.first().map(|idle| idle.since)
    }

    /// Whether one of its links is this.
    pub fn has(&self, is_it: impl Fn(&L) -> bool) -> bool {
        self.idle.iter().any(|idle| is_it(&idle.link))
    }

    /// Takes out one particular link, because it died, or must not be lent any more.
    pub fn remove(&mut self, is_it: impl Fn(&L) -> bool) -> Option<L> {
        let at = self.idle.iter().position(|idle| is_it(&idle.link))?;
        Some(self.idle.remove(at).link)
    }
}

/// How many of the hottest links are searched for one that suits.
const LOOK: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hottest_link_that_suits_is_taken() {
        let now = Instant::now();
        let mut pool = Pool::default();
        for link in 1..=4 {
            pool.put(link, now);
        }
        assert_eq!(pool.take(|link| *link == 2), Some(2));
        assert_eq!(pool.take(|link| *link == 2), Some(4));
        assert_eq!(pool.remove(|link| *link == 1), Some(1));
        assert_eq!(pool.take(|_| true), Some(3));
        assert_eq!(pool.take(|_| true), None);
    }

    #[test]
    fn the_coldest_link_ages_out() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        let mut pool = Pool::default();
        pool.put('a', now);
        pool.put('b', now + second);
        assert_eq!(pool.expire(now + second, 2 * second), None);
        assert_eq!(pool.expire(now + 2 * second, 2 * second), Some('a'));
        assert_eq!(pool.expire(now + 2 * second, 2 * second), None);
        assert_eq!(pool.coldest(), Some(now + second));
    }
}
