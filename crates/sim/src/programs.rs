//! What the clients of a world do: programs in the words of the differ, of statements that the model knows.

use testkit::differ::generate::fill;
use testkit::differ::program::{Abilities, Action, Pace, Plan, Program, Step, USERS};

use crate::dice::Dice;
use crate::model::session::FIRST_MARK;

/// What a client may do in one go: a step, or several that belong together.
const KINDS: &[&str] = &[
    "SELECT 1",
    "SELECT {n}",
    "SELECT * FROM t WHERE id = {n}",
    "SELECT b FROM u",
    "SELECT COUNT(*) FROM t JOIN u",
    "INSERT INTO t (b) VALUES ({n})",
    "INSERT INTO u (b) VALUES ('{n}')",
    "UPDATE t SET b = {n} WHERE id = {n}",
    "DELETE FROM u WHERE id = {n}",
    "SELECT REPEAT('x', {10|3000|70000|400000})",
    ":prepare {p} SELECT REPEAT('long', {100|30000}), ? ;; :execute {p} int:{n}",
    ":half SELECT REPEAT('y', 200000) ;; :connect",
    "SELECT {n}, '{long}'",
    "INSERT INTO t (b) VALUES ('{long}')",
    ":long {p} 0 {long} ;; :execute {p} long",
    "SELECT * FROM absent",
    "INSERT INTO absent (a) VALUES (1)",
    "SELEKT {n}",
    "BEGIN ;; UPDATE t SET b = {n} ;; SELECT * FROM t ;; COMMIT",
    "BEGIN ;; INSERT INTO t (b) VALUES ({n}) ;; ROLLBACK ;; SELECT * FROM t",
    "BEGIN ;; SELECT * FROM u ;; COMMIT",
    "START TRANSACTION READ ONLY ;; SELECT * FROM t ;; INSERT INTO t (b) VALUES (1) ;; COMMIT",
    "BEGIN ;; INSERT INTO u (b) VALUES (1) ;; SAVEPOINT s ;; INSERT INTO t (b) VALUES (2) ;; \
     ROLLBACK TO s ;; COMMIT ;; SELECT * FROM t",
    "COMMIT",
    "ROLLBACK",
    "SET autocommit = 0 ;; INSERT INTO t (b) VALUES ({n}) ;; SELECT * FROM t ;; COMMIT ;; SET autocommit = 1",
    "SET autocommit = {0|1}",
    "SET SESSION sql_mode = '{ANSI|TRADITIONAL|}'",
    "SET time_zone = '{+00:00|+03:00|SYSTEM}'",
    "SET NAMES {utf8mb4|latin1|ascii}",
    "SET NAMES nonsense",
    "SET group_concat_max_len = {n}",
    "SET sql_select_limit = {n}, @a = {n}",
    "SET @@session.foreign_key_checks = {0|1}",
    "SET no_such_variable = 1",
    "SET GLOBAL sql_mode = ''",
    "SET max_sort_length = {n}",
    "SET SESSION TRANSACTION READ {ONLY|WRITE}",
    "SET SESSION TRANSACTION ISOLATION LEVEL {READ COMMITTED|SERIALIZABLE|REPEATABLE READ}",
    "SELECT @@sql_mode, @@time_zone, @@autocommit, @@group_concat_max_len, @@tx_isolation",
    "SELECT @@character_set_client, @@collation_connection, @@foreign_key_checks",
    "SET @a = {n}",
    "SELECT @a, @b",
    "SELECT @b := {n}",
    "SELECT DATABASE(), @a",
    "USE {s}",
    "USE nowhere",
    ":use {s}",
    ":use nowhere",
    "CREATE TEMPORARY TABLE tmp (a INT) ;; INSERT INTO tmp (a) VALUES ({n}) ;; SELECT * FROM tmp ;; DROP TABLE tmp",
    "CREATE TEMPORARY TABLE IF NOT EXISTS tmp (a INT)",
    "SELECT * FROM tmp",
    "DROP TEMPORARY TABLE IF EXISTS tmp",
    "CREATE TABLE IF NOT EXISTS w (a INT) ;; INSERT INTO w (a) VALUES ({n}) ;; SELECT * FROM w",
    "DROP TABLE IF EXISTS w",
    "SELECT GET_LOCK('{s}', 0) ;; SELECT {n} ;; SELECT RELEASE_LOCK('{s}')",
    "SHOW WARNINGS",
    "SHOW COUNT(*) WARNINGS",
    "SELECT LAST_INSERT_ID()",
    "SELECT SLEEP(0.0{1|2|5}) ;; SELECT 2",
    "SELECT 1; SELECT * FROM t; SELECT @a",
    "INSERT INTO t (b) VALUES (1); INSERT INTO u (b) VALUES ({n}); SELECT * FROM u",
    "SELECT 1; SELECT * FROM absent; SELECT 2",
    ":unjudged UPDATE shared.hot{0|1} SET n = n + 1",
    ":unjudged BEGIN ;; :unjudged UPDATE shared.hot{0|1} SET n = n + 1 ;; :unjudged SELECT {n} ;; \
     :unjudged UPDATE shared.hot{0|1} SET n = n + 1 ;; :unjudged COMMIT ;; :unjudged ROLLBACK",
    "COMMIT ;; SET autocommit = 1 ;; INSERT INTO t (b) VALUES ({m})",
    "SET autocommit = 1 ;; BEGIN ;; INSERT INTO t (b) VALUES ({m}) ;; INSERT INTO u (b) VALUES ({m}) ;; COMMIT",
    "SET autocommit = 1 ;; BEGIN ;; UPDATE t SET b = {m} ;; SELECT * FROM t ;; COMMIT",
    ":prepare {p} SELECT ?, @a ;; :execute {p} int:{n} ;; :execute {p} text:word ;; :close {p}",
    ":prepare {p} SELECT b FROM t WHERE id = ? ;; :execute {p} int:{n}",
    ":prepare {p} INSERT INTO t (b) VALUES (?) ;; :execute {p} int:{n} ;; :execute {p} int:{n} ;; SELECT * FROM t",
    ":prepare {p} SELECT ?, @b ;; :execute {p} int:{n} ;; :execute {p} untyped int:{n} ;; :execute {p} untyped int:{n}",
    ":execute {p} int:{n}",
    ":execute {p} untyped int:{n}",
    ":prepare {p} SELEKT ?",
    ":long {p} 0 piece ;; :execute {p} long ;; :rewind {p}",
    ":rewind {p}",
    ":close {p}",
    ":ping",
    ":reset",
    ":user {0|1|2} schema",
    ":quit ;; :connect",
    ":vanish ;; :connect",
    ":drop SELECT SLEEP(0.03) ;; :connect",
    ":half SELECT * FROM t ;; :connect",
];

