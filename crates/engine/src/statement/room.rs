//! So many statements of a rule at once: the others wait in a queue, and the first one gets the place that is left.
//!
//! A place is passed on, not given back and taken again: so the queue keeps its order, and no newcomer steps in.
//! A command that has a place may still wait for a connection, and one that waits for a place may keep the connection
//! that the other needs: then neither would ever end, so the second one goes on without a place being free.
//! Invariants: a waiter is in the queue until it is given a place, or gives up; more commands than there are places run
//! only where those that have the places do not run.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The places of a rule, and what waits for one.
#[derive(Debug, Default)]
pub struct RuleRoom(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    /// As a rule said last.
    places: u32,
    taken: u32,
    /// Of the commands that have a place, those that run.
    running: u32,
    /// So many have begun to run.
    begun: u64,
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
        queue.places = places;
        let is_free = queue.taken < places && queue.waiting.is_empty();
        match is_free {
            true => queue.taken += 1,
            false => queue.waiting.push_back(waiter),
        }
        is_free
    }

    /// A place is left. It is the first waiter's then; without one, it is free.
    pub fn leave(&self) -> Option<RuleWaiter> {
        let mut queue = self.queue();
        let is_due = queue.taken <= queue.places;
        let next = if is_due { queue.waiting.pop_front() } else { None };
        if next.is_none() {
            queue.taken = queue.taken.saturating_sub(1);
        }
        next
    }

    /// A command that has a place begins to run.
    pub fn begin(&self) {
        let mut queue = self.queue();
        queue.running += 1;
        queue.begun += 1;
    }

    /// It does not run any more: it has ended, or waits for a connection again.
    pub fn pause(&self) {
        let mut queue = self.queue();
        queue.running = queue.running.saturating_sub(1);
    }

    /// A waiter keeps a connection that others may need. It takes a place, though none is free, if no command that has
    /// one has run since it `saw` so many begin; else it sees how many have begun by now.
    pub fn pass(&self, waiter: RuleWaiter, saw: &mut Option<u64>) -> bool {
        let mut queue = self.queue();
        let is_stuck = queue.running == 0 && *saw == Some(queue.begun);
        *saw = Some(queue.begun);
        let at = queue.waiting.iter().position(|it| *it == waiter).filter(|_| is_stuck);
        let Some(at) = at else { return false };
        queue.waiting.remove(at);
        queue.taken += 1;
        true
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

    #[test]
    fn a_waiter_that_keeps_a_connection_goes_on_where_no_other_can() {
        let room = RuleRoom::default();
        let waiter = |number| RuleWaiter { worker: 0, client: 1, number };
        assert!(room.enter(1, waiter(1)) && !room.enter(1, waiter(2)) && !room.enter(1, waiter(3)));
        let mut saw = None;
        assert!(!room.pass(waiter(3), &mut saw), "it has not looked yet");
        room.begin();
        assert!(!room.pass(waiter(3), &mut saw), "one runs");
        room.pause();
        room.begin();
        room.pause();
        assert!(!room.pass(waiter(3), &mut saw), "one has run");
        assert!(!room.pass(waiter(4), &mut saw), "it waits for nothing");
        assert!(room.pass(waiter(3), &mut saw));
        assert!(!room.enter(1, waiter(5)));
        assert_eq!((room.leave(), room.leave()), (None, Some(waiter(2))), "two had one place");
    }
}
