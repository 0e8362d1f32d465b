//! What the experiment with starvation says: the table, the chart and the words.
//!
//! Pure. Invariants: a treatment is compared with nothing by the ratios of each round; a sentence about figures is
//! there only if they were measured.

use super::{Case, Remedy, Sample};
use crate::chart::{Axis, Chart, Dot, DotRow, Dots, Grid, Look, Plot, ScaleKind, number};
use crate::lab::experiment::Finding;
use crate::lab::ways;
use crate::results::Spread;

pub(super) fn of(samples: &[Sample]) -> Finding {
    let found = Found { samples };
    let mut notes: Vec<String> =
        ways::disturbance(samples.iter().map(|it| it.turn.foreign)).into_iter().collect();
    let refused = Remedy::ALL.into_iter().filter(|remedy| {
        samples.iter().any(|it| it.remedy == *remedy && it.said.refused && *remedy != Remedy::Auto)
    });
    let refused: Vec<_> = refused.map(Remedy::name).collect();
    if !refused.is_empty() {
        notes.push(format!("Not permitted or not possible here: {}.", refused.join(", ")));
    }
    let unsettled = samples.iter().filter(|it| !it.has_settled).count();
    if unsettled > 0 {
        notes.push(format!(
            "In {unsettled} turns `auto` was still trying remedies when it was measured."
        ));
    }
    if !samples.is_empty() {
        notes.push(
            "Clients, proxy and server share this machine's CPUs; the note's clients had a machine of their own."
                .to_owned(),
        );
    }
    Finding {
        table: found.table(),
        charts: found.chart().into_iter().collect(),
        reading: found.cases().into_iter().flat_map(|case| found.reading(case)).collect(),
        notes,
    }
}

struct Found<'a> {
    samples: &'a [Sample],
}

impl Found<'_> {
    fn table(&self) -> Grid {
        let titles = [
            "",
            "treatment",
            "a second",
            "range",
            "x nothing",
            "range",
            "p99 ms",
            "CPUs server",
            "CPUs proxy",
            "idle %",
            "delay %",
        ];
        let mut rows = Vec::new();
        for case in self.cases() {
            for remedy in Remedy::ALL {
                let Some(rate) = self.spread(case, remedy, |it| it.turn.rate) else { continue };
                let ratio = self.ratio(case, remedy);
                let median = |of: fn(&Sample) -> f64| {
                    self.spread(case, remedy, of).map_or(0.0, |it| it.median)
                };
                let cpus = |at: usize| {
                    let mine = self.of(case, remedy).filter_map(|it| it.turn.cpus.get(at).copied());
                    Spread::of(mine).map_or_else(String::new, |it| format!("{:.2}", it.median))
                };
                rows.push(vec![
                    case.label().to_owned(),
                    remedy.name().to_owned(),
                    number(rate.median),
                    format!("{} – {}", number(rate.low), number(rate.high)),
                    ratio.map_or_else(String::new, |it| format!("{:.2}", it.median)),
                    ratio.map_or_else(String::new, |it| format!("{:.2} – {:.2}", it.low, it.high)),
                    number(median(|it| it.turn.p99_ms)),
                    cpus(0),
                    cpus(1),
                    format!("{:.0}", median(|it| it.turn.idle) * 100.0),
                    format!("{:.0}", median(|it| it.turn.delay) * 100.0),
                ]);
            }
        }
        Grid { titles: titles.map(str::to_owned).to_vec(), rows }
    }

    fn chart(&self) -> Option<Chart> {
        let cases = self.cases();
        let rows: Vec<DotRow> = Remedy::ALL
            .into_iter()
            .map(|remedy| {
                let dot = |case: &Case| {
                    let ratio = self.ratio(*case, remedy)?;
                    Some(Dot { value: ratio.median, range: Some((ratio.low, ratio.high)) })
                };
                DotRow { label: remedy.name().to_owned(), dots: cases.iter().map(dot).collect() }
            })
            .filter(|row| row.dots.iter().any(Option::is_some))
            .collect();
        let series = cases
            .iter()
            .enumerate()
            .map(|(at, case)| (case.label().to_owned(), Look(at)))
            .collect();
        (!rows.is_empty()).then(|| Chart {
            title: "What each treatment does".into(),
            note: "Statements a second, as multiples of those without any treatment in the same round.".into(),
            plot: Plot::Dots(Dots { x: Axis::new("times nothing", ScaleKind::Linear), series, rows }),
        })
    }

    fn reading(&self, case: Case) -> Vec<String> {
        // The cap is no placement, which is what `auto` chooses among.
        let fixed = [Remedy::Batch, Remedy::Priority, Remedy::PrivateCore].into_iter();
        let ratios = fixed.filter_map(|remedy| Some((remedy, self.ratio(case, remedy)?)));
        let best = ratios.max_by(|one, other| one.1.median.total_cmp(&other.1.median));
        let Some((best, gain)) = best else { return Vec::new() };
        let mut reading = vec![format!(
            "{}: the best fixed placement is {}, {:.2} times nothing ({:.2} to {:.2}): {}.",
            case.label(),
            best.name(),
            gain.median,
            gain.low,
            gain.high,
            match gain.median {
                ratio if ratio >= 1.10 => "what was lost to the kernel's fairness",
                ratio if ratio > 1.0 + LITTLE => "little was lost",
                _ => "nothing was lost, and whatever is done harms or does nothing",
            }
        )];
        if let Some(auto) = self.ratio(case, Remedy::Auto) {
            let part = (auto.median - 1.0) / (gain.median - 1.0);
            let recovered = match gain.median > 1.0 + LITTLE {
                true => format!(", {part:.2} of the best one's gain"),
                false => String::new(),
            };
            reading.push(format!(
                "{}: `auto` does {:.2} times nothing ({:.2} to {:.2}){recovered}. In {} rounds it kept: {}; tried in \
                 vain: {}.",
                case.label(),
                auto.median,
                auto.low,
                auto.high,
                self.of(case, Remedy::Auto).count(),
                list(self.of(case, Remedy::Auto).flat_map(|it| &it.said.helped)),
                list(self.of(case, Remedy::Auto).flat_map(|it| &it.said.useless)),
            ));
        }
        if let Some(cap) = self.ratio(case, Remedy::OwnCap) {
            reading.push(format!(
                "{}: Flifo's own cap, which changes nothing on the machine, does {:.2} times nothing ({:.2} to {:.2}).",
                case.label(),
                cap.median,
                cap.low,
                cap.high
            ));
        }
        reading
    }

    /// Of each round in which both were measured.
    fn ratio(&self, case: Case, remedy: Remedy) -> Option<Spread> {
        let rates = |remedy| self.of(case, remedy).map(|it| it.turn.rate);
        let pairs = rates(remedy).zip(rates(Remedy::Nothing)).filter(|(_, base)| *base > 0.0);
        Spread::of(pairs.map(|(rate, base)| rate / base))
    }

    fn spread(&self, case: Case, remedy: Remedy, figure: fn(&Sample) -> f64) -> Option<Spread> {
        Spread::of(self.of(case, remedy).map(figure))
    }

    fn of(&self, case: Case, remedy: Remedy) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(move |it| it.case == case && it.remedy == remedy)
    }

    fn cases(&self) -> Vec<Case> {
        let was_tried = |case: &Case| self.samples.iter().any(|it| it.case == *case);
        Case::ALL.into_iter().filter(was_tried).collect()
    }
}

