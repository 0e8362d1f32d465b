//! Times as they are shown.
//!
//! Knows no time zone but UTC. Invariant: no number of seconds has no date.

use time::UtcDateTime;

/// A time as people write it, in UTC. What is beyond the calendar's last year is its end.
pub fn utc(seconds: u64) -> String {
    let known = i64::try_from(seconds).map(UtcDateTime::from_unix_timestamp);
    let at = known.ok().and_then(Result::ok).unwrap_or(UtcDateTime::MAX);
    let (date, month) = (at.date(), u8::from(at.month()));
    format!("{}-{month:02}-{:02} {:02}:{:02} UTC", date.year(), date.day(), at.hour(), at.minute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, want) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_790_000_000, "2026-09-21 14:13 UTC"),
            (4_107_542_399, "2100-02-28 23:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
            (u64::MAX, "9999-12-31 23:59 UTC"),
        ] {
            assert_eq!(utc(seconds), want);
        }
    }
}
