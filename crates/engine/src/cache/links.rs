//! What stands behind a table: the tables of a view, what triggers write, which rows foreign keys take along.
//!
//! Read off definitions, rather with a table too many than one too few. What cannot be read, or calls a routine, is taken
//! to write anything; what has its rows elsewhere, to read and write anything. Invariant: what is behind a table holds all
//! that is behind what is behind it.

use std::collections::{BTreeSet, HashMap, HashSet};

use wire::lex::{Dialect, Token};
use wire::text::{Lexed, Tokens};

use crate::hidden::{Definition, Kind, Table};
use crate::intent::{Intent, Trait, is_builtin_function};

/// The tables behind tables, as far as definitions tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// By name, in small letters; with their schemas.
    names: HashMap<Box<[u8]>, Vec<InSchema>>,
    /// Something is known of a name that may be written in several ways.
    has_odd: bool,
    /// Routines, in the same way.
    routines: HashMap<Box<[u8]>, Vec<InSchema>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Link {
    /// A view that may do anything when it is read: it calls something, or cannot be read.
    acts: bool,
    /// What else is read. `None`: anything.
    read: Tables,
    /// What else is written.
    written: Tables,
}

/// A schema, in small letters, and what stands behind the table of that name there.
type InSchema = (Box<[u8]>, Link);

/// `None`: all tables.
type Tables = Option<BTreeSet<Table>>;

/// What stands behind a table.
pub enum LinkedTables<'a> {
    Tables(Box<dyn Iterator<Item = (&'a [u8], &'a [u8])> + 'a>),
    Anything,
}

impl Links {
    /// `keys`: pairs of a table and one whose rows are changed when rows of the first one are. `elsewhere`: tables whose
    /// rows other tables have, or other servers, or other moments.
    pub fn new(
        definitions: &[Definition],
        keys: &[(Table, Table)],
        elsewhere: &BTreeSet<Table>,
    ) -> Self {
        let mut links: HashMap<Table, Link> = HashMap::new();
        let empty =
            || Link { acts: false, read: Some(BTreeSet::new()), written: Some(BTreeSet::new()) };
        let mut routines: HashMap<Table, Link> = HashMap::new();
        let own: HashSet<_> = definitions
            .iter()
            .filter(|it| it.kind == Kind::Routine)
            .map(|it| it.name.to_ascii_lowercase())
            .collect();
        for definition in definitions {
            let table =
                (definition.schema.to_ascii_lowercase(), definition.name.to_ascii_lowercase());
            let found = named(definition, &own);
            match definition.kind {
                // A procedure and a function may have one name.
                Kind::Routine => {
                    add(&mut routines.entry(table).or_insert_with(empty).written, found)
                }
                Kind::View => {
                    let link = links.entry(table).or_insert_with(empty);
                    link.acts |= found.is_none();
                    add(&mut link.read, found.clone());
                    add(&mut link.written, found);
                }
                Kind::Trigger => add(&mut links.entry(table).or_insert_with(empty).written, found),
            }
        }
        for ((schema, parent), (of, child)) in keys {
            let lower = |name: &Vec<u8>| name.to_ascii_lowercase();
            let link = links.entry((lower(schema), lower(parent))).or_insert_with(empty);
            add(&mut link.written, Some(BTreeSet::from([(lower(of), lower(child))])));
        }
        act(&mut links);
        for table in elsewhere {
            let link = links.entry(table.clone()).or_insert_with(empty);
            (link.read, link.written) = (None, None);
        }
        close(&mut links, |link| &mut link.read, |link| &link.read);
        close(&mut links, |link| &mut link.written, |link| &link.written);
        for routine in routines.values_mut() {
            let behind = routine.written.iter().flatten().filter_map(|it| links.get(it));
            let more: Vec<_> = behind.map(|link| link.written.clone()).collect();
            more.into_iter().for_each(|tables| add(&mut routine.written, tables));
        }
        let mut new = Self::default();
        for (from, to) in [(links, &mut new.names), (routines, &mut new.routines)] {
            for ((schema, name), link) in from {
                new.has_odd |= is_odd(&schema) || is_odd(&name);
                to.entry(name.into()).or_default().push((schema.into(), link));
            }
        }
        new
    }

