//! Many expressions, looked for at once.
//!
//! Most expressions need a piece of text to stand somewhere, as `orders_` in `from orders_\d+`. These pieces are looked for
//! together in one pass (Aho and Corasick); only expressions whose piece is there are looked at, in groups. So a text
//! that none of a thousand expressions finds costs little more than one that is looked for one. Invariants: what is
//! found is what each expression alone would find; a text takes linear time; what is compiled has a bound.

use aho_corasick::AhoCorasick;
use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Hir, HirKind};

/// An expression takes at most so much memory, compiled; all together at most so much.
const EXPRESSION_MAX: usize = 1 << 20;
const EXPRESSIONS_MAX: usize = 64 << 20;

/// As deep as expressions may be nested.
const NEST_MAX: u32 = 64;

/// So many are looked for in one pass when one of their pieces is there.
const GROUP: usize = 16;

/// A shorter piece stands nearly everywhere.
const PIECE_MIN: usize = 3;

/// An expression of a rule: capital letters do not differ from small ones, bytes are taken as they are, and a dot stands
/// for a line's end as well.
pub fn expression(text: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(text)
        .unicode(false)
        .case_insensitive(true)
        .dot_matches_new_line(true)
        .size_limit(EXPRESSION_MAX)
        .nest_limit(NEST_MAX)
        .build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => {
            format!("the expression takes more than {EXPRESSION_MAX} bytes when it is compiled")
        }
        error => {
            let text = error.to_string();
            let line = text.lines().last().unwrap_or_default();
            format!("this is no regular expression: {}", line.trim_start_matches("error: "))
        }
    })
}

/// Expressions by their places in a list.
#[derive(Debug, Default)]
pub(super) struct Expressions {
    /// Pieces, as many for each group as that has expressions.
    pieces: Option<AhoCorasick>,
    groups: Vec<Group>,
    /// Those that need no piece.
    others: Option<Group>,
}

#[derive(Debug)]
struct Group {
    set: RegexSet,
    places: Vec<usize>,
}

impl Expressions {
    pub(super) fn of(texts: &[&str]) -> Result<Self, String> {
        // It is only built to see whether all of them are within the bound.
        compile(texts)?;
        let all = || texts.iter().enumerate();
        let pieces: Vec<_> = all().map(|(_, text)| piece(text)).collect();
        let group = |places: Vec<usize>| -> Result<Group, String> {
            let texts: Vec<_> = places.iter().filter_map(|at| texts.get(*at).copied()).collect();
            Ok(Group { set: compile(&texts)?, places })
        };
        let (with, without): (Vec<_>, Vec<_>) =
            (0..texts.len()).partition(|at| pieces.get(*at).is_some_and(Option::is_some));
        let groups: Result<Vec<_>, _> =
            with.chunks(GROUP).map(|places| group(places.to_vec())).collect();
        let found: Vec<_> = pieces.into_iter().flatten().collect();
        let built = AhoCorasick::builder().ascii_case_insensitive(true).build(found);
        let built =
            built.map_err(|error| format!("the expressions cannot be compiled: {error}"))?;
        Ok(Self {
            pieces: (!with.is_empty()).then_some(built),
            groups: groups?,
            others: if without.is_empty() { None } else { Some(group(without)?) },
        })
    }

    /// The places of those that match, in their order.
    pub(super) fn find(&self, text: &[u8]) -> Vec<usize> {
        let mut found = Vec::new();
        let mut look = |group: &Group| {
            let matched = group.set.matches(text);
            found.extend(matched.iter().filter_map(|at| group.places.get(at)));
        };
        self.others.iter().for_each(&mut look);
        if let Some(pieces) = &self.pieces {
            let mut seen: Vec<usize> = Vec::new();
            for it in pieces.find_overlapping_iter(text) {
                let group = it.pattern().as_usize() / GROUP;
                if !seen.contains(&group) {
                    seen.push(group);
                    self.groups.get(group).into_iter().for_each(&mut look);
                }
            }
        }
        found.sort_unstable();
        found
    }
}

fn compile(texts: &[&str]) -> Result<RegexSet, String> {
    let set = RegexSetBuilder::new(texts)
        .unicode(false)
        .case_insensitive(true)
        .dot_matches_new_line(true)
        .size_limit(EXPRESSIONS_MAX)
        .dfa_size_limit(EXPRESSIONS_MAX)
        .nest_limit(NEST_MAX)
        .build();
    set.map_err(|_| {
        format!(
            "all expressions together take more than {EXPRESSIONS_MAX} bytes when they are compiled"
        )
    })
}

/// A piece that stands in each text that the expression finds, if capitals do not matter.
fn piece(text: &str) -> Option<Vec<u8>> {
    // Letters stay letters: `pieces` does not look at capitals either.
    let parsed = ParserBuilder::new()
        .unicode(false)
        .utf8(false)
        .dot_matches_new_line(true)
        .nest_limit(NEST_MAX)
        .build()
        .parse(text)
        .ok()?;
    longest(&parsed).filter(|piece| piece.len() >= PIECE_MIN).map(<[u8]>::to_vec)
}

fn longest(hir: &Hir) -> Option<&[u8]> {
    match hir.kind() {
        HirKind::Literal(literal) => Some(&literal.0),
        HirKind::Capture(inner) => longest(&inner.sub),
        HirKind::Repetition(inner) if inner.min > 0 => longest(&inner.sub),
        HirKind::Concat(parts) => parts.iter().filter_map(longest).max_by_key(|it| it.len()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_stands_in_whatever_the_expression_finds() {
        for (text, found) in [
            ("^select .* from orders_[0-9]+ where", Some("from orders_")),
            ("(abc)+d", Some("abc")),
            ("(abc)*d", None),
            ("abc|abd", None),
            ("(?i)abc", None),
            ("x{3}", None),
            (r"drop\s+table", Some("table")),
            ("(?-i)ABC", Some("ABC")),
            (r"\xff\xfe\xfd", Some("\u{fffd}\u{fffd}\u{fffd}")),
        ] {
            let piece = piece(text).map(|it| String::from_utf8_lossy(&it).into_owned());
            // Blanks around a word may belong to it.
            assert_eq!(piece.as_deref().map(str::trim), found, "{text}");
        }
    }

    #[test]
    fn together_they_find_what_each_alone_finds() {
        let mut texts: Vec<String> = (0..100).map(|at| format!("from t{at}_[a-z]+ ")).collect();
        texts.extend(
            ["^select", "", "a|b", "(?-i)FROM", "FROM T1", ".*where.*", r"\bt5\b", "(t6)+", "é"]
                .map(str::to_owned),
        );
        let all: Vec<_> = texts.iter().map(String::as_str).collect();
        let together = Expressions::of(&all).unwrap();
        for text in [
            "",
            "SELECT a FROM t17_x WHERE b",
            "select * from t1_a , t99_b from T1",
            "from t17_ from t18_",
            "select t5 from t6t6 join été",
            "delete from t5_x t5_y",
        ] {
            let alone: Vec<_> = (0..texts.len())
                .filter(|at| expression(&texts[*at]).unwrap().is_match(text.as_bytes()))
                .collect();
            assert_eq!(together.find(text.as_bytes()), alone, "{text}");
        }
        assert!(Expressions::of(&[]).unwrap().find(b"x").is_empty());
    }

    #[test]
    fn all_of_them_have_a_bound() {
        let large = r"(a{50}){50}{50}";
        assert!(expression(large).is_err());
        assert!(Expressions::of(&vec!["[a-z]{900}"; 10_000]).is_err());
    }
}
