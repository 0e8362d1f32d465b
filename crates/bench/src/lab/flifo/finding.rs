//! What the note's experiment says here: the table, the charts and the words.
//!
//! Pure. Invariants: the note's own figures are marked as such; a sentence about figures is there
//! only if they were measured; every cell in which Flifo does less than the server alone is told.

use super::{Gate, NOTE_THREADS, Part, Route, Sample, Turn};
use crate::chart::{Axis, Chart, Grid, Lines, Look, Marks, Plot, Point, ScaleKind, Series, number};
use crate::lab::experiment::Finding;
use crate::lab::flifo::threads::Figures;
use crate::lab::ways;
use crate::results::Spread;

pub(super) fn of(samples: &[Sample]) -> Finding {
    let found = Found { samples };
    let parts = [Part::Ranges, Part::Points];
    let charts = std::iter::once(found.threads_chart())
        .chain(parts.into_iter().map(|part| found.server_chart(part)));
    let reading = [found.threads_reading(), found.gates_reading()]
        .into_iter()
        .chain(parts.into_iter().map(|part| found.server_reading(part)))
        .chain([found.losses(), found.explanation()]);
    Finding {
        table: found.table(),
        charts: charts.flatten().collect(),
        reading: reading.flatten().collect(),
        notes: found.notes(),
    }
}

struct Found<'a> {
    samples: &'a [Sample],
}

/// The note's two rows: transactions a second, and context switches a transaction with most threads
/// (from what its vmstat shows).
struct NoteRow {
    name: &'static str,
    rates: [f64; 11],
    switches: f64,
    look: Look,
}

const NOTE: [NoteRow; 2] = [
    NoteRow {
        name: "the note's FIFO",
        rates: [
            180.95, 335.37, 516.97, 645.86, 625.14, 648.88, 658.71, 579.59, 515.26, 431.97, 255.04,
        ],
        switches: 937.0,
        look: Look(4),
    },
    NoteRow {
        name: "the note's FLIFO",
        rates: [
            186.22, 342.65, 570.79, 707.82, 718.84, 665.60, 574.96, 590.33, 611.15, 612.69, 637.37,
        ],
        switches: 105.0,
        look: Look(5),
    },
];

