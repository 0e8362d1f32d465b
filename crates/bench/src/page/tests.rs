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
fn the_page_begins_with_what_was_gained_and_says_where_it_ran() {
    let mut results = example();
    let page = of_bench(&results);
    let at = |page: &str, part: &str| page.find(part).expect(part);
    let sentence = at(&page, "<p>With 64 clients, flifo&#39;s throughput as a multiple of");
    assert!(sentence < at(&page, "class=\"notice\""), "the sentence comes first");
    assert!(page.contains("<h2>beside-clients, oltp_point_select</h2>"));
    assert!(page.contains("stays on CPUs 0-1: Operation not permitted."));
    assert!(page.contains("Topology beside-clients: server on CPUs 1, proxy on 0, clients on 0"));
    assert!(!page.contains("<th scope=\"col\">load</th>"), "one topology has nothing beside it");
    let mut second = results.topologies[0].clone();
    second.name = "beside-server".into();
    results.topologies.push(second);
    let page = of_bench(&results);
    assert!(at(&page, "<th scope=\"col\">beside-server</th>") < at(&page, "class=\"notice\""));
    // A file of a run in which nothing was bound.
    results.topologies.clear();
    results.cells.iter_mut().for_each(|cell| cell.topology.clear());
    results.ratios.iter_mut().for_each(|ratio| ratio.topology.clear());
    let page = of_bench(&results);
    assert!(!page.contains("Where it ran") && !page.contains("<th scope=\"col\">topology</th>"));
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
