//! What a text may write, and which tables a read reads, as far as its tokens tell.
//!
//! No parser: where a statement's tables may stand, each name is taken for one. So there may be a table too many, and
//! never one too few. Whatever is not understood (several statements in a text, comments that only some servers execute,
//! routines, definitions, names in double quotes) is taken to write everything, or is not kept. Invariant: a text of any
//! form costs one pass over its tokens.

use std::rc::Rc;

use smallvec::SmallVec;
use wire::lex::Token;
use wire::text::{Text, Tokens};

use super::generations::TablePlace;
use super::links::{LinkedTables, Links, is_call};
use crate::intent::{Intent, Trait};
use crate::pin::Pin;
use crate::statement::tables::selected;

/// What a text writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effects {
    Nothing,
    Tables(Rc<[TablePlace]>),
    Everything {
        /// Views, triggers or keys may be others behind it.
        defines: bool,
    },
}

/// `ER_PARSE_ERROR`.
pub const PARSE_ERROR: u16 = 1064;

impl Effects {
    /// Of what cannot be read.
    pub const UNKNOWN: Self = Self::Everything { defines: true };

    /// The places that are written.
    pub fn places(&self) -> &[TablePlace] {
        match self {
            Self::Nothing => &[],
            Self::Tables(places) => places,
            Self::Everything { .. } => &[TablePlace::EVERYTHING],
        }
    }

    /// What a text of this intent writes that is sent by a session in this schema, or in one that is not known. `links`:
    /// what views, triggers and keys add; `None`: that is not known. A text that servers read in two ways writes what it
    /// does in either.
    pub fn of(
        text: Text<'_>,
        intent: &Intent,
        schema: Option<&[u8]>,
        links: Option<&Links>,
    ) -> Self {
        let one = Self::of_reading(text, intent, schema, links);
        match text.other() {
            None => one,
            Some(other) => one.or(Self::of_reading(other, intent, schema, links)),
        }
    }

    /// This, or the other.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Everything { defines: one }, Self::Everything { defines: two }) => {
                Self::Everything { defines: one || two }
            }
            (all @ Self::Everything { .. }, _) | (_, all @ Self::Everything { .. }) => all,
            (Self::Nothing, some) | (some, Self::Nothing) => some,
            (Self::Tables(one), Self::Tables(two)) => {
                let mut places: Vec<_> = one.iter().chain(&*two).copied().collect();
                places.sort_unstable();
                places.dedup();
                Self::Tables(places.into())
            }
        }
    }

    /// Whether a text does nothing at all if the server answers that it cannot parse it ([`PARSE_ERROR`]): it is one
    /// statement, and runs no other text, of which that might be said when much was done.
    pub fn is_parsed_first(text: &[u8]) -> bool {
        let text = text.trim_ascii_end();
        let text = text.strip_suffix(b";").unwrap_or(text);
        let has = |word: &[u8]| text.windows(word.len()).any(|it| it.eq_ignore_ascii_case(word));
        !text.contains(&b';') && !has(b"CALL") && !has(b"EXECUTE")
    }

    fn of_reading(
        text: Text<'_>,
        intent: &Intent,
        schema: Option<&[u8]>,
        links: Option<&Links>,
    ) -> Self {
        let tokens = text.tokens();
        if tokens.is_cut() {
            return Self::UNKNOWN;
        }
        let calls = intent.has(Trait::Calls) || links.is_some_and(|it| it.calls_routine(tokens));
        let first = match tokens.token(0) {
            Some(Token::Word(word)) => word.to_ascii_uppercase(),
            // `(SELECT …)`.
            Some(Token::Symbol(b'(')) => b"SELECT".to_vec(),
            None => return Self::Nothing,
            _ => return Self::UNKNOWN,
        };
        if tokens.into_iter().any(|token| token == Token::Unfinished) {
            return Self::UNKNOWN;
        }
        if is_several(tokens) {
            return several(text, calls, schema, links);
        }
        let is =
            |words: &[&str]| tokens.into_iter().any(|it| words.iter().any(|word| it.is_word(word)));
        let head = match &*first {
            b"CALL" => return called(tokens, schema, links),
            // What `EXECUTE` runs may define something, and what a function does cannot.
            _ if calls => return Self::Everything { defines: intent.has(Trait::Alters) },
            b"INSERT" | b"REPLACE" => &["VALUES", "VALUE", "SET", "SELECT", "WITH", "TABLE"][..],
            b"UPDATE" => &["SET"],
            b"DELETE" => &["WHERE"],
            b"TRUNCATE" => &[],
            b"LOAD" => return loads(tokens, schema, links),
            b"SELECT" | b"VALUES" | b"TABLE" | b"DO" | b"SHOW" | b"DESCRIBE" | b"DESC"
            | b"HELP" | b"WITH" | b"CHECKSUM" => {
                // What only reads may read a view, whose routines write.
                let writes = is(&["NEXTVAL", "SETVAL", "NEXT", "LASTVAL"])
                    || &*first == b"WITH" && is(&["INSERT", "UPDATE", "DELETE", "REPLACE"])
                    || links.is_some_and(|links| reads_may_write(text, schema, links));
                return if writes { Self::Everything { defines: false } } else { Self::Nothing };
            }
            b"EXPLAIN" if !is(&["ANALYZE"]) => return Self::Nothing,
            b"BEGIN" | b"START" | b"COMMIT" | b"ROLLBACK" | b"SAVEPOINT" | b"RELEASE" | b"USE"
            | b"KILL" | b"UNLOCK" | b"LOCK" | b"HANDLER" | b"PREPARE" | b"DEALLOCATE" | b"GET"
            | b"SIGNAL" | b"RESIGNAL" | b"FLUSH" | b"PURGE"
                if intent.pin != Some(Pin::Unreadable) =>
            {
                return Self::Nothing;
            }
            b"SET" if !is(&["STATEMENT", "PASSWORD"]) => return Self::Nothing,
            b"CREATE" | b"DROP" if is_of_own_table(tokens) => {
                let writes =
                    &*first == b"CREATE" && links.is_none_or(|links| links.names_acting(tokens));
                return if writes { Self::Everything { defines: false } } else { Self::Nothing };
            }
            _ => return Self::UNKNOWN,
        };
        written(tokens, &first, head, schema, links)
    }
}

