//! Which statements change what a new session may do or begins with, and whose sessions that concerns.
//!
//! Reads texts like `GRANT`, `ALTER USER`, `SET PASSWORD`, `FLUSH PRIVILEGES` and `SET GLOBAL`; a text that begins
//! otherwise costs a look at its first word and for a semicolon. When in doubt, a statement concerns all users. Writes
//! to the tables of the `mysql` schema are not among them: a server does not look at those before `FLUSH PRIVILEGES`.
//!
//! Invariant: a statement of a user that has no right to change anything concerns that user alone ([`is_refusal`]): it
//! costs no other user its connections.

use crate::compound::CONTROL;
use crate::kept::Server;
use crate::marks::Marks;
use serde::{Deserialize, Serialize};
use wire::lex::{Dialect, Token, scope_and_name};
use wire::text::{Lexed, Text};

/// A statement that changes rights, once it has run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub whose: Whose,
    /// It stands alone: if the server refuses it, nothing has changed.
    pub is_sole: bool,
}

/// Whose sessions a change concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    All,
    /// The user that runs it, and those of these names. Some are words of the statement that name no user.
    Own(Vec<Box<[u8]>>),
}

/// More names than this are all.
const NAMES_MAX: usize = 64;

impl Change {
    /// Reads a text. A role's rights are others', too: on MariaDB an account without a host part may be a role, on
    /// MySQL any.
    pub fn read(text: Text<'_>, server: Server) -> Option<Self> {
        if !may_change(text) {
            return None;
        }
        match text.other() {
            None => Self::read_one(text, server),
            // It depends on the server which of the two is run.
            Some(other) => match (Self::read_one(text, server), Self::read_one(other, server)) {
                (None, None) => None,
                _ => Some(Self::of_all()),
            },
        }
    }

    fn read_one(text: Text<'_>, server: Server) -> Option<Self> {
        let mut reader = Reader::new(server);
        let tokens = text.tokens();
        if tokens.is_cut() {
            return Some(Self::of_all());
        }
        tokens.for_each(|token| reader.read(token, text.dialect));
        reader.settle_role(None);
        if reader.marks.has(Mark::InDoubt) {
            return Some(Self::of_all());
        }
        let is_plain = reader.statements == 1 && !tokens.saw_executable_comment();
        match reader.found {
            Some(found) if is_plain => Some(found),
            None if is_plain || !reader.marks.has(Mark::Prepares) => None,
            _ => Some(Self::of_all()),
        }
    }

    /// What cannot be read any further.
    pub const fn of_all() -> Self {
        Self { whose: Whose::All, is_sole: false }
    }
}

/// Names by which a client has prepared changes (`PREPARE s FROM 'GRANT …'`), to be executed later.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PreparedChanges(Vec<Box<[u8]>>);

/// The oldest one is forgotten for one more.
const PREPARED_MAX: usize = 16;

impl PreparedChanges {
    /// Whether a text may prepare a change, or execute one that was prepared.
    pub fn may_concern(text: Text<'_>) -> bool {
        text.may_begin_with(&["PREPARE", "EXECUTE"])
    }

    /// Reads a text that is no change by itself: it may prepare one, or execute one that was prepared.
    pub fn read(&mut self, text: Text<'_>, server: Server) -> Option<Change> {
        let mut tokens = text.tokens();
        let verb = tokens.next()?;
        let name = match (verb, tokens.next()?) {
            (Token::Word(verb), Token::Word(name) | Token::Quoted(name))
                if is_one_of(verb, &["PREPARE", "EXECUTE"]) =>
            {
                name
            }
            _ => return None,
        };
        if verb.is_word("EXECUTE") {
            let is_change = self.0.iter().any(|it| it.eq_ignore_ascii_case(name));
            return is_change.then_some(Change { whose: Whose::All, is_sole: true });
        }
        self.0.retain(|it| !it.eq_ignore_ascii_case(name));
        if let (Some(_), Some(Token::String(inner))) = (tokens.next(), tokens.next())
            && Reader::is_change(inner, text.dialect, server)
        {
            if self.0.len() >= PREPARED_MAX {
                self.0.remove(0);
            }
            self.0.push(name.into());
        }
        None
    }
}

