//! `SET` statements: which of them do nothing but give this session variables that another backend can be told as well.
//!
//! A target that is not certainly one of these pins. What the server does not report by itself is named, to be asked
//! for behind the statement: variables that are set as `@@x` without a scope, and the collation that comes with a
//! character set.

use wire::lex::{Token, scope_and_name};

use super::builtins::{LONGEST, upper};
use crate::marks::Marks;
use crate::pin::Pin;
use crate::session_variables::{Becomes, Collates, SessionVariable, Several};
use crate::trackers::{Listen, TRACKERS};

/// What a `SET` statement does, if all it does is to set known variables of its session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sets {
    pub marks: Marks<SetMark>,
    /// Variables that it sets without the server reporting them.
    pub unreported: Several,
    /// What it does to the collations of character sets.
    pub collates: Collates,
    /// How many assignments it has.
    pub count: u8,
}

/// What is true of a `SET` statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetMark {
    /// It is `SET NAMES` with nothing but names, so that its effect depends on nothing else.
    Names,
    /// It says which collation comes with a character set.
    NamesCollation,
    /// It asks for reports on other variables than a backend's server must report: behind it, the backend's reports
    /// must be asked for again, and all that it may have set without a report.
    Tracks,
    /// It asks to be told of changes of state, as a backend's server tells Flifo of them.
    TracksState,
    /// The same of transactions.
    TracksTransactions,
    /// It may end the transaction that it runs in (`autocommit`), or does what no rollback undoes (`GLOBAL`).
    BeyondTransaction,
    /// All that it does is to turn `autocommit` on.
    TurnsAutocommitOn,
}

crate::marks!(SetMark);

impl Sets {
    pub fn has(&self, mark: SetMark) -> bool {
        self.marks.has(mark)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Target(Scope),
    /// `CHARACTER`, which `SET` must follow.
    Character,
    /// Between the target and its value.
    Operator,
    Value,
    /// The value of a variable that says what the server reports.
    Tracker(usize),
    /// Behind it.
    Tracked,
    /// The characteristics of transactions: words and commas.
    Transaction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    None,
    Session,
    Global,
}

/// Reads the tokens behind `SET`.
#[derive(Clone, Copy, Debug)]
pub(super) struct SetReader {
    step: Step,
    depth: u32,
    pub(super) sets: Sets,
    /// `NAMES` was the target, and all since are names.
    names_only: bool,
    /// Which of [`TRACKERS`] the target is.
    tracker: Option<usize>,
    /// What it sets holds for the statement that follows in it (`SET STATEMENT … FOR …`).
    for_statement: bool,
    /// It sets `sql_mode` for that statement only.
    pub(super) passing_mode: bool,
    autocommit: Autocommit,
}

/// How far a `SET` has been read that may do nothing but turn `autocommit` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Autocommit {
    Not,
    AwaitsValue,
    On,
}

impl SetReader {
    pub(super) fn new() -> Self {
        let sets = Sets::default();
        Self {
            step: Step::Target(Scope::None),
            depth: 0,
            sets,
            names_only: false,
            tracker: None,
            for_statement: false,
            passing_mode: false,
            autocommit: Autocommit::Not,
        }
    }

