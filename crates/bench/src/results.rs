//! The file that a run of the load generator leaves behind: what was asked, on which machine, and
//! every round of every cell as it was measured.
//!
//! Owns the form of the JSON and nothing that is measured or shown. A *cell* is one target under
//! one workload with one number of clients, in one topology. Invariants: a round that was disturbed or a turn that
//! failed stays in the file and is marked, unless a run that was taken up again repeats it; numbers are finite; what
//! reads a file of this format ignores fields that it does not know, so fields may be added without a new format.

mod topology;

use serde::{Deserialize, Serialize};

pub use self::topology::{Layout, LoadKey, ProcessPlace, Topology};

/// The form described here.
pub const FORMAT: u32 = 1;

/// A whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    pub format: u32,
    /// The version of Flifo that measured.
    pub version: String,
    /// The command line.
    pub command: Vec<String>,
    /// Seconds since 1970.
    pub started: u64,
    /// When it was taken up again after it had been cut off.
    #[serde(default)]
    pub resumed: Vec<u64>,
    pub ending: Ending,
    /// What a reader should know before any number: limits that were hit, clocks that jumped.
    pub notes: Vec<String>,
    pub machine: Machine,
    pub settings: RunSettings,
    pub targets: Vec<TargetResult>,
    /// Where they ran; one where nothing was bound.
    #[serde(default)]
    pub topologies: Vec<Topology>,
    /// In the order in which a round goes through them.
    pub cells: Vec<Cell>,
    /// Every target but the first, compared with the first.
    pub ratios: Vec<Ratio>,
}

/// How the run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum Ending {
    Complete,
    /// By a signal: what was measured until then is there.
    Interrupted,
    /// Some turns failed; their cells say why.
    Partial {
        why: String,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    pub cpus: usize,
    pub cpu_model: String,
    pub kernel: String,
    pub memory_mib: u64,
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSettings {
    /// Length of one round, without its warm-up.
    pub seconds: f64,
    pub warm_up_seconds: f64,
    /// From none to all clients.
    pub ramp_seconds: f64,
    /// How often each target has its turn in each start.
    pub rounds: u32,
    /// How often what is started for the run is started, each time for all rounds.
    #[serde(default = "once")]
    pub restarts: u32,
    /// The topologies that took turns, as they were asked for.
    #[serde(default)]
    pub places: Vec<String>,
    pub workloads: Vec<String>,
    pub clients: Vec<u32>,
    /// Clients that are logged in beside and ask nothing.
    pub idle_clients: u32,
    pub protocol: Protocol,
    pub pacing: Pacing,
    /// Threads of the generator.
    pub threads: u32,
    /// Workers of a Flifo and threads of a HAProxy that are started; else each one's own default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
    pub tables: u32,
    pub rows: u32,
    /// How ids are drawn: special, uniform, gaussian, pareto or zipfian.
    pub distribution: String,
    pub seed: u64,
    /// Rows of a range in the oltp workloads.
    #[serde(default = "range_size")]
    pub range_size: u32,
    /// Without BEGIN and COMMIT in the oltp workloads.
    #[serde(default)]
    pub skip_trx: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    Text,
    Prepared,
}

const fn once() -> u32 {
    1
}

const fn range_size() -> u32 {
    100
}

/// When a client starts its next transaction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "loop", rename_all = "snake_case")]
pub enum Pacing {
    /// As soon as the last one is over and it has thought. Latency counts from the sending.
    Closed { think_ms: f64 },
    /// When its time has come, whether or not others are over. Latency counts from that time.
    Open {
        /// Transactions a second of all clients together.
        rate: f64,
        arrivals: Arrivals,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// At equal distances.
    Even,
    /// At random, as of many clients that are independent of each other.
    Poisson,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetResult {
    pub name: String,
    /// As it was given: `unix:PATH`, `HOST:PORT`, or the name of one that was started for the run.
    pub address: String,
    /// What its greeting says.
    pub server_version: String,
    /// The processes whose figures are taken when it has its turn, beside the generator itself; of
    /// those that were started for the run, as they were in the first start.
    pub processes: Vec<Process>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub role: Role,
    /// The program's name.
    pub name: String,
    pub pid: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Server,
    Proxy,
    /// The generator itself.
    Generator,
    /// Named by the user for no such part.
    Other,
}

/// One target under one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The name of its topology; empty where nothing was bound.
    #[serde(default)]
    pub topology: String,
    pub target: String,
    pub workload: String,
    pub clients: u32,
    /// In the order of time; a disturbed one is followed by its repetition.
    pub rounds: Vec<Round>,
    pub failures: Vec<Failure>,
}

/// A turn that gave no figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub round: u32,
    pub why: String,
}

/// One turn of a target, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// From 1 over all starts; the same number again where a round was repeated.
    pub number: u32,
    /// In which start of the server and the proxies, from 1; 0 if the run did not start them.
    /// Rounds of one start have in common what differs from one start to the next.
    #[serde(default)]
    pub start: u32,
    pub standing: Standing,
    /// Measured length.
    pub seconds: f64,
    pub statements: u64,
    pub transactions: u64,
    pub statements_per_second: f64,
    pub transactions_per_second: f64,
    /// Of transactions: what sysbench calls latency.
    pub latency: Latency,
    pub statement_latency: Latency,
    /// Of connecting and logging in, where that belongs to the workload.
    pub connect_latency: Option<Latency>,
    pub errors: Vec<ErrorCount>,
    /// Connections that were lost and made anew.
    pub reconnects: u64,
    /// Open loop: transactions whose time came within the round and that no client was free for.
    pub unsent: u64,
    pub fairness: Fairness,
    pub processes: Vec<ProcessFigures>,
    pub disturbance: Disturbance,
    pub timeline: Vec<Second>,
}

