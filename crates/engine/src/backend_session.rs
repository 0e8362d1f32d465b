//! What a backend's session at the server is known to be: what must be compared before a client's statement is sent,
//! and what the server's reports change.
//!
//! It belongs to the backend, whichever client uses it: reports on clients' statements and on Flifo's own setups alike
//! come here.

use serde::{Deserialize, Serialize};
use std::rc::Rc;

use wire::response::{OkPacket, Status};
use wire::tracker::{Change, Changes};

use crate::insert_id::OnBackend;
use crate::own_id::Number;
use crate::pin::Pin;
use crate::session::state::Session;
use crate::session_variables::{Collates, Interned, SessionVariables, forbids};
use crate::trackers::is_as_told;

/// The variable that `CONNECTION_ID()` answers with.
pub(crate) const NUMBER: &[u8] = b"pseudo_thread_id";

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackendSession {
    /// Tells backends apart.
    pub id: u64,
    #[serde(with = "crate::described::some_bytes")]
    pub schema: Option<Rc<[u8]>>,
    /// The session was reset since it has chosen its schema: `collation_database` is the server's, not the schema's.
    pub was_reset: bool,
    settings: Rc<SessionVariables>,
    /// What the settings were when the session began.
    fresh: Rc<SessionVariables>,
    /// What they are when a session was reset. MariaDB leaves the character set as it was at the login; MySQL takes
    /// the server's own.
    renewed: Rc<SessionVariables>,
    /// What the client that keeps it has done to collations since the connection's was asked for.
    unasked: Collates,
    /// The client that used it last, for what only the last backend of a client can answer.
    pub last_client: u32,
    /// The client that has inserted something last, or was given its last insert id here.
    pub inserter: Option<u32>,
    /// The client whose last count of rows found only this backend knows.
    pub finder: Option<u32>,
    /// What `LAST_INSERT_ID()` is here.
    pub insert_id: OnBackend,
    /// What `CONNECTION_ID()` is here.
    pub number: Number,
    /// A statement may have changed what its end could not report.
    #[serde(default, skip_serializing_if = "is_false")]
    pub has_unreported: bool,
    /// Its server reports no changes: nothing else here is known while a client has it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_silent: bool,
}

/// Older Flifos know nothing of it, and such servers had no backends of theirs.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// A session's state on its way to another worker, of which nothing belongs to a client.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Packed {
    #[serde(with = "crate::described::some_bytes")]
    schema: Option<Box<[u8]>>,
    was_reset: bool,
    settings: SessionVariables,
    fresh: SessionVariables,
    renewed: SessionVariables,
    unasked: Collates,
    insert_id: OnBackend,
    number: Number,
    #[serde(default, skip_serializing_if = "is_false")]
    is_silent: bool,
}

impl Packed {
    /// What it is for the worker that has these settings, as a backend of this number.
    pub fn unpack(self, id: u64, interned: &mut Interned) -> BackendSession {
        let Self { schema, was_reset, settings, fresh, renewed, unasked, insert_id, .. } = self;
        BackendSession {
            id,
            schema: schema.map(Rc::from),
            was_reset,
            settings: interned.intern(settings),
            fresh: interned.intern(fresh),
            renewed: interned.intern(renewed),
            unasked,
            last_client: 0,
            inserter: None,
            finder: None,
            insert_id,
            number: self.number,
            has_unreported: false,
            is_silent: self.is_silent,
        }
    }
}

impl BackendSession {
    /// What another worker must know of the session. What it alone knows of clients is lost: ask it for that before.
    pub fn pack(self) -> Packed {
        let Self { was_reset, unasked, insert_id, number, is_silent, .. } = self;
        let [settings, fresh, renewed] =
            [self.settings, self.fresh, self.renewed].map(|it| (*it).clone());
        let schema = self.schema.map(|name| Box::from(&name[..]));
        Packed {
            schema,
            was_reset,
            settings,
            fresh,
            renewed,
            unasked,
            insert_id,
            number,
            is_silent,
        }
    }

    pub(crate) fn all_settings(&mut self) -> [&mut Rc<SessionVariables>; 3] {
        [&mut self.settings, &mut self.fresh, &mut self.renewed]
    }

    /// A session that has just begun, with these settings.
    pub fn new(id: u64, fresh: Rc<SessionVariables>) -> Self {
        let (settings, renewed) = (Rc::clone(&fresh), Rc::clone(&fresh));
        Self { id, settings, fresh, renewed, ..Self::default() }
    }

