//! What replies tell of a client's session and of its backend's.
//!
//! The packets of a reply are seen as they come ([`Session::see_ok`]); what its end means is decided here, and what
//! came of Flifo's own commands. Nothing here writes or sends: what is to be done is the answer.

use std::rc::Rc;

use wire::response::{ErrPacket, Status};

use super::diagnostics::Diagnostics;
use super::facts::Facts;
use super::setup::Purpose;
use super::state::Session;
use crate::backend_session::BackendSession;
use crate::insert_id::OnBackend;
use crate::intent::DiagnosticsUse;
use crate::intent::{LooksUp, Trait};
use crate::kept::Message;
use crate::pin::Pin;
use crate::session_variables::Interned;
use crate::user_variables::Assignment;

/// The end of a reply to a client's command.
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    pub client: u32,
    pub is_mysql: bool,
    /// The command was a statement, rather than a preparation or the schema of a login.
    pub is_statement: bool,
    pub failed: bool,
    pub rows: u64,
    /// How many warnings the reply has counted, where it has counted the most.
    pub warnings: u16,
    /// How many its last packet has counted.
    pub last: u16,
    pub error: Option<ErrPacket<'a>>,
    pub behind: Behind,
}

/// What was sent on the backend behind the command whose reply has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Behind {
    /// Other clients' reads.
    pub reads: bool,
    /// A question for a last insert id.
    pub asks: bool,
}

/// Learns from the end of a reply. `assigns`: what the command has set, if that is all it does. `added`: its error, if
/// that goes behind diagnostics which the backend does not have. The answer is a reason to keep the backend, if there is a
/// new one.
pub fn end(
    session: &mut Session,
    backend: &mut BackendSession,
    facts: &mut Facts,
    assigns: Vec<Assignment>,
    added: Option<Message>,
    end: &End<'_>,
) -> Option<Pin> {
    let pin = if end.failed { fail(session, backend, facts, end) } else { None };
    if end.is_statement {
        end_statement(session, backend, facts, end);
    }
    if !end.failed && !assigns.is_empty() {
        session.variables.set(assigns, backend.settings());
    }
    let ok_warnings = facts.ok_warnings.filter(|_| end.is_statement);
    session.see_end_of_diagnostics(end, facts.diagnostics, ok_warnings, added);
    match session.diagnostics() {
        Diagnostics::None if facts.diagnostics == DiagnosticsUse::Go => {
            session.counts.see_clean(backend.id)
        }
        Diagnostics::OnBackend => session.counts.see_diagnostics(backend.id),
        _ if end.failed => session.counts.see_diagnostics(backend.id),
        _ => {}
    }
    if end.behind != Behind::default() {
        see_behind(session, backend, end);
    }
    pin
}

fn fail(
    session: &mut Session,
    backend: &BackendSession,
    facts: &mut Facts,
    end: &End<'_>,
) -> Option<Pin> {
    session.see_error();
    let code = end.error.map_or(0, |error| error.code);
    // MySQL counts all failures alike.
    let looks_up = if end.is_mysql { LooksUp::No } else { facts.looks_up };
    session.counts.see_failed(code, looks_up, backend.id);
    // Of several variables, those before the one that failed may have been set, and are not reported.
    let sets = facts.sets.take();
    sets.is_some_and(|sets| sets.count > 1).then_some(Pin::Set)
}

fn end_statement(
    session: &mut Session,
    backend: &mut BackendSession,
    facts: &Facts,
    end: &End<'_>,
) {
    if !end.failed {
        session.see_end(facts.ends);
        if facts.has(Trait::SetsNumber) {
            session.take_own_number();
            backend.number.see_set();
        }
    }
    let rows = (!end.failed).then_some(end.rows);
    session.counts.see_found(facts.finds, rows, backend.id);
    let tells = session.counts.are_found_on(backend.id);
    backend.finder = tells.then_some(end.client);
    if facts.inserts.is_unreported(end.failed) {
        session.see_unreported_insert(end.client, backend);
    }
}

/// Others are on the backend behind the command already. What the backend alone knew of it is known no more, except for
/// an error: that has come in a packet.
fn see_behind(session: &mut Session, backend: &BackendSession, end: &End<'_>) {
    match end.behind.reads {
        true => session.counts.lose(backend.id),
        false => session.counts.see_none_affected(backend.id),
    }
    let clears = end.behind.reads || end.is_mysql;
    if !clears || !session.has_diagnostics_on_backend() {
        return;
    }
    // What fails later may have had warnings before.
    match end.error.filter(|error| is_before_any_row(error.code)) {
        Some(error) => session.keep_error(error.code, error.sqlstate, error.message),
        None => session.lose_diagnostics(),
    }
}

