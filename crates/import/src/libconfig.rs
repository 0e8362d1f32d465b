//! Reads libconfig's grammar, in which ProxySQL's configuration file is written.
//!
//! Owns the syntax alone. Invariants: depth is bounded; what is read takes memory in proportion to the text. Files that
//! `@include` names are not read but told.

use crate::syntax::SyntaxError;

/// A value with the line in which it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) line: u32,
    pub(crate) kind: NodeKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NodeKind {
    /// A string, or a number or a truth value as it is written, without a suffix.
    Scalar(String),
    Group(Vec<(String, Node)>),
    /// A list or an array.
    List(Vec<Node>),
}

/// What a file says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Parsed {
    pub(crate) settings: Vec<(String, Node)>,
    /// Lines and names of `@include`.
    pub(crate) includes: Vec<(u32, String)>,
}

/// Reads a whole file.
pub(crate) fn parse(text: &str) -> Result<Parsed, SyntaxError> {
    let mut parser = Parser { rest: text, line: 1, includes: Vec::new() };
    let settings = parser.settings(None, DEPTH_MAX)?;
    Ok(Parsed { settings, includes: parser.includes })
}

/// Groups and lists within each other.
const DEPTH_MAX: u32 = 32;

struct Parser<'a> {
    rest: &'a str,
    line: u32,
    includes: Vec<(u32, String)>,
}

impl<'a> Parser<'a> {
    fn fail<T>(&self, why: impl Into<String>) -> Result<T, SyntaxError> {
        Err(SyntaxError { line: self.line, why: why.into() })
    }

