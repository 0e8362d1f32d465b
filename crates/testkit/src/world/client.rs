//! What a client of the world is doing.

use engine::gate::Slot;

/// A client. It has one statement at a time.
#[derive(Debug, Default)]
pub(super) struct Client {
    pub(super) process: usize,
    pub(super) worker: usize,
    /// When its statement came, and when its transaction began.
    pub(super) came: f64,
    pub(super) began: f64,
    /// When its statement was let in.
    pub(super) let_in: f64,
    /// Reads from the disk that are left, and processor time that a cold start costs on top.
    pub(super) reads_left: u32,
    pub(super) cold: f64,
    pub(super) statements: u64,
    /// Whether it is a transaction's, and which statement of it.
    pub(super) writes: bool,
    pub(super) step: u32,
    /// The hot row that it has locked, or waits for.
    pub(super) row: Option<usize>,
    pub(super) wanted: Option<usize>,
    /// The second half of the statement that locks a row.
    pub(super) has_asked: bool,
    /// It has waited for a row for too long.
    pub(super) has_failed: bool,
    /// Counts its units, so that a timer knows whether it is still meant.
    pub(super) unit: u64,
    /// What Flifo gave it.
    pub(super) slot: Option<Slot>,
    pub(super) backend: Option<u32>,
    /// Borrowed, by the note's gate.
    pub(super) is_lifo: bool,
    /// In the server, or on the way to it or back.
    pub(super) is_in: bool,
}

/// The statements of a transaction.
pub(super) const LOCKS: u32 = 1;
pub(super) const COMMITS: u32 = 3;

impl Client {
    /// What kind of statement it has, as its digest.
    pub(super) fn kind(&self) -> u64 {
        if self.writes { 100 + u64::from(self.step) } else { 1 }
    }

    pub(super) fn is_in_transaction(&self) -> bool {
        self.writes && self.step > 0
    }

    pub(super) fn ends_unit(&self) -> bool {
        !self.writes || self.step == COMMITS
    }
}
