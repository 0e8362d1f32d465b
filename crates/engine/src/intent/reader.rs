//! Reads the statements of a text once, front to back: what each would leave behind, and what it
//! asks for.

use wire::lex::{Token, scope_and_name};
use wire::text::{Text, Tokens};

use super::alters;
use super::traits::Trait;
use crate::counts::{Asked, Finds};
use crate::marks::Marks;
use crate::own_id;
use crate::pin::Pin;

use super::builtins::{BUILTINS, LONGEST, is_one_of, upper};
use super::diagnostics_use::DiagnosticsUse;
use super::digest::{Digest, Digester};
use super::ends::Ends;
use super::inserts::{self, Inserts};
use super::looks::{LooksReader, LooksUp};
use super::moves::Moves;
use super::sets::{SetReader, Sets};
use super::words;

/// What was found in a text, which may hold several statements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Intent {
    /// The first reason found to keep the backend.
    pub pin: Option<Pin>,
    /// The first one that is not what a routine may do, which a user's configuration may have an answer to.
    pub besides_routines: Option<Pin>,
    /// What becomes of its transaction if the server does not answer.
    pub ends: Ends,
    /// What else is true of it.
    pub traits: Marks<Trait>,
    pub inserts: Inserts,
    /// The counts of rows that it asks for.
    pub counts: Asked,
    /// What it does to the count of rows found.
    pub finds: Finds,
    /// What becomes of the count of rows affected if it fails.
    pub looks_up: LooksUp,
    /// Whether it enters a schema.
    pub moves: Moves,
    /// What it does with the diagnostics of statements before it.
    pub diagnostics: DiagnosticsUse,
    /// The digest of the statement, if it only reads: it changes nothing, locks nothing, and asks for nothing of its
    /// session. To run it twice has no observable effect.
    pub read: Option<Digest>,
    /// The same for any statement, whatever it does.
    pub digest: Digest,
    /// Is a `SET` statement that does nothing but set variables which other backends can be told as well.
    pub sets: Option<Sets>,
}

impl Intent {
    #[inline]
    pub fn has(&self, what: Trait) -> bool {
        self.traits.has(what)
    }

    /// Reads a text that is there as a whole.
    pub fn read(text: Text<'_>) -> Self {
        let read = |text: Text<'_>| {
            let mut reader = Reader::new(text.tokens());
            reader.run();
            reader.found
        };
        let found = read(text);
        match text.other() {
            None => found,
            Some(other) => found.or(read(other)),
        }
    }

    fn pin(&mut self, pin: Pin) {
        self.pin.get_or_insert(pin);
        if matches!(pin, Pin::Call | Pin::Function) {
            self.traits.add(Trait::Calls);
        } else {
            self.besides_routines.get_or_insert(pin);
            self.traits.add_if(Trait::BeyondReset, !pin.ends_with_reset());
        }
    }
}

/// What the current statement is, as far as it changes how its words are read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    /// Not begun.
    None,
    /// Everything whose words are judged one by one.
    Other,
    /// Its first parenthesis holds a list of columns, not a function's arguments.
    Insert,
    /// `LOAD`: so do all before its `SET`.
    Load,
    /// Tables are named that the statement proper reads, perhaps with their columns.
    With,
    /// Defines something: parentheses hold definitions until a `SELECT` comes.
    Define,
    Show,
    Flush,
    Begin,
    Set,
    /// `COMMIT` or `ROLLBACK`.
    End,
    Kill,
}

/// Whether a name behind this is one that the statement gives to a table: `WITH a`, `AS a`, `(SELECT …) a`.
fn names_table(previous: Token<'_>) -> bool {
    previous == Token::Symbol(b')')
        || ["AS", "WITH", "RECURSIVE"].iter().any(|word| previous.is_word(word))
}

/// Whether rows are selected, and in the plainest way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Selects {
    No,
    One,
    /// Parts of it, or more than one: how many rows it finds is not how many it sends.
    Several,
}

