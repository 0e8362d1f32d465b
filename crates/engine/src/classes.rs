//! Classes of statements: how much of the server each may have, how long its line may be, and whose turn it is.
//!
//! Owns the plan of each class and what it has been charged; lines and slots are the gate's. A class is charged by
//! the time that its statements spend in the server, so one with heavy statements pays for what it uses. With one
//! class there is nothing to decide, and nothing is counted.
//!
//! Invariants: of those that may run, the one with the least charge for its weight is next; a class that was away
//! gets no credit for it; a class never runs more than its maximum in the whole process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::cap::Cap;
use crate::overload::{Overload, QueueOrder};
use crate::sharing::ShareReads;
use crate::time_limits::TimeBounds;

/// A class, as its place in the plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClassId(pub u8);

/// What a class may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    pub name: String,
    /// Its share, beside those of the others.
    pub weight: u32,
    /// Below so many statements at once, it comes before all that have theirs.
    pub minimum: u32,
    /// At most so many at once.
    pub maximum: Option<u32>,
    /// At most so many wait in a worker.
    pub queue_max: Option<u32>,
    /// No statement waits for longer.
    pub wait_max: Option<Duration>,
    /// What is done in an overload.
    pub when_overloaded: WhenOverloaded,
    /// How long its statements and clients may take.
    pub times: TimeBounds,
    /// Whether its identical reads that wait are run once.
    pub share_reads: ShareReads,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenOverloaded {
    /// All wait for their turn: for applications that have never been refused a statement.
    #[default]
    Wait,
    /// The newest first; a statement that has waited far too long is refused.
    NewestFirst,
}

impl Default for Class {
    fn default() -> Self {
        Self {
            name: "default".to_owned(),
            weight: 100,
            minimum: 0,
            maximum: None,
            queue_max: None,
            wait_max: None,
            when_overloaded: WhenOverloaded::Wait,
            times: TimeBounds::default(),
            share_reads: ShareReads::AsAbove,
        }
    }
}

/// All classes of a server: one for the whole process.
#[derive(Debug)]
pub struct Classes {
    seats: Box<[Seat]>,
    workers: usize,
}

/// A class in its place.
#[derive(Clone, Debug)]
struct Seat {
    class: Class,
    /// No statement gets into it any more: the configuration has no such class. What is in it goes on.
    is_retired: bool,
    /// If it has a maximum, how many may run and which workers wait for that.
    cap: Option<Arc<Cap>>,
}

/// At most so many classes.
pub const CLASSES_MAX: usize = 32;

impl Classes {
    /// # Panics
    /// If there is none, or more than [`CLASSES_MAX`]: the configuration has seen to it.
    pub fn new(plans: Vec<Class>, workers: usize) -> Self {
        assert!((1..=CLASSES_MAX).contains(&plans.len()));
        let seat = |class| Seat::new(class, None, workers);
        Self { seats: plans.into_iter().map(seat).collect(), workers }
    }

    /// The same classes of another server, where nothing runs.
    #[must_use]
    pub fn of_another(&self) -> Self {
        let fresh = |seat: &Seat| {
            let is_retired = seat.is_retired;
            Seat { is_retired, ..Seat::new(seat.class.clone(), None, self.workers) }
        };
        Self { seats: self.seats.iter().map(fresh).collect(), workers: self.workers }
    }

    /// Classes of these plans, of which the first is where it was. One that stays keeps its place, and a new one gets
    /// that of one that is not there any more, if there is one. So the places are the same wherever the same plans
    /// have followed each other.
    #[must_use]
    pub fn succeeding(&self, plans: &[Class]) -> Self {
        let mut seats: Vec<_> = self.seats.to_vec();
        seats.iter_mut().for_each(|seat| seat.is_retired = true);
        let is_old = |plan: &&Class| self.seats.iter().any(|seat| seat.class.name == plan.name);
        for plan in plans.iter().filter(is_old) {
            for seat in seats.iter_mut().filter(|seat| seat.class.name == plan.name) {
                *seat = Seat::new(plan.clone(), seat.cap.take(), self.workers);
            }
        }
        for plan in plans.iter().filter(|plan| !is_old(plan)) {
            let new = Seat::new(plan.clone(), None, self.workers);
            match seats.iter_mut().find(|seat| seat.is_retired) {
                Some(seat) => *seat = new,
                None => seats.push(new),
            }
        }
        // What is left in a class that is gone may run.
        for seat in seats.iter_mut().filter(|seat| seat.is_retired) {
            (seat.class.maximum, seat.cap) = (None, None);
        }
        Self { seats: seats.into(), workers: self.workers }
    }

