//! A set of marks that a value bears or does not: one number in the place of a boolean for each.

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What a value may be marked with: an enum without data, of at most sixteen variants.
pub trait Mark: Copy {
    /// Its place among the variants.
    fn place(self) -> u16;
}

/// The marks of a value.
pub struct Marks<M>(u16, PhantomData<M>);

impl<M: Mark> Marks<M> {
    #[inline]
    pub fn has(self, mark: M) -> bool {
        self.0 & 1 << mark.place() != 0
    }

    #[inline]
    pub fn set(&mut self, mark: M, is: bool) {
        let place = mark.place();
        self.0 = self.0 & !(1 << place) | u16::from(is) << place;
    }

    #[inline]
    pub fn add(&mut self, mark: M) {
        self.0 |= 1 << mark.place();
    }

    /// Adds it if something is so.
    #[inline]
    pub fn add_if(&mut self, mark: M, is: bool) {
        self.0 |= u16::from(is) << mark.place();
    }

    #[inline]
    pub fn remove(&mut self, mark: M) {
        self.0 &= !(1 << mark.place());
    }

    #[must_use]
    pub fn with(mut self, mark: M) -> Self {
        self.add(mark);
        self
    }
}

impl<M> Serialize for Marks<M> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl<'de, M> Deserialize<'de> for Marks<M> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        u16::deserialize(from).map(|marks| Self(marks, PhantomData))
    }
}

impl<M> Clone for Marks<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Marks<M> {}

impl<M> Default for Marks<M> {
    fn default() -> Self {
        Self(0, PhantomData)
    }
}

impl<M> PartialEq for Marks<M> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<M> Eq for Marks<M> {}

impl<M> fmt::Debug for Marks<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#b}", self.0)
    }
}

/// The same for what several threads read and change.
pub struct AtomicMarks<M>(AtomicU16, PhantomData<fn(M)>);

impl<M: Mark> AtomicMarks<M> {
    pub fn has(&self, mark: M) -> bool {
        self.0.load(Relaxed) & 1 << mark.place() != 0
    }

    /// Sets it, and says whether it was set before.
    pub fn set(&self, mark: M, is: bool) -> bool {
        let bit = 1 << mark.place();
        let before = match is {
            true => self.0.fetch_or(bit, Relaxed),
            false => self.0.fetch_and(!bit, Relaxed),
        };
        before & bit != 0
    }
}

impl<M> fmt::Debug for AtomicMarks<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#b}", self.0.load(Relaxed))
    }
}

impl<M> Default for AtomicMarks<M> {
    fn default() -> Self {
        Self(AtomicU16::new(0), PhantomData)
    }
}

/// Makes an enum a [`Mark`].
#[macro_export]
macro_rules! marks {
    ($name:ty) => {
        impl $crate::marks::Mark for $name {
            fn place(self) -> u16 {
                self as u16
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy)]
    enum Colour {
        Red,
        Green,
    }

    crate::marks!(Colour);

    #[test]
    fn each_mark_is_set_and_removed_for_itself() {
        let mut marks = Marks::default().with(Colour::Green);
        assert!(marks.has(Colour::Green) && !marks.has(Colour::Red));
        marks.set(Colour::Red, true);
        marks.set(Colour::Green, false);
        assert_eq!(marks, Marks::default().with(Colour::Red));
        marks.add_if(Colour::Green, false);
        marks.remove(Colour::Red);
        assert_eq!(marks, Marks::default());
    }

    #[test]
    fn a_shared_mark_tells_what_it_was() {
        let marks = AtomicMarks::default();
        assert!(!marks.set(Colour::Green, true) && marks.set(Colour::Green, true));
        assert!(marks.has(Colour::Green) && !marks.has(Colour::Red));
        assert!(marks.set(Colour::Green, false) && !marks.has(Colour::Green));
    }
}
