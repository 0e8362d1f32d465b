//! The arithmetic of the limit: from windows to an elasticity, from an elasticity to a step.
//!
//! Owns the estimate and what it is made of; knows no time, no bounds and no brake. A trend cancels out, because
//! each window is compared with the mean of its neighbours on both sides; a jump between these makes it forget.

use super::Rhythm;

/// What was measured in one window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// Statements a second.
    pub(super) rate: f64,
    /// Statements.
    pub(super) count: f64,
    pub(super) limit: f64,
    /// How many were in the server on the average, by Little's law.
    pub(super) held: f64,
    /// Statements waited for the slots that were left, so as many ran as the limit allows.
    pub(super) binds: bool,
}

/// How the throughput answers to the limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// By how many percent the throughput grows when the limit grows by one percent.
    pub elasticity: f64,
    /// The standard error of that.
    pub error: f64,
}

/// Why the limit moved, or did not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// Slots were left that no statement waited for, or few statements ended: nothing can be learnt. While statements
    /// run, a limit that does not bind sinks a little.
    NotSaturated,
    /// Too few windows yet.
    Gathering,
    /// The load is another one than before: what was learnt is forgotten.
    Changed,
    /// The estimate is too vague to go by: windows get longer.
    Unsure,
    /// More slots bring more: the factor's logarithm.
    Up(f64),
    /// The last slots bring too little.
    Down(f64),
    /// The server refuses, or times out.
    Alarms,
    /// Throughput fell to less than half, and statements take four times as long.
    Collapse,
    /// With fewer slots no more got done: the brake was let go.
    BrakeUndone,
    /// A statement waits and none ends: one more is let in.
    Stalled,
}

#[derive(Debug)]
pub(super) struct Steer {
    rhythm: Rhythm,
    /// The last three windows, the latest last.
    points: [Option<Point>; 3],
    /// Sums over the last comparisons, the older ones fading.
    xy: f64,
    xx: f64,
    yy: f64,
    count: f64,
    /// How many times as long as at first a window is, because the short ones left it open.
    longer: f64,
    /// By how much the rates of neighbours differ of late, as a logarithm.
    usual_jump: f64,
}

/// The elasticity that is steered for. Above 0, so that on a plateau the limit is pulled down to its edge; not far, as
/// what a disk does grows slowly over a wide range of limits.
const TARGET: f64 = 0.08;

/// With a shared clock: each is too fond of slots of its own, which another one lacks.
const SHARED_TARGET: f64 = 0.15;

/// A limit of twice so many slots or more is steered for [`TARGET`]. A lower limit is steered for less, and one below
/// so many slots for less than nothing. Among few slots, one too many costs the other statements next to nothing, and
/// one too few leaves a processor idle each time that the statements of two slots wait.
const FEW_SLOTS: f64 = 8.0;
/// The least and the most that is steered for, as shares of [`TARGET`].
const SHARES: (f64, f64) = (-0.5, 1.0);

/// How much of an older comparison is kept with each new one: about five count.
const MEMORY: f64 = 0.8;

/// Rates that differ by so much, as a logarithm, are those of two loads; by more if few statements were counted, or if
/// it is so many times what is usual here: a load that jumps all the time is one that scatters.
const JUMP: f64 = 0.25;
const JUMPS: f64 = 3.0;
/// How fast what is usual follows, and the most that one jump counts for: a single one, however large, is another load.
const JUMP_NEW: f64 = 0.2;
const JUMP_MAX: f64 = 0.5;
/// The standard error of one comparison, as a share of what two neighbours usually differ by.
const JUMP_NOISE: f64 = 0.8;

/// How far an elasticity that is off the target moves the limit (as a logarithm), and the bounds of one step.
const GAIN: f64 = 0.35;
const STEP_DOWN: f64 = -0.3;
const STEP_UP: f64 = 0.4;

/// An elasticity that is surely more is far below the knee: as large a step as is allowed.
const FAR_BELOW: f64 = 0.6;

/// Windows grow by so much while they cannot tell, up to so many times their first length.
const GROWTH: f64 = 1.25;
const LONGER_MAX: f64 = 8.0;

/// How much of its standard error an estimate must be off the target by: a limit that is too high by mistake costs
/// more than one that is too low, and is harder to notice among statements of very different lengths. Not so where the
/// limit is of few slots.
const DOUBT_UP: f64 = 1.0;
const DOUBT_DOWN: f64 = 0.5;

/// A window in which the limit did not bind is compared with one in which so many times fewer were in the server.
const MORE_HELD: f64 = 1.03;

/// A step is half as long if the standard error is so much, and shorter the more it is: of two estimates that are
/// equally far beyond their doubts, the vague one is luck more often.
const VAGUE: f64 = 0.3;

/// With a shared clock the limit grows by so many slots at most, and shrinks by a factor: shares become equal.
const SHARED_STEP: f64 = 0.6;

impl Steer {
    pub(super) const fn new(rhythm: Rhythm) -> Self {
        let points = [None; 3];
        Self { rhythm, points, xy: 0.0, xx: 0.0, yy: 0.0, count: 0.0, longer: 1.0, usual_jump: 0.0 }
    }

    /// How many times as long as at first a window should be.
    pub(super) const fn longer(&self) -> f64 {
        self.longer
    }

