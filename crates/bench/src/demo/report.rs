//! What a comparison found: every sample for machines, one table of medians for people.
//!
//! Measures nothing and judges nothing. Invariant: a sample that failed or that others disturbed is
//! marked as such, and never left out.

use serde::Serialize;

use super::measure::{NOTABLE, Sample};
use crate::table::{Colours, Style, Table, TableCell, paint, wrap};
use crate::targets::TargetKind;

#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) machine: Machine,
    pub(super) programs: Vec<Version>,
    pub(super) seconds: u32,
    pub(super) rounds: u32,
    pub(super) tables: u32,
    pub(super) rows: u32,
    pub(super) groups: Vec<Group>,
}

#[derive(Debug, Serialize)]
pub(super) struct Machine {
    pub(super) cpus: usize,
    pub(super) kernel: String,
}

/// What a program says of itself.
#[derive(Debug, Serialize)]
pub(super) struct Version {
    pub(super) program: String,
    pub(super) version: String,
}

/// All targets under the same load.
#[derive(Debug, Serialize)]
pub(super) struct Group {
    pub(super) workload: String,
    pub(super) clients: u32,
    pub(super) series: Vec<Series>,
}

/// The rounds of one target under one load.
#[derive(Debug, Serialize)]
pub(super) struct Series {
    pub(super) target: TargetKind,
    pub(super) samples: Vec<Sample>,
    pub(super) failures: Vec<String>,
}

impl Report {
    pub(super) fn failures(&self) -> usize {
        self.series().map(|series| series.failures.len()).sum()
    }

    /// The table, what its marks mean, and how to read it.
    pub(super) fn text(&self, colours: Colours) -> String {
        let mut text = self.table().render(colours);
        for note in self.notes() {
            text.push_str(&paint(&note, Style::Marked, colours));
            text.push('\n');
        }
        text.push('\n');
        text.push_str(&wrap(&self.explanation()));
        text
    }

    fn series(&self) -> impl Iterator<Item = &Series> {
        self.groups.iter().flat_map(|group| &group.series)
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&TITLES);
        for group in &self.groups {
            table.heading(format!("{}, {} clients", group.workload, group.clients));
            let direct = group.series.iter().find(|series| series.target == TargetKind::Direct);
            let direct = direct.and_then(|series| series.median(|s| s.statements_per_second));
            for series in &group.series {
                table.row(series.row(direct));
            }
        }
        table
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let samples = || self.series().flat_map(|series| &series.samples);
        let disturbed = samples().filter(|sample| sample.disturbance.is_notable()).count();
        if 0 < disturbed {
            notes.push(format!(
                "* In {disturbed} of {} runs, others had more than {:.0} % of the machine's CPUs.",
                samples().count(),
                NOTABLE * 100.0
            ));
        }
        for group in &self.groups {
            for series in &group.series {
                notes.extend(series.failures.first().map(|failure| {
                    format!(
                        "! {}, {} clients, {}: {} of {} runs failed, the first with: {failure}",
                        group.workload,
                        group.clients,
                        series.target.name(),
                        series.failures.len(),
                        series.failures.len() + series.samples.len(),
                    )
                }));
            }
        }
        notes
    }

    fn explanation(&self) -> String {
        let clients = median(self.all(|sample| Some(sample.clients_cpu_us)));
        let clients = clients.map_or_else(String::new, |us| format!(" ({us:.0} µs a statement)"));
        let Self { rounds, seconds, tables, machine: Machine { cpus, .. }, .. } = self;
        let runs = match rounds {
            1 => format!("of one run of {seconds} s"),
            _ => format!(
                "the median of {rounds} runs of {seconds} s, in which the targets took turns"
            ),
        };
        let rows = grouped(f64::from(self.rows));
        format!(
            "How to read it: each number is {runs}; spread is the distance between the slowest and \
             the fastest run. \"direct\" is sysbench connected to the server over TCP, and \
             \"vs direct\" the quotient of statements a second: above 1, the detour gained more \
             than it cost. Proxies are reached over TCP and reach the server over its Unix socket. \
             CPU time is what the server, and in addition the proxy, spent on one statement; \
             switches are the context switches of both. Clients, proxy and server share the {cpus} \
             CPUs of this machine: what the proxy and sysbench{clients} use, the server cannot \
             have, so where clients have a machine of their own, all numbers differ. The server is \
             private and new, holds {tables} tables of {rows} rows in memory, and does not wait \
             for the disk at COMMIT."
        )
    }

    fn all(&self, of: impl Fn(&Sample) -> Option<f64>) -> Vec<f64> {
        self.series().flat_map(|series| &series.samples).filter_map(of).collect()
    }
}

