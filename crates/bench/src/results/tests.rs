//! The form of the file, by an example; and what figures are made of rounds.

use super::*;

/// A short run of two targets, as it is written.
const EXAMPLE: &str = include_str!("example.json");

fn example() -> Results {
    serde_json::from_str(EXAMPLE).expect("the example is of this format")
}

#[test]
fn a_file_survives_being_read_and_written() {
    let results = example();
    assert_eq!(results.format, FORMAT);
    let again = serde_json::to_string(&results).expect("writes");
    assert_eq!(serde_json::from_str::<Results>(&again).expect("reads"), results);
}

#[test]
fn the_example_shows_every_field() {
    let written = serde_json::to_value(example()).expect("writes");
    let read: serde_json::Value = serde_json::from_str(EXAMPLE).expect("is JSON");
    assert_eq!(written, read);
}

#[test]
fn rounds_that_were_repeated_or_cut_do_not_count() {
    let mut results = example();
    let cell = &mut results.cells[0];
    let all = cell.spread(Measure::StatementsPerSecond).expect("has rounds");
    assert!(all.low <= all.median && all.median <= all.high);
    for (standing, counts) in [
        (Standing::Repeated, false),
        (Standing::Cut, false),
        (Standing::Kept, true),
        (Standing::KeptThoughDisturbed, true),
    ] {
        cell.rounds.truncate(1);
        cell.rounds[0].standing = standing;
        assert_eq!(cell.spread(Measure::P95Ms).is_some(), counts, "{standing:?}");
    }
}

#[test]
fn quantiles_lie_between_the_ends_of_their_bucket() {
    let latency = Latency { buckets: vec![(0.64, 10), (1.28, 90)], ..Latency::default() };
    let at = |share| latency.quantile_ms(share).expect("has some");
    assert!((at(0.05) - 0.635).abs() < 1e-9 && (at(0.1) - 0.64).abs() < 1e-9);
    assert!((at(0.55) - 1.27).abs() < 1e-9 && (at(1.0) - 1.28).abs() < 1e-9);
    assert_eq!(Latency::default().quantile_ms(0.5), None);
}

#[test]
fn a_spread_has_its_median_between_its_ends() {
    let want = |median, low, high| Some(Spread { median, low, high });
    assert_eq!(Spread::of([]), None);
    assert_eq!(Spread::of([3.0]), want(3.0, 3.0, 3.0));
    assert_eq!(Spread::of([3.0, 1.0]), want(2.0, 1.0, 3.0));
    assert_eq!(Spread::of([9.0, 1.0, 2.0]), want(2.0, 1.0, 9.0));
}