impl Found<'_> {
    fn table(&self) -> Grid {
        let titles = [
            "",
            "threads or clients",
            "way",
            "a second",
            "range",
            "of its best",
            "p50 ms",
            "p99 ms",
            "switches",
            "CPU µs",
            "Jain",
        ];
        let mut rows = self.note_rows();
        rows.extend(self.threads_rows());
        for part in [Part::Ranges, Part::Points] {
            rows.extend(self.server_rows(part));
        }
        Grid { titles: titles.map(str::to_owned).to_vec(), rows }
    }

    fn note_rows(&self) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        for (at, threads) in NOTE_THREADS.into_iter().enumerate() {
            for note in &NOTE {
                let best = note.rates.into_iter().fold(0.0, f64::max);
                let is_last = at + 1 == NOTE_THREADS.len();
                rows.push(vec![
                    "2009: MySQL 5.0.84, transactions".to_owned(),
                    threads.to_string(),
                    note.name.to_owned(),
                    number(note.rates[at]),
                    String::new(),
                    share(note.rates[at], best),
                    String::new(),
                    String::new(),
                    if is_last { number(note.switches) } else { String::new() },
                    String::new(),
                    String::new(),
                ]);
            }
        }
        rows
    }

    fn threads_rows(&self) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        for threads in self.thread_counts() {
            for gate in Gate::ALL {
                let of = |figure: fn(&Figures) -> f64| self.threads(gate, threads, figure);
                let Some(rate) = of(|it| it.transactions) else { continue };
                let cell =
                    |figure| of(figure).map_or_else(String::new, |it: Spread| number(it.median));
                rows.push(vec![
                    format!("{}, transactions", Part::Threads.label()),
                    threads.to_string(),
                    gate.name().to_owned(),
                    number(rate.median),
                    range(rate),
                    share(rate.median, self.best_of_gate(gate)),
                    cell(|it| it.p50_ms),
                    cell(|it| it.p99_ms),
                    cell(|it| it.switches),
                    String::new(),
                    cell(|it| it.jain),
                ]);
            }
        }
        rows
    }

    fn server_rows(&self, part: Part) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        for clients in self.client_counts(part) {
            for route in self.routes(part) {
                let of = |figure: fn(&Turn) -> f64| self.server(part, route, clients, figure);
                let Some(rate) = of(|it| it.rate) else { continue };
                let cell =
                    |figure| of(figure).map_or_else(String::new, |it: Spread| number(it.median));
                // Many clients in the queue may be longer at one transaction than the turn lasts.
                let has_ended = of(|it| it.p50_ms).is_some_and(|it| it.median > 0.0);
                let of_ended = |it| if has_ended { cell(it) } else { "none".to_owned() };
                rows.push(vec![
                    format!("{}, statements", part.label()),
                    clients.to_string(),
                    route.name().to_owned(),
                    number(rate.median),
                    range(rate),
                    share(rate.median, self.best_of_route(part, route)),
                    of_ended(|it| it.p50_ms),
                    of_ended(|it| it.p99_ms),
                    cell(|it| it.switches),
                    cell(|it| it.cpu_us),
                    of_ended(|it| it.jain),
                ]);
            }
        }
        rows
    }

    /// Shares of the best, so that machines of 2009 and of today fit one picture.
    fn threads_chart(&self) -> Option<Chart> {
        let best = Gate::ALL.map(|gate| self.best_of_gate(gate)).into_iter().fold(0.0, f64::max);
        if best == 0.0 {
            return None;
        }
        let mut series = Vec::new();
        for (at, gate) in Gate::ALL.into_iter().enumerate() {
            let points = self.thread_counts().into_iter().filter_map(|threads| {
                let rate = self.threads(gate, threads, |it| it.transactions)?;
                Some(point(threads, rate, 100.0 / best))
            });
            series.push(line(gate.name(), Look(at), points.collect()));
        }
        let note_best = NOTE.iter().flat_map(|it| it.rates).fold(0.0, f64::max);
        for note in &NOTE {
            let points = NOTE_THREADS.into_iter().zip(note.rates).map(|(threads, rate)| {
                let y = rate * 100.0 / note_best;
                Point { x: f64::from(threads), y, range: None }
            });
            series.push(line(note.name, note.look, points.collect()));
        }
        Some(Chart {
            title: "Threads before a gate".into(),
            note: "Transactions a second; 100 is the best of the four gates here, and the best of \
                   the note's two."
                .into(),
            plot: Plot::Lines(Lines {
                x: clients_axis("threads", &self.thread_counts()),
                y: Axis::new("% of the best", ScaleKind::Linear),
                series,
            }),
        })
    }

    fn server_chart(&self, part: Part) -> Option<Chart> {
        // A chart tells six lines apart. The table has all.
        let left_out = match part {
            Part::Points => Route::Haproxy,
            Part::Threads | Part::Ranges => Route::Pipelined,
        };
        let routes = self.routes(part).into_iter().filter(|route| *route != left_out);
        let clients = self.client_counts(part);
        let series: Vec<_> = routes
            .enumerate()
            .map(|(at, route)| {
                let points = clients.iter().filter_map(|clients| {
                    let rate = self.server(part, route, *clients, |it| it.rate)?;
                    Some(point(*clients, rate, 1.0))
                });
                line(route.name(), Look(at), points.collect())
            })
            .collect();
        if series.is_empty() {
            return None;
        }
        Some(Chart {
            title: part.label().into(),
            note: format!("Statements a second. Not drawn, but in the table: {}.", left_out.name()),
            plot: Plot::Lines(Lines {
                x: clients_axis("clients", &clients),
                y: Axis::new("statements a second", ScaleKind::Linear),
                series,
            }),
        })
    }

    /// How much of their best is left with most threads, here and in the note.
    fn threads_reading(&self) -> Option<String> {
        let most = *self.thread_counts().last()?;
        let left: Option<Vec<_>> = Gate::ALL
            .into_iter()
            .map(|gate| {
                let rate = self.threads(gate, most, |it| it.transactions)?.median;
                let share = share(rate, self.best_of_gate(gate));
                Some(format!("{share} ({})", gate.name()))
            })
            .collect();
        Some(format!(
            "Of their best, the gates of the small engine keep with {most} threads: {}. The note's \
             kept 39 % (FIFO) and 89 % (FLIFO) with 1024.",
            left?.join(", ")
        ))
    }

    /// What the note's borrow gains here, and what it costs.
    fn gates_reading(&self) -> Option<String> {
        let most = *self.thread_counts().last()?;
        let of = |gate, figure: fn(&Figures) -> f64| {
            self.threads(gate, most, figure).map(|spread| spread.median)
        };
        let rates = Gate::ALL.map(|gate| of(gate, |it| it.transactions));
        let switches = Gate::ALL.map(|gate| of(gate, |it| it.switches));
        let jain = Gate::ALL.map(|gate| of(gate, |it| it.jain));
        let [_, Some(fifo), Some(flifo), Some(hot)] = rates else { return None };
        let [_, Some(fifo_switches), Some(flifo_switches), Some(hot_switches)] = switches else {
            return None;
        };
        let [_, Some(fifo_jain), Some(flifo_jain), Some(hot_jain)] = jain else { return None };
        Some(format!(
            "With {most} threads FLIFO does {} times what FIFO does (the note: 2.5), and hot \
             threads {} times. A transaction costs {} context switches with FIFO, {} with FLIFO, \
             {} with hot threads (the note: 937 and 105). What FLIFO costs is fairness, of which \
             the note says nothing: Jain's index, 1 if all get the same, is {} with FLIFO, {} with \
             FIFO and {} with hot threads, which take clients in their order.",
            number(flifo / fifo),
            number(hot / fifo),
            number(fifo_switches),
            number(flifo_switches),
            number(hot_switches),
            number(flifo_jain),
            number(fifo_jain),
            number(hot_jain)
        ))
    }

    /// Every way beside the server alone, with most clients.
    fn server_reading(&self, part: Part) -> Option<String> {
        let most = *self.client_counts(part).last()?;
        let rate = |route| Some(self.server(part, route, most, |it| it.rate)?.median);
        let direct = rate(Route::Direct)?;
        let beside: Vec<_> = self
            .routes(part)
            .into_iter()
            .filter(|route| *route != Route::Direct)
            .filter_map(|route| Some(format!("{} {}", route.name(), times(rate(route)? / direct))))
            .collect();
        Some(format!(
            "{}, {most} clients, compared with the server alone, which keeps {} of its best: {}.",
            part.label(),
            share(direct, self.best_of_route(part, Route::Direct)),
            beside.join(", ")
        ))
    }

    fn losses(&self) -> Option<String> {
        let mut losses = Vec::new();
        let mut cells = 0;
        for part in [Part::Ranges, Part::Points] {
            for clients in self.client_counts(part) {
                let rate = |route| Some(self.server(part, route, clients, |it| it.rate)?.median);
                let Some(direct) = rate(Route::Direct) else { continue };
                for route in self.routes(part).into_iter().filter(|route| route.is_flifo()) {
                    let Some(ratio) = rate(route).map(|rate| rate / direct) else { continue };
                    cells += 1;
                    if ratio < LOSS {
                        losses.push(format!(
                            "{}, {clients} clients, {} {}",
                            part.label(),
                            route.name(),
                            times(ratio)
                        ));
                    }
                }
            }
        }
        if cells == 0 {
            return None;
        }
        let of = format!(
            "Flifo does less than {LOSS} of the server alone in {} of {cells}",
            losses.len()
        );
        Some(if losses.is_empty() {
            format!("{of} cells.")
        } else {
            format!("{of} cells: {}.", losses.join("; "))
        })
    }

    fn explanation(&self) -> Option<String> {
        let parts = [Part::Ranges, Part::Points];
        parts.into_iter().find(|part| !self.routes(*part).is_empty())?;
        Some(
            "Clients, proxies and servers share this machine's CPUs, so what a proxy uses its \
             server cannot have. With a backend connection for each client, the order is the \
             note's FIFO again: the next client in the queue has its own thread in the server, and \
             the CPU's caches no longer hold that thread's data. Shared backend connections are \
             few, and the one that was used last is used next. HAProxy's maxconn counts \
             connections and not statements: clients that stay connected would keep the others \
             out, so there each of them connects for fourteen statements and leaves, which costs a \
             login each time; its Jain index counts such visits. CPU and switches are those of \
             server and proxy, for each statement."
                .to_owned(),
        )
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let is_server = |it: &&Sample| matches!(it, Sample::Server { .. });
        let limited = |it: &Sample| matches!(it, Sample::Server { route: Route::InnodbLimit, .. });
        if self.samples.iter().any(|it| is_server(&it)) && !self.samples.iter().any(limited) {
            notes.push(
                "This server has no innodb_thread_concurrency any more (MariaDB dropped it after \
                 10.5), so its own limit could not be tried."
                    .to_owned(),
            );
        }
        let foreign = self.samples.iter().filter_map(|sample| match sample {
            Sample::Server { turn, .. } => Some(turn.foreign),
            _ => None,
        });
        notes.extend(ways::disturbance(foreign));
        for sample in self.samples {
            let (part, route, clients, what) = match sample {
                Sample::Failed { part, route, clients, why } => {
                    (part, route, clients, format!("could not be measured: {why}"))
                }
                Sample::Server { part, route, clients, turn } if turn.errors > 0 => {
                    (part, route, clients, format!("{} statements failed", turn.errors))
                }
                _ => continue,
            };
            notes.push(format!("{}, {}, {clients} clients: {what}", part.label(), route.name()));
        }
        notes
    }

    fn threads(&self, gate: Gate, threads: u32, figure: fn(&Figures) -> f64) -> Option<Spread> {
        Spread::of(self.samples.iter().filter_map(|sample| match sample {
            Sample::Threads { gate: its, threads: count, figures }
                if (*its, *count) == (gate, threads) =>
            {
                Some(figure(figures))
            }
            _ => None,
        }))
    }

    fn server(
        &self,
        part: Part,
        route: Route,
        clients: u32,
        figure: fn(&Turn) -> f64,
    ) -> Option<Spread> {
        let wanted = (part, route, clients);
        Spread::of(self.samples.iter().filter_map(|sample| match sample {
            Sample::Server { part, route, clients, turn }
                if (*part, *route, *clients) == wanted =>
            {
                Some(figure(turn))
            }
            _ => None,
        }))
    }

    fn thread_counts(&self) -> Vec<u32> {
        sorted(self.samples.iter().filter_map(|sample| match sample {
            Sample::Threads { threads, .. } => Some(*threads),
            _ => None,
        }))
    }

    fn client_counts(&self, wanted: Part) -> Vec<u32> {
        sorted(self.samples.iter().filter_map(|sample| match sample {
            Sample::Server { part, clients, .. } if *part == wanted => Some(*clients),
            _ => None,
        }))
    }

    /// In the order in which they were measured.
    fn routes(&self, wanted: Part) -> Vec<Route> {
        let mut routes = Vec::new();
        for sample in self.samples {
            if let Sample::Server { part, route, .. } = sample
                && *part == wanted
                && !routes.contains(route)
            {
                routes.push(*route);
            }
        }
        routes
    }

    fn best_of_gate(&self, gate: Gate) -> f64 {
        let rates = self.thread_counts().into_iter();
        rates
            .filter_map(|threads| Some(self.threads(gate, threads, |it| it.transactions)?.median))
            .fold(0.0, f64::max)
    }

    fn best_of_route(&self, part: Part, route: Route) -> f64 {
        let rates = self.client_counts(part).into_iter();
        rates
            .filter_map(|clients| Some(self.server(part, route, clients, |it| it.rate)?.median))
            .fold(0.0, f64::max)
    }
}