    /// Reads the next token. The answer is a reason to pin, if it is one.
    pub(super) fn read(&mut self, token: Token<'_>) -> Option<Pin> {
        match self.step {
            Step::Target(scope) => return self.target(scope, token),
            Step::Character if token.is_word("SET") => self.step = Step::Value,
            Step::Character => return Some(Pin::Set),
            Step::Operator => match token {
                Token::Symbol(b'=') => {
                    self.step = self.tracker.take().map_or(Step::Value, Step::Tracker);
                }
                // `SET a.b = …` sets a variable of a procedure, or of a key cache.
                _ => return Some(Pin::Set),
            },
            Step::Value => match token {
                Token::Symbol(b'(') => (self.depth, self.names_only) = (self.depth + 1, false),
                Token::Symbol(b')') => self.depth = self.depth.saturating_sub(1),
                Token::Symbol(b',') if self.depth == 0 => {
                    (self.step, self.names_only) = (Step::Target(Scope::None), false);
                }
                // What is read there may be a view, which runs whatever its functions do.
                Token::Word(word) if reads_tables(word) => return Some(Pin::Set),
                Token::Word(word) if !word.eq_ignore_ascii_case(b"DEFAULT") => {
                    self.sets
                        .marks
                        .add_if(SetMark::NamesCollation, word.eq_ignore_ascii_case(b"COLLATE"));
                }
                Token::String(_) => {}
                _ => self.names_only = false,
            },
            Step::Tracker(at) => {
                self.step = Step::Tracked;
                return self.tracks(at, token);
            }
            Step::Tracked => match token {
                Token::Symbol(b',') => self.step = Step::Target(Scope::None),
                _ => return Some(Pin::Set),
            },
            Step::Transaction => {}
        }
        self.sets.marks.set(SetMark::Names, self.names_only && self.sets.count == 1);
        if self.autocommit != Autocommit::Not && token != Token::Symbol(b'=') {
            self.turn_on(token);
        }
        None
    }

    /// Behind a target that is `autocommit`: whether all of the value is a literal that is true.
    fn turn_on(&mut self, token: Token<'_>) {
        let is_true = match token {
            Token::Number(number) => number == b"1",
            Token::Word(word) => {
                word.eq_ignore_ascii_case(b"ON") || word.eq_ignore_ascii_case(b"TRUE")
            }
            _ => false,
        };
        self.autocommit = match self.autocommit {
            Autocommit::AwaitsValue if is_true => Autocommit::On,
            _ => Autocommit::Not,
        };
        self.sets.marks.set(SetMark::TurnsAutocommitOn, self.autocommit == Autocommit::On);
    }

    /// Whether behind this token another statement begins.
    pub(super) fn ends_with(&self, token: Token<'_>) -> bool {
        self.for_statement && self.is_value() && self.depth == 0 && token.is_word("FOR")
    }

    /// Whether the token in hand was read as part of the syntax of `SET`, rather than of a value.
    pub(super) fn is_value(&self) -> bool {
        matches!(self.step, Step::Value | Step::Tracker(_) | Step::Tracked)
    }

    /// A value of a variable that says what the server reports. What is not said as Flifo says it to a backend changes
    /// what Flifo is told there.
    fn tracks(&mut self, at: usize, token: Token<'_>) -> Option<Pin> {
        let (_, told, listen) = TRACKERS[at];
        let is_on = told == b"ON";
        let is_told = match token {
            Token::Word(word) => {
                word.eq_ignore_ascii_case(told) || is_on && word.eq_ignore_ascii_case(b"TRUE")
            }
            Token::String(text) => text.eq_ignore_ascii_case(told),
            Token::Number(number) => number == if is_on { &b"1"[..] } else { b"2" },
            _ => false,
        };
        let marks = &mut self.sets.marks;
        marks.add_if(SetMark::TracksState, listen == Some(Listen::State));
        marks.add_if(SetMark::TracksTransactions, listen == Some(Listen::Transactions));
        (!is_told).then_some(Pin::Set)
    }

    fn target(&mut self, scope: Scope, token: Token<'_>) -> Option<Pin> {
        let mut capitals = [0; LONGEST];
        match token {
            Token::Word(word) => match upper(word, &mut capitals) {
                b"SESSION" | b"LOCAL" if scope == Scope::None => {
                    self.step = Step::Target(Scope::Session);
                    return None;
                }
                b"GLOBAL" | b"PERSIST" | b"PERSIST_ONLY" if scope == Scope::None => {
                    self.step = Step::Target(Scope::Global);
                    return None;
                }
                b"ROLE" if scope == Scope::None => return Some(Pin::Role),
                b"STATEMENT" if scope == Scope::None && self.sets.count == 0 => {
                    self.for_statement = true;
                    self.count(Step::Target(Scope::None));
                    return Some(Pin::Set);
                }
                b"TRANSACTION" => {
                    self.count(Step::Transaction);
                    return None;
                }
                b"NAMES" if scope == Scope::None => {
                    self.names_only = true;
                    self.sets.collates = Collates::both(Becomes::AsConnection);
                    self.sets.unreported.add(SessionVariable::COLLATION);
                    self.count(Step::Value);
                }
                b"CHARACTER" if scope == Scope::None => {
                    self.sets.collates = Collates::both(Becomes::Own);
                    self.sets.unreported.add(SessionVariable::COLLATION);
                    self.count(Step::Character);
                }
                b"CHARSET" if scope == Scope::None => {
                    self.sets.collates = Collates::both(Becomes::Own);
                    self.sets.unreported.add(SessionVariable::COLLATION);
                    self.count(Step::Value);
                }
                name => return self.variable(scope, name),
            },
            Token::Quoted(name) => return self.variable(scope, name),
            Token::SystemVariable(name) => return self.system_variable(name),
            Token::UserVariable(_) => return Some(Pin::UserVariable),
            _ => return Some(Pin::Set),
        }
        None
    }

