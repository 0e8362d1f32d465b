//! What the sweep of limits says: the table, the charts and the words.
//!
//! Pure. Invariants: `auto` is compared with the best of the fixed limits under the same load; a
//! sentence about figures is there only if they were measured.

use std::collections::BTreeMap;

use super::{CHANGED, Sample, Sort};
use crate::chart::{Axis, Chart, Grid, Lines, Look, Marks, Plot, Point, ScaleKind, Series, number};
use crate::lab::experiment::Finding;
use crate::lab::ways::{self, Limit};
use crate::results::Spread;

pub(super) fn of(samples: &[Sample]) -> Finding {
    let found = Found { samples };
    let reading = found.sorts().into_iter().filter_map(|sort| found.reading(sort));
    let explanation = (!samples.is_empty()).then(|| {
        format!(
            "Before each measurement `auto` ran under another of these loads; then it had {} s to \
             find its new limit. A best limit that stands out by a few percent among eight is \
             partly luck, so `auto` is compared with more than any one limit could promise. \
             Generator and Flifo share half of this machine's CPUs in every turn, so that no limit \
             gains from where the kernel put them; the server has all.",
            CHANGED.as_secs()
        )
    });
    Finding {
        table: found.table(),
        charts: [found.rates_chart(), found.course_chart()].into_iter().flatten().collect(),
        reading: reading.chain(explanation).collect(),
        notes: ways::disturbance(samples.iter().map(|it| it.foreign)).into_iter().collect(),
    }
}

struct Found<'a> {
    samples: &'a [Sample],
}