/// The tables of a statement that begins with this word, in capitals: those that stand before one of the words of `head`.
fn written(
    tokens: Tokens<'_>,
    first: &[u8],
    head: &[&str],
    schema: Option<&[u8]>,
    links: Option<&Links>,
) -> Effects {
    let mut found = Found::new(schema, links);
    let (mut depth, mut previous) = (0_usize, Token::Symbol(b';'));
    let mut at = 1;
    while let Some(token) = tokens.token(at) {
        at += 1;
        match token {
            Token::Symbol(b'(') if matches!(first, b"INSERT" | b"REPLACE") => break,
            Token::Symbol(b'(') => depth += 1,
            Token::Symbol(b')') => depth = depth.saturating_sub(1),
            Token::Word(_)
                if depth == 0
                    && previous != Token::Symbol(b'.')
                    && head.iter().any(|end| token.is_word(end)) =>
            {
                break;
            }
            Token::Word(_) if previous != Token::Symbol(b'.') && is_between(token) => {}
            Token::Word(_) | Token::Quoted(_) => found.name(tokens, at - 1),
            // A name under `ANSI_QUOTES`; or a literal, which is rare here.
            Token::String(_) | Token::Number(_) => return Effects::Everything { defines: false },
            _ => {}
        }
        previous = token;
    }
    found.end()
}

