//! What a backend must be told, or asked, before a client's command is sent on it: what the client's session is and the
//! backend's is not.
//!
//! A statement behind a setup that fails runs regardless. So a setup goes ahead unanswered only where that does no
//! harm: settings by a text that the server has accepted before; a schema before a mere read, by way of one that has
//! nothing of clients'. What must be answered first is asked for one thing at a time.

use std::rc::Rc;

use wire::command::Opcode;
use wire::statement::{self, Execute};
use wire::text::Lexed;

use super::beginning::Beginning;
use super::diagnostics::Diagnostics;
use super::facts::{Facts, Reads};
use super::setup::{Purpose, Setup, Setups};
use super::state::Session;
use crate::backend_session::BackendSession;
use crate::calls::{self, CallPlace};
use crate::counts::Asked;
use crate::insert_id::InsertId;
use crate::intent::DiagnosticsUse;
use crate::intent::Trait;
use crate::kept::{SavedDiagnostics, Server};
use crate::own_id::Tell;
use crate::session_variables::{Interned, SessionVariables};
use crate::source::Source;
use crate::statements::{Known, Prepared};
use crate::user_variables::UserVariables;

/// What a backend must be told before a client's command.
#[derive(Debug)]
pub enum Plan {
    /// Nothing: the command goes as it is.
    Ready,
    /// This goes in the same write.
    Told(Setups),
    /// This must be answered first; then it is planned again.
    Answered(Setup),
    /// The command asks for a last insert id that is lost.
    Lost,
}

/// What was found for a command in its client's session.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// What `ROW_COUNT()` must be when it begins, if its backend has to be told.
    pub affected: Option<i64>,
    /// Of the counts that it asks for, those that its backend knows.
    pub asks_backend: Asked,
    /// What a prepared statement is executed by, if its own text would not tell it what it asks for.
    pub instead: Option<Rc<Source>>,
    /// The backend has said in what mode it is, and nothing was sent since.
    pub told_mode: bool,
    /// The schema that its backend must be in, if it goes where its session's need not exist.
    pub schema: Option<Rc<[u8]>>,
    /// Its session's schema cannot be entered, and it means the same in any other one.
    pub needs_no_schema: bool,
}

/// A command that is to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub opcode: Opcode,
    /// All of it, or its beginning.
    pub payload: &'a [u8],
    /// There is more of it to come.
    pub is_part: bool,
    pub facts: &'a Facts,
    pub found: &'a Found,
}

/// A client and a backend that its command is to be sent on.
#[derive(Clone, Copy)]
pub struct Pair<'a> {
    pub session: &'a Session,
    pub backend: &'a BackendSession,
    pub client: u32,
    /// The server's number of the backend's connection.
    pub thread_id: u32,
    pub is_mysql: bool,
    pub is_mariadb: bool,
    /// The client may send several statements in one packet.
    pub sends_several: bool,
    pub others: &'a dyn OtherClients,
}

/// What the other clients of a worker still need of a backend.
pub trait OtherClients {
    /// Whether this client's last insert id is known to this backend alone.
    fn insert_id_is_on(&self, client: u32, backend: u64) -> bool;

    /// The same of how many rows it has found.
    fn found_is_on(&self, client: u32, backend: u64) -> bool;
}

/// Uses a table, else MariaDB keeps the diagnostics of statements before it; and one that is no engine's, else it refuses
/// between the end of a global transaction and its commit.
const CLEAR: &str = "DO (SELECT 1 FROM information_schema.CHARACTER_SETS LIMIT 0)";

/// MySQL keeps none.
const CLEAR_ON_MYSQL: &str = NOTHING;

/// What `COM_RESET_CONNECTION` makes of the collation that has come with the schema.
const SCHEMA_RESET: &str = "SET collation_database=@@global.collation_database";

const NOTHING: &str = "DO 0";

/// Behind rows, the count of those affected is −1.
const ROWS: &str = "SELECT 0";

pub(super) const BEGIN: &str = "BEGIN";

/// The schema that a backend leaves its own for: there, statements that name no schema can change nothing.
const HARMLESS: &[u8] = b"information_schema";

