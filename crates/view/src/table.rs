//! A table: what the console, the CSV page and the JSON interface show is all made as one of these.
//!
//! A column belongs to the program and never changes its meaning; a row has a value for each.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// In lower case, with underscores.
    pub name: &'static str,
    pub kind: Kind,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Count,
    /// Whole numbers that may be below zero.
    Signed,
    Real,
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Text(Cow<'static, str>),
    Count(u64),
    /// Below zero; what is not is a count.
    Signed(i64),
    Real(f64),
}

/// Columns and rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    pub columns: &'static [Column],
    pub rows: Vec<Vec<Value>>,
}

/// A column of text.
pub const fn text(name: &'static str) -> Column {
    Column { name, kind: Kind::Text }
}

/// A column of whole numbers.
pub const fn count(name: &'static str) -> Column {
    Column { name, kind: Kind::Count }
}

/// A column of numbers with a fraction.
pub const fn real(name: &'static str) -> Column {
    Column { name, kind: Kind::Real }
}

impl Table {
    pub const fn new(columns: &'static [Column]) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If it has not a value for each column.
    pub fn add<const N: usize>(&mut self, row: [Value; N]) {
        assert_eq!(N, self.columns.len(), "a value for each column");
        self.rows.push(row.into());
    }

    /// The place of a column, by its name in any case.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name.eq_ignore_ascii_case(name))
    }
}

impl Value {
    /// Numbers by value, texts without regard to case. `None`: one of them is nothing.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Null, _) | (_, Self::Null) => None,
            (Self::Count(one), Self::Count(two)) => Some(one.cmp(two)),
            _ => match (self.number(), other.number()) {
                (Some(one), Some(two)) => Some(one.total_cmp(&two)),
                _ => {
                    let (one, two) = (self.to_string(), other.to_string());
                    Some(one.to_lowercase().cmp(&two.to_lowercase()))
                }
            },
        }
    }

    /// In which order rows are sorted: nothing, numbers by value, texts without regard to case.
    pub fn sort_order(&self, other: &Self) -> Ordering {
        let rank = |value: &Self| match value {
            Self::Null => 0,
            Self::Count(_) | Self::Signed(_) | Self::Real(_) => 1,
            Self::Text(_) => 2,
        };
        match (self, other) {
            (Self::Count(one), Self::Count(two)) => one.cmp(two),
            (Self::Text(one), Self::Text(two)) => one.to_lowercase().cmp(&two.to_lowercase()),
            _ => rank(self).cmp(&rank(other)).then_with(|| {
                let number = |value: &Self| value.number().unwrap_or_default();
                number(self).total_cmp(&number(other))
            }),
        }
    }

    /// What it is as a number; of a text, only if it is one.
    fn number(&self) -> Option<f64> {
        match self {
            Self::Null => None,
            Self::Text(text) => text.trim().parse().ok().filter(|it: &f64| it.is_finite()),
            Self::Count(count) => Some(*count as f64),
            Self::Signed(number) => Some(*number as f64),
            Self::Real(real) => Some(*real),
        }
    }

    pub(crate) fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Null => serde_json::Value::Null,
            Self::Text(text) => text.as_ref().into(),
            Self::Count(count) => (*count).into(),
            Self::Signed(number) => (*number).into(),
            Self::Real(real) => (*real).into(),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => Ok(()),
            Self::Text(text) => formatter.write_str(text),
            Self::Count(count) => write!(formatter, "{count}"),
            Self::Signed(number) => write!(formatter, "{number}"),
            Self::Real(real) => write!(formatter, "{real:.3}"),
        }
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<u32> for Value {
    fn from(count: u32) -> Self {
        Self::Count(count.into())
    }
}

impl From<usize> for Value {
    fn from(count: usize) -> Self {
        Self::Count(count as u64)
    }
}

impl From<f64> for Value {
    fn from(real: f64) -> Self {
        Self::Real(real)
    }
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_compared_by_what_they_mean() {
        let of = |text: &'static str| Value::from(text);
        assert_eq!(Value::from(9_u64).compare(&of("10")), Some(Ordering::Less));
        assert_eq!(of("abc").compare(&of("ABC")), Some(Ordering::Equal));
        assert_eq!(of("b").compare(&Value::from(1_u64)), Some(Ordering::Greater));
        assert_eq!(Value::Null.compare(&of("")), None);
        assert_eq!(
            Table::new(const { &[text("name"), count("clients")] }).column("CLIENTS"),
            Some(1)
        );
        assert_eq!(Value::from(u64::MAX).compare(&(u64::MAX - 1).into()), Some(Ordering::Greater));
    }
}
