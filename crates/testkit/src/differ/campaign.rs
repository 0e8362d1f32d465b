//! Program after program: generated or stored, run directly and through Flifo, compared, and shrunk if they differ.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::compare::{Difference, compare};
use super::generate::{Shape, generate};
use super::peer::{Door, Outcome};
use super::program::{Action, Program, Step};
use super::run::{Trace, Waits, run};
use super::shrink::shrink;
use super::site::{Server, Site};
use super::text::print;
use crate::flifo::{self, Flifo};

/// What shall be run.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// Of the first program; each one after it has the next seed.
    pub seed: u64,
    /// Statements that are answered through Flifo and compared, at least; each number of backends counts.
    pub statements: usize,
    /// How many backends Flifo has: one number after the other.
    pub backends: Vec<u32>,
    pub shape: Shape,
    /// How long a difference is shrunk, if it is: what is shortest so far will do then.
    pub shrinks: Option<Duration>,
}

/// A program that differs.
#[derive(Clone, Debug)]
pub struct Finding {
    pub program: Program,
    /// Between Flifo and the second server; `None`: two direct runs differ as well, so the program is not fit to judge.
    pub backends: Option<u32>,
    pub difference: Difference,
    /// Whether it showed again.
    pub is_steady: bool,
}

/// How far it is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    pub seed: u64,
    /// Answered through Flifo and compared so far: once for each number of backends. What ran directly is not counted.
    pub statements: usize,
    pub differences: usize,
}

/// What stands between clients and the second server.
pub trait Between {
    /// Starts anew, and says where clients log in.
    fn door(&mut self, server: &Server, backends: u32) -> Door;

    /// How clients wait for replies there.
    fn waits(&self) -> Waits {
        Waits::ByPace
    }
}

/// Flifo itself.
pub struct ThroughFlifo {
    program: PathBuf,
    running: Option<Flifo>,
}

impl ThroughFlifo {
    /// The program beside this test.
    pub fn here() -> Self {
        Self::of(flifo::program().to_owned())
    }

    pub fn of(program: PathBuf) -> Self {
        Self { program, running: None }
    }
}

impl Between for ThroughFlifo {
    fn door(&mut self, server: &Server, backends: u32) -> Door {
        // The one before is gone before the next one logs in.
        self.running = None;
        let flifo = self.running.insert(server.flifo(&self.program, backends));
        server.door_of(flifo)
    }
}

/// Nothing: both runs are direct. Shows that programs can be judged at all.
pub struct Nothing;

impl Between for Nothing {
    fn door(&mut self, server: &Server, _backends: u32) -> Door {
        server.door()
    }
}

/// A pair of servers, and what stands between clients and the second one.
pub struct Lane<'a, B> {
    pub site: &'a mut Site,
    pub between: &'a mut B,
}

/// What came of one program.
struct Report {
    seed: u64,
    statements: usize,
    finding: Option<Finding>,
}