/// Whether a statement that ended in this error has changed nothing: the server did not understand it, or does not
/// let this user do it. (`DROP USER a, b` has dropped `a` if there is no `b`, and fails all the same.)
pub const fn is_refusal(code: u16) -> bool {
    const CODES: [u16; 16] = [
        1044, 1045, 1064, 1142, 1143, 1193, 1227, 1231, 1232, 1238, 1290, 1370, 1410, 1698, 1820,
        1959,
    ];
    let mut at = 0;
    while at < CODES.len() {
        if CODES[at] == code {
            return true;
        }
        at += 1;
    }
    false
}

/// What a statement begins with that may change rights.
const VERBS: [&str; 9] =
    ["GRANT", "REVOKE", "CREATE", "ALTER", "DROP", "RENAME", "SET", "FLUSH", "EXECUTE"];

/// Whether a text is worth reading.
fn may_change(text: Text<'_>) -> bool {
    let bytes = text.bytes.trim_ascii_end();
    text.may_begin_with(&VERBS) || bytes.strip_suffix(b";").unwrap_or(bytes).contains(&b';')
}

/// What the current statement is, as far as it has been read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Begin,
    /// `CREATE` or `ALTER`, and nothing but `OR REPLACE` behind it.
    Define,
    /// `DROP` or `RENAME`.
    Drop,
    Set,
    /// `SET STATEMENT`, in front of another one.
    SetStatement,
    Flush,
    Execute,
    Immediate,
    Prepare,
    /// One that changes rights, where no account is named yet.
    Changes,
    /// One that changes rights, where an account is named next.
    Account,
    /// Behind an account.
    Named,
    Other,
}

/// What stood before a token of `SET`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    /// A variable may follow.
    Target,
    Default,
    Other,
}

struct Reader {
    server: Server,
    statements: u32,
    state: State,
    previous: Last,
    found: Option<Change>,
    marks: Marks<Mark>,
}

/// What is known of a text.
#[derive(Clone, Copy)]
enum Mark {
    /// If an account is a role, the change concerns each user that has it.
    CountsRoles,
    /// An account has just been named, whose host part has not been seen.
    MayBeRole,
    /// One of the statements prepares a change.
    Prepares,
    /// It is part of a compound statement, in which others stand behind words of control.
    Compound,
    /// It cannot be read to its end.
    InDoubt,
    /// A dot, or a string, stood before this token.
    WasDot,
    WasString,
}

crate::marks!(Mark);

impl Reader {
    fn new(server: Server) -> Self {
        Self {
            server,
            statements: 0,
            state: State::Begin,
            previous: Last::Other,
            found: None,
            marks: Marks::default(),
        }
    }

    fn read(&mut self, token: Token<'_>, dialect: Dialect) {
        self.settle_role(Some(token));
        match (self.state, token) {
            (_, Token::Unfinished) => self.marks.add(Mark::InDoubt),
            // `BEGIN NOT ATOMIC GRANT …; END`, `IF … THEN REVOKE …`, `DECLARE … HANDLER FOR 1 DROP USER …`.
            (State::Other, Token::Word(word))
                if self.marks.has(Mark::Compound)
                    && !self.marks.has(Mark::WasDot)
                    && is_one_of(word, &VERBS) =>
            {
                self.begin(token);
            }
            (_, Token::Symbol(b';')) => self.state = State::Begin,
            (State::Begin, token) => self.begin(token),
            (State::Define | State::Drop, Token::Word(word)) => self.define(word),
            (State::Define | State::Drop, _) => self.state = State::Other,
            // A label, before `BEGIN` or `LOOP`.
            (State::Other, Token::Symbol(b':')) if self.statements == 1 => {
                self.marks.add(Mark::Compound)
            }
            (State::Set, token) => self.set(token),
            (State::SetStatement, token) if token.is_word("FOR") => self.state = State::Begin,
            (State::Flush, token) if token.is_word("PRIVILEGES") => self.find_all(),
            (State::Execute, token) if token.is_word("IMMEDIATE") => self.state = State::Immediate,
            // What it runs is put together elsewhere.
            (State::Immediate, Token::UserVariable(_) | Token::Word(_)) => self.find_all(),
            (State::Immediate | State::Prepare, Token::String(text)) => {
                // What is prepared is executed by another statement, maybe of the same text.
                let is_plain = |byte: &u8| !matches!(byte, b'\\' | b'\'' | b'"');
                let is_change = !text.iter().all(is_plain)
                    || self.marks.has(Mark::WasString)
                    || Self::is_change(text, dialect, self.server);
                self.marks.add_if(Mark::Prepares, is_change && self.state == State::Prepare);
                if is_change && self.state == State::Immediate {
                    self.find_all();
                }
            }
            (State::Changes | State::Account | State::Named, token) => self.change(token),
            _ => {}
        }
        self.marks.set(Mark::WasDot, token == Token::Symbol(b'.'));
        self.marks.set(Mark::WasString, matches!(token, Token::String(_)));
        self.previous = match token {
            Token::Symbol(b',') => Last::Target,
            token if token.is_word("SET") => Last::Target,
            token if token.is_word("DEFAULT") => Last::Default,
            _ => Last::Other,
        };
    }

