//! `flifo bench compare`: what changed between two runs, beyond what starts differ by anyway.
//!
//! Judges files, and measures nothing. A figure counts as changed when two things hold: its
//! interval, which holds for all that is judged at once, leaves out "no change"; and the change
//! is at least [`LEAST`]. What is independent of each other are the starts of what a run started,
//! and the rounds where it started nothing. Invariants: every cell that both files have is judged or
//! said to have too few; cells that only one has are named.

use std::fmt::Write;

use serde::Serialize;

use crate::chart::number;
use crate::figures::units::{self, UNITS_MIN, Units};
use crate::names;
use crate::results::{Cell, Ending, LoadKey, Measure, Over, Results};
use crate::statistics::{Estimate, each_of, ratio};
use crate::table::{Colours, Style, Table, TableCell as Text, paint};

/// Two runs side by side.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// What makes the two runs hard to compare.
    pub cautions: Vec<String>,
    /// All that was judged.
    pub changes: Vec<Change>,
    /// Cells that only one of the files has.
    pub unmatched: Vec<String>,
}

/// One figure of one cell in both runs.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    /// Empty where nothing was bound.
    pub topology: String,
    pub workload: String,
    pub clients: u32,
    pub target: String,
    pub measure: Measure,
    /// Independent readings in both: starts, or rounds of what the runs did not start.
    pub readings: (usize, usize),
    /// Medians of the rounds that count.
    pub old: f64,
    pub new: f64,
    /// New over old; absent where there are too few readings.
    pub ratio: Option<f64>,
    /// The ends between which the ratio lies.
    pub interval: Option<(f64, f64)>,
    pub verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Better,
    Worse,
    /// No change was seen, or one that is too small to mean anything.
    Same,
    /// There are too few starts, or rounds, to say.
    Unknown,
}

/// Judges every cell that both runs have.
pub fn compare(old: &Results, new: &Results) -> Comparison {
    let pairs: Vec<(&Cell, &Cell)> =
        old.cells.iter().filter_map(|cell| Some((cell, partner(cell, new)?))).collect();
    let confidence = each_of(pairs.len() * JUDGED.len(), TOGETHER);
    let yardstick = yardstick(old, new);
    let mut changes = Vec::new();
    for measure in JUDGED {
        changes
            .extend(pairs.iter().filter_map(|pair| judge(measure, *pair, yardstick, confidence)));
    }
    let name = |cell: &Cell, which: &str| {
        format!("{}, {}, only in the {which} file", cell.load(), cell.target)
    };
    let only_old = old.cells.iter().filter(|cell| partner(cell, new).is_none());
    let only_new = new.cells.iter().filter(|cell| partner(cell, old).is_none());
    let unmatched =
        only_old.map(|it| name(it, "old")).chain(only_new.map(|it| name(it, "new"))).collect();
    Comparison { cautions: cautions(old, new), changes, unmatched }
}

impl Comparison {
    /// Whether anything got worse.
    pub fn is_worse(&self) -> bool {
        self.changes.iter().any(|change| change.verdict == Verdict::Worse)
    }

