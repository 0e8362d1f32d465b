//! Rewrites by template: a statement of one form becomes one of another form, with the same values in it.
//!
//! Both sides are read as tokens, so white space, comments and what stands inside literals never matter. `?name` stands
//! for one value: a literal, a value to be bound, a column's name, a variable. `?name...` stands for several with
//! commas between them. Invariants: the other form has the same parameters; values that are bound later keep their
//! number and their order; nothing is rewritten that only some servers execute.

use std::ops::Range;

use wire::lex::{Dialect, Token};
use wire::text::Lexed;

use super::part::{Part, parts};

/// Two forms of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    from: Vec<FromPiece>,
    to: Vec<ToPiece>,
    parameters: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum FromPiece {
    Token(Fixed),
    One(usize),
    Several(usize),
}

/// A token that must be there.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fixed {
    Name(Vec<u8>),
    String(Vec<u8>),
    Number(Vec<u8>),
    UserVariable(Vec<u8>),
    SystemVariable(Vec<u8>),
    Symbol(u8),
    Assign,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ToPiece {
    Text(Vec<u8>),
    Parameter(usize),
}

/// A parameter in a form: its name, which tokens it takes, and whether it stands for several values.
struct Hole<'a> {
    name: &'a [u8],
    tokens: Range<usize>,
    is_several: bool,
}

/// A statement fits a template, and cannot be rewritten: values that are bound later would change their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reordered;

impl Template {
    /// Reads two forms. An error says what is wrong with which.
    pub fn read(from: &str, to: &str) -> Result<Self, String> {
        let (lexed_from, lexed_to) = (Lexed::default(), Lexed::default());
        let from = form(&lexed_from, from, "from")?;
        let to = form(&lexed_to, to, "to")?;
        let mut names: Vec<(&[u8], bool)> = Vec::new();
        let mut pieces = Vec::new();
        let mut at = 0;
        while let Some(token) = from.token(at) {
            let Some(hole) = hole(&from, at)? else {
                pieces.push(FromPiece::Token(Fixed::of(token)));
                at += 1;
                continue;
            };
            at = hole.tokens.end;
            if names.iter().any(|(name, _)| *name == hole.name) {
                return Err(format!("?{} stands in `from` more than once", shown(hole.name)));
            }
            pieces.push(match hole.is_several {
                true => FromPiece::Several(names.len()),
                false => FromPiece::One(names.len()),
            });
            names.push((hole.name, hole.is_several));
        }
        let to = read_to(&to, &names)?;
        for (at, (name, _)) in names.iter().enumerate() {
            if !to.contains(&ToPiece::Parameter(at)) {
                return Err(format!("`to` loses the parameter ?{}", shown(name)));
            }
        }
        Ok(Self { from: pieces, to, parameters: names.len() })
    }

    /// Whether a statement is of the one form.
    pub fn fits(&self, part: &Part<'_>) -> bool {
        self.fit(part).is_some()
    }

    /// Whether statements of this one's digest may be: all names of the form are there, in their order.
    pub fn may_fit(&self, part: &Part<'_>) -> bool {
        let mut names = self.from.iter().filter_map(|piece| match piece {
            FromPiece::Token(name @ Fixed::Name(_)) => Some(name),
            _ => None,
        });
        let mut next = names.next();
        for token in part.tokens() {
            if next.is_some_and(|name| name.is(token)) {
                next = names.next();
            }
        }
        next.is_none()
    }

    /// The statement in its other form. `None`: it is not of the one form.
    pub fn apply(&self, part: &Part<'_>) -> Result<Option<Vec<u8>>, Reordered> {
        let Some(values) = self.fit(part) else { return Ok(None) };
        let bound = |value: &Range<usize>| {
            value.clone().filter(|at| part.token(*at) == Some(Token::Symbol(b'?'))).count()
        };
        let bytes = |range: &Range<usize>| {
            let start = part.span(range.start).map_or(0, |(start, _)| start);
            let end =
                range.end.checked_sub(1).and_then(|at| part.span(at)).map_or(start, |(_, end)| end);
            part.bytes().get(start..end).unwrap_or_default()
        };
        let all = bytes(&(0..part.len()));
        // Comments before and behind it stay.
        let start = part.span(0).map_or(0, |(start, _)| start);
        let mut out = part.bytes().get(..start).unwrap_or_default().to_vec();
        let mut order = Vec::new();
        for piece in &self.to {
            match piece {
                ToPiece::Text(text) => out.extend_from_slice(text),
                ToPiece::Parameter(at) => {
                    let Some(value) = values.get(*at) else { continue };
                    if bound(value) > 0 {
                        order.push(*at);
                    }
                    out.extend_from_slice(bytes(value));
                }
            }
        }
        let wanted = (0..values.len()).filter(|at| values.get(*at).is_some_and(|it| bound(it) > 0));
        if !order.iter().copied().eq(wanted) {
            return Err(Reordered);
        }
        out.extend_from_slice(part.bytes().get(start + all.len()..).unwrap_or_default());
        Ok(Some(out))
    }

