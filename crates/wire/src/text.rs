//! A text and its tokens. Each text is lexed once: whatever reads it afterwards reads the list of its tokens.
//!
//! The list holds places in the text, not parts of it, so it can be kept while the bytes move.

use std::cell::OnceCell;

use crate::lex::{Comments, Dialect, Lexer, Token};

/// A text with more tokens than this is not lexed to its end: as many as a mebibyte of text can hold, whose list takes
/// 20 MiB while the text is read.
pub const TOKENS_MAX: usize = 1 << 20;

/// The tokens of one text, once one of its readers has asked for them.
#[derive(Clone, Debug, Default)]
pub struct Lexed(OnceCell<List>);

#[derive(Clone, Debug)]
struct List {
    places: Vec<Place>,
    saw_executable_comment: bool,
    is_cut: bool,
    /// The text without the comments of which it depends on the server whether it executes them, if it has any.
    other: Option<Box<Lexed>>,
}

/// Where a token stands, and the part of it that [`Token`] shows.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: u32,
    end: u32,
    shown: (u32, u32),
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Word,
    Quoted,
    String,
    Number,
    UserVariable,
    SystemVariable,
    Symbol,
    Assign,
    Unfinished,
}

impl Lexed {
    /// The text that these are the tokens of. It must be the same one each time.
    pub const fn text<'a>(&'a self, bytes: &'a [u8], dialect: Dialect) -> Text<'a> {
        Text { bytes, dialect, lexed: self }
    }
}

/// A text that is lexed when its tokens are first asked for.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    pub bytes: &'a [u8],
    pub dialect: Dialect,
    lexed: &'a Lexed,
}

impl<'a> Text<'a> {
    /// The letters that it begins with; none if it begins with a comment or a parenthesis. What needs no more than that
    /// does not have the text lexed.
    pub fn first_word(self) -> &'a [u8] {
        let text = self.bytes.trim_ascii_start();
        let end = text.iter().position(|byte| !byte.is_ascii_alphabetic()).unwrap_or(text.len());
        text.get(..end).unwrap_or_default()
    }

    /// Whether it may begin with one of these words, which are in capitals.
    pub fn may_begin_with(self, words: &[&str]) -> bool {
        let first = self.first_word();
        first.is_empty() || words.iter().any(|word| first.eq_ignore_ascii_case(word.as_bytes()))
    }

    pub fn tokens(self) -> Tokens<'a> {
        let list = self.list();
        Tokens { text: self.bytes, list, at: 0 }
    }

    /// The other way to read it, if it depends on the server what of it is executed: without the comments that this one
    /// reads as if they stood in the open.
    pub fn other(self) -> Option<Self> {
        let lexed = self.list().other.as_deref()?;
        let dialect = Dialect { comments: Comments::Skipped, ..self.dialect };
        Some(Self { bytes: self.bytes, dialect, lexed })
    }

    fn list(self) -> &'a List {
        self.lexed.0.get_or_init(|| List::read(self.bytes, self.dialect))
    }
}

/// Iterates over the tokens of a text. A copy looks ahead.
#[derive(Clone, Copy, Debug)]
pub struct Tokens<'a> {
    text: &'a [u8],
    list: &'a List,
    at: usize,
}

impl<'a> Tokens<'a> {
    /// Where the token that was returned last stands in the text.
    pub fn span(&self) -> (usize, usize) {
        self.at.checked_sub(1).and_then(|at| self.span_of(at)).unwrap_or_default()
    }

