//! Wrong tokens at the HTTP port: each is answered late, and they are logged, once a minute at most.

use std::cell::Cell;
use std::time::{Duration, Instant};

use engine::visits::VisitOrigin;

/// As a wrong password at the console.
const DELAY: Duration = Duration::from_millis(500);

/// So often they are logged.
const PERIOD: Duration = Duration::from_mins(1);

/// Those that have come.
#[derive(Debug, Default)]
pub(super) struct WrongTokens {
    logged: Cell<Option<Instant>>,
    /// Since the last line in the log.
    count: Cell<u64>,
}

impl WrongTokens {
    /// One more has come from there: logs it, and waits.
    pub(super) async fn delay(&self, origin: VisitOrigin) {
        if let Some(count) = self.see(crate::worker::clock::read()) {
            tracing::warn!(from = ?origin, count, "wrong tokens at the HTTP port (http.token)");
        }
        tokio::time::sleep(DELAY).await;
    }

    /// Counts one. The answer is how many are to be logged now.
    fn see(&self, now: Instant) -> Option<u64> {
        let count = self.count.get() + 1;
        let is_due = self.logged.get().is_none_or(|at| PERIOD <= now.saturating_duration_since(at));
        self.count.set(if is_due { 0 } else { count });
        is_due.then(|| {
            self.logged.set(Some(now));
            count
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_logged_once_a_minute_with_its_number() {
        let wrong = WrongTokens::default();
        let begun = Instant::now();
        assert_eq!(wrong.see(begun), Some(1));
        assert!((0..1000).all(|_| wrong.see(begun).is_none()));
        assert_eq!(wrong.see(begun + PERIOD), Some(1001));
        assert_eq!(wrong.see(begun + PERIOD), None);
    }
}
