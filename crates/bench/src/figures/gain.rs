//! What a target gained over the first one, and how certain that is: in a sentence, and in one table for all topologies.
//!
//! Judges a ratio by its interval alone. Invariant: a ratio whose interval has 1 within it is *unclear*: the run has seen
//! neither a difference nor that there is none.

use crate::results::{Cell, LoadKey, Measure, Over, Ratio, Results};

/// What an interval says of a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    Better,
    Worse,
    Unclear,
    /// There is no interval.
    TooFew,
}

pub fn judge(ratio: &Ratio) -> Judgement {
    let Some(interval) = &ratio.interval else { return Judgement::TooFew };
    let (is_more, is_less) = (1.0 < interval.low, interval.high < 1.0);
    match (is_more, is_less, ratio.measure.more_is_better()) {
        (true, _, true) | (_, true, false) => Judgement::Better,
        (true, _, false) | (_, true, true) => Judgement::Worse,
        (false, false, _) => Judgement::Unclear,
    }
}

impl Judgement {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Unclear => "unclear",
            Self::TooFew => "too few rounds",
        }
    }
}

/// What Flifo, or else the second target, gained with the most clients that were measured. `None` where there is nothing
/// to compare.
pub fn sentence(results: &Results) -> Option<String> {
    let [base, others @ ..] = results.targets.as_slice() else { return None };
    let flifo = others.iter().find(|target| target.name == "flifo");
    let (base, target) = (&base.name, &flifo.or_else(|| others.first())?.name);
    let cells = || results.cells.iter().filter(|cell| cell.target == *target);
    let clients = cells().map(|cell| cell.clients).max()?;
    let cells: Vec<&Cell> = cells().filter(|cell| cell.clients == clients).collect();
    let ratios: Vec<Option<&Ratio>> = cells.iter().map(|cell| throughput(results, cell)).collect();
    let count =
        |wanted| ratios.iter().filter(|ratio| ratio.as_ref().map(|it| judge(it)) == wanted).count();
    let parts = [
        (count(Some(Judgement::Better)), "a gain in"),
        (count(Some(Judgement::Worse)), "a loss in"),
        (count(Some(Judgement::Unclear)), "unclear in"),
        (count(Some(Judgement::TooFew)), "of too few rounds to tell in"),
        (count(None), "without figures in"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count != 0);
    let parts: Vec<String> = parts.map(|(count, words)| format!("{words} {count}")).collect();
    Some(format!(
        "With {clients} clients, {target}'s throughput as a multiple of {base}'s is {} of {} comparisons: {}{}.",
        in_a_row(&parts),
        cells.len(),
        each(&cells, &ratios),
        certainty(&ratios)
    ))
}

/// Every ratio with its interval, topology by topology.
fn each(cells: &[&Cell], ratios: &[Option<&Ratio>]) -> String {
    let mut text = String::new();
    let mut last = None;
    for (cell, ratio) in cells.iter().zip(ratios) {
        match last {
            Some(topology) if topology == &cell.topology => text.push_str(", "),
            _ => {
                text.push_str(if last.is_some() { "; " } else { "" });
                if !cell.topology.is_empty() {
                    text.push_str(&format!("{}: ", cell.topology));
                }
            }
        }
        last = Some(&cell.topology);
        let shown = ratio.map_or_else(|| "no figures".to_owned(), shown);
        text.push_str(&format!("{} {shown}", cell.workload));
    }
    text
}

/// What the brackets mean.
fn certainty(ratios: &[Option<&Ratio>]) -> String {
    let Some(interval) = ratios.iter().find_map(|ratio| ratio.as_ref()?.interval) else {
        return String::new();
    };
    let scope = match interval.over {
        Over::Rounds => "for servers and proxies as they were started this once",
        Over::Starts => "for any start of servers and proxies",
    };
    let percent = interval.confidence * 100.0;
    format!("; in brackets is where the true ratio lies with {percent:.0} % confidence, {scope}")
}

/// A ratio, where it may as well lie, and what that means if it is no gain.
pub fn shown(ratio: &Ratio) -> String {
    let middle = format!("{:.2}", ratio.middle);
    let word = match judge(ratio) {
        Judgement::Better => String::new(),
        other => format!(", {}", other.word()),
    };
    match &ratio.interval {
        Some(interval) => format!("{middle} ({:.2}–{:.2}{word})", interval.low, interval.high),
        None => format!("{middle} ({})", Judgement::TooFew.word()),
    }
}

/// A load, a target, and for each topology what it did.
pub struct GainRow {
    pub load: String,
    pub target: String,
    pub shown: Vec<String>,
}

/// All topologies beside each other: the first target's statements a second, and multiples of them.
pub fn rows(results: &Results) -> Vec<GainRow> {
    let names: Vec<&str> = results.topologies.iter().map(|it| it.name.as_str()).collect();
    let first = names.first().copied().unwrap_or_default();
    let of = |cell: &Cell| {
        let load = LoadKey { topology: "", ..cell.load() };
        let in_topology = |name: &&str| {
            let key = LoadKey { topology: name, ..load };
            let mut cells = results.cells.iter();
            let found = cells.find(|other| other.load() == key && other.target == cell.target);
            found.map_or_else(String::new, |found| in_one(results, found))
        };
        GainRow {
            load: load.to_string(),
            target: cell.target.clone(),
            shown: names.iter().map(in_topology).collect(),
        }
    };
    results.cells.iter().filter(|cell| cell.topology == first).map(of).collect()
}

fn in_one(results: &Results, cell: &Cell) -> String {
    if let Some(ratio) = throughput(results, cell) {
        return shown(ratio);
    }
    match cell.spread(Measure::StatementsPerSecond) {
        Some(rate) if results.targets.first().is_some_and(|it| it.name == cell.target) => {
            format!("{:.0}/s", rate.median)
        }
        _ => "no figures".to_owned(),
    }
}

fn throughput<'a>(results: &'a Results, cell: &Cell) -> Option<&'a Ratio> {
    results.ratios.iter().find(|ratio| {
        (ratio.load(), &ratio.target) == (cell.load(), &cell.target)
            && ratio.measure == Measure::StatementsPerSecond
    })
}

