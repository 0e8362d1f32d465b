//! Which tables a statement names, as far as its tokens tell.
//!
//! No parser: a name that stands where a table may stand is one. So a name that is no table may be among them (that of
//! a common table expression, or what follows `FROM` inside a function), and views and routines hide what they use.
//! Invariant: bounded work and memory; where a statement nests too deeply, the answer says that it is not complete.

use wire::lex::Token;
use wire::text::{Lexed, Text};

use super::kind::run_text;
use super::part::{Part, parts};
use crate::marks::Marks;

/// A table as it is written; without back-ticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTable {
    pub schema: Option<Vec<u8>>,
    pub table: Vec<u8>,
}

/// The tables of a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedTables {
    pub tables: Vec<NamedTable>,
    /// There may be more.
    pub is_cut: bool,
}

const TABLES_MAX: usize = 1000;
const DEPTH_MAX: usize = 100;

/// What may come next inside one pair of parentheses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// No table.
    Elsewhere,
    /// A table's name.
    Table,
}

/// What is known of one pair of parentheses that is open.
#[derive(Clone, Copy)]
struct Level {
    place: Place,
    /// A comma brings another table.
    is_list: bool,
}

/// Where a keyword leads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lead {
    /// To tables, with commas between them.
    List,
    /// To one table.
    Single,
    /// To the next table, if there are several.
    Next,
    /// To a condition, behind which more tables may come.
    Condition,
    /// Away from tables.
    End,
    /// Nowhere, nor do so many words behind it.
    Skip(usize),
}

/// The tables that the statements of a text name, each of which is a `SELECT`. `None`: one is none, or there may be more.
pub fn selected(text: Text<'_>) -> Option<Vec<NamedTable>> {
    // What begins with a digit may be a name.
    let is_odd =
        |token: Token<'_>| matches!(token, Token::Number(it) if !it.iter().all(u8::is_ascii_digit));
    if text.tokens().into_iter().any(is_odd) {
        return None;
    }
    let mut tables = Vec::new();
    for part in parts(text)? {
        let is_select = part.token(0)?.is_word("SELECT") || part.token(0)?.is_word("WITH");
        let named = NamedTables::of(&part);
        if !is_select || named.is_cut {
            return None;
        }
        tables.extend(named.tables);
    }
    Some(tables)
}

impl NamedTables {
    pub fn of(part: &Part<'_>) -> Self {
        let mut found = Self::default();
        found.add(part);
        match run_text(part) {
            None => {}
            // It is put together elsewhere.
            Some(None) => found.is_cut = true,
            Some(Some(text)) => {
                let lexed = Lexed::default();
                match parts(lexed.text(text, part.dialect())) {
                    None => found.is_cut = true,
                    Some(all) => {
                        found.is_cut |= all.iter().any(|part| run_text(part).is_some());
                        all.iter().for_each(|part| found.add(part));
                    }
                }
            }
        }
        found
    }

