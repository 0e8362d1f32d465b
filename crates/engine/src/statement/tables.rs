//! Which tables a statement names, as far as its tokens tell.
//!
//! No parser: a name that stands where a table may stand is one. So a name that is no table may be among them (that of
//! a common table expression, or what follows `FROM` inside a function), and views and routines hide what they use.
//! Invariant: bounded work and memory; where a statement nests too deeply, the answer says that it is not complete.

use wire::lex::Token;

use super::part::Part;

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
    /// To one table, where it is the first word of a statement.
    Verb,
    /// To a condition, behind which more tables may come.
    Condition,
    /// Away from tables.
    End,
}

impl NamedTables {
    pub fn of(part: &Part<'_>) -> Self {
        let mut found = Self::default();
        let mut levels = vec![Level { place: Place::Elsewhere, is_list: false }];
        let mut at = 0;
        while let Some(token) = part.token(at) {
            let depth = levels.len();
            let Some(level) = levels.last_mut() else { break };
            let previous = at.checked_sub(1).and_then(|at| part.token(at));
            at += 1;
            match token {
                Token::Symbol(b'(') if depth == DEPTH_MAX => {
                    found.is_cut = true;
                    break;
                }
                Token::Symbol(b'(') => {
                    // What is joined may stand in parentheses; else these hold columns or values.
                    let place = std::mem::replace(&mut level.place, Place::Elsewhere);
                    levels.push(Level { place, is_list: place == Place::Table });
                }
                Token::Symbol(b')') if depth > 1 => _ = levels.pop(),
                Token::Symbol(b',') if level.is_list => level.place = Place::Table,
                Token::Word(word) if previous != Some(Token::Symbol(b'.')) => {
                    let is_call = part.token(at) == Some(Token::Symbol(b'('));
                    match lead(word) {
                        Some(Lead::Verb) if !begins(previous) || is_call => {}
                        Some(Lead::List) => *level = Level { place: Place::Table, is_list: true },
                        Some(Lead::Verb) if token.is_word("UPDATE") => {
                            *level = Level { place: Place::Table, is_list: true };
                        }
                        Some(Lead::Single | Lead::Verb) => {
                            *level = Level { place: Place::Table, is_list: false };
                        }
                        Some(Lead::Condition) => level.place = Place::Elsewhere,
                        Some(Lead::End) => {
                            *level = Level { place: Place::Elsewhere, is_list: false };
                        }
                        None if level.place == Place::Table && !is_between(word) => {
                            level.place = Place::Elsewhere;
                            found.take(part, &mut at, word.to_vec());
                        }
                        None => {}
                    }
                }
                Token::Quoted(name) if level.place == Place::Table => {
                    level.place = Place::Elsewhere;
                    found.take(part, &mut at, unquoted(name));
                }
                // A name under ANSI_QUOTES.
                Token::String(name) if level.place == Place::Table => {
                    level.place = Place::Elsewhere;
                    found.take(part, &mut at, name.to_vec());
                }
                _ => {}
            }
        }
        found
    }

    /// A name has begun with this; another one may follow behind a dot.
    fn take(&mut self, part: &Part<'_>, at: &mut usize, first: Vec<u8>) {
        if self.tables.len() == TABLES_MAX {
            self.is_cut = true;
            return;
        }
        let mut table = NamedTable { schema: None, table: first };
        if part.token(*at) == Some(Token::Symbol(b'.')) {
            let second = match part.token(*at + 1) {
                Some(Token::Word(name) | Token::String(name)) => Some(name.to_vec()),
                Some(Token::Quoted(name)) => Some(unquoted(name)),
                _ => None,
            };
            if let Some(second) = second {
                table = NamedTable { schema: Some(table.table), table: second };
                *at += 2;
            }
        }
        if !self.tables.contains(&table) {
            self.tables.push(table);
        }
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

fn lead(word: &[u8]) -> Option<Lead> {
    match &*word.to_ascii_uppercase() {
        b"FROM" | b"TABLE" | b"TABLES" | b"JOIN" | b"STRAIGHT_JOIN" => Some(Lead::List),
        b"INTO" | b"REFERENCES" | b"VIEW" => Some(Lead::Single),
        b"INSERT" | b"REPLACE" | b"TRUNCATE" | b"DELETE" | b"DESCRIBE" | b"DESC" | b"HANDLER"
        | b"UPDATE" => Some(Lead::Verb),
        b"ON" | b"USING" => Some(Lead::Condition),
        b"WHERE" | b"SET" | b"GROUP" | b"ORDER" | b"HAVING" | b"LIMIT" | b"VALUES" | b"VALUE"
        | b"SELECT" | b"UNION" | b"EXCEPT" | b"INTERSECT" | b"WINDOW" | b"FOR" | b"BY"
        | b"WITH" | b"DUAL" | b"OUTFILE" | b"DUMPFILE" => Some(Lead::End),
        _ => None,
    }
}

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
        ]
        .iter()
        .any(|word| token.is_word(word))
    };
    previous.is_none_or(|token| matches!(token, Token::Symbol(b'(' | b')')) || is_any(token))
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
    use crate::statement::part::parts;
    use wire::lex::Dialect;
    use wire::text::Lexed;

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
