//! The number of its connection is one for each client, wherever it reads it; and what is stored asks for it anew.

use backend::Address;
use testkit::client::Client;
use testkit::flifo::Flifo;

use crate::shared::{Shared, fails, ok, server};

/// Servers count their connections from one; Flifo's clients have numbers from here on.
const FIRST: u64 = 1 << 30;

fn number(client: &mut Client, text: &str) -> u64 {
    let answer = ok(client, text);
    answer.parse().unwrap_or_else(|_| panic!("{text}: {answer}"))
}

/// What makes an object, what shows it, and what undoes it.
const STORED: [(&str, &str, &str); 9] = [
    ("CREATE VIEW o AS SELECT CONNECTION_ID() AS id", "SHOW CREATE VIEW o", "DROP VIEW o"),
    (
        "CREATE VIEW o AS SELECT 1 AS id; ALTER VIEW o AS SELECT CONNECTION_ID() AS id",
        "SHOW CREATE VIEW o",
        "DROP VIEW o",
    ),
    (
        "CREATE PROCEDURE o() BEGIN SELECT 1; SELECT CONNECTION_ID(), `connection_id`(); END",
        "SHOW CREATE PROCEDURE o",
        "DROP PROCEDURE o",
    ),
    (
        "CREATE FUNCTION o() RETURNS BIGINT RETURN CONNECTION_ID() + @@pseudo_thread_id",
        "SHOW CREATE FUNCTION o",
        "DROP FUNCTION o",
    ),
    (
        "CREATE TRIGGER o BEFORE INSERT ON t FOR EACH ROW SET NEW.req = CONNECTION_ID()",
        "SHOW CREATE TRIGGER o",
        "DROP TRIGGER o",
    ),
    (
        "CREATE EVENT o ON SCHEDULE EVERY 9 YEAR STARTS '2030-01-01 00:00:00' DISABLE DO INSERT INTO t VALUES (CONNECTION_ID())",
        "SHOW CREATE EVENT o",
        "DROP EVENT o",
    ),
    ("CREATE TABLE o (id BIGINT DEFAULT (CONNECTION_ID()))", "SHOW CREATE TABLE o", "DROP TABLE o"),
    (
        "CREATE TABLE o (id BIGINT); ALTER TABLE o ALTER id SET DEFAULT (CONNECTION_ID())",
        "SHOW CREATE TABLE o",
        "DROP TABLE o",
    ),
    (
        "PREPARE p FROM 'CREATE VIEW o AS SELECT CONNECTION_ID() AS id'; EXECUTE p",
        "SHOW CREATE VIEW o",
        "DROP VIEW o",
    ),
];

/// `SHOW CREATE`, without when it was made.
fn shown(client: &mut Client, text: &str) -> String {
    let rows = client.query(text).expect(text);
    rows[0]
        .iter()
        .filter(|it| !it.contains(':') || it.contains(' ') && it.contains('('))
        .cloned()
        .collect()
}

#[test]
fn what_is_stored_asks_for_the_number_anew() {
    const NAME: &str = "ids_stored";
    let shared = Shared::start(NAME);
    let mut direct = shared.direct();
    ok(&mut direct, "CREATE TABLE t (req BIGINT)");
    for (text, show, undo) in STORED {
        let mut pooled = shared.client();
        let mut shows = Vec::new();
        for client in [&mut pooled, &mut direct] {
            for statement in split(text) {
                ok(client, statement);
            }
            shows.push(shown(client, show));
            ok(client, undo);
        }
        assert!(shows[1].to_lowercase().contains("connection_id"), "{text}: {}", shows[1]);
        assert_eq!(shows[0], shows[1], "{text}");
    }
}

/// Statements; a semicolon in a body is followed by a word of that.
fn split(text: &str) -> Vec<&str> {
    if text.contains(" BEGIN ") { vec![text] } else { text.split("; ").collect() }
}

