//! Two runs compared, where it is known what changed: a planted slowdown is found, and nothing is
//! found where there is none. Runs are simulated from seeds; noise is that of a busy machine.

use bench::compare::{Verdict, compare};
use bench::results::Measure;
use testkit::simulated::Simulated;

const TRIALS: u64 = 10;

fn run(seed: u64, slowness: f64) -> Simulated {
    Simulated { seed, slowness, clients: vec![1, 8, 64], rounds: 10, ..Simulated::default() }
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

#[test]
fn a_machine_that_has_slowed_down_is_no_change_of_its_targets() {
    let of = |seed, machine| {
        Simulated { machine, unsteady: 0.06, rounds: 20, ..run(seed, 1.0) }.results()
    };
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