    /// A variable whose new value the server reports, if it is the session's.
    fn variable(&mut self, scope: Scope, name: &[u8]) -> Option<Pin> {
        self.count(Step::Operator);
        let is_autocommit = name.eq_ignore_ascii_case(b"autocommit");
        self.sets.marks.add_if(SetMark::BeyondTransaction, scope == Scope::Global || is_autocommit);
        if scope == Scope::Global {
            return None;
        }
        if is_autocommit && self.sets.count == 1 {
            self.autocommit = Autocommit::AwaitsValue;
        }
        if name.eq_ignore_ascii_case(b"session_track_system_variables") {
            self.sets.marks.add(SetMark::Tracks);
            return None;
        }
        let is_it = |(of, ..): &(&[u8], _, _)| name.eq_ignore_ascii_case(of);
        if let Some(at) = TRACKERS.iter().position(is_it) {
            self.tracker = Some(at);
            return None;
        }
        self.passing_mode |= self.for_statement && name.eq_ignore_ascii_case(b"sql_mode");
        let is_connection = name.eq_ignore_ascii_case(b"character_set_connection");
        if name.eq_ignore_ascii_case(b"character_set_results") {
            self.sets.collates.results = Becomes::Own;
        } else if name.eq_ignore_ascii_case(b"character_set_client") {
            self.sets.collates.client = Becomes::Own;
        } else if self.sets.collates.follow_connection()
            && (is_connection || name.eq_ignore_ascii_case(b"collation_connection"))
        {
            // Behind `NAMES`: character sets have the collation that came with it, whatever the connection's is now.
            return Some(Pin::Set);
        }
        if is_connection {
            self.sets.unreported.add(SessionVariable::COLLATION);
            return None;
        }
        SessionVariable::named(name).is_none().then_some(Pin::Set)
    }

    fn system_variable(&mut self, name: &[u8]) -> Option<Pin> {
        let (scope, name) = scope_and_name(name);
        let mut capitals = [0; LONGEST];
        match upper(scope, &mut capitals) {
            b"SESSION" | b"LOCAL" => self.variable(Scope::Session, name),
            b"GLOBAL" | b"PERSIST" | b"PERSIST_ONLY" => self.variable(Scope::Global, name),
            // It holds for the next transaction only, which asking for its value would end.
            b"" if scope.is_empty() && is_of_next_transaction(name) => {
                self.count(Step::Operator);
                Some(Pin::Set)
            }
            b"" if scope.is_empty() => {
                let pin = self.variable(Scope::None, name);
                if let Some(setting) = SessionVariable::named(name) {
                    self.sets.unreported.add(setting);
                }
                pin
            }
            _ => {
                self.count(Step::Operator);
                Some(Pin::Set)
            }
        }
    }

    fn count(&mut self, next: Step) {
        self.sets.count = self.sets.count.saturating_add(1);
        self.step = next;
    }
}

/// Whether this word in a value comes before a table, or may.
fn reads_tables(word: &[u8]) -> bool {
    [&b"FROM"[..], b"TABLE", b"WITH"].iter().any(|it| it.eq_ignore_ascii_case(word))
}

fn is_of_next_transaction(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 4] =
        [b"tx_isolation", b"tx_read_only", b"transaction_isolation", b"transaction_read_only"];
    NAMES.iter().any(|it| it.eq_ignore_ascii_case(name))
}
