//! What statements have in common that differ in literals only.

use std::num::NonZeroU64;

use wire::lex::Token;
use wire::text::Text;

/// Stands for all statements that differ from one another only in literals and white space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest(NonZeroU64);

impl Default for Digest {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Digest {
    /// Made of a hash, which is not 0: so one that may be missing takes no more room.
    pub const fn new(hash: u64) -> Self {
        match NonZeroU64::new(hash) {
            Some(hash) => Self(hash),
            None => Self(NonZeroU64::MAX),
        }
    }

    pub const fn hash(self) -> u64 {
        self.0.get()
    }

    /// The digest of any text, as logs show it.
    pub fn of(text: Text<'_>) -> Self {
        let mut digester = Digester::default();
        text.tokens().for_each(|token| digester.add(token));
        digester.digest()
    }
}

/// Makes the digest of a text from its tokens.
#[derive(Clone, Copy, Default)]
pub(super) struct Digester {
    hash: u64,
    after_literal: bool,
}

impl Digester {
    pub(super) fn digest(self) -> Digest {
        Digest::new(self.hash)
    }

    /// Adds a token. A list of literals counts as one.
    pub(super) fn add(&mut self, token: Token<'_>) {
        let (kind, body): (u64, &[u8]) = match token {
            Token::String(_) | Token::Number(_) => {
                if !self.after_literal {
                    self.hash = mix(self.hash, 1);
                }
                return self.after_literal = true;
            }
            Token::Symbol(b',') if self.after_literal => return,
            Token::Symbol(symbol) => (2 | u64::from(symbol) << 8, b""),
            Token::Word(word) => (3, word),
            Token::Quoted(name) => (4, name),
            Token::SystemVariable(name) => (5, name),
            Token::UserVariable(_) | Token::Assign | Token::Unfinished => (6, b""),
        };
        self.after_literal = false;
        self.hash = mix(self.hash, kind);
        self.hash = mix_all(self.hash, body);
    }
}

/// One step of a fast hash (the multiplier is the golden ratio's, as in Fibonacci hashing).
pub(super) const fn mix(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The same with each word of these bytes, the last one filled up with zeros.
pub(super) fn mix_all(hash: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let hash = words.iter().fold(hash, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    if rest.is_empty() {
        return hash;
    }
    // A copy of so few bytes would be a call.
    mix(hash, rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)))
}
