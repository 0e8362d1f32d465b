//! Splits a statement into tokens, as far as scheduling and sharing backends need: words, variables, strings, symbols.
//!
//! It is no parser: it keeps no tree, recurses nowhere and allocates nothing, so a statement of any size and
//! nesting costs one pass. It reads as MariaDB's and MySQL's own lexers do, by character set and mode ([`Dialect`]).
//!
//! Comments that a server may execute (`/*! … */`, `/*M! … */`) are read as if they stood in the open. Of some it depends
//! on the server and its version whether it does ([`Comments`]); if then something else but the comment would be read
//! otherwise, the text is *in doubt*. So is one whose letters, quotes or blanks depend on what is not known of its
//! session. A text that is in doubt ends there with [`Token::Unfinished`], so its reader treats it as one that cannot be
//! read; what stands before is the same in every reading.

use crate::charset::{Answer, Charset};

/// A piece of a statement. Slices are as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// A keyword or a bare name.
    Word(&'a [u8]),
    /// A name in back-ticks, without them; under `ANSI_QUOTES`, one in double quotes as well.
    Quoted(&'a [u8]),
    /// A string literal (or, where it is not known whether double quotes are for names, a name), without quotes, escapes
    /// not undone.
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
    /// A string, quoted name or comment that never ends, or what is in doubt.
    Unfinished,
}

impl Token<'_> {
    /// Compares a bare word without regard to case. `word` is in capitals.
    pub fn is_word(&self, word: &str) -> bool {
        matches!(self, Token::Word(bytes) if bytes.eq_ignore_ascii_case(word.as_bytes()))
    }
}

/// How the server reads a text of a session, as far as that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// False under `NO_BACKSLASH_ESCAPES`.
    pub backslash_escapes: bool,
    pub double_quotes: DoubleQuotes,
    /// Its client's, `character_set_client`.
    pub charset: Charset,
    pub comments: Comments,
}

impl Default for Dialect {
    fn default() -> Self {
        Self {
            backslash_escapes: true,
            double_quotes: DoubleQuotes::Strings,
            charset: Charset::Plain,
            comments: Comments::Open,
        }
    }
}

impl Dialect {
    /// As a number, to be written down for another process; zero is the usual one.
    pub const fn bits(self) -> u16 {
        let names = match self.double_quotes {
            DoubleQuotes::Strings => 0,
            DoubleQuotes::Names => 1,
            DoubleQuotes::Unknown => 2,
        };
        (self.charset as u16) << 4 | names << 1 | !self.backslash_escapes as u16
    }

    /// What another process has written down. What is not known here is in doubt.
    pub fn from_bits(bits: u16) -> Self {
        Self {
            backslash_escapes: bits & 1 == 0,
            double_quotes: match bits >> 1 & 3 {
                0 => DoubleQuotes::Strings,
                1 => DoubleQuotes::Names,
                _ => DoubleQuotes::Unknown,
            },
            charset: Charset::numbered(bits >> 4),
            comments: Comments::Open,
        }
    }
}

/// What stands in double quotes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DoubleQuotes {
    #[default]
    Strings,
    /// Under `ANSI_QUOTES`.
    Names,
    Unknown,
}

/// What becomes of comments of which it depends on the server whether it executes them: those of MariaDB's own, and those
/// with a version from 5.7 on, or one of six digits. All others are executed by every server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Comments {
    /// They are read as if they were executed.
    #[default]
    Open,
    /// They are skipped.
    Skipped,
}

