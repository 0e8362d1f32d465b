//! What a look at the workers and their machine means.
//!
//! Pure: shares in, a verdict out. Invariant: nothing is called starvation that a quota, a hypervisor or a set of CPUs
//! explains, or that takes place while no CPU idles.

use std::fmt;
use std::time::Duration;

/// What came in a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Look {
    pub length: Duration,
    /// Of the worker that wanted to run most: shares of the time in which it ran, and was runnable without a CPU.
    pub ran: f64,
    pub waited: f64,
    /// Of the time of all CPUs; to wait for a disk is idling.
    pub idle: f64,
    pub steal: f64,
    /// Share of periods in which a quota stopped the server or Flifo.
    pub throttled: f64,
    /// Workers and server may use one CPU only, the same one, and the machine has others.
    pub confined: bool,
    /// All ordinary threads of the server are batch threads already.
    pub batch: bool,
    /// Statements a second.
    pub rate: f64,
    /// The time that 99 of 100 statements did not exceed, if there were enough.
    pub p99: Option<Duration>,
}

impl Look {
    /// Both spans as one, of which this is the later.
    pub fn with(&self, before: &Self) -> Self {
        let length = self.length + before.length;
        let part = if length.is_zero() { 0.5 } else { self.length.div_duration_f64(length) };
        let mean = |now: f64, then: f64| now * part + then * (1.0 - part);
        Self {
            length,
            ran: mean(self.ran, before.ran),
            waited: mean(self.waited, before.waited),
            idle: mean(self.idle, before.idle),
            steal: mean(self.steal, before.steal),
            throttled: mean(self.throttled, before.throttled),
            rate: mean(self.rate, before.rate),
            p99: self.p99.max(before.p99),
            ..*self
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Too short a look.
    Unknown,
    /// There is no load to judge.
    Idle,
    /// A hypervisor gives the CPUs to others.
    Stolen,
    /// A quota stops the server or Flifo.
    Throttled,
    /// Workers and server are confined to one CPU beside others that idle.
    Confined,
    /// A worker fills its CPU: another worker helps, not another place.
    CpuBound,
    /// No CPU is left: a thread that is preferred takes it from another thread that needs it too.
    Contended,
    /// A worker waits for a CPU while others idle, because the server's threads are as good as it is.
    Starved,
    /// The same, and the server's threads are batch threads already.
    StarvedAnyway,
    Well,
}

impl Verdict {
    pub const ALL: [Self; 10] = [
        Self::Unknown,
        Self::Idle,
        Self::Stolen,
        Self::Throttled,
        Self::Confined,
        Self::CpuBound,
        Self::Contended,
        Self::Starved,
        Self::StarvedAnyway,
        Self::Well,
    ];

    pub fn of(look: &Look) -> Self {
        if look.length < LENGTH_MIN {
            Self::Unknown
        } else if look.rate < RATE_MIN {
            Self::Idle
        } else if STEAL < look.steal {
            Self::Stolen
        } else if THROTTLED < look.throttled {
            Self::Throttled
        } else if FULL < look.ran {
            Self::CpuBound
        } else if look.waited <= WAITED {
            Self::Well
        } else if look.idle <= IDLE {
            Self::Contended
        } else if look.confined {
            Self::Confined
        } else if look.ran + look.waited <= WISHED {
            Self::Well
        } else if look.batch {
            Self::StarvedAnyway
        } else {
            Self::Starved
        }
    }

    pub const fn is_starved(self) -> bool {
        matches!(self, Self::Starved | Self::StarvedAnyway)
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Idle => "idle",
            Self::Stolen => "stolen",
            Self::Throttled => "throttled",
            Self::Confined => "pinned together",
            Self::CpuBound => "CPU-bound",
            Self::Contended => "contended",
            Self::Starved => "starved",
            Self::StarvedAnyway => "starved, the server batch already",
            Self::Well => "well",
        }
    }

    /// What it means, and what would help.
    pub const fn means(self) -> &'static str {
        match self {
            Self::Unknown => "nothing has been seen for long enough",
            Self::Idle => "there is no load",
            Self::Stolen => "the hypervisor gives our CPUs to others; nothing here can change it",
            Self::Throttled => "a quota stops server or Flifo; raise it, or take fewer workers",
            Self::Confined => {
                "workers and server may use one CPU while others idle; let them use all"
            }
            Self::CpuBound => "a worker fills its CPU; another worker helps",
            Self::Contended => {
                "no CPU is idle; a thread that gets more CPU time takes it from \
                                others"
            }
            Self::Starved => "a worker waits for a CPU while others idle",
            Self::StarvedAnyway => {
                "a worker waits for a CPU while others idle, though the server is batch"
            }
            Self::Well => "the workers get the CPU that they want",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Shorter looks see one turn of a hundred threads and not their average. Two looks of a second are a little less.
const LENGTH_MIN: Duration = Duration::from_millis(1900);
/// Fewer statements a second are no load.
const RATE_MIN: f64 = 20.0;
const STEAL: f64 = 0.05;
const THROTTLED: f64 = 0.01;
const FULL: f64 = 0.95;
const WAITED: f64 = 0.10;
const WISHED: f64 = 0.90;
const IDLE: f64 = 0.06;