/// What reads the number, each in its own way; `{s}` is the schema.
const READS: [&str; 19] = [
    "SELECT `connection_id`()",
    "SELECT @@pseudo_thread_id",
    "SELECT @@session.pseudo_thread_id",
    "SELECT @@session . pseudo_thread_id",
    "SELECT @@local /* of this one */ . `pseudo_thread_id`",
    "SET @a = CONNECTION_ID(); SELECT @a",
    "SET @a = CONNECTION_ID() + 3; SELECT @a - 3",
    "SET @a := 1, @b = (SELECT CONNECTION_ID()); SELECT @b",
    "PREPARE p FROM 'SELECT CONNECTION_ID()'; EXECUTE p",
    "EXECUTE IMMEDIATE 'SELECT CONNECTION_ID()'",
    "CREATE TEMPORARY TABLE w AS SELECT CONNECTION_ID() AS id; SELECT id FROM w",
    "INSERT INTO rows_of VALUES (CONNECTION_ID()); SELECT a FROM rows_of",
    // Of the rest, Flifo sees nothing in the text.
    "SET @t = 'SELECT CONNECTION_ID()'; PREPARE p FROM @t; EXECUTE p",
    "EXECUTE IMMEDIATE CONCAT('SELECT CONNECTION', '_ID()')",
    "SELECT f()",
    "SELECT {s}.f()",
    "CALL p()",
    "INSERT INTO fires VALUES (1); SELECT a FROM fires",
    "INSERT INTO has_default VALUES (); SELECT a FROM has_default",
];

const OBJECTS: [&str; 8] = [
    "CREATE TABLE rows_of (a BIGINT)",
    "CREATE TABLE fires (a BIGINT)",
    "CREATE TABLE has_default (a BIGINT DEFAULT (CONNECTION_ID()))",
    "CREATE TRIGGER fires BEFORE INSERT ON fires FOR EACH ROW SET NEW.a = CONNECTION_ID()",
    "CREATE FUNCTION f() RETURNS BIGINT RETURN CONNECTION_ID()",
    "CREATE PROCEDURE p() SELECT @@pseudo_thread_id",
    "CREATE VIEW v AS SELECT CONNECTION_ID() AS id",
    "CREATE PROCEDURE renames() SET pseudo_thread_id = 77",
];

/// Reads the number, and tidies up.
#[track_caller]
fn read(client: &mut Client, schema: &str, text: &str) -> u64 {
    let text = text.replace("{s}", schema);
    let statements = split(&text);
    let (last, before) = statements.split_last().expect("one at least");
    before.iter().for_each(|it| drop(ok(client, it)));
    let read = number(client, last);
    for table in ["rows_of", "fires", "has_default"] {
        if text.contains(table) {
            ok(client, &format!("DELETE FROM {table}"));
        }
    }
    read
}

#[test]
fn a_session_has_one_number_everywhere() {
    const NAME: &str = "ids_one";
    let shared = Shared::start(NAME);
    let mut direct = shared.direct();
    for text in OBJECTS {
        ok(&mut direct, text);
    }
    for text in READS {
        // Each begins anew, as most keep the backend; one that has it already, and one that gets it from another.
        let mut client = shared.client();
        let id = number(&mut client, "SELECT CONNECTION_ID()");
        assert!(id >= FIRST, "{id}");
        assert_eq!(read(&mut client, NAME, text), id, "{text}");
        assert_eq!(number(&mut client, "SELECT CONNECTION_ID()"), id);
        assert_eq!(
            read(
                &mut client,
                NAME,
                text.trim_start_matches(
                    "CREATE TEMPORARY TABLE w AS SELECT CONNECTION_ID() AS id; "
                )
            ),
            id,
            "{text}, again"
        );
    }
    // Clients that take turns: each finds its own number in what its trigger stores.
    let mut both = [shared.client(), shared.client()];
    let ids = [0, 1].map(|at: usize| number(&mut both[at], "SELECT CONNECTION_ID()"));
    for round in 0..6 {
        let at = round % 2;
        ok(&mut both[at], "INSERT INTO fires VALUES (1)");
        assert_eq!(ok(&mut direct, "SELECT a FROM fires"), ids[at].to_string());
        ok(&mut direct, "TRUNCATE fires");
    }
    // One that has never asked sees its own by a view, whose definition is read; and its backend is free again.
    let mut third = shared.client();
    let seen = number(&mut third, "SELECT id FROM v");
    assert!(shared.is_free());
    assert_eq!(number(&mut third, "SELECT CONNECTION_ID()"), seen);
}

