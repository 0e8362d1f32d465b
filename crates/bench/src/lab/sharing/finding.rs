//! What shared reads say: the table, the charts and the words.
//!
//! Pure. Invariants: ways are compared within the same round; the report's own figure is marked as such; every cell in
//! which a Flifo that shares does less than one that does not, or than the server alone, is told.

use super::{Asked, Route, Sample};
use crate::chart::{Axis, Chart, Dot, DotRow, Dots, Grid, Look, Plot, ScaleKind, number};
use crate::lab::experiment::Finding;
use crate::lab::ways;
use crate::results::Spread;

pub(super) fn of(samples: &[Result<Sample, String>]) -> Finding {
    let failed = samples.iter().filter_map(|it| it.as_ref().err());
    let found = Found { samples: samples.iter().flatten().collect(), failed: failed.collect() };
    Finding {
        table: found.table(),
        charts: found.charts(),
        reading: found.reading(),
        notes: found.notes(),
    }
}

/// The report's row: clients, and how often what the direct connection gave.
const REPORT: (u32, f64) = (512, 1.09);

struct Found<'a> {
    samples: Vec<&'a Sample>,
    failed: Vec<&'a String>,
}

impl Found<'_> {
    fn table(&self) -> Grid {
        let titles = [
            "",
            "clients",
            "way",
            "a second",
            "range",
            "x direct",
            "runs for an answer",
            "p50 ms",
            "p99 ms",
            "CPU µs",
        ];
        let (clients, ratio) = REPORT;
        let report = ["the report's: the same sum", &clients.to_string(), Route::Off.name()];
        let rest = ["", "", &format!("{ratio:.2}"), "1", "", "", ""];
        let mut rows = vec![report.iter().chain(&rest).map(|it| (*it).to_owned()).collect()];
        for (asked, clients) in self.cells() {
            for route in Route::ALL {
                rows.extend(self.row(asked, clients, route));
            }
        }
        Grid { titles: titles.map(str::to_owned).to_vec(), rows }
    }

    fn row(&self, asked: Asked, clients: u32, route: Route) -> Option<Vec<String>> {
        let of = |figure: fn(&Sample) -> f64| self.spread(asked, clients, route, figure);
        let median = |figure| of(figure).map_or_else(String::new, |it| number(it.median));
        let rate = of(|it| it.turn.rate)?;
        let ratio = self.compared(asked, clients, (route, Route::Direct));
        Some(vec![
            asked.label().to_owned(),
            clients.to_string(),
            route.name().to_owned(),
            number(rate.median),
            format!("{} – {}", number(rate.low), number(rate.high)),
            ratio.map_or_else(String::new, |it| format!("{:.2}", it.median)),
            median(Sample::runs_for_an_answer),
            median(|it| it.turn.p50_ms),
            median(|it| it.turn.p99_ms),
            median(|it| it.turn.cpu_us),
        ])
    }

    fn charts(&self) -> Vec<Chart> {
        if self.samples.is_empty() {
            return Vec::new();
        }
        vec![
            self.chart(
                "Answers",
                "Statements that clients were answered a second. Each line is a multiple of the one before.",
                "statements a second",
                |it| it.turn.rate,
            ),
            self.chart(
                "Runs for an answer",
                "How often the server ran a statement for each that was answered, by its own count. At 1 each statement \
                 was run by itself; at 0.01 one run answered a hundred clients.",
                "runs for an answer",
                Sample::runs_for_an_answer,
            ),
        ]
    }

    fn chart(&self, title: &str, note: &str, axis: &str, figure: fn(&Sample) -> f64) -> Chart {
        let series = Route::ALL.iter().enumerate();
        let series = series.map(|(at, route)| (route.name().to_owned(), Look(at))).collect();
        let rows = self.cells().into_iter().map(|(asked, clients)| {
            let dots = Route::ALL.map(|route| {
                let Spread { median: value, low, high } =
                    self.spread(asked, clients, route, figure)?;
                Some(Dot { value, range: Some((low, high)) })
            });
            DotRow { label: format!("{}, {clients} clients", asked.label()), dots: dots.to_vec() }
        });
        let x = Axis::new(axis, ScaleKind::Log);
        let plot = Plot::Dots(Dots { x, series, rows: rows.collect() });
        Chart { title: title.into(), note: note.into(), plot }
    }

    fn reading(&self) -> Vec<String> {
        if self.samples.is_empty() {
            return Vec::new();
        }
        let gains = Asked::ALL.into_iter().filter_map(|asked| self.gain(asked));
        let others = [self.free_slots(), self.losses()].into_iter().flatten();
        gains.chain(others).chain(EXPLANATION.map(str::to_owned)).collect()
    }

    /// What sharing gains with most clients.
    fn gain(&self, asked: Asked) -> Option<String> {
        let clients = self.most(asked)?;
        let direct = self.compared(asked, clients, (Route::On, Route::Direct))?;
        let off = self.compared(asked, clients, (Route::On, Route::Off))?;
        let runs = self.spread(asked, clients, Route::On, Sample::runs_for_an_answer)?.median;
        let runs = match runs <= 1.0 - LITTLE && runs > 0.0 {
            true => format!("One run of the server answered {} statements", number(1.0 / runs)),
            false => "The server ran each statement by itself".to_owned(),
        };
        let report = match asked == Asked::Stampede && clients == REPORT.0 {
            true => {
                format!(" The report's Flifo, which did not share, gave {:.2} times.", REPORT.1)
            }
            false => String::new(),
        };
        Some(format!(
            "{}, {clients} clients: shared, Flifo gives {} times as many answers as the server alone ({} to {}), and {} \
             times as many as a Flifo that does not share ({} to {}). {runs}.{report}",
            capitalized(asked.label()),
            number(direct.median),
            number(direct.low),
            number(direct.high),
            number(off.median),
            number(off.low),
            number(off.high),
        ))
    }

    /// What is left of it if no client waits for a slot.
    fn free_slots(&self) -> Option<String> {
        let told: Vec<_> = [Asked::Stampede, Asked::Zipfian]
            .into_iter()
            .filter_map(|asked| {
                let clients = self.most(asked)?;
                let runs = |route| {
                    let spread = self.spread(asked, clients, route, Sample::runs_for_an_answer)?;
                    Some(number(spread.median))
                };
                Some(format!(
                    "{} in place of {} ({}, {clients} clients)",
                    runs(Route::FreeSlots)?,
                    runs(Route::On)?,
                    asked.label()
                ))
            })
            .collect();
        (!told.is_empty()).then(|| {
            format!(
                "With a slot for each client, the server ran for each answer {}.",
                told.join(" and ")
            )
        })
    }

    /// Where one should rather not share.
    fn losses(&self) -> Option<String> {
        let mut losses = Vec::new();
        for (asked, clients) in self.cells() {
            for (other, name) in [(Route::Off, "of not shared"), (Route::Direct, "of direct")] {
                let ratio = self.compared(asked, clients, (Route::On, other));
                if let Some(ratio) = ratio.filter(|it| it.median < 1.0 - LITTLE) {
                    losses.push(format!(
                        "{:.2} {name} ({:.2} to {:.2}; {}, {clients} clients)",
                        ratio.median,
                        ratio.low,
                        ratio.high,
                        asked.label()
                    ));
                }
            }
        }
        (!losses.is_empty()).then(|| format!("Shared, Flifo does less in: {}.", losses.join("; ")))
    }

    fn notes(&self) -> Vec<String> {
        let errors: u64 = self.samples.iter().map(|it| it.turn.errors).sum();
        let errors =
            (errors > 0).then(|| format!("{errors} statements were answered with errors."));
        let disturbance = ways::disturbance(self.samples.iter().map(|it| it.turn.foreign));
        let failed = self.failed.iter().map(|why| format!("Not measured: {why}"));
        failed.chain(errors).chain(disturbance).collect()
    }

    /// Compared in each round.
    fn compared(
        &self,
        asked: Asked,
        clients: u32,
        (route, with): (Route, Route),
    ) -> Option<Spread> {
        let rates = |route| self.of(asked, clients, route).map(|it| it.turn.rate);
        let pairs = rates(route).zip(rates(with)).filter(|(_, base)| *base > 0.0);
        Spread::of(pairs.map(|(rate, base)| rate / base))
    }

    fn spread(
        &self,
        asked: Asked,
        clients: u32,
        route: Route,
        figure: fn(&Sample) -> f64,
    ) -> Option<Spread> {
        Spread::of(self.of(asked, clients, route).map(figure))
    }

    fn of(&self, asked: Asked, clients: u32, route: Route) -> impl Iterator<Item = &Sample> {
        let is_it = move |it: &&Sample| (it.asked, it.clients, it.route) == (asked, clients, route);
        self.samples.iter().copied().filter(is_it)
    }

    fn most(&self, asked: Asked) -> Option<u32> {
        self.cells().into_iter().filter(|cell| cell.0 == asked).map(|cell| cell.1).max()
    }

    /// What was asked by how many clients, in the order in which it was measured.
    fn cells(&self) -> Vec<(Asked, u32)> {
        let mut cells = Vec::new();
        for sample in &self.samples {
            let cell = (sample.asked, sample.clients);
            if !cells.contains(&cell) {
                cells.push(cell);
            }
        }
        cells
    }
}

