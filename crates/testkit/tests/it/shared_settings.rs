//! Session variables of clients that share one backend: each has its own, none keeps the backend for them.

use backend::Address;
use testkit::client::Client;
use testkit::fake_client::FakeClient;
use testkit::flifo::Flifo;

use crate::shared::{Shared, USER, fails, ok, server};

/// What a client sees of its settings.
const LOOK: &str = "SELECT @@session.autocommit, @@session.sql_mode, @@session.time_zone, \
    @@session.character_set_client, @@session.character_set_results, \
    @@session.character_set_connection, @@session.collation_connection, @@session.tx_isolation, \
    @@session.tx_read_only, @@session.foreign_key_checks, @@session.wait_timeout, \
    @@session.group_concat_max_len, @@session.innodb_lock_wait_timeout";

/// Settings as clients give them, one after the other.
const SET_UPS: &[&[&str]] = &[
    &[],
    &["SET NAMES latin1"],
    &["SET NAMES utf8mb4 COLLATE utf8mb4_bin", "SET autocommit=0"],
    &["SET sql_mode='ANSI_QUOTES,NO_BACKSLASH_ESCAPES'", "SET time_zone='+05:30'"],
    &["SET SESSION sql_mode=CONCAT(@@sql_mode, ',STRICT_ALL_TABLES'), wait_timeout=1000"],
    &["SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SET @@session.tx_read_only=1"],
    &["SET character_set_results=NULL, foreign_key_checks=0"],
    &["SET CHARACTER SET latin1", "SET collation_connection=utf8mb4_swedish_ci"],
    &["SET character_set_connection=cp1251", "SET LOCAL group_concat_max_len=2048"],
    // Taken, and not reported by the server.
    &["SET @@sql_mode='ANSI', @@time_zone='-03:00'", "SET @@autocommit=0"],
    &["SET @@innodb_lock_wait_timeout=7", "SET @@character_set_connection=latin2"],
];

#[test]
fn each_client_keeps_its_settings_and_nobody_the_backend() {
    let shared = Shared::start("settings");
    let mut clients: Vec<_> = SET_UPS.iter().map(|_| shared.client()).collect();
    // In turn, so that each statement finds the backend as another client has left it.
    for step in 0..2 {
        for (set_up, client) in SET_UPS.iter().zip(&mut clients) {
            set_up.get(step).map(|text| ok(client, text));
        }
    }
    for turn in 0..3 {
        for (set_up, client) in SET_UPS.iter().zip(&mut clients) {
            let mut direct = shared.direct();
            set_up.iter().for_each(|text| drop(ok(&mut direct, text)));
            assert_eq!(ok(client, LOOK), ok(&mut direct, LOOK), "{set_up:?}, turn {turn}");
        }
    }
    drop(clients);
    let counted = shared.end();
    assert_eq!(counted("pins."), 0);
    assert_eq!(counted("backends_opened"), 1);
}

#[test]
fn whoever_asks_for_reports_ends_none_of_those_that_flifo_needs() {
    let shared = Shared::start("settings_reports");
    let mut other = shared.client();
    let look = format!("{LOOK}, @@session.lc_time_names");
    let before = ok(&mut other, &look);
    for ask in [
        // As MariaDB's Connector/J does.
        "SET sql_mode=CONCAT(@@sql_mode,',STRICT_TRANS_TABLES'),session_track_system_variables = \
         CONCAT(@@global.session_track_system_variables,',tx_isolation'),NAMES latin1",
        "SET @@session_track_system_variables='', wait_timeout=1234",
        "SET wait_timeout=1234, session_track_system_variables='', lc_time_names='it_IT'",
    ] {
        let (mut client, mut direct) = (shared.client(), shared.direct());
        for text in [ask, "SET SESSION lc_time_names='de_DE', foreign_key_checks=0"] {
            ok(&mut client, text);
            ok(&mut direct, text);
            assert_eq!(ok(&mut other, &look), before, "{ask}");
            assert_eq!(ok(&mut client, &look), ok(&mut direct, &look), "{ask}");
        }
        assert_ne!(ok(&mut client, &look), before);
    }
    assert_eq!(shared.end()("pins."), 0);
}

#[test]
fn a_statement_runs_under_its_clients_settings_the_first_time_already() {
    let shared = Shared::start("settings_first");
    let (mut one, mut other) = (shared.client(), shared.client());
    ok(&mut one, "SET sql_mode='ANSI_QUOTES'");
    ok(&mut one, "CREATE TABLE t (a VARCHAR(9))");
    ok(&mut other, "INSERT INTO t VALUES (\"a\")");
    ok(&mut one, "INSERT INTO t SELECT \"a\" FROM t");
    ok(&mut other, "UPDATE t SET a = \"b\"");
    assert_eq!(ok(&mut one, "SELECT \"a\" FROM t"), "b|b");
    assert_eq!(fails(&mut one, "INSERT INTO t VALUES (\"a b\")"), 1054);
}

