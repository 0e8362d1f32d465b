//! What views, routines and triggers leave on a backend although no text tells: the server reports some of it, with the
//! coming and going of another schema or without, and nothing at all of the rest.

use std::thread;
use std::time::{Duration, Instant};

use backend::Address;
use testkit::client::Client;
use testkit::flifo::Flifo;
use testkit::mysql::Mysql;

use crate::shared::{Shared, USER, fails, ok, server};

/// Another schema, whose objects leave what the server reports.
const OTHER: [&str; 14] = [
    "CREATE DATABASE {o}",
    "CREATE FUNCTION {o}.sets() RETURNS INT BEGIN SET @x = 5; RETURN 1; END",
    "CREATE FUNCTION {o}.makes() RETURNS INT BEGIN CREATE TEMPORARY TABLE IF NOT EXISTS {o}.made (a INT); \
     INSERT INTO {o}.made VALUES (7); RETURN 1; END",
    "CREATE FUNCTION {o}.calls() RETURNS INT RETURN {o}.sets()",
    "CREATE FUNCTION {o}.breaks(a INT) RETURNS INT BEGIN SET @x = a; \
     IF a > 1 THEN SIGNAL SQLSTATE '45000'; END IF; RETURN a; END",
    "CREATE VIEW {o}.v_sets AS SELECT {o}.sets()",
    "CREATE VIEW {o}.v_makes AS SELECT {o}.makes()",
    "CREATE VIEW {o}.v_calls AS SELECT * FROM (SELECT {o}.calls()) AS inner_one",
    "CREATE TABLE {o}.t (a INT)",
    "CREATE TRIGGER {o}.t_sets BEFORE INSERT ON {o}.t FOR EACH ROW SET @x = 5",
    "CREATE TRIGGER {o}.t_makes BEFORE DELETE ON {o}.t FOR EACH ROW SET @y = {o}.makes()",
    "CREATE TABLE {o}.two (a INT)",
    "INSERT INTO {o}.two VALUES (1), (2)",
    "CREATE VIEW {o}.v_breaks AS SELECT {o}.breaks(a) FROM {o}.two",
];

fn start(schema: &str) -> (Shared, String) {
    server().sql(&format!("CREATE DATABASE {schema}")).expect("a schema");
    // What the server reports is enough.
    let shared = Shared::told(server(), schema, "read_definitions = \"off\"", "");
    let mut direct = shared.direct();
    let other = format!("{schema}_o");
    for text in OTHER {
        ok(&mut direct, &text.replace("{o}", &other));
    }
    (shared, other)
}

/// A client in its own schema, or in none.
fn client(shared: &Shared, schema: Option<&str>) -> Client {
    shared.client_in(schema.unwrap_or_default()).expect("a login")
}

#[test]
fn what_another_schemas_objects_leave_stays_with_their_client() {
    const NAME: &str = "unseen_reported";
    let (shared, other) = start(NAME);
    let user = "SELECT COALESCE(@x, 0) + 1";
    let table = format!("SELECT COUNT(*) FROM {other}.made");
    let set = |text: &str| format!("SET max_sort_length = (SELECT {text})");
    for (text, question, left) in [
        (format!("SELECT * FROM {other}.v_sets"), user, "6"),
        (format!("SELECT * FROM {other}.v_calls"), user, "6"),
        (format!("INSERT INTO {other}.t VALUES (1)"), user, "6"),
        (set(&format!("9 + COUNT(*) FROM {other}.v_sets")), user, "6"),
        (format!("USE {NAME}; SELECT * FROM {other}.v_sets"), user, "6"),
        (format!("SELECT * FROM {other}.v_makes"), &table, "1"),
        (format!("DELETE FROM {other}.t LIMIT 1"), &table, "1"),
    ] {
        for schema in [None, Some(NAME), Some(&*other)] {
            let mut litters = client(&shared, schema);
            ok(&mut litters, &text);
            assert_eq!(ok(&mut litters, question), left, "{text} in {schema:?}");
            drop(litters);
            let mut next = client(&shared, schema);
            match question == user {
                true => assert_eq!(ok(&mut next, question), "1", "{text} in {schema:?}"),
                false => assert_eq!(fails(&mut next, question), 1146, "{text} in {schema:?}"),
            }
        }
    }
    // The `SET` keeps its backend by what its text says. (`COUNT(*)` of the table is asked by the next client as well.)
    assert_eq!(shared.end()("pins.state") + 3, 21);
}