/// Whether a statement fails like this before it has come to any row: names or rights were amiss.
pub fn is_before_any_row(code: u16) -> bool {
    const BEFORE_ANY_ROW: [u16; 20] = [
        1044, 1046, 1049, 1050, 1051, 1054, 1064, 1065, 1094, 1095, 1136, 1142, 1143, 1146, 1193,
        1210, 1231, 1243, 1295, 1305,
    ];
    BEFORE_ANY_ROW.contains(&code)
}

/// The statement of this session, which only reads, was answered with the reply to another client's run of the same:
/// rows, or an error that came before any row. Of a reply with rows, `status` is what its end says.
pub fn end_shared(session: &mut Session, facts: &Facts, end: &SharedEnd<'_>) {
    session.counts.answer(-1);
    match end {
        SharedEnd::Rows { rows, status } => {
            session.see_status(*status);
            session.counts.keep_found(*rows);
            session.see_told(0, false, facts.diagnostics, None);
            session.see_diagnostics(0, false, facts.diagnostics);
        }
        SharedEnd::Error(error) => {
            session.see_error();
            session.see_told(0, true, facts.diagnostics, None);
            session.keep_error(error.code, error.sqlstate, error.message);
        }
    }
}

/// How a reply has ended that several clients get.
#[derive(Clone, Copy, Debug)]
pub enum SharedEnd<'a> {
    Rows { rows: u64, status: Status },
    Error(ErrPacket<'a>),
}

/// The answer to a command of Flifo's own.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    pub failed: bool,
    pub error: Option<ErrPacket<'a>>,
    /// Its client's command waits for it: nothing is behind it yet.
    pub is_awaited: bool,
}

/// Whether a backend is now what it was told to be, as far as its client's command may go on. It remembers what the
/// server has accepted.
pub fn is_done(
    backend: &mut BackendSession,
    purpose: &Purpose,
    answer: Answer<'_>,
    interned: &mut Interned,
) -> bool {
    match purpose {
        // It reports nothing of what it was told.
        Purpose::SessionVariables(wanted, _) if backend.is_silent => {
            if !answer.failed {
                backend.take_settings(wanted);
            }
            return !answer.failed;
        }
        Purpose::SessionVariables(wanted, text) => {
            if !answer.failed {
                backend.see_setup(wanted, interned);
            }
            let is_so = !answer.failed && Rc::ptr_eq(backend.settings(), wanted);
            match is_so {
                true => interned.accept(text),
                false => interned.doubt(text),
            }
            return is_so;
        }
        Purpose::Number(shown) => return see_number(backend, *shown, answer),
        // It makes an error, if that is what its client's diagnostics are.
        Purpose::Diagnostics => return true,
        _ if answer.failed => return false,
        Purpose::Schema(schema) => backend.enter_schema(Some(schema.clone())),
        Purpose::SchemaReset => backend.was_reset = true,
        // As behind a client's own statement, and behind what asks for its effect.
        Purpose::Init(init) | Purpose::InitProbe(init) => {
            backend.see_collates(init.sets().collates, interned);
        }
        Purpose::InsertId(client, id) => {
            backend.insert_id = OnBackend::known(*id);
            backend.inserter = Some(*client);
        }
        _ => {}
    }
    true
}

