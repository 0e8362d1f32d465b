//! One turn: all clients gather, warm up, work for the length of a round, and leave.
//!
//! Owns the order of these phases and the ways in which they end early. Takes no accounts itself:
//! a witness is told of the moments at which to.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use backend::Address;
use tokio::sync::watch;

use super::account::Account;
use super::recorder::Recorder;
use super::thread::{self as load_thread, Phase, Progress, Times};
use crate::interrupt::Interrupt;
use crate::results::{Pacing, Protocol};
use crate::workloads::Workload;
use crate::workloads::random::Distribution;

/// What is to be done in a turn.
#[derive(Clone, Debug)]
pub struct Order {
    pub address: Address,
    pub account: Account,
    pub workload: Workload,
    pub protocol: Protocol,
    pub pacing: Pacing,
    pub clients: u32,
    /// Clients that are logged in beside and ask nothing.
    pub idle: u32,
    pub threads: u32,
    pub tables: u32,
    pub rows: u32,
    pub distribution: Distribution,
    pub seed: u64,
    pub ramp: Duration,
    pub warm_up: Duration,
    pub length: Duration,
}

/// What a witness is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnMoment {
    /// All clients are connected, and none has asked anything. There is time to look around.
    Gathered,
    /// The round begins: be quick.
    Begin,
    /// The round is over: be quick.
    End,
    /// All clients have their last answers, and are still connected. There is time again.
    Rested,
}

#[derive(Clone, Debug)]
pub struct Outcome {
    pub recorder: Recorder,
    /// How long the round was in the end.
    pub length: Duration,
    pub ended: Ended,
    /// Clients that had no answer long after the end.
    pub unanswered: u32,
    /// The longest time for which this thread did not run when it should have.
    pub standstill: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    Whole,
    Interrupted,
    /// The target accepted no connection any more.
    Dead(String),
}

/// Runs a turn. An error is one from before its round began.
pub fn run(
    order: &Arc<Order>,
    interrupt: &Interrupt,
    mut witness: impl FnMut(TurnMoment) -> Result<()>,
) -> Result<Outcome> {
    let epoch = Instant::now();
    let mut crew = Crew::muster(order, epoch)?;
    crew.gather(order, interrupt)?;
    witness(TurnMoment::Gathered)?;
    let ns = |time: Duration| time.as_nanos() as u64;
    let start = ns(epoch.elapsed()) + ns(LEAD);
    let begin = start + ns(order.ramp) + ns(order.warm_up);
    let times = Times { start, ramp: ns(order.ramp), begin, end: begin + ns(order.length) };
    crew.phases.send_replace(Phase::Run(times));
    let mut vigil = Vigil { progress: &crew.progress, interrupt, standstill: Duration::ZERO };
    let at = |nanoseconds: u64| epoch + Duration::from_nanos(nanoseconds);
    let early = vigil.until(at(begin));
    match early {
        Ended::Whole => {}
        Ended::Interrupted => interrupt.check()?,
        Ended::Dead(why) => bail!("{why}"),
    }
    witness(TurnMoment::Begin)?;
    let begun = Instant::now();
    let ended = vigil.until(at(times.end));
    let standstill = vigil.standstill;
    let length = match ended {
        Ended::Whole => order.length,
        _ => begun.elapsed(),
    };
    // What is asked of a target that died cannot be told of it.
    let accounts = witness(TurnMoment::End);
    let unanswered = if ended == Ended::Whole { crew.settle(order, interrupt) } else { 0 };
    let recorder = accounts.and_then(|()| witness(TurnMoment::Rested)).map(|()| crew.dismiss());
    let recorder = match (recorder, &ended) {
        (Ok(recorder), _) => recorder?,
        (Err(_), Ended::Dead(_) | Ended::Interrupted) => crew.dismiss()?,
        (Err(error), Ended::Whole) => return Err(error),
    };
    Ok(Outcome { recorder, length, ended, unanswered, standstill })
}

/// The threads.
struct Crew {
    phases: watch::Sender<Phase>,
    progress: Arc<Progress>,
    threads: Vec<JoinHandle<std::io::Result<Recorder>>>,
}

