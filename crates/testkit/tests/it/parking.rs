//! `server.parking`: statements that wait for something in the server do not keep others out of it.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::{Duration, Instant};

use backend::Address;
use bench::private_server::PrivateServer;
use testkit::client::Client;
use testkit::flifo::Flifo;
use testkit::reply::{Flag, honest};
use testkit::scene::{Scene, row, wait_for};

use crate::shared;

/// Two slots. Statements that end with "lock" wait until the flag is raised.
fn scene(parking: &str) -> (Scene, Flag) {
    let scene = Scene::pooled(&format!(
        "limit = 2\nconnections_max = 8\n{parking}[limits]\nwait = \"10s\"\nidle_backend = \"1s\"\n"
    ));
    let flag = Flag::default();
    let done = Arc::clone(&flag);
    scene.server.answer(move |command| match command.ends_with(b"lock") {
        true => honest(command).when(&done),
        false => honest(command),
    });
    (scene, flag)
}

#[test]
fn who_waits_for_a_lock_leaves_its_slot_to_others() {
    let (scene, flag) = scene("parking = \"age\"\n");
    let mut stuck: Vec<_> = (0..4).map(|_| scene.client()).collect();
    for client in &mut stuck {
        client.send_packet(0, b"\x03UPDATE lock");
    }
    // The limit is two: all four get there only if the first ones are parked.
    wait_for("all to wait in the server", || scene.server.received(b"UPDATE lock") >= 3);
    let mut other = scene.client();
    let begun = Instant::now();
    for _ in 0..20 {
        assert_eq!(other.query("SELECT on"), row("on"));
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    flag.store(true, SeqCst);
    for client in &mut stuck {
        assert!(client.read_answer().is_ok());
    }
    drop((stuck, other));
    let log = scene.end_with_log();
    assert!(log.contains("parked="), "{log}");
}

#[test]
fn without_it_the_limit_is_the_limit() {
    let (scene, flag) = scene("");
    let mut stuck: Vec<_> = (0..3).map(|_| scene.client()).collect();
    for client in &mut stuck {
        client.send_packet(0, b"\x03UPDATE lock");
    }
    thread::sleep(Duration::from_millis(600));
    assert_eq!(scene.server.received(b"UPDATE lock"), 2);
    flag.store(true, SeqCst);
    for client in &mut stuck {
        assert!(client.read_answer().is_ok());
    }
    drop(stuck);
    assert!(!scene.end_with_log().contains("parked="));
}

/// Two slots before a real server, for a user without any privilege but in its schema.
fn before(server: &PrivateServer, schema: &str) -> (Flifo, impl Fn() -> Client + use<>) {
    let sql = |text: &str| server.sql(text).expect(text);
    sql(&format!("CREATE DATABASE {schema}"));
    sql(&format!("CREATE TABLE {schema}.t (a INT PRIMARY KEY, b INT)"));
    sql(&format!("INSERT INTO {schema}.t VALUES (1, 0), (2, 0)"));
    sql(&format!("GRANT ALL ON {schema}.* TO '{schema}'@'%' IDENTIFIED BY 'pw'"));
    let flifo = Flifo::start(&format!(
        "workers = 1\n[server]\naddress = \"{}\"\nlimit = 2\nconnections_max = 16\n[limits]\nwait = \"120s\"\n\
         [[users]]\nname = \"{schema}\"\npassword = \"pw\"\n",
        server.socket().display(),
    ));
    let (port, schema) = (flifo.port(), schema.to_owned());
    let client = move || {
        let address = Address::Tcp { host: "127.0.0.1".to_owned(), port };
        Client::builder(address, &schema, "pw").schema(&schema).connect().expect("a login")
    };
    (flifo, client)
}

/// What clients that are blocked are, each in a thread of its own, and how long another one takes meanwhile. Then
/// something is done before they are waited for.
fn served_beside(
    client: &impl Fn() -> Client,
    count: usize,
    text: &str,
    then: impl FnOnce(),
) -> Duration {
    let blocked: Vec<_> = (0..count).map(|_| client()).collect();
    let mut other = client();
    thread::scope(|scope| {
        for mut client in blocked {
            scope.spawn(move || client.query(text).expect("goes on in the end"));
        }
        thread::sleep(Duration::from_millis(300));
        let begun = Instant::now();
        for _ in 0..20 {
            other.query("SELECT b FROM t WHERE a = 2").expect("an answer");
        }
        let took = begun.elapsed();
        then();
        took
    })
}

#[test]
fn who_waits_for_a_row_leaves_its_slot_as_the_server_says() {
    let (flifo, client) = before(shared::server(), "parking_rows");
    let socket = Address::Unix(shared::server().socket());
    let login = Client::builder(socket, shared::USER, shared::server().password());
    let mut holder = login.connect().expect("a login");
    holder.query("BEGIN").expect("begins");
    holder.query("UPDATE parking_rows.t SET b = b + 1 WHERE a = 1").expect("locks");
    // It commits when the others were served: if its waiters kept their slots, they would not be.
    let commit = move || _ = holder.query("COMMIT").expect("commits");
    served_beside(&client, 6, "UPDATE t SET b = b + 1 WHERE a = 1", commit);
    let (_, log) = flifo.stop();
    assert!(log.contains("parked="), "{log}");
    let rows = shared::server().sql("SELECT b FROM parking_rows.t WHERE a = 1").expect("reads");
    assert!(rows.contains('7'), "{rows}");
}

#[test]
fn who_only_takes_long_keeps_its_slot() {
    // Its own: on a server where others wait for locks, it might be taken for one of them.
    let server = PrivateServer::builder().start().expect("a private server");
    let (flifo, client) = before(&server, "parking_sleep");
    let took = served_beside(&client, 2, "DO SLEEP(1.5)", || {});
    assert!(took > Duration::from_millis(900), "{took:?}");
    let (_, log) = flifo.stop();
    assert!(!log.contains("parked="), "{log}");
}
