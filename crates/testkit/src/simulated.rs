//! Results of a load generator that never ran: drawn from a seed, on a machine that behaves as
//! told.
//!
//! For pages that need something to show and for comparisons that must find what was planted.
//! Invariant: equal wishes give equal results.

use bench::figures::pairs::ratios;
use bench::results::{
    Cell, Disturbance, Ending, FORMAT, Fairness, Latency, Machine, Pacing, Process, ProcessFigures,
    Protocol, Results, Role, Round, RunSettings, Second, Standing, TargetResult,
};
use bench::workloads::random::Random;

/// What the machine is like.
#[derive(Clone, Debug)]
pub struct Simulated {
    pub seed: u64,
    pub workloads: Vec<String>,
    pub clients: Vec<u32>,
    pub targets: Vec<String>,
    /// Of servers and proxies; 0 if the run starts none.
    pub starts: u32,
    /// In each start.
    pub rounds: u32,
    /// How far a round lies from the others of its start: the standard deviation, as a share.
    pub noise: f64,
    /// How far all rounds of a start do together: memory lies elsewhere each time.
    pub between: f64,
    /// All times of the targets are multiplied by it.
    pub slowness: f64,
    /// So much slower is the machine itself, and with it the generator.
    pub machine: f64,
    /// How far the machine's speed wanders from round to round, as a share.
    pub unsteady: f64,
}

impl Default for Simulated {
    fn default() -> Self {
        Self {
            seed: 1,
            workloads: vec!["oltp_point_select".into()],
            clients: vec![8, 64],
            targets: vec!["direct".into(), "flifo".into()],
            starts: 1,
            rounds: 5,
            noise: 0.01,
            between: 0.002,
            slowness: 1.0,
            machine: 1.0,
            unsteady: 0.0,
        }
    }
}

impl Simulated {
    pub fn results(&self) -> Results {
        let mut chance = Chance::new(self.seed);
        let mut cells = Vec::new();
        for (size, workload) in self.workloads.iter().enumerate() {
            for clients in &self.clients {
                for (index, target) in self.targets.iter().enumerate() {
                    let place = Place { size, index, clients: *clients };
                    cells.push(Cell {
                        topology: String::new(),
                        target: target.clone(),
                        workload: workload.clone(),
                        clients: *clients,
                        rounds: self.rounds(&place, &mut chance),
                        failures: vec![],
                    });
                }
            }
        }
        let base = |cell: &Cell| {
            let is_base = |other: &&Cell| {
                other.target == self.targets[0]
                    && (&other.workload, other.clients) == (&cell.workload, cell.clients)
            };
            cells.iter().find(is_base)
        };
        let others = cells.iter().filter(|cell| cell.target != self.targets[0]);
        let ratios =
            others.flat_map(|cell| base(cell).map_or_else(Vec::new, |it| ratios(cell, it)));
        let ratios = ratios.collect();
        Results {
            format: FORMAT,
            version: "0.1.0".into(),
            command: vec!["flifo".into(), "bench".into(), "run".into()],
            started: 1_790_000_000,
            resumed: vec![],
            ending: Ending::Complete,
            notes: vec![],
            machine: Machine {
                cpus: 2,
                cpu_model: "a simulated CPU".into(),
                kernel: "6.1.0".into(),
                memory_mib: 16_384,
            },
            settings: self.settings(),
            targets: self.targets.iter().enumerate().map(target).collect(),
            topologies: vec![],
            cells,
            ratios,
        }
    }

    fn rounds(&self, place: &Place, chance: &mut Chance) -> Vec<Round> {
        let mut rounds = Vec::new();
        for start in 0..self.starts.max(1) {
            let slower = self.slowness * (1.0 + chance.normal() * self.between);
            for number in 1..=self.rounds {
                let machine = self.machine * (1.0 + chance.normal() * self.unsteady);
                let slower = slower * machine * (1.0 + chance.normal() * self.noise);
                let mut round = round(start * self.rounds + number, place, slower, chance);
                round.start = if self.starts == 0 { 0 } else { start + 1 };
                for own in round.processes.iter_mut().filter(is_generator) {
                    own.user_us *= machine;
                    own.system_us *= machine;
                }
                rounds.push(round);
            }
        }
        rounds
    }

    fn settings(&self) -> RunSettings {
        RunSettings {
            seconds: f64::from(SECONDS),
            warm_up_seconds: 1.0,
            ramp_seconds: 0.0,
            rounds: self.rounds,
            restarts: self.starts.max(1),
            places: vec![],
            workloads: self.workloads.clone(),
            clients: self.clients.clone(),
            idle_clients: 0,
            protocol: Protocol::Prepared,
            pacing: Pacing::Closed { think_ms: 0.0 },
            threads: 1,
            workers: None,
            tables: 4,
            rows: 100_000,
            distribution: "special".into(),
            seed: self.seed,
            range_size: 100,
            skip_trx: false,
        }
    }
}

/// Which cell: the number of its workload and of its target, and its clients.
struct Place {
    size: usize,
    index: usize,
    clients: u32,
}