/// Iterates over the tokens of a statement.
#[derive(Clone, Copy, Debug)]
pub struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    /// Start of the token that was returned last.
    start: usize,
    dialect: Dialect,
    words: &'static [bool; 256],
    in_executable_comment: bool,
    saw_executable_comment: bool,
    /// What begins here is a name whatever it begins with, as it stands behind a name and a dot.
    name_at: usize,
    is_in_doubt: bool,
    /// What the first comment began with of which it depends on the server whether it is executed.
    unsure: Option<&'a [u8]>,
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a [u8], dialect: Dialect) -> Self {
        Self {
            text,
            at: 0,
            start: 0,
            dialect,
            words: if dialect.charset.is_plain() { &IN_WORDS } else { words_of(dialect.charset) },
            in_executable_comment: false,
            saw_executable_comment: false,
            name_at: usize::MAX,
            is_in_doubt: false,
            unsure: None,
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

    /// Whether it depends on the server which of what was read so far is executed.
    pub const fn saw_unsure_comment(&self) -> bool {
        self.unsure.is_some()
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.at + ahead).copied()
    }

    /// Moves past white space and comments. False if a comment does not end, or what follows is in doubt.
    fn skip_blank(&mut self) -> bool {
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some(b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c), _) => self.at += 1,
                (Some(b'#'), _) => self.skip_line(),
                (Some(b'-'), Some(b'-')) if self.ends_dashes() => self.skip_line(),
                (Some(b'/'), Some(b'*')) => {
                    if !self.enter_comment() {
                        return false;
                    }
                }
                (Some(b'*'), Some(b'/')) if self.in_executable_comment => {
                    self.at += 2;
                    self.in_executable_comment = false;
                }
                (Some(byte @ 0x80..), _) if !self.words[usize::from(byte)] => {
                    match self.dialect.charset.is_blank(byte) {
                        Answer::Yes => self.at += 1,
                        Answer::No => return !self.is_in_doubt,
                        Answer::Unsure => return false,
                    }
                }
                _ => return !self.is_in_doubt,
            }
        }
    }

    /// `--` begins a comment only before white space, a control character or the end.
    fn ends_dashes(&mut self) -> bool {
        match self.peek(2) {
            None | Some(0..=b' ') => true,
            Some(byte @ 0x7f..) => match self.dialect.charset.ends_dashes(byte) {
                Answer::Yes => true,
                Answer::No => false,
                Answer::Unsure => {
                    self.is_in_doubt = true;
                    false
                }
            },
            Some(_) => false,
        }
    }

    fn skip_line(&mut self) {
        let rest = &self.text[self.at..];
        self.at += memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
    }

    /// Moves past the mark that begins a comment, or past all of it if none of it is executed. False if it does not
    /// end, or what follows is in doubt.
    fn enter_comment(&mut self) -> bool {
        let Some(comment) = self.executable_comment() else { return self.skip_comment() };
        if self.dialect.comments == Comments::Open {
            self.saw_executable_comment = true;
        }
        if comment.is_unsure {
            let mark = &self.text[self.at..comment.body];
            // Of two with different versions, a server may execute one; and what ends one within another differs.
            let is_other = self.unsure.is_some_and(|first| first != mark);
            if comment.is_odd || is_other || self.in_executable_comment {
                return false;
            }
            self.unsure = Some(mark);
            let Some(end) = self.end_of_skipped() else { return false };
            if self.dialect.comments == Comments::Skipped {
                self.at = end;
                return true;
            }
            if !self.is_in_step(comment.body, end) {
                return false;
            }
        }
        self.at = comment.body;
        self.in_executable_comment = true;
        true
    }

    /// Whether a comment ends in the same place if it is executed from `body` on as if it is skipped.
    fn is_in_step(&self, body: usize, end: usize) -> bool {
        let mut inside = Self { at: body, in_executable_comment: true, ..*self };
        loop {
            if !inside.skip_to_end_of_comment() {
                return false;
            }
            if !inside.in_executable_comment {
                return inside.at == end;
            }
            if inside.at >= end || matches!(inside.next(), None | Some(Token::Unfinished)) {
                return false;
            }
        }
    }

    /// Moves past white space and comments, and no further than the end of the comment that is executed. False if a
    /// comment does not end.
    fn skip_to_end_of_comment(&mut self) -> bool {
        loop {
            let from = self.at;
            if self.peek(0) == Some(b'*') && self.peek(1) == Some(b'/') {
                self.at += 2;
                self.in_executable_comment = false;
                return true;
            }
            match self.peek(0) {
                Some(b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c) => self.at += 1,
                Some(b'#') => self.skip_line(),
                Some(b'-') if self.peek(1) == Some(b'-') && self.ends_dashes() => self.skip_line(),
                Some(b'/') if self.peek(1) == Some(b'*') => {
                    let is_skipped = self.executable_comment().is_none() && self.skip_comment();
                    if !is_skipped {
                        return false;
                    }
                }
                Some(byte @ 0x80..) if self.dialect.charset.is_blank(byte) == Answer::Yes => {
                    self.at += 1
                }
                _ => {}
            }
            if self.at == from {
                return !self.is_in_doubt;
            }
        }
    }

    fn skip_comment(&mut self) -> bool {
        let rest = &self.text[self.at + 2..];
        let Some(end) = memchr::memmem::find(rest, b"*/") else {
            self.at = self.text.len();
            return false;
        };
        // MySQL reads quoted names in hints for its optimizer, and may end these elsewhere.
        if rest.first() == Some(&b'+')
            && rest[..end].iter().any(|byte| matches!(byte, b'"' | b'`' | b'\''))
        {
            let quotes = |quote: u8| memchr::memchr_iter(quote, &rest[..end]).count();
            if [b'"', b'`', b'\''].into_iter().any(|quote| !quotes(quote).is_multiple_of(2)) {
                return false;
            }
        }
        self.at += 2 + end + 2;
        true
    }

    /// Where a comment ends that is skipped although it might be executed: it may have others within. `None`: it does
    /// not end.
    fn end_of_skipped(&self) -> Option<usize> {
        let mut at = self.at + 2;
        loop {
            let rest = self.text.get(at..)?;
            let found = memchr::memchr2_iter(b'*', b'/', rest)
                .find(|place| matches!(rest.get(*place..*place + 2), Some(b"*/" | b"/*")))?;
            if rest[found] == b'*' {
                return Some(at + found + 2);
            }
            at += found + 2;
            at += memchr::memmem::find(self.text.get(at..)?, b"*/")? + 2;
        }
    }

    /// The comment that begins here, if a server may execute it.
    fn executable_comment(&self) -> Option<Executable> {
        let (mark, is_own) = match (self.peek(2), self.peek(3)) {
            (Some(b'!'), _) => (3, false),
            // What only MariaDB executes, if the letter is a capital.
            (Some(b'M'), Some(b'!')) => (4, true),
            _ => return None,
        };
        let begin = self.at + mark;
        let rest = &self.text[begin..];
        let digits = rest.iter().take(7).take_while(|byte| byte.is_ascii_digit()).count();
        if digits < 5 {
            return Some(Executable { body: begin, is_unsure: is_own, is_odd: false });
        }
        // No server is so old that it skips one of before 5.7.
        let is_old = digits == 5 && &rest[..5] < b"50700";
        // MySQL takes a sixth digit for part of the version only before a blank.
        let glued = rest.get(6).is_some_and(|byte| !matches!(byte, b' ' | b'\t'..=b'\r' | b'*'));
        Some(Executable {
            body: begin + digits.min(6),
            is_unsure: is_own || !is_old,
            is_odd: digits >= 6 && glued,
        })
    }

    fn word_end(&self, from: usize) -> usize {
        let rest = &self.text[from..];
        from + rest.iter().position(|byte| !self.words[usize::from(*byte)]).unwrap_or(rest.len())
    }

    /// The same for a name, which may have letters of several bytes.
    fn name_end(&mut self, from: usize) -> usize {
        let end = match self.dialect.charset.hides_quotes() {
            true => self.letters_end(from),
            false => self.word_end(from),
        };
        if self.text.get(end) == Some(&b'.') {
            self.name_at = end + 1;
        }
        end
    }

    /// Where a name ends that may have letters whose second byte is that of a backslash or of a back-tick.
    fn letters_end(&mut self, from: usize) -> usize {
        let mut at = from;
        while let Some(byte) = self.text.get(at)
            && self.words[usize::from(*byte)]
        {
            at += self.letter(at);
        }
        at.min(self.text.len())
    }

    /// How long the letter is that stands here. Of a set that is not known, one may hide a quote.
    fn letter(&mut self, at: usize) -> usize {
        let rest = &self.text[at..];
        if self.dialect.charset == Charset::Unknown {
            self.is_in_doubt |= matches!(rest, [letter, b'\\' | b'`', ..] if *letter >= 0x80);
            return 1;
        }
        self.dialect.charset.letter(rest)
    }

    /// Reads up to the closing `quote`; `self.at` stands after the opening one.
    fn quoted(&mut self, quote: u8, escapes: bool) -> Option<&'a [u8]> {
        if self.dialect.charset.hides_quotes() {
            return self.quoted_letters(quote, escapes);
        }
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

    /// The same where letters of several bytes may hide a quote or a backslash.
    fn quoted_letters(&mut self, quote: u8, escapes: bool) -> Option<&'a [u8]> {
        let begin = self.at;
        while let Some(byte) = self.peek(0) {
            if byte >= 0x80 {
                self.at += self.letter(self.at);
            } else if byte == b'\\' && escapes {
                self.at += 2;
            } else if byte != quote {
                self.at += 1;
            } else if self.peek(1) == Some(quote) {
                self.at += 2;
            } else {
                let body = &self.text[begin..self.at];
                self.at += 1;
                return Some(body);
            }
        }
        self.at = self.text.len();
        None
    }

    fn string_token(&mut self, quote: u8) -> Token<'a> {
        self.at += 1;
        let escapes = self.dialect.backslash_escapes;
        match (quote, self.dialect.double_quotes) {
            (b'`', _) | (b'"', DoubleQuotes::Names) => {
                self.quoted(quote, false).map_or(Token::Unfinished, Token::Quoted)
            }
            (b'"', DoubleQuotes::Unknown) => {
                let body = self.quoted(quote, escapes);
                // In a name, a backslash is a letter.
                self.is_in_doubt |= escapes && body.is_some_and(|body| body.contains(&b'\\'));
                body.map_or(Token::Unfinished, Token::String)
            }
            _ => self.quoted(quote, escapes).map_or(Token::Unfinished, Token::String),
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
                if !self.pass_dot(begin) {
                    return Token::SystemVariable(&self.text[begin..self.at]);
                }
            }
        }
        self.at += 1;
        if matches!(self.peek(0), Some(b'`' | b'\'' | b'"')) {
            let quote = self.text[self.at];
            return match self.string_token(quote) {
                Token::Quoted(name) | Token::String(name) => Token::UserVariable(name),
                _ => Token::Unfinished,
            };
        }
        let begin = self.at;
        while self.peek(0).is_some_and(|byte| self.words[usize::from(byte)] || byte == b'.') {
            self.at += 1;
        }
        Token::UserVariable(&self.text[begin..self.at])
    }

    /// Moves past the dot in the name of a system variable; between its parts there may be blanks and comments.
    fn pass_dot(&mut self, begin: usize) -> bool {
        if self.peek(0) != Some(b'.') && (self.at == begin || !self.may_go_on()) {
            return false;
        }
        let mut ahead = *self;
        if !ahead.skip_blank() || ahead.peek(0) != Some(b'.') {
            return false;
        }
        ahead.at += 1;
        let behind_dot = ahead;
        if !ahead.skip_blank() {
            return false;
        }
        // What follows no name is not part of it.
        let is_name = |byte: u8| byte == b'`' || self.words[usize::from(byte)];
        *self = if ahead.peek(0).is_some_and(is_name) { ahead } else { behind_dot };
        true
    }

    /// Whether a blank or a comment stands here.
    fn may_go_on(&self) -> bool {
        self.peek(0).is_some_and(|byte| {
            matches!(byte, b' ' | b'\t'..=b'\r' | b'#' | b'/' | b'*' | b'-')
                || byte >= 0x80 && !self.words[usize::from(byte)]
        })
    }

    /// A number, or a name that begins with a digit.
    fn number_token(&mut self) -> Token<'a> {
        let begin = self.at;
        let is_number = self.at != self.name_at && self.pass_number();
        if !is_number {
            self.at = self.name_end(begin);
        }
        let body = &self.text[begin..self.at];
        if is_number { Token::Number(body) } else { Token::Word(body) }
    }

    /// Moves past a number, behind which a word may stand directly (`1e0from`). False if it is the beginning of a name.
    fn pass_number(&mut self) -> bool {
        if self.peek(0) == Some(b'0')
            && let Some(letter @ (b'x' | b'b')) = self.peek(1)
        {
            let begin = self.at + 2;
            let is_digit = |byte: &u8| match letter {
                b'x' => byte.is_ascii_hexdigit(),
                _ => matches!(byte, b'0' | b'1'),
            };
            self.at = begin + self.text[begin..].iter().take_while(|byte| is_digit(byte)).count();
            return self.at > begin && !self.is_word_at(0);
        }
        self.pass_digits();
        if self.is_word_at(0) {
            return self.pass_exponent();
        }
        if self.peek(0) == Some(b'.') && self.peek(1) != Some(b'.') {
            self.at += 1;
            self.pass_fraction();
        }
        true
    }

    /// Moves past what stands behind the point of a number.
    fn pass_fraction(&mut self) {
        self.pass_digits();
        self.pass_exponent();
    }

    fn pass_digits(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    }

    /// Moves past an exponent, if there is one.
    fn pass_exponent(&mut self) -> bool {
        let sign = usize::from(matches!(self.peek(1), Some(b'+' | b'-')));
        let is_one = matches!(self.peek(0), Some(b'e' | b'E'))
            && self.peek(1 + sign).is_some_and(|byte| byte.is_ascii_digit());
        if is_one {
            self.at += 1 + sign;
            self.pass_digits();
        }
        is_one
    }

    fn is_word_at(&self, ahead: usize) -> bool {
        self.peek(ahead).is_some_and(|byte| self.words[usize::from(byte)])
    }

    fn word_token(&mut self) -> Token<'a> {
        let begin = self.at;
        self.at = self.name_end(begin);
        let word = &self.text[begin..self.at];
        // MySQL reads what stands between two such words as one string.
        self.is_in_doubt |= word[0] == b'$' && word[1..].contains(&b'$');
        Token::Word(word)
    }

    /// Nothing more is read.
    #[cold]
    fn end_in_doubt(&mut self) -> Token<'a> {
        // Behind what is in doubt, no mark of it stays: else there would be no end.
        self.is_in_doubt = false;
        self.in_executable_comment = false;
        self.start = self.start.max(self.at.min(self.text.len()));
        self.at = self.text.len();
        Token::Unfinished
    }

    fn symbol_token(&mut self, symbol: u8) -> Token<'a> {
        match (symbol, self.peek(1)) {
            (b':', Some(b'=')) => {
                self.at += 2;
                Token::Assign
            }
            (b'.', Some(b'0'..=b'9')) if self.at + 1 != self.name_at => {
                let begin = self.at;
                self.at += 1;
                self.pass_fraction();
                Token::Number(&self.text[begin..self.at])
            }
            // MariaDB's `NULL`, which needs no blank behind it.
            (b'\\', Some(b'N')) => {
                self.at += 2;
                Token::Word(&self.text[self.at - 2..self.at])
            }
            _ => {
                self.at += 1;
                Token::Symbol(symbol)
            }
        }
    }
}

