//! A pooled client's session: what its next statement needs from a backend, and whether it may give
//! its backend back.

use serde::{Deserialize, Serialize};
use std::rc::Rc;

use wire::charset::Charset;
use wire::lex::Dialect;
use wire::response::{OkPacket, Status};
use wire::tracker::{Change, Changes};

use super::beginning::Beginning;
use super::diagnostics::{Diagnostics, Told};
use crate::backend_session::BackendSession;
use crate::counts::RowCounts;
use crate::insert_id::InsertId;
use crate::intent::{Moves, SetMark, Sets};
use crate::kept::SavedDiagnostics;

use crate::marks::Marks;
use crate::passed_texts::PassedTexts;
use crate::passed_types::PassedTypes;
use crate::pin::Pin;
use crate::session_variables::{Interned, SessionVariables};
use crate::statements::Statements;
use crate::trackers::Listen;
use crate::user_variables::UserVariables;

/// What the server makes of `FOUND_ROWS()` when a session begins anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// MariaDB (10.11).
    KeepsFound,
    ForgetsFound,
}

/// What is known of one client's session.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Session {
    #[serde(with = "crate::described::some_bytes")]
    pub schema: Option<Rc<[u8]>>,
    /// It was reset since it has chosen its schema: see [`BackendSession::was_reset`].
    pub was_reset: bool,
    pub insert_id: InsertId,
    pub counts: RowCounts,
    pub statements: Statements,
    /// What it has set its variables to. `None`: it has run nothing yet, and takes a new backend's.
    pub settings: Option<Rc<SessionVariables>>,
    /// What it has still to begin with, before its first command is read.
    pub beginning: Option<Box<Beginning>>,
    /// User variables that any backend can be told.
    pub variables: UserVariables,
    pub(super) marks: Marks<Mark>,
    /// What it is told of beyond what any client is.
    #[serde(default, skip_serializing_if = "super::listens::is_none")]
    pub(super) listens: Marks<Listen>,
    #[serde(with = "crate::described::status")]
    pub(super) status: Status,
    /// The status flags of a session that has done nothing yet.
    #[serde(with = "crate::described::status")]
    pub(super) fresh: Status,
    /// Its backend has diagnostics of its statements, or had them until another client needed it.
    pub(super) diagnostics: Diagnostics,
    /// The diagnostics that are kept here: all of them, or those that stand before the ones on the backend.
    pub(super) kept: Option<Box<SavedDiagnostics>>,
    /// How many diagnostics the last statement has left; see [`Session::told`].
    pub(super) told: Told,
    pub(super) pin: Option<Pin>,
    /// What the statement that runs does to its schema by its text.
    pub(super) moves: Moves,
    /// How its texts are read, as far as its status flags do not tell.
    #[serde(
        default,
        skip_serializing_if = "crate::described::dialect::is_usual",
        with = "crate::described::dialect"
    )]
    pub(super) reads: Dialect,
    /// Its character set if the statement that is passed on succeeds.
    #[serde(skip)]
    pub(super) becomes: Option<Charset>,
    /// The label at which rules begin for its next statements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_label: Option<Box<str>>,
    /// What a pass-through client has prepared, where rules ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<Box<PassedTexts>>,
    /// The types of parameters that it may leave out. They stay here at a hand-over: older versions do not know them.
    #[serde(skip)]
    pub passed_types: Option<Box<PassedTypes>>,
}

