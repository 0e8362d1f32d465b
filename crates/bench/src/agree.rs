//! `flifo bench agree`: whether two runs of one comparison come to the same answer.
//!
//! Judges files, and measures nothing. What is judged are the ratios between targets, which are what
//! a comparison is made for: two agree where their intervals overlap. Chance makes a few miss each
//! other; the runs agree if no more do than chance explains. Invariant: every ratio that is judged
//! in either file is counted, also where the other file lacks it.

use std::fmt::Write;

use serde::Serialize;

use crate::chart::number;
use crate::names;
use crate::results::{Interval, Measure, Over, Ratio, Results};
use crate::table::{Colours, Style, Table, TableCell as Text, paint};

/// Two runs' answers, side by side.
#[derive(Clone, Debug, Serialize)]
pub struct Agreement {
    /// Ratios that both have with intervals.
    pub pairs: Vec<Pair>,
    /// Ratios that only one has, or without an interval.
    pub unmatched: usize,
    /// What makes the intervals narrower than the truth.
    pub cautions: Vec<String>,
}

/// One ratio as both runs have it.
#[derive(Clone, Debug, Serialize)]
pub struct Pair {
    pub first: Ratio,
    pub second: Ratio,
}

/// Compares the ratios of both.
pub fn agree(first: &Results, second: &Results) -> Agreement {
    let judged = |of: &Results| -> Vec<Ratio> {
        of.ratios.iter().filter(|it| JUDGED.contains(&it.measure)).cloned().collect()
    };
    let (ours, mut theirs) = (judged(first), judged(second));
    let (mut pairs, mut unmatched) = (Vec::new(), 0);
    for first in ours {
        let Some(at) = theirs.iter().position(|second| is_same(&first, second)) else {
            unmatched += 1;
            continue;
        };
        let second = theirs.swap_remove(at);
        if first.interval.is_some() && second.interval.is_some() {
            pairs.push(Pair { first, second });
        } else {
            unmatched += 1;
        }
    }
    unmatched += theirs.len();
    let cautions = cautions(&pairs, [first, second]);
    Agreement { pairs, unmatched, cautions }
}

impl Agreement {
    /// Whether both runs say the same: something, and no more apart than chance explains.
    pub fn holds(&self) -> bool {
        let apart = self.apart().count();
        !self.pairs.is_empty() && apart <= most_by_chance(self.pairs.len())
    }

    /// What is apart, then how much there was to compare, then the verdict.
    pub fn text(&self, colours: Colours) -> String {
        let mut text = String::new();
        for caution in &self.cautions {
            text.push_str(&paint(caution, Style::Marked, colours));
            text.push('\n');
        }
        let apart: Vec<&Pair> = self.apart().collect();
        if !apart.is_empty() {
            text.push_str(&table(&apart).render(colours));
            text.push('\n');
        }
        for measure in JUDGED {
            text.push_str(&self.summary(measure));
        }
        if self.unmatched != 0 {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "Not in both with an interval: {}.", self.unmatched);
        }
        let (count, most) = (self.pairs.len(), most_by_chance(self.pairs.len()));
        let verdict = if self.holds() { "The runs agree" } else { "The runs do not agree" };
        let _ = writeln!(
            text,
            "{verdict}: of {count} intervals {} miss their partner; chance alone makes it up to \
             {most}.",
            apart.len()
        );
        text
    }

    fn apart(&self) -> impl Iterator<Item = &Pair> {
        self.pairs.iter().filter(|pair| !pair.overlaps())
    }

    fn summary(&self, measure: Measure) -> String {
        let ours: Vec<_> = self.pairs.iter().filter(|it| it.first.measure == measure).collect();
        if ours.is_empty() {
            return String::new();
        }
        let overlap = ours.iter().filter(|it| it.overlaps()).count();
        let share = |it: &&Pair| (it.second.middle / it.first.middle).ln().abs().exp_m1();
        let mut differences: Vec<f64> = ours.iter().map(share).collect();
        differences.sort_by(f64::total_cmp);
        let percent = |share: f64| number((share * 1000.0).round() / 10.0);
        format!(
            "{}: {overlap} of {} ratios have intervals that overlap; they differ by {} % in the \
             median, by {} % at most.\n",
            names::of(measure).0,
            ours.len(),
            percent(differences[differences.len() / 2]),
            percent(differences[differences.len() - 1])
        )
    }
}

impl Pair {
    fn overlaps(&self) -> bool {
        let ends = |ratio: &Ratio| ratio.interval.map(|Interval { low, high, .. }| (low, high));
        match (ends(&self.first), ends(&self.second)) {
            (Some((low, high)), Some((lower, higher))) => low <= higher && lower <= high,
            _ => false,
        }
    }
}