    pub fn get(&self, id: ClassId) -> &Class {
        &self.seats[self.index(id)].class
    }

    /// What each class says of times, in the order of their ids.
    pub fn times(&self) -> impl Iterator<Item = TimeBounds> {
        self.seats.iter().map(|seat| seat.class.times)
    }

    pub fn named(&self, name: &[u8]) -> Option<ClassId> {
        let is_it = |seat: &Seat| !seat.is_retired && seat.class.name.as_bytes() == name;
        let at = self.seats.iter().position(is_it)?;
        u8::try_from(at).ok().map(ClassId)
    }

    /// Those that statements may be of.
    pub fn iter(&self) -> impl Iterator<Item = &Class> {
        self.seats.iter().filter(|seat| !seat.is_retired).map(|seat| &seat.class)
    }

    /// How many places there are.
    pub fn len(&self) -> usize {
        self.seats.len()
    }

    pub fn is_empty(&self) -> bool {
        self.seats.is_empty()
    }

    pub(crate) fn cap(&self, id: ClassId) -> Option<&Arc<Cap>> {
        self.seats[self.index(id)].cap.as_ref()
    }

    /// The place of a class; of one that does not exist, that of the first.
    fn index(&self, ClassId(index): ClassId) -> usize {
        if usize::from(index) < self.seats.len() { usize::from(index) } else { 0 }
    }

    /// Whether there is nothing to decide: one class, all of which may run and wait.
    fn is_plain(&self) -> bool {
        let is_free = |class: &Class| {
            class.maximum.is_none() && class.when_overloaded == WhenOverloaded::Wait
        };
        matches!(&*self.seats, [only] if is_free(&only.class))
    }
}

impl Seat {
    /// `cap`: what counts the statements of this class already.
    fn new(class: Class, cap: Option<Arc<Cap>>, workers: usize) -> Self {
        let cap = class.maximum.map(|most| {
            let cap = cap.unwrap_or_else(|| Arc::new(Cap::new(most.max(1), workers)));
            cap.set_limit(most.max(1));
            cap
        });
        Self { class, is_retired: false, cap }
    }
}

/// The class that a statement names in its first comment, as `/* class=batch */`.
pub fn named_in(text: &[u8]) -> Option<&[u8]> {
    let text = text.trim_ascii_start().strip_prefix(b"/*")?;
    let end = text.windows(2).take(COMMENT_MAX).position(|two| two == b"*/")?;
    let words = text[..end].split(|byte| byte.is_ascii_whitespace() || *byte == b',');
    let name = words.filter_map(|word| word.strip_prefix(b"class=")).next()?;
    (!name.is_empty()).then_some(name)
}

/// A longer comment names no class.
const COMMENT_MAX: usize = 256;

/// One worker's account of the classes.
#[derive(Debug)]
pub(crate) struct Shares {
    classes: Arc<Classes>,
    accounts: Box<[Account]>,
    /// There is one class, all of which may run and wait: nothing is decided by its account, so it only counts.
    is_plain: bool,
    /// How many wait, of all classes.
    waiting: usize,
    /// The charge of the class that was served last: a class that comes back from away starts here.
    served: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// Microseconds in the server, divided by the weight.
    charge: f64,
    waiting: u32,
    running: u32,
    /// The mean time of a statement in the server, in microseconds.
    mean: f64,
    overload: Overload,
    counts: ClassCounts,
}

/// What a class has had of a worker. Figures only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounts {
    /// Statements that started, or took their turn behind another one.
    pub started: u64,
    /// Those that stood in the queue, whatever became of them.
    pub waited: u64,
    pub refused: u64,
    /// Microseconds that its statements have spent in the server.
    pub busy: u64,
}

/// How urgent it is to serve a class: the least comes first.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(crate) struct Rank {
    has_minimum: bool,
    charge: f64,
}

impl Shares {
    pub(crate) fn new(classes: Arc<Classes>) -> Self {
        let accounts = vec![Account::default(); classes.len()].into();
        let is_plain = classes.is_plain();
        Self { classes, accounts, is_plain, waiting: 0, served: 0.0 }
    }

