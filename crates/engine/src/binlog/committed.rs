//! How far a server has committed, by what it says.
//!
//! MariaDB's answer is wrong for a moment where a file of its log ends while transactions commit: it names the new file
//! at once, and the commit of a transaction of the old file then puts its place behind that name. Where files are laid
//! out alike, a transaction of the new file ends there as well. So, behind the end of a file, an answer is believed if a
//! transaction of the new file ends there and the old file was not at such a place; or if the server, which counts
//! transactions together with the place, has committed as many as end up to there.
//!
//! It does not count definitions. So a place can be doubted that is true: until the next commit, or, where the file goes
//! on from places that the old one was at last, until it has passed them.

use std::collections::VecDeque;

use super::ending::Gap;
use super::place::LogPlace;

#[derive(Debug)]
pub(super) struct Committed {
    place: LogPlace,
    /// How many transactions the server had counted there, or at an earlier place.
    commits: Option<u64>,
    /// Where transactions end that were followed behind that: file and place.
    behind: VecDeque<(u64, u64)>,
    /// More end up to here: they were too many to be kept.
    uncounted: Option<(u64, u64)>,
    /// Set from the end of a file until the server has certainly committed all that is in it.
    pub(super) change: Option<Change>,
}

/// An answer that names this file or a later one may be a place in the file before: behind `after`, and up to `upto`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    file: u64,
    after: u64,
    upto: u64,
}

/// More transactions than these are not counted.
const BEHIND_MAX: usize = 4096;

impl Committed {
    pub(super) fn new(place: LogPlace, commits: Option<u64>) -> Self {
        Self { place, commits, behind: VecDeque::new(), uncounted: None, change: None }
    }

    /// A transaction ends here.
    pub(super) fn follow(&mut self, end: (u64, u64)) {
        if self.behind.len() == BEHIND_MAX {
            self.behind.clear();
            self.uncounted = Some(end);
        }
        self.behind.push_back(end);
    }

    /// A file ends here, and the next one begins.
    pub(super) fn change(&mut self, (file, upto): (u64, u64)) {
        let after = match &self.place {
            LogPlace::File(place) if place.number() == file => place.at(),
            _ => 0,
        };
        let new = Change { file: file + 1, after, upto };
        self.change = Some(match self.change {
            Some(old) => Change {
                file: old.file,
                after: old.after.min(new.after),
                upto: old.upto.max(new.upto),
            },
            None => new,
        });
    }

    /// Refuses a set of transactions that lacks some that were committed.
    pub(super) fn check(&self, said: &LogPlace) -> Result<(), Gap> {
        match (said, &self.place) {
            (LogPlace::Executed(said), LogPlace::Executed(place)) if !said.covers(place) => {
                Err(Gap::Backwards)
            }
            _ => Ok(()),
        }
    }

    /// The server said that it is there, and events have come up to there: up to this file. Whether it is so.
    pub(super) fn believes(
        &mut self,
        said: &LogPlace,
        commits: Option<u64>,
        newest: u64,
    ) -> Result<bool, Gap> {
        if let LogPlace::File(place) = said {
            let said = (place.number(), place.at());
            let passed = self.behind.partition_point(|end| *end <= said);
            let ends_here = self.behind.binary_search(&said).is_ok();
            let mut is_place = true;
            if let Some(change) = self.change {
                let counted = commits.zip(self.commits).filter(|_| self.uncounted.is_none());
                let is_exact = counted
                    .is_some_and(|(now, before)| before.checked_add(passed as u64) == Some(now));
                let may_be_old = said.1 > change.after && said.1 <= change.upto;
                let is_behind = ends_here && !may_be_old;
                if said.0 >= change.file && !is_behind && !is_exact {
                    return Ok(false);
                }
                if said.0 == newest {
                    self.change = None;
                }
                // The old file's last place is true of what has been committed, and may be behind what comes.
                is_place = ends_here || said.0 < change.file;
            }
            if commits.is_some() {
                self.commits = commits;
                self.behind.drain(..passed);
                self.uncounted = self.uncounted.filter(|upto| *upto > said);
            }
            if !is_place {
                return Ok(true);
            }
        }
        if !said.covers(&self.place)? {
            return Err(Gap::Backwards);
        }
        self.place = said.clone();
        Ok(true)
    }
}
