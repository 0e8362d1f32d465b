//! What a run has come to: statements are counted as they end, and at the end it is all put in figures.

use super::World;
use crate::world::door::Door;
use crate::world::flifo::Process;
use crate::world::plan::Arrivals;
use crate::world::tally::{Outcome, jain, quantile};

impl World {
    /// Counts a statement that has ended, and its unit of work if it `ends` that.
    pub(super) fn count(&mut self, index: usize, ends: bool) {
        let interval = self.interval(self.now);
        let came_in = self.interval(self.clients[index].came);
        let client = &mut self.clients[index];
        client.statements += 1;
        self.result.completed[interval][client.process] += 1;
        let time = self.now - client.came;
        if let Arrivals::Open { patience } = self.plan.arrivals {
            self.result.useful[came_in] += u64::from(time <= patience);
        }
        if ends && !client.writes {
            self.result.reads_between[interval] += 1;
        }
        if self.result.is_warm {
            self.result.times.push(time);
            if ends && !client.has_failed {
                let unit = self.now - client.began;
                let list = match client.writes {
                    true => &mut self.result.writes,
                    false => &mut self.result.reads,
                };
                list.push(unit);
            }
        }
    }

    /// The figures of the whole run.
    pub(super) fn outcome(mut self) -> Outcome {
        let plan = self.plan.clone();
        let result = std::mem::take(&mut self.result);
        let seconds = (plan.end - plan.warm) / 1000.0;
        let before = |index: usize| result.before.get(index).copied().unwrap_or(0);
        let got: Vec<f64> = self
            .clients
            .iter()
            .enumerate()
            .map(|(index, client)| (client.statements - before(index)) as f64)
            .collect();
        let mut bounds = vec![0.0];
        bounds.extend(&plan.marks);
        bounds.push(plan.end);
        let spans: Vec<f64> = bounds.windows(2).map(|pair| (pair[1] - pair[0]) / 1000.0).collect();
        let rates = result.completed.iter().zip(&spans);
        let limits = result.limits.iter().zip(&spans);
        let statements = result.times.len().max(1) as f64;
        let (mut borrowed, mut granted) = (result.borrowed as f64, 0.0);
        let mut by_worker = Vec::new();
        if let Door::Flifo(processes) = &self.door {
            let counts: Vec<_> = processes.iter().flat_map(Process::counts).collect();
            borrowed = counts.iter().map(|it| it.borrowed).sum::<u64>() as f64;
            let away = counts.iter().map(|it| it.granted).sum::<u64>() as f64;
            granted = away / (away + counts.iter().map(|it| it.passed_on).sum::<u64>() as f64);
            for worker in 0..processes[0].gates.len() {
                let mine = self.clients.iter().zip(&got);
                let mine: Vec<_> =
                    mine.filter(|(it, _)| it.worker == worker).map(|(_, got)| *got).collect();
                by_worker.push(mine.iter().sum::<f64>() / mine.len().max(1) as f64);
            }
        }
        let (mut times, mut reads, mut writes) = (result.times, result.reads, result.writes);
        let cores = f64::from(plan.server.cores);
        Outcome {
            rate: statements / seconds,
            p50: quantile(&mut times, 0.5),
            p99: quantile(&mut times, 0.99),
            jain: jain(got.into_iter()),
            running: (self.server.running_area - result.areas[0]) / seconds / 1000.0,
            busy: (self.server.busy_area - result.areas[1]) / seconds / 1000.0 / cores,
            borrowed: borrowed / statements,
            granted,
            most: result.most,
            rates: rates
                .map(|(counts, span)| counts.iter().map(|it| *it as f64 / span).collect())
                .collect(),
            limits: limits
                .map(|(areas, span)| areas.iter().map(|it| it / span / 1000.0).collect())
                .collect(),
            writes: writes.len() as f64 / seconds,
            reads: reads.len() as f64 / seconds,
            writes_p99: quantile(&mut writes, 0.99),
            reads_p99: quantile(&mut reads, 0.99),
            reads_between: result
                .reads_between
                .iter()
                .zip(&spans)
                .map(|(count, span)| *count as f64 / span)
                .collect(),
            timeouts: result.timeouts,
            by_worker,
            came: result.came,
            useful: result.useful,
            refused: result.refused,
        }
    }
}