#[test]
fn transactions_begin_by_themselves_without_autocommit() {
    let shared = Shared::start("settings_autocommit");
    let mut client = shared.client();
    ok(&mut client, "CREATE TABLE t (a INT PRIMARY KEY) ENGINE=InnoDB");
    ok(&mut client, "SET autocommit=0");
    assert!(shared.is_free(), "nothing is open yet");
    ok(&mut client, "INSERT INTO t VALUES (1)");
    assert!(!shared.is_free(), "a transaction has begun");
    ok(&mut client, "ROLLBACK");
    assert!(shared.is_free());
    // The error's packet does not say that one has begun.
    ok(&mut client, "INSERT INTO t VALUES (1)");
    ok(&mut client, "COMMIT");
    assert_eq!(fails(&mut client, "INSERT INTO t VALUES (2), (1)"), 1062);
    assert!(!shared.is_free(), "perhaps a transaction is open");
    ok(&mut client, "ROLLBACK");
    assert!(shared.is_free());
    assert_eq!(ok(&mut shared.client(), "SELECT @@autocommit"), "1");
    assert_eq!(ok(&mut shared.client(), "SELECT COUNT(*) FROM t"), "1");
}

#[test]
fn what_the_next_transaction_will_be_stays_with_its_client() {
    let shared = Shared::start("settings_next");
    let mut client = shared.client();
    ok(&mut client, "CREATE TABLE t (a INT) ENGINE=InnoDB");
    ok(&mut client, "SET TRANSACTION READ ONLY");
    assert!(!shared.is_free(), "the backend connection is prepared for this client's transaction");
    ok(&mut client, "BEGIN");
    assert_eq!(fails(&mut client, "INSERT INTO t VALUES (1)"), 1792);
    ok(&mut client, "COMMIT");
    assert!(shared.is_free());
    ok(&mut client, "INSERT INTO t VALUES (1)");
}

#[test]
fn settings_that_cannot_be_told_keep_the_backend() {
    for (number, text) in [
        "SET @@timestamp=5",
        "SET timestamp=5",
        "SET STATEMENT max_statement_time=10 FOR SELECT 1",
        "SET max_statement_time=10",
        "SET sql_auto_is_null=1",
        "SET session_track_system_variables='', sql_auto_is_null=1",
        "SET wait_timeout=500",
        "SET NAMES gbk",
        "SET sql_mode=''; SELECT 1",
        "SET /*!50000 SESSION */ sql_mode=''",
    ]
    .iter()
    .enumerate()
    {
        let shared = Shared::start(&format!("settings_untold_{number}"));
        let mut client = shared.client();
        ok(&mut client, text);
        assert!(!shared.is_free(), "{text}");
    }
}

#[test]
fn a_new_global_value_is_for_new_sessions() {
    let shared = Shared::start("settings_global");
    let mut old = shared.client();
    let before = ok(&mut old, "SELECT @@div_precision_increment");
    ok(&mut old, "SET GLOBAL div_precision_increment=9");
    assert_eq!(ok(&mut old, "SELECT @@div_precision_increment"), before);
    // Another proxy's backends are new.
    let later = Shared::start("settings_global_later");
    assert_eq!(ok(&mut later.client(), "SELECT @@div_precision_increment"), "9");
    server().sql("SET GLOBAL div_precision_increment=4").expect("as it was");
    assert_eq!(ok(&mut old, "SELECT @@div_precision_increment"), before);
}

#[test]
fn a_schema_that_is_gone_harms_no_other() {
    let shared = Shared::start("settings_schema");
    let (mut one, mut other) = (shared.client(), shared.client());
    ok(&mut one, "CREATE TABLE t (a INT)");
    ok(&mut one, "INSERT INTO t VALUES (1)");
    ok(&mut other, "CREATE DATABASE settings_schema_gone");
    ok(&mut other, "USE settings_schema_gone");
    ok(&mut one, "SELECT 1");
    server().sql("DROP DATABASE settings_schema_gone").expect("the server drops it");
    // It waits for the change of schema, which fails.
    assert_eq!(fails(&mut other, "DELETE FROM t"), 1049);
    assert_eq!(ok(&mut one, "SELECT COUNT(*) FROM t"), "1");
}