    /// What stands behind an account tells whether it may be a role.
    fn settle_role(&mut self, behind: Option<Token<'_>>) {
        let has_host = matches!(behind, Some(Token::UserVariable(_)));
        let was_role = self.marks.has(Mark::MayBeRole);
        self.marks.remove(Mark::MayBeRole);
        if was_role && !has_host {
            self.find_all();
        }
    }

    /// Whether a text within a text is a change; another one within that counts as one.
    fn is_change(text: &[u8], dialect: Dialect, server: Server) -> bool {
        let mut inner = Self::new(server);
        let lexed = Lexed::default();
        let mut tokens = lexed.text(text, dialect).tokens();
        tokens.is_cut()
            || tokens.any(|token| {
                inner.read(token, dialect);
                inner.found.is_some()
                    || inner.marks.has(Mark::InDoubt)
                    || inner.state == State::Immediate
            })
            || tokens.saw_executable_comment()
    }

    fn begin(&mut self, token: Token<'_>) {
        if token == Token::Symbol(b'(') {
            return;
        }
        self.statements += 1;
        self.marks.set(Mark::CountsRoles, false);
        let Token::Word(word) = token else {
            self.marks.add(Mark::Compound);
            return self.state = State::Other;
        };
        self.marks.add_if(Mark::Compound, is_one_of(word, &CONTROL) || is_one_of(word, &["BEGIN"]));
        self.state = match () {
            () if is_one_of(word, &["GRANT", "REVOKE"]) => {
                self.marks.add(Mark::CountsRoles);
                return self.find(State::Changes);
            }
            () if is_one_of(word, &["CREATE", "ALTER"]) => State::Define,
            () if is_one_of(word, &["DROP", "RENAME"]) => State::Drop,
            () if is_one_of(word, &["SET"]) => State::Set,
            () if is_one_of(word, &["FLUSH"]) => State::Flush,
            () if is_one_of(word, &["EXECUTE"]) => State::Execute,
            () if is_one_of(word, &["PREPARE"]) => State::Prepare,
            () => State::Other,
        };
    }

    /// The word behind `CREATE` and the like.
    fn define(&mut self, word: &[u8]) {
        if is_one_of(word, &["USER", "ROLE"]) {
            self.marks.set(Mark::CountsRoles, self.state == State::Drop);
            self.find(State::Account);
        } else if !is_one_of(word, &["OR", "REPLACE"]) {
            self.state = State::Other;
        }
    }

    fn set(&mut self, token: Token<'_>) {
        let is_target = self.previous == Last::Target;
        match token {
            Token::Word(word) if is_one_of(word, &GLOBAL) => self.find_all(),
            Token::SystemVariable(name) if is_target && is_global(name) => self.find_all(),
            Token::Word(word) if is_target && is_one_of(word, &["PASSWORD"]) => {
                self.find(State::Changes);
            }
            Token::Word(word) if is_one_of(word, &["ROLE"]) && self.previous == Last::Default => {
                self.find(State::Changes);
            }
            Token::Word(word) if is_target && is_one_of(word, &["STATEMENT"]) => {
                self.state = State::SetStatement;
            }
            _ => {}
        }
    }

    /// Goes on in a statement that changes rights.
    fn change(&mut self, token: Token<'_>) {
        match token {
            // `SET PASSWORD = …, GLOBAL x = …`
            Token::Word(word) if is_one_of(word, &GLOBAL) => self.find_all(),
            Token::SystemVariable(name) if is_global(name) => self.find_all(),
            Token::Word(word) if is_one_of(word, &["TO", "FROM", "FOR"]) => {
                self.state = State::Account;
            }
            Token::Symbol(b',') if self.state == State::Named => self.state = State::Account,
            Token::Word(word) if is_one_of(word, &["IF", "NOT", "EXISTS"]) => {}
            Token::Word(name) | Token::Quoted(name) | Token::String(name)
                if self.state == State::Account =>
            {
                self.state = State::Named;
                self.name(name);
            }
            _ => {}
        }
    }

