//! A number that the whole process may have of something: so many backends, so many statements of a class.
//!
//! Shared by all workers through atomics and never locked. A worker that finds nothing left keeps its waiters in its
//! own memory and says so here; a worker that gives something back learns whether another worker waits for it.

use crate::sync::{AtomicU32, Ordering::SeqCst};

/// A number of equal permits, and the workers that wait for one.
#[derive(Debug)]
pub struct Cap {
    limit: AtomicU32,
    held: AtomicU32,
    /// For each worker, how many of its own wait.
    waiting: Box<[AtomicU32]>,
}

impl Cap {
    /// # Panics
    /// If `limit` is zero: nothing could ever run. The configuration has refused it.
    pub fn new(limit: u32, workers: usize) -> Self {
        assert!(limit > 0);
        Self {
            limit: AtomicU32::new(limit),
            held: AtomicU32::new(0),
            waiting: (0..workers).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    pub fn limit(&self) -> u32 {
        self.limit.load(SeqCst)
    }

    /// Another limit; zero is one. What is held beyond it stays until it is given back.
    pub fn set_limit(&self, limit: u32) {
        self.limit.store(limit.max(1), SeqCst);
    }

    pub fn held(&self) -> u32 {
        self.held.load(SeqCst)
    }

    /// Takes one if the limit allows.
    pub fn try_take(&self) -> bool {
        let limit = self.limit();
        self.held.fetch_update(SeqCst, SeqCst, |held| (held < limit).then_some(held + 1)).is_ok()
    }

    /// Takes one beyond the limit, for a statement that must not wait.
    pub fn force(&self) {
        self.held.fetch_add(1, SeqCst);
    }

    /// Gives one back. The worker that gets the answer `Some(other)` must wake that other one, which waits.
    #[must_use]
    pub fn give_back(&self, worker: usize) -> Option<usize> {
        let before = self.held.fetch_sub(1, SeqCst);
        debug_assert!(before > 0, "more given back than taken");
        // Both sides publish first and look second, so one of them sees the other.
        if before > self.limit() { None } else { self.other_waiting(worker) }
    }

    /// Another worker that has waiters; the search starts behind `worker`, so that all workers get their turn.
    pub fn other_waiting(&self, worker: usize) -> Option<usize> {
        let workers = self.waiting.len();
        (1..workers)
            .map(|step| (worker + step) % workers)
            .find(|other| self.waiting[*other].load(SeqCst) > 0)
    }

    /// Whether what is published is read at all: by other workers.
    pub fn is_told(&self) -> bool {
        self.waiting.len() > 1
    }

    /// Publishes how many of this worker's own wait. Call [`Self::try_take`] once more afterwards.
    pub fn publish_waiting(&self, worker: usize, count: usize) {
        if self.waiting.len() == 1 {
            return;
        }
        self.waiting[worker].store(u32::try_from(count).unwrap_or(u32::MAX), SeqCst);
    }
}
