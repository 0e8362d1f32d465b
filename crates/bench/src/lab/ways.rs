//! Ways to a private server that experiments compare, and a turn of load on one of them.
//!
//! Owns how proxies are set up for the laboratory and what a turn costs whom. Does not know what is
//! compared with what. Invariants: a proxy stops when its way is dropped; what a turn cost is of
//! the same span of time as what it did.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use backend::Address;
use backend::login::Credential;
use sys::account::{CpuTime, Switches, stat, switches};
use sys::cpus::Cpus;
use sys::machine::CpuTimes;
use sys::tree::Tree;

use crate::figures::histogram::ms;
use crate::figures::watch::NOTABLE;
use crate::interrupt::Interrupt;
use crate::load::{self, Account, Ended, Order, TurnMoment};
use crate::private_server::{PrivateServer, free_port};
use crate::programs::HAPROXY;
use crate::results::{Pacing, Protocol};
use crate::targets::Proxy;
use crate::workloads::Workload;
use crate::workloads::random::Distribution;
use crate::workloads::tables::{self, Extent};

use super::experiment::Lab;

/// From a client to a server.
pub(super) struct Way {
    address: Address,
    account: Account,
    /// Whose CPU time and context switches count.
    pids: Vec<u32>,
    proxy: Option<Proxy>,
}

/// What of Flifo's configuration differs between ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlifoSetup {
    pub(super) limit: Limit,
    pub(super) connections_max: u32,
    /// Pipelined statements on a backend.
    pub(super) pipeline: u32,
    pub(super) sharing: Sharing,
    pub(super) log: Log,
    pub(super) workers: u32,
    pub(super) server: Door,
    /// The words of the configuration.
    pub(super) placement: &'static str,
    pub(super) share_reads: &'static str,
}

/// Where Flifo finds the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    Socket,
    Tcp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    Fixed(u32),
    Auto,
}

/// Whether clients share backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    Pooled,
    PassThrough,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Log {
    Usual,
    /// Each decision about the limit.
    Decisions,
}

/// One turn of load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load<'a> {
    pub(super) workload: &'a Workload,
    pub(super) extent: Extent,
    pub(super) clients: u32,
    pub(super) warm_up: Duration,
    pub(super) length: Duration,
    pub(super) distribution: Distribution,
    pub(super) seed: u64,
}

/// What came of it.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    /// Statements a second.
    pub(super) rate: f64,
    /// Statements of the whole turn, warm-up and end as well.
    pub(super) answered: u64,
    /// Of transactions.
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) jain: f64,
    /// Of server and proxy, for each statement.
    pub(super) switches: f64,
    pub(super) cpu_us: f64,
    pub(super) errors: u64,
    /// What others had of the machine's CPUs meanwhile, as a share.
    pub(super) foreign: f64,
    /// CPUs that the server used, and then the proxy, if there is one.
    pub(super) cpus: Vec<f64>,
    /// Share of all CPUs' time that was idle.
    pub(super) idle: f64,
    /// Share of time that threads of the proxy were runnable without a CPU; of several it may be more than all.
    pub(super) delay: f64,
}

impl Way {
    /// Straight to the server, over TCP.
    pub(super) fn direct(server: &PrivateServer) -> Result<Self> {
        Self::new(server, tcp(server.port()), None)
    }

    pub(super) fn flifo(
        name: &str,
        server: &PrivateServer,
        setup: FlifoSetup,
        lab: &Lab,
    ) -> Result<Self> {
        let port = free_port()?;
        let path = server.folder().join(format!("{name}.toml"));
        write(&path, &setup.configuration(name, port, server))?;
        let mut command = Command::new(&lab.flifo);
        command.args(["run", "--config"]).arg(path);
        // What is measured may run as root, beside a private server of the same user.
        command.env("FLIFO_ALLOW_PRIVILEGED_USER", "1");
        Self::proxied(name, server, port, command, lab)
    }

