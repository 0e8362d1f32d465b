//! Messages of clients whose backend has gone to another client: they get the messages that they would get on a
//! connection of their own, in the text protocol and in that of prepared statements.

use std::thread;
use std::time::Duration;

use testkit::client::{Client, Problem};
use testkit::fake_client::FakeClient;

use crate::shared::{Shared, USER, fails, ok, server};

/// Runs these on a connection to the server, and through Flifo, where another client takes the backend before each and
/// leaves messages of its own. The answers must be the same.
#[track_caller]
fn same(shared: &Shared, texts: &[&str]) {
    let (mut direct, mut one) = (shared.direct(), shared.client());
    for text in texts {
        disturb(shared);
        assert_eq!(answer(&mut one, text), answer(&mut direct, text), "{text} of {texts:?}");
    }
}

fn answer(client: &mut Client, text: &str) -> Result<Vec<Vec<String>>, String> {
    client.query(text).map_err(|error| error.to_string())
}

fn disturb(shared: &Shared) {
    let mut other = shared.client();
    ok(&mut other, "SELECT 'zzz' + 0, 'yyy' + 0");
    assert_eq!(fails(&mut other, "SELECT absent"), 1054);
}

fn shared(schema: &str) -> Shared {
    let shared = Shared::start(schema);
    ok(&mut shared.direct(), "CREATE TABLE t (a INT AUTO_INCREMENT PRIMARY KEY, b INT)");
    shared
}

#[test]
fn diagnostics_outlive_their_backend() {
    let shared = shared("diagnostics_kept");
    same(&shared, &["SELECT 'x' + 0", "SHOW WARNINGS", "SHOW ERRORS", "SELECT 1", "SHOW WARNINGS"]);
    same(&shared, &["SELECT nothing", "SHOW WARNINGS", "SHOW ERRORS", "BEGIN", "SHOW WARNINGS"]);
    let three = "SELECT 'x' + 0, 'y' + 0, 'z' + 1";
    same(&shared, &[three, "SHOW WARNINGS LIMIT 1", "SHOW WARNINGS LIMIT 1, 5", "SHOW ERRORS"]);
    same(&shared, &["DROP TABLE IF EXISTS absent", "SHOW WARNINGS", "SELECT @@warning_count"]);
    same(&shared, &["SELECT nothing", "SELECT COUNT(*) FROM t", "SHOW WARNINGS"]);
    assert_eq!(shared.end()("backends_opened"), 1, "nobody has kept it");
}

#[test]
fn diagnostics_are_counted_when_their_backend_is_gone() {
    let shared = shared("diagnostics_counted");
    let counts = "SELECT @@warning_count, @@session.error_count + 1";
    same(&shared, &["SELECT 'x' + 0, 'y' + 0", "SHOW COUNT(*) WARNINGS", counts, "SHOW WARNINGS"]);
    same(&shared, &["SELECT nothing", "SHOW COUNT(*) ERRORS", counts, "SHOW COUNT(*) WARNINGS"]);
    same(&shared, &["SET max_error_count = 1", "SELECT 'x' + 0, 'y' + 0", "SHOW WARNINGS", counts]);
    same(&shared, &["SELECT nothing", "SELECT @@warning_count FROM t LIMIT 1", counts]);
}

#[test]
fn what_may_clear_diagnostics_is_asked_whether_it_has() {
    let shared = shared("diagnostics_marked");
    for text in [
        "FLUSH STATUS",
        "SHOW GRANTS",
        "SELECT EXTRACT(DAY FROM '2020-01-01'), ROW_COUNT()",
        "SELECT (SELECT MAX(a) FROM t)",
        "SHOW TABLES",
    ] {
        same(&shared, &["SELECT 'x' + 0", text, "SHOW WARNINGS", "SELECT @@warning_count"]);
    }
    // In a transaction the backend stays, with what it was told.
    let mut one = shared.client();
    ok(&mut one, "SELECT 'x' + 0");
    disturb(&shared);
    ok(&mut one, "BEGIN");
    ok(&mut one, "SELECT EXTRACT(DAY FROM '2020-01-01')");
    let warning = "Warning 1292 Truncated incorrect DOUBLE value: 'x'";
    assert_eq!(ok(&mut one, "SHOW WARNINGS"), warning);
}