pub(super) struct Reader<'a> {
    tokens: Tokens<'a>,
    pub(super) found: Intent,
    pub(super) verb: Verb,
    pub(super) statements: u32,
    /// Parentheses that are open.
    pub(super) depth: usize,
    /// What is known of the statement so far.
    pub(super) marks: Marks<Mark>,
    ends: Ends,
    digester: Digester,
    selects: Selects,
    /// How far a `SET` statement has been read.
    set: Option<SetReader>,
    looks_up: LooksReader,
}

/// What a reader knows of the statement that it is in.
#[derive(Clone, Copy)]
pub(super) enum Mark {
    /// The last word stood behind a dot.
    Qualified,
    /// The last name is that of a table, as given by the statement: a parenthesis behind it holds columns.
    Named,
    /// Nothing but a `SELECT` has been seen so far.
    OnlyReads,
    /// Another statement stands before this one.
    Behind,
    Use,
    Insert,
    Select,
    /// Its strings may be statements.
    Prepares,
    /// It is `SHOW WARNINGS` or `SHOW ERRORS`, without a count.
    ShowsDiagnostics,
    /// It has a `LIMIT`, so that a comma may separate an offset from it.
    Limits,
}

crate::marks!(Mark);

impl<'a> Reader<'a> {
    fn new(tokens: Tokens<'a>) -> Self {
        Self {
            tokens,
            found: Intent::default(),
            verb: Verb::None,
            statements: 0,
            depth: 0,
            marks: Marks::default(),
            ends: Ends::default(),
            digester: Digester::default(),
            selects: Selects::No,
            set: None,
            looks_up: LooksReader::default(),
        }
    }

    fn run(&mut self) {
        let mut previous = Token::Symbol(b';');
        while let Some(token) = self.tokens.next() {
            if self.verb == Verb::None {
                self.begin(token);
            } else {
                self.go_on(previous, token);
            }
            self.digester.add(token);
            previous = token;
        }
        if self.tokens.is_cut() {
            self.found = Intent { digest: self.digester.digest(), ..Intent::default() };
            self.found.traits.add(Trait::Alters);
            return self.found.pin(Pin::Unreadable);
        }
        self.found.digest = self.digester.digest();
        let is_plain = self.statements == 1 && !self.tokens.saw_executable_comment();
        if !is_plain {
            for sole in [Trait::Begin, Trait::End, Trait::Releases] {
                self.found.traits.remove(sole);
            }
        }
        if is_plain && self.marks.has(Mark::Use) {
            self.found.moves = Moves::IntoSchema;
        }
        self.end_set();
        self.finish_set();
        if self.set.is_some() && self.found.pin.is_some() {
            // Not all of it has been read.
            self.doubt_diagnostics();
        }
        let asks = self.found.has(Trait::AsksInsertId)
            || self.found.counts != Asked::default()
            || self.found.diagnostics.are_asked_for();
        if is_plain && self.marks.has(Mark::OnlyReads) && !asks && self.found.pin.is_none() {
            self.found.read = Some(self.digester.digest());
        }
        self.found.ends = if is_plain {
            self.ends.judged(self.found.has(Trait::End), self.found.sets)
        } else {
            Ends::Perhaps
        };
        self.found.looks_up = self.looks_up.end(!self.tokens.saw_executable_comment());
        self.found.finds = match (is_plain, self.selects) {
            (true, Selects::No) if self.found.has(Trait::Begin) || self.found.has(Trait::End) => {
                Finds::Nothing
            }
            (true, Selects::No) if self.found.sets.is_some() || self.marks.has(Mark::Use) => {
                Finds::Nothing
            }
            (true, Selects::No) if self.marks.has(Mark::ShowsDiagnostics) => Finds::Nothing,
            // What triggers select is not counted.
            (true, Selects::No) if self.marks.has(Mark::Insert) => Finds::Nothing,
            (true, Selects::One) if self.marks.has(Mark::OnlyReads) => Finds::Rows,
            (true, _) if self.marks.has(Mark::Select) => Finds::Anew,
            _ => Finds::Unknown,
        };
    }

    /// A `SET` that names nothing is no `SET`.
    fn end_set(&mut self) {
        if self.verb == Verb::Set && self.set.is_none_or(|set| set.sets.count == 0) {
            self.found.pin(Pin::Set);
        }
    }