impl<'a> Pair<'a> {
    /// What the backend must be told before this command. `known`: what it has prepared.
    pub fn plan(self, known: &mut Known, request: Request<'_>, interned: &mut Interned) -> Plan {
        if let Some(beginning) = &self.session.beginning
            && let Some(setup) = self.begin(beginning)
        {
            return Plan::Answered(setup);
        }
        if let Some(setup) = self.prepare(known, request, interned) {
            return Plan::Answered(setup);
        }
        let Self { session, backend, client, .. } = self;
        let Request { facts, found, .. } = request;
        let own = session.insert_id;
        if facts.has(Trait::AsksInsertId) && own == InsertId::Lost {
            return Plan::Lost;
        }
        if let Some(setup) = variables(backend, &session.variables) {
            return Plan::Answered(setup);
        }
        let needs = self.needs(facts);
        if let Tell::Try(id) = needs.number {
            return Plan::Answered(Setup::number(self.thread_id, Some(id)));
        }
        // What is kept may ask for it unseen.
        let is_kept = session.pin().is_some() && !facts.keeps_insert_id();
        let asks = facts.needs_insert_id() || (is_kept && found.asks_backend == Asked::default());
        if asks && own.is_on(backend.id) && !own.is_plainly_on(backend.id) {
            return Plan::Answered(Setup::capture(client));
        }
        let told = match own {
            InsertId::Known(id) if asks && !backend.insert_id.is(own) => Some(id),
            _ => None,
        };
        if !needs.any() && told.is_none() && found.affected.is_none() {
            return Plan::Ready;
        }
        self.tell(&needs, told, request, interned)
    }

    /// What the client's session begins with, on a backend whose session is as a new one's.
    fn begin(self, beginning: &Beginning) -> Option<Setup> {
        let Self { session, backend, .. } = self;
        let new = match beginning.ran_on(backend.id) {
            true => None,
            false => settings(backend, backend.wanted(session)),
        };
        new.or_else(|| beginning.next(backend.id, backend.settings()))
    }

    /// The setups of a command of which these are the needs. `insert_id`: the last one that the backend is told.
    fn tell(
        self,
        needs: &Needs<'_>,
        insert_id: Option<u64>,
        request: Request<'_>,
        interned: &Interned,
    ) -> Plan {
        let Self { session, backend, client, thread_id, .. } = self;
        let mut told = Setups::new();
        // Before anything that finds rows of its own.
        if let Some(finder) = needs.finder {
            told.push(Setup::found(finder, needs.inserter));
        }
        if let Some(setup) = settings(backend, backend.wanted(session)) {
            if !is_accepted(interned, &setup) {
                return Plan::Answered(setup);
            }
            told.push(setup);
        }
        if let Some(setup) = self.enter_schema(request, &mut told) {
            return Plan::Answered(setup);
        }
        if let (Some(inserter), None) = (needs.inserter, needs.finder) {
            told.push(Setup::capture(inserter));
        }
        if let Some(id) = insert_id {
            let text = format!("SET last_insert_id={id}");
            told.push(Setup::own_query(Purpose::InsertId(client, id), text));
        }
        if let Tell::Show(shown) = needs.number {
            told.push(Setup::number(thread_id, shown));
        }
        if needs.clears {
            let text = if self.is_mysql { CLEAR_ON_MYSQL } else { CLEAR };
            told.push(Setup::query(Purpose::Clear, text));
        }
        if let Some(kept) = needs.diagnostics {
            let server = Server::of(self.is_mysql);
            told.push(Setup::own_query(Purpose::Diagnostics, kept.set_up(server)));
            told.extend((0..kept.more_errors(server)).map(|_| one_more_error()));
        }
        // What goes ahead affects no rows, or is rows.
        let is_hidden = !told.is_empty() && request.found.asks_backend.affected;
        let own = if is_hidden { session.counts.affected() } else { None };
        if let Some(affected) = request.found.affected.or(own) {
            told.push(self.count(affected));
        }
        if session.has_begun() {
            told.push(Setup::query(Purpose::Begin, BEGIN));
        }
        if told.is_empty() { Plan::Ready } else { Plan::Told(told) }
    }

    /// Has the backend count −1, or 0, rows affected. MySQL forgets its diagnostics at any statement, and a statement that asks
    /// for the count may ask for these as well: it is given commands that keep them.
    fn count(self, affected: i64) -> Setup {
        let purpose = Purpose::Nothing;
        if !self.is_mysql {
            return Setup::query(purpose, if affected < 0 { ROWS } else { NOTHING });
        }
        let (opcode, body): (_, &'static [u8]) = match (affected < 0, self.sends_several) {
            (true, true) => (Opcode::SetOption, &[0, 0]),
            (true, false) => (Opcode::SetOption, &[1, 0]),
            (false, _) => (Opcode::Ping, &[]),
        };
        Setup { purpose, opcode, body: body.into() }
    }

