//! How far the clocks of this machine's place are from UTC.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds east of UTC at this time; none if that is not known.
pub fn seconds_east(at: SystemTime) -> i64 {
    let seconds = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let seconds = libc::time_t::try_from(seconds).unwrap_or_default();
    // SAFETY: all bytes zero are a `tm`, whose only pointer is never followed.
    let mut local: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are of values that live until the call is over, and nothing keeps them.
    let told = unsafe { libc::localtime_r(&raw const seconds, &raw mut local) };
    if told.is_null() { 0 } else { local.tm_gmtoff }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_place_is_further_than_a_day_from_utc() {
        assert!(seconds_east(SystemTime::now()).abs() <= 24 * 3600);
        assert!(seconds_east(UNIX_EPOCH).abs() <= 24 * 3600);
    }
}
