//! One worker's checks. A check belongs to one worker at a time, and only when it wakes may it go to another one: so
//! no queue is shared, no worker is woken for the check of another, and the load is even after an interval or two.
//!
//! A check that wakes compares its worker with the less loaded of two others, drawn by chance. It moves if that makes
//! the two more even: its worker owns at least two checks more, or has more than twice as much that is ready and not
//! fewer checks. Every such move brings the loads closer, so moving comes to an end by itself. A check moves once for
//! each time it wakes: where it arrives, it is run. How many run, and which first, is decided by [`Places`].
//!
//! Invariants: a check is a value that is in one place: asleep, queued, running, or on its way ([`Moving`]), so it can
//! be neither lost nor doubled; the time at which it is due goes with it; one that only waits is not counted as
//! running; a check that is retired is dropped wherever it is met next.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::checks::places::{CheckBounds, Habit, Places};

/// What is checked: it tells checks apart, and whether there is still something to check.
#[derive(Debug)]
pub struct Subject {
    pub id: u64,
    is_retired: AtomicBool,
}

impl Subject {
    pub fn new(id: u64) -> Arc<Self> {
        Arc::new(Self { id, is_retired: AtomicBool::new(false) })
    }

    /// Its check is not run any more.
    pub fn retire(&self) {
        self.is_retired.store(true, Relaxed);
    }

    pub fn is_retired(&self) -> bool {
        self.is_retired.load(Relaxed)
    }
}

/// What workers know of one another.
#[derive(Debug)]
pub struct Loads(Box<[Load]>);

/// On a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Load {
    /// Checks that the worker owns.
    checks: AtomicU32,
    /// What is ready to be done there, checks or not.
    ready: AtomicU32,
    is_closed: AtomicBool,
}

impl Loads {
    pub fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| Load::default()).collect())
    }

    /// How many checks a worker owns.
    pub fn checks(&self, worker: usize) -> u32 {
        self.0[worker].checks.load(Relaxed)
    }

    /// A worker tells how much is ready to be done in it.
    pub fn publish_ready(&self, worker: usize, ready: u32) {
        self.0[worker].ready.store(ready, Relaxed);
    }

    /// An open worker that has least, of those that can be reached; for checks that have nowhere to be.
    pub fn least(&self) -> Option<usize> {
        let open = self.0.iter().enumerate().filter(|(_, load)| !load.is_closed.load(Relaxed));
        open.min_by_key(|(_, load)| load.checks.load(Relaxed)).map(|(worker, _)| worker)
    }
}

/// Where a check is in its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asleep,
    /// It is due, and waits for others to end.
    Queued,
    Running,
}

#[derive(Debug)]
struct Check {
    subject: Arc<Subject>,
    due: Instant,
    /// What its last check has shown; it does not change while it is queued or runs.
    habit: Habit,
    state: State,
}

impl Check {
    fn moving(self) -> Moving {
        Moving { subject: self.subject, due: self.due, habit: self.habit }
    }
}

/// A check on its way to another worker.
#[derive(Debug)]
#[must_use]
pub struct Moving {
    subject: Arc<Subject>,
    due: Instant,
    habit: Habit,
}

impl Moving {
    pub const fn subject(&self) -> &Arc<Subject> {
        &self.subject
    }
}

/// What a worker does next.
#[derive(Debug)]
pub enum Deed {
    /// Runs this check, and says [`CheckScheduler::done`] when it has ended.
    Run(Arc<Subject>, Instant),
    /// Sends it to this worker, which says [`CheckScheduler::arrive`].
    Send(usize, Moving),
}

/// The checks of one worker.
#[derive(Debug)]
pub struct CheckScheduler {
    worker: usize,
    loads: Arc<Loads>,
    checks: HashMap<u64, Check>,
    due: BinaryHeap<Reverse<(Instant, u64)>>,
    places: Places,
}

impl CheckScheduler {
    pub fn new(worker: usize, loads: Arc<Loads>, bounds: CheckBounds) -> Self {
        loads.0[worker].is_closed.store(false, Relaxed);
        Self {
            worker,
            loads,
            checks: HashMap::new(),
            due: BinaryHeap::new(),
            places: Places::new(bounds),
        }
    }

