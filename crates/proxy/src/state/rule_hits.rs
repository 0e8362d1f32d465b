//! The rules that a command has hit, and what a worker has for rules.
//!
//! Invariant: a hit is counted once, however often its command is read again; the time of a command counts for its rules
//! when the command is over, whatever became of it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use engine::classes::ClassId;
use engine::mirror::Unmirrored;
use engine::statement::judge::Judge;
use engine::statement::room::{RuleRoom, RuleWaiter};
use engine::statement::rule::{RuleCache, RuleLog, RuleRole};
use engine::statement::rules::{FoundTexts, ReadyRule, Rules};
use engine::statement::verdict::RuleHits;
use engine::statement::window::WeekMinute;
use wire::lex::Dialect;

use crate::cluster::members::ClusterId;
use crate::cluster::servers::ServerId;
use crate::records::ToldByRules;
use crate::state::copied::MirrorPart;

/// What rules have said of a command.
pub(crate) struct Ruled {
    pub(crate) rules: Arc<Rules>,
    /// Those that it has hit, as often as its statements have.
    pub(crate) hit: Vec<usize>,
    pub(crate) since: Instant,
    pub(crate) class: Option<ClassId>,
    pub(crate) sends: RuleSends,
    /// Tells this wait from any other; 0: it does not wait.
    pub(crate) wait: u64,
    /// What ends the wait.
    pub(crate) timer: Option<Timer>,
    /// The place that it waits for.
    pub(crate) line: Option<(Arc<RuleRoom>, RuleWaiter)>,
    /// Its places under rules that let only so many run at once.
    pub(crate) permits: Vec<Permit>,
    /// The text that was prepared, if rules have made another one of it.
    pub(crate) original: Option<Box<[u8]>>,
    /// For how long its reply is kept.
    pub(crate) cache: Option<RuleCache>,
    /// How often it may still be run again; `None`: no rule says.
    pub(crate) retries: Option<u32>,
    /// What ends its wait in the queue, and what tells that wait from any other.
    pub(crate) patience: Option<Timer>,
    pub(crate) waited: u64,
    /// What of it is for a mirror.
    pub(crate) mirror: MirrorPart,
}

impl Ruled {
    /// What the rules that it has hit come to.
    pub(crate) fn hits(&self) -> RuleHits<'_> {
        RuleHits::new(&self.rules, &self.hit)
    }

    /// The rule that sends it where it goes.
    pub(crate) fn sender(&self) -> Option<&ReadyRule> {
        self.hits().last(|acts| acts.route.as_ref()).map(|(_, ready)| ready)
    }

    /// It is to be mirrored, if a rule says so: of several, the last one. What is prepared does not run yet.
    pub(crate) fn begin_mirror(&mut self, is_prepared: bool, is_pooled: bool) {
        let has = |at: &usize| self.rules.get(*at).is_some_and(|ready| ready.mirror.is_some());
        let Some(at) = self.hit.iter().copied().rfind(has).filter(|_| !is_prepared) else { return };
        self.mirror = MirrorPart::Due(at);
        if !is_pooled {
            self.leave_out_of_mirror(Unmirrored::PassThrough);
        }
    }

    /// It is not mirrored.
    pub(crate) fn leave_out_of_mirror(&mut self, why: Unmirrored) {
        let part = std::mem::take(&mut self.mirror);
        let state = part.rule().and_then(|at| self.rules.get(at)?.mirror.as_ref());
        state.into_iter().for_each(|state| state.leave_out(why));
    }

    /// The logs that have it.
    pub(crate) fn told(&self) -> ToldByRules {
        let has = |log| self.hits().is_logged(log);
        ToldByRules { slow: has(RuleLog::Slow), audit: has(RuleLog::Audit) }
    }
}

/// Where a rule sends a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuleSends {
    pub(crate) way: Option<RuleWay>,
    /// `None`: it stays in the cluster that it would go to anyway.
    pub(crate) cluster: Option<ClusterId>,
}

/// To which server of its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleWay {
    Writer,
    Reader,
    /// To this one; while it cannot take the command, there where servers of this role are, if one is named.
    To(ServerId, Option<RuleRole>),
}

/// A task that ends with what it is for.
pub(crate) struct Timer(pub(crate) tokio::task::JoinHandle<()>);

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A place under a rule, which the next command gets when this one is over.
pub(crate) struct Permit {
    room: Arc<RuleRoom>,
    pass_on: Arc<PassOn>,
    runs: bool,
}

impl Permit {
    pub(crate) fn new(room: Arc<RuleRoom>, pass_on: Arc<PassOn>) -> Self {
        Self { room, pass_on, runs: false }
    }

    /// Its command runs, or waits for a connection.
    pub(crate) fn set_runs(&mut self, runs: bool) {
        match (std::mem::replace(&mut self.runs, runs), runs) {
            (false, true) => self.room.begin(),
            (true, false) => self.room.pause(),
            _ => {}
        }
    }
}

/// Gives a place to a command that waits.
pub(crate) type PassOn = dyn Fn(Arc<RuleRoom>, RuleWaiter) + Send + Sync;

impl Drop for Permit {
    fn drop(&mut self) {
        self.set_runs(false);
        if let Some(next) = self.room.leave() {
            (self.pass_on)(Arc::clone(&self.room), next);
        }
    }
}