    /// A `SET` among other statements changes how those behind it are read; one that is hidden in a comment may or
    /// may not be run.
    fn finish_set(&mut self) {
        let Some(set) = self.set else { return };
        if self.statements > 1 || self.tokens.saw_executable_comment() {
            self.found.pin(Pin::Set);
        }
        if self.found.pin.is_none() {
            self.found.sets = Some(set.sets);
        }
    }

    /// The first token of a statement.
    fn begin(&mut self, token: Token<'a>) {
        let word = match token {
            Token::Symbol(b';' | b'(') => return,
            Token::Word(word) => word,
            _ => b"",
        };
        self.statements += 1;
        self.verb = Verb::Other;
        let mut name = [0; LONGEST];
        let name = upper(word, &mut name);
        self.ends = Ends::of(name);
        self.looks_up.begin(name);
        self.found.traits.add_if(Trait::Fires, inserts::may_fire(name));
        self.found.traits.add_if(Trait::Alters, alters::may_alter(name));
        let (verb, pin) = self.first_word(name);
        self.begin_diagnostics(word);
        self.verb = verb;
        self.marks
            .set(Mark::OnlyReads, self.statements == 1 && word.eq_ignore_ascii_case(b"SELECT"));
        self.marks.set(Mark::Select, self.marks.has(Mark::OnlyReads));
        if self.marks.has(Mark::Select) {
            self.selects = Selects::One;
        }
        self.marks.set(Mark::Insert, is_one_of(word, &["INSERT", "REPLACE"]));
        self.marks.set(Mark::Use, word.eq_ignore_ascii_case(b"USE"));
        self.marks.set(Mark::Prepares, pin == Some(Pin::TextPrepare));
        if let Some(pin) = pin {
            self.found.pin(pin);
        }
    }

    /// What a statement is that begins with this word, in capitals, and why it keeps its backend, if it does.
    fn first_word(&mut self, name: &[u8]) -> (Verb, Option<Pin>) {
        match name {
            b"WITH" => (Verb::With, None),
            b"SELECT" | b"VALUES" | b"TABLE" | b"DO" | b"USE" | b"DESCRIBE" | b"DESC"
            | b"EXPLAIN" | b"HELP" | b"SAVEPOINT" | b"RELEASE" | b"OPTIMIZE" | b"CHECK"
            | b"REPAIR" | b"CHECKSUM" | b"PURGE" | b"SHUTDOWN" => (Verb::Other, None),
            b"UPDATE" | b"DELETE" => {
                self.clear_diagnostics();
                (Verb::Other, None)
            }
            b"INSERT" | b"REPLACE" => {
                self.found.inserts = Inserts::Reported;
                self.clear_diagnostics();
                (Verb::Insert, None)
            }
            // `ANALYZE` runs what it analyses.
            b"LOAD" | b"ANALYZE" => {
                self.found.inserts = Inserts::Unreported;
                (if name == b"LOAD" { Verb::Load } else { Verb::Other }, None)
            }
            b"CREATE" => {
                self.found.inserts = Inserts::Reported;
                (Verb::Define, None)
            }
            b"ALTER" | b"DROP" | b"TRUNCATE" | b"RENAME" | b"GRANT" | b"REVOKE" => {
                (Verb::Define, None)
            }
            b"SHOW" => (Verb::Show, None),
            b"FLUSH" => (Verb::Flush, None),
            b"BEGIN" | b"START" => {
                self.found.traits.add(Trait::Begin);
                (Verb::Begin, None)
            }
            b"COMMIT" | b"ROLLBACK" => {
                self.found.traits.add(Trait::EndsTransaction);
                self.found.traits.add(Trait::End);
                (Verb::End, None)
            }
            b"KILL" => {
                self.found.traits.add(Trait::Kill);
                (Verb::Kill, None)
            }
            b"SET" => {
                self.set = Some(SetReader::new());
                (Verb::Set, None)
            }
            b"CALL" => (Verb::Other, Some(Pin::Call)),
            b"PREPARE" | b"EXECUTE" | b"DEALLOCATE" => (Verb::Other, Some(Pin::TextPrepare)),
            b"LOCK" | b"UNLOCK" | b"BACKUP" => (Verb::Other, Some(Pin::TableLock)),
            b"HANDLER" => (Verb::Other, Some(Pin::Handler)),
            b"XA" => (Verb::Other, Some(Pin::Xa)),
            b"GET" => {
                self.ask_for_diagnostics(DiagnosticsUse::Diagnosed);
                self.found.counts.affected |= !self.marks.has(Mark::Behind);
                // What it gets goes into user variables; these pin.
                (Verb::Other, None)
            }
            // It leaves those before where they are, and puts its own behind them.
            b"RESIGNAL" => {
                self.ask_for_diagnostics(DiagnosticsUse::Diagnosed);
                (Verb::Other, None)
            }
            // What it leaves is a message like another statement's.
            b"SIGNAL" => {
                self.clear_diagnostics();
                (Verb::Other, None)
            }
            _ => (Verb::Other, Some(Pin::Unreadable)),
        }
    }