/// A session's temporary tables belong to its number.
#[test]
fn temporary_tables_stay_when_the_number_is_read() {
    const NAME: &str = "ids_tables";
    let shared = Shared::start(NAME);
    let mut direct = shared.direct();
    for text in OBJECTS {
        ok(&mut direct, text);
    }
    for begins in ["SELECT 1", "BEGIN", "SET @x = 1", "DO GET_LOCK('ids_tables', 0)"] {
        let mut client = shared.client();
        ok(&mut client, begins);
        ok(&mut client, "CREATE TEMPORARY TABLE temporary (a INT)");
        ok(&mut client, "INSERT INTO temporary VALUES (7)");
        let id = number(&mut client, "SELECT CONNECTION_ID()");
        for text in ["SELECT f()", "CALL p()", "EXECUTE IMMEDIATE CONCAT('DO CONNECTION', '_ID()')"]
        {
            ok(&mut client, text);
            assert_eq!(ok(&mut client, "SELECT a FROM temporary"), "7", "{begins}; {text}");
        }
        assert_eq!(number(&mut client, "SELECT f()"), id, "{begins}");
    }
}

#[test]
fn views_show_the_number_where_definitions_are_read() {
    const NAME: &str = "ids_views";
    server().sql(&format!("CREATE DATABASE {NAME}")).expect("a schema");
    let reads = format!("accounts_user = \"{}\"", crate::shared::USER);
    let shared = Shared::told(server(), NAME, &reads, "");
    let mut direct = shared.direct();
    for text in OBJECTS {
        ok(&mut direct, text);
    }
    let mut both = [shared.client(), shared.client()];
    let begun = std::time::Instant::now();
    while number(&mut both[0], "SELECT id FROM v") < FIRST {
        assert!(begun.elapsed().as_secs() < 60, "definitions are not read");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let ids = [0, 1].map(|at: usize| number(&mut both[at], "SELECT CONNECTION_ID()"));
    for round in 0..6 {
        assert_eq!(number(&mut both[round % 2], "SELECT id FROM v"), ids[round % 2]);
    }
    assert!(shared.is_free());
}

#[test]
fn a_client_may_give_itself_a_number() {
    const NAME: &str = "ids_given";
    let shared = Shared::start(NAME);
    let mut direct = shared.direct();
    for text in OBJECTS {
        ok(&mut direct, text);
    }
    for text in ["SET pseudo_thread_id = 77", "SET @@pseudo_thread_id = 77", "CALL renames()"] {
        let mut client = shared.client();
        ok(&mut client, text);
        for read in ["SELECT CONNECTION_ID()", "SELECT f()", "SELECT @@pseudo_thread_id"] {
            assert_eq!(number(&mut client, read), 77, "{text}; {read}");
        }
        drop(client);
        assert_ne!(number(&mut shared.client(), "SELECT id FROM v"), 77, "{text}");
    }
}

/// An account without the right to change the number: where it stands in a text, it is one.
#[test]
fn without_a_right_texts_have_one_number() {
    const NAME: &str = "ids_plain";
    server().sql(&format!("CREATE DATABASE {NAME}")).expect("a schema");
    let made = format!("CREATE USER {NAME} IDENTIFIED BY 'plain'; GRANT ALL ON {NAME}.* TO {NAME}");
    server().sql(&made).expect("an account");
    let flifo = Flifo::start(&format!(
        "workers = 1\n[server]\naddress = \"{}\"\nconnections_max = 1\n[limits]\nwait = \"2s\"\n\
         [[users]]\nname = \"{NAME}\"\npassword = \"plain\"\n",
        server().socket().display(),
    ));
    let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: flifo.port() };
    let connect =
        || Client::builder(address.clone(), NAME, "plain").schema(NAME).connect().expect("a login");
    let mut client = connect();
    for text in OBJECTS.iter().filter(|it| !it.contains("renames")) {
        ok(&mut client, text);
    }
    drop(client);
    for text in READS.iter().take(12) {
        let mut client = connect();
        let id = number(&mut client, "SELECT CONNECTION_ID()");
        assert_eq!(read(&mut client, NAME, text), id, "{text}");
    }
    // The others are answered by the backend, and fail no more than directly.
    for text in READS.iter().skip(12) {
        let mut client = connect();
        number(&mut client, "SELECT CONNECTION_ID()");
        assert!(read(&mut client, NAME, text) < FIRST, "{text}");
    }
    let mut client = connect();
    assert_eq!(fails(&mut client, "SET pseudo_thread_id = 5"), 1227);
    assert!(number(&mut client, "SELECT CONNECTION_ID()") >= FIRST);
}

