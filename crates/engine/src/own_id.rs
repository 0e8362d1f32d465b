//! The number that a client knows as its own connection's, put into the texts that ask for it.
//!
//! The server would answer with the number of the backend. So the client's stands in the place of `CONNECTION_ID()` and
//! `@@pseudo_thread_id`, written so that the server gives the column the same name, type and length. Not where a text
//! defines what is stored: there the call itself is what is meant. What is left in a text, and what is asked out of
//! sight (by a routine, a trigger, a text in a variable), only the backend can answer; see [`Number`].

use serde::{Deserialize, Serialize};
use wire::lex::{Dialect, Token, scope_and_name};
use wire::text::{Lexed, Text, Tokens};

use crate::account::name::Brand;
use crate::calls;

/// A text with the client's own number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    /// `None`: it is sent as it is.
    pub text: Option<Vec<u8>>,
    /// It asks in a place where no number can stand: the backend's own answer shows.
    pub asks_backend: bool,
}

/// Puts the client's number into a text for a server of this brand.
pub fn put(text: Text<'_>, id: u32, brand: Brand) -> Own {
    if !may_ask(text.bytes) {
        return Own { text: None, asks_backend: false };
    }
    if text.tokens().is_cut() {
        return Own { text: None, asks_backend: true };
    }
    let (mut parts, literals) = read(text);
    let (inner, mut asks_backend) = put_within(text, literals, id, brand);
    let lexed = Lexed::default();
    let mut text = text;
    if let Some(inner) = &inner {
        text = lexed.text(inner, text.dialect);
        (parts, _) = read(text);
    }
    let outer = calls::replace_at(text, |name, _, at| {
        let form = Form::of(name)?;
        let behind = parts.partition_point(|part| part.start <= at);
        let part = behind.checked_sub(1).and_then(|it| parts.get(it));
        match part.filter(|part| at < part.end).map(|part| part.kind) {
            Some(Kind::Object | Kind::Target) => None,
            Some(Kind::Table) => {
                asks_backend = true;
                None
            }
            // A `KILL` that names a number is carried out by that.
            Some(Kind::Kill) => Some(id.to_string()),
            None => Some(form.value(id, brand)),
        }
    });
    Own { text: outer.or(inner), asks_backend }
}

/// Whether a text may ask, in whatever way.
pub fn may_ask(text: &[u8]) -> bool {
    [&b"CONNECTION_ID"[..], b"PSEUDO_THREAD_ID"]
        .iter()
        .any(|name| text.windows(name.len()).any(|it| it.eq_ignore_ascii_case(name)))
}

/// Whether a name asks: of a function, with or without quotes, or of a variable.
pub(crate) fn asks(token: Token<'_>) -> bool {
    match token {
        Token::Word(name) | Token::Quoted(name) => name.eq_ignore_ascii_case(b"CONNECTION_ID"),
        Token::SystemVariable(written) => {
            scope_and_name(written).1.eq_ignore_ascii_case(b"PSEUDO_THREAD_ID")
        }
        _ => false,
    }
}

/// Whether a token of a `SET` is the variable, which is set.
pub(crate) fn is_target(before: Token<'_>, token: Token<'_>, mut behind: Tokens<'_>) -> bool {
    const BEFORE: [&str; 3] = ["SET", "SESSION", "LOCAL"];
    let is_it = match token {
        Token::Word(name) | Token::Quoted(name) => name.eq_ignore_ascii_case(b"PSEUDO_THREAD_ID"),
        _ => matches!(token, Token::SystemVariable(_)) && asks(token),
    };
    is_it
        && (before == Token::Symbol(b',') || BEFORE.iter().any(|it| before.is_word(it)))
        && matches!(behind.next(), Some(Token::Symbol(b'=') | Token::Assign))
}

/// How it is asked for.
#[derive(Clone, Copy)]
enum Form {
    Function,
    Variable,
}

impl Form {
    /// What stands before the parentheses, or a variable with its signs.
    fn of(name: &[u8]) -> Option<Self> {
        let Some(variable) = name.strip_prefix(b"@@") else {
            let bare = name.strip_prefix(b"`").and_then(|it| it.strip_suffix(b"`"));
            let is_it = bare.unwrap_or(name).eq_ignore_ascii_case(b"CONNECTION_ID");
            return is_it.then_some(Self::Function);
        };
        let (scope, name) = scope_and_name(variable);
        let is_it = name.eq_ignore_ascii_case(b"PSEUDO_THREAD_ID");
        let is_sessions =
            [&b""[..], b"SESSION", b"LOCAL"].iter().any(|it| scope.eq_ignore_ascii_case(it));
        (is_it && is_sessions).then_some(Self::Variable)
    }