    /// Goes so many bytes on.
    fn advance(&mut self, bytes: usize) -> &'a str {
        let (read, rest) = self.rest.split_at(bytes);
        self.line += u32::try_from(read.matches('\n').count()).unwrap_or(u32::MAX);
        self.rest = rest;
        read
    }

    /// Passes blanks and comments.
    fn skip(&mut self) -> Result<(), SyntaxError> {
        loop {
            let blanks = self.rest.len() - self.rest.trim_start().len();
            self.advance(blanks);
            if self.rest.starts_with('#') || self.rest.starts_with("//") {
                let end = self.rest.find('\n').unwrap_or(self.rest.len());
                self.advance(end);
            } else if self.rest.starts_with("/*") {
                match self.rest.find("*/") {
                    Some(end) => self.advance(end + 2),
                    None => return self.fail("a comment begins here and does not end"),
                };
            } else if self.rest.starts_with("@include") {
                self.include()?;
            } else {
                return Ok(());
            }
        }
    }

    fn include(&mut self) -> Result<(), SyntaxError> {
        let line = self.line;
        self.advance("@include".len());
        let blanks = self.rest.len() - self.rest.trim_start_matches([' ', '\t']).len();
        self.advance(blanks);
        if !self.rest.starts_with('"') {
            return self.fail("a file's name in quotes is missing behind @include");
        }
        let name = self.string()?;
        self.includes.push((line, name));
        Ok(())
    }

    /// Passes a character if it comes next.
    fn eat(&mut self, wanted: char) -> bool {
        let is_next = self.rest.starts_with(wanted);
        if is_next {
            self.advance(wanted.len_utf8());
        }
        is_next
    }

    /// Settings up to this bracket, or up to the end.
    fn settings(
        &mut self,
        close: Option<char>,
        depth: u32,
    ) -> Result<Vec<(String, Node)>, SyntaxError> {
        let mut settings = Vec::new();
        loop {
            self.skip()?;
            match close {
                Some(close) if self.eat(close) => return Ok(settings),
                None if self.rest.is_empty() => return Ok(settings),
                Some(close) if self.rest.is_empty() => {
                    return self.fail(format!("the file ends, and a {close:?} is missing"));
                }
                _ => {}
            }
            let name = self.name()?;
            self.skip()?;
            if !self.eat('=') && !self.eat(':') {
                return self.fail(format!("a '=' is missing behind {name:?}"));
            }
            let value = self.value(depth)?;
            settings.push((name, value));
            self.skip()?;
            // Either separates settings, and neither must.
            let _ = self.eat(';') || self.eat(',');
        }
    }

    fn name(&mut self) -> Result<String, SyntaxError> {
        let fits = |letter: char| letter.is_ascii_alphanumeric() || "_-*".contains(letter);
        let end = self.rest.find(|letter| !fits(letter)).unwrap_or(self.rest.len());
        if end == 0 {
            let found: String = self.rest.chars().take(1).collect();
            return self.fail(format!("a setting's name was expected, not {found:?}"));
        }
        Ok(self.advance(end).to_owned())
    }

    fn value(&mut self, depth: u32) -> Result<Node, SyntaxError> {
        self.skip()?;
        let line = self.line;
        let Some(inside) = depth.checked_sub(1) else {
            return self.fail(format!("more than {DEPTH_MAX} groups or lists within each other"));
        };
        let kind = match self.rest.chars().next() {
            Some('{') => {
                self.advance(1);
                NodeKind::Group(self.settings(Some('}'), inside)?)
            }
            Some('(') => self.list(')', inside)?,
            Some('[') => self.list(']', inside)?,
            Some('"') => NodeKind::Scalar(self.string()?),
            _ => NodeKind::Scalar(self.bare()?),
        };
        Ok(Node { line, kind })
    }

    fn list(&mut self, close: char, depth: u32) -> Result<NodeKind, SyntaxError> {
        self.advance(1);
        let mut items = Vec::new();
        loop {
            self.skip()?;
            if self.eat(close) {
                return Ok(NodeKind::List(items));
            }
            if self.rest.is_empty() {
                return self.fail(format!("the file ends, and a {close:?} is missing"));
            }
            items.push(self.value(depth)?);
            self.skip()?;
            if !self.eat(',') && !self.rest.starts_with(close) && !self.rest.is_empty() {
                return self.fail(format!("a ',' or {close:?} was expected"));
            }
        }
    }

    /// A number or a truth value.
    fn bare(&mut self) -> Result<String, SyntaxError> {
        let fits = |letter: char| letter.is_ascii_alphanumeric() || "+-._".contains(letter);
        let end = self.rest.find(|letter| !fits(letter)).unwrap_or(self.rest.len());
        let text = &self.rest[..end];
        let is_number = text.starts_with(|it: char| it.is_ascii_digit() || "+-.".contains(it));
        let is_truth = ["true", "false"].iter().any(|it| text.eq_ignore_ascii_case(it));
        if !is_number && !is_truth {
            let found: String = self.rest.chars().take(20).take_while(|it| *it != '\n').collect();
            return self
                .fail(format!("a value was expected, not {found:?}; texts stand in quotes"));
        }
        self.advance(end);
        let number = text.trim_end_matches(['L', 'l']);
        let digits = number.strip_prefix("0x").or_else(|| number.strip_prefix("0X"));
        match digits.map(|digits| u64::from_str_radix(digits, 16)) {
            Some(Ok(number)) => Ok(number.to_string()),
            Some(Err(_)) => self.fail(format!("{text:?} is no number")),
            None => Ok(number.to_ascii_lowercase()),
        }
    }

    /// A string, and those behind it: they are one.
    fn string(&mut self) -> Result<String, SyntaxError> {
        let mut string = String::new();
        while self.eat('"') {
            let begin = self.line;
            loop {
                let Some(end) = self.rest.find(['"', '\\']) else {
                    return Err(SyntaxError {
                        line: begin,
                        why: "a string begins here and does not end".to_owned(),
                    });
                };
                string += self.advance(end);
                if self.eat('"') {
                    break;
                }
                self.advance(1);
                self.escape(&mut string);
            }
            self.skip()?;
        }
        Ok(string)
    }

    /// What stands behind a backslash.
    fn escape(&mut self, string: &mut String) {
        let code = self.rest.strip_prefix('x').and_then(|digits| digits.get(..2));
        if let Some(Ok(code)) = code.map(|digits| u8::from_str_radix(digits, 16)) {
            string.push(char::from(code));
            self.advance(3);
            return;
        }
        let Some(letter) = self.rest.chars().next() else { return };
        self.advance(letter.len_utf8());
        match letter {
            'n' => string.push('\n'),
            't' => string.push('\t'),
            'r' => string.push('\r'),
            'f' => string.push('\u{c}'),
            '"' | '\\' => string.push(letter),
            // As libconfig has it, for regular expressions that are written as they are elsewhere.
            other => string.extend(['\\', other]),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scalar(text: &str) -> NodeKind {
        NodeKind::Scalar(text.to_owned())
    }

    #[test]
    fn values_of_all_kinds_are_read() {
        let cases = [
            ("a=1", scalar("1")),
            ("a : 0x1F;", scalar("31")),
            ("a = 100000L", scalar("100000")),
            ("a=True,", scalar("true")),
            ("a=-1.5e3", scalar("-1.5e3")),
            (r#"a="b" /* c */ "d""#, scalar("bd")),
            (r#"a="\x41\n\"\\\s";"#, scalar("A\n\"\\\\s")),
            ("# x\na=()", NodeKind::List(Vec::new())),
            ("// x\na={}", NodeKind::Group(Vec::new())),
        ];
        for (text, want) in cases {
            let parsed = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(parsed.settings[0].1.kind, want, "{text}");
        }
    }

    #[test]
    fn lines_are_those_of_the_file() {
        let text =
            "x=1\n@include \"more.cnf\"\nservers =\n(\n  { a=1\n    b=\"2\" },\n  { a = 3 },\n)\n";
        let parsed = parse(text).expect("is right");
        assert_eq!(parsed.includes, [(2, "more.cnf".to_owned())]);
        let NodeKind::List(items) = &parsed.settings[1].1.kind else { panic!("a list") };
        assert_eq!(items.iter().map(|it| it.line).collect::<Vec<_>>(), [5, 7]);
        let NodeKind::Group(inside) = &items[0].kind else { panic!("a group") };
        assert_eq!(inside[1].1, Node { line: 6, kind: scalar("2") });
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let deep = format!("a={}", "(".repeat(100_000));
        let cases = [
            ("a", 1, "'='"),
            ("a=\n", 2, "a value was expected"),
            ("a=1\nb=(1", 2, "')' is missing"),
            ("a={\nb=1\n", 3, "'}' is missing"),
            ("a=(1 2)", 1, "',' or ')'"),
            ("a=\"b", 1, "does not end"),
            ("a=\"b\\", 1, "does not end"),
            ("\n/* ", 2, "does not end"),
            ("a=word", 1, "in quotes"),
            ("a=0xZZ", 1, "no number"),
            ("@include x", 1, "in quotes"),
            ("}", 1, "name was expected"),
            (&deep, 1, "within each other"),
        ];
        for (text, line, part) in cases {
            let error = parse(text).expect_err(part);
            assert!(error.line == line && error.why.contains(part), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(text in r#"([a-z]|=|\(|\)|\{|\}|\[|\]|"|\\|,|;|#|/|\*|@include|\n| |[0-9]|\PC){0,200}"#) {
            let _ = parse(&text);
        }
    }
}