    /// Whether a backend that has counted for this client's last statement has to be told or asked something before
    /// this command: then it counts that. `Some(true)`: rows found are counted anew as well.
    pub fn counts_anew(self, facts: &Facts) -> Option<bool> {
        let needs = self.needs(facts);
        let finds = needs.clears || needs.finder.is_some();
        let own = self.session.insert_id;
        let asks_id = || facts.needs_insert_id() && lacks_insert_id(own, self.backend);
        (finds || needs.any() || asks_id()).then_some(finds)
    }

    #[inline]
    fn needs(self, facts: &Facts) -> Needs<'a> {
        Needs {
            suits: self.backend.suits(self.session),
            number: self.number(facts),
            clears: self.needs_clear(facts),
            diagnostics: diagnostics(facts, self.session),
            inserter: self.inserter(facts),
            finder: self.finder(),
        }
    }

    /// What the backend's number of its connection must become.
    #[inline]
    fn number(self, facts: &Facts) -> Tell {
        let Self { session, backend, client, .. } = self;
        let reads = facts.reads_number;
        let tell = backend.number.lacks(client, reads != Reads::Nothing);
        if tell == Tell::Nothing {
            return tell;
        }
        let is_free = self.is_mariadb && !session.has_own_number();
        // The backend has the count of rows affected, and could not be told it.
        let has_count = reads == Reads::NumberAndCount
            && !matches!(session.counts.affected(), Some(-1 | 0))
            && backend.last_client == client
            && session.counts.are_on(Asked { affected: true, found: false }, backend.id);
        // A refusal would be one of the diagnostics that are asked for.
        let has_diagnostics = || {
            matches!(session.diagnostics(), Diagnostics::OnBackend | Diagnostics::Marked)
                || facts.diagnostics.are_asked_for()
        };
        match tell {
            _ if !is_free || has_count => Tell::Nothing,
            Tell::Try(_) if has_diagnostics() => Tell::Nothing,
            tell => tell,
        }
    }

    #[inline]
    fn needs_clear(self, facts: &Facts) -> bool {
        let Self { session, backend, .. } = self;
        let needs_none = match (facts.diagnostics, session.diagnostics()) {
            (asked, Diagnostics::None) => asked.are_asked_for() || asked == DiagnosticsUse::Noted,
            (DiagnosticsUse::Shown | DiagnosticsUse::Noted, Diagnostics::Kept) => true,
            _ => false,
        };
        needs_none && !session.counts.is_clean(backend.id)
    }

    /// The client that must be asked for its last insert id before this command changes the backend's.
    #[inline]
    fn inserter(self, facts: &Facts) -> Option<u32> {
        let Self { session, backend, .. } = self;
        let inserter = backend.inserter.filter(|_| !backend.insert_id.is_known())?;
        if inserter == self.client && session.insert_id.is_on(backend.id) || facts.keeps_insert_id()
        {
            return None;
        }
        // What may insert must know what is there already; if it asks for diagnostics as well, its number is lost.
        let may_insert = facts.read.is_none() && !facts.diagnostics.are_asked_for();
        (may_insert || self.others.insert_id_is_on(inserter, backend.id)).then_some(inserter)
    }

    #[inline]
    fn finder(self) -> Option<u32> {
        let backend = self.backend;
        let finder = backend.finder.filter(|finder| *finder != self.client)?;
        self.others.found_is_on(finder, backend.id).then_some(finder)
    }

    /// Puts the backend into the client's schema, and what comes with that as the client has it. The answer is what
    /// must be answered first: another client may have dropped the schema, or have taken the rights to it. Only a mere
    /// read does no harm where it runs all the same, and can be run again.
    fn enter_schema(self, request: Request<'_>, told: &mut Setups) -> Option<Setup> {
        let (Self { session, backend, .. }, opcode) = (self, request.opcode);
        // What only shows diagnostics would lose them, should the order fail again.
        let only_shows = request.facts.shows.is_some() && session.is_schema_in_doubt();
        if request.found.needs_no_schema || only_shows {
            return None;
        }
        let own = request.found.schema.as_ref().or(session.schema.as_ref());
        // A backend that was reset has its schema, and not what comes with it.
        let is_entered = backend.was_reset && !session.was_reset && backend.schema.as_ref() == own;
        let entered = own.filter(|_| is_entered).map(enter);
        if opcode != Opcode::InitDb
            && let Some(setup) = entered.or_else(|| schema(backend, own))
        {
            if request.facts.read.is_none() || session.is_schema_in_doubt() {
                return Some(setup);
            }
            if backend.schema.is_some() {
                let (purpose, opcode) = (Purpose::NoSchema, Opcode::InitDb);
                told.push(Setup { purpose, opcode, body: HARMLESS.into() });
            }
            told.push(setup);
        }
        let is_entered_anew = backend.schema.as_ref() != own || !backend.was_reset;
        // MySQL lets hardly any account set it.
        if session.was_reset && own.is_some() && is_entered_anew && self.is_mariadb {
            told.push(Setup::query(Purpose::SchemaReset, SCHEMA_RESET));
        }
        None
    }

    /// The statement that is to be executed may not be prepared on this backend, or not for this client alone.
    fn prepare(
        self,
        known: &mut Known,
        request: Request<'_>,
        interned: &mut Interned,
    ) -> Option<Setup> {
        let Self { session, backend, .. } = self;
        let Request { opcode, payload, is_part, found, .. } = request;
        if !matches!(
            opcode,
            Opcode::StmtExecute | Opcode::StmtBulkExecute | Opcode::StmtSendLongData
        ) {
            return None;
        }
        let id = statement::id(payload)?;
        let prepared = session.statements.look(id).filter(|prepared| prepared.own.is_none())?;
        let source = found.instead.as_ref().unwrap_or(&prepared.source);
        let purpose = if needs_own(opcode, payload, is_part, prepared) {
            Purpose::Own(id)
        } else if known.get(source).is_some() {
            return None;
        } else {
            Purpose::Shared(Rc::clone(source))
        };
        // The text means what it meant in the schema and the mode in which the client prepared it.
        let mode = self.mode(found, &source.settings, interned);
        let schema = || match &source.schema {
            _ if found.needs_no_schema => None,
            Some(wanted) => schema(backend, Some(wanted)),
            None => no_schema(backend),
        };
        mode.or_else(schema).or_else(|| {
            let is_in_one = backend.schema.is_some();
            let told = is_in_one.then(|| without_schema(source, self.is_mysql)).flatten();
            let body = told.unwrap_or_else(|| source.text.to_vec()).into();
            Some(Setup { purpose, opcode: Opcode::StmtPrepare, body })
        })
    }

    /// What puts a backend in this mode to prepare a statement. What a client that keeps it has set, and no report has
    /// told of, is asked for first: the backend is told it again behind the preparation.
    fn mode(
        self,
        found: &Found,
        wanted: &Rc<SessionVariables>,
        interned: &mut Interned,
    ) -> Option<Setup> {
        let Self { session, backend, .. } = self;
        let is_alike = backend.settings().mode() == wanted.mode();
        if session.pin().is_none() {
            return if is_alike { None } else { settings(backend, wanted) };
        }
        if !found.told_mode
            && let Some(question) = backend.settings().ask_mode()
        {
            return Some(Setup::own_query(Purpose::Mode, question));
        }
        if is_alike {
            return None;
        }
        let mixed = backend.settings().in_mode_of(wanted);
        settings(backend, &interned.intern(mixed))
    }
}

