//! What is known of a machine, of the server on it and of the server's clients: everything that a finding may judge,
//! and nothing else.
//!
//! Facts can be written down and judged on another machine. Invariants: what could not be seen says
//! why; a fresh value knows nothing; of an environment only the allocator's variables are held.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sys::cgroup::{Cgroup, Throttling};
use sys::details::{Autogroup, Limit, Status};
use sys::kernel::{Pressure, Surroundings, Times};
use sys::network::Interrupt;
use sys::power::{Frequency, IdleState};
use sys::threads::{Line, Thread};
use sys::topology::Cpu;
use sys::tree::Seen;

use crate::judgement::{Unknown, need};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    pub machine: Machine,
    pub rights: Rights,
    pub server: Server,
    /// The processes of this machine that hold connections to the server.
    pub clients: Seen<Vec<Client>>,
    /// What happened while it was watched.
    pub load: Seen<Load>,
    /// What the Flifo in front of the server is configured to show to its clients.
    pub front: Seen<Front>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    pub release: Seen<String>,
    pub version: Seen<(u32, u32)>,
    pub preemption: Seen<String>,
    pub surroundings: Surroundings,
    pub cpus: Seen<Vec<Cpu>>,
    pub frequencies: Seen<Vec<Frequency>>,
    pub idle_states: Seen<Vec<IdleState>>,
    /// Scheduling slice of an ordinary thread, in microseconds.
    pub slice: Seen<u64>,
    pub memory_kib: Seen<u64>,
    pub huge_pages: Seen<u64>,
    /// "always", "madvise" or "never".
    pub transparent_huge_pages: Seen<String>,
    /// A scheduler of its user's making: "enabled" or "disabled".
    pub sched_ext: Seen<String>,
    pub cpu_pressure: Seen<Pressure>,
    pub memory_pressure: Seen<Pressure>,
    pub interrupts: Seen<Vec<Interrupt>>,
    /// Connections that were lost because no process accepted them soon enough, since boot.
    pub listen_overflows: Seen<u64>,
    /// Closed connections from here to the server's port that still hold their ports.
    pub time_wait: Seen<u64>,
    /// Settings of the kernel, by the names that `sysctl` has for them.
    pub settings: BTreeMap<String, Seen<String>>,
}

/// What the doctor itself may do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rights {
    pub status: Seen<Status>,
    /// The system call was tried: "ok", or why it was refused.
    pub io_uring: Seen<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Server {
    pub address: String,
    /// Reached by a Unix socket.
    pub by_socket: bool,
    pub process: Seen<Process>,
    pub variables: Seen<BTreeMap<String, String>>,
    pub status: Seen<BTreeMap<String, String>>,
    /// Milliseconds that connecting and logging in took, the longest of a few.
    pub handshake_ms: Seen<f64>,
    /// By which methods each user of other machines may log in.
    pub methods: Seen<BTreeMap<String, String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    pub pid: u32,
    pub line: Seen<Line>,
    pub status: Seen<Status>,
    pub threads: Seen<Vec<Thread>>,
    pub autogroup: Seen<Autogroup>,
    pub cgroup: Seen<Cgroup>,
    pub open_files: Seen<usize>,
    pub open_files_limit: Seen<Limit>,
    /// The variables that allocators read.
    pub allocator_settings: Seen<Vec<(String, String)>>,
    /// "glibc", "jemalloc", "tcmalloc" or "mimalloc".
    pub allocator: Seen<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Client {
    pub process: Process,
    /// Connections to the server by Unix sockets, and by TCP.
    pub unix: usize,
    pub tcp: usize,
    /// It stands between others and the server.
    pub is_proxy: bool,
}

/// How clients of a Flifo log in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Front {
    /// Where clients of other machines come in.
    pub open: Vec<String>,
    pub certificate: Certificate,
    /// It reads what the server stores (`server.accounts_user`).
    pub reads_accounts: bool,
    /// Users whose passwords it is told.
    pub known: Vec<String>,
}

/// What Flifo shows to clients in TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Certificate {
    /// There is no TLS.
    None,
    /// It makes one when it starts, which no authority has signed.
    #[default]
    MadeUp,
    Given,
}

/// What came while the machine was watched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Load {
    pub seconds: f64,
    pub times: Seen<Times>,
    pub server: Seen<Effort>,
    /// By process.
    pub clients: BTreeMap<u32, Effort>,
    /// What the server's counters grew by.
    pub status: Seen<BTreeMap<String, f64>>,
    /// The largest number of the server's statements that ran at once, of a few looks.
    pub running_max: Seen<u64>,
    pub listen_overflows: Seen<u64>,
    pub compaction_stalls: Seen<u64>,
}

/// What a process did while it was watched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Effort {
    pub threads: Vec<ThreadEffort>,
    pub minor_faults: u64,
    pub major_faults: u64,
    /// Hundredths of a second.
    pub user: u64,
    pub system: u64,
    pub throttling: Seen<Throttling>,
}

/// Of a thread that lived all the while: shares of the time, and counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadEffort {
    pub tid: u32,
    pub name: String,
    pub ran: f64,
    pub waited: f64,
    pub slices: u64,
}

