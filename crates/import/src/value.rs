//! Values as TOML writes them.

use std::fmt::Write;

/// A value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    Number(u64),
    List(Vec<String>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<Vec<String>> for Value {
    fn from(list: Vec<String>) -> Self {
        Self::List(list)
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => f.write_str(&quoted(text)),
            Self::Number(number) => write!(f, "{number}"),
            Self::List(items) => {
                let items: Vec<_> = items.iter().map(|item| quoted(item)).collect();
                write!(f, "[{}]", items.join(", "))
            }
        }
    }
}

/// A TOML string: in single quotes where that spares backslashes.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = !text.contains('\'') && !text.chars().any(char::is_control);
    if is_plain && text.contains(['\\', '"']) {
        return format!("'{text}'");
    }
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter.is_control() => {
                // A string takes everything.
                let _ = write!(quoted, "\\u{:04X}", u32::from(letter));
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

/// A time in milliseconds, in the largest unit that needs no fraction.
pub(crate) fn time(milliseconds: u64) -> Value {
    let units = [(3_600_000, "h"), (60_000, "m"), (1000, "s")];
    let whole = |&&(unit, _): &&(u64, &str)| milliseconds != 0 && milliseconds.is_multiple_of(unit);
    Value::Text(match units.iter().find(whole) {
        Some((unit, name)) => format!("{}{name}", milliseconds / unit),
        None if milliseconds == 0 => "0s".to_owned(),
        None => format!("{milliseconds}ms"),
    })
}

/// A size in bytes, rounded up to a whole KiB.
pub(crate) fn size(bytes: u64) -> Value {
    let kib = bytes.div_ceil(1024);
    Value::Text(match kib.is_multiple_of(1024) && kib != 0 {
        true => format!("{}MiB", kib / 1024),
        false => format!("{kib}KiB"),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_are_quoted_as_they_need_it() {
        let cases = [
            ("a", "\"a\""),
            (r"^\s", r"'^\s'"),
            ("say \"a\"", "'say \"a\"'"),
            ("it's \\", r#""it's \\""#),
            ("a\nb", r#""a\u000Ab""#),
        ];
        for (text, want) in cases {
            assert_eq!(quoted(text), want);
        }
    }

    #[test]
    fn times_and_sizes_have_units() {
        let times = [(0, "0s"), (1500, "1500ms"), (2000, "2s"), (60_000, "1m"), (7_200_000, "2h")];
        for (milliseconds, want) in times {
            assert_eq!(time(milliseconds), want.into());
        }
        for (bytes, want) in [(0, "0KiB"), (1025, "2KiB"), (64 << 20, "64MiB")] {
            assert_eq!(size(bytes), want.into());
        }
    }

    proptest! {
        #[test]
        fn what_is_quoted_is_read_again(text in any::<String>()) {
            let table: toml::Table = toml::from_str(&format!("a = {}", quoted(&text))).expect("is TOML");
            prop_assert_eq!(table["a"].as_str(), Some(&*text));
        }
    }
}