fn sorted(counts: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut counts: Vec<_> = counts.collect();
    counts.sort_unstable();
    counts.dedup();
    counts
}

fn line(name: &str, look: Look, points: Vec<Point>) -> Series {
    Series { name: name.to_owned(), look, points, marks: Marks::Points }
}

fn point(x: u32, rate: Spread, scale: f64) -> Point {
    let range = Some((rate.low * scale, rate.high * scale));
    Point { x: f64::from(x), y: rate.median * scale, range }
}

fn clients_axis(label: &str, counts: &[u32]) -> Axis {
    // One count alone makes no axis.
    let ticks =
        if counts.len() > 1 { counts.iter().copied().map(f64::from).collect() } else { vec![] };
    Axis { label: label.into(), kind: ScaleKind::Log, ticks }
}

fn range(spread: Spread) -> String {
    format!("{} – {}", number(spread.low), number(spread.high))
}

fn share(value: f64, best: f64) -> String {
    if best > 0.0 { format!("{:.0} %", value * 100.0 / best) } else { String::new() }
}

fn times(ratio: f64) -> String {
    format!("{ratio:.2}x")
}

/// A little less is noise.
const LOSS: f64 = 0.97;

#[cfg(test)]
mod tests {
    use super::*;

    fn threads(gate: Gate, threads: u32, transactions: f64, switches: f64) -> Sample {
        let figures = Figures { transactions, switches, jain: 0.5, p50_ms: 1.0, p99_ms: 2.0 };
        Sample::Threads { gate, threads, figures }
    }

