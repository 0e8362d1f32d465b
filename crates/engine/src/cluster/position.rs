//! How far a server has come in what is replicated, and how far behind the writer that is.
//!
//! A server's place is told by itself: its transactions (GTIDs), or the last commit of a cluster. Time comes in by the
//! server that takes writes: its places are remembered with the times at which it was asked, so that no server's clock
//! is believed. Invariants: a server that covers a place has everything that was committed before the other one was
//! asked for it; a number counts only where it was given, by its server of MariaDB, by its cluster of Galera.

pub mod executed;

use std::collections::VecDeque;
use std::fmt::{self, Display, Formatter};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use self::executed::Executed;

/// A place in what is replicated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Position {
    #[default]
    Unknown,
    /// The last transaction of each server in each domain, as MariaDB writes them: `0-1-42,0-2-40`.
    Gtid(Vec<Gtid>),
    /// The last commit of a Galera cluster.
    Commit {
        /// The UUID of the cluster's history, zero if it does not tell.
        cluster: u128,
        number: u64,
    },
    /// All transactions that were executed, as MySQL writes them.
    Executed(Executed),
}

/// A transaction of MariaDB's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gtid {
    domain: u32,
    /// The server that took it. Two servers that are written to apart from each other give the same numbers.
    server: u32,
    sequence: u64,
}

/// No site has so many servers and domains.
const GTIDS_MAX: usize = 256;

impl Position {
    /// Reads a list of GTIDs. What cannot be read is unknown.
    pub fn from_gtids(text: &str) -> Self {
        let mut all: Vec<Gtid> = Vec::new();
        for gtid in text.split(',').map(str::trim).filter(|gtid| !gtid.is_empty()) {
            let Some(gtid) = Gtid::read(gtid) else { return Self::Unknown };
            gtid.put(&mut all);
            if all.len() > GTIDS_MAX {
                return Self::Unknown;
            }
        }
        Self::Gtid(all)
    }

    /// Reads a set of GTIDs as MySQL writes them: `3e11fa47-…:1-5:7,…`. What cannot be read is unknown.
    pub fn from_executed(text: &str) -> Self {
        Executed::read(text).map_or(Self::Unknown, Self::Executed)
    }

    /// What a client names, of either make. What cannot be read is unknown.
    pub fn named(text: &[u8]) -> Self {
        match std::str::from_utf8(text) {
            Ok(text) if text.contains(':') => Self::from_executed(text),
            Ok(text) if !text.trim().is_empty() => Self::from_gtids(text),
            _ => Self::Unknown,
        }
    }

    /// The place that has all that either has.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Gtid(mut all), Self::Gtid(others)) => {
                others.into_iter().for_each(|gtid| gtid.put(&mut all));
                Self::Gtid(all)
            }
            (Self::Unknown, other) => other,
            (own, _) => own,
        }
    }

    /// Whether a server that is here has all that one there has. What is not known covers nothing.
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Gtid(own), Self::Gtid(other)) => latest(other).all(|gtid| gtid.is_in(own)),
            (Self::Commit { cluster, number }, Self::Commit { cluster: theirs, number: other }) => {
                cluster == theirs && number >= other
            }
            (Self::Executed(own), Self::Executed(other)) => own.covers(other),
            _ => false,
        }
    }

    /// Whether a server that is here has this transaction, and all that came before it in its domain.
    pub fn has(&self, gtid: Gtid) -> bool {
        matches!(self, Self::Gtid(own) if gtid.is_in(own))
    }
}

impl Position {
    /// Whether a server that is here now and was there before has gone back: it was restored from older data, or counts
    /// from the beginning again. What one server has never becomes less otherwise.
    pub fn is_back_from(&self, before: &Self) -> bool {
        match (self, before) {
            (Self::Gtid(own), Self::Gtid(before)) => {
                let is_less = |gtid: &Gtid| {
                    let same = own.iter().find(|it| gtid.is_of(it));
                    same.is_some_and(|it| it.sequence < gtid.sequence)
                        || last(own, gtid.domain).is_some_and(|newest| newest < gtid.sequence)
                };
                // An operator may delete a domain from a binary log, but not the last one.
                let has_one = before.iter().any(|gtid| last(own, gtid.domain).is_some());
                before.iter().any(is_less) || !before.is_empty() && !has_one
            }
            (Self::Commit { .. }, Self::Commit { .. }) | (Self::Executed(_), Self::Executed(_)) => {
                !self.covers(before)
            }
            _ => false,
        }
    }
}

