//! Prepared statements of a session: what becomes of what the server has prepared, what it keeps of a statement behind
//! a command, and which refusals can be helped.

use std::rc::Rc;

use wire::command::Opcode;
use wire::response::Status;

use super::facts::InHand;
use super::setup::Purpose;
use super::state::Session;
use crate::source::Source;
use crate::statements::{KeptByServer, Prepared, PreparedOnBackend};

/// Whose a statement is that the server has prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// It serves all clients of its backend.
    Shared(Rc<Source>),
    /// Its client's alone, for as long as that keeps the backend.
    Own,
    /// No client can name it: it is closed.
    Superfluous,
}

/// Why the server did not begin a command that is good, and can be brought to take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// What the statement names has changed too often while it was prepared again (`ER_NEED_REPREPARE`).
    Stale,
    /// The server has as many statements as it may (`ER_MAX_PREPARED_STMT_COUNT_REACHED`).
    TooMany,
}

/// What a backend is rid of behind a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Release {
    /// The backend closes this statement of its own.
    pub closes: Option<u32>,
    /// No statement keeps the backend any more.
    pub is_free: bool,
}

impl Session {
    /// The server has prepared what `purpose` has asked for, and calls it `id`. Answers also how the client is to name
    /// it, if that has prepared it.
    pub fn see_prepared(
        &mut self,
        purpose: &Purpose,
        id: u32,
        parameters: u16,
    ) -> (Option<Preparation>, Option<u32>) {
        match purpose {
            Purpose::Prepare(source) => {
                let Some(own) = self.statements.add(Rc::clone(source), parameters) else {
                    // It is too late for an error: the client's executes find nothing.
                    return (Some(Preparation::Superfluous), None);
                };
                if self.pin.is_none() {
                    return (Some(Preparation::Shared(Rc::clone(source))), Some(own));
                }
                (Some(self.own_statement(own, id)), Some(own))
            }
            Purpose::Shared(source) => (Some(Preparation::Shared(Rc::clone(source))), None),
            Purpose::Own(own) => (Some(self.own_statement(*own, id)), None),
            _ => (None, None),
        }
    }

    fn own_statement(&mut self, own: u32, id: u32) -> Preparation {
        match self.statements.get(own) {
            Some(prepared) => {
                prepared.own = Some(PreparedOnBackend::new(id));
                Preparation::Own
            }
            None => Preparation::Superfluous,
        }
    }

    /// A preparation has been answered. MySQL's clients cannot mean the statement that was prepared last.
    pub fn see_preparation(&mut self, failed: bool, is_mysql: bool) {
        if failed || is_mysql {
            self.statements.forget_last();
        }
    }

    /// A command that names a statement has been answered. The answer is what the server keeps of that now.
    pub fn see_executed(&mut self, in_hand: InHand, failed: bool) -> Option<KeptByServer> {
        let before = self.statements.look(in_hand.id)?.kept();
        let cursor = in_hand.has_cursor && !failed;
        let kept = match in_hand.command {
            Opcode::StmtReset | Opcode::StmtSendLongData => KeptByServer::default(),
            Opcode::StmtFetch => KeptByServer { cursor, ..before },
            _ => KeptByServer { cursor, long_data: false },
        };
        self.statements.keep(in_hand.id, kept);
        Some(kept)
    }

    /// What its backend is rid of behind a command that names this statement.
    pub fn release(&mut self, id: u32) -> Release {
        if self.pin.is_some() {
            return Release::default();
        }
        let prepared = self.statements.get(id).filter(|prepared| !prepared.kept().any());
        let closes = prepared.and_then(|prepared| prepared.own.take()).map(|own| own.id);
        Release { closes, is_free: !self.statements.keep_backend() }
    }

    /// Its client closes a statement. The answer is what its backend is rid of, and whether the server has kept
    /// anything of it. `None`: the backend knows nothing of it.
    pub fn close_statement(&mut self, id: u32) -> Option<(Release, KeptByServer)> {
        let closed = self.statements.close(id)?;
        let closes = closed.own.as_ref()?.id;
        let is_free = self.pin.is_none() && !self.statements.keep_backend();
        Some((Release { closes: Some(closes), is_free }, closed.kept()))
    }
}

impl Prepared {
    /// Whether it would be the same if it were prepared anew for a command that the server has refused: what a routine
    /// has done before it failed would be done twice, and pieces of a parameter are gone.
    pub fn can_be_renewed(&self) -> bool {
        self.source.intent.pin.is_none() && !self.kept().long_data
    }
}

impl InHand {
    /// Learns from status flags whether rows are left in a cursor.
    pub fn see_status(&mut self, status: Status) {
        self.has_cursor = match self.command {
            Opcode::StmtFetch => !status.has(Status::LAST_ROW_SENT),
            _ => status.has(Status::CURSOR_EXISTS) && !status.has(Status::LAST_ROW_SENT),
        };
    }

    /// Whether its statement is executed.
    pub const fn executes(&self) -> bool {
        self.command.executes()
    }
}

