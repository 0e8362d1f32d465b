//! The story on a small scale: real server, real sysbench, HAProxy as the proxy.

use super::*;

fn options() -> DemoOptions {
    DemoOptions {
        seconds: 1,
        rounds: 1,
        clients: vec![4],
        workloads: vec!["oltp_read_write".into()],
        tables: 1,
        rows: 1000,
        targets: vec![TargetKind::Direct, TargetKind::Haproxy],
        ..DemoOptions::default()
    }
}

#[test]
fn a_small_comparison_fills_its_report() {
    let report = compare(&options(), &Interrupt::never()).expect("runs");
    assert_eq!(report.failures(), 0);
    assert_eq!(report.groups.len(), 1);
    for series in report.groups.iter().flat_map(|group| &group.series) {
        let [sample] = &series.samples[..] else { panic!("one round") };
        assert!(0.0 < sample.statements_per_second && 0.0 < sample.p95_ms, "{sample:?}");
        assert!(0.0 < sample.server.cpu_us() && 0.0 < sample.clients_cpu_us, "{sample:?}");
        assert!(0.0 < sample.server.switches(), "{sample:?}");
        match (series.target, sample.proxy) {
            (TargetKind::Haproxy, Some(proxy)) => {
                assert!(0.0 < proxy.cpu_us() && 0.0 < proxy.switches(), "{proxy:?}");
            }
            (_, proxy) => assert_eq!(proxy, None, "{:?}", series.target),
        }
    }
}

#[test]
fn a_proxy_that_cannot_start_ends_the_story() {
    let mut options = options();
    options.targets = vec![TargetKind::Flifo];
    options.flifo = "/bin/false".into();
    let error = compare(&options, &Interrupt::never()).expect_err("no proxy");
    assert!(error.to_string().contains("flifo ended while it started"), "{error}");
}

#[test]
fn a_load_that_sysbench_refuses_is_reported_not_fatal() {
    let mut options = options();
    options.workloads = vec!["no_such_workload".into()];
    let report = compare(&options, &Interrupt::never()).expect("goes on");
    assert_eq!(report.failures(), 2);
    let failure = &report.groups[0].series[0].failures[0];
    assert!(failure.contains("no_such_workload"), "{failure}");
}

#[test]
fn senseless_options_are_refused_by_name() {
    let refusal = |change: fn(&mut DemoOptions)| {
        let mut options = options();
        change(&mut options);
        options.check().expect_err("senseless").to_string()
    };
    assert!(refusal(|o| o.seconds = 0).contains("seconds"));
    assert!(refusal(|o| o.clients = vec![]).contains("clients"));
    assert!(refusal(|o| o.clients = vec![8, 0]).contains("clients"));
    assert!(refusal(|o| o.clients = vec![20_000]).contains("20000 clients are too many"));
    assert!(refusal(|o| o.rows = 10).contains("rows"));
    assert!(refusal(|o| o.workloads = vec![]).contains("workload"));
    assert!(refusal(|o| o.targets = vec![TargetKind::Direct; 2]).contains("direct is given twice"));
    assert!(options().check().is_ok());
}
