//! A session's transaction where the server is not asked: it begins with its first statement only, and it may be lost
//! with its backend.
//!
//! When a connection ends, the server rolls back its open transaction. So nothing of the transaction is left, and the
//! client can go on outside of it, once it has been told. Other state that only the server kept is lost. Invariants: no
//! client hears that something was rolled back that may have been committed; none goes on without hearing of its
//! transaction.

use wire::response::Status;

use super::diagnostics::Diagnostics;
use super::state::{Mark, Session};
use crate::intent::Ends;

/// What goes with the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// What another backend can be told, or what is only asked for.
    Nothing,
    /// An open transaction, and nothing else.
    Transaction,
    /// What cannot be had again.
    State,
}

/// How far a statement has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// It was not sent.
    Nothing,
    /// It was sent.
    Server,
    /// It was sent, and the server has answered that it ends the connection instead.
    Farewell,
}

/// What a client is told of its statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossVerdict {
    /// Its transaction was rolled back, and nothing of it is kept.
    RolledBack,
    /// It has asked for nothing else.
    Done,
    /// It is not known whether it has taken effect.
    Unknown,
}

impl Session {
    /// A transaction begins. The server is told with the next statement.
    pub fn begin(&mut self) {
        self.marks.add(Mark::Begun);
        self.status = Status(self.status.0 | Status::IN_TRANSACTION.0);
    }

    /// Whether the server has still to be told that a transaction has begun.
    pub fn has_begun(&self) -> bool {
        self.marks.has(Mark::Begun)
    }

    /// Whether the next statement that is sent begins a transaction in which the client may write.
    pub fn may_begin_to_write(&self) -> bool {
        let begins_by_itself = !self.status.has(Status::AUTOCOMMIT) && !self.in_transaction();
        let reads_only = || {
            let settings = self.settings.as_ref();
            settings.and_then(|it| it.get("transaction_read_only")) == Some(b"ON")
        };
        self.has_begun() || begins_by_itself && !reads_only()
    }

    /// The server is told now.
    pub fn tell_begin(&mut self) {
        self.marks.remove(Mark::Begun);
    }

    /// A statement has ended well that does this to its transaction. Where transactions begin by themselves, the server
    /// has a savepoint before it has a transaction, and says so of none.
    pub fn see_end(&mut self, ends: Ends) {
        match ends {
            Ends::Saves => {
                let is_beside = !self.status.has(Status::AUTOCOMMIT);
                self.marks.set(Mark::Savepoint, is_beside);
            }
            Ends::Undone | Ends::Committed => self.marks.remove(Mark::Savepoint),
            Ends::Never | Ends::TurnsAutocommitOn | Ends::Perhaps => {}
        }
    }

    /// A transaction that the server was never told of has ended.
    pub fn end_begun(&mut self) {
        self.marks.remove(Mark::Begun);
        self.status = self.status.without(Status::IN_TRANSACTION);
    }

    /// What is lost with the backend that this session has.
    pub fn loss(&self) -> Loss {
        if self.pin.is_some() || self.statements.keep_backend() {
            Loss::State
        } else if self.is_in_told_transaction() {
            Loss::Transaction
        } else if self.marks.has(Mark::Characteristics) {
            // Of a transaction that has not begun: it would begin without them.
            Loss::State
        } else {
            Loss::Nothing
        }
    }

    /// What becomes of the statement in hand when the backend is lost.
    pub fn verdict(&self, ends: Ends, reached: Reached) -> LossVerdict {
        let is_open = self.in_transaction() || !self.status.has(Status::AUTOCOMMIT);
        match (ends, reached) {
            (Ends::Undone, _) => LossVerdict::Done,
            // As it was before, and as it will be on another backend.
            (Ends::TurnsAutocommitOn, _) if !is_open => LossVerdict::Done,
            (_, Reached::Nothing) | (Ends::Never | Ends::Saves, Reached::Server) if is_open => {
                LossVerdict::RolledBack
            }
            // It was a transaction of its own.
            (Ends::Never | Ends::Saves, Reached::Farewell) => LossVerdict::RolledBack,
            _ => LossVerdict::Unknown,
        }
    }

