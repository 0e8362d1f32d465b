//! Which waiters stand together because they ask the same.
//!
//! Knows waiters by a hash of what they ask, in the order in which they came. A waiter that leaves the queue says
//! nothing here: the owner looks at each that is taken, and at all of them when many have gone. So a waiter costs one
//! look-up, and one that nothing equals costs no more. Invariant: a waiter is in one group, once.

use crate::numbers::NumberMap;

#[derive(Debug)]
pub struct Groups<W> {
    /// By hashes made with a secret.
    groups: NumberMap<u64, Vec<W>>,
    members: usize,
    /// As many as there may be before it is looked which of them still wait.
    bound: usize,
    /// Memory of groups that were taken.
    spare: Vec<Vec<W>>,
}

/// Fewer are not worth a look.
const LEAST_BOUND: usize = 256;
const SPARE_MAX: usize = 64;
const SPARE_CAPACITY: usize = 1024;

impl<W> Default for Groups<W> {
    fn default() -> Self {
        Self { groups: NumberMap::default(), members: 0, bound: LEAST_BOUND, spare: Vec::new() }
    }
}

impl<W> Groups<W> {
    /// A waiter joins those that ask the same. `waits`: which ones still wait.
    pub fn join(&mut self, hash: u64, waiter: W, waits: impl Fn(&W) -> bool) {
        if self.members >= self.bound {
            self.sweep(waits);
        }
        let spare = &mut self.spare;
        let group = self.groups.entry(hash).or_insert_with(|| spare.pop().unwrap_or_default());
        group.push(waiter);
        self.members += 1;
    }

    /// Takes all that ask this, the first one first. What comes from now on is another group.
    pub fn take(&mut self, hash: u64) -> Vec<W> {
        let group = self.groups.remove(&hash).unwrap_or_default();
        self.members -= group.len();
        group
    }

    /// Keeps the memory of a group that was taken.
    pub fn give_back(&mut self, mut group: Vec<W>) {
        group.clear();
        if self.spare.len() < SPARE_MAX && (1..=SPARE_CAPACITY).contains(&group.capacity()) {
            self.spare.push(group);
        }
    }

    pub const fn len(&self) -> usize {
        self.members
    }

    pub const fn is_empty(&self) -> bool {
        self.members == 0
    }

    /// Forgets those that wait no longer. As many may join then as are left, so that each pays for one look.
    fn sweep(&mut self, waits: impl Fn(&W) -> bool) {
        self.members = 0;
        let members = &mut self.members;
        self.groups.retain(|_, group| {
            group.retain(&waits);
            *members += group.len();
            !group.is_empty()
        });
        self.bound = LEAST_BOUND.max(self.members * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_taken_as_a_whole_in_the_order_of_arrival() {
        let mut groups = Groups::default();
        for (hash, waiter) in [(1, 'a'), (2, 'b'), (1, 'c'), (1, 'd')] {
            groups.join(hash, waiter, |_| true);
        }
        let taken = groups.take(1);
        assert_eq!((taken.as_slice(), groups.len()), (&['a', 'c', 'd'][..], 1));
        groups.give_back(taken);
        groups.join(1, 'e', |_| true);
        assert_eq!(groups.take(1), ['e'], "it came when the first group had been taken");
        assert_eq!(groups.take(1), []);
        assert_eq!(groups.take(2), ['b']);
        assert!(groups.is_empty());
    }

    #[test]
    fn those_that_have_gone_do_not_pile_up() {
        let mut groups = Groups::default();
        // Each asks something else, and goes when ten more have come.
        for waiter in 0..100_000_u64 {
            groups.join(waiter, waiter, |other| other + 10 > waiter);
            assert!(groups.len() <= LEAST_BOUND, "{}", groups.len());
        }
        // Where all stay, all are kept.
        for waiter in 0..10_000_u64 {
            groups.join(waiter % 7, 1_000_000 + waiter, |other| *other >= 1_000_000);
        }
        let all: usize = (0..7).map(|hash| groups.take(hash).len()).sum();
        assert!((10_000..=10_000 + LEAST_BOUND).contains(&all), "{all}");
    }
}
