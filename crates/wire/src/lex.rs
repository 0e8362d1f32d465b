//! Splits a statement into tokens, as far as scheduling and sharing backends need: words, variables, strings, symbols.
//!
//! It is no parser: it keeps no tree, recurses nowhere and allocates nothing, so a statement of any size and
//! nesting costs one pass. Comments that a server may execute (`/*! … */`, `/*M! … */`) are read as if they stood in
//! the open, since whether they run depends on the server's version: the code that judges a statement then sees the
//! worst case.

/// A piece of a statement. Slices are as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// A keyword or a bare name.
    Word(&'a [u8]),
    /// A name in back-ticks, without them.
    Quoted(&'a [u8]),
    /// A string literal (or, under `ANSI_QUOTES`, a name), without quotes, escapes not undone.
    String(&'a [u8]),
    Number(&'a [u8]),
    /// `@name`, without the sign.
    UserVariable(&'a [u8]),
    /// `@@name` with its scope if one is written: `global.x`, `session.x`, `x`.
    SystemVariable(&'a [u8]),
    /// Any other character.
    Symbol(u8),
    /// `:=`
    Assign,
    /// A string, quoted name or comment that never ends.
    Unfinished,
}

impl Token<'_> {
    /// Compares a bare word without regard to case. `word` is in capitals.
    pub fn is_word(&self, word: &str) -> bool {
        matches!(self, Token::Word(bytes) if bytes.eq_ignore_ascii_case(word.as_bytes()))
    }
}

/// How the server reads strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// False under `NO_BACKSLASH_ESCAPES`.
    pub backslash_escapes: bool,
}

impl Default for Dialect {
    fn default() -> Self {
        Self { backslash_escapes: true }
    }
}

/// Iterates over the tokens of a statement.
#[derive(Clone, Copy, Debug)]
pub struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    /// Start of the token that was returned last.
    start: usize,
    dialect: Dialect,
    in_executable_comment: bool,
    saw_executable_comment: bool,
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a [u8], dialect: Dialect) -> Self {
        Self {
            text,
            at: 0,
            start: 0,
            dialect,
            in_executable_comment: false,
            saw_executable_comment: false,
        }
    }

    /// Where the token that was returned last stands in the text.
    pub const fn span(&self) -> (usize, usize) {
        (self.start, self.at)
    }

    /// Whether part of what was read so far stood in a comment that only some servers execute.
    pub const fn saw_executable_comment(&self) -> bool {
        self.saw_executable_comment
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.at + ahead).copied()
    }

    /// Moves past white space and comments. False if a comment does not end.
    fn skip_blank(&mut self) -> bool {
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some(b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c), _) => self.at += 1,
                (Some(b'#'), _) => self.skip_line(),
                (Some(b'-'), Some(b'-')) if self.ends_dashes() => self.skip_line(),
                (Some(b'/'), Some(b'*')) => {
                    if let Some(body) = self.executable_body() {
                        self.at = body;
                        self.in_executable_comment = true;
                        self.saw_executable_comment = true;
                    } else if !self.skip_comment() {
                        return false;
                    }
                }
                (Some(b'*'), Some(b'/')) if self.in_executable_comment => {
                    self.at += 2;
                    self.in_executable_comment = false;
                }
                _ => return true,
            }
        }
    }

    /// `--` begins a comment only before white space, a control character or the end.
    fn ends_dashes(&self) -> bool {
        self.peek(2).is_none_or(|byte| byte <= b' ')
    }

    fn skip_line(&mut self) {
        let rest = &self.text[self.at..];
        self.at += memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
    }

    fn skip_comment(&mut self) -> bool {
        let rest = &self.text[self.at + 2..];
        match memchr::memmem::find(rest, b"*/") {
            Some(end) => {
                self.at += 2 + end + 2;
                true
            }
            None => {
                self.at = self.text.len();
                false
            }
        }
    }

    /// Where the text of `/*!50101 …` or `/*M! …` begins, if this is such a comment.
    fn executable_body(&self) -> Option<usize> {
        let mark = match (self.peek(2), self.peek(3)) {
            (Some(b'!'), _) => 3,
            (Some(b'M' | b'm'), Some(b'!')) => 4,
            _ => return None,
        };
        let rest = &self.text[self.at + mark..];
        let digits = rest.iter().take(6).take_while(|byte| byte.is_ascii_digit()).count();
        Some(self.at + mark + digits)
    }

    fn word_end(&self, from: usize) -> usize {
        let rest = &self.text[from..];
        from + rest.iter().position(|byte| !is_word_byte(*byte)).unwrap_or(rest.len())
    }

    /// Reads up to the closing `quote`; `self.at` stands after the opening one.
    fn quoted(&mut self, quote: u8, escapes: bool) -> Option<&'a [u8]> {
        let begin = self.at;
        loop {
            let rest = &self.text[self.at..];
            let found = if escapes {
                memchr::memchr2(quote, b'\\', rest)
            } else {
                memchr::memchr(quote, rest)
            };
            let Some(offset) = found else {
                self.at = self.text.len();
                return None;
            };
            self.at += offset;
            if self.text[self.at] == b'\\' && escapes {
                self.at = (self.at + 2).min(self.text.len());
            } else if self.peek(1) == Some(quote) {
                self.at += 2;
            } else {
                let body = &self.text[begin..self.at];
                self.at += 1;
                return Some(body);
            }
        }
    }

    fn string_token(&mut self, quote: u8) -> Token<'a> {
        self.at += 1;
        match quote {
            b'`' => self.quoted(b'`', false).map_or(Token::Unfinished, Token::Quoted),
            quote => self
                .quoted(quote, self.dialect.backslash_escapes)
                .map_or(Token::Unfinished, Token::String),
        }
    }

    fn variable_token(&mut self) -> Token<'a> {
        if self.peek(1) == Some(b'@') {
            let begin = self.at + 2;
            self.at = begin;
            loop {
                // `@@session.x` and `` @@`x` `` alike.
                if self.peek(0) == Some(b'`') {
                    self.at += 1;
                    if self.quoted(b'`', false).is_none() {
                        return Token::Unfinished;
                    }
                } else {
                    self.at = self.word_end(self.at);
                }
                if self.peek(0) != Some(b'.') {
                    return Token::SystemVariable(&self.text[begin..self.at]);
                }
                self.at += 1;
            }
        }
        self.at += 1;
        if let Some(quote @ (b'`' | b'\'' | b'"')) = self.peek(0) {
            self.at += 1;
            let name = self.quoted(quote, quote != b'`' && self.dialect.backslash_escapes);
            return name.map_or(Token::Unfinished, Token::UserVariable);
        }
        let begin = self.at;
        while self.peek(0).is_some_and(|byte| is_word_byte(byte) || byte == b'.') {
            self.at += 1;
        }
        Token::UserVariable(&self.text[begin..self.at])
    }

    fn number_token(&mut self) -> Token<'a> {
        let begin = self.at;
        // Digits, hexadecimal, decimal point and exponent; a name may also begin with a digit.
        let mut word = false;
        while let Some(byte) = self.peek(0) {
            if byte == b'.' && !word {
                self.at += 1;
            } else if is_word_byte(byte) {
                word |= !byte.is_ascii_digit();
                self.at += 1;
            } else {
                break;
            }
        }
        let body = &self.text[begin..self.at];
        if word && !is_number(body) { Token::Word(body) } else { Token::Number(body) }
    }
}