    /// The token at a place in the list, wherever the iterator is.
    pub fn token(&self, at: usize) -> Option<Token<'a>> {
        self.list.places.get(at).map(|place| place.token(self.text))
    }

    /// Where that one stands in the text.
    pub fn span_of(&self, at: usize) -> Option<(usize, usize)> {
        let place = self.list.places.get(at)?;
        Some((place.start as usize, place.end as usize))
    }

    /// Whether part of the text stands in a comment that only some servers execute.
    pub const fn saw_executable_comment(&self) -> bool {
        self.list.saw_executable_comment
    }

    /// Whether the text has more tokens than are listed ([`TOKENS_MAX`]).
    pub const fn is_cut(&self) -> bool {
        self.list.is_cut
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    #[inline]
    fn next(&mut self) -> Option<Token<'a>> {
        let token = self.token(self.at)?;
        self.at += 1;
        Some(token)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.list.places.len() - self.at;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Tokens<'_> {}

impl List {
    fn read(text: &[u8], dialect: Dialect) -> Self {
        let mut lexer = Lexer::new(text, dialect);
        // Most tokens are longer than this, with the space behind them.
        let mut places = Vec::with_capacity((text.len() / 4 + 4).min(1 << 10));
        while places.len() < TOKENS_MAX
            && let Some(token) = lexer.next()
        {
            places.push(Place::of(token, lexer.span(), text));
        }
        let is_cut = places.len() == TOKENS_MAX && lexer.next().is_some();
        let has_other = lexer.saw_unsure_comment() && dialect.comments == Comments::Open;
        let other = has_other.then(Box::default);
        Self { places, saw_executable_comment: lexer.saw_executable_comment(), is_cut, other }
    }
}

impl Place {
    fn of(token: Token<'_>, (start, end): (usize, usize), text: &[u8]) -> Self {
        let (kind, shown) = match token {
            Token::Word(part) => (Kind::Word, part),
            Token::Quoted(part) => (Kind::Quoted, part),
            Token::String(part) => (Kind::String, part),
            Token::Number(part) => (Kind::Number, part),
            Token::UserVariable(part) => (Kind::UserVariable, part),
            Token::SystemVariable(part) => (Kind::SystemVariable, part),
            Token::Symbol(_) => (Kind::Symbol, &text[start..end]),
            Token::Assign => (Kind::Assign, &text[start..end]),
            Token::Unfinished => (Kind::Unfinished, &text[start..start]),
        };
        // It is a part of the text.
        let from = shown.as_ptr().addr() - text.as_ptr().addr();
        // A command has 4 GiB at most, which the reader of commands bounds to less.
        let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let shown = (place(from), place(from + shown.len()));
        Self { start: place(start), end: place(end), shown, kind }
    }

    #[inline]
    fn token(self, text: &[u8]) -> Token<'_> {
        let (from, to) = self.shown;
        let part = text.get(from as usize..to as usize).unwrap_or_default();
        match self.kind {
            Kind::Word => Token::Word(part),
            Kind::Quoted => Token::Quoted(part),
            Kind::String => Token::String(part),
            Kind::Number => Token::Number(part),
            Kind::UserVariable => Token::UserVariable(part),
            Kind::SystemVariable => Token::SystemVariable(part),
            Kind::Symbol => part.first().map_or(Token::Unfinished, |it| Token::Symbol(*it)),
            Kind::Assign => Token::Assign,
            Kind::Unfinished => Token::Unfinished,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"SELECT `a`.b, 'it''s' \"x\", 1.5, @v, @`w x`, @'y', @@session.z FROM t /*! WHERE a := 1 */";

    #[test]
    fn the_list_says_what_the_lexer_says() {
        for text in [TEXT, b"", b";", b"SELECT 'no end", b"a /* b", b"'' `` @ @@ @''"] {
            let (lexed, dialect) = (Lexed::default(), Dialect::default());
            let mut lexer = Lexer::new(text, dialect);
            let mut tokens = lexed.text(text, dialect).tokens();
            loop {
                let (expected, token) = (lexer.next(), tokens.next());
                assert_eq!(expected, token);
                if token.is_none() {
                    break;
                }
                assert_eq!(lexer.span(), tokens.span());
            }
            assert_eq!(lexer.saw_executable_comment(), tokens.saw_executable_comment());
            assert!(!tokens.is_cut());
        }
    }

    #[test]
    fn a_text_that_servers_read_in_two_ways_has_another_reading() {
        let words = |text: Text<'_>| -> Vec<_> {
            text.tokens().map(|token| format!("{token:?}")).collect()
        };
        let lexed = Lexed::default();
        let text = lexed.text(b"SELECT /*!80000 1, */ 2", Dialect::default());
        let other = text.other().expect("there is one");
        assert_eq!((text.tokens().len(), other.tokens().len()), (4, 2));
        assert_eq!(words(other), ["Word([83, 69, 76, 69, 67, 84])", "Number([50])"]);
        assert!(other.other().is_none() && !other.tokens().saw_executable_comment());
        for text in [&b"SELECT /*!40000 1, */ 2"[..], b"SELECT /*! 1, */ 2", b"SELECT /* 1, */ 2"] {
            assert!(Lexed::default().text(text, Dialect::default()).other().is_none());
        }
    }

    #[test]
    fn a_copy_looks_ahead() {
        let lexed = Lexed::default();
        let mut tokens = lexed.text(b"a b", Dialect::default()).tokens();
        tokens.next();
        let mut ahead = tokens;
        assert_eq!(ahead.next(), Some(Token::Word(b"b")));
        assert_eq!(tokens.next(), Some(Token::Word(b"b")));
        assert_eq!((tokens.token(0), tokens.span_of(1)), (Some(Token::Word(b"a")), Some((2, 3))));
        assert_eq!((tokens.token(2), tokens.span_of(2)), (None, None));
    }

    #[test]
    fn the_first_word_is_told_without_a_list() {
        let lexed = Lexed::default();
        let text = |bytes| lexed.text(bytes, Dialect::default());
        for (bytes, first) in [
            (&b" \n kill 5"[..], &b"kill"[..]),
            (b"BEGIN", b"BEGIN"),
            (b"/* KILL */ SELECT 1", b""),
            (b"(SELECT 1)", b""),
            (b"", b""),
        ] {
            assert_eq!(text(bytes).first_word(), first);
        }
        assert!(text(b"Kill 5").may_begin_with(&["KILL"]) && text(b"#x").may_begin_with(&["KILL"]));
        assert!(!text(b"KILLER").may_begin_with(&["KILL"]));
        assert!(lexed.0.get().is_none(), "nothing has been lexed");
    }

    #[test]
    fn the_list_is_bounded() {
        let lexed = Lexed::default();
        let text = vec![b';'; TOKENS_MAX + 1];
        let tokens = lexed.text(&text, Dialect::default()).tokens();
        assert!(tokens.is_cut() && tokens.count() == TOKENS_MAX);
        let lexed = Lexed::default();
        assert!(!lexed.text(&text[1..], Dialect::default()).tokens().is_cut());
    }
}
