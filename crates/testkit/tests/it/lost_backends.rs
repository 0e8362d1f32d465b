//! Backends that are lost under clients: what each is told, and that it goes on where nothing was lost but a
//! transaction.
//!
//! There is one backend, so that whatever is left behind on the next one is met. It is lost by an order to the server
//! (`KILL`), or by the network, in the situations in which a client can be.

use bench::private_server::PrivateServer;
use testkit::client::Problem;
use testkit::fake_client::{CAPABILITIES, FakeClient, Refusal};
use testkit::flifo::Flifo;
use testkit::relay::Relay;
use testkit::reply::{Reply, honest};
use testkit::scene::{Scene, row, wait_for};
use wire::response::{OkPacket, Status};

use crate::shared::{USER, server};

/// Run the transaction again.
const AGAIN: u16 = 1213;

/// It may have been executed.
const PERHAPS: u16 = 1430;

struct Site {
    flifo: Flifo,
    relay: Relay,
    schema: &'static str,
    port: u16,
    password: String,
}

impl Site {
    /// A proxy with one backend, and a table in a schema of this name.
    fn start(schema: &'static str) -> Self {
        Self::before(server(), schema, "")
    }

    fn before(server: &PrivateServer, schema: &'static str, user: &str) -> Self {
        server.sql(&format!("CREATE DATABASE {schema}")).expect("a schema");
        server.sql(&format!("CREATE TABLE {schema}.t (id INT PRIMARY KEY, n INT)")).expect("one");
        let (port, password) = (server.port(), server.password().to_owned());
        let relay = Relay::to(port);
        let flifo = Flifo::start(&format!(
            "workers = 1\n[server]\naddress = \"127.0.0.1:{}\"\nconnections_max = 1\n\
             [limits]\nwait = \"5s\"\n[[users]]\nname = \"{USER}\"\npassword = \"{password}\"\n{user}\n",
            relay.port(),
        ));
        Self { flifo, relay, schema, port, password }
    }

    fn client(&self) -> FakeClient {
        let mut client =
            FakeClient::login(self.flifo.port(), USER, &self.password).expect("a login");
        client.query(&format!("USE {}", self.schema)).expect("the schema");
        client
    }

    /// Past the proxy, in no schema.
    fn direct(&self) -> FakeClient {
        FakeClient::login(self.port, USER, &self.password).expect("a login")
    }

    /// Kills the backend's connection, and what is left of earlier ones, and waits until Flifo knows that they are
    /// gone.
    fn kill(&self) {
        let mut direct = self.direct();
        let backends = format!(
            "SELECT id FROM information_schema.processlist WHERE db LIKE '{}%'",
            self.schema
        );
        let ids = direct.query(&backends).expect("a list");
        assert!(!ids.is_empty(), "there is no backend connection");
        let before = self.relay.ended();
        for id in ids {
            let id = String::from_utf8(id).expect("a number");
            // What is left of earlier ones may just have ended by itself.
            let _ = direct.query(&format!("KILL {id}"));
        }
        wait_for("the backend connection is gone", || {
            direct.query(&backends).expect("a list").is_empty()
        });
        wait_for("Flifo knows", || self.relay.ended() > before && !self.relay.is_missed());
    }

    /// Sends a statement, and waits until the server runs it.
    fn send(&self, client: &mut FakeClient, text: &str) {
        self.send_for(client, text, text);
    }

    /// The same for one that has the server run another one.
    fn send_for(&self, client: &mut FakeClient, text: &str, runs: &str) {
        client.send_packet(0, &[&[3], text.as_bytes()].concat());
        let running = format!(
            "SELECT COUNT(*) FROM information_schema.processlist WHERE info = '{}' AND db = '{}'",
            runs.replace('\'', "''"),
            self.schema
        );
        let mut direct = self.direct();
        wait_for(text, || direct.query(&running).expect("a count") == [b"1"]);
    }

    /// The rows that a client past the proxy sees.
    fn rows(&self) -> String {
        let text =
            format!("SELECT COALESCE(GROUP_CONCAT(id ORDER BY id), '') FROM {}.t", self.schema);
        one(&mut self.direct(), &text)
    }

    fn end(self) {
        let (status, log) = self.flifo.stop();
        assert!(status.success() && !log.contains("panicked"), "{log}");
    }
}