/// What a session is marked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// Its backend was lost with a transaction, and its client has not been told.
    ///
    /// Sessions are handed over to other versions as bits. The first bit said what `listens` says now.
    LostTransaction = 1,
    /// The next transaction has characteristics of its own, or one is open that was begun by name.
    Characteristics,
    /// A statement failed where transactions begin by themselves, and the server does not say whether one did.
    MayBeInTransaction,
    /// The server keeps a savepoint of it, also outside of what it calls a transaction.
    Savepoint,
    /// It has begun a transaction that the server has not been told of.
    Begun,
    /// It has done what no reset undoes.
    BeyondReset,
    /// It has chosen a role.
    Role,
    /// It has begun an XA transaction.
    Xa,
    /// It may hold locks without a transaction: of tables, by name, of an XA branch.
    MayLock,
    /// The statement that runs has a `sql_mode` of its own.
    PassingMode,
    /// It has given its connection a number itself, which the server answers with.
    OwnNumber,
    /// It has asked for the number of its connection.
    AskedNumber,
    /// A rule has it keep its backend.
    KeptByRule,
    /// Its schema could not be entered when that was tried last.
    SchemaInDoubt,
    /// What it has prepared, passed through, may give it another character set.
    PreparesCharset,
}

crate::marks!(Mark);

impl Session {
    pub fn new(schema: Option<Rc<[u8]>>, status: Status) -> Self {
        Self { schema, status, fresh: status, ..Self::default() }
    }

    /// Why the backend must be kept although no transaction is open, if it must.
    pub fn pin(&self) -> Option<Pin> {
        self.pin
    }

    /// Keeps the backend for good. True if it was not pinned before.
    pub fn keep(&mut self, pin: Pin) -> bool {
        self.marks.add_if(Mark::BeyondReset, !pin.ends_with_reset());
        self.marks.add_if(Mark::MayLock, pin.may_lock());
        self.marks.add_if(Mark::Role, matches!(pin, Pin::Role));
        self.marks.add_if(Mark::Xa, matches!(pin, Pin::Xa));
        let is_new = self.pin.is_none();
        if is_new {
            self.pin = Some(pin);
        }
        is_new
    }

    /// What it may have that stays with its connection when that is reset: a role; on MySQL (8.0.15) a prepared XA
    /// transaction, which MariaDB (10.11) detaches.
    pub fn outlives_reset(&self, is_mysql: bool) -> Option<Pin> {
        let xa = (self.marks.has(Mark::Xa) && is_mysql).then_some(Pin::Xa);
        self.marks.has(Mark::Role).then_some(Pin::Role).or(xa)
    }

    /// It does what no reset undoes, whatever else it is pinned for.
    pub fn go_beyond_reset(&mut self) {
        self.marks.add(Mark::BeyondReset);
    }

    /// What it was last pinned for will be undone on the backend: it need not be kept.
    pub fn forgive(&mut self) {
        self.pin = None;
        self.marks.remove(Mark::BeyondReset);
        self.marks.remove(Mark::MayLock);
    }

    pub fn in_transaction(&self) -> bool {
        self.status.has(Status::IN_TRANSACTION)
            || self.marks.has(Mark::MayBeInTransaction)
            || self.marks.has(Mark::Savepoint)
    }

    /// Others may wait for what it has: it must not wait for them.
    pub fn may_hold_locks(&self) -> bool {
        self.in_transaction() || self.marks.has(Mark::MayLock)
    }

    /// Whether the backend stays with this client after its statement.
    pub fn holds_backend(&self) -> bool {
        self.keeps_for_good() || self.keeps_for_now()
    }

    /// Whether the backend can be taken back for a client that waits: that loses only the diagnostics on the backend, and
    /// user variables that another backend can be told.
    pub fn can_yield(&self) -> bool {
        self.keeps_for_now() && !self.keeps_for_good()
    }

    /// Whether nothing but diagnostics and user variables can be a reason to keep the backend.
    pub fn can_do_without(&self) -> bool {
        !self.keeps_for_good()
    }

    /// Whether the backend can be taken back, and nothing is lost.
    pub fn can_yield_unseen(&self) -> bool {
        self.can_yield() && !self.is_told_by_backend()
    }

    /// Whether it can go to another backend, and nothing is lost. It may have one that it need not keep: that was asked
    /// for something.
    pub fn can_leave_unseen(&self) -> bool {
        self.can_do_without() && !self.is_told_by_backend()
    }

    /// The backend was taken back.
    pub fn yield_backend(&mut self) {
        if self.has_diagnostics_on_backend() {
            self.lose_diagnostics();
        }
        self.variables.leave();
    }

