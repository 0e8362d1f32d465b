//! What is published of following one cluster: up to which moment all that was written is known.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::config::CacheOptions;

/// What is said where `cache.binlog` is off.
pub(crate) const OFF: &str = "cache.binlog is off";

/// Of one cluster.
pub(crate) struct Followed {
    name: String,
    origin: Instant,
    /// The moment, in microseconds since the origin; zero: nothing is known.
    covered: AtomicU64,
    transactions: AtomicU64,
    ends: AtomicU64,
    gaps: AtomicU64,
    state: Mutex<FollowedState>,
}

/// How it is, as it is shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct FollowedState {
    /// The server that is followed.
    pub(crate) server: Option<String>,
    pub(crate) place: String,
    /// Why none is.
    pub(crate) reason: String,
}

/// Numbers of one cluster.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FollowedCounts {
    pub(crate) transactions: u64,
    pub(crate) ends: u64,
    pub(crate) gaps: u64,
}

impl Followed {
    pub(crate) fn new(name: &str) -> Self {
        let now = crate::worker::clock::read();
        let state = FollowedState { reason: OFF.to_owned(), ..FollowedState::default() };
        Self {
            name: name.to_owned(),
            // No moment is the origin itself.
            origin: now.checked_sub(Duration::from_secs(1)).unwrap_or(now),
            covered: AtomicU64::new(0),
            transactions: AtomicU64::new(0),
            ends: AtomicU64::new(0),
            gaps: AtomicU64::new(0),
            state: Mutex::new(state),
        }
    }

    /// For how long nothing is known; `None`: the server is not followed.
    pub(crate) fn age(&self, now: Instant) -> Option<Duration> {
        let covered = Some(self.covered.load(Acquire)).filter(|covered| *covered != 0)?;
        let now = now.saturating_duration_since(self.origin);
        Some(now.saturating_sub(Duration::from_micros(covered)))
    }

    /// Whether a client that came at this moment may get what is kept: what is known is as current as these options ask
    /// for, and has all that was written before the client came.
    pub(crate) fn may_serve(&self, options: &CacheOptions, came: Instant) -> bool {
        if !options.binlog {
            return true;
        }
        // An iteration of a worker's loop may be long, so its clock is not enough.
        let now = crate::worker::clock::read();
        let is_current =
            |age| age <= options.binlog_lag_max && age <= now.saturating_duration_since(came);
        self.age(now).is_some_and(is_current)
    }

    /// A server is followed, and all is known up to this moment.
    pub(crate) fn begin(&self, server: &str, covered: Instant) {
        tracing::info!(cluster = self.name, server, "the server's binary log is followed");
        *self.lock() =
            FollowedState { server: Some(server.to_owned()), ..FollowedState::default() };
        self.cover(covered);
    }

    /// All is known up to this moment, and has ended what it ends.
    pub(crate) fn cover(&self, moment: Instant) {
        let micros = moment.saturating_duration_since(self.origin).as_micros();
        self.covered.store(u64::try_from(micros).unwrap_or(u64::MAX), Release);
    }

    /// A transaction was followed, and has ended so much.
    pub(crate) fn count(&self, ends: usize) {
        self.transactions.fetch_add(1, Relaxed);
        self.ends.fetch_add(ends as u64, Relaxed);
    }

    /// Events have come up to this place.
    pub(crate) fn reach(&self, place: String) {
        self.lock().place = place;
    }

    /// No server is followed any more, or none yet.
    pub(crate) fn lost(&self, why: &str, is_failure: bool) {
        let was_followed = self.covered.swap(0, Release) != 0;
        let mut state = self.lock();
        let is_new = state.reason != why;
        *state = FollowedState { reason: why.to_owned(), ..FollowedState::default() };
        drop(state);
        self.gaps.fetch_add(u64::from(was_followed), Relaxed);
        let (cluster, reason) = (&self.name, why);
        match (is_failure, is_new || was_followed) {
            (true, true) => tracing::error!(
                cluster,
                reason,
                "the server's binary log is not followed: nothing is cached"
            ),
            (false, _) if was_followed => {
                tracing::info!(cluster, reason, "the server's binary log is not followed any more");
            }
            _ => {}
        }
    }

    pub(crate) fn state(&self) -> FollowedState {
        self.lock().clone()
    }

    pub(crate) fn counts(&self) -> FollowedCounts {
        FollowedCounts {
            transactions: self.transactions.load(Relaxed),
            ends: self.ends.load(Relaxed),
            gaps: self.gaps.load(Relaxed),
        }
    }

    fn lock(&self) -> MutexGuard<'_, FollowedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
