//! The charts of a run of the load generator: what is drawn of which cells.
//!
//! Every chart shows medians over the rounds that count, and their range. A target keeps its colour
//! and its mark through the whole page. Where there are too many numbers of clients to draw all,
//! the first, the last and some between are drawn; tables have all.

use crate::chart::{
    Axis, BarRow, Bars, Chart, Fill, Lines, Look, Marks, Piece, Plot, Point, ScaleKind, Series,
};
use crate::names;
use crate::results::{Cell, Latency, Measure, Pacing, Results, Role, Round, Spread};

/// What is drawn of one workload in one topology.
pub(super) struct Drawing<'a> {
    results: &'a Results,
    topology: &'a str,
    workload: &'a str,
    /// Numbers of clients that were measured, ascending.
    clients: Vec<u32>,
}

impl<'a> Drawing<'a> {
    pub(super) fn new(results: &'a Results, topology: &'a str, workload: &'a str) -> Self {
        let mut drawing = Self { results, topology, workload, clients: Vec::new() };
        let mut clients: Vec<u32> = drawing.of_workload().map(|cell| cell.clients).collect();
        clients.sort_unstable();
        clients.dedup();
        drawing.clients = clients;
        drawing
    }

    /// Throughput, latency and CPU time over the number of clients.
    pub(super) fn over_clients(&self) -> Vec<Chart> {
        let latency = match self.results.settings.pacing {
            Pacing::Closed { .. } => "Of a transaction, from its sending",
            Pacing::Open { .. } => "Of a transaction, from the time that was set for it",
        };
        vec![
            self.lines(
                Measure::StatementsPerSecond,
                ScaleKind::Linear,
                "Throughput over clients",
                "Median of the rounds, and from the lowest to the highest; more is better.",
            ),
            self.lines(
                Measure::P50Ms,
                ScaleKind::Log,
                "Latency over clients: half are faster",
                &format!("{latency}: the median. Less is better."),
            ),
            self.lines(
                Measure::P99Ms,
                ScaleKind::Log,
                "Latency over clients: one of a hundred is slower",
                &format!("{latency}: p99. Less is better."),
            ),
            self.cpu(),
        ]
    }

    /// How latency is distributed, for a few numbers of clients.
    pub(super) fn distributions(&self) -> Vec<Chart> {
        let of = |clients: u32| {
            let series = |(look, cell): (Look, &Cell)| Series {
                name: cell.target.clone(),
                look,
                points: ranks(cell),
                marks: Marks::Band,
            };
            Chart {
                title: format!("Latency distribution, {}", in_words(clients)),
                note: "Read: this share of transactions took no longer. To the right are the \
                       slowest few."
                    .into(),
                plot: Plot::Lines(Lines {
                    x: Axis::new("% of transactions", ScaleKind::Nines),
                    y: Axis::new("ms", ScaleKind::Log),
                    series: self.cells(clients).map(series).collect(),
                }),
            }
        };
        few(&self.clients, FEW_SHOWN).into_iter().map(of).collect()
    }

    /// What came of each second of the rounds, for a few numbers of clients.
    pub(super) fn timelines(&self) -> Vec<Chart> {
        let of = |clients: u32| {
            let series = |(look, cell): (Look, &Cell)| Series {
                name: cell.target.clone(),
                look,
                points: seconds(cell),
                marks: Marks::Band,
            };
            Chart {
                title: format!("Time line, {}", in_words(clients)),
                note: "Median of the rounds at each second; the band ends at the lowest and the \
                       highest."
                    .into(),
                plot: Plot::Lines(Lines {
                    x: Axis::new("seconds since the round's begin", ScaleKind::Linear),
                    y: Axis::new("statements a second", ScaleKind::Linear),
                    series: self.cells(clients).map(series).collect(),
                }),
            }
        };
        few(&self.clients, FEW_SHOWN).into_iter().map(of).collect()
    }