/// An error tells nothing of what came before it.
#[test]
fn what_a_view_leaves_before_it_fails_is_undone() {
    const NAME: &str = "unseen_failed";
    let (shared, other) = start(NAME);
    for schema in [NAME, &*other] {
        let mut litters = client(&shared, Some(schema));
        assert_eq!(fails(&mut litters, &format!("SELECT * FROM {other}.v_breaks")), 1644);
        let mut next = client(&shared, Some(schema));
        assert_eq!(ok(&mut next, "SELECT @x IS NULL"), "1");
    }
}

/// Drivers that enter a schema at each borrowing share backends all the same.
#[test]
fn entering_a_schema_keeps_nothing() {
    const NAME: &str = "unseen_entered";
    let (shared, other) = start(NAME);
    let mut moves = client(&shared, None);
    for schema in [NAME, &*other, NAME] {
        ok(&mut moves, &format!("USE {schema}"));
        assert!(shared.is_free());
        assert_eq!(ok(&mut moves, "SELECT DATABASE()"), schema);
        assert!(shared.is_free());
    }
    drop(moves);
    assert_eq!(shared.end()("pins."), 0);
}

/// What no server reports, by a view or a trigger; and what tells the next client of it.
const UNREPORTED: [(&str, &str, &str); 6] = [
    ("SELECT * FROM {o}.v_lock", "SELECT IS_FREE_LOCK('{o}')", "1"),
    ("SELECT * FROM v_deep", "SELECT IS_FREE_LOCK('{o}')", "1"),
    ("SELECT * FROM {o}.v_id", "SELECT LAST_INSERT_ID()", "0"),
    ("SELECT * FROM {o}.v_into", "SELECT @x IS NULL", "1"),
    ("INSERT INTO t VALUES (1)", "SELECT @x IS NULL", "1"),
    ("INSERT INTO {o}.fires VALUES (1)", "SELECT IS_FREE_LOCK('{o}')", "1"),
];

const HIDDEN: [&str; 14] = [
    "CREATE DATABASE {o}",
    "CREATE VIEW {o}.v_lock AS SELECT GET_LOCK('{o}', 0)",
    "CREATE VIEW v_deep AS SELECT * FROM {o}.v_lock",
    "CREATE VIEW {o}.v_id AS SELECT LAST_INSERT_ID(4711)",
    "CREATE FUNCTION {o}.f_into() RETURNS INT BEGIN SELECT 5 INTO @x; RETURN 1; END",
    "CREATE FUNCTION {o}.f_pure() RETURNS INT RETURN 1",
    "CREATE FUNCTION f_pure() RETURNS INT RETURN 1",
    "CREATE VIEW {o}.v_into AS SELECT {o}.f_into()",
    "CREATE VIEW v_pure AS SELECT f_pure() AS one, a FROM plain",
    "CREATE TABLE {o}.fires (a INT)",
    "CREATE TABLE t (a INT)",
    "CREATE TRIGGER {o}.fires BEFORE INSERT ON {o}.fires FOR EACH ROW INSERT INTO {o}.more VALUES (1)",
    "CREATE TABLE {o}.more (a INT)",
    "CREATE TRIGGER t BEFORE INSERT ON t FOR EACH ROW SELECT 5 INTO @x",
];

fn make_hidden(shared: &Shared, other: &str) {
    let mut direct = shared.direct();
    ok(&mut direct, "CREATE TABLE plain (a INT)");
    for text in HIDDEN {
        ok(&mut direct, &text.replace("{o}", other));
    }
    let locks =
        "CREATE TRIGGER {o}.more BEFORE INSERT ON {o}.more FOR EACH ROW DO GET_LOCK('{o}', 0)";
    ok(&mut direct, &locks.replace("{o}", other));
}