    fn go_on(&mut self, previous: Token<'a>, token: Token<'a>) {
        self.looks_up.go_on(token);
        if matches!(token, Token::Word(_) | Token::Quoted(_)) {
            self.marks.set(Mark::Named, names_table(previous));
        }
        if let (Verb::Set, Some(set)) = (self.verb, &mut self.set)
            && token != Token::Symbol(b';')
        {
            if set.ends_with(token) {
                self.verb = Verb::None;
                return;
            }
            let was_value = set.is_value();
            self.found.traits.add_if(
                Trait::SetsNumber,
                !was_value && own_id::is_target(previous, token, self.tokens),
            );
            if let Some(pin) = set.read(token) {
                self.found.pin(pin);
            }
            self.found.traits.add_if(Trait::PassingMode, set.passing_mode);
            if !was_value && token != Token::Unfinished {
                // Of what is not read any further, this is still to be known.
                self.found.traits.add_if(Trait::AsksConnectionId, own_id::asks(token));
                return;
            }
        }
        match token {
            // Outside of functions' arguments, where it may stand as well.
            Token::Word(name)
                if self.depth == 0 && previous.is_word("FROM") && !is_one_of(name, &["DUAL"]) =>
            {
                self.clear_diagnostics();
                self.word(previous, name);
            }
            Token::Quoted(_) if self.depth == 0 && previous.is_word("FROM") => {
                self.clear_diagnostics()
            }
            Token::Symbol(b'(') if self.depth == 0 && previous.is_word("FROM") => {
                self.clear_diagnostics();
                self.depth += 1;
            }
            Token::Symbol(b')') => self.depth = self.depth.saturating_sub(1),
            Token::Symbol(b',') if self.marks.has(Mark::Limits) => self.selects = Selects::Several,
            Token::Symbol(b';') => {
                self.marks.add(Mark::Behind);
                self.depth = 0;
                self.end_set();
                self.verb = Verb::None;
            }
            Token::Symbol(b'(') => {
                if self.depth == 0 && previous == Token::Symbol(b',') {
                    self.inserts_more();
                }
                self.depth += 1;
                self.open(previous);
            }
            Token::Word(word) => self.word(previous, word),
            Token::UserVariable(_) | Token::Assign => self.found.pin(Pin::UserVariable),
            Token::SystemVariable(name) => self.system_variable(name),
            Token::String(text) if self.marks.has(Mark::Prepares) => {
                self.found.traits.add_if(Trait::AsksConnectionId, own_id::may_ask(text));
            }
            Token::Unfinished => {
                // What follows may run.
                self.found.traits.add(Trait::Alters);
                self.found.traits.add(Trait::AsksInsertId);
                self.found.pin(Pin::Unreadable);
            }
            Token::Quoted(_) | Token::String(_) | Token::Number(_) | Token::Symbol(_) => {}
        }
    }

    /// What it inserts, if it does, may be more than one row, or comes without a report.
    fn inserts_more(&mut self) {
        if self.found.inserts != Inserts::No {
            self.found.inserts = Inserts::Unreported;
        }
    }

