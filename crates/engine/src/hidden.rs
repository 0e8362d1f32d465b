//! What views, routines and triggers do although no statement's text tells it and no server reports it: read off their
//! definitions once, so that a statement that names such an object is known.
//!
//! Does not read definitions from a server, nor decide what becomes of a connection. Invariant: what cannot be read,
//! calls what is not known or names a table that its reader does not see, is taken to do anything.

use std::collections::{BTreeSet, HashMap, HashSet};

use wire::lex::{Dialect, Token};
use wire::text::{Lexed, Text, Tokens};

use crate::intent::is_builtin_function;
use crate::own_id::may_ask;
use crate::sharing::is_steady;
use crate::statement::tables::{NamedTable, selected};

/// What kind of object a definition is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    View,
    /// A procedure or a function.
    Routine,
    /// Its name is that of its table.
    Trigger,
}

/// An object of a server, as its tables of definitions tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    pub kind: Kind,
    pub schema: Vec<u8>,
    pub name: Vec<u8>,
    /// Empty where the reader has no right to see it.
    pub body: Vec<u8>,
}

/// When an object does what nothing tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Whenever it is named.
    Named,
    /// When rows of it are written.
    Written,
}

/// Objects of which something is known that no statement which names them tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog {
    /// By name, in small letters; with their schemas.
    names: HashMap<Box<[u8]>, Vec<InSchema>>,
    /// Names that are written in several ways, by letters or quotes: any name with such letters is taken for one.
    has_odd: Option<When>,
    objects: usize,
    unreadable: usize,
}

/// A schema, in small letters, and what the object of that name does there.
type InSchema = (Box<[u8]>, When);

/// Longer names are none.
const NAME_MAX: usize = 64 * 4;

/// A schema and a table, in small letters.
pub type Table = (Vec<u8>, Vec<u8>);

/// The tables that definitions name: of each it is to be asked whether their reader sees it.
pub fn tables(definitions: &[Definition]) -> BTreeSet<Table> {
    definitions.iter().flat_map(named_tables).collect()
}

impl Catalog {
    /// The objects that do what nothing tells. `seen`: the tables and views that the definitions' reader sees.
    pub fn new(definitions: &[Definition], seen: &BTreeSet<Table>) -> Self {
        let routines = Routines::of(definitions);
        let acts = |it: &Definition| {
            acts(it, &routines) || !named_tables(it).iter().all(|table| seen.contains(table))
        };
        Self::closed(definitions, definitions.iter().map(acts).collect())
    }

    /// The objects that ask for the number of their reader's connection.
    pub fn asking_number(definitions: &[Definition]) -> Self {
        Self::closed(definitions, definitions.iter().map(|it| may_ask(&it.body)).collect())
    }

    /// The views whose rows may differ between clients or moments although their tables do not, as far as their
    /// definitions tell.
    pub fn varying(definitions: &[Definition]) -> Self {
        let varies = |it: &Definition| {
            let lexed = Lexed::default();
            it.kind == Kind::View && !is_steady(lexed.text(&it.body, Dialect::default()))
        };
        Self::closed(definitions, definitions.iter().map(varies).collect())
    }

    /// Those of which this is known, and those that use them.
    fn closed(definitions: &[Definition], mut does: Vec<bool>) -> Self {
        // What calls such an object does the same; each round finds at least one more, or is the last.
        loop {
            let found = Self::of(definitions, &does);
            let mut is_last = true;
            for (definition, does) in definitions.iter().zip(&mut does) {
                let own = Some(&*definition.schema);
                let lexed = Lexed::default();
                let body = lexed.text(&definition.body, Dialect::default());
                if !*does && found.find(body, own).is_some() {
                    (*does, is_last) = (true, false);
                }
            }
            if is_last {
                let unreadable = definitions.iter().filter(|it| it.body.is_empty()).count();
                // A text that names a routine tells that it calls one, unless the name is also of a function that some
                // server has built in.
                let is_told =
                    |it: &Definition| it.kind == Kind::Routine && !is_builtin_function(&it.name);
                let are_told = definitions.iter().map(is_told);
                does.iter_mut().zip(are_told).for_each(|(does, is)| *does &= !is);
                return Self { unreadable, ..Self::of(definitions, &does) };
            }
        }
    }

