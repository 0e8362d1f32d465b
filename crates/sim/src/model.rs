//! A server that is a model: it speaks the protocol, keeps sessions, tables and row locks, and takes as long as a seed
//! says. It owns no socket and no clock: bytes come in at a time, and bytes go out at a time.

pub mod reply;
pub mod session;
pub mod tables;
pub mod tokens;

use std::collections::{BTreeMap, VecDeque};

use testkit::fake_server::{Brand, greeting_with};
use wire::Capabilities;
use wire::command::Opcode;
use wire::frame::{HEADER, Header, put_packet_with};
use wire::handshake::Login;
use wire::response::{OK, Status};

use self::reply::{Answer, End, ModelError, Out};
use self::session::{Outcome, Session};
use self::tables::{Tables, hash};
use self::tokens::{Token, statements};
use crate::dice::Dice;

/// What the server does to one of its connections.
#[derive(Debug, PartialEq, Eq)]
pub enum Deed {
    Send(u64, Vec<u8>),
    Close(u64),
}

/// The server, with all its connections. Times are in milliseconds.
pub struct Model {
    tables: Tables,
    connections: BTreeMap<u64, Connection>,
    next_thread: u64,
    dice: Dice,
    /// Statements take up to so long.
    pub slowness: u64,
    /// Each command that it hears is printed, behind this number of the server.
    pub tells: Option<usize>,
    /// What it does wrong.
    pub flaw: Option<Flaw>,
}

/// What a server does wrong: to see that found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// `SET time_zone` is answered with OK, and nothing is set.
    ForgetsVariable,
    /// A write that is a transaction of its own is done twice.
    WritesTwice,
    /// The same is answered with OK, and not done.
    WritesNothing,
    /// A statement is not answered.
    AnswersNothing,
    /// Its connection ends when it is asked which account it has given.
    LeavesWhenAskedForAccount,
}

struct Connection {
    thread: u64,
    capabilities: Capabilities,
    session: Option<Session>,
    input: VecDeque<u8>,
    statements: BTreeMap<u32, Prepared>,
    next_statement: u32,
    work: Work,
    is_closing: bool,
}

struct Prepared {
    text: Vec<u8>,
    parameters: u16,
    types: Vec<u8>,
    long: BTreeMap<u16, Vec<u8>>,
}

/// What a connection does.
enum Work {
    Reads,
    /// Its reply is ready, and goes out at this time.
    Answers {
        at: u64,
        out: Vec<u8>,
        closes: bool,
    },
    /// A statement waits for a row until this time.
    Waits {
        until: u64,
        rest: Statements,
    },
    /// A statement sleeps; what it answers then.
    Sleeps {
        at: u64,
        answer: Answer,
        rest: Statements,
    },
}

/// Statements of one command that are still to be run, the first of which may have been begun.
struct Statements {
    left: VecDeque<Vec<Token>>,
    out: Out,
    is_binary: bool,
}

const SEQUENCE_OF_REPLIES: u8 = 1;

impl Model {
    pub fn new(dice: Dice) -> Self {
        let (connections, tables) = (BTreeMap::new(), Tables::default());
        Self { tables, connections, next_thread: 10, dice, slowness: 3, tells: None, flaw: None }
    }

    pub fn tables(&mut self) -> &mut Tables {
        &mut self.tables
    }

    /// A peer has connected: it is greeted.
    pub fn accept(&mut self, id: u64, deeds: &mut Vec<Deed>) {
        let thread = self.next_thread;
        self.next_thread += 1;
        let connection = Connection {
            thread,
            capabilities: Capabilities::NONE,
            session: None,
            input: VecDeque::new(),
            statements: BTreeMap::new(),
            next_statement: 1,
            work: Work::Reads,
            is_closing: false,
        };
        self.connections.insert(id, connection);
        let mut out = Vec::new();
        put_packet_with(&mut out, 0, |out| {
            greeting_with(Brand::MariaDb, thread as u32).encode(out)
        });
        deeds.push(Deed::Send(id, out));
    }

    /// A peer is gone.
    pub fn forget(&mut self, id: u64, now: u64, deeds: &mut Vec<Deed>) {
        let Some(mut connection) = self.connections.remove(&id) else { return };
        if let Some(session) = &mut connection.session {
            session.roll_back();
        }
        self.let_go_rows(connection.thread, now, deeds);
    }

