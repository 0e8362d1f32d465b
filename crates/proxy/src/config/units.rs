//! Durations and sizes as people write them: a number and its unit, "500ms", "1h30m", "16MiB".
//!
//! Invariants: what is shown is read back as the same value; nothing overflows.

use std::time::Duration;

/// Reads a sum of whole numbers with units: "500ms", "10s", "1h30m".
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let milliseconds = sum(text, &DURATIONS)?;
    Ok(Duration::from_millis(milliseconds))
}

/// Writes a duration in the largest unit that needs no fraction.
pub(super) fn show_duration(duration: Duration) -> String {
    show(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX), &DURATIONS, "0s")
}

/// Reads a size: "64KiB", "1GiB".
pub(super) fn size(text: &str) -> Result<u64, String> {
    sum(text, &SIZES)
}

/// Writes a size in the largest unit that needs no fraction.
pub(super) fn show_size(size: u64) -> String {
    show(size, &SIZES, "0B")
}

/// Units, the largest first, each in the smallest.
type Units = [(&'static str, u64)];

const DURATIONS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
const SIZES: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

fn sum(text: &str, units: &Units) -> Result<u64, String> {
    let names = || {
        let names: Vec<_> = units.iter().rev().map(|(name, _)| *name).collect();
        names.join(", ")
    };
    let mut rest = text;
    let mut total = 0_u64;
    loop {
        let digits = rest.len() - rest.trim_start_matches(|byte: char| byte.is_ascii_digit()).len();
        let (number, tail) = rest.split_at(digits);
        if number.is_empty() {
            return Err(format!("{text:?} is not a whole number with a unit ({})", names()));
        }
        let tail = tail.strip_prefix(' ').unwrap_or(tail);
        let end = tail.find(|byte: char| !byte.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        if unit.is_empty() {
            return Err(match tail {
                "" => format!("{text:?} has no unit ({})", names()),
                _ => format!("{text:?} is not a whole number with a unit ({})", names()),
            });
        }
        let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
            return Err(format!("{unit:?} in {text:?} is no unit; the units are {}", names()));
        };
        let part = number.parse::<u64>().ok().and_then(|number| number.checked_mul(*factor));
        total = part
            .and_then(|part| total.checked_add(part))
            .ok_or_else(|| format!("{text:?} is too large"))?;
        rest = tail;
        if rest.is_empty() {
            return Ok(total);
        }
    }
}

fn show(value: u64, units: &Units, zero: &str) -> String {
    match units.iter().find(|(_, factor)| value != 0 && value.is_multiple_of(*factor)) {
        Some((unit, factor)) => format!("{}{unit}", value / factor),
        None => zero.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_numbers_with_units() {
        for (text, milliseconds) in [
            ("0s", 0),
            ("500ms", 500),
            ("10s", 10_000),
            ("10 s", 10_000),
            ("1h30m", 5_400_000),
            ("2d", 172_800_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for (text, want) in [
            ("", "not a whole number"),
            ("10", "no unit"),
            ("1h30", "no unit"),
            ("1.5s", "not a whole number"),
            ("-1s", "not a whole number"),
            ("10sec", "\"sec\" in \"10sec\" is no unit; the units are ms, s, m, h, d"),
            ("99999999999999999999s", "too large"),
            ("9999999999999999d", "too large"),
            ("10s\u{1F600}", "not a whole number"),
        ] {
            let error = duration(text).expect_err(text);
            assert!(error.contains(want), "{text}: {error}");
        }
    }

    #[test]
    fn sizes_are_numbers_with_units() {
        assert_eq!(size("1GiB"), Ok(1 << 30));
        assert_eq!(size("64KiB"), Ok(65_536));
        for text in ["16M", "16MB", "16", "16TiB", "99999999999GiB"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_largest_unit_without_a_fraction_is_shown() {
        for (seconds, text) in [(0, "0s"), (60, "1m"), (90, "90s"), (28_800, "8h"), (86_400, "1d")]
        {
            assert_eq!(show_duration(Duration::from_secs(seconds)), text);
        }
        assert_eq!(show_size(1 << 30), "1GiB");
        assert_eq!(show_size(1500), "1500B");
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(value in any::<u64>()) {
            prop_assert_eq!(size(&show_size(value)), Ok(value));
            let time = Duration::from_millis(value);
            prop_assert_eq!(duration(&show_duration(time)), Ok(time));
        }

        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _ = duration(&text);
            let _ = size(&text);
        }
    }
}
