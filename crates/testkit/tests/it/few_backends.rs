//! Few backends and many clients: room is made at once for a client that needs another kind of backend, and clients of
//! all workers are served evenly.
//!
//! Figures are those of `cargo run --release -p testkit --example fairness`. What must hold to the event is shown in
//! simulated time (`engine/tests/fairness.rs`, `engine/tests/simulation.rs`).

use std::time::{Duration, Instant};

use backend::Address;
use bench::private_server::PrivateServer;
use testkit::client::Client;
use testkit::fairness::{Work, serve};
use testkit::flifo::Flifo;
use wire::Capabilities;

use crate::shared::{USER, ok, server};

const OTHER: &str = "few_backends_other";

/// The user that logs in, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    user: &'static str,
    schema: Option<&'static str>,
    capabilities: Capabilities,
}

const PLAIN: Kind = Kind { user: USER, schema: None, capabilities: Capabilities(0) };

const KINDS: [Kind; 5] = [
    PLAIN,
    Kind { capabilities: Capabilities::FOUND_ROWS, ..PLAIN },
    Kind { capabilities: Capabilities::INTERACTIVE, ..PLAIN },
    Kind { schema: Some("few_backends"), ..PLAIN },
    Kind { user: OTHER, ..PLAIN },
];

fn flifo(workers: u32, backends: u32) -> Flifo {
    let password = server().password();
    Flifo::start(&format!(
        "workers = {workers}\n[server]\naddress = \"127.0.0.1:{}\"\nconnections_max = {backends}\nlimit = {backends}\n\
         [[users]]\nname = \"{USER}\"\npassword = \"{password}\"\n\
         [[users]]\nname = \"{OTHER}\"\npassword = \"{password}\"\n",
        server().port(),
    ))
}

fn client(flifo: &Flifo, kind: Kind) -> Client {
    let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: flifo.port() };
    let client = Client::builder(address, kind.user, server().password()).with(kind.capabilities);
    match kind.schema {
        Some(schema) => client.schema(schema),
        None => client,
    }
    .connect()
    .expect("a login")
}

fn another_user() {
    let password = server().password();
    let text = format!(
        "CREATE USER IF NOT EXISTS {OTHER}@'%' IDENTIFIED BY '{password}'; GRANT ALL ON *.* TO {OTHER}@'%'"
    );
    server().sql(&text).expect("another user");
}

/// Of two backends, one is kept by a transaction, and the other one is idle and of another kind. Returns how long a
/// third client waits that needs a backend like the first.
fn wait(flifo: &Flifo, kept: Kind, idle: Kind) -> Duration {
    let [mut keeper, mut next] = [(); 2].map(|()| client(flifo, kept));
    ok(&mut keeper, "BEGIN");
    ok(&mut keeper, "SELECT 1");
    let mut idler = client(flifo, idle);
    ok(&mut idler, "SELECT SLEEP(0.01)");
    let begun = Instant::now();
    ok(&mut next, "SELECT 1");
    let waited = begun.elapsed();
    ok(&mut keeper, "COMMIT");
    waited
}

/// Where the clock finds room, that takes 0.7 s or more each time. What the machine does beside is not each time.
const BY_THE_CLOCK: Duration = Duration::from_millis(500);

#[test]
fn room_is_made_at_once_whatever_the_kind_of_the_backend_that_is_idle() {
    server().sql("CREATE DATABASE few_backends").expect("a schema");
    another_user();
    for workers in 1..=3 {
        let flifo = flifo(workers, 2);
        for kept in KINDS {
            for idle in KINDS {
                let mut waits = Vec::new();
                while waits.iter().all(|it| *it >= BY_THE_CLOCK) {
                    waits.push(wait(&flifo, kept, idle));
                    assert!(
                        waits.len() < 8,
                        "{workers} workers, {kept:?} kept, {idle:?} idle: {waits:?}"
                    );
                }
            }
        }
        let (status, log) = flifo.stop();
        assert!(status.success() && !log.contains("panicked"), "{log}");
    }
}