/// Waits until a statement that names this view keeps its backend.
fn await_reading(shared: &Shared, view: &str) {
    let begun = Instant::now();
    loop {
        let mut client = shared.client();
        ok(&mut client, &format!("SELECT * FROM {view}"));
        if !shared.is_free() {
            return;
        }
        assert!(begun.elapsed().as_secs() < 60, "{view}: {}", shared.flifo.log());
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn what_no_server_reports_is_read_off_definitions() {
    const NAME: &str = "unseen_hidden";
    server().sql(&format!("CREATE DATABASE {NAME}")).expect("a schema");
    let reads = format!("accounts_user = \"{USER}\"");
    let shared = Shared::told(server(), NAME, &reads, "");
    let other = format!("{NAME}_o");
    make_hidden(&shared, &other);
    await_reading(&shared, &format!("{other}.v_id"));
    for (text, question, clean) in UNREPORTED {
        let (text, question) = (text.replace("{o}", &other), question.replace("{o}", &other));
        let mut litters = shared.client();
        ok(&mut litters, &text);
        assert_ne!(ok(&mut litters, &question), clean, "{text}: its own client has it");
        drop(litters);
        // A lock is gone when the server has noticed that its connection is.
        let begun = Instant::now();
        while ok(&mut shared.client(), &question) != clean {
            assert!(begun.elapsed().as_secs() < 60 && question.contains("LOCK"), "{text}");
            thread::sleep(Duration::from_millis(50));
        }
    }
    // What leaves nothing keeps nothing.
    let mut client = shared.client();
    for text in ["SELECT * FROM v_pure", "INSERT INTO plain VALUES (1)", "SELECT 'v_lock_not'"] {
        ok(&mut client, text);
        assert!(shared.is_free(), "{text}");
    }
    // What is defined through Flifo is known soon; so is what is gone.
    ok(&mut client, "CREATE VIEW v_new AS SELECT LAST_INSERT_ID(5)");
    drop(client);
    await_reading(&shared, "v_new");
}

/// Without a reader of all definitions, each user reads what it sees before its first client's login ends.
#[test]
fn users_read_definitions_themselves_and_trust_nothing_that_they_do_not_see() {
    const NAME: &str = "unseen_own";
    server().sql(&format!("CREATE DATABASE {NAME}")).expect("a schema");
    let other = format!("{NAME}_o");
    let before = Shared::told(server(), NAME, "", "");
    make_hidden(&before, &other);
    drop(before);
    let nested = format!("CREATE VIEW {NAME}.v_nested AS SELECT * FROM {other}.v_lock");
    server().sql(&nested).expect("a view");
    let plain = format!("CREATE VIEW {NAME}.v_plain AS SELECT a FROM {NAME}.plain");
    server().sql(&plain).expect("a view");
    server()
        .sql(
            "CREATE USER unseen_reader@'%' IDENTIFIED BY 'own'; \
             GRANT SELECT ON mysql.global_priv TO unseen_reader@'%'",
        )
        .expect("a user");
    // A reader of accounts that does not see all definitions reads none for others.
    let reader = [
        "accounts_user = \"unseen_reader\"\n",
        "[[users]]\nname = \"unseen_reader\"\npassword = \"own\"\n",
    ];
    for (user, rights, [server_more, more]) in [
        ("unseen_all", "ALL", ["", ""]),
        ("unseen_too", "ALL", reader),
        ("unseen_few", "SELECT, INSERT, EXECUTE, DROP", ["", ""]),
    ] {
        server().sql(&format!("CREATE USER {user}@'%' IDENTIFIED BY 'own'")).expect("a user");
        for schema in [NAME, &other] {
            let grant = format!("GRANT {rights} ON {schema}.* TO {user}@'%'");
            server().sql(&grant).expect("rights");
        }
        let server = server().socket();
        for (text, question, clean) in UNREPORTED {
            let (text, question) = (text.replace("{o}", &other), question.replace("{o}", &other));
            // Right behind the start of Flifo.
            let flifo = Flifo::start(&format!(
                "workers = 1\n[server]\naddress = {server:?}\nconnections_max = 1\n{server_more}[limits]\nwait = \"5s\"\n\
                 [[users]]\nname = \"{user}\"\npassword = \"own\"\n{more}"
            ));
            let client = || {
                let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: flifo.port() };
                Client::builder(address, user, "own").schema(NAME).connect().expect("a login")
            };
            let mut litters = client();
            ok(&mut litters, &text);
            assert_ne!(ok(&mut litters, &question), clean, "{user}: {text}: its own client has it");
            drop(litters);
            // A lock is gone when the server has noticed that its connection is.
            let begun = Instant::now();
            while ok(&mut client(), &question) != clean {
                assert!(
                    begun.elapsed().as_secs() < 60 && question.contains("LOCK"),
                    "{user}: {text}"
                );
                thread::sleep(Duration::from_millis(50));
            }
            if text.contains("v_lock") {
                let keeps = |text: &str| {
                    let mut keeper = client();
                    ok(&mut keeper, text);
                    ok(&mut keeper, "SELECT CONNECTION_ID()");
                    let others = client().query("SELECT 1");
                    others.is_err()
                };
                // What leaves nothing keeps nothing, where that can be seen.
                assert_eq!(keeps("SELECT * FROM v_plain"), user == "unseen_few", "{user}");
                // Nor is another one's function.
                assert!(keeps("SELECT * FROM v_pure"), "{user}");
                assert!(!keeps("INSERT INTO plain VALUES (1)"), "{user}");
                assert!(keeps("SELECT * FROM v_nested"), "{user}");
            }
            assert!(flifo.stop().0.success());
        }
    }
}

/// A user may read a trigger's text, and not those of the table that the trigger writes to: they may do anything.
#[test]
fn a_trigger_that_names_what_its_user_does_not_see_keeps_its_client() {
    // In one schema: where a trigger writes to another, the server reports that something has changed.
    const NAME: &str = "unseen_half";
    for sql in [
        "CREATE DATABASE {}",
        "CREATE TABLE {}.plain (a INT)",
        "CREATE TABLE {}.noted (a INT)",
        "CREATE TABLE {}.more (a INT)",
        "CREATE TRIGGER {}.more BEFORE INSERT ON {}.more FOR EACH ROW DO GET_LOCK('{}', 0)",
        "CREATE TRIGGER {}.noted BEFORE INSERT ON {}.noted FOR EACH ROW INSERT INTO {}.more VALUES (1)",
        "CREATE USER {}@'%' IDENTIFIED BY 'own'",
        "GRANT ALL ON {}.plain TO {}@'%'",
        "GRANT ALL ON {}.noted TO {}@'%'",
    ] {
        server().sql(&sql.replace("{}", NAME)).expect(sql);
    }
    let flifo = Flifo::start(&format!(
        "workers = 1\n[server]\naddress = {:?}\nconnections_max = 1\n[limits]\nwait = \"5s\"\n\
         [[users]]\nname = \"unseen_half\"\npassword = \"own\"\n",
        server().socket()
    ));
    let client = || {
        let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: flifo.port() };
        Client::builder(address, "unseen_half", "own").schema(NAME).connect().expect("a login")
    };
    for (table, keeps) in [("plain", false), ("noted", true)] {
        let mut keeper = client();
        ok(&mut keeper, &format!("INSERT INTO {table} VALUES (1)"));
        ok(&mut keeper, "SELECT CONNECTION_ID()");
        assert_eq!(client().query("SELECT 1").is_err(), keeps, "{table}");
    }
}

