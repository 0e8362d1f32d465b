//! What statements of one form write, kept with what is remembered of the form: their texts are not read again.
//!
//! Two forms are one if nothing tells them apart but the values of plain literals, which say nothing of tables.
//! Invariant: what was found in another schema, or with other definitions behind the tables, is not used.

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use super::effects::Effects;
use super::links::Links;

/// What was found of a form the last time.
#[derive(Debug, Default)]
pub struct NotedEffects(RefCell<Option<Noted>>);

#[derive(Debug)]
struct Noted {
    schema: Option<Box<[u8]>>,
    links: Option<Weak<Links>>,
    effects: Effects,
}

impl Noted {
    fn is_of(&self, schema: Option<&[u8]>, links: Option<&Arc<Links>>) -> bool {
        let is_linked_so = match (&self.links, links) {
            // While there is a weak pointer, no other links stand at that address.
            (Some(own), Some(links)) => std::ptr::eq(own.as_ptr(), Arc::as_ptr(links)),
            (None, None) => true,
            _ => false,
        };
        is_linked_so && self.schema.as_deref() == schema
    }
}

impl NotedEffects {
    /// What a statement of this form writes in this schema, with these definitions behind its tables. `read`: reads it off
    /// the text, if that is not known.
    pub fn get_or_read(
        &self,
        schema: Option<&[u8]>,
        links: Option<&Arc<Links>>,
        read: impl FnOnce() -> Effects,
    ) -> Effects {
        let mut noted = self.0.borrow_mut();
        if let Some(noted) = noted.as_ref().filter(|noted| noted.is_of(schema, links)) {
            return noted.effects.clone();
        }
        let effects = read();
        let (schema, links) = (schema.map(Into::into), links.map(Arc::downgrade));
        *noted = Some(Noted { schema, links, effects: effects.clone() });
        effects
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_are_those_of_the_schema_and_the_definitions() {
        let noted = NotedEffects::default();
        let unread = || panic!("it is known");
        let (one, two) = (Arc::new(Links::default()), Arc::new(Links::default()));
        assert_eq!(noted.get_or_read(None, None, || Effects::UNKNOWN), Effects::UNKNOWN);
        assert_eq!(noted.get_or_read(None, None, unread), Effects::UNKNOWN);
        for (schema, links) in
            [(None, &one), (Some(&b"a"[..]), &one), (Some(b"b"), &one), (None, &two)]
        {
            assert_eq!(
                noted.get_or_read(schema, Some(links), || Effects::Nothing),
                Effects::Nothing
            );
            assert_eq!(noted.get_or_read(schema, Some(links), unread), Effects::Nothing);
        }
        // Other definitions are not taken for those that were there before.
        drop(two);
        let three = Arc::new(Links::default());
        assert_eq!(noted.get_or_read(None, Some(&three), || Effects::UNKNOWN), Effects::UNKNOWN);
        assert_eq!(noted.get_or_read(None, None, || Effects::Nothing), Effects::Nothing);
    }
}