    pub(super) fn keeps_for_now(&self) -> bool {
        self.is_told_by_backend() || self.variables.are_on_backend()
    }

    /// Whether the backend is asked before another client uses it.
    fn is_told_by_backend(&self) -> bool {
        self.has_diagnostics_on_backend() || self.counts.are_affected_on_backend()
    }

    fn keeps_for_good(&self) -> bool {
        self.pin.is_some()
            || self.in_transaction()
            || self.marks.has(Mark::Characteristics)
            || self.marks.has(Mark::KeptByRule)
            || self.statements.keep_backend()
    }

    /// Whether a rule has it keep its backend.
    pub fn is_kept_by_rule(&self) -> bool {
        self.marks.has(Mark::KeptByRule)
    }

    /// A rule has it keep its backend from now on, or not any longer. What it does there is followed as in a transaction,
    /// so that the backend can be shared again. True: that is something new.
    pub fn keep_by_rule(&mut self, keeps: bool) -> bool {
        let is_new = self.marks.has(Mark::KeptByRule) != keeps;
        self.marks.set(Mark::KeptByRule, keeps);
        is_new
    }

    /// Whether the next transaction has characteristics of its own, or one is open that was begun by name.
    pub fn has_characteristics(&self) -> bool {
        self.marks.has(Mark::Characteristics)
    }

    /// Whether a reset of the backend undoes all that this session has done to it.
    pub fn is_beyond_reset(&self) -> bool {
        self.marks.has(Mark::BeyondReset)
    }

    /// A statement is to be run. What its replies tell of a `sql_mode` that ends with it is not the session's; a change
    /// of state that comes with a change of schema is part of that only if its text asks for no more.
    pub fn enter(&mut self, has_passing_mode: bool, moves: Moves) {
        self.marks.set(Mark::PassingMode, has_passing_mode);
        self.moves = moves;
    }

    /// Whether a statement of this session begins and ends with nothing around it: no transaction, nothing kept.
    pub fn is_plain(&self) -> bool {
        !self.holds_backend() && self.status.has(Status::AUTOCOMMIT)
    }

    /// What its client is told: a transaction is open for as long as it has not heard that it is lost.
    pub fn status(&self) -> Status {
        let believed =
            if self.marks.has(Mark::LostTransaction) { Status::IN_TRANSACTION.0 } else { 0 };
        Status(self.status.0 | believed)
    }

    /// Whether it has given its connection a number itself.
    pub fn has_own_number(&self) -> bool {
        self.marks.has(Mark::OwnNumber)
    }

    /// It has given its connection a number itself.
    pub fn take_own_number(&mut self) {
        self.marks.add(Mark::OwnNumber);
    }

    /// Whether it has asked for the number of its connection, so that it may compare that with what it reads elsewhere.
    pub fn has_asked_number(&self) -> bool {
        self.marks.has(Mark::AskedNumber)
    }

    /// It asks for the number of its connection.
    pub fn ask_number(&mut self) {
        self.marks.add(Mark::AskedNumber);
    }

    /// Learns from the status flags of an OK or EOF packet.
    pub fn see_status(&mut self, status: Status) {
        let mode = Status(Status::NO_BACKSLASH_ESCAPES.0 | Status::ANSI_QUOTES.0);
        let lasting = status.lasting();
        let has_ended =
            self.status.has(Status::IN_TRANSACTION) && !lasting.has(Status::IN_TRANSACTION);
        if !(!has_ended && !lasting.has(Status::AUTOCOMMIT)) {
            self.marks.remove(Mark::Savepoint);
        }
        self.status = match self.marks.has(Mark::PassingMode) {
            true => Status(lasting.without(mode).0 | self.status.0 & mode.0),
            false => lasting,
        };
        self.marks.remove(Mark::MayBeInTransaction);
    }

    /// A statement has failed. Its packet has no status flags.
    pub fn see_error(&mut self) {
        self.marks.add_if(Mark::MayBeInTransaction, !self.status.has(Status::AUTOCOMMIT));
    }

