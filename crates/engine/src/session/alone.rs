//! Clients of servers that report no changes of session state: each is alone on its backend.
//!
//! Owns which servers may have such a client, what its backend is told before its first command, and when a server is
//! taken to report. Afterwards nothing of its session needs to be known: all of it stays on the backend.

use wire::Capabilities;
use wire::tracker::{Change, Changes};

use super::plan::{BEGIN, Pair, enter, settings, variables};
use super::setup::{Purpose, Setup};

/// Which servers a client's statements go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoesTo {
    /// To one server, whichever it is now.
    One,
    /// Reads to readers, all else to the writer.
    Split { is_writer: bool },
}

/// Whether a client may have a backend of a server: once it is alone there it stays, so that must be a server which
/// takes all that it asks.
pub const fn may_serve(is_silent: bool, bound: GoesTo) -> bool {
    !is_silent || matches!(bound, GoesTo::One | GoesTo::Split { is_writer: true })
}

/// Whether the answer to a `SET` of variables shows that the server reports changes.
pub fn shows_reports(changes: &[u8]) -> bool {
    Changes::new(changes).any(|change| matches!(change, Ok(Change::Variable { .. })))
}

/// What comes before a client's first command on a backend of its own.
#[derive(Debug, PartialEq)]
pub enum AloneEntry {
    /// Nothing: the command goes as it is, and so does all that follows it.
    Ready,
    /// This must be answered first; then it is asked again.
    Told(Setup),
    /// The client cannot go on there, for this reason.
    Refused(&'static str),
}

/// What a client may expect of replies that only a server can give.
const IN_REPLIES: [(Capabilities, &str); 2] = [
    (
        Capabilities::DEPRECATE_EOF,
        "the server ends results in the older way, and the client expects the newer one",
    ),
    (
        Capabilities::SESSION_TRACK,
        "the server reports no changes of session state, and the client expects them",
    ),
];

impl Pair<'_> {
    /// What must be told to a backend that its client keeps for good. `client`, `server`: their capabilities.
    pub fn enter_alone(&self, client: Capabilities, server: Capabilities) -> AloneEntry {
        let Self { session, backend, .. } = self;
        for (capability, why) in IN_REPLIES {
            if client.has(capability) && !server.has(capability) {
                return AloneEntry::Refused(why);
            }
        }
        if !session.statements.is_empty() {
            return AloneEntry::Refused(
                "its prepared statements are known by numbers that another server gives to other statements",
            );
        }
        let init = session.beginning.as_ref().filter(|it| !it.ran_on(backend.id));
        if let Some(setup) = init.and_then(|it| it.next(backend.id, backend.settings())) {
            return AloneEntry::Told(setup);
        }
        // The variables first: they may need settings of their own.
        let setup = variables(backend, &session.variables);
        let own = || session.settings.as_ref().and_then(|own| settings(backend, own));
        let setup = setup.or_else(own).or_else(|| {
            let wanted = session.schema.as_ref();
            wanted.filter(|wanted| backend.schema.as_ref() != Some(*wanted)).map(enter)
        });
        match setup {
            Some(setup) => AloneEntry::Told(setup),
            None if session.has_begun() => AloneEntry::Told(Setup::query(Purpose::Begin, BEGIN)),
            None => AloneEntry::Ready,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use wire::lex::Dialect;
    use wire::response::Status;
    use wire::tracker::put_change;

    use super::*;
    use crate::backend_session::BackendSession;
    use crate::init_connect::InitConnect;
    use crate::session::Session;
    use crate::session::beginning::Beginning;
    use crate::session::plan::OtherClients;
    use crate::session_variables::SessionVariables;
    use crate::source::Source;

    struct NoOthers;

    impl OtherClients for NoOthers {
        fn insert_id_is_on(&self, _: u32, _: u64) -> bool {
            false
        }

        fn found_is_on(&self, _: u32, _: u64) -> bool {
            false
        }
    }

    fn enter(session: &Session, backend: &BackendSession) -> AloneEntry {
        let pair = Pair {
            session,
            backend,
            client: 9,
            thread_id: 4,
            is_mysql: true,
            is_mariadb: false,
            sends_several: false,
            others: &NoOthers,
        };
        pair.enter_alone(Capabilities::PROTOCOL_41, Capabilities::PROTOCOL_41)
    }

    fn variables(mode: &str) -> Rc<SessionVariables> {
        let rows = [(&b"sql_mode"[..], mode.as_bytes())];
        Rc::new(SessionVariables::from_rows(rows.into_iter()))
    }

    fn body(entry: &AloneEntry) -> String {
        match entry {
            AloneEntry::Told(setup) => String::from_utf8_lossy(&setup.body).into_owned(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_client_that_stays_must_find_all_that_it_asks_there() {
        let split = |is_writer| GoesTo::Split { is_writer };
        for (is_silent, bound, may) in [
            (false, GoesTo::One, true),
            (false, split(false), true),
            (true, GoesTo::One, true),
            (true, split(true), true),
            (true, split(false), false),
        ] {
            assert_eq!(may_serve(is_silent, bound), may, "{is_silent} {bound:?}");
        }
    }

    #[test]
    fn only_a_variable_shows_that_a_server_reports() {
        let list = |change| {
            let mut out = Vec::new();
            put_change(&mut out, change);
            out
        };
        assert!(shows_reports(&list(Change::Variable {
            name: b"session_track_schema",
            value: b"ON"
        })));
        for other in [list(Change::State(b"1")), list(Change::Schema(b"a")), vec![], vec![0, 9, 9]]
        {
            assert!(!shows_reports(&other), "{other:?}");
        }
    }

    #[test]
    fn a_backend_is_told_one_thing_after_the_other() {
        let mut backend = BackendSession::new(3, variables("ANSI")).silent();
        let mut session = Session::new(None, Status::AUTOCOMMIT);
        assert_eq!(enter(&session, &backend), AloneEntry::Ready);
        session.begin();
        session.schema = Some(b"shop"[..].into());
        session.settings = Some(variables(""));
        session.beginning =
            Some(Box::new(Beginning::new(InitConnect::read("SET sql_mode = 'ANSI'").unwrap())));
        assert_eq!(body(&enter(&session, &backend)), "SET sql_mode = 'ANSI'");
        session.beginning = None;
        assert_eq!(body(&enter(&session, &backend)), "SET sql_mode=''");
        session.settings = Some(Rc::clone(backend.settings()));
        assert_eq!(body(&enter(&session, &backend)), "shop");
        backend.enter_schema(session.schema.clone());
        assert_eq!(body(&enter(&session, &backend)), "BEGIN");
        session.tell_begin();
        assert_eq!(enter(&session, &backend), AloneEntry::Ready);
    }

    #[test]
    fn what_cannot_be_told_is_refused() {
        let backend = BackendSession::new(3, variables("ANSI")).silent();
        let mut session = Session::new(None, Status::AUTOCOMMIT);
        let source = Source::new(None, b"DO 1"[..].into(), Rc::default(), Dialect::default());
        session.statements.add(Rc::new(source), 0).unwrap();
        assert!(matches!(enter(&session, &backend), AloneEntry::Refused(_)));
        session.statements.clear();
        assert_eq!(enter(&session, &backend), AloneEntry::Ready);
        let pair = Pair {
            session: &session,
            backend: &backend,
            client: 9,
            thread_id: 4,
            is_mysql: true,
            is_mariadb: false,
            sends_several: false,
            others: &NoOthers,
        };
        for (capability, _) in IN_REPLIES {
            assert!(matches!(
                pair.enter_alone(capability, Capabilities(0)),
                AloneEntry::Refused(_)
            ));
            assert_eq!(pair.enter_alone(capability, capability), AloneEntry::Ready);
        }
    }
}
