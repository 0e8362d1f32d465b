//! Starts the proxy and stops it: listeners, workers, signals.

pub(crate) mod event_loop;
mod hardening;
pub mod logs;
mod ready;
pub(crate) mod recovery;
mod remembered;
mod signals;
mod supervised;
mod watched;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use backend::tls::TlsError;
use engine::descriptors::Descriptors;
use sys::keeper::Keeper;
use sys::process::BecomeError;
use sys::supervisor::Supervisor;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime, Runtime};
use tokio::sync::mpsc;

use crate::admin::reload::{Means, Reloader};
use crate::admin::upgrade::{Stage, Upgrader};
use crate::admin::{self, Doors, NewDoors};
use crate::cluster::servers::Site;
use crate::config::{self, Instructions, Listen, Live, Logs, Plan};
use crate::features::cached::written;
use crate::frontend::listener::{self, Audience, Bind, Listener};
use crate::frontend::passed::{Passed, PassedError, Purpose};
use crate::placement::{self, PlacementKeeper, Reach};
use crate::records::{RecordError, Records};
use crate::run::hardening::HardeningError;
use crate::run::logs::Log;
use crate::run::signals::Signals;
use crate::run::supervised::Reports;
use crate::state::shared::{Mail, Shared};
use crate::state::worker::Worker;
use crate::succession::arrivals::{Predecessor, SuccessionError};
use crate::users::Users;
use crate::users::configured::Configured;
use crate::users::tls::Tls;
use crate::worker::{panics, spare_memory, tasks};

