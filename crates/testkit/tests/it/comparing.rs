//! Two runs compared, where it is known what changed: a planted slowdown is found, and nothing is
//! found where there is none. Runs are simulated from seeds; noise is that of a busy machine, both
//! within a start of the servers and from one start to the next.

use bench::agree::agree;
use bench::compare::{Change, Verdict, compare};
use bench::figures::pairs::ratios;
use bench::figures::units::of_rounds;
use bench::results::{Cell, Measure};
use bench::statistics::{Reading, each_of, ratio};
use testkit::simulated::{Chance, Simulated};

const TRIALS: u64 = 10;

fn run(seed: u64, slowness: f64) -> Simulated {
    let clients = vec![1, 8, 64];
    Simulated { seed, slowness, clients, starts: 10, rounds: 2, ..Simulated::default() }
}

#[test]
fn a_planted_slowdown_of_a_twentieth_is_found_each_time() {
    for trial in 1..=TRIALS {
        let (old, new) = (run(trial, 1.0).results(), run(trial + 1000, 1.05).results());
        let comparison = compare(&old, &new);
        let throughput =
            comparison.changes.iter().filter(|it| it.measure == Measure::StatementsPerSecond);
        let found = throughput.filter(|it| it.verdict == Verdict::Worse).count();
        // Of six cells; noise may hide one or another, but not the slowdown.
        assert!(found >= 4, "trial {trial}: {found} of 6 cells");
        assert!(comparison.changes.iter().all(|it| it.verdict != Verdict::Better), "{trial}");
    }
}

#[test]
fn nothing_is_found_between_equal_runs() {
    for trial in 1..=TRIALS * 10 {
        let (old, new) = (run(trial, 1.0).results(), run(trial + 1000, 1.0).results());
        let text = compare(&old, &new).text(bench::table::Colours::Off);
        assert!(text.starts_with("Nothing changed beyond noise."), "trial {trial}: {text}");
    }
}

/// How many of so many pairs of equal runs have something called changed.
fn false_alarms(trials: u64, of: impl Fn(u64) -> Simulated) -> usize {
    let is_changed = |it: &Change| matches!(it.verdict, Verdict::Better | Verdict::Worse);
    let is_alarm = |trial: &u64| {
        let (old, new) = (of(*trial).results(), of(*trial + 100_000).results());
        compare(&old, &new).changes.iter().any(is_changed)
    };
    (1..=trials).filter(is_alarm).count()
}

#[test]
fn starts_that_differ_by_more_than_their_rounds_raise_no_false_alarm() {
    let of = |seed, starts, rounds| {
        let clients = vec![8];
        Simulated { between: 0.03, starts, rounds, clients, ..run(seed, 1.0) }
    };
    let alarms = false_alarms(300, |seed| of(seed, 8, 3));
    assert!(alarms <= 3, "{alarms} of 300");
    // Not because nothing is ever found: a comparison that takes the rounds of one start for independent, as it
    // must where nothing was started, finds a change most of the time.
    let alarms = false_alarms(100, |seed| Simulated { starts: 0, ..of(seed, 0, 24) });
    assert!(alarms > 50, "{alarms} of 100");
}

/// Starts of rounds: logarithms with known deviations between starts and within them.
#[derive(Clone, Copy)]
struct Noise {
    between: f64,
    within: f64,
    starts: u32,
    rounds: u32,
}

impl Noise {
    fn readings(self, middle: f64, chance: &mut Chance) -> Vec<Reading> {
        let mut rounds = Vec::new();
        for start in 1..=self.starts {
            let start_is = middle.ln() + self.between * chance.normal();
            for _ in 0..self.rounds {
                let value = (start_is + self.within * chance.normal()).exp();
                rounds.push((start, Reading { value, yardstick: None }));
            }
        }
        of_rounds(rounds.into_iter()).readings
    }

