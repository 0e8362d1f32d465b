//! What a statement does to its session's schema.

use serde::{Deserialize, Serialize};
use wire::lex::Token;
use wire::text::Text;

/// Whether a statement enters a schema. A routine of another schema enters that one as well, and leaves it again; of
/// such a move no text tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Moves {
    #[default]
    No,
    /// It is a `USE`, and nothing else: it runs nothing that could change more than the schema.
    IntoSchema,
}

/// The schema that a `USE` enters, in the client's character set. `None`: the text does not name one so that it could be
/// told.
pub fn entered(text: Text<'_>) -> Option<Vec<u8>> {
    let mut tokens = text.tokens();
    match tokens.next()? {
        Token::Word(word) if word.eq_ignore_ascii_case(b"USE") => {}
        _ => return None,
    }
    let name = match tokens.next()? {
        // As it is written: a name may begin with digits.
        Token::Word(_) | Token::Number(_) => {
            let (start, end) = tokens.span();
            text.bytes.get(start..end)?.to_vec()
        }
        Token::Quoted(quoted) => undoubled(quoted),
        _ => return None,
    };
    let ends = tokens.all(|token| token == Token::Symbol(b';'));
    (ends && !name.is_empty()).then_some(name)
}

/// A quoted name, in which two back-ticks are one.
fn undoubled(quoted: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(quoted.len());
    let mut bytes = quoted.iter().peekable();
    while let Some(byte) = bytes.next() {
        name.push(*byte);
        if *byte == b'`' {
            bytes.next_if(|next| **next == b'`');
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::lex::Dialect;
    use wire::text::Lexed;

    #[test]
    fn a_use_names_its_schema() {
        for (text, want) in [
            ("USE shop", Some("shop")),
            (" /* c */ use  `shop` ;", Some("shop")),
            ("USE `a``b`", Some("a`b")),
            ("USE 2024_shop", Some("2024_shop")),
            ("USE shop; SELECT 1", None),
            ("USE", None),
            ("USE ``", None),
            ("USE 'shop'", None),
            ("SELECT shop", None),
            ("", None),
        ] {
            let lexed = Lexed::default();
            let name = entered(lexed.text(text.as_bytes(), Dialect::default()));
            assert_eq!(name.as_deref(), want.map(str::as_bytes), "{text}");
        }
    }
}