    /// So many may run from now on. Those that run already go on. Call [`Self::next`] afterwards.
    pub fn set_bounds(&mut self, bounds: CheckBounds) {
        self.places.set_bounds(bounds);
    }

    pub fn len(&self) -> usize {
        self.checks.len()
    }

    pub fn is_empty(&self) -> bool {
        self.checks.is_empty()
    }

    pub fn running(&self) -> u32 {
        self.places.running()
    }

    /// What is checked here.
    pub fn subjects(&self) -> impl Iterator<Item = &Arc<Subject>> {
        self.checks.values().map(|check| &check.subject)
    }

    /// Begins to check something. Its id has never been used before.
    pub fn add(&mut self, subject: Arc<Subject>, due: Instant) {
        self.take_in(Moving { subject, due, habit: Habit::default() }, State::Asleep);
    }

    /// A check comes from another worker. If it is due it is run here, whatever the load: call [`Self::next`]. One
    /// that comes because its worker has ended sleeps on.
    pub fn arrive(&mut self, moving: Moving, now: Instant) {
        let state = if moving.due > now { State::Asleep } else { State::Queued };
        self.take_in(moving, state);
    }

    fn take_in(&mut self, Moving { subject, due, habit }: Moving, state: State) {
        if subject.is_retired() {
            return;
        }
        let id = subject.id;
        match state {
            State::Asleep => self.due.push(Reverse((due, id))),
            State::Queued | State::Running => self.places.queue(id, habit),
        }
        let old = self.checks.insert(id, Check { subject, due, habit, state });
        debug_assert!(old.is_none(), "check {id} was here already");
        self.count();
    }

    /// Has a check that sleeps here be due now. The others are run or on their way anyway.
    pub fn hasten(&mut self, id: u64, now: Instant) {
        if let Some(check) = self.checks.get_mut(&id).filter(|it| it.state == State::Asleep)
            && check.due > now
        {
            check.due = now;
            self.due.push(Reverse((now, id)));
        }
    }

    /// When something is due, if nothing is now.
    pub fn due(&self) -> Option<Instant> {
        let asleep = self.due.peek().map(|Reverse((due, _))| *due);
        asleep.into_iter().chain(self.places.due()).min()
    }

    /// What is to be done now. Call until `None`, after waking and after [`Self::done`] and [`Self::arrive`].
    /// `draw` gives a random number below its argument.
    pub fn next(&mut self, now: Instant, mut draw: impl FnMut(usize) -> usize) -> Option<Deed> {
        self.next_with(now, |scheduler| scheduler.better(&mut draw))
    }

    /// The same, but no check goes to another worker: how checks are bound, to be compared with.
    pub fn next_here(&mut self, now: Instant) -> Option<Deed> {
        self.next_with(now, |_| None)
    }

    fn next_with(
        &mut self,
        now: Instant,
        mut better: impl FnMut(&Self) -> Option<usize>,
    ) -> Option<Deed> {
        while let Some(Reverse((due, id))) = self.due.peek().copied() {
            if due > now {
                break;
            }
            self.due.pop();
            if self.drop_retired(id) {
                continue;
            }
            // A check that was hastened, or went and came back, has left its old time behind.
            let is_due = |check: &Check| check.state == State::Asleep && check.due == due;
            if !self.checks.get(&id).is_some_and(is_due) {
                continue;
            }
            if let Some(other) = better(self) {
                return self.send(id, other);
            }
            if let Some(check) = self.checks.get_mut(&id) {
                check.state = State::Queued;
                self.places.queue(id, check.habit);
            }
        }
        let checks = &mut self.checks;
        let is_wanted = |id: u64| {
            let is_retired = |check: &Check| check.subject.is_retired();
            checks.get(&id).is_some_and(|check| !is_retired(check)) || {
                checks.remove(&id);
                false
            }
        };
        let begun = self.places.begin(now, is_wanted);
        self.count();
        let check = self.checks.get_mut(&begun?)?;
        check.state = State::Running;
        Some(Deed::Run(Arc::clone(&check.subject), check.due))
    }