    /// The same on a server where a session that was reset has others.
    #[must_use]
    pub fn renewed_as(self, renewed: Rc<SessionVariables>) -> Self {
        Self { renewed, ..self }
    }

    /// The same on a server that reports no changes.
    #[must_use]
    pub fn silent(self) -> Self {
        Self { is_silent: true, ..self }
    }

    /// What a session that reports nothing is asked when it was reset. `None`: nothing of it is known, so that nothing
    /// could be compared.
    pub fn question_of_silent(&self) -> Option<String> {
        let is_known = !self.fresh.all().is_empty();
        is_known.then(|| format!("{},DATABASE()", self.fresh.question_of_values()))
    }

    /// The same session has answered this row. False: some variable is not what it was when the session began.
    pub fn renew_silent(&mut self, row: &[Option<Vec<u8>>]) -> bool {
        let Some((schema, values)) = row.split_last() else { return false };
        if self.fresh.from_row(values) != *self.fresh {
            return false;
        }
        self.settings = Rc::clone(&self.fresh);
        self.schema = schema.as_deref().filter(|name| !name.is_empty()).map(Rc::from);
        true
    }

    /// The session was reset, and has reported all variables but its character sets: these are as they were at first.
    /// False: some are missing.
    pub fn renew(&mut self, ok: &OkPacket<'_>, interned: &mut Interned) -> bool {
        let changes = || Changes::new(ok.changes).flatten();
        let variables = changes().filter_map(|change| match change {
            Change::Variable { name, value } => Some((name, value)),
            _ => None,
        });
        let settings = SessionVariables::from_rows(variables);
        settings.unchanged() == self.fresh.unchanged()
            && self.begin_anew(settings.or(&self.renewed), interned)
    }

    /// The session was reset, and has answered [`SessionVariables::question_of_values`] with this row. False: some
    /// variables are missing.
    pub fn renew_from_row(&mut self, row: &[Option<Vec<u8>>], interned: &mut Interned) -> bool {
        self.begin_anew(self.fresh.from_row(row), interned)
    }

    fn begin_anew(&mut self, settings: SessionVariables, interned: &mut Interned) -> bool {
        if settings.all() != self.fresh.all() {
            return false;
        }
        self.settings = interned.intern(settings);
        self.unasked = Collates::default();
        self.was_reset = true;
        self.last_client = 0;
        self.inserter = None;
        self.finder = None;
        self.insert_id = OnBackend::default();
        self.number.renew();
        self.has_unreported = false;
        true
    }

    pub const fn settings(&self) -> &Rc<SessionVariables> {
        &self.settings
    }

    pub const fn fresh(&self) -> &Rc<SessionVariables> {
        &self.fresh
    }

    /// Whether this client's statement can be sent as it is.
    pub fn suits(&self, session: &Session) -> bool {
        self.has_schema_of(session)
            && Rc::ptr_eq(&self.settings, self.wanted(session))
            && !session.has_begun()
    }

    /// Whether the schema is the client's, and what comes with it as well.
    pub fn has_schema_of(&self, session: &Session) -> bool {
        let is_alike = self.schema.is_none() || self.was_reset == session.was_reset;
        self.schema == session.schema && is_alike
    }

    /// The session is in this schema from now on.
    pub fn enter_schema(&mut self, schema: Option<Rc<[u8]>>) {
        (self.schema, self.was_reset) = (schema, false);
    }

    /// The settings that a client's statement must run under. A client that has run nothing yet takes a new session's.
    pub fn wanted<'a>(&'a self, session: &'a Session) -> &'a Rc<SessionVariables> {
        let new = if session.was_reset { &self.renewed } else { &self.fresh };
        session.settings.as_ref().unwrap_or(new)
    }

    /// Learns what an OK packet reports. The answer is why a change cannot be told to another backend, if there is one
    /// that cannot.
    pub fn see(&mut self, ok: &OkPacket<'_>, interned: &mut Interned) -> Option<Pin> {
        let mut reason = None;
        for change in Changes::new(ok.changes).flatten() {
            match change {
                Change::Schema(name) => {
                    self.enter_schema((!name.is_empty()).then(|| name.into()));
                }
                Change::Variable { name, value } => {
                    // All of them are learnt, whatever the first one was.
                    let pin = self.set(name, value, interned);
                    reason = reason.or(pin);
                }
                _ => {}
            }
        }
        reason
    }