    /// A parenthesis opens: is what stands before it a function that a user has defined?
    fn open(&mut self, previous: Token<'a>) {
        let is_unknown = match previous {
            Token::Quoted(_) if own_id::asks(previous) => {
                self.found.traits.add(Trait::AsksConnectionId);
                false
            }
            // Under ANSI_QUOTES a name may stand in double quotes; a string never stands here.
            Token::Quoted(_) | Token::String(_) => true,
            // A function of a schema is never built in, whatever its name.
            Token::Word(_) if self.marks.has(Mark::Qualified) => true,
            Token::Word(word) => {
                let mut name = [0; LONGEST];
                match upper(word, &mut name) {
                    b"LAST_INSERT_ID" => {
                        let mut ahead = self.tokens;
                        if ahead.next() != Some(Token::Symbol(b')')) {
                            self.found.pin(Pin::InsertId);
                        }
                        false
                    }
                    name => !is_stateful(name) && !is_builtin(name),
                }
            }
            _ => false,
        };
        // A server may leave out what stands in an executable comment, such as the `AS` before a name.
        let are_columns = !self.tokens.saw_executable_comment()
            && match self.verb {
                Verb::Load | Verb::With if self.depth == 1 => true,
                _ => self.marks.has(Mark::Named),
            };
        match self.verb {
            Verb::Insert => self.verb = Verb::Other,
            Verb::Define => {}
            _ if are_columns => {}
            _ if is_unknown => {
                self.found.pin(Pin::Function);
                self.doubt_diagnostics();
            }
            _ => {}
        }
    }

    fn word(&mut self, previous: Token<'a>, word: &'a [u8]) {
        match self.verb {
            Verb::Begin if !is_one_of(word, &["WORK", "TRANSACTION"]) => {
                self.found.traits.remove(Trait::Begin)
            }
            Verb::End if !is_one_of(word, &["WORK"]) => self.found.traits.remove(Trait::End),
            _ => {}
        }
        self.marks.set(Mark::Qualified, previous == Token::Symbol(b'.'));
        if !words::may_matter(word) {
            return;
        }
        let mut name = [0; LONGEST];
        let name = upper(word, &mut name);
        if matches!(name, b"SESSION_VARIABLES" | b"SYSTEM_VARIABLES") {
            self.found.traits.add(Trait::ShowsVariables);
            self.marks.remove(Mark::OnlyReads);
        }
        if self.marks.has(Mark::Qualified) {
            return;
        }
        let is_table = name == b"TABLE" && self.verb != Verb::Define;
        if is_table || matches!(name, b"SELECT" | b"WITH" | b"RETURNING") {
            self.inserts_more();
        }
        if is_table {
            self.selects = Selects::Several;
        }
        self.word_of_diagnostics(name);
        match name {
            b"SELECT" if self.selects == Selects::No => self.selects = Selects::One,
            b"SELECT"
            | b"UNION"
            | b"EXCEPT"
            | b"INTERSECT"
            | b"OFFSET"
            | b"FETCH"
            | b"ROWS"
            | b"PROCEDURE"
            | b"SQL_CALC_FOUND_ROWS" => self.selects = Selects::Several,
            b"LIMIT" => self.marks.add(Mark::Limits),
            _ => {}
        }
        self.judge_word(previous, name);
    }