#[test]
fn diagnostics_are_told_when_their_backend_is_gone() {
    let shared = shared("diagnostics_diagnosed");
    let get = "GET DIAGNOSTICS CONDITION 1 @a = RETURNED_SQLSTATE, @b = MESSAGE_TEXT, \
               @c = MYSQL_ERRNO";
    let get_all = "GET DIAGNOSTICS @a = NUMBER, @b = ROW_COUNT";
    let look = "SELECT @a, @b, @c, COLLATION(@b)";
    for before in [
        &["SELECT nothing"][..],
        &["SELECT 'x' + 0, 'y' + 0"],
        &["SELECT '\u{e4}' + 0"],
        &["INSERT INTO t (b) VALUES (1), ('x')"],
        &["INSERT INTO t (b) VALUES (1), (2)"],
    ] {
        for get in [get, get_all] {
            if get == get_all || before[0].starts_with("SELECT") {
                let (mut direct, mut one) = (shared.direct(), shared.client());
                for text in before {
                    assert_eq!(answer(&mut one, text), answer(&mut direct, text), "{text}");
                    disturb(&shared);
                }
                // From here on it keeps the backend.
                for text in [get, look, "SHOW WARNINGS", "SELECT @@warning_count"] {
                    assert_eq!(answer(&mut one, text), answer(&mut direct, text), "{before:?}");
                }
            }
        }
    }
}

#[test]
fn what_flifo_itself_has_refused_is_shown() {
    let shared = Shared::start_with("diagnostics_own", "pins = \"refuse\"");
    let mut one = shared.client();
    assert_eq!(fails(&mut one, "SELECT @x"), 1290);
    assert!(ok(&mut one, "SHOW WARNINGS").starts_with("Error 1290 Flifo did not run this"));
    disturb(&shared);
    assert!(ok(&mut one, "SHOW ERRORS").contains("reason: user_variable"));
    assert_eq!(ok(&mut one, "SELECT @@error_count, @@warning_count"), "1 1");
    assert_eq!(ok(&mut one, "SHOW COUNT(*) ERRORS"), "1");
}

#[test]
fn prepared_statements_show_diagnostics_as_well() {
    let shared = shared("diagnostics_prepared");
    let login = |port| -> FakeClient {
        let mut client = FakeClient::login(port, USER, server().password()).expect("a login");
        client.query("USE diagnostics_prepared").expect("the schema");
        client
    };
    let answers = |port| -> Vec<Vec<Vec<u8>>> {
        let mut client = login(port);
        let texts = ["SHOW WARNINGS", "SHOW ERRORS", "SELECT @@warning_count, @@error_count"];
        let ids = texts.map(|text| client.prepare(text).expect("prepared"));
        let mut answers = Vec::new();
        for cause in ["SELECT 'x' + 0, 'y' + 0", "SELECT nothing"] {
            let _ = client.query(cause);
            for id in ids {
                disturb(&shared);
                let execute = [&[0x17][..], &id.to_le_bytes(), b"\0\x01\0\0\0"].concat();
                client.send_packet(0, &execute);
                let mut packets = Vec::new();
                while packets.last().is_none_or(|it: &Vec<u8>| it[0] != 0xfe) {
                    packets.push(client.read_payload().expect("a packet"));
                }
                answers.push(packets);
            }
        }
        answers
    };
    assert_eq!(answers(shared.flifo.port()), answers(server().port()));
}

