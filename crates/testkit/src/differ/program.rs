//! A program: what several clients do, step by step, in one order.
//!
//! Does not know how it is written down (`text`) or run (`run`). Invariants: a step names a client that is planned; a
//! client's own steps happen in the order in which they stand.

/// What several clients do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// What it is about; one line each.
    pub title: Vec<String>,
    /// The servers that understand it; both if `None`.
    pub only: Option<Brand>,
    pub pace: Pace,
    pub clients: Vec<Plan>,
    pub steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brand {
    MariaDb,
    MySql,
}

/// How the steps of different clients follow one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// In the order of the program, one after the other, as far as backends allow.
    #[default]
    Turns,
    /// Each client as fast as it can.
    Rush,
}

/// How one client logs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Its user, of [`USERS`].
    pub user: usize,
    /// Whether it names its schema when it logs in.
    pub in_schema: bool,
    pub abilities: Abilities,
}

/// Users of a program. Their clients have the rights to all schemas of it.
pub const USERS: usize = 3;

/// What a client says that it can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Does without EOF packets.
    pub no_eof: bool,
    /// Throws results away unread, and believes the EOF packet behind the definitions: it says whether more follow.
    pub trusts: bool,
    /// Takes one result of a command.
    pub single: bool,
    /// Wants to be told of changes to its session.
    pub track: bool,
    /// Several statements in one text.
    pub multi: bool,
    /// Updates count the rows found.
    pub found: bool,
    /// MariaDB's: keeps the columns of a prepared statement.
    pub cache: bool,
}

/// One client's next action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub client: usize,
    pub action: Action,
}

/// What a client does. Texts are bytes in which `{id}` stands for its own connection id, and `{id:3}` for client 3's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Connect,
    Quit,
    /// Closes its socket without a word.
    Vanish,
    Query(Vec<u8>),
    /// A query of another client of the same user, which comes for it and goes.
    Beside(Vec<u8>),
    /// A query whose client closes its socket when it has read the definitions of the first result, or nothing.
    Leave {
        text: Vec<u8>,
        reads: bool,
    },
    /// A query beside writes that it may see or not: its reply is read, and not judged.
    Unjudged(Vec<u8>),
    Prepare {
        slot: u8,
        text: Vec<u8>,
    },
    Execute {
        slot: Slot,
        how: How,
        values: Vec<Value>,
    },
    Bulk {
        slot: u8,
        rows: Vec<Vec<Value>>,
    },
    LongData {
        slot: u8,
        parameter: u16,
        bytes: Vec<u8>,
    },
    Fetch {
        slot: u8,
        rows: u32,
    },
    ResetStatement {
        slot: u8,
    },
    Close {
        slot: u8,
    },
    InitDb(Vec<u8>),
    /// To this user, in the client's own schema or in none.
    ChangeUser {
        user: usize,
        in_schema: bool,
    },
    Reset,
    Ping,
    SetOption(u16),
    FieldList(Vec<u8>),
    /// `COM_PROCESS_KILL` of this client.
    Kill(usize),
    /// A command of these bytes, answered by one packet.
    Raw(Vec<u8>),
}

/// Which prepared statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    Is(u8),
    /// MariaDB's id −1: the one that was prepared last.
    Last,
}

/// How a prepared statement is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Plain,
    /// With a cursor for its rows.
    Cursor,
    /// Types of parameters are not sent again.
    Untyped,
}

/// A parameter's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Null,
    Int(i64),
    /// A number in digits, or a connection id: `{id}`, `{id:3}`.
    Number(Vec<u8>),
    Text(Vec<u8>),
    /// Sent before, as long data.
    Long,
}

impl Program {
    /// The clients whom a step concerns: its own, and those whom it names.
    pub fn touched(step: &Step) -> Vec<usize> {
        let mut touched = vec![step.client];
        match &step.action {
            Action::Kill(client) => touched.push(*client),
            Action::Query(text) | Action::Unjudged(text) | Action::Prepare { text, .. } => {
                touched.extend(named(text));
            }
            Action::Execute { values, .. } => {
                for value in values {
                    if let Value::Number(text) | Value::Text(text) = value {
                        touched.extend(named(text));
                    }
                }
            }
            _ => {}
        }
        touched
    }
}

/// The clients whose ids a text names.
fn named(text: &[u8]) -> impl Iterator<Item = usize> + '_ {
    find_all(text, b"{id:").into_iter().map(|at| {
        let digits = text[at + 4..].iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(0_usize, |sum, byte| (sum * 10 + usize::from(byte - b'0')) % 1000)
    })
}

/// Where `needle` begins in `text`.
pub(crate) fn find_all(text: &[u8], needle: &[u8]) -> Vec<usize> {
    let windows = text.windows(needle.len()).enumerate();
    windows.filter(|(_, window)| *window == needle).map(|(at, _)| at).collect()
}

/// `text` with every `old` replaced.
pub(crate) fn replace(text: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut from = 0;
    for at in find_all(text, old) {
        if from <= at {
            out.extend_from_slice(&text[from..at]);
            out.extend_from_slice(new);
            from = at + old.len();
        }
    }
    out.extend_from_slice(&text[from..]);
    out
}