/// Whether a round counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    Kept,
    /// Disturbed and run again: it does not count.
    Repeated,
    /// Disturbed each time that it was run: it counts for want of a better one.
    KeptThoughDisturbed,
    /// Cut short by a signal or a target's end: it does not count.
    Cut,
}

impl Standing {
    pub const fn counts(self) -> bool {
        matches!(self, Self::Kept | Self::KeptThoughDisturbed)
    }
}

/// How long something took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub count: u64,
    pub mean_ms: f64,
    pub p50_ms: f64,
    pub p95_ms: f64,
    pub p99_ms: f64,
    #[serde(rename = "p99.9_ms")]
    pub p99_9_ms: f64,
    pub max_ms: f64,
    /// Where anything fell: the upper end in milliseconds, ascending, and how many.
    pub buckets: Vec<(f64, u64)>,
}

impl Latency {
    /// The time below which this share of them lies, between the ends of its bucket; `None` if
    /// nothing was measured.
    pub fn quantile_ms(&self, share: f64) -> Option<f64> {
        let all: u64 = self.buckets.iter().map(|(_, count)| count).sum();
        let wanted = all as f64 * share;
        let mut below = 0.0;
        for (upper, count) in &self.buckets {
            let count = *count as f64;
            if wanted <= below + count && 0.0 < count {
                let width = upper * BUCKET_WIDTH;
                return Some(upper - width * (1.0 - (wanted - below) / count));
            }
            below += count;
        }
        None
    }
}

/// The resolution of the histograms: the width of a bucket as a share of its upper end, at most.
const BUCKET_WIDTH: f64 = 1.0 / 64.0;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorCount {
    /// The server's number; 0 for what the generator itself noticed, such as a lost connection.
    pub code: u16,
    /// The first of this code.
    pub message: String,
    pub count: u64,
}

/// How evenly the clients were served: of the transactions of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fairness {
    /// Jain's index: 1 if all got the same, 1/n if one got everything.
    pub jain: f64,
    pub slowest: u64,
    pub median: u64,
    pub fastest: u64,
}

/// What a process used in one round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessFigures {
    pub role: Role,
    pub name: String,
    pub pid: u32,
    /// For one statement.
    pub user_us: f64,
    pub system_us: f64,
    pub voluntary_switches: f64,
    pub involuntary_switches: f64,
    pub minor_faults: f64,
    pub major_faults: f64,
    /// Runnable, and waiting for a CPU.
    pub run_delay_us: f64,
    /// Share of one CPU, in all.
    pub cpus: f64,
    pub memory_mib: f64,
    pub peak_memory_mib: f64,
    pub threads: u32,
}

impl ProcessFigures {
    pub fn cpu_us(&self) -> f64 {
        self.user_us + self.system_us
    }
}

/// What others had of the machine meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Disturbance {
    /// Taken by the hypervisor: share of all CPUs.
    pub steal: f64,
    /// Used by processes that do not belong to the measurement: share of all CPUs.
    pub foreign: f64,
    /// Pressure: share of the time in which some task waited for a disk, or for memory.
    pub io_pressure: Option<f64>,
    pub memory_pressure: Option<f64>,
    /// The other processes that used the most CPU time.
    pub others: Vec<String>,
    /// Too much for the round to count.
    pub is_notable: bool,
}

