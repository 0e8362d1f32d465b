//! What a user's configuration says of pins: what becomes of a backend behind a routine, and whether a statement may
//! keep a backend at all; and that a client that keeps one is named.

use crate::shared::{Shared, fails, ok};

/// Leaves behind what the server reports, and what it does not.
const ROUTINES: [&str; 4] = [
    "CREATE TABLE t (a INT AUTO_INCREMENT PRIMARY KEY, b INT)",
    "CREATE PROCEDURE litter() BEGIN SET @left=7; SELECT GET_LOCK('pins', 0); SET time_zone='+07:00'; \
     CREATE TEMPORARY TABLE left_over (a INT); INSERT INTO t (b) VALUES (1); END",
    "CREATE PROCEDURE tidy(OUT a INT) SET a=5",
    "CREATE FUNCTION five() RETURNS INT DETERMINISTIC RETURN 5",
];

fn start(schema: &str, user: &str) -> Shared {
    let shared = Shared::start_with(schema, user);
    let mut direct = shared.direct();
    ROUTINES.iter().for_each(|text| drop(ok(&mut direct, text)));
    shared
}

#[test]
fn a_routine_keeps_the_backend_unless_told_otherwise() {
    for (number, text) in ["CALL litter()", "SELECT five()"].iter().enumerate() {
        let shared = start(&format!("pins_call_{number}"), "");
        let mut client = shared.client();
        ok(&mut client, text);
        assert!(!shared.is_free(), "{text}");
    }
}

#[test]
fn a_trusted_routine_keeps_no_backend_but_what_the_text_does_keeps_it() {
    let shared = start("pins_trust", "routines = \"trust\"");
    let mut client = shared.client();
    assert_eq!(ok(&mut client, "SELECT five()"), "5");
    assert!(shared.is_free());
    ok(&mut client, "CALL tidy(@out)");
    assert_eq!(ok(&mut client, "SELECT @out"), "5");
    assert!(!shared.is_free(), "the text names a variable");
}

#[test]
fn what_the_server_reports_of_a_trusted_routine_keeps_the_backend() {
    let shared = start("pins_trust_reported", "routines = \"trust\"");
    let mut client = shared.client();
    ok(&mut client, "CALL litter()");
    assert!(!shared.is_free());
    assert_eq!(ok(&mut client, "SELECT @left"), "7");
}

#[test]
fn a_backend_is_reset_behind_a_routine() {
    let shared = start("pins_reset", "routines = \"reset\"");
    let mut client = shared.client();
    assert_eq!(ok(&mut client, "CALL litter()"), "1");
    assert!(shared.is_free());
    let mut other = shared.client();
    assert_eq!(ok(&mut other, "SELECT @@time_zone = 'SYSTEM'"), "1");
    assert_eq!(ok(&mut other, "SELECT COUNT(*) FROM t"), "1");
    // What the server reports and can be told is the client's still; what is undone is undone for it as well.
    assert_eq!(ok(&mut client, "SELECT @@time_zone"), "+07:00");
    assert_eq!(ok(&mut client, "SELECT LAST_INSERT_ID()"), "1");
    assert_eq!(fails(&mut client, "SELECT * FROM left_over"), 1146);
    ok(&mut client, "BEGIN");
    ok(&mut client, "CALL litter()");
    ok(&mut client, "SELECT COUNT(*) FROM left_over");
    assert!(!shared.is_free(), "a transaction is open");
    ok(&mut client, "COMMIT");
    assert_eq!(ok(&mut other, "SELECT IS_FREE_LOCK('pins'), @left"), "1 NULL");
    drop((client, other));
    let counted = shared.end();
    assert_eq!(counted("pins.call") + counted("pins.state"), 0);
    assert!(counted("backends_reset") >= 2);
}

/// What triggers do that no server reports.
const LITTERING: [(&str, &str); 3] = [
    ("SELECT 7 INTO @unseen", "SELECT @unseen IS NULL"),
    ("DO @unseen := 7", "SELECT @unseen IS NULL"),
    (
        "DO GET_LOCK(CONCAT(DATABASE(), 'unseen'), 0)",
        "SELECT IS_FREE_LOCK(CONCAT(DATABASE(), 'unseen'))",
    ),
];

