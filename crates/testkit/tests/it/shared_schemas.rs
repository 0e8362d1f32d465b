//! The schema that clients are in is dropped by another client, or its rights are taken: a client is told so once, goes
//! on with whatever needs no schema, and nothing runs of which it was told that it failed.

use testkit::client::Client;
use testkit::flifo::Flifo;

use crate::shared::{Shared, fails, ok, server};

/// How many rows there are that a client has written.
fn rows(client: &mut Client, table: &str) -> String {
    ok(client, &format!("SELECT COUNT(*) FROM {table}"))
}

/// Has the only backend go to another schema.
fn move_backend(other: &mut Client) {
    ok(other, "INSERT INTO moved VALUES (1)");
}

#[test]
fn a_client_whose_schema_is_dropped_goes_on_with_what_needs_none() {
    let shared = Shared::start("schemas_kept");
    let mut direct = shared.direct();
    ok(&mut direct, "CREATE DATABASE schemas_gone");
    ok(&mut direct, "CREATE TABLE t (a INT)");
    ok(&mut direct, "CREATE TABLE moved (a INT)");
    let (mut client, mut other) = (shared.client_in("schemas_gone").unwrap(), shared.client());
    ok(&mut client, "SELECT 1");
    ok(&mut direct, "DROP DATABASE schemas_gone");
    for turn in 1..=3 {
        for text in
            ["SELECT 1", "COMMIT", "SET @@autocommit = 1", "INSERT INTO schemas_kept.t VALUES (1)"]
        {
            move_backend(&mut other);
            ok(&mut client, text);
        }
        for text in [
            "SELECT * FROM t",
            "INSERT INTO t VALUES (1)",
            "INSERT INTO schemas_kept.t SELECT a FROM t",
            "CREATE TABLE t (a INT)",
            "SELECT DATABASE()",
        ] {
            move_backend(&mut other);
            assert_eq!(fails(&mut client, text), 1049, "{text}");
        }
        assert_eq!(rows(&mut direct, "t"), turn.to_string());
    }
    move_backend(&mut other);
    ok(&mut client, "BEGIN");
    ok(&mut client, "INSERT INTO schemas_kept.t VALUES (1)");
    ok(&mut client, "ROLLBACK");
    assert_eq!(rows(&mut direct, "t"), "3");
    // It is there again.
    ok(&mut direct, "CREATE DATABASE schemas_gone");
    move_backend(&mut other);
    assert_eq!(ok(&mut client, "SELECT DATABASE()"), "schemas_gone");
    ok(&mut direct, "DROP DATABASE schemas_gone");
    move_backend(&mut other);
    ok(&mut client, "USE schemas_kept");
    assert_eq!(rows(&mut client, "t"), "3");
    drop((client, other));
    let counted = shared.end();
    assert_eq!(counted("backends_opened"), 1, "no backend connection was lost for it");
}

#[test]
fn a_client_whose_rights_are_taken_goes_on_with_what_needs_none() {
    const PASSWORD: &str = "schemas";
    for text in [
        "CREATE DATABASE schemas_taken",
        "CREATE DATABASE schemas_left",
        "CREATE TABLE schemas_left.t (a INT)",
        "CREATE TABLE schemas_left.moved (a INT)",
        "CREATE USER taker@'%' IDENTIFIED BY 'schemas'",
        "GRANT ALL ON schemas_taken.* TO taker@'%'",
        "GRANT ALL ON schemas_left.* TO taker@'%'",
    ] {
        server().sql(text).expect(text);
    }
    let flifo = Flifo::start(&format!(
        "workers = 1\n[server]\naddress = \"{}\"\nconnections_max = 1\n[limits]\nwait = \"5s\"\n\
         [[users]]\nname = \"taker\"\npassword = \"{PASSWORD}\"\n",
        server().socket().display(),
    ));
    let client = |schema: &str| {
        let address = backend::Address::Tcp { host: "127.0.0.1".to_owned(), port: flifo.port() };
        Client::builder(address, "taker", PASSWORD).schema(schema).connect().expect("a login")
    };
    let (mut client, mut other) = (client("schemas_taken"), client("schemas_left"));
    ok(&mut client, "SELECT 1");
    server().sql("REVOKE ALL ON schemas_taken.* FROM taker@'%'").expect("it had them");
    for turn in 1..=3 {
        for text in ["SELECT 1", "COMMIT", "INSERT INTO schemas_left.t VALUES (1)"] {
            move_backend(&mut other);
            ok(&mut client, text);
        }
        for text in ["SELECT * FROM t", "INSERT INTO schemas_left.t SELECT a FROM t"] {
            move_backend(&mut other);
            assert_eq!(fails(&mut client, text), 1044, "{text}");
        }
        assert_eq!(rows(&mut other, "t"), turn.to_string());
    }
    ok(&mut client, "USE schemas_left");
    assert_eq!(rows(&mut client, "t"), "3");
}