impl Series {
    fn row(&self, direct: Option<f64>) -> Vec<TableCell> {
        let disturbed = self.samples.iter().any(|sample| sample.disturbance.is_notable());
        let (marks, style) = match (disturbed, !self.failures.is_empty()) {
            (false, false) => ("", Style::Plain),
            (true, false) => ("*", Style::Marked),
            (false, true) => ("!", Style::Marked),
            (true, true) => ("*!", Style::Marked),
        };
        let name = TableCell::new(format!("{}{marks}", self.target.name()), style);
        let Some(statements) = self.median(|sample| sample.statements_per_second) else {
            return vec![name, TableCell::new("failed", Style::Marked)];
        };
        let ratio = match direct {
            Some(direct) if self.target != TargetKind::Direct => {
                format!("{:.2}", statements / direct)
            }
            _ => String::new(),
        };
        let number = |of: fn(&Sample) -> Option<f64>, digits: usize| {
            TableCell::plain(
                self.median_of(of).map_or_else(String::new, |n| format!("{n:.digits$}")),
            )
        };
        let transactions = self.median(|sample| sample.transactions_per_second).unwrap_or_default();
        vec![
            name,
            TableCell::new(grouped(statements), Style::Strong),
            TableCell::new(self.spread(), Style::Faint),
            TableCell::new(ratio, Style::Strong),
            TableCell::plain(grouped(transactions)),
            number(|sample| Some(sample.p95_ms), 2),
            number(|sample| Some(sample.server.cpu_us()), 1),
            number(|sample| sample.proxy.map(|proxy| proxy.cpu_us()), 1),
            number(|sample| Some(sample.switches()), 2),
            number(|sample| Some(sample.errors_per_second), 1),
        ]
    }

    fn median(&self, of: fn(&Sample) -> f64) -> Option<f64> {
        median(self.samples.iter().map(of).collect())
    }

    fn median_of(&self, of: fn(&Sample) -> Option<f64>) -> Option<f64> {
        median(self.samples.iter().filter_map(of).collect())
    }

    /// The distance between the extremes in percent of the median.
    fn spread(&self) -> String {
        let rates = || self.samples.iter().map(|sample| sample.statements_per_second);
        let Some(middle) = median(rates().collect()) else { return String::new() };
        if self.samples.len() == 1 {
            return String::new();
        }
        let distance = rates().fold(f64::MIN, f64::max) - rates().fold(f64::MAX, f64::min);
        format!("{:.0} %", distance / middle * 100.0)
    }
}

impl Sample {
    fn switches(&self) -> f64 {
        self.server.switches() + self.proxy.map_or(0.0, |proxy| proxy.switches())
    }
}

fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    let upper = *numbers.get(middle)?;
    if numbers.len() % 2 == 1 { Some(upper) } else { Some((numbers[middle - 1] + upper) / 2.0) }
}

/// A whole number with a blank before every three digits.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if 0 < index && (digits.len() - index) % 3 == 0 {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

const TITLES: [&str; 10] = [
    "target",
    "stmts/s",
    "spread",
    "vs direct",
    "trans/s",
    "p95 ms",
    "server µs",
    "proxy µs",
    "switches",
    "errors/s",
];

#[cfg(test)]
mod tests;
