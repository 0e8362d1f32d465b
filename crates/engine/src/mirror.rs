//! Mirrors: statements of one cluster that also run in another one, whose replies are compared and thrown away.
//!
//! Pure decisions: which statements may be mirrored ([`fit`]), how many copies may be held, wait and run
//! ([`MirrorState`], [`queue`]), what two replies are to each other ([`compare`]), and what is remembered of each
//! statement ([`comparisons`]). Invariants: a copy is counted once, by what became of it; everything that is held has a bound;
//! a copy that finds no room is dropped.

pub mod compare;
pub mod comparisons;
pub mod fit;
pub mod queue;

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use comparisons::Comparisons;

/// Why a statement that a rule would mirror was not compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmirrored {
    /// It is no mere read, and the mirror takes no writes; or it is neither a read nor a change of rows.
    Kind,
    /// Its client is in a transaction, or statements begin one by themselves.
    Transaction,
    /// It means something in its client's session alone: that keeps a connection, or it asks for what is known there.
    Session,
    /// Its client logs in at the server by itself: Flifo does not know the password.
    PassThrough,
    /// It is longer than what is copied.
    Large,
    /// An execution with a cursor, with parameters that were sent in pieces, or in bulk.
    Execution,
    /// It ran in the mirror's own cluster.
    SameCluster,
    /// It got no answer from the server, or none that tells of the statement: it was ended.
    Unanswered,
    /// So many copies wait already.
    Full,
    /// So many bytes are held already.
    Memory,
    /// It was not answered in time.
    Late,
    /// No server of the mirror's cluster takes such statements.
    NoServer,
    /// The server refuses the user.
    Refused,
    Unreachable,
    /// The connection broke off.
    Lost,
    /// The server refuses to take the session's variables, or answers with what cannot be read.
    Setup,
    /// The rule is not there any more.
    Removed,
}

impl Unmirrored {
    pub const ALL: [(&'static str, Self); 17] = [
        ("kind", Self::Kind),
        ("transaction", Self::Transaction),
        ("session", Self::Session),
        ("pass_through", Self::PassThrough),
        ("large", Self::Large),
        ("execution", Self::Execution),
        ("same_cluster", Self::SameCluster),
        ("unanswered", Self::Unanswered),
        ("full", Self::Full),
        ("memory", Self::Memory),
        ("late", Self::Late),
        ("no_server", Self::NoServer),
        ("refused", Self::Refused),
        ("unreachable", Self::Unreachable),
        ("lost", Self::Lost),
        ("setup", Self::Setup),
        ("removed", Self::Removed),
    ];

    pub const fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }

    /// Whether it was to be mirrored, and was not; else it was left out for what it is.
    pub const fn is_dropped(self) -> bool {
        self as usize >= Self::Full as usize
    }
}

/// What one rule's mirror has and has done, for all threads.
#[derive(Debug, Default)]
pub struct MirrorState {
    unmirrored: [AtomicU64; Unmirrored::ALL.len()],
    /// Bytes of copies that are held.
    bytes: AtomicUsize,
    waiting: AtomicUsize,
    running: AtomicUsize,
    is_removed: AtomicBool,
    comparisons: Mutex<Comparisons>,
}

impl MirrorState {
    /// A statement was not mirrored.
    pub fn leave_out(&self, why: Unmirrored) {
        self.unmirrored[why as usize].fetch_add(1, Relaxed);
    }

    /// How often that has happened.
    pub fn left_out(&self, why: Unmirrored) -> u64 {
        self.unmirrored[why as usize].load(Relaxed)
    }

    /// Takes room for a copy. `None`: there is none.
    pub fn hold(self: &Arc<Self>, bytes: usize, most: usize) -> Option<HeldCopy> {
        let mut held = HeldCopy { of: Arc::clone(self), bytes: 0 };
        held.take_more(bytes.saturating_add(COPY), most).then_some(held)
    }

    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// How many copies wait, and how many run.
    pub fn under_way(&self) -> (usize, usize) {
        (self.waiting.load(Relaxed), self.running.load(Relaxed))
    }

