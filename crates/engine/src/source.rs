//! What is prepared: a text, with all that gives it its meaning.
//!
//! Clients of one application prepare the same texts. They share one [`Source`] of each, and what their backends have
//! prepared is found by it without a look at the text.

use std::cell::{Cell, OnceCell};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::rc::{Rc, Weak};
use std::sync::OnceLock;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use wire::lex::Dialect;
use wire::text::Lexed;

use crate::form_notes::FormNotes;
use crate::intent::Intent;
use crate::numbers::NumberMap;
use crate::session_variables::{Interned, SessionVariables};

/// What a preparation is shared by: two that are equal mean the same.
#[derive(Debug)]
pub struct Source {
    pub schema: Option<Rc<[u8]>>,
    pub text: Box<[u8]>,
    /// What it was prepared under; of these, only the mode tells sources apart.
    pub settings: Rc<SessionVariables>,
    /// How the server has read the text.
    pub dialect: Dialect,
    /// What the text says of sharing backends.
    pub intent: Intent,
    /// As clients have written it, if rules have made another text of that.
    pub original: Option<Box<[u8]>>,
    /// What rules say of its executions, and what these write.
    pub notes: FormNotes,
    /// It is looked for with each execute. A hash that clients cannot foresee.
    hash: u64,
    /// What it takes of what all sources may take, from when it is in use.
    charge: OnceCell<Charge>,
}

/// Bytes that are given back when it is dropped.
#[derive(Debug)]
struct Charge {
    of: Rc<Cell<usize>>,
    bytes: usize,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.of.update(|all| all - self.bytes);
    }
}

/// What a source takes beside its texts.
const OVERHEAD: usize = 512;

impl Source {
    /// The same, of which clients have written another text.
    #[must_use]
    pub fn written_as(self, original: Option<Box<[u8]>>) -> Self {
        Self { original, ..self }
    }

    pub fn new(
        schema: Option<Rc<[u8]>>,
        text: Box<[u8]>,
        settings: Rc<SessionVariables>,
        dialect: Dialect,
    ) -> Self {
        static SECRET: OnceLock<RandomState> = OnceLock::new();
        let hash = SECRET.get_or_init(RandomState::new).hash_one((&text, &schema));
        let intent = Intent::read(Lexed::default().text(&text, dialect));
        Self {
            schema,
            text,
            settings,
            dialect,
            intent,
            original: None,
            notes: FormNotes::default(),
            hash,
            charge: OnceCell::new(),
        }
    }
}

/// A source as it is written down for another process: the rest follows from this.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename = "Source")]
struct Written {
    #[serde(with = "crate::described::some_bytes")]
    schema: Option<Rc<[u8]>>,
    #[serde(with = "crate::described::bytes")]
    text: Box<[u8]>,
    settings: Rc<SessionVariables>,
    backslash_escapes: bool,
    /// The rest of how the server has read it, where that is not as usual.
    #[serde(default, skip_serializing_if = "crate::described::is_zero")]
    read_as: u16,
    /// A Flifo without rules knows none.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "crate::described::some_bytes"
    )]
    original: Option<Box<[u8]>>,
}

impl Serialize for Source {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (schema, settings) = (self.schema.clone(), Rc::clone(&self.settings));
        let backslash_escapes = self.dialect.backslash_escapes;
        let (original, read_as) = (self.original.clone(), self.dialect.bits() & !1);
        Written { schema, text: self.text.clone(), settings, backslash_escapes, read_as, original }
            .serialize(to)
    }
}

impl<'de> Deserialize<'de> for Source {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let Written { schema, text, settings, backslash_escapes, read_as, original } =
            Written::deserialize(from)?;
        let dialect = Dialect { backslash_escapes, ..Dialect::from_bits(read_as) };
        let new = Self::new(schema, text, settings, dialect);
        Ok(Self { original, ..new })
    }
}

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        // Those that are executed again and again are the very same.
        std::ptr::eq(self, other)
            || self.dialect == other.dialect
                && self.settings.mode() == other.settings.mode()
                && self.text == other.text
                && self.schema == other.schema
                && self.original == other.original
    }
}

impl Eq for Source {}

impl Hash for Source {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// All sources that are in use. A source that is no longer in use is forgotten.
#[derive(Debug, Default)]
pub struct Sources {
    known: NumberMap<u64, Weak<Source>>,
    /// With so many of them, those that are gone are cleared away.
    room: usize,
    /// What those that are in use take.
    bytes: Rc<Cell<usize>>,
}

/// Fewer are not worth a look.
const ROOM_MIN: usize = 64;

impl Sources {
    /// A source that was read in another process, under settings of this worker.
    pub(crate) fn adopt(&mut self, source: &Source, interned: &mut Interned) -> Rc<Source> {
        let settings = interned.intern((*source.settings).clone());
        let text = source.text.clone();
        let new = Source::new(source.schema.clone(), text, settings, source.dialect);
        self.share(Rc::new(Source { original: source.original.clone(), ..new }))
    }