/// What a wait for a row that another transaction has changed leaves, and a deadlock: for an `UPDATE` and a `DELETE`,
/// MariaDB reports the error twice.
#[test]
fn an_error_that_is_reported_twice_keeps_no_backend() {
    let shared = shared("diagnostics_twice");
    let mut holder = shared.direct();
    ok(&mut holder, "INSERT INTO t (b) SELECT seq FROM seq_1_to_200");
    ok(&mut holder, "BEGIN");
    ok(&mut holder, "UPDATE t SET b = 0 WHERE a <= 100");
    let counts = "SELECT @@warning_count, @@error_count";
    let wait = "SET innodb_lock_wait_timeout = 0";
    for blocked in ["UPDATE t SET b = 1 WHERE a = 1", "DELETE FROM t WHERE a = 2"] {
        same(&shared, &[wait, blocked, "SHOW WARNINGS", "SHOW COUNT(*) ERRORS", counts]);
        same(&shared, &[wait, blocked, counts, "SHOW GRANTS", "SHOW ERRORS", "ROLLBACK"]);
    }
    let mut one = shared.client();
    ok(&mut one, wait);
    assert_eq!(fails(&mut one, "UPDATE t SET b = 1 WHERE a = 1"), 1205);
    assert!(shared.is_free(), "the client rests, and another one needs the backend");
    assert_eq!(ok(&mut one, "SHOW WARNINGS").matches("Error 1205 ").count(), 2);
    assert_eq!(fails(&mut one, "DELETE FROM t WHERE a = 2"), 1205);
    disturb(&shared);
    ok(&mut one, "GET DIAGNOSTICS CONDITION 2 @code = MYSQL_ERRNO, @state = RETURNED_SQLSTATE");
    assert_eq!(ok(&mut one, "SELECT @code, @state"), "1205 HY000");
    drop(one);
    // The transaction that has changed less is undone: Flifo's client's.
    let mut one = shared.client();
    ok(&mut one, "BEGIN");
    ok(&mut one, "UPDATE t SET b = 1 WHERE a = 150");
    thread::scope(|scope| {
        scope.spawn(|| {
            ok(&mut holder, "UPDATE t SET b = 2 WHERE a = 150");
            ok(&mut holder, "COMMIT");
        });
        let mut watcher = shared.direct();
        let waiting = "SELECT COUNT(*) FROM information_schema.innodb_lock_waits";
        while ok(&mut watcher, waiting) != "1" {
            // InnoDB looks again only if it was not asked for a tenth of a second.
            thread::sleep(Duration::from_millis(150));
        }
        assert_eq!(fails(&mut one, "UPDATE t SET b = 1 WHERE a = 1"), 1213);
    });
    ok(&mut one, "ROLLBACK");
    assert!(shared.is_free());
    let shown = ok(&mut one, "SHOW WARNINGS");
    assert_eq!(shown.matches("Error 1213 ").count(), 2, "{shown}");
    assert_eq!(shared.end()("pins."), 1, "but for user variables");
}

#[test]
fn a_flood_of_diagnostics_keeps_no_backend() {
    let shared = shared("diagnostics_many");
    let counts = "SELECT @@warning_count, @@error_count";
    let flood = "SELECT COUNT(CAST(CONCAT('x', seq) AS INT)) FROM seq_1_to_2000";
    // As many as the server keeps by default.
    same(&shared, &[flood, "SHOW WARNINGS", "SHOW WARNINGS LIMIT 60, 10", counts]);
    same(&shared, &[flood, "SHOW COUNT(*) WARNINGS", "SHOW GRANTS", counts, "SHOW ERRORS"]);
    same(&shared, &["SET max_error_count = 0", flood, "SHOW WARNINGS", counts]);
    let long = format!("SELECT {}", vec![format!("'{}' + 0", "x".repeat(500)); 60].join(", "));
    same(&shared, &[&long, "SHOW WARNINGS", counts]);
    let mut one = shared.client();
    // What it had the server keep beyond that is shown as far as there is room for it, and counted.
    ok(&mut one, "SET max_error_count = 65535");
    ok(&mut one, flood);
    assert!(shared.is_free());
    let shown = ok(&mut one, "SHOW WARNINGS");
    let shown: Vec<_> = shown.split('|').collect();
    assert!((300..1025).contains(&shown.len()), "{}", shown.len());
    assert_eq!(shown[299], "Warning 1292 Truncated incorrect INTEGER value: 'x300'");
    assert_eq!(ok(&mut one, counts), "2000 0");
    // A note that says what becomes of the statement: where there is no room even for one, that is not told.
    for (length, is_told) in [(20_000, true), (200_000, false)] {
        ok(&mut one, &format!("EXPLAIN EXTENDED SELECT '{}'", "x".repeat(length)));
        assert!(shared.is_free());
        match one.query("SHOW WARNINGS") {
            Ok(rows) => assert!(is_told && rows[0][2].len() > length, "{length}"),
            Err(Problem::Refused { code, .. }) => assert!(code == 1105 && !is_told, "{length}"),
            Err(error) => panic!("{length}: {error}"),
        }
    }
    // More than another backend can be told.
    ok(&mut one, "SELECT COUNT(CAST(CONCAT('x', seq) AS INT)) FROM seq_1_to_66000");
    assert!(shared.is_free());
    assert_eq!(fails(&mut one, counts), 1105);
    ok(&mut one, "SELECT COUNT(*) FROM t");
    assert_eq!(ok(&mut one, counts), "0 0", "a statement has replaced them");
    assert_eq!(shared.end()("pins."), 0);
}