#[test]
fn what_comes_with_a_schema_is_as_on_a_connection_of_its_own() {
    const LOOK: &str = "SELECT CONCAT_WS(' ', @@collation_database, @@character_set_database)";
    const RESET: &[u8] = b"\x1f";
    let shared = Shared::start("settings_collation");
    ok(&mut shared.direct(), "ALTER DATABASE settings_collation CHARACTER SET cp1251");
    let client = |port: u16| {
        let mut client = FakeClient::login(port, USER, server().password()).expect("a login");
        client.query("USE settings_collation").expect("the schema");
        client
    };
    let own = Ok(vec![b"cp1251_general_ci cp1251".to_vec()]);
    let directly = |text: &str| {
        let mut client = client(server().port());
        client.command(RESET).expect("reset");
        client.query(text)
    };
    let (reset, named) = (directly(LOOK), "SELECT @@collation_connection");
    assert_ne!(reset, own, "a reset leaves the schema, and not what came with it");
    let (mut one, mut other) = (client(shared.flifo.port()), client(shared.flifo.port()));
    for _ in 0..2 {
        // Its backend is reset for the next one.
        let mut leaver = client(shared.flifo.port());
        leaver.query("SELECT GET_LOCK('settings_collation', 0)").expect("a lock");
        drop(leaver);
        assert!(shared.is_free());
        assert_eq!(one.query(LOOK), own);
        other.command(RESET).expect("reset");
        for _ in 0..2 {
            assert_eq!(other.query(LOOK), reset);
            assert_eq!(one.query(LOOK), own);
        }
        one.query("SET CHARACTER SET utf8mb4").expect("set");
        assert_eq!(one.query(named), Ok(vec![b"cp1251_general_ci".to_vec()]));
        other.query("USE settings_collation").expect("the schema, anew");
        assert_eq!(other.query(LOOK), own);
    }
    assert!(shared.end()("backends_reset") >= 2);
}

/// MariaDB gives a session that names no collation of its own the server's; and when that is reset, what an earlier
/// session on the thread had.
#[test]
fn a_character_set_that_the_server_does_not_have_is_the_servers_after_resets() {
    let shared = Shared::start("settings_unknown_charset");
    let address = |port| Address::Tcp { host: "127.0.0.1".to_owned(), port };
    let connect = |port, collation| {
        let client = Client::builder(address(port), USER, server().password());
        client.named(USER.as_bytes(), collation).connect().expect("a login")
    };
    // So that there are such threads.
    let earlier: Vec<_> = (0..20).map(|_| connect(server().port(), 45)).collect();
    drop(earlier);
    let asks =
        "SELECT @@character_set_client, @@character_set_results, @@collation_connection, HEX('ä')";
    let want = ok(&mut connect(server().port(), 255), asks);
    let mut seen = Vec::new();
    for _ in 0..4 {
        let mut client = connect(shared.flifo.port(), 255);
        seen.push(ok(&mut client, asks));
        // Its backend is reset behind it.
        ok(&mut client, "SELECT GET_LOCK('settings_unknown_charset', 0)");
    }
    assert!(seen.iter().all(|it| *it == want), "{want}: {seen:?}");
}

#[test]
fn flifo_behind_flifo_shares_backends_and_tells_clients_what_they_have_asked_for() {
    const NAME: &str = "settings_nested";
    let inner = Shared::start(NAME);
    let outer = Flifo::start(&format!(
        "workers = 1\n[server]\naddress = \"127.0.0.1:{}\"\nconnections_max = 1\n[limits]\nwait = \"5s\"\n\
         [[users]]\nname = \"{USER}\"\npassword = \"{}\"\n",
        inner.flifo.port(),
        server().password()
    ));
    let address = || Address::Tcp { host: "127.0.0.1".to_owned(), port: outer.port() };
    let connect = || Client::builder(address(), USER, server().password()).schema(NAME).connect();
    let mut clients = [connect().expect("a login"), connect().expect("a login")];
    for round in 0..3 {
        for (at, client) in clients.iter_mut().enumerate() {
            ok(client, &format!("SET max_error_count = {}", 10 + at));
            ok(client, "BEGIN");
            assert_eq!(ok(client, &format!("SELECT {round}")), round.to_string());
            ok(client, "COMMIT");
        }
        for (at, client) in clients.iter_mut().enumerate() {
            assert_eq!(ok(client, "SELECT @@max_error_count"), (10 + at).to_string());
        }
        assert!(inner.is_free(), "the inner one shares its backend");
    }
    // What the inner one is told of state reaches the outer one: the client keeps its backend.
    ok(&mut clients[0], "CREATE TEMPORARY TABLE own (i INT)");
    ok(&mut clients[0], "SELECT * FROM own");
    assert_eq!(fails(&mut clients[1], "SELECT 1"), 1637);
    drop(clients);
    let (status, log) = outer.stop();
    assert!(status.success() && !log.contains("panicked"), "{log}");
}
