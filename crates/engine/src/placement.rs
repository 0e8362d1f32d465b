//! Where the server's threads and the workers run, and with which right: whether something is changed, what, and
//! whether it stays.
//!
//! Decides; changes nothing itself. It is shown a look about once a second, and answers with at most one order; the
//! actuator carries the order out and says how that went ([`Placement::done`]). Invariants: without the signature of
//! starvation nothing is tried; one remedy at a time is on trial; what did not help is undone before anything else is
//! tried, and not tried again for an hour; what helped is examined anew after half an hour; what could not be undone
//! ends all trying.

mod trial;
mod verdict;

use std::time::{Duration, Instant};

pub use self::trial::Proof;
use self::trial::{Leg, Trial};
pub use self::verdict::{Look, Verdict};

/// What can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remedy {
    /// The server's threads, when they wake, do not preempt the thread that runs.
    Batch,
    /// The workers weigh more than the server's threads.
    Priority,
    /// The workers have CPUs that the server's threads keep off.
    PrivateCore,
    /// Workers and server have the CPUs that the configuration gives them.
    Cpus,
}

impl Remedy {
    /// Those that may be tried, in this order: the first has never been seen to cost throughput, and the last costs the
    /// server a CPU.
    const TRIED: [Self; 3] = [Self::Batch, Self::Priority, Self::PrivateCore];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Priority => "priority",
            Self::PrivateCore => "private core",
            Self::Cpus => "cpus",
        }
    }
}

/// What Flifo has been told to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    Off,
    /// Looks and tells.
    #[default]
    Observe,
    Auto,
    /// This, whatever is seen.
    Fixed(Remedy),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacementOrder {
    Apply(Remedy),
    Undo(Remedy),
}

/// How an order went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    Well,
    /// Nothing has been changed.
    Refused,
    /// It has been changed in part, and cannot be undone.
    Stuck,
}

/// What is told of what happens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Told {
    /// The verdict is another one than before.
    Verdict(Verdict),
    Tries(Remedy),
    /// It is not tried after all: there was starvation for moments only.
    Moments(Remedy),
    Proof(Remedy, Proof),
    /// It is undone, to be examined anew or because the workers no longer fill their CPUs.
    Anew(Remedy),
}

#[derive(Clone, Debug)]
enum State {
    Watching,
    Trying(Trial),
    /// Something could not be undone.
    Stuck,
}

/// The decisions of one process.
#[derive(Clone, Debug)]
pub struct Placement {
    policy: Policy,
    state: State,
    kept: Vec<(Remedy, Instant)>,
    /// What is not to be tried before a time.
    barred: Vec<(Remedy, Instant)>,
    /// An order that has not been answered yet.
    pending: Option<(PlacementOrder, After)>,
    last: Option<Look>,
    verdict: Verdict,
    /// The last two looks, without a change between them, have the signature.
    is_starved: bool,
    rests: u32,
    told: Vec<Told>,
}

/// What an order leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// The trial goes on.
    Leg(Leg),
    /// It stays.
    Keep,
    /// It is over.
    Leave,
}