    /// What changed; then what did not, and how small a change would have been seen.
    pub fn text(&self, colours: Colours) -> String {
        let mut text = String::new();
        for caution in &self.cautions {
            text.push_str(&paint(caution, Style::Marked, colours));
            text.push('\n');
        }
        let is_changed = |it: &&Change| matches!(it.verdict, Verdict::Better | Verdict::Worse);
        let changed: Vec<&Change> = self.changes.iter().filter(is_changed).collect();
        if changed.is_empty() {
            text.push_str("Nothing changed beyond noise.\n");
        } else {
            text.push_str(&table(&changed).render(colours));
        }
        text.push('\n');
        for measure in JUDGED {
            text.push_str(&self.summary(measure));
        }
        for cell in &self.unmatched {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "Not compared: {cell}.");
        }
        let _ = write!(
            text,
            "\nA change counts if its interval, which holds for all of them at once with\n\
             {} % confidence, leaves out 0, and if it is at least {} %.\n",
            TOGETHER * 100.0,
            number(LEAST * 100.0)
        );
        text
    }

    /// How many cells of a figure were judged how, in a line.
    fn summary(&self, measure: Measure) -> String {
        let ours: Vec<_> = self.changes.iter().filter(|it| it.measure == measure).collect();
        if ours.is_empty() {
            return String::new();
        }
        let count = |verdict| ours.iter().filter(|it| it.verdict == verdict).count();
        let mut parts = Vec::new();
        for (verdict, words) in [
            (Verdict::Worse, "worse"),
            (Verdict::Better, "better"),
            (Verdict::Same, "unchanged"),
            (Verdict::Unknown, "with too few to say"),
        ] {
            if count(verdict) != 0 {
                parts.push(format!("{} {words}", count(verdict)));
            }
        }
        let halves = ours.iter().filter_map(|it| it.smallest_visible());
        let widest = halves.fold(None, |widest: Option<f64>, half| {
            Some(widest.map_or(half, |widest| widest.max(half)))
        });
        let visible = widest.map_or_else(String::new, |share| {
            format!("; any change of {} % would have been seen", number((share * 100.0).ceil()))
        });
        format!("{}: {}{visible}.\n", names::of(measure).0, parts.join(", "))
    }
}

impl Change {
    fn load(&self) -> LoadKey<'_> {
        let Self { topology, workload, clients, .. } = self;
        LoadKey { topology, workload, clients: *clients }
    }

    /// From which share on a change of this figure would have counted.
    fn smallest_visible(&self) -> Option<f64> {
        let ((low, high), ratio) = (self.interval?, self.ratio?);
        Some((high / ratio - 1.0).max(1.0 - low / ratio).max(LEAST))
    }
}

/// What the generator itself spends for a statement tells how fast the machine is: it does the same
/// in both runs, if it is the same and was asked for the same.
fn yardstick(old: &Results, new: &Results) -> Option<Measure> {
    let (a, b) = (&old.settings, &new.settings);
    let is_same = old.version == new.version
        && old.machine == new.machine
        && (a.pacing, a.protocol, a.threads) == (b.pacing, b.protocol, b.threads);
    is_same.then_some(Measure::GeneratorCpuUs)
}

fn judge(
    measure: Measure,
    (old, new): (&Cell, &Cell),
    yardstick: Option<Measure>,
    confidence: f64,
) -> Option<Change> {
    let (middle, after) = (old.spread(measure)?.median, new.spread(measure)?.median);
    let olds = units::of_cell(old, measure, yardstick).readings;
    let news = units::of_cell(new, measure, yardstick).readings;
    let enough = UNITS_MIN <= olds.len() && UNITS_MIN <= news.len();
    let estimate = if enough { ratio(&olds, &news, confidence) } else { None };
    Some(Change {
        topology: old.topology.clone(),
        workload: old.workload.clone(),
        clients: old.clients,
        target: old.target.clone(),
        measure,
        readings: (olds.len(), news.len()),
        old: middle,
        new: after,
        ratio: estimate.map(|it| it.ratio),
        interval: estimate.map(|it| (it.low, it.high)),
        verdict: estimate.map_or(Verdict::Unknown, |estimate| verdict(measure, estimate)),
    })
}

fn verdict(measure: Measure, Estimate { ratio, low, high }: Estimate) -> Verdict {
    let is_seen = 1.0 < low || high < 1.0;
    if !is_seen || (ratio - 1.0).abs() < LEAST {
        Verdict::Same
    } else if (1.0 < ratio) == measure.more_is_better() {
        Verdict::Better
    } else {
        Verdict::Worse
    }
}

