//! Commands of Flifo's own: what a backend is told or asked before, behind and between its clients' commands.

use std::borrow::Cow;
use std::rc::Rc;

use smallvec::SmallVec;
use wire::command::Opcode;

use crate::init_connect::InitConnect;
use crate::schemas::Since;
use crate::session_variables::SessionVariables;
use crate::source::Source;

/// Why a command was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The client asked it.
    Statement,
    /// The client prepares this.
    Prepare(Rc<Source>),
    /// Flifo checks the schema of this name, which a client named at login; the reply completes the login.
    LoginSchema(Rc<[u8]>, Since),
    /// The backend leaves its schema for one in which no statement does harm, should it not get into the next.
    NoSchema,
    /// The backend changes to this schema before a statement.
    Schema(Rc<[u8]>),
    /// What comes with the schema becomes what a reset makes of it.
    SchemaReset,
    /// The backend is told these settings before a statement, by this text.
    SessionVariables(Rc<SessionVariables>, Rc<str>),
    /// The server is asked behind a statement what it has set. The effect of this text is remembered.
    Probe(Option<Box<[u8]>>),
    /// The server is asked behind a statement for the changes that its end could not report.
    Unreported,
    /// The backend is asked in what mode its client has put it, before it leaves that.
    Mode,
    /// The backend prepares a shared statement before it is executed.
    Shared(Rc<Source>),
    /// The backend prepares a statement for this client alone; its id there.
    Own(u32),
    /// The backend is told this client's last insert id.
    InsertId(u32, u64),
    /// The backend is asked for this client's last insert id, before another client changes it.
    AskInsertId(u32),
    /// The backend is asked how many rows this client has found, before another client finds some; and with that for
    /// the last insert id of this one.
    Found { finder: u32, inserter: Option<u32> },
    /// The backend is told its client's user variables.
    UserVariables,
    /// The backend forgets the diagnostics of other clients' statements.
    Clear,
    /// The backend has as many diagnostics as its client should.
    Diagnostics,
    /// The backend is asked before it is taken from its client.
    Capture(Question),
    /// No rows are affected, or some are sent.
    Nothing,
    /// The backend answers with this client's number as that of its connection; `None`: with its own again.
    Number(Option<u32>),
    /// A transaction begins.
    Begin,
    /// The backend's session is reset.
    Reset(Step),
    /// The client's session begins with this.
    Init(Rc<InitConnect>),
    /// The backend is asked what that has set.
    InitProbe(Rc<InitConnect>),
}

/// What a backend is asked before it is taken from the client whose diagnostics it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    Numbers,
    Diagnostics,
    /// Only MariaDB understands it; nothing else depends on it.
    States,
}

/// What a backend is told when its session is reset, one after the other in one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// What is open is rolled back.
    Undo,
    Reset,
    /// Changes are to be reported again.
    Track,
    /// What the variables are now.
    Ask,
}

impl Purpose {
    /// Whether the reply goes to the client, rather than being Flifo's own affair.
    pub const fn is_clients(&self) -> bool {
        matches!(self, Self::Statement | Self::Prepare(_) | Self::LoginSchema(..))
    }

    /// Whether the server is asked behind a client's statement what that has set.
    pub const fn is_probe(&self) -> bool {
        matches!(self, Self::Probe(_) | Self::Unreported)
    }

    /// Whether a backend's last insert id is the same behind it, for certain.
    pub const fn keeps_insert_id(&self) -> bool {
        !matches!(self, Self::Statement | Self::InsertId(..) | Self::Reset(_))
    }

    /// Whether the command goes in the same write as the statement that needs it.
    pub const fn is_setup(&self) -> bool {
        matches!(
            self,
            Self::NoSchema
                | Self::Schema(_)
                | Self::SchemaReset
                | Self::SessionVariables(..)
                | Self::InsertId(..)
                | Self::AskInsertId(_)
                | Self::Found { .. }
                | Self::Clear
                | Self::Diagnostics
                | Self::Nothing
                | Self::Number(_)
                | Self::Begin
        )
    }
}

/// A command of Flifo's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    pub purpose: Purpose,
    pub opcode: Opcode,
    pub body: Cow<'static, [u8]>,
}

/// Nearly always none or one; that takes no memory.
pub type Setups = SmallVec<[Setup; 2]>;

impl Setup {
    pub const fn query(purpose: Purpose, text: &'static str) -> Self {
        Self { purpose, opcode: Opcode::Query, body: Cow::Borrowed(text.as_bytes()) }
    }

    pub fn own_query(purpose: Purpose, text: String) -> Self {
        Self { purpose, opcode: Opcode::Query, body: text.into_bytes().into() }
    }

    /// The question for this client's last insert id.
    pub const fn capture(inserter: u32) -> Self {
        // Has the server report what it has; nothing else would say whether an insert has given its number itself.
        Self::query(Purpose::AskInsertId(inserter), "SET last_insert_id=LAST_INSERT_ID()")
    }

    /// The question for how many rows this client has found; and with it for the last insert id of another one.
    pub const fn found(finder: u32, inserter: Option<u32>) -> Self {
        let text = match inserter {
            Some(_) => "SELECT FOUND_ROWS(), LAST_INSERT_ID()",
            None => "SELECT FOUND_ROWS()",
        };
        Self::query(Purpose::Found { finder, inserter }, text)
    }

    /// What tells a backend the number of its connection. `own`: the server's.
    pub fn number(own: u32, shown: Option<u32>) -> Self {
        let text = format!("SET pseudo_thread_id={}", shown.unwrap_or(own));
        Self::own_query(Purpose::Number(shown), text)
    }
}