    /// What comes next has no neighbours; what was learnt of the server still holds.
    pub(super) const fn forget_neighbours(&mut self) {
        self.points = [None; 3];
    }

    /// The limit did not bind, so there was nothing to compare; nor is there a reason for long windows.
    pub(super) fn not_bound(&mut self) {
        self.forget_neighbours();
        self.longer = (self.longer / GROWTH).max(1.0);
    }

    /// What was learnt holds no more. How much the load scatters is kept: else each jump would be the first.
    pub(super) const fn forget(&mut self) {
        let usual_jump = self.usual_jump;
        *self = Self { usual_jump, ..Self::new(self.rhythm) };
    }

    /// Whether this window, in which the limit did not bind, still says something: the window before had a lower limit
    /// that did bind, and fewer statements in the server.
    pub(super) fn was_less_held(&self, point: &Point) -> bool {
        let [.., before] = &self.points;
        before.as_ref().is_some_and(|it| {
            it.binds && it.limit < point.limit && it.held * MORE_HELD < point.held
        })
    }

    /// Another window has ended: what does it say?
    pub(super) fn see(&mut self, point: Point) -> (Why, Option<Estimate>) {
        self.points = [self.points[1], self.points[2], Some(point)];
        let [Some(before), Some(middle), Some(after)] = self.points else {
            return (Why::Gathering, None);
        };
        if self.is_other_load(&before, &after) {
            self.forget();
            self.points[2] = Some(point);
            return (Why::Changed, None);
        }
        let bend = |of: fn(&Point) -> f64| {
            of(&middle).ln() - f64::midpoint(of(&before).ln(), of(&after).ln())
        };
        // What is held is what the limit stands for, but not known as exactly.
        let is_limit = [&before, &middle, &after].into_iter().all(|point| point.binds);
        let x = bend(if is_limit { |point| point.limit } else { |point| point.held });
        let y = bend(|point| point.rate);
        self.xy = MEMORY * self.xy + x * y;
        self.xx = MEMORY * self.xx + x * x;
        self.yy = MEMORY * self.yy + y * y;
        self.count = MEMORY * self.count + 1.0;
        if self.xx < 1e-4 {
            return (Why::Gathering, None);
        }
        let estimate = self.estimate(point.count);
        let why = self.judge(estimate, middle.limit);
        (why, Some(estimate))
    }

    fn is_other_load(&mut self, before: &Point, after: &Point) -> bool {
        let jump = (after.rate.ln() - before.rate.ln()).abs();
        let counting = 3.0 / before.count.min(after.count).sqrt();
        let is_other = jump > (JUMP + counting).max(JUMPS * self.usual_jump);
        self.usual_jump += JUMP_NEW * (jump.min(JUMP_MAX) - self.usual_jump);
        is_other
    }

    fn estimate(&self, count: f64) -> Estimate {
        let elasticity = (self.xy / self.xx).clamp(-1.0, 1.2);
        // At least what counting so few statements leaves open, and what this load scatters by; more if the comparisons
        // disagree, of which there may be too few for that.
        let counting = 0.75 * (1.5 / count).sqrt() / self.xx.sqrt();
        let rest = (self.yy - elasticity * self.xy).max(0.0);
        let scatter = (rest / self.xx / (self.count - 1.0).max(1.0)).sqrt();
        let usual = match self.rhythm {
            Rhythm::Own => JUMP_NOISE * self.usual_jump / self.xx.sqrt(),
            Rhythm::Clock => 0.0,
        };
        Estimate { elasticity, error: counting.max(scatter).max(usual) }
    }

    fn judge(&mut self, Estimate { elasticity, error }: Estimate, limit: f64) -> Why {
        let (target, doubt_up, trust) = match self.rhythm {
            Rhythm::Own => {
                let share = (limit / FEW_SLOTS - 1.0).clamp(SHARES.0, SHARES.1);
                let doubt_up = DOUBT_DOWN + (DOUBT_UP - DOUBT_DOWN) * share.max(0.0);
                (TARGET * share, doubt_up, 1.0 / (1.0 + (error / VAGUE).powi(2)))
            }
            // Few slots of its own say nothing of how many there are; nor must one come down later than the others.
            Rhythm::Clock => (SHARED_TARGET, DOUBT_UP, 1.0),
        };
        let off = elasticity - target;
        let doubt = error * if off > 0.0 { doubt_up } else { DOUBT_DOWN };
        if off.abs() <= doubt {
            self.longer = (self.longer * GROWTH).min(LONGER_MAX);
            return Why::Unsure;
        }
        self.longer = (self.longer / GROWTH).max(1.0);
        let step = (GAIN * trust * (off - off.signum() * doubt)).clamp(STEP_DOWN, STEP_UP);
        match step {
            _ if elasticity - error > FAR_BELOW => Why::Up(STEP_UP),
            _ if step > 0.0 => Why::Up(step),
            _ => Why::Down(step),
        }
    }

    /// The centre after a step.
    pub(super) fn apply(&self, centre: f64, step: f64) -> f64 {
        match self.rhythm {
            Rhythm::Clock if step > 0.0 => centre + SHARED_STEP * (step / 0.1).min(1.0),
            _ => centre * step.exp(),
        }
    }
}