impl Crew {
    fn muster(order: &Arc<Order>, epoch: Instant) -> Result<Self> {
        let (phases, receiver) = watch::channel(Phase::Gather);
        let progress = Arc::new(Progress::default());
        let mut crew = Self { phases, progress, threads: Vec::new() };
        for number in 0..order.threads {
            let (order, receiver) = (Arc::clone(order), receiver.clone());
            let progress = Arc::clone(&crew.progress);
            let work = move || load_thread::run(order, number, epoch, &progress, receiver);
            let spawned = thread::Builder::new().name(format!("load {number}")).spawn(work);
            crew.threads.push(spawned.context("cannot start a thread of clients")?);
        }
        Ok(crew)
    }

    /// Waits until everybody is connected.
    fn gather(&mut self, order: &Order, interrupt: &Interrupt) -> Result<()> {
        let all = order.clients + order.idle + order.workload.bystanders.count();
        let patience = GATHER_MIN + GATHER_EACH * all;
        let deadline = Instant::now() + patience;
        while self.progress.count_ready() < all {
            if 0 < self.progress.count_refused() {
                bail!("{}", self.progress.trouble().unwrap_or_default());
            }
            if self.threads.iter().any(JoinHandle::is_finished) {
                self.dismiss()?;
                bail!("a thread of clients ended before they were connected");
            }
            if deadline < Instant::now() {
                bail!(
                    "only {} of {all} clients could connect within {patience:?}",
                    self.progress.count_ready()
                );
            }
            interrupt.sleep(POLL)?;
        }
        Ok(())
    }

    /// Waits for the last answers, but not for ever. Returns how many did not come.
    fn settle(&self, order: &Order, interrupt: &Interrupt) -> u32 {
        let deadline = Instant::now() + SETTLE_MAX;
        loop {
            let missing = order.clients.saturating_sub(self.progress.count_resting());
            if missing == 0 || deadline < Instant::now() || interrupt.sleep(POLL).is_err() {
                return missing;
            }
        }
    }

    fn dismiss(&mut self) -> Result<Recorder> {
        self.phases.send_replace(Phase::Leave);
        let mut whole = Recorder::default();
        for thread in self.threads.drain(..) {
            let part = thread.join().map_err(|_| anyhow!("a thread of clients panicked"))?;
            whole.add(part.context("a thread of clients failed")?);
        }
        Ok(whole)
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        // After an error the results of the threads are not used.
        let _ = self.dismiss();
    }
}

/// Waiting while the clients work.
struct Vigil<'a> {
    progress: &'a Progress,
    interrupt: &'a Interrupt,
    standstill: Duration,
}

impl Vigil<'_> {
    fn until(&mut self, end: Instant) -> Ended {
        let mut dead_since = None;
        loop {
            let now = Instant::now();
            let left = end.saturating_duration_since(now);
            if left.is_zero() {
                return Ended::Whole;
            }
            let nap = left.min(POLL);
            if self.interrupt.sleep(nap).is_err() {
                return Ended::Interrupted;
            }
            let late = now.elapsed().saturating_sub(nap);
            self.standstill = self.standstill.max(late);
            if !self.progress.looks_dead() {
                dead_since = None;
                continue;
            }
            let since = *dead_since.get_or_insert(now);
            if DEAD_AFTER < since.elapsed() {
                let why = self.progress.trouble().unwrap_or_default();
                return Ended::Dead(format!(
                    "all clients lost their connections and none can connect anew: {why}"
                ));
            }
        }
    }
}

/// Between the word and the start: so that all threads have heard it.
const LEAD: Duration = Duration::from_millis(20);
const POLL: Duration = Duration::from_millis(20);
const GATHER_MIN: Duration = Duration::from_secs(20);
/// The slowest servers let in a hundred a second.
const GATHER_EACH: Duration = Duration::from_millis(10);
const SETTLE_MAX: Duration = Duration::from_secs(10);
const DEAD_AFTER: Duration = Duration::from_secs(2);
