//! Workers that check servers and serve pages: threads with an event loop each, as Flifo has them.
//!
//! Owns the three ways in which checks are given to workers; [`engine::checks::scheduler`] decides where they are bound
//! or spread. Invariants: a check has one timer; every thread ends when the crew is dropped.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use engine::checks::places::{CheckBounds, Habit};
use engine::checks::scheduler::{
    CheckScheduler, Deed, Loads, Moving, Subject, first_due, next_due,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;

use super::ChecksTreatment;

/// How checks are held between their runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// In one queue under a lock, at which every worker looks before it sleeps.
    SharedQueue,
    /// By the worker that had them first.
    Bound,
    /// By workers that compare themselves with others.
    Spread,
}

/// The workers of one treatment.
pub(super) struct Crew {
    shared: Arc<Shared>,
    threads: Vec<u32>,
    addresses: Vec<SocketAddr>,
    handles: Vec<JoinHandle<()>>,
}

/// What the workers have in common.
struct Shared {
    hold: Hold,
    interval: Duration,
    servers: HashMap<u64, SocketAddr>,
    loads: Arc<Loads>,
    queue: Mutex<BinaryHeap<Reverse<(Instant, u64)>>>,
    checks: AtomicU64,
    /// In microseconds.
    late: AtomicU64,
    stop: AtomicBool,
    mail: Vec<mpsc::UnboundedSender<Moving>>,
}

/// Of checks at once in a worker.
const RUNNING_MAX: u32 = 50;

/// A check that is not answered by then has failed.
const PATIENCE: Duration = Duration::from_secs(1);

/// A thread that is not there by then will not come.
const BEGIN: Duration = Duration::from_secs(20);

/// So often a worker that has nothing to do looks whether it is to end.
const LOOK: Duration = Duration::from_secs(1);

/// A share of the interval, so that checks that fell together come apart.
const JITTER: f64 = 0.05;

impl Crew {
    pub(super) fn start(
        hold: Hold,
        treatment: &ChecksTreatment,
        servers: &[SocketAddr],
    ) -> Result<Self> {
        let now = Instant::now();
        let (mail, boxes): (Vec<_>, Vec<_>) =
            (0..treatment.workers).map(|_| mpsc::unbounded_channel()).unzip();
        let count = treatment.servers;
        let due = |place| first_due(now, treatment.interval, place, count);
        let queue = match hold {
            Hold::SharedQueue => (0..count).map(|it| Reverse((due(it), it as u64))).collect(),
            Hold::Bound | Hold::Spread => BinaryHeap::new(),
        };
        let address = |id: usize| (id as u64, servers[id % servers.len()]);
        let shared = Arc::new(Shared {
            hold,
            interval: treatment.interval,
            servers: (0..count).map(address).collect(),
            loads: Arc::new(Loads::new(treatment.workers)),
            queue: Mutex::new(queue),
            checks: AtomicU64::new(0),
            late: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            mail,
        });
        let mut crew = Self { shared, threads: vec![], addresses: vec![], handles: vec![] };
        let (tell, told) = std::sync::mpsc::channel();
        for (index, mailbox) in boxes.into_iter().enumerate() {
            let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
            listener.set_nonblocking(true)?;
            crew.addresses.push(listener.local_addr()?);
            let (shared, tell) = (Arc::clone(&crew.shared), tell.clone());
            // As they begin in a process that has not spread them yet: all with the first worker.
            let begins = if index == 0 && hold != Hold::SharedQueue { count } else { 0 };
            let own: Vec<_> = (0..begins).map(|id| (id as u64, due(id))).collect();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let work = move || {
                // The receiver of the thread's number may have given up: it waits for a limited time.
                let _ = tell.send(rustix::thread::gettid().as_raw_nonzero().get() as u32);
                let local = tokio::task::LocalSet::new();
                local.spawn_local(serve_pages(listener));
                local.block_on(&runtime, async {
                    match shared.hold {
                        Hold::SharedQueue => take_turns(&shared).await,
                        Hold::Bound | Hold::Spread => keep(index, &shared, mailbox, own).await,
                    }
                });
            };
            let name = format!("checks {index}");
            crew.handles.push(std::thread::Builder::new().name(name).spawn(work)?);
            crew.threads.push(told.recv_timeout(BEGIN).context("a worker does not begin")?);
        }
        Ok(crew)
    }

    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.addresses.clone()
    }

    pub(super) fn threads(&self) -> &[u32] {
        &self.threads
    }

    pub(super) fn checks(&self) -> u64 {
        self.shared.checks.load(Relaxed)
    }

    pub(super) fn late(&self) -> Duration {
        Duration::from_micros(self.shared.late.load(Relaxed))
    }

    /// The fewest and the most checks that a worker owns. With a shared queue no worker owns any.
    pub(super) fn owned(&self) -> Option<(usize, usize)> {
        if self.shared.hold == Hold::SharedQueue {
            return None;
        }
        let counts = (0..self.threads.len()).map(|it| self.shared.loads.checks(it) as usize);
        Some((counts.clone().min()?, counts.max()?))
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        for handle in self.handles.drain(..) {
            // A panic there has been printed.
            let _ = handle.join();
        }
    }
}

