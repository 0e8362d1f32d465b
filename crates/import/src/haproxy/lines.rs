//! The syntax: lines of words, in parts.

use std::collections::BTreeMap;

use crate::syntax::SyntaxError;

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) number: u32,
    pub(super) words: Vec<String>,
}

impl Line {
    /// A word, or nothing if there are fewer.
    pub(super) fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", |word| word)
    }

    /// Words from there on.
    pub(super) fn rest(&self, at: usize) -> &[String] {
        self.words.get(at..).unwrap_or_default()
    }
}

/// What a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartKind {
    Global,
    Defaults,
    Frontend,
    Backend,
    Listen,
    Other,
}

/// A part of the file: a title, and the lines below it.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) kind: PartKind,
    /// As it is written.
    pub(super) word: String,
    pub(super) name: String,
    pub(super) line: u32,
    pub(super) lines: Vec<Line>,
    /// The place of the defaults that hold for it.
    pub(super) defaults: Option<usize>,
}

impl Part {
    pub(super) fn title(&self) -> String {
        format!("{} {}", self.word, self.name).trim_end().to_owned()
    }
}

/// Words that begin a part.
const TITLES: &[(&str, PartKind)] = &[
    ("global", PartKind::Global),
    ("defaults", PartKind::Defaults),
    ("frontend", PartKind::Frontend),
    ("backend", PartKind::Backend),
    ("listen", PartKind::Listen),
    ("resolvers", PartKind::Other),
    ("peers", PartKind::Other),
    ("mailers", PartKind::Other),
    ("userlist", PartKind::Other),
    ("cache", PartKind::Other),
    ("program", PartKind::Other),
    ("ring", PartKind::Other),
    ("http-errors", PartKind::Other),
    ("log-forward", PartKind::Other),
    ("fcgi-app", PartKind::Other),
    ("crt-store", PartKind::Other),
    ("traces", PartKind::Other),
];

/// Reads a whole file.
pub(super) fn parse(text: &str) -> Result<Vec<Part>, SyntaxError> {
    let mut parts: Vec<Part> = Vec::new();
    let mut named: BTreeMap<String, usize> = BTreeMap::new();
    let mut last = None;
    for (number, line) in (1..).zip(text.lines()) {
        let words = words(line).map_err(|why| SyntaxError { line: number, why: why.to_owned() })?;
        let Some(first) = words.first() else { continue };
        if let Some((_, kind)) = TITLES.iter().find(|(title, _)| title == first) {
            let from = words.iter().position(|it| it == "from").and_then(|at| words.get(at + 1));
            let defaults = from.and_then(|it| named.get(it).copied()).or(last);
            let name = words.get(1).filter(|it| *it != "from").cloned().unwrap_or_default();
            if *kind == PartKind::Defaults {
                last = Some(parts.len());
                named.insert(name.clone(), parts.len());
            }
            let is_proxy =
                matches!(kind, PartKind::Frontend | PartKind::Backend | PartKind::Listen);
            let defaults = defaults.filter(|_| is_proxy);
            parts.push(Part {
                kind: *kind,
                word: first.clone(),
                name,
                line: number,
                lines: Vec::new(),
                defaults,
            });
            continue;
        }
        match parts.last_mut() {
            Some(part) => part.lines.push(Line { number, words }),
            None => {
                let why = format!("a part, such as \"global\", comes before {first:?}");
                return Err(SyntaxError { line: number, why });
            }
        }
    }
    Ok(parts)
}

/// The words of a line: blanks separate them, quotes and backslashes keep blanks inside.
fn words(line: &str) -> Result<Vec<String>, &'static str> {
    let (mut words, mut word, mut is_word) = (Vec::new(), String::new(), false);
    let mut quote = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(end), _) if letter == end => quote = None,
            (None | Some('"'), '\\') => {
                word.push(letters.next().ok_or("a backslash stands at the end of the line")?);
                is_word = true;
            }
            (Some(_), _) => word.push(letter),
            (None, '"' | '\'') => {
                quote = Some(letter);
                is_word = true;
            }
            (None, '#') => break,
            (None, _) if letter.is_whitespace() => {
                if is_word {
                    words.push(std::mem::take(&mut word));
                }
                is_word = false;
            }
            (None, _) => {
                word.push(letter);
                is_word = true;
            }
        }
    }
    if quote.is_some() {
        return Err("a quote is not closed");
    }
    if is_word {
        words.push(word);
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_are_separated_by_blanks() {
        let cases = [
            ("  server db1  10.0.0.1:3306 # c", vec!["server", "db1", "10.0.0.1:3306"]),
            (r#"a "b c" 'd "e"' f\ g"#, vec!["a", "b c", "d \"e\"", "f g"]),
            ("a \"\" #b", vec!["a", ""]),
            ("# all", vec![]),
        ];
        for (line, want) in cases {
            assert_eq!(words(line).expect(line), want, "{line}");
        }
        for line in ["a \"b", "a 'b", "a\\"] {
            assert!(words(line).is_err(), "{line}");
        }
    }

    #[test]
    fn defaults_hold_for_what_stands_below() {
        let text = "defaults\n mode tcp\nlisten a\n bind :1\ndefaults d\n mode http\nlisten b\nlisten c from d\nglobal\n";
        let parts = parse(text).expect("is right");
        let defaults: Vec<_> = parts.iter().map(|part| (&*part.name, part.defaults)).collect();
        let want =
            [("", None), ("a", Some(0)), ("d", None), ("b", Some(2)), ("c", Some(2)), ("", None)];
        assert_eq!(defaults, want);
        assert_eq!(parse("bind :1").expect_err("no part").line, 1);
    }

    proptest! {
        #[test]
        fn nothing_panics(text in r#"(global|listen a|server|"|'|\\|#|\n| |[a-z]|\PC){0,100}"#) {
            let _ = parse(&text);
        }
    }
}