    fn add(&mut self, part: &Part<'_>) {
        let head = Head::of(part);
        let mut levels = vec![Level { place: Place::Elsewhere, is_list: false }];
        let mut at = 0;
        while let Some(token) = part.token(at) {
            let depth = levels.len();
            let Some(level) = levels.last_mut() else { break };
            let previous = at.checked_sub(1).and_then(|at| part.token(at));
            let next = part.token(at + 1);
            at += 1;
            match token {
                Token::Symbol(b'(') if depth == DEPTH_MAX => {
                    self.is_cut = true;
                    break;
                }
                Token::Symbol(b'(') => {
                    // What is joined may stand in parentheses; else these hold columns or values.
                    let place = std::mem::replace(&mut level.place, Place::Elsewhere);
                    levels.push(Level { place, is_list: place == Place::Table });
                }
                Token::Symbol(b')') if depth > 1 => _ = levels.pop(),
                Token::Symbol(b',') if level.is_list => level.place = Place::Table,
                // `FROM {oj a LEFT JOIN b …}`.
                Token::Symbol(b'{') if level.place == Place::Table => {
                    at += usize::from(matches!(next, Some(Token::Word(_))));
                }
                // A dot alone stands for the session's own schema.
                Token::Symbol(b'.') if level.place == Place::Table => {
                    if let Some(name) = next.and_then(name) {
                        level.place = Place::Elsewhere;
                        at += 1;
                        self.take(part, &mut at, name);
                    }
                }
                // A name that is like a keyword.
                Token::Word(_)
                    if level.place != Place::Table
                        && level.is_list
                        && next == Some(Token::Symbol(b',')) => {}
                Token::Word(word) if previous != Some(Token::Symbol(b'.')) => {
                    match head.lead(word, previous, next) {
                        Some(Lead::List) => *level = Level { place: Place::Table, is_list: true },
                        Some(Lead::Single) => {
                            *level = Level { place: Place::Table, is_list: false }
                        }
                        Some(Lead::Next) => level.place = Place::Table,
                        Some(Lead::Condition) => level.place = Place::Elsewhere,
                        Some(Lead::End) => {
                            *level = Level { place: Place::Elsewhere, is_list: false };
                        }
                        Some(Lead::Skip(words)) => at += words,
                        None if level.place == Place::Table && !is_between(word) => {
                            level.place = Place::Elsewhere;
                            self.take(part, &mut at, word.to_vec());
                        }
                        None => {}
                    }
                }
                // In double quotes as well, under ANSI_QUOTES.
                Token::Quoted(_) | Token::String(_) if level.place == Place::Table => {
                    level.place = Place::Elsewhere;
                    self.take(part, &mut at, name(token).unwrap_or_default());
                }
                _ => {}
            }
        }
    }

    /// A name has begun with this; another one may follow behind a dot.
    fn take(&mut self, part: &Part<'_>, at: &mut usize, first: Vec<u8>) {
        if self.tables.len() >= TABLES_MAX {
            self.is_cut = true;
            return;
        }
        let mut table = NamedTable { schema: None, table: first };
        if part.token(*at) == Some(Token::Symbol(b'.'))
            && let Some(second) = part.token(*at + 1).and_then(name)
        {
            table = NamedTable { schema: Some(table.table), table: second };
            *at += 2;
        }
        if !self.tables.contains(&table) {
            // Of a name in double quotes, two of these are one.
            if table.table.windows(2).any(|pair| pair == b"\"\"") {
                self.is_cut = true;
            }
            self.tables.push(table);
        }
    }
}

/// What may be a name here.
fn name(token: Token<'_>) -> Option<Vec<u8>> {
    match token {
        Token::Word(name) | Token::String(name) | Token::Number(name) => Some(name.to_vec()),
        Token::Quoted(name) => Some(unquoted(name)),
        _ => None,
    }
}

/// What a statement's words say of where tables stand in it.
#[derive(Clone, Copy)]
enum HeadMark {
    /// `CREATE`, `ALTER`, `DROP` or `SHOW`.
    Defines,
    Creates,
    Shows,
    Renames,
    Deletes,
    Caches,
    /// A table stands behind `ON`.
    OnTable,
}

crate::marks!(HeadMark);

/// What is known of a statement as a whole.
#[derive(Clone, Copy)]
struct Head(Marks<HeadMark>);

impl Head {
    fn of(part: &Part<'_>) -> Self {
        let is = |at: usize, words: &[&str]| {
            part.token(at).is_some_and(|token| words.iter().any(|word| token.is_word(word)))
        };
        // They may stand anywhere in a compound statement.
        let has = |words: &[&str]| (0..part.len()).any(|at| is(at, words));
        let (creates, drops) = (has(&["CREATE"]), has(&["DROP"]));
        let on_table =
            (creates || drops) && has(&["INDEX", "TRIGGER"]) || has(&["GRANT", "REVOKE"]);
        let mut marks = Marks::default();
        marks.add_if(HeadMark::Defines, creates || drops || has(&["ALTER", "SHOW"]));
        marks.add_if(HeadMark::Creates, creates);
        marks.add_if(HeadMark::Shows, has(&["SHOW"]));
        marks.add_if(HeadMark::Renames, has(&["RENAME"]));
        marks.add_if(HeadMark::Deletes, has(&["DELETE"]));
        marks.add_if(HeadMark::Caches, has(&["CACHE"]));
        marks.add_if(HeadMark::OnTable, on_table);
        Self(marks)
    }

