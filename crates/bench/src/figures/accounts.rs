//! What each process used for a statement, and what others had of the machine meanwhile.
//!
//! Owns the reading at a turn's moments and the sharing among statements. Invariants: CPU time and
//! faults are of the round alone; switches and waiting, whose reading takes long where threads are
//! many, are of the whole time in which the clients worked, and shared by the statements of that
//! time.

use std::time::Duration;

use anyhow::{Context, Result};
use sys::account::{self, Memory, Stat, Switches};

use super::watch::{WatchReading, disturbance};
use crate::load::TurnMoment;
use crate::results::{Disturbance, Process, ProcessFigures};

/// The accounts of one turn.
pub struct Accounts<'a> {
    processes: &'a [Process],
    begin: Option<Quick>,
    end: Option<Quick>,
    before: Vec<Slow>,
    after: Vec<Slow>,
}

/// What can be read in a moment.
struct Quick {
    stats: Vec<Stat>,
    machine: WatchReading,
}

/// What takes a look at every thread.
struct Slow {
    switches: Switches,
    run_delay: Duration,
    memory: Memory,
}

impl<'a> Accounts<'a> {
    pub const fn new(processes: &'a [Process]) -> Self {
        Self { processes, begin: None, end: None, before: Vec::new(), after: Vec::new() }
    }

    pub fn witness(&mut self, moment: TurnMoment) -> Result<()> {
        match moment {
            TurnMoment::Gathered => self.before = slow(self.processes)?,
            TurnMoment::Begin => self.begin = Some(Quick::read(self.processes)?),
            TurnMoment::End => self.end = Some(Quick::read(self.processes)?),
            TurnMoment::Rested => self.after = slow(self.processes)?,
        }
        Ok(())
    }

    /// Shares what was used among the statements of the round, and among all statements.
    pub fn figures(&self, statements: u64, all_statements: u64) -> Vec<ProcessFigures> {
        let (Some(begin), Some(end)) = (&self.begin, &self.end) else { return Vec::new() };
        let seconds = end.machine.at.duration_since(begin.machine.at).as_secs_f64();
        let each = |amount: f64| amount / statements.max(1) as f64;
        let each_of_all = |amount: f64| amount / all_statements.max(1) as f64;
        let rows = self.processes.iter().zip(begin.stats.iter().zip(&end.stats)).enumerate();
        rows.map(|(at, (process, (begin, end)))| {
            let cpu = end.cpu.since(begin.cpu);
            let slow = self.before.get(at).zip(self.after.get(at));
            let switches = slow.map(|(before, after)| after.switches.since(before.switches));
            let switches = switches.unwrap_or_default();
            let delay =
                slow.map(|(before, after)| after.run_delay.saturating_sub(before.run_delay));
            let memory = self.after.get(at).map(|it| it.memory).unwrap_or_default();
            ProcessFigures {
                role: process.role,
                name: process.name.clone(),
                pid: process.pid,
                user_us: each(cpu.user.as_secs_f64() * US_PER_S),
                system_us: each(cpu.system.as_secs_f64() * US_PER_S),
                voluntary_switches: each_of_all(switches.voluntary as f64),
                involuntary_switches: each_of_all(switches.involuntary as f64),
                minor_faults: each(end.minor_faults.saturating_sub(begin.minor_faults) as f64),
                major_faults: each(end.major_faults.saturating_sub(begin.major_faults) as f64),
                run_delay_us: each_of_all(delay.unwrap_or_default().as_secs_f64() * US_PER_S),
                cpus: if 0.0 < seconds { cpu.total().as_secs_f64() / seconds } else { 0.0 },
                memory_mib: memory.now_kib as f64 / KIB_PER_MIB,
                peak_memory_mib: memory.peak_kib as f64 / KIB_PER_MIB,
                threads: end.threads,
            }
        })
        .collect()
    }

    /// How far the wall clock ran ahead of the steady one, in seconds.
    pub fn clock_jump(&self) -> f64 {
        let readings = self.begin.as_ref().zip(self.end.as_ref());
        readings.map_or(0.0, |(begin, end)| end.machine.clock_jump(&begin.machine))
    }

    /// What others had meanwhile.
    pub fn disturbance(&self) -> Disturbance {
        let (Some(begin), Some(end)) = (&self.begin, &self.end) else {
            return Disturbance::default();
        };
        let own: Vec<u32> = self.processes.iter().map(|process| process.pid).collect();
        disturbance(&begin.machine, &end.machine, &own)
    }
}

impl Quick {
    fn read(processes: &[Process]) -> Result<Self> {
        let stats = processes.iter().map(|process| {
            account::stat(process.pid).with_context(|| format!("{} is gone", shown(process)))
        });
        Ok(Self { stats: stats.collect::<Result<_>>()?, machine: WatchReading::take()? })
    }
}

fn slow(processes: &[Process]) -> Result<Vec<Slow>> {
    let read = |process: &Process| {
        let read = || {
            Ok::<_, std::io::Error>(Slow {
                switches: account::switches(process.pid)?,
                run_delay: account::run_delay(process.pid)?,
                memory: account::memory(process.pid)?,
            })
        };
        read().with_context(|| format!("the account of {} cannot be read", shown(process)))
    };
    processes.iter().map(read).collect()
}

fn shown(process: &Process) -> String {
    format!("{} (process {})", process.name, process.pid)
}

const US_PER_S: f64 = 1e6;
const KIB_PER_MIB: f64 = 1024.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Role;

    #[test]
    fn work_of_this_process_is_shared_among_statements() {
        let pid = std::process::id();
        let me = [Process { role: Role::Generator, name: "me".into(), pid }];
        let mut accounts = Accounts::new(&me);
        accounts.witness(TurnMoment::Gathered).expect("reads");
        accounts.witness(TurnMoment::Begin).expect("reads");
        // By CPU, of which a busy machine gives it little in a time.
        let used = || account::stat(pid).expect("reads").cpu.total();
        let before = used();
        while used() < before + Duration::from_millis(100) {}
        accounts.witness(TurnMoment::End).expect("reads");
        accounts.witness(TurnMoment::Rested).expect("reads");
        let figures = accounts.figures(10, 20);
        assert!(1000.0 < figures[0].cpu_us(), "{figures:?}");
        assert!(0.0 < figures[0].cpus && 0.0 < figures[0].memory_mib, "{figures:?}");
    }

    #[test]
    fn a_process_that_is_gone_is_named() {
        let gone = [Process { role: Role::Server, name: "mariadbd".into(), pid: u32::MAX }];
        let mut accounts = Accounts::new(&gone);
        let error = accounts.witness(TurnMoment::Begin).expect_err("gone").to_string();
        assert_eq!(error, format!("mariadbd (process {}) is gone", u32::MAX));
        assert!(accounts.figures(1, 1).is_empty());
    }
}