#[test]
fn what_a_client_signals_keeps_no_backend() {
    let shared = shared("diagnostics_signalled");
    for signal in [
        "SIGNAL SQLSTATE '01000' SET MESSAGE_TEXT = 'a warning'",
        "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'an error', MYSQL_ERRNO = 1213",
        "SIGNAL SQLSTATE '02000'",
    ] {
        same(&shared, &[signal, "SHOW WARNINGS", "SELECT @@warning_count, @@error_count"]);
        same(&shared, &["SELECT 'x' + 0", signal, "SHOW WARNINGS", "SELECT COUNT(*) FROM t"]);
    }
    same(&shared, &["SELECT COUNT(*) FROM t", "RESIGNAL", "SHOW WARNINGS"]);
    let mut one = shared.client();
    assert_eq!(fails(&mut one, "SIGNAL SQLSTATE '45000'"), 1644);
    assert!(shared.is_free());
    assert_eq!(shared.end()("pins."), 0);
}

#[test]
fn what_any_of_several_results_warned_of_is_kept() {
    let shared = Shared::start("diagnostics_several");
    let asked = [server().port(), shared.flifo.port()].map(|port| {
        let mut client = FakeClient::login(port, USER, server().password()).expect("a login");
        client.query("SELECT CAST('abc' AS INT); SELECT 1").expect("two results");
        assert!(shared.is_free());
        client.query("SELECT @@warning_count").expect("a count")
    });
    assert_eq!(asked[0], [b"1"], "the second one uses no table");
    assert_eq!(asked[0], asked[1]);
}

const WAITED: u16 = 1637;

/// Lets clients ask at once, one behind the other on the only backend; the first one asks more as soon as it has an
/// answer.
fn in_a_row(
    shared: &Shared,
    first: &[&str],
    others: &str,
) -> Vec<Result<Vec<Vec<String>>, String>> {
    let (mut holder, mut one) = (shared.client(), shared.client());
    // They log in before: on a busy machine a login may have to ask for its schema, on the backend that is held then.
    let clients: Vec<_> = (0..3).map(|_| shared.client()).collect();
    ok(&mut holder, "BEGIN");
    ok(&mut holder, "UPDATE t SET b = 1 WHERE a = 0");
    thread::scope(|scope| {
        let asks = |mut other: Client| {
            thread::sleep(Duration::from_millis(30));
            scope.spawn(move || {
                loop {
                    match other.query(others) {
                        Ok(rows) => break rows[0].join(" "),
                        // On a busy machine it waits longer than `limits.wait`.
                        Err(Problem::Refused { code: WAITED, .. }) => {}
                        Err(error) => panic!("{others}: {error}"),
                    }
                }
            })
        };
        let answers =
            scope.spawn(move || first.iter().map(|text| answer(&mut one, text)).collect());
        let asked: Vec<_> = clients.into_iter().map(asks).collect();
        thread::sleep(Duration::from_millis(30));
        ok(&mut holder, "COMMIT");
        for other in asked {
            assert_eq!(other.join().expect("an answer"), "7");
        }
        answers.join().expect("answers")
    })
}

