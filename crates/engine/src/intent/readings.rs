//! What texts were read as before: one that differs from such a text in plain literals alone is not read again.
//!
//! Clients send the same few texts over and over with other values in them, and nothing that is found in a text
//! depends on those. So a text is remembered as the pieces between its plain literals: digits, and strings in single
//! quotes that hold neither a quote nor a backslash. Another text with the same pieces, byte for byte, has the same
//! tokens. Whatever is not this plain stays part of a piece. A text is remembered the second time it is seen, so those
//! that never come again cost no memory. What others have found out of a text that is remembered is kept with it as a
//! note: pieces are compared, not hashes, so no text gets the note of another one.

use wire::lex::{Dialect, Token};
use wire::text::Text;

use super::digest::mix_all;
use super::reader::Intent;

/// Texts share a set by what stands before their first literal.
const SETS: usize = 256;
const WAYS: usize = 4;

/// Longer texts are rarely the same, and take longer to run than to read.
const TEXT_MAX: usize = 1024;

/// No more than this of a text tells its set.
const HEAD_MAX: usize = 64;

/// What was remembered of texts. Bounded: 1024 texts of up to 1 KiB, each with a note.
#[derive(Debug)]
pub struct Readings<N = ()> {
    sets: Box<[Set<N>]>,
}

#[derive(Debug)]
struct Set<N> {
    readings: [Option<Box<Reading<N>>>; WAYS],
    /// The head of the last text that was not among them.
    missed: u64,
    /// Which one goes next, unless it was of use since the last time.
    next: usize,
}

#[derive(Debug)]
struct Reading<N> {
    head: u64,
    dialect: Dialect,
    /// The pieces, one behind the other.
    text: Box<[u8]>,
    /// Where each piece but the last ends, and what stands behind it.
    ends: Box<[(usize, Literal)]>,
    intent: Intent,
    is_used: bool,
    note: Option<N>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Literal {
    Digits,
    String,
}

impl<N> Default for Readings<N> {
    fn default() -> Self {
        Self { sets: std::iter::repeat_with(Set::default).take(SETS).collect() }
    }
}

impl<N> Default for Set<N> {
    fn default() -> Self {
        Self { readings: [const { None }; WAYS], missed: 0, next: 0 }
    }
}

impl<N> Readings<N> {
    /// The same as [`Intent::read`].
    pub fn read(&mut self, text: Text<'_>) -> Intent {
        self.find(text, |known| known.intent, |new| new)
    }

    /// The same, and the note that is kept with the text, if it is remembered.
    pub fn read_noted(&mut self, text: Text<'_>) -> (Intent, Option<N>)
    where
        N: Clone + Default,
    {
        let note = |known: &mut Reading<N>| known.note.get_or_insert_default().clone();
        self.find(text, |known| (known.intent, Some(note(known))), |new| (new, None))
    }

    #[inline]
    fn find<T>(
        &mut self,
        text: Text<'_>,
        known: impl FnOnce(&mut Reading<N>) -> T,
        new: impl FnOnce(Intent) -> T,
    ) -> T {
        let head = head(text.bytes);
        let Some(set) = self.sets.get_mut(head as usize % SETS) else {
            return new(Intent::read(text));
        };
        for reading in set.readings.iter_mut().flatten() {
            if reading.head == head && reading.dialect == text.dialect && reading.fits(text.bytes) {
                reading.is_used = true;
                return known(reading);
            }
        }
        let intent = Intent::read(text);
        if std::mem::replace(&mut set.missed, head) == head
            && let Some(reading) = Reading::new(head, text, intent)
        {
            set.put(reading);
        }
        new(intent)
    }
}

impl<N> Set<N> {
    /// Takes the place of one that was of no use lately. If there is none, the others must be of use once more.
    fn put(&mut self, reading: Reading<N>) {
        for _ in 0..WAYS {
            let Some(place) = self.readings.get_mut(self.next) else { break };
            self.next = (self.next + 1) % WAYS;
            match place {
                Some(other) if other.is_used => other.is_used = false,
                _ => return *place = Some(Box::new(reading)),
            }
        }
    }
}

impl<N> Reading<N> {
    fn new(head: u64, text: Text<'_>, intent: Intent) -> Option<Self> {
        let (mut tokens, dialect, text) = (text.tokens(), text.dialect, text.bytes);
        // A SET is judged by its values as well.
        if text.len() > TEXT_MAX || intent.pin.is_some() || intent.sets.is_some() {
            return None;
        }
        let (mut pieces, mut ends, mut from) = (Vec::with_capacity(text.len()), Vec::new(), 0);
        while let Some(token) = tokens.next() {
            let (start, end) = tokens.span();
            let Some(literal) = plain(token, &text[start..end], text.get(end)) else { continue };
            pieces.extend_from_slice(&text[from..start]);
            ends.push((pieces.len(), literal));
            from = end;
        }
        if tokens.saw_executable_comment() {
            return None;
        }
        pieces.extend_from_slice(&text[from..]);
        let (text, ends) = (pieces.into(), ends.into());
        Some(Self { head, dialect, text, ends, intent, is_used: false, note: None })
    }

