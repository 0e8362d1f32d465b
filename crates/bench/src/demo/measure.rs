//! One measurement: a sysbench run, and what it cost each process on the machine.
//!
//! Decides neither the order of measurements nor their looks. Invariant: CPU time and statements
//! are of the same span of time, from all clients being connected to the last one's end.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use sys::account::{CpuTime, Switches, stat, switches};
use sys::machine::CpuTimes;

use crate::interrupt::Interrupt;
use crate::sysbench::{Load, Moment, Sysbench};
use crate::targets::Target;

/// The result of one run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Sample {
    pub(super) statements_per_second: f64,
    pub(super) transactions_per_second: f64,
    pub p95_ms: f64,
    /// Deadlocks and the like, and reconnects.
    pub(super) errors_per_second: f64,
    pub(super) server: Cost,
    pub(super) proxy: Option<Cost>,
    /// What sysbench spent for one statement.
    pub(super) clients_cpu_us: f64,
    pub(super) disturbance: Disturbance,
}

/// What a process spent for one statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Cost {
    pub(super) user_us: f64,
    pub(super) system_us: f64,
    pub(super) voluntary_switches: f64,
    pub(super) involuntary_switches: f64,
}

/// What others had of the machine's CPUs meanwhile, as shares of the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Disturbance {
    /// Taken by the hypervisor.
    pub(super) steal: f64,
    /// Used by processes that do not belong to the measurement.
    pub(super) foreign: f64,
}

impl Cost {
    pub(super) fn cpu_us(&self) -> f64 {
        self.user_us + self.system_us
    }

    pub(super) fn switches(&self) -> f64 {
        self.voluntary_switches + self.involuntary_switches
    }
}

impl Disturbance {
    /// Tells whether others had so much that the result may be theirs.
    pub(super) fn is_notable(&self) -> bool {
        NOTABLE < self.steal + self.foreign
    }
}

/// Runs `load` through `target` and takes accounts at its begin and its end.
pub(super) fn measure(
    sysbench: &Sysbench,
    load: &Load<'_>,
    target: &Target,
    server: u32,
    interrupt: &Interrupt,
) -> Result<Sample> {
    let proxy = target.proxy_pid();
    // To sum the switches of a thousand busy threads takes seconds, so it is done before they work
    // and after. The few switches for connecting are then among them.
    let server_before = switches(server)?;
    let proxy_before = proxy.map(switches).transpose().context("the proxy is gone")?;
    let (mut begin, mut end) = (None, None);
    let report = sysbench.run(load, &target.address, interrupt, |moment, clients| {
        let accounts = Some(Accounts::read(server, proxy, clients)?);
        match moment {
            Moment::Begin => begin = accounts,
            Moment::End => end = accounts,
        }
        Ok(())
    })?;
    ensure!(0 < report.statements, "not one statement was answered");
    let begin = begin.context("sysbench did not say when it began")?;
    let end = end.context("sysbench did not say when it ended")?;
    let server_switches = switches(server)?.since(server_before);
    let proxy_switches = match (proxy, proxy_before) {
        (Some(proxy), Some(before)) => {
            Some(switches(proxy).context("the proxy is gone")?.since(before))
        }
        _ => None,
    };
    let spent = end.since(&begin);
    Ok(Sample {
        statements_per_second: report.statements_per_second,
        transactions_per_second: report.transactions_per_second,
        p95_ms: report.p95_ms,
        errors_per_second: report.errors_per_second,
        server: Cost::each(spent.server, server_switches, report.statements),
        proxy: spent
            .proxy
            .zip(proxy_switches)
            .map(|(cpu, switches)| Cost::each(cpu, switches, report.statements)),
        clients_cpu_us: us_each(spent.clients.total(), report.statements),
        disturbance: spent.disturbance(),
    })
}

/// The share of the machine above which a result is marked.
pub(super) const NOTABLE: f64 = 0.03;

/// The CPU times of the machine and of all processes that take part: up to a moment, or between two.
#[derive(Clone, Copy, Debug, Default)]
struct Accounts {
    machine: CpuTimes,
    server: CpuTime,
    proxy: Option<CpuTime>,
    clients: CpuTime,
    ourselves: CpuTime,
}

