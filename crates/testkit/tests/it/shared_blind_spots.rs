//! What MariaDB does not report of a session, one test for each, and what it reports in a way that misleads.
//!
//! In each, the client either keeps the only backend, or another client on it sees nothing of what was done. Whatever a
//! client leaves is gone with it.

use bench::private_server::PrivateServer;

use crate::shared::{Shared, USER, fails, ok};

/// The client that runs this keeps the backend until it leaves; then no other client sees what it was.
fn keeps(schema: &str, prepare: &[&str], text: &str, look: &str, unseen: &str) {
    let shared = Shared::start(schema);
    let mut direct = shared.direct();
    prepare.iter().for_each(|text| drop(ok(&mut direct, text)));
    let mut other = shared.client();
    let mut client = shared.client();
    ok(&mut client, text);
    assert!(!shared.is_free(), "{text}");
    let seen = ok(&mut client, look);
    drop(client);
    assert_eq!(ok(&mut other, look), unseen);
    assert_ne!(seen, unseen, "this is how it would be seen");
}

#[test]
fn unscoped_set_of_a_system_variable() {
    let shared = Shared::start("blind_unscoped");
    let (mut one, mut other) = (shared.client(), shared.client());
    for (name, value, default) in [
        ("sql_mode", "'ANSI_QUOTES'", "@@global.sql_mode"),
        ("time_zone", "'+04:00'", "'SYSTEM'"),
        ("foreign_key_checks", "0", "1"),
        ("character_set_results", "'latin1'", "'utf8mb4'"),
        ("wait_timeout", "900", "28800"),
        ("autocommit", "0", "1"),
    ] {
        ok(&mut one, &format!("SET @@{name}={value}"));
        assert_eq!(ok(&mut other, &format!("SELECT @@{name}={default}")), "1", "{name}");
        assert_eq!(ok(&mut one, &format!("SELECT @@{name}={value}")), "1", "{name}");
    }
    keeps("blind_unscoped_2", &[], "SET @@timestamp=5", "SELECT UNIX_TIMESTAMP() = 5", "0");
}

#[test]
fn user_variable_set_in_an_expression() {
    keeps("blind_assign", &[], "SELECT @b := 7", "SELECT @b", "NULL");
    let table = ["CREATE TABLE t (a INT)", "INSERT INTO t VALUES (1)"];
    keeps("blind_assign_2", &table, "INSERT INTO t SELECT @r := 7 FROM t", "SELECT @r", "NULL");
}

#[test]
fn user_variable_set_by_select_into() {
    keeps("blind_into", &[], "SELECT 7 INTO @c", "SELECT @c", "NULL");
}

#[test]
fn temporary_table_made_from_a_select() {
    let shared = Shared::start("blind_temporary");
    let mut client = shared.client();
    ok(&mut client, "CREATE TEMPORARY TABLE t AS SELECT 7 AS a");
    assert!(!shared.is_free());
    assert_eq!(ok(&mut client, "SELECT a FROM t"), "7");
    drop(client);
    assert_eq!(fails(&mut shared.client(), "SELECT a FROM t"), 1146);
}

#[test]
fn user_lock() {
    let look = "SELECT IS_FREE_LOCK('blind')";
    keeps("blind_lock", &[], "SELECT GET_LOCK('blind', 1)", look, "1");
    keeps("blind_lock_2", &[], "DO get_lock ('blind', 1)", look, "1");
    let make = ["CREATE PROCEDURE p() DO GET_LOCK('blind', 1)"];
    keeps("blind_lock_3", &make, "CALL p()", look, "1");
}

#[test]
fn global_read_lock() {
    let shared = Shared::start("blind_flush");
    let mut client = shared.client();
    ok(&mut client, "CREATE TABLE t (a INT)");
    ok(&mut client, "FLUSH TABLES t WITH READ LOCK");
    assert!(!shared.is_free());
    assert_eq!(fails(&mut client, "INSERT INTO t VALUES (1)"), 1099);
    drop(client);
    ok(&mut shared.client(), "INSERT INTO t VALUES (1)");
}

/// These would stop the other tests, so they have a server of their own.
#[test]
fn locks_on_all_of_the_server() {
    let server = PrivateServer::builder().start().expect("a private server");
    server.sql(&format!("GRANT ALL ON *.* TO {USER}@'%'")).expect("rights");
    for (lock, unlock) in [
        ("FLUSH TABLES WITH READ LOCK", "UNLOCK TABLES"),
        ("FLUSH LOCAL TABLES WITH READ LOCK", "UNLOCK TABLES"),
        ("BACKUP STAGE START", "BACKUP STAGE END"),
        ("BACKUP LOCK sbtest.t", "BACKUP UNLOCK"),
    ] {
        let shared = Shared::before(&server, "sbtest", "");
        let mut client = shared.client();
        ok(&mut client, lock);
        assert!(!shared.is_free(), "{lock}");
        ok(&mut client, unlock);
        drop(client);
        assert!(shared.is_free(), "{unlock}");
        assert_eq!(shared.end()("pins.table_lock"), 1, "{lock}");
    }
}

#[test]
fn handler() {
    let shared = Shared::start("blind_handler");
    let mut client = shared.client();
    ok(&mut client, "CREATE TABLE t (a INT)");
    ok(&mut client, "HANDLER t OPEN");
    assert!(!shared.is_free());
    drop(client);
    assert_eq!(fails(&mut shared.client(), "HANDLER t READ FIRST"), 1109);
}

#[test]
fn found_rows() {
    let shared = Shared::start("blind_found");
    let mut client = shared.client();
    ok(&mut client, "CREATE TABLE t (a INT)");
    ok(&mut client, "INSERT INTO t VALUES (1), (2), (3)");
    ok(&mut client, "SELECT SQL_CALC_FOUND_ROWS a FROM t LIMIT 1");
    assert!(!shared.is_free());
    assert_eq!(ok(&mut client, "SELECT FOUND_ROWS()"), "3");
}

#[test]
fn last_insert_id_of_an_expression() {
    keeps("blind_insert_id", &[], "SELECT LAST_INSERT_ID(7)", "SELECT LAST_INSERT_ID()", "0");
}

#[test]
fn any_of_these_inside_a_routine() {
    for (number, body) in
        ["SELECT 7 INTO @x", "SET @@sql_mode = ''", "SELECT @x := 7"].iter().enumerate()
    {
        let shared = Shared::start(&format!("blind_routine_{number}"));
        let mut client = shared.client();
        ok(&mut client, &format!("CREATE PROCEDURE p() {body}"));
        drop(client);
        let mut client = shared.client();
        ok(&mut client, "CALL p()");
        assert!(!shared.is_free(), "{body}");
        drop(client);
        let seen = ok(&mut shared.client(), "SELECT @@sql_mode = ''");
        assert_eq!(seen, "0");
        assert_eq!(ok(&mut shared.client(), "SELECT @x"), "NULL");
    }
}

#[test]
fn set_statement_reports_what_holds_for_itself_only() {
    let shared = Shared::start("blind_statement");
    let mut client = shared.client();
    ok(&mut client, "SET STATEMENT sql_mode='ANSI_QUOTES' FOR SELECT 1");
    assert!(!shared.is_free());
    assert_eq!(ok(&mut client, "SELECT @@sql_mode LIKE '%ANSI_QUOTES%'"), "0");
    ok(&mut client, "SET foreign_key_checks=0");
    drop(client);
    assert_eq!(ok(&mut shared.client(), "SELECT @@sql_mode LIKE '%ANSI_QUOTES%'"), "0");
}