    /// The number as the server types it. The function: `int(10) unsigned NOT NULL` of MariaDB, `bigint(21) unsigned
    /// NOT NULL` of MySQL; the variable: `bigint(21) unsigned`.
    fn value(self, id: u32, brand: Brand) -> String {
        match (self, brand) {
            (Self::Function, Brand::MariaDb) => format!("CAST({id} AS UNSIGNED)"),
            (Self::Function, Brand::MySql) => format!("CAST({id}|0 AS UNSIGNED)"),
            (Self::Variable, _) => format!("NULLIF(CAST({id} AS UNSIGNED)|0,0)"),
        }
    }
}

/// What a part of a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It defines what asks whenever it is run or read.
    Object,
    /// It defines a table, whose rows may be written at once.
    Table,
    Kill,
    /// It is what a `SET` sets.
    Target,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    kind: Kind,
    start: usize,
    end: usize,
}

/// Where the reader of a text is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    Nothing,
    /// Behind `CREATE` or `ALTER`, and what it is about is still to come.
    Definition {
        creates: bool,
    },
    /// A definition that ends with its statement.
    Statement(Kind),
    /// `CREATE TABLE`: where rows are selected, that is no definition.
    NewTable,
    /// A body holds semicolons of its own: where it ends cannot be told.
    Body,
}

/// Parts of a text in which no number may stand, or only its digits; and where a literal is prepared as a statement.
fn read(text: Text<'_>) -> (Vec<Part>, Vec<(usize, usize)>) {
    let (mut parts, mut literals) = (Vec::<Part>::new(), Vec::new());
    let mut within = Within::Nothing;
    let mut last = [Token::Symbol(b';'); 4];
    // How deep in parentheses a `SET` is read.
    let mut sets = None;
    let mut tokens = text.tokens();
    while let Some(token) = tokens.next() {
        let (start, end) = tokens.span();
        let [first, .., before] = last;
        let is_end = token == Token::Symbol(b';');
        let was = within;
        within = match within {
            Within::Nothing if before != Token::Symbol(b'.') => begin(before, token),
            Within::Nothing | Within::Body => within,
            _ if is_end => Within::Nothing,
            Within::Definition { creates } if before != Token::Symbol(b'=') => {
                defined(token, creates).unwrap_or(within)
            }
            Within::NewTable if token.is_word("SELECT") => Within::Nothing,
            Within::Definition { .. } | Within::Statement(_) | Within::NewTable => within,
        };
        let kind = match within {
            Within::Nothing => None,
            Within::Definition { .. } | Within::Body => Some(Kind::Object),
            Within::Statement(kind) => Some(kind),
            Within::NewTable => Some(Kind::Table),
        };
        match (was, kind, parts.last_mut()) {
            (_, None, _) => {}
            (Within::Nothing, Some(kind), _) | (_, Some(kind), None) => {
                parts.push(Part { kind, start, end });
            }
            (_, Some(kind), Some(part)) => (part.kind, part.end) = (kind, end),
        }
        sets = match (sets, token) {
            _ if is_end => None,
            (None, Token::Word(_)) if before == Token::Symbol(b';') && token.is_word("SET") => {
                Some(0)
            }
            (Some(depth), Token::Symbol(b'(')) => Some(depth + 1),
            (Some(depth), Token::Symbol(b')')) => Some(depth - 1),
            _ => sets,
        };
        if sets == Some(0) && is_target(before, token, tokens) {
            parts.push(Part { kind: Kind::Target, start, end });
        }
        let of_thread = before == Token::Symbol(b'(') && last[2].is_word("PS_THREAD_ID");
        if of_thread && within == Within::Nothing {
            // The server has no thread of the client's own number.
            parts.push(Part { kind: Kind::Table, start, end });
        }
        let is_prepared = match last {
            [_, prepare, _, from] if prepare.is_word("PREPARE") && from.is_word("FROM") => {
                first == Token::Symbol(b';')
            }
            [_, _, execute, immediate] => {
                execute.is_word("EXECUTE") && immediate.is_word("IMMEDIATE")
            }
        };
        if let (true, Token::String(_), Within::Nothing) = (is_prepared, token, within) {
            literals.push((start, end));
        }
        last = [last[1], last[2], last[3], token];
    }
    (parts, literals)
}