/// The one value that a statement answers with.
#[track_caller]
fn one(client: &mut FakeClient, text: &str) -> String {
    let rows = client.query(text).unwrap_or_else(|why| panic!("{text}: {why:?}"));
    assert_eq!(rows.len(), 1, "{text}");
    String::from_utf8(rows[0].clone()).expect("text")
}

#[track_caller]
fn ok(client: &mut FakeClient, text: &str) {
    client.query(text).unwrap_or_else(|why| panic!("{text}: {why:?}"));
}

#[track_caller]
fn fails(client: &mut FakeClient, text: &str) -> u16 {
    client.query(text).expect_err(text).code()
}

/// The status flags of the OK packet that answers a command.
fn status(client: &mut FakeClient, command: &[u8]) -> Status {
    client.send_packet(0, command);
    let payload = client.read_payload().expect("an answer");
    OkPacket::decode(&payload, CAPABILITIES).expect("an OK packet").status
}

const PING: &[u8] = &[14];

/// The client is connected as before, in no transaction, and what it does is its own.
#[track_caller]
fn goes_on(site: &Site, client: &mut FakeClient, id: &str) {
    assert_eq!(one(client, "SELECT CONNECTION_ID()"), id);
    assert_eq!(one(client, "SELECT @@in_transaction"), "0");
    assert!(!status(client, PING).has(Status::IN_TRANSACTION));
    ok(client, "BEGIN");
    ok(client, "REPLACE INTO t VALUES (100, 1)");
    assert!(status(client, PING).has(Status::IN_TRANSACTION));
    ok(client, "COMMIT");
    let mut other = site.client();
    assert_eq!(one(&mut other, "SELECT COUNT(*) FROM t WHERE id < 100"), "0", "nothing is left");
    assert_eq!(one(&mut other, "SELECT @@in_transaction"), "0");
}

#[test]
fn a_statement_in_a_transaction_is_told_that_nothing_is_kept() {
    let site = Site::start("lost_in_flight");
    let mut client = site.client();
    let id = one(&mut client, "SELECT CONNECTION_ID()");
    ok(&mut client, "INSERT INTO t VALUES (100, 0)");
    let mut direct = site.direct();
    for by_order in [true, false] {
        for text in ["SELECT SLEEP(33)", "UPDATE t SET n = 7 WHERE id = 100"] {
            ok(&mut direct, "BEGIN");
            ok(&mut direct, "SELECT n FROM lost_in_flight.t WHERE id = 100 FOR UPDATE");
            ok(&mut client, "BEGIN");
            ok(&mut client, "INSERT INTO t VALUES (1, 1)");
            site.send(&mut client, text);
            if by_order {
                site.kill();
            } else {
                site.relay.cut();
            }
            let told = client.read_answer().expect_err(text);
            // A SLEEP that is killed ends well, and its client's next statement hears of the end.
            let told = if told == Refusal::Closed { panic!("closed") } else { told };
            assert_eq!(told.code(), AGAIN, "{text}: {told:?}");
            ok(&mut direct, "ROLLBACK");
            wait_for("the row is undone", || site.rows() == "100");
            goes_on(&site, &mut client, &id);
        }
    }
    site.end();
}

#[test]
fn what_nobody_saw_happen_is_heard_of_with_the_next_command() {
    let site = Site::start("lost_idle");
    let mut client = site.client();
    let id = one(&mut client, "SELECT CONNECTION_ID()");
    let prepared = client.prepare("SELECT 1").expect("prepared");
    let execute = [&[0x17][..], &prepared.to_le_bytes(), b"\0\x01\0\0\0"].concat();
    let undo = client.prepare("ROLLBACK").expect("prepared");
    let undo = [&[0x17][..], &undo.to_le_bytes(), b"\0\x01\0\0\0"].concat();
    let query = |text: &str| [&[3], text.as_bytes()].concat();
    for (command, told) in [
        (query("SELECT 1"), AGAIN),
        (query("INSERT INTO t VALUES (2, 2)"), AGAIN),
        (query("COMMIT"), AGAIN),
        // It would have committed what was open.
        (query("BEGIN"), AGAIN),
        (query("CREATE TABLE u (a INT)"), AGAIN),
        (query("ROLLBACK TO SAVEPOINT a"), AGAIN),
        (query("ROLLBACK AND CHAIN"), AGAIN),
        (query("SELECT 1; SELECT 2"), AGAIN),
        (execute, AGAIN),
        (b"\x02lost_idle".to_vec(), AGAIN),
        (b"\x16SELECT 2".to_vec(), AGAIN),
        (query("ROLLBACK"), 0),
        (query("rollback work;"), 0),
        (undo, 0),
        // COM_RESET_CONNECTION
        (vec![0x1f], 0),
    ] {
        ok(&mut client, "USE lost_idle");
        ok(&mut client, "BEGIN");
        ok(&mut client, "INSERT INTO t VALUES (1, 1)");
        ok(&mut client, "SAVEPOINT a");
        site.kill();
        // Else a driver would not send its COMMIT at all.
        assert!(status(&mut client, PING).has(Status::IN_TRANSACTION));
        let answer = client.command(&command).map_err(|why| why.code());
        let shown = String::from_utf8_lossy(&command);
        assert_eq!(answer.err().unwrap_or(0), told, "{shown}");
        goes_on(&site, &mut client, &id);
    }
    site.end();
}