impl Sample {
    fn runs_for_an_answer(&self) -> f64 {
        self.runs as f64 / self.turn.answered.max(1) as f64
    }
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

const EXPLANATION: [&str; 3] = [
    "A statement joins only a run that has not begun when it arrives. A run that has begun may have read a row before \
     another client wrote it, or before this client did: the client would be told what was so before it asked, and could \
     miss its own write. A run that begins while the statement waits reads what is there after the client asked, as a \
     run of its own would have. So all equal reads that arrive while one runs wait, and the next run answers them \
     together: the more clients wait, the more each run answers.",
    "Where a slot is free, a statement begins at once. It never stands beside an equal one, and as many slots as there \
     are would run the same read at the same time. Therefore a read that takes long waits although slots are free, if \
     two equal ones run already: later ones form a crowd, and when one of the two ends, the crowd goes to the queue as a \
     whole and has one run. So a stampede costs about three runs, whatever the number of slots: two for the first two, \
     one for the crowd. A short read does not wait like that: it would wait for about as long as it runs.",
    "Sharing gains nothing where equal statements do not wait at the same time: with few clients, with single rows that \
     are all asked for alike, and for short reads with more slots than clients. It is not tried in transactions, for \
     writes and locking reads, and where the value may differ by client or moment (random numbers, clocks, user \
     variables). Where nothing is equal, a statement that waits pays for a hash, and one that does not wait for nothing.",
];

/// What rounds differ by in any case.
const LITTLE: f64 = 0.03;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::ways::Turn;