/// Each name once, with how often it came.
fn list<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let mut counts = std::collections::BTreeMap::new();
    for name in names {
        *counts.entry(name).or_insert(0_u32) += 1;
    }
    let words: Vec<_> =
        counts.into_iter().map(|(name, count)| format!("{name} {count}x")).collect();
    if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
}

/// What rounds differ by in any case.
const LITTLE: f64 = 0.03;

#[cfg(test)]
mod tests {
    use super::super::Said;
    use super::*;
    use crate::lab::ways::Turn;

    fn sample(remedy: Remedy, rate: f64) -> Sample {
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
            idle: 0.12,
            delay: 0.4,
        };
        let helped = if remedy == Remedy::Auto { vec!["batch".to_owned()] } else { Vec::new() };
        Sample {
            case: Case::Heavy,
            remedy,
            turn,
            said: Said { helped, ..Said::default() },
            has_settled: true,
        }
    }

    #[test]
    fn auto_is_compared_with_the_best_fixed_treatment() {
        let samples = [
            sample(Remedy::Nothing, 1000.0),
            sample(Remedy::Batch, 1200.0),
            sample(Remedy::Priority, 1150.0),
            sample(Remedy::Auto, 1190.0),
        ];
        let finding = of(&samples);
        let row = finding.table.rows.last().expect("rows");
        assert_eq!(row[1..5], ["auto", "1190", "1190 – 1190", "1.19"]);
        assert_eq!(row[7..], ["1.20", "0.60", "12", "40"]);
        let text = finding.reading.join("\n");
        for part in ["server batch, 1.20 times nothing", "0.95 of the best one's gain", "batch 1x"]
        {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
        assert_eq!(finding.charts.len(), 1);
    }

    #[test]
    fn where_nothing_was_lost_no_share_of_a_gain_is_told() {
        let samples = [
            sample(Remedy::Nothing, 1000.0),
            sample(Remedy::Priority, 980.0),
            sample(Remedy::Auto, 1000.0),
        ];
        let text = of(&samples).reading.join("\n");
        assert!(
            text.contains("nothing was lost") && !text.contains("of the best one's gain"),
            "{text}"
        );
    }

    #[test]
    fn nothing_is_said_of_what_was_not_measured() {
        let finding = of(&[]);
        assert!(finding.reading.is_empty() && finding.charts.is_empty());
    }
}