    /// What else is read where this table or view is.
    pub fn read_behind(&self, schema: &[u8], table: &[u8]) -> LinkedTables<'_> {
        self.behind(&self.names, Some(schema), table, |link| &link.read)
    }

    /// What else may be written where this table or view is; `None`: of any schema.
    pub fn written_behind(&self, schema: Option<&[u8]>, table: &[u8]) -> LinkedTables<'_> {
        self.behind(&self.names, schema, table, |link| &link.written)
    }

    /// What a procedure writes; `None`: of any schema. One that is not known writes anything.
    pub fn written_by(&self, schema: Option<&[u8]>, routine: &[u8]) -> LinkedTables<'_> {
        let of_name = self.routines.get(&*routine.to_ascii_lowercase()).into_iter().flatten();
        let is_known = of_name
            .into_iter()
            .any(|it| schema.is_none_or(|schema| it.0.eq_ignore_ascii_case(schema)));
        match is_known {
            true => self.behind(&self.routines, schema, routine, |link| &link.written),
            false => LinkedTables::Anything,
        }
    }

    fn behind<'a>(
        &self,
        names: &'a HashMap<Box<[u8]>, Vec<InSchema>>,
        schema: Option<&[u8]>,
        table: &[u8],
        of: fn(&Link) -> &Tables,
    ) -> LinkedTables<'a> {
        if self.has_odd && (is_odd(table) || schema.is_some_and(is_odd)) {
            return LinkedTables::Anything;
        }
        let mut all: [Option<&BTreeSet<Table>>; 4] = [None; 4];
        let known = names.get(&*table.to_ascii_lowercase()).into_iter().flatten();
        let fits =
            |it: &&(Box<[u8]>, Link)| schema.is_none_or(|own| it.0.eq_ignore_ascii_case(own));
        for (at, (_, link)) in known.filter(fits).enumerate() {
            match (all.get_mut(at), of(link)) {
                (Some(place), Some(tables)) => *place = Some(tables),
                // In more schemas than are looked at.
                _ => return LinkedTables::Anything,
            }
        }
        let tables = all.into_iter().flatten().flatten();
        LinkedTables::Tables(Box::new(tables.map(|(schema, table)| (&**schema, &**table))))
    }

    /// Whether a text calls a routine that is known.
    pub fn calls_routine(&self, tokens: Tokens<'_>) -> bool {
        let mut called = None;
        !self.routines.is_empty()
            && tokens.into_iter().any(|token| {
                let before = called.replace(token);
                let name = before.and_then(name).filter(|_| token == Token::Symbol(b'('));
                name.is_some_and(|name| self.routines.contains_key(&*name.to_ascii_lowercase()))
            })
    }

    /// Whether a view may do anything when it is read; `None`: of any schema.
    pub fn may_act(&self, schema: Option<&[u8]>, view: &[u8]) -> bool {
        let of_name = self.names.get(&*view.to_ascii_lowercase()).into_iter().flatten();
        let fits = |own: &[u8]| schema.is_none_or(|schema| own.eq_ignore_ascii_case(schema));
        self.has_odd && (is_odd(view) || schema.is_some_and(is_odd))
            || of_name.into_iter().any(|(own, link)| link.acts && fits(own))
    }

    /// Whether a text has the name of a view in it that may do anything.
    pub fn names_acting(&self, tokens: Tokens<'_>) -> bool {
        !self.names.is_empty()
            && tokens.into_iter().filter_map(name).any(|name| {
                let of_name = self.names.get(&*name.to_ascii_lowercase()).into_iter().flatten();
                self.has_odd && is_odd(name) || of_name.into_iter().any(|(_, link)| link.acts)
            })
    }
}

