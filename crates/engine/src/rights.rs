//! Rights follow: a backend connection that logged in before rights changed serves no client that logs in after that.
//!
//! Owns the eras, which are numbers that rise when the rights of one user, or of all, may have changed. A server reads
//! most rights once, when a session begins; so a connection is as good as the era in which its login *began*. Which
//! statements change rights is [`statements`]'s. Knows no server and no clock.
//!
//! Invariants: an era rises only after the change has taken effect, and before any client is told of it; a connection
//! whose login began before the rise is old, whichever client changed rights at the same time.

mod ledger;
mod statements;

pub use ledger::{Ledger, LedgerLook};
pub use statements::{Change, PreparedChanges, Whose, is_refusal};

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Tells which changes of rights were known of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Era(u64);

/// The eras of all users together. One comparison tells that nothing has changed.
#[derive(Debug, Default)]
pub struct Eras {
    /// The last change, of whichever user.
    last: AtomicU64,
    /// The last one that may have concerned any user.
    of_all: AtomicU64,
    /// Held by the one that raises them: two changes at once are two eras.
    raising: Mutex<()>,
}

/// The last change that concerned one user.
#[derive(Debug, Default)]
pub struct OfUser(AtomicU64);

impl Eras {
    /// The era in which a login that begins now will be.
    pub fn now(&self) -> Era {
        Era(self.last.load(Ordering::Acquire))
    }

    /// The rights of all users may have changed.
    pub fn raise(&self) {
        self.raise_with(|era| self.of_all.store(era, Ordering::Release));
    }

    /// The rights of these users may have changed.
    pub fn raise_of<'a>(&self, users: impl IntoIterator<Item = &'a OfUser>) {
        self.raise_with(|era| {
            users.into_iter().for_each(|user| user.0.store(era, Ordering::Release));
        });
    }

    fn raise_with(&self, mark: impl FnOnce(u64)) {
        let _alone = self.raising.lock().unwrap_or_else(PoisonError::into_inner);
        let next = self.last.load(Ordering::Acquire) + 1;
        // What is marked is seen by all that see the number.
        mark(next);
        self.last.store(next, Ordering::Release);
    }

    /// Whether the user's rights may have changed since this era.
    pub fn is_over(&self, era: Era, user: &OfUser) -> bool {
        era != self.now() && era.0 < self.of_all.load(Ordering::Acquire).max(user.era())
    }
}

impl OfUser {
    fn era(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_concerns_all_or_those_that_it_names() {
        let (eras, [a, b]) = (Eras::default(), [OfUser::default(), OfUser::default()]);
        let first = eras.now();
        let are_over = |era: Era| [&a, &b].map(|user| eras.is_over(era, user));
        assert_eq!(are_over(first), [false, false]);
        eras.raise_of([&a]);
        assert_eq!(are_over(first), [true, false]);
        let second = eras.now();
        assert!(second > first);
        assert_eq!(are_over(second), [false, false]);
        eras.raise_of([&b]);
        assert_eq!((are_over(first), are_over(second)), ([true, true], [false, true]));
        eras.raise();
        assert_eq!(are_over(second), [true, true]);
        assert_eq!(are_over(eras.now()), [false, false]);
        eras.raise_of([]);
        assert_eq!(are_over(second), [true, true]);
    }

    #[test]
    fn changes_at_once_are_eras_of_their_own() {
        let (eras, users) = (Eras::default(), [OfUser::default(), OfUser::default()]);
        let last = std::thread::scope(|scope| {
            let threads = [&users[0], &users[1]].map(|user| {
                let eras = &eras;
                scope.spawn(move || {
                    for _ in 0..1000 {
                        let before = eras.now();
                        eras.raise_of([user]);
                        assert!(eras.is_over(before, user));
                    }
                })
            });
            for thread in threads {
                thread.join().expect("it ends");
            }
            eras.now()
        });
        assert_eq!(last, Era(2000));
    }
}