/// MySQL shows triggers to users with the right `TRIGGER` alone, not even their names to others.
#[test]
fn what_a_trigger_leaves_that_a_user_does_not_see_is_undone() {
    let Some(server) = Mysql::start(&[]) else { return };
    server.sql(&[
        "CREATE DATABASE d",
        "CREATE TABLE d.t (a INT)",
        "CREATE TRIGGER d.t BEFORE INSERT ON d.t FOR EACH ROW SET NEW.a = GET_LOCK('d', 0) + LAST_INSERT_ID(4711)",
    ]);
    for (user, rights) in [("few", "SELECT, INSERT"), ("sees", "SELECT, INSERT, TRIGGER")] {
        let with = "IDENTIFIED WITH caching_sha2_password BY 'own'";
        server.sql(&[
            &format!("CREATE USER {user}@'%' {with}"),
            &format!("GRANT {rights} ON d.* TO {user}@'%'"),
        ]);
        let flifo = Flifo::start(&format!(
            "workers = 1\n[server]\naddress = {:?}\nconnections_max = 1\n[limits]\nwait = \"5s\"\n[[users]]\n\
             name = \"{user}\"\npassword = \"own\"\n",
            server.socket()
        ));
        let client = || {
            let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: flifo.port() };
            Client::builder(address, user, "own").schema("d").connect().expect("a login")
        };
        let mut litters = client();
        ok(&mut litters, "INSERT INTO t VALUES (1)");
        let sees = user == "sees";
        // Kept, as directly; or undone, where the trigger is not known.
        assert_eq!(ok(&mut litters, "SELECT IS_FREE_LOCK('d')") == "0", sees, "{user}");
        drop(litters);
        let begun = Instant::now();
        loop {
            let left = ok(&mut client(), "SELECT CONCAT(LAST_INSERT_ID(), '-', IS_FREE_LOCK('d'))");
            if left == "0-1" {
                break;
            }
            assert!(begun.elapsed().as_secs() < 60 && left == "0-0", "{user}: {left}");
            thread::sleep(Duration::from_millis(50));
        }
        assert!(flifo.stop().0.success());
    }
}