fn is_same(a: &Ratio, b: &Ratio) -> bool {
    (a.measure, a.load(), &a.target, &a.base) == (b.measure, b.load(), &b.target, &b.base)
}

fn cautions(pairs: &[Pair], files: [&Results; 2]) -> Vec<String> {
    let mut cautions = Vec::new();
    if files[0].machine != files[1].machine {
        cautions.push("The two files are of different machines or kernels.".to_owned());
    }
    let is_over_rounds =
        |it: &Ratio| it.interval.is_some_and(|interval| interval.over == Over::Rounds);
    if pairs.iter().any(|it| is_over_rounds(&it.first) || is_over_rounds(&it.second)) {
        cautions.push(
            "Intervals are over rounds of one start: what differs from start to start is not in \
             them. With 3 starts or more (--restarts) it is."
                .to_owned(),
        );
    }
    cautions
}

fn table(pairs: &[&Pair]) -> Table {
    let mut table = Table::new(&["apart", "first", "from", "to", "second", "from", "to"]);
    let mut measure = None;
    for Pair { first, second } in pairs {
        if measure != Some(first.measure) {
            measure = Some(first.measure);
            table.heading(names::of(first.measure).0);
        }
        let what = format!("{}, {} / {}", first.load(), first.target, first.base);
        let mut row = vec![Text::plain(what)];
        for ratio in [first, second] {
            let Some(Interval { low, high, .. }) = ratio.interval else { continue };
            row.push(Text::new(number(ratio.middle), Style::Strong));
            row.extend([Text::plain(number(low)), Text::plain(number(high))]);
        }
        table.row(row);
    }
    table
}

/// How many of so many independent intervals miss their partner at most, in ninety-nine of a hundred
/// cases: the quantile of the binomial distribution.
fn most_by_chance(count: usize) -> usize {
    let mut chance = (1.0 - MISS).powf(count as f64);
    let (mut sum, mut most) = (chance, 0);
    while sum < SURE && most < count {
        chance *= (count - most) as f64 / (most + 1) as f64 * MISS / (1.0 - MISS);
        sum += chance;
        most += 1;
    }
    most
}

/// What the page answers.
const JUDGED: [Measure; 3] = [Measure::StatementsPerSecond, Measure::P99Ms, Measure::ServerCpuUs];
/// How often two intervals of 95 % miss each other although both readings are of the same thing: of
/// equal widths, as the difference then has to be twice the half of one, and varies by a root of two
/// more than one does.
const MISS: f64 = 0.006;
const SURE: f64 = 0.99;

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Results {
        serde_json::from_str(include_str!("results/example.json")).expect("reads")
    }

    #[test]
    fn a_run_agrees_with_itself() {
        let agreement = agree(&example(), &example());
        assert!(agreement.holds() && !agreement.pairs.is_empty());
        let text = agreement.text(Colours::Off);
        assert!(text.contains("throughput: 2 of 2 ratios have intervals that overlap"), "{text}");
        assert!(text.contains("The runs agree: of "), "{text}");
        assert!(text.contains("rounds of one start"), "{text}");
    }

    #[test]
    fn ratios_that_are_apart_are_shown_and_decide() {
        let (first, mut second) = (example(), example());
        for ratio in &mut second.ratios {
            ratio.middle *= 2.0;
            if let Some(interval) = &mut ratio.interval {
                interval.low *= 2.0;
                interval.high *= 2.0;
            }
        }
        let agreement = agree(&first, &second);
        assert!(!agreement.holds());
        let text = agreement.text(Colours::Off);
        assert!(text.contains("oltp_point_select, 8 clients, flifo / direct"), "{text}");
        assert!(text.contains("The runs do not agree") && text.contains("100 % at most"), "{text}");
    }

    #[test]
    fn what_only_one_has_is_counted_and_nothing_in_common_is_no_agreement() {
        let (first, mut second) = (example(), example());
        second.ratios.iter_mut().for_each(|ratio| ratio.target = "another".into());
        let pairs = agree(&first, &first).pairs.len();
        let agreement = agree(&first, &second);
        assert!(!agreement.holds() && agreement.pairs.is_empty());
        assert!(agreement.text(Colours::Off).contains("Not in both with an interval: "));
        assert_eq!(agreement.unmatched, 2 * pairs);
    }

    #[test]
    fn chance_is_that_of_the_binomial_distribution() {
        // With 100 of 0.006: none in 0.548 of all cases, up to one in 0.878, two in 0.978, three in
        // 0.997.
        assert_eq!([1, 2, 100, 1000].map(most_by_chance), [0, 1, 3, 12]);
    }
}