    /// Whether a statement that was not sent must not go to another backend than the one it was meant for.
    pub fn is_bound(&self) -> bool {
        self.loss() != Loss::Nothing || self.keeps_for_now()
    }

    /// The backend is lost, and the client has been told what became of its transaction.
    pub fn leave_lost_backend(&mut self) {
        self.forget_transaction();
        self.part();
    }

    /// The backend is lost. Of its transaction the client hears with its next command, and believes in it till then.
    pub fn lose_backend(&mut self) {
        let has_lost = self.is_in_told_transaction();
        if has_lost {
            self.forget_transaction();
            self.marks.add(Mark::LostTransaction);
        }
        self.part();
    }

    /// Whether the client believes in a transaction that is gone.
    pub fn has_lost_transaction(&self) -> bool {
        self.marks.has(Mark::LostTransaction)
    }

    /// The client has heard of it.
    pub fn hear_of_loss(&mut self) {
        self.marks.remove(Mark::LostTransaction);
    }

    /// Whether a transaction is open of which the server knows.
    fn is_in_told_transaction(&self) -> bool {
        self.in_transaction() && !self.marks.has(Mark::Begun)
    }

    fn part(&mut self) {
        if self.diagnostics == Diagnostics::Marked {
            self.lose_mark();
        }
        self.yield_backend();
        self.statements.leave_backend();
    }

