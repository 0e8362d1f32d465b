//! Asks all workers what they have counted. Visitors that ask at the same time get the same answer.
//!
//! Invariants: workers are asked by one at a time; what is told is never older than [`FRESH`]; a worker that does not
//! answer is left out after [`PATIENCE`], and named.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use view::histogram::Histogram;

use crate::cluster::servers::ServerId;
use crate::state::shared::Shared;
use crate::upkeep::report::{self, GateReport, Oldest, Report, Want};

/// What the workers have told.
#[derive(Debug)]
pub(crate) struct Surveyed {
    pub(crate) reports: Vec<Report>,
    /// Workers that did not answer: stuck, or gone.
    pub(crate) missing: Vec<usize>,
}

impl Surveyed {
    /// What all workers have at a server.
    pub(crate) fn at(&self, server: ServerId) -> GateReport {
        let gates = self.reports.iter().filter_map(|report| report.gates.get(server.0));
        gates.copied().fold(GateReport::default(), GateReport::plus)
    }

    /// What has waited and run for longest at a server.
    pub(crate) fn oldest_at(&self, server: ServerId) -> Oldest {
        let ages = self.reports.iter().filter_map(|report| report.oldest.get(server.0));
        ages.copied().fold(Oldest::default(), Oldest::max)
    }

    /// How long statements have run at a server.
    pub(crate) fn run_at(&self, server: ServerId) -> Histogram {
        let mut run = Histogram::default();
        let reports = self.reports.iter().filter_map(|report| report.run_at.get(server.0));
        reports.for_each(|report| run.merge(report));
        run
    }
}

/// The last answers.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    last: Mutex<Option<(Instant, Want, Rc<Surveyed>)>>,
}

/// Until an answer has this age, later questions get the same answer.
const FRESH: Duration = Duration::from_millis(20);

/// A worker's turn takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);

impl Survey {
    pub(crate) async fn ask(&self, shared: &Shared, want: Want) -> Rc<Surveyed> {
        let mut last = self.last.lock().await;
        if let Some((at, had, surveyed)) = &*last
            && crate::worker::clock::since(*at) < FRESH
            && *had == want
        {
            return Rc::clone(surveyed);
        }
        let surveyed = Rc::new(ask(shared, want).await);
        *last = Some((crate::worker::clock::read(), want, Rc::clone(&surveyed)));
        surveyed
    }

    /// What was told belongs to the past: something has been changed.
    pub(crate) async fn forget(&self) {
        *self.last.lock().await = None;
    }
}

async fn ask(shared: &Shared, want: Want) -> Surveyed {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let mut answers = Vec::new();
    for worker in 0..shared.worker_count() {
        answers.push(shared.ask(worker, move |worker| report::make(worker, want)));
    }
    let mut surveyed = Surveyed { reports: Vec::new(), missing: Vec::new() };
    for (worker, answer) in answers.into_iter().enumerate() {
        match tokio::time::timeout_at(deadline, answer).await {
            Ok(Ok(report)) => surveyed.reports.push(report),
            _ => surveyed.missing.push(worker),
        }
    }
    surveyed
}