    /// Which tokens stand for each parameter.
    fn fit(&self, part: &Part<'_>) -> Option<Vec<Range<usize>>> {
        if part.saw_executable_comment() {
            return None;
        }
        let (mut at, mut values) = (0, vec![0..0; self.parameters]);
        for piece in &self.from {
            match piece {
                FromPiece::Token(fixed) => {
                    if !fixed.is(part.token(at)?) {
                        return None;
                    }
                    at += 1;
                }
                FromPiece::One(parameter) => {
                    let end = behind_value(part, at)?;
                    *values.get_mut(*parameter)? = at..end;
                    at = end;
                }
                FromPiece::Several(parameter) => {
                    let mut end = behind_value(part, at)?;
                    while part.token(end) == Some(Token::Symbol(b',')) {
                        let Some(next) = behind_value(part, end + 1) else { break };
                        end = next;
                    }
                    *values.get_mut(*parameter)? = at..end;
                    at = end;
                }
            }
        }
        (at == part.len()).then_some(values)
    }
}

fn form<'a>(lexed: &'a Lexed, text: &'a str, which: &str) -> Result<Part<'a>, String> {
    let text = lexed.text(text.as_bytes(), Dialect::default());
    let parts = parts(text).ok_or_else(|| format!("a quote or comment in `{which}` never ends"))?;
    match <[Part<'a>; 1]>::try_from(parts) {
        Ok([part]) => Ok(part),
        Err(parts) if parts.is_empty() => Err(format!("`{which}` is no statement")),
        Err(_) => Err(format!("`{which}` is more than one statement")),
    }
}

/// The parameter that begins at this token.
fn hole<'a>(form: &Part<'a>, at: usize) -> Result<Option<Hole<'a>>, String> {
    if form.token(at) != Some(Token::Symbol(b'?')) {
        return Ok(None);
    }
    let is_next = |at: usize| {
        let end = form.span(at).map(|(_, end)| end);
        end.is_some() && end == form.span(at + 1).map(|(start, _)| start)
    };
    let Some(Token::Word(name)) = form.token(at + 1).filter(|_| is_next(at)) else {
        return Err("a parameter has a name: write ?a in the place of ?".to_owned());
    };
    let dots =
        (at + 1..at + 4).all(|at| is_next(at) && form.token(at + 1) == Some(Token::Symbol(b'.')));
    let end = if dots { at + 5 } else { at + 2 };
    Ok(Some(Hole { name, tokens: at..end, is_several: dots }))
}