    fn of(definitions: &[Definition], does: &[bool]) -> Self {
        let mut found = Self::default();
        for (definition, _) in definitions.iter().zip(does).filter(|(_, does)| **does) {
            found.add(definition);
        }
        found
    }

    fn add(&mut self, definition: &Definition) {
        let when = if definition.kind == Kind::Trigger { When::Written } else { When::Named };
        if is_odd(&definition.name) || is_odd(&definition.schema) {
            self.has_odd = Some(self.has_odd.map_or(when, |other| other.or(when)));
        }
        let name = definition.name.to_ascii_lowercase().into_boxed_slice();
        let schema = definition.schema.to_ascii_lowercase().into_boxed_slice();
        let of_name = self.names.entry(name).or_default();
        match of_name.iter_mut().find(|(other, _)| *other == schema) {
            Some((_, other)) => *other = other.or(when),
            None => {
                of_name.push((schema, when));
                self.objects += 1;
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// How many views, and tables with triggers, it has.
    pub const fn objects(&self) -> usize {
        self.objects
    }

    /// How many definitions could not be read.
    pub const fn unreadable(&self) -> usize {
        self.unreadable
    }

    /// Whether a text, of a session in this schema, names such an object: the worst that is found.
    pub fn find(&self, text: Text<'_>, schema: Option<&[u8]>) -> Option<When> {
        if self.is_empty() {
            return None;
        }
        let own = schema.map_or(Place::Nowhere, Place::In);
        let (mut default, mut worst) = (own, None);
        let (mut before, mut previous) = (Token::Symbol(b';'), Token::Symbol(b';'));
        let tokens = text.tokens();
        if tokens.is_cut() {
            return Some(When::Named);
        }
        for token in tokens {
            if token.is_word("USE") {
                // Which schema follows, a routine's text may compute.
                default = Place::Anywhere;
            }
            let place = match (name(before), previous) {
                (Some(schema), Token::Symbol(b'.')) => Place::In(schema),
                (None, Token::Symbol(b'.')) => Place::Anywhere,
                _ => default,
            };
            match self.when(token, place) {
                Some(When::Named) => return Some(When::Named),
                found => worst = worst.or(found),
            }
            (before, previous) = (previous, token);
        }
        worst
    }

    /// Whether a text of nothing but reads, of a session in this schema, reads such an object. A column may have the name
    /// of one.
    pub fn is_read(&self, text: Text<'_>, schema: Option<&[u8]>) -> bool {
        if self.find(text, schema).is_none() {
            return false;
        }
        let own = schema.map_or(Place::Nowhere, Place::In);
        let is_one = |it: &NamedTable| {
            let place = it.schema.as_deref().map_or(own, Place::In);
            self.when(Token::Quoted(&it.table), place).is_some()
        };
        selected(text).is_none_or(|tables| tables.iter().any(is_one))
    }

    fn when(&self, token: Token<'_>, place: Place<'_>) -> Option<When> {
        let name = name(token)?;
        let mut space = [0; NAME_MAX];
        let lower = space.get_mut(..name.len())?;
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        let fits = |(schema, _): &&InSchema| match place {
            Place::In(place) => schema.eq_ignore_ascii_case(place),
            Place::Anywhere => true,
            Place::Nowhere => false,
        };
        let known = self.names.get(&*lower).and_then(|of_name| of_name.iter().find(fits));
        let is_odd = is_odd(name) || matches!(place, Place::In(schema) if is_odd(schema));
        known.map(|(_, when)| *when).or_else(|| self.has_odd.filter(|_| is_odd))
    }
}

/// Where a name is looked for.
#[derive(Clone, Copy)]
enum Place<'a> {
    In(&'a [u8]),
    Anywhere,
    Nowhere,
}

/// What may be a name. One in double quotes is read as a string, and one that begins with a digit as a number.
const fn name(token: Token<'_>) -> Option<&[u8]> {
    match token {
        Token::Word(name) | Token::Quoted(name) | Token::String(name) | Token::Number(name) => {
            Some(name)
        }
        _ => None,
    }
}

impl When {
    const fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Written, Self::Written) => Self::Written,
            _ => Self::Named,
        }
    }
}

