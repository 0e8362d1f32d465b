//! What clients of one shared backend are told of their own past: messages, counts, insert ids, transactions that have
//! only been begun; and what a backend is when its client has left something on it.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use testkit::client::Client;
use testkit::fake_client::FakeClient;
use testkit::reply::{Flag, Reply, honest};
use testkit::scene::{Scene, row, wait_for};
use wire::Capabilities;
use wire::auth::Plugin;
use wire::frame::put_packet;
use wire::response::{OK, OkPacket, Status};
use wire::tracker::{Change, put_change};

use crate::shared::{Shared, USER, fails, ok, server};

/// Another client uses the backend, and leaves traces of its own on it.
fn disturb(other: &mut Client) {
    ok(other, "INSERT INTO t (b) VALUES (1), (2), (3)");
    fails(other, "SELECT nothing");
    // Until this, the backend is kept for the error.
    ok(other, "SELECT COUNT(*) FROM t");
}

fn pair(schema: &str) -> (Shared, Client, Client) {
    let shared = Shared::start(schema);
    let (mut one, other) = (shared.client(), shared.client());
    ok(&mut one, "CREATE TABLE t (a INT AUTO_INCREMENT PRIMARY KEY, b INT)");
    (shared, one, other)
}

#[test]
fn the_count_of_rows_found_outlives_a_new_beginning() {
    let shared = Shared::start("past_anew");
    for reset in [true, false] {
        let found = [shared.flifo.port(), server().port()].map(|port| {
            let mut client = FakeClient::login(port, USER, server().password()).expect("a login");
            client.query("SELECT 1").expect("a row");
            match reset {
                true => client.command(&[0x1f]),
                false => client.query("SET @nothing = 1"),
            }
            .expect("an OK");
            client.query("SELECT FOUND_ROWS()").expect("a count")
        });
        assert_eq!(found[0], found[1], "{reset}");
        assert_eq!(found[1], [b"1"], "{reset}");
    }
    let found = [shared.client(), shared.direct()].map(|mut client| {
        ok(&mut client, "SELECT 1");
        client.change_user(USER, server().password(), &Plugin::NativePassword).expect("a change");
        ok(&mut client, "SELECT FOUND_ROWS()")
    });
    assert_eq!(found, ["1", "1"]);
}

#[test]
fn variables_show_the_clients_own_insert_id() {
    let (shared, mut one, mut other) = pair("past_variables");
    const SYSTEM: &str = "SELECT SESSION_VALUE FROM information_schema.SYSTEM_VARIABLES \
        WHERE VARIABLE_NAME = 'LAST_INSERT_ID'";
    const SHOW: &str = "SHOW VARIABLES LIKE 'last_insert_id'";
    ok(&mut one, "INSERT INTO t (b) VALUES (1)");
    assert_eq!(ok(&mut other, SHOW), "last_insert_id 0");
    assert_eq!(ok(&mut one, SHOW), "last_insert_id 1");
    disturb(&mut other);
    assert_eq!(ok(&mut one, SYSTEM), "1");
    assert_eq!(ok(&mut other, SYSTEM), "2");
    assert!(shared.is_free());
}

#[test]
fn insert_ids_are_those_of_the_client() {
    let (shared, mut one, mut other) = pair("past_ids");
    assert_eq!(ok(&mut one, "SELECT LAST_INSERT_ID()"), "0");
    ok(&mut one, "INSERT INTO t (b) VALUES (1)");
    disturb(&mut other);
    assert_eq!(ok(&mut one, "SELECT LAST_INSERT_ID()"), "1");
    assert_eq!(ok(&mut other, "SELECT LAST_INSERT_ID()"), "2");
    // An explicit number is reported as well, and is none.
    ok(&mut one, "INSERT INTO t VALUES (77, 1)");
    disturb(&mut other);
    assert_eq!(ok(&mut one, "SELECT LAST_INSERT_ID(), @@identity"), "1 1");
    assert_eq!(ok(&mut other, "SELECT LAST_INSERT_ID()"), "78");
    assert_eq!(ok(&mut shared.client(), "SELECT LAST_INSERT_ID()"), "0");
    ok(&mut one, "INSERT INTO t (b) SELECT LAST_INSERT_ID()");
    assert_eq!(ok(&mut other, "SELECT b FROM t ORDER BY a DESC LIMIT 1"), "1");
    assert_eq!(shared.end()("backends_opened"), 1);
}

#[test]
fn an_insert_id_outlives_what_is_done_on_another_backend() {
    let (shared, mut one, mut other) = pair("past_ids_held");
    ok(&mut one, "INSERT INTO t (b) VALUES (1)");
    ok(&mut one, "BEGIN");
    ok(&mut other, "INSERT INTO t (b) VALUES (1)");
    assert_eq!(ok(&mut one, "SELECT LAST_INSERT_ID() FROM t LIMIT 1"), "1");
    assert_eq!(ok(&mut one, "SELECT @x, LAST_INSERT_ID()"), "NULL 1");
    drop(one);
    assert_eq!(ok(&mut other, "SELECT LAST_INSERT_ID()"), "2");
    drop(shared);
}