impl<'a> Iterator for Lexer<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        if !self.skip_blank() {
            self.start = self.at;
            return Some(Token::Unfinished);
        }
        self.start = self.at;
        let token = match self.peek(0)? {
            quote @ (b'\'' | b'"' | b'`') => self.string_token(quote),
            b'@' => self.variable_token(),
            b'0'..=b'9' => self.number_token(),
            byte if is_word_byte(byte) => {
                let end = self.word_end(self.at);
                let word = &self.text[self.at..end];
                self.at = end;
                Token::Word(word)
            }
            b':' if self.peek(1) == Some(b'=') => {
                self.at += 2;
                Token::Assign
            }
            symbol => {
                self.at += 1;
                Token::Symbol(symbol)
            }
        };
        Some(token)
    }
}

const fn is_word_byte(byte: u8) -> bool {
    IN_WORDS[byte as usize]
}

/// Letters, digits, `_`, `$` and everything beyond ASCII belong to names. A table, as each byte of a statement is
/// looked up.
static IN_WORDS: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < table.len() {
        let is_ascii = (byte as u8).is_ascii_alphanumeric() || byte == b'_' as usize;
        table[byte] = is_ascii || byte == b'$' as usize || byte >= 0x80;
        byte += 1;
    }
    table
};

fn is_number(body: &[u8]) -> bool {
    match body {
        [b'0', b'x' | b'X', digits @ ..] => digits.iter().all(u8::is_ascii_hexdigit),
        [b'0', b'b' | b'B', digits @ ..] => digits.iter().all(|byte| matches!(byte, b'0' | b'1')),
        _ => {
            let mantissa = body.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.');
            match &body[mantissa.count()..] {
                [] => true,
                [b'e' | b'E', exponent @ ..] => exponent.iter().all(u8::is_ascii_digit),
                _ => false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Token::{Assign, Number, Quoted, String, Symbol, SystemVariable, UserVariable, Word};

    fn check(text: &str, want: &[Token<'_>]) {
        let got: Vec<_> = Lexer::new(text.as_bytes(), Dialect::default()).collect();
        assert_eq!(got, want, "{text}");
    }

    #[test]
    fn words_strings_and_symbols() {
        check(
            "SELECT `a``b`, 'it''s \\' so' FROM t1 WHERE x>=0x1F -- done\n;",
            &[
                Word(b"SELECT"),
                Quoted(b"a``b"),
                Symbol(b','),
                String(b"it''s \\' so"),
                Word(b"FROM"),
                Word(b"t1"),
                Word(b"WHERE"),
                Word(b"x"),
                Symbol(b'>'),
                Symbol(b'='),
                Number(b"0x1F"),
                Symbol(b';'),
            ],
        );
        check("1.5e10 2nd", &[Number(b"1.5e10"), Word(b"2nd")]);
    }

    #[test]
    fn variables() {
        check(
            "SET @@session.sql_mode='', @a:=1, @`b c`=2, @@`x`=3",
            &[
                Word(b"SET"),
                SystemVariable(b"session.sql_mode"),
                Symbol(b'='),
                String(b""),
                Symbol(b','),
                UserVariable(b"a"),
                Assign,
                Number(b"1"),
                Symbol(b','),
                UserVariable(b"b c"),
                Symbol(b'='),
                Number(b"2"),
                Symbol(b','),
                SystemVariable(b"`x`"),
                Symbol(b'='),
                Number(b"3"),
            ],
        );
    }

    #[test]
    fn comments_hide_nothing_that_may_run() {
        check("/* GET_LOCK */ x", &[Word(b"x")]);
        check(
            "/*!50001 SET */ /*M!100100 @a */ x",
            &[Word(b"SET"), UserVariable(b"a"), Word(b"x")],
        );
        check("# one\n-- two\n--3", &[Symbol(b'-'), Symbol(b'-'), Number(b"3")]);
        let mut lexer = Lexer::new(b"/*! x */ y", Dialect::default());
        assert_eq!(lexer.by_ref().count(), 2);
        assert!(lexer.saw_executable_comment());
    }

    #[test]
    fn what_does_not_end_is_said_once() {
        for text in ["'abc", "`abc", "/* abc", "@`abc", "@@`abc", "'abc\\"] {
            check(text, &[Token::Unfinished]);
        }
    }

    #[test]
    fn without_backslash_escapes_a_backslash_is_a_letter() {
        let dialect = Dialect { backslash_escapes: false };
        let got: Vec<_> = Lexer::new(br"'a\' x", dialect).collect();
        assert_eq!(got, [String(br"a\"), Word(b"x")]);
    }

    #[test]
    fn spans_point_into_the_text() {
        let text = b"KILL  42";
        let mut lexer = Lexer::new(text, Dialect::default());
        lexer.next();
        lexer.next();
        let (start, end) = lexer.span();
        assert_eq!(&text[start..end], b"42");
    }

    #[test]
    fn deep_nesting_is_just_long() {
        let text = vec![b'('; 1 << 20];
        assert_eq!(Lexer::new(&text, Dialect::default()).count(), 1 << 20);
    }
}