/// The rights of one user that tell whether it sees the triggers that it may fire.
#[derive(Debug, Default)]
pub struct Grants {
    /// Where it may write, and where it sees triggers: a schema and a table, or a schema and nothing, or nothing.
    writes: BTreeSet<Table>,
    sees: BTreeSet<Table>,
    sees_all_views: bool,
    has_role: bool,
    /// All users have one right at least, if it is no more than `USAGE`: else their rights are not told.
    are_told: bool,
}

impl Grants {
    /// Adds a right as the server names it. `place`: nothing, a schema, or a schema and a table with a zero between
    /// them. `ROLE` stands for whatever rights a role brings.
    pub fn add(&mut self, right: &[u8], place: &[u8]) {
        let mut parts = place.splitn(2, |byte| *byte == 0);
        let mut next = || parts.next().unwrap_or_default().to_vec();
        let place = (next(), next());
        match right {
            b"ROLE" => return self.has_role = true,
            b"INSERT" | b"UPDATE" | b"DELETE" => _ = self.writes.insert(place),
            b"TRIGGER" => _ = self.sees.insert(place),
            b"SHOW VIEW" => self.sees_all_views |= place == Table::default(),
            _ => {}
        }
        self.are_told = true;
    }

    fn see_all_triggers(&self) -> bool {
        self.sees.contains(&Table::default())
    }

    /// Whether the user sees all definitions of views and triggers.
    pub fn see_all(&self) -> bool {
        self.see_all_triggers() && self.sees_all_views
    }

    /// Whether the user may write where it may not see triggers.
    pub fn hide_triggers(&self) -> bool {
        let sees = |(schema, table): &Table| {
            self.sees.contains(&(schema.clone(), Vec::new()))
                || self.sees.contains(&(schema.clone(), table.clone()))
        };
        let sees_what_it_fires = self.are_told && !self.has_role && self.writes.iter().all(sees);
        !self.see_all_triggers() && !sees_what_it_fires
    }
}

fn is_odd(name: &[u8]) -> bool {
    name.iter().any(|byte| !byte.is_ascii() || matches!(byte, b'`' | b'"' | b'\'' | b'\\'))
}

/// The routines of which a definition is known, in small letters.
struct Routines(HashSet<(Vec<u8>, Vec<u8>)>);

impl Routines {
    fn of(definitions: &[Definition]) -> Self {
        let routines = definitions.iter().filter(|it| it.kind == Kind::Routine);
        let key = |it: &Definition| (it.schema.to_ascii_lowercase(), it.name.to_ascii_lowercase());
        Self(routines.map(key).collect())
    }

    fn has(&self, schema: &[u8], name: &[u8]) -> bool {
        self.0.contains(&(schema.to_ascii_lowercase(), name.to_ascii_lowercase()))
    }
}

/// Whether a definition does by itself what nothing tells, or calls what is not known.
fn acts(definition: &Definition, routines: &Routines) -> bool {
    if definition.body.is_empty() {
        return true;
    }
    let lexed = Lexed::default();
    let mut tokens = lexed.text(&definition.body, Dialect::default()).tokens();
    if tokens.is_cut() {
        return true;
    }
    // The last three tokens, the first one first.
    let mut last = [Token::Symbol(b';'); 3];
    let mut is_table = false;
    while let Some(token) = tokens.next() {
        let [schema, dot, called] = last;
        if token == Token::Symbol(b'(')
            && !is_table
            && matches!(called, Token::Word(_) | Token::Quoted(_))
        {
            let called = name(called).unwrap_or_default();
            let is_known = match (name(schema), dot) {
                (Some(schema), Token::Symbol(b'.')) => routines.has(schema, called),
                // Those of its own schema stand alone.
                _ => is_builtin_function(called) || routines.has(&definition.schema, called),
            };
            if !is_known {
                return true;
            }
        }
        if is_unreported(last, token, tokens) {
            return true;
        }
        // `CALL p`, without a list of arguments.
        if called.is_word("CALL") {
            let mut ahead = tokens;
            let is_whole = ahead.next() == Some(Token::Symbol(b'.'));
            let is_known = match (name(token), ahead.next().and_then(name).filter(|_| is_whole)) {
                (Some(schema), Some(called)) => routines.has(schema, called),
                (called, _) => routines.has(&definition.schema, called.unwrap_or_default()),
            };
            if !is_known {
                return true;
            }
        }
        // A table, and behind it a list of its columns.
        const BEFORE_TABLES: [&str; 6] =
            ["INTO", "TABLE", "REFERENCES", "INSERT", "REPLACE", "IGNORE"];
        let is_name = matches!(token, Token::Word(_) | Token::Quoted(_) | Token::Symbol(b'.'));
        is_table = BEFORE_TABLES.iter().any(|it| token.is_word(it)) || is_table && is_name;
        last = [dot, called, token];
    }
    false
}