/// The account of a backend may not have the right to change its number: its client's command goes on without that.
fn see_number(backend: &mut BackendSession, shown: Option<u32>, answer: Answer<'_>) -> bool {
    const ACCESS_DENIED: u16 = 1227;
    if !answer.failed {
        backend.number.show(shown);
        return true;
    }
    let is_refused =
        answer.is_awaited && answer.error.is_some_and(|error| error.code == ACCESS_DENIED);
    if is_refused {
        backend.number.refuse();
    }
    is_refused
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::{Asked, Finds};
    use crate::intent::Sets;

    const OK: End<'_> = End {
        client: 9,
        is_mysql: false,
        is_statement: true,
        failed: false,
        rows: 0,
        warnings: 0,
        last: 0,
        error: None,
        behind: Behind { reads: false, asks: false },
    };

    fn error(code: u16) -> Option<ErrPacket<'static>> {
        Some(ErrPacket { code, sqlstate: *b"HY000", message: b"it fails" })
    }

    struct Pair {
        session: Session,
        backend: BackendSession,
    }

    impl Pair {
        fn new() -> Self {
            let backend = BackendSession::new(3, Rc::default());
            Self { session: Session::new(None, Status::AUTOCOMMIT), backend }
        }

        fn end(&mut self, mut facts: Facts, it: End<'_>) -> Option<Pin> {
            let Self { session, backend } = self;
            end(session, backend, &mut facts, Vec::new(), None, &it)
        }
    }

    #[test]
    fn of_several_variables_that_fail_together_some_may_be_set() {
        for (count, pin) in [(1, None), (2, Some(Pin::Set))] {
            let sets = Some(Sets { count, ..Sets::default() });
            let facts = Facts { sets, ..Facts::default() };
            let end = End { failed: true, error: error(1231), ..OK };
            assert_eq!(Pair::new().end(facts, end), pin);
            assert_eq!(Pair::new().end(facts, OK), None);
        }
    }

    #[test]
    fn rows_that_are_found_are_counted_by_what_the_statement_does() {
        let mut pair = Pair::new();
        let found = Asked { affected: false, found: true };
        pair.end(Facts { finds: Finds::Rows, ..Facts::default() }, End { rows: 7, ..OK });
        assert_eq!(pair.session.counts.found(), Some(7));
        assert!(pair.session.counts.are_on(found, 3) && pair.backend.finder.is_none());
        pair.end(Facts { finds: Finds::Anew, ..Facts::default() }, OK);
        assert_eq!((pair.session.counts.found(), pair.backend.finder), (None, Some(9)));
    }

    #[test]
    fn behind_it_only_an_error_is_known_that_came_before_any_row() {
        let behind = Behind { reads: true, asks: false };
        let warned = End { warnings: 2, last: 2, behind, ..OK };
        for (end, diagnostics) in [
            (warned, Diagnostics::Lost),
            (End { failed: true, error: error(1146), behind, ..OK }, Diagnostics::Kept),
            (End { failed: true, error: error(1062), behind, ..OK }, Diagnostics::Lost),
            (End { behind: Behind::default(), ..warned }, Diagnostics::OnBackend),
        ] {
            let mut pair = Pair::new();
            pair.end(Facts::default(), end);
            assert_eq!(pair.session.diagnostics(), diagnostics);
        }
        // MariaDB's question for an insert id clears no diagnostics; MySQL's does.
        for (is_mysql, diagnostics) in [(false, Diagnostics::OnBackend), (true, Diagnostics::Lost)]
        {
            let behind = Behind { reads: false, asks: true };
            let mut pair = Pair::new();
            pair.end(Facts::default(), End { is_mysql, behind, ..warned });
            assert_eq!(pair.session.diagnostics(), diagnostics);
        }
    }

    #[test]
    fn what_another_clients_run_has_answered_is_the_clients_own() {
        let facts =
            Facts { finds: Finds::Rows, diagnostics: DiagnosticsUse::Go, ..Facts::default() };
        let mut session = Session::new(None, Status::AUTOCOMMIT);
        let rows = SharedEnd::Rows { rows: 7, status: Status::AUTOCOMMIT };
        session.keep_error(1146, *b"42S02", b"of the statement before");
        end_shared(&mut session, &facts, &rows);
        assert_eq!((session.counts.found(), session.counts.affected()), (Some(7), Some(-1)));
        assert_eq!((session.diagnostics(), session.told()), (Diagnostics::None, Some(0)));
        assert!(session.is_plain() && session.kept().is_none());
        let error = error(1146).expect("one");
        end_shared(&mut session, &facts, &SharedEnd::Error(error));
        assert_eq!((session.counts.found(), session.counts.affected()), (Some(7), Some(-1)));
        assert_eq!((session.diagnostics(), session.told()), (Diagnostics::Kept, Some(1)));
        assert!(session.is_plain() && session.kept().is_some());
    }

    #[test]
    fn a_number_that_is_refused_is_no_failure_where_nothing_is_behind_it() {
        let denied = |is_awaited, code| Answer { failed: true, error: error(code), is_awaited };
        for (answer, done) in [
            (Answer { failed: false, error: None, is_awaited: false }, true),
            (denied(true, 1227), true),
            (denied(false, 1227), false),
            (denied(true, 1064), false),
        ] {
            let (mut backend, mut interned) = (BackendSession::default(), Interned::default());
            let purpose = Purpose::Number(Some(9));
            assert_eq!(is_done(&mut backend, &purpose, answer, &mut interned), done);
        }
    }
}