    fn lines(&self, measure: Measure, kind: ScaleKind, title: &str, note: &str) -> Chart {
        let series = self.results.targets.iter().enumerate().map(|(index, target)| {
            let cells = self.of_workload().filter(|cell| cell.target == target.name);
            let mut points: Vec<_> = cells.filter_map(|cell| point(cell, measure)).collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            Series { name: target.name.clone(), look: Look(index), points, marks: Marks::Points }
        });
        let ticks = self.clients.iter().copied().map(f64::from).collect();
        let is_wide = match (self.clients.first(), self.clients.last()) {
            (Some(first), Some(last)) => first.saturating_mul(LOG_FROM) <= *last,
            _ => false,
        };
        let x = if is_wide { ScaleKind::Log } else { ScaleKind::Linear };
        Chart {
            title: title.to_owned(),
            note: note.to_owned(),
            plot: Plot::Lines(Lines {
                x: Axis { label: "clients".into(), kind: x, ticks },
                y: Axis::new(names::of(measure).1, kind),
                series: series.collect(),
            }),
        }
    }

    fn cpu(&self) -> Chart {
        let roles = [Role::Server, Role::Proxy, Role::Other];
        let has = |role: &Role| {
            let mut rounds = self.of_workload().flat_map(Cell::kept);
            rounds.any(|round| round.cpu_us(*role).is_some())
        };
        let roles: Vec<(usize, Role)> = roles.into_iter().filter(has).enumerate().collect();
        let pieces = roles.iter().flat_map(|(index, role)| {
            let name = names::of_role(*role);
            [("user", Fill::Full), ("system", Fill::Striped)].map(|(part, fill)| Piece {
                name: format!("{name}, {part}"),
                look: Look(*index),
                fill,
            })
        });
        let mut rows = Vec::new();
        for clients in few(&self.clients, BARS_SHOWN) {
            let mut heading = Some(in_words(clients));
            for (_, cell) in self.cells(clients) {
                let lengths = roles.iter().flat_map(|(_, role)| {
                    [user_us(cell, *role), system_us(cell, *role)].map(Option::unwrap_or_default)
                });
                let lengths = lengths.collect();
                rows.push(BarRow { label: cell.target.clone(), heading: heading.take(), lengths });
            }
        }
        Chart {
            title: "CPU time a statement".into(),
            note: "What server and proxy used, medians of the rounds, without the generator. \
                   Less is better."
                .into(),
            plot: Plot::Bars(Bars {
                x: Axis::new("µs a statement", ScaleKind::Linear),
                pieces: pieces.collect(),
                rows,
            }),
        }
    }

    /// The cells of a number of clients, in the order of the targets.
    fn cells(&self, clients: u32) -> impl Iterator<Item = (Look, &'a Cell)> {
        self.results.targets.iter().enumerate().filter_map(move |(index, target)| {
            let is_it = |cell: &&Cell| cell.clients == clients && cell.target == target.name;
            Some((Look(index), self.of_workload().find(is_it)?))
        })
    }

    fn of_workload(&self) -> impl Iterator<Item = &'a Cell> {
        let key = (self.topology, self.workload);
        let is_it = move |cell: &&Cell| (cell.topology.as_str(), cell.workload.as_str()) == key;
        self.results.cells.iter().filter(is_it)
    }
}

fn point(cell: &Cell, measure: Measure) -> Option<Point> {
    let Spread { median, low, high } = cell.spread(measure)?;
    Some(Point { x: f64::from(cell.clients), y: median, range: Some((low, high)) })
}

/// The latency that a share of all transactions did not exceed, over rounds that count.
fn ranks(cell: &Cell) -> Vec<Point> {
    let mut buckets: Vec<(f64, u64)> = Vec::new();
    for Round { latency: Latency { buckets: more, .. }, .. } in cell.kept() {
        buckets.extend(more);
    }
    buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: f64 = buckets.iter().map(|(_, count)| *count as f64).sum();
    let mut points = Vec::new();
    let (mut next, mut seen) = (buckets.iter(), 0.0);
    let mut upper = None;
    for step in 1..=RANKS {
        let share = 1.0 - 10_f64.powf(-f64::from(step) / STEPS_A_NINE);
        // Of few transactions there is no one of a million.
        if (1.0 - share) * total < 1.0 - SLACK {
            break;
        }
        while upper.is_none() || seen < share * total - SLACK {
            let Some((end, count)) = next.next() else { break };
            upper = Some(*end);
            seen += *count as f64;
        }
        points.extend(upper.map(|y| Point { x: share, y, range: None }));
    }
    points
}

