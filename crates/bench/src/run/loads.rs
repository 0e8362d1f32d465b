//! One load, a workload with a number of clients: in each round all targets take turns under it.
//!
//! Owns the repetition of disturbed rounds. Invariant: every turn ends as a round or as a failure
//! of its cell.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use super::options::RunOptions;
use super::run_targets::RunTarget;
use crate::figures::accounts::Accounts;
use crate::interrupt::{Interrupt, Interrupted};
use crate::load::{self, Ended, Order, Outcome};
use crate::progress::Progress;
use crate::results::{Cell, ErrorCount, Failure, Latency, Round, Standing};
use crate::workloads::Workload;
use crate::workloads::tables::Extent;

pub(super) struct Load<'a> {
    pub(super) options: &'a RunOptions,
    pub(super) targets: &'a [RunTarget],
    pub(super) extent: Extent,
    pub(super) workload: &'a Workload,
    pub(super) clients: u32,
    /// Which start of what the run starts this is.
    pub(super) start: u32,
}

impl Load<'_> {
    /// Takes one round, as far as the cells lack it. Ends early only by a signal; what was measured
    /// until then is in the cells.
    pub(super) fn take(
        &self,
        number: u32,
        cells: &mut [Cell],
        progress: &mut Progress,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let rounds = self.options.restarts * self.options.rounds;
        for (run_target, cell) in self.targets.iter().zip(cells) {
            if !cell.lacks(number) {
                continue;
            }
            // What was cut off or failed before the run was taken up again.
            cell.failures.retain(|failure| failure.round != number);
            cell.rounds.retain(|it| it.number != number || it.standing != Standing::Cut);
            let turn = format!("round {number} of {rounds}, {}: {}", cell.load(), cell.target);
            progress.say(&turn);
            self.turn(run_target, cell, number, interrupt)?;
            progress.step(&format!("{turn}, {}", outcome(cell, number)));
        }
        Ok(())
    }

    /// One turn, and its repetitions if others disturb it.
    fn turn(
        &self,
        run_target: &RunTarget,
        cell: &mut Cell,
        number: u32,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let order = Arc::new(self.order(run_target, number));
        for attempt in 0..=self.options.repeats {
            let fail = |why| Failure { round: number, why };
            let mut accounts = Accounts::new(&run_target.target.processes);
            let outcome = match load::run(&order, interrupt, |moment| accounts.witness(moment)) {
                Ok(outcome) => outcome,
                Err(error) if error.is::<Interrupted>() => return Err(error),
                Err(error) => {
                    cell.failures.push(fail(format!("{error:#}")));
                    return Ok(());
                }
            };
            let mut round = round(number, &outcome, &accounts);
            round.start = if run_target.is_started { self.start } else { 0 };
            match &outcome.ended {
                Ended::Whole => {}
                Ended::Dead(why) => cell
                    .failures
                    .push(fail(format!("after {:.1} s, {why}", outcome.length.as_secs_f64()))),
                Ended::Interrupted => {
                    cell.rounds.push(round);
                    return Err(Interrupted {}.into());
                }
            }
            let again =
                round.standing == Standing::KeptThoughDisturbed && attempt < self.options.repeats;
            if again {
                round.standing = Standing::Repeated;
            }
            cell.rounds.push(round);
            if !again {
                break;
            }
        }
        Ok(())
    }

    fn order(&self, run_target: &RunTarget, number: u32) -> Order {
        let RunOptions { pacing, protocol, distribution, seed, idle, threads, .. } = *self.options;
        Order {
            address: run_target.address.clone(),
            account: run_target.account.clone(),
            workload: self.workload.clone(),
            protocol,
            pacing,
            clients: self.clients,
            idle,
            threads: threads.min(self.clients),
            tables: if self.workload.is_for_one_table() { 1 } else { self.extent.tables },
            rows: self.extent.rows,
            distribution,
            // Each round draws other ids, and each target the same as the others in that round.
            seed: seed.wrapping_add(u64::from(number)),
            ramp: Duration::from_secs_f64(self.options.ramp),
            warm_up: Duration::from_secs_f64(self.options.warm_up),
            length: Duration::from_secs_f64(self.options.seconds),
        }
    }
}

/// What is told of a turn when it is over.
fn outcome(cell: &Cell, number: u32) -> String {
    if let Some(failure) = cell.failures.iter().find(|failure| failure.round == number) {
        return format!("failed: {}", failure.why);
    }
    let Some(round) = cell.rounds.last() else { return String::new() };
    let rate = format!("{:.0} statements/s", round.statements_per_second);
    let repeated = cell.rounds.iter().filter(|it| it.number == number).count() - 1;
    match (repeated, round.standing) {
        (0, Standing::Kept) => rate,
        (0, _) => format!("{rate}, disturbed"),
        (times, Standing::Kept) => format!("{rate}, after {times} disturbed"),
        (times, _) => format!("{rate}, disturbed each of {} times", times + 1),
    }
}

fn round(number: u32, outcome: &Outcome, accounts: &Accounts<'_>) -> Round {
    let Outcome { recorder, ended, unanswered, standstill, .. } = outcome;
    let seconds = outcome.length.as_secs_f64();
    let rate = |count: u64| if 0.0 < seconds { count as f64 / seconds } else { 0.0 };
    let mut disturbance = accounts.disturbance();
    if STANDSTILL < *standstill {
        disturbance.is_notable = true;
        disturbance.others.push(format!("everything stood still for {standstill:.1?}"));
    }
    let jump = accounts.clock_jump();
    if JUMP < jump.abs() {
        disturbance.others.push(format!("the wall clock jumped by {jump:+.1} s; nothing uses it"));
    }
    let mut errors = recorder.errors();
    if 0 < *unanswered {
        errors.push(ErrorCount {
            code: 0,
            message: "no answer long after the round's end".into(),
            count: u64::from(*unanswered),
        });
    }
    let connect_latency = recorder.connect_latency.latency();
    Round {
        number,
        start: 0,
        standing: match (ended, disturbance.is_notable) {
            (Ended::Whole, false) => Standing::Kept,
            (Ended::Whole, true) => Standing::KeptThoughDisturbed,
            _ => Standing::Cut,
        },
        seconds,
        statements: recorder.statements,
        transactions: recorder.transactions,
        statements_per_second: rate(recorder.statements),
        transactions_per_second: rate(recorder.transactions),
        latency: recorder.latency.latency(),
        statement_latency: recorder.statement_latency.latency(),
        connect_latency: Some(connect_latency).filter(|it: &Latency| 0 < it.count),
        errors,
        reconnects: recorder.reconnects,
        unsent: recorder.unsent,
        fairness: recorder.fairness(),
        processes: accounts.figures(recorder.statements, recorder.all_statements),
        disturbance,
        timeline: recorder.timeline(),
    }
}

/// Longer than any scheduler lets a thread wait on a busy machine: a machine that was paused.
const STANDSTILL: Duration = Duration::from_secs(1);
/// In seconds; less is a clock that is being corrected.
const JUMP: f64 = 0.5;
