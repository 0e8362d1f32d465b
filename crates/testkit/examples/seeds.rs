//! What the limit that finds itself does of the best fixed limit, over many seeds: whether a change of the steering is
//! one for the better.
//!
//! `cargo run -p testkit --example seeds -- 20` takes a minute. The tests of `world` judge a few seeds each, and three
//! seeds of one load differ by more than most changes do.

use std::thread;

use engine::limit::Rhythm;
use testkit::world::phases::{
    HEAVY, LIMITS, PHASES, SMALL_LIMITS, WORK, best_fixed, late, plan, small,
};
use testkit::world::{Door, Plan, Process, run};

/// A load, and what goes in front of it.
struct Trial {
    name: &'static str,
    plan: fn(u64) -> Plan,
    door: fn() -> Door,
    limits: &'static [u32],
}

const TRIALS: [Trial; 8] = [
    Trial { name: "alone", plan: alone, door: || one(16), limits: &LIMITS },
    Trial { name: "noisy neighbours", plan: noisy, door: || one(16), limits: &LIMITS },
    Trial { name: "heavy tails", plan: heavy, door: || one(16), limits: &LIMITS },
    Trial { name: "two processors", plan: computes, door: || one(16), limits: &SMALL_LIMITS },
    Trial { name: "the same, wild", plan: wild, door: || one(4), limits: &SMALL_LIMITS },
    Trial { name: "the same, from 64", plan: wild, door: || one(64), limits: &SMALL_LIMITS },
    Trial { name: "four by the clock", plan: apart, door: || four(0.0), limits: &LIMITS },
    Trial { name: "50 ms apart", plan: apart, door: || four(50.0), limits: &LIMITS },
];

fn alone(seed: u64) -> Plan {
    plan(seed, WORK, 512, &PHASES)
}

fn noisy(seed: u64) -> Plan {
    Plan { neighbours: 0.33, ..alone(seed) }
}

fn heavy(seed: u64) -> Plan {
    plan(seed, HEAVY, 512, &PHASES[..2])
}

fn computes(seed: u64) -> Plan {
    small(seed, false)
}

fn wild(seed: u64) -> Plan {
    Plan { neighbours: 0.7, ..small(seed, true) }
}

fn apart(seed: u64) -> Plan {
    let mut plan = plan(seed, WORK, 512, &PHASES[..2]);
    plan.marks = vec![15_000.0, 20_000.0, 35_000.0];
    plan
}

/// One that begins with so many slots.
fn one(start: u32) -> Door {
    Door::Flifo(vec![Process::auto(start, Rhythm::Own, 0.0)])
}

/// Four with unequal numbers of clients, whose clocks differ.
fn four(skew: f64) -> Door {
    let process = |(at, share): (usize, f64)| {
        Process::auto(16, Rhythm::Clock, skew * (at as f64 - 1.0)).with_share(share)
    };
    Door::Flifo([64.0, 96.0, 128.0, 224.0].into_iter().enumerate().map(process).collect())
}

fn main() {
    let seeds: u64 = std::env::args().nth(1).and_then(|it| it.parse().ok()).unwrap_or(20);
    println!("{:20} of the best fixed limit: mean (tenth lowest of a hundred, lowest)", "");
    for trial in TRIALS {
        // Seed 3 is that of the sweeps in the tests; the others are none of theirs.
        let best = best_fixed(&(trial.plan)(3), trial.limits);
        let of_seed = |seed: u64| late(&run((trial.plan)(100 + seed), (trial.door)()));
        let of_half = |half: u64| (0..seeds).filter(|it| it % 2 == half).map(of_seed).collect();
        let outcomes: Vec<Vec<(f64, f64)>> = thread::scope(|scope| {
            let odd = scope.spawn(|| of_half(1));
            let mut all: Vec<_> = of_half(0);
            all.extend(odd.join().expect("it runs"));
            all
        });
        let cell = |(phase, best): (usize, &f64)| {
            let mut shares: Vec<f64> = outcomes.iter().map(|it| it[phase].0 / best).collect();
            shares.sort_by(f64::total_cmp);
            let mean = shares.iter().sum::<f64>() / shares.len() as f64;
            format!("{mean:.3} ({:.3}, {:.3})", shares[shares.len() / 10], shares[0])
        };
        let cells: Vec<_> = best.iter().enumerate().map(cell).collect();
        println!("{:20} {}", trial.name, cells.join("  "));
    }
}
