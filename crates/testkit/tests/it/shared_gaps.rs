//! Where other proxies that share backends are known to have been wrong, one test for each such place.
//!
//! The list is that of the table in docs/measurements/2026-11-21.md, which names these tests. In each, clients share
//! one backend. The test checks that a client that must keep the backend keeps it, and for which reason, and that other
//! clients do not keep it.

use backend::Address;
use testkit::client::Client;
use testkit::fake_client::{Answer, CAPABILITIES, FakeClient};
use testkit::scene::wait_for;
use wire::Capabilities;

use crate::shared::{Shared, USER, fails, ok, server};

/// A client that speaks the binary protocol.
fn binary(shared: &Shared, schema: &str) -> FakeClient {
    let port = shared.flifo.port();
    let mut client = FakeClient::login(port, USER, server().password()).expect("a login");
    client.query(&format!("USE {schema}")).expect("its schema");
    client
}

/// Prepares a statement and runs it once, without parameters.
#[track_caller]
fn execute(client: &mut FakeClient, text: &str) -> Vec<Vec<u8>> {
    let id = client.prepare(text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
    run(client, id).unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

fn run(client: &mut FakeClient, id: u32) -> Answer {
    client.command(&[&[0x17], &id.to_le_bytes()[..], &[0, 1, 0, 0, 0]].concat())
}

#[test]
fn no_length_turns_the_rules_off() {
    let shared = Shared::start("gap_length");
    let long = |size| format!("SELECT LENGTH('{}'), GET_LOCK('gap_length', 5)", "x".repeat(size));
    let many = format!("SELECT 1 IN (1{}), GET_LOCK('gap_length', 5)", ",1".repeat(600_000));
    let texts = [1 << 10, 60 << 10, 70 << 10, 1 << 20, 12 << 20].map(long);
    for (at, text) in texts.iter().chain([&many]).enumerate() {
        let mut client = shared.client();
        ok(&mut client, text);
        assert!(!shared.is_free(), "text {at}");
        drop(client);
        // It is gone when Flifo has seen that.
        wait_for("the lock to be free", || {
            ok(&mut shared.client(), "SELECT IS_FREE_LOCK('gap_length')") == "1"
        });
    }
    let counted = shared.end();
    assert_eq!(counted("pins.user_lock"), 5, "those that were read");
    assert_eq!(counted("pins.unreadable"), 1, "what has too many words");
}

#[test]
fn what_is_prepared_is_judged_as_text_is() {
    let schema = "gap_binary";
    let shared = Shared::start(schema);
    let mut other = shared.client();
    ok(&mut other, "CREATE TABLE t (a INT)");
    // What can be told to other backends costs no pin.
    let mut client = binary(&shared, schema);
    execute(&mut client, "SET sql_mode='ANSI_QUOTES', time_zone='+03:00'");
    execute(&mut client, "SET @@group_concat_max_len=2000");
    execute(&mut client, "SET NAMES latin1");
    let look = "SELECT CONCAT_WS(' ', @@sql_mode, @@time_zone, @@group_concat_max_len, \
        @@collation_connection)";
    let before = ok(&mut shared.direct(), look);
    assert_eq!(ok(&mut other, look), before);
    let seen = client.query(look).expect("runs");
    assert_eq!(seen, [b"ANSI_QUOTES +03:00 2000 latin1_swedish_ci"]);
    assert!(shared.is_free());
    for text in [
        "CREATE TEMPORARY TABLE x (a INT)",
        "CREATE TEMPORARY TABLE x AS SELECT 1 AS a",
        "SELECT GET_LOCK('gap_binary', 5)",
        "SET @x = (SELECT 1)",
        "SELECT 1 INTO @x",
        "SET timestamp = 5",
        "CALL mysql.AddGeometryColumn('', '', 't', 'g', 1)",
    ] {
        let mut client = binary(&shared, schema);
        if text.starts_with("CALL") {
            let id = client.prepare(text).expect("it may be prepared");
            assert!(run(&mut client, id).is_err(), "what it calls is not there");
        } else {
            execute(&mut client, text);
        }
        assert!(!shared.is_free(), "{text}");
    }
    assert_eq!(ok(&mut other, "SELECT @x, IS_FREE_LOCK('gap_binary'), NOW() > 2000"), "NULL 1 1");
    assert_eq!(fails(&mut other, "SELECT a FROM x"), 1146);
}

#[test]
fn what_routines_do_stays_with_their_client() {
    let shared = Shared::start("gap_routines");
    let mut direct = shared.direct();
    ok(&mut direct, "CREATE TABLE t (a INT)");
    for (at, body) in [
        "SET SESSION sql_mode = 'ANSI_QUOTES'",
        "SET @x = 7",
        "CREATE TEMPORARY TABLE x (a INT)",
        "DO GET_LOCK('gap_routines', 5)",
        "SET timestamp = 5",
    ]
    .iter()
    .enumerate()
    {
        ok(&mut direct, &format!("CREATE PROCEDURE p{at}() {body}"));
        let mut client = shared.client();
        ok(&mut client, &format!("CALL p{at}()"));
        assert!(!shared.is_free(), "{body}");
        drop(client);
        let make = format!("CREATE FUNCTION f{at}() RETURNS INT BEGIN {body}; RETURN 1; END");
        ok(&mut direct, &make);
        for text in [format!("SELECT f{at}()"), format!("INSERT INTO t VALUES (f{at}())")] {
            let mut client = shared.client();
            ok(&mut client, &text);
            assert!(!shared.is_free(), "{text}: {body}");
        }
        let look = "SELECT @x, @@sql_mode LIKE '%ANSI%', IS_FREE_LOCK('gap_routines')";
        let mut other = shared.client();
        assert_eq!(ok(&mut other, look), "NULL 0 1", "{body}");
        assert_eq!(fails(&mut other, "SELECT a FROM x"), 1146);
    }
    let counted = shared.end();
    assert!(counted("pins.call") == 5 && counted("pins.function") == 10);
}

#[test]
fn what_triggers_set_stays_with_their_client() {
    let shared = Shared::start("gap_triggers");
    let mut direct = shared.direct();
    let look = "SELECT @x, @@group_concat_max_len = 999, @@timestamp = 999";
    for (at, body) in
        ["SET @x = NEW.a", "SET SESSION group_concat_max_len = 999", "SET SESSION timestamp = 999"]
            .iter()
            .enumerate()
    {
        ok(&mut direct, &format!("CREATE TABLE t{at} (a INT)"));
        let event = format!("BEFORE INSERT ON t{at} FOR EACH ROW");
        ok(&mut direct, &format!("CREATE TRIGGER r{at} {event} {body}"));
        let mut client = shared.client();
        ok(&mut client, &format!("INSERT INTO t{at} VALUES (7)"));
        assert!(!shared.is_free(), "{body}");
        assert_ne!(ok(&mut client, look), "NULL 0 0", "{body}");
        drop(client);
        assert_eq!(ok(&mut shared.client(), look), "NULL 0 0", "{body}");
    }
}

#[test]
fn locks_and_temporary_things_in_any_spelling() {
    let shared = Shared::start("gap_spelling");
    ok(&mut shared.direct(), "CREATE TABLE t (a INT)");
    for (text, reason) in [
        ("CREATE OR REPLACE TEMPORARY TABLE x (a INT)", "temporary_table"),
        ("create\n/* a */ or replace\ttemporary -- b\n table x as select 1", "temporary_table"),
        ("CREATE TEMPORARY SEQUENCE x", "temporary_table"),
        ("/*!50000 CREATE */ /*M!100000 TEMPORARY */ TABLE x (a INT)", "temporary_table"),
        ("HANDLER t OPEN", "handler"),
        ("BACKUP LOCK gap_spelling.t", "table_lock"),
        ("FLUSH TABLES t WITH READ LOCK", "table_lock"),
        ("FLUSH LOCAL TABLES `t` FOR EXPORT", "table_lock"),
        ("LOCK TABLE t READ LOCAL", "table_lock"),
        ("SELECT GET_LOCK ('gap_spelling', 1)", "user_lock"),
        ("SELECT get_lock\t/**/ ('gap_spelling', 1)", "user_lock"),
        ("DO Get_Lock('gap_spelling', 1)", "user_lock"),
        ("INSERT INTO t SELECT GET_LOCK('gap_spelling', 1)", "user_lock"),
    ] {
        let fresh = Shared::over("gap_spelling", "");
        let mut client = fresh.client();
        ok(&mut client, text);
        assert!(!fresh.is_free(), "{text}");
        drop(client);
        assert_eq!(fresh.end()(&format!("pins.{reason}")), 1, "{text}");
    }
}

#[test]
fn a_value_that_is_computed_is_shared_all_the_same() {
    let shared = Shared::start("gap_computed");
    let (mut one, mut other) = (shared.client(), shared.client());
    for text in [
        // As Connector/J, Rails, WordPress and Logstash do.
        "SET sql_mode=CONCAT(@@sql_mode,',STRICT_TRANS_TABLES,ANSI_QUOTES')",
        "SET character_set_results = NULL",
        "SET  @@SESSION.sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO'),  \
         @@SESSION.sql_auto_is_null = 0, @@SESSION.wait_timeout = 2147483",
        "SET SESSION sql_mode=(SELECT REPLACE(@@sql_mode,'ONLY_FULL_GROUP_BY',''))",
        "SET SESSION group_concat_max_len = @@group_concat_max_len * 2",
        "SET time_zone = @@global.time_zone",
    ] {
        ok(&mut one, text);
        assert!(shared.is_free(), "{text}");
    }
    let look = "SELECT @@sql_mode LIKE '%ANSI_QUOTES%' AND @@sql_mode LIKE '%ZERO%', \
        @@character_set_results, @@wait_timeout";
    assert_eq!(ok(&mut one, look), "1 NULL 2147483");
    assert_eq!(ok(&mut other, look), "0 utf8mb4 28800");
    assert_eq!(shared.end()("pins."), 0);
}

#[test]
fn variables_that_others_ignore_are_kept() {
    let shared = Shared::start("gap_ignored");
    let mut other = shared.client();
    for (name, value) in [
        ("wait_timeout", "901"),
        ("interactive_timeout", "902"),
        ("net_read_timeout", "33"),
        ("net_write_timeout", "66"),
        ("read_buffer_size", "135168"),
        ("read_rnd_buffer_size", "266240"),
    ] {
        let look = format!("SHOW VARIABLES LIKE '{name}'");
        let default = ok(&mut other, &look);
        let mut client = shared.client();
        ok(&mut client, &format!("SET SESSION {name}={value}"));
        if name.starts_with("net") || name.ends_with("timeout") {
            assert_eq!(ok(&mut other, &look), default, "{name}");
        }
        assert_eq!(ok(&mut client, &look), format!("{name} {value}"));
        assert_eq!(ok(&mut client, &format!("SELECT @@session.{name}")), value);
        drop(client);
        assert_eq!(ok(&mut other, &look), default, "{name}");
    }
    // This one is the same for all sessions: the server does not let it be set.
    assert_eq!(fails(&mut other, "SET SESSION net_buffer_length=16384"), 1621);
    let counted = shared.end();
    assert_eq!(counted("pins.set"), 3, "the buffers, and what failed");
}

#[test]
fn an_insert_id_may_be_asked_for_in_any_words() {
    let shared = Shared::start("gap_insert_id");
    let (mut one, mut other) = (shared.client(), shared.client());
    ok(&mut one, "CREATE TABLE t (a INT AUTO_INCREMENT PRIMARY KEY, b INT)");
    for (at, text) in [
        "SELECT LAST_INSERT_ID()",
        "SELECT LAST_INSERT_ID() AS ID",
        "SELECT LAST_INSERT_ID();",
        "select last_insert_id ( ) as `id`",
        "SELECT @@last_insert_id",
        "SELECT @@IDENTITY AS 'id'",
        "SELECT MAX(a) FROM t WHERE a = LAST_INSERT_ID()",
    ]
    .iter()
    .enumerate()
    {
        ok(&mut one, "INSERT INTO t (b) VALUES (1)");
        // However much others do before it is asked for.
        for _ in 0..7 {
            ok(&mut other, "INSERT INTO t (b) VALUES (2)");
        }
        assert_eq!(ok(&mut one, text), (8 * at + 1).to_string(), "{text}");
        assert_eq!(ok(&mut other, "SELECT LAST_INSERT_ID()"), (8 * at + 8).to_string());
    }
    assert_eq!(shared.end()("pins."), 0);
}

#[test]
fn character_sets_are_those_of_the_client() {
    let shared = Shared::start("gap_charset");
    let (mut one, mut other) = (shared.client(), shared.client());
    ok(&mut one, "SET NAMES latin1 COLLATE latin1_german2_ci");
    ok(&mut other, "SET NAMES utf8mb4 COLLATE utf8mb4_bin");
    for _ in 0..3 {
        // Two bytes of latin1, one letter of utf8mb4.
        assert_eq!(ok(&mut one, "SELECT CHAR_LENGTH('é'), COLLATION('x')"), "2 latin1_german2_ci");
        assert_eq!(ok(&mut other, "SELECT CHAR_LENGTH('é'), 'a' = 'A'"), "1 0");
    }
    assert_eq!(ok(&mut shared.client(), "SELECT 'a' = 'A'"), "1");
    assert_eq!(shared.end()("pins."), 0);
}

#[test]
fn a_temporary_table_is_neither_lost_nor_met() {
    let shared = Shared::start("gap_temporary");
    let mut other = shared.client();
    for turn in 0..3 {
        let mut client = shared.client();
        // The same name again: an older one would be met with error 1050.
        ok(&mut client, "CREATE TEMPORARY TABLE x (a INT)");
        ok(&mut client, "INSERT INTO x VALUES (1)");
        assert!(!shared.is_free());
        assert_eq!(ok(&mut client, "SELECT a FROM x"), "1", "turn {turn}");
        drop(client);
        assert_eq!(fails(&mut other, "SELECT a FROM x"), 1146);
        ok(&mut other, "SELECT COUNT(*) FROM information_schema.ENGINES");
    }
}

#[test]
fn asking_for_a_variable_keeps_nothing() {
    let shared = Shared::start("gap_asking");
    let mut client = shared.client();
    for text in [
        "SELECT @@version_comment LIMIT 1",
        "SELECT @@session.auto_increment_increment AS auto_increment_increment, @@tx_isolation",
        "SELECT @@max_allowed_packet, @@global.read_only",
        "SHOW VARIABLES LIKE 'sql_mode'",
        "SELECT a FROM (SELECT 'x@y.z' AS a) AS it WHERE a LIKE '%@%'",
        "INSERT INTO t VALUES (1)",
        "COMMIT",
    ] {
        if text.starts_with("INSERT") {
            ok(&mut client, "CREATE TABLE t (a INT AUTO_INCREMENT PRIMARY KEY)");
        }
        ok(&mut client, text);
        // At once, whatever it was: nothing is held for a time that was guessed.
        assert!(shared.is_free(), "{text}");
    }
    assert_eq!(shared.end()("pins."), 0);
}

#[test]
fn each_client_gets_replies_in_its_own_form() {
    let schema = "gap_forms";
    let shared = Shared::start(schema);
    // The one reads the ends of columns and rows, the other one does without the packets for it.
    let mut new = binary(&shared, schema);
    let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: shared.flifo.port() };
    let old = Client::builder(address, USER, server().password()).schema(schema);
    // Each form has backends of its own, as a server knows only at the end of rows what it tells behind columns.
    let mut old = old.with(Capabilities::LOCAL_FILES).connect().expect("a login");
    assert!(!old.capabilities().has(Capabilities::DEPRECATE_EOF));
    assert!(CAPABILITIES.has(Capabilities::DEPRECATE_EOF));
    ok(&mut old, "CREATE TABLE t (a INT)");
    for (text, rows) in [
        ("SELECT a FROM t", &[][..]),
        ("SELECT 1 UNION SELECT 3", &["1", "3"]),
        ("SELECT 1; SELECT a FROM t; SELECT 2", &["1", "2"]),
        ("DO 1; SELECT a FROM t", &[]),
        ("SHOW WARNINGS", &[]),
    ] {
        assert_eq!(ok(&mut old, text), rows.join("|"), "{text}");
        let rows: Vec<_> = rows.iter().map(|it| it.as_bytes().to_vec()).collect();
        assert_eq!(new.query(text), Ok(rows), "{text}");
    }
    assert!(shared.end()("backends_opened") > 1);
}

#[test]
fn columns_are_those_of_the_table_as_it_is_now() {
    let schema = "gap_columns";
    let shared = Shared::start(schema);
    let (mut one, mut other) = (binary(&shared, schema), binary(&shared, schema));
    let mut editor = shared.client();
    ok(&mut editor, "CREATE TABLE t (a VARCHAR(9))");
    ok(&mut editor, "INSERT INTO t VALUES ('old')");
    let text = "SELECT * FROM t";
    let ids = [one.prepare(text).expect("prepares"), other.prepare(text).expect("prepares")];
    assert_eq!(run(&mut one, ids[0]), Ok(vec![b"old".to_vec()]));
    for (change, first) in [
        ("ALTER TABLE t ADD COLUMN b VARCHAR(9) DEFAULT 'new' FIRST", "new"),
        ("ALTER TABLE t DROP COLUMN b", "old"),
        ("CREATE OR REPLACE TABLE t AS SELECT 'other' AS c", "other"),
    ] {
        ok(&mut editor, change);
        for (client, id) in [(&mut one, ids[0]), (&mut other, ids[1])] {
            assert_eq!(run(client, id), Ok(vec![first.into()]), "{change}");
        }
    }
    assert_eq!(shared.end()("pins."), 0);
}