/// `CREATE` or `DROP TEMPORARY TABLE`, of one that has its rows to itself.
fn is_of_own_table(tokens: Tokens<'_>) -> bool {
    const ELSEWHERE: &[&str] = &["CONNECTION", "ENGINE", "LIKE", "TYPE", "UNION"];
    let is = |at, word| tokens.token(at).is_some_and(|token: Token<'_>| token.is_word(word));
    let at = if is(1, "OR") && is(2, "REPLACE") { 3 } else { 1 };
    let begins = is(at, "TEMPORARY") && is(at + 1, "TABLE");
    let names_engine = |at: usize| is(at, "ENGINE") || is(at, "TYPE");
    let is_own = |at: usize| {
        let name = if tokens.token(at + 1) == Some(Token::Symbol(b'=')) { at + 2 } else { at + 1 };
        OWN_ENGINES.iter().any(|engine| is(name, engine))
    };
    begins
        && (0..tokens.len()).all(|at| match names_engine(at) {
            true => is_own(at),
            false => !ELSEWHERE.iter().any(|word| is(at, word)),
        })
}

/// Engines whose tables have their rows to themselves.
pub const OWN_ENGINES: &[&str] = &[
    "InnoDB",
    "MyISAM",
    "Aria",
    "MEMORY",
    "ARCHIVE",
    "BLACKHOLE",
    "ROCKSDB",
    "TokuDB",
    "Columnstore",
];

/// Words between tables, which are no names unless they stand behind a dot or in back-ticks.
fn is_between(token: Token<'_>) -> bool {
    const WORDS: &[&str] = &["AND", "AS", "FROM", "INTO", "JOIN", "ON", "OR", "TABLE", "USING"];
    WORDS.iter().any(|word| token.is_word(word))
}

/// `LOAD DATA … INTO TABLE t …`.
fn loads(tokens: Tokens<'_>, schema: Option<&[u8]>, links: Option<&Links>) -> Effects {
    let mut found = Found::new(schema, links);
    let mut at = 1;
    while let Some(token) = tokens.token(at) {
        at += 1;
        if token.is_word("TABLE") {
            let name = |at| matches!(tokens.token(at), Some(Token::Word(_) | Token::Quoted(_)));
            let last = if tokens.token(at + 1) == Some(Token::Symbol(b'.')) { at + 2 } else { at };
            if !name(at) || !name(last) {
                return Effects::UNKNOWN;
            }
            found.name(tokens, at);
            found.name(tokens, last);
            return found.end();
        }
    }
    Effects::UNKNOWN
}

/// `CALL p(…)`: what the procedure writes, if that is known, and if what it is given is nothing that may write.
fn called(tokens: Tokens<'_>, schema: Option<&[u8]>, links: Option<&Links>) -> Effects {
    const READS: &[&str] =
        &["SELECT", "WITH", "TABLE", "VALUES", "NEXT", "PREVIOUS", "NEXTVAL", "SETVAL", "LASTVAL"];
    let Some(links) = links else { return Effects::UNKNOWN };
    let is_qualified = tokens.token(2) == Some(Token::Symbol(b'.'));
    let at = if is_qualified { 3 } else { 1 };
    let names = [1, at].map(|at| tokens.token(at).and_then(name));
    let [Some(first), Some(routine)] = names else { return Effects::UNKNOWN };
    let (mut before, mut previous) = (Token::Symbol(b';'), Token::Symbol(b';'));
    for token in tokens.into_iter().skip(at + 1) {
        let calls = token == Token::Symbol(b'(') && is_call(before, previous);
        if calls || READS.iter().any(|word| token.is_word(word)) {
            return Effects::UNKNOWN;
        }
        (before, previous) = (previous, token);
    }
    let schema = if is_qualified { Some(&*first) } else { schema };
    match links.written_by(schema, &routine) {
        LinkedTables::Tables(tables) => {
            let mut found = Found::new(schema, Some(links));
            found.places.extend(tables.map(|(schema, table)| TablePlace::of_table(schema, table)));
            found.is_everything = found.places.len() > NAMES_MAX;
            found.end()
        }
        LinkedTables::Anything => Effects::UNKNOWN,
    }
}

/// Whether there may be more statements than one.
fn is_several(tokens: Tokens<'_>) -> bool {
    let mut was_semicolon = false;
    tokens.into_iter().any(|token| {
        let is_more = was_semicolon && token != Token::Symbol(b';');
        was_semicolon |= token == Token::Symbol(b';');
        is_more
    })
}

/// The tables that are found to be written.
struct Found<'a> {
    schema: Option<&'a [u8]>,
    links: Option<&'a Links>,
    places: Vec<TablePlace>,
    is_everything: bool,
}

/// More names are taken for everything.
const NAMES_MAX: usize = 256;

impl<'a> Found<'a> {
    fn new(schema: Option<&'a [u8]>, links: Option<&'a Links>) -> Self {
        Self { schema, links, places: Vec::new(), is_everything: links.is_none() }
    }

    /// A name stands here, and perhaps its schema before it.
    fn name(&mut self, tokens: Tokens<'_>, at: usize) {
        let Some(table) = tokens.token(at).and_then(name) else {
            // One that may be written in several ways.
            self.is_everything = true;
            return;
        };
        let is_behind_dot = at >= 1 && tokens.token(at - 1) == Some(Token::Symbol(b'.'));
        let before = at.checked_sub(2).and_then(|at| tokens.token(at)).filter(|_| is_behind_dot);
        let own = self.schema;
        match (is_behind_dot, before) {
            (false, _) => self.table(own, &table),
            (true, Some(token)) => {
                if let Some(schema) = name(token) {
                    self.table(Some(&schema), &table);
                }
                if !matches!(token, Token::Quoted(_)) {
                    // Behind a word that is no name, a dot alone stands for the session's own schema.
                    self.table(own, &table);
                }
            }
            (true, None) => self.is_everything = true,
        }
    }

    fn table(&mut self, schema: Option<&[u8]>, table: &[u8]) {
        match schema {
            Some(schema) => self.places.push(TablePlace::of_table(schema, table)),
            None => self.places.push(TablePlace::of_name(table)),
        }
        match self.links.map(|links| links.written_behind(schema, table)) {
            Some(LinkedTables::Tables(tables)) => {
                self.places
                    .extend(tables.map(|(schema, table)| TablePlace::of_table(schema, table)));
            }
            Some(LinkedTables::Anything) | None => self.is_everything = true,
        }
        self.is_everything |= self.places.len() > NAMES_MAX;
    }

