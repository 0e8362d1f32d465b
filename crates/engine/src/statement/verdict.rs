//! What the rules that a statement hits come to, together: acts add up; of routes, classes, connections and labels the
//! last one counts, of times the shortest, of delays and retries the greatest.

use std::time::Duration;

use super::rule::{RuleActs, RuleCache, RuleConnection, RuleLog};
use super::rules::{ReadyRule, Rules};
use crate::sharing::ShareReads;

/// The rules that a statement, or all statements of a text, hit.
#[derive(Clone, Copy, Debug)]
pub struct RuleHits<'r> {
    rules: &'r Rules,
    hit: &'r [usize],
}

impl<'r> RuleHits<'r> {
    pub const fn new(rules: &'r Rules, hit: &'r [usize]) -> Self {
        Self { rules, hit }
    }

    pub fn ready(self) -> impl DoubleEndedIterator<Item = &'r ReadyRule> {
        self.hit.iter().filter_map(move |at| self.rules.get(*at))
    }

    /// What each rule says of something, and the rule.
    fn said<T>(
        self,
        of: impl Fn(&'r RuleActs) -> Option<T>,
    ) -> impl DoubleEndedIterator<Item = (T, &'r ReadyRule)> {
        self.ready().filter_map(move |ready| Some((of(&ready.rule.acts)?, ready)))
    }

    /// The first rule that says something of this.
    pub fn first<T>(self, of: impl Fn(&'r RuleActs) -> Option<T>) -> Option<(T, &'r ReadyRule)> {
        self.said(of).next()
    }

    /// The last one.
    pub fn last<T>(self, of: impl Fn(&'r RuleActs) -> Option<T>) -> Option<(T, &'r ReadyRule)> {
        self.said(of).next_back()
    }

    /// How long it waits first.
    pub fn delay(self) -> Option<Duration> {
        self.said(|acts| acts.delay).map(|(delay, _)| delay).max()
    }

    /// How long it may run, and the rule that says so.
    pub fn statement_time(self) -> Option<(Duration, &'r ReadyRule)> {
        self.said(|acts| acts.statement_time).min_by_key(|(time, _)| *time)
    }

    /// How long it may wait in queues, and the rule that says so.
    pub fn queue_timeout(self) -> Option<(Duration, &'r ReadyRule)> {
        self.said(|acts| acts.queue_timeout).min_by_key(|(time, _)| *time)
    }

    pub fn retries(self) -> Option<u32> {
        self.said(|acts| acts.retries).map(|(retries, _)| retries).max()
    }

    pub fn is_logged(self, log: RuleLog) -> bool {
        self.ready().any(|ready| ready.rule.acts.log.contains(&log))
    }

    pub fn connection(self) -> Option<RuleConnection> {
        self.last(|acts| acts.connection).map(|(connection, _)| connection)
    }

    /// For how long its reply is kept.
    pub fn cache(self) -> Option<RuleCache> {
        self.last(|acts| acts.cache).map(|(cache, _)| cache)
    }

    /// Whether it shares its run with others, or theirs.
    pub fn share_reads(self) -> ShareReads {
        self.ready()
            .fold(ShareReads::AsAbove, |so_far, it| so_far.narrowed(it.rule.acts.share_reads))
    }

    /// The label at which the client's next statements begin, if rules say something of that; `None` within: at none.
    pub fn next(self) -> Option<Option<&'r str>> {
        self.last(|acts| acts.next.as_ref()).map(|(next, _)| next.label())
    }
}