    /// All connections break, and what is open is rolled back.
    pub fn crash(&mut self, now: u64, deeds: &mut Vec<Deed>) {
        let all: Vec<_> = self.connections.keys().copied().collect();
        for id in all {
            deeds.push(Deed::Close(id));
            self.forget(id, now, deeds);
        }
    }

    /// Bytes have come from a peer.
    pub fn hear(&mut self, id: u64, bytes: &[u8], now: u64, deeds: &mut Vec<Deed>) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.input.extend(bytes);
        self.go_on(id, now, deeds);
    }

    /// When something is due next.
    pub fn due(&self) -> Option<u64> {
        let due = |connection: &Connection| match &connection.work {
            Work::Reads => None,
            Work::Answers { at, .. } | Work::Sleeps { at, .. } => Some(*at),
            Work::Waits { until, .. } => Some(*until),
        };
        self.connections.values().filter_map(due).min()
    }

    /// Does what is due by now.
    pub fn tick(&mut self, now: u64, deeds: &mut Vec<Deed>) {
        let all: Vec<_> = self.connections.keys().copied().collect();
        for id in all {
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            match std::mem::replace(&mut connection.work, Work::Reads) {
                Work::Answers { at, out, closes } if at <= now => {
                    if !out.is_empty() {
                        deeds.push(Deed::Send(id, out));
                    }
                    if closes || connection.is_closing {
                        deeds.push(Deed::Close(id));
                        self.forget(id, now, deeds);
                        continue;
                    }
                }
                Work::Sleeps { at, answer, mut rest } if at <= now => {
                    rest.left.pop_front();
                    let thread = connection.thread;
                    if self.put(id, &answer, &mut rest) {
                        self.run(id, thread, rest, now, deeds);
                    } else {
                        self.finish(id, rest.out, now);
                    }
                }
                Work::Waits { until, rest } if until <= now => {
                    self.tables.give_up_rows(connection.thread);
                    let error = ModelError::new(
                        1205,
                        b"HY000",
                        "Lock wait timeout exceeded; try restarting transaction",
                    );
                    self.fail(id, &error, rest, now);
                }
                other => {
                    connection.work = other;
                    continue;
                }
            }
            self.go_on(id, now, deeds);
        }
    }

    /// Takes the next command, if there is one and the last one has been answered.
    fn go_on(&mut self, id: u64, now: u64, deeds: &mut Vec<Deed>) {
        while let Some(connection) = self.connections.get_mut(&id) {
            if !matches!(connection.work, Work::Reads) || connection.is_closing {
                return;
            }
            let Some(payload) = take_packet(&mut connection.input) else { return };
            if connection.session.is_none() {
                self.log_in(id, &payload, now);
            } else {
                self.command(id, &payload, now, deeds);
            }
        }
    }

    fn log_in(&mut self, id: u64, payload: &[u8], now: u64) {
        let (tables, Some(connection)) = (&self.tables, self.connections.get_mut(&id)) else {
            return;
        };
        let Ok(login) = Login::decode(payload) else {
            connection.is_closing = true;
            return;
        };
        connection.capabilities = login.capabilities;
        let mut session = Session::new(&String::from_utf8_lossy(&login.user));
        session.reports = tables.reports;
        let mut out = Out::new(login.capabilities, 2);
        let schema = login.schema.map(|name| String::from_utf8_lossy(&name).into_owned());
        let entered = match schema.filter(|name| !name.is_empty()) {
            Some(name) => session.enter(tables, &name).map(|_| ()),
            None => Ok(()),
        };
        match entered {
            Ok(()) => {
                let end = session.end(true);
                out.ok(OK, (0, 0), &end);
                connection.session = Some(session);
            }
            Err(error) => {
                out.error(&error);
                connection.is_closing = true;
            }
        }
        self.finish(id, out, now);
    }

    fn finish(&mut self, id: u64, out: Out, now: u64) {
        let at = now + self.dice.below(self.slowness + 1);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.work = Work::Answers { at, out: out.bytes, closes: connection.is_closing };
        }
    }

    fn command(&mut self, id: u64, payload: &[u8], now: u64, deeds: &mut Vec<Deed>) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let (thread, capabilities) = (connection.thread, connection.capabilities);
        let (first, body) = payload.split_first().unwrap_or((&0, &[]));
        if let Some(number) = self.tells {
            let body = String::from_utf8_lossy(body).escape_debug().to_string();
            eprintln!("{now:>8} ms  server {number}  connection {thread}  {first:02x} {body}");
        }
        let is = |opcode: Opcode| *first == opcode as u8;
        let mut out = Out::new(capabilities, SEQUENCE_OF_REPLIES);
        if is(Opcode::Quit) {
            deeds.push(Deed::Close(id));
            return self.forget(id, now, deeds);
        }
        if is(Opcode::StmtClose) || is(Opcode::StmtSendLongData) {
            return connection.take_silently(*first, body);
        }
        let statements = match () {
            () if is(Opcode::Query) => connection.texts(body),
            () if is(Opcode::StmtExecute) => connection.execution(body),
            () => Ok(VecDeque::new()),
        };
        let done = match statements {
            Ok(left) if !left.is_empty() => {
                let is_binary = is(Opcode::StmtExecute);
                return self.run(id, thread, Statements { left, out, is_binary }, now, deeds);
            }
            Ok(_) if is(Opcode::StmtPrepare) => connection.prepare(body, &mut out),
            Ok(_) if is(Opcode::ProcessKill) => {
                let victim = number(body).into();
                let killed = self.kill(victim, false, now, deeds);
                return self.tell_killed(id, victim, killed, out, now);
            }
            Ok(_) if is(Opcode::ResetConnection) || is(Opcode::ChangeUser) => {
                connection.begin_anew(
                    is(Opcode::ChangeUser).then_some(body),
                    &self.tables,
                    &mut out,
                );
                self.let_go_rows(thread, now, deeds);
                Ok(())
            }
            Ok(_) => connection.short(*first, body, &self.tables, &mut out),
            Err(error) => Err(error),
        };
        if let Err(error) = done {
            let session = self.connections.get_mut(&id).and_then(|it| it.session.as_mut());
            session.into_iter().for_each(|session| session.fail(&error));
            out.error(&error);
        }
        self.finish(id, out, now);
    }

    /// Runs what is left of a command, until it has to wait.
    fn run(&mut self, id: u64, thread: u64, mut rest: Statements, now: u64, deeds: &mut Vec<Deed>) {
        while let Some(tokens) = rest.left.front() {
            let Some(connection) = self.connections.get_mut(&id) else { return };
            let Some(session) = &mut connection.session else { return };
            let outcome = match self.flaw.filter(|flaw| flaw.concerns(session, tokens)) {
                None => session.run(&mut self.tables, tokens, thread),
                Some(Flaw::WritesTwice) => {
                    session.run(&mut self.tables, tokens, thread);
                    session.run(&mut self.tables, tokens, thread)
                }
                Some(Flaw::LeavesWhenAskedForAccount) => {
                    deeds.push(Deed::Close(id));
                    return self.forget(id, now, deeds);
                }
                Some(Flaw::AnswersNothing) => {
                    connection.work = Work::Waits { until: u64::MAX, rest };
                    return;
                }
                Some(Flaw::ForgetsVariable | Flaw::WritesNothing) => {
                    Outcome::Answer(Answer::Ok { affected: 0, insert_id: 0 })
                }
            };
            match outcome {
                Outcome::Answer(answer) => {
                    rest.left.pop_front();
                    if !self.put(id, &answer, &mut rest) {
                        break;
                    }
                }
                Outcome::Later(delay, answer) => {
                    connection.work = Work::Sleeps { at: now + delay, answer, rest };
                    return;
                }
                Outcome::Waits(_) if self.tables.is_deadlock(thread) => {
                    session.roll_back();
                    let message =
                        "Deadlock found when trying to get lock; try restarting transaction";
                    let error = ModelError::new(1213, b"40001", message);
                    self.fail(id, &error, rest, now);
                    self.let_go_rows(thread, now, deeds);
                    return;
                }
                Outcome::Waits(_) => {
                    let until = now + session.lock_patience();
                    connection.work = Work::Waits { until, rest };
                    return;
                }
                Outcome::Kill { id: victim, is_query } => {
                    let killed = self.kill(victim, is_query, now, deeds);
                    self.tell_killed(id, victim, killed, rest.out, now);
                    return;
                }
            }
            let over = self.connections.get(&id).and_then(|it| it.session.as_ref());
            if over.is_some_and(|session| !session.in_transaction()) {
                self.let_go_rows(thread, now, deeds);
            }
        }
        self.finish(id, rest.out, now);
    }

    /// Writes an answer. False: it is an error, and nothing of the command is run behind it.
    fn put(&mut self, id: u64, answer: &Answer, rest: &mut Statements) -> bool {
        let Some(connection) = self.connections.get_mut(&id) else { return false };
        let Some(session) = &mut connection.session else { return false };
        let more = if rest.left.is_empty() { 0 } else { Status::MORE_RESULTS.0 };
        let out = &mut rest.out;
        match answer {
            Answer::Error(error) => {
                out.error(error);
                return false;
            }
            Answer::Ok { affected, insert_id } => {
                let mut end = session.end(true);
                end.status |= more;
                out.ok(OK, (*affected, *insert_id), &end);
            }
            Answer::Rows { columns, rows } => {
                let mut end = session.end(!out.has_eof());
                end.status |= more;
                let middle = End { warnings: 0, changes: Vec::new(), ..end.clone() };
                out.rows(columns, rows, rest.is_binary, &middle, &end);
            }
        }
        true
    }

    fn fail(&mut self, id: u64, error: &ModelError, mut rest: Statements, now: u64) {
        let session = self.connections.get_mut(&id).and_then(|it| it.session.as_mut());
        if let Some(session) = session {
            session.fail(error);
        }
        rest.out.error(error);
        self.finish(id, rest.out, now);
    }

    /// A connection's rows are free: statements that have waited for them go on.
    fn let_go_rows(&mut self, thread: u64, now: u64, deeds: &mut Vec<Deed>) {
        for granted in self.tables.release_rows(thread) {
            let id =
                self.connections.iter().find(|(_, it)| it.thread == granted).map(|(id, _)| *id);
            let Some(id) = id else { continue };
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            match std::mem::replace(&mut connection.work, Work::Reads) {
                Work::Waits { rest, .. } => self.run(id, granted, rest, now, deeds),
                other => connection.work = other,
            }
        }
    }

    /// Kills a connection, or its statement, whichever that is.
    pub fn kill_any(&mut self, now: u64, deeds: &mut Vec<Deed>) {
        let threads: Vec<_> = self.connections.values().map(|it| it.thread).collect();
        if !threads.is_empty() {
            let (thread, is_query) = (*self.dice.pick(&threads), self.dice.once_in(2));
            self.kill(thread, is_query, now, deeds);
        }
    }

    /// Whether there is such a connection.
    fn kill(&mut self, thread: u64, is_query: bool, now: u64, deeds: &mut Vec<Deed>) -> bool {
        let id = self.connections.iter().find(|(_, it)| it.thread == thread).map(|(id, _)| *id);
        let Some(id) = id else { return false };
        let Some(connection) = self.connections.get_mut(&id) else { return false };
        connection.is_closing |= !is_query;
        let work = std::mem::replace(&mut connection.work, Work::Reads);
        match work {
            Work::Sleeps { rest, .. } | Work::Waits { rest, .. } => {
                self.tables.give_up_rows(thread);
                let error = match is_query {
                    true => ModelError::new(1317, b"70100", "Query execution was interrupted"),
                    false => ModelError::new(1927, b"70100", "Connection was killed"),
                };
                self.fail(id, &error, rest, now);
            }
            Work::Reads if !is_query => {
                deeds.push(Deed::Close(id));
                self.forget(id, now, deeds);
            }
            work => connection.work = work,
        }
        true
    }

    fn tell_killed(&mut self, id: u64, victim: u64, killed: bool, mut out: Out, now: u64) {
        let session = self.connections.get_mut(&id).and_then(|it| it.session.as_mut());
        let Some(session) = session else { return };
        if killed {
            let end = End { warnings: 0, ..session.end(true) };
            out.ok(OK, (0, 0), &end);
        } else {
            let error = ModelError::new(1094, b"HY000", format!("Unknown thread id: {victim}"));
            session.fail(&error);
            out.error(&error);
        }
        self.finish(id, out, now);
    }
}

