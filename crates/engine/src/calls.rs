//! Calls of functions without arguments, replaced in a statement's text by what they would return.
//!
//! Where a call is a whole item of a select list, its text stays the column's name.

use std::slice;

use wire::lex::{Dialect, Lexer, Token};

/// Where a call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is a whole item of a list.
    Item,
    /// It is part of an expression.
    Within,
}

/// The text with each call `name()` replaced for which there is a value; `None` if there is none.
pub fn replace(
    text: &[u8],
    dialect: Dialect,
    mut value: impl FnMut(&[u8], Place) -> Option<String>,
) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut copied = 0;
    let mut previous = Token::Symbol(b';');
    let mut lexer = Lexer::new(text, dialect);
    while let Some(token) = lexer.next() {
        let (start, _) = lexer.span();
        let before = std::mem::replace(&mut previous, token);
        let Token::Word(name) = token else { continue };
        if before == Token::Symbol(b'.') {
            continue;
        }
        let mut ahead = lexer;
        if ahead.next() != Some(Token::Symbol(b'(')) || ahead.next() != Some(Token::Symbol(b')')) {
            continue;
        }
        let (_, end) = ahead.span();
        let begins_item = before == Token::Symbol(b',') || before.is_word("SELECT");
        let mut after = ahead;
        let next = after.next();
        let is_named = next.is_some_and(|token| token.is_word("AS"));
        let ends_item = match next {
            None | Some(Token::Symbol(b';' | b',')) => true,
            Some(token) => token.is_word("FROM") || token.is_word("LIMIT"),
        };
        let is_item = begins_item && (ends_item || is_named);
        let place = if is_item { Place::Item } else { Place::Within };
        let Some(value) = value(name, place) else { continue };
        out.extend_from_slice(&text[copied..start]);
        out.extend_from_slice(value.as_bytes());
        if begins_item && ends_item {
            out.extend_from_slice(b" AS `");
            // A comment in the call may hold a back-tick, which would end the name.
            for byte in &text[start..end] {
                out.extend_from_slice(if *byte == b'`' { b"``" } else { slice::from_ref(byte) });
            }
            out.push(b'`');
        }
        copied = end;
        lexer = ahead;
        previous = Token::Symbol(b')');
    }
    if copied == 0 {
        return None;
    }
    out.extend_from_slice(&text[copied..]);
    Some(out)
}
