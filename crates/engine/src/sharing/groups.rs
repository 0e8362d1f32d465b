//! Which waiters stand together because they ask the same.
//!
//! Knows waiters by a hash of what they ask, in the order in which they came. A waiter that leaves the queue says
//! nothing here: the owner looks at each that is taken, and at all of them when many have gone. A waiter that nothing
//! equals has a place in a table to itself and costs a few instructions; those that ask the same stand in a list.
//! Invariant: a waiter is in one group, once.

use crate::numbers::NumberMap;

#[derive(Debug)]
pub struct Groups<W> {
    /// Waiters that nothing equals, by the last bits of their hashes.
    alone: Box<[Option<(u64, W)>]>,
    /// By hashes made with a secret.
    groups: NumberMap<u64, Vec<W>>,
    members: usize,
    /// As many as there may be before it is looked which of them still wait.
    bound: usize,
    /// Memory of groups that were taken.
    spare: Vec<Vec<W>>,
}

const PLACES: usize = 1024;

/// Fewer are not worth a look.
const LEAST_BOUND: usize = 256;
const SPARE_MAX: usize = 64;
const SPARE_CAPACITY: usize = 1024;

impl<W> Default for Groups<W> {
    fn default() -> Self {
        Self {
            alone: std::iter::repeat_with(|| None).take(PLACES).collect(),
            groups: NumberMap::default(),
            members: 0,
            bound: LEAST_BOUND,
            spare: Vec::new(),
        }
    }
}

impl<W> Groups<W> {
    /// A waiter joins those that ask the same. `waits`: which ones still wait.
    #[inline]
    pub fn join(&mut self, hash: u64, waiter: W, waits: impl Fn(&W) -> bool) {
        let has_group = !self.groups.is_empty() && self.groups.contains_key(&hash);
        let Some(place) = self.alone.get_mut(hash as usize % PLACES).filter(|_| !has_group) else {
            return self.put(hash, waiter, waits);
        };
        match place.take() {
            None => *place = Some((hash, waiter)),
            Some((other, first)) if other == hash => {
                self.put(hash, first, &waits);
                self.put(hash, waiter, waits);
            }
            // Hashes of others may end in the same bits.
            Some((other, first)) => {
                let stays = waits(&first);
                *place = Some((hash, waiter));
                if stays {
                    self.put(other, first, waits);
                }
            }
        }
    }

    fn put(&mut self, hash: u64, waiter: W, waits: impl Fn(&W) -> bool) {
        if self.members >= self.bound {
            self.sweep(waits);
        }
        let spare = &mut self.spare;
        let group = self.groups.entry(hash).or_insert_with(|| spare.pop().unwrap_or_default());
        group.push(waiter);
        self.members += 1;
    }

    /// Takes all that ask this, the first one first. What comes from now on is another group. `None`: not even two do.
    #[inline]
    pub fn take(&mut self, hash: u64) -> Option<Vec<W>> {
        if let Some(place) = self.alone.get_mut(hash as usize % PLACES)
            && place.as_ref().is_some_and(|(own, _)| *own == hash)
        {
            *place = None;
            return None;
        }
        if self.groups.is_empty() {
            return None;
        }
        let group = self.groups.remove(&hash)?;
        self.members -= group.len();
        Some(group)
    }

    /// Keeps the memory of a group that was taken.
    pub fn give_back(&mut self, mut group: Vec<W>) {
        group.clear();
        if self.spare.len() < SPARE_MAX && (1..=SPARE_CAPACITY).contains(&group.capacity()) {
            self.spare.push(group);
        }
    }

    /// How many stand in lists.
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
        let taken = groups.take(1).expect("a group");
        assert_eq!((taken.as_slice(), groups.len()), (&['a', 'c', 'd'][..], 0));
        groups.give_back(taken);
        groups.join(1, 'e', |_| true);
        assert_eq!(groups.take(1), None, "it came when the first group had been taken");
        assert_eq!(groups.take(1), None);
        assert_eq!(groups.take(2), None, "nothing equals it");
        assert!(groups.is_empty());
    }

    #[test]
    fn what_merely_ends_in_the_same_bits_stands_apart() {
        let (mut groups, one, two) = (Groups::default(), 5, 5 + PLACES as u64);
        for (hash, waiter) in [(one, 'a'), (two, 'b'), (one, 'c'), (two, 'd'), (one, 'e')] {
            groups.join(hash, waiter, |_| true);
        }
        assert_eq!(groups.take(one), Some(vec!['a', 'c', 'e']));
        assert_eq!(groups.take(two), Some(vec!['b', 'd']));
        // One that waits no longer makes room.
        groups.join(one, 'f', |_| true);
        groups.join(two, 'g', |_| false);
        assert_eq!((groups.len(), groups.take(one), groups.take(two)), (0, None, None));
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
        let all: usize = (0..7).filter_map(|hash| groups.take(hash)).map(|group| group.len()).sum();
        assert!((9_993..=10_000 + LEAST_BOUND).contains(&all), "{all}");
    }
}