    /// A check has ended, and has shown this of what it checks; it sleeps until then. What has been retired meanwhile
    /// is dropped.
    pub fn done(&mut self, id: u64, habit: Habit, next: Instant) {
        let Some(check) = self.checks.get_mut(&id).filter(|it| it.state == State::Running) else {
            return;
        };
        check.state = State::Asleep;
        check.due = next;
        self.places.end(id, std::mem::replace(&mut check.habit, habit));
        if !self.drop_retired(id) {
            self.due.push(Reverse((next, id)));
        }
    }

    /// The worker ends: its checks go to others, those that run as well, which are begun again there.
    pub fn close(mut self) -> Vec<Moving> {
        self.loads.0[self.worker].is_closed.store(true, Relaxed);
        let all = self.checks.drain().map(|(_, check)| check.moving());
        let all = all.filter(|moving| !moving.subject.is_retired()).collect();
        self.count();
        all
    }

    /// Another worker, where the check that wakes is better off.
    fn better(&self, draw: &mut impl FnMut(usize) -> usize) -> Option<usize> {
        let workers = self.loads.0.len();
        let mine = &self.loads.0[self.worker];
        let (checks, ready) = (mine.checks.load(Relaxed), mine.ready.load(Relaxed));
        let mut best: Option<(usize, u32, u32)> = None;
        for _ in 0..CHOICES.min(workers - 1) {
            let other = (self.worker + 1 + draw(workers - 1)) % workers;
            let load = &self.loads.0[other];
            if load.is_closed.load(Relaxed) {
                continue;
            }
            let found = (other, load.checks.load(Relaxed), load.ready.load(Relaxed));
            if best.is_none_or(|best| (found.1, found.2) < (best.1, best.2)) {
                best = Some(found);
            }
        }
        let (other, their_checks, their_ready) = best?;
        let evens_checks = checks >= their_checks + 2;
        let is_busy = ready >= READY_MIN && ready > 2 * their_ready && checks >= their_checks;
        (evens_checks || is_busy).then_some(other)
    }

    fn send(&mut self, id: u64, other: usize) -> Option<Deed> {
        let check = self.checks.remove(&id)?;
        self.count();
        Some(Deed::Send(other, check.moving()))
    }

    fn drop_retired(&mut self, id: u64) -> bool {
        let is_retired = self.checks.get(&id).is_some_and(|check| check.subject.is_retired());
        if is_retired {
            self.checks.remove(&id);
            self.count();
        }
        is_retired
    }

    fn count(&self) {
        let checks = u32::try_from(self.checks.len()).unwrap_or(u32::MAX);
        self.loads.0[self.worker].checks.store(checks, Relaxed);
    }
}

/// Two random choices are nearly as good as knowing all loads, and far better than one.
const CHOICES: usize = 2;

/// With less than this ready, a worker is not busy, whatever the others are.
const READY_MIN: u32 = 3;

/// When the check at this place among `count` is due first: spread over an interval, so that they do not come in a
/// herd.
pub fn first_due(now: Instant, interval: Duration, place: usize, count: usize) -> Instant {
    now + interval.mul_f64(place as f64 / count.max(1) as f64)
}