impl<'a> Iterator for Lexer<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        if !self.skip_blank() {
            return Some(self.end_in_doubt());
        }
        self.start = self.at;
        let token = match self.peek(0)? {
            quote @ (b'\'' | b'"' | b'`') => self.string_token(quote),
            b'@' => self.variable_token(),
            b'0'..=b'9' => self.number_token(),
            byte if self.words[usize::from(byte)] => self.word_token(),
            symbol => self.symbol_token(symbol),
        };
        Some(if self.is_in_doubt { self.end_in_doubt() } else { token })
    }
}

/// A comment that a server may execute.
struct Executable {
    /// Where that begins.
    body: usize,
    /// It depends on the server.
    is_unsure: bool,
    /// Where its version ends depends on the server, too.
    is_odd: bool,
}

/// The scope and the name of a system variable as it is written behind `@@`; without back-ticks.
pub fn scope_and_name(written: &[u8]) -> (&[u8], &[u8]) {
    let end = written.iter().position(|byte| !IN_WORDS[usize::from(*byte)]);
    let (scope, rest) = match end {
        None => return (b"", written),
        Some(0) => {
            let Some(len) = written.iter().skip(1).position(|byte| *byte == b'`') else {
                return (b"", written);
            };
            (&written[1..=len], written.get(len + 2..).unwrap_or_default())
        }
        Some(end) => written.split_at(end),
    };
    if rest.is_empty() {
        return (b"", scope);
    }
    let body = rest.strip_suffix(b"`").unwrap_or(rest);
    let is_quoted = body.len() < rest.len();
    let is_part = |byte: &u8| if is_quoted { *byte != b'`' } else { IN_WORDS[usize::from(*byte)] };
    let begin = body.iter().rposition(|byte| !is_part(byte)).map_or(0, |at| at + 1);
    // What has three parts is no variable that a session could have.
    let names = rest.iter().filter(|byte| **byte == b'.').count();
    let has_comment = rest.iter().any(|byte| matches!(byte, b'*' | b'#' | b'-'));
    if names > 1 && !has_comment { (scope, rest) } else { (scope, &body[begin..]) }
}