fn add(tables: &mut Tables, more: Tables) {
    match (tables.as_mut(), more) {
        (Some(tables), Some(more)) => tables.extend(more),
        _ => *tables = None,
    }
}

/// A view of a view that may do anything may do so, too.
fn act(links: &mut HashMap<Table, Link>) {
    loop {
        let acts = |table: &Table| links.get(table).is_some_and(|link| link.acts);
        let more = |link: &Link| !link.acts && link.read.iter().flatten().any(acts);
        let more: Vec<_> = links.iter().filter(|(_, link)| more(link)).collect();
        let more: Vec<_> = more.into_iter().map(|(table, _)| table.clone()).collect();
        if more.is_empty() {
            return;
        }
        for table in more {
            if let Some(link) = links.get_mut(&table) {
                link.acts = true;
            }
        }
    }
}

/// Adds to each what is behind what is behind it.
fn close(
    links: &mut HashMap<Table, Link>,
    of_mut: fn(&mut Link) -> &mut Tables,
    of: fn(&Link) -> &Tables,
) {
    loop {
        let mut more: Vec<(Table, Tables)> = Vec::new();
        for (table, link) in &*links {
            let Some(own) = of(link) else { continue };
            let behind = own.iter().filter_map(|it| links.get(it)).map(of);
            let mut all = Some(BTreeSet::new());
            behind.for_each(|tables| add(&mut all, tables.clone()));
            if all.as_ref().is_none_or(|all| !all.is_subset(own)) {
                more.push((table.clone(), all));
            }
        }
        if more.is_empty() {
            return;
        }
        for (table, tables) in more {
            if let Some(link) = links.get_mut(&table) {
                add(of_mut(link), tables);
            }
        }
    }
}

/// The tables that a definition may read or write. `None`: any. `routines`: names of those that there are, in small letters;
/// some are built in on other servers.
fn named(definition: &Definition, routines: &HashSet<Vec<u8>>) -> Tables {
    let lexed = Lexed::default();
    let text = lexed.text(&definition.body, Dialect::default());
    let tokens = text.tokens();
    // Where a string with a backslash ends is the `sql_mode`'s to say in which it was defined.
    let is_odd_text = definition.body.is_empty() || definition.body.contains(&b'\\');
    if is_odd_text || tokens.is_cut() || tokens.saw_executable_comment() {
        return None;
    }
    let mut tables = BTreeSet::new();
    let (mut before, mut previous) = (Token::Symbol(b';'), Token::Symbol(b';'));
    for token in tokens {
        let is_forbidden = FORBIDDEN.iter().any(|word| token.is_word(word));
        if is_forbidden || token == Token::Unfinished {
            return None;
        }
        let is_own =
            || name(previous).is_some_and(|it| routines.contains(&it.to_ascii_lowercase()));
        if token == Token::Symbol(b'(') && (is_call(before, previous) || is_own()) {
            return None;
        }
        if let Some(table) = name(token) {
            let schema = name(before).filter(|_| previous == Token::Symbol(b'.'));
            let schema = schema.unwrap_or(&definition.schema);
            tables.insert((schema.to_ascii_lowercase(), table.to_ascii_lowercase()));
        }
        (before, previous) = (previous, token);
    }
    let is_called = definition.kind == Kind::View && Intent::read(text).has(Trait::Calls);
    (!is_called && !tables.iter().any(|(schema, table)| is_odd(schema) || is_odd(table)))
        .then_some(tables)
}

/// What is behind these words is not in the text; or they define, and it may be other definitions that count behind them.
const FORBIDDEN: [&str; 11] = [
    "CALL", "PREPARE", "EXECUTE", "CREATE", "ALTER", "DROP", "RENAME", "GRANT", "REVOKE", "FLUSH",
    "INSTALL",
];

/// Whether a parenthesis behind these opens what a routine is called with.
pub(super) fn is_call(before: Token<'_>, previous: Token<'_>) -> bool {
    match previous {
        // `INTO t (a, b)`.
        Token::Word(_) | Token::Quoted(_) if before.is_word("INTO") => false,
        Token::Word(word) => before == Token::Symbol(b'.') || !is_builtin_function(word),
        Token::Quoted(_) | Token::String(_) => true,
        _ => false,
    }
}