impl Accounts {
    /// Reads few files and nothing else: it must be quick on a machine that is all busy.
    fn read(server: u32, proxy: Option<u32>, clients: u32) -> Result<Self> {
        Ok(Self {
            machine: sys::machine::cpu_times()?,
            server: stat(server).context("the private server is gone")?.cpu,
            proxy: proxy.map(stat).transpose().context("the proxy is gone")?.map(|it| it.cpu),
            clients: stat(clients).context("sysbench is gone")?.cpu,
            ourselves: stat(std::process::id())?.cpu,
        })
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            machine: self.machine.since(before.machine),
            server: self.server.since(before.server),
            proxy: self.proxy.zip(before.proxy).map(|(now, before)| now.since(before)),
            clients: self.clients.since(before.clients),
            ourselves: self.ourselves.since(before.ourselves),
        }
    }

    fn disturbance(&self) -> Disturbance {
        let CpuTimes { busy, idle, steal } = self.machine;
        let whole = (busy + idle + steal).as_secs_f64();
        if whole == 0.0 {
            return Disturbance::default();
        }
        let proxy = self.proxy.unwrap_or_default();
        let parts = [self.server, proxy, self.clients, self.ourselves];
        let own: Duration = parts.into_iter().map(CpuTime::total).sum();
        // The kernel samples the machine's account and measures those of processes: they may differ
        // a little, and then ours can seem to be more than all.
        let foreign = busy.saturating_sub(own).as_secs_f64();
        Disturbance { steal: steal.as_secs_f64() / whole, foreign: foreign / whole }
    }
}

impl Cost {
    fn each(cpu: CpuTime, switches: Switches, statements: u64) -> Self {
        Self {
            user_us: us_each(cpu.user, statements),
            system_us: us_each(cpu.system, statements),
            voluntary_switches: switches.voluntary as f64 / statements as f64,
            involuntary_switches: switches.involuntary as f64 / statements as f64,
        }
    }
}

fn us_each(time: Duration, statements: u64) -> f64 {
    time.as_secs_f64() * 1e6 / statements as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(user_ms: u64, system_ms: u64) -> CpuTime {
        let (user, system) = (Duration::from_millis(user_ms), Duration::from_millis(system_ms));
        CpuTime { user, system }
    }

    #[test]
    fn costs_are_shared_among_the_statements() {
        let switches = Switches { voluntary: 2000, involuntary: 500 };
        let cost = Cost::each(cpu(1000, 500), switches, 1000);
        let want = Cost {
            user_us: 1000.0,
            system_us: 500.0,
            voluntary_switches: 2.0,
            involuntary_switches: 0.5,
        };
        assert_eq!(cost, want);
        assert_eq!((cost.cpu_us(), cost.switches()), (1500.0, 2.5));
    }

    fn accounts(machine_ms: [u64; 3], server_ms: u64, proxy_ms: u64, clients_ms: u64) -> Accounts {
        let [busy, idle, steal] = machine_ms.map(Duration::from_millis);
        Accounts {
            machine: CpuTimes { busy, idle, steal },
            server: cpu(server_ms, 0),
            proxy: Some(cpu(0, proxy_ms)),
            clients: cpu(clients_ms, 0),
            ourselves: CpuTime::default(),
        }
    }

    #[test]
    fn what_nobody_of_ours_used_is_foreign() {
        let before = accounts([1000, 1000, 0], 100, 100, 100);
        let calm = accounts([2000, 2000, 0], 600, 400, 300).since(&before).disturbance();
        assert_eq!(calm, Disturbance { steal: 0.0, foreign: 0.0 });
        assert!(!calm.is_notable());

        let stirred = accounts([2000, 1800, 200], 600, 400, 200).since(&before).disturbance();
        assert!((stirred.steal - 0.1).abs() < 1e-9 && (stirred.foreign - 0.05).abs() < 1e-9);
        assert!(stirred.is_notable());
    }

    #[test]
    fn accounts_that_disagree_disturb_nothing() {
        let before = accounts([1000, 1000, 0], 0, 0, 0);
        let after = accounts([1900, 2100, 0], 500, 300, 200);
        assert_eq!(after.since(&before).disturbance(), Disturbance::default());
        assert_eq!(after.since(&after).disturbance(), Disturbance::default());
    }
}