    /// Goes by other classes, which have followed these. What runs is counted where a maximum is new.
    pub(crate) fn adopt(&mut self, worker: usize, new: Arc<Classes>) {
        let is_plain = new.is_plain();
        for (at, account) in self.accounts.iter_mut().enumerate() {
            let id = ClassId(u8::try_from(at).unwrap_or(0));
            let counted = |classes: &Classes, is_plain: bool| {
                classes.cap(id).filter(|_| !is_plain).map(Arc::clone)
            };
            let (old, now) = (counted(&self.classes, self.is_plain), counted(&new, is_plain));
            let is_same =
                old.as_ref().zip(now.as_ref()).is_some_and(|(old, now)| Arc::ptr_eq(old, now));
            if !is_same {
                for _ in 0..account.running {
                    now.iter().for_each(|cap| cap.force());
                    // The workers look again, for the classes are others.
                    old.iter().for_each(|cap| _ = cap.give_back(worker));
                }
            }
            if self.classes.get(id).name != new.get(id).name {
                let (waiting, running) = (account.waiting, account.running);
                *account = Account { waiting, running, charge: self.served, ..Account::default() };
            }
        }
        let mut accounts = std::mem::take(&mut self.accounts).into_vec();
        accounts.resize(new.len(), Account::default());
        self.accounts = accounts.into();
        (self.classes, self.is_plain) = (new, is_plain);
    }

    /// The place of its account; of a class that does not exist, that of the first.
    fn index(&self, ClassId(index): ClassId) -> usize {
        if usize::from(index) < self.accounts.len() { usize::from(index) } else { 0 }
    }

    pub(crate) fn plan(&self, id: ClassId) -> &Class {
        self.classes.get(id)
    }

    pub(crate) fn waiting(&self, id: ClassId) -> u32 {
        self.accounts[self.index(id)].waiting
    }

    /// How many wait, of all classes.
    pub(crate) const fn all_waiting(&self) -> usize {
        self.waiting
    }

    /// Whether all are alike.
    pub(crate) fn are_one(&self) -> bool {
        self.accounts.len() == 1
    }

    pub(crate) fn joins(&mut self, id: ClassId) {
        let account = &mut self.accounts[self.index(id)];
        if account.waiting == 0 && account.running == 0 {
            // A class that was away has saved nothing, but owes what it owed.
            account.charge = account.charge.max(self.served);
        }
        account.waiting += 1;
        account.counts.waited += 1;
        self.waiting += 1;
    }

    pub(crate) fn leaves(&mut self, id: ClassId) {
        let account = &mut self.accounts[self.index(id)];
        self.waiting -= usize::from(account.waiting > 0);
        account.waiting = account.waiting.saturating_sub(1);
        if account.waiting == 0 {
            account.overload = Overload::default();
        }
    }

    /// May a statement of this class start, as far as its maximum goes?
    pub(crate) fn may_start(&self, id: ClassId) -> bool {
        self.is_plain || self.classes.cap(id).is_none_or(|cap| cap.held() < cap.limit())
    }

    /// Counts one that starts within the maximum. False: another worker was quicker.
    #[inline]
    pub(crate) fn try_start(&mut self, id: ClassId) -> bool {
        let may_run = self.is_plain || self.classes.cap(id).is_none_or(|cap| cap.try_take());
        if may_run {
            self.runs(id);
        }
        may_run
    }

    /// Counts one that must not wait, whatever the maximum says.
    pub(crate) fn force_start(&mut self, id: ClassId) {
        if !self.is_plain
            && let Some(cap) = self.classes.cap(id)
        {
            cap.force();
        }
        self.runs(id);
    }

    #[inline]
    fn runs(&mut self, id: ClassId) {
        let at = self.index(id);
        let account = &mut self.accounts[at];
        account.running += 1;
        account.counts.started += 1;
        self.served = self.served.max(account.charge);
    }

    /// One has ended, after so many microseconds in the server. The answer is another worker that waits for its class's
    /// maximum.
    #[inline]
    pub(crate) fn ended(&mut self, worker: usize, id: ClassId, took: u64) -> Option<usize> {
        let at = self.index(id);
        let account = &mut self.accounts[at];
        account.running = account.running.saturating_sub(1);
        account.counts.busy = account.counts.busy.saturating_add(took);
        if self.is_plain { None } else { self.charged(worker, at, took) }
    }

    fn charged(&mut self, worker: usize, at: usize, took: u64) -> Option<usize> {
        let (account, seat) = (&mut self.accounts[at], &self.classes.seats[at]);
        let took = took as f64;
        account.charge += took / f64::from(seat.class.weight.max(1));
        account.mean += (took - account.mean) / MEAN_OF;
        seat.cap.as_ref().and_then(|cap| cap.give_back(worker))
    }

