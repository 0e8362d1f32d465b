//! The page as a whole: complete in itself, and safe whatever names it is given.

use super::*;
use crate::results::Results;

fn example() -> Results {
    serde_json::from_str(include_str!("../results/example.json")).expect("reads")
}

#[test]
fn the_page_has_its_charts_tables_and_cautions() {
    let page = of_bench(&example());
    for part in [
        "Throughput over clients",
        "Latency over clients",
        "Latency distribution, 8 clients",
        "CPU time a statement",
        "Time line, 8 clients",
        "All figures",
        "The run is not complete: 1 of 12 turns failed.",
        "class=\"point c1\"",
        "class=\"piece striped c0\"",
    ] {
        assert!(page.contains(part), "{part} is missing");
    }
    assert_eq!(page.matches("<svg ").count(), page.matches("</figure>").count());
}

#[test]
fn the_page_fetches_nothing_and_runs_nothing() {
    let page = of_bench(&example());
    for foreign in ["http://", "https://", "<script", "src=", "@import", "url("] {
        assert!(!page.contains(foreign), "{foreign}");
    }
}

#[test]
fn names_from_a_file_cannot_break_out() {
    let mut results = example();
    let bad = "</title><script>alert(1)</script>";
    results.targets[0].name = bad.into();
    for cell in &mut results.cells {
        cell.target = bad.into();
        cell.workload = bad.into();
    }
    results.command.push(bad.into());
    results.notes.push(bad.into());
    let page = of_bench(&results);
    assert!(!page.contains("<script") && page.matches("</title>").count() >= 1);
}

#[test]
fn a_run_of_nothing_has_a_page_too() {
    let mut results = example();
    results.cells.clear();
    results.ratios.clear();
    results.targets.clear();
    assert!(of_bench(&results).contains("Load on nothing"));
    results = example();
    results.cells.iter_mut().for_each(|cell| cell.rounds.clear());
    assert!(of_bench(&results).contains("All figures"));
}