#[test]
fn columns_have_the_type_and_the_name_of_the_call() {
    const NAME: &str = "ids_types";
    let shared = Shared::start(NAME);
    let (mut direct, mut pooled) = (shared.direct(), shared.client());
    for text in [
        "SELECT CONNECTION_ID()",
        "SELECT connection_id ( ), CONNECTION_ID() AS me, -CONNECTION_ID()",
        "SELECT `connection_id`() + 1",
        "SELECT @@pseudo_thread_id, @@session.pseudo_thread_id AS session",
        "SELECT DISTINCT CONNECTION_ID() FROM (SELECT 1) AS one ORDER BY CONNECTION_ID()",
    ] {
        let mut columns = Vec::new();
        for client in [&mut pooled, &mut direct] {
            ok(client, &format!("CREATE TABLE t AS {text}"));
            columns.push(ok(client, "SHOW COLUMNS FROM t"));
            ok(client, "DROP TABLE t");
        }
        assert_eq!(columns[0], columns[1], "{text}");
    }
    ok(&mut pooled, "CREATE TABLE t AS SELECT CONNECTION_ID()");
    assert!(ok(&mut direct, "SHOW COLUMNS FROM t").contains("int(10) unsigned"));
}

#[test]
fn a_sum_of_numbers_kills_as_its_value_does() {
    let shared = Shared::start("ids_kill");
    let (mut killer, mut victim) = (shared.client(), shared.client());
    let id = number(&mut victim, "SELECT CONNECTION_ID()");
    ok(&mut killer, &format!("KILL {} + 1", id - 1));
    assert!(victim.query("SELECT 1").is_err(), "it is gone");
    // It is forgotten a moment later.
    while killer.query(&format!("KILL {id} + 0")).is_ok() {}
    assert_eq!(fails(&mut killer, &format!("KILL {id} + 0")), 1094);
    assert_eq!(fails(&mut killer, "KILL QUERY CONNECTION_ID() + 0"), 1317);
}

/// A prepared statement's only parameter, as drivers send a number.
fn parameter(kind: u8, value: &[u8]) -> Vec<u8> {
    [&[0, 1, kind, 0], value].concat()
}

