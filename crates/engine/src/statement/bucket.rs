//! How many statements there may be in a time, for each of what has a rate of its own: buckets from which each statement
//! takes a token, and which fill again as time goes by.
//!
//! Bounded: of so many buckets, those that are full again are forgotten first; where that is not enough, all are, so that
//! a statement too many may pass, and none is refused that should not be.

use std::collections::HashMap;
use std::time::Instant;

use super::rule::RuleRate;

/// The buckets of one rule.
#[derive(Debug, Default)]
pub struct Buckets(HashMap<Box<[u8]>, Bucket>);

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

const BUCKETS_MAX: usize = 64 << 10;

impl Buckets {
    /// Whether one more statement may run now.
    pub fn take(&mut self, rate: &RuleRate, key: &[u8], now: Instant) -> bool {
        let most = f64::from(rate.burst.max(1));
        let per_second = f64::from(rate.statements) / rate.within.as_secs_f64().max(1e-3);
        let filled = |bucket: &Bucket| {
            let past = now.saturating_duration_since(bucket.at).as_secs_f64();
            (bucket.tokens + past * per_second).min(most)
        };
        if !self.0.contains_key(key) && self.0.len() >= BUCKETS_MAX {
            self.0.retain(|_, bucket| filled(bucket) < most);
            if self.0.len() >= BUCKETS_MAX {
                self.0.clear();
            }
        }
        let bucket = match self.0.get_mut(key) {
            Some(bucket) => bucket,
            None => self.0.entry(key.into()).or_insert(Bucket { tokens: most, at: now }),
        };
        let tokens = filled(bucket);
        let may = tokens >= 1.0;
        *bucket = Bucket { tokens: if may { tokens - 1.0 } else { tokens }, at: now };
        may
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::statement::rule::RatePer;

    fn rate(statements: u32, seconds: u64, burst: u32) -> RuleRate {
        let within = Duration::from_secs(seconds);
        RuleRate { per: RatePer::User, statements, within, burst }
    }

    #[test]
    fn so_many_pass_and_more_as_time_goes_by() {
        let (mut buckets, start) = (Buckets::default(), Instant::now());
        let rate = rate(10, 1, 3);
        let passed = |buckets: &mut Buckets, key: &[u8], at| {
            (0..20).filter(|_| buckets.take(&rate, key, at)).count()
        };
        assert_eq!(passed(&mut buckets, b"a", start), 3);
        assert_eq!(passed(&mut buckets, b"b", start), 3, "another one has a bucket of its own");
        assert_eq!(passed(&mut buckets, b"a", start + Duration::from_millis(210)), 2);
        assert_eq!(
            passed(&mut buckets, b"a", start + Duration::from_secs(100)),
            3,
            "no more than a burst"
        );
    }

    #[test]
    fn buckets_are_bounded() {
        let (mut buckets, start) = (Buckets::default(), Instant::now());
        let rate = rate(1, 3600, 1);
        for key in 0..3 * BUCKETS_MAX {
            assert!(buckets.take(&rate, &key.to_le_bytes(), start));
            assert!(buckets.0.len() <= BUCKETS_MAX);
        }
    }
}