fn table(changes: &[&Change]) -> Table {
    let mut table = Table::new(&["", "old", "new", "change", "at least", "at most", ""]);
    let mut measure = None;
    for change in changes {
        if measure != Some(change.measure) {
            measure = Some(change.measure);
            let (name, unit) = names::of(change.measure);
            table.heading(format!("{name}, {unit}"));
        }
        let (Some(ratio), Some((low, high))) = (change.ratio, change.interval) else { continue };
        let (least, most) = if ratio < 1.0 { (high, low) } else { (low, high) };
        let (word, style) = match change.verdict {
            Verdict::Worse => ("worse", Style::Marked),
            _ => ("better", Style::Plain),
        };
        table.row(vec![
            Text::plain(format!("{}, {}", change.load(), change.target)),
            Text::plain(number(change.old)),
            Text::plain(number(change.new)),
            Text::new(percent(ratio), Style::Strong),
            Text::plain(percent(least)),
            Text::plain(percent(most)),
            Text::new(word, style),
        ]);
    }
    table
}

/// What a reader should know before he believes a comparison of these two.
fn cautions(old: &Results, new: &Results) -> Vec<String> {
    let mut cautions = Vec::new();
    if old.machine != new.machine {
        cautions.push(
            "The two files are of different machines or kernels: what changed may be theirs."
                .to_owned(),
        );
    }
    let (a, b) = (&old.settings, &new.settings);
    let settings = [
        ("pacing", a.pacing != b.pacing),
        ("places", a.places != b.places),
        ("protocol", a.protocol != b.protocol),
        ("tables", a.tables != b.tables),
        ("rows", a.rows != b.rows),
        ("distribution of ids", a.distribution != b.distribution),
        ("idle clients", a.idle_clients != b.idle_clients),
        ("threads of the generator", a.threads != b.threads),
    ];
    let differ: Vec<_> = settings.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
    if !differ.is_empty() {
        cautions.push(format!("The two runs were not asked for the same: {}.", differ.join(", ")));
    }
    for (results, which) in [(old, "old"), (new, "new")] {
        if results.ending != Ending::Complete {
            cautions.push(format!("The {which} run did not come to its end."));
        }
        cautions.extend(coverage(results, which));
    }
    cautions
}

/// What the readings of a file do not tell.
fn coverage(results: &Results, which: &str) -> Vec<String> {
    let of = |cell| units::of_cell(cell, Measure::StatementsPerSecond, None);
    let (mut fewest, mut foreign) = (usize::MAX, Vec::new());
    for cell in &results.cells {
        match of(cell) {
            Units { readings, over: Over::Starts } => fewest = fewest.min(readings.len()),
            Units { readings, .. } if readings.is_empty() => {}
            _ if foreign.contains(&cell.target.as_str()) => {}
            _ => foreign.push(&cell.target),
        }
    }
    let mut said = Vec::new();
    if fewest < UNITS_MIN {
        said.push(format!(
            "The {which} run started its servers and proxies only {fewest} times: a verdict takes \
             {UNITS_MIN}, and {UNITS_GOOD} are good (--restarts). Rounds of one start agree with \
             each other more than with those of another."
        ));
    }
    if !foreign.is_empty() {
        said.push(format!(
            "The {which} run did not start {}: by how much it differs from one of its starts to \
             the next is not covered, and may be all that changed.",
            foreign.join(", ")
        ));
    }
    said
}

fn partner<'a>(cell: &Cell, of: &'a Results) -> Option<&'a Cell> {
    let of = of.cells.iter();
    let key = (&cell.target, cell.load());
    of.into_iter().find(|other| (&other.target, other.load()) == key)
}

fn percent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

/// The figures that are judged. The fastest twentieth of the transactions tells most where others
/// share the machine: it had the CPU to itself. The longest latency of a round is one event and says nothing; the
/// mean in a closed loop is the throughput once more.
const JUDGED: [Measure; 7] = [
    Measure::StatementsPerSecond,
    Measure::P5Ms,
    Measure::P50Ms,
    Measure::P95Ms,
    Measure::P99Ms,
    Measure::ServerCpuUs,
    Measure::ProxyCpuUs,
];
/// Confidence in all intervals together.
const TOGETHER: f64 = 0.99;
/// Changes below this are not reported: they are too small to act on.
pub const LEAST: f64 = 0.02;
const UNITS_GOOD: usize = 10;

#[cfg(test)]
mod tests;
