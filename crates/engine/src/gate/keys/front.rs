//! A sorted set whose first element stands apart: most have one element only, which comes and goes with each statement.

use std::collections::BTreeSet;

/// Invariant: if there is no first, there are no others; and it is less than all of them.
#[derive(Debug)]
pub(super) struct Front<T> {
    first: Option<T>,
    others: BTreeSet<T>,
}

impl<T> Default for Front<T> {
    fn default() -> Self {
        Self { first: None, others: BTreeSet::new() }
    }
}

impl<T: Ord + Copy> Front<T> {
    pub(super) const fn first(&self) -> Option<&T> {
        self.first.as_ref()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(&self.others)
    }

    pub(super) fn insert(&mut self, new: T) {
        match self.first {
            None => self.first = Some(new),
            Some(first) if new < first => {
                self.first = Some(new);
                self.others.insert(first);
            }
            Some(first) if new > first => {
                self.others.insert(new);
            }
            Some(_) => {}
        }
    }

    pub(super) fn remove(&mut self, old: &T) {
        if self.first.as_ref() == Some(old) {
            self.first = self.others.pop_first();
        } else {
            self.others.remove(old);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_sorted_set() {
        let (mut front, mut plain) = (Front::default(), BTreeSet::new());
        let mut random = 1_u64;
        for _ in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let element = random >> 61;
            if random >> 32 & 1 == 0 {
                front.insert(element);
                plain.insert(element);
            } else {
                front.remove(&element);
                plain.remove(&element);
            }
            assert_eq!(front.first(), plain.first());
            assert!(front.iter().eq(&plain), "{front:?} {plain:?}");
        }
    }
}