    /// What it does by this word, which is in capitals and no part of a longer name.
    fn judge_word(&mut self, previous: Token<'a>, name: &[u8]) {
        match name {
            b"SELECT" | b"VALUES" | b"VALUE" | b"SET" if self.verb == Verb::Insert => {
                self.verb = Verb::Other;
            }
            b"SELECT" if self.verb == Verb::Define => self.verb = Verb::Other,
            b"SELECT" | b"VALUES" | b"TABLE" | b"UPDATE" | b"DELETE" | b"INSERT" | b"REPLACE"
                if self.verb == Verb::With && self.depth == 0 =>
            {
                self.verb = Verb::Other;
            }
            b"SET" if self.verb == Verb::Load && !previous.is_word("CHARACTER") => {
                self.verb = Verb::Other;
            }
            b"TEMPORARY" if self.verb == Verb::Define => self.found.pin(Pin::TemporaryTable),
            b"PROCEDURE" | b"FUNCTION" | b"TRIGGER" | b"EVENT" | b"PACKAGE"
                if self.verb == Verb::Define && !matches!(previous, Token::Symbol(_)) =>
            {
                // Bodies hold statements and semicolons of their own. Defining runs none of them, but where the
                // body ends cannot be told without parsing it.
                self.found.pin(Pin::Unreadable);
            }
            b"INTO" | b"UPDATE" | b"SHARE" | b"LOCK" => self.marks.remove(Mark::OnlyReads),
            b"GET_LOCK" | b"RELEASE_LOCK" | b"RELEASE_ALL_LOCKS" | b"IS_USED_LOCK" => {
                self.found.pin(Pin::UserLock);
            }
            b"SQL_CALC_FOUND_ROWS" => self.found.pin(Pin::FoundRows),
            // Behind another statement, they ask for what that one has done.
            b"FOUND_ROWS" => self.found.counts.found |= !self.marks.has(Mark::Behind),
            b"ROW_COUNT" => self.found.counts.affected |= !self.marks.has(Mark::Behind),
            b"WARNINGS" | b"ERRORS" if self.verb == Verb::Show => {
                self.marks.set(Mark::ShowsDiagnostics, previous.is_word("SHOW"));
                let how = if self.marks.has(Mark::ShowsDiagnostics) {
                    DiagnosticsUse::Shown
                } else {
                    DiagnosticsUse::Counted
                };
                self.ask_for_diagnostics(how);
            }
            b"VARIABLES" if self.verb == Verb::Show => {
                self.found.traits.add_if(Trait::ShowsVariables, !previous.is_word("GLOBAL"));
            }
            b"LAST_INSERT_ID" => self.found.traits.add(Trait::AsksInsertId),
            b"CONNECTION_ID" => self.found.traits.add(Trait::AsksConnectionId),
            b"NEXTVAL" | b"LASTVAL" | b"SETVAL" => self.found.pin(Pin::Sequence),
            b"VALUE" if previous.is_word("NEXT") || previous.is_word("PREVIOUS") => {
                self.found.pin(Pin::Sequence);
            }
            b"ATOMIC" if self.verb == Verb::Begin => self.found.pin(Pin::Unreadable),
            // COMMIT RELEASE ends the connection, COMMIT AND CHAIN begins another transaction.
            b"RELEASE" if self.verb == Verb::End && !previous.is_word("NO") => {
                self.found.traits.add(Trait::Releases);
                self.found.pin(Pin::State);
            }
            b"READ" | b"EXPORT" if self.verb == Verb::Flush => self.found.pin(Pin::TableLock),
            _ => {}
        }
    }

    fn system_variable(&mut self, name: &[u8]) {
        let (_, name) = scope_and_name(name);
        let mut capitals = [0; LONGEST];
        match upper(name, &mut capitals) {
            b"LAST_INSERT_ID" | b"IDENTITY" => self.found.traits.add(Trait::AsksInsertId),
            b"WARNING_COUNT" | b"ERROR_COUNT" => self.ask_for_diagnostics(DiagnosticsUse::Spent),
            b"LAST_GTID" => {
                self.found.traits.add(Trait::AsksGtid);
                self.marks.remove(Mark::OnlyReads);
            }
            b"PSEUDO_THREAD_ID" => self.found.traits.add(Trait::AsksConnectionId),
            _ => {}
        }
    }
}

/// Functions that are judged where their name is read.
fn is_stateful(name: &[u8]) -> bool {
    matches!(
        name,
        b"FOUND_ROWS"
            | b"ROW_COUNT"
            | b"CONNECTION_ID"
            | b"GET_LOCK"
            | b"RELEASE_LOCK"
            | b"RELEASE_ALL_LOCKS"
            | b"IS_USED_LOCK"
            | b"NEXTVAL"
            | b"LASTVAL"
            | b"SETVAL"
    )
}

/// Whether a name that stands before a parenthesis is a function of the server's own, or a word of its language.
pub(crate) fn is_builtin_function(name: &[u8]) -> bool {
    let mut capitals = [0; LONGEST];
    let name = upper(name, &mut capitals);
    is_stateful(name) || name == b"LAST_INSERT_ID" || is_builtin(name)
}

fn is_builtin(name: &[u8]) -> bool {
    BUILTINS.binary_search_by(|known| known.as_bytes().cmp(name)).is_ok()
}