    /// Where a word leads, which is no part of a longer name.
    fn lead(
        self,
        word: &[u8],
        previous: Option<Token<'_>>,
        next: Option<Token<'_>>,
    ) -> Option<Lead> {
        let was =
            |words: &[&str]| previous.is_some_and(|it| words.iter().any(|word| it.is_word(word)));
        let comes =
            |words: &[&str]| next.is_some_and(|it| words.iter().any(|word| it.is_word(word)));
        let is_call = next == Some(Token::Symbol(b'('));
        Some(match &*word.to_ascii_uppercase() {
            b"FROM" | b"TABLE" | b"TABLES" | b"JOIN" | b"STRAIGHT_JOIN" => Lead::List,
            b"INTO" if comes(&["CACHE"]) => Lead::Skip(0),
            b"CACHE" if was(&["INTO"]) => Lead::List,
            b"INDEX" | b"INDEXES" if self.0.has(HeadMark::Caches) && was(&["CACHE"]) => Lead::List,
            b"INTO" | b"REFERENCES" => Lead::Single,
            b"VIEW" | b"SEQUENCE" if self.0.has(HeadMark::Defines) => Lead::List,
            // `SHOW COLUMNS IN t`, `CREATE TABLE a LIKE b`, `RENAME TABLE a TO b`, `ALTER TABLE a RENAME b`.
            b"IN" if self.0.has(HeadMark::Shows) => Lead::Single,
            b"LIKE" if self.0.has(HeadMark::Creates) => Lead::Single,
            b"TO" | b"RENAME" if self.0.has(HeadMark::Renames) && !comes(&["TABLE", "TABLES"]) => {
                Lead::Next
            }
            b"UPDATE" if was(&["KEY", "ON"]) => return None,
            // `SELECT … FOR UPDATE`, but `SET STATEMENT … FOR UPDATE t`.
            b"UPDATE" if was(&["FOR"]) && (next.and_then(name).is_none() || comes(BEHIND_LOCK)) => {
                return None;
            }
            b"UPDATE" => Lead::List,
            b"INSERT" | b"REPLACE" | b"TRUNCATE" if is_call => return None,
            b"INSERT" | b"REPLACE" | b"TRUNCATE" | b"DELETE" => Lead::Single,
            b"DESCRIBE" | b"DESC" | b"EXPLAIN" | b"HANDLER" if begins(previous) => Lead::Single,
            b"NEXTVAL" | b"LASTVAL" | b"SETVAL" if is_call => Lead::Single,
            b"FOR" if was(&["VALUE"]) => Lead::Single,
            b"FOR" if comes(&["SYSTEM_TIME", "PORTION"]) => Lead::Condition,
            // `USE INDEX FOR ORDER BY (i)`.
            b"FOR" if was(&["INDEX", "KEY"]) => Lead::Skip(if comes(&["JOIN"]) { 1 } else { 2 }),
            b"USING" if self.0.has(HeadMark::Deletes) && !is_call => Lead::List,
            b"ON" if self.0.has(HeadMark::OnTable) => Lead::Single,
            b"ON" | b"USING" => Lead::Condition,
            // `CREATE TABLE … UNION = (a, b)`.
            b"UNION"
                if next == Some(Token::Symbol(b'='))
                    || self.0.has(HeadMark::Creates) && is_call =>
            {
                Lead::List
            }
            b"VALUE" if !is_call => return None,
            b"WHERE" | b"SET" | b"GROUP" | b"ORDER" | b"HAVING" | b"LIMIT" | b"VALUES"
            | b"VALUE" | b"SELECT" | b"UNION" | b"EXCEPT" | b"INTERSECT" | b"WINDOW" | b"FOR"
            | b"BY" | b"WITH" | b"DUAL" | b"OUTFILE" | b"DUMPFILE" => Lead::End,
            _ => return None,
        })
    }
}

