//! Starts the proxy and stops it: listeners, workers, signals.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use engine::account::name::UserName;

use link::tls::TlsError;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::arrive::listener::{self, Audience, Listener};
use crate::arrive::users::{User, Users};
use crate::config::{Instructions, Listen, Password, Plan};
use crate::hardening::{self, HardeningError};
use crate::logs::LogFile;
use crate::outside;
use crate::placement;
use crate::servers::{Server, ServerId, Site};
use crate::tls::{self, Tls};
use crate::worker::{self, Mail, Shared, Worker};

/// Why the proxy could not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("cannot listen on {address}: {error}; is another Flifo running, or may you not?")]
    Listen { address: String, error: io::Error },
    #[error("there is no server to serve")]
    NoServer,
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Hardening(#[from] HardeningError),
    #[error("a worker panicked; its message is above")]
    Panicked,
    #[error("cannot start a worker: {0}")]
    Worker(io::Error),
}

impl RunError {
    /// Whether Flifo is at fault, rather than the machine or the configuration.
    pub const fn is_ours(&self) -> bool {
        matches!(self, Self::Panicked)
    }
}

/// Runs the proxy in front of the server at `address`, or of those that the plan lists, until a signal ends it. Another opens `log`
/// anew. `source` is where the plan came from.
pub fn run(
    plan: Plan,
    source: Instructions,
    address: Option<link::Address>,
    log: Option<LogFile>,
) -> Result<(), RunError> {
    let plan = Arc::new(plan);
    let policy = placement::succeed(&plan);
    let listeners = bind(&plan)?;
    let doors = outside::bind(&plan)
        .map_err(|(listen, error)| RunError::Listen { address: listen.to_string(), error })?;
    let (mailboxes, mails): (Vec<_>, Vec<_>) =
        (0..plan.worker_count()).map(|_| mpsc::unbounded_channel()).unzip();
    let users = users(&plan);
    let tls = Tls::new(&plan)?;
    let servers = servers(&plan, address, mailboxes.len())?;
    let addresses = servers.iter().map(|server| &server.address);
    hardening::harden(&plan, &source, policy, addresses)?;
    let shared = Arc::new(Shared::new(plan, servers, users, tls, mailboxes));
    let mut listeners = Some(listeners);
    let mut workers = Vec::new();
    for (index, mail) in mails.into_iter().enumerate() {
        let shared = Arc::clone(&shared);
        // The first worker accepts for all: they are told by mail.
        let listeners = listeners.take().unwrap_or_default();
        let name = format!("worker {index}");
        let work = move || work(index, shared, mail, listeners);
        workers.push(thread::Builder::new().name(name).spawn(work).map_err(RunError::Worker)?);
    }
    outside::open(&shared, doors, source).map_err(RunError::Worker)?;
    // Ends, and undoes, before this function returns, whatever it returns.
    let placement = placement::start(&shared, policy).map_err(RunError::Worker)?;
    wait_for_signal(&shared, &workers, log).map_err(RunError::Worker)?;
    drop(placement);
    for worker in workers {
        match worker.join() {
            Ok(result) => result.map_err(RunError::Worker)?,
            Err(_) => return Err(RunError::Panicked),
        }
    }
    let plan = &shared.plan;
    for listen in plan.listen.iter().chain(&plan.console.listen).chain(&plan.http.listen) {
        if let Listen::Unix(path) = listen {
            // It may be gone already.
            let _ = std::fs::remove_file(path);
        }
    }
    Ok(())
}

fn bind(plan: &Plan) -> Result<Vec<Listener>, RunError> {
    let bind = |listen: &Listen| {
        listener::bind(listen, plan.backlog, Audience::Everybody)
            .map_err(|error| RunError::Listen { address: listen.to_string(), error })
    };
    plan.listen.iter().map(bind).collect()
}

