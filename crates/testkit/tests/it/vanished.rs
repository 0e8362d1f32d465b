//! Machines that vanish: no packet ends their connections. What they held is free in the time that is documented
//! (`limits.client_silence`, `limits.server_silence`); those that live and are slow keep what they have.

use std::net::TcpStream;
use std::thread;

use bench::private_server::PrivateServer;
use rustix::process::{Pid, Signal, kill_process};
use testkit::client::{Client, Problem};
use testkit::fake_client::FakeClient;
use testkit::flifo::Flifo;
use testkit::relay::{self, Relay};
use testkit::scene::wait_for;

/// A server with rows to lock, and users that come by a pool and by themselves.
fn server() -> PrivateServer {
    let server = PrivateServer::start_default().expect("a private server");
    server.sql("CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY, v INT)").unwrap();
    server.sql("INSERT INTO shop.t VALUES (1, 0), (2, 0), (3, 0), (4, 0), (5, 0)").unwrap();
    for user in ["app", "own"] {
        let created = format!("CREATE USER {user}@'%' IDENTIFIED BY '{user}'");
        server.sql(&created).unwrap();
        server.sql(&format!("GRANT ALL ON *.* TO {user}@'%'")).unwrap();
    }
    server
}

const USERS: &str = "[[users]]\nname = \"app\"\npassword = \"app\"\n\
                     [[users]]\nname = \"own\"\nmode = \"pass-through\"\n";

/// A client, and its socket.
fn client(flifo: &Flifo, user: &str) -> (FakeClient, TcpStream) {
    let stream = TcpStream::connect(("127.0.0.1", flifo.port())).unwrap();
    let socket = stream.try_clone().unwrap();
    let mut client = FakeClient::over(stream);
    client.log_in(user, user).unwrap();
    (client, socket)
}

/// A client that has locked this row, in a transaction.
fn locker(flifo: &Flifo, user: &str, row: u32) -> (FakeClient, TcpStream) {
    let (mut client, socket) = client(flifo, user);
    client.query("BEGIN").unwrap();
    client.query(&format!("SELECT v FROM shop.t WHERE id = {row} FOR UPDATE")).unwrap();
    (client, socket)
}

fn runs(server: &PrivateServer, text: &str) -> bool {
    let running = server.sql("SELECT info FROM information_schema.processlist").unwrap();
    running.lines().any(|line| line == text)
}

fn send(client: &mut FakeClient, text: &str) {
    client.send_packet(0, &[&[3], text.as_bytes()].concat());
}

#[test]
fn the_locks_of_clients_that_vanish_are_free_in_time_and_slow_readers_go_on() {
    let server = server();
    let flifo = Flifo::start(&format!(
        "[server]\naddress = \"127.0.0.1:{}\"\n[limits]\nclient_silence = \"5s\"\nwait = \"none\"\n{USERS}",
        server.port()
    ));
    // It reads nothing for longer than a machine may be silent, but its machine answers: more than the kernel keeps
    // between two sockets, and so little that the kernel has all of it and Flifo nothing.
    let slow = |size: usize| {
        let mut slow = FakeClient::connect_with_room(8 << 10, flifo.port());
        slow.log_in("app", "app").unwrap();
        slow.query("BEGIN").unwrap();
        send(&mut slow, &format!("SELECT REPEAT('x', {size})"));
        (slow, size)
    };
    let slow = [slow(8 << 20), slow(100 << 10)];
    // At rest; pass-through; while a statement runs; when the answer comes.
    let mut gone = vec![locker(&flifo, "app", 1), locker(&flifo, "own", 2)];
    let (mut busy, socket) = locker(&flifo, "app", 3);
    send(&mut busy, "SELECT SLEEP(600)");
    gone.push((busy, socket));
    let (mut answered, socket) = locker(&flifo, "app", 4);
    let mut gate = Client::admin(&server).unwrap();
    gate.query("SELECT GET_LOCK('gate', 0)").unwrap();
    send(&mut answered, "SELECT GET_LOCK('gate', 600)");
    gone.push((answered, socket));
    wait_for("the statements to run", || {
        runs(&server, "SELECT SLEEP(600)") && runs(&server, "SELECT GET_LOCK('gate', 600)")
    });
    gone.iter().for_each(|(_, socket)| relay::deafen(socket));
    gate.query("SELECT RELEASE_LOCK('gate')").unwrap();
    // Without an end of theirs, this waits until the kernel gives them up: two hours.
    let mut other = Client::admin(&server).unwrap();
    other.query("SET innodb_lock_wait_timeout = 100").unwrap();
    other.query("SELECT v FROM shop.t FOR UPDATE").expect("all rows are free");
    let log = flifo.log();
    assert!(log.contains("limits.client_silence"), "{log}");
    for (mut slow, size) in slow {
        assert_eq!(slow.read_answer().unwrap()[0].len(), size);
        slow.query("COMMIT").expect("it lives");
    }
    drop(gone);
    assert!(!flifo.stop().1.contains("panicked"));
}