    pub fn see_under_way(&self, waiting: usize, running: usize) {
        self.waiting.store(waiting, Relaxed);
        self.running.store(running, Relaxed);
    }

    /// The rule is not there any more: what waits is not sent.
    pub fn remove(&self) {
        self.is_removed.store(true, Relaxed);
    }

    pub fn is_removed(&self) -> bool {
        self.is_removed.load(Relaxed)
    }

    /// What is known of each statement.
    pub fn comparisons(&self) -> MutexGuard<'_, Comparisons> {
        self.comparisons.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a copy takes beside its text.
const COPY: usize = 1024;

/// Room for a copy; dropped, it is given back.
#[derive(Debug)]
pub struct HeldCopy {
    of: Arc<MirrorState>,
    bytes: usize,
}

impl HeldCopy {
    pub const fn of(&self) -> &Arc<MirrorState> {
        &self.of
    }

    /// Takes more room for the same copy. False: there is none, and it has what it had.
    #[must_use]
    pub fn take_more(&mut self, bytes: usize, most: usize) -> bool {
        let take = |held: usize| held.checked_add(bytes).filter(|all| *all <= most);
        let has_taken = self.of.bytes.fetch_update(Relaxed, Relaxed, take).is_ok();
        self.bytes += if has_taken { bytes } else { 0 };
        has_taken
    }
}

impl Drop for HeldCopy {
    fn drop(&mut self) {
        self.of.bytes.fetch_sub(self.bytes, Relaxed);
    }
}

/// When the log is told again of what goes wrong again and again.
#[derive(Debug, Default)]
pub struct Reminder {
    told: Option<Instant>,
    left_out: u64,
}

/// The log is told once in this time.
const REMIND: Duration = Duration::from_secs(60);

impl Reminder {
    /// Whether the log is told now; and how often it was not, before.
    pub fn tell(&mut self, now: Instant) -> Option<u64> {
        if self.told.is_some_and(|told| now.saturating_duration_since(told) < REMIND) {
            self.left_out += 1;
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_told_once_in_a_while() {
        let (mut reminder, now) = (Reminder::default(), Instant::now());
        assert_eq!(reminder.tell(now), Some(0));
        let soon = now + REMIND / 2;
        assert_eq!((reminder.tell(soon), reminder.tell(soon)), (None, None));
        assert_eq!(reminder.tell(now + REMIND), Some(2));
        assert_eq!(reminder.tell(now + REMIND * 2), Some(0));
    }

    #[test]
    fn reasons_stand_where_they_are_counted() {
        for (at, (name, why)) in Unmirrored::ALL.iter().enumerate() {
            assert_eq!((*why as usize, why.name()), (at, *name));
        }
        assert!(Unmirrored::Full.is_dropped() && Unmirrored::Removed.is_dropped());
        assert!(!Unmirrored::Unanswered.is_dropped() && !Unmirrored::Kind.is_dropped());
        let state = MirrorState::default();
        state.leave_out(Unmirrored::Late);
        assert_eq!((state.left_out(Unmirrored::Late), state.left_out(Unmirrored::Lost)), (1, 0));
    }

    #[test]
    fn bytes_that_are_held_have_a_bound_and_come_back() {
        let state = Arc::new(MirrorState::default());
        let most = 3 * (COPY + 100);
        let mut held: Vec<_> = (0..3).map(|_| state.hold(100, most).expect("room")).collect();
        assert!(state.hold(0, most).is_none() && state.hold(usize::MAX, most).is_none());
        assert_eq!(state.bytes(), most);
        held.truncate(2);
        assert!(held[0].take_more(COPY, most) && !held[0].take_more(101, most));
        assert_eq!(state.bytes(), most - 100);
        drop(held);
        assert_eq!(state.bytes(), 0);
        assert!(state.hold(most, most).is_none(), "a copy takes more than its text");
    }
}