/// What a word begins outside of definitions.
fn begin(before: Token<'_>, token: Token<'_>) -> Within {
    if token.is_word("CREATE") && !before.is_word("SHOW") {
        Within::Definition { creates: true }
    } else if token.is_word("ALTER") {
        Within::Definition { creates: false }
    } else if token.is_word("KILL") && before == Token::Symbol(b';') {
        Within::Statement(Kind::Kill)
    } else {
        Within::Nothing
    }
}

/// What a word behind `CREATE` or `ALTER` says of the definition.
fn defined(token: Token<'_>, creates: bool) -> Option<Within> {
    const WITH_BODIES: [&str; 5] = ["PROCEDURE", "FUNCTION", "TRIGGER", "EVENT", "PACKAGE"];
    if WITH_BODIES.iter().any(|it| token.is_word(it)) {
        Some(Within::Body)
    } else if token.is_word("VIEW") {
        Some(Within::Statement(Kind::Object))
    } else if token.is_word("TABLE") {
        Some(if creates { Within::NewTable } else { Within::Statement(Kind::Table) })
    } else {
        None
    }
}

/// Puts the number into the literals that a text prepares or executes. Whether one of them asks the backend all the
/// same.
fn put_within(
    of: Text<'_>,
    literals: Vec<(usize, usize)>,
    id: u32,
    brand: Brand,
) -> (Option<Vec<u8>>, bool) {
    let (text, dialect) = (of.bytes, of.dialect);
    let (mut out, mut copied, mut asks_backend) = (Vec::new(), 0, false);
    for (start, end) in literals {
        let literal = text.get(start..end).unwrap_or_default();
        if !may_ask(literal) {
            continue;
        }
        let Some((quote, inner)) = plain(literal, dialect) else {
            asks_backend = true;
            continue;
        };
        let own = put(Lexed::default().text(inner, dialect), id, brand);
        asks_backend |= own.asks_backend;
        let Some(inner) = own.text else { continue };
        out.extend_from_slice(&text[copied..start]);
        out.push(quote);
        out.extend_from_slice(&inner);
        out.push(quote);
        copied = end;
    }
    if copied == 0 {
        return (None, asks_backend);
    }
    out.extend_from_slice(&text[copied..]);
    (Some(out), asks_backend)
}

/// The quote and the text of a literal in which nothing is escaped.
fn plain(literal: &[u8], dialect: Dialect) -> Option<(u8, &[u8])> {
    let (quote, rest) = literal.split_first()?;
    let (end, inner) = rest.split_last()?;
    let is_escaped = |byte: &u8| byte == quote || *byte == b'\\' && dialect.backslash_escapes;
    (matches!(quote, b'\'' | b'"') && quote == end && !inner.iter().any(is_escaped))
        .then_some((*quote, inner))
}

/// The number that a backend's session answers with, out of sight, and whether it can be another one than its own.
///
/// The session's temporary tables belong to that number: it stays as it is while a client has, or may have, some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Number {
    /// `None`: its own.
    shown: Option<u32>,
    may: May,
}

/// Whether the session's account may change the number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
enum May {
    /// It was never tried.
    #[default]
    Unknown,
    Change,
    Not,
}

/// What a backend is told of its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tell {
    Nothing,
    /// To show this client's number; `None`: its own again.
    Show(Option<u32>),
    /// To show this client's, which the server may refuse.
    Try(u32),
}

impl Number {
    /// What the backend must be told before a statement of this client. `is_read`: the statement may read the number.
    pub fn lacks(self, client: u32, is_read: bool) -> Tell {
        match (self.may, self.shown) {
            (_, Some(shown)) if shown == client => Tell::Nothing,
            (May::Unknown, None) if is_read => Tell::Try(client),
            (May::Change, None) if is_read => Tell::Show(Some(client)),
            (May::Change, Some(_)) => Tell::Show(Some(client).filter(|_| is_read)),
            // What a routine with other rights has set goes with its client's session.
            _ => Tell::Nothing,
        }
    }