fn unquoted(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    let mut was_tick = false;
    for byte in name {
        was_tick = *byte == b'`' && !was_tick;
        if *byte != b'`' || was_tick {
            out.push(*byte);
        }
    }
    out
}

/// What may stand behind `FOR UPDATE` where that locks rows.
const BEHIND_LOCK: &[&str] = &[
    "OF",
    "NOWAIT",
    "WAIT",
    "SKIP",
    "INTO",
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "LIMIT",
    "FOR",
    "LOCK",
];

/// Whether a statement may begin behind this.
fn begins(previous: Option<Token<'_>>) -> bool {
    let is_any = |token: Token<'_>| {
        [
            "EXPLAIN",
            "ANALYZE",
            "DESCRIBE",
            "DESC",
            "EXTENDED",
            "PARTITIONS",
            "JSON",
            "TRADITIONAL",
            "TREE",
            "THEN",
            "ELSE",
            "DO",
            "LOOP",
            "REPEAT",
            "ATOMIC",
            "BEGIN",
            "FOR",
        ]
        .iter()
        .any(|word| token.is_word(word))
    };
    previous.is_none_or(|token| matches!(token, Token::Symbol(b'(' | b')' | b':')) || is_any(token))
}

/// Words that may stand between a keyword and the table that it brings.
fn is_between(word: &[u8]) -> bool {
    const BETWEEN: &[&str] = &[
        "LOW_PRIORITY",
        "DELAYED",
        "HIGH_PRIORITY",
        "IGNORE",
        "QUICK",
        "IF",
        "NOT",
        "EXISTS",
        "ONLY",
        "LATERAL",
        "LOCAL",
        "TEMPORARY",
        "OR",
        "EXTENDED",
        "PARTITIONS",
        "FORMAT",
    ];
    BETWEEN.iter().any(|it| word.eq_ignore_ascii_case(it.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::lex::Dialect;

    fn named(text: &str) -> (Vec<String>, bool) {
        let lexed = Lexed::default();
        let parts = parts(lexed.text(text.as_bytes(), Dialect::default())).expect("it is read");
        let named = NamedTables::of(&parts[0]);
        let show = |it: &NamedTable| {
            let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
            match &it.schema {
                Some(schema) => format!("{}.{}", text(schema), text(&it.table)),
                None => text(&it.table),
            }
        };
        (named.tables.iter().map(show).collect(), named.is_cut)
    }

    #[test]
    fn tables_are_found_where_they_may_stand() {
        for (text, want) in [
            ("SELECT a FROM t", "t"),
            ("SELECT a FROM `shop`.`order``s` AS o", "shop.order`s"),
            ("SELECT a, b FROM t x, s.u y WHERE x.a IN (1, 2)", "t s.u"),
            ("SELECT * FROM t JOIN u ON t.a = u.a LEFT JOIN v USING (a)", "t u v"),
            ("SELECT * FROM (SELECT * FROM inner_t) x, t", "inner_t t"),
            ("SELECT * FROM (t, u)", "t u"),
            ("SELECT (SELECT max(a) FROM u) FROM t", "u t"),
            ("INSERT INTO t (a, b) VALUES (1, 2)", "t"),
            ("INSERT IGNORE t VALUES (1)", "t"),
            ("INSERT INTO t SELECT * FROM u", "t u"),
            ("REPLACE t SET a = 1", "t"),
            ("UPDATE t, u SET t.a = u.a WHERE t.b = 1", "t u"),
            ("UPDATE t SET a = 1 WHERE b = 'FROM x'", "t"),
            ("DELETE FROM t WHERE a = 1", "t"),
            ("DELETE a FROM t a JOIN u b ON a.x = b.x", "a t u"),
            ("TRUNCATE TABLE t", "t"),
            ("TRUNCATE t", "t"),
            ("DROP TABLE IF EXISTS t, u", "t u"),
            ("CREATE TABLE IF NOT EXISTS s.t (a INT)", "s.t"),
            ("ALTER TABLE t ADD COLUMN b INT", "t"),
            ("SELECT 1", ""),
            ("SELECT 1 FROM DUAL", ""),
            ("SELECT a.from, b FROM t", "t"),
            ("LOCK TABLES t READ, u WRITE", "t u"),
            ("SELECT * FROM t /*! JOIN u */", "t u"),
            ("SELECT * FROM t JOIN u ON t.a = u.a, v WHERE x IN (1, 2), w", "t u v"),
            ("SELECT REPLACE(a, 'b', c), TRUNCATE(d, 2) FROM t ORDER BY a DESC, b", "t"),
            ("SELECT * FROM t FOR UPDATE SKIP LOCKED", "t"),
            ("INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = 2, b = 3", "t"),
            ("WITH x AS (SELECT 1) UPDATE t, u SET a = 1", "t u"),
            ("EXPLAIN UPDATE t SET a = 1", "t"),
            ("DESC t", "t"),
            ("EXPLAIN t", "t"),
            ("SELECT * FROM {oj secret LEFT JOIN u ON 1 = 1}, v", "secret u v"),
            ("SELECT * FROM .secret", "secret"),
            ("SELECT * FROM a.2024", "a.2024"),
            ("SELECT 1.FROM secret", "secret"),
            ("CREATE TABLE x LIKE secret", "x secret"),
            ("CREATE TABLE x (LIKE secret)", "x secret"),
            ("CREATE INDEX i ON secret (a)", "secret"),
            ("DROP INDEX i ON secret", "secret"),
            ("CREATE TRIGGER g BEFORE INSERT ON secret FOR EACH ROW SET @a = 1", "secret"),
            ("GRANT SELECT ON secret TO u", "secret"),
            ("RENAME TABLE a TO secret, b TO c", "a secret b c"),
            ("ALTER TABLE a RENAME secret", "a secret"),
            ("DELETE FROM a USING secret JOIN a", "a secret"),
            ("SHOW COLUMNS IN secret", "secret"),
            ("DROP VIEW a, secret", "a secret"),
            ("LOAD INDEX INTO CACHE secret", "secret"),
            ("CACHE INDEX secret IN k", "secret"),
            ("SELECT NEXT VALUE FOR secret", "secret"),
            ("SELECT NEXTVAL(secret)", "secret"),
            ("SELECT * FROM a USE INDEX FOR ORDER BY (i), secret", "a secret"),
            ("SELECT * FROM a FOR SYSTEM_TIME ALL, secret", "a secret"),
            ("SELECT * FROM a value, secret", "a secret"),
            ("CREATE TABLE m (a INT) ENGINE=MERGE UNION=(secret, b)", "m secret b"),
            ("IF 1 THEN UPDATE secret SET a = 1", "secret"),
            ("ANALYZE DELETE FROM secret", "secret"),
            ("SET STATEMENT a = 1 FOR DELETE FROM secret", "secret"),
            ("SET STATEMENT a = 1 FOR UPDATE secret SET a = 1", "secret"),
            ("SELECT * FROM a FOR UPDATE NOWAIT", "a"),
            ("HANDLER secret OPEN", "secret"),
            ("EXECUTE IMMEDIATE 'DELETE FROM secret'", "secret"),
            ("LOAD DATA INFILE 'x' INTO TABLE secret", "secret"),
        ] {
            assert_eq!(
                named(text),
                (want.split_whitespace().map(str::to_owned).collect(), false),
                "{text}"
            );
        }
    }

    #[test]
    fn what_nests_too_deeply_is_said_to_be_cut() {
        assert!(named(&format!("SELECT {}1", "(".repeat(DEPTH_MAX + 1))).1);
        let many: Vec<_> = (0..=TABLES_MAX).map(|at| format!("t{at}")).collect();
        assert!(named(&format!("SELECT 1 FROM {}", many.join(","))).1);
    }
}