/// Letters, digits, `_`, `$` and everything beyond ASCII belong to names. A table, as each byte of a statement is
/// looked up.
static IN_WORDS: [bool; 256] = words_but(&[]);
static IN_WORDS_BUT_A0: [bool; 256] = words_but(&[0xa0]);
static IN_WORDS_BUT_FF: [bool; 256] = words_but(&[0xff]);
static IN_WORDS_BUT_BOTH: [bool; 256] = words_but(&[0xa0, 0xff]);

/// The same where some of those are blanks.
fn words_of(charset: Charset) -> &'static [bool; 256] {
    match (charset.is_blank(0xa0) != Answer::No, charset.is_blank(0xff) != Answer::No) {
        (false, false) => &IN_WORDS,
        (true, false) => &IN_WORDS_BUT_A0,
        (false, true) => &IN_WORDS_BUT_FF,
        (true, true) => &IN_WORDS_BUT_BOTH,
    }
}

const fn words_but(blanks: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < table.len() {
        let is_ascii = (byte as u8).is_ascii_alphanumeric() || byte == b'_' as usize;
        table[byte] = is_ascii || byte == b'$' as usize || byte >= 0x80;
        byte += 1;
    }
    let mut at = 0;
    while at < blanks.len() {
        table[blanks[at] as usize] = false;
        at += 1;
    }
    table
}

#[cfg(test)]
mod tests;
