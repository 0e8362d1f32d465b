//! What a worker counts. Each worker has cells of its own, so counting costs an addition.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::rc::Rc;

use engine::cache::WhyNot;
use engine::pin::Pin;
use engine::sharing::CutOut;
use serde::{Deserialize, Serialize};

use crate::fault::Kind;

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(Cell<u64>);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.set(self.0.get() + count);
    }

    pub(crate) const fn get(&self) -> u64 {
        self.0.get()
    }
}

/// One for each kind of fault, in the order of their kinds.
#[derive(Debug)]
pub(crate) struct FaultCounters([Counter; Kind::ALL.len()]);

impl Default for FaultCounters {
    fn default() -> Self {
        // Arrays of more than 32 have no default of their own.
        Self(std::array::from_fn(|_| Counter::default()))
    }
}

impl Deref for FaultCounters {
    type Target = [Counter; Kind::ALL.len()];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// The counters of one worker.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Commands whose replies have ended.
    pub(crate) statements: Rc<Counter>,
    /// Commands that could not start at once.
    pub(crate) waits: Counter,
    /// Slots left because a statement seemed to wait for something in the server.
    pub(crate) parked: Counter,
    /// Slots left because a client did not read its reply.
    pub(crate) held_up: Counter,
    /// Commands that were sent before all of them was there.
    pub(crate) passed_in_pieces: Counter,
    /// Statements written to a backend behind others.
    pub(crate) pipelined: Counter,
    /// Statements that were to get the reply to the same statement of another client, and those that got it; and those
    /// that did not.
    pub(crate) crowded: Counter,
    pub(crate) joined: Counter,
    pub(crate) spared: Counter,
    pub(crate) cut_out: [Counter; CutOut::ALL.len()],
    /// Statements that got a reply which was kept, those that waited for one, and those that fetched one; replies that
    /// were kept; and why none was.
    pub(crate) cache_hits: Counter,
    pub(crate) cache_joined: Counter,
    pub(crate) cache_misses: Counter,
    pub(crate) cache_fills: Counter,
    pub(crate) cache_not: [Counter; WhyNot::ALL.len()],
    /// Pipelined statements in vain, and sent again on another backend.
    pub(crate) sent_again: [Counter; Why::ALL.len()],
    pub(crate) clients_pass_through: Counter,
    pub(crate) clients_pooled: Counter,
    /// Clients whose logins did not begin at once.
    pub(crate) logins_waited: Counter,
    pub(crate) backends_opened: Counter,
    pub(crate) backends_failed: Counter,
    /// Backends whose sessions were begun anew behind a client that had left something on them.
    pub(crate) backends_reset: Counter,
    /// Backends that were given up, while they were free, for clients that need others; and those that were sent to
    /// another worker.
    pub(crate) backends_given_up: Counter,
    pub(crate) backends_handed_over: Counter,
    /// Clients that are another process's now, which has taken over.
    pub(crate) clients_handed_over: Counter,
    pub(crate) kills: Counter,
    /// Read from clients that have logged in, and from backends for them.
    pub(crate) bytes_in: Counter,
    pub(crate) bytes_out: Counter,
    /// Backends that are open just to kill; not a counter, but a gauge.
    pub(crate) killing: Cell<u64>,
    pub(crate) faults: FaultCounters,
    pub(crate) pins: [Counter; Pin::ALL.len()],
}

/// What several workers have counted, by name. Two Flifos may not have the same counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Totals(BTreeMap<String, u64>);

impl Totals {
    /// Both together.
    #[must_use]
    pub(crate) fn plus(mut self, other: &Self) -> Self {
        for (name, count) in &other.0 {
            *self.0.entry(name.clone()).or_default() += count;
        }
        self
    }

    /// Those whose names begin so, by what follows.
    pub(crate) fn of(&self, begin: &str) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().filter_map(move |(name, count)| Some((name.strip_prefix(begin)?, *count)))
    }

    /// Together with others that are counted elsewhere.
    #[must_use]
    pub(crate) fn with(mut self, others: impl Iterator<Item = (String, u64)>) -> Self {
        self.0.extend(others);
        self
    }

    /// What has been counted since these were.
    #[must_use]
    pub(crate) fn since(mut self, before: &Self) -> Self {
        for (name, count) in &mut self.0 {
            *count -= before.0.get(name).copied().unwrap_or(0).min(*count);
        }
        self
    }
}

impl Counters {
    /// Those that stand for themselves, by name.
    pub(crate) fn plain(&self) -> Vec<(&'static str, u64)> {
        self.by_name().map(|(name, counter)| (name, counter.get())).into()
    }

