//! Shared reads: identical reads that wait in the queue of one gate are run once, and each client gets the reply.
//!
//! Pure decisions: which texts mean the same for every client at any moment ([`is_steady`]), what is remembered of
//! their kinds ([`Kinds`]), which waiters stand together ([`Groups`]), which wait although slots are free ([`Crowds`]), and
//! whether the reply to the one run is as good for the others ([`is_plain`]). Invariant: a group is taken as a whole, at
//! the moment in which its run begins; so whatever stands in it had arrived by then, and what comes later is in the next
//! one.

mod crowds;
mod groups;
mod kinds;
mod steady;

pub use crowds::{Crowd, Crowds, RUNS_MAX};
pub use groups::Groups;
pub use kinds::Kinds;
pub use steady::{is_own_schema, is_steady};

use wire::response::{OkPacket, Status};
use wire::tracker::{Change, Changes};

/// Whether a server, a user or a class shares reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShareReads {
    /// As what stands above it says.
    #[default]
    AsAbove,
    Off,
    On,
}

impl ShareReads {
    /// What holds where this is said, and `below` of a part of it.
    #[must_use]
    pub const fn narrowed(self, below: Self) -> Self {
        match below {
            Self::AsAbove => self,
            Self::Off | Self::On => below,
        }
    }

    pub const fn is_on(self) -> bool {
        matches!(self, Self::On)
    }
}

/// Why waiters that were to get the reply to another client's run do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutOut {
    /// They may share again. The run did not come to its end, for a reason that is not theirs: its client left, or was
    /// told to stop, or does not read; the connection was lost.
    Again,
    /// The reply is too long, or so many are kept for clients that there is no room for it.
    TooLarge,
    /// It has left diagnostics, an error that comes from more than the text, or a change of the session.
    Unfit,
}

impl CutOut {
    pub const ALL: [Self; 3] = [Self::Again, Self::TooLarge, Self::Unfit];

    /// The name in counters.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Again => "again",
            Self::TooLarge => "too_large",
            Self::Unfit => "unfit",
        }
    }
}

/// Whether the packet that ends rows says that nothing has changed, and that nothing follows.
pub fn is_plain(ok: &OkPacket<'_>) -> bool {
    let is_harmless = |change: Result<Change<'_>, _>| match change {
        // `L` is for tables that are locked; all else ends with the statement.
        Ok(Change::TransactionState(state)) => state.last() != Some(&b'L'),
        _ => false,
    };
    let status = ok.status;
    status.has(Status::AUTOCOMMIT)
        && !status.has(Status::IN_TRANSACTION)
        && !status.has(Status::MORE_RESULTS)
        && !status.has(Status::CURSOR_EXISTS)
        && ok.warnings == 0
        && ok.insert_id == 0
        && Changes::new(ok.changes).all(is_harmless)
}

#[cfg(test)]
mod simulated;

#[cfg(test)]
mod tests {
    use super::*;
    use wire::tracker::put_change;

    #[test]
    fn what_is_said_below_counts_before_what_is_said_above() {
        use ShareReads::{AsAbove, Off, On};
        for (above, below, is_on) in [
            (AsAbove, AsAbove, false),
            (AsAbove, On, true),
            (Off, AsAbove, false),
            (Off, On, true),
            (On, AsAbove, true),
            (On, Off, false),
        ] {
            assert_eq!(above.narrowed(below).is_on(), is_on, "{above:?} {below:?}");
        }
    }

    #[test]
    fn an_end_of_rows_is_plain_if_nothing_but_a_transaction_of_its_own_was_there() {
        const PLAIN: u16 = 0x0002;
        let changes = |list: &[Change<'_>]| {
            let mut out = Vec::new();
            list.iter().for_each(|change| put_change(&mut out, *change));
            out
        };
        let none = changes(&[]);
        let state = changes(&[Change::TransactionState(b"________")]);
        let locked = changes(&[Change::TransactionState(b"_______L")]);
        let schema = changes(&[Change::Schema(b"a")]);
        let variable = changes(&[Change::Variable { name: b"autocommit", value: b"ON" }]);
        for (status, warnings, changes, is) in [
            (PLAIN, 0, &none, true),
            (PLAIN | 0x0020, 0, &state, true),
            (PLAIN, 1, &none, false),
            (0, 0, &none, false),
            (PLAIN | 0x0001, 0, &none, false),
            (PLAIN | 0x0008, 0, &none, false),
            (PLAIN | 0x0040, 0, &none, false),
            (PLAIN, 0, &locked, false),
            (PLAIN, 0, &schema, false),
            (PLAIN, 0, &variable, false),
        ] {
            let status = Status(status);
            let ok = OkPacket { status, warnings, changes, ..OkPacket::EMPTY };
            assert_eq!(is_plain(&ok), is, "{ok:?}");
        }
        // What cannot be read.
        let ok = OkPacket { status: Status(PLAIN), changes: &[1], ..OkPacket::EMPTY };
        assert!(!is_plain(&ok));
    }
}
