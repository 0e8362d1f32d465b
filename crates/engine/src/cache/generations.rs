//! Generations of tables: numbers that rise with each write, and how many writes are under way.
//!
//! Shared by all threads of a process, without locks and of a fixed size: tables are told apart by a hash of their names,
//! so two tables may have one number between them, and a write of one then counts as one of the other. Invariant: nothing
//! is taken for unwritten that was written.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use smallvec::SmallVec;

/// Where the generation of a table, or of all tables of a schema, stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TablePlace(u32);

const PLACES: u32 = 1 << 12;

impl TablePlace {
    /// That of all tables.
    pub const EVERYTHING: Self = Self(0);

    pub fn of_table(schema: &[u8], table: &[u8]) -> Self {
        Self::hashed(1, schema, table)
    }

    /// That of all tables of this name, whichever schema they are in.
    pub fn of_name(table: &[u8]) -> Self {
        Self::hashed(2, b"", table)
    }

    pub fn of_schema(schema: &[u8]) -> Self {
        Self::hashed(3, schema, b"")
    }

    fn hashed(kind: u8, schema: &[u8], table: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write_u8(kind);
        put_name(&mut hasher, schema);
        put_name(&mut hasher, table);
        Self(1 + (hasher.finish() % u64::from(PLACES - 1)) as u32)
    }
}

/// Servers may tell names apart by capitals or not: here they are one. Beyond ASCII, which letters are the same depends
/// on the character set: all such names are one.
fn put_name(hasher: &mut DefaultHasher, name: &[u8]) {
    match name.is_ascii() {
        true => name.iter().for_each(|byte| hasher.write_u8(byte.to_ascii_lowercase())),
        false => hasher.write_u8(0xff),
    }
    0_u8.hash(hasher);
}

/// The generations of all tables of a cluster.
#[derive(Debug)]
pub struct Generations {
    /// Of each place its generation, and in the lowest bits how many writes are under way.
    places: Box<[AtomicU64]>,
}

/// As many writes may be under way at once as there may be connections.
const UNDER_WAY: u64 = (1 << 24) - 1;
const GENERATION: u64 = UNDER_WAY + 1;

