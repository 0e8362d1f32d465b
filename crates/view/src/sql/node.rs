//! An expression that is ready to be computed, and what servers make of values: nothing is neither true nor false, a
//! text that is a number is compared as one.

use std::cmp::Ordering;
use std::collections::HashSet;

use wire::like::{NameCase, NamePattern};

use super::run::{Run, Session, SqlError};
use crate::table::Value;

#[derive(Clone, Debug)]
pub(super) enum Node {
    Constant(Value),
    Column(usize),
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
    Compare(Comparison, Box<Self>, Box<Self>),
    Like(Box<Self>, Box<Self>),
    In(Box<Self>, Vec<Self>),
    IsNull(Box<Self>),
    Is(Box<Self>, bool),
    Arithmetic(Arithmetic, Box<Self>, Box<Self>),
    Cast(Target, Box<Self>),
    Case(Vec<(Self, Self)>, Box<Self>),
    Call(fn(&[Value], &Session) -> Value, Vec<Self>),
    Aggregate(Box<Aggregate>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    Unequal,
    Less,
    AtMost,
    More,
    AtLeast,
    /// `<=>`: nothing is the same as nothing.
    Same,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Plus,
    Minus,
    Times,
    Divided,
    /// `DIV`
    Whole,
    Modulo,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Whole,
    Real,
    Text,
}

/// One value of a group of rows.
#[derive(Clone, Debug)]
pub(super) struct Aggregate {
    pub(super) summary: Summary,
    /// `None`: the rows themselves.
    pub(super) of: Option<Node>,
    pub(super) is_distinct: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Summary {
    Count,
    Sum,
    Mean,
    Least,
    Greatest,
    /// All of them, with this between them.
    Joined(String),
}

/// Bytes of a joined text, as servers have it (`group_concat_max_len`).
const JOINED_MAX: usize = 1024;

impl Summary {
    pub(super) fn named(name: &str, separator: String) -> Option<Self> {
        Some(match name {
            "COUNT" => Self::Count,
            "SUM" => Self::Sum,
            "AVG" => Self::Mean,
            "MIN" => Self::Least,
            "MAX" | "ANY_VALUE" => Self::Greatest,
            "GROUP_CONCAT" => Self::Joined(separator),
            _ => return None,
        })
    }
}

/// The rows that an expression is about: one, or a group of which one stands for all.
#[derive(Clone, Copy)]
struct Rows<'a> {
    one: &'a [Value],
    group: &'a [Vec<Value>],
}

impl Node {
    pub(super) fn truth(is: bool) -> Self {
        Self::Constant(Value::Count(u64::from(is)))
    }

    pub(super) fn compare(how: Comparison, left: Self, right: Self) -> Self {
        Self::Compare(how, Box::new(left), Box::new(right))
    }

    pub(super) fn negated(self, is_negated: bool) -> Self {
        if is_negated { Self::Not(Box::new(self)) } else { self }
    }

    /// Whether it is an aggregate itself, or is made of some.
    pub(super) fn is_aggregate(&self) -> bool {
        match self {
            Self::Aggregate(_) => true,
            Self::Constant(_) | Self::Column(_) => false,
            Self::All(parts) | Self::Any(parts) | Self::Call(_, parts) => {
                parts.iter().any(Self::is_aggregate)
            }
            Self::Not(one) | Self::IsNull(one) | Self::Is(one, _) | Self::Cast(_, one) => {
                one.is_aggregate()
            }
            Self::Compare(_, one, two) | Self::Like(one, two) | Self::Arithmetic(_, one, two) => {
                one.is_aggregate() || two.is_aggregate()
            }
            Self::In(one, list) => one.is_aggregate() || list.iter().any(Self::is_aggregate),
            Self::Case(arms, other) => {
                other.is_aggregate()
                    || arms.iter().any(|(one, two)| one.is_aggregate() || two.is_aggregate())
            }
        }
    }

    pub(super) fn of_row(&self, run: &Run<'_>, row: &[Value]) -> Result<Value, SqlError> {
        self.of(run, Rows { one: row, group: &[] })
    }

    /// Of a group of rows. Of an empty one, there is nothing in any column.
    pub(super) fn of_group(&self, run: &Run<'_>, group: &[Vec<Value>]) -> Result<Value, SqlError> {
        self.of(run, Rows { one: group.first().map_or(&[], Vec::as_slice), group })
    }

    fn of(&self, run: &Run<'_>, rows: Rows<'_>) -> Result<Value, SqlError> {
        let value = self.compute(run, rows)?;
        run.fuel.copy(std::slice::from_ref(&value))?;
        Ok(value)
    }