    fn forget_transaction(&mut self) {
        let status = self.status.without(Status::IN_TRANSACTION);
        self.status = status.without(Status::IN_READONLY_TRANSACTION);
        for mark in [Mark::Begun, Mark::MayBeInTransaction, Mark::Characteristics] {
            self.marks.remove(mark);
        }
        self.marks.remove(Mark::Savepoint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pin::Pin;
    use crate::session::Reset;
    use crate::statements::KeptByServer;

    const OPEN: Status = Status(Status::AUTOCOMMIT.0 | Status::IN_TRANSACTION.0);

    fn session(status: Status) -> Session {
        Session::new(None, status)
    }

    #[test]
    fn only_a_transaction_can_be_lost_alone() {
        assert_eq!(session(Status::AUTOCOMMIT).loss(), Loss::Nothing);
        assert_eq!(session(OPEN).loss(), Loss::Transaction);
        let mut begun = session(Status::AUTOCOMMIT);
        begun.begin();
        assert_eq!(begun.loss(), Loss::Nothing, "the server knows nothing of it");
        begun.tell_begin();
        assert_eq!(begun.loss(), Loss::Transaction);
        for pin in Pin::ALL {
            let mut pinned = session(OPEN);
            pinned.keep(pin);
            assert_eq!(pinned.loss(), Loss::State, "{pin:?}");
        }
        let mut next = session(Status::AUTOCOMMIT);
        next.marks.add(Mark::Characteristics);
        assert_eq!(next.loss(), Loss::State, "the next one would begin without them");
        next.see_status(OPEN);
        assert_eq!(next.loss(), Loss::Transaction);
        let mut unsure = session(Status(0));
        assert_eq!(unsure.loss(), Loss::Nothing);
        unsure.see_error();
        assert_eq!(unsure.loss(), Loss::Transaction);
    }

    #[test]
    fn a_savepoint_keeps_the_backend_where_transactions_begin_by_themselves() {
        const NONE: Status = Status(0);
        let after = |status, ends| {
            let mut session = session(NONE);
            session.see_end(Ends::Saves);
            session.see_status(status);
            session.see_end(ends);
            session.in_transaction()
        };
        assert!(after(NONE, Ends::Never), "the server says nothing of it");
        assert!(!after(NONE, Ends::Committed) && !after(NONE, Ends::Undone));
        assert!(!after(Status::AUTOCOMMIT, Ends::Perhaps));
        let mut session = session(NONE);
        session.see_end(Ends::Saves);
        session.see_status(Status::IN_TRANSACTION);
        session.see_status(NONE);
        assert!(!session.in_transaction(), "it has ended unseen");
        let mut session = self::session(Status::AUTOCOMMIT);
        session.see_end(Ends::Saves);
        assert!(!session.in_transaction(), "it is gone with its statement");
    }

    #[test]
    fn what_the_server_keeps_of_a_statement_is_lost_for_good() {
        let mut session = session(OPEN);
        let text = b"SELECT ?"[..].into();
        let source = crate::source::Source::new(
            None,
            text,
            std::rc::Rc::default(),
            wire::lex::Dialect::default(),
        );
        let id = session.statements.add(source.into(), 1);
        let id = id.expect("there is room");
        session.statements.keep(id, KeptByServer { long_data: true, cursor: false });
        assert_eq!(session.loss(), Loss::State);
        session.statements.keep(id, KeptByServer::default());
        let own = crate::statements::PreparedOnBackend::new(7);
        session.statements.get(id).expect("it is there").own = Some(own);
        assert_eq!(session.loss(), Loss::Transaction);
        session.leave_lost_backend();
        assert!(session.statements.get(id).expect("it stays").own.is_none());
    }

    #[test]
    fn nothing_is_called_undone_that_may_be_committed() {
        use {Ends::*, LossVerdict::*};
        let (plain, open, manual) = (Status::AUTOCOMMIT, OPEN, Status(0));
        for (status, ends, reached, verdict) in [
            (open, Never, Reached::Server, RolledBack),
            (open, Never, Reached::Farewell, RolledBack),
            (open, Never, Reached::Nothing, RolledBack),
            (open, Perhaps, Reached::Server, Unknown),
            (open, Perhaps, Reached::Farewell, Unknown),
            // A COMMIT that was not sent has committed nothing.
            (open, Perhaps, Reached::Nothing, RolledBack),
            (open, Undone, Reached::Server, Done),
            (open, Undone, Reached::Nothing, Done),
            // Without autocommit, any statement begins one.
            (manual, Never, Reached::Server, RolledBack),
            (manual, Perhaps, Reached::Server, Unknown),
            (plain, Never, Reached::Server, Unknown),
            (plain, Never, Reached::Farewell, RolledBack),
            (plain, Perhaps, Reached::Farewell, Unknown),
            (plain, Never, Reached::Nothing, Unknown),
            // Drivers ask for it when they connect.
            (plain, TurnsAutocommitOn, Reached::Server, Done),
            (plain, TurnsAutocommitOn, Reached::Farewell, Done),
            (open, TurnsAutocommitOn, Reached::Server, Unknown),
            (manual, TurnsAutocommitOn, Reached::Server, Unknown),
        ] {
            let found = session(status).verdict(ends, reached);
            assert_eq!(found, verdict, "{status:?} {ends:?} {reached:?}");
        }
    }

    #[test]
    fn a_client_believes_in_its_transaction_until_it_has_heard() {
        let read_only = Status(OPEN.0 | Status::IN_READONLY_TRANSACTION.0);
        let mut session = session(read_only);
        session.lose_backend();
        assert!(session.has_lost_transaction() && !session.holds_backend());
        assert_eq!(session.status(), OPEN, "a driver that saw none would send no COMMIT");
        session.hear_of_loss();
        assert_eq!(session.status(), Status::AUTOCOMMIT);
        assert!(!session.has_lost_transaction() && !session.in_transaction());
        session.see_status(OPEN);
        session.leave_lost_backend();
        assert!(!session.has_lost_transaction() && session.status() == Status::AUTOCOMMIT);
        session.see_status(OPEN);
        session.lose_backend();
        session.reset(Reset::ForgetsFound);
        assert!(!session.has_lost_transaction(), "a reset ends the transaction as well");
    }

    #[test]
    fn one_that_the_server_was_not_told_of_stays() {
        let mut session = session(Status::AUTOCOMMIT);
        session.begin();
        session.lose_backend();
        assert!(session.has_begun() && session.in_transaction() && !session.is_bound());
        assert!(!session.has_lost_transaction());
    }
}