impl Position {
    /// Whether a server that is here has numbers that were given before, and may be given once more, by a server that
    /// had come to `shown` and went back to `base`. MariaDB goes on behind the last number of a domain, of whatever
    /// server.
    pub fn has_given_again(&self, shown: &Self, base: &Self) -> bool {
        match (self, shown, base) {
            (Self::Gtid(own), Self::Gtid(shown), Self::Gtid(base)) => shown.iter().any(|given| {
                let is_beyond =
                    |it: &Gtid| last(base, it.domain).is_none_or(|newest| it.sequence > newest);
                is_beyond(given) && own.iter().any(|it| it.is_of(given) && is_beyond(it))
            }),
            (Self::Executed(own), Self::Executed(shown), Self::Executed(base)) => {
                own.shares(shown, base)
            }
            // Nothing is known.
            _ => true,
        }
    }
}

impl From<Position> for String {
    /// The whole position, for another process.
    fn from(position: Position) -> Self {
        match position {
            Position::Unknown => Self::new(),
            Position::Gtid(all) => {
                let all: Vec<_> = all.iter().map(Gtid::to_string).collect();
                format!("gtids {}", all.join(","))
            }
            Position::Commit { cluster, number } => format!("commit {cluster:032x} {number}"),
            Position::Executed(executed) => format!("executed {executed}"),
        }
    }
}

impl TryFrom<String> for Position {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let (kind, rest) = text.split_once(' ').unwrap_or((&text, ""));
        let position = match kind {
            "" => return Ok(Self::Unknown),
            "gtids" => Self::from_gtids(rest),
            "executed" => Self::from_executed(rest),
            "commit" => rest.split_once(' ').map_or(Self::Unknown, |(cluster, number)| {
                let cluster = u128::from_str_radix(cluster, 16).ok();
                let commit = cluster.zip(number.parse().ok());
                commit.map_or(Self::Unknown, |(cluster, number)| Self::Commit { cluster, number })
            }),
            _ => Self::Unknown,
        };
        match position {
            Self::Unknown => Err("it is no position"),
            position => Ok(position),
        }
    }
}

/// The last number of a domain.
fn last(all: &[Gtid], domain: u32) -> Option<u64> {
    all.iter().filter(|it| it.domain == domain).map(|it| it.sequence).max()
}

/// Positions may be too long to read; errors and logs show so many characters.
const SHOWN_MAX: usize = 200;

impl Display for Position {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Unknown => "an unknown position".to_owned(),
            Self::Gtid(all) => latest(all).map(Gtid::to_string).collect::<Vec<_>>().join(","),
            Self::Commit { number, .. } => number.to_string(),
            Self::Executed(executed) => executed.to_string(),
        };
        match text.char_indices().nth(SHOWN_MAX) {
            _ if text.is_empty() => f.write_str("nothing"),
            Some((end, _)) => write!(f, "{}…", &text[..end]),
            None => f.write_str(&text),
        }
    }
}

impl Gtid {
    /// `None`: it is none, or several.
    pub fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let (domain, server, sequence) = (parts.next()?, parts.next()?, parts.next()?);
        let (domain, server) = (domain.parse().ok()?, server.parse().ok()?);
        Some(Self { domain, server, sequence: sequence.parse().ok()? })
    }

    /// The server that has given it, and its number there.
    pub fn halves(self) -> (u64, u64) {
        ((u64::from(self.domain) << 32) | u64::from(self.server), self.sequence)
    }

    pub fn from_halves(origin: u64, sequence: u64) -> Self {
        Self { domain: (origin >> 32) as u32, server: origin as u32, sequence }
    }

    /// Adds it to those that a server has.
    fn put(self, all: &mut Vec<Self>) {
        match all.iter_mut().find(|it| self.is_of(it)) {
            Some(known) => known.sequence = known.sequence.max(self.sequence),
            None => all.push(self),
        }
    }

    /// Whether a server has it that has these.
    fn is_in(&self, all: &[Self]) -> bool {
        all.iter().any(|it| self.is_of(it) && it.sequence >= self.sequence)
    }

    /// Whether both are of one domain.
    pub const fn is_of_domain(self, other: Self) -> bool {
        self.domain == other.domain
    }

    /// Whether both are of one domain and one server.
    const fn is_of(&self, other: &Self) -> bool {
        self.domain == other.domain && self.server == other.server
    }
}

