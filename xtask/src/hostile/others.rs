//! The other clients: they work at an even pace, and note how long each answer takes.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use testkit::client::{Client, Problem};

use super::target::{ALONE, OTHER, Target};

/// How long answers took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waits {
    pub(super) p99: Duration,
    pub(super) longest: Duration,
}

/// Clients that work beside an attack.
pub(super) struct Others {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    /// Of those that pause.
    waits: Mutex<Vec<Duration>>,
    error: Mutex<Option<Problem>>,
}

/// Between an answer and the next statement.
const PAUSE: Duration = Duration::from_millis(2);

const OF_EACH: usize = 4;

/// A server under attack has work anyhow: so many more ask without a pause, and are not watched.
const BUSY: usize = 8;

impl Others {
    /// Logs them in, half of them pooled and half of them passed through, and has them begin.
    pub(super) fn begin(target: &Target<'_>) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let watched = [OTHER, ALONE].into_iter().flat_map(|user| [(user, Pace::Even); OF_EACH]);
        let users = watched.chain([(OTHER, Pace::Busy); BUSY]);
        let clients: Result<Vec<_>> =
            users.map(|(user, pace)| Ok((target.client(user)?, pace))).collect();
        let threads = clients?.into_iter().map(|(client, pace)| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || work(client, pace, &shared))
        });
        let threads = threads.collect();
        Ok(Self { shared, threads })
    }

    /// What they have noted since they were asked last.
    pub(super) fn take(&self) -> Result<Waits> {
        self.check()?;
        let mut waits = std::mem::take(&mut *lock(&self.shared.waits));
        waits.sort_unstable();
        let at = |share: f64| waits.get((waits.len() as f64 * share) as usize).copied();
        let longest = waits.last().copied().unwrap_or_default();
        Ok(Waits { p99: at(0.99).unwrap_or(longest), longest })
    }

    fn check(&self) -> Result<()> {
        match lock(&self.shared.error).take() {
            Some(problem) => Err(anyhow!("another client's statement failed: {problem}")),
            None => Ok(()),
        }
    }

    pub(super) fn end(self) -> Result<()> {
        self.shared.is_over.store(true, Relaxed);
        let ended = self.threads.into_iter().map(JoinHandle::join);
        ensure!(ended.into_iter().all(|it| it.is_ok()), "another client panicked");
        Ok(())
    }
}

/// How a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// With pauses, and it is watched how long it waits.
    Even,
    /// Again and again.
    Busy,
}

fn work(mut client: Client, pace: Pace, shared: &Shared) {
    while !shared.is_over.load(Relaxed) {
        let begun = Instant::now();
        let answer = client.query("SELECT v FROM d.t WHERE id = 7");
        if pace == Pace::Even {
            lock(&shared.waits).push(begun.elapsed());
        }
        if let Err(problem) = answer {
            lock(&shared.error).get_or_insert(problem);
            return;
        }
        if pace == Pace::Even {
            thread::sleep(PAUSE);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Attackers are on the same machine: what they themselves need of it must not be what others wait for.
pub(super) fn be_nice() {
    // Without it, others wait longer.
    let _ = rustix::process::setpriority_process(None, 19);
}
