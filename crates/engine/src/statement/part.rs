//! A text cut into its statements, each a range of the tokens that the text has anyway.

use std::ops::Range;

use wire::lex::{Dialect, Token};
use wire::text::{Lexed, Text, Tokens};

use crate::intent::Digest;

/// One statement of a text. Takes no memory of its own.
#[derive(Clone, Debug)]
pub struct Part<'a> {
    text: Text<'a>,
    tokens: Tokens<'a>,
    range: Range<usize>,
    /// Where its bytes begin and end in the text, with the comments around it.
    bytes: Range<usize>,
    /// The same statement in the other reading of the text, if it has one.
    other: Option<Box<Self>>,
}

/// The statements of a text, at most so many. `None`: it is not read to its end, a quote or a comment has none, or it
/// depends on the server how many there are.
pub fn parts(text: Text<'_>) -> Option<Vec<Part<'_>>> {
    let mut found = parts_of(text)?;
    if let Some(other) = text.other() {
        let others = parts_of(other)?;
        if others.len() != found.len() {
            return None;
        }
        for (part, other) in found.iter_mut().zip(others) {
            part.other = Some(Box::new(other));
        }
    }
    Some(found)
}

fn parts_of(text: Text<'_>) -> Option<Vec<Part<'_>>> {
    let tokens = text.tokens();
    if tokens.is_cut() {
        return None;
    }
    let (mut found, mut from, mut start) = (Vec::new(), 0, 0);
    let mut end_part = |range: Range<usize>, bytes: Range<usize>| {
        if !range.is_empty() {
            found.push(Part { text, tokens, range, bytes, other: None });
        }
        found.len() <= PARTS_MAX
    };
    for (at, token) in tokens.enumerate() {
        match token {
            Token::Unfinished => return None,
            Token::Symbol(b';') => {
                let (semicolon, behind) = tokens.span_of(at).unwrap_or_default();
                if !end_part(from..at, start..semicolon) {
                    return None;
                }
                (from, start) = (at + 1, behind);
            }
            _ => {}
        }
    }
    end_part(from..tokens.len(), start..text.bytes.len()).then_some(found)
}

/// More statements in one text are not read.
const PARTS_MAX: usize = 1000;

impl<'a> Part<'a> {
    pub fn len(&self) -> usize {
        self.range.len()
    }

    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// The same statement as a server reads it that does not execute what this one has in comments.
    pub fn other(&self) -> Option<&Self> {
        self.other.as_deref()
    }

    /// How the server reads it.
    pub const fn dialect(&self) -> Dialect {
        self.text.dialect
    }

    /// The token at this place among its own.
    pub fn token(&self, at: usize) -> Option<Token<'a>> {
        self.tokens.token(self.place(at)?)
    }

    /// Where that one stands among its bytes.
    pub fn span(&self, at: usize) -> Option<(usize, usize)> {
        let (start, end) = self.tokens.span_of(self.place(at)?)?;
        Some((start.checked_sub(self.bytes.start)?, end.checked_sub(self.bytes.start)?))
    }

    fn place(&self, at: usize) -> Option<usize> {
        Some(self.range.start + at).filter(|at| self.range.contains(at))
    }

    pub fn tokens(&self) -> impl Iterator<Item = Token<'a>> + use<'a> {
        let tokens = self.tokens;
        self.range.clone().filter_map(move |at| tokens.token(at))
    }

    /// Its bytes, with the comments around it.
    pub fn bytes(&self) -> &'a [u8] {
        self.text.bytes.get(self.bytes.clone()).unwrap_or_default()
    }

    /// Where its bytes stand in the text.
    pub fn place_in_text(&self) -> Range<usize> {
        self.bytes.clone()
    }

    /// Whether part of its text stands in a comment that only some servers execute.
    pub const fn saw_executable_comment(&self) -> bool {
        self.tokens.saw_executable_comment()
    }

    /// How many values it leaves to be bound.
    pub fn placeholders(&self) -> usize {
        self.tokens().filter(|token| *token == Token::Symbol(b'?')).count()
    }

    /// Its digest, as if it stood alone.
    pub fn digest(&self) -> Digest {
        let lexed = Lexed::default();
        Digest::of(lexed.text(self.bytes(), self.text.dialect))
    }

    /// What stands between its tokens: white space and comments.
    pub fn gaps(&self) -> impl Iterator<Item = &'a [u8]> {
        let bytes = self.bytes();
        (0..=self.len()).map(move |at| {
            let before = at.checked_sub(1).and_then(|at| self.span(at)).map_or(0, |(_, end)| end);
            let behind = self.span(at).map_or(bytes.len(), |(start, _)| start);
            bytes.get(before..behind).unwrap_or_default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Option<Vec<String>> {
        let lexed = Lexed::default();
        let parts = parts(lexed.text(text.as_bytes(), Dialect::default()))?;
        Some(parts.iter().map(|it| String::from_utf8_lossy(it.bytes()).into_owned()).collect())
    }

    #[test]
    fn statements_end_where_a_semicolon_is_no_literal_and_no_comment() {
        for (text, want) in [
            ("SELECT 1", vec!["SELECT 1"]),
            ("/* a */ SELECT 1; ", vec!["/* a */ SELECT 1"]),
            ("SELECT ';'; SELECT 2 -- ;\n", vec!["SELECT ';'", " SELECT 2 -- ;\n"]),
            (";;SELECT 1;;", vec!["SELECT 1"]),
            ("", vec![]),
        ] {
            let cut = cut(text).expect("it is read");
            assert_eq!(cut, want, "{text}");
        }
        assert_eq!(cut("SELECT 'a"), None);
        assert_eq!(cut("SELECT 1 /* "), None);
        assert_eq!(cut(&"SELECT 1;".repeat(PARTS_MAX + 1)), None);
    }

    #[test]
    fn a_part_knows_its_own_places_only() {
        let lexed = Lexed::default();
        let text = lexed.text(b"SELECT 1; /* x */ SELECT ?, '?'", Dialect::default());
        let parts = parts(text).expect("it is read");
        let second = &parts[1];
        assert_eq!((second.len(), second.token(4)), (4, None));
        assert_eq!(second.placeholders(), 1);
        let (start, end) = second.span(0).expect("a word");
        assert_eq!(&second.bytes()[start..end], b"SELECT");
        let gaps: Vec<_> = second.gaps().collect();
        assert_eq!(gaps, [&b" /* x */ "[..], b" ", b"", b" ", b""]);
    }
}