impl Connection {
    /// The statements of a text.
    fn texts(&self, body: &[u8]) -> Result<VecDeque<Vec<Token>>, ModelError> {
        let left: VecDeque<_> = statements(body).into_iter().map(|(_, tokens)| tokens).collect();
        let several = self.capabilities.has(Capabilities::MULTI_STATEMENTS);
        match left.len() {
            0 => Err(ModelError::new(1065, b"42000", "Query was empty")),
            1 => Ok(left),
            _ if several => Ok(left),
            _ => Err(ModelError::syntax()),
        }
    }

    /// The statement that this command names.
    fn prepared(&mut self, body: &[u8], command: Opcode) -> Result<&mut Prepared, ModelError> {
        let statement = number(body);
        self.statements.get_mut(&statement).ok_or_else(|| {
            let place = command.name();
            let message =
                format!("Unknown prepared statement handler ({statement}) given to mysqld_{place}");
            ModelError::new(1243, b"HY000", message)
        })
    }

    /// The statement of an execution, with its values.
    fn execution(&mut self, body: &[u8]) -> Result<VecDeque<Vec<Token>>, ModelError> {
        let prepared = self.prepared(body, Opcode::StmtExecute)?;
        let parsed = statements(&prepared.text).into_iter().map(|(_, tokens)| tokens);
        let mut left: VecDeque<_> = parsed.collect();
        if let Some(tokens) = left.front_mut() {
            prepared.bind(body, tokens)?;
        }
        Ok(left)
    }