fn with_trigger(schema: &str, body: &str, user: &str) -> Shared {
    let shared = start(schema, user);
    let mut direct = shared.direct();
    ok(&mut direct, &format!("CREATE TRIGGER r BEFORE INSERT ON t FOR EACH ROW {body}"));
    shared
}

#[test]
fn a_backend_is_reset_behind_what_may_fire_a_trigger() {
    for (number, (body, is_clean)) in LITTERING.iter().enumerate() {
        let shared = with_trigger(&format!("pins_fired_{number}"), body, "triggers = \"reset\"");
        let (mut client, mut other) = (shared.client(), shared.client());
        ok(&mut client, "SET time_zone = '+07:00'");
        ok(&mut client, "INSERT INTO t (b) VALUES (1)");
        assert!(shared.is_free(), "{body}");
        assert_eq!(ok(&mut other, is_clean), "1", "{body}");
        drop(other);
        assert_eq!(ok(&mut client, "SELECT @@time_zone, LAST_INSERT_ID()"), "+07:00 1");
        ok(&mut client, "BEGIN");
        ok(&mut client, "INSERT INTO t (b) VALUES (2)");
        assert!(!shared.is_free(), "a transaction is open");
        ok(&mut client, "COMMIT");
        assert!(shared.is_free());
        assert_eq!(ok(&mut shared.client(), is_clean), "1", "{body}");
        drop(client);
        assert!(shared.end()("backends_reset") >= 2);
    }
}

#[test]
fn what_may_fire_a_trigger_keeps_the_backend_where_it_shall() {
    for (number, (body, is_clean)) in LITTERING.iter().enumerate() {
        let shared = with_trigger(&format!("pins_kept_{number}"), body, "triggers = \"pin\"");
        let mut client = shared.client();
        ok(&mut client, "SELECT b FROM t");
        assert!(shared.is_free());
        ok(&mut client, "INSERT INTO t (b) VALUES (1)");
        assert!(!shared.is_free(), "{body}");
        assert_eq!(ok(&mut client, is_clean), "0", "{body}");
        drop(client);
        assert_eq!(ok(&mut shared.client(), is_clean), "1", "{body}");
        assert_eq!(shared.end()("pins.trigger"), 1);
    }
}

#[test]
fn a_user_that_may_not_pin_is_told_why() {
    let shared = start("pins_refuse", "pins = \"refuse\"");
    let mut client = shared.client();
    for text in [
        "SELECT GET_LOCK('pins_refuse', 0)",
        "SELECT @a := 1",
        "CREATE TEMPORARY TABLE x (a INT)",
        "CALL litter()",
        "PREPARE p FROM 'SELECT 1'",
        "SET timestamp=5",
    ] {
        assert_eq!(fails(&mut client, text), 1290, "{text}");
        assert!(shared.is_free(), "{text}");
    }
    // A transaction lasts as long as it lasts.
    ok(&mut client, "BEGIN");
    ok(&mut client, "INSERT INTO t (b) VALUES (1)");
    assert_eq!(fails(&mut client, "SELECT @a := 1"), 1290);
    ok(&mut client, "COMMIT");
    assert_eq!(ok(&mut client, "SELECT COUNT(*) FROM t"), "1");
    drop(client);
    let counted = shared.end();
    assert_eq!((counted("faults.pin_refused"), counted("pins.")), (7, 0));
}

#[test]
fn whoever_keeps_a_backend_is_named_when_flifo_stops() {
    let shared = Shared::start("pins_named");
    let mut client = shared.client();
    ok(&mut client, "SELECT GET_LOCK('pins_named', 0)");
    let (_, log) = shared.flifo.stop();
    let line =
        log.lines().find(|line| line.contains("keeps a backend connection")).expect("a line");
    for part in ["user_lock", crate::shared::USER, "digest", "seconds"] {
        assert!(line.contains(part), "{part}: {line}");
    }
}
