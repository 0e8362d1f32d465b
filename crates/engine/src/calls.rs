//! Calls of functions without arguments, and variables of the session, replaced in a statement's text by what they
//! would return.
//!
//! The server names a column by its text. So where a call stands in an item of a select list that has no name of its
//! own, the item gets one: what its text was.

use wire::lex::Token;
use wire::text::{Text, Tokens};

/// Where a call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallPlace {
    /// It is a whole item of a list.
    Item,
    /// It is part of an item, which keeps its name.
    Part,
    /// It is part of an item that would be named otherwise.
    Within,
    /// It is in no select list.
    Outside,
}

/// The text with each call `name()`, and each `@@name`, replaced for which there is a value; `None` if there is none.
pub fn replace(
    text: Text<'_>,
    mut value: impl FnMut(&[u8], CallPlace) -> Option<String>,
) -> Option<Vec<u8>> {
    replace_at(text, |name, place, _| value(name, place))
}

/// The same, where it matters at which byte of the text a call begins.
pub fn replace_at(
    text: Text<'_>,
    mut value: impl FnMut(&[u8], CallPlace, usize) -> Option<String>,
) -> Option<Vec<u8>> {
    let (parts, text) = (Parts { text: text.bytes, tokens: text.tokens() }, text.bytes);
    let mut items = parts.items();
    // Those that begin first, and of those the outermost one, come first.
    items.sort_by_key(|item| (item.first, std::cmp::Reverse(item.last)));
    let mut edits = Vec::new();
    let (mut around, mut next) = (Vec::new(), 0);
    for at in 0..parts.tokens.len() {
        while items.get(next).is_some_and(|item| item.first <= at) {
            around.push(next);
            next += 1;
        }
        while around.last().is_some_and(|item: &usize| items[*item].last < at) {
            around.pop();
        }
        let Some((name, end)) = parts.call(at) else { continue };
        let mut place = CallPlace::Outside;
        for item in around.iter().rev().take(DEPTH_MAX).map(|at| &items[*at]) {
            let is_whole = item.first == at && item.last_of_value() == end;
            place = match (place, item.naming) {
                (_, Naming::Unclear) => CallPlace::Within,
                (CallPlace::Outside, _) if is_whole => CallPlace::Item,
                _ => CallPlace::Part,
            };
            if place == CallPlace::Within {
                break;
            }
        }
        let (start, end) = parts.span(at, end);
        let Some(value) = value(name, place, start) else { continue };
        edits.push((start, end, value));
        around.iter().rev().take(DEPTH_MAX).for_each(|at| items[*at].is_changed = true);
    }
    if edits.is_empty() {
        return None;
    }
    for item in items.iter().rev().filter(|it| it.is_changed && it.naming == Naming::None) {
        let (start, end) = parts.span(item.first, item.last);
        edits.push((end, end, name(&text[start..end])?));
    }
    // What names an item comes behind what changes it, and an inner item's name before an outer one's.
    edits.sort_by_key(|(start, end, _)| (*start, *end));
    let mut out = Vec::with_capacity(text.len() + 64);
    let mut copied = 0;
    for (start, end, value) in edits {
        out.extend_from_slice(&text[copied..start]);
        out.extend_from_slice(value.as_bytes());
        copied = end;
    }
    out.extend_from_slice(&text[copied..]);
    Some(out)
}

/// Of items that are nested deeper than this, some are too long for a name.
const DEPTH_MAX: usize = 64;

/// Longer texts are no names.
const NAME_MAX: usize = 128;

/// A comment in a text may hold a back-tick, which would end the name.
fn name(text: &[u8]) -> Option<String> {
    Some(format!(" AS `{}`", std::str::from_utf8(text).ok()?.replace('`', "``")))
}

/// A text and its tokens, which are looked at back and forth.
struct Parts<'a> {
    text: &'a [u8],
    tokens: Tokens<'a>,
}

/// What an item of a select list is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Naming {
    /// By its text.
    None,
    Explicit,
    /// It cannot be told without a parser, or the name would not be the text.
    Unclear,
}

/// Tokens of an item: from the first to the last.
struct Item {
    first: usize,
    last: usize,
    naming: Naming,
    has_as: bool,
    is_changed: bool,
}

impl Item {
    /// The last token that is not part of a name that is given.
    const fn last_of_value(&self) -> usize {
        if self.has_as { self.last - 2 } else { self.last }
    }
}

