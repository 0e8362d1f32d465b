//! What one thread's clients found: counts, latencies, errors, and the course of time.
//!
//! Owns what counts: that which ended between the round's begin and its end. What ended before or
//! after is only in the sums that costs of the whole turn are shared by. Invariant: recorders of
//! several threads can be added.

use std::collections::BTreeMap;

use crate::figures::histogram::{Digest, Histogram, ms};
use crate::results::{ErrorCount, Fairness, Second};

#[derive(Clone, Debug, Default)]
pub struct Recorder {
    /// In nanoseconds of the turn.
    begin: u64,
    end: u64,
    pub statements: u64,
    pub transactions: u64,
    /// From the clients' begin to their end, not only in the round.
    pub all_statements: u64,
    pub latency: Histogram,
    pub statement_latency: Histogram,
    pub connect_latency: Histogram,
    pub reconnects: u64,
    /// Times of an open loop that came within the round and that no client was free for.
    pub unsent: u64,
    errors: BTreeMap<u16, (String, u64)>,
    /// Transactions of each client.
    clients: Vec<u64>,
    joined: u32,
    now: Running,
    seconds: Vec<Past>,
}

/// The second that is running.
#[derive(Clone, Debug, Default)]
struct Running {
    at: i32,
    statements: u64,
    transactions: u64,
    errors: u64,
    latency: Histogram,
}

#[derive(Clone, Debug)]
struct Past {
    at: i32,
    clients: u32,
    statements: u64,
    transactions: u64,
    errors: u64,
    latency: Digest,
}

impl Recorder {
    /// For so many clients; nothing counts before [`Self::begin`] is known.
    pub(super) fn new(clients: usize) -> Self {
        Self { begin: u64::MAX, end: u64::MAX, clients: vec![0; clients], ..Self::default() }
    }

    /// The turn starts now; the round is from `begin` to `end`.
    pub(super) fn start(&mut self, now: u64, begin: u64, end: u64) {
        (self.begin, self.end) = (begin, end);
        self.now.at = self.second(now);
    }

    pub(super) fn join(&mut self, now: u64) {
        self.turn_to(now);
        self.joined += 1;
    }

    pub(super) fn statement(&mut self, from: u64, now: u64) {
        self.all_statements += 1;
        self.turn_to(now);
        self.now.statements += 1;
        if self.counts(now) {
            self.statements += 1;
            self.statement_latency.record(now.saturating_sub(from));
        }
    }

    pub(super) fn transaction(&mut self, client: usize, from: u64, now: u64) {
        self.turn_to(now);
        self.now.transactions += 1;
        let latency = now.saturating_sub(from);
        self.now.latency.record(latency);
        if self.counts(now) {
            self.transactions += 1;
            self.latency.record(latency);
            self.clients[client] += 1;
        }
    }

    pub(super) fn connected(&mut self, from: u64, now: u64) {
        if self.counts(now) {
            self.connect_latency.record(now.saturating_sub(from));
        }
    }

    pub(super) fn reconnected(&mut self, now: u64) {
        if self.counts(now) {
            self.reconnects += 1;
        }
    }

    /// `code` is the server's; 0 for what was noticed on this side.
    pub(super) fn error(&mut self, code: u16, message: &str, now: u64) {
        self.turn_to(now);
        self.now.errors += 1;
        if self.counts(now) {
            self.count_error(code, message, 1);
        }
    }

    pub(super) fn count_error(&mut self, code: u16, message: &str, count: u64) {
        if CODES_MAX <= self.errors.len() && !self.errors.contains_key(&code) {
            return;
        }
        self.errors.entry(code).or_insert_with(|| (message.to_owned(), 0)).1 += count;
    }

    pub(super) fn add(&mut self, mut other: Self) {
        self.statements += other.statements;
        self.transactions += other.transactions;
        self.all_statements += other.all_statements;
        self.latency.add(&other.latency);
        self.statement_latency.add(&other.statement_latency);
        self.connect_latency.add(&other.connect_latency);
        self.reconnects += other.reconnects;
        self.unsent += other.unsent;
        for (code, (message, count)) in std::mem::take(&mut other.errors) {
            self.count_error(code, &message, count);
        }
        other.close_second();
        self.clients.append(&mut other.clients);
        self.seconds.append(&mut other.seconds);
    }

    pub fn errors(&self) -> Vec<ErrorCount> {
        let entry = |(code, (message, count)): (&u16, &(String, u64))| ErrorCount {
            code: *code,
            message: message.clone(),
            count: *count,
        };
        self.errors.iter().map(entry).collect()
    }

    pub fn fairness(&self) -> Fairness {
        let mut counts = self.clients.clone();
        counts.sort_unstable();
        let (Some(slowest), Some(fastest)) = (counts.first(), counts.last()) else {
            return Fairness::default();
        };
        let sum = counts.iter().map(|count| *count as f64).sum::<f64>();
        let squares = counts.iter().map(|count| (*count as f64).powi(2)).sum::<f64>();
        let jain = if squares == 0.0 { 1.0 } else { sum * sum / squares / counts.len() as f64 };
        let median = counts[counts.len() / 2];
        Fairness { jain, slowest: *slowest, median, fastest: *fastest }
    }

