//! The condition behind `WHERE`: columns compared with values, joined by `AND`, `OR` and `NOT`.
//!
//! As in a server, a comparison with nothing is neither true nor false, and a row stays only if the whole is true.
//! Nesting has a bound, so hostile conditions cannot exhaust the stack.

use std::cmp::Ordering;

use crate::like;
use crate::table::{Table, Value};
use crate::words::{Word, Words, Wrong, before};

/// A condition.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
    Compare(String, Comparison, Value),
    Like(String, String),
    IsNull(String),
    In(String, Vec<Value>),
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    Unequal,
    Less,
    AtMost,
    More,
    AtLeast,
}

/// Parentheses and `NOT`s inside one another.
const DEPTH_MAX: usize = 32;

impl Filter {
    pub(crate) fn read(words: &mut Words) -> Result<Self, Wrong> {
        any(words, 0)
    }

    /// Keeps the rows of which this is true. An error names a column that is not there.
    pub fn apply(&self, table: &mut Table) -> Result<(), String> {
        self.check(table)?;
        let rows = std::mem::take(&mut table.rows);
        table.rows = rows.into_iter().filter(|row| self.is(table, row) == Some(true)).collect();
        Ok(())
    }

    fn check(&self, table: &Table) -> Result<(), String> {
        match self {
            Self::All(parts) | Self::Any(parts) => {
                parts.iter().try_for_each(|part| part.check(table))
            }
            Self::Not(part) => part.check(table),
            Self::Compare(name, ..)
            | Self::Like(name, _)
            | Self::IsNull(name)
            | Self::In(name, _) => table.column(name).map(|_| ()).ok_or_else(|| name.clone()),
        }
    }

    /// Whether it is true of a row, if that can be said.
    fn is(&self, table: &Table, row: &[Value]) -> Option<bool> {
        let value =
            |name: &str| table.column(name).and_then(|at| row.get(at)).unwrap_or(&Value::Null);
        match self {
            Self::All(parts) => join(parts.iter().map(|part| part.is(table, row)), false),
            Self::Any(parts) => join(parts.iter().map(|part| part.is(table, row)), true),
            Self::Not(part) => part.is(table, row).map(|it| !it),
            Self::Compare(name, how, other) => {
                value(name).compare(other).map(|order| how.suits(order))
            }
            Self::Like(name, pattern) => match value(name) {
                Value::Null => None,
                value => Some(like::matches(pattern, &value.to_string())),
            },
            Self::IsNull(name) => Some(*value(name) == Value::Null),
            Self::In(name, list) => {
                let equals =
                    |other| value(name).compare(other).map(|order| order == Ordering::Equal);
                join(list.iter().map(equals), true)
            }
        }
    }
}

/// `decisive` is what one part makes of the whole, whatever the others are.
fn join(parts: impl Iterator<Item = Option<bool>>, decisive: bool) -> Option<bool> {
    let mut all = Some(!decisive);
    for part in parts {
        match part {
            Some(it) if it == decisive => return Some(decisive),
            Some(_) => {}
            None => all = None,
        }
    }
    all
}

impl Comparison {
    fn suits(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::Unequal => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::AtMost => order.is_le(),
            Self::More => order.is_gt(),
            Self::AtLeast => order.is_ge(),
        }
    }
}

fn any(words: &mut Words, depth: usize) -> Result<Filter, Wrong> {
    let mut parts = vec![all(words, depth)?];
    while words.take("OR") {
        parts.push(all(words, depth)?);
    }
    Ok(single_or(parts, Filter::Any))
}

fn all(words: &mut Words, depth: usize) -> Result<Filter, Wrong> {
    let mut parts = vec![one(words, depth)?];
    while words.take("AND") {
        parts.push(one(words, depth)?);
    }
    Ok(single_or(parts, Filter::All))
}

fn single_or(mut parts: Vec<Filter>, join: fn(Vec<Filter>) -> Filter) -> Filter {
    match parts.len() {
        1 => parts.remove(0),
        _ => join(parts),
    }
}

fn one(words: &mut Words, depth: usize) -> Result<Filter, Wrong> {
    if depth == DEPTH_MAX {
        return Err(format!("the condition is nested more than {DEPTH_MAX} deep"));
    }
    if words.take("NOT") {
        return Ok(Filter::Not(Box::new(one(words, depth + 1)?)));
    }
    if words.take_symbol('(') {
        let inner = any(words, depth + 1)?;
        if !words.take_symbol(')') {
            return Err(format!("')' is missing{}", before(words.peek())));
        }
        return Ok(inner);
    }
    let column = words.name("a column's name")?;
    if words.take("IS") {
        let not = words.take("NOT");
        if !words.take("NULL") {
            return Err(format!("NULL is missing{}", before(words.peek())));
        }
        return Ok(negated(Filter::IsNull(column), not));
    }
    let not = words.take("NOT");
    if words.take("LIKE") {
        return Ok(negated(Filter::Like(column, words.text("a pattern in quotes")?), not));
    }
    if words.take("IN") {
        return Ok(negated(Filter::In(column, list(words)?), not));
    }
    if not {
        return Err(format!("LIKE or IN is missing{}", before(words.peek())));
    }
    Ok(Filter::Compare(column, comparison(words)?, literal(words)?))
}