/// Whether the backend must be asked for this last insert id, or told it, before the client that has it may ask for it.
pub fn lacks_insert_id(own: InsertId, backend: &BackendSession) -> bool {
    match own.is_on(backend.id) {
        true => !own.is_plainly_on(backend.id),
        false => !backend.insert_id.is(own),
    }
}

/// What a backend lacks for a command, apart from its client's last insert id and its variables.
struct Needs<'a> {
    /// It is in the client's schema and has its settings.
    suits: bool,
    number: Tell,
    /// It may have diagnostics, and must have none.
    clears: bool,
    /// It must have as many diagnostics as these: the server knows whether they stay.
    diagnostics: Option<&'a SavedDiagnostics>,
    /// It is to be asked for this client's last insert id.
    inserter: Option<u32>,
    /// The same of how many rows this client has found.
    finder: Option<u32>,
}

impl Needs<'_> {
    #[inline]
    fn any(&self) -> bool {
        !self.suits
            || self.number != Tell::Nothing
            || self.clears
            || self.diagnostics.is_some()
            || self.inserter.is_some()
            || self.finder.is_some()
    }
}

#[inline]
fn diagnostics<'a>(facts: &Facts, session: &'a Session) -> Option<&'a SavedDiagnostics> {
    match facts.diagnostics {
        DiagnosticsUse::Counted | DiagnosticsUse::Spent | DiagnosticsUse::Unsure => session.kept(),
        _ => None,
    }
}