impl Found<'_> {
    fn table(&self) -> Grid {
        let titles = ["", "limit", "a second", "range", "of the best fixed", "p99 ms"];
        let mut rows = Vec::new();
        for sort in self.sorts() {
            let best = self.best(sort).map_or(0.0, |(_, rate)| rate);
            for limit in self.limits(sort) {
                let Some(rate) = self.spread(sort, limit, |it| it.rate) else { continue };
                let p99 = self.spread(sort, limit, |it| it.p99_ms);
                rows.push(vec![
                    sort.label().to_owned(),
                    self.name(sort, limit),
                    number(rate.median),
                    format!("{} – {}", number(rate.low), number(rate.high)),
                    format!("{:.2}", rate.median / best),
                    p99.map_or_else(String::new, |it| number(it.median)),
                ]);
            }
        }
        Grid { titles: titles.map(str::to_owned).to_vec(), rows }
    }

    fn name(&self, sort: Sort, limit: Limit) -> String {
        match limit {
            Limit::Fixed(limit) => limit.to_string(),
            Limit::Auto => {
                let found = self.found(sort);
                found.map_or_else(|| "auto".to_owned(), |it| format!("auto ({})", number(it)))
            }
        }
    }

    /// Throughput over limits.
    fn rates_chart(&self) -> Option<Chart> {
        let mut series = Vec::new();
        for (at, sort) in self.sorts().into_iter().enumerate() {
            let (_, best) = self.best(sort)?;
            let points = self.limits(sort).into_iter().filter_map(|limit| {
                let Limit::Fixed(x) = limit else { return None };
                self.point(f64::from(x), sort, limit, best)
            });
            series.push(Series {
                name: sort.label().to_owned(),
                look: Look(at),
                points: points.collect(),
                marks: Marks::Points,
            });
        }
        let autos = self.sorts().into_iter().filter_map(|sort| {
            let (_, best) = self.best(sort)?;
            self.point(self.found(sort)?, sort, Limit::Auto, best)
        });
        let mut points: Vec<_> = autos.collect();
        points.sort_by(|one, other| one.x.total_cmp(&other.x));
        let (name, look) = ("auto, where it was".to_owned(), Look(4));
        series.push(Series { name, look, points, marks: Marks::Points });
        let has_any = series.iter().any(|it| !it.points.is_empty());
        has_any.then(|| Chart {
            title: "Throughput by limit".into(),
            note: "Of each load, as a share of the best fixed limit. `auto` has a mark for each \
                   load, at the middle of its limits."
                .into(),
            plot: Plot::Lines(Lines {
                x: Axis::new("limit", ScaleKind::Log),
                y: Axis::new("% of the best fixed limit", ScaleKind::Linear),
                series,
            }),
        })
    }

    fn point(&self, x: f64, sort: Sort, limit: Limit, best: f64) -> Option<Point> {
        let rate = self.spread(sort, limit, |it| it.rate)?;
        let share = |rate: f64| rate * 100.0 / best;
        Some(Point { x, y: share(rate.median), range: Some((share(rate.low), share(rate.high))) })
    }

    /// Where `auto` went after each change of load.
    fn course_chart(&self) -> Option<Chart> {
        let course = |(at, sort): (usize, Sort)| {
            let sample = self.autos(sort).next()?;
            let points = sample.decisions.iter().map(|decision| Point {
                x: decision.at,
                y: decision.centre,
                range: None,
            });
            let name = format!("to: {}", sort.label());
            Some(Series { name, look: Look(at), points: points.collect(), marks: Marks::Band })
        };
        let series: Vec<_> = self.sorts().into_iter().enumerate().filter_map(course).collect();
        series.iter().any(|it| !it.points.is_empty()).then(|| Chart {
            title: "The limit after a change".into(),
            note: "What `auto` swings around, from the first decision after the load changed."
                .into(),
            plot: Plot::Lines(Lines {
                x: Axis::new("seconds", ScaleKind::Linear),
                y: Axis::new("limit", ScaleKind::Log),
                series,
            }),
        })
    }

    fn reading(&self, sort: Sort) -> Option<String> {
        let (best, best_rate) = self.best(sort)?;
        let auto = self.spread(sort, Limit::Auto, |it| it.rate)?;
        let found =
            self.found(sort).map_or_else(String::new, |it| format!(", around {}", number(it)));
        let chosen = self.against_chosen(sort).map_or_else(String::new, |it| {
            let Spread { median, low, high, .. } = it;
            format!(
                " Of the limit that did best in the other rounds it does {median:.2} ({low:.2} to \
                 {high:.2})."
            )
        });
        Some(format!(
            "{}: `auto` does {:.2} of the best fixed limit ({:.2} to {:.2}), which is {best}{found}.{chosen} \
             Why it moved or did not: {}.",
            sort.label(),
            auto.median / best_rate,
            auto.low / best_rate,
            auto.high / best_rate,
            self.reasons(sort)
        ))
    }

    /// Compares `auto` in each round with the fixed limit that is the best in all other rounds. The best of eight
    /// limits in the same rounds would also be the luckiest of eight.
    fn against_chosen(&self, sort: Sort) -> Option<Spread> {
        let rates = |limit: Limit| -> Vec<f64> {
            let ours = self.samples.iter().filter(|it| it.sort == sort && it.limit == limit);
            ours.map(|it| it.rate).collect()
        };
        let fixed = self.limits(sort).into_iter().filter(|it| *it != Limit::Auto);
        let (fixed, auto): (Vec<_>, _) = (fixed.map(rates).collect(), rates(Limit::Auto));
        let rounds = fixed.iter().map(Vec::len).min()?.min(auto.len());
        if rounds < ROUNDS_MIN {
            return None;
        }
        let in_others = |rates: &[f64], round: usize| {
            let others = rates[..rounds].iter().enumerate().filter(|(at, _)| *at != round);
            Spread::of(others.map(|(_, rate)| *rate)).map_or(0.0, |it| it.median)
        };
        let ratio = |round: usize| {
            let rank = |rates: &&Vec<f64>| in_others(rates, round);
            let chosen = fixed.iter().max_by(|one, two| rank(one).total_cmp(&rank(two)))?;
            Some(auto[round] / chosen[round])
        };
        Spread::of((0..rounds).filter_map(ratio))
    }

    /// How often each reason was given.
    fn reasons(&self, sort: Sort) -> String {
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        for decision in self.autos(sort).flat_map(|sample| &sample.decisions) {
            *counts.entry(&decision.why).or_default() += 1;
        }
        let words: Vec<_> = counts.iter().map(|(why, count)| format!("{why} {count}x")).collect();
        if words.is_empty() { "it did not say".to_owned() } else { words.join(", ") }
    }

    /// The middle of `auto`'s limits while it was measured.
    fn found(&self, sort: Sort) -> Option<f64> {
        let settled = CHANGED.as_secs_f64();
        let decisions = self.autos(sort).flat_map(|sample| &sample.decisions);
        let late = decisions.filter(|it| it.at >= settled).map(|it| it.centre);
        Some(Spread::of(late)?.median)
    }

    fn autos(&self, sort: Sort) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(move |it| it.sort == sort && it.limit == Limit::Auto)
    }

    /// The best fixed limit, and what it does.
    fn best(&self, sort: Sort) -> Option<(u32, f64)> {
        let fixed = self.limits(sort).into_iter().filter_map(|limit| match limit {
            Limit::Fixed(number) => Some((number, self.spread(sort, limit, |it| it.rate)?.median)),
            Limit::Auto => None,
        });
        fixed.max_by(|one, other| one.1.total_cmp(&other.1))
    }

    fn spread(&self, sort: Sort, limit: Limit, figure: fn(&Sample) -> f64) -> Option<Spread> {
        let ours = self.samples.iter().filter(|it| it.sort == sort && it.limit == limit);
        Spread::of(ours.map(figure))
    }

    fn sorts(&self) -> Vec<Sort> {
        let was_tried = |sort: &Sort| self.samples.iter().any(|it| it.sort == *sort);
        Sort::ALL.into_iter().filter(was_tried).collect()
    }

    /// In the order in which they were measured.
    fn limits(&self, sort: Sort) -> Vec<Limit> {
        let mut limits = Vec::new();
        for sample in self.samples.iter().filter(|it| it.sort == sort) {
            if !limits.contains(&sample.limit) {
                limits.push(sample.limit);
            }
        }
        limits
    }
}