/// The workers share three backends, which are too few for each to have one: none of them starves.
#[test]
fn clients_of_all_workers_come_forward_evenly() {
    let server = PrivateServer::builder().start().expect("a private server");
    let (name, password) = (PrivateServer::USER, server.password());
    for (work, backends) in [(Work::Statements, 1), (Work::Transactions, 3)] {
        let flifo = Flifo::start(&format!(
            "workers = 4\n[server]\naddress = \"{}\"\nconnections_max = {backends}\n\
             [[users]]\nname = \"{name}\"\npassword = \"{password}\"\n",
            server.socket().display()
        ));
        let served = serve(flifo.port(), (name, password), 100, work, Duration::from_secs(2));
        let jain = served.jain();
        assert!(jain >= 0.9, "{}: Jain {jain:.3}, {:?}", work.name(), served.counts);
        assert_eq!(served.errors, 0);
        let (status, log) = flifo.stop();
        assert!(status.success() && !log.contains("panicked"), "{log}");
        assert!(!log.contains("backends_handed_over=0 "), "{log}");
    }
}

/// How long a server on a busy machine may take to notice that connections were closed.
const NOTICED: Duration = Duration::from_secs(20);

/// The server has no connection left, and Flifo has ten that it does not need now.
#[test]
fn idle_backends_give_way_where_the_server_takes_no_more() {
    let server = PrivateServer::builder().start().expect("a private server");
    let (name, password) = (PrivateServer::USER, server.password());
    let rights = ["few_backends_pooled", "few_backends_pass_through"].map(|name| {
        format!(
            "CREATE USER {name}@'%' IDENTIFIED BY '{password}'; GRANT SELECT ON *.* TO {name}@'%';"
        )
    });
    server.sql(&rights.concat()).expect("users");
    for workers in [1, 2] {
        server.sql("SET GLOBAL max_connections = 1000").expect("room");
        let flifo = Flifo::start(&format!(
            "workers = {workers}\n[server]\naddress = \"127.0.0.1:{}\"\nconnections_max = 100\nlimit = 100\n\
             [[users]]\nname = \"{name}\"\npassword = \"{password}\"\n\
             [[users]]\nname = \"few_backends_pooled\"\npassword = \"{password}\"\n",
            server.port(),
        ));
        let login = |name| {
            let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: flifo.port() };
            Client::builder(address, name, password).connect()
        };
        // Each in a transaction, so that each has a backend.
        let mut crowd: Vec<_> = (0..12).map(|_| login(name).expect("a login")).collect();
        for text in ["BEGIN", "SELECT 1", "COMMIT"] {
            for client in &mut crowd {
                ok(client, text);
            }
        }
        server.sql("SET GLOBAL max_connections = 10").expect("no room");
        let mut other = login("few_backends_pooled").expect("a login");
        ok(&mut other, "SELECT 2");
        // The server may refuse it only after its proof, which is good for one connection: an idle backend gives way,
        // and the next try finds room as soon as the server has noticed. Without that, no try would ever find room.
        let begun = Instant::now();
        let mut pass_through = login("few_backends_pass_through");
        while pass_through.is_err() && begun.elapsed() < NOTICED {
            std::thread::sleep(Duration::from_millis(10));
            pass_through = login("few_backends_pass_through");
        }
        ok(&mut pass_through.expect("a login"), "SELECT 3");
        ok(&mut crowd[0], "SELECT 4");
        let (status, log) = flifo.stop();
        assert!(status.success() && !log.contains("panicked"), "{log}");
    }
}

/// Clients of one user keep as many backends as they get; another user is served.
#[test]
fn one_users_transactions_leave_backends_to_others() {
    another_user();
    let flifo = flifo(2, 16);
    let mut kept: Vec<_> = (0..14).map(|_| client(&flifo, PLAIN)).collect();
    for client in &mut kept {
        ok(client, "BEGIN");
        ok(client, "SELECT 1");
    }
    // Two more wait: what is left is not for them.
    std::thread::scope(|scope| {
        let waiting = [0, 1].map(|_| {
            let mut client = client(&flifo, PLAIN);
            scope.spawn(move || ok(&mut client, "SELECT 2"))
        });
        for _ in 0..20 {
            assert_eq!(ok(&mut client(&flifo, Kind { user: OTHER, ..PLAIN }), "SELECT 3"), "3");
        }
        assert!(waiting.iter().all(|it| !it.is_finished()));
        drop(kept);
        for waiting in waiting {
            assert_eq!(waiting.join().expect("an answer"), "2");
        }
    });
}
