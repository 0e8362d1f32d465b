//! What `HELP` and `SHOW HELP` tell: the statements there are, each with what it does.

use view::command::Verb;
use view::narrow::{Narrow, wrapped};
use view::table::{Table, text};

use super::tables::SHOWN;

/// What a screen has place for.
pub(super) const NARROW: &[Narrow] = &[wrapped("statement", 44), wrapped("what_it_does", 69)];

/// The statements there are, or those about one thing, which is in upper case.
pub(super) fn help(about: Option<&str>) -> Result<Table, String> {
    let mut table = Table::new(const { &[text("statement"), text("what_it_does")] });
    for shown in &SHOWN {
        table.add([format!("SHOW {}", shown.name.to_uppercase()).into(), shown.help.into()]);
    }
    for (statement, what) in STATEMENTS {
        table.add([statement.into(), what.into()]);
    }
    let Some(about) = about else { return Ok(table) };
    table.rows.retain(|row| {
        let text = row[0].to_string().to_uppercase();
        text.split(|letter: char| !letter.is_alphanumeric() && letter != '.')
            .any(|word| word == about)
    });
    if table.rows.is_empty() {
        return Err(format!("there is no help about {about}; SHOW HELP lists all"));
    }
    Ok(table)
}

const STATEMENTS: [(&str, &str); 24] = [
    ("SHOW FULL x", "all columns of it, with units in their names, as SELECT * FROM x"),
    ("SHOW x LIKE 'pattern'", "only rows whose first column is like it"),
    ("SHOW x WHERE condition", "only rows of which it is true; conditions are about all columns"),
    ("SHOW x ORDER BY column [DESC] LIMIT [m,] n", "in this order, and so many of them"),
    (
        "SELECT columns FROM x WHERE ... GROUP BY ... ORDER BY ... LIMIT ...",
        "SQL over these tables: COUNT, SUM, AVG, MIN, MAX, joins, subqueries",
    ),
    ("SHOW TABLES [FROM schema]", "the tables; schemas are flifo, main, stats, information_schema"),
    ("SHOW COLUMNS FROM x", "the columns of a table; also DESCRIBE x"),
    ("SHOW STATUS", "the counters by the names that servers use"),
    ("SHOW VARIABLES", "what clients ask of any server when they connect"),
    ("PAUSE [server]", means(Verb::Pause)),
    ("RESUME [server]", means(Verb::Resume)),
    ("DRAIN [server]", means(Verb::Drain)),
    ("DISABLE [server]", means(Verb::Disable)),
    ("ENABLE [server]", means(Verb::Enable)),
    (
        "CONFIRM WRITER server",
        "it is written to although it lacks what the writer before it had, or was replaced",
    ),
    (
        "SET option = value",
        "until the next RELOAD, or SET option = DEFAULT; SHOW CONFIG lists options, and where their values come from",
    ),
    (
        "SET server.limit = n",
        "statements that may run at once in each server; auto is what the configuration says",
    ),
    (
        "EXPLAIN RULES FOR 'text' [USER 'u'] [SCHEMA 's'] [ADDRESS 'a'] [LISTENER 'l'] [PROGRAM 'p'] [CLUSTER 'c'] [ROLE 'r'] \
         [LABEL 'l'] [IN TRANSACTION]",
        "which rules such a statement hits, and why it does not hit the others; nothing is counted",
    ),
    ("KILL [CLIENT | QUERY] id", "ends a client's connection, or what it runs or waits with"),
    (
        "FLUSH CACHE [LIKE 'pattern']",
        "replies that rules have kept end: all, or those to such texts",
    ),
    (
        "RESET [DIGESTS | ERRORS | MIRRORED | PINS | STATS]",
        "what these tables count begins at zero; /metrics goes on",
    ),
    (
        "UPGRADE",
        "has the program that is installed now take over, with all clients; see `flifo upgrade`",
    ),
    ("RELOAD", "reads the configuration again; says what has changed, and what of it is in force"),
    (
        "HELP [word]",
        "these lines, or those with the word; where the client has a HELP of its own, SHOW HELP ['word']",
    ),
];

const fn means(verb: Verb) -> &'static str {
    match verb {
        Verb::Pause => "new statements wait; transactions that have begun go on",
        Verb::Drain => "the same, and idle backend connections are closed",
        Verb::Disable => "the same, but new statements are refused instead of queued",
        Verb::Resume | Verb::Enable => "statements start again",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_is_about_what_is_asked() {
        assert_eq!(help(Some("PAUSE")).unwrap().rows.len(), 1);
        assert_eq!(help(Some("DIGESTS")).unwrap().rows.len(), 2);
        assert!(help(Some("SHOW")).unwrap().rows.len() > SHOWN.len());
        assert!(help(Some("NONSENSE")).is_err());
        assert_eq!(help(None).unwrap().rows.len(), SHOWN.len() + STATEMENTS.len());
    }
}
