//! Clients that go, or begin anew, while their backend still has something of theirs: nothing of it is lost for others,
//! nothing is left, and the backend with it neither.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use testkit::client::Problem;
use testkit::fake_client::{Answer, FakeClient};
use testkit::reply::{Flag, Reply, honest};
use testkit::scene::{Scene, row, wait_for};
use wire::auth::Plugin;

use crate::shared::{Shared, USER, ok, server};

/// One backend; a client that waits for it is not refused within a test.
const ONE_BACKEND: &str = "limit = 1\nconnections_max = 1\n[limits]\nwait = \"10s\"\n";

/// A server that does not say what messages it has before the flag is raised.
fn keep_silent(scene: &Scene) -> Flag {
    let flag: Flag = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&flag);
    scene.server.answer(move |command| match &command[1..] {
        b"SELECT absent" => Reply::Err(1054, "Unknown column"),
        text if text.starts_with(b"SELECT FOUND_ROWS()") => Reply::row("0").when(&raised),
        _ => honest(command),
    });
    flag
}

/// Waits for the only backend, which is then asked what it knows of its client.
fn wait_for_backend(scene: &Scene) -> JoinHandle<Answer> {
    let mut other = scene.client();
    let waits = thread::spawn(move || other.query("SELECT other"));
    wait_for("the question", || scene.server.received(b"FOUND_ROWS()") > 0);
    waits
}

#[test]
fn a_client_that_leaves_while_its_backend_is_asked_for_diagnostics_leaves_it_to_others() {
    let scene = Scene::pooled(ONE_BACKEND);
    let flag = keep_silent(&scene);
    let mut one = scene.client();
    assert_eq!(one.query("SELECT absent").unwrap_err().code(), 1054);
    let waits = wait_for_backend(&scene);
    let open = scene.flifo.descriptors();
    drop(one);
    wait_for("its end", || scene.flifo.descriptors() < open);
    flag.store(true, Relaxed);
    assert_eq!(waits.join().unwrap(), row("other"));
    scene.server.answer(honest);
    assert_eq!(scene.server.received(b"KILL"), 0, "nothing of its own ran");
    scene.end();
}

/// Such a command waits for the backend as well, and gets no answer.
#[test]
fn a_command_without_a_reply_does_not_end_its_clients_turn_while_its_backend_is_asked() {
    let scene = Scene::pooled(ONE_BACKEND);
    let flag = keep_silent(&scene);
    let mut one = scene.client();
    let id = one.prepare("SELECT closed").unwrap();
    assert_eq!(one.query("SELECT absent").unwrap_err().code(), 1054);
    let waits = wait_for_backend(&scene);
    one.send_packet(0, &[&[0x19], &id.to_le_bytes()[..]].concat());
    thread::sleep(Duration::from_millis(50));
    flag.store(true, Relaxed);
    assert_eq!(waits.join().unwrap(), row("other"));
    assert_eq!(one.query("SELECT more"), row("more"));
    scene.end();
}

/// A reset is answered when others can see that it was made.
#[test]
fn who_begins_anew_is_told_when_all_is_undone() {
    let shared = Shared::start("ends_anew");
    let mut direct = shared.direct();
    ok(&mut direct, "CREATE TABLE t (a INT)");
    // What is not undone yet is seen there, and what other tests do is not.
    ok(&mut direct, "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED");
    let open = "SELECT COUNT(*) FROM ends_anew.t";
    for (texts, look, want) in [
        // Some tenths of a second to undo.
        (
            &["USE ends_anew", "BEGIN", "INSERT INTO t SELECT seq FROM seq_1_to_100000"][..],
            open,
            "0",
        ),
        // A backend that cannot be used again is reset all the same.
        (&["DO GET_LOCK('ends', 1)", "SET ROLE NONE"], "SELECT IS_FREE_LOCK('ends')", "1"),
    ] {
        for turn in 0..3 {
            let port = shared.flifo.port();
            let mut client = FakeClient::login(port, USER, server().password()).expect("a login");
            texts.iter().for_each(|text| drop(client.query(text).expect("runs")));
            client.command(&[0x1f]).expect("a reset");
            assert_eq!(ok(&mut direct, look), want, "{texts:?}, turn {turn}");
            assert_eq!(client.query("SELECT @@in_transaction"), row("0"));
        }
    }
}

