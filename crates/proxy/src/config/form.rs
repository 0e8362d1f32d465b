//! The forms in which options are written: how a value is read, shown and described.
//!
//! A form knows the place in the plan (or in one user) that its option sets, and nothing of names,
//! defaults or documents. Invariant: what a form shows, it reads back as the same value, but for secrets, which it never
//! shows.

use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use engine::time_limits::Bound;
use toml::Spanned;
use toml::de::DeValue;

use super::plan::Password;
use super::{suggest, units};

/// How an option of `T` is written, and where its value goes.
pub(super) enum Form<T: 'static> {
    Count {
        range: RangeInclusive<u32>,
        place: fn(&mut T) -> &mut u32,
    },
    /// A number, or a word for what is done without one.
    CountOr {
        word: &'static str,
        range: RangeInclusive<u32>,
        place: fn(&mut T) -> &mut Option<u32>,
    },
    Duration {
        range: RangeInclusive<Duration>,
        place: fn(&mut T) -> &mut Duration,
    },
    /// A duration, or "none".
    DurationOrNone {
        range: RangeInclusive<Duration>,
        place: fn(&mut T) -> &mut Option<Duration>,
    },
    /// A duration, "none", or "inherit": what a wider rule says.
    Bound {
        range: RangeInclusive<Duration>,
        place: fn(&mut T) -> &mut Bound,
    },
    Size {
        range: RangeInclusive<u64>,
        place: fn(&mut T) -> &mut u64,
    },
    Choice(&'static (dyn Choice<T> + Sync)),
    Text {
        allowed: &'static str,
        show: fn(&T) -> Option<String>,
        set: fn(&mut T, &str) -> Taken,
    },
    /// A text that is never repeated.
    Secret {
        allowed: &'static str,
        get: fn(&T) -> Option<Password>,
        set: fn(&mut T, &str) -> Taken,
    },
    /// A list of texts, or a single one.
    List {
        allowed: &'static str,
        show: fn(&T) -> Vec<String>,
        clear: fn(&mut T),
        push: fn(&mut T, &str) -> Taken,
    },
}

/// Whether a text was taken as a value; else why not.
pub(super) type Taken = Result<(), String>;

/// What is wrong with a value, and with which part of the document.
pub(super) type Wrong = (Range<usize>, String);

/// One of a few named values.
pub(super) trait Choice<T> {
    fn names(&self) -> Vec<&'static str>;
    /// The name of what is set.
    fn name(&self, target: &mut T) -> Option<&'static str>;
    /// Sets what is named so, if there is such a name.
    fn choose(&self, target: &mut T, name: &str) -> bool;
}

/// The named values of a type, and the place for one of them.
pub(super) struct Named<T: 'static, V: 'static> {
    pub(super) values: &'static [(&'static str, V)],
    pub(super) place: fn(&mut T) -> &mut V,
}

impl<T, V: Clone + PartialEq> Choice<T> for Named<T, V> {
    fn names(&self) -> Vec<&'static str> {
        self.values.iter().map(|(name, _)| *name).collect()
    }

    fn name(&self, target: &mut T) -> Option<&'static str> {
        let value = (self.place)(target);
        self.values.iter().find(|(_, known)| known == value).map(|(name, _)| *name)
    }

    fn choose(&self, target: &mut T, name: &str) -> bool {
        let found = self.values.iter().find(|(known, _)| *known == name);
        if let Some((_, value)) = found {
            (self.place)(target).clone_from(value);
        }
        found.is_some()
    }
}