    /// A statement of this session, which is that of `client`, may have made a last insert id and not reported it.
    pub fn see_unreported_insert(&mut self, client: u32, backend: &mut BackendSession) {
        self.insert_id = backend.see_insert(client, None, self.insert_id);
    }

    /// Learns from an OK packet to a statement of this session, which is that of `client`, and which was sent on this
    /// backend. `sets`: it was nothing but a `SET` of known variables. The answer is a new reason to keep the backend,
    /// if there is one.
    pub fn see_ok(
        &mut self,
        client: u32,
        ok: &OkPacket<'_>,
        backend: &mut BackendSession,
        interned: &mut Interned,
        sets: Option<Sets>,
    ) -> Option<Pin> {
        self.see_status(ok.status);
        if ok.insert_id != 0 {
            self.insert_id = backend.see_insert(client, Some(ok.insert_id), self.insert_id);
        }
        let is_told_late = backend.tells_late(ok);
        // What needs no schema may run in another one: a routine's coming and going there is not the session's.
        let was_there = ok.changes.is_empty() || backend.schema == self.schema;
        let mut reason = backend.see(ok, interned);
        let is_kept = self.pin().is_some();
        let follow = sets.is_some_and(|sets| sets.collates.follow_connection());
        if sets.is_some_and(|sets| sets.has(SetMark::Tracks)) {
            // What it has set is asked for behind it, as it may have ended the reports.
            reason = None;
        }
        if let Some(sets) = sets {
            self.see_sets(sets);
        }
        let is_move = self.moves == Moves::IntoSchema;
        let mut schema_changed = false;
        for change in Changes::new(ok.changes) {
            if let Ok(Change::Variable { name, value }) = &change {
                self.see_variable(name, value);
                let is_of_connection =
                    matches!(*name, b"collation_connection" | b"character_set_connection");
                if is_of_connection && is_kept && !follow {
                    backend.see_connection_apart();
                }
            }
            match change {
                Ok(Change::Schema(_)) => schema_changed = true,
                // The collation that comes with it is not reported: it must have been asked for.
                Ok(Change::Variable { name: b"character_set_connection", .. }) => {
                    if sets.is_none_or(|sets| sets.unreported.is_empty()) {
                        reason = reason.or(Some(Pin::SessionVariable));
                    }
                }
                Ok(Change::TransactionCharacteristics(text)) => {
                    self.marks.set(Mark::Characteristics, !text.is_empty());
                }
                Ok(Change::TransactionState(state)) if state.last() == Some(&b'L') => {
                    reason = reason.or(Some(Pin::TableLock));
                }
                // A change of schema, and that of a variable, are also reported as a change of state. So is whatever a
                // routine, a view or a trigger of another schema does, with that schema's coming and going.
                // What an earlier statement has changed is reported with it, if that could not.
                Ok(Change::State(_))
                    if is_told_late || !(schema_changed && is_move) && sets.is_none() =>
                {
                    reason = reason.or(Some(Pin::State));
                }
                Ok(
                    Change::State(_)
                    | Change::Variable { .. }
                    | Change::Gtids(_)
                    | Change::TransactionState(_),
                ) => {}
                Ok(Change::Other(_)) | Err(_) => reason = reason.or(Some(Pin::State)),
            }
        }
        match sets {
            Some(sets) if is_kept => backend.see_collates_unasked(sets.collates),
            Some(sets) => backend.see_collates(sets.collates, interned),
            None => {}
        }
        if schema_changed && (was_there || is_move) {
            self.enter_schema(backend);
        }
        self.see_settings(backend);
        reason.filter(|pin| self.keep(*pin))
    }

    fn enter_schema(&mut self, backend: &BackendSession) {
        self.see_schema(true);
        self.schema.clone_from(&backend.schema);
        self.was_reset = false;
    }

    /// Its schema was entered on a backend, or could not be.
    pub fn see_schema(&mut self, is_entered: bool) {
        self.marks.set(Mark::SchemaInDoubt, !is_entered);
    }