    /// Through HAProxy, which lets so many connections through to the server and keeps the others
    /// waiting, up to so many clients in all.
    pub(super) fn haproxy(
        name: &str,
        server: &PrivateServer,
        (maxconn, clients): (u32, u32),
        lab: &Lab,
    ) -> Result<Self> {
        let port = free_port()?;
        let path = server.folder().join(format!("{name}.cfg"));
        write(&path, &haproxy_configuration(port, &server.socket(), (maxconn, clients)))?;
        let mut command = Command::new(HAPROXY.find()?);
        // In the foreground and in one process, so that it can be measured and stopped.
        command.arg("-db").arg("-f").arg(path);
        Self::proxied(name, server, port, command, lab)
    }

    fn proxied(
        name: &str,
        server: &PrivateServer,
        port: u16,
        command: Command,
        lab: &Lab,
    ) -> Result<Self> {
        let log = server.folder().join(format!("{name}.log"));
        let proxy = Proxy::start(name, command, log, port, &lab.interrupt)?;
        Self::new(server, tcp(port), Some(proxy))
    }

    fn new(server: &PrivateServer, address: Address, proxy: Option<Proxy>) -> Result<Self> {
        let pid = server.pid().context("the private server does not run")?;
        let pids = std::iter::once(pid).chain(proxy.as_ref().map(Proxy::pid)).collect();
        Ok(Self { address, account: account(server), pids, proxy })
    }

    /// Lets the proxy run on these CPUs only, if there is one.
    pub(super) fn keep_to(&self, cpus: &Cpus) -> Result<()> {
        let Some(proxy) = &self.proxy else { return Ok(()) };
        let threads = sys::threads::threads(&Tree::live(), proxy.pid());
        let threads = threads.known().context("the proxy's threads are not to be seen")?;
        for thread in threads {
            sys::scheduling::set_cpus(thread.tid, cpus).context("cannot place the proxy")?;
        }
        Ok(())
    }

    /// What the proxy has logged so far.
    pub(super) fn log(&self) -> String {
        let read = |proxy: &Proxy| std::fs::read_to_string(proxy.log()).unwrap_or_default();
        self.proxy.as_ref().map(read).unwrap_or_default()
    }

    /// Puts a load on it.
    pub(super) fn turn(&self, load: Load<'_>, interrupt: &Interrupt) -> Result<Turn> {
        let order = Arc::new(self.order(load));
        let mut costs = Costs::default();
        let outcome = load::run(&order, interrupt, |moment| costs.witness(moment, &self.pids))?;
        match &outcome.ended {
            Ended::Whole => {}
            Ended::Interrupted => interrupt.check()?,
            Ended::Dead(why) => bail!("{why}"),
        }
        let recorder = &outcome.recorder;
        ensure!(recorder.statements > 0, "not one statement was answered in {:?}", load.length);
        // Switches are those of the whole turn, which few are outside of the round.
        let (some, all) = (recorder.statements as f64, recorder.all_statements as f64);
        Ok(Turn {
            rate: some / outcome.length.as_secs_f64(),
            answered: recorder.all_statements,
            p50_ms: ms(recorder.latency.quantile(0.5)),
            p99_ms: ms(recorder.latency.quantile(0.99)),
            jain: recorder.fairness().jain,
            switches: costs.switches() / all,
            cpu_us: costs.cpu().as_secs_f64() * 1e6 / some,
            errors: recorder.errors().iter().map(|error| error.count).sum(),
            foreign: costs.foreign(),
            cpus: costs.cpus(outcome.length),
            idle: costs.idle(),
            delay: costs.delay().div_duration_f64(outcome.length),
        })
    }

    /// Puts a load on it without measuring it, until it is enough, at most for the load's length. Says whether it was.
    pub(super) fn occupy(
        &self,
        load: Load<'_>,
        mut is_enough: impl FnMut() -> bool,
        interrupt: &Interrupt,
    ) -> Result<bool> {
        let order = Arc::new(self.order(load));
        let stop = Interrupt::never();
        let (ended, was_enough) = thread::scope(|scope| {
            let work = scope.spawn(|| Ok(load::run(&order, &stop, |_| Ok(()))?.ended));
            let mut was_enough = false;
            while !work.is_finished() {
                was_enough = was_enough || is_enough();
                if was_enough || interrupt.check().is_err() {
                    stop.raise();
                }
                thread::sleep(POLL);
            }
            let ended: Result<Ended> = work.join().unwrap_or_else(|_| bail!("a load panicked"));
            (ended, was_enough)
        });
        interrupt.check()?;
        match ended? {
            Ended::Whole | Ended::Interrupted => Ok(was_enough),
            Ended::Dead(why) => bail!("{why}"),
        }
    }