fn servers(
    plan: &Plan,
    address: Option<link::Address>,
    workers: usize,
) -> Result<Vec<Arc<Server>>, RunError> {
    let own = plan.server.limit;
    let listed = plan.servers.iter().filter_map(|rule| {
        let (name, agent) = (rule.name.clone(), rule.agent.clone());
        Some((name, rule.address.clone()?, rule.limit.or(own), agent))
    });
    let one = address.filter(|_| plan.servers.is_empty());
    let one = one.map(|address| (plan.server.name.clone(), address, own, None));
    let mut servers = Vec::new();
    for (name, address, limit, agent) in one.into_iter().chain(listed) {
        let site = Site {
            name,
            tls: tls::of_links(plan, &address)?,
            pass_through_tls: tls::of_carried(plan, &address)?,
            address,
            limit,
            agent,
        };
        let id = ServerId(servers.len());
        servers.push(Arc::new(Server::new(id, site, plan, workers)));
    }
    if servers.is_empty() {
        return Err(RunError::NoServer);
    }
    Ok(servers)
}

fn users(plan: &Plan) -> Users {
    let mut users = Users::default();
    for user in &plan.users {
        if !user.pooled {
            users.add_carried(UserName::of_account(&user.name), user.clients_max, user.links_max);
            continue;
        }
        let known = match &user.password {
            Some(Password::Plain(password)) => {
                User::with_password(password.clone(), user.plugin.clone())
            }
            Some(Password::Native(stored)) => User::with_native_hash(stored.clone()),
            Some(Password::CachingSha2(stored)) => User::with_sha2_hash(stored.clone()),
            None => continue,
        };
        users.add(
            UserName::of_account(&user.name),
            known.bounded(user.clients_max, user.links_max).ruled(
                user.routines,
                user.triggers,
                user.pins,
            ),
        );
    }
    users
}

/// One worker's thread.
fn work(
    index: usize,
    shared: Arc<Shared>,
    mail: mpsc::UnboundedReceiver<Mail>,
    listeners: Vec<Listener>,
) -> io::Result<()> {
    // A worker that waits its turn finds more to do in one turn: see docs/design/0001-the-workers-turn.md.
    if let Err(error) = sys::scheduling::batch_this_thread() {
        tracing::debug!(%error, "the worker stays a normal thread");
    }
    let runtime: LocalRuntime = Builder::new_current_thread()
        .enable_all()
        .on_thread_unpark(crate::turns::wake)
        .on_thread_park(crate::turns::rest)
        .build_local(LocalOptions::default())?;
    runtime.block_on(async move {
        let worker = Rc::new(Worker::new(index, shared));
        for (place, listener) in listeners.into_iter().enumerate() {
            tokio::task::spawn_local(listener::serve(Rc::clone(&worker), listener, place));
        }
        worker::run(worker, mail).await;
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

/// Opens the log anew each time that the signal comes.
async fn reopen(log: LogFile, mut hangup: Signal) {
    while hangup.recv().await.is_some() {
        log.reopen();
    }
}

/// Waits for a signal to stop, then for the workers, but not for ever.
fn wait_for_signal(
    shared: &Arc<Shared>,
    workers: &[thread::JoinHandle<io::Result<()>>],
    log: Option<LogFile>,
) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // Without a file this signal ends Flifo, as it ends what runs in a terminal that is closed.
        if let Some(log) = log {
            tokio::spawn(reopen(log, signal(SignalKind::hangup())?));
        }
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = one_ends(workers) => tracing::error!("a worker ended on its own: Flifo stops"),
        }
        let limit = shared.plan.limits.stop;
        tracing::info!(?limit, "stopping: no new clients; what runs may finish");
        shared.stop();
        let all_gone = async {
            while workers.iter().any(|worker| !worker.is_finished()) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            () = all_gone => {}
            () = tokio::time::sleep(limit) => tracing::warn!("some clients did not finish in time"),
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        shared.mail_all(|| Mail::Abort);
        Ok(())
    })
}