    /// Whether an OK packet tells what an earlier statement's end could not report.
    pub(crate) fn tells_late(&mut self, ok: &OkPacket<'_>) -> bool {
        let tells = self.has_unreported && ok.status.has(Status::STATE_CHANGED);
        self.has_unreported &= !tells;
        tells
    }

    /// Learns what a statement has done to the collations of character sets.
    pub fn see_collates(&mut self, collates: Collates, interned: &mut Interned) {
        if let Some(settings) = self.settings.after_collates(collates) {
            self.settings = interned.intern(settings);
        }
    }

    /// The same, where the connection's collation was not asked for behind the statement.
    pub fn see_collates_unasked(&mut self, collates: Collates) {
        self.unasked = self.unasked.then(collates);
    }

    /// The connection's collation has become another one, without the character sets'.
    pub fn see_connection_apart(&mut self) {
        self.unasked = self.unasked.apart();
    }

    /// The server has said what the connection's collation is.
    pub fn see_mode(&mut self, interned: &mut Interned) {
        let unasked = std::mem::take(&mut self.unasked);
        self.see_collates(unasked, interned);
    }

    /// The server has accepted a setup that tells it these settings, and has reported what it reports.
    pub fn see_setup(&mut self, told: &SessionVariables, interned: &mut Interned) {
        if let Some(settings) = self.settings.after_setup(told) {
            self.settings = interned.intern(settings);
        }
    }

    /// The server has accepted these settings, as far as it has such variables, and reports nothing.
    pub fn take_settings(&mut self, told: &Rc<SessionVariables>) {
        self.settings = Rc::clone(told);
    }

    /// Learns the value of a variable.
    pub fn set(&mut self, name: &[u8], value: &[u8], interned: &mut Interned) -> Option<Pin> {
        // MySQL counts each session's statements in a variable, and reports it after each.
        if name == b"statement_id" {
            return None;
        }
        // What Flifo asks for on each backend.
        if is_as_told(name, value) {
            return None;
        }
        if name == NUMBER {
            self.number.see_set();
        }
        match self.settings.after(name, value) {
            Ok(changed) => {
                if let Some(settings) = changed {
                    self.settings = interned.intern(settings);
                }
                // Also if it was known before. What a session begins with is no reason.
                forbids(name, value).filter(|_| !self.fresh.has(name, value))
            }
            Err(pin) => Some(pin),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_the_backend_does_so_each_time_it_is_reported() {
        let mut interned = Interned::default();
        let rows = [("completion_type", "NO_CHAIN"), ("wait_timeout", "60")];
        let rows = rows.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let fresh = interned.intern(SessionVariables::from_rows(rows));
        let mut backend = BackendSession::new(1, fresh);
        for _ in 0..2 {
            assert_eq!(backend.set(b"completion_type", b"CHAIN", &mut interned), Some(Pin::State));
        }
        assert_eq!(backend.settings().get("completion_type"), Some(&b"CHAIN"[..]));
        assert_eq!(
            backend.set(b"wait_timeout", b"60", &mut interned),
            None,
            "all sessions have it"
        );
    }

    #[test]
    fn a_silent_session_is_what_it_was_or_is_not_used() {
        let rows = [("sql_mode", "ANSI"), ("autocommit", "ON")];
        let rows = rows.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let fresh = Rc::new(SessionVariables::from_rows(rows));
        let mut backend = BackendSession::new(1, fresh).silent();
        let question = backend.question_of_silent().unwrap();
        assert!(question.ends_with(",DATABASE()") && question.contains("@@session.sql_mode"));
        let names: Vec<_> = question["SELECT ".len()..].split(',').collect();
        let row = |mode: &str, schema: Option<&str>| -> Vec<_> {
            let values = names.iter().map(|name| match *name {
                "DATABASE()" => schema.map(|it| it.as_bytes().to_vec()),
                "@@session.sql_mode" => Some(mode.into()),
                _ => Some(b"1".to_vec()),
            });
            values.collect()
        };
        assert!(backend.renew_silent(&row("ANSI", Some("shop"))));
        assert_eq!(backend.schema.as_deref(), Some(&b"shop"[..]));
        assert!(backend.renew_silent(&row("ANSI", None)) && backend.schema.is_none());
        assert!(!backend.renew_silent(&row("", None)), "a variable was left");
        assert!(!backend.renew_silent(&[]) && !backend.renew_silent(&row("ANSI", None)[..1]));
        assert_eq!(BackendSession::default().question_of_silent(), None);
    }
}
