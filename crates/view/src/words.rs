//! A statement to the console as words, read from front to back.
//!
//! Invariants: never more than [`WORDS_MAX`] of them; what is left over is an error of the reader's making.

use wire::lex::{Dialect, Lexer, Token};

/// No statement to the console needs more.
const WORDS_MAX: usize = 2048;

/// A word, its quotes taken off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Bare(String),
    Quoted(String),
    Text(String),
    Number(String),
    /// `@@name`, its scope taken off.
    Variable(String),
    Symbol(char),
}

/// The words that have not been read yet.
#[derive(Debug)]
pub(crate) struct Words {
    words: std::vec::IntoIter<Word>,
}

/// Why a statement cannot be read.
pub(crate) type Wrong = String;

impl Words {
    pub(crate) fn of(text: &[u8]) -> Result<Self, Wrong> {
        let mut words = Vec::new();
        for token in Lexer::new(text, Dialect::default()) {
            if words.len() == WORDS_MAX {
                return Err(format!("the statement has more than {WORDS_MAX} words"));
            }
            let owned = |bytes| String::from_utf8_lossy(bytes).into_owned();
            words.push(match token {
                Token::Word(word) => Word::Bare(owned(word)),
                Token::Quoted(name) => Word::Quoted(owned(name).replace("``", "`")),
                Token::String(text) => Word::Text(unescape(&owned(text))),
                Token::Number(number) => Word::Number(owned(number)),
                Token::SystemVariable(name) => Word::Variable(bare(&owned(name))),
                Token::Symbol(symbol) => Word::Symbol(char::from(symbol)),
                Token::UserVariable(_) => return Err("there are no variables here".to_owned()),
                Token::Assign => return Err("`:=` cannot stand here".to_owned()),
                Token::Unfinished => return Err("a quote or comment never ends".to_owned()),
            });
        }
        while words.last() == Some(&Word::Symbol(';')) {
            words.pop();
        }
        Ok(Self { words: words.into_iter() })
    }

    pub(crate) fn peek(&self) -> Option<&Word> {
        self.words.as_slice().first()
    }

    pub(crate) fn next(&mut self) -> Option<Word> {
        self.words.next()
    }

    /// Takes this word, in any case, if it is next.
    pub(crate) fn take(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Some(Word::Bare(it)) if it.eq_ignore_ascii_case(word));
        if found {
            self.words.next();
        }
        found
    }

    /// Takes this symbol if it is next.
    pub(crate) fn take_symbol(&mut self, symbol: char) -> bool {
        let found = self.peek() == Some(&Word::Symbol(symbol));
        if found {
            self.words.next();
        }
        found
    }

    /// Takes a name, which may have parts with dots between them.
    pub(crate) fn name(&mut self, what: &str) -> Result<String, Wrong> {
        let mut name = match self.next() {
            Some(Word::Bare(name) | Word::Quoted(name) | Word::Variable(name)) => name,
            other => return Err(format!("{what} is missing{}", before(other.as_ref()))),
        };
        while self.take_symbol('.') {
            match self.next() {
                Some(Word::Bare(part) | Word::Quoted(part)) => name = format!("{name}.{part}"),
                other => {
                    return Err(format!("a dot at the end of a name{}", before(other.as_ref())));
                }
            }
        }
        Ok(name)
    }

    /// Takes a text in quotes.
    pub(crate) fn text(&mut self, what: &str) -> Result<String, Wrong> {
        match self.next() {
            Some(Word::Text(text)) => Ok(text),
            other => Err(format!("{what} is missing{}", before(other.as_ref()))),
        }
    }

    /// Takes a whole number.
    pub(crate) fn number(&mut self, what: &str) -> Result<u64, Wrong> {
        match self.next() {
            Some(Word::Number(number)) => {
                number.parse().map_err(|_| format!("{number} is no {what}"))
            }
            other => Err(format!("{what} is missing{}", before(other.as_ref()))),
        }
    }

    /// Nothing may be left.
    pub(crate) fn end(&mut self) -> Result<(), Wrong> {
        match self.next() {
            None => Ok(()),
            Some(word) => Err(format!("nothing more was expected{}", before(Some(&word)))),
        }
    }
}

/// Says where something is wrong.
pub(crate) fn before(word: Option<&Word>) -> String {
    match word {
        None => " at the end".to_owned(),
        Some(
            Word::Bare(word)
            | Word::Quoted(word)
            | Word::Text(word)
            | Word::Number(word)
            | Word::Variable(word),
        ) => {
            let short: String = word.chars().take(40).collect();
            format!(" before {short:?}")
        }
        Some(Word::Symbol(symbol)) => format!(" before {symbol:?}"),
    }
}

/// The name of a variable without its scope and quotes.
fn bare(name: &str) -> String {
    name.rsplit('.').next().unwrap_or_default().replace('`', "")
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(next) = rest.next() {
        match next {
            '\\' => match rest.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                // Left for the pattern that it is meant for.
                Some(wild @ ('%' | '_')) => out.extend(['\\', wild]),
                Some(other) => out.push(other),
                None => {}
            },
            '\'' | '"' if rest.peek() == Some(&next) => {
                rest.next();
                out.push(next);
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_scopes_are_taken_off() {
        let words = Words::of(b"a `b``c` 'd''e\\'\\n\\%' 7 @@session.`x`, -- no\n;;").unwrap();
        let want = [
            Word::Bare("a".into()),
            Word::Quoted("b`c".into()),
            Word::Text("d'e'\n\\%".into()),
            Word::Number("7".into()),
            Word::Variable("x".into()),
            Word::Symbol(','),
        ];
        assert_eq!(words.words.as_slice(), want);
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for text in ["'a", "@a", "a := 1", "/* x"] {
            assert!(Words::of(text.as_bytes()).is_err(), "{text}");
        }
        assert!(Words::of("a ".repeat(WORDS_MAX + 1).as_bytes()).is_err());
        assert!(Words::of(&[0xff, 0xfe, 0, b'\'', b'\'']).is_ok());
    }
}