    /// Whether a client whose own statements keep `own` bytes may prepare so many more. All sources together take at
    /// most `max` bytes; beyond that, each of so many clients still has its equal part of them, so one client cannot
    /// take what the others need.
    pub fn has_room(&self, max: usize, clients: usize, own: usize, more: usize) -> bool {
        self.bytes.get().saturating_add(more) <= max
            || own.saturating_add(more) <= max / clients.max(1)
    }

    fn charge(&self, source: &Source) {
        let bytes =
            OVERHEAD + source.text.len() + source.original.as_ref().map_or(0, |it| it.len());
        source.charge.get_or_init(|| {
            self.bytes.update(|all| all + bytes);
            Charge { of: Rc::clone(&self.bytes), bytes }
        });
    }

    /// The source in use that is equal to this one; if there is none, this one from now on.
    pub fn share(&mut self, source: Rc<Source>) -> Rc<Source> {
        if let Some(known) = self.known.get(&source.hash).and_then(Weak::upgrade) {
            // Another mode of the same text is rare enough to be kept apart.
            if known == source {
                return known;
            }
            self.charge(&source);
            return source;
        }
        self.charge(&source);
        if self.known.len() >= self.room {
            self.known.retain(|_, known| known.strong_count() > 0);
            self.room = ROOM_MIN.max(2 * self.known.len());
        }
        self.known.insert(source.hash, Rc::downgrade(&source));
        source
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(schema: Option<&str>, text: &str, settings: &Rc<SessionVariables>) -> Rc<Source> {
        let schema = schema.map(|it| it.as_bytes().into());
        let (text, settings) = (text.as_bytes().into(), Rc::clone(settings));
        Rc::new(Source::new(schema, text, settings, Dialect::default()))
    }

    #[test]
    fn the_same_text_in_another_schema_mode_or_dialect_is_another_one() {
        let plain = Rc::default();
        let one = source(None, "a", &plain);
        let rows = [(&b"sql_mode"[..], &b"ANSI_QUOTES"[..])];
        let ansi = Interned::default().intern(SessionVariables::from_rows(rows.into_iter()));
        let dialect = Dialect { backslash_escapes: false, ..Dialect::default() };
        let other = Source::new(None, b"a"[..].into(), Rc::clone(&plain), dialect);
        for other in [
            source(Some("x"), "a", &plain),
            source(None, "b", &plain),
            source(None, "a", &ansi),
            Rc::new(other),
        ] {
            assert_ne!(one, other);
            let mut sources = Sources::default();
            sources.share(Rc::clone(&one));
            assert!(Rc::ptr_eq(&sources.share(Rc::clone(&other)), &other));
        }
        assert_eq!(one, source(None, "a", &plain));
    }

    #[test]
    fn those_that_somebody_has_are_shared() {
        let (mut sources, plain) = (Sources::default(), Rc::default());
        let one = sources.share(source(Some("x"), "a", &plain));
        assert!(Rc::ptr_eq(&sources.share(source(Some("x"), "a", &plain)), &one));
        drop(one);
        let again = source(Some("x"), "a", &plain);
        assert!(Rc::ptr_eq(&sources.share(Rc::clone(&again)), &again));
    }

    #[test]
    fn all_texts_together_are_bounded_and_each_client_has_its_part() {
        let (mut sources, plain) = (Sources::default(), Rc::default());
        let text = "x".repeat(1000);
        let one = sources.share(source(None, &text, &plain));
        let same = sources.share(source(None, &text, &plain));
        let other = sources.share(source(Some("y"), &text, &plain));
        assert_eq!(sources.bytes.get(), 2 * (1000 + OVERHEAD), "the same counts once");
        let max = 4000;
        assert!(sources.has_room(max, 10, 1000, 900) && !sources.has_room(max, 10, 1000, 1000));
        // One that has next to nothing has its part in any case.
        assert!(sources.has_room(max, 10, 0, 400) || sources.bytes.get() + 400 <= max);
        assert!(!sources.has_room(0, 0, 0, 1) && sources.has_room(usize::MAX, 1, 0, usize::MAX));
        drop((one, other));
        assert_eq!(sources.bytes.get(), 1000 + OVERHEAD);
        drop(same);
        assert_eq!(sources.bytes.get(), 0);
    }

    #[test]
    fn those_that_nobody_has_are_forgotten() {
        let (mut sources, plain) = (Sources::default(), Rc::default());
        let kept: Vec<_> =
            (0..100).map(|at| sources.share(source(None, &format!("kept {at}"), &plain))).collect();
        for at in 0..10_000 {
            sources.share(source(None, &format!("gone {at}"), &plain));
            assert!(sources.known.len() <= 2 * kept.len() + 2);
        }
        for source in kept {
            let same = self::source(None, std::str::from_utf8(&source.text).unwrap(), &plain);
            assert!(Rc::ptr_eq(&sources.share(same), &source));
        }
    }
}