impl Facts {
    pub(crate) fn load(&self) -> Result<&Load, Unknown> {
        need(&self.load)
    }

    /// What was seen under load; what an idle server shows tells nothing.
    pub(crate) fn busy(&self) -> Result<&Load, Unknown> {
        let load = self.load()?;
        let rate = load.rate("Questions")?;
        if rate < BUSY {
            let text = format!("{rate:.0} statements/s is no load; watch while the server works");
            return Err(Unknown(text));
        }
        Ok(load)
    }

    pub(crate) fn process(&self) -> Result<&Process, Unknown> {
        need(&self.server.process)
    }

    pub(crate) fn clients(&self) -> Result<&[Client], Unknown> {
        Ok(need(&self.clients)?)
    }

    /// The proxy in front of the server; `None` if there is none on this machine.
    pub(crate) fn proxy(&self) -> Result<Option<&Client>, Unknown> {
        Ok(self.clients()?.iter().find(|client| client.is_proxy))
    }

    /// The process of the proxy in front of the server, if it is a Flifo.
    pub fn flifo(&self) -> Option<u32> {
        let proxy = self.proxy().ok().flatten()?;
        (proxy.process.name() == FLIFO).then_some(proxy.process.pid)
    }

    /// The CPUs that are online.
    pub(crate) fn cpus(&self) -> Result<&[Cpu], Unknown> {
        Ok(need(&self.machine.cpus)?)
    }

    /// Memory that the server may use: the machine's, or what its group is limited to. In bytes.
    pub(crate) fn memory(&self) -> Result<u64, Unknown> {
        let machine = need(&self.machine.memory_kib)?.saturating_mul(1024);
        let group = need(&self.process()?.cgroup)?;
        Ok(need(&group.memory)?.map_or(machine, |limit| limit.min(machine)))
    }

    pub(crate) fn setting(&self, name: &str) -> Result<&str, Unknown> {
        match self.machine.settings.get(name) {
            Some(seen) => Ok(need(seen)?),
            None => Err(Unknown(format!("{name} was not read"))),
        }
    }
}

impl Server {
    /// A variable's text.
    pub(crate) fn text(&self, name: &str) -> Result<&str, Unknown> {
        let all = need(&self.variables)?;
        let absent = || Unknown(format!("the server has no variable {name}"));
        all.get(name).map(String::as_str).ok_or_else(absent)
    }

    pub(crate) fn number(&self, name: &str) -> Result<u64, Unknown> {
        let text = self.text(name)?;
        text.parse().map_err(|_| Unknown(format!("{name} is {text:?} and no number")))
    }

    /// A number, or nothing if the server has no such variable.
    pub(crate) fn number_if_any(&self, name: &str) -> u64 {
        self.number(name).unwrap_or(0)
    }

    pub(crate) fn is_on(&self, name: &str) -> Result<bool, Unknown> {
        Ok(matches!(self.text(name)?, "ON" | "1" | "YES"))
    }

    /// A counter since the server began.
    pub(crate) fn counter(&self, name: &str) -> Result<u64, Unknown> {
        let all = need(&self.status)?;
        let value = all.get(name).and_then(|text| text.parse().ok());
        value.ok_or_else(|| Unknown(format!("the server has no counter {name}")))
    }
}

impl Process {
    pub fn name(&self) -> &str {
        self.line.known().map_or("?", |line| &line.name)
    }

    /// The thread that began the process.
    pub(crate) fn main(&self) -> Result<&Thread, Unknown> {
        let threads = need(&self.threads)?;
        let main = threads.iter().find(|thread| thread.tid == self.pid);
        main.or_else(|| threads.first()).ok_or_else(|| Unknown("it has no threads".to_owned()))
    }
}

impl Load {
    /// What a counter of the server's grew by in a second.
    pub(crate) fn rate(&self, counter: &str) -> Result<f64, Unknown> {
        let all = need(&self.status)?;
        let grown = all.get(counter);
        let grown = grown.ok_or_else(|| Unknown(format!("the server has no counter {counter}")))?;
        if self.seconds <= 0.0 {
            return Err(Unknown("nothing was watched".to_owned()));
        }
        Ok(grown / self.seconds)
    }

    /// Share of the machine's time in which nothing ran.
    pub(crate) fn idle(&self) -> Result<f64, Unknown> {
        let times = need(&self.times)?;
        let (idle, all) = (times.idle, times.all());
        if all == 0 {
            return Err(Unknown("nothing was watched".to_owned()));
        }
        Ok(idle as f64 / all as f64)
    }
}

impl Effort {
    /// The thread that would run most if it could.
    pub(crate) fn busiest(&self) -> Option<&ThreadEffort> {
        let wish = |thread: &ThreadEffort| thread.ran + thread.waited;
        self.threads.iter().max_by(|one, other| wish(one).total_cmp(&wish(other)))
    }
}

/// What its process is called.
pub(crate) const FLIFO: &str = "flifo";

/// Below so many statements a second a server is idle.
const BUSY: f64 = 20.0;
