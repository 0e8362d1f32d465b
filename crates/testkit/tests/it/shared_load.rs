//! sysbench shares links in both of its ways to speak: with prepared statements, and in texts.
//!
//! Judges by what Flifo counts. Speed is not looked at.

use std::process::Command;

use bench::programs::SYSBENCH;

use crate::shared::{Shared, USER, server};

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
    // With four clients on it, so a link is given back after each transaction.
    assert_eq!(counted("links_opened"), 2, "sysbench's link, and that of the last look");
}

#[test]
fn sysbench_with_prepared_statements_pins_nothing() {
    pins_nothing("load_prepared", "--db-ps-mode=auto");
}

#[test]
fn sysbench_in_texts_pins_nothing() {
    pins_nothing("load_texts", "--db-ps-mode=disable");
}
