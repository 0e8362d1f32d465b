//! The table and its notes, from samples made up so that each median is known.

use super::super::measure::{Cost, Disturbance};
use super::*;

fn sample(statements: f64, p95: f64, proxy: Option<f64>) -> Sample {
    let cost = |us| Cost { user_us: us / 4.0, system_us: us * 0.75, ..Cost::default() };
    Sample {
        statements_per_second: statements,
        transactions_per_second: statements / 20.0,
        p95_ms: p95,
        errors_per_second: 0.0,
        server: Cost { voluntary_switches: 1.5, ..cost(12.0) },
        proxy: proxy.map(cost),
        clients_cpu_us: 20.0,
        disturbance: Disturbance::default(),
    }
}

fn report() -> Report {
    let direct = Series {
        target: TargetKind::Direct,
        samples: vec![sample(50_000.0, 1.0, None), sample(40_000.0, 3.0, None)],
        failures: vec![],
    };
    let rates = [40_000.0, 36_000.0, 90_000.0];
    let flifo = Series {
        target: TargetKind::Flifo,
        samples: rates.map(|rate| sample(rate, 2.5, Some(8.0))).to_vec(),
        failures: vec![],
    };
    let workload = "oltp_read_write".to_owned();
    Report {
        machine: Machine { cpus: 2, kernel: "6.1".into() },
        programs: vec![],
        seconds: 3,
        rounds: 3,
        tables: 4,
        rows: 100_000,
        groups: vec![Group { workload, clients: 64, series: vec![direct, flifo] }],
    }
}

const TABLE: &str = "
  target  stmts/s  spread  vs direct  trans/s  p95 ms  server µs  proxy µs  switches  errors/s
oltp_read_write, 64 clients
  direct   45 000    22 %               2 250    2.00       12.0                1.50       0.0
  flifo    40 000   135 %       0.89    2 000    2.50       12.0       8.0      1.50       0.0

";

#[test]
fn the_table_shows_medians_side_by_side() {
    let text = report().text(Colours::Off);
    assert_eq!(text.lines().take(5).collect::<Vec<_>>(), TABLE.lines().skip(1).collect::<Vec<_>>());
    let words = text.replace('\n', " ");
    assert!(words.contains("the median of 3 runs of 3 s"), "{words}");
    assert!(words.contains("sysbench (20 µs a statement)"), "{words}");
    assert!(words.contains("4 tables of 100 000 rows"), "{words}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn disturbed_and_failed_runs_are_marked() {
    let mut report = report();
    let [direct, flifo] = &mut report.groups[0].series[..] else { panic!("two targets") };
    direct.samples[0].disturbance = Disturbance { steal: 0.2, foreign: 0.0 };
    flifo.failures.push("sysbench failed: FATAL: gone".into());
    let text = report.text(Colours::Off);
    assert!(text.contains("\n  direct*  "), "{text}");
    assert!(text.contains("\n  flifo!   "), "{text}");
    assert!(text.contains("* In 1 of 5 runs, others had more than"), "{text}");
    let failure = "! oltp_read_write, 64 clients, flifo: 1 of 4 runs failed, the first with: \
                   sysbench failed: FATAL: gone";
    assert!(text.contains(failure), "{text}");
    assert_eq!(report.failures(), 1);
}

#[test]
fn a_target_that_always_failed_has_no_numbers() {
    let mut report = report();
    report.groups[0].series[0].samples.clear();
    report.groups[0].series[0].failures.push("no".into());
    let text = report.text(Colours::Off);
    assert!(text.lines().any(|line| line.trim_end() == "  direct!   failed"), "{text}");
    assert!(text.contains("  flifo     40 000   135 %               2 000"), "{text}");
}

#[test]
fn samples_are_all_in_the_json() {
    let json = serde_json::to_value(report()).expect("serialises");
    let flifo = &json["groups"][0]["series"][1];
    assert_eq!(flifo["target"], "flifo");
    assert_eq!(flifo["samples"].as_array().map(Vec::len), Some(3));
    assert_eq!(flifo["samples"][0]["proxy"]["system_us"], 6.0);
}

#[test]
fn medians_of_even_counts_lie_between() {
    assert_eq!(median(vec![]), None);
    assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
}

#[test]
fn numbers_are_grouped_by_threes() {
    let grouped = [0.4, 12.0, 999.5, 1234.0, 1_234_567.0].map(grouped);
    assert_eq!(grouped, ["0", "12", "1 000", "1 234", "1 234 567"]);
}