    /// Whether its schema may be gone, so that nothing should be sent behind the order to enter it.
    pub fn is_schema_in_doubt(&self) -> bool {
        self.marks.has(Mark::SchemaInDoubt)
    }

    /// What the backend is set to is what this client has set.
    pub fn see_settings(&mut self, backend: &BackendSession) {
        if self.settings.as_ref().is_none_or(|own| !Rc::ptr_eq(own, backend.settings())) {
            self.settings = Some(Rc::clone(backend.settings()));
            self.learn_reading();
        }
    }

    /// The backend has run what the session begins with; these are its status flags.
    pub fn see_begun(&mut self, status: Status) {
        let open = self.status.0 & Status::IN_TRANSACTION.0;
        self.status = Status(status.lasting().0 | open);
    }

    /// Forgets everything, as after `COM_RESET_CONNECTION`. The schema stays, as it does at the
    /// server; and numbers of statements are not given again: a client may close one that it had
    /// before.
    pub fn reset(&mut self, found: Reset) {
        let counts = self.counts;
        let mut statements = std::mem::take(&mut self.statements);
        statements.clear();
        let schema = self.schema.take();
        let reads = self.reads;
        *self = Self { statements, was_reset: true, ..Self::new(schema, self.fresh) };
        self.forget_reading(reads);
        if found == Reset::KeepsFound {
            self.counts.keep_found_of(&counts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::tracker::put_change;

    fn ok(status: u16, changes: &[u8]) -> OkPacket<'_> {
        OkPacket { status: Status(status), changes, ..OkPacket::EMPTY }
    }

    fn changes(list: &[Change<'_>]) -> Vec<u8> {
        let mut out = Vec::new();
        for change in list {
            put_change(&mut out, *change);
        }
        out
    }

    /// A session, and the backend that it is on.
    #[derive(Default)]
    struct Pair {
        session: Session,
        backend: BackendSession,
        interned: Interned,
    }

    impl Pair {
        fn new() -> Self {
            let rows = [(&b"sql_mode"[..], &b"ANSI"[..]), (b"collation_connection", b"a_bin")];
            let mut interned = Interned::default();
            let fresh = interned.intern(SessionVariables::from_rows(rows.into_iter()));
            Self { backend: BackendSession::new(3, fresh), interned, ..Self::default() }
        }

        fn see(&mut self, status: u16, list: &[Change<'_>]) -> Option<Pin> {
            let changes = changes(list);
            self.see_ok(&ok(status, &changes), None)
        }

        fn see_ok(&mut self, ok: &OkPacket<'_>, sets: Option<Sets>) -> Option<Pin> {
            self.session.see_ok(9, ok, &mut self.backend, &mut self.interned, sets)
        }
    }

    const MODE: Change<'_> = Change::Variable { name: b"sql_mode", value: b"" };
    const UNKNOWN: Change<'_> = Change::Variable { name: b"timestamp", value: b"1" };

    #[test]
    fn a_reset_gives_no_statements_number_again() {
        let mut session = Session::default();
        let source = || {
            let (schema, text) = (None, b"DO 1"[..].into());
            Rc::new(crate::source::Source::new(schema, text, Rc::default(), Dialect::default()))
        };
        let before = session.statements.add(source(), 0).unwrap();
        session.reset(Reset::ForgetsFound);
        assert!(session.statements.is_empty());
        let after = session.statements.add(source(), 0).unwrap();
        session.statements.close(before);
        assert!(session.statements.get(after).is_some());
    }

    #[test]
    fn a_transaction_holds_the_backend_until_it_ends() {
        let mut pair = Pair::new();
        assert_eq!(pair.see(3, &[]), None);
        assert!(pair.session.holds_backend());
        assert_eq!(pair.see(2, &[]), None);
        assert!(!pair.session.holds_backend());
    }

    #[test]
    fn what_the_next_transaction_will_be_holds_the_backend() {
        let mut pair = Pair::new();
        let text = Change::TransactionCharacteristics(b"SET TRANSACTION READ ONLY;");
        assert_eq!(pair.see(2, &[text]), None);
        assert!(pair.session.holds_backend());
        assert_eq!(pair.see(2, &[Change::TransactionCharacteristics(b"")]), None);
        assert!(!pair.session.holds_backend());
    }

    #[test]
    fn an_error_without_autocommit_may_have_begun_a_transaction() {
        let mut pair = Pair::new();
        pair.see(2, &[]);
        pair.session.see_error();
        assert!(!pair.session.holds_backend());
        pair.see(0, &[]);
        pair.session.see_error();
        assert!(pair.session.holds_backend() && pair.session.in_transaction());
        pair.see(0, &[]);
        assert!(!pair.session.holds_backend());
    }

    #[test]
    fn what_was_said_of_one_statement_is_not_said_of_the_next() {
        let mut pair = Pair::new();
        let cursor = Status::CURSOR_EXISTS.0 | Status::MORE_RESULTS.0 | Status::STATE_CHANGED.0;
        pair.session.see_status(Status(cursor | 0x0020 | Status::AUTOCOMMIT.0));
        assert_eq!(pair.session.status(), Status::AUTOCOMMIT);
        pair.see(cursor | 0x8202, &[]);
        assert_eq!(pair.session.status(), Status(0x8202));
    }

    #[test]
    fn a_mode_that_ends_with_its_statement_is_not_the_sessions() {
        let mut session = Session::new(None, Status::AUTOCOMMIT);
        session.enter(true, Moves::No);
        session.see_status(Status(0x8203));
        assert_eq!(session.status(), Status(0x0003));
        assert!(session.dialect().backslash_escapes);
        session.enter(false, Moves::No);
        session.see_status(Status(0x8202));
        assert!(!session.dialect().backslash_escapes);
    }

    #[test]
    fn a_change_of_schema_is_remembered_and_pins_nothing() {
        let mut pair = Pair::new();
        pair.session.enter(false, Moves::IntoSchema);
        assert_eq!(pair.see(2, &[Change::Schema(b"test"), Change::State(b"1")]), None);
        assert_eq!(pair.session.schema.as_deref(), Some(&b"test"[..]));
        assert_eq!(pair.backend.schema, pair.session.schema);
        assert_eq!(pair.see(2, &[Change::Schema(b"")]), None);
        assert_eq!(pair.session.schema, None);
    }

    #[test]
    fn state_that_no_text_explains_is_state_whatever_schema_it_comes_with() {
        for list in [
            &[Change::Schema(b"test"), Change::State(b"1")][..],
            &[Change::Schema(b""), Change::State(b"1")],
            &[Change::State(b"1"), Change::Schema(b"test")],
        ] {
            assert_eq!(Pair::new().see(2, list), Some(Pin::State));
        }
        let mut pair = Pair::new();
        pair.session.enter(false, Moves::IntoSchema);
        assert_eq!(pair.see(2, &[Change::State(b"1")]), Some(Pin::State), "no schema was entered");
    }

    #[test]
    fn a_known_variable_is_remembered_and_pins_nothing() {
        let mut pair = Pair::new();
        let list = changes(&[MODE, Change::State(b"1")]);
        assert_eq!(pair.see_ok(&ok(2, &list), Some(Sets::default())), None);
        assert!(!pair.session.holds_backend());
        assert_eq!(pair.session.settings.as_ref().unwrap().get("sql_mode"), Some(&b""[..]));
        let other = BackendSession::new(4, Rc::clone(pair.backend.fresh()));
        assert!(pair.backend.suits(&pair.session) && !other.suits(&pair.session));
        assert_eq!(other.wanted(&pair.session).setup(other.settings()), "SET sql_mode=''");
    }

    #[test]
    fn a_client_keeps_what_its_first_backend_was() {
        let mut pair = Pair::new();
        assert!(pair.backend.suits(&pair.session), "a new backend connection is as good as any");
        pair.see(2, &[]);
        let rows = [(&b"sql_mode"[..], &b"NEW_GLOBAL"[..])];
        let other = pair.interned.intern(SessionVariables::from_rows(rows.into_iter()));
        assert!(!BackendSession::new(4, other).suits(&pair.session));
    }

    #[test]
    fn a_session_that_was_reset_may_have_other_settings_than_a_new_one() {
        let mut pair = Pair::new();
        let rows = [(&b"sql_mode"[..], &b"ANSI"[..]), (b"collation_connection", b"b_ci")];
        let renewed = pair.interned.intern(SessionVariables::from_rows(rows.into_iter()));
        pair.backend = pair.backend.renewed_as(Rc::clone(&renewed));
        assert!(pair.backend.suits(&pair.session));
        pair.session.reset(Reset::ForgetsFound);
        assert!(Rc::ptr_eq(pair.backend.wanted(&pair.session), &renewed));
        assert!(!pair.backend.suits(&pair.session), "a new session is not like one that was reset");
    }

    #[test]
    fn other_changes_pin_once() {
        let charset = Change::Variable { name: b"character_set_connection", value: b"latin1" };
        for (list, pin) in [
            (changes(&[UNKNOWN]), Pin::SessionVariable),
            (changes(&[charset]), Pin::SessionVariable),
            (changes(&[Change::State(b"1")]), Pin::State),
            (changes(&[MODE, Change::State(b"1")]), Pin::State),
            (changes(&[Change::TransactionState(b"_______L")]), Pin::TableLock),
            (vec![9, 9], Pin::State),
        ] {
            let mut pair = Pair::new();
            assert_eq!(pair.see_ok(&ok(2, &list), None), Some(pin));
            assert_eq!(pair.see(2, &[UNKNOWN]), None, "already pinned");
            assert!(pair.session.holds_backend());
            pair.session.reset(Reset::ForgetsFound);
            assert!(!pair.session.holds_backend());
        }
    }

    #[test]
    fn what_mysql_counts_is_no_state() {
        let counter = Change::Variable { name: b"statement_id", value: b"13" };
        let mut pair = Pair::new();
        assert_eq!(pair.see(2, &[counter]), None);
        assert_eq!(pair.see(2, &[counter, UNKNOWN]), Some(Pin::SessionVariable));
    }

    #[test]
    fn a_transaction_may_have_begun_before_the_server_knows() {
        let mut session = Session::new(None, Status::AUTOCOMMIT);
        session.begin();
        assert!(session.has_begun() && session.in_transaction() && !session.is_plain());
        session.end_begun();
        assert!(!session.has_begun() && session.is_plain());
        session.begin();
        session.tell_begin();
        assert!(!session.has_begun() && session.in_transaction());
    }

    #[test]
    fn one_act_beyond_reset_is_enough() {
        let mut session = Session::default();
        session.keep(Pin::UserVariable);
        assert!(!session.is_beyond_reset());
        assert!(!session.keep(Pin::Role));
        assert!(session.is_beyond_reset() && session.pin() == Some(Pin::UserVariable));
    }

    #[test]
    fn what_outlives_a_reset_goes_by_the_server() {
        let mut session = Session::default();
        session.keep(Pin::Xa);
        assert_eq!(
            (session.outlives_reset(true), session.outlives_reset(false)),
            (Some(Pin::Xa), None)
        );
        session.keep(Pin::Role);
        assert_eq!(session.outlives_reset(false), Some(Pin::Role));
        session.reset(Reset::ForgetsFound);
        assert_eq!(session.outlives_reset(true), None);
    }

    #[test]
    fn whatever_it_is_pinned_for_first_its_locks_are_known() {
        let mut session = Session::default();
        session.keep(Pin::UserVariable);
        assert!(!session.may_hold_locks());
        assert!(!session.keep(Pin::UserLock));
        assert!(session.may_hold_locks() && !session.in_transaction());
        session.forgive();
        assert!(!session.may_hold_locks());
    }
}