fn name(token: Token<'_>) -> Option<&[u8]> {
    match token {
        Token::Word(name) | Token::Quoted(name) | Token::Number(name) => Some(name),
        // Under `ANSI_QUOTES`.
        Token::String(name) if name.len() <= NAME_MAX => Some(name),
        _ => None,
    }
}

const NAME_MAX: usize = 64 * 4;

/// Whether a name may be written in several ways.
fn is_odd(name: &[u8]) -> bool {
    name.iter().any(|byte| !byte.is_ascii() || matches!(byte, b'`' | b'"' | b'\'' | b'\\'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str) -> Table {
        let (schema, name) = name.split_once('.').unwrap_or(("a", name));
        (schema.into(), name.into())
    }

    fn definition((kind, name, body): (Kind, &str, &str)) -> Definition {
        let (schema, name) = table(name);
        Definition { kind, schema, name, body: body.into() }
    }

    fn shown(behind: LinkedTables<'_>) -> Option<Vec<String>> {
        let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
        match behind {
            LinkedTables::Anything => None,
            LinkedTables::Tables(tables) => Some(
                tables.map(|(schema, table)| format!("{}.{}", text(schema), text(table))).collect(),
            ),
        }
    }

    #[test]
    fn what_is_behind_what_is_behind_a_table_is_behind_it() {
        let definitions = [
            (Kind::View, "v", "select `b`.`t`.`id` AS `id` from `b`.`t`"),
            (Kind::View, "w", "select `x`.`id` AS `id` from `a`.`v` `x`"),
            (
                Kind::Trigger,
                "b.t",
                "BEGIN UPDATE log SET n = n + 1; INSERT INTO parent VALUES (1); END",
            ),
            (Kind::Trigger, "unread", ""),
            (Kind::Trigger, "deep", "INSERT INTO unread VALUES (1)"),
            (Kind::Trigger, "plain", "SET NEW.n = COALESCE(NEW.n, 0) + 1"),
            (Kind::Trigger, "asks", "SET NEW.n = f(1)"),
            (Kind::View, "größe", "select `b`.`t`.`id` from `b`.`t`"),
        ]
        .map(definition);
        let links = Links::new(
            &definitions,
            &[(table("b.parent"), table("b.child"))],
            &BTreeSet::from([table("a.merge")]),
        );
        let written = |it: &str| shown(links.written_behind(Some(&table(it).0), &table(it).1));
        let read = |it: &str| shown(links.read_behind(&table(it).0, &table(it).1));
        let has = |all: Option<Vec<String>>, names: &str| {
            let all = all.expect("some tables");
            names
                .split(' ')
                .for_each(|name| assert!(all.iter().any(|it| it == name), "{name}: {all:?}"));
        };
        has(read("W"), "a.v b.t");
        has(written("w"), "a.v b.t b.log b.parent b.child");
        has(written("b.T"), "b.log b.parent b.child");
        assert_eq!(read("b.t"), Some(Vec::new()));
        assert_eq!(written("t"), Some(Vec::new()), "of another schema");
        for name in ["unread", "deep", "asks", "GRÖSSE"] {
            assert_eq!(written(name), None, "{name}");
        }
        assert!(written("plain").is_some());
        has(shown(links.written_behind(None, b"t")), "b.log b.child");
    }

    #[test]
    fn tables_that_write_each_other_end() {
        let definitions = [
            (Kind::Trigger, "t", "INSERT INTO u VALUES (1)"),
            (Kind::Trigger, "u", "INSERT INTO t VALUES (1)"),
        ]
        .map(definition);
        let links = Links::new(&definitions, &[], &BTreeSet::new());
        assert!(
            shown(links.written_behind(Some(b"a"), b"t"))
                .expect("some")
                .contains(&"a.t".to_owned())
        );
    }
}