fn negated(filter: Filter, not: bool) -> Filter {
    if not { Filter::Not(Box::new(filter)) } else { filter }
}

fn comparison(words: &mut Words) -> Result<Comparison, Wrong> {
    if words.take_symbol('=') {
        return Ok(Comparison::Equal);
    }
    if words.take_symbol('!') && words.take_symbol('=') {
        return Ok(Comparison::Unequal);
    }
    if words.take_symbol('<') {
        return Ok(match (words.take_symbol('='), words.take_symbol('>')) {
            (true, _) => Comparison::AtMost,
            (_, true) => Comparison::Unequal,
            _ => Comparison::Less,
        });
    }
    if words.take_symbol('>') {
        return Ok(if words.take_symbol('=') { Comparison::AtLeast } else { Comparison::More });
    }
    Err(format!("a comparison is missing{}", before(words.peek())))
}

fn list(words: &mut Words) -> Result<Vec<Value>, Wrong> {
    if !words.take_symbol('(') {
        return Err(format!("'(' is missing{}", before(words.peek())));
    }
    let mut values = vec![literal(words)?];
    while words.take_symbol(',') {
        values.push(literal(words)?);
    }
    if !words.take_symbol(')') {
        return Err(format!("')' is missing{}", before(words.peek())));
    }
    Ok(values)
}

fn literal(words: &mut Words) -> Result<Value, Wrong> {
    let minus = words.take_symbol('-');
    match words.next() {
        Some(Word::Number(number)) => match (number.parse(), number.parse::<f64>()) {
            (Ok(count), _) if !minus => Ok(Value::Count(count)),
            (_, Ok(real)) => Ok(Value::Real(if minus { -real } else { real })),
            _ => Err(format!("{number} is no number")),
        },
        Some(Word::Text(text)) if !minus => Ok(Value::from(text)),
        Some(Word::Bare(word)) if !minus && word.eq_ignore_ascii_case("NULL") => Ok(Value::Null),
        other => Err(format!("a value is missing{}", before(other.as_ref()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{count, text};

    fn rows_where(condition: &str) -> Result<String, String> {
        let mut table = Table::new(const { &[text("name"), count("clients")] });
        for (name, clients) in [("a", Some(1_u64)), ("b", Some(20)), ("c", None)] {
            table.add([name.into(), clients.into()]);
        }
        let mut words = Words::of(condition.as_bytes())?;
        let filter = Filter::read(&mut words)?;
        words.end()?;
        filter.apply(&mut table)?;
        Ok(table.rows.iter().map(|row| row[0].to_string()).collect())
    }

    #[test]
    fn conditions_mean_what_they_mean_to_a_server() {
        let cases = [
            ("clients = 1", "a"),
            ("CLIENTS <> 1", "b"),
            ("`clients` != '1'", "b"),
            ("clients > -1", "ab"),
            ("clients >= 20 or name = 'A'", "ab"),
            ("clients < 20 and name = 'b'", ""),
            ("not (clients <= 1)", "b"),
            ("clients is null", "c"),
            ("clients is not null", "ab"),
            ("name in ('a', 'c')", "ac"),
            ("name not in ('a')", "bc"),
            ("clients not in (1, null)", ""),
            ("name like '_'", "abc"),
            ("name not like 'a%'", "bc"),
            ("clients = null", ""),
            ("name = 'a' or name = 'b' and clients = 1", "a"),
        ];
        for (condition, want) in cases {
            assert_eq!(rows_where(condition).as_deref(), Ok(want), "{condition}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert_eq!(rows_where("size = 1"), Err("size".to_owned()));
        for condition in
            ["", "name", "name =", "name = 'a", "name = b", "(name = 'a'", "name ! 'a'", "name in"]
        {
            assert!(rows_where(condition).is_err(), "{condition}");
        }
        let deep = format!("{}name = 'a'{}", "(".repeat(500), ")".repeat(500));
        assert!(rows_where(&deep).unwrap_err().contains("nested"));
        assert!(rows_where(&"not ".repeat(1000)).unwrap_err().contains("nested"));
    }
}
