//! What a client leaves on its backend when it goes or its session begins anew, and what becomes of the backend.

use super::state::Session;

/// What a session leaves on its backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftover {
    Nothing,
    /// User variables, which no other client may read.
    Variables,
    /// What a reset undoes.
    Undoable,
    /// What no reset undoes: an option of the connection, whatever a routine may have done.
    Lasting,
}

/// Why a backend may not go to another client, whatever is left on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    None,
    /// A `KILL` is on its way to it.
    Killed,
    /// It is one client's alone.
    Unpooled,
    Ending,
}

/// What becomes of a backend without its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    PutBack,
    /// When it has answered.
    PutBackLater,
    /// It is closed when it has told what only it knows.
    Retired,
    Closed,
    /// When it has answered: other clients may wait for what it is asked.
    ClosedLater,
}

impl Session {
    pub fn leaves(&self) -> Leftover {
        match self {
            _ if self.is_beyond_reset() => Leftover::Lasting,
            _ if !self.can_do_without() => Leftover::Undoable,
            _ if self.variables.are_on_backend() => Leftover::Variables,
            _ => Leftover::Nothing,
        }
    }
}

impl Leftover {
    /// What becomes of the backend. `is_asked`: answers of its server are awaited.
    pub const fn fate(self, trouble: Trouble, is_asked: bool) -> Fate {
        let is_in_doubt = matches!(self, Self::Lasting) || !matches!(trouble, Trouble::None);
        match (is_in_doubt, is_asked, trouble) {
            (true, true, Trouble::Unpooled) | (true, false, Trouble::Killed) => Fate::Closed,
            (true, true, _) => Fate::ClosedLater,
            (true, false, _) => Fate::Retired,
            (false, true, _) => Fate::PutBackLater,
            (false, false, _) => Fate::PutBack,
        }
    }

    /// Whether a client whose session begins anew waits until this is gone from the backend: it may hold locks.
    pub const fn is_awaited(self, trouble: Trouble, is_asked: bool) -> bool {
        matches!(self, Self::Undoable | Self::Lasting)
            && matches!(trouble, Trouble::None)
            && !is_asked
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use wire::lex::Dialect;
    use wire::response::Status;
    use wire::text::Lexed;

    use super::*;
    use crate::pin::Pin;
    use crate::session_variables::SessionVariables;
    use crate::user_variables::Assignment;

    #[test]
    fn the_worst_that_a_session_leaves_counts() {
        let mut session = Session::new(None, Status::default());
        assert_eq!(session.leaves(), Leftover::Nothing);
        let lexed = Lexed::default();
        let assigns = Assignment::read_all(lexed.text(b"SET @a = 1", Dialect::default()));
        session.variables.set(assigns.expect("plain"), &Rc::new(SessionVariables::default()));
        assert_eq!(session.leaves(), Leftover::Variables);
        session.see_status(Status::IN_TRANSACTION);
        assert_eq!(session.leaves(), Leftover::Undoable);
        session.keep(Pin::TemporaryTable);
        assert_eq!(session.leaves(), Leftover::Undoable);
        session.go_beyond_reset();
        assert_eq!(session.leaves(), Leftover::Lasting);
    }

    #[test]
    fn a_backend_goes_back_only_if_nothing_is_in_the_way() {
        use Fate::{Closed, ClosedLater, PutBack, PutBackLater, Retired};
        use Leftover::{Lasting, Nothing, Undoable, Variables};
        for (left, trouble, at_rest, asked) in [
            (Nothing, Trouble::None, PutBack, PutBackLater),
            (Variables, Trouble::None, PutBack, PutBackLater),
            (Undoable, Trouble::None, PutBack, PutBackLater),
            (Lasting, Trouble::None, Retired, ClosedLater),
            (Nothing, Trouble::Killed, Closed, ClosedLater),
            (Lasting, Trouble::Killed, Closed, ClosedLater),
            (Nothing, Trouble::Unpooled, Retired, Closed),
            (Undoable, Trouble::Ending, Retired, ClosedLater),
        ] {
            let fates = [left.fate(trouble, false), left.fate(trouble, true)];
            assert_eq!(fates, [at_rest, asked], "{left:?} {trouble:?}");
            let is_awaited = matches!(left, Undoable | Lasting) && trouble == Trouble::None;
            assert_eq!(left.is_awaited(trouble, false), is_awaited, "{left:?} {trouble:?}");
            assert!(!left.is_awaited(trouble, true));
        }
    }
}