/// Why the proxy could not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("cannot listen on {address}: {why}")]
    Listen { address: String, why: String },
    #[error(transparent)]
    Passed(#[from] PassedError),
    #[error(transparent)]
    Records(#[from] RecordError),
    #[error("there is no server to serve")]
    NoServer,
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] TlsError),
    #[error("no Flifo is taken over from: {0}")]
    Succession(#[from] SuccessionError),
    #[error(transparent)]
    Hardening(#[from] HardeningError),
    #[error("cannot raise the soft limit of open files to the hard one: {0}")]
    Descriptors(io::Error),
    #[error("cannot wait for signals: {0}")]
    Signals(io::Error),
    #[error("a worker panicked; its message is above")]
    Panicked,
    #[error("cannot start a worker: {0}")]
    Worker(io::Error),
}

impl RunError {
    /// The user of `hardening.run_as` cannot be had.
    pub const fn from_user(error: BecomeError) -> Self {
        Self::Hardening(HardeningError::RunAs(error))
    }

    /// Whether Flifo is at fault, rather than the machine or the configuration.
    pub const fn is_ours(&self) -> bool {
        matches!(self, Self::Panicked)
    }
}

/// What this process has of others.
pub struct Relations {
    pub supervisor: Supervisor,
    /// Starts the Flifo that takes over; or why none can be started.
    pub keeper: Result<Arc<Keeper>, String>,
    pub before: Before,
}

/// What has served before this process, as far as that matters.
pub enum Before {
    Nothing,
    /// A Flifo that was to hand over, and was killed a moment ago.
    Killed,
    /// The Flifo that this one takes over from.
    Flifo(Predecessor),
}

impl Before {
    const fn predecessor(&self) -> Option<&Predecessor> {
        match self {
            Self::Nothing | Self::Killed => None,
            Self::Flifo(predecessor) => Some(predecessor),
        }
    }

    /// How addresses are bound.
    fn bind(&self) -> Bind {
        match self {
            Self::Nothing | Self::Flifo(_) => listener::bind,
            Self::Killed => listener::bind_behind,
        }
    }
}

/// Becomes the user of `hardening.run_as`, if root has started this process, before it hears of another Flifo.
pub fn become_user(plan: &Plan) -> Result<(), RunError> {
    Ok(hardening::become_user(plan, placement::policy(plan))?)
}

/// Runs the proxy in front of the server at `address`, or of those that the plan lists, until a signal ends it. SIGHUP
/// opens `log` anew. `source` is where the plan came from.
pub fn run(
    plan: Plan,
    source: Instructions,
    address: Option<&backend::Address>,
    log: &Log,
    relations: Relations,
) -> Result<(), RunError> {
    panics::watch();
    let Relations { mut supervisor, keeper, mut before } = relations;
    // Before anything else: a signal that comes early must not end Flifo either.
    let waiting = Builder::new_current_thread().enable_all().build().map_err(RunError::Signals)?;
    let mut signals = waiting.block_on(async { Signals::catch() }).map_err(RunError::Signals)?;
    let live = Arc::new(Live::new(plan));
    let plan = live.get();
    let limit = sys::process::raise_open_files().map_err(RunError::Descriptors)?;
    let policy = match before.predecessor() {
        Some(_) => placement::policy(&plan),
        None => placement::succeed(&plan),
    };
    let Sockets { kept, listeners, doors } = Sockets::open(&plan, &mut supervisor, &mut before)?;
    let (mailboxes, mails): (Vec<_>, Vec<_>) =
        (0..plan.worker_count()).map(|_| mpsc::unbounded_channel()).unzip();
    let users = Users::new(Configured::of(&plan));
    let tls = Tls::new(&plan)?;
    let sites = Site::all(&plan, address)?;
    if sites.is_empty() {
        return Err(RunError::NoServer);
    }
    // Before the sandbox keeps this process from other folders.
    let records = Records::open(&plan)?;
    let addresses = sites.iter().map(|site| &site.address);
    hardening::harden(&plan, &source, policy, addresses)?;
    let reach = Reach::of(&plan, policy);
    let descriptors = share_descriptors(&plan, limit);
    tell_of_memory(&plan);
    records.start();
    let generation = before.predecessor().map_or(0, Predecessor::generation);
    let shared = Shared::new(live, sites, users, tls, descriptors, records, mailboxes);
    let shared = Arc::new(shared.of_generation(generation));
    let workers = start_workers(&shared, mails)?;
    go_on(&shared, before.predecessor())?;
    shared.follow();
    accept(&shared, listeners);
    let (tell_doors, new_doors) = mpsc::unbounded_channel();
    let placed = Arc::clone(&shared);
    // Ends, and undoes, before this function returns, whatever it returns.
    let placement = Placed(
        PlacementKeeper::start(Box::new(move || threads(&placed)), policy, reach)
            .map_err(RunError::Worker)?,
    );
    let reports = Arc::new(Reports::new(supervisor));
    let means = means(&shared, log, &reports, tell_doors.clone());
    let reloader = Reloader::new(Arc::clone(&shared), source, means, Arc::clone(&placement.0));
    let reloader = Arc::new(reloader);
    let (tell_stage, stages) = mpsc::unbounded_channel();
    let upgrader = Upgrader::new(Arc::clone(&shared), keeper, tell_doors, tell_stage);
    let upgrader = Arc::new(upgrader);
    admin::open(&shared, doors, (&reloader, &upgrader), new_doors).map_err(RunError::Worker)?;
    take_over(&shared, before)?;
    say_start(&shared);
    reports.serving(&shared);
    let succession = Succession { stages, placement: Arc::clone(&placement.0) };
    let is_gone = wait_for_signal(
        &waiting,
        &mut signals,
        &reloader,
        &shared,
        &workers,
        (log, &reports),
        succession,
    );
    join(workers)?;
    shared.records.end();
    if !is_gone {
        remove_sockets(&shared.plan(), &kept);
    }
    Ok(())
}

/// What is listened on.
struct Sockets {
    /// Addresses whose paths stay when Flifo ends.
    kept: Vec<Listen>,
    listeners: Vec<(Listen, Listener)>,
    doors: Doors,
}

impl Sockets {
    /// Opens them, or takes what a supervisor has passed, or the Flifo before has listened on.
    fn open(
        plan: &Plan,
        supervisor: &mut Supervisor,
        before: &mut Before,
    ) -> Result<Self, RunError> {
        let bind = before.bind();
        let mut passed = match before {
            Before::Flifo(before) => Passed::taken_over(before.take_sockets().into_iter())?,
            Before::Nothing | Before::Killed => Passed::read(supervisor.take_sockets())?,
        };
        let kept = passed.addresses();
        let listeners = open(plan, &mut passed, bind)?;
        let doors = admin::bind(plan, None, &mut passed, bind)
            .map_err(|(listen, error, option)| unbound(&listen, &error, option))?;
        match before.predecessor() {
            Some(_) => passed.close(),
            None => passed.all_taken()?,
        }
        Ok(Self { kept, listeners, doors })
    }
}

type WorkerThread = thread::JoinHandle<io::Result<()>>;

fn start_workers(
    shared: &Arc<Shared>,
    mails: Vec<mpsc::UnboundedReceiver<Mail>>,
) -> Result<Vec<WorkerThread>, RunError> {
    let start = |(index, mail)| {
        let (shared, name) = (Arc::clone(shared), format!("worker {index}"));
        let work = move || work(index, shared, mail);
        tasks::thread(thread::Builder::new().name(name), work).map_err(RunError::Worker)
    };
    mails.into_iter().enumerate().map(start).collect()
}

/// Goes on from what is known of servers, when the Flifo before has given the word to accept clients, if there is one.
fn go_on(shared: &Arc<Shared>, before: Option<&Predecessor>) -> Result<(), RunError> {
    match before {
        Some(predecessor) => {
            let known = predecessor.await_go()?;
            known.unwrap_or_default().recall(&shared.cluster);
        }
        None => remembered::recall(shared),
    }
    remembered::keep(shared).map_err(RunError::Worker)
}

/// Accepts clients. The first worker does it for all: they are told by mail.
fn accept(shared: &Shared, listeners: Vec<(Listen, Listener)>) {
    shared.have_done(0, move |worker| {
        for (listen, listener) in listeners {
            listener::open(worker, &listen, listener);
        }
    });
}

/// Takes what the Flifo before hands over, if there is one, by a thread of its own.
fn take_over(shared: &Arc<Shared>, before: Before) -> Result<(), RunError> {
    let Before::Flifo(predecessor) = before else { return Ok(()) };
    let shared = Arc::clone(shared);
    let arrivals = thread::Builder::new().name("arrivals".into());
    let take_over = move || predecessor.take_over(&shared);
    tasks::thread(arrivals, take_over).map(drop).map_err(RunError::Worker)
}

fn join(workers: Vec<WorkerThread>) -> Result<(), RunError> {
    for worker in workers {
        match worker.join() {
            Ok(result) => result.map_err(RunError::Worker)?,
            Err(_) => return Err(RunError::Panicked),
        }
    }
    Ok(())
}

/// What a reload does by others.
fn means(
    shared: &Arc<Shared>,
    log: &Log,
    reports: &Arc<Reports>,
    doors: mpsc::UnboundedSender<NewDoors>,
) -> Means {
    let (shared, log, reports) = (Arc::clone(shared), log.clone(), Arc::clone(reports));
    Means {
        log: Box::new(move |logs: &Logs| match log.prepare(logs) {
            Ok(commit) => Ok(Box::new(commit) as Box<dyn FnOnce() + Send>),
            Err(error) => Err(error.to_string()),
        }),
        doors,
        tell: Box::new(move |stage| reports.tell_of_reload(&shared, stage)),
        examine: Box::new(|plan, servers| {
            let servers = servers.iter().copied();
            hardening::refuse_privileged_user(plan, servers).map_err(|error| error.to_string())
        }),
    }
}

/// A placement that ends, and undoes, when this is dropped.
struct Placed(Arc<PlacementKeeper>);

impl Drop for Placed {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Removes the paths of Unix sockets, but for those that the supervisor keeps.
fn remove_sockets(plan: &Plan, kept: &[Listen]) {
    for listen in plan.listen.iter().chain(&plan.console.listen).chain(&plan.http.listen) {
        if let Listen::Unix(path) = listen
            && !kept.contains(listen)
        {
            // It may be gone already.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Opens what clients come in by, or takes what was passed for it.
fn open(plan: &Plan, passed: &mut Passed, bind: Bind) -> Result<Vec<(Listen, Listener)>, RunError> {
    let open = |listen: &Listen| {
        let given = passed.take(Purpose::Clients, listen, plan.backlog);
        let own = || bind(listen, plan.backlog, Audience::Everybody);
        match given.unwrap_or_else(own) {
            Ok(listener) => Ok((listen.clone(), listener)),
            Err(error) => Err(unbound(listen, &error, "listen")),
        }
    };
    plan.listen.iter().map(open).collect()
}

fn unbound(listen: &Listen, error: &io::Error, option: &str) -> RunError {
    RunError::Listen { address: listen.to_string(), why: listener::explain(listen, error, option) }
}

/// One worker's thread.
fn work(index: usize, shared: Arc<Shared>, mail: mpsc::UnboundedReceiver<Mail>) -> io::Result<()> {
    // A worker that waits its turn finds more to do in one turn: see docs/design/pipelining.md.
    if let Err(error) = sys::scheduling::batch_this_thread() {
        tracing::debug!(%error, "the worker stays a normal thread");
    }
    let runtime: LocalRuntime = Builder::new_current_thread()
        .enable_all()
        .on_thread_unpark(crate::worker::iterations::wake)
        .on_thread_park(crate::worker::iterations::rest)
        .build_local(LocalOptions::default())?;
    runtime.block_on(async move {
        let worker = Rc::new(Worker::new(index, shared));
        recovery::ask_of_doubt(&worker);
        written::adopt_plan(&worker, &worker.plan());
        event_loop::run(worker, mail).await;
    });
    // What is left would only wait for clients that have had their time.
    runtime.shutdown_timeout(Duration::ZERO);
    Ok(())
}

/// Waits for a worker to end before it was told to, which only a fault of Flifo's own can make it do.
async fn one_ends(workers: &[thread::JoinHandle<io::Result<()>>]) {
    while !workers.iter().any(thread::JoinHandle::is_finished) {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Shares the descriptors, and says so if clients and backends may want more than there are.
fn share_descriptors(plan: &Plan, limit: Option<u64>) -> Descriptors {
    let backends = u64::from(plan.connections_of_all(|max| max));
    let descriptors = Descriptors::share(limit, backends);
    let clients = u64::from(plan.clients_max);
    // Where no user is pooled, each client has a backend.
    let backends = if plan.users.is_empty() { backends.max(clients) } else { backends };
    if let (Some(wanted), Some(limit)) = (descriptors.wanted(clients, backends), limit) {
        tracing::warn!(
            limit,
            wanted,
            clients_max = plan.clients_max,
            connections_max = plan.server.connections_max,
            "clients_max and connections_max need more open files than this process may have: \
             clients are refused (1040) early, so that backend connections and administration keep \
             theirs; raise LimitNOFILE= in its unit (ulimit -n), or lower clients_max"
        );
    }
    descriptors
}

/// Says so if memory is limited for this process, and whether the clients that may come have room in it.
fn tell_of_memory(plan: &Plan) {
    let (allowance, workers) = (config::allowance(), plan.worker_count());
    let Some((memory, clients)) = allowance.memory.zip(allowance.clients(workers)) else { return };
    let (memory, rooms) = (memory >> 20, allowance.rooms(workers));
    let commands = ((rooms.short + rooms.long) * workers) >> 20;
    tracing::info!(
        memory,
        commands,
        "memory is limited (control group); in MiB, with the part for long commands"
    );
    if clients < u64::from(plan.clients_max) {
        tracing::warn!(
            memory,
            clients,
            clients_max = plan.clients_max,
            "clients_max clients may need more memory than this process may have (MiB): about so many clients have \
             room; raise its limit (MemoryMax= in its unit, resources.limits.memory of a pod), or lower clients_max"
        );
    }
}

/// One line that says what runs, since a log may hold the lines of many runs.
fn say_start(shared: &Shared) {
    let (plan, servers) = (shared.plan(), &shared.cluster.servers);
    let open_files = shared.cluster.dialer.descriptors.limit();
    let names =
        |listen: &[Listen]| listen.iter().map(Listen::to_string).collect::<Vec<_>>().join(" ");
    let servers = servers.iter().map(|it| match it.limit_by_file() {
        Some(_) => format!("{} (limit {})", it.address, it.wanted_limit()),
        None => format!("{} (limit auto, now {})", it.address, it.wanted_limit()),
    });
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        pid = std::process::id(),
        listen = names(&plan.listen),
        console = names(&plan.console.listen),
        http = names(&plan.http.listen),
        servers = servers.collect::<Vec<_>>().join(", "),
        workers = plan.worker_count(),
        clients_max = plan.clients_max,
        open_files_max = open_files,
        "Flifo serves"
    );
}

/// Waits for a signal to stop, then for the workers, but not for ever. True: another Flifo has taken over.
fn wait_for_signal(
    runtime: &Runtime,
    signals: &mut Signals,
    reloader: &Reloader,
    shared: &Arc<Shared>,
    workers: &[thread::JoinHandle<io::Result<()>>],
    (log, reports): (&Log, &Reports),
    mut succession: Succession,
) -> bool {
    let reopen = || {
        log.reopen();
        shared.records.reopen();
    };
    let reload = async || {
        reopen();
        // What comes of it is in the log, too.
        let _ = reloader.reload().await;
    };
    runtime.block_on(async {
        tokio::select! {
            biased;
            () = signals.stop(reload) => {}
            () = reports.beat(shared) => {}
            () = one_ends(workers) => tracing::error!("a worker ended on its own: Flifo stops"),
            () = sum_up(log) => {}
            () = tell_ready(shared) => {}
            () = spare_memory::look_after() => {}
            () = watched::watch(reloader, shared) => {}
            pid = succession.follow() => {
                if let Some(pid) = pid {
                    reports.succeeded_by(pid);
                    shared.mail_all(|| Mail::Abort);
                    return true;
                }
            }
        }
        let limit = shared.plan().limits.stop;
        reports.stopping(limit);
        tracing::info!(?limit, "stopping: no new clients; what runs may finish");
        shared.stop();
        let all_gone = async {
            while workers.iter().any(|worker| !worker.is_finished()) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            biased;
            () = all_gone => {}
            () = tokio::time::sleep(limit) => tracing::info!("some clients did not finish in time"),
            () = signals.stop(async || reopen()) => {}
            () = reports.beat(shared) => {}
            () = sum_up(log) => {}
        }
        shared.mail_all(|| Mail::Abort);
        shared.is_departing()
    })
}

/// Where this process is on its way to be replaced, and what it changes of the machine meanwhile.
struct Succession {
    stages: mpsc::UnboundedReceiver<Stage>,
    placement: Arc<PlacementKeeper>,
}

impl Succession {
    /// Follows another Flifo's taking over until this process has nothing left, or is to wait no longer for what is.
    /// The number of the other one, if nothing is left.
    async fn follow(&mut self) -> Option<u32> {
        loop {
            match self.stages.recv().await {
                Some(Stage::Departs(undone)) => {
                    self.placement.pause();
                    // It is not waited for any longer, perhaps.
                    let _ = undone.send(());
                }
                Some(Stage::Stays) => self.placement.renew(),
                Some(Stage::Gone(pid)) => return Some(pid),
                Some(Stage::Late) => return None,
                None => return std::future::pending().await,
            }
        }
    }
}

/// Says once that Flifo is ready.
async fn tell_ready(shared: &Shared) {
    ready::tell(shared).await;
    std::future::pending().await
}

/// Says each second how many lines were left out.
async fn sum_up(log: &Log) {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        log.sum_up();
    }
}

/// What placement places.
fn threads(shared: &Arc<Shared>) -> placement::Threads {
    let asked = Arc::clone(shared);
    placement::Threads {
        plan: shared.plan(),
        servers: shared.cluster.servers.iter().map(|server| server.address.clone()).collect(),
        workers: shared.worker_count(),
        ask: Box::new(move |worker| asked.ask(worker, |worker| pulse(worker))),
        board: Arc::clone(&shared.placement),
    }
}

/// What placement wants to know of a worker.
fn pulse(worker: &Worker) -> placement::Pulse {
    placement::Pulse {
        statements: worker.counters.statements.get(),
        run: worker.times(|traffic| &traffic.run),
        thread: crate::worker::iterations::report().thread,
    }
}
