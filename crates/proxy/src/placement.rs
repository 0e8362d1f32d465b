//! Placement: where and with which right the server's threads and the workers run, when the server is on this machine.
//!
//! Owns a thread of its own, which looks, asks [`engine::placement`] and does what that says. Invariants: nothing of it
//! is on the road; whatever is changed is in the journal first, and undone when the thread ends, by the next start, or by
//! `flifo placement restore`; without permission nothing is changed, and the command is told that would do it.

mod actuator;
pub(crate) mod board;
mod journal;
mod observer;
mod scope;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use actuator::Parties;
use backend::Address;
use backend::stream::Peer;
use engine::placement::{Done, Placement, PlacementOrder, Policy, Remedy, Told};
use journal::{Journal, Refused};
use observer::Observer;
use sys::threads;
use sys::tree::Tree;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::config::{Listen, MayPlace, Plan, Sandbox};
use crate::placement::board::Board;
use crate::worker::steps::step;

pub(crate) use board::PlacementState;
pub use journal::{JournalError, Undone};
pub(crate) use observer::Pulse;

/// The placement of a run: which thread does it, and what it may do.
pub(crate) struct PlacementKeeper {
    guard: Mutex<Option<Guard>>,
    /// Flifo ends: nothing is placed any more.
    is_over: AtomicBool,
    threads: Box<dyn Fn() -> Threads + Send + Sync>,
    reach: Reach,
}

/// What the process has kept of the rights to place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// All that its user may.
    All,
    /// In a sandbox that was made for it, with the journal in this folder.
    Folder(PathBuf),
    /// It may look.
    Nothing,
}

impl Reach {
    /// What a process keeps that enters the sandbox of this plan, if it enters one.
    pub(crate) fn of(plan: &Plan, policy: Policy) -> Self {
        match (plan.hardening.sandbox, acts(policy)) {
            (Sandbox::Off, _) => Self::All,
            (Sandbox::On, true) => {
                Self::Folder(journal_path(plan).parent().map(Path::to_owned).unwrap_or_default())
            }
            (Sandbox::On, false) => Self::Nothing,
        }
    }

    /// Whether what this plan says of placement can be done.
    fn allows(&self, plan: &Plan) -> bool {
        !acts(plan.placement.policy.engine())
            || match self {
                Self::All => true,
                Self::Folder(folder) => journal_path(plan).parent() == Some(folder),
                Self::Nothing => false,
            }
    }
}

/// Whether a policy changes anything.
pub(crate) const fn acts(policy: Policy) -> bool {
    !matches!(policy, Policy::Off | Policy::Observe)
}

impl PlacementKeeper {
    /// Begins. `threads` tells what is placed.
    pub(crate) fn start(
        threads: Box<dyn Fn() -> Threads + Send + Sync>,
        policy: Policy,
        reach: Reach,
    ) -> io::Result<Arc<Self>> {
        let guard = Mutex::new(start(threads(), policy)?);
        Ok(Arc::new(Self { guard, is_over: AtomicBool::new(false), threads, reach }))
    }

    /// Whether this process may do what a plan says of placement.
    pub(crate) fn may_place(&self, plan: &Plan) -> MayPlace {
        if self.reach.allows(plan) { MayPlace::Yes } else { MayPlace::GivenUp }
    }

    /// Begins anew by the plan that is in force, after all that was changed by the one before is undone. It waits for
    /// the thread that does it.
    pub(crate) fn renew(&self) {
        let mut guard = self.lock();
        if self.is_over.load(Relaxed) {
            return;
        }
        drop(guard.take());
        let threads = (self.threads)();
        let policy = succeed(&threads.plan);
        let board = Arc::clone(&threads.board);
        match start(threads, policy) {
            Ok(None) => board.put(PlacementState { policy: "off", ..PlacementState::default() }),
            Ok(begun) => *guard = begun,
            Err(error) => tracing::error!(%error, "no placement"),
        }
    }

    /// Undoes everything, and waits for that: another Flifo does it from now on, or [`Self::renew`] begins anew.
    pub(crate) fn pause(&self) {
        drop(self.lock().take());
    }

    /// Ends it, and waits until everything is undone.
    pub(crate) fn end(&self) {
        let mut guard = self.lock();
        self.is_over.store(true, Relaxed);
        drop(guard.take());
    }

