//! More comes than can be done: 1.3 times as much, for twenty seconds, from clients that wait for a second.

use std::time::Duration;

use engine::classes::{Class, WhenOverloaded};
use testkit::world::{Arrivals, Door, Outcome, Phase, Plan, Process, Server, Work, run};

/// Eight cores, ten milliseconds each: 800 a second.
const SERVER: Server = Server { cores: 8, spread: [0.0, 0.0], crowd: 0.02, disk: 0 };
const WORK: Work =
    Work { cpu: 10.0, io_share: 0.0, io_count: 0, io: 0.0, heavy_share: 0.0, heavy: 1.0 };

fn plan() -> Plan {
    let mut plan = Plan::closed(4, SERVER, WORK, 0, 0.0).lasting(0.0, 60_000.0);
    plan.arrivals = Arrivals::Open { patience: 1000.0 };
    let phase = |from: f64, rate: f64| Phase { from, io_share: 0.0, rate: 800.0 * rate };
    plan.phases = vec![phase(0.0, 0.8), phase(20_000.0, 1.3), phase(40_000.0, 0.8)];
    // Before, during, the first second after, the rest.
    plan.marks = vec![20_000.0, 40_000.0, 41_000.0];
    plan
}

fn with(class: Class) -> Outcome {
    run(plan(), Door::Flifo(vec![Process::new(8, 1, vec![class])]))
}

/// Which share of those that came between the marks was answered in time.
fn useful(outcome: &Outcome) -> [f64; 4] {
    std::array::from_fn(|at| outcome.useful[at] as f64 / outcome.came[at] as f64)
}

fn print(name: &str, outcome: &Outcome) {
    println!("{name:<24} useful {:.2?}, refused {:?}", useful(outcome), outcome.refused);
}

#[test]
fn the_newest_first_keeps_an_overload_useful_and_recovers_at_once() {
    let fifo = with(Class::default());
    print("first in, first out", &fifo);
    let deadline = with(Class { wait_max: Some(Duration::from_secs(1)), ..Class::default() });
    print("with a deadline of 1 s", &deadline);
    let turned = with(Class { when_overloaded: WhenOverloaded::NewestFirst, ..Class::default() });
    print("newest first", &turned);
    let [before, during, first, after] = useful(&turned);
    // 1 / 1.3 can be answered at all: 0.77.
    let possible = 1.0 / 1.3;
    assert!(during >= 0.75 * possible && during > useful(&deadline)[1] + 0.1, "{during}");
    assert!(before > 0.99 && first > 0.9 && after > 0.99, "recovers within a second");
    assert!(useful(&fifo)[1] < 0.4 && useful(&fifo)[2] < 0.1, "answers that nobody waits for");
    assert!(turned.refused[3] == 0 && turned.refused[0] == 0, "refused only when it must be");
}

/// An exact line bound: as many as it says, and never more.
#[test]
fn a_bounded_line_refuses_at_once() {
    let bounded = with(Class { queue_max: Some(100), ..Class::default() });
    print("at most 100 in the queue", &bounded);
    let [_, during, _, after] = useful(&bounded);
    // 100 in the queue are served in an eighth of a second.
    assert!(during > 0.7 && after > 0.99);
    assert!(bounded.p99 < 300.0, "{}", bounded.p99);
}
