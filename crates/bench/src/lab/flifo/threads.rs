//! The note's experiment, small: threads of the operating system before one of four gates.
//!
//! Owns the course of a run and what is counted in it. Invariants: nothing counts but what ended
//! between two moments; every thread has ended when a run returns.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::doors::{Hot, Line, Seat};
use super::work::{STATEMENTS, Scratch, Statement, Table, transaction};
use crate::figures::histogram::{Histogram, ms};
use crate::interrupt::Interrupt;
use crate::workloads::random::Random;

/// How threads are let into the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lab) enum Gate {
    None,
    Fifo,
    Flifo,
    Hot,
}

/// What one run found.
#[derive(Clone, Copy, Debug)]
pub(in crate::lab) struct Figures {
    /// A second.
    pub(super) transactions: f64,
    /// A transaction.
    pub(super) switches: f64,
    pub(super) jain: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

impl Gate {
    pub(super) const ALL: [Self; 4] = [Self::None, Self::Fifo, Self::Flifo, Self::Hot];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::None => "no gate",
            Self::Fifo => "FIFO",
            Self::Flifo => "FLIFO",
            Self::Hot => "hot threads",
        }
    }

    /// Statements at once: for each CPU as many as the note had.
    pub(super) fn limit(self, cpus: u32) -> Option<u32> {
        match self {
            Self::None => None,
            Self::Fifo => Some(cpus * 4),
            Self::Flifo | Self::Hot => Some(cpus * 2),
        }
    }
}

/// Lets so many threads work on the table for a while.
pub(super) fn run(
    table: &Table,
    gate: Gate,
    threads: u32,
    (warm_up, length): (Duration, Duration),
    interrupt: &Interrupt,
) -> Result<Figures> {
    let cpus = thread::available_parallelism().map_or(1, |count| count.get() as u32);
    let limit = gate.limit(cpus).unwrap_or(u32::MAX);
    let seats: Box<[Arc<Seat>]> = (0..threads).map(|_| Arc::default()).collect();
    let way = match gate {
        Gate::None => Way::Open,
        Gate::Fifo => Way::Line(Box::new(Line::fifo(limit))),
        Gate::Flifo => Way::Line(Box::new(Line::flifo(limit))),
        Gate::Hot => Way::Hot(Box::new(Hot::new(limit, &seats))),
    };
    let floor = Floor {
        table,
        way,
        seats,
        done: (0..threads).map(|_| AtomicU64::new(0)).collect(),
        clock: Clock { origin: Instant::now(), from: AtomicU64::new(u64::MAX) },
        is_over: AtomicBool::new(false),
        present: AtomicU32::new(0),
    };
    thread::scope(|scope| floor.work(scope, warm_up, length, interrupt))
}

/// What the threads of a run share.
struct Floor<'a> {
    table: &'a Table,
    way: Way,
    seats: Box<[Arc<Seat>]>,
    /// Statements of each client.
    done: Box<[AtomicU64]>,
    clock: Clock,
    is_over: AtomicBool,
    present: AtomicU32,
}

enum Way {
    Open,
    Line(Box<Line>),
    Hot(Box<Hot>),
}

/// Nanoseconds since the run began; latencies count from `from` on.
struct Clock {
    origin: Instant,
    from: AtomicU64,
}

impl Floor<'_> {
    fn work<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        warm_up: Duration,
        length: Duration,
        interrupt: &Interrupt,
    ) -> Result<Figures> {
        // Whatever happens below, the threads are told to go.
        let end = End(Presence::begin(self));
        if let Way::Hot(hot) = &self.way {
            for thread in 0..hot.threads() {
                begin(scope, move || {
                    let mut scratch = Scratch::default();
                    hot.serve(thread, |statement| self.table.run(statement, &mut scratch));
                })?;
            }
        }
        let mut clients = Vec::new();
        for client in 0..self.seats.len() {
            let presence = Presence::begin(self);
            clients.push(begin(scope, move || {
                let latency = self.live(client);
                drop(presence);
                latency
            })?);
        }
        interrupt.sleep(warm_up)?;
        let before = self.look()?;
        self.clock.from.store(self.clock.now(), Ordering::Release);
        interrupt.sleep(length)?;
        let after = self.look()?;
        self.is_over.store(true, Ordering::Release);
        let mut latency = Histogram::default();
        for client in clients {
            latency.add(&client.join().unwrap_or_default());
        }
        drop(end);
        Ok(after.since(&before, &latency))
    }

    /// One client: a transaction after the other.
    fn live(&self, client: usize) -> Histogram {
        let seat = &self.seats[client];
        seat.take();
        let mut random = Random::split(7, client as u64);
        let mut scratch = Scratch::default();
        let mut latency = Histogram::default();
        while !self.is_over.load(Ordering::Acquire) {
            let begun = self.clock.now();
            for statement in transaction(&mut random) {
                self.pass(client, statement, &mut scratch);
                self.done[client].fetch_add(1, Ordering::Relaxed);
            }
            let now = self.clock.now();
            if self.clock.from.load(Ordering::Acquire) <= now {
                latency.record(now - begun);
            }
        }
        latency
    }

    fn pass(&self, client: usize, statement: Statement, scratch: &mut Scratch) {
        match &self.way {
            Way::Open => self.table.run(statement, scratch),
            Way::Line(line) => {
                let pass = line.enter(&self.seats[client]);
                self.table.run(statement, scratch);
                line.leave(pass);
            }
            Way::Hot(hot) => hot.ask(client, statement),
        }
    }

    fn look(&self) -> Result<Look> {
        let switches = sys::account::switches(std::process::id())?;
        Ok(Look {
            at: self.clock.now(),
            switches: switches.voluntary + switches.involuntary,
            done: self.done.iter().map(|done| done.load(Ordering::Relaxed)).collect(),
        })
    }
}