/// One second of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Since the round's begin; below 0 in the ramp and the warm-up before it.
    pub at: i32,
    /// Clients that had begun to work by its end.
    pub clients: u32,
    pub statements: u64,
    pub transactions: u64,
    pub errors: u64,
    /// Of the transactions that ended in it.
    pub p95_ms: f64,
    pub max_ms: f64,
}

/// A target compared with the first one, pair by pair of the rounds that counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    #[serde(default)]
    pub topology: String,
    pub workload: String,
    pub clients: u32,
    pub target: String,
    pub base: String,
    pub measure: Measure,
    /// TargetResult over base, one for each round.
    pub pairs: Vec<f64>,
    pub middle: f64,
    /// The confidence interval; absent where there are too few pairs.
    pub interval: Option<Interval>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
    /// Such as 0.95.
    pub confidence: f64,
    #[serde(default)]
    pub over: Over,
}

/// What an interval takes for independent of each other, and therefore holds for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// Rounds: it says nothing of another start of the same programs.
    #[default]
    Rounds,
    /// Starts, each with its rounds.
    Starts,
}

/// A figure that rounds are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    StatementsPerSecond,
    TransactionsPerSecond,
    MeanMs,
    /// What the fastest twentieth of the transactions takes: nothing stood in their way.
    P5Ms,
    P50Ms,
    P95Ms,
    P99Ms,
    P999Ms,
    MaxMs,
    /// CPU time a statement of the server, the proxy, the generator.
    ServerCpuUs,
    ProxyCpuUs,
    GeneratorCpuUs,
}

impl Measure {
    pub const ALL: [Self; 12] = [
        Self::StatementsPerSecond,
        Self::TransactionsPerSecond,
        Self::MeanMs,
        Self::P5Ms,
        Self::P50Ms,
        Self::P95Ms,
        Self::P99Ms,
        Self::P999Ms,
        Self::MaxMs,
        Self::ServerCpuUs,
        Self::ProxyCpuUs,
        Self::GeneratorCpuUs,
    ];

    /// Its value in a round, if the round has one.
    pub fn of(self, round: &Round) -> Option<f64> {
        Some(match self {
            Self::StatementsPerSecond => round.statements_per_second,
            Self::TransactionsPerSecond => round.transactions_per_second,
            Self::MeanMs => round.latency.mean_ms,
            Self::P5Ms => return round.latency.quantile_ms(0.05),
            Self::P50Ms => round.latency.p50_ms,
            Self::P95Ms => round.latency.p95_ms,
            Self::P99Ms => round.latency.p99_ms,
            Self::P999Ms => round.latency.p99_9_ms,
            Self::MaxMs => round.latency.max_ms,
            Self::ServerCpuUs => return round.cpu_us(Role::Server),
            Self::ProxyCpuUs => return round.cpu_us(Role::Proxy),
            Self::GeneratorCpuUs => return round.cpu_us(Role::Generator),
        })
    }

    /// Whether more of it is what one wants.
    pub const fn more_is_better(self) -> bool {
        matches!(self, Self::StatementsPerSecond | Self::TransactionsPerSecond)
    }
}

impl Round {
    /// What all processes of a role used for one statement; `None` if there is none.
    pub fn cpu_us(&self, role: Role) -> Option<f64> {
        let parts = self.processes.iter().filter(|process| process.role == role);
        parts.map(ProcessFigures::cpu_us).reduce(|sum, part| sum + part)
    }
}

/// The middle and the ends of what several rounds gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl Spread {
    /// Of any numbers; `None` if there are none.
    pub fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut numbers: Vec<f64> = numbers.into_iter().collect();
        numbers.sort_by(f64::total_cmp);
        let (low, high) = (*numbers.first()?, *numbers.last()?);
        let (lower, upper) = (numbers[(numbers.len() - 1) / 2], numbers[numbers.len() / 2]);
        Some(Self { median: f64::midpoint(lower, upper), low, high })
    }
}

impl Cell {
    /// Whether no round of that number counts.
    pub fn lacks(&self, number: u32) -> bool {
        !self.kept().any(|round| round.number == number)
    }

    /// The rounds that count.
    pub fn kept(&self) -> impl Iterator<Item = &Round> {
        self.rounds.iter().filter(|round| round.standing.counts())
    }

    /// Median and range of a figure over the rounds that count; `None` if none has it.
    pub fn spread(&self, measure: Measure) -> Option<Spread> {
        Spread::of(self.kept().filter_map(|round| measure.of(round)))
    }
}

#[cfg(test)]
mod tests;