    /// Second by second, what the threads saw together. For recorders that others were added to.
    pub fn timeline(&self) -> Vec<Second> {
        let mut seconds: BTreeMap<i32, (Second, Histogram)> = BTreeMap::new();
        for past in &self.seconds {
            let (second, latency) = seconds.entry(past.at).or_default();
            second.clients += past.clients;
            second.statements += past.statements;
            second.transactions += past.transactions;
            second.errors += past.errors;
            latency.add_digest(&past.latency);
        }
        let finish = |(at, (second, latency)): (i32, (Second, Histogram))| Second {
            at,
            p95_ms: ms(latency.quantile(0.95)),
            max_ms: ms(latency.max()),
            ..second
        };
        seconds.into_iter().map(finish).collect()
    }

    const fn counts(&self, now: u64) -> bool {
        self.begin <= now && now < self.end
    }

    fn second(&self, now: u64) -> i32 {
        let since = i128::from(now) - i128::from(self.begin);
        i32::try_from(since.div_euclid(i128::from(NS_PER_S))).unwrap_or(i32::MAX)
    }

    /// Closes the running second if it is over, and those in which nothing happened.
    fn turn_to(&mut self, now: u64) {
        let next = self.begin.saturating_add_signed((i64::from(self.now.at) + 1) * NS_PER_S);
        if now < next || self.begin == u64::MAX {
            return;
        }
        let at = self.second(now.min(self.end));
        while self.now.at < at && self.seconds.len() < SECONDS_MAX {
            self.close_second();
        }
        self.now.at = at;
    }

    fn close_second(&mut self) {
        let is_after =
            self.end <= self.begin.saturating_add_signed(i64::from(self.now.at) * NS_PER_S);
        let latency = self.now.latency.drain();
        let Running { at, statements, transactions, errors, .. } = self.now;
        if self.begin != u64::MAX && !is_after {
            let clients = self.joined;
            self.seconds.push(Past { at, clients, statements, transactions, errors, latency });
        }
        self.now = Running {
            at: at + 1,
            latency: std::mem::take(&mut self.now.latency),
            ..Running::default()
        };
    }
}

const NS_PER_S: i64 = 1_000_000_000;
/// Of different codes; servers do not have that many in one load.
const CODES_MAX: usize = 256;
/// A day. The time line of a longer turn ends there.
const SECONDS_MAX: usize = 86_400;

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// A round from second 10 to second 13, of a turn that starts at 8.5.
    fn recorder() -> Recorder {
        let mut recorder = Recorder::new(2);
        recorder.start(8 * S + S / 2, 10 * S, 13 * S);
        recorder
    }

    fn whole(parts: Vec<Recorder>) -> Recorder {
        let mut whole = Recorder::new(0);
        parts.into_iter().for_each(|part| whole.add(part));
        whole
    }

    #[test]
    fn only_what_ended_in_the_round_counts() {
        let mut recorder = recorder();
        for at in [9 * S, 10 * S - 1, 10 * S, 12 * S, 13 * S - 1, 13 * S, 20 * S] {
            recorder.statement(at - 1000, at);
            recorder.transaction(1, at - 2000, at);
            recorder.error(1213, "Deadlock", at);
        }
        assert_eq!((recorder.statements, recorder.transactions), (3, 3));
        assert_eq!((recorder.all_statements, recorder.latency.count()), (7, 3));
        assert_eq!(recorder.errors()[0].count, 3);
        assert_eq!(recorder.latency.max(), 2000);
    }

    #[test]
    fn every_second_has_its_line_also_the_silent_ones() {
        let mut one = recorder();
        one.join(9 * S);
        one.transaction(0, 10 * S, 10 * S + 5);
        one.transaction(0, 10 * S, 12 * S + 5_000_000);
        let mut two = recorder();
        two.join(10 * S);
        two.transaction(0, 12 * S, 12 * S + 1_000_000);
        two.transaction(0, 12 * S, 14 * S);
        let timeline = whole(vec![one, two]).timeline();
        let seen: Vec<_> = timeline.iter().map(|it| (it.at, it.clients, it.transactions)).collect();
        assert_eq!(seen, [(-2, 0, 0), (-1, 1, 0), (0, 2, 1), (1, 2, 0), (2, 2, 2)]);
        assert!((2005.0..2040.0).contains(&timeline[4].max_ms), "{timeline:?}");
    }

    #[test]
    fn fairness_tells_one_who_got_everything() {
        let mut recorder = recorder();
        assert!((recorder.fairness().jain - 1.0).abs() < 1e-9, "nobody got anything");
        for _ in 0..10 {
            recorder.transaction(0, 10 * S, 11 * S);
        }
        let want = Fairness { jain: 0.5, slowest: 0, median: 10, fastest: 10 };
        assert_eq!(recorder.fairness(), want);
        let all = whole(vec![recorder.clone(), recorder]).fairness();
        assert_eq!((all.jain, all.slowest, all.fastest), (0.5, 0, 10));
    }

    #[test]
    fn codes_are_bounded() {
        let mut recorder = recorder();
        (0..1000).for_each(|code| recorder.count_error(code, "x", 1));
        recorder.count_error(5, "other", 4);
        assert_eq!(recorder.errors().len(), CODES_MAX);
        assert_eq!((recorder.errors()[5].count, &*recorder.errors()[5].message), (5, "x"));
    }
}
