//! What rules do to a statement's text: all in the order in which they stand, each on what the one before has made.
//!
//! Invariants: a text grows by a bounded factor; a text that is prepared leaves as many values to be bound as before,
//! so that a client's parameters fit it.

use regex::bytes::Regex;
use wire::lex::{Dialect, Token};
use wire::text::Lexed;

use super::part::{Part, parts};
use super::template::Template;

/// What is done to a text.
#[derive(Debug)]
pub enum Edit {
    Template(Template),
    /// What the expression finds is replaced, wherever it stands: in literals as well.
    Replace {
        find: Regex,
        with: Vec<u8>,
    },
    /// Stands in a comment behind the first word and its hints.
    Comment(String),
    /// An optimizer hint behind the first word.
    Hint(String),
}

/// Why a text cannot be edited as a rule says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// Values that are bound later would change their number or their order.
    Parameters,
    TooLong,
    Several,
}

impl Unfit {
    pub const fn why(self) -> &'static str {
        match self {
            Self::Parameters => {
                "values that are bound later would change their number or their order"
            }
            Self::TooLong => "it would become too long",
            Self::Several => "it would become more than one statement",
        }
    }
}

impl Edit {
    /// The statement as this makes it. `None`: as it was.
    pub fn apply(&self, text: &[u8], dialect: Dialect) -> Result<Option<Vec<u8>>, Unfit> {
        let lexed = Lexed::default();
        let Some(parts) = parts(lexed.text(text, dialect)) else { return Ok(None) };
        let Some(part) = parts.first() else { return Ok(None) };
        let edited = match self {
            Self::Template(template) => template.apply(part).map_err(|_| Unfit::Parameters)?,
            Self::Replace { find, with } => replaced(find, with, text)?,
            Self::Comment(comment) => inserted(part, &format!(" /* {comment} */")),
            Self::Hint(hint) => hinted(part, hint),
        };
        let Some(edited) = edited else { return Ok(None) };
        if matches!(self, Self::Replace { .. }) {
            stays_one(&edited, dialect, part.placeholders())?;
        }
        Ok(Some(edited))
    }
}

/// What an expression has made is one statement still, with as many values to be bound.
fn stays_one(text: &[u8], dialect: Dialect, placeholders: usize) -> Result<(), Unfit> {
    let lexed = Lexed::default();
    match parts(lexed.text(text, dialect)).as_deref() {
        Some([part]) if part.placeholders() == placeholders => Ok(()),
        Some([_]) => Err(Unfit::Parameters),
        _ => Err(Unfit::Several),
    }
}

/// A text may grow to this many times its length, and by this many bytes.
const GROWTH: (usize, usize) = (4, 64 << 10);

fn replaced(find: &Regex, with: &[u8], text: &[u8]) -> Result<Option<Vec<u8>>, Unfit> {
    let most = text.len().saturating_mul(GROWTH.0).saturating_add(GROWTH.1);
    let (mut out, mut end) = (Vec::new(), None);
    for found in find.captures_iter(text) {
        let Some(whole) = found.get(0) else { continue };
        out.extend_from_slice(text.get(end.unwrap_or(0)..whole.start()).unwrap_or_default());
        found.expand(with, &mut out);
        end = Some(whole.end());
        if out.len() > most {
            return Err(Unfit::TooLong);
        }
    }
    let Some(end) = end else { return Ok(None) };
    out.extend_from_slice(text.get(end..).unwrap_or_default());
    Ok(Some(out))
}

/// With something behind its first word, and behind the optimizer hints there: a server takes hints from no other place.
fn inserted(part: &Part<'_>, what: &str) -> Option<Vec<u8>> {
    let at = (0..part.len()).find(|at| matches!(part.token(*at), Some(Token::Word(_))))?;
    let (_, end) = part.span(at)?;
    let behind = part.bytes().get(end..)?;
    let hints = behind.trim_ascii_start().strip_prefix(b"/*+");
    let rest = hints.and_then(|hints| {
        let end = hints.windows(2).position(|it| it == b"*/")?;
        hints.get(end + 2..)
    });
    let (before, behind) =
        part.bytes().split_at_checked(part.bytes().len() - rest.unwrap_or(behind).len())?;
    Some([before, what.as_bytes(), behind].concat())
}

