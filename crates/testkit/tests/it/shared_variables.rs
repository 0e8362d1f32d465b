//! User variables with plain values: every backend that runs a client's statements has them, and has no other client's.

use crate::shared::{Shared, ok};

/// A trigger and a function that read a variable which no statement names.
const READERS: [&str; 3] = [
    "CREATE TABLE t (a INT, who VARCHAR(30))",
    "CREATE TRIGGER sign BEFORE INSERT ON t FOR EACH ROW SET NEW.who = @who",
    "INSERT INTO t (a) VALUES (0)",
];

#[test]
fn plain_variables_follow_their_client_from_backend_to_backend() {
    let shared = Shared::start("variables_follow");
    let mut direct = shared.direct();
    READERS.iter().for_each(|text| drop(ok(&mut direct, text)));
    let (mut one, mut other) = (shared.client(), shared.client());
    let mut third = shared.client();
    ok(&mut one, "SET @who='one', @n = -1.50");
    for round in 1..=3 {
        // Each of them needs the only backend.
        ok(&mut other, &format!("SET @who='other', @round={round}"));
        ok(&mut third, &format!("INSERT INTO t (a) VALUES ({round})"));
        ok(&mut one, &format!("INSERT INTO t (a) VALUES ({round})"));
        ok(&mut other, &format!("INSERT INTO t (a) VALUES ({round})"));
    }
    let signed = ok(&mut third, "SELECT who, COUNT(*) FROM t GROUP BY who ORDER BY who");
    assert_eq!(signed, "NULL 4|one 3|other 3");
    drop((other, third));
    // What names one keeps the backend, which has been told them.
    assert_eq!(ok(&mut one, "SELECT @who, @n, @round"), "one -1.50 NULL");
    assert!(!shared.is_free());
    drop(one);
    assert!(shared.is_free());
    let counted = shared.end();
    assert_eq!(counted("pins.user_variable"), 1);
    assert!(counted("backends_reset") >= 5, "nobody sees another's");
}

#[test]
fn a_string_is_read_as_it_was_when_it_was_set() {
    let shared = Shared::start("variables_read");
    let look = "SELECT CHARSET(@a), COLLATION(@a), COERCIBILITY(@a), @a, COERCIBILITY(@b), @b+0";
    let steps = ["SET NAMES latin1", "SET @a='text', @b=0x41", "SET NAMES utf8mb4"];
    let mut direct = shared.direct();
    steps.iter().for_each(|text| drop(ok(&mut direct, text)));
    let mut client = shared.client();
    steps.iter().for_each(|text| drop(ok(&mut client, text)));
    // Another client takes the backend.
    assert!(shared.is_free());
    assert_eq!(ok(&mut client, "SELECT @@character_set_client"), "utf8mb4");
    assert!(shared.is_free());
    assert_eq!(ok(&mut client, look), ok(&mut direct, look));
}

#[test]
fn a_reset_of_the_session_forgets_them() {
    let shared = Shared::start("variables_reset");
    let mut client = testkit::fake_client::FakeClient::login(
        shared.flifo.port(),
        crate::shared::USER,
        crate::shared::server().password(),
    )
    .expect("a login");
    client.query("SET @a=1").expect("set");
    client.command(&[0x1f]).expect("reset");
    assert_eq!(client.query("SELECT IFNULL(@a, 'none')"), Ok(vec![b"none".to_vec()]));
}

#[test]
fn a_client_without_a_schema_is_in_nobodys() {
    let shared = Shared::start("variables_no_schema");
    let mut client = shared.client();
    ok(&mut client, "CREATE DATABASE variables_no_schema_more");
    ok(&mut client, "USE variables_no_schema_more");
    ok(&mut client, "SET @a=1");
    ok(&mut client, "DROP DATABASE variables_no_schema_more");
    // Another client takes the backend, and enters another schema.
    let mut other = shared.client();
    assert_eq!(ok(&mut other, "SELECT DATABASE()"), "variables_no_schema");
    assert_eq!(ok(&mut client, "SELECT DATABASE()"), "NULL");
}

#[test]
fn what_is_not_plain_or_too_much_keeps_the_backend() {
    for (number, text) in [
        "SET @a=NOW()".to_owned(),
        "SET @a=1, sql_mode=''".to_owned(),
        format!("SET @a='{}'", "x".repeat(17 << 10)),
    ]
    .iter()
    .enumerate()
    {
        let shared = Shared::start(&format!("variables_not_plain_{number}"));
        let mut client = shared.client();
        ok(&mut client, text);
        assert!(!shared.is_free(), "{}", &text[..20.min(text.len())]);
    }
}
