//! One thread of clients: its event loop, and what its clients share.
//!
//! Nothing here is shared with other threads but the order and the progress. Invariant: the thread
//! ends when it is told to, whatever its clients wait for.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::alarm::Alarm;
use super::client;
use super::connection::Buffers;
use super::pace::Pace;
use super::recorder::Recorder;
use super::turn::Order;

/// What all clients of a thread have in common.
pub(super) struct LoadThread {
    pub(super) order: Arc<Order>,
    pub(super) progress: Arc<Progress>,
    pub(super) buffers: Buffers,
    pub(super) recorder: RefCell<Recorder>,
    pub(super) alarm: Alarm,
    pub(super) pace: Pace,
    /// Logins at once.
    pub(super) door: Semaphore,
    /// Milliseconds between the first turn of this process and this one: the same in all threads of a turn.
    pub(super) turn: u32,
    times: Cell<Option<Times>>,
    is_released: Cell<bool>,
    signal: Notify,
}

/// The course of a turn, in nanoseconds since its epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) start: u64,
    /// How long it takes until all clients have begun.
    pub(super) ramp: u64,
    pub(super) begin: u64,
    pub(super) end: u64,
}

/// What the threads are to do.
#[derive(Clone, Copy, Debug)]
pub(super) enum Phase {
    /// Connect, and wait.
    Gather,
    Run(Times),
    /// Leave at once.
    Leave,
}

/// How far the clients of all threads are.
#[derive(Debug, Default)]
pub(super) struct Progress {
    ready: AtomicU32,
    /// Have done their part.
    resting: AtomicU32,
    /// Connections.
    open: AtomicU32,
    /// Attempts to connect that failed since the last one that did not.
    misses: AtomicU32,
    refused: AtomicU32,
    trouble: Mutex<Option<String>>,
}

impl LoadThread {
    /// Waits for the start.
    pub(super) async fn started(&self) -> Times {
        loop {
            let signal = self.signal.notified();
            if let Some(times) = self.times.get() {
                return times;
            }
            signal.await;
        }
    }

    /// Waits for the leave to go.
    pub(super) async fn released(&self) {
        loop {
            let signal = self.signal.notified();
            if self.is_released.get() {
                return;
            }
            signal.await;
        }
    }

    /// When clients stop: at the end, or now if they were told to leave.
    pub(super) fn stop_at(&self, end: u64) -> u64 {
        if self.is_released.get() { 0 } else { end }
    }

    /// Sleeps until this time, or until the leave to go.
    pub(super) async fn sleep(&self, until: u64) {
        tokio::select! {
            slept = self.alarm.until(until) => if let Err(error) = slept {
                self.progress.refuse(&format!("the timer failed: {error}"));
            },
            () = self.released() => {}
        }
    }
}

/// Runs the clients whose numbers are `thread` modulo the number of threads.
pub(super) fn run(
    order: Arc<Order>,
    thread: u32,
    epoch: Instant,
    progress: &Arc<Progress>,
    phases: watch::Receiver<Phase>,
) -> io::Result<Recorder> {
    let runtime: LocalRuntime =
        Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
    let recorder = runtime.block_on(gather(order, thread, epoch, progress, phases));
    // The tasks that are left would only wait for answers that are not used any more.
    runtime.shutdown_timeout(Duration::ZERO);
    recorder
}

async fn gather(
    order: Arc<Order>,
    thread: u32,
    epoch: Instant,
    progress: &Arc<Progress>,
    mut phases: watch::Receiver<Phase>,
) -> io::Result<Recorder> {
    let threads = order.threads;
    let numbers = (thread..order.clients).step_by(threads as usize);
    let idle = (thread..order.idle).step_by(threads as usize);
    let bystanders = order.workload.bystanders.count();
    let bystanders = (thread..bystanders).step_by(threads as usize);
    let load_thread = Rc::new(LoadThread {
        progress: Arc::clone(progress),
        buffers: Buffers::default(),
        recorder: RefCell::new(Recorder::new(numbers.len())),
        alarm: Alarm::new(epoch)?,
        pace: Pace::new(order.pacing, thread, threads, order.seed),
        door: Semaphore::new(LOGINS_MAX),
        turn: epoch.duration_since(*FIRST.get_or_init(|| epoch)).as_millis() as u32,
        times: Cell::new(None),
        is_released: Cell::new(false),
        signal: Notify::new(),
        order,
    });
    let mut clients = JoinSet::new();
    for (place, number) in numbers.enumerate() {
        clients.spawn_local(client::live(Rc::clone(&load_thread), number, place));
    }
    for bystander in bystanders {
        clients.spawn_local(client::stand_by(Rc::clone(&load_thread), bystander));
    }
    for _ in idle {
        clients.spawn_local(client::idle(Rc::clone(&load_thread)));
    }
    let ringing = Rc::clone(&load_thread);
    let ring = tokio::task::spawn_local(async move {
        if let Err(error) = ringing.alarm.ring().await {
            ringing.progress.refuse(&format!("the timer failed: {error}"));
        }
    });
    // The sender goes away only when the turn has failed.
    while phases.changed().await.is_ok() {
        match *phases.borrow_and_update() {
            Phase::Gather => {}
            Phase::Run(times) => start(&load_thread, times),
            Phase::Leave => break,
        }
    }
    leave(&load_thread, clients).await;
    ring.abort();
    Ok(load_thread.recorder.take())
}

fn start(load_thread: &LoadThread, times: Times) {
    load_thread.recorder.borrow_mut().start(times.start, times.begin, times.end);
    load_thread.pace.begin(times.start);
    load_thread.times.set(Some(times));
    load_thread.signal.notify_waiters();
}

/// Lets the clients say goodbye, as far as they can.
async fn leave(load_thread: &LoadThread, mut clients: JoinSet<()>) {
    if let Some(times) = load_thread.times.get() {
        let end = times.end.min(load_thread.alarm.now());
        load_thread.recorder.borrow_mut().unsent += load_thread.pace.left(end);
    }
    load_thread.is_released.set(true);
    load_thread.signal.notify_waiters();
    let all_gone = async { while clients.join_next().await.is_some() {} };
    let _ = timeout(LEAVE_MAX, all_gone).await;
    clients.shutdown().await;
}

impl Progress {
    pub(super) fn ready(&self) {
        self.ready.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn rest(&self) {
        self.resting.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn opened(&self) {
        self.misses.store(0, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn closed(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn missed(&self, why: &str) {
        self.misses.fetch_add(1, Ordering::Relaxed);
        self.note(why);
    }

    /// A client could not take its place.
    pub(super) fn refuse(&self, why: &str) {
        self.note(why);
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_ready(&self) -> u32 {
        self.ready.load(Ordering::Relaxed)
    }

    pub(super) fn count_resting(&self) -> u32 {
        self.resting.load(Ordering::Relaxed)
    }

    pub(super) fn count_refused(&self) -> u32 {
        self.refused.load(Ordering::Relaxed)
    }

    /// No client is connected, and attempts to connect fail.
    pub(super) fn looks_dead(&self) -> bool {
        self.open.load(Ordering::Relaxed) == 0 && 0 < self.misses.load(Ordering::Relaxed)
    }

    /// The last thing that went wrong with a connection.
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, why: &str) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.to_owned());
    }
}

/// When the first turn of this process began.
static FIRST: OnceLock<Instant> = OnceLock::new();

/// So many logins fit any server's backlog.
const LOGINS_MAX: usize = 32;
const LEAVE_MAX: Duration = Duration::from_secs(2);