#[test]
fn an_insert_id_that_is_not_reported_is_nobody_elses() {
    let (_shared, mut one, mut other) = pair("past_ids_silent");
    ok(&mut one, "CREATE TABLE u (a INT AUTO_INCREMENT PRIMARY KEY, b INT UNIQUE)");
    ok(&mut one, "ALTER TABLE u AUTO_INCREMENT = 50");
    assert_eq!(ok(&mut one, "INSERT INTO u (b) VALUES (1) RETURNING a"), "50");
    assert_eq!(ok(&mut other, "SELECT LAST_INSERT_ID()"), "0");
    assert_eq!(ok(&mut one, "SELECT LAST_INSERT_ID()"), "50");
    fails(&mut other, "INSERT INTO u (b) VALUES (2), (1)");
    ok(&mut other, "SELECT COUNT(*) FROM u");
    ok(&mut one, "INSERT INTO t (b) VALUES (1)");
    assert_eq!(ok(&mut other, "SELECT LAST_INSERT_ID()"), "51", "of the row that was undone");
    assert_eq!(ok(&mut one, "SELECT LAST_INSERT_ID()"), "1");
}

#[test]
fn diagnostics_are_those_of_the_client() {
    let (shared, mut one, mut other) = pair("past_diagnostics");
    let warned = "Warning 1292 Truncated incorrect INTEGER value: 'abc'";
    fails(&mut other, "SELECT nothing");
    drop(other);
    // The backend still has the other's error: a statement without a table does not clear it.
    ok(&mut one, "SELECT 1");
    assert_eq!(ok(&mut one, "SHOW WARNINGS"), "");
    assert_eq!(ok(&mut one, "SELECT @@warning_count, @@error_count"), "0 0");
    ok(&mut one, "SELECT CAST('abc' AS INT)");
    assert_eq!(ok(&mut one, "SHOW WARNINGS"), warned);
    ok(&mut one, "SELECT 1");
    assert_eq!(ok(&mut one, "SHOW WARNINGS"), warned);
    ok(&mut one, "SELECT COUNT(*) FROM t");
    assert!(shared.is_free());
    assert_eq!(ok(&mut one, "SHOW WARNINGS"), "");
}

#[test]
fn counts_are_those_of_the_client_or_unknown() {
    let (shared, mut one, mut other) = pair("past_counts");
    assert_eq!(ok(&mut other, "SELECT ROW_COUNT(), FOUND_ROWS()"), "0 0");
    ok(&mut one, "INSERT INTO t (b) VALUES (1), (2)");
    ok(&mut other, "SELECT 1");
    assert_eq!(ok(&mut one, "SELECT ROW_COUNT()"), "2");
    ok(&mut one, "SELECT b FROM t LIMIT 2");
    ok(&mut other, "SELECT 1");
    assert_eq!(ok(&mut one, "SELECT FOUND_ROWS(), ROW_COUNT() AS n"), "2 -1");
    ok(&mut one, "UPDATE t SET b = 5");
    ok(&mut other, "SELECT 1");
    ok(&mut one, "INSERT INTO t (b) VALUES (ROW_COUNT() + 1)");
    assert_eq!(ok(&mut one, "SELECT b FROM t ORDER BY a DESC LIMIT 1"), "3");
    fails(&mut one, "SELECT nothing");
    ok(&mut one, "BEGIN");
    assert_eq!(ok(&mut one, "SELECT ROW_COUNT()"), "0");
    ok(&mut one, "COMMIT");
    // A number stands in the call's place, and the column keeps its name.
    ok(&mut one, "UPDATE t SET b = 6");
    ok(&mut other, "SELECT 1");
    assert_eq!(ok(&mut one, "SELECT ROW_COUNT() + 0"), "3");
    assert_eq!(ok(&mut one, "SELECT IF(ROW_COUNT() < 0, 'rows', 'none'), 1"), "rows 1");
    ok(&mut one, "SELECT b FROM t LIMIT 1, 1");
    ok(&mut other, "SELECT 1");
    assert_eq!(ok(&mut one, "SELECT FOUND_ROWS()"), "2", "rows that were left out count");
    ok(&mut one, "SELECT 1 UNION SELECT 2 UNION SELECT 3 LIMIT 1");
    ok(&mut other, "SELECT b FROM t LIMIT 1");
    assert_eq!(ok(&mut one, "SELECT FOUND_ROWS() + 1"), "4");
    assert_eq!(shared.end()("backends_opened"), 1);
}