/// "a", "a and b", "a, b and c".
fn in_a_row(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Interval;

    fn example() -> Results {
        serde_json::from_str(include_str!("../results/example.json")).expect("is one")
    }

    /// The middle of a ratio, and the ends of its interval; either may be missing.
    type Planted = Option<(f64, Option<(f64, f64)>)>;

    /// The example with two loads in two topologies, and these ratios.
    fn with(ratios: [Planted; 4]) -> Results {
        let mut results = example();
        let cell = |topology: &str, workload: &str, target: &str| Cell {
            topology: topology.into(),
            workload: workload.into(),
            target: target.into(),
            ..results.cells[0].clone()
        };
        let loads = [("near", "reads"), ("near", "writes"), ("far", "reads"), ("far", "writes")];
        let cells = loads.iter().flat_map(|(topology, workload)| {
            ["direct", "flifo"].map(|target| cell(topology, workload, target))
        });
        let cells: Vec<Cell> = cells.collect();
        let made = loads.iter().zip(ratios).filter_map(|((topology, workload), ratio)| {
            let (middle, ends) = ratio?;
            let interval = ends.map(|(low, high)| Interval {
                low,
                high,
                confidence: 0.95,
                over: Over::Rounds,
            });
            Some(Ratio {
                topology: (*topology).into(),
                workload: (*workload).into(),
                middle,
                interval,
                ..results.ratios[0].clone()
            })
        });
        results.ratios = made.collect();
        results.cells = cells;
        let topology = |name: &str| crate::results::Topology {
            name: name.into(),
            ..results.topologies[0].clone()
        };
        results.topologies = vec![topology("near"), topology("far")];
        results
    }

    #[test]
    fn the_sentence_says_what_was_gained_and_how_certain_that_is() {
        let sure = |middle, low, high| Some((middle, Some((low, high))));
        let (gain, loss, unclear) =
            (sure(2.0, 1.9, 2.1), sure(0.5, 0.4, 0.6), sure(1.05, 0.9, 1.2));
        for (ratios, want) in [
            (
                [gain, gain, gain, gain],
                "With 8 clients, flifo's throughput as a multiple of direct's is a gain in 4 of 4 comparisons: \
                 near: reads 2.00 (1.90–2.10), writes 2.00 (1.90–2.10); \
                 far: reads 2.00 (1.90–2.10), writes 2.00 (1.90–2.10); in brackets is where the true ratio lies \
                 with 95 % confidence, for servers and proxies as they were started this once.",
            ),
            (
                [gain, loss, unclear, Some((1.5, None))],
                "is a gain in 1, a loss in 1, unclear in 1 and of too few rounds to tell in 1 of 4 comparisons: \
                 near: reads 2.00 (1.90–2.10), writes 0.50 (0.40–0.60, worse); \
                 far: reads 1.05 (0.90–1.20, unclear), writes 1.50 (too few rounds); in brackets",
            ),
            ([sure(1.1, 1.0, 1.2), gain, gain, gain], "near: reads 1.10 (1.00–1.20, unclear)"),
            ([sure(0.9, 0.8, 1.0), gain, gain, gain], "near: reads 0.90 (0.80–1.00, unclear)"),
            (
                [None, gain, loss, None],
                "a loss in 1 and without figures in 2 of 4 comparisons: near: reads no figures",
            ),
            ([None; 4], "is without figures in 4 of 4 comparisons"),
        ] {
            let said = sentence(&with(ratios)).expect("says something");
            assert!(said.contains(want), "{want:?} is not in: {said}");
            assert!(said.ends_with('.') && !said.contains("alike"), "{said}");
            assert_eq!(said.matches(". ").count(), 0, "one sentence: {said}");
        }
    }

    #[test]
    fn where_nothing_is_compared_nothing_is_said() {
        let mut results = example();
        results.targets.truncate(1);
        assert_eq!(sentence(&results), None);
        results.targets.clear();
        assert_eq!(sentence(&results), None);
    }

    #[test]
    fn a_target_that_is_not_flifo_is_spoken_of_by_its_name_and_without_topologies() {
        let mut results = example();
        results.targets[1].name = "haproxy".into();
        for cell in &mut results.cells {
            cell.topology.clear();
            cell.target = cell.target.replace("flifo", "haproxy");
        }
        for ratio in &mut results.ratios {
            ratio.topology.clear();
            ratio.target = "haproxy".into();
        }
        let said = sentence(&results).expect("says something");
        let want = "With 64 clients, haproxy's throughput as a multiple of direct's is a gain in 1 of 1 comparisons: \
                    oltp_point_select 1.05 (1.03–1.06)";
        assert!(said.starts_with(want), "{said}");
    }

    #[test]
    fn topologies_stand_beside_each_other() {
        let gain = Some((2.0, Some((1.9, 2.1))));
        let rows = rows(&with([gain, None, Some((1.0, Some((0.9, 1.1)))), gain]));
        let of =
            |at: usize| (rows[at].load.as_str(), rows[at].target.as_str(), rows[at].shown.clone());
        assert_eq!(rows.len(), 4);
        assert_eq!(of(0), ("reads, 8 clients", "direct", vec!["60000/s".into(), "60000/s".into()]));
        let want = vec!["2.00 (1.90–2.10)".to_owned(), "1.00 (0.90–1.10, unclear)".to_owned()];
        assert_eq!(of(1), ("reads, 8 clients", "flifo", want));
        assert_eq!(of(3).2, ["no figures", "2.00 (1.90–2.10)"]);
    }

    #[test]
    fn a_ratio_is_judged_by_its_interval_and_its_sense() {
        let mut ratio = example().ratios[0].clone();
        for (measure, low, high, want) in [
            (Measure::StatementsPerSecond, 1.1, 1.2, Judgement::Better),
            (Measure::StatementsPerSecond, 0.8, 0.9, Judgement::Worse),
            (Measure::P99Ms, 0.8, 0.9, Judgement::Better),
            (Measure::P99Ms, 1.1, 1.2, Judgement::Worse),
            (Measure::P99Ms, 0.9, 1.1, Judgement::Unclear),
            (Measure::StatementsPerSecond, 1.0, 1.1, Judgement::Unclear),
            (Measure::StatementsPerSecond, 0.9, 1.0, Judgement::Unclear),
        ] {
            ratio.measure = measure;
            let interval = ratio.interval.as_mut().expect("has one");
            (interval.low, interval.high) = (low, high);
            assert_eq!(judge(&ratio), want, "{measure:?} {low}");
        }
        ratio.interval = None;
        assert_eq!(judge(&ratio), Judgement::TooFew);
    }
}