impl Shared {
    fn is_stopping(&self) -> bool {
        self.stop.load(Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, BinaryHeap<Reverse<(Instant, u64)>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A check that is due; else, when one will be.
    fn take(&self, now: Instant) -> Result<(Instant, u64), Instant> {
        let mut queue = self.lock();
        match queue.peek().copied() {
            Some(Reverse((due, id))) if due <= now => {
                queue.pop();
                Ok((due, id))
            }
            Some(Reverse((due, _))) => Err(due),
            None => Err(now + LOOK),
        }
    }

    /// Checks a server; answers when that is due again.
    async fn check(&self, id: u64, due: Instant) -> Instant {
        let late = Instant::now().saturating_duration_since(due);
        self.late.fetch_max(u64::try_from(late.as_micros()).unwrap_or(u64::MAX), Relaxed);
        if let Some(address) = self.servers.get(&id) {
            // What comes of it is no matter here.
            let _ = tokio::time::timeout(PATIENCE, connect(*address)).await;
        }
        self.checks.fetch_add(1, Relaxed);
        let chance = f64::from(getrandom::u32().unwrap_or(0)) / f64::from(u32::MAX);
        next_due(due, Instant::now(), self.interval, JITTER, chance)
    }
}

async fn connect(address: SocketAddr) -> std::io::Result<()> {
    let socket = TcpSocket::new_v4()?;
    // Reset when closed: thousands a second must not use up the ports.
    socket.set_zero_linger()?;
    socket.connect(address).await.map(drop)
}

/// A worker that looks at the queue of all.
async fn take_turns(shared: &Arc<Shared>) {
    while !shared.is_stopping() {
        let now = Instant::now();
        match shared.take(now) {
            Ok((due, id)) => {
                let shared = Arc::clone(shared);
                tokio::task::spawn_local(async move {
                    let next = shared.check(id, due).await;
                    shared.lock().push(Reverse((next, id)));
                });
                // What has become ready meanwhile has its turn.
                tokio::task::yield_now().await;
            }
            Err(next) => tokio::time::sleep_until(next.min(now + LOOK).into()).await,
        }
    }
}

/// A worker that has checks of its own.
async fn keep(
    index: usize,
    shared: &Arc<Shared>,
    mut mailbox: mpsc::UnboundedReceiver<Moving>,
    own: Vec<(u64, Instant)>,
) {
    let bounds = CheckBounds::new(RUNNING_MAX, PATIENCE);
    let mut scheduler = CheckScheduler::new(index, Arc::clone(&shared.loads), bounds);
    for (id, due) in own {
        scheduler.add(Subject::new(id), due);
    }
    let (ended, mut ends) = mpsc::unbounded_channel();
    while !shared.is_stopping() {
        let now = Instant::now();
        while let Some(deed) = next(&mut scheduler, shared.hold, now) {
            match deed {
                Deed::Run(subject, due) => {
                    let (shared, ended) = (Arc::clone(shared), ended.clone());
                    tokio::task::spawn_local(async move {
                        let next = shared.check(subject.id, due).await;
                        // The worker may have ended.
                        let _ = ended.send((subject.id, next));
                    });
                }
                Deed::Send(other, moving) => {
                    // It fails only when all workers end: then the check is not needed any more.
                    let _ = shared.mail[other].send(moving);
                }
            }
        }
        let wake = scheduler.due().unwrap_or(now + LOOK).min(now + LOOK);
        tokio::select! {
            Some(moving) = mailbox.recv() => scheduler.arrive(moving, Instant::now()),
            Some((id, next)) = ends.recv() => scheduler.done(id, Habit::Answers, next),
            () = tokio::time::sleep_until(wake.into()) => {}
        }
    }
}

fn next(scheduler: &mut CheckScheduler, hold: Hold, now: Instant) -> Option<Deed> {
    match hold {
        Hold::Spread => scheduler.next(now, |below| getrandom::u32().unwrap_or(0) as usize % below),
        Hold::Bound | Hold::SharedQueue => scheduler.next_here(now),
    }
}

/// Serves the page, as long as any other of its kind.
async fn serve_pages(listener: std::net::TcpListener) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let body = "mysql,main,0,0,1,2,64,1000,123456,654321,,,0,0,0,0,0,UP,1,1,0,0,0,\n".repeat(200);
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    let page: Rc<str> = format!("{head}{body}").into();
    while let Ok((stream, _)) = listener.accept().await {
        tokio::task::spawn_local(serve_page(stream, Rc::clone(&page)));
    }
}

async fn serve_page(mut stream: TcpStream, page: Rc<str>) {
    let mut request = [0; 1024];
    let mut len = 0;
    while let Ok(read @ 1..) = stream.read(&mut request[len..]).await {
        len += read;
        if request[..len].ends_with(b"\r\n\r\n") {
            len = 0;
            if stream.write_all(page.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}