#[test]
fn rows_found_outlive_what_is_inserted() {
    let (shared, mut one, mut other) = pair("past_found");
    ok(&mut one, "CREATE TABLE u (a INT UNIQUE)");
    let (mut direct, body) = (shared.direct(), "SET NEW.a = NEW.a + (SELECT COUNT(*) * 0 FROM t)");
    ok(&mut direct, &format!("CREATE TRIGGER u_t BEFORE INSERT ON u FOR EACH ROW {body}"));
    ok(&mut one, "INSERT INTO t (b) VALUES (1), (2), (3)");
    for client in [&mut direct, &mut one] {
        ok(client, "SELECT b FROM t LIMIT 2");
        ok(client, "REPLACE INTO u VALUES (1)");
        fails(client, "INSERT INTO u VALUES (1)");
        ok(client, "INSERT INTO t (b) VALUES (4) RETURNING b");
        ok(client, "DO (SELECT COUNT(*) FROM t)");
        ok(client, "SELECT b FROM t LIMIT 2");
        fails(client, "INSERT INTO u VALUES (1)");
        ok(&mut other, "SELECT COUNT(*) FROM t");
        assert_eq!(ok(client, "SELECT FOUND_ROWS()"), "2");
    }
}

#[test]
fn counts_outlive_what_a_backend_is_asked_for_others() {
    let (shared, mut gone, _other) = pair("past_counts_asked");
    for text in ["SELECT ROW_COUNT()", "SELECT ROW_COUNT() AS `n` FROM DUAL"] {
        // No client will ever ask for this insert id; but a client that may insert next has to know it.
        ok(&mut gone, "INSERT INTO t (b) SELECT ROW_COUNT()");
        drop(std::mem::replace(&mut gone, shared.client()));
        let mut one = shared.client();
        fails(&mut one, "SELECT nothing");
        assert_eq!(ok(&mut one, text), "-1");
    }
    // Where no number can stand in the call's place.
    ok(&mut gone, "INSERT INTO t (b) VALUES (1)");
    drop(gone);
    let mut one = shared.client();
    fails(&mut one, "SELECT nothing");
    ok(&mut one, "CREATE TABLE counted AS SELECT ROW_COUNT() AS n");
    assert_eq!(ok(&mut one, "SELECT n FROM counted"), "-1");
}

#[test]
fn an_insert_id_is_known_while_its_backend_is_to_be_killed() {
    let scene = Scene::pooled("connections_max = 2\n");
    let (made, killed) = (Flag::default(), Flag::default());
    let gates = [&made, &killed].map(Arc::clone);
    scene.server.answer(move |command| match command {
        b"\x03INSERT INTO t VALUES (1)" => inserted(&[]).when(&gates[0]),
        b"\x03SET last_insert_id=LAST_INSERT_ID()" => {
            inserted(&[Change::Variable { name: b"last_insert_id", value: b"7" }])
        }
        _ if command.starts_with(b"\x03KILL QUERY") => honest(command).when(&gates[1]),
        _ => honest(command),
    });
    let (mut one, mut killer) = (scene.client(), scene.client());
    let id = one.id();
    one.send_packet(0, b"\x03INSERT INTO t VALUES (1)");
    wait_for("the insert", || scene.server.received(b"\x03INSERT") == 1);
    assert_eq!(killer.query(&format!("KILL QUERY {id}")), Ok(vec![]));
    wait_for("the order", || scene.server.received(b"\x03KILL QUERY") == 1);
    made.store(true, SeqCst);
    assert_eq!(one.read_answer(), Ok(vec![]), "it came too late");
    // No client has the backend now, and the backend still knows the id.
    assert_eq!(one.query("SELECT LAST_INSERT_ID()"), row("LAST_INSERT_ID()"));
    assert_eq!(
        scene.server.received(b"\x03SET last_insert_id=7"),
        1,
        "told to another backend connection"
    );
    killed.store(true, SeqCst);
    drop((one, killer));
    scene.end();
}

