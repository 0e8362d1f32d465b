//! So many statements of a rule at once: the others wait in a queue, and the first one gets the place that is left.
//!
//! A place is passed on, not given back and taken again: so the queue keeps its order, and no newcomer steps in.
//! Invariant: a waiter is in the queue until it is given a place, or gives up.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The places of a rule, and what waits for one.
#[derive(Debug, Default)]
pub struct RuleRoom(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    running: u32,
    waiting: VecDeque<RuleWaiter>,
}

/// A command that waits: where, whose, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleWaiter {
    pub worker: usize,
    pub client: u32,
    pub number: u64,
}

impl RuleRoom {
    /// Takes a place, of so many, if one is free and no other command waits. Else this one waits from now on.
    pub fn enter(&self, places: u32, waiter: RuleWaiter) -> bool {
        let mut queue = self.queue();
        let is_free = queue.running < places && queue.waiting.is_empty();
        match is_free {
            true => queue.running += 1,
            false => queue.waiting.push_back(waiter),
        }
        is_free
    }

    /// A place is left. It is the first waiter's then; without one, it is free.
    pub fn leave(&self) -> Option<RuleWaiter> {
        let mut queue = self.queue();
        let next = queue.waiting.pop_front();
        if next.is_none() {
            queue.running = queue.running.saturating_sub(1);
        }
        next
    }

    /// A command does not wait any longer.
    pub fn give_up(&self, waiter: RuleWaiter) {
        self.queue().waiting.retain(|it| *it != waiter);
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_passed_on_in_order() {
        let room = RuleRoom::default();
        let waiter = |number| RuleWaiter { worker: 0, client: 1, number };
        assert!(room.enter(2, waiter(1)) && room.enter(2, waiter(2)));
        assert!(
            !room.enter(2, waiter(3)) && !room.enter(2, waiter(4)) && !room.enter(2, waiter(5))
        );
        room.give_up(waiter(4));
        assert_eq!(room.leave(), Some(waiter(3)));
        assert!(!room.enter(2, waiter(6)), "another one waits");
        assert_eq!((room.leave(), room.leave()), (Some(waiter(5)), Some(waiter(6))));
        assert_eq!((room.leave(), room.leave(), room.leave()), (None, None, None));
        assert!(room.enter(1, waiter(7)) && !room.enter(1, waiter(8)));
    }
}
