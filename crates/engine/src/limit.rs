//! How many statements should run at once: a limit that finds itself.
//!
//! The controller lets the limit swing a little, up and down in turn, and compares what each window has completed
//! with its two neighbours. What comes out is the elasticity of the throughput: 1 where every slot adds work, 0
//! where none does, less than 0 where they get in each other's way. It steers for an elasticity just above 0, the
//! knee. No latency is remembered as "good", so nothing can go stale; only neighbours are compared, so a trend of
//! the load cancels out.
//!
//! Pure: told the time and what has been counted, it answers with the limit. Several instances in front of one
//! server agree without a message if they swing by the clock ([`Rhythm::Clock`]): all move together, so each
//! measures the server and not its own share of it.
//!
//! Invariants: the limit stays within its bounds; while it does not bind (slots are left that no statement waits for),
//! it never grows, and sinks to no less than [`LimitBounds::rest`]; while nothing runs it stays; a statement that waits
//! is let in even if nothing ever ends, up to the upper bound; each decision is in the trace with its reason.

mod progress;
mod steer;

use std::collections::VecDeque;
use std::time::Duration;

use self::progress::Progress;
pub use self::steer::{Estimate, Why};
use self::steer::{Point, Steer};

/// What a gate has counted since it began. Figures only grow, and may wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitTotals {
    /// Statements that ended.
    pub completed: u64,
    /// Of these, how many left a slot that another statement waited for.
    pub followed: u64,
    /// Microseconds that they spent in the server, and the sum of the squares.
    pub busy: u64,
    pub busy_squared: u64,
    /// Signs of a server in distress: too many connections, lock-wait timeouts, backends that could not be opened.
    pub alarms: u64,
}

impl LimitTotals {
    /// Counts one statement that ended, after so many microseconds.
    pub fn add(&mut self, took: u64, is_followed: bool) {
        let took = took.min(TOOK_MAX);
        self.completed = self.completed.wrapping_add(1);
        self.followed = self.followed.wrapping_add(u64::from(is_followed));
        self.busy = self.busy.wrapping_add(took);
        self.busy_squared = self.busy_squared.wrapping_add(took * took);
    }

    /// Those of several workers together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            completed: self.completed.wrapping_add(other.completed),
            followed: self.followed.wrapping_add(other.followed),
            busy: self.busy.wrapping_add(other.busy),
            busy_squared: self.busy_squared.wrapping_add(other.busy_squared),
            alarms: self.alarms.wrapping_add(other.alarms),
        }
    }

    /// What was counted since `before`.
    #[must_use]
    pub const fn since(self, before: Self) -> Self {
        Self {
            completed: self.completed.wrapping_sub(before.completed),
            followed: self.followed.wrapping_sub(before.followed),
            busy: self.busy.wrapping_sub(before.busy),
            busy_squared: self.busy_squared.wrapping_sub(before.busy_squared),
            alarms: self.alarms.wrapping_sub(before.alarms),
        }
    }

    fn is_saturated(&self) -> bool {
        self.completed >= FEW && self.followed as f64 >= SATURATED * self.completed as f64
    }

    /// Mean time in the server, in microseconds.
    fn mean(&self) -> f64 {
        self.busy as f64 / self.completed.max(1) as f64
    }
}

/// Where the limit may be, and where it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitBounds {
    pub floor: u32,
    pub ceiling: u32,
    /// A few for each of the server's processors, where they are known. So many have brought no server down.
    pub start: u32,
    /// How far down it sinks where it does not bind.
    pub rest: u32,
}

/// What the swing goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rhythm {
    /// By what is needed to tell up from down: alone in front of a server.
    Own,
    /// By slots of the wall clock: up in even ones, down in odd ones. Clocks may differ by 100 ms.
    Clock,
}

/// One decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Move {
    pub at: Duration,
    pub why: Why,
    /// What the limit swings around, afterwards.
    pub centre: f64,
    /// The limit that was in force while this was measured.
    pub limit: u32,
    /// Statements a second, meanwhile.
    pub rate: f64,
    pub estimate: Option<Estimate>,
}