/// The tables that a definition reads or writes; and rather too many names than one too few.
fn named_tables(definition: &Definition) -> Vec<Table> {
    const MODIFIERS: [&str; 5] = ["LOW_PRIORITY", "HIGH_PRIORITY", "DELAYED", "IGNORE", "INTO"];
    const ENDS: [&str; 7] = ["WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "SET", "SELECT"];
    let is_view = definition.kind == Kind::View;
    let is_one = |token: Token<'_>, words: &[&str]| words.iter().any(|it| token.is_word(it));
    let mut tables = Vec::new();
    let lexed = Lexed::default();
    let mut tokens = lexed.text(&definition.body, Dialect::default()).tokens();
    // Whether a table comes now; whether others follow behind commas.
    let (mut is_due, mut is_list, mut before) = (false, false, Token::Symbol(b';'));
    while let Some(token) = tokens.next() {
        let begins = match token {
            // `FROM (a JOIN b)`; but `INSERT(a, 1, 2, b)` is a function.
            Token::Symbol(b'(') => is_due && !is_one(before, &["INSERT", "REPLACE"]),
            Token::Symbol(b',') => is_list && !is_view,
            // `FOR UPDATE`, `ON DUPLICATE KEY UPDATE`.
            _ if token.is_word("UPDATE") => !is_one(before, &["FOR", "KEY"]),
            _ if is_one(token, &MODIFIERS) => is_due,
            _ => is_one(token, &["FROM", "JOIN", "STRAIGHT_JOIN", "INSERT", "REPLACE"]),
        };
        is_list |= is_one(token, &["FROM", "JOIN", "STRAIGHT_JOIN", "UPDATE"]);
        is_list &= !is_one(token, &ENDS) && token != Token::Symbol(b';');
        let is_name = matches!(token, Token::Word(_) | Token::Quoted(_)) && !is_one(token, &ENDS);
        if is_due && is_name && !begins {
            let mut ahead = tokens;
            let is_whole = ahead.next() == Some(Token::Symbol(b'.'));
            let last = ahead.next().and_then(name).filter(|_| is_whole);
            tables.extend(match (name(token), last) {
                // Of the row in hand.
                (Some(row), Some(_)) if is_row(row) => None,
                (Some(schema), Some(table)) => Some(table_of(schema, table)),
                // A view's tables stand with their schemas: what stands alone is of its own making.
                (Some(table), None) if !is_view => Some(table_of(&definition.schema, table)),
                _ => None,
            });
        }
        (is_due, before) = (begins, token);
    }
    tables
}

fn is_row(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"NEW") || name.eq_ignore_ascii_case(b"OLD")
}

fn table_of(schema: &[u8], name: &[u8]) -> Table {
    (schema.to_ascii_lowercase(), name.to_ascii_lowercase())
}