    fn order(&self, load: Load<'_>) -> Order {
        Order {
            address: self.address.clone(),
            account: self.account.clone(),
            workload: load.workload.clone(),
            protocol: Protocol::Text,
            pacing: Pacing::Closed { think_ms: 0.0 },
            clients: load.clients,
            idle: 0,
            threads: 1,
            tables: load.extent.tables,
            rows: load.extent.rows,
            distribution: load.distribution,
            seed: load.seed,
            ramp: Duration::ZERO,
            warm_up: load.warm_up,
            length: load.length,
        }
    }
}

impl FlifoSetup {
    /// One worker in front of the server's socket, which leaves the machine as it is.
    pub(super) const USUAL: Self = Self {
        limit: Limit::Fixed(64),
        connections_max: 128,
        pipeline: 8,
        sharing: Sharing::Pooled,
        log: Log::Usual,
        workers: 1,
        server: Door::Socket,
        placement: "off",
        share_reads: "off",
    };

    /// Where a Flifo of this name writes down what it changes of the machine.
    pub(super) fn state_file(name: &str, server: &PrivateServer) -> PathBuf {
        server.folder().join(format!("{name}.placement.json"))
    }

    fn configuration(self, name: &str, port: u16, server: &PrivateServer) -> String {
        let (user, password) = (PrivateServer::USER, server.password());
        let limit = match self.limit {
            Limit::Fixed(limit) => limit.to_string(),
            Limit::Auto => "\"auto\"".to_owned(),
        };
        let address = match self.server {
            Door::Socket => server.socket().display().to_string(),
            Door::Tcp => format!("127.0.0.1:{}", server.port()),
        };
        let mut text = format!(
            "listen = [\"127.0.0.1:{port}\"]\nworkers = {}\n\n[server]\naddress = {address:?}\n\
             limit = {limit}\nconnections_max = {}\npipeline = {}\nshare_reads = {:?}\n\n\
             [limits]\nwait = \"none\"\n\n\
             [placement]\npolicy = {:?}\nstate_file = {:?}\n\n",
            self.workers,
            self.connections_max,
            self.pipeline,
            self.share_reads,
            self.placement,
            Self::state_file(name, server)
        );
        if self.log == Log::Decisions {
            text.push_str("[logs]\nlevel = \"debug\"\nformat = \"json\"\n\n");
        }
        // A client whose user is not listed is passed through.
        if self.sharing == Sharing::Pooled {
            text.push_str(&format!("[[users]]\nname = {user:?}\npassword = {password:?}\n"));
        }
        text
    }
}

/// Says so where others may have had a part in the figures.
pub(super) fn disturbance(foreign: impl Iterator<Item = f64>) -> Option<String> {
    let shares: Vec<_> = foreign.collect();
    let notable = shares.iter().filter(|share| NOTABLE < **share).count();
    (notable > 0).then(|| {
        format!(
            "In {notable} of {} turns on a server, others had more than {:.0} % of the machine's \
             CPUs.",
            shares.len(),
            NOTABLE * 100.0
        )
    })
}

/// Fills tables like sysbench's.
pub(super) fn fill(server: &PrivateServer, extent: Extent, interrupt: &Interrupt) -> Result<()> {
    tables::prepare(&account(server), &Address::Unix(server.socket()), extent, SEED, interrupt)
}

fn account(server: &PrivateServer) -> Account {
    Account {
        user: PrivateServer::USER.into(),
        credential: Credential::Password(server.password().into()),
        schema: PrivateServer::DATABASE.into(),
        tls: None,
    }
}

