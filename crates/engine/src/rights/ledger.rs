//! What the watch over one server's rights has found, and until when a session's rights are known to be the server's.
//!
//! The watch compares what it sees with what it saw the last time ([`LedgerLook`]); all workers read until when nothing
//! had changed ([`Ledger`]). Times are those since the process began.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Since when a server is watched, and until when nothing had changed beside Flifo.
#[derive(Debug, Default)]
pub struct Ledger {
    /// In milliseconds; beyond all times, as long as nothing was ever seen.
    since: AtomicU64,
    until: AtomicU64,
}

/// What the watch has seen of a server.
#[derive(Debug, Default)]
pub struct LedgerLook {
    /// The checksums of its tables of rights, and of its global variables.
    seen: Option<Box<[u8]>>,
    /// How many `FLUSH` statements it had run.
    flushes: Option<u64>,
    /// Until when these are counted: tables that were written to by hand count from `FLUSH PRIVILEGES` on.
    doubted_until: Duration,
}

/// For so long after tables have changed, the server is asked whether a `FLUSH` statement has run.
const DOUBT: Duration = Duration::from_mins(1);

impl Ledger {
    /// A look that began at this time has found nothing changed since the one before it, whose end no era has missed.
    /// The first one only tells since when it is watched.
    pub fn see(&self, begun: Duration) {
        let begun = millis(begun).max(1);
        if self.since.load(Relaxed) == 0 {
            self.since.store(begun, Relaxed);
        }
        self.until.store(begun, Relaxed);
    }

    /// Until when the rights of a session that logged in at this time are known to be the server's.
    pub fn known_until(&self, login: Duration) -> Duration {
        let since = self.since.load(Relaxed);
        match since > 0 && millis(login) >= since {
            true => login.max(Duration::from_millis(self.until.load(Relaxed))),
            false => login,
        }
    }
}

impl LedgerLook {
    /// Whether the next look should count `FLUSH` statements.
    pub fn counts_flushes(&self, now: Duration) -> bool {
        now < self.doubted_until
    }

    /// The server has shown this, and has run so many `FLUSH` statements where that was asked. True: rights may have
    /// changed since the last look.
    pub fn see(&mut self, seen: &[u8], flushes: Option<u64>, now: Duration) -> bool {
        let has_changed = self.seen.as_deref().is_some_and(|last| last != seen);
        if self.seen.as_deref() != Some(seen) {
            self.seen = Some(seen.into());
        }
        if has_changed {
            self.doubted_until = now + DOUBT;
        }
        // The first count is no reason: the tables' change was one.
        let has_flushed = flushes.is_some() && self.flushes.is_some() && flushes != self.flushes;
        self.flushes = if self.counts_flushes(now) { flushes } else { None };
        has_changed || has_flushed
    }
}

fn millis(time: Duration) -> u64 {
    time.as_millis().try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn what_was_open_before_the_watch_began_is_known_by_its_login_only() {
        let ledger = Ledger::default();
        assert_eq!(ledger.known_until(at(3)), at(3));
        ledger.see(at(5));
        ledger.see(at(9));
        assert_eq!([3, 5, 7, 11].map(|login| ledger.known_until(at(login))), [3, 9, 9, 11].map(at));
    }

    #[test]
    fn a_change_is_seen_once() {
        let mut look = LedgerLook::default();
        assert!(!look.see(b"a", None, at(1)), "what was before is not known");
        assert!(!look.see(b"a", None, at(2)));
        assert!(look.see(b"b", None, at(3)) && !look.see(b"b", None, at(4)));
    }

    #[test]
    fn tables_that_were_written_to_count_again_when_the_server_reads_them() {
        let mut look = LedgerLook::default();
        look.see(b"a", None, at(1));
        assert!(!look.counts_flushes(at(2)));
        assert!(look.see(b"b", None, at(2)) && look.counts_flushes(at(3)));
        assert!(!look.see(b"b", Some(7), at(3)) && !look.see(b"b", Some(7), at(4)));
        assert!(look.see(b"b", Some(8), at(5)) && !look.see(b"b", Some(8), at(6)));
        assert!(!look.counts_flushes(at(2) + DOUBT));
    }
}
