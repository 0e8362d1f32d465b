//! Memory for long commands that are still coming: which may be read on, which wait, and which is next.
//!
//! A command that has announced its length claims room for all of it before more of it is read. So each that was begun
//! can be finished, whatever the others do (the banker's rule), and one that waits has cost no memory but its first
//! buffer.
//!
//! Shares: a user may claim no more than it leaves free. One user alone has half of the room, two have a third each;
//! there is something left for one more user. Commands of a user wait first-in-first-out, users take turns. A user that
//! has claimed nothing yet is not passed over: what others ask for later waits until its command has its room.
//!
//! Invariants: the claims are never more than the room; a command waits only behind its own user's, behind one that is
//! not to be passed over, or for room.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Claims to one room. `U` names a user, `W` stands for a command that waits.
#[derive(Debug)]
pub struct Claims<U, W> {
    /// Bytes.
    room: usize,
    claimed: usize,
    users: HashMap<U, Share<W>>,
    /// The users of which a command waits, in the order of their turns.
    turns: VecDeque<U>,
}

#[derive(Debug)]
struct Share<W> {
    claimed: usize,
    queue: VecDeque<Waiter<W>>,
}

#[derive(Debug)]
struct Waiter<W> {
    size: usize,
    since: Instant,
    waiter: W,
}

impl<W> Default for Share<W> {
    fn default() -> Self {
        Self { claimed: 0, queue: VecDeque::new() }
    }
}

impl<U: Clone + Eq + Hash, W> Claims<U, W> {
    /// For so many bytes in all. The longest command must be no longer than half of that.
    pub fn new(room: usize) -> Self {
        Self { room, claimed: 0, users: HashMap::new(), turns: VecDeque::new() }
    }

    /// Bytes that are claimed.
    pub const fn claimed(&self) -> usize {
        self.claimed
    }

    pub const fn room(&self) -> usize {
        self.room
    }

