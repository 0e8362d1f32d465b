//! The texts that a pass-through client has prepared, by the server's numbers: rules look at them when they are
//! executed. Bounded as what other clients have prepared is.

use std::rc::Rc;

use serde::{Deserialize, Serialize};
use wire::lex::Dialect;

use crate::numbers::NumberMap;
use crate::statements::{BYTES_MAX, STATEMENTS_MAX};

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PassedTexts {
    texts: NumberMap<u32, PassedText>,
    bytes: usize,
    last: Option<u32>,
}

/// A text as its client has written it, and how the server has read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PassedText {
    #[serde(with = "crate::described::bytes")]
    pub text: Rc<[u8]>,
    backslash_escapes: bool,
    /// The rest, where that is not as usual.
    #[serde(default, skip_serializing_if = "crate::described::is_zero")]
    read_as: u16,
}

impl PassedText {
    pub fn new(text: &[u8], dialect: Dialect) -> Self {
        let read_as = dialect.bits() & !1;
        Self { text: text.into(), backslash_escapes: dialect.backslash_escapes, read_as }
    }

    pub fn dialect(&self) -> Dialect {
        Dialect { backslash_escapes: self.backslash_escapes, ..Dialect::from_bits(self.read_as) }
    }
}

impl PassedTexts {
    /// Whether one more of this length may be kept.
    pub fn has_room(&self, text_len: usize) -> bool {
        self.texts.len() < STATEMENTS_MAX && self.bytes + text_len <= BYTES_MAX
    }

    /// The server has prepared this, and calls it so.
    pub fn add(&mut self, id: u32, text: PassedText) {
        self.close(id);
        self.bytes += text.text.len();
        self.texts.insert(id, text);
        self.last = Some(id);
    }

    pub fn get(&self, id: u32) -> Option<&PassedText> {
        self.texts.get(&id)
    }

    /// The number of the one that was prepared last.
    pub const fn last(&self) -> Option<u32> {
        self.last
    }

    pub fn close(&mut self, id: u32) {
        if let Some(closed) = self.texts.remove(&id) {
            self.bytes -= closed.text.len();
        }
        self.last = self.last.filter(|last| *last != id);
    }

    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &[u8]) -> PassedText {
        PassedText::new(text, Dialect::default())
    }

    #[test]
    fn texts_are_known_until_they_are_closed() {
        let mut texts = PassedTexts::default();
        texts.add(1, text(b"SELECT 1"));
        texts.add(2, text(b"SELECT 2"));
        assert_eq!((texts.get(1), texts.last()), (Some(&text(b"SELECT 1")), Some(2)));
        let written = serde_json::to_string(&texts).expect("it is written");
        let read: PassedTexts = serde_json::from_str(&written).expect("it is read");
        assert_eq!((read.get(2), read.last()), (Some(&text(b"SELECT 2")), Some(2)));
        texts.close(2);
        texts.close(7);
        assert_eq!((texts.get(2), texts.last()), (None, None));
        texts.close(1);
        assert!(texts.is_empty() && texts.bytes == 0);
    }

    #[test]
    fn they_are_bounded() {
        let mut texts = PassedTexts::default();
        let long = vec![b'x'; BYTES_MAX / 2];
        texts.add(1, text(&long));
        assert!(texts.has_room(BYTES_MAX / 2) && !texts.has_room(BYTES_MAX / 2 + 1));
        // What has the same number takes the place of the one before.
        texts.add(1, text(b"SELECT 1"));
        assert!(texts.has_room(BYTES_MAX / 2 + 1));
        (0..STATEMENTS_MAX as u32).for_each(|id| texts.add(id, text(b"")));
        assert!(!texts.has_room(0));
    }
}