/// The controller. Call [`Self::tick`] some fifty times a second; ten times will do.
#[derive(Debug)]
pub struct Auto {
    bounds: LimitBounds,
    rhythm: Rhythm,
    centre: f64,
    limit: u32,
    side: Side,
    phase: Phase,
    steer: Steer,
    /// How long work stays in the server, in microseconds; a long statement counts for more.
    stay: f64,
    brake: Brake,
    progress: Progress,
    trace: VecDeque<Move>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Up,
    Down,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// What was started under the limit before runs out.
    Settle {
        since: Duration,
    },
    Measure {
        since: Duration,
        from: LimitTotals,
    },
}

/// What the emergency brake goes by.
#[derive(Clone, Copy, Debug, Default)]
struct Brake {
    /// Rate and mean time of late, and the limit that they belong to.
    usual: Option<(f64, f64)>,
    /// When it was last pulled.
    pulled: Option<Duration>,
    /// What it was pulled for: the rate before, and the centre. Given back if that was no help.
    on_trial: Option<(f64, f64)>,
    alarms: u64,
    alarms_since: Duration,
    /// The window seemed to tell of a collapse, and began anew: its beginning may have been sound.
    suspects: bool,
}

/// A statement that takes longer is counted as if it took so long: 100 s, whose square fits a thousand times.
const TOOK_MAX: u64 = 100_000_000;

/// A window with fewer statements says nothing.
const FEW: u64 = 5;

/// The limit binds if statements waited for this share of the slots that were left, or more. It is no more than half: a
/// few clients whose statements are all pipelined leave many slots that no statement waits for, and yet the limit
/// decides what gets done.
const SATURATED: f64 = 0.5;

/// The swing, as a share of the centre; but at least about one slot.
const SWING: f64 = 0.12;
const SWING_SLOTS: f64 = 0.75;

/// How fast a limit that does not bind sinks with each window, and how far down, as a multiple of the slots held:
/// slowly where little is to do, because a limit that binds without need costs a little; sooner where much gets done
/// with fewer slots.
const SINK: f64 = 0.97;
const SINK_AT_WORK: f64 = 0.9;
const ABOVE_HELD: f64 = 1.05;

const SETTLE_MIN: f64 = 20e3;
const SETTLE_MAX: f64 = 500e3;

/// So many statements make a window, and it lasts for so long at least; longer where these cannot tell.
const ENOUGH: f64 = 120.0;
const WINDOW_MIN: f64 = 100e3;
const WINDOW_MAX: f64 = 1500e3;
/// A window that lasts so long ends with however little it has.
const WINDOW_POOR: f64 = 1000e3;

/// The slots of the wall clock, and which part of each lets the one before run out.
const SLOT: Duration = Duration::from_millis(500);
const SLOT_SETTLE: Duration = Duration::from_millis(75);

/// The brake is pulled once in so long.
const BRAKE_REST: Duration = Duration::from_secs(2);
/// So many alarms within so long pull it.
const ALARMS: u64 = 5;
const ALARMS_WITHIN: Duration = Duration::from_secs(1);

/// Decisions that are remembered.
const TRACE: usize = 64;

impl LimitBounds {
    /// The same with each in its place.
    fn sound(self) -> Self {
        let ceiling = self.ceiling.max(1);
        let floor = self.floor.clamp(1, ceiling);
        let start = self.start.clamp(floor, ceiling);
        Self { floor, ceiling, start, rest: self.rest.clamp(floor, start) }
    }
}

impl Auto {
    /// `now` is the time since the Unix epoch; so is every later one.
    pub fn new(bounds: LimitBounds, rhythm: Rhythm, now: Duration) -> Self {
        let bounds = bounds.sound();
        let mut auto = Self {
            bounds,
            rhythm,
            centre: f64::from(bounds.start),
            limit: bounds.start,
            side: Side::Up,
            phase: Phase::Settle { since: now },
            steer: Steer::new(rhythm),
            stay: 10e3,
            brake: Brake { alarms_since: now, ..Brake::default() },
            progress: Progress::new(now),
            trace: VecDeque::with_capacity(TRACE),
        };
        auto.swing(now);
        auto
    }

