//! Backends under load: sysbench shares them in both of its modes, with prepared statements and in texts; and clients
//! that keep theirs take none from the clients behind them.
//!
//! Judges by what Flifo counts. Speed is not looked at.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use backend::Address;
use bench::programs::SYSBENCH;
use testkit::client::Client;
use testkit::flifo::Flifo;
use testkit::overdue::Over;
use wire::Capabilities;

use crate::shared::{Shared, USER, fails, ok, server};

/// Workloads with and without transactions of several statements.
const WORKLOADS: [&str; 7] = [
    "oltp_read_write",
    "oltp_read_only",
    "oltp_write_only",
    "oltp_point_select",
    "oltp_update_index",
    "oltp_insert",
    "select_random_ranges",
];

fn sysbench(port: u16, schema: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(SYSBENCH.find().expect("sysbench is installed"));
    command.args(["--db-driver=mysql", "--mysql-host=127.0.0.1", "--table-size=100"]);
    command.arg(format!("--mysql-port={port}")).arg(format!("--mysql-user={USER}"));
    command.arg(format!("--mysql-password={}", server().password()));
    let output = command.arg(format!("--mysql-db={schema}")).args(arguments).output();
    let output = output.expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}{complaint}");
    said
}

fn pins_nothing(schema: &str, mode: &str) {
    let shared = Shared::start(schema);
    sysbench(server().port(), schema, &["oltp_read_write", "prepare"]);
    for workload in WORKLOADS {
        let arguments = [workload, mode, "--threads=4", "--events=60", "--time=60", "run"];
        let said = sysbench(shared.flifo.port(), schema, &arguments);
        assert!(said.contains("total number of events:              60"), "{workload}: {said}");
    }
    assert!(shared.is_free());
    let counted = shared.end();
    assert_eq!(counted("pins."), 0);
    assert!(counted("statements") > 60 * 7);
    // With four clients on it, so a backend is given back after each transaction.
    assert_eq!(
        counted("backends_opened"),
        2,
        "sysbench's backend connection, and that of the last look"
    );
}

#[test]
fn sysbench_with_prepared_statements_pins_nothing() {
    pins_nothing("load_prepared", "--db-ps-mode=auto");
}

#[test]
fn sysbench_in_texts_pins_nothing() {
    pins_nothing("load_texts", "--db-ps-mode=disable");
}

/// Two backends; one of them is kept by a transaction at rest, and serves only clients that may send files. The other
/// one is busy with a client that may not.
#[test]
fn who_needs_a_backend_like_one_that_is_kept_gets_the_place_of_another() {
    let (port, password) = (server().port(), server().password());
    server().sql("CREATE DATABASE load_kept").expect("a schema");
    server().sql("CREATE TABLE load_kept.t (a INT)").expect("a table");
    let flifo = Flifo::start(&format!(
        "workers = 1\n[server]\naddress = \"127.0.0.1:{port}\"\nconnections_max = 2\n[limits]\nwait = \"10s\"\n\
         [[users]]\nname = \"{USER}\"\npassword = \"{password}\"\n"
    ));
    let client = |capabilities| {
        let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: flifo.port() };
        let client = Client::builder(address, USER, password).schema("load_kept");
        client.with(capabilities).connect().expect("a login")
    };
    let mut keeper = client(Capabilities::LOCAL_FILES);
    ok(&mut keeper, "BEGIN");
    ok(&mut keeper, "INSERT INTO t VALUES (1)");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _over = Over(&is_over);
        let busy = scope.spawn(|| {
            let mut busy = client(Capabilities::default());
            while !is_over.load(Relaxed) {
                ok(&mut busy, "SELECT COUNT(*) FROM t");
            }
        });
        for _ in 0..2 {
            // It is refused with 1637 if no other backend gives way.
            let mut next = client(Capabilities::LOCAL_FILES);
            assert_eq!(ok(&mut next, "SELECT COUNT(*) FROM t"), "0");
        }
        is_over.store(true, Relaxed);
        busy.join().expect("it was served, too");
    });
    ok(&mut keeper, "COMMIT");
    assert_eq!(ok(&mut keeper, "SELECT COUNT(*) FROM t"), "1");
    drop(keeper);
    let (status, log) = flifo.stop();
    assert!(status.success() && !log.contains("panicked"), "{log}");
}

/// Messages keep the backend of a client that hardly ever rests; a client that waits for the backend gets it at a
/// statement's end.
#[test]
fn diagnostics_of_a_busy_client_keep_no_other_out() {
    let shared = Shared::start("load_messages");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _over = Over(&is_over);
        let busy = scope.spawn(|| {
            let mut busy = shared.client();
            while !is_over.load(Relaxed) {
                assert_eq!(fails(&mut busy, "SELECT nothing"), 1054);
                for _ in 0..20 {
                    // Without a table, so that the messages stay.
                    ok(&mut busy, "SELECT SLEEP(0.05)");
                }
                assert!(ok(&mut busy, "SHOW WARNINGS").contains("1054"), "its own");
            }
        });
        for _ in 0..5 {
            assert!(shared.is_free());
        }
        is_over.store(true, Relaxed);
        busy.join().expect("it was served, too");
    });
    assert_eq!(
        shared.end()("pins."),
        0,
        "messages are no reason to keep a backend connection for good"
    );
}