/// Whether something begins here of which no server tells.
fn is_unreported(last: [Token<'_>; 3], token: Token<'_>, behind: Tokens<'_>) -> bool {
    let [_, before, previous] = last;
    const WORDS: [&str; 13] = [
        "GET_LOCK",
        "RELEASE_LOCK",
        "RELEASE_ALL_LOCKS",
        "NEXTVAL",
        "SETVAL",
        "NEXT",
        "TEMPORARY",
        "SQL_CALC_FOUND_ROWS",
        "PREPARE",
        "EXECUTE",
        "BACKUP",
        "FLUSH",
        "ROLE",
    ];
    match token {
        Token::Word(word) if word.eq_ignore_ascii_case(b"LAST_INSERT_ID") => {
            let mut ahead = behind;
            ahead.next() == Some(Token::Symbol(b'(')) && ahead.next() != Some(Token::Symbol(b')'))
        }
        Token::Word(_) => WORDS.iter().any(|it| token.is_word(it)),
        // `SET @@x = …`, which is not reported, unlike `SET x = …`.
        Token::SystemVariable(_) => {
            let mut ahead = behind;
            let is_set = matches!(ahead.next(), Some(Token::Symbol(b'=') | Token::Assign));
            is_set && (previous.is_word("SET") || previous == Token::Symbol(b','))
        }
        Token::Unfinished => true,
        // `SELECT … INTO @x`, `FETCH … INTO a, @x`: not by `SET @x = …`, which is reported.
        Token::UserVariable(_) => {
            let is_set = previous.is_word("SET");
            let mut ahead = behind;
            let next = ahead.next();
            let is_assigned = next == Some(Token::Assign) && !is_set;
            let is_list = previous == Token::Symbol(b',') && next != Some(Token::Symbol(b'='));
            previous.is_word("INTO") || is_assigned || is_list && !is_argument(before)
        }
        _ => false,
    }
}

/// Whether what stood before a comma was no name: then a list of names goes on in no `INTO`.
const fn is_argument(before: Token<'_>) -> bool {
    matches!(before, Token::Number(_) | Token::String(_) | Token::Symbol(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition((kind, name, body): &(Kind, &str, &str)) -> Definition {
        let (schema, name) = name.split_once('.').unwrap_or(("a", name));
        let [schema, name, body] = [schema, name, body].map(|it| it.as_bytes().to_vec());
        Definition { kind: *kind, schema, name, body }
    }

    /// Of a reader that sees all tables.
    fn catalog(objects: &[(Kind, &str, &str)]) -> Catalog {
        let definitions: Vec<_> = objects.iter().map(definition).collect();
        Catalog::new(&definitions, &tables(&definitions))
    }

    fn find(catalog: &Catalog, text: &str) -> Option<When> {
        catalog.find(Lexed::default().text(text.as_bytes(), Dialect::default()), Some(b"a"))
    }

    use Kind::{Routine, Trigger, View};

    #[test]
    fn bodies_that_do_what_nothing_tells() {
        for (kind, body) in [
            (View, "select get_lock('a',0) AS `x`"),
            (View, "select last_insert_id(4711) AS `x`"),
            (View, "select `iso`.`unknown`(1) AS `x`"),
            (View, "select my_udf(1) AS `x`"),
            (View, "select nextval(`iso`.`q`) AS `x`"),
            (View, ""),
            (Trigger, "SELECT 7 INTO @x"),
            (Trigger, "BEGIN SELECT 7, 8 INTO a, @x; END"),
            (Trigger, "DO @x := 7"),
            (Trigger, "SET @@max_sort_length = 5"),
            (Trigger, "SET a = 1, @@sql_mode = ''"),
            (Trigger, "DO RELEASE_ALL_LOCKS()"),
            (Trigger, "INSERT INTO log (a) VALUES (iso.unknown(1))"),
            (Routine, "BEGIN CREATE TEMPORARY TABLE t AS SELECT 1; RETURN 1; END"),
            (Routine, "BEGIN DECLARE c CURSOR FOR SELECT 1; OPEN c; FETCH c INTO @x; END"),
            (Routine, "PREPARE p FROM 'SELECT 1'"),
            (Routine, "RETURN 'never ends"),
        ] {
            assert!(acts(&definition(&(kind, "o", body)), &Routines::of(&[])), "{body}");
        }
    }

    #[test]
    fn bodies_that_leave_nothing_or_what_the_server_reports() {
        for (kind, body) in [
            (View, "select `a`.`t`.`id` AS `id` from `a`.`t` where `a`.`t`.`id` in (1,2)"),
            (View, "select count(0) AS `n`,cast(`t`.`a` as decimal(10,2)) AS `d` from `a`.`t`"),
            (View, "select last_insert_id() AS `x`"),
            (View, "select @x AS `x`, @@sql_mode AS `y`"),
            (Trigger, "SET NEW.a = COALESCE(NEW.a, 0) + 1"),
            (Trigger, "SET @x = 5, @y = @x + 1"),
            (Trigger, "INSERT INTO log (a, b) VALUES (NEW.a, CONCAT(NEW.b, 'x', @x))"),
            (
                Trigger,
                "BEGIN INSERT IGNORE INTO a.log (a) VALUES (1); UPDATE a.t SET b = 2 WHERE a IN (1); END",
            ),
            (Routine, "BEGIN DECLARE x VARCHAR(20); SELECT a INTO x FROM t; RETURN x; END"),
            (Routine, "RETURN x + 1"),
        ] {
            assert!(!acts(&definition(&(kind, "o", body)), &Routines::of(&[])), "{body}");
        }
    }

    #[test]
    fn what_asks_for_the_number_of_its_readers_connection() {
        let objects = [
            (Routine, "asks", "RETURN CONNECTION_ID()"),
            (View, "v_asks", "select connection_id() AS `id`"),
            (View, "v_calls", "select `a`.`asks`() AS `id`"),
            (View, "v_locks", "select get_lock('a',0) AS `x`"),
            (View, "v_unread", ""),
            (Trigger, "writes", "SET NEW.a = @@pseudo_thread_id"),
        ];
        let definitions: Vec<_> = objects.iter().map(definition).collect();
        let catalog = Catalog::asking_number(&definitions);
        for (text, when) in [
            ("SELECT * FROM v_asks", Some(When::Named)),
            ("SELECT * FROM v_calls", Some(When::Named)),
            ("INSERT INTO writes VALUES (1)", Some(When::Written)),
            ("SELECT * FROM v_locks JOIN v_unread", None),
        ] {
            assert_eq!(find(&catalog, text), when, "{text}");
        }
    }

    #[test]
    fn views_whose_rows_vary_although_their_tables_do_not() {
        let objects = [
            (View, "v_random", "select rand() AS `r`,`a`.`t`.`id` AS `id` from `a`.`t`"),
            (View, "v_uses", "select `a`.`v_random`.`r` AS `r` from `a`.`v_random`"),
            (View, "v_calls", "select `a`.`f`(1) AS `f`"),
            (View, "v_unread", ""),
            (View, "v_clock", "select curtime() AS `now`"),
            (
                View,
                "v_plain",
                "select sum(`a`.`t`.`k`) AS `s` from `a`.`t` where `a`.`t`.`id` in (1,2)",
            ),
            (Routine, "f", "RETURN RAND()"),
        ];
        let definitions: Vec<_> = objects.iter().map(definition).collect();
        let catalog = Catalog::varying(&definitions);
        for name in ["v_random", "v_uses", "v_calls", "v_unread", "v_clock"] {
            let text = format!("SELECT * FROM t JOIN {name}");
            assert_eq!(find(&catalog, &text), Some(When::Named), "{text}");
        }
        assert_eq!(find(&catalog, "SELECT * FROM v_plain JOIN t"), None);
        for (text, is_read) in [
            ("SELECT v_clock FROM t WHERE v_calls = 1", false),
            ("SELECT x FROM t JOIN `v_clock` AS c", true),
            ("SELECT x FROM b.v_clock JOIN a.t", false),
            ("SELECT x FROM t, (SELECT 1 FROM a.v_calls) q", true),
            ("SELECT x FROM \"v_calls\"", true),
            ("SHOW COLUMNS FROM v_calls", true),
        ] {
            let lexed = Lexed::default();
            let text_of = lexed.text(text.as_bytes(), Dialect::default());
            assert_eq!(catalog.is_read(text_of, Some(b"a")), is_read, "{text}");
        }
    }

    #[test]
    fn what_calls_such_an_object_is_one() {
        let catalog = catalog(&[
            (Routine, "locks", "RETURN GET_LOCK('a', 0)"),
            (Routine, "calls", "RETURN locks() + 1"),
            (Routine, "pure", "RETURN 1"),
            (Routine, "uuid_to_bin", "BEGIN DO GET_LOCK('a', 0); RETURN 1; END"),
            (Routine, "bin_to_uuid", "RETURN 1"),
            (View, "v_calls", "select `a`.`calls`() AS `x`"),
            (View, "v_deep", "select `a`.`v_calls`.`x` AS `x` from `a`.`v_calls`"),
            (View, "v_pure", "select `a`.`pure`() AS `x`"),
            (View, "v_own", "select `pure`() AS `x`"),
            (Trigger, "fires", "INSERT INTO fires_too (a) VALUES (1)"),
            (Trigger, "fires_too", "DO GET_LOCK('a', 0)"),
            (Trigger, "counts", "INSERT INTO log (a) VALUES (1)"),
            (View, "v_written", "select `a`.`fires`.`a` AS `a` from `a`.`fires`"),
        ]);
        for (text, when) in [
            ("SELECT * FROM v_calls", Some(When::Named)),
            ("SELECT * FROM `a` . `V_Deep`", Some(When::Named)),
            ("SELECT * FROM \"v_deep\"", Some(When::Named)),
            ("INSERT INTO a.fires VALUES (1)", Some(When::Written)),
            ("INSERT INTO fires_too VALUES (1)", Some(When::Written)),
            ("INSERT INTO fires SELECT * FROM v_calls", Some(When::Named)),
            ("SELECT * FROM v_pure", None),
            ("SELECT * FROM v_own", None),
            ("INSERT INTO counts VALUES (1)", None),
            // A text tells of a routine; not of one that another brand of server has built in.
            ("SELECT calls()", None),
            ("SELECT uuid_to_bin(1)", Some(When::Named)),
            ("SELECT bin_to_uuid(1)", None),
            ("SELECT * FROM v_calls_not -- v_calls", None),
            ("SELECT 1", None),
            ("SELECT * FROM b.v_calls", None),
            ("SELECT v.v_calls FROM v_pure AS v", None),
            ("USE x; SELECT * FROM v_calls", Some(When::Named)),
        ] {
            assert_eq!(find(&catalog, text), when, "{text}");
        }
        let elsewhere = |schema| {
            catalog
                .find(Lexed::default().text(b"SELECT * FROM v_calls", Dialect::default()), schema)
        };
        assert_eq!((elsewhere(Some(b"b")), elsewhere(None)), (None, None));
        assert!(find(&catalog, "INSERT INTO v_written VALUES (1)").is_some());
        assert_eq!((catalog.objects(), catalog.unreadable()), (7, 0));
    }

    #[test]
    fn the_tables_that_a_definition_names() {
        for (kind, body, expected) in [
            (
                View,
                "select `x`.`id` AS `id` from (`a`.`t` `x` join `B`.`U` on(`x`.`id` = 1))",
                "a.t b.u",
            ),
            (
                View,
                "with `c` as (select 1 AS `n` from `a`.`t`) select `c`.`n` AS `n` from `c`",
                "a.t",
            ),
            (View, "select `a`.`t`.`id` AS `id`,replace(`b`.`x`,'y','z') from (select 1) `s`", ""),
            (Trigger, "INSERT INTO log (a) VALUES (NEW.a)", "a.log"),
            (
                Trigger,
                "INSERT IGNORE b.log SET a = NEW.a ON DUPLICATE KEY UPDATE n = n + 1",
                "b.log",
            ),
            (
                Trigger,
                "BEGIN UPDATE LOW_PRIORITY t, b.u SET n = 1; DELETE FROM v; END",
                "a.t b.u a.v",
            ),
            (Trigger, "SET NEW.a = INSERT(NEW.b, 1, 2, 'x'), NEW.c = REPLACE(NEW.b, 'x', 'y')", ""),
            (
                Trigger,
                "SELECT COUNT(*) INTO n FROM t, u WHERE t.a = u.a AND u.b IN (1, 2)",
                "a.t a.u",
            ),
            (Trigger, "SET NEW.y = EXTRACT(YEAR FROM NEW.d)", ""),
            (Routine, "RETURN (SELECT MAX(a) FROM (SELECT a FROM b.t FOR UPDATE) x)", "b.t"),
        ] {
            let named = named_tables(&definition(&(kind, "o", body)));
            let text = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
            let named: Vec<_> = named.iter().map(|(s, t)| [text(s), text(t)].join(".")).collect();
            assert_eq!(named.join(" "), expected, "{body}");
        }
    }

    #[test]
    fn what_names_a_table_or_a_routine_that_is_not_seen_may_do_anything() {
        let objects = [
            (View, "reads", "select `b`.`t`.`id` AS `id` from `b`.`t`"),
            (View, "sees", "select `a`.`t`.`id` AS `id` from `a`.`t`"),
            (Trigger, "writes", "INSERT INTO b.log VALUES (1)"),
            (Trigger, "calls", "CALL unseen"),
            (Trigger, "asks", "SET NEW.a = unseen(1)"),
            (Trigger, "counts", "SET NEW.a = IF(NEW.a IN (1), COALESCE(NEW.b, 0), 2)"),
        ];
        let definitions: Vec<_> = objects.iter().map(definition).collect();
        let seen = BTreeSet::from([table_of(b"a", b"t")]);
        let catalog = Catalog::new(&definitions, &seen);
        for (text, when) in [
            ("SELECT * FROM reads", Some(When::Named)),
            ("SELECT * FROM sees", None),
            ("INSERT INTO writes VALUES (1)", Some(When::Written)),
            ("INSERT INTO calls VALUES (1)", Some(When::Written)),
            ("INSERT INTO asks VALUES (1)", Some(When::Written)),
            ("INSERT INTO counts VALUES (1)", None),
        ] {
            assert_eq!(find(&catalog, text), when, "{text}");
        }
    }

    #[test]
    fn triggers_are_hidden_where_a_user_may_write_and_not_see_them() {
        for (grants, expected) in [
            (&[][..], true),
            (&[("USAGE", "")], false),
            (&[("INSERT", ""), ("TRIGGER", "")], false),
            (&[("INSERT", "a"), ("TRIGGER", "a")], false),
            (&[("INSERT", "a\0t"), ("TRIGGER", "a")], false),
            (&[("INSERT", "a\0t"), ("TRIGGER", "a\0t")], false),
            (&[("INSERT", "a"), ("TRIGGER", "a\0t")], true),
            (&[("DELETE", "a"), ("TRIGGER", "b")], true),
            (&[("UPDATE", ""), ("TRIGGER", "a")], true),
            (&[("SELECT", "a")], false),
            (&[("USAGE", ""), ("ROLE", "`r`@`%`")], true),
            (&[("ROLE", "`r`@`%`"), ("TRIGGER", "")], false),
        ] {
            let mut rights = Grants::default();
            grants.iter().for_each(|(right, at)| rights.add(right.as_bytes(), at.as_bytes()));
            assert_eq!(rights.hide_triggers(), expected, "{grants:?}");
        }
    }

    #[test]
    fn routines_that_call_themselves_end() {
        let catalog = catalog(&[
            (Routine, "one", "BEGIN CALL two(); END"),
            (Routine, "two", "BEGIN CALL one(); END"),
            (View, "v", "select `a`.`one`() AS `x`"),
        ]);
        assert!(catalog.is_empty());
        assert_eq!(find(&catalog, "SELECT * FROM v"), None);
    }

    #[test]
    fn names_beyond_ascii_are_taken_for_one_another() {
        let catalog = catalog(&[(View, "größe", "select get_lock('a',0) AS `x`")]);
        for text in ["SELECT * FROM `GRÖSSE`", "SELECT * FROM größe", "SELECT * FROM `a``b`"] {
            assert_eq!(find(&catalog, text), Some(When::Named), "{text}");
        }
        assert_eq!(find(&catalog, "SELECT * FROM t"), None);
    }
}
