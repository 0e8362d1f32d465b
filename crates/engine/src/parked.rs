//! Statements that wait in the server for something (a row lock, a table that is being altered): which of them give
//! their slot to another one, and which others would wait with them.
//!
//! A statement that is far older than its form usually gets, and waits, is *parked*: it goes on without a slot. While
//! one of a form is parked, the others of the form are told apart by their values ([`Likeness`]):
//!
//! * All values are those of two that are parked: it would wait as well, and is held back until one of these ends. Of
//!   one, where those that are parked have half of the connections.
//! * It has a value in common with two that are parked, and none with that value has ended since they began: it is a
//!   *suspect*. One at a time is tried.
//! * None of these: it is tried, beside so many of its kind as have proved to end. One that ends lets one more be
//!   tried beside it; one that is parked halves their number.
//!
//! So a statement that would not wait is held back by no more than a trial, however many of its form wait; and one
//! that would wait is let in only as long as nothing tells it from those that do not.
//!
//! A fixed table of forms: two that fall into one place are looked at together, which does little harm and ends soon.
//! Invariants: a trial is in the list from its start to its end; what was counted when a statement was parked is taken
//! back when it ends, under the same place.

use std::time::{Duration, Instant};

use crate::intent::Digest;
use crate::likeness::Likeness;

/// What is known of the forms. Belongs to one worker.
#[derive(Debug)]
pub struct Bulkheads {
    forms: Box<[Form; FORMS]>,
    parked: u32,
    /// Statements that were started while one of their form was parked, and run or are parked.
    trials: Vec<Trial>,
    last_trial: u32,
    /// Values of parked statements with which another one has ended.
    innocent: Ended,
    /// All values of statements that have ended.
    proven: Ended,
}

/// Hashes, and when a statement with them has ended. One may take another one's place. Made when it is first needed.
#[derive(Debug, Default)]
struct Ended(Vec<Option<(u64, Instant)>>);

impl Ended {
    fn has(&self, hash: u64) -> bool {
        let entry = self.0.get(hash as usize % ENDED);
        entry.is_some_and(|entry| entry.is_some_and(|(of, _)| of == hash))
    }

    fn add(&mut self, hash: u64, now: Instant) {
        if self.0.is_empty() {
            self.0.resize(ENDED, None);
        }
        self.0[hash as usize % ENDED] = Some((hash, now));
    }

    /// Forgets it, unless one has ended since.
    fn forget(&mut self, hash: u64, since: Instant) {
        if let Some(entry) = self.0.get_mut(hash as usize % ENDED) {
            entry.take_if(|(of, at)| *of == hash && *at <= since);
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Form {
    digest: u64,
    parked: u32,
    /// So many of which nothing is known are tried at once.
    trust: u16,
    /// Others than equal ones have been held back.
    holds_others: bool,
    /// Its mean time in the server, in microseconds.
    mean: f32,
}

/// A statement that was started while others of its form were parked.
#[derive(Debug)]
struct Trial {
    number: u32,
    digest: Digest,
    likeness: Likeness,
    since: Instant,
    kind: TrialKind,
    is_parked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TrialKind {
    /// One with all its values has ended before.
    Proven,
    /// It has so many values in common with those that wait.
    Suspect(usize),
    /// It has nothing in common with those that wait.
    Unknown,
}

/// How many connections are left to statements of a form of which some are parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Room {
    Enough,
    /// Those that are parked have half of them.
    Little,
    /// Three quarters.
    Least,
    /// All but one.
    None,
}

/// Whether a statement may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Start,
    Hold(Held),
}

/// Why a statement is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Those with the same values wait in the server.
    Equal,
    /// It may be one that would wait, and others are tried at the moment.
    Untried,
}

/// A power of two; 24 bytes each.
const FORMS: usize = 1 << 10;

/// While so many of a form are parked, one that must not wait takes no slot from a statement that will move.
const CLOSES: u32 = 3;

/// So many with the same values go into the server: the lock passes from one to the next without a gap.
const EQUALS: usize = 2;

/// A value that so many parked statements have in common makes others suspects.
const SHARED: usize = 2;

/// So many are tried at first.
const TRUST: u16 = 4;
const TRUST_MAX: u16 = 1024;

/// A statement is parked when it is so old, and so many times as old as its form usually gets.
pub const OLD: Duration = Duration::from_millis(20);
const OLD_MEANS: f64 = 10.0;

/// Nothing is known of the form: it may be slow by nature.
const OLD_UNKNOWN: Duration = Duration::from_millis(100);

/// The mean goes over about so many statements.
const MEAN_OF: f32 = 16.0;

/// Hashes that are remembered.
const ENDED: usize = 1 << 10;

impl Default for Bulkheads {
    fn default() -> Self {
        Self {
            forms: Box::new([Form::default(); FORMS]),
            parked: 0,
            trials: Vec::new(),
            last_trial: 0,
            innocent: Ended::default(),
            proven: Ended::default(),
        }
    }
}

impl Bulkheads {
    /// How many are parked in this worker.
    pub const fn parked(&self) -> u32 {
        self.parked
    }