/// An OK with a number that was made, and these changes.
pub(crate) fn inserted(list: &[Change<'_>]) -> Reply {
    let mut changes = Vec::new();
    list.iter().for_each(|change| put_change(&mut changes, *change));
    let status = Status(Status::AUTOCOMMIT.0 | Status::STATE_CHANGED.0);
    let (mut ok, mut packet) = (Vec::new(), Vec::new());
    let insert_id = if list.is_empty() { 7 } else { 0 };
    let whole = OkPacket { status, insert_id, changes: &changes, ..OkPacket::EMPTY };
    whole.encode(OK, Capabilities::SESSION_TRACK, &mut ok);
    put_packet(&mut packet, 1, &ok);
    Reply::Raw(packet)
}

#[test]
fn a_transaction_that_has_only_begun_takes_no_backend() {
    let (shared, mut one, mut other) = pair("past_begin");
    for (begin, end) in [("BEGIN", "COMMIT"), ("START TRANSACTION", "ROLLBACK")] {
        ok(&mut one, begin);
        assert!(shared.is_free());
        ok(&mut one, end);
        ok(&mut one, begin);
        ok(&mut one, "INSERT INTO t (b) VALUES (9)");
        assert!(!shared.is_free(), "now it has");
        ok(&mut one, end);
    }
    assert_eq!(ok(&mut other, "SELECT COUNT(*) FROM t"), "1", "one of two was committed");
    ok(&mut one, "BEGIN");
    ok(&mut one, "DELETE FROM t");
    ok(&mut one, "COMMIT AND CHAIN");
    assert!(!shared.is_free(), "another one has begun at once");
    ok(&mut one, "ROLLBACK");
    ok(&mut one, "BEGIN");
    ok(&mut one, "CREATE TABLE u (a INT)");
    assert!(shared.is_free(), "a definition commits");
}

#[test]
fn nothing_is_left_on_a_backend_that_was_reset() {
    let (shared, mut one, mut other) = pair("past_reset");
    for leave in [
        "SET @x = 1",
        "CREATE TEMPORARY TABLE temp (a INT)",
        "SELECT GET_LOCK('l', 1)",
        "SET timestamp = 5",
        "LOCK TABLES t WRITE",
        "HANDLER t OPEN",
        "SELECT LAST_INSERT_ID(7)",
        "SET NAMES gbk",
        "SET sql_mode = ''; SELECT 1",
    ] {
        let mut leaver = shared.client();
        ok(&mut leaver, leave);
        ok(&mut leaver, "SET SESSION wait_timeout=5, sql_mode='ANSI'");
        drop(leaver);
        let mut looker = shared.client();
        let seen = ok(
            &mut looker,
            "SELECT @x, IS_FREE_LOCK('l'), UNIX_TIMESTAMP() > 5, LAST_INSERT_ID(), @@wait_timeout, \
             @@sql_mode LIKE '%ANSI%', @@character_set_client",
        );
        assert_eq!(seen, "NULL 1 1 0 28800 0 utf8mb4", "{leave}");
        drop(looker);
        assert_eq!(fails(&mut one, "SELECT * FROM temp"), 1146);
        ok(&mut one, "SELECT COUNT(*) FROM t");
        // Changes are reported again.
        ok(&mut one, "SET time_zone='+09:00'");
        assert_eq!(ok(&mut other, "SELECT @@time_zone"), "SYSTEM");
        assert_eq!(ok(&mut one, "SELECT @@time_zone"), "+09:00");
    }
    drop((one, other));
    let counted = shared.end();
    assert_eq!(counted("backends_opened"), 1, "it is still the first one");
    assert!(counted("backends_reset") >= 9);
}

#[test]
fn what_a_reset_does_not_undo_costs_the_backend() {
    let (shared, one, _other) = pair("past_drop");
    drop(one);
    for leave in [
        "SET ROLE NONE",
        "BEGIN NOT ATOMIC SET @x = 1; END",
        "XA START 'a'",
        "EXECUTE IMMEDIATE 'SET ROLE NONE'",
    ] {
        ok(&mut shared.client(), leave);
        let begun = Instant::now();
        while !shared.is_free() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{leave}");
        }
    }
    let counted = shared.end();
    assert_eq!((counted("backends_opened"), counted("backends_reset")), (5, 0));
}

#[test]
fn what_fails_while_it_looks_something_up_leaves_the_count() {
    let (shared, mut one, mut other) = pair("past_looked_up");
    let mut direct = shared.direct();
    let fail = |client: &mut Client, text: &str| match client.query(text) {
        Err(error) => error.to_string(),
        Ok(rows) => panic!("{text}: {rows:?}"),
    };
    for text in [
        "SHOW INDEX FROM absent",
        "SHOW FULL COLUMNS FROM absent",
        "DESCRIBE absent",
        "SHOW TABLES FROM absent",
        "SHOW TRIGGERS FROM absent",
        "SHOW EXPLAIN FOR 999999999",
        "SHOW CREATE TABLE absent",
        "EXPLAIN SELECT * FROM absent",
        "SHOW TABLES WHERE absent",
        "SELECT * FROM absent",
    ] {
        for before in ["DO 1", "SELECT 1", "INSERT INTO t (b) VALUES (1), (2), (3)"] {
            ok(&mut direct, before);
            ok(&mut one, before);
            let settings = "SET div_precision_increment = 5";
            ok(&mut other, settings);
            assert_eq!(fail(&mut one, text), fail(&mut direct, text));
            ok(&mut other, "UPDATE t SET b = b + 1");
            let asked = "SELECT ROW_COUNT()";
            assert_eq!(ok(&mut one, asked), ok(&mut direct, asked), "{text} behind {before}");
        }
    }
}