    fn prepare(&mut self, body: &[u8], out: &mut Out) -> Result<(), ModelError> {
        let parsed = statements(body);
        let tokens = parsed.first().map(|(_, tokens)| &tokens[..]).unwrap_or_default();
        if parsed.len() != 1 || !is_preparable(tokens) {
            return Err(ModelError::syntax());
        }
        let parameters = tokens.iter().filter(|token| token.is_sign(b'?')).count() as u16;
        let statement = self.next_statement;
        self.next_statement += 1;
        let (text, columns) = (body.to_vec(), columns_of(tokens));
        let prepared = Prepared { text, parameters, types: Vec::new(), long: BTreeMap::new() };
        self.statements.insert(statement, prepared);
        let end = self.session.as_mut().map(|session| session.end(false)).unwrap_or_default();
        // Those of the statement before are not counted.
        let end = End { warnings: 0, ..end };
        out.prepared(statement, parameters, &columns, &end);
        Ok(())
    }

    /// Commands that have no reply.
    fn take_silently(&mut self, command: u8, body: &[u8]) {
        let statement = number(body);
        if command == Opcode::StmtClose as u8 {
            self.statements.remove(&statement);
        } else if let Some(prepared) = self.statements.get_mut(&statement)
            && let Some((parameter, bytes)) = body.get(4..).and_then(<[u8]>::split_first_chunk)
        {
            let parameter = u16::from_le_bytes(*parameter);
            prepared.long.entry(parameter).or_default().extend_from_slice(bytes);
        }
    }

