//! What the ladder says: the table, the waterfall and the words.
//!
//! Pure. Invariants: a step is compared with the one before it in the same round; the note's own figures are marked as
//! such; steps that do not help are named.

use super::{Sample, Step};
use crate::chart::{Axis, BarRow, Bars, Chart, Fill, Grid, Look, Piece, Plot, ScaleKind, number};
use crate::lab::experiment::Finding;
use crate::lab::ways;
use crate::results::Spread;

pub(super) fn of(samples: &[Sample]) -> Finding {
    let found = Found { samples };
    Finding {
        table: found.table(),
        charts: found.waterfall().into_iter().collect(),
        reading: found.reading(),
        notes: ways::disturbance(samples.iter().map(|it| it.turn.foreign)).into_iter().collect(),
    }
}

/// The note's steps, as multiples of the one before.
const NOTE: [(&str, f64); 3] = [
    ("no power management, eight threads", 3.5),
    ("eight connections instead of one, about", 2.0),
    ("threads locked to CPUs", 1.8),
];

struct Found<'a> {
    samples: &'a [Sample],
}

impl Found<'_> {
    fn table(&self) -> Grid {
        let titles = ["", "step", "a second", "range", "x before", "range", "so far", "p99 ms"];
        let mut rows = Vec::new();
        let mut so_far = 1.0;
        for (name, gain) in NOTE {
            so_far *= gain;
            let cells = [
                "the note's",
                name,
                "",
                "",
                &format!("{gain:.1}"),
                "",
                &format!("{so_far:.1}"),
                "",
            ];
            rows.push(cells.map(str::to_owned).to_vec());
        }
        for step in self.steps() {
            let Some(rate) = self.spread(step, |it| it.turn.rate) else { continue };
            let (gain, product) = (self.gain(step), self.product(step));
            let p99 = self.spread(step, |it| it.turn.p99_ms);
            rows.push(vec![
                "here".to_owned(),
                step.name().to_owned(),
                number(rate.median),
                format!("{} – {}", number(rate.low), number(rate.high)),
                gain.map_or_else(String::new, |it| format!("{:.2}", it.median)),
                gain.map_or_else(String::new, |it| format!("{:.2} – {:.2}", it.low, it.high)),
                product.map_or_else(String::new, |it| format!("{:.2}", it.median)),
                p99.map_or_else(String::new, |it| number(it.median)),
            ]);
        }
        Grid { titles: titles.map(str::to_owned).to_vec(), rows }
    }

    /// Each bar begins where the one before ended; what is lost is shown as such.
    fn waterfall(&self) -> Option<Chart> {
        let piece =
            |name: &str, look, fill| Piece { name: name.to_owned(), look: Look(look), fill };
        let mut before = 0.0;
        let mut rows = Vec::new();
        for step in self.steps() {
            let rate = self.spread(step, |it| it.turn.rate)?.median;
            let lengths = match before == 0.0 {
                true => vec![rate, 0.0, 0.0],
                false => {
                    vec![f64::min(rate, before), (rate - before).max(0.0), (before - rate).max(0.0)]
                }
            };
            rows.push(BarRow { label: step.name().to_owned(), heading: None, lengths });
            before = rate;
        }
        (!rows.is_empty()).then(|| Chart {
            title: "What each step adds".into(),
            note: "Statements a second with each step and all before it: what there was, what came, what went.".into(),
            plot: Plot::Bars(Bars {
                x: Axis::new("statements a second", ScaleKind::Linear),
                pieces: vec![
                    piece("before", 0, Fill::Full),
                    piece("gained", 1, Fill::Full),
                    piece("lost", 4, Fill::Striped),
                ],
                rows,
            }),
        })
    }

    fn reading(&self) -> Vec<String> {
        let steps = self.steps();
        let Some(last) = steps.last() else { return Vec::new() };
        let Some(product) = self.product(*last) else { return Vec::new() };
        let mut reading = vec![format!(
            "All steps together: {:.2} times as much ({:.2} to {:.2}); the note's made 14 times.",
            product.median, product.low, product.high
        )];
        let mut useless = Vec::new();
        let mut helpful = Vec::new();
        for step in &steps {
            let Some(gain) = self.gain(*step) else { continue };
            let text = format!("{} ({:.2})", step.name(), gain.median);
            // What is sometimes more and sometimes less is neither.
            if gain.median > 1.0 + LITTLE && gain.low > 1.0 { &mut helpful } else { &mut useless }
                .push(text);
        }
        if !helpful.is_empty() {
            reading.push(format!("Steps that help here: {}.", helpful.join(", ")));
        }
        if !useless.is_empty() {
            reading.push(format!("Steps that do not help here: {}.", useless.join(", ")));
        }
        reading
    }

    /// Compared with the step before, in each round.
    fn gain(&self, step: Step) -> Option<Spread> {
        let steps = self.steps();
        let at = steps.iter().position(|it| *it == step)?;
        self.compared(step, *steps.get(at.checked_sub(1)?)?)
    }

    /// Compared with the start.
    fn product(&self, step: Step) -> Option<Spread> {
        self.compared(step, *self.steps().first()?)
    }

    fn compared(&self, step: Step, with: Step) -> Option<Spread> {
        let pairs = self.rates(step).zip(self.rates(with)).filter(|(_, base)| *base > 0.0);
        Spread::of(pairs.map(|(rate, base)| rate / base))
    }

    fn rates(&self, step: Step) -> impl Iterator<Item = f64> {
        self.samples.iter().filter(move |it| it.step == step).map(|it| it.turn.rate)
    }

    fn spread(&self, step: Step, figure: fn(&Sample) -> f64) -> Option<Spread> {
        Spread::of(self.samples.iter().filter(|it| it.step == step).map(figure))
    }

    fn steps(&self) -> Vec<Step> {
        let was_taken = |step: &Step| self.samples.iter().any(|it| it.step == *step);
        Step::ALL.into_iter().filter(was_taken).collect()
    }
}

/// What rounds differ by in any case.
const LITTLE: f64 = 0.02;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::ways::Turn;

    fn sample(step: Step, rate: f64) -> Sample {
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
        Sample { step, turn }
    }

    #[test]
    fn steps_are_compared_with_the_one_before_of_the_same_round() {
        let samples = [
            sample(Step::Start, 100.0),
            sample(Step::Backends, 200.0),
            sample(Step::Limit, 190.0),
            sample(Step::Start, 110.0),
            sample(Step::Backends, 242.0),
            sample(Step::Limit, 250.0),
        ];
        let finding = of(&samples);
        let row = &finding.table.rows[4];
        assert_eq!(row[..2], ["here", "backends 1 → 8"]);
        assert_eq!(row[4..7], ["2.10", "2.00 – 2.20", "2.10"]);
        let text = finding.reading.join("\n");
        for part in [
            "All steps together: 2.09 times",
            "that help here: backends 1 → 8 (2.10).",
            "do not help here: limit 4 for each CPU (0.99).",
        ] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
        let Plot::Bars(bars) = &finding.charts[0].plot else { panic!("bars") };
        assert_eq!(bars.rows[1].lengths, [105.0, 116.0, 0.0]);
        assert_eq!(bars.rows[2].lengths, [220.0, 0.0, 1.0]);
    }

    #[test]
    fn nothing_is_said_of_what_was_not_measured() {
        let finding = of(&[]);
        assert!(finding.reading.is_empty() && finding.charts.is_empty());
        assert_eq!(finding.table.rows.len(), NOTE.len());
    }
}
