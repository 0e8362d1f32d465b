//! A login that names a schema: the server is asked for it, but not again and again.

use std::time::Instant;

use testkit::client::{Client, Problem};

use crate::shared::{Shared, ok, server};

/// How often the server was asked to change the schema.
fn asked(direct: &mut Client) -> u64 {
    let row = ok(direct, "SHOW GLOBAL STATUS LIKE 'Com_change_db'");
    row.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a count")
}

#[test]
fn clients_that_come_and_go_do_not_ask_for_their_schema_each_time() {
    const CLIENTS: u64 = 50;
    let shared = Shared::start("login_often");
    let mut direct = shared.direct();
    let (before, start) = (asked(&mut direct), Instant::now());
    for _ in 0..CLIENTS {
        assert_eq!(ok(&mut shared.client(), "SELECT DATABASE()"), "login_often");
    }
    // Other tests ask the same server; it is this many fewer that counts, a second each.
    let seconds = start.elapsed().as_secs() + 1;
    let statements = asked(&mut direct) - before;
    assert!(statements <= CLIENTS / 2 + seconds, "{statements} in {seconds} s");
}

#[test]
fn a_schema_that_is_dropped_on_the_way_is_unknown_at_once() {
    let shared = Shared::start("login_dropped");
    let mut client = shared.client();
    drop(shared.client());
    ok(&mut client, "DROP DATABASE login_dropped");
    let error = shared.client_in("login_dropped").expect_err("no such schema");
    assert!(matches!(error, Problem::Refused { code: 1049, .. }), "{error:?}");
    ok(&mut client, "CREATE DATABASE login_dropped");
    assert_eq!(ok(&mut shared.client(), "SELECT DATABASE()"), "login_dropped");
}

#[test]
fn a_schema_that_is_dropped_out_of_sight_is_unknown_at_once() {
    let shared = Shared::start("login_hidden");
    server().sql("CREATE DATABASE login_other").expect("a schema");
    let mut client = shared.client();
    drop(shared.client_in("login_other").expect("a login"));
    ok(&mut client, "EXECUTE IMMEDIATE CONCAT('DROP DATABASE ', 'login_other')");
    // It keeps the only backend.
    drop(client);
    let error = shared.client_in("login_other").expect_err("no such schema");
    assert!(matches!(error, Problem::Refused { code: 1049, .. }), "{error:?}");
}