    /// Tells the other workers how many of a class with a maximum wait here.
    pub(crate) fn publish(&self, worker: usize, id: ClassId) {
        if let Some(cap) = self.classes.cap(id) {
            cap.publish_waiting(worker, self.waiting(id) as usize);
        }
    }

    /// A statement of this class is refused.
    pub(crate) fn refuses(&mut self, id: ClassId) {
        self.accounts[self.index(id)].counts.refused += 1;
    }

    /// What each class has had, by name.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&str, ClassCounts)> {
        let names = self.classes.seats.iter().map(|seat| seat.class.name.as_str());
        names.zip(self.accounts.iter().map(|account| account.counts))
    }

    pub(crate) fn rank(&self, id: ClassId) -> Rank {
        let account = &self.accounts[self.index(id)];
        let has_minimum = account.running >= self.plan(id).minimum;
        Rank { has_minimum, charge: account.charge }
    }

    /// A statement of this class is about to be served; `oldest` is since when its oldest waits.
    pub(crate) fn see(&mut self, id: ClassId, oldest: Option<Instant>, now: Instant) {
        let is_told = self.plan(id).when_overloaded == WhenOverloaded::NewestFirst;
        let account = &mut self.accounts[self.index(id)];
        if is_told {
            account.overload.see(oldest, now, mean(account));
        }
    }

    pub(crate) fn order(&self, id: ClassId) -> QueueOrder {
        self.accounts[self.index(id)].overload.order()
    }

    /// How long a statement of this class may wait, if there is an overload.
    pub(crate) fn patience(&self, id: ClassId) -> Option<Duration> {
        let account = &self.accounts[self.index(id)];
        account.overload.patience(mean(account))
    }
}

/// The mean goes over about so many statements.
const MEAN_OF: f64 = 64.0;

