//! Reads the configuration again and puts it in force, while clients go on: on the console, and at a signal.
//!
//! What can fail (files, certificates, addresses to listen on) is tried first; then all is in force, or nothing is.
//! What each option of a new file does is said by the table of options ([`config::Applies`]).

use std::sync::Arc;

use tokio::sync::{Mutex, mpsc, oneshot};

use crate::admin::{self, NewDoors};
use crate::cluster::servers::{ServerId, Site};
use crate::config::{self, Applies, Change, Instructions, Listen, Logs, Plan, What};
use crate::dispatch::worker::Shared;
use crate::frontend::listener::{self, Audience, Listener};
use crate::frontend::passed::Passed;
use crate::frontend::reloaded::{self, Reloaded};
use crate::users::configured::Configured;
use crate::users::tls::Tls;

/// Reads the configuration again when it is asked to.
pub(crate) struct Reloader {
    shared: Arc<Shared>,
    source: Instructions,
    log: Box<Relog>,
    doors: mpsc::UnboundedSender<NewDoors>,
    /// One reload comes after the other.
    alone: Mutex<()>,
}

/// Makes ready what logs are to be like; the answer puts that in force.
pub(crate) type Relog = dyn Fn(&Logs) -> Result<Commit, String> + Send + Sync;

type Commit = Box<dyn FnOnce() + Send>;

/// All that a new plan needs, ready to be used.
struct Prepared {
    plan: Plan,
    tls: Option<Tls>,
    sites: Vec<Site>,
    opened: Vec<(Listen, Listener)>,
    closed: Vec<Listen>,
    logs: Commit,
    doors: NewDoors,
}

impl Reloader {
    /// `doors` is told which of the console and the HTTP port are opened and closed.
    pub(crate) fn new(
        shared: Arc<Shared>,
        source: Instructions,
        log: Box<Relog>,
        doors: mpsc::UnboundedSender<NewDoors>,
    ) -> Self {
        Self { shared, source, log, doors, alone: Mutex::default() }
    }

    /// What has changed, of which all is in force that can be without a start; or why nothing is.
    pub(crate) async fn reload(&self) -> Result<Vec<Change>, String> {
        let _alone = self.alone.lock().await;
        let done = self.try_reload().await;
        match &done {
            Ok(changes) => {
                let waits = changes.iter().filter(|it| it.applies == Applies::Restart).count();
                let changes = changes.len();
                tracing::info!(changes, waits, "the configuration was read again");
            }
            Err(why) => tracing::error!(why, "the configuration was not read again"),
        }
        done
    }

    async fn try_reload(&self) -> Result<Vec<Change>, String> {
        let (new, warnings) = self.source.load().map_err(|problems| {
            let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
            format!("nothing has changed: {}", problems.join("; "))
        })?;
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        let old = self.shared.plan();
        let mut changes = config::difference(&old, &new);
        let prepared = self.prepare(&old, config::in_force(&old, new));
        let prepared = prepared.map_err(|why| format!("nothing has changed: {why}"))?;
        if prepared.tls.is_some() && !changes.iter().any(|it| it.path.starts_with("tls.")) {
            let what = What::Renewed;
            changes.push(Change {
                path: "tls.cert".into(),
                what,
                applies: Applies::NewConnections,
            });
        }
        self.put_in_force(prepared).await;
        Ok(changes)
    }

    fn prepare(&self, old: &Plan, plan: Plan) -> Result<Prepared, String> {
        let tls = self.shared.tls().renewed(&plan).map_err(|error| error.to_string())?;
        let sites = self.sites(old, &plan)?;
        let log = (old.logs != plan.logs).then(|| (self.log)(&plan.logs)).transpose()?;
        let records = self.shared.records.prepare(&plan.logs).map_err(|error| error.to_string())?;
        let mut opened = Vec::new();
        for listen in plan.listen.iter().filter(|it| !old.listen.contains(it)) {
            let bound = listener::bind(listen, plan.backlog, Audience::Everybody);
            let bound = bound.map_err(|error| {
                let why = listener::explain(listen, &error, "listen");
                format!("cannot listen on {listen}: {why}")
            })?;
            opened.push((listen.clone(), bound));
        }
        let closed = old.listen.iter().filter(|it| !plan.listen.contains(it)).cloned().collect();
        let doors = admin::bind(&plan, Some(old), &mut Passed::default()).map_err(
            |(listen, error, option)| {
                let why = listener::explain(&listen, &error, option);
                format!("cannot listen on {listen}: {why}")
            },
        )?;
        let all = |plan: &Plan| [&plan.console.listen[..], &plan.http.listen].concat();
        let stay = all(&plan);
        let gone = all(old).into_iter().filter(|listen| !stay.contains(listen)).collect();
        let doors = NewDoors { opened: doors, closed: gone };
        let logs = Box::new(move || {
            log.into_iter().for_each(|commit| commit());
            records();
        });
        Ok(Prepared { plan, tls, sites, opened, closed, logs, doors })
    }

    /// The servers of a new plan. One that Flifo has found itself stays the one.
    fn sites(&self, old: &Plan, plan: &Plan) -> Result<Vec<Site>, String> {
        let found = old.servers.is_empty().then(|| &self.shared.cluster.first().address);
        let sites = Site::all(plan, found).map_err(|error| error.to_string())?;
        let is_new = |site: &&Site| self.shared.cluster.servers.find(site).is_none();
        match sites.iter().filter(is_new).count() + self.shared.cluster.servers.places() {
            _ if sites.is_empty() => Err("no server is named: set server.address".to_owned()),
            0..=SERVERS_MAX => Ok(sites),
            _ => Err(format!(
                "this Flifo has served more than {SERVERS_MAX} different servers: start it again"
            )),
        }
    }

    async fn put_in_force(&self, prepared: Prepared) {
        let Prepared { plan, tls, sites, opened, closed, logs, doors } = prepared;
        let (shared, plan) = (&self.shared, Arc::new(plan));
        // It is there for as long as the process is.
        let _ = self.doors.send(doors);
        logs();
        tls.into_iter().for_each(|tls| shared.offer(tls));
        shared.live.replace(Arc::clone(&plan));
        let before = shared.cluster.servers.places();
        shared.cluster.reconfigure(sites, &plan);
        let added = (before..shared.cluster.servers.places()).map(ServerId).collect();
        let (known, gone) = shared.users.reconfigure(Configured::of(&plan));
        let new = Arc::new(Reloaded { plan, known, gone, added });
        let adopt = |worker| {
            let new = Arc::clone(&new);
            shared.ask(worker, move |worker| reloaded::adopt(worker, &new))
        };
        let adopted: Vec<oneshot::Receiver<()>> = (0..shared.worker_count()).map(adopt).collect();
        let moved = shared.ask(0, move |worker| {
            for (listen, listener) in opened {
                listener::open(worker, &listen, listener);
            }
            closed.iter().for_each(|listen| listener::close(worker, listen));
        });
        for done in adopted.into_iter().chain([moved]) {
            // A worker that is gone has no clients.
            let _ = done.await;
        }
    }
}

/// What is known of a server stays for as long as the process lives.
const SERVERS_MAX: usize = 1000;