/// The server does not wait for the client's next word, so neither may Flifo.
#[test]
fn a_client_that_ends_its_connection_with_its_transaction_is_closed() {
    let scene = Scene::pooled(ONE_BACKEND);
    for text in ["COMMIT RELEASE", "rollback /* a */ and no chain release"] {
        let mut client = scene.client();
        client.query("SELECT 1").unwrap();
        client.query(text).unwrap();
        assert!(client.is_closed(), "{text}");
    }
    for text in ["COMMIT NO RELEASE", "COMMIT RELEASE; SELECT 1"] {
        let mut client = scene.client();
        client.query(text).unwrap();
        assert_eq!(client.query("SELECT 2"), row("2"), "{text}");
    }
    scene.end();
}

#[test]
fn what_follows_a_transaction_by_a_variable_is_the_servers_affair() {
    let shared = Shared::start("ends_completion");
    let mut client = shared.client();
    ok(&mut client, "SET completion_type = CHAIN");
    ok(&mut client, "BEGIN");
    ok(&mut client, "COMMIT");
    assert_eq!(ok(&mut client, "SELECT @@in_transaction"), "1");
    drop(client);
    assert!(shared.is_free());
}

/// As a shell does that pipes a statement into a socket.
#[test]
fn a_client_that_sends_nothing_more_gets_its_reply() {
    let shared = Shared::start("ends_half_closed");
    for name in [USER, "half_passed"] {
        if name != USER {
            server().sql("CREATE USER half_passed IDENTIFIED BY 'half'").expect("an account");
        }
        let password = if name == USER { server().password() } else { "half" };
        let mut client = FakeClient::login(shared.flifo.port(), name, password).expect("a login");
        client.send_packet(0, b"\x03SELECT SLEEP(0.3)");
        client.half_close();
        assert_eq!(client.read_answer().expect("a row"), [b"0"], "{name}");
        assert!(client.is_closed());
    }
    // What takes longer is ended, as it is where a client has gone.
    let mut client =
        FakeClient::login(shared.flifo.port(), USER, server().password()).expect("a login");
    client.send_packet(0, b"\x03SELECT SLEEP(100)");
    client.half_close();
    assert!(client.is_closed());
    assert!(shared.is_free());
}

#[test]
fn a_client_whose_change_of_user_is_refused_goes_on_as_it_was() {
    let shared = Shared::start("ends_refused");
    let (mut pooled, mut direct) = (shared.client(), shared.direct());
    ok(&mut direct, "CREATE TABLE t (i INT) ENGINE=InnoDB");
    let asks = "SELECT @a IS NULL, @@max_sort_length, DATABASE(), CURRENT_USER(), COUNT(*) FROM t";
    for round in 0..5 {
        let mut seen = Vec::new();
        for client in [&mut direct, &mut pooled] {
            for text in ["SET @a = 1, max_sort_length = 70", "BEGIN", "INSERT INTO t VALUES (1)"] {
                ok(client, text);
            }
            // To the user itself, and to one that does not exist.
            let name = if round == 1 { "unheard_of" } else { USER };
            let refused = client.change_user(name, "wrong", &Plugin::NativePassword);
            let Err(Problem::Refused { code, .. }) = refused else { panic!("{refused:?}") };
            seen.push((code, ok(client, asks)));
        }
        assert_eq!(seen[0], seen[1], "round {round}");
        assert_eq!(seen[0].0, if round < 3 { 1045 } else { 1047 });
    }
    drop(pooled);
    assert!(shared.is_free());
}

/// As MariaDB keeps them. Another client is on the backend in between, and the client has left something to be undone.
#[test]
fn rows_that_were_found_are_known_after_a_reset() {
    let shared = Shared::start("ends_found");
    ok(&mut shared.direct(), "CREATE TABLE t SELECT 1 AS a UNION SELECT 2 UNION SELECT 3");
    for leaves in ["SELECT 1 FROM t LIMIT 0", "BEGIN", "CREATE TEMPORARY TABLE own (i INT)"] {
        let port = shared.flifo.port();
        let mut client = FakeClient::login(port, USER, server().password()).expect("a login");
        client.query("USE ends_found").expect("a schema");
        client.query(leaves).expect(leaves);
        let found = "SELECT SQL_CALC_FOUND_ROWS a FROM t ORDER BY a LIMIT 1";
        assert_eq!(client.query(found), Ok(vec![b"1".to_vec()]), "{leaves}");
        client.command(b"\x1f").expect("a reset");
        assert!(shared.is_free());
        assert_eq!(client.query("SELECT FOUND_ROWS()"), Ok(vec![b"3".to_vec()]), "{leaves}");
    }
}
