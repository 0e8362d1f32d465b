//! The results as a table for people, at a terminal or in a pipe.
//!
//! Judges nothing. Invariant: a cell that failed or that others disturbed is marked, and the mark is
//! explained below the table.

use super::{gain, places, units};
use crate::date;
use crate::results::{Cell, Disturbance, Ending, Measure, Ratio, Results, Round, Standing};
use crate::table::{self, Colours, Style, Table, paint};

/// The table and what there is to say about it.
pub fn text(results: &Results, colours: Colours) -> String {
    let mut text = String::new();
    if 1 < results.topologies.len() {
        text.push_str(&side_by_side(results).render(colours));
        text.push('\n');
    }
    text.push_str(&table(results).render(colours));
    text.push_str(&places::text(results, colours));
    text.push('\n');
    for note in notes(results) {
        text.push_str(&paint(&note, Style::Marked, colours));
        text.push('\n');
    }
    text
}

/// What was gained, with a column for each topology.
pub fn side_by_side(results: &Results) -> Table {
    let names = results.topologies.iter().map(|topology| topology.name.as_str());
    let titles: Vec<&str> = [""].into_iter().chain(names).collect();
    let mut table = Table::new(&titles);
    let mut last = String::new();
    for gain::GainRow { load, target, shown } in gain::rows(results) {
        if last != load {
            table.heading(load.clone());
            last = load;
        }
        let name = table::TableCell::plain(target);
        let shown = shown.into_iter().map(|text| table::TableCell::new(text, Style::Strong));
        table.row([name].into_iter().chain(shown).collect());
    }
    table
}

fn table(results: &Results) -> Table {
    let mut table = Table::new(&TITLES);
    let mut last = None;
    for cell in &results.cells {
        let load = cell.load();
        if last != Some(load) {
            table.heading(load.to_string());
            last = Some(load);
        }
        table.row(row(results, cell));
    }
    table
}

fn row(results: &Results, cell: &Cell) -> Vec<table::TableCell> {
    let marks = marks(cell);
    let style = if marks.is_empty() { Style::Plain } else { Style::Marked };
    let name = table::TableCell::new(format!("{}{marks}", cell.target), style);
    let Some(rate) = cell.spread(Measure::StatementsPerSecond) else {
        return vec![name, table::TableCell::new("no figures", Style::Marked)];
    };
    let number = |measure, digits: usize| {
        let median = cell.spread(measure).map(|spread| spread.median);
        table::TableCell::plain(median.map_or_else(String::new, |it| format!("{it:.digits$}")))
    };
    let ratio = results.ratios.iter().find(|ratio| {
        (ratio.load(), &ratio.target) == (cell.load(), &cell.target)
            && ratio.measure == Measure::StatementsPerSecond
    });
    let width = (rate.high - rate.low) / rate.median * 100.0;
    let spread = if cell.kept().count() < 2 { String::new() } else { format!("{width:.0} %") };
    vec![
        name,
        table::TableCell::new(format!("{:.0}", rate.median), Style::Strong),
        table::TableCell::new(spread, Style::Faint),
        table::TableCell::new(ratio.map_or_else(String::new, shown), Style::Strong),
        number(Measure::TransactionsPerSecond, 0),
        number(Measure::MeanMs, 2),
        number(Measure::P50Ms, 2),
        number(Measure::P95Ms, 2),
        number(Measure::P99Ms, 2),
        number(Measure::P999Ms, 2),
        number(Measure::MaxMs, 1),
        number(Measure::ServerCpuUs, 1),
        number(Measure::ProxyCpuUs, 1),
        number(Measure::GeneratorCpuUs, 1),
        table::TableCell::plain(format!("{:.3}", fairness(cell))),
        table::TableCell::plain(errors(cell).to_string()),
    ]
}

/// The ratio, and what it may as well be.
fn shown(ratio: &Ratio) -> String {
    match ratio.interval {
        None => format!("{:.2}", ratio.middle),
        Some(interval) => {
            format!("{:.2} ({:.2}–{:.2})", ratio.middle, interval.low, interval.high)
        }
    }
}

fn fairness(cell: &Cell) -> f64 {
    cell.kept().map(|round| round.fairness.jain).fold(1.0, f64::min)
}

fn errors(cell: &Cell) -> u64 {
    cell.kept().flat_map(|round| &round.errors).map(|error| error.count).sum()
}

fn marks(cell: &Cell) -> String {
    let mut marks = String::new();
    if cell.rounds.iter().any(|round| round.standing == Standing::KeptThoughDisturbed) {
        marks.push('*');
    }
    if cell.kept().any(|round| 0 < round.unsent) {
        marks.push('>');
    }
    if !cell.failures.is_empty() {
        marks.push('!');
    }
    marks
}

