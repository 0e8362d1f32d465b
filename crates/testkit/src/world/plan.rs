//! What happens in a run: the server, the work, the clients. Times are milliseconds of the world.

/// A server.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    pub cores: u32,
    /// How `n` busy cores slow each other: `1 + spread[0] (n-1) + spread[1] (n-1)^2`.
    pub spread: [f64; 2],
    /// What each runnable thread beyond the cores adds to that.
    pub crowd: f64,
    /// Requests that the disk serves at once.
    pub disk: usize,
}

/// What a statement needs.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Mean processor time, alone on a core.
    pub cpu: f64,
    /// Which share of the statements reads from the disk, how often, and the mean time of it.
    pub io_share: f64,
    pub io_count: u32,
    pub io: f64,
    /// Which share needs so many times the processor time.
    pub heavy_share: f64,
    pub heavy: f64,
}

/// Transactions of four statements: a read, a change of one hot row, another one, and the commit.
#[derive(Clone, Copy, Debug)]
pub struct Transactions {
    /// Which share of the clients' units they are.
    pub share: f64,
    /// Each client does one sort of unit only: `share` of them write, the others read.
    pub by_client: bool,
    pub hot_rows: usize,
    /// A lock is waited for so long, then the transaction fails.
    pub patience: f64,
    /// A session from outside of the plan takes every hot row, and keeps it: from, until.
    pub blocker: Option<(f64, f64)>,
}

/// How clients come.
#[derive(Clone, Copy, Debug)]
pub enum Arrivals {
    /// So many, each of which thinks for a mean time and asks again.
    Closed { clients: usize, think: f64 },
    /// A new client each time, on the average so many a second, by the phase; each gives up after its patience.
    Open { patience: f64 },
}

/// From a time on.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    pub from: f64,
    pub io_share: f64,
    /// Arrivals a second, where they are open.
    pub rate: f64,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub server: Server,
    pub work: Work,
    pub arrivals: Arrivals,
    pub transactions: Option<Transactions>,
    pub phases: Vec<Phase>,
    /// Neighbours on the same machine take up to such a share of its processors, another one each 100 ms.
    pub neighbours: f64,
    /// What is done before this is not measured.
    pub warm: f64,
    pub end: f64,
    /// Bounds of the intervals that are counted separately.
    pub marks: Vec<f64>,
}

impl Server {
    /// How much slower each of `running` threads goes for the others' sake.
    pub(super) fn slowdown(&self, running: usize) -> f64 {
        let (running, cores) = (running as f64, f64::from(self.cores));
        let beside = running.min(cores) - 1.0;
        let busy = 1.0 + self.spread[0] * beside + self.spread[1] * beside * beside;
        busy + self.crowd * (running - cores).max(0.0)
    }

    /// How much work each of them gets done in a millisecond.
    pub(super) fn speed(&self, running: usize) -> f64 {
        if running == 0 {
            return 1.0;
        }
        (f64::from(self.cores) / running as f64).min(1.0) / self.slowdown(running)
    }
}

impl Plan {
    pub fn closed(seed: u64, server: Server, work: Work, clients: usize, think: f64) -> Self {
        Self {
            seed,
            server,
            work,
            arrivals: Arrivals::Closed { clients, think },
            transactions: None,
            phases: Vec::new(),
            neighbours: 0.0,
            warm: 0.0,
            end: 1000.0,
            marks: Vec::new(),
        }
    }

    /// Measured from `warm` to `end`.
    #[must_use]
    pub fn lasting(mut self, warm: f64, end: f64) -> Self {
        (self.warm, self.end) = (warm, end);
        self
    }
}