    /// Whether none of this form is parked.
    #[inline]
    pub fn is_open(&self, digest: Option<Digest>) -> bool {
        digest.is_none_or(|digest| self.forms[place(digest)].parked == 0)
    }

    /// Whether so many of this form are parked that one that must not wait will probably wait in the server.
    pub fn is_closed(&self, digest: Option<Digest>) -> bool {
        digest.is_some_and(|digest| self.forms[place(digest)].parked >= CLOSES)
    }

    /// Whether a statement of this form may start. `slots`: how many there are for this worker's statements. A suspect
    /// has so many values in common with those that wait at most.
    pub fn decide(
        &self,
        digest: Option<Digest>,
        likeness: &Likeness,
        slots: u32,
        room: Room,
        most_shared: usize,
    ) -> Decision {
        let Some(digest) = digest.filter(|digest| !self.is_open(Some(*digest))) else {
            return Decision::Start;
        };
        let alike = || self.trials.iter().filter(|trial| trial.digest == digest);
        let is_proven = self.is_proven(likeness);
        if let Some(whole) = likeness.whole() {
            let equal = || alike().filter(|trial| trial.likeness.whole() == Some(whole));
            let most = if room == Room::Enough { EQUALS } else { 1 };
            if equal().filter(|trial| trial.is_parked).count() >= most
                || !is_proven && equal().count() >= most
            {
                return Decision::Hold(Held::Equal);
            }
        }
        let running = |is_one: fn(TrialKind) -> bool| {
            alike().filter(|it| is_one(it.kind) && !it.is_parked).count()
        };
        let may_start = match self.kind(digest, likeness) {
            TrialKind::Suspect(shared) => {
                let is_suspect = |kind| matches!(kind, TrialKind::Suspect(_));
                room <= Room::Little && shared <= most_shared && running(is_suspect) == 0
            }
            TrialKind::Proven => true,
            TrialKind::Unknown => {
                let trust = u32::from(self.forms[place(digest)].trust).min(slots).max(1);
                let is_unknown = |kind| kind == TrialKind::Unknown;
                room <= Room::Least && running(is_unknown) < trust as usize
            }
        };
        if may_start { Decision::Start } else { Decision::Hold(Held::Untried) }
    }

    fn kind(&self, digest: Digest, likeness: &Likeness) -> TrialKind {
        let parked = || self.trials.iter().filter(|it| it.is_parked && it.digest == digest);
        let is_shared = |value: &&u64| {
            !self.innocent.has(**value)
                && parked().filter(|it| it.likeness.values().contains(value)).count() >= SHARED
        };
        match likeness.values().iter().filter(is_shared).count() {
            0 if self.is_proven(likeness) => TrialKind::Proven,
            0 => TrialKind::Unknown,
            shared => TrialKind::Suspect(shared),
        }
    }

    fn is_proven(&self, likeness: &Likeness) -> bool {
        likeness.whole().is_some_and(|whole| self.proven.has(whole))
    }

    /// One that has been held back, or looked at, is started. Returns its number.
    pub fn begin(&mut self, digest: Option<Digest>, likeness: Likeness, now: Instant) -> u32 {
        let Some(digest) = digest else { return 0 };
        self.last_trial = self.last_trial.checked_add(1).unwrap_or(1);
        let (number, kind) = (self.last_trial, self.kind(digest, &likeness));
        self.trials.push(Trial { number, digest, likeness, since: now, kind, is_parked: false });
        number
    }

    /// A statement of this form has been held back.
    pub fn holds(&mut self, digest: Option<Digest>, held: Held) {
        if let Some(form) = self.form(digest)
            && held == Held::Untried
        {
            form.holds_others = true;
        }
    }