impl Drop for Ruled {
    fn drop(&mut self) {
        if let Some((room, waiter)) = self.line.take() {
            room.give_up(waiter);
        }
        self.leave_out_of_mirror(Unmirrored::Unanswered);
        let took = crate::worker::clock::now().saturating_duration_since(self.since);
        for ready in self.hit.iter().filter_map(|at| self.rules.get(*at)) {
            ready.counts.add_time(took);
        }
    }
}

/// The long texts of a worker's clients.
#[derive(Default)]
pub(crate) struct LongTexts {
    pub(crate) due: RefCell<VecDeque<LongText>>,
    pub(crate) is_looking: Cell<bool>,
}

/// A text that is to be looked through.
pub(crate) struct LongText {
    pub(crate) client: u32,
    /// Tells this wait from any other of the client.
    pub(crate) wait: u64,
    pub(crate) rules: Arc<Rules>,
    pub(crate) text: Box<[u8]>,
    pub(crate) dialect: Dialect,
}

/// What was found in a command's text.
pub(crate) struct LookedThrough {
    pub(crate) rules: Arc<Rules>,
    pub(crate) found: FoundTexts,
}

/// What a command that is looked through has.
pub(crate) enum Look {
    Waits(u64),
    Done(Box<LookedThrough>),
}

/// What a worker has for rules.
#[derive(Default)]
pub(crate) struct WorkerRules {
    is_on: Cell<bool>,
    /// The shortest time that a rule lets a statement run.
    shortest_time: Cell<Option<Duration>>,
    pub(crate) judge: RefCell<Option<Judge>>,
    /// What was said of the command that is being read again.
    pub(crate) carried: Cell<Option<Box<Ruled>>>,
    /// What was found in its text, if that is long.
    pub(crate) looked: Cell<Option<Box<LookedThrough>>>,
    pub(crate) long_texts: LongTexts,
    waits: Cell<u64>,
    /// When the machine's clock was read, what it said in seconds, and how far local time is from that.
    clock: Cell<Option<(Instant, i64, i64)>>,
}

/// The machine's clock is read again after so long.
const CLOCK: Duration = Duration::from_secs(30);

impl WorkerRules {
    pub(crate) fn new(rules: Arc<Rules>) -> Self {
        let new = Self::default();
        new.adopt(rules);
        new
    }

    /// Goes by these rules from now on.
    pub(crate) fn adopt(&self, rules: Arc<Rules>) {
        self.is_on.set(!rules.is_empty());
        self.shortest_time.set(rules.shortest_time());
        *self.judge.borrow_mut() = (!rules.is_empty()).then(|| Judge::new(rules));
    }

    /// Whether there are rules.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.get()
    }

    /// Whether the command that is read has been judged before.
    pub(crate) fn carries(&self) -> bool {
        let carried = self.carried.take();
        let is = carried.is_some();
        self.carried.set(carried);
        is
    }

    pub(crate) fn shortest_time(&self) -> Option<Duration> {
        self.shortest_time.get()
    }

    pub(crate) fn next_wait(&self) -> u64 {
        self.waits.set(self.waits.get() + 1);
        self.waits.get()
    }

    /// The time of the week, by the clock of this place and in UTC.
    #[expect(
        clippy::disallowed_methods,
        reason = "once in half a minute, where rules ask for the time"
    )]
    pub(crate) fn week_minutes(&self) -> (WeekMinute, WeekMinute) {
        let now = crate::worker::clock::now();
        let is_fresh = |(at, ..): &(Instant, i64, i64)| now.saturating_duration_since(*at) < CLOCK;
        let (at, seconds, east) = self.clock.get().filter(is_fresh).unwrap_or_else(|| {
            let (seconds, east) = clock(SystemTime::now());
            (now, seconds, east)
        });
        self.clock.set(Some((at, seconds, east)));
        let utc = seconds
            + i64::try_from(now.saturating_duration_since(at).as_secs()).unwrap_or_default();
        (week_minute(utc + east), week_minute(utc))
    }
}

/// Seconds since 1970, and how far local time is from that.
fn clock(at: SystemTime) -> (i64, i64) {
    let seconds = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    (i64::try_from(seconds).unwrap_or_default(), sys::local_time::seconds_east(at))
}

/// The time of the week at some time, by the clock of this place and in UTC.
pub(crate) fn week_minutes_at(at: SystemTime) -> (WeekMinute, WeekMinute) {
    let (utc, east) = clock(at);
    (week_minute(utc + east), week_minute(utc))
}

/// The first day of 1970 was a Thursday.
fn week_minute(seconds: i64) -> WeekMinute {
    const DAY: i64 = 24 * 60;
    let minute = (seconds.div_euclid(60) + 3 * DAY).rem_euclid(7 * DAY);
    WeekMinute(u16::try_from(minute).unwrap_or_default())
}

/// A list of hits, as one.
pub(crate) fn joined(hit: &[Rc<[usize]>]) -> Vec<usize> {
    hit.iter().flat_map(|hit| hit.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weeks_begin_on_monday() {
        // Friday, the 27th of November 2026, 02:10:59 UTC.
        assert_eq!(week_minute(1_795_745_459), WeekMinute(4 * 1440 + 130));
        assert_eq!(week_minute(0), WeekMinute(3 * 1440));
        assert_eq!(week_minute(-60), WeekMinute(3 * 1440 - 1));
    }
}