/// Sends everybody home when it is dropped.
struct End<'a>(Presence<'a>);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.0.is_over.store(true, Ordering::Release);
    }
}

/// A part of the run that may still need the hot threads. They end when the last one is dropped.
struct Presence<'a>(&'a Floor<'a>);

impl<'a> Presence<'a> {
    fn begin(floor: &'a Floor<'a>) -> Self {
        floor.present.fetch_add(1, Ordering::AcqRel);
        Self(floor)
    }
}

impl Drop for Presence<'_> {
    fn drop(&mut self) {
        if self.0.present.fetch_sub(1, Ordering::AcqRel) == 1
            && let Way::Hot(hot) = &self.0.way
        {
            hot.close();
        }
    }
}

/// The accounts at one moment.
struct Look {
    at: u64,
    switches: u64,
    done: Vec<u64>,
}

impl Look {
    fn since(&self, before: &Self, latency: &Histogram) -> Figures {
        let done: Vec<f64> =
            self.done.iter().zip(&before.done).map(|(now, then)| (now - then) as f64).collect();
        let transactions = done.iter().sum::<f64>() / STATEMENTS as f64;
        let seconds = (self.at - before.at) as f64 / 1e9;
        let switches = self.switches.saturating_sub(before.switches) as f64;
        Figures {
            transactions: transactions / seconds,
            switches: switches / transactions.max(1.0),
            jain: jain(&done),
            p50_ms: ms(latency.quantile(0.5)),
            p99_ms: ms(latency.quantile(0.99)),
        }
    }
}

impl Clock {
    fn now(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }
}

/// Jain's index: 1 if all got the same, 1/n if one got everything.
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / squares / shares.len() as f64 }
}

/// Starts a thread that needs little: there will be a thousand.
fn begin<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<thread::ScopedJoinHandle<'scope, T>> {
    let spawned: io::Result<_> = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
    spawned.context("cannot start a thread of the experiment")
}

const STACK: usize = 128 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs as briefly as shows what is expected: a busy machine gets more time.
    fn run_until(is_enough: fn(&Figures) -> bool, gate: Gate, threads: u32) -> Figures {
        let mut length = Duration::from_millis(300);
        loop {
            let times = (Duration::from_millis(50), length);
            let figures =
                run(&Table::new(), gate, threads, times, &Interrupt::never()).expect("runs");
            if is_enough(&figures) || length > Duration::from_secs(20) {
                return figures;
            }
            length *= 3;
        }
    }

    #[test]
    fn every_gate_lets_everybody_work_and_go() {
        for gate in Gate::ALL {
            for threads in [1, 40] {
                let Figures { transactions, switches, jain, p50_ms, p99_ms } =
                    run_until(|figures| figures.transactions > 0.0, gate, threads);
                assert!(transactions > 0.0 && switches >= 0.0, "{gate:?}, {threads}");
                assert!((0.0..=1.0 + 1e-9).contains(&jain), "{gate:?}, {threads}: {jain}");
                assert!(p50_ms <= p99_ms, "{gate:?}, {threads}");
            }
        }
    }

    #[test]
    fn a_line_serves_all_alike() {
        let fifo = run_until(|figures| figures.jain > 0.7, Gate::Fifo, 64).jain;
        assert!(fifo > 0.7, "{fifo}");
    }

    #[test]
    fn jain_s_index_tells_equals_from_a_favourite() {
        assert!((jain(&[5.0, 5.0, 5.0, 5.0]) - 1.0).abs() < 1e-9);
        assert!((jain(&[9.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-9);
    }
}
