//! How long a client may do what: run a statement, keep a transaction open, do nothing in one, stay connected.
//!
//! A bound may be given for all clients, for a class and for a user. The user's counts before the class's, and the
//! class's before that for all; a bound that says "no limit" ends the search as any other does. Invariants: nothing
//! here reads a clock; a client without bounds costs one comparison.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::classes::ClassId;

/// What may take so long only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timed {
    /// A statement runs at the server; that it has waited in the queue does not count.
    Statement,
    /// A transaction is open, whatever its client does in it.
    Transaction,
    /// A client asks nothing while its transaction is open.
    IdleTransaction,
    /// A client is connected.
    ClientAge,
}

impl Timed {
    pub const ALL: [Self; 4] =
        [Self::Statement, Self::Transaction, Self::IdleTransaction, Self::ClientAge];

    /// The option's name, the same for all, a class and a user.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Statement => "statement",
            Self::Transaction => "transaction",
            Self::IdleTransaction => "idle_transaction",
            Self::ClientAge => "client_age",
        }
    }
}

/// What a class or a user says of one limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bound {
    /// Nothing: the next wider rule counts.
    #[default]
    Inherited,
    Unlimited,
    Within(Duration),
}

impl Bound {
    /// The limit, where this one is wider.
    pub fn or(self, wider: Option<Duration>) -> Option<Duration> {
        match self {
            Self::Inherited => wider,
            Self::Unlimited => None,
            Self::Within(max) => Some(max),
        }
    }
}

/// What a class or a user says of all limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeBounds {
    pub statement: Bound,
    pub transaction: Bound,
    pub idle_transaction: Bound,
    pub client_age: Bound,
}

impl TimeBounds {
    pub const fn get(&self, timed: Timed) -> Bound {
        match timed {
            Timed::Statement => self.statement,
            Timed::Transaction => self.transaction,
            Timed::IdleTransaction => self.idle_transaction,
            Timed::ClientAge => self.client_age,
        }
    }

    /// Its bounds for all clients, of which none is inherited.
    fn of_all(all: &AllLimits) -> Self {
        let bound = |limit: Option<Duration>| limit.map_or(Bound::Unlimited, Bound::Within);
        Self {
            statement: bound(all.statement),
            transaction: bound(all.transaction),
            idle_transaction: bound(all.idle_transaction),
            client_age: bound(all.client_age),
        }
    }
}

/// The limits for all clients. `None`: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllLimits {
    pub statement: Option<Duration>,
    pub transaction: Option<Duration>,
    pub idle_transaction: Option<Duration>,
    pub client_age: Option<Duration>,
}

/// Where a limit comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitSource {
    All,
    /// The class of the client, or of the statement.
    Class(ClassId),
    User,
    /// A rule that the statement has hit.
    Rule,
}

/// A limit that holds for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    pub timed: Timed,
    pub max: Duration,
    pub source: LimitSource,
}

impl Limit {
    /// The one that is passed first.
    pub fn narrower(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        one.into_iter().chain(other).min_by_key(|limit| limit.max)
    }
}

/// A limit that a client has passed, and when that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassedLimit {
    pub limit: Limit,
    pub at: Instant,
}

impl PassedLimit {
    /// Whether a statement is to end because of it.
    pub const fn ends_statement(&self) -> bool {
        matches!(self.limit.timed, Timed::Statement | Timed::Transaction)
    }
}

/// All limits that are in force.
#[derive(Clone, Debug, Default)]
pub struct TimeLimits {
    all: TimeBounds,
    /// In the order of their ids.
    classes: Vec<TimeBounds>,
    /// Those of which anything is said.
    users: HashMap<Box<[u8]>, TimeBounds>,
    shortest: Option<Duration>,
}

impl TimeLimits {
    /// `classes` in the order of their ids; `users` by their names.
    pub fn new<'a>(
        all: &AllLimits,
        classes: impl IntoIterator<Item = TimeBounds>,
        users: impl IntoIterator<Item = (&'a [u8], TimeBounds)>,
    ) -> Self {
        let says = |bounds: &TimeBounds| *bounds != TimeBounds::default();
        let mut limits = Self {
            all: TimeBounds::of_all(all),
            classes: classes.into_iter().collect(),
            users: users
                .into_iter()
                .filter(|(_, bounds)| says(bounds))
                .map(|(name, bounds)| (name.into(), bounds))
                .collect(),
            shortest: None,
        };
        if !limits.classes.iter().any(says) {
            limits.classes.clear();
        }
        let bounds = std::iter::once(&limits.all).chain(&limits.classes);
        let each = bounds.chain(limits.users.values()).flat_map(|bounds| {
            Timed::ALL.into_iter().filter_map(|timed| match bounds.get(timed) {
                Bound::Within(max) => Some(max),
                Bound::Inherited | Bound::Unlimited => None,
            })
        });
        limits.shortest = each.min();
        limits
    }