/// Flifo before the only server, behind a relay.
fn behind(relay: &Relay, checks: &str, silence: &str) -> (Flifo, Client, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let console = folder.path().join("console.sock");
    let flifo = Flifo::start(&format!(
        "workers = 2\n[server]\naddress = \"127.0.0.1:{}\"\n[console]\nlisten = [{console:?}]\n\
         [checks]\ninter = \"100ms\"\nfastinter = \"100ms\"\ndowninter = \"100ms\"\ntimeout = \"500ms\"\n{checks}\
         [limits]\nserver_silence = \"{silence}\"\nconnect = \"1s\"\n{USERS}",
        relay.port()
    ));
    let address = console.to_str().unwrap().parse().unwrap();
    let console = Client::builder(address, "admin", "").connect().unwrap();
    (flifo, console, folder)
}

fn signal(server: &PrivateServer, signal: Signal) {
    let pid = server.pid().and_then(|pid| Pid::from_raw(pid.cast_signed()));
    kill_process(pid.expect("it runs"), signal).expect("it can be signalled");
}

fn of(flifo: &Flifo, user: &str) -> Client {
    let address = format!("127.0.0.1:{}", flifo.port()).parse().unwrap();
    Client::builder(address, user, user).connect().unwrap()
}

fn is_down(console: &mut Client) -> bool {
    let rows = console.query("SELECT state FROM servers").unwrap();
    rows[0][0] == "down"
}

fn code<T>(answer: &Result<T, Problem>) -> Option<u16> {
    match answer {
        Err(Problem::Refused { code, .. }) => Some(*code),
        Err(_) => None,
        Ok(_) => Some(0),
    }
}

/// Clients of all kinds that have a backend connection, and what they ask when its server is gone.
fn ask_the_gone(server: &PrivateServer, flifo: &Flifo, vanish: impl FnOnce()) {
    let mut running = of(flifo, "app");
    let (mut open, mut pinned) = (of(flifo, "app"), of(flifo, "app"));
    let (mut prepared, mut own) = (of(flifo, "app"), of(flifo, "own"));
    open.query("BEGIN").unwrap();
    open.query("UPDATE shop.t SET v = v + 1 WHERE id = 1").unwrap();
    pinned.query("CREATE TEMPORARY TABLE shop.mine (id INT)").unwrap();
    prepared.query("BEGIN").unwrap();
    let id = prepared.prepare("UPDATE shop.t SET v = v + 1 WHERE id = 2").unwrap();
    prepared.execute(id).unwrap();
    own.query("SELECT 1").unwrap();
    let running = thread::spawn(move || code(&running.query("SELECT SLEEP(600)")));
    wait_for("a statement to run", || runs(server, "SELECT SLEEP(600)"));
    vanish();
    // What is sent now is not even taken by the server's machine.
    assert_eq!(code(&open.query("UPDATE shop.t SET v = v + 1 WHERE id = 1")), Some(1213));
    assert_eq!(running.join().unwrap(), Some(1430), "in the middle of a statement");
    assert_eq!(code(&prepared.execute(id)), Some(1213));
    // These have what cannot be had again: their connections end.
    for (mut client, what) in [(pinned, "pinned"), (own, "passed through")] {
        assert!(code(&client.query("SELECT 2")) != Some(0), "{what}");
    }
}

#[test]
fn the_connections_of_an_only_server_that_is_gone_are_closed_when_checks_find_that() {
    let server = server();
    let relay = Relay::to(server.port());
    let (flifo, mut console, _folder) = behind(&relay, "fall = 2\n", "none");
    ask_the_gone(&server, &flifo, || {
        relay.vanish();
        wait_for("checks to find it", || is_down(&mut console));
    });
    relay.come_back();
    wait_for("it to be served again", || of(&flifo, "app").query("SELECT 1").is_ok());
    assert!(!flifo.stop().1.contains("panicked"));
}

#[test]
fn without_checks_the_connections_of_a_server_that_is_gone_are_closed_in_time() {
    let server = server();
    let relay = Relay::to(server.port());
    let (flifo, _console, _folder) = behind(&relay, "kind = \"none\"\n", "5s");
    ask_the_gone(&server, &flifo, || relay.vanish());
    let log = flifo.log();
    assert!(log.contains("limits.server_silence"), "{log}");
    assert!(!flifo.stop().1.contains("panicked"));
}

#[test]
fn an_only_server_that_stands_still_for_a_while_keeps_its_clients_and_no_longer() {
    for (silence, outcome) in [("1m", 0), ("5s", 1430)] {
        let server = server();
        let relay = Relay::to(server.port());
        let (flifo, mut console, _folder) = behind(&relay, "fall = 2\n", silence);
        let mut running = of(&flifo, "app");
        running.query("SELECT 1").unwrap();
        signal(&server, Signal::STOP);
        let running = thread::spawn(move || code(&running.query("SELECT 2")));
        wait_for("checks to find it", || is_down(&mut console));
        if outcome == 0 {
            signal(&server, Signal::CONT);
        }
        assert_eq!(running.join().unwrap(), Some(outcome), "{silence}");
        if outcome != 0 {
            signal(&server, Signal::CONT);
        }
        wait_for("it to be served", || of(&flifo, "app").query("SELECT 1").is_ok());
        assert!(!flifo.stop().1.contains("panicked"));
    }
}
