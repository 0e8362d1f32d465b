//! `server.limit = "auto"`, as all workers share it: what each has counted, and the controller ([`engine::limit`]).
//!
//! [`crate::upkeep::limit_reports`] feeds the controller and puts its limit in force.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use backend::Address;
use engine::limit::{Auto, LimitBounds, LimitTotals, Rhythm};

/// What the workers have in common for it.
#[derive(Debug)]
pub(crate) struct Steer {
    /// What each worker has counted, and whether a statement waits for a slot in it.
    pub(crate) seen: Box<[Mutex<(LimitTotals, bool)>]>,
    pub(crate) auto: Mutex<Auto>,
}

/// A server does most with about so many statements for each of its CPUs. The limit begins there and finds its way, but
/// it begins with no fewer than `START_MIN`: usually a few too many cost nothing, and one too few leaves a processor
/// idle, so from a lower start the way would be long. Where the limit holds no statement back it sinks further: a few
/// clients with short reads are served best by fewer backends than there are clients.
pub(crate) const PER_CPU: u32 = 2;
pub(crate) const START_MIN: u32 = 8;
/// A server of which nothing is known is taken to have so many.
pub(crate) const CPUS: u32 = 8;

/// With one slot nothing could be learnt.
pub(crate) const FLOOR: u32 = 2;

impl Steer {
    pub(crate) fn new(
        workers: usize,
        connections_max: u32,
        rhythm: Rhythm,
        cpus: Option<u32>,
    ) -> Self {
        let auto = Auto::new(bounds(connections_max, cpus), rhythm, now());
        let seen = (0..workers).map(|_| Mutex::default()).collect();
        Self { seen, auto: Mutex::new(auto) }
    }

    /// The CPUs of the server at this address, if they are this machine's: as many as Flifo may use, which counts the
    /// quota of a container that both are in.
    pub(crate) fn cpus_of(address: &Address) -> Option<u32> {
        let cpus = address.is_local().then(std::thread::available_parallelism)?;
        u32::try_from(cpus.ok()?.get()).ok()
    }

    /// The server at this address may have so many connections from now on, and its limit swings by this rhythm.
    pub(crate) fn adopt(&self, connections_max: u32, rhythm: Rhythm, address: &Address) {
        let mut auto = lock(&self.auto);
        auto.rebound(bounds(connections_max, Self::cpus_of(address)));
        auto.swing_by(rhythm, now());
    }

    pub(crate) fn limit(&self) -> u32 {
        lock(&self.auto).limit()
    }
}

fn bounds(connections_max: u32, cpus: Option<u32>) -> LimitBounds {
    let rest = PER_CPU.saturating_mul(cpus.unwrap_or(CPUS));
    LimitBounds { floor: FLOOR, ceiling: connections_max, start: rest.max(START_MIN), rest }
}

/// Wall-clock time, so that several instances could agree on it.
#[expect(
    clippy::disallowed_methods,
    reason = "not for each statement; several instances could agree on it"
)]
pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