#[test]
fn a_prepared_kill_takes_the_number_as_its_parameter() {
    let shared = Shared::start("ids_prepared_kill");
    let direct = Address::Tcp { host: "127.0.0.1".to_owned(), port: server().port() };
    for kind in [8_u8, 3, 5, 0xfd] {
        let (mut killer, mut victim) = (shared.client(), shared.client());
        let id = number(&mut victim, "SELECT CONNECTION_ID()");
        let value = match kind {
            8 => id.to_le_bytes().to_vec(),
            3 => u32::try_from(id).expect("32 bits").to_le_bytes().to_vec(),
            5 => f64::from(u32::try_from(id).expect("32 bits")).to_le_bytes().to_vec(),
            _ => [&[10], id.to_string().as_bytes()].concat(),
        };
        let kill = killer.prepare("KILL QUERY ?").expect("a statement");
        // The only backend is the victim's, and what it runs ends by the kill alone.
        let running = std::thread::spawn(move || {
            let ended = victim.query("SELECT SLEEP(60)");
            (victim, ended)
        });
        let mut looks = Client::builder(direct.clone(), crate::shared::USER, server().password())
            .connect()
            .expect("a login");
        let runs = "SELECT COUNT(*) FROM information_schema.processlist \
                    WHERE info = 'SELECT SLEEP(60)'";
        let begun = std::time::Instant::now();
        while ok(&mut looks, runs) == "0" {
            assert!(begun.elapsed().as_secs() < 30, "it does not run");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        killer.execute_bytes(kill, &parameter(kind, &value)).expect("it is obeyed");
        let (mut victim, ended) = running.join().expect("an end");
        assert!(ended.expect_err("it was killed").to_string().contains("1317"));
        // Types are sent once.
        let untyped = [&[0, 0], &value[..]].concat();
        killer.execute_bytes(kill, &untyped).expect("it is obeyed");
        let kill = killer.prepare("KILL ?").expect("a statement");
        killer.execute_bytes(kill, &parameter(kind, &value)).expect("it is obeyed");
        assert!(victim.query("SELECT 1").is_err(), "it is gone");
        // What names no client of Flifo's goes to the server.
        let refused = killer.execute_bytes(kill, &parameter(8, &(1_u64 << 29).to_le_bytes()));
        assert!(refused.expect_err("unknown").to_string().contains("1094"));
    }
}

/// Tools look for their own connection in the server's list.
#[test]
fn a_client_that_is_passed_through_has_the_servers_number_beside_pooled_users() {
    const NAME: &str = "ids_passed";
    server().sql(&format!("CREATE USER {NAME} IDENTIFIED BY 'passed'")).expect("an account");
    server().sql(&format!("GRANT PROCESS ON *.* TO {NAME}")).expect("a right");
    let passed = format!("[[users]]\nname = \"{NAME}\"\nmode = \"pass-through\"");
    let shared = Shared::start_with(NAME, &passed);
    let address = || Address::Tcp { host: "127.0.0.1".to_owned(), port: shared.flifo.port() };
    let mut client = Client::builder(address(), NAME, "passed").connect().expect("a login");
    let id = number(&mut client, "SELECT CONNECTION_ID()");
    let listed = "SELECT ID FROM information_schema.processlist WHERE ID = CONNECTION_ID()";
    assert_eq!(number(&mut client, listed), id);
    let listed = client.query("SHOW PROCESSLIST").expect("a list");
    assert!(listed.iter().any(|row| row[0] == id.to_string()), "{listed:?}");
    assert_eq!(number(&mut client, "SELECT @@pseudo_thread_id"), id);
    let mut other = Client::builder(address(), NAME, "passed").connect().expect("a login");
    ok(&mut other, &format!("KILL {id}"));
    assert!(client.query("SELECT 1").is_err(), "it is gone");
    // The number of the greeting, which some drivers take, kills as well.
    let mut third = Client::builder(address(), NAME, "passed").connect().expect("a login");
    let greeted = third.greeted_id;
    assert!(u64::from(greeted) >= FIRST);
    ok(&mut other, &format!("KILL {greeted}"));
    assert!(third.query("SELECT 1").is_err(), "it is gone");
}