    /// The shortest of all; `None`: there is no limit.
    pub const fn shortest(&self) -> Option<Duration> {
        self.shortest
    }

    /// What holds for a client of this user, or for its statement, in this class.
    pub fn find(&self, timed: Timed, user: &[u8], class: ClassId) -> Option<Limit> {
        self.shortest?;
        let of_user = self.users.get(user).map(|it| (LimitSource::User, it.get(timed)));
        let of_class = || {
            let bounds = self.classes.get(usize::from(class.0))?;
            Some((LimitSource::Class(class), bounds.get(timed)))
        };
        let is_said = |(_, bound): &(LimitSource, Bound)| *bound != Bound::Inherited;
        let said = of_user.filter(is_said).or_else(|| of_class().filter(is_said));
        match said.unwrap_or_else(|| (LimitSource::All, self.all.get(timed))) {
            (source, Bound::Within(max)) => Some(Limit { timed, max, source }),
            (_, Bound::Unlimited | Bound::Inherited) => None,
        }
    }
}

/// What a client is doing, as far as limits go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doing {
    /// Since when it asks nothing.
    pub idle: Option<Instant>,
    /// Since when its statement runs at the server.
    pub running: Option<Instant>,
    /// Since when its transaction is open.
    pub transaction: Option<Instant>,
    /// Since when it is connected.
    pub connected: Option<Instant>,
}

impl Doing {
    fn since(&self, timed: Timed) -> Option<Instant> {
        match timed {
            Timed::Statement => self.running,
            Timed::Transaction => self.transaction,
            Timed::IdleTransaction => self.idle.filter(|_| self.transaction.is_some()),
            Timed::ClientAge => self.connected,
        }
    }

    /// The limit that is passed first, and how long that takes; zero if it is passed. Of several that are passed, the
    /// first of [`Timed::ALL`].
    pub fn first(
        &self,
        now: Instant,
        limit: impl Fn(Timed) -> Option<Limit>,
    ) -> Option<(Duration, Limit)> {
        let due = |timed| {
            let since = self.since(timed)?;
            let limit = limit(timed)?;
            Some((limit.max.saturating_sub(now.saturating_duration_since(since)), limit))
        };
        Timed::ALL.into_iter().filter_map(due).min_by_key(|(left, _)| *left)
    }
}

/// Lines of a log, of which only so many are written in a second: each client that a limit ends would write one.
#[derive(Debug, Default)]
pub struct LineRate {
    begun: Option<Instant>,
    written: u32,
    left_out: u64,
}

/// So many lines in a second.
pub const LINES_MAX: u32 = 20;

