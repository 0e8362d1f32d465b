//! A cell for what few clients have, and those for a short time: an empty one takes eight bytes.

use std::cell::Cell;

/// A value on the heap, or none. Reading it takes it out of the cell and puts it back.
pub(crate) struct Seldom<T>(Cell<Option<Box<T>>>);

impl<T> Default for Seldom<T> {
    fn default() -> Self {
        Self(Cell::new(None))
    }
}

impl<T> Seldom<T> {
    pub(crate) fn is_some(&self) -> bool {
        self.with(|_| ()).is_some()
    }

    /// What the value says. `None`: there is none. While `see` runs, the cell is empty.
    pub(crate) fn with<R>(&self, see: impl FnOnce(&mut T) -> R) -> Option<R> {
        let mut value = self.0.take();
        let said = value.as_deref_mut().map(see);
        self.0.set(value);
        said
    }

    pub(crate) fn get(&self) -> Option<T>
    where
        T: Copy,
    {
        self.with(|value| *value)
    }

    pub(crate) fn set(&self, value: Option<T>) {
        let room = self.0.take();
        self.0.set(match (room, value) {
            (Some(mut room), Some(value)) => {
                *room = value;
                Some(room)
            }
            (None, Some(value)) => Some(Box::new(value)),
            (_, None) => None,
        });
    }

    pub(crate) fn take(&self) -> Option<T> {
        self.0.take().map(|value| *value)
    }

    /// Works with the value; begins with an empty one if there is none.
    pub(crate) fn change<R>(&self, work: impl FnOnce(&mut T) -> R) -> R
    where
        T: Default,
    {
        let mut value = self.0.take().unwrap_or_default();
        let done = work(&mut value);
        self.0.set(Some(value));
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_there_until_it_is_taken() {
        let cell = Seldom::default();
        assert_eq!(size_of_val(&cell), size_of::<usize>());
        assert!(!cell.is_some() && cell.get().is_none() && cell.with(|it: &mut u64| *it).is_none());
        cell.set(Some(7));
        assert_eq!(cell.with(|it| std::mem::replace(it, 8)), Some(7));
        assert_eq!(cell.get(), Some(8));
        cell.set(Some(9));
        assert_eq!((cell.take(), cell.take()), (Some(9), None));
        assert_eq!(cell.change(|it| std::mem::replace(it, 5)), 0);
        assert_eq!(cell.get(), Some(5));
        cell.set(None);
        assert!(!cell.is_some());
    }
}