    fn lock(&self) -> MutexGuard<'_, Option<Guard>> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends placement when it is dropped, and waits until everything is undone.
#[derive(Debug)]
struct Guard {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    path: PathBuf,
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            // Its journal is still there.
            let _ = restore(&self.path);
        }
    }
}

/// Undoes what a Flifo that was killed has left behind. `None`: there is nothing.
pub fn restore(path: &Path) -> Result<Option<Undone>, JournalError> {
    journal::restore_left(path, &Tree::live())
}

/// Where the journal of changes is.
pub fn journal_path(plan: &Plan) -> PathBuf {
    if let Some(path) = &plan.placement.state_file {
        return path.clone();
    }
    // Several Flifos of one machine listen at different places.
    let place = match plan.listen.first() {
        Some(Listen::Tcp(address)) => address.to_string(),
        Some(Listen::Unix(path)) => path.display().to_string(),
        None => String::new(),
    };
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '.';
    let place: String = place.chars().map(|it| if is_plain(it) { it } else { '-' }).collect();
    folder().join(format!("placement-{place}.json"))
}

/// A folder that only this user can write to.
fn folder() -> PathBuf {
    let named = |name| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    if let Some(folder) = named("RUNTIME_DIRECTORY") {
        return folder;
    }
    if sys::process::is_root() {
        return "/run/flifo".into();
    }
    named("XDG_RUNTIME_DIR").map_or_else(
        || std::env::temp_dir().join(format!("flifo-{}", sys::process::user().0)),
        |folder| folder.join("flifo"),
    )
}

/// What may be done where a Flifo that lives hands over to this one: it has undone what it did.
pub(crate) fn policy(plan: &Plan) -> Policy {
    plan.placement.policy.engine()
}

/// Undoes what a predecessor has left. Returns what may be done from now on.
pub(crate) fn succeed(plan: &Plan) -> Policy {
    let path = journal_path(plan);
    let policy = plan.placement.policy.engine();
    match restore(&path) {
        Ok(None) => policy,
        Ok(Some(undone)) => {
            let path = path.display();
            tracing::info!(?undone, %path, "a Flifo that was killed had changed this machine");
            policy
        }
        Err(error) => {
            tracing::warn!(%error, "placement changes nothing");
            if policy == Policy::Off { policy } else { Policy::Observe }
        }
    }
}

/// What is placed, and where it is told.
pub(crate) struct Threads {
    pub(crate) plan: Arc<Plan>,
    /// Servers, of which the first one that is on this machine is placed.
    pub(crate) servers: Vec<Address>,
    pub(crate) workers: usize,
    /// Asks a worker for its pulse.
    pub(crate) ask: Box<dyn Fn(usize) -> oneshot::Receiver<Pulse> + Send>,
    pub(crate) board: Arc<Board>,
}

/// Begins, if there is anything to do.
fn start(threads: Threads, policy: Policy) -> io::Result<Option<Guard>> {
    if policy == Policy::Off {
        return Ok(None);
    }
    let path = journal_path(&threads.plan);
    let (stop, stopped) = oneshot::channel();
    let journal = Journal::new(path.clone(), Tree::live());
    let watch = move || match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(Steward::new(threads, policy, journal).run(stopped)),
        Err(error) => tracing::error!(%error, "no placement"),
    };
    let builder = thread::Builder::new().name("placement".to_owned());
    let thread = crate::worker::tasks::thread(builder, watch)?;
    Ok(Some(Guard { stop: Some(stop), thread: Some(thread), path }))
}

/// The thread's own.
struct Steward {
    threads: Threads,
    policy: Policy,
    placement: Placement,
    journal: Journal,
    tree: Tree,
    observer: Observer,
    /// The server's process and when it began.
    server: Option<(u32, u64)>,
    searched: Option<Instant>,
    /// Between two searches, for longer each time.
    between: Duration,
    swept: Instant,
    pulses: Vec<Pulse>,
    hint: Option<String>,
}

