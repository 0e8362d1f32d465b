//! Backends that are asked or told something, and are lost, or not needed any more, before they have answered: no
//! client waits for an answer that will not come, and no client keeps a backend that it does not need.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use testkit::fake_client::{Answer, FakeClient, Refusal};
use testkit::flifo::Flifo;
use testkit::relay::Relay;
use testkit::reply::{Flag, Reply, honest};
use testkit::scene::{Scene, row, wait_for};
use wire::tracker::Change;

use crate::shared::{USER, server};
use crate::shared_past::inserted;

const ONE_BACKEND: &str = "connections_max = 1\n[limits]\nwait = \"2s\"\n";

/// Sends this for a client, and returns the answer and the client; in a thread, since it may take long.
fn ask(mut client: FakeClient, text: &'static str) -> JoinHandle<(Answer, FakeClient)> {
    thread::spawn(move || {
        let answer = client.query(text);
        (answer, client)
    })
}

/// One client's backend is asked for the insert id of another client, which then waits for it; and the backend is lost.
#[test]
fn who_waits_for_an_insert_id_is_told_when_the_backend_that_knows_is_lost() {
    let scene = Scene::pooled(ONE_BACKEND);
    let raised = Flag::default();
    let gate = Arc::clone(&raised);
    scene.server.answer(move |command| match &command[1..] {
        b"INSERT INTO t VALUES (1)" => inserted(&[]),
        // What the backend is asked is not answered before it is lost.
        b"SET last_insert_id=LAST_INSERT_ID()" => Reply::Ok.when(&gate),
        _ => honest(command),
    });
    let (mut one, two) = (scene.client(), scene.client());
    one.query("INSERT INTO t VALUES (1)").unwrap();
    let before = scene.server.received(b"LAST_INSERT_ID()");
    let two = ask(two, "INSERT INTO t VALUES (2)");
    wait_for("the question", || scene.server.received(b"LAST_INSERT_ID()") > before);
    let one = ask(one, "SELECT LAST_INSERT_ID()");
    thread::sleep(Duration::from_millis(100));
    assert!(!one.is_finished(), "it waits for what the backend connection will say");
    scene.server.hang_up();
    raised.store(true, Relaxed);
    let begun = Instant::now();
    let (answer, mut one) = one.join().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    let Err(Refusal::Error { message, .. }) = answer else { panic!("{answer:?}") };
    assert!(message.contains("cannot answer this any more"), "{message}");
    let (answer, mut two) = two.join().unwrap();
    assert!(answer.is_err(), "its statement was lost with the backend connection: {answer:?}");
    scene.server.answer(honest);
    for client in [&mut one, &mut two] {
        assert_eq!(client.query("SELECT more"), row("more"));
    }
    drop((one, two));
    scene.end();
}

/// A client's backend is asked something that must be answered before its statement, and the client leaves. The order
/// to kill what runs there comes before the answer.
#[test]
fn who_leaves_while_its_backend_is_prepared_leaves_the_backend() {
    let scene = Scene::pooled(ONE_BACKEND);
    let raised = Flag::default();
    raised.store(true, Relaxed);
    let gate = Arc::clone(&raised);
    scene.server.answer(move |command| match command {
        b"\x03INSERT INTO t VALUES (1)" => inserted(&[]),
        b"\x03SET last_insert_id=LAST_INSERT_ID()" => {
            let said = Change::Variable { name: b"last_insert_id", value: b"5" };
            inserted(&[said]).when(&gate)
        }
        _ => honest(command),
    });
    let (mut leaver, mut other) = (scene.client(), scene.client());
    // Whether the second insert has made its number or was given it is known when the backend has said what it has.
    other.query("INSERT INTO t VALUES (1)").unwrap();
    leaver.query("INSERT INTO t VALUES (1)").unwrap();
    raised.store(false, Relaxed);
    leaver.send_packet(0, b"\x03SELECT LAST_INSERT_ID()");
    wait_for("the question", || scene.server.received(b"\x03SET last_insert_id=LAST") == 2);
    drop(leaver);
    wait_for("the order", || scene.server.received(b"\x03KILL QUERY") == 1);
    thread::sleep(Duration::from_millis(100));
    raised.store(true, Relaxed);
    assert_eq!(
        other.query("SELECT more"),
        row("more"),
        "the only backend connection and slot are free again"
    );
    drop(other);
    scene.end();
}

/// A piece of a parameter has no answer, and what the backend was told ahead of it has. Before that has come, the
/// client closes its statement, and needs its backend no more.
#[test]
fn a_backend_that_is_told_something_still_goes_back_when_its_client_closes_its_statement() {
    let (server, relay) = (server(), Relay::to(server().port()));
    let (port, password) = (relay.port(), server.password());
    let flifo = Flifo::start(&format!(
        "workers = 1\n[server]\naddress = \"127.0.0.1:{port}\"\n{ONE_BACKEND}[[users]]\n\
         name = \"{USER}\"\npassword = \"{password}\"\n"
    ));
    let login = || FakeClient::login(flifo.port(), USER, password).unwrap();
    let (mut one, mut other) = (login(), login());
    one.query("SET div_precision_increment = 7").unwrap();
    // The backend has been told both clients' settings once, so that they go ahead unanswered.
    for _ in 0..2 {
        assert_eq!(one.query("SELECT 1 / 3"), row("0.3333333"));
        assert_eq!(other.query("SELECT 1 / 3"), row("0.3333"));
    }
    for _ in 0..3 {
        let id = one.prepare("SELECT ?").unwrap().to_le_bytes();
        assert_eq!(other.query("SELECT 1 / 3"), row("0.3333"));
        relay.set_silent(true);
        thread::sleep(Duration::from_millis(100));
        one.send_packet(0, &[&[0x18], &id[..], &[0, 0], b"dog"].concat());
        one.send_packet(0, &[&[0x19], &id[..]].concat());
        thread::sleep(Duration::from_millis(100));
        relay.set_silent(false);
        assert_eq!(other.query("SELECT 2 / 3"), row("0.6667"), "it gets the backend connection");
        assert_eq!(one.query("SELECT 2 / 3"), row("0.6666667"));
    }
    drop((one, other));
    let (ended, log) = flifo.stop();
    assert!(ended.success() && !log.contains("panicked"), "{log}");
}
