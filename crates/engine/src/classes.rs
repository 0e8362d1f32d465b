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
        }
    }
}

/// All classes of a server: one for the whole process.
#[derive(Debug)]
pub struct Classes {
    plans: Box<[Class]>,
    /// For each class with a maximum, how many may run and which workers wait for that.
    caps: Box<[Option<Cap>]>,
}

/// At most so many classes.
pub const CLASSES_MAX: usize = 32;

impl Classes {
    /// # Panics
    /// If there is none, or more than [`CLASSES_MAX`]: the configuration has seen to it.
    pub fn new(plans: Vec<Class>, workers: usize) -> Self {
        assert!((1..=CLASSES_MAX).contains(&plans.len()));
        let cap = |class: &Class| class.maximum.map(|most| Cap::new(most.max(1), workers));
        Self { caps: plans.iter().map(cap).collect(), plans: plans.into() }
    }

    pub fn get(&self, id: ClassId) -> &Class {
        &self.plans[self.index(id)]
    }

    pub fn named(&self, name: &[u8]) -> Option<ClassId> {
        let at = self.plans.iter().position(|class| class.name.as_bytes() == name)?;
        u8::try_from(at).ok().map(ClassId)
    }

    pub fn len(&self) -> usize {
        self.plans.len()
    }

    pub fn is_empty(&self) -> bool {
        self.plans.is_empty()
    }

    pub(crate) fn cap(&self, id: ClassId) -> Option<&Cap> {
        self.caps[self.index(id)].as_ref()
    }

    /// The place of a class; of one that does not exist, that of the first.
    fn index(&self, ClassId(index): ClassId) -> usize {
        if usize::from(index) < self.plans.len() { usize::from(index) } else { 0 }
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
        let is_plain = matches!(
            &*classes.plans,
            [Class { maximum: None, when_overloaded: WhenOverloaded::Wait, .. }]
        );
        Self { classes, accounts, is_plain, waiting: 0, served: 0.0 }
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
        if !self.is_plain && !self.try_run(id) {
            return false;
        }
        self.accounts[self.index(id)].counts.started += 1;
        true
    }

    /// Counts one that must not wait, whatever the maximum says.
    pub(crate) fn force_start(&mut self, id: ClassId) {
        if !self.is_plain {
            if let Some(cap) = self.classes.cap(id) {
                cap.force();
            }
            self.runs(id);
        }
        self.accounts[self.index(id)].counts.started += 1;
    }

    fn try_run(&mut self, id: ClassId) -> bool {
        let may_run = self.classes.cap(id).is_none_or(Cap::try_take);
        if may_run {
            self.runs(id);
        }
        may_run
    }

    fn runs(&mut self, id: ClassId) {
        let account = &mut self.accounts[self.index(id)];
        account.running += 1;
        self.served = self.served.max(account.charge);
    }

    /// One has ended, after so many microseconds in the server. The answer is another worker that waits for its class's
    /// maximum.
    #[inline]
    pub(crate) fn ended(&mut self, worker: usize, id: ClassId, took: u64) -> Option<usize> {
        let at = self.index(id);
        let busy = &mut self.accounts[at].counts.busy;
        *busy = busy.saturating_add(took);
        if self.is_plain { None } else { self.charged(worker, at, took) }
    }

    fn charged(&mut self, worker: usize, at: usize, took: u64) -> Option<usize> {
        let account = &mut self.accounts[at];
        account.running = account.running.saturating_sub(1);
        let took = took as f64;
        account.charge += took / f64::from(self.classes.plans[at].weight.max(1));
        account.mean += (took - account.mean) / MEAN_OF;
        self.classes.caps[at].as_ref().and_then(|cap| cap.give_back(worker))
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
        let plans = self.classes.plans.iter().map(|plan| plan.name.as_str());
        plans.zip(self.accounts.iter().map(|account| account.counts))
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