impl Placement {
    pub const fn new(policy: Policy) -> Self {
        Self {
            policy,
            state: State::Watching,
            kept: Vec::new(),
            barred: Vec::new(),
            pending: None,
            last: None,
            verdict: Verdict::Unknown,
            is_starved: false,
            rests: 0,
            told: Vec::new(),
        }
    }

    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// What stays as it was changed.
    pub fn kept(&self) -> impl Iterator<Item = Remedy> + '_ {
        self.kept.iter().map(|(remedy, _)| *remedy)
    }

    pub const fn on_trial(&self) -> Option<Remedy> {
        match &self.state {
            State::Trying(trial) => Some(trial.remedy),
            State::Watching | State::Stuck => None,
        }
    }

    /// What has happened since it was asked last.
    pub fn told(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.told)
    }

    /// Looks, and says what is to be done. An order must be answered ([`Self::done`]) before another one is given.
    pub fn see(&mut self, now: Instant, look: &Look) -> Option<PlacementOrder> {
        if self.policy == Policy::Off || self.pending.is_some() {
            return None;
        }
        self.judge(look);
        match self.policy {
            Policy::Off | Policy::Observe => None,
            Policy::Fixed(remedy) => self.fix(now, remedy),
            Policy::Auto => match &mut self.state {
                State::Stuck => None,
                State::Watching => self.watch(now),
                State::Trying(trial) => match trial.see(look) {
                    true => self.next_leg(now),
                    false => None,
                },
            },
        }
    }

    /// The last order has been carried out, or not.
    pub fn done(&mut self, now: Instant, done: Done) {
        let Some((order, after)) = self.pending.take() else { return };
        // What was seen before is of another state of things.
        self.last = None;
        match (order, done) {
            (_, Done::Stuck) | (PlacementOrder::Undo(_), Done::Refused) => {
                self.state = State::Stuck
            }
            (PlacementOrder::Apply(remedy), Done::Refused) => {
                self.state = State::Watching;
                self.bar(remedy, now + BARRED);
            }
            (PlacementOrder::Apply(remedy) | PlacementOrder::Undo(remedy), Done::Well) => {
                match (after, &mut self.state) {
                    (After::Leg(leg), State::Trying(trial)) => trial.go_on(leg),
                    (After::Keep, _) => {
                        self.state = State::Watching;
                        self.kept.push((remedy, now));
                    }
                    _ => self.state = State::Watching,
                }
            }
        }
    }

    /// The server is another process now: nothing of it is changed yet, and nothing has been tried on it.
    pub fn server_is_new(&mut self) {
        (self.pending, self.last) = (None, None);
        self.kept.clear();
        self.barred.clear();
        if !matches!(self.state, State::Stuck) {
            self.state = State::Watching;
        }
    }

    fn judge(&mut self, look: &Look) {
        let long = self.last.map_or(*look, |last| look.with(&last));
        self.last = Some(*look);
        let verdict = Verdict::of(&long);
        self.is_starved = verdict.is_starved();
        if verdict != Verdict::Unknown && verdict != self.verdict {
            self.verdict = verdict;
            self.told.push(Told::Verdict(verdict));
        }
        self.rests = if long.ran < RESTS { self.rests.saturating_add(1) } else { 0 };
    }

    fn fix(&mut self, now: Instant, remedy: Remedy) -> Option<PlacementOrder> {
        if self.kept().any(|kept| kept == remedy) || self.is_barred(now, remedy) {
            return None;
        }
        self.order(PlacementOrder::Apply(remedy), After::Keep)
    }

    fn watch(&mut self, now: Instant) -> Option<PlacementOrder> {
        if let Some(old) = self.outdated(now) {
            self.kept.retain(|(remedy, _)| *remedy != old);
            self.told.push(Told::Anew(old));
            return self.order(PlacementOrder::Undo(old), After::Leave);
        }
        let next = Remedy::TRIED.into_iter().find(|remedy| {
            let is_in_vain = *remedy == Remedy::Batch && self.verdict == Verdict::StarvedAnyway;
            let is_kept = self.kept().any(|kept| kept == *remedy);
            !is_in_vain && !is_kept && !self.is_barred(now, *remedy)
        })?;
        if self.is_starved {
            self.told.push(Told::Tries(next));
            self.state = State::Trying(Trial::new(next));
        }
        None
    }

    /// A remedy that has been kept long enough to ask again whether it helps; the last first.
    fn outdated(&mut self, now: Instant) -> Option<Remedy> {
        let (remedy, since) = *self.kept.last()?;
        let is_idle_core = remedy == Remedy::PrivateCore && RESTS_MAX <= self.rests;
        if is_idle_core {
            self.bar(remedy, now + UNSURE);
        }
        (is_idle_core || since + KEPT <= now).then_some(remedy)
    }

    fn next_leg(&mut self, now: Instant) -> Option<PlacementOrder> {
        let State::Trying(trial) = &mut self.state else { return None };
        let remedy = trial.remedy;
        match trial.leg {
            // Workers that starved only for a moment need no remedy.
            Leg::Before if !(self.is_starved && trial.is_warranted()) => {
                self.told.push(Told::Moments(remedy));
                self.state = State::Watching;
                None
            }
            Leg::Before => self.order(PlacementOrder::Apply(remedy), After::Leg(Leg::With)),
            Leg::With => self.order(PlacementOrder::Undo(remedy), After::Leg(Leg::Again)),
            Leg::Again => {
                let proof = trial.proof();
                self.told.push(Told::Proof(remedy, proof));
                let longer = trial.longer();
                self.state = State::Watching;
                match proof {
                    Proof::Helped { .. } => {
                        return self.order(PlacementOrder::Apply(remedy), After::Keep);
                    }
                    Proof::Hidden { .. } => {
                        self.state = State::Trying(longer);
                        return None;
                    }
                    Proof::Useless { .. } => self.bar(remedy, now + BARRED),
                    Proof::Unsteady => self.bar(remedy, now + UNSURE),
                }
                self.last = None;
                None
            }
        }
    }

    fn order(&mut self, order: PlacementOrder, after: After) -> Option<PlacementOrder> {
        self.pending = Some((order, after));
        Some(order)
    }

    fn bar(&mut self, remedy: Remedy, until: Instant) {
        self.barred.retain(|(barred, _)| *barred != remedy);
        self.barred.push((remedy, until));
    }

    fn is_barred(&self, now: Instant, remedy: Remedy) -> bool {
        self.barred.iter().any(|(barred, until)| *barred == remedy && now < *until)
    }
}

/// What was refused or did not help is not tried again for so long.
const BARRED: Duration = Duration::from_hours(1);
/// The same after a load that changed meanwhile.
const UNSURE: Duration = Duration::from_mins(1);
/// What helped is undone after so long, and has to prove itself again.
const KEPT: Duration = Duration::from_mins(30);
/// Workers that use less than this of their own CPUs give them back after so many looks.
const RESTS: f64 = 0.5;
const RESTS_MAX: u32 = 5;

#[cfg(test)]
mod tests;