#[test]
fn the_error_says_what_frameworks_look_for() {
    let site = Site::start("lost_state");
    let address = format!("127.0.0.1:{}", site.flifo.port()).parse().expect("an address");
    let builder = testkit::client::Client::builder(address, USER, &site.password);
    let mut client = builder.schema("lost_state").connect().expect("a login");
    loop {
        client.query("BEGIN").expect("it begins");
        client.query("INSERT INTO t VALUES (1, 1)").expect("a row");
        site.kill();
        match client.query("COMMIT") {
            // On a busy machine it may have been sent before Flifo sees that its backend is gone.
            Err(Problem::Refused { code: PERHAPS, .. }) => {}
            Err(Problem::Refused { code, sqlstate, message }) => {
                assert_eq!((code, &sqlstate[..]), (AGAIN, "40001"));
                assert!(message.contains("Run it again"), "{message}");
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    let told = client.query("SHOW WARNINGS").expect("the last message");
    assert_eq!(told[0][1], AGAIN.to_string());
    site.end();
}

#[test]
fn what_may_have_committed_is_never_called_undone() {
    // A server of its own: statements of other tests must not wait for these locks.
    let server = PrivateServer::start_default().expect("a private server");
    server.sql(&format!("GRANT ALL ON *.* TO {USER}@'%'")).expect("rights");
    let site = Site::before(&server, "lost_commit", "routines = \"trust\"");
    server.sql("CREATE PROCEDURE lost_commit.p() SELECT SLEEP(34)").expect("a routine");
    let mut client = site.client();
    let id = one(&mut client, "SELECT CONNECTION_ID()");
    let mut direct = site.direct();
    for (text, done) in [
        ("COMMIT", true),
        ("CREATE TABLE u (a INT)", true),
        ("SET autocommit = 1", true),
        ("CALL p()", false),
    ] {
        let runs = if text == "CALL p()" { "SELECT SLEEP(34)" } else { text };
        ok(&mut client, "SET autocommit = 0");
        ok(&mut client, "BEGIN");
        ok(&mut client, "INSERT INTO t VALUES (1, 1)");
        ok(&mut direct, "FLUSH TABLES WITH READ LOCK");
        site.send_for(&mut client, text, runs);
        site.relay.cut();
        let told = client.read_answer().expect_err(text);
        assert_eq!(told.code(), PERHAPS, "{text}: {told:?}");
        ok(&mut direct, "UNLOCK TABLES");
        wait_for("what came of it", || site.rows() == if done { "1" } else { "" });
        assert!(!status(&mut client, PING).has(Status::IN_TRANSACTION));
        assert_eq!(one(&mut client, "SELECT @@autocommit"), "0", "as it was told");
        ok(&mut client, "SET autocommit = 1");
        ok(&mut client, "DELETE FROM t");
        goes_on(&site, &mut client, &id);
        ok(&mut client, "DELETE FROM t");
    }
    // A rollback is what happens anyhow.
    ok(&mut client, "BEGIN");
    ok(&mut client, "INSERT INTO t VALUES (1, 1)");
    client.send_packet(0, b"\x03ROLLBACK");
    site.relay.cut();
    client.read_answer().expect("it is rolled back");
    wait_for("it is undone", || site.rows().is_empty());
    goes_on(&site, &mut client, &id);
    site.end();
}

#[test]
fn what_cannot_be_had_again_ends_the_connection() {
    let site = Site::start("lost_state_of_backends");
    for text in [
        "CREATE TEMPORARY TABLE x (a INT)",
        "DO GET_LOCK('lost_state_of_backends', 0)",
        "SET @a = (SELECT 1)",
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "HANDLER t OPEN",
        "XA START 'lost'",
    ] {
        let mut client = site.client();
        ok(&mut client, text);
        site.kill();
        assert_eq!(client.query("SELECT 1"), Err(Refusal::Closed), "{text}");
        if text.starts_with("SET TRANSACTION") || text.starts_with("XA") {
            continue;
        }
        let mut client = site.client();
        ok(&mut client, text);
        ok(&mut client, "BEGIN");
        ok(&mut client, "INSERT INTO t VALUES (1, 1)");
        site.send(&mut client, "SELECT SLEEP(35)");
        site.relay.cut();
        assert_eq!(client.read_answer().expect_err(text).code(), PERHAPS, "{text}");
        assert!(client.is_closed(), "{text}");
    }
    // A cursor, in a transaction and without.
    for begin in ["DO 0", "BEGIN"] {
        let mut client = site.client();
        ok(&mut client, begin);
        let prepared = client.prepare("SELECT 1 UNION SELECT 2").expect("prepared");
        client.send_packet(0, &[&[0x17][..], &prepared.to_le_bytes(), b"\x01\x01\0\0\0"].concat());
        // The count of columns, the column, and the end of the definitions that says that rows are to be fetched.
        for _ in 0..3 {
            client.read_payload().expect("a cursor");
        }
        site.kill();
        assert_eq!(client.query("SELECT 1"), Err(Refusal::Closed), "{begin}");
    }
    assert_eq!(site.rows(), "");
    site.end();
}

#[test]
fn without_autocommit_it_is_no_other() {
    let site = Site::start("lost_manual");
    let mut client = site.client();
    let id = one(&mut client, "SELECT CONNECTION_ID()");
    for text in ["SELECT 1", "COMMIT"] {
        ok(&mut client, "SET autocommit = 0");
        ok(&mut client, "INSERT INTO t VALUES (1, 1)");
        site.kill();
        assert_eq!(fails(&mut client, text), AGAIN);
        assert!(!status(&mut client, PING).has(Status::IN_TRANSACTION));
        assert_eq!(one(&mut client, "SELECT @@autocommit"), "0");
        // Begun by the statement itself, which no server has answered.
        ok(&mut client, "ROLLBACK");
        site.send(&mut client, "INSERT INTO t SELECT 2, SLEEP(36)");
        site.relay.cut();
        assert_eq!(client.read_answer().expect_err("lost").code(), AGAIN);
        ok(&mut client, "SET autocommit = 1");
        wait_for("it is undone", || site.rows().is_empty() || site.rows() == "100");
        goes_on(&site, &mut client, &id);
    }
    site.end();
}

#[test]
fn the_session_is_what_its_client_was_told() {
    let site = Site::start("lost_session");
    ok(&mut site.direct(), "CREATE DATABASE lost_session_other");
    let mut client = site.client();
    let add = client.prepare("INSERT INTO lost_session.t VALUES (?, 1)").expect("prepared");
    // One parameter, of type INT.
    let with = |id: i32| {
        let head = [&[0x17][..], &add.to_le_bytes(), b"\0\x01\0\0\0\0\x01\x03\0"].concat();
        [&head[..], &id.to_le_bytes()].concat()
    };
    ok(&mut client, "SET @plain = 'kept'");
    ok(&mut client, "BEGIN");
    client.command(&with(1)).expect("a row");
    ok(&mut client, "SET @other = 5");
    ok(&mut client, "SET sql_mode = 'ANSI_QUOTES', time_zone = '+03:00'");
    ok(&mut client, "USE lost_session_other");
    site.kill();
    assert_eq!(client.command(&with(2)).expect_err("lost").code(), AGAIN);
    ok(&mut client, "BEGIN");
    for id in [1, 2] {
        client.command(&with(id)).expect("its preparation is as it was");
    }
    ok(&mut client, "COMMIT");
    assert_eq!(site.rows(), "1,2");
    for (text, value) in [
        ("SELECT @plain", "kept"),
        ("SELECT @other", "5"),
        ("SELECT DATABASE()", "lost_session_other"),
        ("SELECT @@sql_mode", "ANSI_QUOTES"),
        ("SELECT @@time_zone", "+03:00"),
        ("SELECT LAST_INSERT_ID()", "0"),
    ] {
        assert_eq!(one(&mut client, text), value, "{text}");
    }
    site.end();
}

#[test]
fn outside_of_a_transaction_a_client_goes_on() {
    let site = Site::start("lost_outside");
    let mut client = site.client();
    let id = one(&mut client, "SELECT CONNECTION_ID()");
    // A warning, and a user variable, keep the backend for a while.
    ok(&mut client, "SET @a = 1");
    ok(&mut client, "SELECT 'x' + 0");
    site.kill();
    assert_eq!(one(&mut client, "SELECT CONNECTION_ID()"), id);
    // No reply says what became of the update.
    let mut direct = site.direct();
    ok(&mut client, "INSERT INTO t VALUES (100, 0)");
    ok(&mut direct, "BEGIN");
    ok(&mut direct, "SELECT n FROM lost_outside.t WHERE id = 100 FOR UPDATE");
    site.send(&mut client, "UPDATE t SET n = 9 WHERE id = 100");
    site.relay.cut();
    assert_eq!(client.read_answer().expect_err("lost").code(), PERHAPS);
    ok(&mut direct, "ROLLBACK");
    goes_on(&site, &mut client, &id);
    // A transaction that has asked nothing of a server has lost nothing.
    ok(&mut client, "BEGIN");
    site.kill();
    ok(&mut client, "INSERT INTO t VALUES (101, 0)");
    ok(&mut client, "COMMIT");
    assert_eq!(site.rows(), "100,101");
    assert_eq!(one(&mut client, "SELECT @a"), "1");
    site.end();
}

#[test]
fn a_servers_last_words_are_not_the_clients() {
    // It shuts down; the connection is killed; it has been idle for too long.
    for code in [1053, 1927, 4031] {
        let scene = Scene::pooled("connections_max = 1");
        scene.server.answer(move |command| match command {
            b"\x03COMMIT" | b"\x03UPDATE t" => Reply::Err(code, "bye"),
            b"\x03SELECT half" => {
                let rows = Reply::Rows { rows: vec![b"a".to_vec()], more: true };
                Reply::All(vec![rows, Reply::Err(code, "bye")])
            }
            b"\x03BEGIN" | b"\x03INSERT INTO t" => {
                Reply::Status(Status(Status::AUTOCOMMIT.0 | Status::IN_TRANSACTION.0))
            }
            _ => honest(command),
        });
        let mut client = scene.client();
        for (text, told) in [("UPDATE t", AGAIN), ("COMMIT", PERHAPS), ("SELECT half", AGAIN)] {
            for begin in ["BEGIN", "SELECT 1"] {
                ok(&mut client, begin);
                if begin == "BEGIN" {
                    ok(&mut client, "INSERT INTO t");
                }
                // It is rolled back, be it a transaction of its own, as the server has said so.
                assert_eq!(fails(&mut client, text), told, "{code}, behind {begin}");
            }
        }
        assert_eq!(client.query("SELECT again"), row("again"));
        drop(client);
        scene.end();
    }
}

#[test]
fn a_server_that_shuts_down_ends_no_clients_connection() {
    let mut server = PrivateServer::start_default().expect("a private server");
    server.sql(&format!("GRANT ALL ON *.* TO {USER}@'%'")).expect("rights");
    let site = Site::before(&server, "lost_server", "");
    let mut client = site.client();
    let id = one(&mut client, "SELECT CONNECTION_ID()");
    ok(&mut client, "BEGIN");
    ok(&mut client, "INSERT INTO t VALUES (1, 1)");
    site.send(&mut client, "INSERT INTO t SELECT 2, SLEEP(37)");
    server.stop().expect("it stops");
    server.start().expect("it starts");
    let told = client.read_answer().expect_err("lost");
    assert_eq!(told.code(), AGAIN, "{told:?}");
    ok(&mut client, "BEGIN");
    ok(&mut client, "INSERT INTO t VALUES (1, 1)");
    server.stop().expect("it stops");
    server.start().expect("it starts");
    assert_eq!(fails(&mut client, "COMMIT"), AGAIN);
    goes_on(&site, &mut client, &id);
    site.end();
}