    fn sample(asked: Asked, route: Route, rate: f64, runs: u64) -> Result<Sample, String> {
        let turn = Turn {
            rate,
            answered: 1000,
            p50_ms: 1.0,
            p99_ms: 4.0,
            jain: 1.0,
            switches: 1.0,
            cpu_us: 40.0,
            errors: 0,
            foreign: 0.0,
            cpus: vec![1.2, 0.6],
            idle: 0.1,
            delay: 0.1,
        };
        Ok(Sample { asked, route, clients: 512, turn, runs })
    }

    #[test]
    fn runs_and_gains_are_told_beside_the_report() {
        let samples = [
            sample(Asked::Stampede, Route::Direct, 100.0, 1000),
            sample(Asked::Stampede, Route::Off, 125.0, 1001),
            sample(Asked::Stampede, Route::On, 2000.0, 10),
            sample(Asked::Stampede, Route::FreeSlots, 1500.0, 20),
            // A faster round.
            sample(Asked::Stampede, Route::Direct, 200.0, 1000),
            sample(Asked::Stampede, Route::Off, 250.0, 1001),
            sample(Asked::Stampede, Route::On, 4400.0, 10),
            sample(Asked::Stampede, Route::FreeSlots, 3000.0, 20),
        ];
        let finding = of(&samples);
        let rows = &finding.table.rows;
        assert_eq!(rows[0][..3], ["the report's: the same sum", "512", "Flifo, not shared"]);
        assert_eq!(rows[0][5..7], ["1.09", "1"]);
        assert_eq!(rows[3][2..7], ["Flifo, shared", "3200", "2000 – 4400", "21.00", "0.01"]);
        assert!(rows.iter().all(|row| row.len() == finding.table.titles.len()));
        let text = finding.reading.join("\n");
        for part in [
            "The same sum, asked by all, 512 clients: shared, Flifo gives 21 times as many answers",
            "(20 to 22), and 16.8 times as many as a Flifo that does not share",
            "One run of the server answered 100 statements. The report's Flifo",
            "ran for each answer 0.02 in place of 0.01",
        ] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
        assert!(!text.contains("does less"), "{text}");
        assert!(finding.notes.is_empty());
        let [Plot::Dots(answers), Plot::Dots(runs)] = [0, 1].map(|at| &finding.charts[at].plot)
        else {
            panic!("dots")
        };
        let at_on = |dots: &Dots| dots.rows[0].dots[2].expect("was measured");
        assert_eq!(at_on(answers), Dot { value: 3200.0, range: Some((2000.0, 4400.0)) });
        assert_eq!(at_on(runs).value, 0.01);
    }

    #[test]
    fn where_sharing_loses_it_is_told() {
        let mut last = sample(Asked::Uniform, Route::On, 180.0, 999);
        last.as_mut().expect("is one").turn.errors = 3;
        let samples = [
            sample(Asked::Uniform, Route::Direct, 100.0, 1000),
            sample(Asked::Uniform, Route::Off, 200.0, 1000),
            Err("it fell over.".to_owned()),
            last,
        ];
        let finding = of(&samples);
        let text = finding.reading.join("\n");
        for part in [
            "does less in: 0.90 of not shared (0.90 to 0.90; single rows, all alike, 512 clients).",
            "The server ran each statement by itself.",
        ] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
        let notes = ["Not measured: it fell over.", "3 statements were answered with errors."];
        assert_eq!(finding.notes, notes);
    }

    #[test]
    fn nothing_is_said_of_what_was_not_measured() {
        let finding = of(&[]);
        assert!(finding.reading.is_empty() && finding.charts.is_empty());
        assert_eq!(finding.table.rows.len(), 1);
    }
}
