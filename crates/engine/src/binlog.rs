//! Following a server's binary log: what was written elsewhere, and up to when all of it is known.
//!
//! Events come on one connection; on another one the server is asked again and again how far it has committed. Pure
//! decisions: which entries of a cache end, and up to which moment nothing is missing ([`Follower::settle`]).
//!
//! Invariants: what was visible to a reader of the server at the moment up to which all is known has ended every entry
//! that was read before; a server may log a transaction before a reader sees it, so its tables end entries twice, and
//! the second time is after it was seen to be visible; whatever is missing, or might be, is a [`Gap`], and ends all.

mod committed;
mod ending;
mod place;
mod references;
mod terms;
mod texts;

use std::collections::VecDeque;
use std::time::Instant;

use wire::binlog::{Event, EventHeader, Group, Groups, Gtid, Said};

use committed::Committed;
pub use ending::{Ending, Gap};
pub use place::{FilePlace, LogPlace, executed};
pub use references::References;
pub use terms::{LogTerms, Unfollowable};
pub use texts::ending as ending_of;

/// What texts and foreign keys of the server mean.
pub trait Meaning {
    /// What a statement that was logged as a text may have written.
    fn of_text(&self, said: &Said, ends: &mut Vec<Ending>);

    /// What foreign keys may have changed with the rows of a table.
    fn of_change(&self, schema: &[u8], table: &[u8], ends: &mut Vec<Ending>);
}

/// A connection's way through the log.
#[derive(Debug)]
pub struct Follower {
    place: LogPlace,
    groups: Groups,
    /// What was followed and has not been seen to be visible, in the order of the log.
    unsettled: VecDeque<Unsettled>,
    /// Answers to the question how far the server has committed that events have not come up to.
    answers: VecDeque<Answer>,
    covered: Instant,
    committed: Committed,
    /// An answer that events have come up to, and that is believed.
    reached: Option<Answer>,
}

/// One transaction, or several behind each other that end the same.
#[derive(Debug)]
struct Unsettled {
    first: Mark,
    last: Mark,
    ends: Vec<Ending>,
}

/// Where a transaction is in the log.
#[derive(Clone, Debug)]
enum Mark {
    At(FilePlace),
    Named([u8; 16], u64),
    /// It has no name, although its server names transactions.
    Nameless,
}

#[derive(Debug)]
struct Answer {
    asked: Instant,
    place: LogPlace,
    /// How many transactions the server had counted there.
    commits: Option<u64>,
}

/// What has become certain.
#[derive(Debug, PartialEq, Eq)]
pub struct Settled {
    /// These end, again.
    pub ends: Vec<Ending>,
    /// When they have: all that was visible at this moment is known.
    pub covered: Instant,
}

/// Transactions that wait to be visible; more count as everything.
const UNSETTLED_MAX: usize = 4096;

/// Answers that wait for events; the oldest go first, as a later one says more.
const ANSWERS_MAX: usize = 64;

impl Follower {
    /// Events will come from this place on, which the server was asked for at this time, and where it had counted so many
    /// transactions. All entries have ended since it answered.
    pub fn new(place: LogPlace, commits: Option<u64>, asked: Instant) -> Self {
        Self {
            committed: Committed::new(place.clone(), commits),
            place,
            groups: Groups::default(),
            unsettled: VecDeque::new(),
            answers: VecDeque::new(),
            covered: asked,
            reached: None,
        }
    }

    /// Up to when all is known.
    pub const fn covered(&self) -> Instant {
        self.covered
    }

    /// How far events have come.
    pub const fn place(&self) -> &LogPlace {
        &self.place
    }

    /// Whether all that was followed was seen to be visible.
    pub fn is_settled(&self) -> bool {
        self.unsettled.is_empty()
    }

    /// Takes an event. The answer is what ends now.
    pub fn take(
        &mut self,
        header: &EventHeader,
        event: Event<'_>,
        meaning: &impl Meaning,
    ) -> Result<Vec<Ending>, Gap> {
        let ends = self.follow(header, event, meaning)?;
        self.reach()?;
        Ok(ends)
    }

    fn follow(
        &mut self,
        header: &EventHeader,
        event: Event<'_>,
        meaning: &impl Meaning,
    ) -> Result<Vec<Ending>, Gap> {
        if let LogPlace::File(place) = &mut self.place {
            match &event {
                Event::Rotate { file, position } => {
                    let before = (place.number(), place.at());
                    place.rotate(file, *position)?;
                    if place.number() > before.0 {
                        self.committed.change(before);
                    }
                }
                // It can be told between two files, of the old one.
                Event::Heartbeat { file } if !place.is_in(file) => {}
                _ => place.advance(header.end)?,
            }
        }
        let Some(group) = self.groups.take(header, event) else { return Ok(Vec::new()) };
        let ends = ends(&group, meaning);
        let mark = match &mut self.place {
            LogPlace::File(place) => {
                self.committed.follow((place.number(), place.at()));
                Mark::At(place.clone())
            }
            LogPlace::Executed(set) => match group.gtid {
                Some(Gtid::MySql { origin, number }) => {
                    if !set.insert(&origin, number) {
                        return Err(Gap::TooMany);
                    }
                    Mark::Named(origin, number)
                }
                _ => Mark::Nameless,
            },
        };
        if !ends.is_empty() {
            self.remember(mark, ends.clone());
        }
        Ok(ends)
    }