    /// Other bounds hold from now on.
    pub fn rebound(&mut self, bounds: LimitBounds) {
        self.bounds = bounds.sound();
        let LimitBounds { floor, ceiling, .. } = self.bounds;
        self.centre = self.centre.clamp(f64::from(floor), f64::from(ceiling));
        self.limit = self.limit.clamp(floor, ceiling);
    }

    /// Swings by this rhythm from now on, around where it is.
    pub fn swing_by(&mut self, rhythm: Rhythm, now: Duration) {
        if rhythm == self.rhythm {
            return;
        }
        let (bounds, centre, stay) = (self.bounds, self.centre, self.stay);
        let trace = std::mem::take(&mut self.trace);
        *self = Self { centre, stay, trace, ..Self::new(bounds, rhythm, now) };
        self.swing(now);
    }

    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// What the limit swings around.
    pub const fn centre(&self) -> f64 {
        self.centre
    }

    /// The last decisions, oldest first.
    pub fn trace(&self) -> impl Iterator<Item = &Move> {
        self.trace.iter()
    }

    /// Time has passed: the limit from now on. `queued`: how many slots are held, while a statement waits for one.
    pub fn tick(&mut self, now: Duration, seen: LimitTotals, queued: Option<u32>) -> u32 {
        if self.must_brake(now, seen) {
            self.pull(now, seen);
            return self.limit;
        }
        // A statement that waits while nothing runs does not wait for the limit.
        let queued = queued.filter(|held| *held > 0);
        let is_stalled = self.progress.is_stalled(now, seen.completed, queued.is_some(), self.stay);
        if let Some(held) = queued.filter(|_| is_stalled) {
            self.let_one_in(now, held);
            return self.limit;
        }
        match self.rhythm {
            Rhythm::Own => self.tick_own(now, seen, queued.is_some()),
            Rhythm::Clock => self.tick_clock(now, seen, queued.is_some()),
        }
        self.limit
    }

    fn tick_own(&mut self, now: Duration, seen: LimitTotals, is_waiting: bool) {
        match self.phase {
            Phase::Settle { since } => {
                if passed(since, now) >= self.stay.clamp(SETTLE_MIN, SETTLE_MAX) {
                    self.phase = Phase::Measure { since: now, from: seen };
                }
            }
            Phase::Measure { since, from } => {
                let (took, some) = (passed(since, now), seen.since(from));
                let longer = self.steer.longer();
                let is_poor = (some.completed as f64) < ENOUGH * longer && took < WINDOW_POOR;
                let least = (4.0 * self.stay).max(WINDOW_MIN) * longer;
                if !is_poor && took >= least.min(WINDOW_MAX) {
                    self.window(now, took, some, is_waiting);
                    self.side = self.side.other();
                    self.swing(now);
                }
            }
        }
    }

    fn tick_clock(&mut self, now: Duration, seen: LimitTotals, is_waiting: bool) {
        let slot = |at: Duration| at.as_millis() / SLOT.as_millis();
        let begun = match self.phase {
            Phase::Settle { since } | Phase::Measure { since, .. } => since,
        };
        if slot(begun) != slot(now) {
            if let Phase::Measure { since, from } = self.phase {
                self.window(now, passed(since, now), seen.since(from), is_waiting);
            }
            self.side = if slot(now).is_multiple_of(2) { Side::Up } else { Side::Down };
            self.swing(now);
        } else if let Phase::Settle { .. } = self.phase {
            let into = now.as_millis() % SLOT.as_millis();
            if into >= SLOT_SETTLE.as_millis() {
                self.phase = Phase::Measure { since: now, from: seen };
            }
        }
    }