    /// Whether a command waits.
    pub fn has_waiters(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Claims `size` bytes for a command of this user. False: it has to wait.
    pub fn claim(&mut self, user: &U, size: usize) -> bool {
        let waits = self.users.get(user).is_some_and(|share| !share.queue.is_empty());
        if waits || self.turns.iter().any(|user| self.claimed_by(user) == 0) {
            return false;
        }
        let fits = self.fits(self.claimed_by(user), size);
        if fits {
            self.give(user, size);
        }
        fits
    }

    /// A command that could not claim so much waits for it.
    pub fn wait(&mut self, user: &U, size: usize, waiter: W, now: Instant) {
        let share = self.users.entry(user.clone()).or_default();
        if share.queue.is_empty() {
            self.turns.push_back(user.clone());
        }
        share.queue.push_back(Waiter { size, since: now, waiter });
    }

    /// The next command that has what it waited for, and how much that is. Call until `None` after any other change.
    pub fn admit(&mut self) -> Option<(W, usize)> {
        let mut turn = 0;
        while let Some(user) = self.turns.get(turn).cloned() {
            let claimed = self.claimed_by(&user);
            let size = self.users.get(&user)?.queue.front()?.size;
            if self.fits(claimed, size) {
                let waiter = self.take_at(turn, 0)?;
                self.give(&user, size);
                return Some((waiter, size));
            }
            if claimed == 0 {
                return None;
            }
            turn += 1;
        }
        None
    }

    /// What a command of this user has claimed is free again.
    pub fn end(&mut self, user: &U, size: usize) {
        self.claimed = self.claimed.saturating_sub(size);
        if let Some(share) = self.users.get_mut(user) {
            share.claimed = share.claimed.saturating_sub(size);
        }
        self.forget(user);
    }

    /// A command waits no more. `None` if it did not.
    pub fn leave(&mut self, user: &U, is_it: impl Fn(&W) -> bool) -> Option<W> {
        let queue = &self.users.get(user)?.queue;
        let at = queue.iter().position(|waiter| is_it(&waiter.waiter))?;
        let turn = self.turns.iter().position(|it| it == user)?;
        let waiter = self.take_at(turn, at);
        self.forget(user);
        waiter
    }

    /// Takes out a command that has waited for so long. Call until `None`.
    pub fn expire(&mut self, now: Instant, max: Duration) -> Option<W> {
        let is_late = |user: &U| {
            let first = self.users.get(user).and_then(|share| share.queue.front());
            first.is_some_and(|it| now.saturating_duration_since(it.since) >= max)
        };
        let turn = self.turns.iter().position(is_late)?;
        let user = self.turns.get(turn)?.clone();
        let waiter = self.take_at(turn, 0);
        self.forget(&user);
        waiter
    }

    fn claimed_by(&self, user: &U) -> usize {
        self.users.get(user).map_or(0, |share| share.claimed)
    }

    /// Whether a user that has claimed so much may claim so much more.
    const fn fits(&self, claimed: usize, size: usize) -> bool {
        claimed.saturating_add(size) <= self.room - self.claimed
    }

    fn give(&mut self, user: &U, size: usize) {
        self.claimed += size;
        self.users.entry(user.clone()).or_default().claimed += size;
    }

    /// Takes out the waiter at a place of the line of the user at a turn. Its user's next turn comes behind all
    /// others'.
    fn take_at(&mut self, turn: usize, at: usize) -> Option<W> {
        let user = self.turns.get(turn)?;
        let queue = &mut self.users.get_mut(user)?.queue;
        let waiter = queue.remove(at)?;
        let (is_empty, was_first) = (queue.is_empty(), at == 0);
        if is_empty || was_first {
            let user = self.turns.remove(turn)?;
            if !is_empty {
                self.turns.push_back(user);
            }
        }
        Some(waiter.waiter)
    }

    /// A user that has nothing is not remembered.
    fn forget(&mut self, user: &U) {
        if self.users.get(user).is_some_and(|it| it.claimed == 0 && it.queue.is_empty()) {
            self.users.remove(user);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Instant {
        Instant::now()
    }

    /// Those that go on now.
    fn next(claims: &mut Claims<&'static str, u32>) -> Vec<u32> {
        std::iter::from_fn(|| claims.admit()).map(|(waiter, _)| waiter).collect()
    }

    #[test]
    fn a_user_has_no_more_than_it_leaves_free() {
        let mut claims = Claims::<_, u32>::new(60);
        assert!((0..3).all(|_| claims.claim(&"a", 10)));
        assert!(!claims.claim(&"a", 1), "half of the room");
        assert!(claims.claim(&"b", 15));
        assert!(!claims.claim(&"b", 1), "half of what is left");
        assert!(claims.claim(&"c", 7));
        assert_eq!(claims.claimed(), 52);
        claims.end(&"a", 10);
        assert!(!claims.claim(&"a", 1));
        assert!(claims.claim(&"b", 1));
    }

    #[test]
    fn the_longest_command_of_a_second_user_finds_room_at_once() {
        let mut claims = Claims::<_, u32>::new(64);
        assert!(claims.claim(&"a", 32));
        assert!(!claims.claim(&"a", 1));
        assert!(claims.claim(&"b", 32));
    }

    #[test]
    fn users_take_turns_and_each_users_commands_keep_their_order() {
        let mut claims = Claims::new(60);
        assert!(claims.claim(&"a", 30));
        for waiter in [1, 2, 3] {
            assert!(!claims.claim(&"a", 30));
            claims.wait(&"a", 30, waiter, now());
        }
        assert!(claims.claim(&"b", 30));
        assert!(!claims.claim(&"b", 30));
        claims.wait(&"b", 30, 11, now());
        assert!(next(&mut claims).is_empty());
        claims.end(&"a", 30);
        assert_eq!(next(&mut claims), [1]);
        claims.end(&"b", 30);
        assert_eq!(next(&mut claims), [11]);
        claims.end(&"b", 30);
        assert!(next(&mut claims).is_empty(), "a has its half");
        claims.end(&"a", 30);
        assert_eq!(next(&mut claims), [2]);
    }

    #[test]
    fn a_user_that_has_nothing_is_not_passed_over() {
        let mut claims = Claims::new(60);
        assert!(claims.claim(&"a", 20) && claims.claim(&"b", 20));
        // There is room for less than it wants.
        assert!(!claims.claim(&"c", 30));
        claims.wait(&"c", 30, 1, now());
        assert!(!claims.claim(&"d", 1) && !claims.claim(&"a", 1));
        claims.wait(&"d", 1, 2, now());
        claims.end(&"a", 20);
        assert_eq!(next(&mut claims), [1, 2]);
        // One that has something is: its own user makes it wait.
        assert!(!claims.claim(&"c", 5));
        claims.wait(&"c", 5, 3, now());
        assert!(claims.claim(&"e", 1));
        claims.end(&"c", 30);
        assert_eq!(next(&mut claims), [3]);
    }

    #[test]
    fn one_that_leaves_or_waits_for_too_long_is_in_nobodys_way() {
        let mut claims = Claims::new(60);
        let begun = now();
        assert!(claims.claim(&"a", 30) && claims.claim(&"b", 20));
        claims.wait(&"c", 30, 1, begun);
        claims.wait(&"d", 10, 2, begun + Duration::from_secs(1));
        assert_eq!(claims.leave(&"c", |it| *it == 7), None);
        assert_eq!(claims.expire(begun + Duration::from_secs(4), Duration::from_secs(5)), None);
        assert_eq!(claims.expire(begun + Duration::from_secs(5), Duration::from_secs(5)), Some(1));
        assert_eq!(next(&mut claims), [2]);
        claims.wait(&"a", 30, 3, begun);
        claims.wait(&"a", 30, 4, begun);
        assert_eq!(claims.leave(&"a", |it| *it == 4), Some(4));
        assert_eq!(claims.leave(&"a", |it| *it == 3), Some(3));
        for (user, size) in [("a", 30), ("b", 20), ("d", 10)] {
            claims.end(&user, size);
        }
        assert!(claims.claimed() == 0 && claims.users.is_empty() && !claims.has_waiters());
    }

    /// Whatever comes and goes: the room is never exceeded, and once all that was begun has ended, all have had their
    /// room.
    #[test]
    fn nobody_is_left_waiting() {
        for seed in 1..200_u64 {
            let mut state = seed;
            let mut draw = |below: usize| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) as usize % below
            };
            let mut claims = Claims::new(64);
            let (mut begun, mut waiting) = (Vec::new(), HashMap::new());
            for number in 0..300_u32 {
                let (user, size) = (draw(5), 1 + draw(32));
                match draw(3) {
                    0 if !begun.is_empty() => {
                        let (user, size) = begun.swap_remove(draw(begun.len()));
                        claims.end(&user, size);
                    }
                    _ if claims.claim(&user, size) => begun.push((user, size)),
                    _ => {
                        claims.wait(&user, size, number, now());
                        waiting.insert(number, user);
                    }
                }
                while let Some((waiter, size)) = claims.admit() {
                    begun.push((waiting.remove(&waiter).expect("it waits"), size));
                }
                assert!(claims.claimed() <= 64);
                assert_eq!(claims.claimed(), begun.iter().map(|it| it.1).sum::<usize>());
            }
            while let Some((user, size)) = begun.pop() {
                claims.end(&user, size);
                while let Some((waiter, size)) = claims.admit() {
                    begun.push((waiting.remove(&waiter).expect("it waits"), size));
                }
            }
            assert!(waiting.is_empty() && !claims.has_waiters(), "seed {seed}");
        }
    }
}
