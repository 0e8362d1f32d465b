//! How many statements of all workers wait for a server, and the most that ever did at once.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

#[derive(Debug, Default)]
pub(crate) struct QueueLength {
    now: AtomicU32,
    most: AtomicU32,
}

impl QueueLength {
    /// A worker has another number of waiting statements than it had.
    pub(crate) fn change(&self, before: u32, now: u32) {
        let difference = now.wrapping_sub(before);
        let all = self.now.fetch_add(difference, Relaxed).wrapping_add(difference);
        if now > before {
            self.most.fetch_max(all, Relaxed);
        }
    }

    pub(crate) fn most(&self) -> u32 {
        self.most.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_is_that_of_all_workers_together() {
        let queue = QueueLength::default();
        queue.change(0, 3);
        queue.change(0, 2);
        queue.change(3, 0);
        queue.change(2, 4);
        assert_eq!(queue.most(), 5);
    }
}