impl<'a> Parts<'a> {
    fn token(&self, at: usize) -> Option<Token<'a>> {
        self.tokens.token(at)
    }

    /// From the beginning of a token to the end of another one.
    fn span(&self, first: usize, last: usize) -> (usize, usize) {
        let start = self.tokens.span_of(first).map_or(self.text.len(), |(start, _)| start);
        let end = self.tokens.span_of(last).map_or(self.text.len(), |(_, end)| end);
        (start, end)
    }

    fn written(&self, first: usize, last: usize) -> &'a [u8] {
        let (start, end) = self.span(first, last);
        self.text.get(start..end).unwrap_or_default()
    }

    /// The name of the call that begins here, and its last token.
    fn call(&self, at: usize) -> Option<(&'a [u8], usize)> {
        let written = self.written(at, at);
        let name = match self.token(at)? {
            Token::Word(name) => name,
            // With its signs, so that it is not taken for a function; and one in quotes with those.
            Token::SystemVariable(_) => return Some((written, at)),
            Token::Quoted(_) => written,
            _ => return None,
        };
        let is_qualified = at > 0 && self.token(at - 1) == Some(Token::Symbol(b'.'));
        let is_call = self.token(at + 1) == Some(Token::Symbol(b'('))
            && self.token(at + 2) == Some(Token::Symbol(b')'));
        (is_call && !is_qualified).then_some((name, at + 2))
    }

    /// The items of all select lists, outer ones behind inner ones.
    fn items(&self) -> Vec<Item> {
        let mut items = Vec::new();
        // Where the list of each open parenthesis has its current item; none outside of lists.
        let mut open: Vec<Option<usize>> = vec![None];
        for (at, token) in self.tokens.enumerate() {
            match token {
                Token::Symbol(b'(') => open.push(None),
                Token::Symbol(b')') => {
                    let first = if open.len() > 1 { open.pop().flatten() } else { open[0].take() };
                    self.end_item(&mut items, first, at);
                }
                Token::Symbol(b',') => {
                    let list = open.last_mut().expect("the outermost one stays");
                    if let Some(first) = list.take() {
                        self.end_item(&mut items, Some(first), at);
                        *list = Some(at + 1);
                    }
                }
                token if token.is_word("SELECT") => {
                    *open.last_mut().expect("the outermost one stays") = Some(at + 1);
                }
                token if ends_list(token) => {
                    let first = open.last_mut().expect("the outermost one stays").take();
                    self.end_item(&mut items, first, at);
                }
                _ => {}
            }
        }
        for first in open.into_iter().rev() {
            self.end_item(&mut items, first, self.tokens.len());
        }
        items
    }

    fn end_item(&self, items: &mut Vec<Item>, first: Option<usize>, end: usize) {
        let Some(mut first) = first else { return };
        while first < end && self.token(first).is_some_and(is_option) {
            first += 1;
        }
        if first < end {
            let last = end - 1;
            let has_as =
                last >= first + 2 && self.token(last - 1).is_some_and(|it| it.is_word("AS"));
            let naming = if has_as { Naming::Explicit } else { self.naming(first, last) };
            items.push(Item { first, last, naming, has_as, is_changed: false });
        }
    }

    fn naming(&self, first: usize, last: usize) -> Naming {
        let begin = first.checked_sub(1).map_or(0, |before| self.span(before, before).1);
        // Behind a comma, a comment before an item is part of its name, or not: that goes by the server.
        let is_behind_comma =
            first.checked_sub(1).and_then(|at| self.token(at)) == Some(Token::Symbol(b','));
        let gap = &self.text[begin..self.span(first, first).0];
        let text = self.written(first, last);
        let is_plain = text.len() <= NAME_MAX
            && (!is_behind_comma || gap.iter().all(u8::is_ascii_whitespace))
            && text.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace())
            && !self.tokens.saw_executable_comment();
        if !is_plain {
            return Naming::Unclear;
        }
        let before = if last > first { self.token(last - 1) } else { None };
        let Some(last) = self.token(last) else { return Naming::Unclear };
        match (before, last) {
            (None, _)
            | (_, Token::Number(_) | Token::SystemVariable(_) | Token::Symbol(b')' | b'*')) => {
                Naming::None
            }
            (Some(Token::Symbol(b')')), Token::Quoted(_) | Token::String(_)) => Naming::Explicit,
            (Some(Token::Symbol(before)), Token::Word(_) | Token::Quoted(_) | Token::String(_))
                if before != b')' =>
            {
                Naming::None
            }
            _ => Naming::Unclear,
        }
    }
}

