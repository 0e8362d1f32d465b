//! Comparisons of the example with itself, changed by hand. What is found in noise is tested with
//! simulated runs, in the integration tests.

use super::*;
use crate::results::Standing;

fn example() -> Results {
    let mut results: Results =
        serde_json::from_str(include_str!("../results/example.json")).expect("reads");
    for cell in &mut results.cells {
        // Three starts whose rounds all count, one per cent apart.
        let mut round = cell.rounds[0].clone();
        round.standing = Standing::Kept;
        cell.failures.clear();
        cell.rounds = [(1, 0.99), (2, 1.0), (3, 1.01)]
            .map(|(start, factor)| {
                let mut round = round.clone();
                round.start = start;
                round.statements_per_second *= factor;
                round.latency.p50_ms *= factor;
                round
            })
            .to_vec();
    }
    results.ending = Ending::Complete;
    results
}

fn of(comparison: &Comparison, measure: Measure, verdict: Verdict) -> usize {
    let is_it = |it: &&Change| it.measure == measure && it.verdict == verdict;
    comparison.changes.iter().filter(is_it).count()
}

#[test]
fn a_run_does_not_differ_from_itself() {
    let results = example();
    let comparison = compare(&results, &results);
    assert!(!comparison.is_worse() && comparison.cautions.is_empty());
    assert!(comparison.text(Colours::Off).starts_with("Nothing changed beyond noise.\n"));
    let cells = results.cells.len();
    assert_eq!(of(&comparison, Measure::StatementsPerSecond, Verdict::Same), cells);
}

#[test]
fn a_change_is_named_with_its_sense() {
    let (old, mut new) = (example(), example());
    for round in &mut new.cells[0].rounds {
        round.statements_per_second *= 0.7;
        round.latency.p50_ms *= 0.6;
    }
    let comparison = compare(&old, &new);
    assert!(comparison.is_worse());
    assert_eq!(of(&comparison, Measure::StatementsPerSecond, Verdict::Worse), 1);
    assert_eq!(of(&comparison, Measure::P50Ms, Verdict::Better), 1);
    let text = comparison.text(Colours::Off);
    assert!(text.contains("throughput, statements a second"), "{text}");
    assert!(text.contains("-30.0 %") && text.contains("worse"), "{text}");
    assert!(text.contains("-40.0 %") && text.contains("better"), "{text}");
}

#[test]
fn small_changes_do_not_count_however_sure_they_are() {
    let (mut old, mut new) = (example(), example());
    for (results, value) in [(&mut old, 1000.0), (&mut new, 990.0)] {
        for round in results.cells.iter_mut().flat_map(|cell| &mut cell.rounds) {
            round.statements_per_second = value;
        }
    }
    assert!(!compare(&old, &new).is_worse());
    for round in new.cells.iter_mut().flat_map(|cell| &mut cell.rounds) {
        round.statements_per_second = 970.0;
    }
    assert!(compare(&old, &new).is_worse());
}

#[test]
fn few_starts_are_no_ground_for_a_verdict_however_many_rounds_they_have() {
    let (old, mut new) = (example(), example());
    for round in &mut new.cells[0].rounds {
        round.start = round.start.min(2);
        round.statements_per_second *= 0.1;
    }
    let rounds = new.cells[0].rounds.clone();
    new.cells[0].rounds.extend(rounds.into_iter().cycle().take(12));
    let comparison = compare(&old, &new);
    assert_eq!(of(&comparison, Measure::StatementsPerSecond, Verdict::Unknown), 1);
    let text = comparison.text(Colours::Off);
    assert!(text.contains("1 with too few to say"), "{text}");
    let want = "The new run started its servers and proxies only 2 times: a verdict takes 3";
    assert!(text.contains(want) && !text.contains("The old run"), "{text}");
}

#[test]
fn rounds_count_where_nothing_was_started_and_that_is_said() {
    let (mut old, new) = (example(), example());
    for round in old.cells.iter_mut().flat_map(|cell| &mut cell.rounds) {
        round.start = 0;
    }
    let comparison = compare(&old, &new);
    assert_eq!(comparison.changes[0].readings, (3, 3));
    assert_eq!(of(&comparison, Measure::StatementsPerSecond, Verdict::Unknown), 0);
    let text = comparison.text(Colours::Off);
    assert!(text.contains("The old run did not start direct, flifo: "), "{text}");
    assert!(!text.contains("The new run"), "{text}");
}

#[test]
fn what_makes_runs_hard_to_compare_is_said() {
    let (old, mut new) = (example(), example());
    new.machine.kernel = "7.0".into();
    new.settings.rows += 1;
    new.ending = Ending::Interrupted;
    new.cells[0].clients = 4096;
    let text = compare(&old, &new).text(Colours::Off);
    for part in ["different machines", "not asked for the same: rows", "new run did not come"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(text.contains("4096 clients, direct, only in the new file"), "{text}");
    assert!(text.contains("8 clients, direct, only in the old file"), "{text}");
}