    fn compute(&self, run: &Run<'_>, rows: Rows<'_>) -> Result<Value, SqlError> {
        Ok(match self {
            Self::Constant(value) => value.clone(),
            Self::Column(at) => rows.one.get(*at).cloned().unwrap_or(Value::Null),
            Self::All(parts) => truth(junction(run, parts, rows, false)?),
            Self::Any(parts) => truth(junction(run, parts, rows, true)?),
            Self::Not(inner) => truth(is_true(&inner.of(run, rows)?).map(|is| !is)),
            Self::Compare(how, left, right) => {
                let (left, right) = (left.of(run, rows)?, right.of(run, rows)?);
                truth(how.holds(&left, &right))
            }
            Self::Like(text, pattern) => match (text.of(run, rows)?, pattern.of(run, rows)?) {
                (Value::Null, _) | (_, Value::Null) => Value::Null,
                (text, pattern) => {
                    let (text, pattern) = (text.to_string(), pattern.to_string());
                    // It may take as long as this.
                    run.fuel.burn(text.len().saturating_mul(pattern.len()) / 64)?;
                    // As servers' default collations compare, without regard to case.
                    let (text, pattern) = (text.to_lowercase(), pattern.to_lowercase());
                    let pattern = NamePattern::new(&pattern, NameCase::Counts);
                    truth(Some(pattern.fits(text.as_bytes())))
                }
            },
            Self::In(one, list) => {
                let value = one.of(run, rows)?;
                let mut found = Some(false);
                for other in list {
                    match Comparison::Equal.holds(&value, &other.of(run, rows)?) {
                        Some(true) => return Ok(truth(Some(true))),
                        Some(false) => {}
                        None => found = None,
                    }
                }
                truth(found)
            }
            Self::IsNull(inner) => truth(Some(inner.of(run, rows)? == Value::Null)),
            Self::Is(inner, wanted) => truth(Some(is_true(&inner.of(run, rows)?) == Some(*wanted))),
            Self::Arithmetic(how, left, right) => {
                how.of(&left.of(run, rows)?, &right.of(run, rows)?)
            }
            Self::Cast(target, inner) => target.of(&inner.of(run, rows)?),
            Self::Case(arms, otherwise) => {
                for (condition, result) in arms {
                    if is_true(&condition.of(run, rows)?) == Some(true) {
                        return result.of(run, rows);
                    }
                }
                otherwise.of(run, rows)?
            }
            Self::Call(function, given) => {
                let given = given.iter().map(|one| one.of(run, rows));
                function(&given.collect::<Result<Vec<_>, _>>()?, run.source.session())
            }
            Self::Aggregate(aggregate) => aggregate.of(run, rows.group)?,
        })
    }
}

impl Aggregate {
    fn of(&self, run: &Run<'_>, group: &[Vec<Value>]) -> Result<Value, SqlError> {
        let Some(of) = &self.of else { return Ok(group.len().into()) };
        let mut values = Vec::new();
        let mut seen = HashSet::new();
        for row in group {
            let value = of.of_row(run, row)?;
            if value != Value::Null && (!self.is_distinct || seen.insert(key(&value))) {
                values.push(value);
            }
        }
        if matches!(self.summary, Summary::Count) {
            return Ok(values.len().into());
        }
        let count = values.len();
        let order = |one: &Value, two: &Value| one.compare(two).unwrap_or(Ordering::Equal);
        let numbers = |value: Value| match value {
            Value::Text(text) => Value::Real(number_before(&text)),
            other => other,
        };
        let sum = |values: Vec<Value>| {
            values.into_iter().map(numbers).reduce(|one, two| Arithmetic::Plus.of(&one, &two))
        };
        let value = match &self.summary {
            Summary::Count => None,
            Summary::Sum => sum(values),
            Summary::Mean => {
                sum(values).map(|sum| Arithmetic::Divided.of(&sum, &Value::from(count)))
            }
            Summary::Least => values.into_iter().min_by(order),
            Summary::Greatest => values.into_iter().max_by(order),
            Summary::Joined(separator) => joined(&values, separator),
        };
        Ok(value.unwrap_or(Value::Null))
    }
}

fn joined(values: &[Value], separator: &str) -> Option<Value> {
    let (first, rest) = values.split_first()?;
    let mut text = first.to_string();
    for value in rest {
        if text.len() >= JOINED_MAX {
            break;
        }
        text.push_str(separator);
        text.push_str(&value.to_string());
    }
    Some(text.chars().take(JOINED_MAX).collect::<String>().into())
}

/// What makes two values one, for `DISTINCT` and `GROUP BY`: letters are alike in either case.
pub(super) fn key(value: &Value) -> Option<String> {
    (*value != Value::Null).then(|| value.to_string().to_lowercase())
}

/// `decisive` is what one part makes of the whole, whatever the others are.
fn junction(
    run: &Run<'_>,
    parts: &[Node],
    rows: Rows<'_>,
    decisive: bool,
) -> Result<Option<bool>, SqlError> {
    let mut all = Some(!decisive);
    for part in parts {
        match is_true(&part.of(run, rows)?) {
            Some(it) if it == decisive => return Ok(Some(decisive)),
            Some(_) => {}
            None => all = None,
        }
    }
    Ok(all)
}

fn truth(is: Option<bool>) -> Value {
    is.map_or(Value::Null, |is| Value::Count(u64::from(is)))
}

/// Whether a value counts as true, if that can be said.
pub(super) fn is_true(value: &Value) -> Option<bool> {
    Some(match value {
        Value::Null => return None,
        Value::Count(count) => *count != 0,
        Value::Signed(number) => *number != 0,
        Value::Real(real) => *real != 0.0,
        Value::Text(text) => number_before(text) != 0.0,
    })
}

/// The number that a text begins with, or zero.
fn number_before(text: &str) -> f64 {
    let text = text.trim();
    let is_part = |letter: char| letter.is_ascii_digit() || ".-+eE".contains(letter);
    let mut end = text.find(|letter| !is_part(letter)).unwrap_or(text.len());
    // A sign or an exponent without digits belongs to no number; no number is longer than this.
    end = end.min(64);
    loop {
        match text.get(..end).map(str::parse) {
            Some(Ok(number)) => return number,
            _ if end == 0 => return 0.0,
            _ => end -= 1,
        }
    }
}

/// A value as a number.
pub(super) fn number(value: &Value) -> f64 {
    match value {
        Value::Null => 0.0,
        Value::Count(count) => *count as f64,
        Value::Signed(number) => *number as f64,
        Value::Real(real) => *real,
        Value::Text(text) => number_before(text),
    }
}

/// A whole number, if it is one.
fn whole(value: &Value) -> Option<i128> {
    match value {
        Value::Count(count) => Some(i128::from(*count)),
        Value::Signed(number) => Some(i128::from(*number)),
        Value::Text(text) => text.trim().parse::<i64>().ok().map(i128::from),
        Value::Null | Value::Real(_) => None,
    }
}

/// A whole number as a value, or nearly, if it is too large for one.
fn of_whole(number: i128) -> Value {
    match (u64::try_from(number), i64::try_from(number)) {
        (Ok(count), _) => Value::Count(count),
        (_, Ok(number)) => Value::Signed(number),
        _ => Value::Real(number as f64),
    }
}

impl Comparison {
    fn holds(self, left: &Value, right: &Value) -> Option<bool> {
        if self == Self::Same {
            let are_null = (*left == Value::Null, *right == Value::Null);
            return Some(match are_null {
                (false, false) => left.compare(right) == Some(Ordering::Equal),
                (one, two) => one && two,
            });
        }
        let order = left.compare(right)?;
        Some(match self {
            Self::Equal | Self::Same => order.is_eq(),
            Self::Unequal => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::AtMost => order.is_le(),
            Self::More => order.is_gt(),
            Self::AtLeast => order.is_ge(),
        })
    }
}

impl Arithmetic {
    fn of(self, left: &Value, right: &Value) -> Value {
        if *left == Value::Null || *right == Value::Null {
            return Value::Null;
        }
        if self != Self::Divided
            && let (Some(one), Some(two)) = (whole(left), whole(right))
        {
            // Of two numbers of 64 bits, nothing of this is too large for 128.
            let result = match self {
                Self::Plus => Some(one + two),
                Self::Minus => Some(one - two),
                Self::Times => one.checked_mul(two),
                Self::Whole | Self::Divided => one.checked_div(two),
                Self::Modulo => one.checked_rem(two),
            };
            return result.map_or(Value::Null, of_whole);
        }
        let (one, two) = (number(left), number(right));
        let result = match self {
            Self::Plus => one + two,
            Self::Minus => one - two,
            Self::Times => one * two,
            Self::Divided => one / two,
            Self::Whole => {
                return finite((one / two).trunc()).map_or(Value::Null, |it| of_whole(it as i128));
            }
            Self::Modulo => one % two,
        };
        finite(result).map_or(Value::Null, Value::Real)
    }
}

fn finite(number: f64) -> Option<f64> {
    number.is_finite().then_some(number)
}

impl Target {
    fn of(self, value: &Value) -> Value {
        match (self, value) {
            (_, Value::Null) => Value::Null,
            (Self::Text, _) => Value::from(value.to_string()),
            (Self::Real, _) => Value::Real(number(value)),
            (Self::Whole, _) => {
                let rounded = || number(value).round() as i128;
                of_whole(whole(value).unwrap_or_else(rounded))
            }
        }
    }
}