    fn name(&mut self, name: &[u8]) {
        let is_plain = |byte: &u8| byte.is_ascii() && !matches!(byte, b'\'' | b'"' | b'`' | b'\\');
        let Some(Change { whose: Whose::Own(names), .. }) = &mut self.found else { return };
        let is_known = !name.is_empty() && name.iter().all(is_plain) && names.len() < NAMES_MAX;
        if !is_known || self.marks.has(Mark::CountsRoles) && self.server == Server::MySql {
            return self.find_all();
        }
        names.push(name.into());
        self.marks.set(Mark::MayBeRole, self.marks.has(Mark::CountsRoles));
    }

    fn find(&mut self, state: State) {
        self.state = state;
        let found = Change { whose: Whose::Own(Vec::new()), is_sole: true };
        self.found.get_or_insert(found);
    }

    fn find_all(&mut self) {
        self.found = Some(Change { whose: Whose::All, is_sole: true });
    }
}

/// What is set for sessions to come.
const GLOBAL: [&str; 3] = ["GLOBAL", "PERSIST", "PERSIST_ONLY"];

fn is_global(variable: &[u8]) -> bool {
    is_one_of(scope_and_name(variable).0, &GLOBAL)
}

fn is_one_of(word: &[u8], words: &[&str]) -> bool {
    words.iter().any(|it| it.as_bytes().eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, is_mysql: bool) -> Option<Change> {
        let server = if is_mysql { Server::MySql } else { Server::MariaDb };
        Change::read(Lexed::default().text(text.as_bytes(), Dialect::default()), server)
    }

    /// The names that a change concerns beside its own user; `None`: all.
    fn names(text: &str, is_mysql: bool) -> Option<Vec<String>> {
        let change = read(text, is_mysql).expect(text);
        match change.whose {
            Whose::All => None,
            Whose::Own(names) => {
                Some(names.iter().map(|it| String::from_utf8_lossy(it).into_owned()).collect())
            }
        }
    }

    #[test]
    fn what_changes_nothing_is_passed_over() {
        for text in [
            "SELECT 1",
            "SET x = 1, @y = 2",
            "SET NAMES utf8mb4",
            "SET ROLE r1",
            "SET STATEMENT max_statement_time = 1 FOR SELECT 1",
            "SET SESSION x = @@GLOBAL.x",
            "CREATE TABLE user (user INT, role INT)",
            "ALTER TABLE `user` ADD password INT",
            "CREATE VIEW v AS SELECT 'GRANT'",
            "DROP TABLE role",
            "FLUSH TABLES",
            "SELECT 1; SELECT 'GRANT ALL'",
            "EXECUTE IMMEDIATE 'SELECT 1'",
            "INSERT INTO t VALUES ('; DROP USER a')",
            "",
            "-- GRANT",
        ] {
            assert_eq!(read(text, false), None, "{text}");
        }
    }

    #[test]
    fn what_concerns_all() {
        for text in [
            "GRANT SELECT ON a.* TO r",
            "GRANT SELECT ON a.* TO a@localhost, r WITH GRANT OPTION",
            "GRANT SELECT ON a.* TO ''@localhost",
            "GRANT SELECT ON a.* TO 'o\\'b'@localhost",
            "GRANT SELECT ON a.* TO größe@localhost",
            "REVOKE SELECT ON a.* FROM PUBLIC",
            "REVOKE r FROM q",
            "/* x */ drop role r",
            "DROP USER IF EXISTS a",
            "RENAME USER a TO b@h",
            "FLUSH LOCAL PRIVILEGES",
            "SET GLOBAL x = 1",
            "SET PERSIST x = 1",
            "SET y = 2, @@persist_only.x = 1",
            "SET @@`x` = 1, @@GLOBAL.x = 1",
            "SET PASSWORD = 'x', GLOBAL x = 1",
            "SELECT 1; GRANT SELECT ON a.* TO a@localhost",
            "GRANT SELECT ON a.* TO a@localhost; SELECT 1",
            "/*!50000 GRANT SELECT ON a.* TO a@localhost */",
            "EXECUTE IMMEDIATE 'GRANT SELECT ON a.* TO a@localhost'",
            "EXECUTE IMMEDIATE \"EXECUTE IMMEDIATE 'SELECT 1'\"",
            "SET STATEMENT x = 1 FOR FLUSH PRIVILEGES",
            "BEGIN NOT ATOMIC REVOKE SELECT ON a.* FROM a@localhost; END",
            "IF 1 THEN REVOKE SELECT ON a.* FROM a@localhost; END IF",
            "a: LOOP DROP USER b; LEAVE a; END LOOP",
            "BEGIN NOT ATOMIC DECLARE EXIT HANDLER FOR 1 GRANT SELECT ON a.* TO b@h; END",
            "/*!99999 ' */ REVOKE SELECT ON a.* FROM a@localhost -- '",
            "/*!50701 SELECT */ REVOKE SELECT ON a.* FROM a@localhost",
            "select 1 --\x7f '\n; revoke select on a.* from a@localhost -- '",
            "EXECUTE IMMEDIATE 'GR\\ANT SELECT ON a.* TO a@localhost'",
            "EXECUTE IMMEDIATE CONCAT('GR', 'ANT SELECT ON a.* TO a@localhost')",
            "SET @@global . x = 1",
        ] {
            assert_eq!(names(text, false), None, "{text}");
        }
        for text in ["GRANT SELECT ON a.* TO a@localhost", "DROP USER a@localhost"] {
            assert_eq!(names(text, true), None, "{text}");
        }
    }

    #[test]
    fn what_concerns_those_that_it_names() {
        for (text, concerned) in [
            ("GRANT SELECT ON a.* TO a@localhost", "a"),
            ("GRANT r TO 'a'@'%', `b`@h WITH ADMIN OPTION", "a b"),
            ("REVOKE SELECT (x, y), INSERT ON a.t FROM a@localhost", "a"),
            ("grant all on *.* to a@'%' identified by 'p', b@'%' identified by 'q'", "a b"),
            ("DROP USER IF EXISTS a@h, b@h", "a b"),
            ("RENAME USER a@h TO b@h", "a b"),
        ] {
            assert_eq!(names(text, false).map(|it| it.join(" ")).as_deref(), Some(concerned));
        }
        for (text, concerned) in [
            ("CREATE USER IF NOT EXISTS a IDENTIFIED BY 'x', 'b'@'h'", "a b"),
            ("CREATE OR REPLACE USER a", "a"),
            ("ALTER USER a ACCOUNT LOCK", "a"),
            ("ALTER USER USER() IDENTIFIED BY 'x'", "USER"),
            ("SET PASSWORD = PASSWORD('x')", ""),
            ("SET PASSWORD FOR 'a'@'%' = PASSWORD('x')", "a"),
            ("SET DEFAULT ROLE NONE TO a, b@h", "a b"),
            ("SET DEFAULT ROLE r FOR a", "a"),
            ("CREATE ROLE r", "r"),
        ] {
            for is_mysql in [false, true] {
                let named = names(text, is_mysql).map(|it| it.join(" "));
                assert_eq!(named.as_deref(), Some(concerned), "{text}");
            }
        }
    }

    #[test]
    fn what_is_prepared_by_name_is_a_change_when_it_is_executed() {
        let mut prepared = PreparedChanges::default();
        let mut read = |text: &str| {
            prepared
                .read(Lexed::default().text(text.as_bytes(), Dialect::default()), Server::MariaDb)
        };
        assert_eq!(read("PREPARE a FROM 'GRANT SELECT ON a.* TO a@localhost'"), None);
        assert_eq!(read("PREPARE b FROM 'SELECT 1'"), None);
        assert_eq!((read("EXECUTE b"), read("SELECT 1"), read("EXECUTE")), (None, None, None));
        assert_eq!(read("EXECUTE `A` USING 1").map(|it| it.whose), Some(Whose::All));
        assert_eq!(read("PREPARE a FROM @x"), None);
        assert_eq!(read("EXECUTE a"), None);
        let both = "PREPARE a FROM 'FLUSH PRIVILEGES'; EXECUTE a";
        assert_eq!(names(both, false), None);
        let alone = b"PREPARE a FROM 'FLUSH PRIVILEGES'";
        assert_eq!(
            Change::read(Lexed::default().text(alone, Dialect::default()), Server::MariaDb),
            None
        );
    }

    #[test]
    fn one_that_stands_alone_changes_nothing_if_it_is_refused() {
        assert!(read("DROP USER a@h;", false).is_some_and(|it| it.is_sole));
        assert!(read("DO 1; DROP USER a@h", false).is_some_and(|it| !it.is_sole));
        assert!(is_refusal(1227) && is_refusal(1064) && !is_refusal(1396));
    }
}
