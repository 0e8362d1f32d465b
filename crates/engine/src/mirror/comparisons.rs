//! What comparisons have come to, by statement: bounded, with the last difference of each.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use wire::reply_sum::ReplySum;

use super::compare::{Difference, RowsCompare, ToldDifference};

/// Statements that are told apart; those beyond are counted together.
pub const STATEMENTS_MAX: usize = 1000;

/// A longer text is cut off.
const TEXT_MAX: usize = 512;

/// What is known of one statement, or of all.
#[derive(Clone, Debug, Default)]
pub struct StatementComparisons {
    /// With `?` for each literal.
    pub text: String,
    pub same: u64,
    pub differing: [u64; Difference::ALL.len()],
    /// Of those that were the same, how many whose rows were not compared.
    pub rows_left_out: u64,
    /// How long they took in all, where clients got the reply, and in the mirror.
    pub own: Duration,
    pub mirror: Duration,
    pub last: Option<Example>,
}

/// A difference.
#[derive(Clone, Debug)]
pub struct Example {
    pub difference: Difference,
    pub own: ReplySum,
    pub mirror: ReplySum,
    /// The server of the mirror's cluster.
    pub server: String,
    pub at: Instant,
}

impl Example {
    pub fn told(&self) -> String {
        let Self { difference, own, mirror, .. } = self;
        ToldDifference { difference: *difference, own, mirror }.to_string()
    }
}

/// One statement, and what came of its comparison.
#[derive(Clone, Debug)]
pub struct Compared<'a> {
    pub digest: u64,
    pub rows: RowsCompare,
    pub difference: Option<Difference>,
    pub own: (ReplySum, Duration),
    pub mirror: (ReplySum, Duration),
    pub server: &'a str,
    pub at: Instant,
}

/// All statements of one mirror.
#[derive(Debug, Default)]
pub struct Comparisons {
    statements: HashMap<u64, StatementComparisons>,
    /// Those for which there is no room.
    others: StatementComparisons,
    /// Of all. These only grow.
    all: StatementComparisons,
}

impl StatementComparisons {
    pub fn compared(&self) -> u64 {
        self.same + self.differing()
    }

    pub fn differing(&self) -> u64 {
        self.differing.iter().sum()
    }

    fn add(&mut self, compared: &Compared<'_>) {
        self.own += compared.own.1;
        self.mirror += compared.mirror.1;
        match compared.difference {
            None => {
                self.same += 1;
                self.rows_left_out += u64::from(compared.rows == RowsCompare::No);
            }
            Some(difference) => {
                self.differing[difference as usize] += 1;
                self.last = Some(Example {
                    difference,
                    own: compared.own.0,
                    mirror: compared.mirror.0,
                    server: compared.server.to_owned(),
                    at: compared.at,
                });
            }
        }
    }
}

impl Comparisons {
    /// A statement was compared. `text`: it without its literals, asked for if it is new.
    pub fn add(&mut self, compared: &Compared<'_>, text: impl FnOnce() -> String) {
        self.all.add(compared);
        let is_known = self.statements.contains_key(&compared.digest);
        if !is_known && self.statements.len() >= STATEMENTS_MAX {
            return self.others.add(compared);
        }
        let entry = self.statements.entry(compared.digest).or_insert_with(|| {
            let mut text = text();
            text.truncate(text.floor_char_boundary(TEXT_MAX));
            StatementComparisons { text, ..StatementComparisons::default() }
        });
        entry.add(compared);
    }

    /// Each statement with its digest, those that differ most first, then all others together.
    pub fn told(&self) -> Vec<(Option<u64>, StatementComparisons)> {
        let mut told: Vec<_> =
            self.statements.iter().map(|(digest, it)| (Some(*digest), it.clone())).collect();
        told.sort_by_key(|(digest, it)| {
            (std::cmp::Reverse((it.differing(), it.compared())), *digest)
        });
        if self.others.compared() > 0 {
            told.push((None, self.others.clone()));
        }
        told
    }

    /// All statements together, since the mirror is there.
    pub const fn all(&self) -> &StatementComparisons {
        &self.all
    }

    /// Statements are counted from now on.
    pub fn reset(&mut self) {
        self.statements.clear();
        self.others = StatementComparisons::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(digest: u64, difference: Option<Difference>) -> Compared<'static> {
        Compared {
            digest,
            rows: if digest == 7 { RowsCompare::No } else { RowsCompare::Yes },
            difference,
            own: (ReplySum { rows: 2, ..ReplySum::default() }, Duration::from_millis(1)),
            mirror: (ReplySum::default(), Duration::from_millis(2)),
            server: "db2",
            at: Instant::now(),
        }
    }

    #[test]
    fn statements_are_counted_by_what_came_of_them() {
        let mut comparisons = Comparisons::default();
        for (digest, difference) in [
            (1, None),
            (1, Some(Difference::RowCount)),
            (2, Some(Difference::Order)),
            (2, Some(Difference::Order)),
            (7, None),
        ] {
            comparisons.add(&compared(digest, difference), || format!("SELECT {digest}"));
        }
        let told = comparisons.told();
        let shown: Vec<_> = told
            .iter()
            .map(|(digest, it)| (*digest, &*it.text, it.same, it.differing(), it.rows_left_out))
            .collect();
        assert_eq!(
            shown,
            [
                (Some(2), "SELECT 2", 0, 2, 0),
                (Some(1), "SELECT 1", 1, 1, 0),
                (Some(7), "SELECT 7", 1, 0, 1)
            ]
        );
        let last = told[1].1.last.as_ref().expect("a difference");
        assert_eq!((last.told().as_str(), &*last.server), ("2 rows, the mirror 0", "db2"));
        assert_eq!((told[0].1.own, told[0].1.mirror), {
            (Duration::from_millis(2), Duration::from_millis(4))
        });
        comparisons.reset();
        assert!(comparisons.told().is_empty());
        assert_eq!(
            (comparisons.all().same, comparisons.all().differing()),
            (2, 3),
            "these only grow"
        );
    }

    #[test]
    fn statements_beyond_the_bound_are_counted_together() {
        let mut comparisons = Comparisons::default();
        for digest in 0..STATEMENTS_MAX as u64 + 10 {
            comparisons.add(&compared(digest, None), || "é".repeat(TEXT_MAX));
        }
        let told = comparisons.told();
        assert_eq!(told.len(), STATEMENTS_MAX + 1);
        let (digest, others) = told.last().expect("others");
        assert_eq!((*digest, others.same), (None, 10));
        assert!(told.iter().all(|(_, it)| it.text.len() <= TEXT_MAX));
    }
}