impl Steward {
    fn new(threads: Threads, policy: Policy, journal: Journal) -> Self {
        let tree = Tree::live();
        Self {
            threads,
            policy,
            placement: Placement::new(policy),
            journal,
            observer: Observer::new(tree.clone()),
            tree,
            server: None,
            searched: None,
            between: SEARCH,
            swept: crate::worker::clock::read(),
            pulses: Vec::new(),
            hint: None,
        }
    }

    async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        // A policy that only observes need not look often.
        let period = if self.policy == Policy::Observe { 2 * LOOK } else { LOOK };
        loop {
            self.beat().await;
            tokio::select! {
                biased;
                _ = &mut stopped => break,
                () = tokio::time::sleep(period) => {}
            }
        }
        let undone = self.journal.undo_all();
        self.tell_undone(&undone);
    }

    async fn beat(&mut self) {
        step!("placement");
        self.find_server().await;
        self.ask_workers().await;
        let server = self.server.map(|(pid, _)| pid);
        let look = self.observer.look(&self.pulses, server);
        // Workers are placed together: while one does not answer, none is placed.
        let are_all_here = self.pulses.len() == self.threads.workers;
        let order = are_all_here.then(|| self.placement.see(crate::worker::clock::read(), &look));
        if let Some(order) = order.flatten() {
            let done = self.obey(order);
            self.placement.done(crate::worker::clock::read(), done);
        }
        if crate::worker::clock::since(self.swept) >= SWEEP {
            self.swept = crate::worker::clock::read();
            if let Err(error) = self.journal.sweep() {
                tracing::warn!(%error, "new threads of the server are not placed");
            }
        }
        for told in self.placement.told() {
            tell(told);
        }
        self.threads.board.put(PlacementState {
            policy: self.threads.plan.placement.policy.name(),
            verdict: Some(self.placement.verdict()),
            look,
            server,
            kept: self.placement.kept().map(Remedy::name).collect(),
            on_trial: self.placement.on_trial().map(Remedy::name),
            hint: self.hint.clone(),
        });
    }

    /// Looks whether the server is still the one that it was.
    async fn find_server(&mut self) {
        if let Some((pid, started)) = self.server {
            if self.started(pid) == Some(started) {
                return;
            }
            self.server = None;
            // Its threads went with it; what is changed for it here goes back.
            let undone = self.journal.undo_all();
            self.tell_undone(&undone);
            self.placement.server_is_new();
        }
        if self.searched.is_some_and(|at| crate::worker::clock::since(at) < self.between) {
            return;
        }
        self.searched = Some(crate::worker::clock::read());
        self.between = (self.between * 2).min(SEARCH_MAX);
        // Of several, the first one that is on this machine.
        for address in &self.threads.servers {
            let Some(pid) = server_pid(address).await else { continue };
            self.server = self.started(pid).map(|started| (pid, started));
            if self.server.is_some() {
                break;
            }
        }
        if self.server.is_some() {
            self.between = SEARCH;
            // What was refused for want of a server may be tried now.
            self.placement.server_is_new();
        }
    }

    fn started(&self, pid: u32) -> Option<u64> {
        let line = threads::line(&self.tree, pid);
        line.known().filter(|it| is_server(&it.name)).map(|it| it.started)
    }

    async fn ask_workers(&mut self) {
        let answers: Vec<_> = (0..self.threads.workers).map(&self.threads.ask).collect();
        let mut pulses = Vec::new();
        for answer in answers {
            // One that is gone, or stuck, tells nothing.
            if let Ok(Ok(pulse)) = timeout(PATIENCE, answer).await {
                pulses.push(pulse);
            }
        }
        self.pulses = pulses;
    }

    fn obey(&mut self, order: PlacementOrder) -> Done {
        let remedy = match order {
            PlacementOrder::Undo(remedy) => {
                let undone = self.journal.undo(remedy.name());
                self.tell_undone(&undone);
                return if undone.failed.is_empty() { Done::Well } else { Done::Stuck };
            }
            PlacementOrder::Apply(remedy) => remedy,
        };
        let Some((server, _)) = self.server else {
            self.refuse(remedy, "the server is not on this machine, or cannot be seen");
            return Done::Refused;
        };
        let plan = &self.threads.plan.placement;
        let parties = Parties {
            tree: &self.tree,
            server,
            workers: self.pulses.iter().map(|pulse| pulse.thread).collect(),
            worker_cpus: plan.worker_cpus.as_ref(),
            server_cpus: plan.server_cpus.as_ref(),
        };
        let changes = match parties.changes(remedy) {
            Ok(changes) => changes,
            Err(why) => {
                self.refuse(remedy, &why);
                return Done::Refused;
            }
        };
        let commands: Vec<_> = changes.iter().map(journal::Change::command).collect();
        match self.journal.apply(remedy.name(), changes) {
            Ok(()) => {
                tracing::info!(remedy = remedy.name(), did = commands.join("; "), "placement");
                self.hint = None;
                Done::Well
            }
            Err(Refused { command, error, is_stuck }) => {
                self.refuse(remedy, &refusal(&command, &error));
                if is_stuck { Done::Stuck } else { Done::Refused }
            }
        }
    }

    fn refuse(&mut self, remedy: Remedy, why: &str) {
        tracing::warn!(remedy = remedy.name(), why, "placement is not possible");
        self.hint = Some(format!("{}: {why}", remedy.name()));
    }

    fn tell_undone(&self, undone: &Undone) {
        let Undone { changes, others, failed } = undone;
        if *changes > 0 {
            tracing::info!(changes, "placement undone");
        }
        if !others.is_empty() {
            tracing::info!(
                left_alone = others.join(", "),
                "another process has changed these settings since: they stay as they are"
            );
        }
        if !failed.is_empty() {
            tracing::warn!(
                failed = failed.join("; "),
                "placement is not undone: as an administrator, run flifo placement restore"
            );
        }
    }
}