impl Campaign {
    /// Runs programs until there were enough statements, on all lanes at once. `watch` is told after each one, and
    /// ends it by `false`.
    pub fn run<B: Between + Send>(
        &self,
        lanes: Vec<Lane<'_, B>>,
        mut watch: impl FnMut(Progress, Option<&Finding>) -> bool,
    ) -> Vec<Finding> {
        let (next, is_over) = (AtomicU64::new(self.seed), AtomicBool::new(false));
        let (next, is_over) = (&next, &is_over);
        let (tell, reports) = mpsc::channel();
        let (mut findings, mut statements) = (Vec::new(), 0);
        thread::scope(|scope| {
            for mut lane in lanes {
                let tell = tell.clone();
                scope.spawn(move || {
                    while !is_over.load(Relaxed) {
                        let report = self.report(next.fetch_add(1, Relaxed), &mut lane);
                        if tell.send(report).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(tell);
            for Report { seed, statements: more, finding } in reports {
                statements += more;
                let differences = findings.len() + usize::from(finding.is_some());
                let goes_on = watch(Progress { seed, statements, differences }, finding.as_ref());
                findings.extend(finding);
                if !goes_on || self.statements <= statements {
                    is_over.store(true, Relaxed);
                }
            }
        });
        findings
    }

    fn report<B: Between>(&self, seed: u64, lane: &mut Lane<'_, B>) -> Report {
        let program = generate(seed, self.shape);
        let (statements, found) = check(&program, lane, &self.backends);
        let finding = found.map(|found| match self.shrinks {
            Some(patience) => shorten(found, lane, patience),
            None => found,
        });
        Report { seed, statements, finding }
    }
}

/// Runs a program directly and with each number of backends. Returns how many statements were compared, and the first
/// difference.
pub fn check<B: Between>(
    program: &Program,
    lane: &mut Lane<'_, B>,
    backends: &[u32],
) -> (usize, Option<Finding>) {
    let direct = run_directly(program, lane.site);
    let mut statements = 0;
    for &backends in backends {
        let through = run_through(program, lane, backends);
        statements += answered(program, &through);
        if let Some(difference) = compare(program, &direct, &through) {
            let backends = Some(backends);
            let found =
                Finding { program: program.clone(), backends, difference, is_steady: false };
            return (statements, Some(found.confirmed(lane)));
        }
    }
    (statements, None)
}

/// How many commands were answered. What needs no answer, and what happened without a connection, does not count.
fn answered(program: &Program, trace: &Trace) -> usize {
    let is_statement = |(step, outcome): &(&Step, &Outcome)| {
        !matches!(step.action, Action::Connect | Action::Quit | Action::Vanish)
            && !matches!(outcome, Outcome::Reply(packets) if packets.is_empty())
            && !matches!(outcome, Outcome::Skipped)
    };
    program.steps.iter().zip(trace).filter(is_statement).count()
}

impl Finding {
    /// Is it Flifo, or can the program not even be repeated on one server? And does it show again?
    fn confirmed<B: Between>(mut self, lane: &mut Lane<'_, B>) -> Self {
        let direct = run_directly(&self.program, lane.site);
        for _ in 0..2 {
            let again = run_directly(&self.program, lane.site);
            if let Some(difference) = compare(&self.program, &direct, &again) {
                return Self { backends: None, difference, is_steady: true, ..self };
            }
        }
        let backends = self.backends.unwrap_or(1);
        let again = run_through(&self.program, lane, backends);
        self.is_steady = compare(&self.program, &direct, &again).is_some();
        self
    }
}

/// The shortest program with a difference.
fn shorten<B: Between>(found: Finding, lane: &mut Lane<'_, B>, patience: Duration) -> Finding {
    let (Some(backends), true) = (found.backends, found.is_steady) else { return found };
    let mut last = found.difference.clone();
    let begun = Instant::now();
    let program = shrink(&found.program, |program| {
        if begun.elapsed() > patience {
            return false;
        }
        let direct = run_directly(program, lane.site);
        let difference = compare(program, &direct, &run_through(program, lane, backends));
        let is_other = difference.as_ref().is_some_and(|it| !it.is_like(&found.difference));
        if let Some(difference) = difference
            && !is_other
        {
            last = difference;
            return true;
        }
        false
    });
    Finding { program, difference: last, ..found }
}

fn run_directly(program: &Program, site: &mut Site) -> Trace {
    site.direct.prepare(program.clients.len());
    run(program, &site.direct.door(), Waits::ByPace)
}

fn run_through<B: Between>(program: &Program, lane: &mut Lane<'_, B>, backends: u32) -> Trace {
    lane.site.behind.prepare(program.clients.len());
    let door = lane.between.door(&lane.site.behind, backends);
    run(program, &door, lane.between.waits())
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.backends {
            Some(backends) => writeln!(f, "# With {backends} backends:")?,
            None => writeln!(f, "# Two direct runs differ: this program cannot judge.")?,
        }
        if !self.is_steady {
            writeln!(f, "# It did not show again.")?;
        }
        for line in self.difference.to_string().lines() {
            writeln!(f, "# {line}")?;
        }
        f.write_str(&print(&self.program))
    }
}