/// When a check is due again. It keeps its rhythm, but for `jitter` (a share of the interval, `chance` from 0 to 1);
/// what is late does not make up for it.
pub fn next_due(
    due: Instant,
    now: Instant,
    interval: Duration,
    jitter: f64,
    chance: f64,
) -> Instant {
    let factor = 1.0 + jitter.clamp(0.0, 0.5) * (2.0 * chance.clamp(0.0, 1.0) - 1.0);
    let next = due + interval.mul_f64(factor);
    if next > now { next } else { now + interval.mul_f64(factor) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at_once(at_once: u32) -> CheckBounds {
        CheckBounds::new(at_once, SECOND)
    }

    fn first(_: usize) -> usize {
        0
    }

    #[test]
    fn a_check_moves_once_and_is_run_where_it_arrives() {
        let (now, loads) = (Instant::now(), Arc::new(Loads::new(2)));
        let mut one = CheckScheduler::new(0, Arc::clone(&loads), at_once(8));
        let mut two = CheckScheduler::new(1, Arc::clone(&loads), at_once(8));
        for id in 0..2 {
            one.add(Subject::new(id), now);
        }
        let Some(Deed::Send(1, moving)) = one.next(now, first) else {
            panic!("two more than none")
        };
        two.arrive(moving, now);
        assert!(matches!(two.next(now, first), Some(Deed::Run(..))));
        assert!(matches!(one.next(now, first), Some(Deed::Run(..))), "as many as the other has");
        assert_eq!((one.len(), two.len()), (1, 1));
        assert!(one.next(now, first).is_none() && two.next(now, first).is_none());
    }

    #[test]
    fn a_check_whose_worker_ends_keeps_its_time() {
        let (now, loads) = (Instant::now(), Arc::new(Loads::new(2)));
        let mut one = CheckScheduler::new(0, Arc::clone(&loads), at_once(8));
        let mut two = CheckScheduler::new(1, Arc::clone(&loads), at_once(8));
        one.add(Subject::new(7), now + SECOND);
        for moving in one.close() {
            two.arrive(moving, now);
        }
        assert_eq!((loads.least(), two.due()), (Some(1), Some(now + SECOND)));
        assert!(two.next(now, first).is_none());
        assert!(matches!(two.next(now + SECOND, first), Some(Deed::Run(..))));
    }

    #[test]
    fn more_may_run_from_now_on_and_fewer() {
        let (now, loads) = (Instant::now(), Arc::new(Loads::new(1)));
        let mut scheduler = CheckScheduler::new(0, loads, at_once(1));
        (0..4).for_each(|id| scheduler.add(Subject::new(id), now));
        assert!(scheduler.next(now, first).is_some() && scheduler.next(now, first).is_none());
        scheduler.set_bounds(at_once(2));
        assert!(scheduler.next(now, first).is_some() && scheduler.next(now, first).is_none());
        scheduler.set_bounds(at_once(1));
        scheduler.done(0, Habit::Answers, now + SECOND);
        assert!(scheduler.next(now, first).is_none(), "one runs still");
        scheduler.done(1, Habit::Answers, now + SECOND);
        assert!(scheduler.next(now, first).is_some());
    }

    #[test]
    fn what_is_queued_does_not_run_and_is_not_counted() {
        let (now, loads) = (Instant::now(), Arc::new(Loads::new(1)));
        let mut scheduler = CheckScheduler::new(0, loads, at_once(2));
        let subjects: Vec<_> = (0..4).map(Subject::new).collect();
        for subject in &subjects {
            scheduler.add(Arc::clone(subject), now);
        }
        assert!(scheduler.next(now, first).is_some() && scheduler.next(now, first).is_some());
        assert!(scheduler.next(now, first).is_none() && scheduler.running() == 2);
        // Retired while it waits: it gives no running one's place back.
        subjects[2].retire();
        scheduler.done(0, Habit::Answers, now + SECOND);
        let Some(Deed::Run(subject, _)) = scheduler.next(now, first) else {
            panic!("one is queued")
        };
        assert_eq!((subject.id, scheduler.running(), scheduler.len()), (3, 2, 3));
        // Retired while it runs.
        subjects[1].retire();
        scheduler.done(1, Habit::Answers, now + SECOND);
        assert_eq!(
            (scheduler.running(), scheduler.len(), scheduler.due()),
            (1, 2, Some(now + SECOND))
        );
    }

    #[test]
    fn a_busy_worker_lets_checks_go_that_it_could_keep() {
        let (now, loads) = (Instant::now(), Arc::new(Loads::new(2)));
        let mut one = CheckScheduler::new(0, Arc::clone(&loads), at_once(8));
        one.add(Subject::new(1), now);
        assert!(matches!(one.next(now, first), Some(Deed::Run(..))));
        one.done(1, Habit::Answers, now + SECOND);
        loads.publish_ready(0, 5);
        assert!(matches!(one.next(now + SECOND, first), Some(Deed::Send(1, _))));
    }

    #[test]
    fn late_checks_do_not_come_in_bursts() {
        let now = Instant::now();
        assert_eq!(next_due(now, now, SECOND, 0.0, 0.3), now + SECOND);
        assert_eq!(next_due(now, now + 5 * SECOND, SECOND, 0.0, 0.3), now + 6 * SECOND);
        assert_eq!(next_due(now, now, SECOND, 0.1, 1.0), now + SECOND.mul_f64(1.1));
        assert_eq!(first_due(now, SECOND, 1, 4), now + SECOND / 4);
    }
}