    /// A fresh session: the same user's, or that of `COM_CHANGE_USER`.
    fn begin_anew(&mut self, change: Option<&[u8]>, tables: &Tables, out: &mut Out) {
        let Some(session) = &mut self.session else { return };
        let mut fresh = Session::new(&session.user);
        fresh.reports = session.reports;
        match change.map(user_of) {
            None => fresh.schema = session.schema.take(),
            Some(None) => {}
            Some(Some((user, schema))) => {
                fresh.user = user;
                if let Some(schema) = schema {
                    // That it is not there ends the connection at a real server; no program names such a one.
                    let _ = fresh.enter(tables, &schema);
                }
            }
        }
        let end = fresh.end(true);
        out.ok(OK, (0, 0), &end);
        self.session = Some(fresh);
        self.statements.clear();
    }

    /// Commands that are answered by one packet.
    fn short(
        &mut self,
        command: u8,
        body: &[u8],
        tables: &Tables,
        out: &mut Out,
    ) -> Result<(), ModelError> {
        let is = |opcode: Opcode| command == opcode as u8;
        if is(Opcode::StmtReset) {
            self.prepared(body, Opcode::StmtReset)?.long.clear();
        }
        let Some(session) = &mut self.session else { return Ok(()) };
        if is(Opcode::InitDb) {
            session.enter(tables, &String::from_utf8_lossy(body))?;
        } else if !is(Opcode::Ping) && !is(Opcode::StmtReset) {
            return Err(ModelError::new(1047, b"08S01", "Unknown command"));
        }
        let end = End { warnings: 0, ..session.end(true) };
        out.ok(OK, (0, 0), &end);
        Ok(())
    }
}