#[test]
fn those_who_run_behind_a_statement_do_not_take_its_diagnostics() {
    let shared = shared("diagnostics_behind");
    let (mut direct, mut client) = (shared.direct(), shared.client());
    ok(&mut direct, "CREATE TABLE gone (a INT)");
    let others = "SELECT b FROM t WHERE b = 7 LIMIT 1";
    let learn = |client: &mut Client| {
        for _ in 0..40 {
            ok(client, "SELECT b FROM t WHERE b = 0 LIMIT 1");
            ok(client, "SELECT a + 0 FROM gone");
            ok(client, "SELECT '1' + 0 FROM t LIMIT 1");
        }
    };
    ok(&mut direct, "INSERT INTO t (b) VALUES (7), (0)");
    learn(&mut client);
    ok(&mut direct, "DROP TABLE gone");
    let texts = ["SELECT a + 0 FROM gone", "SHOW WARNINGS", "SELECT FOUND_ROWS(), ROW_COUNT()"];
    let expected: Vec<_> = texts.iter().map(|text| answer(&mut direct, text)).collect();
    let told = in_a_row(&shared, &texts, others);
    assert_eq!(told[..2], expected[..2], "the error was in its packet");
    assert_eq!(told[2], Ok(vec![vec!["0".to_owned(), "-1".to_owned()]]));
    // The text of a warning is lost. Flifo must not answer that there was none.
    let texts = ["SELECT 'x' + 0 FROM t LIMIT 1", "SHOW COUNT(*) WARNINGS"];
    let refused = (0..20).find_map(|_| {
        let told = in_a_row(&shared, &texts, others);
        assert!(told[0].is_ok());
        if told[1].is_ok() {
            // On a busy machine no other client came in time to be written behind it. It is not to be known for that.
            assert_eq!(told[1], Ok(vec![vec!["1".to_owned()]]));
            for _ in 0..40 {
                ok(&mut client, "SELECT '1' + 0 FROM t LIMIT 1");
            }
        }
        told.into_iter().nth(1)?.err()
    });
    let refused = refused.expect("a refusal");
    assert!(refused.contains("were discarded"), "{refused}");
    // Where this is known to happen, no statement is pipelined behind it.
    let mut told = Vec::new();
    (0..4).for_each(|_| told = in_a_row(&shared, &texts, others));
    assert_eq!(told[1], Ok(vec![vec!["1".to_owned()]]));
    let count = shared.end();
    assert!(count("pipelined") >= 6 && count("sent_again.kept") == 0);
}

#[test]
fn to_prepare_what_uses_a_table_clears_diagnostics() {
    let shared = shared("diagnostics_of_prepares");
    let asked = |port, text: &str| {
        let mut client = FakeClient::login(port, USER, server().password()).expect("a login");
        client.query("USE diagnostics_of_prepares").expect("the schema");
        assert!(client.query("SELECT nothing").is_err());
        disturb(&shared);
        let _ = client.prepare(text);
        disturb(&shared);
        client.query("SHOW WARNINGS").expect("rows")
    };
    for (text, shown) in [
        ("SELECT 1", true),
        ("SHOW WARNINGS", true),
        ("SELECT * FROM t", false),
        ("UPDATE t SET b = 1", false),
        ("SHOW CREATE TABLE t", false),
        ("EXPLAIN SELECT * FROM t", false),
        ("SELECT * FROM absent", true),
    ] {
        let direct = asked(server().port(), text);
        assert_eq!(direct.is_empty(), !shown, "{text}: {direct:?}");
        assert_eq!(asked(shared.flifo.port(), text), direct, "{text}");
    }
}