/// Whether a command that was refused with this error, and nothing before it, can be helped.
pub fn refused(purpose: &Purpose, in_hand: Option<InHand>, error: u16) -> Option<Refused> {
    match (purpose, error) {
        (Purpose::Statement, 1615) if in_hand.is_some_and(|it| it.executes()) => {
            Some(Refused::Stale)
        }
        (Purpose::Prepare(_) | Purpose::Shared(_) | Purpose::Own(_), 1461) => {
            Some(Refused::TooMany)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use wire::lex::Dialect;

    use super::*;
    use crate::pin::Pin;
    use crate::session_variables::SessionVariables;
    use crate::statements::STATEMENTS_MAX;

    fn source(text: &[u8]) -> Rc<Source> {
        Rc::new(Source::new(
            None,
            text.into(),
            Rc::new(SessionVariables::default()),
            Dialect::default(),
        ))
    }

    fn session() -> Session {
        Session::new(None, Status::AUTOCOMMIT)
    }

    fn in_hand(command: Opcode, id: u32, has_cursor: bool) -> InHand {
        InHand { has_cursor, ..InHand::new(command, id) }
    }

    #[test]
    fn a_statement_is_shared_unless_its_client_is_pinned() {
        let (mut session, source) = (session(), source(b"SELECT ?"));
        let prepare = Purpose::Prepare(Rc::clone(&source));
        let shared = Preparation::Shared(Rc::clone(&source));
        assert_eq!(session.see_prepared(&prepare, 70, 1), (Some(shared.clone()), Some(1)));
        assert_eq!(session.see_prepared(&Purpose::Shared(source), 71, 1), (Some(shared), None));
        session.keep(Pin::TemporaryTable);
        assert_eq!(session.see_prepared(&prepare, 72, 1), (Some(Preparation::Own), Some(2)));
        assert_eq!(session.see_prepared(&Purpose::Own(1), 73, 1), (Some(Preparation::Own), None));
        let own = |session: &Session, id| session.statements.look(id)?.own.as_ref().map(|it| it.id);
        assert_eq!((own(&session, 1), own(&session, 2)), (Some(73), Some(72)));
        assert_eq!(session.see_prepared(&Purpose::Statement, 74, 0), (None, None));
    }

    #[test]
    fn what_no_client_can_name_is_closed() {
        let (mut session, source) = (session(), source(b"SELECT 1"));
        for _ in 0..STATEMENTS_MAX {
            session.statements.add(Rc::clone(&source), 0).expect("there is room");
        }
        let superfluous = (Some(Preparation::Superfluous), None);
        assert_eq!(session.see_prepared(&Purpose::Prepare(source), 70, 0), superfluous);
        assert!(session.close_statement(5).is_none(), "the backend did not know it");
        assert_eq!(session.see_prepared(&Purpose::Own(5), 71, 0), superfluous);
    }

    #[test]
    fn a_cursor_and_pieces_keep_the_backend_until_they_are_gone() {
        use Opcode::{StmtExecute, StmtFetch, StmtReset};
        let mut session = session();
        let id = session.statements.add(source(b"SELECT ?"), 1).expect("there is room");
        session.see_prepared(&Purpose::Own(id), 70, 1);
        for (command, has_cursor, failed, keeps) in [
            (StmtExecute, true, false, true),
            (StmtFetch, true, false, true),
            (StmtFetch, true, true, false),
            (StmtExecute, true, false, true),
            (StmtFetch, false, false, false),
            (StmtExecute, true, false, true),
            (StmtReset, true, false, false),
            (StmtExecute, true, true, false),
        ] {
            // A release has taken it from the backend.
            session.see_prepared(&Purpose::Own(id), 70, 1);
            let kept = session.see_executed(in_hand(command, id, has_cursor), failed);
            assert_eq!(kept.map(KeptByServer::any), Some(keeps), "{command:?}");
            let closes = (!keeps).then_some(70);
            assert_eq!(session.release(id), Release { closes, is_free: !keeps }, "{command:?}");
        }
        let long_data = KeptByServer { long_data: true, cursor: false };
        session.statements.keep(id, long_data);
        session.see_prepared(&Purpose::Own(id), 71, 1);
        let fetched = session.see_executed(in_hand(StmtFetch, id, true), false);
        assert_eq!(fetched, Some(KeptByServer { long_data: true, cursor: true }));
        let release = Release { closes: Some(71), is_free: true };
        let kept = KeptByServer { long_data: true, cursor: true };
        assert_eq!(session.close_statement(id), Some((release, kept)));
        assert!(session.see_executed(in_hand(StmtFetch, id, true), false).is_none());
    }

    #[test]
    fn a_pinned_client_keeps_what_it_has() {
        let mut session = session();
        session.keep(Pin::TemporaryTable);
        session.see_prepared(&Purpose::Prepare(source(b"SELECT 1")), 70, 0);
        assert_eq!(session.release(1), Release::default());
        let closed = Release { closes: Some(70), is_free: false };
        assert_eq!(session.close_statement(1), Some((closed, KeptByServer::default())));
    }

    #[test]
    fn some_refusals_can_be_helped() {
        let execute = Some(InHand::new(Opcode::StmtExecute, 1));
        let fetch = Some(InHand::new(Opcode::StmtFetch, 1));
        let prepare = Purpose::Prepare(source(b"SELECT 1"));
        for (purpose, in_hand, error, helps) in [
            (&Purpose::Statement, execute, 1615, Some(Refused::Stale)),
            (&Purpose::Statement, fetch, 1615, None),
            (&Purpose::Statement, None, 1615, None),
            (&Purpose::Statement, execute, 1461, None),
            (&prepare, None, 1461, Some(Refused::TooMany)),
            (&prepare, None, 1615, None),
            (&Purpose::Own(1), execute, 1461, Some(Refused::TooMany)),
        ] {
            assert_eq!(refused(purpose, in_hand, error), helps, "{purpose:?} {error}");
        }
    }

    #[test]
    fn only_what_has_done_nothing_is_prepared_anew() {
        let mut session = session();
        let call = session.statements.add(source(b"CALL p()"), 0).expect("there is room");
        let plain = session.statements.add(source(b"SELECT ?"), 1).expect("there is room");
        let mut can = |id| session.statements.get(id).is_some_and(|it| it.can_be_renewed());
        assert!(!can(call) && can(plain));
        session.statements.keep(plain, KeptByServer { long_data: true, cursor: false });
        assert!(!session.statements.get(plain).is_some_and(|it| it.can_be_renewed()));
    }
}
