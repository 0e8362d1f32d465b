//! What two replies to the same statement are to each other.

use std::fmt;

use wire::reply_sum::ReplySum;

/// What differs first, by how much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// One is an error, or both are, and not the same one.
    Error,
    /// How many results or columns there are.
    Columns,
    /// How many rows.
    RowCount,
    /// The rows.
    Rows,
    /// The same rows come in another order.
    Order,
    /// How many rows were affected.
    Affected,
    Warnings,
}

impl Difference {
    pub const ALL: [(&'static str, Self); 7] = [
        ("error", Self::Error),
        ("columns", Self::Columns),
        ("row_count", Self::RowCount),
        ("rows", Self::Rows),
        ("order", Self::Order),
        ("affected", Self::Affected),
        ("warnings", Self::Warnings),
    ];

    pub const fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }
}

/// Whether rows may be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsCompare {
    Yes,
    /// The statement has other rows each time it runs, or for each client.
    No,
}

/// Compares the reply that a client has got with the mirror's. `None`: they are the same.
pub fn compare(own: &ReplySum, mirror: &ReplySum, rows: RowsCompare) -> Option<Difference> {
    if own.error != mirror.error {
        return Some(Difference::Error);
    }
    if own.error.is_some() {
        // How far each had come says nothing.
        return None;
    }
    if (own.results, own.columns) != (mirror.results, mirror.columns) {
        return Some(Difference::Columns);
    }
    if rows == RowsCompare::Yes {
        if own.rows != mirror.rows {
            return Some(Difference::RowCount);
        }
        if own.unordered != mirror.unordered {
            return Some(Difference::Rows);
        }
        if own.ordered != mirror.ordered {
            return Some(Difference::Order);
        }
    }
    if own.affected != mirror.affected {
        return Some(Difference::Affected);
    }
    (own.warnings != mirror.warnings).then_some(Difference::Warnings)
}

/// Errors that tell of the moment: a statement was ended, or met others. Such replies are not compared.
pub const fn is_of_moment(code: u16) -> bool {
    matches!(
        code,
        // Too many connections; the server shuts down; a lock was waited for too long; a deadlock; the query was ended;
        // the connection was; a time limit, MariaDB's and MySQL's; a conflict between nodes; a node that is not ready.
        1040 | 1053 | 1205 | 1213 | 1317 | 1927 | 1969 | 3024 | 3101 | 1047
    )
}

/// What both replies say of what differs.
#[derive(Clone, Copy, Debug)]
pub struct ToldDifference<'a> {
    pub difference: Difference,
    pub own: &'a ReplySum,
    pub mirror: &'a ReplySum,
}

impl fmt::Display for ToldDifference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { own, mirror, .. } = self;
        let error = |sum: &ReplySum| match &sum.error {
            None => "no error".to_owned(),
            Some((code, state)) => format!("error {code} ({})", String::from_utf8_lossy(state)),
        };
        match self.difference {
            Difference::Error => write!(f, "{}, the mirror {}", error(own), error(mirror)),
            Difference::Columns if own.results != mirror.results => {
                write!(f, "{} results, the mirror {}", own.results, mirror.results)
            }
            Difference::Columns => {
                write!(f, "{} columns, the mirror {}", own.columns, mirror.columns)
            }
            Difference::RowCount => write!(f, "{} rows, the mirror {}", own.rows, mirror.rows),
            Difference::Rows => write!(f, "{} rows, with other values", own.rows),
            Difference::Order => write!(f, "{} rows, in another order", own.rows),
            Difference::Affected => {
                write!(f, "{} rows affected, by the mirror {}", own.affected, mirror.affected)
            }
            Difference::Warnings => {
                write!(f, "{} warnings, the mirror {}", own.warnings, mirror.warnings)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gravest_difference_is_named() {
        let own = ReplySum {
            results: 1,
            columns: 2,
            rows: 3,
            ordered: 4,
            unordered: 5,
            ..ReplySum::default()
        };
        let failed = |code| ReplySum { error: Some((code, *b"42S02")), ..ReplySum::default() };
        let wrote = ReplySum { results: 1, affected: 1, ..ReplySum::default() };
        let (yes, no) = (RowsCompare::Yes, RowsCompare::No);
        let cases = [
            (own, own, yes, None, ""),
            (
                own,
                failed(1146),
                yes,
                Some(Difference::Error),
                "no error, the mirror error 1146 (42S02)",
            ),
            (
                failed(1146),
                own,
                no,
                Some(Difference::Error),
                "error 1146 (42S02), the mirror no error",
            ),
            (
                failed(1146),
                failed(1054),
                no,
                Some(Difference::Error),
                "error 1146 (42S02), the mirror error 1054 (42S02)",
            ),
            (failed(1146), ReplySum { rows: 7, ..failed(1146) }, yes, None, ""),
            (
                own,
                ReplySum { columns: 3, rows: 9, ..own },
                no,
                Some(Difference::Columns),
                "2 columns, the mirror 3",
            ),
            (
                own,
                ReplySum { results: 2, ..own },
                yes,
                Some(Difference::Columns),
                "1 results, the mirror 2",
            ),
            (
                own,
                ReplySum { rows: 2, unordered: 6, ..own },
                yes,
                Some(Difference::RowCount),
                "3 rows, the mirror 2",
            ),
            (
                own,
                ReplySum { ordered: 6, unordered: 6, ..own },
                yes,
                Some(Difference::Rows),
                "3 rows, with other values",
            ),
            (
                own,
                ReplySum { ordered: 6, ..own },
                yes,
                Some(Difference::Order),
                "3 rows, in another order",
            ),
            (own, ReplySum { rows: 2, ordered: 6, unordered: 6, ..own }, no, None, ""),
            (
                wrote,
                ReplySum { affected: 2, warnings: 1, ..wrote },
                yes,
                Some(Difference::Affected),
                "1 rows affected, by the mirror 2",
            ),
            (
                own,
                ReplySum { warnings: 1, ..own },
                yes,
                Some(Difference::Warnings),
                "0 warnings, the mirror 1",
            ),
        ];
        for (own, mirror, rows, expected, told) in cases {
            let found = compare(&own, &mirror, rows);
            assert_eq!(found, expected, "{own:?} {mirror:?}");
            if let Some(difference) = found {
                let text = ToldDifference { difference, own: &own, mirror: &mirror }.to_string();
                assert_eq!(text, told);
            }
        }
        for (at, (name, difference)) in Difference::ALL.iter().enumerate() {
            assert_eq!((*difference as usize, difference.name()), (at, *name));
        }
        assert!(is_of_moment(1317) && is_of_moment(1969) && !is_of_moment(1146));
    }
}
