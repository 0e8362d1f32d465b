//! What following comes to: entries of a cache that end, or a gap, after which all do.

use std::fmt::{self, Display, Formatter};

use crate::cache::Generations;

/// Which entries of a cache end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Those of this table.
    Table {
        schema: Box<[u8]>,
        name: Box<[u8]>,
    },
    /// Those of all tables of this schema.
    Schema(Box<[u8]>),
    Everything,
    /// The same, and views, triggers, foreign keys or rights may be others by now.
    Definitions,
}

impl Ending {
    /// Raises the generations of what ends.
    pub fn carry_out(&self, generations: &Generations) {
        match self {
            Self::Table { schema, name } => generations.written(schema, name),
            Self::Schema(schema) => generations.all_of(schema),
            Self::Everything | Self::Definitions => generations.everything(),
        }
    }

    /// Whether all entries end.
    pub const fn is_of_all(&self) -> bool {
        matches!(self, Self::Everything | Self::Definitions)
    }

    /// As much as all of these, if any of them is everything.
    pub(super) fn all(of: &[Self]) -> Option<Self> {
        let all = of.contains(&Self::Everything).then_some(Self::Everything);
        of.contains(&Self::Definitions).then_some(Self::Definitions).or(all)
    }
}

/// Why it is not known any more what was written. All entries end, and following begins anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// The log goes on at an earlier place.
    Backwards,
    Names,
    TooMany,
}

impl Display for Gap {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Backwards => {
                "the server's binary log goes on at an earlier place, as after RESET MASTER"
            }
            Self::Names => "the files of the server's binary log do not follow each other by name",
            Self::TooMany => "the server's transactions have too many gaps to be compared",
        })
    }
}