impl<T> Form<T> {
    /// A text as a value of this form: numbers stand without quotes, and so do lists.
    pub(super) fn value_of<'a>(&self, text: &'a str) -> DeValue<'a> {
        let parsed = || DeValue::parse(text).ok().map(Spanned::into_inner);
        let value = match self {
            Self::Count { .. }
            | Self::CountOr { .. }
            | Self::DurationOrNone { .. }
            | Self::Bound { .. } => parsed().filter(DeValue::is_integer),
            Self::List { .. } => parsed().filter(DeValue::is_array),
            Self::Duration { .. }
            | Self::Size { .. }
            | Self::Choice(_)
            | Self::Text { .. }
            | Self::Secret { .. } => None,
        };
        value.unwrap_or_else(|| DeValue::String(text.into()))
    }

    /// Reads a value into its place. All that is wrong is told, each with where it stands.
    pub(super) fn read(
        &self,
        value: &Spanned<DeValue<'_>>,
        target: &mut T,
        wrong: &mut Vec<Wrong>,
    ) {
        if let (Self::List { allowed, clear, push, .. }, DeValue::Array(items)) =
            (self, value.get_ref())
        {
            clear(target);
            for item in items.iter() {
                let taken = text(item, allowed).and_then(|text| push(target, text));
                wrong.extend(taken.err().map(|what| (item.span(), what)));
            }
        } else {
            let taken = self.read_one(value, target);
            wrong.extend(taken.err().map(|what| (value.span(), what)));
        }
    }

    fn read_one(&self, value: &Spanned<DeValue<'_>>, target: &mut T) -> Taken {
        match self {
            Self::Count { range, place } => *place(target) = self.count(value, range)?,
            Self::CountOr { word, range, place } => {
                let none = value.get_ref().as_str() == Some(word);
                *place(target) = if none { None } else { Some(self.count(value, range)?) };
            }
            Self::Duration { range, place } => *place(target) = self.duration(value, range)?,
            Self::DurationOrNone { range, place } => {
                // Elsewhere, no limit is often written as zero. No other number needs no unit.
                let none = value.get_ref().as_str() == Some(NONE) || integer(value) == Some(0);
                *place(target) = if none { None } else { Some(self.duration(value, range)?) };
            }
            Self::Bound { range, place } => {
                *place(target) = match value.get_ref().as_str() {
                    Some(INHERIT) => Bound::Inherited,
                    Some(NONE) => Bound::Unlimited,
                    _ if integer(value) == Some(0) => Bound::Unlimited,
                    _ => Bound::Within(self.duration(value, range)?),
                };
            }
            Self::Size { range, place } => {
                let size = units::size(self.text(value)?)?;
                *place(target) = within(size, range, units::show_size)?;
            }
            Self::Choice(choice) => {
                let name = self.text(value)?;
                if !choice.choose(target, name) {
                    let near = match choice.names().contains(&FORMER.1) && name == FORMER.0 {
                        true => Some(FORMER.1),
                        false => suggest::nearest(&name.to_lowercase(), choice.names()),
                    };
                    let hint = near.map(|near| format!("; did you mean \"{near}\"?"));
                    let hint = hint.unwrap_or_default();
                    return Err(format!("{name:?} is not {}{hint}", self.allowed()));
                }
            }
            Self::Text { set, .. } => set(target, self.text(value)?)?,
            Self::Secret { set, .. } => set(target, self.text(value)?)?,
            Self::List { clear, push, .. } => {
                clear(target);
                push(target, self.text(value)?)?;
            }
        }
        Ok(())
    }

    /// What may be written, in words.
    pub(super) fn allowed(&self) -> String {
        match self {
            Self::Count { range, .. } => format!("a number{}", bounds(range, u32::to_string)),
            Self::CountOr { word, range, .. } => {
                format!("\"{word}\" or a number{}", bounds(range, u32::to_string))
            }
            Self::Duration { range, .. } => {
                let bounds = bounds(range, |bound| units::show_duration(*bound));
                format!("a duration with its unit, like \"500ms\" or \"10s\",{bounds}")
            }
            Self::DurationOrNone { range, .. } => {
                let bounds = bounds(range, |bound| units::show_duration(*bound));
                format!("\"none\" or a duration with its unit, like \"10s\" or \"2m\",{bounds}")
            }
            Self::Bound { range, .. } => {
                let bounds = bounds(range, |bound| units::show_duration(*bound));
                format!(
                    "\"{INHERIT}\", \"none\" or a duration with its unit, like \"10s\",{bounds}"
                )
            }
            Self::Size { range, .. } => {
                let bounds = bounds(range, |bound| units::show_size(*bound));
                format!("a size with its unit, like \"64KiB\" or \"16MiB\",{bounds}")
            }
            Self::Choice(choice) => {
                let names: Vec<_> =
                    choice.names().into_iter().map(|name| format!("\"{name}\"")).collect();
                match names.split_last() {
                    Some((last, rest)) if !rest.is_empty() => {
                        format!("{} or {last}", rest.join(", "))
                    }
                    _ => names.join(""),
                }
            }
            Self::Text { allowed, .. } | Self::Secret { allowed, .. } => (*allowed).to_owned(),
            Self::List { allowed, .. } => format!("a list; each item is {allowed}"),
        }
    }

    /// The value as it would be written, if there is one to be shown; of a secret, that it is set.
    pub(super) fn show(&self, target: &mut T) -> Option<String> {
        let quote = |text: &dyn Display| format!("\"{text}\"");
        Some(match self {
            Self::Count { place, .. } => place(target).to_string(),
            Self::CountOr { word, place, .. } => {
                place(target).map_or_else(|| quote(word), |count| count.to_string())
            }
            Self::Duration { place, .. } => quote(&units::show_duration(*place(target))),
            Self::DurationOrNone { place, .. } => {
                quote(&place(target).map_or_else(|| NONE.to_owned(), units::show_duration))
            }
            Self::Bound { place, .. } => quote(&match *place(target) {
                Bound::Inherited => INHERIT.to_owned(),
                Bound::Unlimited => NONE.to_owned(),
                Bound::Within(max) => units::show_duration(max),
            }),
            Self::Size { place, .. } => quote(&units::show_size(*place(target))),
            Self::Choice(choice) => quote(&choice.name(target)?),
            Self::Text { show, .. } => toml_text(&show(target)?),
            Self::Secret { get, .. } => return get(target).map(|_| SET.to_owned()),
            Self::List { show, .. } => {
                let items: Vec<_> = show(target).iter().map(|item| toml_text(item)).collect();
                format!("[{}]", items.join(", "))
            }
        })
    }

    fn count(
        &self,
        value: &Spanned<DeValue<'_>>,
        range: &RangeInclusive<u32>,
    ) -> Result<u32, String> {
        if !value.get_ref().is_integer() {
            return Err(wrong_type(value, &self.allowed()));
        }
        let out_of_range = || format!("out of range: it must be {}", self.allowed());
        let count = integer(value).and_then(|count| u32::try_from(count).ok());
        count.filter(|count| range.contains(count)).ok_or_else(out_of_range)
    }

    fn duration(
        &self,
        value: &Spanned<DeValue<'_>>,
        range: &RangeInclusive<Duration>,
    ) -> Result<Duration, String> {
        let duration = units::duration(self.text(value)?)?;
        within(duration, range, units::show_duration)
    }

    fn text<'a>(&self, value: &'a Spanned<DeValue<'_>>) -> Result<&'a str, String> {
        text(value, &self.allowed())
    }
}