    /// Others than equal ones have been held back, for all that is known.
    pub fn holds_others(&self, digest: Option<Digest>) -> bool {
        digest.is_some_and(|digest| self.forms[place(digest)].holds_others)
    }

    /// None is held back any more but those whose equals wait.
    pub fn holds_only_equals(&mut self, digest: Option<Digest>) {
        if let Some(form) = self.form(digest) {
            form.holds_others = false;
        }
    }

    /// One that was not parked has ended after so many microseconds. `trial` is its number, or none.
    #[inline]
    pub fn ended(&mut self, digest: Option<Digest>, trial: u32, took: u64, now: Instant) {
        let Some(digest) = digest else { return };
        let form = &mut self.forms[place(digest)];
        let took = took as f32;
        if form.digest == digest.hash() {
            form.mean += (took - form.mean) / MEAN_OF;
        } else {
            (form.digest, form.mean) = (digest.hash(), took);
        }
        if trial > 0 {
            self.proved(digest, trial, now);
        }
    }

    /// A trial has ended well: what it has in common with those that wait is not what they wait for.
    #[inline(never)]
    fn proved(&mut self, digest: Digest, number: u32, now: Instant) {
        let Some(trial) = self.forget(number) else { return };
        let parked = self.trials.iter().filter(|it| it.is_parked && it.digest == digest);
        let waits_with =
            |value: &&u64| parked.clone().any(|parked| parked.likeness.values().contains(*value));
        for value in trial.likeness.values().iter().filter(waits_with) {
            self.innocent.add(*value, now);
        }
        if let Some(whole) = trial.likeness.whole() {
            self.proven.add(whole, now);
        }
        let form = &mut self.forms[place(digest)];
        form.trust = (form.trust + 1).min(TRUST_MAX);
    }

    fn forget(&mut self, number: u32) -> Option<Trial> {
        let at = self.trials.iter().position(|trial| trial.number == number)?;
        Some(self.trials.swap_remove(at))
    }

    /// How old a statement of this form gets before it is parked.
    pub fn patience(&self, digest: Option<Digest>) -> Duration {
        let known = digest.and_then(|digest| {
            let form = &self.forms[place(digest)];
            (form.digest == digest.hash()).then_some(form.mean)
        });
        known.map_or(OLD_UNKNOWN, |mean| {
            let old = Duration::try_from_secs_f64(f64::from(mean) * OLD_MEANS / 1e6);
            old.unwrap_or(Duration::MAX).max(OLD)
        })
    }

    /// One that was not parked leaves the count without having ended.
    pub fn set_down(&mut self, trial: u32) {
        if trial > 0 {
            self.forget(trial);
        }
    }

    /// One that runs is parked.
    pub fn park(&mut self, digest: Option<Digest>, trial: u32) {
        self.parked += 1;
        let Some(digest) = digest else { return };
        let form = &mut self.forms[place(digest)];
        if form.parked == 0 {
            form.trust = TRUST;
        }
        form.parked += 1;
        let Some(trial) = self.trials.iter_mut().find(|it| trial > 0 && it.number == trial) else {
            return;
        };
        trial.is_parked = true;
        if trial.kind == TrialKind::Unknown {
            form.trust = (form.trust / 2).max(1);
        }
        // One of its values with which none has ended is why it waits. If there is none, the others have been innocent
        // once: but not those with which one has ended since it began.
        let (values, innocent) = (trial.likeness.values(), &mut self.innocent);
        if values.iter().all(|value| innocent.has(*value)) {
            values.iter().for_each(|value| innocent.forget(*value, trial.since));
        }
        if let Some(whole) = trial.likeness.whole() {
            self.proven.forget(whole, trial.since);
        }
    }

    /// One that was parked has ended. Its time is not learnt: it says nothing of the statement.
    pub fn unpark(&mut self, digest: Option<Digest>, trial: u32) {
        self.parked = self.parked.saturating_sub(1);
        if let Some(form) = self.form(digest) {
            form.parked = form.parked.saturating_sub(1);
        }
        self.set_down(trial);
    }

    /// How many of this form are parked.
    pub fn parked_of(&self, digest: Option<Digest>) -> u32 {
        digest.map_or(0, |digest| self.forms[place(digest)].parked)
    }

    fn form(&mut self, digest: Option<Digest>) -> Option<&mut Form> {
        digest.map(|digest| &mut self.forms[place(digest)])
    }
}

fn place(digest: Digest) -> usize {
    digest.hash() as usize % FORMS
}

#[cfg(test)]
mod tests;
