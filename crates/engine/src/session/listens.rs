//! What changes of its session a client has asked to be told of, beyond those that any client is told of: by
//! `session_track_system_variables` and its like, as another Flifo asks for them.
//!
//! A backend's server reports all of it to Flifo. So a client that asks for the same changes nothing at the server, and
//! its backend can be shared; what asks for less changes what Flifo is told, and keeps the backend.

use wire::tracker::{Change, Changes};

use super::state::{Mark, Session};
use crate::backend_session::NUMBER;
use crate::intent::{SetMark, Sets};
use crate::marks::Marks;
use crate::trackers::{Listen, TRACKERS};

/// Nothing beyond what any client is told of.
pub(super) fn is_none(listens: &Marks<Listen>) -> bool {
    *listens == Marks::default()
}

impl Session {
    /// What it is told of beyond what any client is.
    pub const fn listens(&self) -> Marks<Listen> {
        self.listens
    }

    /// It has set nothing but known variables.
    pub(super) fn see_sets(&mut self, sets: Sets) {
        self.listens.add_if(Listen::Variables, sets.has(SetMark::Tracks));
        self.listens.add_if(Listen::State, sets.has(SetMark::TracksState));
        self.listens.add_if(Listen::Transactions, sets.has(SetMark::TracksTransactions));
    }

    /// The server reports that one of its variables has this value now.
    pub(super) fn see_variable(&mut self, name: &[u8], value: &[u8]) {
        self.marks.add_if(Mark::OwnNumber, name == NUMBER);
        if name.starts_with(b"session_track_")
            && let Some((_, _, Some(listen))) = TRACKERS.iter().find(|(of, ..)| *of == name)
        {
            self.listens.set(*listen, !value.eq_ignore_ascii_case(b"OFF"));
        }
    }

    /// What is reported to a client that is alone on its backend, of which nothing else is known.
    pub fn see_alone(&mut self, changes: &[u8]) {
        for change in Changes::new(changes).flatten() {
            if let Change::Variable { name, value } = change {
                self.see_variable(name, value);
            }
        }
    }
}