    fn end(mut self) -> Effects {
        if self.is_everything || self.places.is_empty() {
            return Effects::Everything { defines: false };
        }
        self.places.sort_unstable();
        self.places.dedup();
        Effects::Tables(self.places.into())
    }
}

/// What may be a table's name here, without back-ticks.
fn name(token: Token<'_>) -> Option<SmallVec<[u8; 64]>> {
    match token {
        Token::Word(word) => Some(word.into()),
        // In double quotes, two of these are one.
        Token::Quoted(quoted) if quoted.contains(&b'"') => None,
        Token::Quoted(quoted) => Some(unquoted(quoted)),
        _ => None,
    }
}

fn unquoted(quoted: &[u8]) -> SmallVec<[u8; 64]> {
    let mut was_tick = false;
    let keep = |byte: &&u8| {
        was_tick = **byte == b'`' && !was_tick;
        **byte != b'`' || was_tick
    };
    quoted.iter().filter(keep).copied().collect()
}

/// What several statements write together: nothing, if each can but read; else anything.
fn several(text: Text<'_>, calls: bool, schema: Option<&[u8]>, links: Option<&Links>) -> Effects {
    const READS: &[&str] = &[
        "SELECT", "VALUES", "TABLE", "SHOW", "DESCRIBE", "DESC", "HELP", "COMMIT", "ROLLBACK",
        "START", "USE", "SET",
    ];
    const WRITES: &[&str] = &["INSERT", "REPLACE", "UPDATE", "DELETE", "TRUNCATE"];
    const MORE: &[&str] = &["STATEMENT", "PASSWORD", "NEXTVAL", "SETVAL", "NEXT", "LASTVAL"];
    let tokens = text.tokens();
    let is = |token: Token<'_>, words: &[&str]| words.iter().any(|word| token.is_word(word));
    let (mut only_read, mut may_define, mut begins) = (true, false, true);
    for token in tokens {
        if token == Token::Symbol(b';') {
            begins = true;
        } else if begins {
            only_read &= is(token, READS);
            may_define |= !is(token, READS) && !is(token, WRITES);
            begins = false;
        }
        only_read &= !is(token, MORE);
        // `SET STATEMENT … FOR CREATE …`.
        may_define |= token.is_word("STATEMENT");
    }
    if only_read && !calls && !links.is_some_and(|links| reads_may_write(text, schema, links)) {
        return Effects::Nothing;
    }
    Effects::Everything { defines: may_define }
}

/// Whether what only reads may read a view that may do anything. A column may have the name of such a view.
fn reads_may_write(text: Text<'_>, schema: Option<&[u8]>, links: &Links) -> bool {
    if !links.names_acting(text.tokens()) {
        return false;
    }
    selected(text).is_none_or(|tables| {
        tables.iter().any(|it| links.may_act(it.schema.as_deref().or(schema), &it.table))
    })
}

/// The places that a plain read depends on, of a session in this schema: `None` if they cannot be told.
///
/// The read is one `SELECT` without subqueries, as `engine::sharing` wants it. In its `FROM`, each name is a table's that
/// stands where one may begin: behind `FROM`, `JOIN`, a comma or a parenthesis.
pub fn places_read(
    text: Text<'_>,
    schema: Option<&[u8]>,
    links: &Links,
) -> Option<Vec<TablePlace>> {
    let tokens = text.tokens();
    if tokens.is_cut() || tokens.saw_executable_comment() || !tokens.token(0)?.is_word("SELECT") {
        return None;
    }
    let mut places = vec![TablePlace::EVERYTHING];
    let (mut depth, mut previous, mut at) = (0_usize, Token::Symbol(b';'), 0);
    // How deep the `FROM` stands that is being read.
    let mut from: Option<usize> = None;
    while let Some(token) = tokens.token(at) {
        at += 1;
        let is_part = previous == Token::Symbol(b'.');
        let may_begin = from.is_some()
            && (["FROM", "JOIN", "STRAIGHT_JOIN"].iter().any(|word| previous.is_word(word))
                || matches!(previous, Token::Symbol(b',' | b'(')));
        match token {
            Token::Symbol(b'(') => depth += 1,
            Token::Symbol(b')') => {
                depth = depth.saturating_sub(1);
                from = from.filter(|at| *at <= depth);
            }
            // `{ OJ … }`.
            Token::Symbol(b'{') => return None,
            // A name that begins with a digit, or one in double quotes.
            Token::String(_) | Token::Number(_) if may_begin && depth == from? => return None,
            Token::Symbol(b'.') if may_begin => return None,
            // One inside of another one, as in `EXTRACT(DAY FROM d)`, does not end that.
            Token::Word(_) if !is_part && token.is_word("FROM") => from = from.or(Some(depth)),
            Token::Word(_)
                if !is_part
                    && from == Some(depth)
                    && ENDS.iter().any(|word| token.is_word(word)) =>
            {
                from = None;
            }
            Token::Word(_) if may_begin && token.is_word("SELECT") => return None,
            Token::Word(_) if may_begin && token.is_word("LATERAL") => return None,
            Token::Word(_) | Token::Quoted(_) if may_begin => {
                let first = name(token)?;
                let second =
                    (tokens.token(at) == Some(Token::Symbol(b'.'))).then(|| tokens.token(at + 1));
                let (schema, table) = match second {
                    None => (SmallVec::from_slice(schema?), first),
                    Some(second) => (first, name(second?)?),
                };
                put_read(&mut places, &schema, &table);
                match links.read_behind(&schema, &table) {
                    LinkedTables::Tables(tables) => {
                        tables.for_each(|(schema, table)| put_read(&mut places, schema, table));
                    }
                    LinkedTables::Anything => return None,
                }
            }
            _ => {}
        }
        previous = token;
    }
    if places.len() == 1 || places.len() > NAMES_MAX {
        return None;
    }
    places.sort_unstable();
    places.dedup();
    Some(places)
}

