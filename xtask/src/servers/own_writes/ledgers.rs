//! What clients were told of their lines, and what they have met since the last fault.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bench::interrupt::Interrupt;

use super::Errors;

/// A client, and the number of one of its lines.
pub(super) type Line = (u32, u64);

/// Lines that a server has, each with how often.
pub(super) type Lines = Vec<(u32, u64, u64)>;

/// Those of all clients.
pub(in crate::servers) struct Ledgers {
    each: Vec<Mutex<Ledger>>,
    met: Mutex<Met>,
    forgiven: Mutex<HashSet<Line>>,
}

/// What a client was told of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// It may have been written.
    Unknown,
    /// It was not.
    Refused,
}

struct Ledger {
    sure: BTreeSet<u64>,
    refused: BTreeSet<u64>,
    /// All lines below were looked for, behind a fault.
    judged: u64,
    last: u64,
    /// When it has found a line that it had written.
    worked: Instant,
}

/// What clients have met since this was taken.
#[derive(Default)]
pub(super) struct Met {
    pub(super) errors: Errors,
    pub(super) missed: Vec<Line>,
    pub(super) pause: Duration,
    pub(super) pairs: u64,
}

/// What was looked for behind a fault.
#[derive(Default)]
pub(super) struct Judged {
    pub(super) sure: u64,
    pub(super) lost: u64,
    pub(super) forgiven: u64,
    pub(super) doubled: u64,
    /// Refused, and there.
    pub(super) undead: u64,
    pub(super) stale: u64,
}

impl Ledgers {
    pub(super) fn of(clients: u32) -> Self {
        let ledger = || Ledger {
            sure: BTreeSet::new(),
            refused: BTreeSet::new(),
            judged: 0,
            last: 0,
            worked: Instant::now(),
        };
        Self {
            each: (0..clients).map(|_| Mutex::new(ledger())).collect(),
            met: Mutex::default(),
            forgiven: Mutex::default(),
        }
    }

    fn ledger(&self, client: u32) -> MutexGuard<'_, Ledger> {
        lock(&self.each[client as usize])
    }

    pub(super) fn note(&self, client: u32, n: u64, outcome: Outcome) {
        let mut ledger = self.ledger(client);
        ledger.last = n;
        match outcome {
            Outcome::Done => drop(ledger.sure.insert(n)),
            Outcome::Refused => drop(ledger.refused.insert(n)),
            Outcome::Unknown => {}
        }
    }

    pub(super) fn count(&self, error: String) {
        *lock(&self.met).errors.entry(error).or_default() += 1;
    }

    pub(super) fn miss(&self, client: u32, n: u64) {
        lock(&self.met).missed.push((client, n));
    }

    /// A client has found the line that it wrote.
    pub(super) fn works(&self, client: u32, begun: Instant) {
        let mut ledger = self.ledger(client);
        // Its rest is no pause.
        let pause = begun.elapsed().max(Instant::now() - ledger.worked);
        ledger.worked = Instant::now();
        drop(ledger);
        let mut met = lock(&self.met);
        met.pairs += 1;
        met.pause = met.pause.max(pause);
    }

    /// Lines that were looked for are forgotten. Answers with the first that is not.
    pub(super) fn forget(&self, client: u32) -> u64 {
        let mut ledger = self.ledger(client);
        let judged = ledger.judged;
        ledger.sure = ledger.sure.split_off(&judged);
        ledger.refused = ledger.refused.split_off(&judged);
        judged
    }

    /// All lines that clients were told to be written.
    pub(in crate::servers) fn sure(&self) -> HashSet<Line> {
        let of = |client: u32| {
            let lines: Vec<_> = self.ledger(client).sure.iter().map(|n| (client, *n)).collect();
            lines
        };
        (0..self.each.len() as u32).flat_map(of).collect()
    }

    /// Of these lines, those that a server does not have are lost, and that was told.
    pub(in crate::servers) fn forgive(&self, told: &HashSet<Line>, has: &[(u32, u64, u64)]) {
        let has: HashSet<Line> = has.iter().map(|(client, n, _)| (*client, *n)).collect();
        lock(&self.forgiven).extend(told.difference(&has));
    }

    /// Whether a server has all of these lines but for those that are forgiven, or were pruned meanwhile.
    pub(super) fn has_all(&self, sure: &HashSet<Line>, has: &[(u32, u64, u64)]) -> bool {
        let has: HashSet<Line> = has.iter().map(|(client, n, _)| (*client, *n)).collect();
        let (kept, forgiven) = (self.sure(), lock(&self.forgiven));
        let mut missing = sure.difference(&has).filter(|line| kept.contains(line));
        missing.all(|line| forgiven.contains(line))
    }

    pub(super) fn take(&self) -> Met {
        std::mem::take(&mut *lock(&self.met))
    }

    /// Compares what clients were told with what a server was found to have later. What they have pruned meanwhile does
    /// not count.
    pub(super) fn judge(
        &self,
        missed: &[Line],
        has: &[(u32, u64, u64)],
        sure: &HashSet<Line>,
    ) -> Judged {
        let mut judged = Judged::default();
        let kept = self.sure();
        let sure: HashSet<Line> = sure.intersection(&kept).copied().collect();
        let there: HashSet<Line> = has.iter().map(|(client, n, _)| (*client, *n)).collect();
        judged.doubled = has.iter().filter(|(_, _, count)| *count > 1).count() as u64;
        let mut forgiven = lock(&self.forgiven);
        for line in sure.difference(&there) {
            match forgiven.contains(line) {
                true => judged.forgiven += 1,
                false => judged.lost += 1,
            }
        }
        judged.sure = sure.len() as u64;
        let is_stale = |line: &&Line| !forgiven.contains(line);
        judged.stale = missed.iter().filter(is_stale).count() as u64;
        for (client, n) in &there {
            judged.undead += u64::from(self.ledger(*client).refused.remove(n));
        }
        // What is lost, or there all the same, is counted once.
        for line in sure.difference(&there) {
            self.ledger(line.0).sure.remove(&line.1);
        }
        for client in 0..self.each.len() as u32 {
            let last = sure.iter().filter(|(of, _)| *of == client).map(|(_, n)| *n).max();
            let mut ledger = self.ledger(client);
            ledger.judged = ledger.judged.max(last.unwrap_or(0));
            forgiven.retain(|(of, n)| *of != client || *n >= ledger.judged.saturating_sub(10_000));
        }
        judged
    }

    /// Waits until each client has written a line from now on, and found it. Where one does not for longer than
    /// `routing.hold`, an operator does something about it.
    pub(super) fn wait_until_all_work(
        &self,
        interrupt: &Interrupt,
        remedy: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let (begun, mut remedy) = (Instant::now(), Some(remedy));
        for client in 0..self.each.len() as u32 {
            while self.ledger(client).worked <= begun {
                let waited = begun.elapsed();
                ensure!(waited < PATIENCE, "client {client} does not go on");
                if waited > Duration::from_secs(15)
                    && let Some(remedy) = remedy.take()
                {
                    remedy()?;
                }
                interrupt.sleep(Duration::from_millis(20))?;
            }
        }
        Ok(())
    }
}

/// Behind a fault, all clients go on within this time.
const PATIENCE: Duration = Duration::from_secs(60);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panics with it")
}