/// Numbers that look random and are the same each time.
#[derive(Clone, Debug)]
pub struct Chance(Random);

impl Chance {
    pub const fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    /// Evenly between 0 and 1, without both.
    pub fn share(&mut self) -> f64 {
        ((self.0.draw() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Of the bell curve around 0 with a standard deviation of 1.
    pub fn normal(&mut self) -> f64 {
        let (far, angle) = (self.share(), self.share());
        (-2.0 * far.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }
}

fn is_generator(process: &&mut ProcessFigures) -> bool {
    process.role == Role::Generator
}

fn target((index, name): (usize, &String)) -> TargetResult {
    let process = |role, name: &str, pid| Process { role, name: name.to_owned(), pid };
    let mut processes = vec![process(Role::Server, "mariadbd", 4711)];
    if index != 0 {
        processes.push(process(Role::Proxy, name, 4712 + index as u32));
    }
    TargetResult {
        name: name.clone(),
        address: format!("127.0.0.1:{}", 3306 + index),
        server_version: "10.11.6-MariaDB".into(),
        processes,
    }
}

/// A machine whose two CPUs are full from a few clients on, and whose server loses by crowds; the
/// second target lets few in, the third passes all on.
fn round(number: u32, place: &Place, slower: f64, chance: &mut Chance) -> Round {
    let Place { size, index: target, clients } = *place;
    let crowd = f64::from(clients);
    let crowding = if target == 1 { crowd.min(8.0) } else { crowd };
    let server_us = (18.0 + 9.0 * size as f64) * slower * (1.0 + 0.055 * crowding.log2());
    let proxy_us = [0.0, 7.5, 9.5][target.min(2)] * slower;
    let busiest = 2e6 / (server_us + proxy_us + 6.0);
    let alone_us = server_us * 2.2 + proxy_us * 2.0 + 20.0;
    let rate = 1.0 / (1.0 / busiest + 1.0 / (crowd * 1e6 / alone_us));
    let mean_ms = crowd / rate * 1e3;
    let spread = if target == 1 { 0.25 } else { 0.45 + 0.02 * crowd.log2() };
    let latency = latency(mean_ms, spread, rate * f64::from(SECONDS));
    let statements = (rate * f64::from(SECONDS)) as u64;
    Round {
        number,
        start: 0,
        standing: Standing::Kept,
        seconds: f64::from(SECONDS),
        statements,
        transactions: statements,
        statements_per_second: rate,
        transactions_per_second: rate,
        statement_latency: latency.clone(),
        timeline: (0..SECONDS).map(|at| second(at, clients, rate, &latency, chance)).collect(),
        latency,
        connect_latency: None,
        errors: vec![],
        reconnects: 0,
        unsent: 0,
        fairness: Fairness { jain: 0.99, slowest: 900, median: 1000, fastest: 1100 },
        processes: processes(target, server_us, proxy_us),
        disturbance: Disturbance::default(),
    }
}

fn second(at: u32, clients: u32, rate: f64, latency: &Latency, chance: &mut Chance) -> Second {
    let statements = (rate * (1.0 + 0.02 * chance.normal())) as u64;
    let Latency { p95_ms, max_ms, .. } = *latency;
    let at = at as i32;
    Second { at, clients, statements, transactions: statements, errors: 0, p95_ms, max_ms }
}

/// Logarithms of times lie on a bell curve.
fn latency(mean_ms: f64, spread: f64, count: f64) -> Latency {
    let median = mean_ms / (spread * spread / 2.0).exp();
    let at = |deviations: f64| median * (deviations * spread).exp();
    let mut buckets = Vec::new();
    for step in -30..50 {
        let deviations = f64::from(step) / 10.0;
        let density = (-deviations * deviations / 2.0).exp() / 25.066;
        let here = (density * count).round();
        if 0.0 < here {
            buckets.push((at(deviations + 0.05), here as u64));
        }
    }
    Latency {
        count: count as u64,
        mean_ms,
        p50_ms: median,
        p95_ms: at(1.645),
        p99_ms: at(2.326),
        p99_9_ms: at(3.09),
        max_ms: at(4.5),
        buckets,
    }
}

fn processes(target: usize, server_us: f64, proxy_us: f64) -> Vec<ProcessFigures> {
    let process = |role, name: &str, pid, cpu_us: f64, system: f64| ProcessFigures {
        role,
        name: name.to_owned(),
        pid,
        user_us: cpu_us * (1.0 - system),
        system_us: cpu_us * system,
        voluntary_switches: 0.8,
        involuntary_switches: 0.1,
        minor_faults: 0.01,
        major_faults: 0.0,
        run_delay_us: 4.0,
        cpus: 0.9,
        memory_mib: 180.0,
        peak_memory_mib: 190.0,
        threads: 12,
    };
    let mut all = vec![process(Role::Server, "mariadbd", 4711, server_us, 0.35)];
    if 0.0 < proxy_us {
        all.push(process(Role::Proxy, "proxy", 4712 + target as u32, proxy_us, 0.7));
    }
    all.push(process(Role::Generator, "flifo", 4700, 6.0, 0.6));
    all
}

const SECONDS: u32 = 10;
