//! The report's parser on recorded output, and the course of a run on scripts in sysbench's place.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

/// Recorded from sysbench 1.0.20: 64 clients, `oltp_read_write`. The reconnect was added by hand.
const READ_WRITE: &str = "\
SQL statistics:
    queries performed:
        read:                            34090
        write:                           8170
        other:                           4313
        total:                           46573
    transactions:                        1878   (918.17 per sec.)
    queries:                             46573  (22770.00 per sec.)
    ignored errors:                      557    (272.32 per sec.)
    reconnects:                          1      (0.50 per sec.)

General statistics:
    total time:                          2.0449s
    total number of events:              1878

Latency (ms):
         min:                                    1.68
         avg:                                   68.32
         max:                                  402.50
         95th percentile:                      170.48
         sum:                               128309.38

Threads fairness:
    events (avg/stddev):           29.3438/4.20
    execution time (avg/stddev):   2.0048/0.02
";

fn parse_text(text: &str) -> Result<Report> {
    parse(&text.lines().map(str::to_owned).collect::<Vec<_>>())
}

#[test]
fn a_recorded_report_is_understood() {
    let want = Report {
        statements: 46_573,
        statements_per_second: 22_770.0,
        transactions_per_second: 918.17,
        p95_ms: 170.48,
        errors_per_second: 272.32 + 0.5,
    };
    assert_eq!(parse_text(READ_WRITE).expect("understood"), want);
}

#[test]
fn a_report_without_a_line_names_it() {
    for line in ["transactions:", "queries:", "ignored errors:", "reconnects:", "95th percentile:"]
    {
        let text: String =
            READ_WRITE.lines().filter(|l| !l.contains(line)).map(|l| format!("{l}\n")).collect();
        let error = format!("{:#}", parse_text(&text).expect_err("incomplete"));
        assert!(error.contains(line), "{error}");
    }
}

#[test]
fn a_report_with_a_strange_number_quotes_it() {
    for (was, is) in [("22770.00", "nan"), ("(22770.00 per sec.)", ""), ("170.48", "fast")] {
        let error = parse_text(&READ_WRITE.replace(was, is)).expect_err("not a number");
        assert!(error.to_string().contains("where a number belongs"), "{error}");
    }
}

/// A shell script in sysbench's place.
fn script(text: &str) -> (tempfile::TempDir, Sysbench) {
    let folder = tempfile::tempdir().expect("makes");
    let program = folder.path().join("sysbench");
    fs::write(&program, format!("#!/bin/sh\n{text}\n")).expect("writes");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("sets");
    let tables = Tables { count: 2, rows: 1000 };
    (folder, Sysbench { program, password: "secret".into(), tables })
}

fn run(sysbench: &Sysbench) -> (Result<Report>, Vec<Moment>) {
    let load = Load { workload: "oltp_read_write", clients: 64, seconds: 1 };
    let mut moments = Vec::new();
    let address = Address::Port(3306);
    let report = sysbench.run(&load, &address, &Interrupt::never(), |moment, pid| {
        assert_ne!(pid, std::process::id());
        moments.push(moment);
        Ok(())
    });
    (report, moments)
}

#[test]
fn a_run_tells_its_moments_and_its_report() {
    let text = format!("echo Threads started!; cat <<END\n{READ_WRITE}\nEND");
    let (_folder, sysbench) = script(&text);
    let (report, moments) = run(&sysbench);
    assert_eq!(report.expect("succeeds").statements, 46_573);
    assert_eq!(moments, [Moment::Begin, Moment::End]);
}

#[test]
fn a_failed_run_quotes_the_first_complaints() {
    let (_folder, sysbench) = script(
        "for n in 1 2 3 4 5; do echo \"FATAL: error 1040: Too many connections $n\" >&2; done\n\
         exit 1",
    );
    let (report, moments) = run(&sysbench);
    let error = report.expect_err("fails").to_string();
    assert!(error.contains("Too many connections 3"), "{error}");
    assert!(!error.contains("Too many connections 4"), "{error}");
    assert_eq!(moments, []);
}

#[test]
fn a_complaint_fails_a_run_that_reports_all_the_same() {
    let text = format!("echo 'FATAL: lost' >&2; sleep 0.1; cat <<END\n{READ_WRITE}\nEND");
    let (_folder, sysbench) = script(&text);
    let error = run(&sysbench).0.expect_err("fails").to_string();
    assert!(error.contains("FATAL: lost"), "{error}");
}

#[test]
fn the_address_decides_between_port_and_socket() {
    let (_folder, sysbench) = script("");
    let words = |address| {
        let command = sysbench.command("oltp_point_select", &address);
        command.get_args().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    let port = words(Address::Port(3307));
    assert!(port.contains(&"--mysql-port=3307".into()) && port[0] == "oltp_point_select");
    let socket = words(Address::Socket("/a/b.sock".into()));
    assert!(socket.contains(&"--mysql-socket=/a/b.sock".into()), "{socket:?}");
    assert!(!socket.iter().any(|word| word.starts_with("--mysql-port")));
}