    fn server(part: Part, route: Route, clients: u32, rate: f64) -> Sample {
        let turn = Turn {
            rate,
            answered: 1000,
            p50_ms: 3.0,
            p99_ms: 5.0,
            jain: 0.99,
            switches: 2.0,
            cpu_us: 80.0,
            errors: 0,
            foreign: 0.0,
            cpus: vec![1.0, 0.5],
            idle: 0.1,
            delay: 0.2,
        };
        Sample::Server { part, route, clients, turn }
    }

    fn all() -> Vec<Sample> {
        let mut samples = Vec::new();
        for (gate, few, many) in [
            (Gate::None, 1000.0, 400.0),
            (Gate::Fifo, 1000.0, 500.0),
            (Gate::Flifo, 1000.0, 900.0),
            (Gate::Hot, 990.0, 980.0),
        ] {
            samples.extend([threads(gate, 8, few, 3.0), threads(gate, 1024, many, 30.0)]);
        }
        for part in [Part::Ranges, Part::Points] {
            for route in Route::ALL {
                let gain = if route.is_flifo() { 1.4 } else { 1.0 };
                samples.push(server(part, route, 8, 1000.0));
                samples.push(server(part, route, 1024, 700.0 * gain));
            }
        }
        samples
    }

    #[test]
    fn figures_of_the_note_stand_beside_those_measured() {
        let finding = of(&all());
        assert_eq!(
            finding.table.rows[0][..4],
            ["2009: MySQL 5.0.84, transactions", "1", "the note's FIFO", &number(180.95)]
        );
        assert_eq!(finding.table.rows.len(), 22 + 8 + 28);
        assert!(finding.table.rows.iter().all(|row| row.len() == finding.table.titles.len()));
        assert_eq!(finding.charts.len(), 3);
        for chart in &finding.charts {
            let Plot::Lines(lines) = &chart.plot else { panic!("are lines") };
            assert_eq!(lines.series.len(), Look::COUNT, "{}: each has its own look", chart.title);
        }
    }