fn notes(results: &Results) -> Vec<String> {
    let mut notes = Vec::new();
    match &results.ending {
        Ending::Complete => {}
        Ending::Interrupted => notes.push("The run was interrupted; this is what it had.".into()),
        Ending::Partial { why } => notes.push(format!("The run is not whole: {why}.")),
    }
    if let Some(last) = results.resumed.last() {
        let times = results.resumed.len();
        notes.push(format!(
            "The run was cut off and taken up again, {times} times, last {}.",
            date::utc(*last)
        ));
    }
    let rounds = || results.cells.iter().flat_map(|cell| &cell.rounds);
    let count = |standing| rounds().filter(|round| round.standing == standing).count();
    let (repeated, kept) = (count(Standing::Repeated), count(Standing::KeptThoughDisturbed));
    if 0 < repeated + kept {
        let disturbed = rounds().map(|round| &round.disturbance).find(|it| it.is_notable);
        let culprit = disturbed.map_or_else(String::new, culprit);
        notes.push(format!(
            "* Others used the machine{culprit}: {repeated} rounds were run again, {kept} count \
             although disturbed each time."
        ));
    }
    for cell in &results.cells {
        let load = format!("{}, {}", cell.load(), cell.target);
        let unsent: u64 = cell.kept().map(|round| round.unsent).sum();
        if 0 < unsent {
            notes.push(format!(
                "> {load}: the target did not keep up with the rate; {unsent} transactions were \
                 due and not begun, and are in no latency."
            ));
        }
        if let Some(failure) = cell.failures.first() {
            let (count, round) = (cell.failures.len(), failure.round);
            notes.push(format!(
                "! {load}: {count} turns failed, first in round {round}: {}",
                failure.why
            ));
        }
        notes.extend(first_errors(cell).map(|error| format!("  {load}: {error}")));
    }
    notes.extend(results.notes.iter().cloned());
    notes.extend(units::caution(results).map(str::to_owned));
    notes
}

/// The process that disturbed the round, or else how much of the machine was taken.
fn culprit(disturbance: &Disturbance) -> String {
    match disturbance.others.first() {
        Some(other) => format!(" (such as {other})"),
        None => format!(
            " ({:.0} % of all CPUs, and the hypervisor {:.0} %)",
            disturbance.foreign * 100.0,
            disturbance.steal * 100.0
        ),
    }
}

/// Each kind of error once, with its sum.
fn first_errors(cell: &Cell) -> impl Iterator<Item = String> {
    let mut kinds: Vec<(u16, &str, u64)> = Vec::new();
    for error in cell.rounds.iter().flat_map(|round: &Round| &round.errors) {
        match kinds.iter_mut().find(|(code, ..)| *code == error.code) {
            Some((.., sum)) => *sum += error.count,
            None => kinds.push((error.code, &error.message, error.count)),
        }
    }
    kinds.into_iter().map(|(code, message, sum)| match code {
        0 => format!("{sum} times: {message}"),
        code => format!("{sum} errors {code}: {message}"),
    })
}

const TITLES: [&str; 16] = [
    "target",
    "stmts/s",
    "spread",
    "vs first",
    "trans/s",
    "mean ms",
    "p50",
    "p95",
    "p99",
    "p99.9",
    "max",
    "server µs",
    "proxy µs",
    "self µs",
    "fairness",
    "errors",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Results {
        serde_json::from_str(include_str!("../results/example.json")).expect("is one")
    }

    #[test]
    fn every_cell_has_its_line_and_every_mark_its_note() {
        let shown = text(&example(), Colours::Off);
        for want in [
            "beside-clients, oltp_point_select, 8 clients\n",
            "Topology beside-clients: server on CPUs 1, proxy on 0, clients on 0\n",
            "60000",
            "0.87 (0.85–0.88)",
            "flifo*!",
            "* Others used the machine (such as cc1plus (1234): 8 % of all CPUs): 2 rounds",
            "! beside-clients, oltp_point_select, 64 clients, flifo: 1 turns failed, first in round 4: flifo:",
            "3 errors 1213: Deadlock found",
            "The run is not whole: 1 of 12 turns failed.",
        ] {
            assert!(shown.contains(want), "{want:?} is not in:\n{shown}");
        }
        assert!(!shown.contains('\x1b'));
    }

    #[test]
    fn what_an_open_loop_could_not_send_is_said() {
        let mut results = example();
        results.cells[0].rounds[0].unsent = 77;
        assert!(text(&results, Colours::Off).contains("direct>"));
        assert!(text(&results, Colours::Off).contains("77 transactions were due"));
    }

    #[test]
    fn a_cell_without_figures_says_so() {
        let mut results = example();
        results.cells[0].rounds.clear();
        assert!(text(&results, Colours::Off).contains("no figures"));
    }
}
