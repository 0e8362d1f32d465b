//! Times as logs show them, in UTC.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use time::UtcDateTime;

/// Since 1970, by a clock that may be set to anything.
pub(crate) fn since_1970(at: SystemTime) -> Duration {
    at.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// As in `2026-11-26T18:06:40.123456Z`.
pub(crate) fn iso(at: SystemTime) -> String {
    let (at, micros) = split(at);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{micros:06}Z",
        at.year(),
        u8::from(at.month()),
        at.day(),
        at.hour(),
        at.minute(),
        at.second()
    )
}

/// As in `261126 18:06:40.123456`, which is how slow logs begin an entry.
pub(crate) fn short(at: SystemTime) -> String {
    let (at, micros) = split(at);
    format!(
        "{:02}{:02}{:02} {:02}:{:02}:{:02}.{micros:06}",
        at.year() % 100,
        u8::from(at.month()),
        at.day(),
        at.hour(),
        at.minute(),
        at.second()
    )
}

fn split(at: SystemTime) -> (UtcDateTime, u32) {
    let since = since_1970(at);
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    let at = UtcDateTime::from_unix_timestamp(seconds).unwrap_or(UtcDateTime::MAX);
    (at, since.subsec_micros())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_utc() {
        for (seconds, micros, long, brief) in [
            (0, 0, "1970-01-01T00:00:00.000000Z", "700101 00:00:00.000000"),
            (1_795_716_400, 123_456, "2026-11-26T18:06:40.123456Z", "261126 18:06:40.123456"),
            (1_709_164_799, 9, "2024-02-28T23:59:59.000009Z", "240228 23:59:59.000009"),
            (1_709_164_800, 0, "2024-02-29T00:00:00.000000Z", "240229 00:00:00.000000"),
        ] {
            let at = UNIX_EPOCH + Duration::new(seconds, micros * 1000);
            assert_eq!((&*iso(at), &*short(at)), (long, brief));
        }
        let never = UNIX_EPOCH + Duration::from_secs(u64::MAX / 4);
        assert!(iso(never).starts_with("9999-12-31"), "{}", iso(never));
        assert_eq!(iso(UNIX_EPOCH - Duration::from_secs(5)), "1970-01-01T00:00:00.000000Z");
    }
}