fn tcp(port: u16) -> Address {
    Address::Tcp { host: "127.0.0.1".into(), port }
}

fn haproxy_configuration(port: u16, socket: &Path, (maxconn, clients): (u32, u32)) -> String {
    let clients_max = clients + SPARE_CLIENTS;
    let socket = socket.display();
    format!(
        "global\n    maxconn {clients_max}\n    nbthread 1\n\n\
         defaults\n    mode tcp\n    timeout connect 1h\n    timeout queue 1h\n    \
         timeout client 1h\n    timeout server 1h\n\n\
         listen mysql\n    bind 127.0.0.1:{port} backlog 8192\n    \
         server private unix@{socket} maxconn {maxconn}\n"
    )
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// What the processes of a way have used, before and after.
#[derive(Default)]
struct Costs {
    switches: [Switches; 2],
    /// Of each process.
    cpu: [Vec<CpuTime>; 2],
    /// Of the proxy, if there is one.
    delay: [Duration; 2],
    /// Of this process, whose clients they are.
    own: [CpuTime; 2],
    machine: [CpuTimes; 2],
}

impl Costs {
    fn witness(&mut self, moment: TurnMoment, pids: &[u32]) -> Result<()> {
        match moment {
            TurnMoment::Gathered => self.switches[0] = all_switches(pids)?,
            TurnMoment::Begin => self.read(0, pids)?,
            TurnMoment::End => self.read(1, pids)?,
            TurnMoment::Rested => self.switches[1] = all_switches(pids)?,
        }
        Ok(())
    }

    fn read(&mut self, at: usize, pids: &[u32]) -> Result<()> {
        let gone = "the server or its proxy is gone";
        self.machine[at] = sys::machine::cpu_times()?;
        self.cpu[at] =
            pids.iter().map(|pid| Ok(stat(*pid).context(gone)?.cpu)).collect::<Result<_>>()?;
        if let Some(proxy) = pids.get(1) {
            self.delay[at] = sys::account::run_delay(*proxy).context(gone)?;
        }
        self.own[at] = stat(std::process::id())?.cpu;
        Ok(())
    }

    fn foreign(&self) -> f64 {
        let CpuTimes { busy, idle, steal } = self.machine[1].since(self.machine[0]);
        let whole = (busy + idle + steal).as_secs_f64();
        let ours = self.cpu() + self.own[1].since(self.own[0]).total();
        let foreign = busy.saturating_sub(ours) + steal;
        if whole == 0.0 { 0.0 } else { foreign.as_secs_f64() / whole }
    }

    fn idle(&self) -> f64 {
        let CpuTimes { busy, idle, steal } = self.machine[1].since(self.machine[0]);
        let whole = (busy + idle + steal).as_secs_f64();
        if whole == 0.0 { 0.0 } else { idle.as_secs_f64() / whole }
    }

    fn switches(&self) -> f64 {
        let Switches { voluntary, involuntary } = self.switches[1].since(self.switches[0]);
        (voluntary + involuntary) as f64
    }

    fn cpu(&self) -> Duration {
        self.each_cpu().sum()
    }

    fn each_cpu(&self) -> impl Iterator<Item = Duration> + '_ {
        self.cpu[1].iter().zip(&self.cpu[0]).map(|(now, then)| now.since(*then).total())
    }

    fn cpus(&self, length: Duration) -> Vec<f64> {
        self.each_cpu().map(|time| time.div_duration_f64(length)).collect()
    }

    fn delay(&self) -> Duration {
        self.delay[1].saturating_sub(self.delay[0])
    }
}

fn all_switches(pids: &[u32]) -> Result<Switches> {
    let mut sum = Switches::default();
    for pid in pids {
        let one = switches(*pid).context("the server or its proxy is gone")?;
        sum.voluntary += one.voluntary;
        sum.involuntary += one.involuntary;
    }
    Ok(sum)
}

const SEED: u64 = 1;
const POLL: Duration = Duration::from_millis(100);
/// For checks whether a proxy answers.
const SPARE_CLIENTS: u32 = 64;
