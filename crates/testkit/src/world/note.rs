//! The gates of the note inside of a server: first in, first out, with and without the borrow for newcomers.
//!
//! A thread that is chosen to run takes a while to wake, the longer the more of them wait, and finds its caches
//! cold. Both are fitted to the note's first-in-first-out column, and the other column follows from them.

use std::collections::VecDeque;

/// A gate of the note.
#[derive(Clone, Debug)]
pub struct NoteGate {
    pub limit: u32,
    /// Whether a newcomer may enter while lifo-running < fifo-pending.
    pub borrows: bool,
    /// Mean time to wake up: at once, and for each one that waits.
    pub wake: [f64; 2],
    /// What a cold start costs, as a share of a statement: for each one that waits, and for its square.
    pub cold: [f64; 2],
    pub(super) held: u32,
    pub(super) pending: u32,
    pub(super) lifo: u32,
    pub(super) line: VecDeque<usize>,
    pub(super) entered: u64,
    pub(super) entered_lifo: u64,
}

/// How a client gets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Fifo,
    Lifo,
    Waits,
}

impl NoteGate {
    pub fn fifo(limit: u32) -> Self {
        Self {
            limit,
            borrows: false,
            wake: [0.02, 0.0043],
            cold: [0.9e-3, 0.7e-6],
            held: 0,
            pending: 0,
            lifo: 0,
            line: VecDeque::new(),
            entered: 0,
            entered_lifo: 0,
        }
    }

    pub fn flifo(limit: u32) -> Self {
        Self { borrows: true, ..Self::fifo(limit) }
    }

    pub(super) fn enter(&mut self, client: usize) -> Entry {
        if self.held < self.limit {
            self.held += 1;
            self.entered += 1;
            return Entry::Fifo;
        }
        if self.borrows && self.lifo < self.pending {
            self.lifo += 1;
            self.entered_lifo += 1;
            return Entry::Lifo;
        }
        self.line.push_back(client);
        Entry::Waits
    }

    /// Chooses the next one to run: it is pending until it has woken.
    pub(super) fn choose(&mut self) -> Option<usize> {
        if self.held >= self.limit {
            return None;
        }
        let client = self.line.pop_front()?;
        self.held += 1;
        self.pending += 1;
        Some(client)
    }

    pub(super) fn woken(&mut self) {
        self.pending -= 1;
        self.entered += 1;
    }

    pub(super) fn leave(&mut self, is_lifo: bool) {
        if is_lifo {
            self.lifo -= 1;
        } else {
            self.held -= 1;
        }
        // I1 to I4 of the note's mechanism.
        assert!(self.held <= self.limit && self.pending <= self.held);
        assert!(self.held - self.pending + self.lifo <= 2 * self.limit);
    }
}