    /// A window has ended, `took` microseconds long. `is_waiting`: whether a statement waits as it ends.
    fn window(&mut self, now: Duration, took: f64, some: LimitTotals, is_waiting: bool) {
        if took < SETTLE_MIN {
            // The clock was set back: nothing can be said of a rate.
            return self.steer.forget_neighbours();
        }
        if some.busy > 0 {
            let stay = some.busy_squared as f64 / some.busy as f64;
            self.stay += 0.3 * (stay - self.stay);
        }
        // The slots of a clock may end before the brake has seen enough: then the next one confirms the suspicion,
        // which is not learnt as usual.
        let is_collapse = self.tells_of_collapse(took, some);
        self.brake.suspects &= is_collapse || some.completed < FEW;
        let rate = some.completed as f64 * 1e6 / took;
        let point = Point {
            rate,
            count: some.completed as f64,
            limit: f64::from(self.limit),
            // Of a long statement that ends here, most was before.
            held: (some.busy as f64 / took).clamp(1.0, f64::from(self.limit)),
            binds: some.is_saturated(),
        };
        let is_above = some.completed >= FEW && self.steer.was_less_held(&point);
        if !point.binds && !is_above {
            self.steer.not_bound();
            // Statements may wait while few end, or while transactions have more than their part: then no slots are
            // spare.
            if !is_waiting {
                self.sink(point);
            }
            return self.note(now, Why::NotSaturated, rate, None);
        }
        let is_recent = |at| now.saturating_sub(at) < TRIAL_WITHIN;
        if let Some((before, centre)) = self.brake.on_trial.take()
            && rate < TRIAL * before
            && self.brake.pulled.is_some_and(is_recent)
        {
            // With half the slots no more gets done: they were not the cause.
            self.centre = centre;
            self.steer.forget();
            return self.note(now, Why::BrakeUndone, rate, None);
        }
        if !self.brake.suspects {
            self.brake.learn(rate, some.mean());
        }
        let (why, estimate) = self.steer.see(point);
        if let Why::Up(step) | Why::Down(step) = why {
            self.centre = self.steer.apply(self.centre, step);
        }
        self.centre = self.centre.clamp(self.floor(), f64::from(self.bounds.ceiling));
        self.note(now, why, rate, estimate);
    }

    /// A limit that does not bind sinks until its lower side binds, so that it can be learnt whether it should. Not
    /// while nothing runs: that says nothing of what comes next.
    fn sink(&mut self, point: Point) {
        let least = f64::from(self.bounds.rest).max(ABOVE_HELD * point.held);
        let sink = if point.count < ENOUGH { SINK } else { SINK_AT_WORK };
        if self.centre > least && point.count >= FEW as f64 {
            self.centre = (self.centre * sink).max(least);
        }
    }

    fn floor(&self) -> f64 {
        f64::from(self.bounds.floor)
    }

    /// Sets the limit for the next window: a little more than the centre, or a little less.
    fn swing(&mut self, now: Duration) {
        let share = SWING.max(SWING_SLOTS / self.centre);
        let LimitBounds { floor, ceiling, .. } = self.bounds;
        let lowest = match self.rhythm {
            Rhythm::Own => floor,
            // Several are above the server's knee together, even if each has few slots: they must come down.
            Rhythm::Clock => floor.saturating_sub(1).max(1),
        };
        let low = ((self.centre * (1.0 - share)).round() as u32).clamp(lowest, ceiling);
        // Without a swing nothing can be learnt: at the floor, where one slot fewer is half of what a small server can
        // do, it goes upwards only.
        let high = ((self.centre * (1.0 + share)).round() as u32).max(low + 1).min(ceiling);
        self.limit = match self.side {
            Side::Up => high,
            Side::Down => low,
        };
        self.phase = Phase::Settle { since: now };
    }

    /// Nothing ends. Once something does, the steering finds out how much of this was of use.
    fn let_one_in(&mut self, now: Duration, held: u32) {
        let ceiling = self.bounds.ceiling;
        self.limit = held.max(self.limit).saturating_add(1).min(ceiling);
        self.centre = self.centre.max(f64::from(self.limit));
        self.steer.forget_neighbours();
        self.brake.suspects = false;
        self.note(now, Why::Stalled, 0.0, None);
        self.phase = Phase::Settle { since: now };
    }