    fn by_name(&self) -> [(&'static str, &Counter); 25] {
        [
            ("statements", &*self.statements),
            ("waits", &self.waits),
            ("parked", &self.parked),
            ("held_up", &self.held_up),
            ("passed_in_pieces", &self.passed_in_pieces),
            ("pipelined", &self.pipelined),
            ("share_crowded", &self.crowded),
            ("share_joined", &self.joined),
            ("share_spared", &self.spared),
            ("cache_hits", &self.cache_hits),
            ("cache_joined", &self.cache_joined),
            ("cache_misses", &self.cache_misses),
            ("cache_fills", &self.cache_fills),
            ("clients_pass_through", &self.clients_pass_through),
            ("clients_pooled", &self.clients_pooled),
            ("logins_waited", &self.logins_waited),
            ("backends_opened", &self.backends_opened),
            ("backends_failed", &self.backends_failed),
            ("backends_reset", &self.backends_reset),
            ("backends_given_up", &self.backends_given_up),
            ("backends_handed_over", &self.backends_handed_over),
            ("clients_handed_over", &self.clients_handed_over),
            ("kills", &self.kills),
            ("bytes_in", &self.bytes_in),
            ("bytes_out", &self.bytes_out),
        ]
    }

    /// All of them, by their names in reports.
    fn all(&self) -> impl Iterator<Item = (String, &Counter)> {
        let plain = self.by_name().map(|(name, counter)| (name.to_owned(), counter));
        let whys = Why::ALL.iter().zip(&self.sent_again);
        let whys = whys.map(|(why, counter)| (format!("sent_again.{}", why.name()), counter));
        let cut_out = CutOut::ALL.iter().zip(&self.cut_out);
        let cut_out =
            cut_out.map(|(why, counter)| (format!("share_cut_out.{}", why.name()), counter));
        let faults = Kind::ALL.iter().zip(self.faults.iter());
        let faults = faults.map(|(kind, counter)| (format!("faults.{}", kind.name()), counter));
        let pins = Pin::ALL.iter().zip(&self.pins);
        let pins = pins.map(|(pin, counter)| (format!("pins.{}", pin.name()), counter));
        let not = WhyNot::ALL.iter().zip(&self.cache_not);
        let not = not.map(|(why, counter)| (format!("cache_not.{}", why.name()), counter));
        plain.into_iter().chain(whys).chain(cut_out).chain(not).chain(faults).chain(pins)
    }

    /// What has been counted so far.
    pub(crate) fn totals(&self) -> Totals {
        Totals(self.all().map(|(name, counter)| (name, counter.get())).collect())
    }

    /// Another process has counted this, which goes on here.
    pub(crate) fn add(&self, totals: &Totals) {
        for (name, counter) in self.all() {
            counter.add(totals.0.get(&name).copied().unwrap_or(0));
        }
    }

    /// All that is not zero, by name.
    pub(crate) fn report(&self) -> Vec<(String, u64)> {
        let again = self.sent_again.iter().map(Counter::get).sum();
        let counts = self.all().map(|(name, counter)| (name, counter.get()));
        let mut counts: Vec<_> = counts.filter(|(_, count)| *count > 0).collect();
        if again > 0 {
            let at = counts.iter().position(|(name, _)| name.starts_with("sent_again."));
            counts.insert(at.unwrap_or(counts.len()), ("sent_again".to_owned(), again));
        }
        counts
    }
}

/// Why statements that were pipelined are sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The one in front runs long.
    Long,
    /// The client of the one in front keeps the backend.
    Kept,
    /// The client of the one in front does not read its reply.
    Unread,
    /// The client of the one in front has left.
    Left,
    /// The one in front is killed.
    Killed,
    /// The backend was lost.
    Lost,
    /// The one in front is prepared anew, and runs again.
    Again,
    /// What its backend was told before it has failed.
    Setup,
}

impl Why {
    pub(crate) const ALL: [Self; 8] = [
        Self::Long,
        Self::Kept,
        Self::Unread,
        Self::Left,
        Self::Killed,
        Self::Lost,
        Self::Again,
        Self::Setup,
    ];

    /// The name in counters.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Long => "long",
            Self::Kept => "kept",
            Self::Unread => "unread",
            Self::Left => "left",
            Self::Killed => "killed",
            Self::Lost => "lost",
            Self::Again => "again",
            Self::Setup => "setup",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_name_what_was_counted() {
        let counters = Counters::default();
        counters.statements.add(2);
        counters.pins[Pin::Call as usize].add(1);
        counters.faults[Kind::Idle as usize].add(3);
        let want = [("statements", 2), ("faults.idle", 3), ("pins.call", 1)]
            .map(|(name, count)| (name.to_owned(), count));
        assert_eq!(counters.report(), want);
    }

    #[test]
    fn the_lists_are_in_the_order_of_the_kinds() {
        assert!(Kind::ALL.iter().enumerate().all(|(at, kind)| *kind as usize == at));
        assert!(Pin::ALL.iter().enumerate().all(|(at, pin)| *pin as usize == at));
        assert!(Why::ALL.iter().enumerate().all(|(at, why)| *why as usize == at));
    }
}