/// With an optimizer hint, which joins those that are there: a server reads one comment of hints only.
fn hinted(part: &Part<'_>, hint: &str) -> Option<Vec<u8>> {
    let at = (0..part.len()).find(|at| matches!(part.token(*at), Some(Token::Word(_))))?;
    let takes_hints = ["SELECT", "INSERT", "REPLACE", "UPDATE", "DELETE"];
    let (_, end) = part.span(at)?;
    if !takes_hints.iter().any(|word| part.token(at).is_some_and(|token| token.is_word(word))) {
        return None;
    }
    let (before, behind) = part.bytes().split_at_checked(end)?;
    let blank = behind.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let (blank, rest) = behind.split_at_checked(blank)?;
    Some(match rest.strip_prefix(b"/*+") {
        Some(hints) => [before, blank, b"/*+ ", hint.as_bytes(), hints].concat(),
        None => [before, b" /*+ ", hint.as_bytes(), b" */", behind].concat(),
    })
}

/// Whether a text can stand inside a comment and stays one.
pub fn fits_comment(text: &str) -> bool {
    !text.contains("*/") && !text.contains("/*") && !text.contains('\0')
}

/// Whether all that a replacement names was captured; else what was not.
pub fn unknown_group(find: &Regex, with: &str) -> Option<String> {
    let mut rest = with;
    while let Some(at) = rest.find('$') {
        rest = rest.get(at + 1..).unwrap_or_default();
        if let Some(behind) = rest.strip_prefix('$') {
            rest = behind;
            continue;
        }
        let name = match rest.strip_prefix('{') {
            Some(braced) => braced.split('}').next().unwrap_or_default(),
            None => {
                let end = rest.find(|it: char| !it.is_ascii_alphanumeric() && it != '_');
                rest.get(..end.unwrap_or(rest.len())).unwrap_or_default()
            }
        };
        let is_known = match name.parse::<usize>() {
            Ok(number) => number < find.captures_len(),
            Err(_) => find.capture_names().flatten().any(|known| known == name),
        };
        if !name.is_empty() && !is_known {
            return Some(name.to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::rules::expression;

    fn edited(edit: &Edit, text: &str) -> Result<Option<String>, Unfit> {
        let out = edit.apply(text.as_bytes(), Dialect::default())?;
        Ok(out.map(|it| String::from_utf8(it).expect("UTF-8")))
    }

    #[test]
    fn hints_and_comments_stand_behind_the_first_word() {
        let hint = Edit::Hint("MAX_EXECUTION_TIME(1000)".to_owned());
        let comment = Edit::Comment("app=billing".to_owned());
        for (edit, text, want) in [
            (&hint, "SELECT 1", Some("SELECT /*+ MAX_EXECUTION_TIME(1000) */ 1")),
            (
                &hint,
                "/* a */ (select /*+ X */ 1)",
                Some("/* a */ (select /*+ MAX_EXECUTION_TIME(1000) X */ 1)"),
            ),
            (&hint, "SHOW TABLES", None),
            (&comment, "SELECT 1", Some("SELECT /* app=billing */ 1")),
            (&comment, "COMMIT", Some("COMMIT /* app=billing */")),
            (&comment, "SELECT /*+ X */ 1", Some("SELECT /*+ X */ /* app=billing */ 1")),
            (&comment, "SELECT /* c */ 1", Some("SELECT /* app=billing */ /* c */ 1")),
            (&comment, "'a'", None),
        ] {
            assert_eq!(edited(edit, text).expect("it fits").as_deref(), want, "{text}");
        }
        assert!(fits_comment("app=billing") && !fits_comment("a */ b") && !fits_comment("/* b"));
    }

    #[test]
    fn replacements_are_bounded_and_keep_what_is_bound() {
        let replace = |find: &str, with: &str| Edit::Replace {
            find: expression(find).expect("an expression"),
            with: with.as_bytes().to_vec(),
        };
        let word = replace(r"\bold_(\w+)", "new_$1");
        assert_eq!(
            edited(&word, "SELECT old_a, old_b"),
            Ok(Some("SELECT new_a, new_b".to_owned()))
        );
        assert_eq!(edited(&word, "SELECT a"), Ok(None));
        assert_eq!(edited(&replace(r"\?", "1"), "SELECT ?"), Err(Unfit::Parameters));
        assert_eq!(edited(&replace("x", "; DROP TABLE t"), "SELECT x"), Err(Unfit::Several));
        assert_eq!(edited(&replace("x", "'"), "SELECT x"), Err(Unfit::Several));
        assert_eq!(
            edited(&replace("a", &"b".repeat(1000)), &"a".repeat(1000)),
            Err(Unfit::TooLong)
        );
        let two = expression("(a)(?P<b>b)").expect("an expression");
        for (with, unknown) in
            [("$1$b${2}$$x$0", None), ("$3", Some("3")), ("$1x", Some("1x")), ("${c}", Some("c"))]
        {
            assert_eq!(unknown_group(&two, with).as_deref(), unknown, "{with}");
        }
    }
}
