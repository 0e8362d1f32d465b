//! A load that changes: processors, a disk, both, and back. What the limit that finds itself is judged by.
//!
//! Owns the usual server and its work, and what fixed limits do under each of the loads. The tests of `world` judge a
//! few seeds, the example `seeds` many.

use super::{Door, Outcome, Phase, Plan, Process, Server, Work, run};

pub const SERVER: Server = Server { cores: 8, spread: [0.03, 0.002], crowd: 0.02, disk: 32 };
pub const WORK: Work =
    Work { cpu: 1.0, io_share: 0.0, io_count: 4, io: 5.0, heavy_share: 0.0, heavy: 1.0 };
/// Two statements in a hundred take 35 times as long.
pub const HEAVY: Work = Work { cpu: 0.6, heavy_share: 0.02, heavy: 35.0, ..WORK };

/// Half a phase, in milliseconds.
pub const HALF: f64 = 10_000.0;

/// Processors only, disk only, half and half, processors only: how many of the statements read from the disk.
pub const PHASES: [f64; 4] = [0.0, 1.0, 0.5, 0.0];

/// Where the usual server's knees are, and a small one's.
pub const LIMITS: [u32; 8] = [6, 8, 10, 12, 32, 40, 48, 64];
pub const SMALL_LIMITS: [u32; 9] = [1, 2, 3, 4, 6, 8, 12, 16, 24];

/// So many clients, each of which thinks for 2 ms, under one load after the other.
pub fn plan(seed: u64, work: Work, clients: usize, shares: &[f64]) -> Plan {
    let mut plan = Plan::closed(seed, SERVER, work, clients, 2.0);
    plan.phases = phases(shares);
    plan.marks = (1..2 * shares.len()).map(|half| HALF * half as f64).collect();
    plan.lasting(0.0, 2.0 * HALF * shares.len() as f64)
}

fn phases(shares: &[f64]) -> Vec<Phase> {
    let phase = |(index, io_share): (usize, &f64)| {
        let from = 2.0 * HALF * index as f64;
        Phase { from, io_share: *io_share, rate: 0.0 }
    };
    shares.iter().enumerate().map(phase).collect()
}

/// A server of two processors, whose statements compute, or wait for something half of the time.
pub fn small(seed: u64, waits: bool) -> Plan {
    let io_count = u32::from(waits);
    let work = Work { cpu: 0.3, io_share: f64::from(io_count), io_count, io: 0.3, ..WORK };
    let mut plan = plan(seed, work, 256, &[work.io_share]);
    plan.server.cores = 2;
    plan
}

/// Statements a second of all processes in the second half of each phase, and the sum of their limits.
pub fn late(outcome: &Outcome) -> Vec<(f64, f64)> {
    let halves = outcome.rates.iter().zip(&outcome.limits).skip(1).step_by(2);
    halves.map(|(rates, limits)| (rates.iter().sum(), limits.iter().sum())).collect()
}

/// Statements a second of the best of these fixed limits, for each phase.
pub fn best_fixed(plan: &Plan, limits: &[u32]) -> Vec<f64> {
    let mut best = vec![0.0_f64; plan.phases.len()];
    for limit in limits {
        let outcome = run(plan.clone(), Door::Flifo(vec![Process::fixed(*limit, 1)]));
        for (best, (rate, _)) in best.iter_mut().zip(late(&outcome)) {
            *best = best.max(rate);
        }
    }
    best
}