impl Default for Generations {
    fn default() -> Self {
        Self { places: (0..PLACES).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Generations {
    /// A table was written, as is known from elsewhere.
    pub fn written(&self, schema: &[u8], table: &[u8]) {
        self.raise(TablePlace::of_table(schema, table), GENERATION);
    }

    /// Any table of this schema may have been written.
    pub fn all_of(&self, schema: &[u8]) {
        self.raise(TablePlace::of_schema(schema), GENERATION);
    }

    /// Anything may have been written.
    pub fn everything(&self) {
        self.raise(TablePlace::EVERYTHING, GENERATION);
    }

    /// What these places are before a run begins. `None`: a write of one of them is under way.
    pub fn look(&self, places: &[TablePlace]) -> Option<Seen> {
        let look = |place: &TablePlace| {
            let now = self.at(*place);
            (now & UNDER_WAY == 0).then_some((*place, now))
        };
        places.iter().map(look).collect::<Option<_>>().map(Seen)
    }

    /// Whether a write of one of these is under way.
    pub fn are_being_written(&self, places: &[TablePlace]) -> bool {
        places.iter().any(|place| self.at(*place) & UNDER_WAY != 0)
    }

    #[inline]
    fn at(&self, place: TablePlace) -> u64 {
        // What is at no place counts as being written.
        self.places.get(place.0 as usize).map_or(1, |it| it.load(SeqCst))
    }

    fn raise(&self, place: TablePlace, by: u64) {
        if let Some(it) = self.places.get(place.0 as usize) {
            it.fetch_add(by, SeqCst);
        }
    }
}

/// Generations as they were at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen(SmallVec<[(TablePlace, u64); 8]>);

impl Seen {
    /// Whether nothing was written since, nor is now.
    #[inline]
    pub fn holds(&self, generations: &Generations) -> bool {
        self.0.iter().all(|(place, then)| generations.at(*place) == *then)
    }
}

/// A write that is under way. Dropped, it has ended.
#[derive(Debug)]
pub struct Written {
    of: Arc<Generations>,
    places: SmallVec<[TablePlace; 4]>,
}

impl Written {
    /// Begins a write of these. Called before anything of it is sent.
    pub fn begin(of: &Arc<Generations>, places: &[TablePlace]) -> Self {
        let mut places: SmallVec<[TablePlace; 4]> = places.into();
        places.sort_unstable();
        places.dedup();
        places.iter().for_each(|place| of.raise(*place, 1));
        Self { of: Arc::clone(of), places }
    }

    /// It may have written anything else as well.
    pub fn everything(&self) {
        self.of.everything();
    }

    /// Whether it is of all tables.
    pub fn is_of_everything(&self) -> bool {
        self.places.contains(&TablePlace::EVERYTHING)
    }

    /// It has written nothing: what was seen before it is as it was.
    pub fn nothing(&mut self) {
        self.places.drain(..).for_each(|place| self.of.raise(place, 1_u64.wrapping_neg()));
    }

    /// Both end together from now on.
    pub fn join(&mut self, mut other: Self) {
        if !Arc::ptr_eq(&self.of, &other.of) {
            // Of another cluster: that one ends with the value that is dropped here, so this one takes its part.
            std::mem::swap(self, &mut other);
            return;
        }
        for place in std::mem::take(&mut other.places) {
            match self.places.contains(&place) {
                true => self.of.raise(place, GENERATION.wrapping_sub(1)),
                false => self.places.push(place),
            }
        }
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        for place in &self.places {
            // One write less is under way, and the generation is another one.
            self.of.raise(*place, GENERATION.wrapping_sub(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(tables: &[&str]) -> Vec<TablePlace> {
        tables.iter().map(|it| TablePlace::of_table(b"a", it.as_bytes())).collect()
    }

    #[test]
    fn what_is_written_is_no_longer_as_it_was_seen() {
        let all = Arc::new(Generations::default());
        let places = of(&["t", "u"]);
        let seen = all.look(&places).expect("nothing is written");
        assert!(seen.holds(&all));
        let write = Written::begin(&all, &of(&["U"]));
        assert!(!seen.holds(&all) && all.look(&places).is_none() && all.are_being_written(&places));
        assert!(all.look(&of(&["t"])).is_some());
        drop(write);
        let again = all.look(&places).expect("it has ended");
        assert!(!seen.holds(&all) && again.holds(&all));
        all.written(b"A", b"T");
        assert!(!again.holds(&all));
    }

    #[test]
    fn a_run_that_began_before_a_write_has_ended_is_not_kept() {
        let all = Arc::new(Generations::default());
        let seen = all.look(&of(&["t"])).expect("nothing is written");
        drop(Written::begin(&all, &of(&["t"])));
        assert!(!seen.holds(&all));
    }

    #[test]
    fn schemas_and_everything_have_generations() {
        let all = Generations::default();
        let places =
            [TablePlace::EVERYTHING, TablePlace::of_schema(b"a"), TablePlace::of_table(b"a", b"t")];
        let seen = || all.look(&places).expect("nothing is written");
        let (one, two) = (seen(), all.all_of(b"A"));
        let () = two;
        assert!(!one.holds(&all));
        let one = seen();
        all.everything();
        assert!(!one.holds(&all));
        let one = seen();
        all.all_of(b"b");
        assert!(one.holds(&all));
    }

    #[test]
    fn names_beyond_ascii_are_one() {
        assert_eq!(
            TablePlace::of_table(b"a", "größe".as_bytes()),
            TablePlace::of_table(b"a", b"gr\xf6\xdfe")
        );
        assert_ne!(TablePlace::of_table(b"a", b"bc"), TablePlace::of_table(b"ab", b"c"));
    }

    #[test]
    fn writes_that_are_joined_end_together_and_once() {
        let all = Arc::new(Generations::default());
        let mut one = Written::begin(&all, &of(&["t", "t"]));
        one.join(Written::begin(&all, &of(&["t", "u"])));
        assert!(all.are_being_written(&of(&["t"])) && all.are_being_written(&of(&["u"])));
        drop(one);
        assert!(!all.are_being_written(&of(&["t", "u"])));
        // Of two clusters.
        let other = Arc::new(Generations::default());
        let mut one = Written::begin(&all, &of(&["t"]));
        one.join(Written::begin(&other, &of(&["t"])));
        assert!(other.are_being_written(&of(&["t"])) && !all.are_being_written(&of(&["t"])));
    }
}