impl LineRate {
    /// Whether one more line is written; and how many were left out before it.
    pub fn write(&mut self, now: Instant) -> Option<u64> {
        let is_new = |begun| now.saturating_duration_since(begun) >= Duration::from_secs(1);
        if self.begun.is_none_or(is_new) {
            (self.begun, self.written) = (Some(now), 0);
        }
        if self.written >= LINES_MAX {
            self.left_out += 1;
            return None;
        }
        self.written += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Bound {
        Bound::Within(Duration::from_secs(seconds))
    }

    fn statement(bound: Bound) -> TimeBounds {
        TimeBounds { statement: bound, ..TimeBounds::default() }
    }

    #[test]
    fn the_users_bound_counts_before_the_classs_and_that_before_the_one_for_all() {
        use Bound::{Inherited, Unlimited};
        for (all, class, user, expected) in [
            (None, Inherited, Inherited, None),
            (Some(9), Inherited, Inherited, Some((9, LimitSource::All))),
            (Some(9), seconds(20), Inherited, Some((20, LimitSource::Class(ClassId(1))))),
            (Some(9), seconds(2), Inherited, Some((2, LimitSource::Class(ClassId(1))))),
            (Some(9), Unlimited, Inherited, None),
            (Some(9), seconds(2), seconds(30), Some((30, LimitSource::User))),
            (Some(9), seconds(2), Unlimited, None),
            (Some(9), Unlimited, seconds(1), Some((1, LimitSource::User))),
            (None, Inherited, seconds(1), Some((1, LimitSource::User))),
        ] {
            let all = AllLimits { statement: all.map(Duration::from_secs), ..AllLimits::default() };
            let classes = [TimeBounds::default(), statement(class)];
            let limits = TimeLimits::new(&all, classes, [(&b"app"[..], statement(user))]);
            let found = limits.find(Timed::Statement, b"app", ClassId(1));
            let found = found.map(|limit| (limit.max.as_secs(), limit.source));
            assert_eq!(found, expected, "{all:?} {class:?} {user:?}");
            let other = limits.find(Timed::Statement, b"other", ClassId(0));
            assert_eq!(other.map(|limit| limit.max), all.statement, "it is of no rule");
            assert_eq!(limits.find(Timed::ClientAge, b"app", ClassId(1)), None);
        }
    }

    #[test]
    fn of_two_limits_the_narrower_holds() {
        let limit = |seconds, source| {
            let max = Duration::from_secs(seconds);
            Some(Limit { timed: Timed::Statement, max, source })
        };
        let (own, rule) = (limit(5, LimitSource::User), limit(3, LimitSource::Rule));
        assert_eq!(Limit::narrower(own, rule), rule);
        assert_eq!(Limit::narrower(own, limit(7, LimitSource::Rule)), own);
        assert_eq!(Limit::narrower(own, limit(5, LimitSource::Rule)), own, "it need not be named");
        assert_eq!((Limit::narrower(own, None), Limit::narrower(None, rule)), (own, rule));
    }

    #[test]
    fn a_bound_alone_counts_before_a_wider_limit() {
        let wider = Some(Duration::from_secs(9));
        assert_eq!(Bound::Inherited.or(wider), wider);
        assert_eq!(Bound::Unlimited.or(wider), None);
        assert_eq!(seconds(2).or(wider), Some(Duration::from_secs(2)));
        assert_eq!(seconds(2).or(None), Some(Duration::from_secs(2)));
    }

    #[test]
    fn the_shortest_of_all_rules_says_how_often_clients_are_looked_at() {
        let none = TimeLimits::new(&AllLimits::default(), [], []);
        assert_eq!(none.shortest(), None);
        let all = AllLimits { client_age: Some(Duration::from_secs(60)), ..AllLimits::default() };
        let limits =
            TimeLimits::new(&all, [statement(seconds(7))], [(&b"a"[..], statement(seconds(3)))]);
        assert_eq!(limits.shortest(), Some(Duration::from_secs(3)));
    }

    #[test]
    fn a_client_passes_the_limit_that_it_comes_to_first() {
        let now = Instant::now() + Duration::from_secs(1000);
        let ago = |seconds| Some(now - Duration::from_secs(seconds));
        let idle =
            Doing { idle: ago(5), transaction: ago(8), connected: ago(100), ..Doing::default() };
        let running = Doing { idle: None, running: ago(5), ..idle };
        let outside = Doing { transaction: None, ..idle };
        use Timed::{ClientAge, IdleTransaction, Statement, Transaction};
        for (doing, bounds, expected) in [
            (idle, vec![], None),
            (idle, vec![(Statement, 1)], None),
            (idle, vec![(IdleTransaction, 6), (Transaction, 10)], Some((1, IdleTransaction))),
            (idle, vec![(IdleTransaction, 8), (Transaction, 10)], Some((2, Transaction))),
            (idle, vec![(IdleTransaction, 1), (Transaction, 1)], Some((0, Transaction))),
            (outside, vec![(IdleTransaction, 1), (Transaction, 1)], None),
            (outside, vec![(ClientAge, 100)], Some((0, ClientAge))),
            (running, vec![(IdleTransaction, 1)], None),
            (running, vec![(Statement, 6), (Transaction, 20)], Some((1, Statement))),
        ] {
            let limit = |timed| {
                let (_, max) = bounds.iter().find(|(it, _)| *it == timed)?;
                Some(Limit { timed, max: Duration::from_secs(*max), source: LimitSource::All })
            };
            let first = doing.first(now, limit).map(|(left, limit)| (left.as_secs(), limit.timed));
            assert_eq!(first, expected, "{doing:?} {bounds:?}");
        }
    }

    #[test]
    fn what_is_left_out_of_a_log_is_counted_in_its_next_line() {
        let (mut rate, now) = (LineRate::default(), Instant::now());
        assert!((0..LINES_MAX).all(|_| rate.write(now) == Some(0)));
        assert!((0..7).all(|_| rate.write(now).is_none()));
        let later = now + Duration::from_secs(1);
        assert_eq!((rate.write(later), rate.write(later)), (Some(7), Some(0)));
    }
}