/// What they do as well where things go wrong: `{v}` is another client.
const KILLS: &[&str] = &[":kill {v}", "KILL {id:{v}}", "KILL QUERY {id:{v}}", "SELECT SLEEP(0.2)"];

/// Whether a step ends another client, or its statement.
pub fn is_kill(action: &Action) -> bool {
    match action {
        Action::Kill(_) => true,
        Action::Query(text) => text.starts_with(b"KILL"),
        _ => false,
    }
}

/// The program of so many clients, of about so many steps each.
pub fn program(dice: &mut Dice, clients: usize, steps: usize, kills: bool) -> Program {
    let mut program = Program { pace: Pace::Rush, ..Program::default() };
    for _ in 0..clients {
        let no_eof = dice.once_in(2);
        let abilities = Abilities {
            no_eof,
            multi: !dice.once_in(3),
            track: no_eof && dice.once_in(4),
            ..Abilities::default()
        };
        let user = dice.below(USERS as u64) as usize;
        program.clients.push(Plan { user, in_schema: !dice.once_in(5), abilities });
    }
    for client in 0..clients {
        let mut actions = vec![Action::Connect];
        if !program.clients[client].in_schema {
            actions.push(Action::InitDb(schema(client).into_bytes()));
        }
        while actions.len() < steps {
            actions.extend(kind(dice, client, kills.then_some(clients)));
        }
        actions.push(Action::Quit);
        program.steps.extend(actions.into_iter().map(|action| Step { client, action }));
    }
    program
}

pub fn schema(client: usize) -> String {
    testkit::differ::peer::schema(client)
}

fn kind(dice: &mut Dice, client: usize, kills: Option<usize>) -> Vec<Action> {
    let mut kind = (*dice.pick(KINDS)).to_owned();
    if let Some(clients) = kills.filter(|_| dice.once_in(15)) {
        let victim = dice.below(clients as u64).to_string();
        kind = dice.pick(KILLS).replace("{v}", &victim);
    }
    let slot = dice.below(3).to_string();
    let steps = kind.split(" ;; ").map(|step| {
        let text = fill(step, |inside| choose(dice, inside, &schema(client), &slot));
        match text.strip_prefix(':') {
            Some(action) => testkit::differ::text::parse_action(action)
                .unwrap_or_else(|| panic!("a kind that cannot be read: {action}")),
            None => Action::Query(text.into_bytes()),
        }
    });
    steps.collect()
}

/// What stands in the place of braces.
fn choose(dice: &mut Dice, inside: &str, schema: &str, slot: &str) -> String {
    match inside {
        // A connection's number, which is known when the step is taken.
        id if id.starts_with("id:") => format!("{{{id}}}"),
        "n" => dice.below(50).to_string(),
        // Never the same number in a world.
        "m" => (FIRST_MARK + dice.below(u64::MAX >> 8)).to_string(),
        "p" => slot.to_owned(),
        "s" => schema.to_owned(),
        "long" => "z".repeat(*dice.pick(&[100, 5000, 70_000])),
        choices => {
            let choices: Vec<_> = choices.split('|').collect();
            (*dice.pick(&choices)).to_owned()
        }
    }
}