fn number(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

impl Flaw {
    fn concerns(self, session: &Session, tokens: &[Token]) -> bool {
        let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| token.is_word(word));
        match self {
            Self::ForgetsVariable => is(0, "set") && is(1, "time_zone"),
            Self::WritesTwice | Self::WritesNothing => is(0, "insert") && !session.in_transaction(),
            Self::AnswersNothing => is(0, "delete"),
            Self::LeavesWhenAskedForAccount => {
                let account =
                    |token: &Token| matches!(token, Token::System(_, name) if name == "proxy_user");
                tokens.iter().any(account)
            }
        }
    }
}

impl Prepared {
    /// Puts a hash of the values in the place of the first parameter: what is answered goes by it. As with MySQL, the
    /// first execution says of which types they are.
    fn bind(&mut self, execute: &[u8], tokens: &mut [Token]) -> Result<(), ModelError> {
        if self.parameters == 0 {
            return Ok(());
        }
        // Behind the number come a byte of flags, the count of iterations, NULLs, and whether types follow.
        let values = execute.get(9..).unwrap_or_default();
        let nulls = usize::from(self.parameters).div_ceil(8);
        let mut rest = values.get(nulls + 1..).unwrap_or_default();
        if values.get(nulls) == Some(&1) {
            let types = usize::from(self.parameters) * 2;
            let (given, behind) = rest.split_at(types.min(rest.len()));
            (self.types, rest) = (given.to_vec(), behind);
        } else if self.types.is_empty() {
            let message = "Incorrect arguments to mysqld_stmt_execute";
            return Err(ModelError::new(1210, b"HY000", message.to_owned()));
        }
        let mut sum = hash(hash(0, &self.types), values.get(..nulls).unwrap_or_default());
        sum = hash(sum, rest);
        for (parameter, bytes) in std::mem::take(&mut self.long) {
            sum = hash(sum ^ u64::from(parameter), &bytes);
        }
        let place = tokens.iter_mut().find(|token| token.is_sign(b'?'));
        if let Some(token) = place {
            *token = Token::Quoted(format!("{sum:016x}").into_bytes());
        }
        Ok(())
    }
}

/// What the columns of a statement are called, if it has any.
fn columns_of(tokens: &[Token]) -> Vec<Vec<u8>> {
    let from = tokens.iter().any(|token| token.is_word("from"));
    match tokens.first() {
        Some(first) if first.is_word("select") && from => vec![b"found".to_vec()],
        Some(first) if first.is_word("select") => {
            let count = 1 + tokens.iter().filter(|token| token.is_sign(b',')).count();
            vec![b"prepared".to_vec(); count]
        }
        _ => Vec::new(),
    }
}

fn is_preparable(tokens: &[Token]) -> bool {
    let words = [
        "select", "insert", "update", "delete", "replace", "set", "commit", "rollback", "do",
        "create", "drop",
    ];
    tokens.first().is_some_and(|first| words.iter().any(|word| first.is_word(word)))
}

/// The user, and the schema, of `COM_CHANGE_USER`.
fn user_of(body: &[u8]) -> Option<(String, Option<String>)> {
    let end = body.iter().position(|byte| *byte == 0)?;
    let user = String::from_utf8_lossy(&body[..end]).into_owned();
    let length = usize::from(*body.get(end + 1)?);
    let schema = body.get(end + 2 + length..)?;
    let schema = schema.split(|byte| *byte == 0).next().unwrap_or_default();
    let schema = String::from_utf8_lossy(schema).into_owned();
    Some((user, Some(schema).filter(|name| !name.is_empty())))
}

fn take_packet(input: &mut VecDeque<u8>) -> Option<Vec<u8>> {
    let mut payload = Vec::new();
    let mut at = 0;
    loop {
        let mut bytes = [0; HEADER];
        for (place, byte) in bytes.iter_mut().zip(input.iter().skip(at)) {
            *place = *byte;
        }
        if input.len() < at + HEADER {
            return None;
        }
        let header = Header::decode(bytes);
        if input.len() < at + HEADER + header.len {
            return None;
        }
        payload.extend(input.iter().skip(at + HEADER).take(header.len));
        at += HEADER + header.len;
        if !header.is_continued() {
            input.drain(..at);
            return Some(payload);
        }
    }
}