fn ends_list(token: Token<'_>) -> bool {
    const WORDS: [&str; 11] = [
        "FROM",
        "INTO",
        "WHERE",
        "LIMIT",
        "UNION",
        "EXCEPT",
        "INTERSECT",
        "ORDER",
        "GROUP",
        "HAVING",
        "PROCEDURE",
    ];
    token == Token::Symbol(b';') || WORDS.iter().any(|word| token.is_word(word))
}

/// What may stand between `SELECT` and its first item.
fn is_option(token: Token<'_>) -> bool {
    const WORDS: [&str; 9] = [
        "ALL",
        "DISTINCT",
        "DISTINCTROW",
        "HIGH_PRIORITY",
        "STRAIGHT_JOIN",
        "SQL_SMALL_RESULT",
        "SQL_BIG_RESULT",
        "SQL_BUFFER_RESULT",
        "SQL_NO_CACHE",
    ];
    WORDS.iter().any(|word| token.is_word(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::lex::Dialect;
    use wire::text::Lexed;

    fn replaced(text: &str) -> Option<String> {
        let mut places = Vec::new();
        let lexed = Lexed::default();
        let out = replace(lexed.text(text.as_bytes(), Dialect::default()), |name, place| {
            places.push(place);
            (name == b"F" && !matches!(place, CallPlace::Within | CallPlace::Outside))
                .then(|| "7".to_owned())
        });
        out.map(|out| String::from_utf8(out).unwrap())
    }

    #[test]
    fn columns_keep_their_names() {
        for (text, expected) in [
            ("SELECT F()", "SELECT 7 AS `F()`"),
            ("SELECT DISTINCT F( ) , 1", "SELECT DISTINCT 7 AS `F( )` , 1"),
            ("SELECT F()+1 FROM t", "SELECT 7+1 AS `F()+1` FROM t"),
            ("SELECT a, -F() * F() FROM t", "SELECT a, -7 * 7 AS `-F() * F()` FROM t"),
            ("SELECT F() + `a`;", "SELECT 7 + `a` AS `F() + ``a```;"),
            (
                "SELECT IF(F() > 0, 'b', F()), 2",
                "SELECT IF(7 > 0, 'b', 7) AS `IF(F() > 0, 'b', F())`, 2",
            ),
            ("SELECT F() AS x, F() 'y'", "SELECT 7 AS x, 7 'y'"),
            ("SELECT (SELECT F())", "SELECT (SELECT 7 AS `F()`) AS `(SELECT F())`"),
            ("SELECT * FROM (SELECT F() FROM t) t", "SELECT * FROM (SELECT 7 AS `F()` FROM t) t"),
            ("SELECT F(/*`*/)", "SELECT 7 AS `F(/*``*/)`"),
            ("SELECT /* c */ F()", "SELECT /* c */ 7 AS `F()`"),
            ("SELECT -- c\n F(), 1", "SELECT -- c\n 7 AS `F()`, 1"),
            ("SELECT ALL /* c */ F() + 1", "SELECT ALL /* c */ 7 + 1 AS `F() + 1`"),
            (
                "SELECT (SELECT /* c */ F())",
                "SELECT (SELECT /* c */ 7 AS `F()`) AS `(SELECT /* c */ F())`",
            ),
        ] {
            assert_eq!(replaced(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_could_be_named_otherwise_is_left_alone() {
        for text in [
            "SELECT 1 FROM t WHERE a = F()",
            "SELECT F() x",
            "SELECT 1, /* c */ F()",
            "SELECT F() /*! + 1 */",
            "SELECT CASE 1 WHEN 2 THEN F() END",
            "SELECT F() + INTERVAL 1 DAY",
            "SELECT F() IS NULL",
            "SELECT 'ä', (F() = 'ä')",
            "INSERT INTO t VALUES (1, F(), 2)",
            "SELECT db.F()",
            "SELECT 'F()'",
        ] {
            assert_eq!(replaced(text), None, "{text}");
        }
        let long = format!("SELECT F(){}", "+ 1".repeat(60));
        assert_eq!(replaced(&long), None);
    }
}