fn read_to(to: &Part<'_>, names: &[(&[u8], bool)]) -> Result<Vec<ToPiece>, String> {
    let start_of = |at: usize| to.span(at).map_or(0, |(start, _)| start);
    let (mut pieces, mut at, mut from) = (Vec::new(), 0, start_of(0));
    while at < to.len() {
        let Some(hole) = hole(to, at)? else {
            at += 1;
            continue;
        };
        let known = names.iter().position(|(name, _)| *name == hole.name);
        let known =
            known.ok_or_else(|| format!("`to` invents the parameter ?{}", shown(hole.name)))?;
        if names.get(known).is_some_and(|(_, is_several)| *is_several != hole.is_several) {
            let name = shown(hole.name);
            return Err(format!(
                "?{name} stands for one value in one form, and for several in the other"
            ));
        }
        let text = to.bytes().get(from..start_of(at)).unwrap_or_default();
        pieces.extend([ToPiece::Text(text.to_vec()), ToPiece::Parameter(known)]);
        at = hole.tokens.end;
        from = to.span(at - 1).map_or(from, |(_, end)| end);
    }
    let end = to.span(to.len().saturating_sub(1)).map_or(from, |(_, end)| end);
    pieces.push(ToPiece::Text(to.bytes().get(from..end).unwrap_or_default().to_vec()));
    Ok(pieces)
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

impl Fixed {
    fn of(token: Token<'_>) -> Self {
        match token {
            Token::Word(name) | Token::Quoted(name) => Self::Name(name.to_vec()),
            Token::String(text) => Self::String(text.to_vec()),
            Token::Number(number) => Self::Number(number.to_vec()),
            Token::UserVariable(name) => Self::UserVariable(name.to_vec()),
            Token::SystemVariable(name) => Self::SystemVariable(name.to_vec()),
            Token::Symbol(symbol) => Self::Symbol(symbol),
            Token::Assign => Self::Assign,
            // A form has none.
            Token::Unfinished => Self::Symbol(0),
        }
    }

    fn is(&self, token: Token<'_>) -> bool {
        match (self, token) {
            (Self::Name(name), Token::Word(other) | Token::Quoted(other)) => {
                name.eq_ignore_ascii_case(other)
            }
            (Self::String(text), Token::String(other)) => text == other,
            (Self::Number(number), Token::Number(other)) => number == other,
            (Self::UserVariable(name), Token::UserVariable(other))
            | (Self::SystemVariable(name), Token::SystemVariable(other)) => {
                name.eq_ignore_ascii_case(other)
            }
            (Self::Symbol(symbol), Token::Symbol(other)) => *symbol == other,
            (Self::Assign, Token::Assign) => true,
            _ => false,
        }
    }
}

/// Where the value ends that begins at this token.
fn behind_value(part: &Part<'_>, at: usize) -> Option<usize> {
    match part.token(at)? {
        Token::Symbol(b'+' | b'-') => {
            matches!(part.token(at + 1), Some(Token::Number(_))).then_some(at + 2)
        }
        Token::String(_) => Some(behind_strings(part, at)),
        Token::Symbol(b'?')
        | Token::Number(_)
        | Token::UserVariable(_)
        | Token::SystemVariable(_) => Some(at + 1),
        // `_utf8mb4'…'`, `x'…'`, `DATE '…'`.
        Token::Word(_) if matches!(part.token(at + 1), Some(Token::String(_))) => {
            Some(behind_strings(part, at + 1))
        }
        Token::Word(_) | Token::Quoted(_) => {
            let mut end = at + 1;
            while part.token(end) == Some(Token::Symbol(b'.'))
                && matches!(part.token(end + 1), Some(Token::Word(_) | Token::Quoted(_)))
            {
                end += 2;
            }
            // What is called is no value.
            (part.token(end) != Some(Token::Symbol(b'('))).then_some(end)
        }
        _ => None,
    }
}

/// Strings that follow each other are one.
fn behind_strings(part: &Part<'_>, at: usize) -> usize {
    (at..).find(|at| !matches!(part.token(*at), Some(Token::String(_)))).unwrap_or(at + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rewritten(template: &Template, text: &str) -> Result<Option<String>, Reordered> {
        let lexed = Lexed::default();
        let parts = parts(lexed.text(text.as_bytes(), Dialect::default())).expect("it is read");
        let out = template.apply(&parts[0])?;
        Ok(out.map(|it| String::from_utf8(it).expect("UTF-8")))
    }

    #[test]
    fn statements_of_one_form_become_ones_of_another() {
        let plain = ("SELECT ?a FROM t WHERE x = ?b", "SELECT ?a FROM t2 WHERE x = ?b");
        let list =
            ("DELETE FROM t WHERE id IN (?ids...)", "UPDATE t SET gone = 1 WHERE id IN (?ids...)");
        for ((from, to), text, want) in [
            (plain, "select c from T where x=5", Some("SELECT c FROM t2 WHERE x = 5")),
            (
                plain,
                "SELECT `c` FROM `t` WHERE x = 'it''s ? x = 1'",
                Some("SELECT `c` FROM t2 WHERE x = 'it''s ? x = 1'"),
            ),
            (
                plain,
                "/* class=batch */ SELECT t.c FROM t WHERE x = -1 -- end",
                Some("/* class=batch */ SELECT t.c FROM t2 WHERE x = -1 -- end"),
            ),
            (
                plain,
                "SELECT /* c FROM u */ c FROM t WHERE x = ?",
                Some("SELECT c FROM t2 WHERE x = ?"),
            ),
            (
                plain,
                "SELECT c FROM t WHERE x = 'a' 'b'",
                Some("SELECT c FROM t2 WHERE x = 'a' 'b'"),
            ),
            (
                plain,
                "SELECT c FROM t WHERE x = _utf8mb4'a'",
                Some("SELECT c FROM t2 WHERE x = _utf8mb4'a'"),
            ),
            (plain, "SELECT c FROM t WHERE x = f(1)", None),
            (plain, "SELECT c FROM t WHERE x = 1 OR 1 = 1", None),
            (plain, "SELECT c, d FROM t WHERE x = 1", None),
            (plain, "SELECT c FROM t WHERE x = 1 /*! OR 1 = 1 */", None),
            (plain, "SELECT c FROM t2 WHERE x = 1", None),
            (plain, "SELECT 'c FROM t WHERE x = 1'", None),
            (
                list,
                "DELETE FROM t WHERE id IN (1, 'b', ?)",
                Some("UPDATE t SET gone = 1 WHERE id IN (1, 'b', ?)"),
            ),
            (list, "DELETE FROM t WHERE id IN ()", None),
            (list, "DELETE FROM t WHERE id IN (1, )", None),
        ] {
            let template = Template::read(from, to).expect("a template");
            assert_eq!(rewritten(&template, text).expect("in order").as_deref(), want, "{text}");
        }
    }

    #[test]
    fn values_that_are_bound_later_keep_their_order() {
        let turned = Template::read("SELECT ?a, ?b", "SELECT ?b, ?a").expect("a template");
        assert_eq!(rewritten(&turned, "SELECT 1, 2"), Ok(Some("SELECT 2, 1".to_owned())));
        assert_eq!(rewritten(&turned, "SELECT ?, 2"), Ok(Some("SELECT 2, ?".to_owned())));
        assert_eq!(rewritten(&turned, "SELECT ?, ?"), Err(Reordered));
        let twice = Template::read("SELECT ?a", "SELECT ?a, ?a").expect("a template");
        assert_eq!(rewritten(&twice, "SELECT 1"), Ok(Some("SELECT 1, 1".to_owned())));
        assert_eq!(rewritten(&twice, "SELECT ?"), Err(Reordered));
    }

    #[test]
    fn what_is_no_template_is_refused() {
        for (from, to, why) in [
            ("SELECT ?a", "SELECT 1", "loses the parameter ?a"),
            ("SELECT 1", "SELECT ?a", "invents the parameter ?a"),
            ("SELECT ?a, ?a", "SELECT ?a", "more than once"),
            ("SELECT ?", "SELECT 1", "has a name"),
            ("SELECT ? a", "SELECT 1", "has a name"),
            ("SELECT ?a...", "SELECT ?a", "for several in the other"),
            ("SELECT 'a", "SELECT 1", "never ends"),
            ("SELECT 1", "SELECT 1 /*", "never ends"),
            ("", "SELECT 1", "is no statement"),
            ("SELECT 1", "SELECT 1; SELECT 2", "more than one statement"),
        ] {
            let error = Template::read(from, to).expect_err(from);
            assert!(error.contains(why), "{from}: {error}");
        }
    }

    proptest! {
        /// A value of any kind stands in the other form as it stood in the one.
        #[test]
        fn values_stay_as_they_are(
            value in prop_oneof![
                "'[a-z;?/*%-]{0,12}'", "\"[a-z'?]{0,8}\"", "-?[0-9]{1,6}", "0x[0-9a-f]{2,6}", "[a-z_]{1,6}",
                "`[a-z? ]{1,6}`", "@[a-z]{1,4}",
            ],
            gap in prop::sample::select(vec![" ", "\n\t", " /* ?a */ ", " -- x = ?\n"]),
        ) {
            let template = Template::read("SELECT a FROM t WHERE x = ?v", "SELECT b FROM u WHERE ?v = x").expect("a template");
            let text = format!("SELECT{gap}a FROM{gap}t WHERE x ={gap}{value}");
            let out = rewritten(&template, &text).expect("in order");
            prop_assert_eq!(out, Some(format!("SELECT b FROM u WHERE {value} = x")));
        }
    }
}