    /// The server has taken it.
    pub const fn show(&mut self, client: Option<u32>) {
        *self = Self { shown: client, may: May::Change };
    }

    /// The server has refused it.
    pub const fn refuse(&mut self) {
        self.may = May::Not;
    }

    /// A client has made it a number that no client has.
    pub const fn see_set(&mut self) {
        self.shown = Some(0);
    }

    /// The session has begun anew.
    pub const fn renew(&mut self) {
        self.shown = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(text: &str) -> (String, bool) {
        own_for(text, Brand::MariaDb)
    }

    fn own_for(text: &str, brand: Brand) -> (String, bool) {
        let Own { text: put, asks_backend } =
            put(Lexed::default().text(text.as_bytes(), Dialect::default()), 9, brand);
        let put = put.unwrap_or_else(|| text.as_bytes().to_vec());
        (String::from_utf8(put).unwrap(), asks_backend)
    }

    #[test]
    fn the_clients_number_stands_in_the_place_of_the_call() {
        const ID: &str = "CAST(9 AS UNSIGNED)";
        for (text, expected) in [
            ("SELECT CONNECTION_ID()", "SELECT # AS `CONNECTION_ID()`"),
            (
                "select connection_id( ) , 'CONNECTION_ID()' from t",
                "select # AS `connection_id( )` , 'CONNECTION_ID()' from t",
            ),
            (
                "SELECT 1 FROM t WHERE id = CONNECTION_ID() AND x",
                "SELECT 1 FROM t WHERE id = # AND x",
            ),
            (
                "SELECT CONNECTION_ID() + 1, CONNECTION_ID() AS me",
                "SELECT # + 1 AS `CONNECTION_ID() + 1`, # AS me",
            ),
            ("SELECT CONNECTION_ID(/*`*/)", "SELECT # AS `CONNECTION_ID(/*``*/)`"),
            ("SELECT `connection_id`()", "SELECT # AS ```connection_id``()`"),
            ("SET @a = CONNECTION_ID() + 3", "SET @a = # + 3"),
            ("SET @a := 1, @b = (CONNECTION_ID ())", "SET @a := 1, @b = (#)"),
            (
                "CREATE TABLE t AS SELECT CONNECTION_ID()",
                "CREATE TABLE t AS SELECT # AS `CONNECTION_ID()`",
            ),
            ("INSERT INTO t VALUES (CONNECTION_ID())", "INSERT INTO t VALUES (#)"),
            ("KILL QUERY CONNECTION_ID()", "KILL QUERY 9"),
            ("KILL CONNECTION_ID() + 0", "KILL 9 + 0"),
            ("SELECT 1; KILL CONNECTION_ID()", "SELECT 1; KILL 9"),
            (
                "PREPARE p FROM 'SELECT CONNECTION_ID()'",
                "PREPARE p FROM 'SELECT # AS `CONNECTION_ID()`'",
            ),
            (
                "EXECUTE IMMEDIATE \"SELECT ? = CONNECTION_ID()\" USING CONNECTION_ID()",
                "EXECUTE IMMEDIATE \"SELECT ? = # AS `? = CONNECTION_ID()`\" USING #",
            ),
            (
                "SELECT @@session.PSEUDO_thread_id",
                "SELECT NULLIF(#|0,0) AS `@@session.PSEUDO_thread_id`",
            ),
            (
                "SELECT alter_me, t.create FROM t; SELECT CONNECTION_ID()",
                "SELECT alter_me, t.create FROM t; SELECT # AS `CONNECTION_ID()`",
            ),
            ("ALTER TABLE t ADD a INT; DO CONNECTION_ID()", "ALTER TABLE t ADD a INT; DO #"),
        ] {
            assert_eq!(own(text), (expected.replace('#', ID), false), "{text}");
        }
    }

    #[test]
    fn each_brand_has_a_type_of_its_own() {
        let (put, _) = own_for("SELECT CONNECTION_ID() AS a", Brand::MySql);
        assert_eq!(put, "SELECT CAST(9|0 AS UNSIGNED) AS a");
    }

    #[test]
    fn what_is_set_is_not_asked() {
        const ASKED: &str = "NULLIF(CAST(9 AS UNSIGNED)|0,0)";
        for (text, expected) in [
            ("SET @@pseudo_thread_id = 77", "SET @@pseudo_thread_id = 77"),
            (
                "SET a = 1, @@session.pseudo_thread_id := @@pseudo_thread_id + 1",
                "SET a = 1, @@session.pseudo_thread_id := # + 1",
            ),
            ("SET @a = IF(1, @@pseudo_thread_id = 5, 0)", "SET @a = IF(1, # = 5, 0)"),
            ("SELECT 1 AS b, @@pseudo_thread_id = 5 AS a", "SELECT 1 AS b, # = 5 AS a"),
            ("SET a = 1; DO 1, @@pseudo_thread_id = 5", "SET a = 1; DO 1, # = 5"),
        ] {
            assert_eq!(own(text), (expected.replace('#', ASKED), false), "{text}");
        }
    }

    #[test]
    fn what_is_stored_stays_as_it_is() {
        for text in [
            "CREATE VIEW v AS SELECT CONNECTION_ID()",
            "CREATE OR REPLACE DEFINER=view@localhost SQL SECURITY INVOKER VIEW v AS SELECT CONNECTION_ID()",
            "ALTER ALGORITHM=MERGE VIEW v AS SELECT CONNECTION_ID()",
            "CREATE PROCEDURE p() BEGIN SELECT 1; SELECT CONNECTION_ID(); END",
            "create definer = a@b function f() returns bigint return connection_id()",
            "CREATE TRIGGER t BEFORE INSERT ON a FOR EACH ROW SET NEW.req = CONNECTION_ID()",
            "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO INSERT INTO t VALUES (CONNECTION_ID())",
            "ALTER EVENT e DO EXECUTE IMMEDIATE 'SELECT CONNECTION_ID()'",
            "SELECT 1; CREATE VIEW v AS SELECT CONNECTION_ID()",
            "PREPARE p FROM 'CREATE VIEW v AS SELECT CONNECTION_ID()'",
            "SELECT 'CONNECTION_ID()'",
            "SELECT connection_id FROM t",
            "SELECT a.CONNECTION_ID()",
            "SELECT @@global.pseudo_thread_id",
        ] {
            assert_eq!(own(text), (text.to_owned(), false), "{text}");
        }
    }

    #[test]
    fn what_no_number_can_stand_for_is_asked_of_the_backend() {
        for text in [
            "CREATE TABLE t (a INT DEFAULT (CONNECTION_ID()))",
            "ALTER TABLE t ALTER a SET DEFAULT (CONNECTION_ID())",
            "ALTER TABLE t ADD a BIGINT DEFAULT (CONNECTION_ID())",
            "PREPARE p FROM 'SELECT \\'x\\', CONNECTION_ID()'",
            "SELECT PS_THREAD_ID(CONNECTION_ID())",
        ] {
            assert_eq!(own(text), (text.to_owned(), true), "{text}");
        }
        let both =
            "CREATE TABLE t (a INT DEFAULT (CONNECTION_ID())) AS SELECT CONNECTION_ID() AS b";
        let put =
            "CREATE TABLE t (a INT DEFAULT (CONNECTION_ID())) AS SELECT CAST(9 AS UNSIGNED) AS b";
        assert_eq!(own(both), (put.to_owned(), true));
    }

    #[test]
    fn a_backend_never_shows_another_clients_number() {
        let mut number = Number::default();
        assert_eq!(number.lacks(1, false), Tell::Nothing);
        assert_eq!(number.lacks(1, true), Tell::Try(1));
        number.show(Some(1));
        assert_eq!((number.lacks(1, true), number.lacks(1, false)), (Tell::Nothing, Tell::Nothing));
        assert_eq!(number.lacks(2, true), Tell::Show(Some(2)));
        assert_eq!(number.lacks(2, false), Tell::Show(None));
        number.show(None);
        assert_eq!(number.lacks(2, false), Tell::Nothing);
        assert_eq!(number.lacks(2, true), Tell::Show(Some(2)));
        number.see_set();
        assert_eq!(number.lacks(2, false), Tell::Show(None));
        number.renew();
        assert_eq!(number.lacks(2, false), Tell::Nothing);
        let mut refused = Number::default();
        refused.refuse();
        assert_eq!(refused.lacks(1, true), Tell::Nothing);
        refused.see_set();
        assert_eq!(refused.lacks(1, true), Tell::Nothing);
    }
}