fn put_read(places: &mut Vec<TablePlace>, schema: &[u8], table: &[u8]) {
    places.extend([
        TablePlace::of_table(schema, table),
        TablePlace::of_name(table),
        TablePlace::of_schema(schema),
    ]);
}

/// What ends the tables of a `FROM`: words that are no names on any server, unless they stand in quotes.
const ENDS: &[&str] = &["WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "PROCEDURE", "INTO", "UNION"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hidden::{Definition, Kind};
    use std::collections::BTreeSet;
    use wire::lex::Dialect;
    use wire::text::Lexed;

    fn links() -> Links {
        let definitions = [
            (Kind::View, "v", "select `a`.`t`.`id` AS `id` from `a`.`t`"),
            (Kind::View, "vv", "select `a`.`v`.`id` AS `id` from (`a`.`v` join `b`.`u`)"),
            (Kind::View, "calls", "select `a`.`f`(1) AS `x` from `a`.`t`"),
            (Kind::Trigger, "fires", "INSERT INTO log (n) VALUES (NEW.n)"),
            (Kind::Trigger, "fires_all", "CALL p()"),
            (Kind::Routine, "f", "RETURN 1"),
            (
                Kind::Routine,
                "adds",
                "BEGIN UPDATE t SET n = n + 1; INSERT INTO fires VALUES (1); END",
            ),
            (Kind::Routine, "adds_more", "CALL adds()"),
            (Kind::Routine, "defines", "BEGIN DROP VIEW v; DELETE FROM t; END"),
            (Kind::Routine, "escapes", "UPDATE t SET n = '\\'"),
            (Kind::Routine, "hidden", ""),
            (Kind::Routine, "calls_own", "UPDATE t SET n = UUID_TO_BIN(1)"),
            (Kind::Routine, "uuid_to_bin", "RETURN 1"),
        ]
        .map(|(kind, name, body)| Definition {
            kind,
            schema: b"a".to_vec(),
            name: name.into(),
            body: body.into(),
        });
        let table = |name: &str| (b"a".to_vec(), name.as_bytes().to_vec());
        Links::new(
            &definitions,
            &[(table("parent"), table("child")), (table("child"), table("fires"))],
            &BTreeSet::from([table("merged")]),
        )
    }

    fn read(text: &str, schema: Option<&[u8]>, links: Option<&Links>) -> Effects {
        let lexed = Lexed::default();
        let text = lexed.text(text.as_bytes(), Dialect::default());
        Effects::of(text, &Intent::read(text), schema, links)
    }

    fn of(text: &str) -> Effects {
        read(text, Some(b"a"), Some(&links()))
    }

    fn places(names: &str) -> Vec<TablePlace> {
        let mut places: Vec<_> = names
            .split_whitespace()
            .map(|it| match it.split_once('.') {
                Some((schema, table)) => TablePlace::of_table(schema.as_bytes(), table.as_bytes()),
                None => TablePlace::of_table(b"a", it.as_bytes()),
            })
            .collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    #[test]
    fn a_column_may_be_named_like_a_view_that_acts() {
        let definitions = [("acts", "select `f`()"), ("on_acts", "select `x` from `a`.`acts`")]
            .map(|(name, body)| Definition {
                kind: Kind::View,
                schema: b"a".to_vec(),
                name: name.into(),
                body: body.into(),
            });
        let links = Links::new(&definitions, &[], &BTreeSet::from([(b"a".into(), b"far".into())]));
        for (text, writes) in [
            ("SELECT acts FROM t WHERE on_acts = 1 ORDER BY acts", false),
            ("SELECT t.acts FROM b.t AS t JOIN u ON u.acts = t.id", false),
            ("SELECT 1 FROM acts", true),
            ("SELECT x FROM t JOIN on_acts", true),
            ("SELECT x FROM t WHERE x IN (SELECT acts FROM u)", false),
            ("SELECT x FROM t WHERE x IN (SELECT 1 FROM u, acts)", true),
            ("WITH q AS (SELECT acts FROM t) SELECT * FROM q", false),
            ("WITH q AS (SELECT 1 FROM on_acts) SELECT * FROM q", true),
            ("SELECT 1 FROM b.acts", false),
            ("TABLE acts", true),
            ("SELECT 1; SELECT 1 FROM acts", true),
            ("SELECT acts FROM far", false),
            ("SELECT x FROM far", false),
        ] {
            let effects = read(text, Some(b"a"), Some(&links));
            assert_eq!(effects != Effects::Nothing, writes, "{text}");
        }
    }

    #[test]
    fn rows_that_are_elsewhere_are_neither_kept_nor_written_alone() {
        let places = |text: &str| {
            let lexed = Lexed::default();
            places_read(lexed.text(text.as_bytes(), Dialect::default()), Some(b"a"), &links())
        };
        assert!(places("SELECT n FROM t").is_some());
        for text in ["SELECT n FROM merged", "SELECT n FROM t JOIN a.MERGED AS m"] {
            assert_eq!(places(text), None, "{text}");
            assert_eq!(of(text), Effects::Nothing);
        }
        assert!(matches!(of("INSERT INTO merged VALUES (1)"), Effects::Everything { .. }));
    }

    #[test]
    fn tables_that_are_written_are_among_those_that_are_found() {
        for (text, written) in [
            ("INSERT INTO t (x, y) VALUES (1, 'FROM u')", "t"),
            ("INSERT IGNORE t VALUES (1)", "t"),
            ("INSERT INTO b.`t``x` SET a = 1", "b.t`x"),
            ("insert low_priority into T select * from u", "t"),
            ("INSERT INTO t PARTITION (p0) VALUES (1)", "t"),
            ("INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE n = 2", "t"),
            ("INSERT INTO t VALUES (1) RETURNING id", "t"),
            ("REPLACE t VALUES (1)", "t"),
            ("REPLACE INTO local SELECT * FROM t", "local"),
            ("UPDATE t SET n = 1 WHERE id = 'x'", "t"),
            ("UPDATE format, b.u AS x SET x.n = 1", "format b.u"),
            ("UPDATE t JOIN (u, b.w) ON t.id = u.id SET t.n = 1", "t u b.w"),
            ("UPDATE (SELECT * FROM x) q JOIN t SET t.n = 1", "t"),
            ("DELETE FROM t WHERE id = 1", "t"),
            ("DELETE t1, u FROM t AS t1 JOIN u WHERE t1.id = 1", "t u"),
            ("DELETE FROM t USING t JOIN u", "t"),
            ("DELETE QUICK FROM .t", "t"),
            ("TRUNCATE TABLE t", "t"),
            ("TRUNCATE t", "t"),
            ("DELETE FROM 2024_orders", "2024_orders"),
            ("LOAD DATA LOCAL INFILE 'x' INTO TABLE t FIELDS TERMINATED BY ','", "t"),
            ("LOAD DATA INFILE 'x' REPLACE INTO TABLE b.t LINES TERMINATED BY 'x'", "b.t"),
            ("INSERT INTO v VALUES (1)", "v t"),
            ("UPDATE vv SET id = 1", "vv v t b.u"),
            ("INSERT INTO fires VALUES (1)", "fires log"),
            ("DELETE FROM parent WHERE id = 1", "parent child fires log"),
            ("INSERT INTO t VALUES (1);", "t"),
            ("INSERT /*! INTO u */ VALUES (1)", "u"),
            ("INSERT INTO t /*!50701 VALUES (1) */ SELECT 1", "t"),
            ("UPDATE t /*!100100 JOIN u */ SET n = 1", "t u"),
            ("CALL adds()", "t fires log"),
            ("call `a`.Adds (1, 'x', @y, NOW(), ?);", "t fires log"),
            ("CALL adds", "t fires log"),
        ] {
            let Effects::Tables(found) = of(text) else { panic!("{text}: {:?}", of(text)) };
            let missing = places(written).into_iter().find(|place| !found.contains(place));
            assert_eq!(missing, None, "{text}");
            assert!(!found.contains(&TablePlace::of_table(b"a", b"other")), "{text}");
        }
        let Effects::Tables(found) = of("UPDATE t SET n = id WHERE other = 1") else { panic!() };
        assert_eq!(*found, *places("t"), "columns behind SET are no tables");
    }

    #[test]
    fn what_is_not_understood_writes_everything() {
        for text in [
            "INSERT INTO t VALUES (1); DELETE FROM u",
            "INSERT INTO t VALUES (f(1))",
            "INSERT INTO t VALUES (a.f(1))",
            "INSERT INTO t VALUES (UUID_TO_BIN(1))",
            "UPDATE t SET n = mystery(1)",
            "SELECT f(1)",
            "SELECT id FROM t WHERE f(1) FOR UPDATE",
            "SELECT * FROM calls",
            "SELECT NEXTVAL(s)",
            "DO f(1)",
            "SET @x = f(1)",
            "SET STATEMENT max_statement_time = 1 FOR DELETE FROM t",
            "CALL p()",
            "CALL b.adds()",
            "CALL adds_more()",
            "CALL defines()",
            "CALL escapes()",
            "CALL hidden()",
            "CALL calls_own()",
            "CALL adds(f(1))",
            "CALL adds(a.f(1))",
            "CALL adds(mystery(1))",
            "CALL adds((SELECT id FROM calls))",
            "CALL adds(NEXT VALUE FOR s)",
            "CALL adds(NEXTVAL(s))",
            "CALL \"adds\"()",
            "CALL a.\"adds\"()",
            "CALL .adds()",
            "CALL adds(); DELETE FROM u",
            "CALL",
            "EXECUTE s",
            "EXECUTE IMMEDIATE 'DELETE FROM t'",
            "CREATE TABLE t (a INT)",
            "CREATE TEMPORARY TABLE x ENGINE=MERGE UNION=(t)",
            "CREATE TEMPORARY TABLE x (a INT) ENGINE MRG_MyISAM",
            "CREATE TEMPORARY TABLE x LIKE merged",
            "CREATE TEMPORARY TABLE x SELECT * FROM calls",
            "CREATE TEMPORARY TABLE x SELECT f(1)",
            "CREATE TEMPORARY SEQUENCE x",
            "CREATE VIEW x AS SELECT 1",
            "ALTER TABLE t ADD b INT",
            "RENAME TABLE t TO u",
            "DROP TABLE t",
            "DROP DATABASE a",
            "OPTIMIZE TABLE t",
            "XA COMMIT 'x'",
            "ANALYZE UPDATE t SET n = 1",
            "EXPLAIN ANALYZE UPDATE t SET n = 1",
            "BEGIN NOT ATOMIC DELETE FROM t; END",
            "WITH x AS (SELECT 1) DELETE FROM t",
            "INSERT /*!50701 INTO u */ VALUES (1)",
            "SELECT 1; SELECT f(1)",
            "SELECT 1; SELECT * FROM calls",
            "SELECT /*! f */ (1)",
            "SELECT * FROM /*!100100 calls */ t",
            "/*!50701 DELETE FROM t -- */ SELECT 1",
            "UPDATE \"t\" SET n = 1",
            "UPDATE t, \"u\" SET n = 1",
            "INSERT INTO \"t\" VALUES (1)",
            "INSERT INTO a.\"t\" VALUES (1)",
            "LOAD DATA INFILE 'x' INTO TABLE \"t\"",
            "INSERT INTO fires_all VALUES (1)",
            "INSERT INTO t VALUES ('never ends",
            "GRANT ALL ON *.* TO x",
            "FROBNICATE t",
            "\0",
        ] {
            assert!(matches!(of(text), Effects::Everything { .. }), "{text}: {:?}", of(text));
        }
        for text in
            ["CALL defines()", "CALL p()", "EXECUTE IMMEDIATE f(1)", "EXECUTE s", "DROP VIEW v"]
        {
            assert_eq!(of(text), Effects::UNKNOWN, "{text}");
        }
        for text in [
            "INSERT INTO t VALUES (1); DELETE FROM u; SELECT 1",
            "SELECT 1; UPDATE t SET n = 1",
            "INSERT INTO t VALUES (f(1)); SELECT 1",
        ] {
            assert_eq!(of(text), Effects::Everything { defines: false }, "{text}");
        }
        for text in [
            "SELECT 1; DROP VIEW v",
            "SELECT 1; SET STATEMENT max_statement_time = 1 FOR CREATE VIEW x AS SELECT 1",
            "BEGIN NOT ATOMIC DROP VIEW v; END",
            "SELECT 1; CALL adds()",
        ] {
            assert_eq!(of(text), Effects::UNKNOWN, "{text}");
        }
        let unknown = |text: &str| read(text, Some(b"a"), None);
        assert_eq!(unknown("CALL adds()"), Effects::UNKNOWN);
        assert_eq!(unknown("DELETE FROM t"), Effects::Everything { defines: false });
        assert_eq!(unknown("SELECT 1"), Effects::Nothing);
    }

    #[test]
    fn what_runs_other_texts_may_have_done_much_before_one_is_not_parsed() {
        for (text, is_first) in [
            ("SELECT", true),
            ("FROBNICATE t;\n", true),
            ("CREATE x y", true),
            ("UPDATE t SET n = 1; FROBNICATE", false),
            ("BEGIN NOT ATOMIC DELETE FROM t; END", false),
            ("Call p", false),
            ("SET STATEMENT a=1 FOR execute s", false),
        ] {
            assert_eq!(Effects::is_parsed_first(text.as_bytes()), is_first, "{text}");
        }
    }

    #[test]
    fn what_writes_nothing() {
        for text in [
            "SELECT id FROM t WHERE n IN (1, 2)",
            "(SELECT 1)",
            "SELECT * FROM v FOR UPDATE",
            "SHOW TABLES",
            "BEGIN",
            "START TRANSACTION",
            "COMMIT",
            "ROLLBACK TO x",
            "SET NAMES utf8mb4",
            "SET autocommit = 1",
            "USE b",
            "DO SLEEP(1)",
            "EXPLAIN UPDATE t SET n = 1",
            "",
            "/* nothing */",
            "SELECT /*! 1 */",
            "SELECT /*!50701 STRAIGHT_JOIN */ id FROM t",
            "/*!40101 SET NAMES utf8 */",
            "SELECT 1; SELECT 2",
            "SELECT id FROM t; SHOW WARNINGS;",
            "SET NAMES utf8mb4; USE a; COMMIT",
            "CREATE TEMPORARY TABLE x (a INT)",
            "CREATE OR REPLACE TEMPORARY TABLE x ENGINE = InnoDB SELECT * FROM t",
            "DROP TEMPORARY TABLE IF EXISTS x",
        ] {
            assert_eq!(of(text), Effects::Nothing, "{text}");
        }
    }

    #[test]
    fn a_schema_that_is_not_known_may_be_any() {
        let of = |text: &str| read(text, None, Some(&links()));
        assert_eq!(of("DELETE FROM t"), Effects::Tables([TablePlace::of_name(b"t")].into()));
        assert!(matches!(of("DELETE FROM parent"), Effects::Tables(found)
            if found.contains(&TablePlace::of_table(b"a", b"log"))));
    }

    #[test]
    fn tables_that_a_read_reads_are_among_those_that_are_found() {
        let read = |text: &str| {
            let lexed = Lexed::default();
            places_read(lexed.text(text.as_bytes(), Dialect::default()), Some(b"a"), &links())
        };
        for (text, tables) in [
            ("SELECT c FROM t WHERE id = 1", "t"),
            ("SELECT a, b FROM t x, b.u y WHERE x.a IN (1, 2)", "t b.u"),
            ("SELECT * FROM t JOIN u ON t.a = u.a LEFT JOIN w USING (a)", "t u w"),
            ("SELECT * FROM (t, (u NATURAL JOIN w))", "t u w"),
            ("SELECT * FROM t STRAIGHT_JOIN u", "t u"),
            ("SELECT * FROM t USE INDEX (i), u", "t u"),
            ("SELECT EXTRACT(YEAR FROM d) FROM t", "t"),
            ("SELECT TRIM(x FROM y), z FROM `t` ORDER BY z, u", "t"),
            ("SELECT * FROM t x JOIN u ON x.a IN (1, 'b') JOIN format", "t u format"),
            ("SELECT t.from FROM b.`where` AS `join`, u", "b.where u"),
            ("SELECT * FROM t JOIN u ON EXTRACT(DAY FROM u.d) = 1, w", "t u w"),
            ("SELECT * FROM t window, u", "t u"),
            ("SELECT * FROM v", "v t"),
            ("SELECT * FROM vv", "vv v t b.u"),
        ] {
            let found = read(text).unwrap_or_else(|| panic!("{text}"));
            let missing = places(tables).into_iter().find(|place| !found.contains(place));
            assert_eq!(missing, None, "{text}");
            assert!(
                found.contains(&TablePlace::EVERYTHING)
                    && found.contains(&TablePlace::of_schema(b"a"))
                    || text.contains("b.")
            );
        }
        for text in [
            "SELECT 1",
            "SELECT * FROM \"t\"",
            "SELECT * FROM t, \"u\"",
            "SELECT * FROM { OJ t LEFT OUTER JOIN u ON 1 }",
            "SELECT * FROM (SELECT * FROM t) x",
            "SELECT * FROM t, LATERAL (SELECT 1) x",
            "SELECT * FROM calls",
            "SELECT * FROM .t",
            "SELECT a FROM t /*! JOIN u */",
            "SHOW TABLES FROM a",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        let lexed = Lexed::default();
        let unknown =
            places_read(lexed.text(b"SELECT a FROM t", Dialect::default()), None, &links());
        assert_eq!(unknown, None, "no schema");
    }
}
