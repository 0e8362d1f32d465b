//! Replies that are kept while what they read is written beside Flifo: none is older than `cache.binlog_lag_max`, and a
//! client that connects reads all that was written before. More reads: `cargo xtask linear --cache`.

use std::time::Duration;

use testkit::kept_reads::{Disaster, Extent, run};

const EXTENT: Extent = Extent {
    reads: 10_000,
    hits: 300,
    writes: 20,
    readers: 8,
    writers: 2,
    pause: Duration::from_millis(200),
    bound: Duration::from_millis(500),
    disasters: &[],
    is_followed: true,
};

#[test]
fn no_reply_is_older_than_the_bound_through_kills_of_the_server() {
    let outcome = run(
        testkit::flifo::program(),
        Extent { disasters: &[Disaster::Kill, Disaster::Kill], ..EXTENT },
        1,
    );
    assert!(outcome.violations.is_empty(), "{outcome:#?}");
    assert!(outcome.hits >= EXTENT.hits, "{outcome:?}");
    assert!(outcome.beside >= EXTENT.writes && outcome.through >= EXTENT.writes, "{outcome:?}");
}

#[test]
fn no_reply_has_rows_of_before_a_server_was_restored() {
    let extent = Extent { disasters: &[Disaster::Restore, Disaster::Restore], ..EXTENT };
    let outcome = run(testkit::flifo::program(), extent, 3);
    assert!(outcome.violations.is_empty(), "{outcome:#?}");
    assert!(outcome.hits >= EXTENT.hits, "{outcome:?}");
}

#[test]
fn no_reply_has_rows_of_a_server_that_was_replaced() {
    let extent = Extent { disasters: &[Disaster::FailOver], ..EXTENT };
    let outcome = run(testkit::flifo::program(), extent, 4);
    assert!(outcome.violations.is_empty(), "{outcome:#?}");
    assert!(outcome.hits >= EXTENT.hits, "{outcome:?}");
}

#[test]
fn what_is_written_beside_a_flifo_that_does_not_follow_is_found_missing() {
    let outcome = run(
        testkit::flifo::program(),
        Extent { is_followed: false, pause: Duration::from_secs(1), ..EXTENT },
        2,
    );
    assert!(!outcome.violations.is_empty(), "{outcome:#?}");
}