fn text<'a>(value: &'a Spanned<DeValue<'_>>, allowed: &str) -> Result<&'a str, String> {
    value.get_ref().as_str().ok_or_else(|| wrong_type(value, allowed))
}

/// Tells that a value is of another type than it must be. Does not repeat it: it may be secret.
fn wrong_type(value: &Spanned<DeValue<'_>>, allowed: &str) -> String {
    let found = match value.get_ref() {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a number alone",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    };
    format!("{found} cannot stand here: it must be {allowed}")
}

/// A text as TOML writes it.
fn toml_text(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// An integer that fits into what is expected anywhere.
fn integer(value: &Spanned<DeValue<'_>>) -> Option<i64> {
    let integer = value.get_ref().as_integer()?;
    i64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

fn within<V: PartialOrd + Copy>(
    value: V,
    range: &RangeInclusive<V>,
    show: impl Fn(V) -> String,
) -> Result<V, String> {
    if range.contains(&value) {
        return Ok(value);
    }
    let bounds = bounds(range, |bound| show(*bound));
    Err(format!("{} is out of range: it must be{bounds}", show(value)))
}

fn bounds<V>(range: &RangeInclusive<V>, show: impl Fn(&V) -> String) -> String {
    format!(" from {} to {}", show(range.start()), show(range.end()))
}

pub(super) const NONE: &str = "none";

/// What the next wider rule says.
const INHERIT: &str = "inherit";

/// What is shown of a secret.
const SET: &str = "set";

/// A name that a value had before version 0.1, and the one that it has.
const FORMER: (&str, &str) = ("carried", "pass-through");