    /// Finds the last answer that events have come up to and that is believed. Those before it say less.
    fn reach(&mut self) -> Result<(), Gap> {
        let newest = match &self.place {
            LogPlace::File(place) => place.number(),
            LogPlace::Executed(_) => 0,
        };
        let mut at = 0;
        while let Some(answer) = self.answers.get(at) {
            if !self.place.covers(&answer.place)? {
                at += 1;
            } else if self.committed.believes(&answer.place, answer.commits, newest)? {
                self.reached = self.answers.drain(..=at).next_back();
                at = 0;
            } else {
                self.answers.remove(at);
            }
        }
        Ok(())
    }

    fn remember(&mut self, mark: Mark, ends: Vec<Ending>) {
        match self.unsettled.back_mut() {
            Some(before) if before.ends == ends => before.last = mark,
            _ => self.unsettled.push_back(Unsettled { first: mark.clone(), last: mark, ends }),
        }
        if self.unsettled.len() > UNSETTLED_MAX {
            let defines = |it: &Unsettled| it.ends.contains(&Ending::Definitions);
            let all = match self.unsettled.iter().any(defines) {
                true => Ending::Definitions,
                false => Ending::Everything,
            };
            let (first, last) = (self.unsettled.pop_front(), self.unsettled.pop_back());
            self.unsettled.clear();
            self.unsettled.extend(first.zip(last).map(|(first, last)| Unsettled {
                first: first.first,
                last: last.last,
                ends: vec![all],
            }));
        }
    }

    /// The server was asked at this time how far it has committed, visible to readers, and has said this; and how many
    /// transactions it has committed since it was started, if it counts them together with the place.
    pub fn answered(
        &mut self,
        asked: Instant,
        place: LogPlace,
        commits: Option<u64>,
    ) -> Result<(), Gap> {
        self.committed.check(&place)?;
        if self.answers.len() == ANSWERS_MAX {
            // The one before the last: the first will be reached first, and the last says most.
            self.answers.pop_back();
        }
        self.answers.push_back(Answer { asked, place, commits });
        self.reach()
    }

    /// What has become certain by what came in. The moment counts once all entries that it names have ended.
    pub fn settle(&mut self) -> Result<Option<Settled>, Gap> {
        let Some(Answer { asked, place, .. }) = self.reached.take() else { return Ok(None) };
        let mut ends: Vec<Ending> = Vec::new();
        while let Some(first) = self.unsettled.front() {
            if !first.first.is_within(&place)? {
                break;
            }
            for end in &first.ends {
                if !ends.contains(end) {
                    ends.push(end.clone());
                }
            }
            if ends.len() > ENDS_MAX {
                ends = vec![Ending::all(&ends).unwrap_or(Ending::Everything)];
            }
            if !first.last.is_within(&place)? {
                break;
            }
            self.unsettled.pop_front();
        }
        self.covered = self.covered.max(asked);
        Ok(Some(Settled { ends, covered: self.covered }))
    }
}

/// More than these are told at once as everything.
const ENDS_MAX: usize = 256;

impl Mark {
    fn is_within(&self, place: &LogPlace) -> Result<bool, Gap> {
        match (self, place) {
            (Self::At(own), LogPlace::File(place)) => place.covers(own),
            (Self::Named(origin, number), LogPlace::Executed(set)) => Ok(set.has(origin, *number)),
            // Nothing is known of when it is visible.
            _ => Err(Gap::Names),
        }
    }
}

fn ends(group: &Group, meaning: &impl Meaning) -> Vec<Ending> {
    let mut ends = Vec::new();
    if group.is_everything {
        let is_of_rows = group.is_of_rows && group.texts.is_empty();
        return vec![if is_of_rows { Ending::Everything } else { Ending::Definitions }];
    }
    for table in &group.tables {
        let (schema, name) = (table.schema.clone(), table.name.clone());
        ends.push(Ending::Table { schema, name });
        if table.has_changes {
            meaning.of_change(&table.schema, &table.name, &mut ends);
        }
    }
    group.texts.iter().for_each(|said| meaning.of_text(said, &mut ends));
    match Ending::all(&ends) {
        Some(all) => vec![all],
        None => ends,
    }
}

#[cfg(test)]
mod tests;