/// Leaves one more error on a MySQL backend, and clears nothing: no statement has this number.
const fn one_more_error() -> Setup {
    let body = std::borrow::Cow::Borrowed(&[0u8; 4] as &[u8]);
    Setup { purpose: Purpose::Diagnostics, opcode: Opcode::StmtReset, body }
}

/// What tells the backend a client's user variables, under the settings that they were set in.
#[inline]
pub(super) fn variables(backend: &BackendSession, variables: &UserVariables) -> Option<Setup> {
    if variables.are_on_backend() {
        return None;
    }
    let body = variables.setup()?;
    let is_alike = |wanted: &&Rc<SessionVariables>| wanted.mode() == backend.settings().mode();
    match variables.settings().filter(|wanted| !is_alike(wanted)) {
        Some(wanted) => settings(backend, wanted),
        None => {
            let (purpose, opcode) = (Purpose::UserVariables, Opcode::Query);
            Some(Setup { purpose, opcode, body: body.into() })
        }
    }
}

/// What makes the backend's schema this one. It cannot be told to have none: one that has any is never given to a
/// client that has none.
fn schema(backend: &BackendSession, wanted: Option<&Rc<[u8]>>) -> Option<Setup> {
    wanted.filter(|wanted| backend.schema.as_ref() != Some(*wanted)).map(enter)
}

pub(super) fn enter(wanted: &Rc<[u8]>) -> Setup {
    let purpose = Purpose::Schema(Rc::clone(wanted));
    Setup { purpose, opcode: Opcode::InitDb, body: wanted.to_vec().into() }
}

/// What takes the backend out of a schema that is another client's, before it prepares a text that was prepared in
/// none.
fn no_schema(backend: &BackendSession) -> Option<Setup> {
    backend.schema.as_deref().filter(|own| *own != HARMLESS)?;
    let purpose = Purpose::Schema(HARMLESS.into());
    Some(Setup { purpose, opcode: Opcode::InitDb, body: HARMLESS.into() })
}

/// What makes the backend's settings these.
pub(super) fn settings(backend: &BackendSession, wanted: &Rc<SessionVariables>) -> Option<Setup> {
    if Rc::ptr_eq(backend.settings(), wanted) {
        return None;
    }
    let text = wanted.setup(backend.settings());
    let purpose = Purpose::SessionVariables(Rc::clone(wanted), text.as_str().into());
    Some(Setup::own_query(purpose, text))
}

fn is_accepted(interned: &Interned, setup: &Setup) -> bool {
    match &setup.purpose {
        Purpose::SessionVariables(_, text) => interned.is_accepted(text),
        _ => true,
    }
}

fn needs_own(opcode: Opcode, payload: &[u8], is_part: bool, prepared: &Prepared) -> bool {
    match opcode {
        Opcode::StmtSendLongData => true,
        Opcode::StmtExecute if statement::asks_for_cursor(payload) => true,
        // Where not even the parameter types are here yet, they cannot be told to others' backends.
        _ => is_part && Execute::decode(payload, prepared.parameters).is_err(),
    }
}

/// What a text that was prepared in no schema says of its schema, for a backend that is in one: backends cannot be told
/// to be in none.
fn without_schema(source: &Source, is_mysql: bool) -> Option<Vec<u8>> {
    let is_open = source.schema.is_none();
    calls::replace(Lexed::default().text(&source.text, source.dialect), |name, place| {
        let asks = name.eq_ignore_ascii_case(b"DATABASE") || name.eq_ignore_ascii_case(b"SCHEMA");
        // Of the type that the function has, which has more decimals than a cast.
        let length = if is_mysql { 34 } else { 64 };
        let null = || format!("CONCAT(CAST(NULL AS CHAR({length}) CHARACTER SET utf8mb3))");
        (is_open && asks && place != CallPlace::Within).then(null)
    })
}

#[cfg(test)]
mod tests;