    #[test]
    fn the_words_follow_the_figures() {
        let finding = of(&all());
        let text = finding.reading.join("\n");
        for part in [
            "40 % (no gate), 50 % (FIFO), 90 % (FLIFO), 99 % (hot threads)",
            "FLIFO does 1.8 times what FIFO does (the note: 2.5)",
            "keeps 70 % of its best",
            "Flifo, and auto 1.40x",
            "in 0 of 16 cells.",
        ] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
        assert!(finding.notes[0].contains("no innodb_thread_concurrency any more"));
    }

    #[test]
    fn where_flifo_loses_and_what_failed_is_told() {
        let mut samples = all();
        samples.push(server(Part::Points, Route::Auto, 1, 80.0));
        samples.push(server(Part::Points, Route::Direct, 1, 100.0));
        let (part, route, why) = (Part::Points, Route::Haproxy, "it fell over".to_owned());
        samples.push(Sample::Failed { part, route, clients: 1024, why });
        let finding = of(&samples);
        let text = finding.reading.join("\n");
        assert!(text.contains("in 1 of 17 cells: MariaDB, short statements, 1 clients, Flifo"));
        assert!(finding.notes.iter().any(|note| note.contains("it fell over")));
    }

    #[test]
    fn of_transactions_that_did_not_end_nothing_is_said() {
        let mut samples = [server(Part::Ranges, Route::FifoBackends, 1024, 100.0)];
        let [Sample::Server { turn, .. }] = &mut samples else { unreachable!() };
        turn.p50_ms = 0.0;
        let row = of(&samples).table.rows.pop().expect("one was measured");
        assert_eq!([&row[6], &row[7], &row[10]], ["none"; 3]);
    }

    #[test]
    fn nothing_is_said_of_what_was_not_measured() {
        let finding = of(&[]);
        assert_eq!(finding.reading, [""; 0]);
        assert!(finding.charts.is_empty() && finding.notes.is_empty());
        assert_eq!(finding.table.rows.len(), 22, "the note's own");
    }
}
