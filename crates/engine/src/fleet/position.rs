//! How far a server has come in what is replicated, and how far behind the writer that is.
//!
//! A server's place is told by itself: the last transaction of each domain (GTIDs), or the last commit of a cluster.
//! Time comes in by the writer alone: its places are remembered with the times at which it was asked, so that no
//! server's clock is believed. Invariant: whoever covers a place has everything that was committed before the writer
//! was asked for it.

pub mod executed;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use self::executed::Executed;

/// A place in what is replicated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Position {
    #[default]
    Unknown,
    /// The last transaction of each domain, as MariaDB writes it: `0-1-42,1-1-7`.
    Gtid(Vec<(u32, u64)>),
    /// The last commit of a Galera cluster.
    Commit(u64),
    /// All transactions that were executed, as MySQL writes them.
    Executed(Executed),
}

/// More domains than anybody has.
const DOMAINS_MAX: usize = 256;

impl Position {
    /// Reads a list of GTIDs. What cannot be read is unknown.
    pub fn from_gtids(text: &str) -> Self {
        let mut domains: Vec<(u32, u64)> = Vec::new();
        for gtid in text.split(',').map(str::trim).filter(|gtid| !gtid.is_empty()) {
            let mut parts = gtid.split('-');
            let (domain, _server, sequence) = (parts.next(), parts.next(), parts.next());
            let domain = domain.and_then(|it| it.parse().ok());
            let sequence = sequence.and_then(|it| it.parse().ok());
            let Some((domain, sequence)) = domain.zip(sequence) else { return Self::Unknown };
            let has_room = domains.len() < DOMAINS_MAX;
            match domains.iter_mut().find(|it| it.0 == domain) {
                Some(known) => known.1 = known.1.max(sequence),
                None if has_room => domains.push((domain, sequence)),
                None => return Self::Unknown,
            }
        }
        Self::Gtid(domains)
    }

    /// Reads a set of GTIDs as MySQL writes them: `3e11fa47-…:1-5:7,…`. What cannot be read is unknown.
    pub fn from_executed(text: &str) -> Self {
        Executed::read(text).map_or(Self::Unknown, Self::Executed)
    }

    /// The place that has all that either has.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Gtid(mut domains), Self::Gtid(others)) => {
                for (domain, sequence) in others {
                    match domains.iter_mut().find(|it| it.0 == domain) {
                        Some(known) => known.1 = known.1.max(sequence),
                        None => domains.push((domain, sequence)),
                    }
                }
                Self::Gtid(domains)
            }
            (Self::Unknown, other) => other,
            (own, _) => own,
        }
    }

    /// Whether a server that is here has all that one there has. What is not known covers nothing.
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Gtid(own), Self::Gtid(other)) => other.iter().all(|(domain, sequence)| {
                own.iter().any(|it| it.0 == *domain && it.1 >= *sequence)
            }),
            (Self::Commit(own), Self::Commit(other)) => own >= other,
            (Self::Executed(own), Self::Executed(other)) => own.covers(other),
            _ => false,
        }
    }
}

/// Where the writer has been, and when.
#[derive(Clone, Debug, Default)]
pub struct History {
    samples: VecDeque<Sample>,
}

#[derive(Clone, Debug)]
struct Sample {
    position: Position,
    /// When the writer was asked first, and last, and was there.
    first: Instant,
    last: Instant,
}

/// So many places of the writer are remembered; who covers none of them is too far behind to be measured.
const SAMPLES_MAX: usize = 512;

/// How far a server is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lag {
    /// It has nothing of what is remembered, or does not tell.
    Unknown,
    /// It lacks something that the writer has had for so long; it has all that was committed before this moment.
    Behind { by: Duration, caught_up: Instant },
}

impl History {
    pub fn clear(&mut self) {
        self.samples.clear();
    }

    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// The writer was asked at `begun`, and was here.
    pub fn note(&mut self, position: &Position, begun: Instant) {
        if *position == Position::Unknown {
            return;
        }
        if let Some(newest) = self.samples.back_mut() {
            if begun <= newest.last {
                return;
            }
            if newest.position == *position {
                newest.last = begun;
                return;
            }
        }
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        let position = position.clone();
        self.samples.push_back(Sample { position, first: begun, last: begun });
    }

    /// How far behind a server is that is here.
    pub fn lag(&self, position: &Position, now: Instant) -> Lag {
        let mut missing = None;
        for sample in self.samples.iter().rev() {
            if position.covers(&sample.position) {
                let by =
                    missing.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
                return Lag::Behind { by, caught_up: sample.last };
            }
            missing = Some(sample.first);
        }
        Lag::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gtids_are_compared_domain_by_domain() {
        let at = Position::from_gtids;
        assert_eq!(at("0-1-42, 7-2-3"), Position::Gtid(vec![(0, 42), (7, 3)]));
        assert_eq!(at("0-1-42,0-2-40"), Position::Gtid(vec![(0, 42)]));
        assert_eq!(at("0-1"), Position::Unknown);
        assert_eq!(at("nonsense"), Position::Unknown);
        assert!(at("0-9-42,7-2-3").covers(&at("0-1-42")), "whoever wrote it");
        assert!(!at("0-1-42").covers(&at("0-1-42,7-2-3")) && !at("0-1-41").covers(&at("0-1-42")));
        assert!(at("0-1-1").covers(&at("")) && !Position::Unknown.covers(&at("")));
        assert!(Position::Commit(7).covers(&Position::Commit(7)));
        assert!(!Position::Commit(7).covers(&Position::Commit(8)));
        assert_eq!(at("0-1-4").plus(at("0-2-3,1-1-1")), at("0-1-4,1-1-1"));
        assert_eq!(Position::Unknown.plus(at("0-2-3")), at("0-2-3"));
    }

    #[test]
    fn lag_is_the_age_of_what_is_missing() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let at = Position::Commit;
        let mut history = History::default();
        assert_eq!(history.lag(&at(9), start), Lag::Unknown, "the writer has not been asked");
        history.note(&at(10), start);
        history.note(&at(10), start + second);
        history.note(&at(12), start + 2 * second);
        let now = start + 5 * second;
        assert_eq!(history.lag(&at(9), now), Lag::Unknown);
        let caught_up = start + second;
        assert_eq!(history.lag(&at(11), now), Lag::Behind { by: 3 * second, caught_up });
        let caught_up = start + 2 * second;
        assert_eq!(history.lag(&at(12), now), Lag::Behind { by: Duration::ZERO, caught_up });
        // An answer that was overtaken by a later one says nothing new.
        history.note(&at(11), start + second);
        assert_eq!(history.lag(&at(12), now), Lag::Behind { by: Duration::ZERO, caught_up });
    }

    #[test]
    fn what_is_remembered_has_an_end() {
        let (start, mut history) = (Instant::now(), History::default());
        for at in 1..=2 * SAMPLES_MAX as u64 {
            history.note(&Position::Commit(at), start + Duration::from_millis(at));
        }
        assert_eq!(history.samples.len(), SAMPLES_MAX);
        let oldest = Position::Commit(SAMPLES_MAX as u64);
        assert_eq!(history.lag(&oldest, start), Lag::Unknown);
    }
}