impl Display for Gtid {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.domain, self.server, self.sequence)
    }
}

/// The newest of each domain: a server that has it has all that came before it.
fn latest(all: &[Gtid]) -> impl Iterator<Item = &Gtid> {
    all.iter().filter(move |gtid| last(all, gtid.domain) == Some(gtid.sequence))
}

/// Where a server that takes writes has been, and when.
#[derive(Clone, Debug, Default)]
pub struct History {
    samples: VecDeque<Sample>,
}

#[derive(Clone, Debug)]
struct Sample {
    position: Position,
    /// When it was asked first, and last, and was there.
    first: Instant,
    last: Instant,
}

/// So many places are remembered; a server that covers none of them is too far behind to be measured.
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
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// The last place, and until when it is known to have been the last one.
    pub fn newest(&self) -> Option<(&Position, Instant)> {
        self.samples.back().map(|sample| (&sample.position, sample.last))
    }

    /// The newest place that it had reached so long before it was asked last.
    pub fn older_than(&self, age: Duration) -> Option<&Position> {
        let last = self.samples.back()?.last;
        let is_old = |it: &&Sample| last.saturating_duration_since(it.first) >= age;
        self.samples.iter().rev().find(is_old).map(|sample| &sample.position)
    }

    /// The server was asked at `begun`, and was here.
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
        let gtid = |domain, server, sequence| Gtid { domain, server, sequence };
        assert_eq!(at("0-1-42, 7-2-3"), Position::Gtid(vec![gtid(0, 1, 42), gtid(7, 2, 3)]));
        assert_eq!(at("0-1-42,0-1-40"), Position::Gtid(vec![gtid(0, 1, 42)]));
        let (origin, number) = gtid(7, 2, 3).halves();
        assert_eq!(Gtid::from_halves(origin, number), gtid(7, 2, 3));
        assert_eq!(at("0-1"), Position::Unknown);
        assert_eq!(at("nonsense"), Position::Unknown);
        assert!(at("0-1-42,7-2-3").covers(&at("0-1-41")));
        assert!(!at("0-9-42,7-2-3").covers(&at("0-1-42")), "another server's number");
        assert!(at("0-1-42,0-9-50").covers(&at("0-1-42")), "another server went on");
        assert!(at("0-1-42").covers(&at("0-1-42,0-9-40")), "the newest one says it all");
        assert!(!at("0-1-42").covers(&at("0-1-42,7-2-3")) && !at("0-1-41").covers(&at("0-1-42")));
        assert!(at("0-1-1").covers(&at("")) && !Position::Unknown.covers(&at("")));
        assert_eq!(at("0-1-4").plus(at("0-1-3,1-1-1")), at("0-1-4,1-1-1"));
        assert_eq!(Position::Unknown.plus(at("0-2-3")), at("0-2-3"));
        let many: Vec<_> = (0..=GTIDS_MAX).map(|server| format!("0-{server}-1")).collect();
        assert_eq!(at(&many.join(",")), Position::Unknown);
        let shown = |text| at(text).to_string();
        assert_eq!(
            (shown("0-1-42,0-2-40,7-1-1"), shown("")),
            ("0-1-42,7-1-1".into(), "nothing".into())
        );
        assert!(at(&many[1..].join(",")).to_string().chars().count() <= SHOWN_MAX + 1);
    }

    #[test]
    fn a_server_that_has_less_than_before_has_gone_back() {
        let gtids = Position::from_gtids;
        for (now, before, is_back) in [
            ("0-1-10", "0-1-10", false),
            ("0-1-11", "0-1-10", false),
            ("0-1-9", "0-1-10", true),
            ("", "0-1-10", true),
            ("0-1-1", "", false),
            // It was promoted, or follows another one, and tells its last transaction alone.
            ("0-2-11", "0-1-10", false),
            ("0-2-9", "0-1-10", true),
            ("0-1-9,0-2-12", "0-1-10,0-2-11", true),
            ("0-1-10", "0-1-10,7-1-3", false),
            ("0-1-9", "0-1-10,7-1-3", true),
        ] {
            assert_eq!(gtids(now).is_back_from(&gtids(before)), is_back, "{now} after {before}");
        }
        let has_again = |own, shown, base| gtids(own).has_given_again(&gtids(shown), &gtids(base));
        assert!(has_again("0-1-10", "0-1-10", "0-1-8") && !has_again("0-1-8", "0-1-10", "0-1-8"));
        // It was set up anew from a server that had lost the last ones: its numbers are behind those of that one.
        assert!(!has_again("0-1-8,0-2-12", "0-1-10", "0-2-9") && has_again("0-1-10", "0-1-10", ""));
        let commit = |cluster, number| Position::Commit { cluster, number };
        assert!(
            commit(1, 6).is_back_from(&commit(1, 7)) && commit(2, 9).is_back_from(&commit(1, 7))
        );
        assert!(!commit(1, 7).is_back_from(&commit(1, 7)));
        assert!(!Position::Unknown.is_back_from(&commit(1, 7)));
        let set = |last: u64| {
            Position::from_executed(&format!("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-{last}"))
        };
        assert!(set(4).is_back_from(&set(5)) && !set(5).is_back_from(&set(5)));
    }

    #[test]
    fn a_position_is_written_down_as_a_whole() {
        let many: Vec<_> = (0..GTIDS_MAX).map(|server| format!("0-{server}-1")).collect();
        for position in [
            Position::Unknown,
            Position::from_gtids(""),
            Position::from_gtids(&many.join(",")),
            Position::Commit { cluster: u128::MAX, number: u64::MAX },
            Position::from_executed(""),
            Position::from_executed("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:7:blue:1-3"),
        ] {
            let text = serde_json::to_string(&position).unwrap();
            assert_eq!(serde_json::from_str::<Position>(&text).unwrap(), position, "{text}");
        }
        for text in ["gtids x", "commit 1", "commit x 1", "executed x", "else"] {
            assert!(Position::try_from(text.to_owned()).is_err(), "{text}");
        }
    }

    #[test]
    fn commits_are_compared_within_a_cluster() {
        let at = |cluster, number| Position::Commit { cluster, number };
        assert!(at(1, 7).covers(&at(1, 7)) && !at(1, 7).covers(&at(1, 8)));
        assert!(!at(2, 7).covers(&at(1, 7)));
    }

    #[test]
    fn lag_is_the_age_of_what_is_missing() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let at = |number| Position::Commit { cluster: 0, number };
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
        let older = |by| history.older_than(by).cloned();
        assert_eq!((older(second), older(3 * second)), (Some(at(10)), None));
        assert_eq!(older(Duration::ZERO), Some(at(12)));
        // An answer that was overtaken by a later one says nothing new.
        history.note(&at(11), start + second);
        assert_eq!(history.lag(&at(12), now), Lag::Behind { by: Duration::ZERO, caught_up });
    }

    #[test]
    fn what_is_remembered_has_an_end() {
        let (start, mut history) = (Instant::now(), History::default());
        for at in 1..=2 * SAMPLES_MAX as u64 {
            history.note(
                &Position::Commit { cluster: 0, number: at },
                start + Duration::from_millis(at),
            );
        }
        assert_eq!(history.samples.len(), SAMPLES_MAX);
        let oldest = Position::Commit { cluster: 0, number: SAMPLES_MAX as u64 };
        assert_eq!(history.lag(&oldest, start), Lag::Unknown);
    }
}