/// Fewer rounds tell nothing of what is luck.
const ROUNDS_MIN: usize = 3;

#[cfg(test)]
mod tests {
    use super::super::Decision;
    use super::*;

    fn sample(limit: Limit, rate: f64) -> Sample {
        let decision = |at, centre, why: &str| Decision { at, why: why.to_owned(), centre };
        let decisions = match limit {
            Limit::Fixed(_) => vec![],
            Limit::Auto => vec![
                decision(0.0, 40.0, "Down"),
                decision(0.2, 30.0, "Down"),
                decision(10.5, 9.0, "Unsure"),
            ],
        };
        Sample { sort: Sort::Disk, limit, rate, p99_ms: 3.0, foreign: 0.0, decisions }
    }

    #[test]
    fn auto_is_compared_with_the_best_fixed_limit() {
        let samples = [
            sample(Limit::Fixed(1), 100.0),
            sample(Limit::Fixed(8), 200.0),
            sample(Limit::Fixed(64), 150.0),
            sample(Limit::Auto, 196.0),
        ];
        let finding = of(&samples);
        let row = finding.table.rows.last().expect("rows");
        assert_eq!(row[..5], ["bound by the disk", "auto (9)", "196", "196 – 196", "0.98"]);
        let text = finding.reading.join("\n");
        for part in ["does 0.98 of the best", "which is 8, around 9", "Down 2x, Unsure 1x"] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
        let lines = finding.charts.iter().map(|chart| match &chart.plot {
            Plot::Lines(lines) => lines.series.len(),
            _ => 0,
        });
        assert_eq!(lines.collect::<Vec<_>>(), [2, 1]);
    }

    #[test]
    fn the_luckiest_of_many_limits_is_not_the_measure() {
        // Each fixed limit is lucky in one round, and none is better than another.
        let lucky = |at: usize, round: usize| if at == round { 300.0 } else { 200.0 };
        let samples: Vec<_> = (0..3)
            .flat_map(|round| {
                let fixed = [1, 8, 64].into_iter().enumerate();
                let fixed = fixed.map(move |(at, it)| sample(Limit::Fixed(it), lucky(at, round)));
                fixed.chain([sample(Limit::Auto, 200.0)])
            })
            .collect();
        let text = of(&samples).reading.join(" ");
        assert!(text.contains("best in the other rounds it does 1.00 (1.00 to 1.00)"), "{text}");
        assert!(!of(&samples[..8]).reading.join(" ").contains("other rounds"));
    }

    #[test]
    fn nothing_is_said_of_what_was_not_measured() {
        let finding = of(&[]);
        assert!(finding.reading.is_empty() && finding.charts.is_empty());
        assert!(finding.table.rows.is_empty());
    }
}