fn mean(account: &Account) -> Duration {
    Duration::from_micros(account.mean as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two(weights: [u32; 2]) -> Shares {
        let class = |weight| Class { weight, ..Class::default() };
        Shares::new(Arc::new(Classes::new(weights.map(class).into(), 1)))
    }

    const A: ClassId = ClassId(0);
    const B: ClassId = ClassId(1);

    /// Both always wait; statements of each take so many microseconds. How much time each gets.
    fn share(mut shares: Shares, took: [u64; 2], rounds: u32) -> [u64; 2] {
        let mut time = [0; 2];
        shares.joins(A);
        shares.joins(B);
        for _ in 0..rounds {
            let next = if shares.rank(A) <= shares.rank(B) { A } else { B };
            assert!(shares.try_start(next));
            let took = took[usize::from(next.0)];
            time[usize::from(next.0)] += took;
            assert_eq!(shares.ended(0, next, took), None);
        }
        time
    }

    #[test]
    fn time_is_shared_by_weight_whatever_a_statement_takes() {
        let [a, b] = share(two([100, 100]), [100, 10_000], 10_000);
        assert!(a.abs_diff(b) <= 20_000, "{a} {b}");
        let [a, b] = share(two([300, 100]), [700, 500], 10_000);
        assert!((2.9..3.1).contains(&(a as f64 / b as f64)), "{a} {b}");
    }

    #[test]
    fn who_was_away_has_saved_nothing() {
        let mut shares = two([100, 100]);
        shares.joins(A);
        for _ in 0..1000 {
            assert!(shares.try_start(A));
            let _ = shares.ended(0, A, 1_000);
        }
        shares.joins(B);
        let lead = shares.rank(A).charge - shares.rank(B).charge;
        assert!(lead <= 10.0, "B could take {lead} times its weight before A has a turn");
    }

    #[test]
    fn below_its_minimum_a_class_comes_first() {
        let class = |minimum| Class { minimum, ..Class::default() };
        let mut shares = Shares::new(Arc::new(Classes::new(vec![class(0), class(1)], 1)));
        shares.joins(B);
        shares.force_start(B);
        let _ = shares.ended(0, B, 1_000_000);
        assert!(shares.rank(B) < shares.rank(A));
        shares.force_start(B);
        assert!(shares.rank(A) < shares.rank(B));
    }

    #[test]
    fn a_maximum_holds_but_for_those_who_must_not_wait() {
        let plan = Class { maximum: Some(2), ..Class::default() };
        let classes = Arc::new(Classes::new(vec![plan], 2));
        let (mut one, mut two) = (Shares::new(Arc::clone(&classes)), Shares::new(classes));
        assert!(one.try_start(A) && two.try_start(A) && !one.try_start(A) && !two.may_start(A));
        two.force_start(A);
        one.joins(A);
        one.publish(0, A);
        assert_eq!(two.ended(1, A, 0), None, "one too many ran");
        assert_eq!(two.ended(1, A, 0), Some(0));
        assert!(one.try_start(A));
    }

    #[test]
    fn other_classes_count_what_runs_already() {
        let class = |name: &str, maximum| Class { name: name.into(), maximum, ..Class::default() };
        let mut classes = Arc::new(Classes::new(vec![class("default", None)], 2));
        let mut workers = [0, 1].map(|_| Shares::new(Arc::clone(&classes)));
        let mut follow = |workers: &mut [Shares; 2], plans: &[Class]| {
            classes = Arc::new(classes.succeeding(plans));
            for (at, shares) in workers.iter_mut().enumerate() {
                shares.adopt(at, Arc::clone(&classes));
            }
            Arc::clone(&classes)
        };
        assert!(workers[0].try_start(A) && workers[1].try_start(A), "no maximum");

        // Both are within the new maximum, and a third one is not.
        follow(&mut workers, &[class("default", Some(2))]);
        assert!(!workers[0].try_start(A) && !workers[1].may_start(A));
        assert_eq!(workers[1].ended(1, A, 0), None);
        assert!(workers[0].try_start(A) && !workers[1].try_start(A));

        // A lower one, and a class more.
        follow(&mut workers, &[class("default", Some(1)), class("batch", Some(1))]);
        assert_eq!(workers[0].ended(0, A, 0), None);
        assert!(!workers[0].try_start(A), "one runs");
        assert!(workers[1].try_start(B) && !workers[0].try_start(B));

        // A class in the place of one that is gone counts what runs there.
        let now = follow(&mut workers, &[class("default", None), class("night", Some(1))]);
        assert_eq!((now.named(b"night"), now.named(b"batch")), (Some(B), None));
        assert!(!workers[0].try_start(B) && workers[1].try_start(A));
        assert_eq!(workers[1].ended(1, B, 0), None);
        assert!(workers[0].try_start(B));
        assert_eq!(workers[0].ended(0, B, 0), None);

        // Without a maximum, nothing is left in the counts.
        for shares in &mut workers {
            while shares.accounts[0].running > 0 {
                assert_eq!(shares.ended(0, A, 0), None);
            }
        }
        let now = follow(&mut workers, &[class("default", Some(1)), class("night", Some(1))]);
        assert_eq!([A, B].map(|id| now.cap(id).map(|cap| cap.held())), [Some(0), Some(0)]);
    }

    #[test]
    fn classes_keep_their_places() {
        let class = |name: &&str| Class { name: (*name).into(), ..Class::default() };
        let plans = |names: &[&str]| names.iter().map(class).collect::<Vec<_>>();
        let mut classes = Classes::new(plans(&["default", "a", "b"]), 1);
        for (names, places) in [
            (&["default", "b"][..], &[("b", Some(2)), ("a", None)][..]),
            (&["default", "c", "b"], &[("b", Some(2)), ("c", Some(1))]),
            (&["default", "b", "a", "c"], &[("a", Some(3)), ("b", Some(2)), ("c", Some(1))]),
            (&["default"], &[("a", None), ("default", Some(0))]),
        ] {
            let other = classes.of_another().succeeding(&plans(names));
            classes = classes.succeeding(&plans(names));
            for (name, place) in places {
                let at = |classes: &Classes| classes.named(name.as_bytes()).map(|id| id.0);
                assert_eq!([at(&classes), at(&other)], [*place; 2], "{name} of {names:?}");
            }
            assert_eq!(classes.iter().count(), names.len());
        }
        assert_eq!(classes.len(), 4);
    }

    #[test]
    fn a_comment_in_front_names_the_class() {
        assert_eq!(named_in(b"  /* class=batch */ SELECT 1"), Some(&b"batch"[..]));
        assert_eq!(named_in(b"/*a=b,class=x,c=d*/SELECT 1"), Some(&b"x"[..]));
        for text in ["SELECT 1 /* class=batch */", "/* class= */", "/* class=a", "/*", ""] {
            assert_eq!(named_in(text.as_bytes()), None, "{text}");
        }
        let long = format!("/* {} class=a */", "x".repeat(COMMENT_MAX));
        assert_eq!(named_in(long.as_bytes()), None);
    }

    #[test]
    fn an_unknown_class_is_the_first() {
        let shares = two([7, 8]);
        assert_eq!(shares.plan(ClassId(200)).weight, 7);
        assert_eq!(shares.classes.named(b"default"), Some(A));
        assert_eq!(shares.classes.named(b"none"), None);
    }
}