/// What is told where something is not permitted, or fails otherwise.
fn refusal(command: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => format!(
            "Flifo may not do it ({error}). An administrator would run: {command}. Or give Flifo \
             the right: in its systemd unit, AmbientCapabilities=CAP_SYS_NICE"
        ),
        _ => format!("{command}: {error}; nothing has been changed"),
    }
}

/// For the search for a fault: what is done is told by itself, and SHOW PLACEMENT shows all.
fn tell(told: Told) {
    match told {
        Told::Verdict(verdict) => {
            tracing::debug!(verdict = verdict.name(), means = verdict.means(), "placement");
        }
        Told::Tries(remedy) => tracing::debug!(remedy = remedy.name(), "placement tries"),
        Told::Moments(remedy) => {
            tracing::debug!(
                remedy = remedy.name(),
                "placement does not try: starved for moments only"
            );
        }
        Told::Proof(remedy, proof) => {
            tracing::debug!(remedy = remedy.name(), ?proof, "placement has tried");
        }
        Told::Anew(remedy) => {
            tracing::debug!(remedy = remedy.name(), "placement asks again whether it helps");
        }
    }
}

/// The process behind an address, if it runs on this machine. A server of another machine is not connected to: it
/// would count that as an attempt that failed.
async fn server_pid(address: &Address) -> Option<u32> {
    match address {
        Address::Unix(_) => {
            let stream = timeout(PATIENCE, backend::dial::dial(address)).await.ok()?.ok()?;
            let Peer::Unix { pid, .. } = stream.peer() else { return None };
            pid.and_then(|pid| u32::try_from(pid).ok())
        }
        Address::Tcp { host, port } => {
            let found = timeout(PATIENCE, tokio::net::lookup_host((host.as_str(), *port))).await;
            // Only an address of this machine can be bound.
            let is_here =
                found.ok()?.ok()?.any(|it| std::net::UdpSocket::bind((it.ip(), 0)).is_ok());
            if is_here { sys::sockets::listener(*port, is_server) } else { None }
        }
    }
}

/// Whether a process of this name is one whose threads may be changed: not another proxy that listens for it.
fn is_server(name: &str) -> bool {
    ["mysqld", "mariadbd"].iter().any(|known| name.starts_with(known))
}

/// How often is looked.
const LOOK: Duration = Duration::from_secs(1);
/// How often threads are looked for that were born unplaced.
const SWEEP: Duration = Duration::from_secs(5);
/// A server that is gone is looked for so soon; one that cannot be seen, so seldom.
const SEARCH: Duration = Duration::from_secs(2);
const SEARCH_MAX: Duration = Duration::from_mins(5);
const PATIENCE: Duration = Duration::from_secs(2);
