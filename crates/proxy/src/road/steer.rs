//! `server.limit = "auto"`: the workers tell what they have counted, and one of them sets the limit.
//!
//! Owns the controller ([`engine::limit`]) and its clock; decides nothing itself. Nothing here is on the road of a
//! statement.

use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use engine::limit::{Auto, Bounds, Rhythm, Totals};
use link::Address;

use crate::road::admit;
use crate::servers::{Local, Server};
use crate::worker::{Mail, Worker};

/// What the workers have in common for it.
#[derive(Debug)]
pub(crate) struct Steer {
    /// What each worker has counted, and whether somebody waits for a slot in it.
    seen: Box<[Mutex<(Totals, bool)>]>,
    auto: Mutex<Auto>,
}

/// How often the workers tell, and the limit is looked at; and how often while nothing moves.
pub(crate) const BEAT: Duration = Duration::from_millis(20);
pub(crate) const SLOW_BEAT: Duration = Duration::from_millis(200);

/// About so many for each of its CPUs have a server do most; from there the limit finds its way, but not from fewer than
/// `START_MIN`: where a few too many cost nothing, as is usual, and one too few leaves a processor idle, it would be long on
/// its way. Where it binds nobody it sinks further: a few clients with short reads are served best by fewer links than
/// they are.
const PER_CPU: u32 = 2;
const START_MIN: u32 = 8;
/// As many as servers have that nothing is known of.
const CPUS: u32 = 8;

/// With one slot nothing could be learnt.
const FLOOR: u32 = 2;

impl Steer {
    pub(crate) fn new(workers: usize, links_max: u32, rhythm: Rhythm, cpus: Option<u32>) -> Self {
        let rest = PER_CPU.saturating_mul(cpus.unwrap_or(CPUS));
        let bounds = Bounds { floor: FLOOR, ceiling: links_max, start: rest.max(START_MIN), rest };
        let auto = Auto::new(bounds, rhythm, now());
        let seen = (0..workers).map(|_| Mutex::default()).collect();
        Self { seen, auto: Mutex::new(auto) }
    }

    /// The CPUs of the server at this address, if they are this machine's: as many as Flifo may use, which counts the
    /// quota of a container that both are in.
    pub(crate) fn cpus_of(address: &Address) -> Option<u32> {
        let cpus = address.is_local().then(std::thread::available_parallelism)?;
        u32::try_from(cpus.ok()?.get()).ok()
    }

    pub(crate) fn limit(&self) -> u32 {
        lock(&self.auto).limit()
    }
}

/// Tells what this worker has counted; the first worker then sets the limit. Says whether anything has moved, or waits.
pub(crate) fn beat(worker: &Rc<Worker>) -> bool {
    let mut moves = false;
    for local in worker.servers.iter() {
        moves |= beat_at(worker, local);
    }
    moves
}

fn beat_at(worker: &Rc<Worker>, local: &Local) -> bool {
    let server = &local.server;
    let Some(steer) = &server.steer else { return false };
    let gate = local.gate.borrow();
    let told = (gate.totals(), gate.wants_slot(crate::clock::now()));
    drop(gate);
    let before = std::mem::replace(&mut *lock(&steer.seen[worker.index]), told);
    if worker.index == 0 {
        set(worker, server, steer);
    }
    told.1 || before.0 != told.0
}

fn set(worker: &Rc<Worker>, server: &Server, steer: &Steer) {
    let (seen, is_waiting) = steer
        .seen
        .iter()
        .map(|seen| *lock(seen))
        .fold((Totals::default(), false), |all, one| (all.0.plus(one.0), all.1 || one.1));
    let line = is_waiting.then(|| server.slots.held());
    let mut auto = lock(&steer.auto);
    let before = auto.trace().last().map(|it| it.at);
    auto.tick(now(), seen, line);
    if let Some(step) = auto.trace().last().filter(|it| Some(it.at) != before) {
        tracing::debug!(
            why = ?step.why,
            centre = step.centre,
            limit = step.limit,
            rate = step.rate,
            estimate = ?step.estimate,
            server = server.name,
            "limit"
        );
    }
    drop(auto);
    if server.wanted_limit() != server.slots.limit() {
        server.settle_limit(|other| worker.shared.mail(other, Mail::SlotFree(server.id)));
        admit::pump(worker, server.id);
    }
}

/// Wall-clock time, so that several instances could agree on it.
#[expect(
    clippy::disallowed_methods,
    reason = "not for each statement; several instances could agree on it"
)]
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