    /// The share of runs with a figure of that ratio for which the interval leaves out 1.
    fn seen(self, planted: f64, confidence: f64) -> f64 {
        let mut chance = Chance::new(7);
        let mut seen = 0;
        for _ in 0..PAIRS {
            let old = self.readings(1.0, &mut chance);
            let new = self.readings(planted, &mut chance);
            let found = ratio(&old, &new, confidence).expect("has one");
            seen += u32::from(1.0 < found.low || found.high < 1.0);
        }
        f64::from(seen) / f64::from(PAIRS)
    }
}

const PAIRS: u32 = 4000;

#[test]
fn intervals_over_starts_keep_what_they_promise_whatever_varies_most() {
    for (between, within) in [(0.03, 0.005), (0.02, 0.02), (0.0, 0.04)] {
        for (starts, rounds) in [(3, 5), (5, 2), (10, 4)] {
            let noise = Noise { between, within, starts, rounds };
            let alarms = noise.seen(1.0, 0.99);
            // Three standard errors above the hundredth that is promised.
            assert!(alarms < 0.0147, "{between} {within} {starts} {rounds}: {alarms}");
            assert!(0.0005 < alarms, "{between} {within} {starts} {rounds}: as if it never saw");
        }
    }
}

#[test]
fn ten_starts_see_a_twentieth_where_starts_differ_by_two_hundredths() {
    // As `compare` judges seven figures of one cell at once.
    let each = each_of(7, 0.99);
    let noise = Noise { between: 0.02, within: 0.02, starts: 10, rounds: 4 };
    let power = noise.seen(1.05, each);
    assert!(power > 0.75, "{power}");
    let louder = Noise { between: 0.06, ..noise }.seen(1.05, each);
    assert!(louder < 0.3, "noise that hides a change must: {louder}");
}

#[test]
fn equal_comparisons_agree_and_others_do_not() {
    let of = |seed, slowness| {
        let targets = ["direct", "flifo", "haproxy"].map(str::to_owned).to_vec();
        let clients = vec![1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
        let shape =
            Simulated { between: 0.03, noise: 0.05, starts: 4, rounds: 1, ..run(seed, slowness) };
        Simulated { targets, clients, ..shape }.results()
    };
    let mut agreed = 0;
    for trial in 1..=2 * TRIALS {
        let (one, mut other) = (of(trial, 1.0), of(trial + 1000, 1.0));
        agreed += u64::from(agree(&one, &other).holds());
        // The second target is a quarter slower.
        for (cell, slow) in other.cells.iter_mut().zip(of(trial + 2000, 1.25).cells) {
            if cell.target == "flifo" {
                *cell = slow;
            }
        }
        let base = |cells: &[Cell]| [ratios(&cells[1], &cells[0]), ratios(&cells[2], &cells[0])];
        other.ratios = other.cells.chunks(3).flat_map(base).flatten().collect();
        assert!(!agree(&one, &other).holds(), "trial {trial}");
    }
    assert!(2 * TRIALS - 1 <= agreed, "{agreed} of {}", 2 * TRIALS);
}

#[test]
fn a_machine_that_has_slowed_down_is_no_change_of_its_targets() {
    let of = |seed, machine| Simulated { machine, unsteady: 0.06, ..run(seed, 1.0) }.results();
    for trial in 1..=TRIALS {
        let (old, slow) = (of(trial, 1.0), of(trial + 1000, 1.12));
        let text = compare(&old, &slow).text(bench::table::Colours::Off);
        assert!(text.starts_with("Nothing changed beyond noise."), "trial {trial}: {text}");
        let mut blind = slow.clone();
        blind.version = "another".into();
        assert!(
            compare(&old, &blind).is_worse(),
            "trial {trial}: the yardstick made no difference"
        );
    }
}

#[test]
fn noise_that_hides_a_change_is_admitted() {
    let loud = |seed, slowness| Simulated { noise: 0.08, ..run(seed, slowness) }.results();
    let text = compare(&loud(1, 1.0), &loud(2, 1.0)).text(bench::table::Colours::Off);
    let visible = text.lines().find(|line| line.starts_with("throughput")).expect("is told");
    let share: f64 = visible
        .split("any change of ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next()?.parse().ok())
        .expect("says what it could have seen");
    assert!(share > 10.0, "{visible}");
}