fn seconds(cell: &Cell) -> Vec<Point> {
    let longest = cell.kept().map(|round| round.timeline.len()).max().unwrap_or_default();
    let of = |index: usize| {
        let seconds = cell.kept().filter_map(|round| round.timeline.get(index));
        let Spread { median, low, high } = Spread::of(seconds.map(|it| it.statements as f64))?;
        Some(Point { x: index as f64, y: median, range: Some((low, high)) })
    };
    (0..longest).filter_map(of).collect()
}

fn user_us(cell: &Cell, role: Role) -> Option<f64> {
    median_of(cell, role, |process| process.user_us)
}

fn system_us(cell: &Cell, role: Role) -> Option<f64> {
    median_of(cell, role, |process| process.system_us)
}

fn median_of(
    cell: &Cell,
    role: Role,
    figure: fn(&crate::results::ProcessFigures) -> f64,
) -> Option<f64> {
    let of_round = |round: &Round| {
        let ours = round.processes.iter().filter(|process| process.role == role);
        ours.map(figure).reduce(|sum, part| sum + part)
    };
    Spread::of(cell.kept().filter_map(of_round)).map(|spread| spread.median)
}

/// The first, the last, and others evenly between.
fn few(all: &[u32], most: usize) -> Vec<u32> {
    if all.len() <= most {
        return all.to_vec();
    }
    (0..most).map(|index| all[index * (all.len() - 1) / (most - 1)]).collect()
}

fn in_words(clients: u32) -> String {
    if clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") }
}

/// Numbers of clients whose distribution and time line are drawn.
const FEW_SHOWN: usize = 4;
/// Numbers of clients whose CPU time is drawn.
const BARS_SHOWN: usize = 6;
/// Clients that many times as many are laid out by ratio.
const LOG_FROM: u32 = 8;
/// Down to one of a million.
const RANKS: u32 = 30;
const STEPS_A_NINE: f64 = 5.0;
/// A transaction is a whole one; shares of them are rounded.
const SLACK: f64 = 1e-3;

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Results {
        serde_json::from_str(include_str!("../results/example.json")).expect("reads")
    }

    #[test]
    fn ranks_are_those_of_all_rounds_together() {
        let mut results = example();
        let cell = &mut results.cells[0];
        cell.rounds.truncate(2);
        cell.rounds.iter_mut().for_each(|round| round.standing = crate::results::Standing::Kept);
        cell.rounds[0].latency.buckets = vec![(1.0, 50), (4.0, 10)];
        cell.rounds[1].latency.buckets = vec![(2.0, 39), (9.0, 1)];
        let points = ranks(cell);
        let at = |share: f64| points.iter().find(|it| (it.x - share).abs() < 1e-9).map(|it| it.y);
        assert_eq!(points[0].y, 1.0, "half took at most 1 ms");
        assert_eq!(at(0.9), Some(4.0));
        assert_eq!(at(0.99), Some(4.0), "99 of 100 took at most 4 ms");
        assert!(at(0.999).is_none(), "of 100 transactions");
        cell.rounds.clear();
        assert_eq!(ranks(cell), []);
    }

    #[test]
    fn a_few_of_many_have_both_ends() {
        assert_eq!(few(&[1, 2], 3), [1, 2]);
        assert_eq!(few(&[1, 2, 4, 8, 16, 32, 64], 3), [1, 8, 64]);
        assert_eq!(few(&[], 3), [0; 0]);
    }

    #[test]
    fn every_cell_of_the_example_is_drawn() {
        let results = example();
        let Cell { topology, workload, .. } = &results.cells[0];
        let drawing = Drawing::new(&results, topology, workload);
        let charts = drawing.over_clients();
        let Plot::Lines(throughput) = &charts[0].plot else { panic!("are lines") };
        let points: usize = throughput.series.iter().map(|series| series.points.len()).sum();
        let with_rounds = results.cells.iter().filter(|cell| cell.kept().next().is_some());
        assert_eq!(points, with_rounds.count());
        assert_eq!(drawing.timelines().len(), drawing.clients.len());
        assert_eq!(drawing.distributions().len(), drawing.clients.len());
    }

    #[test]
    fn rounds_that_do_not_count_are_not_drawn() {
        let mut results = example();
        for round in &mut results.cells[0].rounds {
            round.standing = crate::results::Standing::Repeated;
        }
        assert_eq!(point(&results.cells[0], Measure::P50Ms), None);
        assert_eq!(seconds(&results.cells[0]), []);
    }
}
