//! Values of a rule, as TOML has them.

use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::problem::{Origin, Report};
use crate::config::{suggest, units};

/// Reads values, and tells of each that is wrong.
pub(super) struct RuleReader<'r, 'a> {
    report: &'r mut Report<'a>,
    was_wrong: bool,
}

impl<'r, 'a> RuleReader<'r, 'a> {
    pub(super) const fn new(report: &'r mut Report<'a>) -> Self {
        Self { report, was_wrong: false }
    }

    pub(super) const fn was_wrong(&self) -> bool {
        self.was_wrong
    }

    pub(super) fn wrong(&mut self, span: Range<usize>, option: &str, message: String) {
        self.was_wrong = true;
        self.report.error(&Origin::Text(span), Some(option.to_owned()), message);
    }

    /// There is no such key in this table.
    pub(super) fn unknown(
        &mut self,
        span: Range<usize>,
        path: &str,
        name: &str,
        known: &[(&str, &str)],
    ) {
        let near = suggest::nearest(name, known.iter().map(|(name, _)| *name));
        let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        let shown: String = name.chars().take(64).flat_map(char::escape_debug).collect();
        self.wrong(span, &format!("{path}.{shown}"), format!("there is no such option{hint}"));
    }

    fn is_not(&mut self, value: &Spanned<DeValue<'_>>, option: &str, what: &str) {
        self.wrong(value.span(), option, format!("this must be {what}"));
    }

    pub(super) fn text<'v>(
        &mut self,
        value: &'v Spanned<DeValue<'_>>,
        option: &str,
    ) -> Option<&'v str> {
        let text = value.get_ref().as_str();
        if text.is_none() {
            self.is_not(value, option, "a text");
        }
        text
    }

    /// A text, or a list of them, each with its place.
    pub(super) fn texts<'v>(
        &mut self,
        value: &'v Spanned<DeValue<'_>>,
        option: &str,
    ) -> Vec<(&'v str, Range<usize>)> {
        let Some(items) = value.get_ref().as_array() else {
            return self.text(value, option).map(|text| (text, value.span())).into_iter().collect();
        };
        if items.is_empty() {
            self.wrong(value.span(), option, "an empty list matches nothing".to_owned());
        }
        let mut texts = Vec::new();
        for item in items.iter() {
            texts.extend(self.text(item, option).map(|text| (text, item.span())));
        }
        texts
    }

    pub(super) fn flag(&mut self, value: &Spanned<DeValue<'_>>, option: &str) -> Option<bool> {
        let flag = value.get_ref().as_bool();
        if flag.is_none() {
            self.is_not(value, option, "true or false");
        }
        flag
    }

    pub(super) fn number(
        &mut self,
        value: &Spanned<DeValue<'_>>,
        option: &str,
        range: RangeInclusive<u32>,
    ) -> Option<u32> {
        let number = value.get_ref().as_integer().and_then(|number| {
            let number = i64::from_str_radix(number.as_str(), number.radix()).ok()?;
            u32::try_from(number).ok().filter(|number| range.contains(number))
        });
        if number.is_none() {
            let what = format!("a number from {} to {}", range.start(), range.end());
            self.is_not(value, option, &what);
        }
        number
    }

    /// A number between 0 and 1.
    pub(super) fn share(&mut self, value: &Spanned<DeValue<'_>>, option: &str) -> Option<f64> {
        let text = match value.get_ref() {
            DeValue::Float(it) => Some(it.as_str()),
            DeValue::Integer(it) => Some(it.as_str()),
            _ => None,
        };
        let share = text.and_then(|text| text.replace('_', "").parse::<f64>().ok());
        let share = share.filter(|share| *share > 0.0 && *share <= 1.0);
        if share.is_none() {
            self.is_not(value, option, "a number above 0, and at most 1");
        }
        share
    }

    pub(super) fn duration(
        &mut self,
        value: &Spanned<DeValue<'_>>,
        option: &str,
        range: RangeInclusive<Duration>,
    ) -> Option<Duration> {
        let duration = match units::duration(self.text(value, option)?) {
            Ok(duration) => duration,
            Err(message) => {
                self.wrong(value.span(), option, message);
                return None;
            }
        };
        if !range.contains(&duration) {
            let (from, to) =
                (units::show_duration(*range.start()), units::show_duration(*range.end()));
            self.is_not(value, option, &format!("from {from} to {to}"));
            return None;
        }
        Some(duration)
    }

    pub(super) fn size(
        &mut self,
        value: &Spanned<DeValue<'_>>,
        option: &str,
        range: RangeInclusive<u64>,
    ) -> Option<u64> {
        let size = match units::size(self.text(value, option)?) {
            Ok(size) => size,
            Err(message) => {
                self.wrong(value.span(), option, message);
                return None;
            }
        };
        if !range.contains(&size) {
            let (from, to) = (units::show_size(*range.start()), units::show_size(*range.end()));
            self.is_not(value, option, &format!("from {from} to {to}"));
            return None;
        }
        Some(size)
    }

    pub(super) fn table<'v, 'd>(
        &mut self,
        value: &'v Spanned<DeValue<'d>>,
        option: &str,
    ) -> Option<&'v DeTable<'d>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            self.is_not(value, option, "a table: { ... }");
        }
        table
    }

    /// What these keys of a table have; others are told of.
    pub(super) fn fields<'v, 'd, const N: usize>(
        &mut self,
        value: &'v Spanned<DeValue<'d>>,
        option: &str,
        names: [&'static str; N],
    ) -> Option<[Option<&'v Spanned<DeValue<'d>>>; N]> {
        let table = self.table(value, option)?;
        let known = names.map(|name| (name, ""));
        for (key, _) in table.iter() {
            let name: &str = key.get_ref();
            if !names.contains(&name) {
                self.unknown(key.span(), option, name, &known);
            }
        }
        Some(names.map(|name| table.get(name)))
    }

    /// A text that this table must have.
    pub(super) fn needed<'v>(
        &mut self,
        field: Option<&'v Spanned<DeValue<'_>>>,
        whole: &Spanned<DeValue<'_>>,
        option: &str,
    ) -> Option<&'v str> {
        match field {
            Some(value) => self.text(value, option),
            None => {
                self.wrong(whole.span(), option, "this is missing".to_owned());
                None
            }
        }
    }
}