    /// Whether the server must be relieved at once. A window that tells of a collapse for the first time begins anew:
    /// what the brake was good for is judged by the rate before, which must not be that of a time when all was well.
    fn must_brake(&mut self, now: Duration, seen: LimitTotals) -> bool {
        if now.saturating_sub(self.brake.alarms_since) >= ALARMS_WITHIN {
            self.brake.alarms = seen.alarms;
            self.brake.alarms_since = now;
        }
        let rests = self.brake.pulled.is_some_and(|at| now.saturating_sub(at) < BRAKE_REST);
        if rests || self.centre <= self.floor() {
            return false;
        }
        if seen.alarms.wrapping_sub(self.brake.alarms) >= ALARMS {
            return true;
        }
        let Phase::Measure { since, from } = self.phase else { return false };
        let (took, some) = (passed(since, now), seen.since(from));
        let has_collapsed = took >= WINDOW_MIN && self.tells_of_collapse(took, some);
        if has_collapsed && !self.brake.suspects {
            self.brake.suspects = true;
            self.phase = Phase::Measure { since: now, from: seen };
            return false;
        }
        has_collapsed
    }

    /// Whether less than half as much gets done as usual, and takes more than four times as long. A limit that is no
    /// higher than at the start has brought no server down.
    fn tells_of_collapse(&self, took: f64, some: LimitTotals) -> bool {
        self.centre > f64::from(self.bounds.start)
            && some.is_saturated()
            && self.brake.usual.is_some_and(|(rate, mean)| {
                (some.completed as f64 * 1e6 / took) < rate / 2.0 && some.mean() > 4.0 * mean
            })
    }

    fn pull(&mut self, now: Duration, seen: LimitTotals) {
        let rate = match self.phase {
            Phase::Measure { since, from } => {
                seen.since(from).completed as f64 * 1e6 / passed(since, now).max(1.0)
            }
            Phase::Settle { .. } => 0.0,
        };
        let is_alarm = seen.alarms.wrapping_sub(self.brake.alarms) >= ALARMS;
        self.brake.on_trial = (!is_alarm).then_some((rate, self.centre));
        self.brake.pulled = Some(now);
        self.brake.usual = None;
        self.brake.suspects = false;
        self.brake.alarms = seen.alarms;
        self.steer.forget();
        // A server that refuses may have to do with less than it began with; one that is slow need not.
        let least = if is_alarm { self.floor() } else { f64::from(self.bounds.start) };
        self.centre = (self.centre / 2.0).max(least);
        self.note(now, if is_alarm { Why::Alarms } else { Why::Collapse }, rate, None);
        self.swing(now);
    }

    fn note(&mut self, at: Duration, why: Why, rate: f64, estimate: Option<Estimate>) {
        if self.trace.len() == TRACE {
            self.trace.pop_front();
        }
        let (centre, limit) = (self.centre, self.limit);
        self.trace.push_back(Move { at, why, centre, limit, rate, estimate });
    }
}

/// The brake was right if the rate afterwards is so many times the one before. If it is the same, other statements have
/// come that take longer: those of a transaction after its `BEGIN`.
const TRIAL: f64 = 1.1;
/// After so long the load may be another one: the brake is judged no more.
const TRIAL_WITHIN: Duration = Duration::from_secs(5);

impl Brake {
    fn learn(&mut self, rate: f64, mean: f64) {
        let (usual_rate, usual_mean) = self.usual.get_or_insert((rate, mean));
        *usual_rate += 0.3 * (rate - *usual_rate);
        *usual_mean += 0.3 * (mean - *usual_mean);
    }
}

impl Side {
    const fn other(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }
}

/// Microseconds between two times; none if the clock was set back.
fn passed(since: Duration, now: Duration) -> f64 {
    now.saturating_sub(since).as_micros() as f64
}

#[cfg(test)]
mod tests;
