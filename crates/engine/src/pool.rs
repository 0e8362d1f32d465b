//! A server's backends that are free to be used: the most recently used one is taken first.
//!
//! Last in, first out keeps a few of the server's threads and their caches hot and lets the others age until they
//! are closed. Backends are told apart by a key: only a backend with the same key can serve a client.

use std::time::{Duration, Instant};

#[derive(Debug)]
struct Idle<L> {
    backend: L,
    since: Instant,
}

/// The idle backends of one key, oldest first.
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

    /// Whether one of them is such a one.
    pub fn any(&self, is_one: impl Fn(&L) -> bool) -> bool {
        self.idle.iter().any(|idle| is_one(&idle.backend))
    }

    /// Takes the most recently used backend that `suits`, else the most recently used one of all.
    ///
    /// A backend that suits saves a setup; only the few hottest ones are looked at.
    pub fn take(&mut self, suits: impl Fn(&L) -> bool) -> Option<L> {
        if self.idle.last().is_some_and(|idle| suits(&idle.backend)) {
            return self.idle.pop().map(|idle| idle.backend);
        }
        let hottest = self.idle.len().saturating_sub(LOOK);
        let found = self.idle[hottest..].iter().rposition(|idle| suits(&idle.backend));
        match found {
            Some(offset) => Some(self.idle.remove(hottest + offset).backend),
            None => self.idle.pop().map(|idle| idle.backend),
        }
    }

    pub fn put(&mut self, backend: L, now: Instant) {
        self.idle.push(Idle { backend, since: now });
    }

    /// Takes out the backend that has been idle longest, if it has been so for `age`.
    pub fn expire(&mut self, now: Instant, age: Duration) -> Option<L> {
        let oldest = self.idle.first()?;
        (now.saturating_duration_since(oldest.since) >= age).then(|| self.idle.remove(0).backend)
    }

    /// Since when the coldest backend is idle.
    pub fn coldest(&self) -> Option<Instant> {
        self.idle.first().map(|idle| idle.since)
    }

    /// Whether one of its backends is this.
    pub fn has(&self, is_it: impl Fn(&L) -> bool) -> bool {
        self.idle.iter().any(|idle| is_it(&idle.backend))
    }

    /// Takes out one particular backend, because it died, or must not be lent any more.
    pub fn remove(&mut self, is_it: impl Fn(&L) -> bool) -> Option<L> {
        let at = self.idle.iter().position(|idle| is_it(&idle.backend))?;
        Some(self.idle.remove(at).backend)
    }
}

/// How many of the hottest backends are searched for one that suits.
const LOOK: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hottest_backend_that_suits_is_taken() {
        let now = Instant::now();
        let mut pool = Pool::default();
        for backend in 1..=4 {
            pool.put(backend, now);
        }
        assert_eq!(pool.take(|backend| *backend == 2), Some(2));
        assert_eq!(pool.take(|backend| *backend == 2), Some(4));
        assert_eq!(pool.remove(|backend| *backend == 1), Some(1));
        assert_eq!(pool.take(|_| true), Some(3));
        assert_eq!(pool.take(|_| true), None);
    }

    #[test]
    fn the_coldest_backend_ages_out() {
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