    /// Whether a text has the same pieces.
    fn fits(&self, text: &[u8]) -> bool {
        let (mut from, mut rest) = (0, text);
        for (end, literal) in &self.ends {
            let behind = self.text.get(from..*end).and_then(|piece| rest.strip_prefix(piece));
            let Some(behind) = behind.and_then(|it| literal.skip(it)) else { return false };
            (from, rest) = (*end, behind);
        }
        self.text.get(from..) == Some(rest)
    }
}

impl Literal {
    /// What stands behind such a literal, if the text begins with one.
    fn skip(self, text: &[u8]) -> Option<&[u8]> {
        match self {
            Self::Digits => {
                let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
                text.get(digits..).filter(|_| digits > 0)
            }
            Self::String => {
                let body = text.strip_prefix(b"'")?;
                let end = body.iter().position(|byte| matches!(byte, b'\'' | b'\\'))?;
                body.get(end..)?.strip_prefix(b"'")
            }
        }
    }
}

/// The plain literal that this token is, if what follows can neither go on with it nor begin with it.
fn plain(token: Token<'_>, written: &[u8], next: Option<&u8>) -> Option<Literal> {
    let literal = match token {
        Token::Number(_) => Literal::Digits,
        Token::String(_) => Literal::String,
        _ => return None,
    };
    let ends_here = matches!(next, None | Some(b' ' | b'\t' | b'\r' | b'\n' | b',' | b';' | b')'));
    (ends_here && literal.skip(written).is_some_and(<[u8]>::is_empty)).then_some(literal)
}

/// Tells apart what stands before the first literal.
fn head(text: &[u8]) -> u64 {
    let text = &text[..text.len().min(HEAD_MAX)];
    let hash = mix_all(1, &text[..first_literal(text)]);
    // The best bits of a product are its upper ones.
    hash ^ hash >> 32
}

/// Where the first quote stands, or the first digit that begins a number; or else the text's length.
fn first_literal(text: &[u8]) -> usize {
    let is_literal = |at: usize| match text[at] {
        b'\'' => true,
        _ => at == 0 || matches!(text[at - 1], b' ' | b'=' | b'(' | b','),
    };
    let (words, _) = text.as_chunks::<8>();
    for (number, word) in words.iter().enumerate() {
        let mut found = quotes_and_digits(u64::from_le_bytes(*word));
        while found != 0 {
            let at = number * 8 + (found.trailing_zeros() / 8) as usize;
            if is_literal(at) {
                return at;
            }
            found &= found - 1;
        }
    }
    let is_one = |at: &usize| matches!(text[*at], b'\'' | b'0'..=b'9') && is_literal(*at);
    (words.len() * 8..text.len()).find(is_one).unwrap_or(text.len())
}

/// The highest bit of each byte that is a quote or a digit. Seven bits of a byte are added to, so that no sum reaches
/// the next byte.
const fn quotes_and_digits(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = ONES * 0x80;
    let low = word & !HIGH;
    let is_no_quote = (low ^ (ONES * b'\'' as u64)) + (HIGH - ONES);
    let from_zero = low + ONES * (0x80 - b'0' as u64);
    let behind_nine = low + ONES * (0x80 - b'9' as u64 - 1);
    (!is_no_quote | (from_zero & !behind_nine)) & !word & HIGH
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::text::Lexed;

    fn remembered(texts: &[&str]) -> Readings {
        let mut readings = Readings::<()>::default();
        for text in texts {
            for _ in 0..2 {
                readings.read(Lexed::default().text(text.as_bytes(), Dialect::default()));
            }
        }
        readings
    }

    fn is_known(readings: &Readings, text: &str) -> bool {
        is_known_in(readings, text, Dialect::default())
    }

    fn is_known_in(readings: &Readings, text: &str, dialect: Dialect) -> bool {
        let text = text.as_bytes();
        let set = &readings.sets[head(text) as usize % SETS];
        set.readings.iter().flatten().any(|it| it.dialect == dialect && it.fits(text))
    }

    #[test]
    fn the_first_literal_is_found_at_each_place() {
        for before in 0..20 {
            let rest = "x1\u{e9}9".chars().cycle().take(before).collect::<String>();
            for (text, literal) in [("=1", 1), ("'", 0), (" 9'", 1), ("/ :;x\u{b0}1", 9)] {
                let text = format!("a{rest}{text}");
                let wanted = (1 + rest.len() + literal).min(text.len());
                assert_eq!(first_literal(text.as_bytes()), wanted, "{text}");
            }
        }
        for byte in 0..=u8::MAX {
            let is_one = byte == b'\'' || byte.is_ascii_digit();
            let found = if is_one { 0x8080_8080_8080_8080 } else { 0 };
            assert_eq!(quotes_and_digits(u64::from_le_bytes([byte; 8])), found, "{byte}");
        }
        assert_eq!(first_literal(b"1"), 0);
    }

    #[test]
    fn other_plain_literals_make_no_other_text() {
        let readings = remembered(&["SELECT c FROM t1 WHERE id=17 AND b IN ('x', 'y')"]);
        for text in [
            "SELECT c FROM t1 WHERE id=4711 AND b IN ('', 'a string; -- of any kind /*! 1')",
            "SELECT c FROM t1 WHERE id=0 AND b IN ('x', 'y')",
        ] {
            assert!(is_known(&readings, text), "{text}");
        }
        for text in [
            "SELECT c FROM t2 WHERE id=17 AND b IN ('x', 'y')",
            "SELECT c FROM t1 WHERE id=17 AND b IN ('x', 'y') ",
            "SELECT c FROM t1 WHERE id=17 AND b IN ('x', 'y'",
            "SELECT c FROM t1 WHERE id=1.7 AND b IN ('x', 'y')",
            "SELECT c FROM t1 WHERE id=1x AND b IN ('x', 'y')",
            "SELECT c FROM t1 WHERE id= AND b IN ('x', 'y')",
            "SELECT c FROM t1 WHERE id=17 AND b IN ('x''', 'y')",
            "SELECT c FROM t1 WHERE id=17 AND b IN ('\\'', 'y')",
            "SELECT c FROM t1 WHERE id=17 AND b IN ('x', \"y\")",
            "SELECT c FROM t1 WHERE id=17 AND b IN ('x', 'y') FOR UPDATE",
        ] {
            assert!(!is_known(&readings, text), "{text}");
        }
    }

    #[test]
    fn what_does_not_end_where_it_seems_to_is_no_plain_literal() {
        for (text, other) in [
            ("SELECT 1a FROM t", "SELECT 2a FROM t"),
            ("SELECT 1.5", "SELECT 2.5"),
            ("SELECT 0x1", "SELECT 0x2"),
            ("SELECT 1--1", "SELECT 2--1"),
            ("SELECT 'a'\"b\"", "SELECT 'c'\"b\""),
            ("SELECT 'a''b'", "SELECT 'c''b'"),
            ("SELECT 'a'AS b", "SELECT 'c'AS b"),
            ("SELECT a1 FROM t", "SELECT a2 FROM t"),
            ("SELECT /* 1 */ 1", "SELECT /* 2 */ 1"),
        ] {
            let readings = remembered(&[text]);
            assert!(is_known(&readings, text) && !is_known(&readings, other), "{text}");
        }
    }

    #[test]
    fn what_pins_or_sets_or_may_be_hidden_is_read_each_time() {
        for text in [
            "SET sql_mode='ANSI'",
            "SELECT @a",
            "SELECT GET_LOCK('a', 1)",
            "SELECT 1 /*!50000 + 1 */",
            "SET STATEMENT sql_mode='' FOR SELECT 1",
        ] {
            assert!(!is_known(&remembered(&[text]), text), "{text}");
        }
        let long = format!("SELECT {}", "1,".repeat(TEXT_MAX));
        assert!(!is_known(&remembered(&[&long]), &long));
    }

    #[test]
    fn a_text_is_remembered_when_it_comes_again() {
        let mut readings = Readings::<()>::default();
        readings.read(Lexed::default().text(b"SELECT 1", Dialect::default()));
        assert!(!is_known(&readings, "SELECT 1"));
        readings.read(Lexed::default().text(b"SELECT 2", Dialect::default()));
        assert!(is_known(&readings, "SELECT 1"));
        let other = Dialect { backslash_escapes: false, ..Dialect::default() };
        assert!(!is_known_in(&readings, "SELECT 1", other));
    }

    #[test]
    fn those_of_use_stay() {
        let text = |at: usize| format!("SELECT 1{}", " ".repeat(at));
        let texts: Vec<_> = (0..WAYS).map(text).collect();
        let mut readings = remembered(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        let mut read = |text: &str| {
            readings.read(Lexed::default().text(text.as_bytes(), Dialect::default()));
        };
        texts.iter().for_each(|text| read(text));
        read(&text(WAYS));
        read(&text(WAYS));
        texts[1..].iter().for_each(|text| read(text));
        read(&text(WAYS));
        let known = |at| is_known(&readings, &text(at));
        assert!((1..=WAYS).all(known) && !known(0), "the one of no use has made room");
    }

    #[test]
    fn it_is_read_as_it_would_be() {
        const PIECES: [&str; 40] = [
            "SELECT ",
            "INSERT INTO t VALUES (",
            "UPDATE t SET a=",
            " FROM ",
            "t1",
            " WHERE ",
            "id=",
            "1",
            "42",
            "'a'",
            "'it''s'",
            "'\\'",
            "\"b\"",
            "`c`",
            ", ",
            ")",
            "(",
            ";",
            " -- ",
            "\n",
            "/* 7 */",
            "/*! 8 */",
            "#",
            " LIMIT ",
            "LAST_INSERT_ID(",
            "@@warning_count",
            "SHOW WARNINGS",
            " UNION ",
            "0x1",
            "1.5",
            "e5",
            ".",
            "-",
            "*/",
            "a",
            "DELETE ",
            "NEXT VALUE FOR ",
            "COMMIT",
            "''",
            " ",
        ];
        let mut random = 1_u64;
        let mut below = |n: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random as usize % n
        };
        let mut readings = Readings::<()>::default();
        let mut known = 0;
        for _ in 0..60_000 {
            let chosen: Vec<_> = (0..1 + below(7)).map(|_| PIECES[below(PIECES.len())]).collect();
            let first = if below(2) == 0 { "SELECT " } else { "" };
            // The same text over and over, its literals changed in any way.
            for _ in 0..4 {
                let mut text = first.to_owned();
                for piece in &chosen {
                    match (*piece, below(3)) {
                        ("1" | "42", 0) => {
                            text.push_str(["7", "123456", "0", "9e", "0b", ""][below(6)])
                        }
                        ("'a'" | "''", 0) => {
                            text.push_str(
                                ["'b'", "'; SET @a=1'", "'\\'", "'''", "\"a\"", ""][below(6)],
                            );
                        }
                        _ => text.push_str(piece),
                    }
                }
                let dialect = Dialect { backslash_escapes: below(2) == 0, ..Dialect::default() };
                known += usize::from(is_known_in(&readings, &text, dialect));
                let lexed = Lexed::default();
                let of = lexed.text(text.as_bytes(), dialect);
                assert_eq!(readings.read(of), Intent::read(of), "{text}");
            }
        }
        assert!(known > 30_000, "{known}");
    }
}
